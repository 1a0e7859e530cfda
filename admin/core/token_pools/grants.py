"""Grants: tokens that someone holds until a deadline, with a number that fences off earlier holders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.limits import buckets_of
from admin.core.token_pools.steadiness import JUMP_SECONDS

#: How much later than a whole lease a deadline may be before the clock must have gone back.
_TOLERANCE = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Tokens of one pool that one claim holds."""

    pool: str
    token: str
    number: int  #: larger than that of every earlier grant of the pool
    amount: int
    place: Scope
    execution: str
    holder: str
    lease_seconds: float
    granted_at: datetime
    expires_at: datetime

    @property
    def buckets(self) -> tuple[str, ...]:
        """The buckets that it counts in."""
        return buckets_of(self.place, self.execution)

    @property
    def scope_buckets(self) -> tuple[str, ...]:
        """The same but for that of its execution."""
        return buckets_of(self.place, "")

    def is_of(self, place: Scope) -> bool:
        """Whether it belongs to the project and domain of a place."""
        return (self.place.project, self.place.domain) == (place.project, place.domain)

    def is_over(self, now: datetime) -> bool:
        """Whether its lease has ended, also if the clock went ahead by less than is noticed."""
        return self.expires_at + timedelta(seconds=JUMP_SECONDS) <= now

    def taken_back_at(self, now: datetime, steady_seconds: float) -> datetime:
        """When it is taken back unless it is renewed: not before its holder could have renewed it by a steady clock."""
        lacking = timedelta(seconds=max(0.0, self.lease_seconds - steady_seconds))
        is_later = bool(lacking) and now + lacking > self.expires_at + timedelta(seconds=JUMP_SECONDS)
        return now + lacking if is_later else self.expires_at

    def renewed(self, now: datetime) -> Grant:
        """The same for another lease."""
        return replace(self, expires_at=now + timedelta(seconds=self.lease_seconds))

    def corrected(self, now: datetime) -> Grant:
        """The same, but for a deadline that is later than any can be: it was stored before the clock went back."""
        latest = now + timedelta(seconds=self.lease_seconds)
        return replace(self, expires_at=latest) if self.expires_at > latest + _TOLERANCE else self


@dataclass(frozen=True, kw_only=True)
class Renewal:
    """What a holder says who renews: all that a backend needs to know that has lost the grant itself."""

    token: str
    amounts: Mapping[str, int]  #: by pool
    number: int
    place: Scope = PLATFORM
    execution: str = ""
    holder: str = ""
    lease_seconds: float = 60.0
    expires_at: datetime | None = None  #: as the holder was told last
    is_leased: bool = False  #: whether an execution has them whose lease is not over, as the admin's database tells

    @classmethod
    def of(cls, grants: Mapping[str, Grant]) -> Renewal:
        """The renewal of grants that were given together."""
        first = next(iter(grants.values()))
        return cls(
            token=first.token,
            amounts={pool: grant.amount for pool, grant in grants.items()},
            number=first.number,
            place=first.place,
            execution=first.execution,
            holder=first.holder,
            lease_seconds=first.lease_seconds,
            expires_at=first.expires_at,
        )


@dataclass(frozen=True, kw_only=True)
class Release:
    """What a holder gives back, or no longer waits for."""

    token: str
    pools: tuple[str, ...]
    number: int | None = None  #: of the grant; None gives back whatever the token holds
    place: Scope | None = None  #: whose project and domain it must belong to; None for any
    amounts: Mapping[str, int] | None = None  #: by pool, that must be held; None for whatever is
    force: bool = False  #: whoever holds it
