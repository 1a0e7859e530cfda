"""Grants of tokens and those that wait for some, as the database keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from sqlalchemy import BindParameter, Connection, bindparam, delete, func, select, update

from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.core.token_pools.answers import MOST_HOLDERS
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.ledger import Book, Ledger, Sums
from admin.core.token_pools.limits import buckets_of, counted_at, execution_bucket
from admin.core.token_pools.lines import Standing, Status, Waiter
from admin.store.batches import Insertion, update_all, write_together
from admin.store.keys import KeyedQuery, scope_columns, scope_of
from admin.store.sql_types import AnyRow, AnySelect, build
from admin.store.token_tables import token_grants, token_pool_heads, token_waiters

#: Pools with no more grants than this together are read whole, which is fewer statements.
MOST_READ_WHOLE = 64

_grants = token_grants.c
_of_pools: BindParameter[str] = bindparam("pools", expanding=True)
_SELECT_GRANTS = select(token_grants).where(_grants.pool.in_(_of_pools))
_SELECT_FEW_GRANTS = _SELECT_GRANTS.limit(MOST_READ_WHOLE + 1)
_SELECT_WAITERS = select(token_waiters).where(token_waiters.c.pool.in_(_of_pools))
_NOTE_RELEASES = (
    update(token_pool_heads)
    .where(token_pool_heads.c.name.in_(_of_pools))
    .values(releases=token_pool_heads.c.releases + 1)
)
_SELECT_RELEASES = select(token_pool_heads.c.name, token_pool_heads.c.releases)
_SELECT_OF_TOKENS = _SELECT_GRANTS.where(_grants.token.in_(bindparam("tokens", expanding=True)))
_SELECT_OVER = _SELECT_GRANTS.where(_grants.expires_at <= bindparam("now"))
_place = (_grants.pool, *scope_columns(token_grants))
_run = (_grants.pool, _grants.project, _grants.domain, _grants.execution)
_totals = (func.sum(_grants.amount).label("amount"), func.count().label("number"))
_SUM_BY_PLACE = (
    select(*_place, *_totals, func.min(_grants.expires_at).label("soonest_end"))
    .where(_grants.pool.in_(_of_pools))
    .group_by(*_place)
)
_SUM_BY_EXECUTION = (
    select(*_run, *_totals)
    .where(_grants.pool.in_(_of_pools), _grants.execution.in_(bindparam("executions", expanding=True)))
    .group_by(*_run)
)
_DELETE_GRANTS = KeyedQuery(delete(token_grants), (token_grants.c.pool, token_grants.c.token))
_DELETE_WAITERS = KeyedQuery(delete(token_waiters), (token_waiters.c.pool, token_waiters.c.token))


def books(connection: Connection, numbers: Mapping[str, int]) -> dict[str, Book]:
    """All grants and waiters of pools, each with its last number."""
    pools = sorted(numbers)
    grants = _grants_of(connection, _SELECT_GRANTS, pools)
    waiters = _waiters_of(connection, pools)
    return {pool: Book(numbers[pool], grants[pool], waiters[pool]) for pool in pools}


def books_for(
    connection: Connection,
    numbers: Mapping[str, int],
    tokens: Collection[str],
    executions: Set[str],
    now: datetime,
    most_read_whole: int = MOST_READ_WHOLE,
) -> dict[str, Book]:
    """The waiters of pools, the grants of some tokens and those whose leases are over, and sums of the others."""
    pools = sorted(numbers)
    few = _grants_of(connection, _SELECT_FEW_GRANTS, pools)
    waiters = _waiters_of(connection, pools)
    if sum(map(len, few.values())) <= most_read_whole:
        return {pool: Book(numbers[pool], few[pool], waiters[pool]) for pool in pools}
    waiting = {waiter.execution for entries in waiters.values() for waiter in entries}
    totals = _totals_of(connection, pools, (executions | waiting) - {""})
    at_hand = _grants_of(connection, _SELECT_OF_TOKENS, pools, tokens=sorted(tokens))
    for pool, ended in _grants_of(
        connection, _SELECT_OVER, [pool for pool in pools if totals[pool].is_over(now)], now=now
    ).items():
        at_hand[pool] = [*{grant.token: grant for grant in (*at_hand[pool], *ended)}.values()]
    return {
        pool: Book(
            numbers[pool],
            at_hand[pool],
            waiters[pool],
            sums=Sums(
                used=totals[pool].amounts,
                soonest_end=totals[pool].soonest_end,
                others=_others(connection, pool, at_hand[pool], totals[pool].numbers),
            ),
        )
        for pool in pools
    }


@dataclass(kw_only=True)
class _Totals:
    """How many tokens and grants count in each bucket of a pool, and when the first lease ends."""

    amounts: Counter[str] = field(default_factory=Counter)
    numbers: Counter[str] = field(default_factory=Counter)
    soonest_end: datetime | None = None

    def is_over(self, now: datetime) -> bool:
        """Whether any lease is."""
        return self.soonest_end is not None and self.soonest_end <= now

    def add(self, bucket: str, row: AnyRow) -> None:
        self.amounts[bucket] += int(row.amount)
        self.numbers[bucket] += row.number


def _grants_of(
    connection: Connection, query: AnySelect, pools: Sequence[str], **parameters: object
) -> dict[str, list[Grant]]:
    grants: dict[str, list[Grant]] = {pool: [] for pool in pools}
    for row in connection.execute(query, {"pools": pools, **parameters}) if pools else ():
        grants[row.pool].append(_grant(row))
    return grants


def _waiters_of(connection: Connection, pools: Sequence[str]) -> dict[str, list[Waiter]]:
    waiters: dict[str, list[Waiter]] = {pool: [] for pool in pools}
    for row in connection.execute(_SELECT_WAITERS, {"pools": pools}) if pools else ():
        waiters[row.pool].append(_waiter(row))
    return waiters


def _totals_of(connection: Connection, pools: Sequence[str], executions: Collection[str]) -> dict[str, _Totals]:
    """By pool, what counts in every bucket but for those of other executions."""
    totals = {pool: _Totals() for pool in pools}
    for row in connection.execute(_SUM_BY_PLACE, {"pools": pools}):
        own = totals[row.pool]
        for bucket in buckets_of(scope_of(row), ""):
            own.add(bucket, row)
        own.soonest_end = min(row.soonest_end, own.soonest_end or row.soonest_end)
    if executions:
        for row in connection.execute(_SUM_BY_EXECUTION, {"pools": pools, "executions": sorted(executions)}):
            totals[row.pool].add(execution_bucket(Scope(row.domain, row.project), row.execution), row)
    return totals


def _others(
    connection: Connection, pool: str, at_hand: Sequence[Grant], numbers: Mapping[str, int]
) -> Callable[[str], tuple[list[Grant], int]]:
    """What finds the largest grants in a bucket that are not at hand, and how many there are."""
    tokens = sorted(grant.token for grant in at_hand)

    @cache  # they stay as they are while the pool is locked
    def others(bucket: str) -> tuple[list[Grant], int]:
        place, execution = counted_at(bucket)
        conditions = [_grants.pool == pool, _grants.token.not_in(tokens)]
        conditions += [_grants[key] == name for key, name in place.keys().items()]
        conditions += [_grants.execution == execution] if execution else []
        query = select(token_grants).where(*conditions).order_by(_grants.amount.desc(), _grants.number)
        rows = connection.execute(query.limit(MOST_HOLDERS))
        number = numbers.get(bucket, 0) - sum(bucket in grant.buckets for grant in at_hand)
        return [_grant(row) for row in rows], number

    return others


def save(connection: Connection, ledger: Ledger) -> None:
    """Write what a ledger has changed."""
    books, changes = ledger.books, ledger.changes
    numbers = [{"name": pool, "number": books[pool].number} for pool in sorted(changes.numbers)]
    update_all(connection, token_pool_heads, numbers, key="name")
    note_releases(connection, changes.freed)
    written = [
        Insertion(table=token_grants, rows=[_grant_row(grant) for grant in _present(ledger)], replaces=True),
        Insertion(
            table=token_waiters,
            rows=[
                _waiter_row(pool, books[pool].waiters[token])
                for pool, token in sorted(changes.waiters)
                if token in books[pool].waiters
            ],
            replaces=True,
        ),
    ]
    if removed := [(pool, token) for pool, token in sorted(changes.grants) if token not in books[pool].grants]:
        _DELETE_GRANTS.execute(connection, removed)
    if left := [(pool, token) for pool, token in sorted(changes.waiters) if token not in books[pool].waiters]:
        _DELETE_WAITERS.execute(connection, left)
    write_together(connection, written)


def note_releases(connection: Connection, pools: Iterable[str]) -> None:
    """Note that tokens of pools may have come free, by which agents are woken whose executions wait for some."""
    if freed := sorted(pools):
        connection.execute(_NOTE_RELEASES, {"pools": freed})


def releases(connection: Connection) -> dict[str, int]:
    """How often tokens of each pool may have come free."""
    return {row.name: row.releases for row in connection.execute(_SELECT_RELEASES)}


def _present(ledger: Ledger) -> Iterable[Grant]:
    """The grants that were made or renewed."""
    for pool, token in sorted(ledger.changes.grants):
        grant = ledger.books[pool].grants.get(token)
        if grant is not None:
            yield grant


def _place_columns(place: Scope) -> dict[str, str]:
    return {key: getattr(place, key) for key in SCOPE_KEYS}


def _grant_row(grant: Grant) -> dict[str, object]:
    values = {name: value for name, value in vars(grant).items() if name != "place"}
    return {**values, **_place_columns(grant.place)}


def _waiter_row(pool: str, waiter: Waiter) -> dict[str, object]:
    values = {name: value for name, value in vars(waiter).items() if name not in ("place", "standings")}
    standings = {name: [standing.status.value, standing.share] for name, standing in waiter.standings.items()}
    return {"pool": pool, **values, "standings": standings, **_place_columns(waiter.place)}


def _grant(row: AnyRow) -> Grant:
    return build(Grant, row, place=scope_of(row))


def _waiter(row: AnyRow) -> Waiter:
    standings = {pool: Standing(Status(status), share) for pool, (status, share) in row.standings.items()}
    return build(Waiter, row, place=scope_of(row), standings=standings)
