"""Grants of tokens and those that wait for some, as the database keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import datetime
from functools import cached_property

from sqlalchemy import BindParameter, Connection, Text, bindparam, delete, func, not_, or_, select, update

from admin.core.settings.scopes import SCOPE_KEYS
from admin.core.token_pools.answers import MOST_HOLDERS
from admin.core.token_pools.claims import EXECUTION_PREFIX, RUNS_ALREADY
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.ledger import Book, Ledger
from admin.core.token_pools.limits import WHOLE_POOL, counted_at, share_bucket
from admin.core.token_pools.lines import Waiter
from admin.store import token_lines, token_sums
from admin.store.batches import Insertion, update_all, write_together
from admin.store.keys import KeyedQuery, scope_of
from admin.store.sql_types import AnyRow, AnySelect, build
from admin.store.token_lines import ReadLine
from admin.store.token_sums import KeptSums
from admin.store.token_tables import token_grants, token_pool_heads, token_waiters

#: Of pools with no more grants than this, all are read to find those in several buckets.
_MOST_READ_WHOLE = 64

_grants, _waiters = token_grants.c, token_waiters.c
_of_pools: BindParameter[str] = bindparam("pools", expanding=True)
_SELECT_GRANTS = select(token_grants).where(_grants.pool.in_(_of_pools))
_SELECT_OVER = _SELECT_GRANTS.where(_grants.expires_at <= bindparam("now"))
_SELECT_OF_TOKENS = KeyedQuery(select(token_grants), (_grants.pool, _grants.token))
_SELECT_LARGEST = (
    select(token_grants)
    .where(_grants.pool == bindparam("pool"))
    .where(*(or_(bindparam(key, type_=Text) == "", _grants[key] == bindparam(key)) for key in SCOPE_KEYS))
    .order_by(_grants.amount.desc(), _grants.number)
    .limit(bindparam("most"))
)
_SELECT_LARGEST_OF_EXECUTION = _SELECT_LARGEST.where(_grants.execution == bindparam("execution"))
_SELECT_SHOWN = (
    select(token_grants)
    .where(_grants.pool == bindparam("pool"), not_(token_sums.IS_OVER))
    .order_by(_grants.amount.desc(), _grants.number)
    .limit(bindparam("most"))
)
_SELECT_SOONEST_END = select(func.min(_grants.expires_at)).where(_grants.pool == bindparam("pool"))
_SELECT_AMOUNTS_OVER = (
    select(_grants.pool, func.sum(_grants.amount).label("amount"))
    .where(_grants.pool.in_(_of_pools), token_sums.IS_OVER)
    .group_by(_grants.pool)
)
_SELECT_ASKING = (
    select(_waiters.pool, func.count().label("number"))
    .where(
        _waiters.pool.in_(_of_pools),
        _waiters.expires_at > bindparam("now"),
        or_(not_(_waiters.token.startswith(EXECUTION_PREFIX, autoescape=True)), _waiters.priority == RUNS_ALREADY),
    )
    .group_by(_waiters.pool)
)
_NOTE_RELEASES = (
    update(token_pool_heads)
    .where(token_pool_heads.c.name.in_(_of_pools))
    .values(releases=token_pool_heads.c.releases + 1)
)
_SELECT_RELEASES = select(token_pool_heads.c.name, token_pool_heads.c.releases)
_DELETE_GRANTS = KeyedQuery(delete(token_grants), (_grants.pool, _grants.token))
_DELETE_WAITERS = KeyedQuery(delete(token_waiters), (_waiters.pool, _waiters.token))


def books(connection: Connection, numbers: Mapping[str, int]) -> dict[str, Book]:
    """All grants and waiters of pools, each with its last number."""
    pools = sorted(numbers)
    grants = _by_pool(pools, map(_grant, _some(connection, _SELECT_GRANTS, pools)))
    waiters = token_lines.whole(connection, pools)
    return {pool: Book(numbers[pool], grants[pool], waiters[pool]) for pool in pools}


def books_shown(
    connection: Connection, pools: Sequence[str], most: int, now: datetime, steady_seconds: float
) -> dict[str, Book]:
    """The largest grants of pools whose leases are not over, and all waiters."""
    parameters = {"most": most, **token_sums.over(now, steady_seconds)}
    grants = {pool: map(_grant, connection.execute(_SELECT_SHOWN, {"pool": pool, **parameters})) for pool in pools}
    waiters = token_lines.whole(connection, pools)
    return {pool: Book(0, grants[pool], waiters[pool]) for pool in pools}


def books_of_token(connection: Connection, pools: Sequence[str], token: str) -> dict[str, Book]:
    """What one token holds in pools, and waits for."""
    keys = [(pool, token) for pool in pools]
    grants = _by_pool(pools, map(_grant, _SELECT_OF_TOKENS.execute(connection, keys)))
    waiters = token_lines.of_tokens(connection, pools, keys)
    return {pool: Book(0, grants[pool], waiters[pool]) for pool in pools}


def books_for(
    connection: Connection,
    numbers: Mapping[str, int],
    keys: Collection[tuple[str, str]],
    claimed: Mapping[str, Set[str]],
    together: Set[str],
    now: datetime,
) -> dict[str, Book]:
    """The grants of some pools and tokens, and sums of the others.

    Of the pools of claims, with the buckets that bound these, also who waits and the grants whose leases are over; of
    `together` some claim names several.
    """
    pools = sorted(numbers)
    grants = [_grant(row) for row in _SELECT_OF_TOKENS.execute(connection, sorted(keys)).all()]
    grants += [_grant(row) for row in _some(connection, _SELECT_OVER, sorted(claimed), now=now)]
    at_hand = _by_pool(pools, {(grant.pool, grant.token): grant for grant in grants}.values())
    sums = KeptSums(connection)

    def foresee(pool: str, waiters: Iterable[Waiter]) -> None:
        sums.foresee({pool: _buckets_of(waiters)})

    lines = token_lines.read(connection, pools, keys, claimed.keys(), together, now, foresee)
    sums.foresee({pool: {WHOLE_POOL, *buckets, *_buckets_in(lines[pool])} for pool, buckets in claimed.items()})
    return {
        pool: Book(
            numbers[pool],
            at_hand[pool],
            lines[pool].waiters,
            sums=_PoolSums(connection, pool, at_hand[pool], sums),
            line=lines[pool].others,
        )
        for pool in pools
    }


def _buckets_of(waiters: Iterable[Waiter]) -> set[str]:
    """What is looked at of those that wait."""
    shares = {share_bucket(waiter.place) for waiter in waiters}
    return shares | {bucket for waiter in waiters for caps in waiter.caps.values() for bucket in caps}


def _buckets_in(line: ReadLine) -> set[str]:
    """The same of all in a line, as far as it is read."""
    return _buckets_of(line.waiters) | {queue.share_bucket for queue in (line.others.queues if line.others else ())}


class _PoolSums:
    """What is known of a locked pool's grants that are not at hand; it stays as it is until the ledger is saved."""

    def __init__(self, connection: Connection, pool: str, at_hand: Sequence[Grant], sums: KeptSums) -> None:
        self._connection = connection
        self._pool = pool
        self._at_hand = at_hand
        self._sums = sums
        self._others: dict[str, list[Grant]] = {}

    def used(self, bucket: str) -> int:
        return self._sums.of(self._pool, bucket).amount

    def soonest_end(self) -> datetime | None:
        return self._soonest_end

    def others(self, bucket: str) -> tuple[list[Grant], int]:
        if bucket not in self._others:
            self._others[bucket] = self._largest(bucket)
        number = self._sums.of(self._pool, bucket).number
        return self._others[bucket], number - sum(bucket in grant.buckets for grant in self._at_hand)

    @cached_property
    def _soonest_end(self) -> datetime | None:
        if self._all is not None:
            return min((grant.expires_at for grant in self._all), default=None)
        ends: datetime | None = self._connection.scalar(_SELECT_SOONEST_END, {"pool": self._pool})
        return ends

    @cached_property
    def _all(self) -> list[Grant] | None:
        """All grants, where they are few: one statement in place of one for each bucket."""
        if self._sums.of(self._pool, WHOLE_POOL).number > _MOST_READ_WHOLE:
            return None
        return [_grant(row) for row in _some(self._connection, _SELECT_GRANTS, [self._pool])]

    def _largest(self, bucket: str) -> list[Grant]:
        at_hand = {grant.token for grant in self._at_hand}
        if self._all is not None:
            grants = [grant for grant in self._all if grant.token not in at_hand and bucket in grant.buckets]
            return sorted(grants, key=lambda grant: (-grant.amount, grant.number))[:MOST_HOLDERS]
        place, execution = counted_at(bucket)
        keys = dict(zip(SCOPE_KEYS, place.sort_key, strict=True))
        parameters = {"pool": self._pool, "most": MOST_HOLDERS + len(at_hand), **keys}
        if execution:
            rows = self._connection.execute(_SELECT_LARGEST_OF_EXECUTION, {**parameters, "execution": execution})
        else:
            rows = self._connection.execute(_SELECT_LARGEST, parameters)
        return [_grant(row) for row in rows if row.token not in at_hand][:MOST_HOLDERS]


