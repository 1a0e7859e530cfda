"""What every backend of token pools does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from admin.core.token_pools.answers import Allocation, Answer, NotHeld, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Grant, Release, Renewal
from admin.core.token_pools.ledger import Book
from admin.core.token_pools.limits import WHOLE_POOL
from admin.core.token_pools.lines import Room, Waiter, in_order
from admin.store.token_sums import NOTHING, Sum

#: Grants of a pool that are read to be shown: the largest ones. The others are counted.
MOST_SHOWN = 1000


@dataclass(frozen=True, kw_only=True)
class PoolUsage:
    """Who holds tokens of a pool, the oldest first, and who waits for some, the next to be served first."""

    grants: tuple[Grant, ...]  #: no more than MOST_SHOWN
    waiters: tuple[Waiter, ...]
    sums: Mapping[str, Sum]  #: of all grants, by the bucket of each scope, and by what was asked for besides
    reason: str = ""  #: why nothing is granted to anyone now, where that is so

    @property
    def used(self) -> int:
        """How many tokens are held."""
        return self.sums.get(WHOLE_POOL, NOTHING).amount

    @property
    def holder_count(self) -> int:
        """How many grants there are."""
        return self.sums.get(WHOLE_POOL, NOTHING).number

    @property
    def amounts(self) -> Counter[str]:
        """How many tokens count in each bucket."""
        return Counter({bucket: own.amount for bucket, own in self.sums.items()})

    def book(self) -> Book:
        """The same as a ledger has it, which is asked and not saved."""
        return Book(0, self.grants, self.waiters, sums=_ShownSums(self.grants, self.sums))


@dataclass(frozen=True)
class _ShownSums:
    """What is known of the grants of a pool that are not shown."""

    grants: Sequence[Grant]
    sums: Mapping[str, Sum]

    def used(self, bucket: str) -> int:
        return self.sums.get(bucket, NOTHING).amount

    def soonest_end(self) -> None:
        """Not known of the others."""

    def others(self, bucket: str) -> tuple[tuple[Grant, ...], int]:
        shown = sum(bucket in grant.buckets for grant in self.grants)
        return (), self.sums.get(bucket, NOTHING).number - shown


def shown_usage(
    books: Mapping[str, Book], sums: Mapping[str, Mapping[str, Sum]], capacities: Mapping[str, int], reason: str = ""
) -> dict[str, PoolUsage]:
    """The grants and waiters of pools, in order."""
    rooms = {
        name: Room.of(capacities.get(name, 0), Counter({bucket: own.amount for bucket, own in sums[name].items()}))
        for name in books
    }
    return {
        name: PoolUsage(
            grants=tuple(sorted(book.grants.values(), key=lambda grant: grant.number)),
            waiters=tuple(in_order(book.waiters.values(), rooms)),
            sums=sums[name],
            reason=reason,
        )
        for name, book in books.items()
    }


def own_sums(book: Book) -> dict[str, Sum]:
    """The sums of a book that has all of its grants."""
    numbers = Counter(bucket for grant in book.grants.values() for bucket in grant.buckets)
    return {bucket: Sum(book.used[bucket], number) for bucket, number in numbers.items()}


@dataclass(frozen=True, kw_only=True)
class PoolTotals:
    """How much of a pool is held, and how many claims stand in line; executions that wait are counted as such."""

    used: int = 0
    asking: int = 0
    reason: str = ""  #: why nothing is granted to anyone now, or everything is


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

    def usage(self, pools: Iterable[str], buckets: Iterable[str] = ()) -> Mapping[str, PoolUsage]:
        """Who holds and who waits, with the sums of each scope, and of some buckets of executions besides."""

    def usage_of_token(self, pools: Iterable[str], token: str) -> Mapping[str, PoolUsage]:
        """What one token holds, and waits for; the sums are its own."""

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
