"""Random fleets, attributes and requests: what a placement says is what creation does and an explanation shows."""

from __future__ import annotations

from itertools import count
from typing import Any

from flask.testing import FlaskClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from admin.services.context import Context
from tests.support.placing import API, DOMAIN, PROJECT, asked, get, nothing_stored, ok, register_plan, register_workflow

CLUSTERS = [f"c{number}" for number in range(5)]
POOLS = ["p0", "p1", "p2"]
LABELS = ["l0", "l1"]
STRATEGIES = ["weighted", "spill", "least-loaded", "cheapest", "soonest"]
SCOPES: list[dict[str, str]] = [
    {"domain": DOMAIN},
    {"project": PROJECT},
    {"project": PROJECT, "domain": DOMAIN},
    {"project": PROJECT, "domain": DOMAIN, "workflow": "wf"},
    {"project": PROJECT, "domain": DOMAIN, "workflow": "wf", "launch_plan": "lp"},
]

members = st.dictionaries(st.sampled_from(CLUSTERS), st.sampled_from([0, 0.5, 1, 3]), min_size=1).map(
    lambda weights: [{"id": name, "weight": weight} for name, weight in weights.items()]
)
drawable = members.filter(lambda some: any(one["weight"] for one in some))
cluster = st.fixed_dictionaries(
    {},
    optional={
        "enabled": st.booleans(),
        "cost": st.sampled_from([0, 1, 2.5]),
        "capacity": st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["1", "4"]), "executions": st.just(2)}),
    },
)
report = st.fixed_dictionaries(
    {},
    optional={
        "capacity": st.just({"cpu": "8", "executions": 10}),
        "free": st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(["0", "2", "8"]), "executions": st.just(3)}),
        "eta": st.sampled_from(["0s", "30s", "5m"]),
        "plugins": st.sampled_from([[], ["mpi"], ["mpi", "spark"]]),
    },
)
pool_name = st.sampled_from([*POOLS, "p9"])
label_name = st.sampled_from([*LABELS, *CLUSTERS, "l9"])
attribute = st.one_of(
    st.tuples(st.just("CLUSTER_ASSIGNMENT"), st.fixed_dictionaries({"cluster_pool_name": st.none() | pool_name})),
    st.tuples(st.just("EXECUTION_CLUSTER_LABEL"), st.fixed_dictionaries({"value": st.none() | label_name})),
    st.tuples(st.just("TASK_RESOURCE"), st.just({"defaults": {"cpu": "500m"}, "limits": {"cpu": "3"}})),
    st.tuples(st.just("PLUGIN_OVERRIDE"), st.just({"overrides": [{"task_type": "process", "plugin_id": ["spark"]}]})),
    st.tuples(st.just("WORKFLOW_EXECUTION_CONFIG"), st.just({"labels": {"values": {"a": "row"}}})),
)
request = st.fixed_dictionaries(
    {
        "what": st.sampled_from(
            [
                {"job": {"command": ["x"]}},
                {"job": {"command": ["x"], "resources": {"requests": {"cpu": "2"}}}},
                {"job": {"command": ["x"], "resources": {"requests": {"cpu": "5"}}}},
                {"launch_plan": {"name": "lp"}},
                {"launch_plan": {"name": "wf", "resource_type": "WORKFLOW"}},
            ]
        ),
    },
    optional={
        "cluster": st.sampled_from([*CLUSTERS, "c9"]),
        "cluster_assignment": st.fixed_dictionaries({"cluster_pool_name": pool_name}),
        "execution_cluster_label": st.fixed_dictionaries({"value": label_name}),
        "labels": st.just({"values": {"a": "request"}}),
    },
)
names = count()


