"""What happens with a value that executions do not follow."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.executions.consequences import Consequence, ConsequenceCode, PlacementObstacles, consequence_of
from admin.core.executions.launches import Rules
from admin.core.executions.queues import Queue
from admin.core.settings.builtin_kinds import (
    BUILTIN_KINDS,
    CLUSTER_ASSIGNMENT,
    EXECUTION_CLUSTER_LABEL,
    EXECUTION_QUEUE,
    TASK_RESOURCE,
)
from admin.core.settings.kinds import Kind, Kinds
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.scopes import Scope
from tests.support.small_fleets import group, small_fleet

BROAD, PLACE = Scope(domain="d"), Scope("d", "p")
FLEET = small_fleet(
    clusters={"east": {}, "off": {"enabled": False}, "new": {}, "newer": {}},
    pools={"gpu": group(["east"]), "idle": group(["off"]), "unseen": group(["new", "newer"])},
    labels={"near": group(["east"])},
    states={"east": {"health": "ready"}},
)
RULES = Rules(
    kinds=Kinds(BUILTIN_KINDS), platform=PlatformValues(), queues=(Queue(name="fast", tags=("urgent", "critical")),)
)
POOL, LABEL = CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL
#: The field of each kind, by its name.
FIELDS = {
    POOL.name: "cluster_pool_name",
    LABEL.name: "value",
    EXECUTION_QUEUE.name: "tags",
    TASK_RESOURCE.name: "limits",
}


def consequence(kind: Kind, *settings: tuple[Kind, Scope, Any], definition: Any = None) -> Consequence | None:
    rows: dict[str, dict[Scope, Row]] = {name: {} for name in FIELDS}
    for each, scope, value in settings:
        rows[each.name][scope] = Row(kind=each.name, scope=scope, payload={FIELDS[each.name]: value}, version=1)
    resolved = resolve(kind, PLACE, rows[kind.name], RULES.platform.at(kind, PLACE.domain))
    return consequence_of(resolved, rows, definition or {}, RULES, FLEET)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (POOL, [(POOL, PLACE, "gpu")]),
        (POOL, [(POOL, PLACE, "gpu"), (LABEL, PLACE, "near")]),
        (LABEL, [(POOL, BROAD, "gpu"), (LABEL, PLACE, "near")]),
        (LABEL, [(LABEL, PLACE, "east")]),
        (LABEL, []),
        (LABEL, [(LABEL, PLACE, None)]),
        (EXECUTION_QUEUE, [(EXECUTION_QUEUE, PLACE, ["none", "urgent"])]),
        (TASK_RESOURCE, [(TASK_RESOURCE, PLACE, {"cpu": "1"})]),
    ],
)
def test_executions_follow_what_wins_and_is_known(kind: Kind, settings: list[tuple[Kind, Scope, Any]]) -> None:
    assert consequence(kind, *settings) is None


@pytest.mark.parametrize(
    ("kind", "settings", "definition", "by"),
    [
        (POOL, [(POOL, BROAD, "gpu"), (LABEL, PLACE, "near")], {}, "label near"),
        (LABEL, [(LABEL, PLACE, "nosuch"), (POOL, PLACE, "gpu")], {}, "pool gpu"),
        (LABEL, [(LABEL, PLACE, "near")], {"execution_cluster_label": {"value": "east"}}, "label east"),
    ],
)
def test_an_outranked_value_has_what_outranks_it(kind: Kind, settings: Any, definition: Any, by: str) -> None:
    outcome = consequence(kind, *settings, definition=definition)
    assert outcome is not None
    assert outcome.rung is not None
    assert outcome.code is ConsequenceCode.OUTRANKED
    assert f"{outcome.rung.kind.value} {outcome.rung.name}" == by


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        (POOL, "gup", "No pool is called 'gup'"),
        (LABEL, "nosuch", "No label is called 'nosuch'"),
        (EXECUTION_QUEUE, ["none"], "No queue serves 'none'"),
    ],
)
def test_an_unknown_name_refuses(kind: Kind, value: Any, problem: str) -> None:
    outcome = consequence(kind, (kind, PLACE, value))
    assert outcome is not None
    assert outcome.code is ConsequenceCode.REFUSES
    assert outcome.refusal is not None
    assert problem in outcome.refusal.problems[0].reason


def test_a_pool_whose_clusters_take_nothing_makes_executions_wait() -> None:
    outcome = consequence(POOL, (POOL, PLACE, "idle"))
    assert outcome is not None
    assert (outcome.code, outcome.message) == (
        ConsequenceCode.WAITS,
        "No cluster of pool 'idle' is able: 'off' is disabled.",
    )


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (POOL, "unseen", "By pool 'unseen' executions wait at 'new', 'newer': no agent of these has been seen."),
        (LABEL, "new", "By label 'new' executions wait at 'new': no agent of it has ever been seen."),
    ],
)
def test_clusters_whose_agents_were_never_seen_make_executions_wait(kind: Kind, name: str, message: str) -> None:
    outcome = consequence(kind, (kind, PLACE, name))
    assert outcome is not None
    assert (outcome.code, outcome.message, outcome.is_unseen) == (ConsequenceCode.WAITS, message, True)


_SCOPES = (BROAD, PLACE, Scope("d", "p", "w"), Scope("d", "p", "w", "l"), Scope("d", "p", "v"), Scope("d", "q"))
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    POOL.name: st.sampled_from(["gpu", "idle", "unseen", "nosuch", None]),
    LABEL.name: st.sampled_from(["near", "east", "off", "new", "nosuch", None]),
    EXECUTION_QUEUE.name: st.sampled_from([["urgent"], ["none"], ["none", "critical"], ["other"]]),
}


def _told(outcome: Consequence | None) -> tuple[object, ...] | None:
    return None if outcome is None else (outcome.code, outcome.message, str(outcome.refusal), str(outcome.route))


def _rows_of(name: str) -> st.SearchStrategy[dict[Scope, Row]]:
    return st.dictionaries(st.sampled_from(_SCOPES), _VALUES[name]).map(
        lambda by_scope: {
            scope: Row(kind=name, scope=scope, payload={FIELDS[name]: value}, version=number)
            for number, (scope, value) in enumerate(by_scope.items())
        }
    )


@given(rows=st.fixed_dictionaries({name: _rows_of(name) for name in _VALUES}))
def test_the_way_in_which_executions_are_kept_is_that_of_the_whole_consequence_at_every_scope(
    rows: dict[str, dict[Scope, Row]],
) -> None:
    shared = PlacementObstacles(RULES, FLEET)
    for scope in _SCOPES[1:]:
        alone = PlacementObstacles(RULES, FLEET).at(scope, rows, {})
        obstacle = shared.obstacle_at(scope, rows, {})
        assert obstacle == (None if alone is None else (alone.code, alone.is_unseen))
        newly = shared.newly_at(scope, rows, {}, lambda: None)
        assert _told(newly) == _told(alone)
        assert shared.newly_at(scope, rows, {}, partial(shared.obstacle_at, scope, rows, {})) is None