def _some(connection: Connection, query: AnySelect, pools: Sequence[str], **parameters: object) -> Iterable[AnyRow]:
    return connection.execute(query, {"pools": pools, **parameters}).all() if pools else ()


def _by_pool(pools: Iterable[str], grants: Iterable[Grant]) -> dict[str, list[Grant]]:
    by_pool: dict[str, list[Grant]] = {pool: [] for pool in pools}
    for grant in grants:
        by_pool[grant.pool].append(grant)
    return by_pool


def save(connection: Connection, ledger: Ledger) -> None:
    """Write what a ledger has changed."""
    books, changes = ledger.books, ledger.changes
    numbers = [{"name": pool, "number": books[pool].number} for pool in sorted(changes.numbers)]
    update_all(connection, token_pool_heads, numbers, key="name")
    note_releases(connection, changes.freed)
    written = [
        token_sums.changes(books),
        Insertion(table=token_grants, rows=[_grant_row(grant) for grant in _present(ledger)], replaces=True),
        Insertion(
            table=token_waiters,
            rows=[
                token_lines.waiter_row(pool, books[pool].waiters[token])
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


def amounts_over(connection: Connection, pools: Iterable[str], now: datetime, steady_seconds: float) -> Counter[str]:
    """How many tokens of pools are held by leases that are over, as a ledger would take them back."""
    parameters = {"pools": sorted(pools), **token_sums.over(now, steady_seconds)}
    return Counter({row.pool: int(row.amount) for row in connection.execute(_SELECT_AMOUNTS_OVER, parameters)})


def asking(connection: Connection, pools: Iterable[str], now: datetime) -> Counter[str]:
    """How many stand in line for pools, but for executions that wait for their leases: those are counted as such."""
    rows = connection.execute(_SELECT_ASKING, {"pools": sorted(pools), "now": now})
    return Counter({row.pool: row.number for row in rows})


def releases(connection: Connection) -> dict[str, int]:
    """How often tokens of each pool may have come free."""
    return {row.name: row.releases for row in connection.execute(_SELECT_RELEASES)}


def _present(ledger: Ledger) -> Iterable[Grant]:
    """The grants that were made or renewed."""
    for pool, token in sorted(ledger.changes.grants):
        grant = ledger.books[pool].grants.get(token)
        if grant is not None:
            yield grant


def _grant_row(grant: Grant) -> dict[str, object]:
    values = {name: value for name, value in vars(grant).items() if name != "place"}
    return {**values, **grant.place._asdict()}


def _grant(row: AnyRow) -> Grant:
    return build(Grant, row, place=scope_of(row))
