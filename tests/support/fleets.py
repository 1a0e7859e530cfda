"""A small fleet, and things to run on it, for tests that need some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.admins import running_admin
from tests.support.shells import Shell

CLUSTERS = ("east", "west", "north")
POOLS = {"first": ["east", "west"], "second": ["north"]}
LABELS = {"arctic": ["north"], "sunny": ["east"]}


def make_fleet(shell: Shell) -> None:
    """Three clusters, two pools and two labels."""
    for name in CLUSTERS:
        shell.rest("PUT", f"clusters/{name}", {"cluster": {"name": name}})
    for noun, groups in (("pool", POOLS), ("label", LABELS)):
        for name, members in groups.items():
            document: dict[str, Any] = {"name": name, "members": [{"id": member} for member in members]}
            if noun == "pool":
                document["strategy"] = "spill"
            shell.rest("PUT", f"{noun}s/{name}", {noun: document})


@contextmanager
def shell_with_fleet(directory: Path) -> Iterator[Shell]:
    """A shell whose admin is its own and has such a fleet."""
    with running_admin(directory) as admin:
        shell = Shell(admin, directory)
        make_fleet(shell)
        yield shell


def register(
    shell: Shell, project: str, domain: str, name: str, *, version: str = "v1", plan: str | None = None
) -> None:
    """A workflow with one required and one optional input, and a launch plan of it that is active."""
    id = {"project": project, "domain": domain, "name": name, "version": version}
    inputs = {"epochs": {"type": "integer"}, "rate": {"type": "float", "default": 0.5}}
    job = {"command": ["train", "{{ inputs.epochs }}", "{{ inputs.rate }}"]}
    shell.rest("POST", "workflows", {"id": id, "spec": {"inputs": inputs, "job": job}})
    if plan is not None:
        body = {"id": {**id, "name": plan}, "state": "ACTIVE", "spec": {"workflow_id": id}}
        shell.rest("POST", "launch_plans", body)
