"""Execution documents: what a file says about one execution, and where in it a refusal of the admin points."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctl.client.errors import InvalidRequest
from ctl.files.positions import Positions, find_request_position, locate_details
from ctl.files.run_settings import PATHS

#: Keys that say what to run, of which a file may have one.
RUN_KEYS = ("launchplan", "workflow", "task", "job", "jobspec")

#: Where a field of the request stands in a file, by the start of its path.
_PATHS = {
    "spec.launch_plan.name": ("launchplan", "workflow", "task"),
    "spec.launch_plan.version": ("version",),
    "spec.launch_plan": ("launchplan", "workflow", "task"),
    "spec.metadata.principal": ("principal",),
    "project": ("target_project",),
    "domain": ("target_domain",),
    **PATHS,
}


@dataclass(frozen=True, kw_only=True)
class ExecutionDocument:
    """A checked document with the values in it, by their keys in snake_case, and where they stand."""

    name: str  #: of the file
    values: Mapping[str, Any]
    positions: Positions = field(default_factory=dict)
    place: str = ""  #: where it starts: `runs.yaml:12:1`

    @property
    def identity(self) -> Hashable:
        """What no two documents of a file may share; those without a name never do."""
        named = tuple(self.values.get(key) for key in ("target_project", "target_domain", "name"))
        return named if "name" in self.values else self.place

    @property
    def title(self) -> str:
        """What it is about, in words."""
        return f"execution {self.values['name']}"

    @property
    def run_key(self) -> str | None:
        """The key that says what to run."""
        return next((key for key in RUN_KEYS if key in self.values), None)

    def locate(self, error: InvalidRequest) -> InvalidRequest:
        """The admin's refusal with the position of each field that stands in this file."""
        return locate_details(error, self.name, lambda path: find_request_position(self.positions, path, _PATHS))
