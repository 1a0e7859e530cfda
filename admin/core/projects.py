"""Projects: tenants whose settings and executions belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any


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
