"""Tokens in the admin's own database: one short transaction for each operation, or for all that came at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event

from admin.core.token_pools.answers import Allocation, Answer, NotHeld, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import token_pool_of
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.ledger import Ledger
from admin.core.token_pools.limits import Terms, share_bucket, weight_of
from admin.core.token_pools.lines import Room
from admin.core.token_pools.steadiness import Steadiness
from admin.store import token_grants, token_pools, token_sums
from admin.store.database import Database
from admin.store.group_commit import GroupCommit
from admin.store.token_backends.base import MOST_SHOWN, NOBODY, Observer, PoolTotals, PoolUsage, own_sums, shown_usage
from admin.store.token_pools import KeptBounds
from admin.store.token_tables import TOKEN_POOLS

Operation = Claim | Renewal | Release
Result = TypeVar("Result")
#: Operations that are written in one transaction.
_MAX_OPERATIONS = 64


class DatabaseTokens:
    """The backend `database`. Pools are locked by name, so that no two transactions wait for each other."""

    def __init__(
        self,
        database: Database,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        observer: Observer = NOBODY,
        reads_whole: bool = False,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._observer = observer
        self._reads_whole = reads_whole  #: whether all grants are read each time, and no sums
        self._steadiness = Steadiness()
        self._kept = KeptBounds()
        self._checked: dict[str, float] = {}  #: since when the clock was steady when a pool was read whole last
        self._checked_in: WeakKeyDictionary[Connection, dict[str, float]] = WeakKeyDictionary()  #: not committed yet
        event.listen(database.engine, "commit", self._note_commit)
        self._group_commit: GroupCommit[Operation, Answer] = GroupCommit(
            self._write, _MAX_OPERATIONS, database.write_lock
        )

    def allocate(self, claim: Claim) -> Allocation:
        answer = self._submit(claim)
        assert not isinstance(answer, Renewed | Released | NotHeld)
        return answer

    def renew(self, renewal: Renewal) -> Renewed | NotHeld:
        answer = self._submit(renewal)
        assert isinstance(answer, Renewed | NotHeld)
        return answer

    def release(self, release: Release) -> Released | NotHeld:
        answer = self._submit(release)
        assert isinstance(answer, Released | NotHeld)
        return answer

    def usage(self, pools: Iterable[str], buckets: Iterable[str] = ()) -> Mapping[str, PoolUsage]:
        names, now, steady_seconds = sorted(pools), self._database.clock(), self._look()
        with self._database.reading() as connection:
            books = token_grants.books_shown(connection, names, MOST_SHOWN, now, steady_seconds)
            sums = token_sums.live(connection, names, buckets, now, steady_seconds)
            stored = TOKEN_POOLS.some(connection, names)
        Ledger(books, now, steady_seconds=steady_seconds)
        for book in books.values():
            for token, grant in book.grants.items():
                book.grants[token] = replace(grant, expires_at=grant.taken_back_at(now, steady_seconds))
        capacities = {name: token_pool_of(name, pool.payload).capacity for name, pool in stored.items()}
        return shown_usage(books, sums, capacities)

    def usage_of_token(self, pools: Iterable[str], token: str) -> Mapping[str, PoolUsage]:
        with self._database.reading() as connection:
            books = token_grants.books_of_token(connection, sorted(pools), token)
        Ledger(books, self._database.clock(), steady_seconds=self._look())
        return shown_usage(books, {name: own_sums(book) for name, book in books.items()}, {})

    def totals(self, pools: Iterable[str]) -> Mapping[str, PoolTotals]:
        names = sorted(pools)
        if not names:
            return {}
        with self._database.reading() as connection:
            now, steady_seconds = self._database.clock(), self._look()
            used = token_sums.used(connection, names)
            over = token_grants.amounts_over(connection, names, now, steady_seconds)
            asking = token_grants.asking(connection, names, now)
        return {name: PoolTotals(used=used[name] - over[name], asking=asking[name]) for name in names}

    def wake(self, pools: Iterable[str]) -> None:
        """Nothing: each release says so."""

    def apply(self, connection: Connection, operations: list[Operation]) -> list[Answer]:
        """Do several operations, one after the other, in a transaction of the caller's."""
        pools = {pool for operation in operations for pool in _pools_of(operation)}
        claims = [operation for operation in operations if isinstance(operation, Claim)]
        tokens = {(pool, operation.token) for operation in operations for pool in _pools_of(operation)}
        session = self._session(connection, pools, claims, tokens)
        answers: list[Answer] = []
        for operation in operations:
            match operation:
                case Claim():
                    answers.append(session.allocate(operation))
                case Renewal():
                    answers.append(session.renew(operation))
                case Release():
                    answers.append(session.ledger.release(operation))
        session.save()
        return answers

    def session(
        self, connection: Connection, pools: Iterable[str], claims: Sequence[Claim], tokens: Iterable[str]
    ) -> DatabaseSession:
        names, own = sorted(pools), {*tokens, *(claim.token for claim in claims)}
        return self._session(connection, names, claims, {(pool, token) for pool in names for token in own})

    def _session(
        self, connection: Connection, pools: Iterable[str], claims: Sequence[Claim], tokens: Set[tuple[str, str]]
    ) -> DatabaseSession:
        """Operations on some tokens in a transaction of the caller's, which holds the pools from now on."""
        heads = token_pools.lock_heads(connection, pools)
        # One that was made since the locks were taken is there for the next claim.
        terms = [
            {pool: own for pool, own in each.items() if pool in heads}
            for each in token_pools.terms(connection, claims, self._kept)
        ]
        numbers = {name: head.number for name, head in heads.items()}
        together = {pool for claim in claims if len(claim.amounts) > 1 for pool in claim.amounts}
        ledger = self._ledger(connection, numbers, tokens, _claimed(claims, terms), together)
        releases = {name: head.releases for name, head in heads.items()}
        return DatabaseSession(connection, ledger, claims, terms, releases, self._observer)

    def lock(self, connection: Connection, pools: Iterable[str]) -> None:
        token_pools.lock(connection, pools)

    def finish(self, releases: Sequence[Release]) -> None:
        """Nothing: everything is done when the transaction is committed."""

    def probe(self) -> None:
        """Nothing: it answers if the database does."""

    def _ledger(
        self,
        connection: Connection,
        numbers: Mapping[str, int],
        tokens: Set[tuple[str, str]],
        claimed: Mapping[str, Set[str]],
        together: Set[str],
    ) -> Ledger:
        """The books of locked pools, as far as some tokens need them; claims by the buckets that bound them.

        Of some pools claims are made together with others.
        """
        now, steady_seconds = self._database.clock(), self._look()
        since = self._steadiness.since
        # Where the clock has jumped, or may have, every deadline is to be checked, and the sums as well.
        known = self._checked | self._checked_in.get(connection, {})
        whole = {name: number for name, number in numbers.items() if known.get(name) != since}
        if self._reads_whole:
            whole = dict(numbers)
        books = token_grants.books(connection, whole)
        token_sums.rebuild(connection, {name: book.grants.values() for name, book in books.items()})
        checked = self._checked_in.get(connection, {})
        self._checked_in[connection] = checked | dict.fromkeys(books, since)
        rest = numbers.keys() - whole.keys()
        books |= token_grants.books_for(
            connection,
            {name: numbers[name] for name in rest},
            {key for key in tokens if key[0] in rest},
            {pool: buckets for pool, buckets in claimed.items() if pool in rest},
            together,
            now,
        )
        return Ledger(books, now, steady_seconds=steady_seconds)

    def _note_commit(self, connection: Connection) -> None:
        """Read the pools whole no more that a transaction has checked; one that is rolled back has changed nothing."""
        if checked := self._checked_in.pop(connection, None):
            self._checked |= checked

    def _submit(self, operation: Operation) -> Answer:
        return self._group_commit.submit([operation])[0]

    def _write(self, operations: list[Operation]) -> list[Answer]:
        with self._database.writing() as connection:
            return self.apply(connection, operations)

    def _look(self) -> float:
        return self._steadiness.look(self._database.clock(), self._monotonic())


