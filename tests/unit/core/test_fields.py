"""Fields: what their messages advise is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from admin.configuration.keys import CONFIGURATION
from admin.core.executions.spec import EXECUTION_SPEC, read_spec
from admin.core.fields.branches import KeyedList, MapOf, Section, read
from admin.core.fields.compounds import ListOf, Record
from admin.core.fields.leaves import Field, Text
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet.documents import DEFINITIONS, read_definition
from admin.core.problems import Invalid
from admin.core.registrations import LAUNCH_PLAN_SPEC, WORKFLOW_SPEC, read_launch_plan, read_workflow
from admin.core.settings.builtin_kinds import BUILTIN_KINDS

Document = dict[str, Any]
JOB = {"job": {"command": ["true"]}}
MEMBERS = {"members": [{"id": "a"}]}
#: What each document is made of, how it is read, and what it needs at least.
READERS: dict[str, tuple[Section, Callable[[Any], Any], Document]] = {
    "configuration": (CONFIGURATION, partial(read, CONFIGURATION), {}),
    "execution": (EXECUTION_SPEC, read_spec, JOB),
    "workflow": (WORKFLOW_SPEC, read_workflow, JOB),
    "launch plan": (LAUNCH_PLAN_SPEC, read_launch_plan, {"workflow_id": {"name": "wf", "version": "v1"}}),
    **{
        kind.noun: (section, partial(read_definition, kind, "x"), {} if kind is FleetKind.CLUSTER else MEMBERS)
        for kind, section in DEFINITIONS.items()
    },
    **{kind.noun: (kind.payload, kind.read, {}) for kind in BUILTIN_KINDS},
}


def texts(field: Field, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of the texts that may not be empty."""
    if isinstance(field, Section | Record):
        for name, item in field.fields.items():
            yield from texts(item, (*path, name))
    elif isinstance(field, MapOf):
        yield from texts(field.value, (*path, "a"))
    elif isinstance(field, KeyedList | ListOf):
        yield from texts(field.entry if isinstance(field, KeyedList) else field.item, (*path, 0))
    elif isinstance(field, Text) and field.min_length:
        yield path


def document(base: Any, path: tuple[str | int, ...], value: str | None) -> Any:
    """The base with a value at a path."""
    if not path:
        return value
    if isinstance(path[0], int):
        return [document({}, path[1:], value)]
    below = base.get(path[0], {}) if isinstance(base, dict) else {}
    return {**base, path[0]: document(below, path[1:], value)}


def reasons(read_document: Callable[[Any], Any], written: Any) -> list[str]:
    try:
        read_document(written)
    except Invalid as refusal:
        return [str(problem) for problem in refusal.problems]
    return []


@pytest.mark.parametrize("name", READERS)
def test_where_null_is_advised_for_an_empty_text_it_is_accepted(name: str) -> None:
    section, read_document, base = READERS[name]
    for path in texts(section):
        refusal = reasons(read_document, document(base, path, ""))
        if any("or null" in reason for reason in refusal):
            assert reasons(read_document, document(base, path, None)) == [], path


def test_null_is_advised_where_it_unsets_and_not_where_it_is_refused() -> None:
    def advice(read_document: Callable[[Any], Any], written: Any) -> str:
        [reason] = reasons(read_document, written)
        return reason

    kinds = {kind.noun: kind for kind in BUILTIN_KINDS}
    assert advice(kinds["execution-cluster-label"].read, {"value": ""}) == (
        "value: '' is empty: give a value, or null to unset it."
    )
    assert advice(kinds["execution-queue-attribute"].read, {"tags": [""]}) == "tags.0: '' is empty: give a value."
    request = {**JOB, "execution_cluster_label": {"value": ""}}
    assert advice(read_spec, request) == "spec.execution_cluster_label.value: '' is empty: give a value."
    assert advice(read_spec, {**JOB, "execution_cluster_label": {"value": None}}) == (
        "spec.execution_cluster_label.value: is null, which says nothing here: leave it out."
    )
