"""What every backend of token pools does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from admin.core.token_pools.answers import Allocation, Answer, NotHeld, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Grant, Release, Renewal
from admin.core.token_pools.lines import Room, Waiter


@dataclass(frozen=True, kw_only=True)
class PoolUsage:
    """Who holds tokens of a pool, the oldest first, and who waits for some, the next to be served first."""

    grants: tuple[Grant, ...]
    waiters: tuple[Waiter, ...]
    reason: str = ""  #: why nothing is granted to anyone now, where that is so

    @property
    def used(self) -> int:
        """How many tokens are held."""
        return sum(grant.amount for grant in self.grants)


@dataclass(frozen=True, kw_only=True)
class PoolTotals:
    """How much of a pool is held, and how many claims stand in line; executions that wait are counted as such."""

    used: int = 0
    asking: int = 0
    reason: str = ""  #: why nothing is granted to anyone now, where that is so


class TokensUnavailable(Exception):
    """The backend cannot be asked now; nothing is granted until it can."""


@dataclass(frozen=True, kw_only=True)
class Observer:
    """Who is told what a backend does."""

    answered: Callable[[Iterable[str], Answer], None] = lambda pools, answer: None  #: of claims on pools
    reclaimed: Callable[[list[Grant]], None] = lambda grants: None  #: of grants whose leases were over


#: Tells nobody.
NOBODY = Observer()


class TokenSession(Protocol):
    """Operations on some pools in a transaction of the caller's, or as near to it as the backend can come."""

    @property
    def rooms(self) -> Mapping[str, Room]:
        """What is used of each pool that is defined."""

    @property
    def releases(self) -> Mapping[str, int]:
        """How often tokens of each pool may have come free; another number later is worth another claim."""

    @property
    def pending(self) -> Sequence[Release]:
        """What is to be given back once the transaction is committed."""

    def weight(self, claim: Claim) -> float:
        """The weight of the project of one of the claims that the session was opened for."""

    def allocate(self, claim: Claim) -> Allocation:
        """Grant one of the claims that the session was opened for, or say what is full."""

    def renew(self, renewal: Renewal) -> Renewed | NotHeld:
        """Hold tokens for another lease."""

    def release(self, release: Release) -> None:
        """Give tokens back, or leave the line; what is not held stays so."""

    def save(self) -> None:
        """Write what the session has changed."""


class TokenBackend(Protocol):
    """Grants tokens, and keeps who has them. Every operation may be repeated after a failure."""

    def allocate(self, claim: Claim) -> Allocation:
        """Grant a claim, or say what is full."""

    def renew(self, renewal: Renewal) -> Renewed | NotHeld:
        """Hold tokens for another lease."""

    def release(self, release: Release) -> Released | NotHeld:
        """Give tokens back, or leave the line."""

    def usage(self, pools: Iterable[str], token: str | None = None) -> Mapping[str, PoolUsage]:
        """Who holds and who waits; of one token where it is given, which costs the same however many there are."""

    def totals(self, pools: Iterable[str]) -> Mapping[str, PoolTotals]:
        """The numbers of that alone, which cost the same however many hold."""

    def wake(self, pools: Iterable[str]) -> None:
        """Wake agents whose executions wait for tokens that a release has freed, where releases alone do not."""

    def session(
        self, connection: Connection, pools: Iterable[str], claims: Sequence[Claim], tokens: Iterable[str]
    ) -> TokenSession:
        """Operations on pools, which are locked where the backend locks them; those of the claims are among them.

        Besides the claims, only `tokens` are renewed and released.
        """

    def lock(self, connection: Connection, pools: Iterable[str]) -> None:
        """Lock pools of which several sessions of one transaction are opened, one after the other."""

    def finish(self, releases: Sequence[Release]) -> None:
        """Give back what was pending in sessions whose transactions are committed."""

    def probe(self) -> None:
        """Begin to find out when a backend answers again that did not, so that no sync waits for it."""
