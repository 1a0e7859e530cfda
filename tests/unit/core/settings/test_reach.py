"""Reach against brute force: what follows a row is what changes when the row does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.settings.builtin_kinds import EXECUTION_CLUSTER_LABEL, TASK_RESOURCE
from admin.core.settings.kinds import Kind, Merge
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.reach import Relation, ScopeRelation, relate
from admin.core.settings.resolution import Row, effective_leaves
from admin.core.settings.scopes import Scope

PLAN = Scope(project="p", domain="d", workflow="w", launch_plan="l")
CHAIN = PLAN.chain()
CPU, MEMORY = ("limits", "cpu"), ("limits", "memory")


def rows_of(kind: Kind, payloads: dict[Scope, Any]) -> dict[Scope, Row]:
    return {
        scope: Row(kind=kind.name, scope=scope, payload=kind.read(payload), version=1)
        for scope, payload in payloads.items()
    }


def related(kind: Kind, rows: dict[Scope, Row], broad: Scope, scope: Scope) -> ScopeRelation:
    return relate(kind, rows[broad], scope, rows, PlatformDefaults(kind, {}))


LIMITS = st.dictionaries(
    st.sampled_from(["cpu", "memory"]), st.none() | st.sampled_from(["1", "2"]), min_size=1, max_size=2
)


@given(
    payloads=st.dictionaries(st.sampled_from(CHAIN), st.fixed_dictionaries({"limits": LIMITS}), min_size=1),
    data=st.data(),
    replaces=st.booleans(),
)
def test_a_field_is_followed_where_a_change_of_the_row_changes_it(
    payloads: dict[Scope, Any], data: st.DataObject, replaces: bool
) -> None:
    kind = replace(TASK_RESOURCE, merge=Merge.REPLACE) if replaces else TASK_RESOURCE
    rows = rows_of(kind, payloads)
    broad = data.draw(st.sampled_from(sorted(payloads)))
    scope = data.draw(
        st.sampled_from([place for place in CHAIN if broad in place.chain() and place != broad] or [PLAN])
    )
    if scope == broad:
        return
    relation = related(kind, rows, broad, scope)
    platform = PlatformDefaults(kind, {})
    before = effective_leaves(kind, scope, rows, platform)
    for path in kind.leaves(rows[broad].payload):
        changed = {"limits": {**rows[broad].payload["limits"], path[-1]: "7"}}
        after = effective_leaves(kind, scope, {**rows, broad: replace(rows[broad], payload=changed)}, platform)
        field = relation.fields[path]
        assert (field is Relation.FOLLOWS) == (after.get(path) != before.get(path))
        value = rows[broad].payload["limits"][path[-1]]
        if field is Relation.SAYS_THE_SAME:
            assert before.get(path) == value
        if field is Relation.SAYS_OTHERWISE:
            assert before.get(path) != value
        if field in (Relation.SAYS_THE_SAME, Relation.SAYS_OTHERWISE):
            assert scope in rows
    assert relation.fields.keys() == kind.leaves(rows[broad].payload).keys()


def test_a_scope_may_follow_one_field_and_say_another() -> None:
    rows = rows_of(
        TASK_RESOURCE,
        {CHAIN[0]: {"limits": {"cpu": "1", "memory": "1Gi"}}, CHAIN[2]: {"limits": {"memory": "2Gi"}}},
    )
    own = related(TASK_RESOURCE, rows, CHAIN[0], CHAIN[2])
    assert own.fields == {CPU: Relation.FOLLOWS, MEMORY: Relation.SAYS_OTHERWISE}
    assert own.relation is Relation.SAYS_OTHERWISE
    below = related(TASK_RESOURCE, rows, CHAIN[0], CHAIN[3])
    assert below.fields == {CPU: Relation.FOLLOWS, MEMORY: Relation.FOLLOWS_ANOTHER}
    assert below.relation is Relation.FOLLOWS


def test_a_row_says_the_same_again_however_it_writes_an_amount() -> None:
    rows = rows_of(TASK_RESOURCE, {CHAIN[0]: {"limits": {"memory": "1Gi"}}, CHAIN[2]: {"limits": {"memory": "1024Mi"}}})
    assert related(TASK_RESOURCE, rows, CHAIN[0], CHAIN[2]).relation is Relation.SAYS_THE_SAME


@pytest.mark.parametrize(
    ("value", "relation"),
    [("a", Relation.SAYS_THE_SAME), ("b", Relation.SAYS_OTHERWISE), (None, Relation.SAYS_OTHERWISE)],
)
def test_a_row_that_replaces_says_the_same_or_otherwise(value: str | None, relation: Relation) -> None:
    kind = EXECUTION_CLUSTER_LABEL
    rows = rows_of(kind, {CHAIN[0]: {"value": "a"}, CHAIN[3]: {"value": value}})
    assert related(kind, rows, CHAIN[0], CHAIN[2]).relation is Relation.FOLLOWS
    assert related(kind, rows, CHAIN[0], CHAIN[3]).relation is relation
    assert related(kind, rows, CHAIN[0], PLAN).relation is Relation.FOLLOWS_ANOTHER
