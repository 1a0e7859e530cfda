"""Lines for token pools: short ones are read whole, of long ones those that an operation is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from datetime import datetime
from functools import partial
from typing import NamedTuple

from sqlalchemy import BindParameter, Connection, and_, bindparam, func, or_, select

from admin.core.token_pools.lines import Age, Standing, Status, Waiter
from admin.core.token_pools.queues import SHORT_LINE, Queue, queue_of
from admin.store.keys import KeyedQuery, scope_of
from admin.store.sql_types import AnyRow, build
from admin.store.token_tables import token_waiters

#: Those of a queue that are read together: at first, and then.
_FIRST, _NEXT = 4, 64

_waiters = token_waiters.c
_of_pools: BindParameter[str] = bindparam("pools", expanding=True)
_SELECT = select(token_waiters).where(_waiters.pool.in_(_of_pools))
_SELECT_OVER = _SELECT.where(_waiters.expires_at <= bindparam("now"))
_SELECT_OF_TOKENS = KeyedQuery(select(token_waiters), (_waiters.pool, _waiters.token))
_SELECT_LENGTHS = (
    select(_waiters.pool, _waiters.queue, func.count().label("number"), func.min(_waiters.expires_at).label("ends"))
    .where(_waiters.pool.in_(_of_pools))
    .group_by(_waiters.pool, _waiters.queue)
)
_of_others = and_(
    _waiters.pool == bindparam("pool"),
    _waiters.queue.in_(bindparam("queues", expanding=True)),
    _waiters.token.not_in(bindparam("at_hand", expanding=True)),
)
_position = func.row_number().over(partition_by=_waiters.queue, order_by=(_waiters.since, _waiters.number))
_numbered = select(token_waiters, _position.label("position")).where(_of_others).subquery()
_SELECT_PART = (
    select(_numbered)
    .where(_numbered.c.position > bindparam("begin"), _numbered.c.position <= bindparam("end"))
    .order_by(_numbered.c.position)
)
_is_older = or_(
    _waiters.since < bindparam("since"),
    and_(_waiters.since == bindparam("since"), _waiters.number < bindparam("number")),
)
_COUNT_OLDER = select(func.count()).where(_of_others, _is_older)


class ReadLine(NamedTuple):
    """The line of a pool: those at hand, and the others, where it is long."""

    waiters: Sequence[Waiter]
    others: StoredLine | None = None


class StoredLine:
    """A long line of a locked pool but for those at hand; it stays as it is until the ledger is saved."""

    def __init__(
        self,
        connection: Connection,
        pool: str,
        lengths: Counter[str],
        at_hand: Sequence[AnyRow],
        foresee: Callable[[list[Waiter]], None],
    ) -> None:
        self._connection = connection
        self._pool = pool
        self._at_hand = [row.token for row in at_hand]
        self._foresee = foresee
        others = lengths - Counter(row.queue for row in at_hand)
        self.queues = {Queue.read(text): number for text, number in others.items()}
        self._read: dict[Queue, list[Waiter]] = {}

    def load(self, queues: Iterable[Queue]) -> None:
        self._read_on([queue for queue in queues if queue not in self._read], 0, _FIRST)

    def waiter(self, queue: Queue, position: int) -> Waiter:
        known = len(self._read.get(queue, ()))
        if position >= known:
            self._read_on([queue], known, known + (_NEXT if known else _FIRST))
        return self._read[queue][position]

    def count_older(self, queues: Iterable[Queue], age: Age) -> int:
        since, number = age
        parameters = {**self._parameters(queues), "since": since, "number": number}
        return self._connection.execute(_COUNT_OLDER, parameters).scalar_one()

    def _read_on(self, queues: Collection[Queue], begin: int, end: int) -> None:
        """Read those of each queue from after one position to another."""
        if not queues:
            return
        parameters = {**self._parameters(queues), "begin": begin, "end": end}
        rows = self._connection.execute(_SELECT_PART, parameters).all()
        waiters = [_waiter(row) for row in rows]
        self._foresee(waiters)
        for row, waiter in zip(rows, waiters, strict=True):
            self._read.setdefault(Queue.read(row.queue), []).append(waiter)

    def _parameters(self, queues: Iterable[Queue]) -> dict[str, object]:
        return {"pool": self._pool, "queues": [queue.text for queue in queues], "at_hand": self._at_hand}


def whole(connection: Connection, pools: Sequence[str]) -> dict[str, list[Waiter]]:
    """Everybody who waits for some pools."""
    return _by_pool(pools, connection.execute(_SELECT, {"pools": pools}) if pools else ())


def of_tokens(connection: Connection, pools: Iterable[str], keys: Iterable[tuple[str, str]]) -> dict[str, list[Waiter]]:
    """Those of some tokens that wait for some pools."""
    return _by_pool(pools, _SELECT_OF_TOKENS.execute(connection, keys))


def read(
    connection: Connection,
    pools: Collection[str],
    keys: Collection[tuple[str, str]],
    claimed: Collection[str],
    together: Set[str],
    now: datetime,
    foresee: Callable[[str, list[Waiter]], None],
) -> dict[str, ReadLine]:
    """Who waits for locked pools, as far as some tokens need it, and claims on some of the pools.

    No line is read in parts that is claimed together with others, or in which somebody waits for several pools.
    `foresee` is told of those whose caps will be looked at.
    """
    lengths, ends = _lengths(connection, claimed)
    long = {
        pool for pool, own in lengths.items() if own.total() > SHORT_LINE and None not in own and pool not in together
    }
    rows: list[AnyRow] = []
    if short := sorted(lengths.keys() - long):
        rows += connection.execute(_SELECT, {"pools": short})
    if of_tokens := sorted(key for key in keys if key[0] in long or key[0] not in claimed):
        rows += _SELECT_OF_TOKENS.execute(connection, of_tokens)
    if over := sorted(pool for pool in long if ends[pool] <= now):
        rows += connection.execute(_SELECT_OVER, {"pools": over, "now": now})
    at_hand = {(row.pool, row.token): row for row in rows}.values()
    waiters = _by_pool(pools, at_hand)
    lines = {
        pool: StoredLine(
            connection, pool, lengths[pool], [row for row in at_hand if row.pool == pool], partial(foresee, pool)
        )
        for pool in long
    }
    return {pool: ReadLine(waiters[pool], lines.get(pool)) for pool in pools}


def _lengths(connection: Connection, pools: Collection[str]) -> tuple[dict[str, Counter[str]], dict[str, datetime]]:
    """How many stand in each queue of pools where anybody waits, and when the first would leave the line."""
    lengths: dict[str, Counter[str]] = {}
    ends: dict[str, datetime] = {}
    for row in connection.execute(_SELECT_LENGTHS, {"pools": sorted(pools)}) if pools else ():
        lengths.setdefault(row.pool, Counter())[row.queue] = row.number
        ends[row.pool] = min(ends.get(row.pool, row.ends), row.ends)
    return lengths, ends


def waiter_row(pool: str, waiter: Waiter) -> dict[str, object]:
    """What is stored of one that waits."""
    values = {name: value for name, value in vars(waiter).items() if name not in ("place", "standings")}
    standings = {name: [standing.status.value, standing.share] for name, standing in waiter.standings.items()}
    queue = queue_of(waiter.amounts, waiter.caps, waiter.place, waiter.priority, waiter.weight)
    own = {"standings": standings, "queue": None if queue is None else queue.text}
    return {"pool": pool, **values, **own, **waiter.place._asdict()}


def _by_pool(pools: Iterable[str], rows: Iterable[AnyRow]) -> dict[str, list[Waiter]]:
    by_pool: dict[str, list[Waiter]] = {pool: [] for pool in pools}
    for row in rows:
        by_pool[row.pool].append(_waiter(row))
    return by_pool


def _waiter(row: AnyRow) -> Waiter:
    standings = {pool: Standing(Status(status), share) for pool, (status, share) in row.standings.items()}
    return build(Waiter, row, place=scope_of(row), standings=standings)
