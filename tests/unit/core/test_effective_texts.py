"""Effective values as text: the same, to the letter, as resolving and then writing it down."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from admin.core import builtin_kinds as kinds
from admin.core.declared_kinds import registry
from admin.core.effective_texts import Form, effective_text
from admin.core.kinds import Kind
from admin.core.platform import Ground, PlatformLeaf, PlatformLeaves
from admin.core.resolution import Row, resolve
from admin.core.scopes import Scope
from admin.core.trails import resolved

DECLARED = {
    "WORKFLOW_PRIORITY": {
        "number": 10,
        "fields": {
            "priority": {"type": "int", "minimum": 0, "maximum": 100, "default": 50},
            "note": {"type": "string"},
        },
    },
}
ALL = registry(DECLARED)
SCOPES = [
    Scope(domain="d"),
    Scope(project="p"),
    Scope(domain="d", project="p"),
    Scope(domain="d", project="p", workflow="core.w"),
    Scope(domain="d", project="p", workflow="core.w", launch_plan="l"),
]
PAYLOADS: dict[str, list[dict[str, Any]]] = {
    "TASK_RESOURCE": [
        {"defaults": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
        {"limits": {"cpu": None, "memory": "4Gi"}},
        {"defaults": {"gpu": "1"}},
        {"defaults": {"cpu": None}},
    ],
    "CLUSTER_RESOURCE": [{"attributes": {"projectQuotaCpu": "8"}}, {"attributes": {"a": None, "b": 'é"x'}}],
    "EXECUTION_QUEUE": [{"tags": ["gpu", "big"]}, {"tags": None}],
    "EXECUTION_CLUSTER_LABEL": [{"value": "blue"}, {"value": None}],
    "QUALITY_OF_SERVICE_SPECIFICATION": [{"tier": "HIGH"}, {"spec": {"queueing_budget": "10m"}}],
    "PLUGIN_OVERRIDE": [
        {"overrides": [{"task_type": "spark", "plugin_id": ["a"]}]},
        {"overrides": [{"task_type": "spark", "plugin_id": None}, {"task_type": "ray", "plugin_id": ["b", "c"]}]},
    ],
    "WORKFLOW_EXECUTION_CONFIG": [
        {"max_parallelism": 5, "labels": {"values": {"a": "b"}}, "envs": {"values": [{"key": "K", "value": "v"}]}},
        {"labels": {"values": {"a": None, "c": "d"}}, "interruptible": True},
        {"security_context": {"run_as": {"k8s_service_account": "sa"}}, "max_parallelism": None},
    ],
    "CLUSTER_ASSIGNMENT": [{"cluster_pool_name": "gpu"}, {"cluster_pool_name": None}],
    "WORKFLOW_PRIORITY": [{"priority": 7}, {"note": "x"}, {"priority": None, "note": "y"}],
}


def grounds(kind: Kind) -> list[PlatformLeaves]:
    """The platform says nothing, or what the first payload says."""
    leaves = kind.leaves(kind.read(PAYLOADS[kind.name][0]))
    return [{}, {path: PlatformLeaf(value=value, key=f"section.{path[0]}") for path, value in leaves.items()}]


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_the_text_is_what_resolution_says(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(ALL)))
    scope = data.draw(st.sampled_from([*SCOPES, Scope()]))
    chosen = data.draw(st.lists(st.sampled_from([*range(len(PAYLOADS[kind.name])), None]), min_size=5, max_size=5))
    rows: dict[Scope, Row] = {}
    for version, (place, index) in enumerate(zip(SCOPES, chosen, strict=True), start=3):
        if index is not None:
            payload = kind.read(PAYLOADS[kind.name][index])
            rows[place] = Row(kind=kind.name, scope=place, payload=payload, version=version)
    ground = Ground(kind, data.draw(st.sampled_from(grounds(kind))))
    chain = scope.chain()
    entries = [
        (at, rows[place].version, Form.of(kind, rows[place].payload)) for at, place in enumerate(chain) if place in rows
    ]
    plain = resolved(resolve(kind, scope, rows, ground))
    text = effective_text(kind, scope, entries, ground)
    assert orjson.loads(text) == plain
    assert text == orjson.dumps(plain)


def test_every_kind_is_tried() -> None:
    assert {kind.name for kind in ALL} == set(PAYLOADS)
    assert kinds.TASK_RESOURCE in list(ALL)
