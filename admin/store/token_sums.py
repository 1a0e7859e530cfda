"""Sums of grants: how many tokens and grants of a pool count at each scope, kept beside the grants themselves.

They are written with the grants, in the transaction that holds the pool, so that no operation reads more grants than it
is about. What an execution holds is few grants, and is summed from those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import BindParameter, Connection, and_, bindparam, delete, func, not_, select

from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.ledger import Book
from admin.core.token_pools.limits import WHOLE_POOL, buckets_of, execution_bucket
from admin.core.token_pools.steadiness import JUMP_SECONDS
from admin.store.batches import Insertion, insert_all
from admin.store.keys import KeyedQuery, scope_of
from admin.store.sql_types import AnyRow
from admin.store.token_tables import token_grants, token_sums

_sums, _grants = token_sums.c, token_grants.c
_of_pools: BindParameter[str] = bindparam("pools", expanding=True)
_SELECT = KeyedQuery(select(token_sums), (_sums.pool, _sums.bucket))
_run = (_grants.pool, _grants.project, _grants.domain, _grants.execution)
_SELECT_BY_EXECUTION = (
    select(*_run, func.sum(_grants.amount).label("amount"), func.count().label("number"))
    .where(_grants.pool.in_(_of_pools), _grants.execution.in_(bindparam("executions", expanding=True)))
    .group_by(*_run)
)
_SELECT_USED = select(_sums.pool, _sums.amount).where(_sums.pool.in_(_of_pools), _sums.bucket == WHOLE_POOL)
#: Grants whose leases are over, as a ledger would take them back.
IS_OVER = and_(_grants.expires_at <= bindparam("over_since"), _grants.lease_seconds <= bindparam("steady_seconds"))
_SELECT_ALL = select(token_sums).where(_sums.pool.in_(_of_pools), _sums.number != 0)
_place = (_grants.pool, *(_grants[key] for key in SCOPE_KEYS))
_SELECT_OVER = (
    select(*_place, func.sum(_grants.amount).label("amount"), func.count().label("number"))
    .where(_grants.pool.in_(_of_pools), IS_OVER)
    .group_by(*_place)
)
_SELECT_LIVE_BY_EXECUTION = _SELECT_BY_EXECUTION.where(not_(IS_OVER))
_DELETE = delete(token_sums).where(_sums.pool.in_(_of_pools))


class Sum(NamedTuple):
    """What counts together."""

    amount: int  #: of tokens
    number: int  #: of grants


NOTHING = Sum(0, 0)


class KeptSums:
    """The sums of some pools, each read once: those that are foreseen together, others when they are asked for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, str], Sum] = {}

    def of(self, pool: str, bucket: str) -> Sum:
        """What counts in a bucket of a pool."""
        if (pool, bucket) not in self._known:
            self.foresee({pool: {bucket}})
        return self._known[pool, bucket]

    def foresee(self, buckets: Mapping[str, Set[str]]) -> None:
        """Read what counts in some buckets of each of some pools."""
        wanted = [(pool, bucket) for pool, own in sorted(buckets.items()) for bucket in sorted(own)]
        keys = [key for key in wanted if key not in self._known]
        if not keys:
            return
        self._known |= dict.fromkeys(keys, NOTHING)
        of_scopes = [key for key in keys if "#" not in key[1]]
        for row in _SELECT.execute(self._connection, of_scopes).all() if of_scopes else ():
            self._known[row.pool, row.bucket] = Sum(row.amount, row.number)
        if executions := _executions_of(bucket for _, bucket in keys):
            of_pools = {"pools": sorted({pool for pool, _ in keys}), "executions": executions}
            self._known |= _by_execution(self._connection.execute(_SELECT_BY_EXECUTION, of_pools))


def over(now: datetime, steady_seconds: float) -> dict[str, object]:
    """The parameters of `IS_OVER`."""
    return {"over_since": now - timedelta(seconds=JUMP_SECONDS), "steady_seconds": steady_seconds}


def live(
    connection: Connection, pools: Sequence[str], buckets: Iterable[str], now: datetime, steady_seconds: float
) -> dict[str, dict[str, Sum]]:
    """What counts at each scope of pools, and in some buckets of executions, without leases that are over."""
    amounts: Counter[tuple[str, str]] = Counter()
    numbers: Counter[tuple[str, str]] = Counter()
    parameters = {"pools": list(pools), **over(now, steady_seconds)}
    for row in connection.execute(_SELECT_ALL, {"pools": list(pools)}):
        amounts[row.pool, row.bucket] += row.amount
        numbers[row.pool, row.bucket] += row.number
    for row in connection.execute(_SELECT_OVER, parameters):
        for bucket in buckets_of(scope_of(row), ""):
            amounts[row.pool, bucket] -= int(row.amount)
            numbers[row.pool, bucket] -= row.number
    sums = {key: Sum(amounts[key], number) for key, number in numbers.items() if number}
    if executions := _executions_of(buckets):
        sums |= _by_execution(connection.execute(_SELECT_LIVE_BY_EXECUTION, {**parameters, "executions": executions}))
    by_pool: dict[str, dict[str, Sum]] = {pool: {} for pool in pools}
    for (pool, bucket), own in sums.items():
        by_pool[pool][bucket] = own
    return by_pool


def _executions_of(buckets: Iterable[str]) -> list[str]:
    return sorted({bucket.partition("#")[2] for bucket in buckets} - {""})


def _by_execution(rows: Iterable[AnyRow]) -> dict[tuple[str, str], Sum]:
    return {
        (row.pool, execution_bucket(Scope(row.domain, row.project), row.execution)): Sum(int(row.amount), row.number)
        for row in rows
    }


def used(connection: Connection, pools: Iterable[str]) -> Counter[str]:
    """How many tokens of pools are held, also by leases that are over and not taken back yet."""
    return Counter({row.pool: row.amount for row in connection.execute(_SELECT_USED, {"pools": sorted(pools)})})


def changes(books: Mapping[str, Book]) -> Insertion:
    """What the operations on pools have changed in their sums."""
    rows = [
        {"pool": pool, "bucket": bucket, "amount": book.added.amounts[bucket], "number": number}
        for pool, book in sorted(books.items())
        for bucket, number in sorted(book.added.numbers.items())
        if "#" not in bucket and (number or book.added.amounts[bucket])
    ]
    return Insertion(table=token_sums, rows=rows, adds=True)


def rebuild(connection: Connection, grants: Mapping[str, Iterable[Grant]]) -> None:
    """Make the sums of pools anew from all of their grants."""
    if not grants:
        return
    amounts: Counter[tuple[str, str]] = Counter()
    numbers: Counter[tuple[str, str]] = Counter()
    for pool, own in grants.items():
        for grant in own:
            for bucket in grant.scope_buckets:
                amounts[pool, bucket] += grant.amount
                numbers[pool, bucket] += 1
    connection.execute(_DELETE, {"pools": sorted(grants)})
    rows = [
        {"pool": pool, "bucket": bucket, "amount": amount, "number": numbers[pool, bucket]}
        for (pool, bucket), amount in sorted(amounts.items())
    ]
    insert_all(connection, token_sums, rows)
