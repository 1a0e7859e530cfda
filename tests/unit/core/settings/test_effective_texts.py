"""Effective values as text: the same, to the letter, as resolving and then writing it down."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.settings import builtin_kinds as kinds
from admin.core.settings.declared_kinds import registry
from admin.core.settings.effective_text.shapes import PackedRows, Shapes
from admin.core.settings.effective_text.texts import EffectiveTexts
from admin.core.settings.platform import PlatformLeaf, PlatformValues
from admin.core.settings.resolution import Row, RowsByKind, resolve
from admin.core.settings.scopes import Scope
from admin.core.settings.trails import resolved

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
    "CLUSTER_RESOURCE": [
        {"attributes": {"projectQuotaCpu": "8"}},
        {"attributes": {"projectQuotaCpu": "80%"}},
        {"attributes": {"a": None, "b": 'é"x'}},
    ],
    "EXECUTION_QUEUE": [{"tags": ["gpu", "big"]}, {"tags": None}],
    "EXECUTION_CLUSTER_LABEL": [{"value": "blue"}, {"value": None}],
    "QUALITY_OF_SERVICE_SPECIFICATION": [{"tier": "HIGH"}, {"spec": {"queueing_budget": "10m"}}],
    "PLUGIN_OVERRIDE": [
        {"overrides": [{"task_type": "spark", "plugin_id": ["a"]}]},
        {"overrides": [{"task_type": "spark", "plugin_id": None}, {"task_type": "ray", "plugin_id": ["b", "c"]}]},
    ],
    "WORKFLOW_EXECUTION_CONFIG": [
        {"max_parallelism": 5, "labels": {"values": {"a": "b"}}, "envs": {"values": [{"key": "K", "value": "v"}]}},
        {"max_parallelism": 9, "labels": {"values": {"a": "z"}}, "envs": {"values": [{"key": "K", "value": "%b"}]}},
        {"labels": {"values": {"a": None, "c": "d"}}, "interruptible": True},
        {"security_context": {"run_as": {"k8s_service_account": "sa"}}, "max_parallelism": None},
    ],
    "CLUSTER_ASSIGNMENT": [{"cluster_pool_name": "gpu"}, {"cluster_pool_name": None}],
    "TOKEN_POOL_QUOTA": [
        {"pools": {"hive": 5}},
        {"pools": {"hive": 3, "spark": 9}},
        {"weight": 2, "pools": {"hive": 5}},
    ],
    "EXECUTION_QUOTA": [{"running": 5, "cpu": "2"}, {"running": 9}, {"cpu": "1500m", "waiting": 3}],
    "WORKFLOW_PRIORITY": [{"priority": 7}, {"note": "x"}, {"priority": None, "note": "y"}],
}


def platform(has_values: bool) -> PlatformValues:
    """A platform without values, or with the first payload of each kind."""
    everywhere = {
        kind.name: {
            path: PlatformLeaf(value=value, key=f"section.{path[0]}")
            for path, value in kind.leaves(kind.read(PAYLOADS[kind.name][0])).items()
        }
        for kind in ALL
        if has_values
    }
    return PlatformValues(everywhere=everywhere)


#: Kept from one example to the next, so that most of them use templates that were built for other rows.
PLATFORMS = [platform(has_values=False), platform(has_values=True)]
TEXTS = [EffectiveTexts(ALL, values) for values in PLATFORMS]


def pack(shapes: Shapes, scope: Scope, rows: RowsByKind) -> list[PackedRows]:
    """The rows of each scope of a chain, as the index holds them."""
    chain_rows: list[PackedRows] = []
    for place in scope.chain():
        packed: list[object] = []
        for name, by_scope in rows.items():
            if place in by_scope:
                shaped = shapes.read(name, json.dumps(by_scope[place].payload))
                assert shaped is not None
                shape, payload = shaped
                packed += (shape, b"%d" % by_scope[place].version, payload, None, None)
        chain_rows.append(tuple(packed))
    return chain_rows


@pytest.fixture(scope="module", params=[20_000, 5], ids=["every-shape-known", "few-shapes-known"])
def shapes(request: pytest.FixtureRequest) -> Shapes:
    return Shapes(ALL, most=request.param)


@given(data=st.data())
def test_the_text_is_what_resolving_and_encoding_give(shapes: Shapes, data: st.DataObject) -> None:
    scope = data.draw(st.sampled_from([*SCOPES, Scope()]))
    rows: dict[str, dict[Scope, Row]] = {}
    for kind in ALL:
        chosen = data.draw(st.lists(st.sampled_from([*range(len(PAYLOADS[kind.name])), None]), min_size=5, max_size=5))
        rows[kind.name] = {
            place: Row(kind=kind.name, scope=place, payload=kind.read(PAYLOADS[kind.name][index]), version=version)
            for version, (place, index) in enumerate(zip(SCOPES, chosen, strict=True), start=3)
            if index is not None
        }
    number = data.draw(st.sampled_from([0, 1]))
    only = data.draw(st.sampled_from([None, *ALL]))
    plain = [
        resolved(resolve(kind, scope, rows[kind.name], PLATFORMS[number].at(kind, scope.domain)))
        for kind in ([*ALL] if only is None else [only])
    ]
    text = TEXTS[number].write(scope, pack(shapes, scope, rows), 12, only)
    assert orjson.loads(text) == {"values": plain, "revision": 12}
    assert text == orjson.dumps({"values": plain, "revision": 12}) + b"\n"


def test_a_row_that_sets_the_whole_value_is_copied_whatever_its_payload() -> None:
    """The payload then fills the value, which must not depend on the payload that the template was built from."""
    shapes, texts = Shapes(ALL), EffectiveTexts(ALL, PLATFORMS[0])
    kind, scope = ALL["WORKFLOW_EXECUTION_CONFIG"], SCOPES[2]
    for number in (1, 2):
        payload = kind.read({"max_parallelism": number, "envs": {"values": [{"key": "A", "value": f"{number}0%b"}]}})
        rows = {kind.name: {scope: Row(kind=kind.name, scope=scope, payload=payload, version=number)}}
        [effective] = orjson.loads(texts.write(scope, pack(shapes, scope, rows), 7, kind))["values"]
        assert effective["value"] == payload


def test_every_kind_is_covered() -> None:
    assert {kind.name for kind in ALL} == set(PAYLOADS)
    assert kinds.TASK_RESOURCE in list(ALL)
