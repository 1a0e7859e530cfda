"""Executions that wait for tokens, in whatever cluster's queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from admin.core.executions.tokens import WAITING_FOR_TOKENS, attempt_token, read_amounts
from admin.store.execution_tables import executions
from admin.store.executions import IS_QUEUED, Execution, ExecutionId
from admin.store.keys import KeyedQuery

#: So many are looked at to tell a place in line.
MOST = 10_000


class WaitingForTokens(NamedTuple):
    """An execution that waits for tokens."""

    id: int
    project: str
    domain: str
    name: str
    workflow: str
    launch_plan: str
    uid: str
    attempt: int
    tier: int
    priority: int
    token_pools: str
    created_at: datetime
    cluster: str | None

    @classmethod
    def of(cls, execution: Execution) -> WaitingForTokens:
        """The same of an execution that was read before."""
        return cls._make(getattr(execution, name) for name in cls._fields)

    @property
    def token(self) -> str:
        """By what name it waits."""
        return attempt_token(self.uid, self.attempt)


_columns = executions.c
_WAITS = (
    _columns.token_pools.is_not(None),
    _columns.finished_at.is_(None),
    IS_QUEUED,
    _columns.lease_expires_at.is_(None),
    _columns.reason == WAITING_FOR_TOKENS,
)
#: In the order in which they are served, but for shares; not by the index of all ids, for those that need tokens are
#: few among the finished.
_SELECT = (
    select(*(_columns[name] for name in WaitingForTokens._fields))
    .where(*_WAITS)
    .order_by(_columns.tier, _columns.priority.desc(), _columns.id + 0)
    .limit(MOST)
)
_SELECT_SOME = KeyedQuery(
    select(*(_columns[name] for name in WaitingForTokens._fields)).where(_columns.token_pools.is_not(None)),
    (_columns.project, _columns.domain, _columns.name),
)
_COUNT = select(_columns.token_pools, func.count().label("number")).where(*_WAITS).group_by(_columns.token_pools)


def waiting(connection: Connection, pools: Iterable[str]) -> list[WaitingForTokens]:
    """The executions that wait for tokens of any of some pools."""
    wanted = set(pools)
    rows = map(WaitingForTokens._make, connection.execute(_SELECT))
    return [row for row in rows if wanted & read_amounts(row.token_pools).keys()]


def some(connection: Connection, ids: Iterable[ExecutionId]) -> list[WaitingForTokens]:
    """Those of some executions that need tokens."""
    keys = [(id.project, id.domain, id.name) for id in ids]
    return [WaitingForTokens._make(row) for row in _SELECT_SOME.execute(connection, keys)]


def count(connection: Connection) -> Counter[str]:
    """How many executions wait for tokens of each pool."""
    waiting: Counter[str] = Counter()
    for row in connection.execute(_COUNT):
        for pool in read_amounts(row.token_pools):
            waiting[pool] += row.number
    return waiting
