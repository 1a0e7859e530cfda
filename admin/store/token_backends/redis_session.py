"""Sessions of Redis: what a transaction of the admin's asks of it, before and after it is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from admin.core.token_pools.answers import Allocation, Granted, NotHeld, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.limits import share_bucket, weight_of
from admin.core.token_pools.lines import Room
from admin.store.token_backends.base import Observer, TokensUnavailable
from admin.store.token_backends.redis_terms import CurrentTerms


class SessionBackend(Protocol):
    """What a session asks of the backend; briefly, for a transaction waits."""

    @property
    def failure(self) -> TokensUnavailable | None: ...

    def allocate_within(self, claim: Claim, terms: CurrentTerms, *, brief: bool) -> Allocation: ...
    def renew(self, renewal: Renewal, *, brief: bool) -> Renewed | NotHeld: ...
    def used(self, pools: Iterable[str], buckets: Iterable[str]) -> dict[str, Counter[str]]: ...


class RedisSession:
    """Claims and renewals at once, and releases for when the transaction is committed.

    Nothing is asked of a Redis that did not answer last, so that a transaction waits for it once at most.
    """

    def __init__(
        self,
        backend: SessionBackend,
        claims: Sequence[Claim],
        terms: CurrentTerms,
        releases: Mapping[str, int],
        observer: Observer,
    ) -> None:
        self.releases = releases
        self._observer = observer
        self._backend = backend
        self._terms = terms
        self.pending: list[Release] = []
        capacities = terms.capacities()
        self.rooms = {pool: Room.of(capacity, Counter()) for pool, capacity in capacities.items()}
        with suppress(TokensUnavailable):  # each claim is told
            self._check()
            shares = {share_bucket(claim.place) for claim in claims}
            for pool, used in backend.used(capacities, shares).items():
                self.rooms[pool] = Room.of(capacities[pool], used)

    def weight(self, claim: Claim) -> float:
        return weight_of(self._terms.of(claim))

    def allocate(self, claim: Claim) -> Allocation:
        self._check()
        answer = self._backend.allocate_within(claim, self._terms, brief=True)
        self._observer.answered(claim.amounts, answer)
        if isinstance(answer, Granted) and answer.is_new:
            for pool, grant in answer.grants.items():
                for bucket in grant.buckets:
                    self.rooms[pool].used[bucket] += grant.amount
        return answer

    def renew(self, renewal: Renewal) -> Renewed | NotHeld:
        self._check()
        return self._backend.renew(renewal, brief=True)

    def release(self, release: Release) -> None:
        self.pending.append(release)

    def save(self) -> None:
        """Everything but what is pending is done."""

    def _check(self) -> None:
        if (failure := self._backend.failure) is not None:  # read once: another thread may end it meanwhile
            raise failure