def define(data: st.DataObject) -> list[dict[str, Any]]:
    """Changes that make the fleet and the attributes anew."""
    changes: list[dict[str, Any]] = []
    for noun, some, payload in (
        ("cluster", CLUSTERS, cluster),
        ("pool", POOLS, st.fixed_dictionaries({"members": drawable, "strategy": st.sampled_from(STRATEGIES)})),
        ("label", LABELS, st.fixed_dictionaries({"members": drawable})),
    ):
        for name in some:
            if data.draw(st.sampled_from([True, True, True, False]), label=f"define {name}"):
                changes.append({f"{noun}_definition": {"name": name, **data.draw(payload, label=name)}})
            else:
                changes.append({f"{noun}_definition": {"name": name}, "delete": True})
    drawn = {
        (kind, tuple(sorted(scope.items()))): payload
        for scope in SCOPES
        for kind, payload in data.draw(st.lists(attribute, max_size=2), label=str(scope))
    }
    kinds = [kind for kind, _ in attribute_kinds()]
    for scope in SCOPES:
        for kind in kinds:
            row = {"resource_type": kind, **scope}
            key = (kind, tuple(sorted(scope.items())))
            changes.append({**row, "payload": drawn[key]} if key in drawn else {**row, "delete": True})
    return changes


def attribute_kinds() -> list[tuple[str, int]]:
    return [
        ("CLUSTER_ASSIGNMENT", 7),
        ("EXECUTION_CLUSTER_LABEL", 3),
        ("TASK_RESOURCE", 0),
        ("PLUGIN_OVERRIDE", 5),
        ("WORKFLOW_EXECUTION_CONFIG", 6),
    ]


def prepare(api: FlaskClient, data: st.DataObject) -> None:
    ok(api.post(f"{API}/attribute_changes?force=true", json={"changes": define(data)}))
    known = [one["name"] for one in get(api, "clusters")["clusters"]]
    for name in known:
        if data.draw(st.booleans(), label=f"report of {name}"):
            ok(api.put(f"{API}/clusters/{name}/state", json=data.draw(report, label=f"report of {name}")))
        word = data.draw(st.sampled_from(["cordon", "uncordon", "uncordon"]), label=f"switch {name}")
        ok(api.post(f"{API}/clusters/{name}/{word}", json={}))


def test_a_placement_the_stored_decision_and_its_explanation_agree(api: FlaskClient, context: Context) -> None:
    ok(register_workflow(api, "wf"))
    ok(register_plan(api, "lp", "wf", execution_cluster_label={"value": "l0"}, labels={"values": {"b": "plan"}}))

    @settings(
        max_examples=25,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        prepare(api, data)
        for _ in range(3):
            wanted = dict(data.draw(request, label="request"))
            check(api, context, asked(f"e{next(names)}", **wanted.pop("what"), **wanted))

    agree()


def check(api: FlaskClient, context: Context, body: dict[str, Any]) -> None:
    with nothing_stored(context):
        said = api.post(f"{API}/placements", json=body)
    if said.status_code != 200:
        with nothing_stored(context):
            refusal = api.post(f"{API}/executions", json=body)
        assert (refusal.status_code, refusal.json["error"], refusal.json["message"], refusal.json["details"]) == (
            said.status_code,
            said.json["error"],
            said.json["message"],
            said.json["details"],
        )
        return
    placement = said.json
    execution = ok(api.post(f"{API}/executions", json=body))["execution"]
    explanation = get(api, f"executions/{PROJECT}/{DOMAIN}/{body['name']}/explanation")
    for key in ("cluster", "pool", "label"):
        assert placement.get(key) == execution.get(key) == explanation.get(key), key
    assert placement["reason"] == execution["closure"]["reason"] == explanation["reason"]
    assert placement["job"] == execution["job"] == explanation["job"]
    assert placement["revision"] == execution["revision"] == explanation["revision"]
    for key in ("rungs", "candidates", "settings", "strategy"):
        assert placement[key] == explanation[key], key
    assert [one["state"] for one in explanation["rungs"]].count("wins") == 1
    chosen = [one["cluster"] for one in explanation["candidates"] if one["chosen"]]
    assert chosen == ([execution["cluster"]] if "cluster" in execution else [])
    able = [one for one in explanation["candidates"] if all(verdict["passed"] for verdict in one["verdicts"])]
    assert bool(able) is bool(chosen)
    if chosen:
        best = max((one for one in able if one["rank"] == 1), key=lambda one: one["draw"])
        assert best["cluster"] == execution["cluster"]
