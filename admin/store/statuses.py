"""What is read of an execution's place in the queue, beside its own row."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol

from sqlalchemy import ColumnElement, Connection, func, select, tuple_

from admin.core.executions.attempts import time_limit_seconds
from admin.core.executions.starts import Ahead
from admin.store.execution_tables import executions
from admin.store.executions import LEASED, MAY_START, UNLEASED
from admin.store.sql_types import AnyRow, build

_columns = executions.c
#: In which agents get what waits.
_ORDER = (_columns.tier, _columns.priority.desc(), _columns.id)
#: More than any row's id.
_NO_ID = 2**63 - 1


class InLine(Protocol):
    """Something that waits at a cluster, or would."""

    @property
    def cluster(self) -> str | None: ...
    @property
    def tier(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def id(self) -> int: ...


class NewInLine(NamedTuple):
    """An execution that would be created now."""

    cluster: str
    tier: int
    priority: int
    id: int = _NO_ID


def place_in_line(connection: Connection, execution: InLine, now: datetime) -> int:
    """Which one an execution is of those that may start at its cluster, from 1."""
    is_of_cluster = _columns.cluster == execution.cluster
    query = select(func.count()).where(*UNLEASED, is_of_cluster, MAY_START, _is_before(execution))
    return int(connection.execute(query, {"now": now}).scalar_one()) + 1


def _is_before(execution: InLine) -> ColumnElement[bool]:
    """What its cluster may have before an execution."""
    key = tuple_(_columns.tier, -_columns.priority, _columns.id)
    return key < tuple_(execution.tier, -execution.priority, execution.id)


def count_backing_off(connection: Connection, execution: InLine, now: datetime) -> int:
    """How many at its cluster are in back-off that would go before an execution if they might start."""
    is_before = (_columns.cluster == execution.cluster, _columns.not_before > now, _is_before(execution))
    return int(connection.execute(select(func.count()).where(*UNLEASED, *is_before)).scalar_one())


def ahead(connection: Connection, execution: InLine, limit: int, now: datetime) -> tuple[list[Ahead], list[Ahead]]:
    """What the agent of an execution's cluster has, and what may start there before it; so many of each at most."""
    names = ("project", "domain", "name", "phase", "started_at", "content")
    query = select(*(_columns[name] for name in names)).where(_columns.cluster == execution.cluster).limit(limit)
    held = query.where(LEASED).order_by(_columns.id)
    waiting = query.where(*UNLEASED, MAY_START, _is_before(execution)).order_by(*_ORDER)
    rows = connection.execute(held), connection.execute(waiting, {"now": now})
    return [_ahead(row) for row in rows[0]], [_ahead(row) for row in rows[1]]


def _ahead(row: AnyRow) -> Ahead:
    return build(Ahead, row, time_limit_seconds=time_limit_seconds(row.content))
