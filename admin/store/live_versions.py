"""Versions of what pages show: texts that change with it, read for many pages by two small queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select

from admin.core.live_subjects import Subject, Topic
from admin.store.execution_tables import execution_events, executions
from admin.store.fleet_tables import fleet_head
from admin.store.grants import grants_head
from admin.store.keys import KeyedQuery
from admin.store.logs import execution_logs
from admin.store.revision_tables import revision_head
from admin.store.token_tables import token_pool_heads

_STREAMS = ("stdout", "stderr")
_KEY = executions.c.project, executions.c.domain, executions.c.name


def _last_piece(stream: str) -> ColumnElement[Any]:
    """Where the last piece begins that the last attempt of an execution has printed, by one step along an index."""
    pieces = execution_logs.c
    is_own = and_(pieces.execution_id == executions.c.id, pieces.attempt == executions.c.attempt)
    last = select(func.max(pieces.start)).where(is_own, pieces.stream == stream)
    return last.correlate(executions).scalar_subquery().label(stream)


_NUMBERS = select(
    select(func.coalesce(func.max(execution_events.c.id), 0)).scalar_subquery().label(Topic.EXECUTIONS.value),
    select(revision_head.c.number).scalar_subquery().label(Topic.SETTINGS.value),
    select(fleet_head.c.number).scalar_subquery().label(Topic.FLEET.value),
    select(func.coalesce(func.sum(token_pool_heads.c.number + token_pool_heads.c.releases), 0))
    .scalar_subquery()
    .label(Topic.TOKENS.value),
    select(grants_head.c.number).scalar_subquery().label(Topic.RIGHTS.value),
)
_SELECT_EXECUTIONS = KeyedQuery(select(*_KEY, executions.c.events, executions.c.updated_at), _KEY)
_SELECT_LOGS = KeyedQuery(select(*_KEY, executions.c.attempt, *map(_last_piece, _STREAMS)), _KEY)
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
    logged = sorted({subject.execution for subject in wanted if subject.execution and Topic.LOG in subject.topics})
    for row in _SELECT_LOGS.execute(connection, logged) if logged else ():
        parts[Topic.LOG, (row.project, row.domain, row.name)] = f"{row.attempt}-{row.stdout}-{row.stderr}"
    return {
        subject: ":".join(parts.get(_part_of(subject, topic), _MISSING) for topic in subject.topics)
        for subject in wanted
    }


def _part_of(subject: Subject, topic: Topic) -> object:
    """What the version of a topic is kept as."""
    if topic is Topic.LOG:
        return topic, subject.execution
    return subject.execution if topic is Topic.EXECUTION else topic.value
