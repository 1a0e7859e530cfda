"""No token pools: everything is granted, and nothing is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from admin.core.token_pools.answers import Granted, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import TOKENS_OFF
from admin.core.token_pools.grants import Grant, Release, Renewal
from admin.core.token_pools.limits import USUAL_WEIGHT
from admin.core.token_pools.lines import Room
from admin.store.token_backends.base import PoolTotals, PoolUsage


class NoTokens:
    """The backend `noop`."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    def allocate(self, claim: Claim) -> Granted:
        renewal = Renewal(
            token=claim.token,
            amounts=claim.amounts,
            number=0,
            place=claim.place,
            execution=claim.execution,
            holder=claim.holder,
            lease_seconds=claim.lease_seconds,
        )
        return Granted(grants=self.renew(renewal).grants)

    def renew(self, renewal: Renewal) -> Renewed:
        now = self._clock()
        until = now + timedelta(seconds=renewal.lease_seconds)
        grants = {
            pool: Grant(
                pool=pool,
                token=renewal.token,
                number=renewal.number,
                amount=amount,
                place=renewal.place,
                execution=renewal.execution,
                holder=renewal.holder,
                lease_seconds=renewal.lease_seconds,
                granted_at=now,
                expires_at=until,
            )
            for pool, amount in renewal.amounts.items()
        }
        return Renewed(grants=grants)

    def release(self, release: Release) -> Released:
        return Released(amounts={})

    def session(
        self, connection: Connection, pools: Iterable[str], claims: Sequence[Claim], tokens: Iterable[str]
    ) -> NoSession:
        return NoSession(self)

    def lock(self, connection: Connection, pools: Iterable[str]) -> None:
        """Nothing: no pool is locked."""

    def finish(self, releases: Sequence[Release]) -> None:
        """Nothing is kept."""

    def probe(self) -> None:
        """It always answers."""

    def totals(self, pools: Iterable[str]) -> Mapping[str, PoolTotals]:
        return {pool: PoolTotals(reason=TOKENS_OFF) for pool in pools}

    def wake(self, pools: Iterable[str]) -> None:
        """Nobody waits."""

    def usage(self, pools: Iterable[str], buckets: Iterable[str] = ()) -> Mapping[str, PoolUsage]:
        return {pool: PoolUsage(grants=(), waiters=(), sums={}, reason=TOKENS_OFF) for pool in pools}

    def usage_of_token(self, pools: Iterable[str], token: str) -> Mapping[str, PoolUsage]:
        return self.usage(pools)


class NoSession:
    """Grants everything in whatever transaction."""

    rooms: Mapping[str, Room] = {}
    releases: Mapping[str, int] = {}
    pending: tuple[Release, ...] = ()

    def __init__(self, backend: NoTokens) -> None:
        self.allocate = backend.allocate
        self.renew = backend.renew

    def weight(self, claim: Claim) -> float:
        return USUAL_WEIGHT

    def release(self, release: Release) -> None:
        """Nothing is kept."""

    def save(self) -> None:
        """Nothing is kept."""
