"""Versions of what pages show: texts that change with it, read for many pages by two small queries."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, func, select

from admin.core.live_subjects import Subject, Topic
from admin.store.execution_tables import execution_events, executions
from admin.store.fleet_tables import fleet_head
from admin.store.grants import grants_head
from admin.store.keys import KeyedQuery
from admin.store.revision_tables import revision_head

_KEY = executions.c.project, executions.c.domain, executions.c.name
_NUMBERS = select(
    select(func.coalesce(func.max(execution_events.c.id), 0)).scalar_subquery().label(Topic.EXECUTIONS.value),
    select(revision_head.c.number).scalar_subquery().label(Topic.SETTINGS.value),
    select(fleet_head.c.number).scalar_subquery().label(Topic.FLEET.value),
    select(grants_head.c.number).scalar_subquery().label(Topic.RIGHTS.value),
)
_SELECT_EXECUTIONS = KeyedQuery(select(*_KEY, executions.c.events, executions.c.updated_at), _KEY)
_MISSING = "none"


def versions(connection: Connection, subjects: Iterable[Subject]) -> dict[Subject, str]:
    """The version of each subject: another text as soon as something about it has changed."""
    wanted = set(subjects)
    parts: dict[object, str] = {
        name: str(number) for name, number in connection.execute(_NUMBERS).one()._mapping.items()
    }
    keys = sorted({subject.execution for subject in wanted if subject.execution is not None})
    for row in _SELECT_EXECUTIONS.execute(connection, keys) if keys else ():
        parts[row.project, row.domain, row.name] = f"{row.events}-{row.updated_at.timestamp():.6f}"
    return {
        subject: ":".join(
            parts.get(subject.execution if topic is Topic.EXECUTION else topic.value, _MISSING)
            for topic in subject.topics
        )
        for subject in wanted
    }
