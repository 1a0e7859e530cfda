"""Random fleets, attributes and requests: what a placement says is what creation does and an explanation shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import count, product
from random import Random
from typing import Any

from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admin.core.placement.scores import STRATEGIES
from admin.services.context import Context
from tests.support.ages import without_ages
from tests.support.placing import API, DOMAIN, PROJECT, asked, get, nothing_stored, ok, register_plan, register_workflow
from tests.support.small_fleets import by_strategy

CLUSTERS = [f"c{number}" for number in range(5)]
POOLS = ["p0", "p1", "p2"]
LABELS = ["l0", "l1"]
SCOPES: list[dict[str, str]] = [
    {"domain": DOMAIN},
    {"project": PROJECT},
    {"project": PROJECT, "domain": DOMAIN},
    {"project": PROJECT, "domain": DOMAIN, "workflow": "wf"},
    {"project": PROJECT, "domain": DOMAIN, "workflow": "wf", "launch_plan": "lp"},
]

KINDS = (
    "CLUSTER_ASSIGNMENT",
    "EXECUTION_CLUSTER_LABEL",
    "TASK_RESOURCE",
    "PLUGIN_OVERRIDE",
    "WORKFLOW_EXECUTION_CONFIG",
)
names = count()


#: A pool that asks is not decided when an execution is created.
DECIDED_AT_ONCE = [name for name, strategy in STRATEGIES.items() if not strategy.asks]


class World:
    """Fleets, attributes and requests, all drawn from one number."""

    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)

    def chance(self, share: float) -> bool:
        return self._dice.random() < share

    def maybe(self, share: float, **fields: Any) -> dict[str, Any]:
        """A random part of the fields."""
        return {name: value for name, value in fields.items() if self.chance(share)}

    def members(self) -> list[dict[str, Any]]:
        clusters = self._dice.sample(CLUSTERS, self._dice.randint(1, len(CLUSTERS)))
        weights = [self._dice.choice([0, 0.5, 1, 3]) for _ in clusters[1:]]
        return [{"id": name, "weight": weight} for name, weight in zip(clusters, [1, *weights], strict=True)]

    def definition(self, noun: str) -> dict[str, Any]:
        if noun == "cluster":
            capacity = self.maybe(0.4, cpu=self._dice.choice(["1", "4"]), executions=2)
            return self.maybe(0.4, enabled=self.chance(0.7), cost=self._dice.choice([0, 1, 2.5]), capacity=capacity)
        strategy = by_strategy(self._dice.choice(DECIDED_AT_ONCE)) if noun == "pool" else {}
        return {"members": self.members(), **strategy}

    def attribute(self, kind: str) -> dict[str, Any]:
        drawn: dict[str, dict[str, Any]] = {
            "CLUSTER_ASSIGNMENT": {"cluster_pool_name": self._dice.choice([*POOLS, *POOLS, "p9", None])},
            "EXECUTION_CLUSTER_LABEL": {"value": self._dice.choice([*LABELS, *LABELS, "c1", "l9", None])},
            "TASK_RESOURCE": {"defaults": {"cpu": "500m"}, "limits": {"cpu": self._dice.choice(["1", "3"])}},
            "PLUGIN_OVERRIDE": {"overrides": [{"task_type": "process", "plugin_id": ["spark"]}]},
            "WORKFLOW_EXECUTION_CONFIG": {"labels": {"values": {"a": "row"}}},
        }
        return drawn[kind]

    def changes(self) -> list[dict[str, Any]]:
        """Changes that replace the fleet and the attributes."""
        changes: list[dict[str, Any]] = []
        for noun, listed in (("cluster", CLUSTERS), ("pool", POOLS), ("label", LABELS)):
            for name in listed:
                is_deleted = not self.chance(0.8)
                fields = {} if is_deleted else self.definition(noun)
                changes.append({f"{noun}_definition": {"name": name, **fields}, "delete": is_deleted})
        for scope, kind in product(SCOPES, KINDS):
            fields = {"payload": self.attribute(kind)} if self.chance(0.2) else {"delete": True}
            changes.append({"resource_type": kind, **scope, **fields})
        return changes

    def report(self) -> dict[str, Any]:
        free = self.maybe(0.6, cpu=self._dice.choice(["0", "2", "8"]), executions=3)
        eta = self._dice.choice(["0s", "30s", "5m"])
        plugins = self._dice.choice([[], ["mpi"], ["mpi", "spark"]])
        return self.maybe(0.5, capacity={"cpu": "8", "executions": 10}, free=free, eta=eta, plugins=plugins)

    def switch(self) -> str:
        return self._dice.choice(["cordon", "uncordon", "uncordon"])

    def request(self) -> dict[str, Any]:
        job: dict[str, Any] = self._dice.choice(
            [
                {"job": {"command": ["x"]}},
                {"job": {"command": ["x"], "resources": {"requests": {"cpu": "1"}}}},
                {"job": {"command": ["x"], "resources": {"requests": {"cpu": "2"}}}},
                {"launch_plan": {"name": "lp"}},
                {"launch_plan": {"name": "plain"}},
                {"launch_plan": {"name": "wf", "resource_type": "WORKFLOW"}},
            ]
        )
        target = self.maybe(
            0.15,
            cluster=self._dice.choice([*CLUSTERS, "c9"]),
            cluster_assignment={"cluster_pool_name": self._dice.choice([*POOLS, "p9"])},
            execution_cluster_label={"value": self._dice.choice([*LABELS, *CLUSTERS, "l9"])},
            labels={"values": {"a": "request"}},
        )
        strategy = by_strategy(self._dice.choice(DECIDED_AT_ONCE)) if self.chance(0.3) else {}
        return asked(f"e{next(names)}", **job, **target, **strategy)


def prepare(api: FlaskClient, world: World) -> None:
    ok(api.post(f"{API}/attribute_changes?force=true", json={"changes": world.changes()}))
    for cluster in get(api, "clusters")["clusters"]:
        ok(api.post(f"{API}/clusters/{cluster['name']}/{world.switch()}", json={}))
        if world.chance(0.5):
            ok(api.put(f"{API}/clusters/{cluster['name']}/state", json=world.report()))


def test_a_placement_the_stored_decision_and_its_explanation_agree(api: FlaskClient, context: Context) -> None:
    ok(register_workflow(api, "wf"))
    ok(register_plan(api, "lp", "wf", execution_cluster_label={"value": "l0"}, labels={"values": {"b": "plan"}}))
    ok(register_plan(api, "plain", "wf"))
    seen: Counter[str] = Counter()

    @settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    def agree(seed: int) -> None:
        world = World(seed)
        prepare(api, world)
        for _ in range(5):
            seen.update(check(api, context, world.request()))

    agree()
    assert {
        "ASSIGNED",
        "CLUSTERS_CORDONED",
        "CLUSTERS_UNABLE",
        "unknown_pool",
        "unknown_label",
        *DECIDED_AT_ONCE,
    } <= set(seen)


def without_times(text: str) -> str:
    """A text to compare with another: of now one says how long ago something was, of a decision at what time."""
    return re.sub(r"at \d{4}-[-\d]+T[:\d]+Z", "… ago", without_ages(text)).replace("\\u2026", "…")


def check(api: FlaskClient, context: Context, body: dict[str, Any]) -> list[str]:
    """Place, create, explain and compare; the codes that were seen."""
    with nothing_stored(context):
        answer = api.post(f"{API}/placements", json=body)
    if answer.status_code != 200:
        with nothing_stored(context):
            refusal = api.post(f"{API}/executions", json=body)
        problem, expected = refusal.get_json(), answer.get_json()
        assert refusal.status_code == answer.status_code
        for key in ("error", "message", "details"):
            assert without_ages(json.dumps(problem[key])) == without_ages(json.dumps(expected[key])), key
        return [expected["error"]]
    placement = answer.get_json()
    execution = ok(api.post(f"{API}/executions", json=body))["execution"]
    explanation = get(api, f"executions/{PROJECT}/{DOMAIN}/{body['name']}/explanation")
    for key in ("cluster", "pool", "label"):
        assert placement.get(key) == execution.get(key) == explanation.get(key), key
    assert placement["reason"] == execution["closure"]["reason"] == explanation["reason"]
    assert placement["job"] == execution["job"] == explanation["job"]
    assert placement["revision"] == execution["revision"] == explanation["revision"]
    for key in ("rungs", "candidates", "settings", "strategy"):
        assert without_times(json.dumps(placement[key])) == without_times(json.dumps(explanation[key])), key
    assert [rung["state"] for rung in explanation["rungs"]].count("wins") == 1
    chosen = [candidate["cluster"] for candidate in explanation["candidates"] if candidate["chosen"]]
    assert chosen == ([execution["cluster"]] if "cluster" in execution else [])
    able = [
        candidate
        for candidate in explanation["candidates"]
        if all(verdict["passed"] for verdict in candidate["verdicts"])
    ]
    assert bool(able) is bool(chosen)
    if chosen:
        best = max((candidate for candidate in able if candidate["rank"] == 1), key=lambda candidate: candidate["draw"])
        assert best["cluster"] == execution["cluster"]
    return [execution["closure"]["reason"]["code"], explanation["strategy"]]
