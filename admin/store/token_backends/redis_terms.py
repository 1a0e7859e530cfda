"""What bounds claims on tokens in Redis, which may change while Redis is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from sqlalchemy import Connection

from admin.core.token_pools.claims import Claim
from admin.core.token_pools.limits import Terms
from admin.store import revisions
from admin.store.database import is_writing
from admin.store.dialects import is_sqlite
from admin.store.token_pools import KeptBounds

_Connect = Callable[[], AbstractContextManager[Connection]]


class CurrentTerms:
    """The terms of some claims, which are read again only after something was changed."""

    def __init__(
        self, claims: Sequence[Claim], kept: KeptBounds, connect: _Connect, read_head: Callable[[], int] | None
    ) -> None:
        """With what tells the last revision; None where nothing can be changed meanwhile."""
        self._claims = claims
        self._kept = kept
        self._connect = connect
        self._read_head = read_head
        self._read()

    @classmethod
    def within(cls, connection: Connection, claims: Sequence[Claim], kept: KeptBounds) -> CurrentTerms:
        """Those of claims in a transaction, which on SQLite keeps others from writing."""
        keeps_others_out = is_sqlite(connection) and is_writing(connection)
        read_head = None if keeps_others_out else lambda: revisions.head(connection)
        return cls(claims, kept, lambda: nullcontext(connection), read_head)

    def _read(self) -> None:
        if not self._claims:
            self._by_claim: dict[int, Mapping[str, Terms]] = {}
            return
        # First, so that a change before the terms are read is noticed.
        known = None if self._read_head is None else self._kept.at(self._read_head())
        if known is None or not known.know(self._claims):
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
        if self._read_head is None or self._read_head() == self._head:
            return False
        before = self.of(claim)
        self._read()
        return self.of(claim) != before

    def capacities(self) -> dict[str, int]:
        """Of all pools that are claimed and defined."""
        return {pool: own.capacity for terms in self._by_claim.values() for pool, own in terms.items()}
