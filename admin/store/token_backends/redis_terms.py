"""What bounds claims on tokens in Redis, which may change while Redis is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from sqlalchemy import Connection

from admin.core.token_pools.claims import Claim
from admin.core.token_pools.limits import Terms
from admin.store import revisions
from admin.store.database import Database, is_writing
from admin.store.dialects import is_sqlite
from admin.store.token_pools import KeptBounds

_Connect = Callable[[], AbstractContextManager[Connection]]


class CurrentTerms:
    """The terms of some claims, which are read again only after something was changed."""

    def __init__(
        self, claims: Sequence[Claim], kept: KeptBounds, connect: _Connect, connect_to_compare: _Connect | None
    ) -> None:
        """None where nothing can be changed meanwhile, so that nothing need be compared."""
        self._claims = claims
        self._kept = kept
        self._connect = connect
        self._connect_to_compare = connect_to_compare
        self._read()

    @classmethod
    def of_database(cls, claim: Claim, database: Database, kept: KeptBounds) -> CurrentTerms:
        """Those of a claim that no transaction waits for."""
        return cls([claim], kept, database.reading, database.autocommit)

    @classmethod
    def within(cls, connection: Connection, claims: Sequence[Claim], kept: KeptBounds) -> CurrentTerms:
        """Those of claims in a transaction, which on SQLite keeps others from writing."""

        def connect() -> AbstractContextManager[Connection]:
            return nullcontext(connection)

        return cls(claims, kept, connect, None if is_sqlite(connection) and is_writing(connection) else connect)

    def _read(self) -> None:
        if not self._claims:
            self._by_claim: dict[int, Mapping[str, Terms]] = {}
            return
        with (self._connect_to_compare or self._connect)() as connection:
            # First, so that a change before the terms are read is noticed.
            known = self._kept.at(revisions.head(connection))
        if not known.know(self._claims):
            with self._connect() as connection:
                known = self._kept.at(revisions.head(connection))
                known.look_up(connection, self._claims)
        self._head = known.head
        self._by_claim = {id(claim): known.terms(claim) for claim in self._claims}

    def of(self, claim: Claim) -> Mapping[str, Terms]:
        """Those of one of the claims, as they were read last."""
        return self._by_claim[id(claim)]

    def have_changed(self, claim: Claim) -> bool:
        """Whether the terms of a claim are others now; all are read again if anything was changed."""
        if self._connect_to_compare is None:
            return False
        with self._connect_to_compare() as connection:
            if revisions.head(connection) == self._head:
                return False
        before = self.of(claim)
        self._read()
        return self.of(claim) != before

    def capacities(self) -> dict[str, int]:
        """Of all pools that are claimed and defined."""
        return {pool: own.capacity for terms in self._by_claim.values() for pool, own in terms.items()}
