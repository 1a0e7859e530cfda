"""Given jobs: what executions were asked to run, before settings were added, by their requests or their workflows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from sqlalchemy import Connection, select

from admin.core.json_text import JsonObject
from admin.core.registrations import Identifier
from admin.store import registrations
from admin.store.execution_tables import executions as table


class Requested(Protocol):
    """An execution, as far as it tells what gave its job."""

    @property
    def id(self) -> int: ...

    @property
    def request(self) -> JsonObject: ...

    @property
    def launched(self) -> JsonObject: ...


def given_jobs(connection: Connection, executions: Iterable[Requested]) -> dict[int, JsonObject]:
    """The jobs that requests or registered workflows gave, by the ids of executions; others are left out."""
    jobs: dict[int, JsonObject] = {}
    workflows: dict[int, Identifier] = {}
    for execution in executions:
        job, workflow = execution.request["spec"].get("job"), execution.launched.get("workflow")
        if job is not None:
            jobs[execution.id] = job
        elif workflow is not None:
            workflows[execution.id] = Identifier(**workflow)
    registered = registrations.workflow_jobs(connection, workflows.values())
    return jobs | {id: registered[workflow] for id, workflow in workflows.items() if workflow in registered}


def given_jobs_of(connection: Connection, ids: Collection[int]) -> dict[int, JsonObject]:
    """The same of executions by their ids."""
    query = select(table.c.id, table.c.request, table.c.launched).where(table.c.id.in_(ids))
    return given_jobs(connection, connection.execute(query).all()) if ids else {}
