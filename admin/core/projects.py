"""Projects: tenants, each with settings and executions of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any, TypedDict, cast

from admin.core.changes import PROJECT, RowChange
from admin.core.fields.branches import read
from admin.core.problems import Path, dotted, invalid, list_first
from admin.core.settings.builtin_kinds import LABEL_VALUES
from admin.core.settings.kinds import Payload


class ProjectState(Enum):
    """Whether a project takes changes and executions."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"  # readable, not writable


@dataclass(frozen=True, kw_only=True)
class Project:
    """One project."""

    id: str
    name: str
    description: str
    labels: dict[str, str]
    state: ProjectState
    created_at: datetime
    updated_at: datetime
    version: int  #: number of the last revision that changed it, 0 for one that configuration brought


@dataclass(frozen=True, kw_only=True)
class Archiving:
    """What archiving a project means for its executions."""

    waiting: int
    running: int
    first_waiting: tuple[str, ...]  #: by name, the oldest first

    @property
    def message(self) -> str:
        if not self.waiting and not self.running:
            return "Nothing waits or runs in the project. Nothing new could be created."
        named = list_first(self.first_waiting, self.waiting, count=self.waiting)
        waiting = f"{self.waiting} waiting" + (f" ({named})" if self.first_waiting else "")
        return (
            f"Executions that go on: {waiting}, {self.running} running. Those that wait still start; "
            "`rainbowctl delete execution` ends them. Nothing new could be created."
        )


class ProjectValues(TypedDict, total=False):
    """The fields of a project that people set, or some of them."""

    name: str
    description: str
    labels: dict[str, str]
    state: ProjectState


#: The most labels of one project.
MOST_LABELS = 16


def read_labels(values: Any, path: Path) -> dict[str, str]:
    """A project's labels, by the same rule as those of executions; Invalid with every problem."""
    labels: dict[str, str] = read(LABEL_VALUES, values, path)
    if len(labels) > MOST_LABELS:
        field = path[:-1] if path[-1] == "values" else path
        raise invalid(dotted(field), f"has {len(labels)} entries; the most is {MOST_LABELS}.")
    return labels


def read_values(body: Mapping[str, Any], *under: str) -> ProjectValues:
    """The fields that people set, of a body whose form is checked; `under` is where they stand there."""
    values = {name: value for name, value in body.items() if name in ProjectValues.__annotations__}
    if "labels" in values:
        values["labels"] = read_labels(values["labels"]["values"], (*under, "labels", "values"))
    return cast(ProjectValues, values)


def to_payload(project: Project) -> Payload:
    """The fields that people set, as revisions store them."""
    name, description, labels, state = project.name, project.description, project.labels, project.state
    return _to_payload({"name": name, "description": description, "labels": labels, "state": state})


def _to_payload(values: ProjectValues) -> Payload:
    return {
        "name": values["name"],
        "description": values["description"],
        "labels": {"values": values["labels"]},
        "state": values["state"].value,
    }


def from_payload(payload: Payload) -> ProjectValues:
    """The fields of a stored payload."""
    return {
        "name": payload["name"],
        "description": payload["description"],
        "labels": payload["labels"]["values"],
        "state": ProjectState(payload["state"]),
    }


def payload_after(before: Payload | None, project_id: str, values: ProjectValues) -> Payload:
    """A project's payload with some fields set and the others left; of a new one where there was none."""
    values_before = _new_values(project_id) if before is None else from_payload(before)
    return _to_payload({**values_before, **values})


def project_after(before: Project | None, project_id: str, values: ProjectValues, now: datetime) -> Project:
    """A project with some fields set and the others left; a new one where there was none."""
    if before is not None:
        return replace(before, **values)
    new: ProjectValues = {**_new_values(project_id), **values}
    return Project(id=project_id, **new, created_at=now, updated_at=now, version=0)


def _new_values(project_id: str) -> ProjectValues:
    return {"name": project_id, "description": "", "labels": {}, "state": ProjectState.ACTIVE}


def project_changes(changes: Iterable[RowChange]) -> dict[str, Payload | None]:
    """The projects among changed rows: the payload after by the project's id, None for one that goes."""
    return {change.scope.project: change.after for change in changes if change.kind == PROJECT}


def active_after(active: Iterable[str], changes: Iterable[RowChange]) -> set[str]:
    """The ids of active projects as changes leave them."""
    after = set(active)
    for project_id, payload in project_changes(changes).items():
        if payload is not None and payload["state"] == ProjectState.ACTIVE.value:
            after.add(project_id)
        else:
            after.discard(project_id)
    return after


def projects_after(before: Mapping[str, Project], changes: Iterable[RowChange], now: datetime) -> dict[str, Project]:
    """Projects as changes leave them."""
    after = dict(before)
    for project_id, payload in project_changes(changes).items():
        if payload is None:
            after.pop(project_id, None)
        else:
            after[project_id] = project_after(before.get(project_id), project_id, from_payload(payload), now)
    return after


def is_archiving(change: RowChange) -> bool:
    """Whether a change of a project archived it."""
    states = [(payload or {}).get("state") for payload in (change.before, change.after)]
    return states[1] == ProjectState.ARCHIVED.value != states[0]
