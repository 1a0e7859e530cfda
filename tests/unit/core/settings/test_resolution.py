"""Resolution by example, and by property against an oracle that knows nothing of how it is done."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.settings.builtin_kinds import EXECUTION_CLUSTER_LABEL, TASK_RESOURCE, WORKFLOW_EXECUTION_CONFIG
from admin.core.settings.declared_kinds import registry
from admin.core.settings.kinds import Kind, Merge
from admin.core.settings.platform import PlatformDefaults, PlatformLeaf, PlatformLeaves, PlatformValues
from admin.core.settings.resolution import Resolved, Row, effective_leaves, effective_value, effects
from admin.core.settings.resolution import resolve as resolve_on
from admin.core.settings.scopes import PLATFORM, Level, Scope

SCOPE = Scope(project="p", domain="d", workflow="w", launch_plan="lp")
CHAIN = list(SCOPE.chain())


def resolve(kind: Kind, scope: Scope, stored: dict[Scope, Row], platform: PlatformLeaves) -> Resolved:
    resolved = resolve_on(kind, scope, stored, PlatformDefaults(kind, platform))
    effective = effective_value(kind, scope, stored, PlatformDefaults(kind, platform))
    assert effective == (resolved.value, resolved.origins, resolved.unset)
    return resolved


def rows(kind: Kind, payloads: dict[Scope, Any]) -> dict[Scope, Row]:
    return {
        scope: Row(kind=kind.name, scope=scope, payload=kind.read(payload), version=number)
        for number, (scope, payload) in enumerate(payloads.items(), start=1)
    }


def origins(resolved: Resolved) -> dict[str, str]:
    return {".".join(path): str(origin.scope) for path, origin in resolved.origins.items()}


@pytest.mark.parametrize("leaves", [{}, {("limits", "cpu"): PlatformLeaf(value="2", key="task_resources.limits.cpu")}])
def test_where_no_row_applies_the_platform_answers_as_it_would_below_a_row(leaves: PlatformLeaves) -> None:
    platform = PlatformDefaults(TASK_RESOURCE, leaves)
    alone = resolve_on(TASK_RESOURCE, SCOPE, {}, platform)
    assert alone.value is platform.payload  # nothing is computed anew
    row = rows(TASK_RESOURCE, {CHAIN[-1]: {"defaults": {"memory": "1Gi"}}})
    below_a_row = resolve_on(TASK_RESOURCE, SCOPE, row, platform)
    limits = {"limits": below_a_row.value["limits"]} if leaves else {}
    own = ("defaults", "memory")
    origins = {path: origin for path, origin in below_a_row.origins.items() if path != own}
    assert (alone.value, alone.origins, alone.unset) == (limits, origins, {})
    assert alone.trail[:-1] == below_a_row.trail[:-1]
    assert alone.trail[-1].payload is None


def test_the_most_specific_label_wins_and_removing_it_gives_the_next() -> None:
    stored = rows(EXECUTION_CLUSTER_LABEL, {scope: {"value": scope.level.value} for scope in CHAIN})
    for scope in reversed(CHAIN):
        resolved = resolve(EXECUTION_CLUSTER_LABEL, SCOPE, stored, {})
        assert resolved.value == {"value": scope.level.value}
        assert resolved.origins[("value",)].scope == scope
        assert [step.scope.level for step in resolved.trail] == list(Level)
        del stored[scope]
    silent = resolve(EXECUTION_CLUSTER_LABEL, SCOPE, stored, {})
    assert (silent.value, silent.origins) == ({}, {})
    assert all(step.payload is None for step in silent.trail)


def test_task_resources_come_leaf_by_leaf_from_their_own_levels() -> None:
    platform: dict[tuple[str, ...], PlatformLeaf] = {
        ("defaults", "cpu"): PlatformLeaf(value="2", key="task_resources.defaults.cpu"),
        ("limits", "cpu"): PlatformLeaf(value="2", key="task_resources.limits.cpu"),
        ("limits", "gpu"): PlatformLeaf(value="1", key="task_resources.limits.gpu"),
    }
    stored = rows(
        TASK_RESOURCE,
        {
            Scope(domain="d"): {"limits": {"memory": "4Gi"}},
            Scope(project="p", domain="d"): {"defaults": {"cpu": "1"}},
            Scope(project="p", domain="d", workflow="w"): {"limits": {"cpu": None}},
        },
    )
    resolved = resolve(TASK_RESOURCE, SCOPE, stored, platform)
    assert resolved.value == {"defaults": {"cpu": "1"}, "limits": {"gpu": "1", "memory": "4Gi"}}
    assert origins(resolved) == {
        "defaults.cpu": "project-domain p/d",
        "limits.gpu": "platform",
        "limits.memory": "domain d",
    }
    assert {".".join(path): str(origin.scope) for path, origin in resolved.unset.items()} == {
        "limits.cpu": "workflow p/d/w"
    }
    above = resolve(TASK_RESOURCE, Scope(project="p", domain="d"), stored, platform)
    assert above.value["limits"]["cpu"] == "2"


def test_an_unset_leaf_may_be_set_again_below() -> None:
    stored = rows(
        TASK_RESOURCE,
        {Scope(domain="d"): {"limits": {"cpu": None}}, Scope(project="p", domain="d"): {"limits": {"cpu": "8"}}},
    )
    assert resolve(TASK_RESOURCE, SCOPE, stored, {}).value == {"limits": {"cpu": "8"}}


def test_an_identity_is_never_mixed_from_two_levels() -> None:
    stored = rows(
        WORKFLOW_EXECUTION_CONFIG,
        {
            Scope(domain="d"): {"security_context": {"run_as": {"iam_role": "admin", "k8s_service_account": "root"}}},
            Scope(project="p", domain="d"): {"security_context": {"run_as": {"k8s_service_account": "nobody"}}},
        },
    )
    value = resolve(WORKFLOW_EXECUTION_CONFIG, SCOPE, stored, {}).value
    assert value == {"security_context": {"run_as": {"k8s_service_account": "nobody"}}}


def test_labels_and_envs_merge_key_by_key() -> None:
    stored = rows(
        WORKFLOW_EXECUTION_CONFIG,
        {
            Scope(domain="d"): {
                "labels": {"values": {"app.kubernetes.io/name": "x", "team": "a"}},
                "envs": {"values": {"A": "1", "B": "2"}},
            },
            Scope(project="p", domain="d"): {
                "labels": {"values": {"team": None, "tier": "gold"}},
                "envs": {"values": [{"key": "B", "value": None}, {"key": "C", "value": ""}]},
            },
        },
    )
    assert resolve(WORKFLOW_EXECUTION_CONFIG, SCOPE, stored, {}).value == {
        "labels": {"values": {"app.kubernetes.io/name": "x", "tier": "gold"}},
        "envs": {"values": [{"key": "A", "value": "1"}, {"key": "C", "value": ""}]},
    }


def test_a_trail_lists_used_and_overridden_leaves() -> None:
    stored = rows(
        TASK_RESOURCE,
        {Scope(domain="d"): {"limits": {"cpu": "4", "gpu": "1"}}, Scope(project="p"): {"limits": {"cpu": "8"}}},
    )
    steps = {step.scope: step for step in resolve(TASK_RESOURCE, SCOPE, stored, {}).trail}
    assert steps[Scope(domain="d")].used == (("limits", "gpu"),)
    assert steps[Scope(domain="d")].overridden == (("limits", "cpu"),)
    assert steps[Scope(project="p")].used == (("limits", "cpu"),)
    assert steps[SCOPE].payload is None


def test_the_defaults_of_a_declared_kind_stay_below_a_replacing_row() -> None:
    kind = registry({"K": {"number": 10, "fields": {"a": {"type": "int", "default": 1}, "b": "int"}}})["K"]
    platform = PlatformValues().at(kind, "d")
    stored = rows(kind, {Scope(domain="d"): {"b": 5}, Scope(project="p"): {"b": 6}})
    assert resolve(kind, SCOPE, stored, platform).value == {"a": 1, "b": 6}
    stored = rows(kind, {Scope(domain="d"): {"a": None}})
    assert resolve(kind, SCOPE, stored, platform).value == {}


LEAVES = [
    ("max_parallelism",),
    ("interruptible",),
    ("raw_output_data_config", "output_location_prefix"),
    ("labels", "values", "a.b/c"),
    ("labels", "values", "x"),
    ("envs", "values", "K"),
    ("envs", "values", "a.b"),
]


def leaf_value(path: tuple[str, ...], seed: int) -> Any:
    if path[0] == "max_parallelism":
        return seed
    if path[0] == "interruptible":
        return bool(seed % 2)
    return {"value": f"v{seed}"} if path[0] == "envs" else f"v{seed}"


statements = st.dictionaries(st.sampled_from(LEAVES), st.one_of(st.none(), st.integers(0, 99)), min_size=1)
stored_levels = st.dictionaries(st.sampled_from(CHAIN), statements)


@given(
    leaves_by_scope=stored_levels,
    platform=st.dictionaries(st.sampled_from(LEAVES), st.integers(0, 99)),
    replace=st.booleans(),
)
def test_resolution_agrees_with_asking_every_level_in_turn(
    leaves_by_scope: dict[Scope, dict[tuple[str, ...], int | None]], platform: dict[tuple[str, ...], int], replace: bool
) -> None:
    name = "WORKFLOW_EXECUTION_CONFIG"
    kind = registry({name: {"merge": "replace"}} if replace else {})[name]
    assert kind.merge is (Merge.REPLACE if replace else Merge.LEAF)
    typed = {
        scope: {path: None if seed is None else leaf_value(path, seed) for path, seed in leaves.items()}
        for scope, leaves in leaves_by_scope.items()
    }
    stored = {
        scope: Row(kind=name, scope=scope, payload=kind.read(kind.nest(leaves)), version=1)
        for scope, leaves in typed.items()
    }
    configured: PlatformLeaves = {
        path: PlatformLeaf(value=leaf_value(path, seed), key="k") for path, seed in platform.items()
    }
    resolved = resolve(kind, SCOPE, stored, configured)

    # The oracle: for every leaf, walk from narrow to broad and take the first level that mentions it.
    expected: dict[tuple[str, ...], tuple[Any, Scope]] = {}
    narrow_first = [*reversed(CHAIN), PLATFORM]
    for path in LEAVES:
        for scope in narrow_first:
            level = {p: leaf.value for p, leaf in configured.items()} if scope == PLATFORM else typed.get(scope)
            if level is not None and path in level:
                expected[path] = (level[path], scope)
            if level is not None and (path in level or (replace and scope != PLATFORM)):
                break
    assert {path: origin.scope for path, origin in resolved.origins.items()} == {
        path: scope for path, (value, scope) in expected.items() if value is not None
    }
    assert {path: origin.scope for path, origin in resolved.unset.items()} == {
        path: scope for path, (value, scope) in expected.items() if value is None
    }
    assert kind.leaves(resolved.value) == {path: value for path, (value, _) in expected.items() if value is not None}
    used = {path for step in resolved.trail for path in step.used}
    assert used == set(expected)
    assert "None" not in str(resolved.value)


@given(before=stored_levels, after=stored_levels, replace=st.booleans())
def test_the_effects_of_a_change_are_the_differences_between_all_effective_leaves(
    before: dict[Scope, Any], after: dict[Scope, Any], replace: bool
) -> None:
    name = "WORKFLOW_EXECUTION_CONFIG"
    kind = registry({name: {"merge": "replace"}} if replace else {})[name]

    def stored(leaves_by_scope: dict[Scope, Any]) -> dict[Scope, Row]:
        payloads = {
            scope: kind.nest({path: None if seed is None else leaf_value(path, seed) for path, seed in leaves.items()})
            for scope, leaves in leaves_by_scope.items()
        }
        return rows(kind, payloads)

    was = stored(before)
    becomes = {**was, **stored(after)}  # so that the rows of some scopes stay the same
    for scope in list(becomes)[::3]:
        del becomes[scope]
    platform, scopes = PlatformValues(), [*CHAIN, SCOPE._replace(launch_plan="other"), Scope(project="q", domain="d")]
    expected = []
    for scope in scopes:
        old, new = (effective_leaves(kind, scope, stored, platform.at(kind, scope.domain)) for stored in (was, becomes))
        paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
        expected += [(scope, path, old.get(path), new.get(path)) for path in paths]
    found = effects(kind, was, becomes, scopes, platform)
    assert [(effect.scope, effect.path, effect.before, effect.after) for effect in found] == expected


@pytest.mark.parametrize("level", [Level.PLATFORM, Level.DOMAIN, Level.PROJECT, Level.PROJECT_DOMAIN])
def test_rows_of_other_scopes_do_not_count(level: Level) -> None:
    others = {Scope(project="q", domain="d"): {"value": "x"}, Scope(domain="e"): {"value": "y"}, SCOPE: {"value": "z"}}
    resolved = resolve(EXECUTION_CLUSTER_LABEL, SCOPE.at(level), rows(EXECUTION_CLUSTER_LABEL, others), {})
    assert resolved.value == {}