class DatabaseSession:
    """The ledger of some pools that a transaction has locked."""

    pending: tuple[Release, ...] = ()

    def __init__(
        self,
        connection: Connection,
        ledger: Ledger,
        claims: Sequence[Claim],
        terms: Sequence[Mapping[str, Terms]],
        releases: Mapping[str, int],
        observer: Observer,
    ) -> None:
        self.ledger = ledger
        self._before = releases
        self._connection = connection
        self._observer = observer
        self._answered: list[tuple[Claim, Allocation]] = []
        self._terms = {id(claim): own for claim, own in zip(claims, terms, strict=True)}
        capacities = {pool: own.capacity for each in terms for pool, own in each.items()}
        #: The counts are those of the ledger, and change with it.
        self.rooms = {pool: Room.of(capacity, ledger.books[pool].used) for pool, capacity in capacities.items()}

    @property
    def releases(self) -> Mapping[str, int]:
        return {pool: number + (pool in self.ledger.changes.freed) for pool, number in self._before.items()}

    def weight(self, claim: Claim) -> float:
        return weight_of(self._terms[id(claim)])

    def allocate(self, claim: Claim) -> Allocation:
        answer = self.ledger.allocate(claim, self._terms[id(claim)])
        self._answered.append((claim, answer))
        return answer

    def renew(self, renewal: Renewal) -> Renewed | NotHeld:
        return self.ledger.renew(renewal)

    def release(self, release: Release) -> None:
        self.ledger.release(release)

    def save(self) -> None:
        token_grants.save(self._connection, self.ledger)
        if self.ledger.changes.reclaimed:
            self._observer.reclaimed(self.ledger.changes.reclaimed)
        for claim, answer in self._answered:
            self._observer.answered(claim.amounts, answer)


def _claimed(claims: Sequence[Claim], terms: Sequence[Mapping[str, Terms]]) -> dict[str, set[str]]:
    """The buckets that count for claims on each pool."""
    claimed: dict[str, set[str]] = {}
    for claim, own in zip(claims, terms, strict=True):
        for pool, bounds in own.items():
            buckets = claimed.setdefault(pool, {share_bucket(claim.place)})
            buckets.update(limit.bucket for limit in bounds.limits)
    return claimed


def _pools_of(operation: Operation) -> Iterable[str]:
    return operation.pools if isinstance(operation, Release) else operation.amounts
