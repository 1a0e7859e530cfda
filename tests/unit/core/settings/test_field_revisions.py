from __future__ import annotations

from dataclasses import replace
from typing import Any

from admin.core.changes import UNSTORED, RowChange
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.field_revisions import FieldRevisions, RowVersion, trace_fields, untraced, with_revision
from admin.core.settings.scopes import Scope

HERE = Scope(domain="development")


def history(*payloads: dict[str, Any] | None) -> list[RowChange]:
    """The changes of a row that had some payloads one after the other, by revisions 1, 2, …; newest first."""
    before: list[dict[str, Any] | None] = [None, *payloads]
    return [
        RowChange(
            kind=TASK_RESOURCE.name,
            scope=HERE,
            before=before[number],
            after=payload,
            before_version=None if before[number] is None else number,
            revision=number + 1,
        )
        for number, payload in enumerate(payloads)
    ][::-1]


def limits(**amounts: str | None) -> dict[str, Any]:
    return {"limits": amounts}


def test_each_field_is_of_the_newest_change_of_its_value() -> None:
    changes = history(limits(cpu="1"), limits(cpu="1", memory="1Gi"), limits(cpu="2", memory="1Gi"))
    assert trace_fields(TASK_RESOURCE, changes) == FieldRevisions(revisions={"limits.cpu": 3, "limits.memory": 2})


def test_a_field_that_is_taken_away_is_of_the_revision_that_did_so() -> None:
    changes = history(limits(cpu="1", memory="1Gi"), limits(cpu=None, memory="1Gi"))
    assert trace_fields(TASK_RESOURCE, changes).revisions == {"limits.cpu": 2, "limits.memory": 1}


def test_nothing_counts_before_the_row_was_created_last() -> None:
    changes = history(limits(cpu="1"), None, limits(cpu="1"))
    assert trace_fields(TASK_RESOURCE, changes) == FieldRevisions(revisions={"limits.cpu": 3})


def test_where_changes_are_missing_it_is_known_before_which_revision_a_field_was_set() -> None:
    newest, middle, oldest = history(limits(cpu="1"), limits(cpu="1", memory="1Gi"), limits(cpu="1", memory="2Gi"))
    revisions = {"limits.memory": 3}
    assert trace_fields(TASK_RESOURCE, [newest, middle]) == FieldRevisions(revisions=revisions, set_before=2)
    assert trace_fields(TASK_RESOURCE, [newest, oldest]) == FieldRevisions(revisions=revisions, set_before=3)
    assert trace_fields(TASK_RESOURCE, []) == FieldRevisions(revisions={})


def test_an_origin_gets_the_revision_of_its_field() -> None:
    origin = {"level": "domain", "domain": "development", "version": 3}
    fields = {RowVersion("K", HERE, 3): FieldRevisions(revisions={"a": 2}, set_before=2)}
    assert with_revision("K", "a", origin, fields) == {**origin, "revision": 2}
    assert with_revision("K", "b", origin, fields) == {**origin, "set_before": 2}
    assert with_revision("K", "a", {**origin, "version": 4}, fields) == {**origin, "version": 4}
    platform = {"level": "platform", "key": "k"}
    assert with_revision("K", "a", platform, fields) == platform


def test_of_a_row_whose_last_revision_is_not_kept_no_field_is_of_it_alone() -> None:
    origin = {"level": "domain", "domain": "development", "version": 10}
    fields = {RowVersion("K", HERE, 10): untraced(10)}
    assert with_revision("K", "a", origin, fields) == {**origin, "set_before": 11}


def test_a_change_that_is_not_stored_sets_only_the_fields_that_it_changes() -> None:
    newest, oldest = history(limits(cpu="4", memory="1Gi"), limits(cpu="4", memory="2Gi"))
    assumed = replace(newest, revision=UNSTORED)
    fields = trace_fields(TASK_RESOURCE, [assumed, oldest])
    assert fields.revisions == {"limits.cpu": 1}
    assert fields.assumed == frozenset({"limits.memory"})
    origin = {"level": "domain", "domain": "development", "version": UNSTORED}
    by_row = {RowVersion("K", HERE, UNSTORED): fields}
    assert with_revision("K", "limits.memory", origin, by_row) == {**origin, "assumed": True}
    assert with_revision("K", "limits.cpu", origin, by_row) == {**origin, "version": 1, "revision": 1}
    by_row = {RowVersion("K", HERE, UNSTORED): trace_fields(TASK_RESOURCE, [assumed])}
    assert with_revision("K", "limits.cpu", origin, by_row) == {**origin, "version": 1, "set_before": 2}
