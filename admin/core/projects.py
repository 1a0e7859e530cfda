"""Projects: tenants whose settings and executions belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from admin.core.fields import Path, add_problem
from admin.core.problems import Invalid, Problem
from admin.core.settings.builtin_kinds import LABEL_VALUES


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


#: Enough for people; more would be a database.
MOST_LABELS = 16


def read_labels(values: Any, path: Path) -> dict[str, str]:
    """A project's labels, by the same rule as those of executions; Invalid with every problem."""
    problems: list[Problem] = []
    labels: dict[str, str] = LABEL_VALUES.read(values, path, problems)
    if not problems and len(labels) > MOST_LABELS:
        whole = path[:-1] if path[-1] == "values" else path
        add_problem(problems, whole, f"has {len(labels)} entries; the most is {MOST_LABELS}.")
    if problems:
        raise Invalid(*problems)
    return labels


def as_payload(project: Project) -> dict[str, Any]:
    """What revisions remember of a project: all that people set."""
    return {
        "name": project.name,
        "description": project.description,
        "labels": {"values": project.labels},
        "state": project.state.value,
    }


def from_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a remembered project had."""
    return {
        "name": payload["name"],
        "description": payload["description"],
        "labels": payload["labels"]["values"],
        "state": ProjectState(payload["state"]),
    }


def project_after(before: Project | None, project_id: str, given: Mapping[str, Any], now: datetime) -> Project:
    """A project with the given fields set and the others left; a new one where there was none."""
    if before is not None:
        return replace(before, **given)
    return Project(
        id=project_id,
        name=given.get("name") or project_id,
        description=given.get("description", ""),
        labels=given.get("labels", {}),
        state=given.get("state", ProjectState.ACTIVE),
        created_at=now,
        updated_at=now,
        version=0,
    )
