"""Tokens in the admin's own database: one short transaction for each operation, or for all that came at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sqlalchemy import Connection

from admin.core.token_pools.answers import Allocation, Answer, NotHeld, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import token_pool_of
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.ledger import Ledger
from admin.core.token_pools.limits import EXECUTION
from admin.core.token_pools.lines import Room, in_order
from admin.core.token_pools.steadiness import Steadiness
from admin.store import token_grants, token_pools
from admin.store.database import Database
from admin.store.group_commit import GroupCommit
from admin.store.token_backends.base import NOBODY, Observer, PoolUsage
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
        most_read_whole: int = token_grants.MOST_READ_WHOLE,
    ) -> None:
        self._database = database
        self._monotonic = monotonic
        self._observer = observer
        self._most_read_whole = most_read_whole  #: as many grants as are read in place of sums
        self._steadiness = Steadiness()
        self._group_commit: GroupCommit[Operation, Answer] = GroupCommit(
            self._write, _MAX_OPERATIONS, database.write_lock
        )

    def allocate(self, claim: Claim) -> Allocation:
        return self._submit(claim)  # type: ignore[return-value]  # each operation has answers of its own

    def renew(self, renewal: Renewal) -> Renewed | NotHeld:
        return self._submit(renewal)  # type: ignore[return-value]

    def release(self, release: Release) -> Released | NotHeld:
        return self._submit(release)  # type: ignore[return-value]

    def usage(self, pools: Iterable[str]) -> Mapping[str, PoolUsage]:
        with self._database.reading() as connection:
            books = token_grants.books(connection, dict.fromkeys(pools, 0))
            stored = TOKEN_POOLS.some(connection, books)
        Ledger(books, self._database.clock(), steady_seconds=self._look())
        rooms = {
            name: Room.of(token_pool_of(name, stored[name].payload).capacity if name in stored else 0, book.used)
            for name, book in books.items()
        }
        return {
            name: PoolUsage(
                grants=tuple(sorted(book.grants.values(), key=lambda grant: grant.number)),
                waiters=tuple(in_order(book.waiters.values(), rooms)),
            )
            for name, book in books.items()
        }

    def apply(self, connection: Connection, operations: list[Operation]) -> list[Answer]:
        """Do several operations, one after the other, in a transaction of the caller's."""
        pools = {pool for operation in operations for pool in _pools_of(operation)}
        numbers = token_pools.lock(connection, pools)
        claims = [operation for operation in operations if isinstance(operation, Claim)]
        terms_of_claims = token_pools.terms(connection, claims)
        bounded = {
            claim.execution
            for claim, terms in zip(claims, terms_of_claims, strict=True)
            if any(limit.level == EXECUTION for own in terms.values() for limit in own.limits)
        }
        ledger = self._ledger(connection, numbers, {operation.token for operation in operations}, bounded)
        terms = iter(terms_of_claims)
        answers: list[Answer] = []
        for operation in operations:
            match operation:
                case Claim():
                    answers.append(ledger.allocate(operation, next(terms)))
                case Renewal():
                    answers.append(ledger.renew(operation))
                case Release():
                    answers.append(ledger.release(operation))
        token_grants.save(connection, ledger)
        if ledger.changes.reclaimed:
            self._observer.reclaimed(ledger.changes.reclaimed)
        for operation, answer in zip(operations, answers, strict=True):
            if isinstance(operation, Claim):
                self._observer.answered(operation.amounts, answer)
        return answers

    def _ledger(
        self, connection: Connection, numbers: Mapping[str, int], tokens: set[str], executions: set[str]
    ) -> Ledger:
        """The books of locked pools, as far as some tokens and executions need them."""
        now, steady_seconds = self._database.clock(), self._look()
        if not steady_seconds:  # the clock has jumped, or may have: every deadline is to be checked
            books = token_grants.books(connection, numbers)
        else:
            books = token_grants.books_for(connection, numbers, tokens, executions, now, self._most_read_whole)
        return Ledger(books, now, steady_seconds=steady_seconds)

    def _submit(self, operation: Operation) -> Answer:
        return self._group_commit.submit([operation])[0]

    def _write(self, operations: list[Operation]) -> list[Answer]:
        with self._database.writing() as connection:
            return self.apply(connection, operations)

    def _look(self) -> float:
        return self._steadiness.look(self._database.clock(), self._monotonic())


def _pools_of(operation: Operation) -> Iterable[str]:
    return operation.pools if isinstance(operation, Release) else operation.amounts
