"""Answers: what an operation on token pools comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admin.core.token_pools.grants import Grant
from admin.core.token_pools.limits import Limit

#: Holders that an answer names; the others are counted.
MOST_HOLDERS = 5


@dataclass(frozen=True, kw_only=True)
class Full:
    """A limit that leaves no room for a claim."""

    pool: str
    limit: Limit
    amount: int  #: that the claim asks for
    used: int
    promised: int = 0  #: that is free, but for those ahead in line
    holders: tuple[Grant, ...] = ()  #: the largest ones
    holder_count: int = 0


@dataclass(frozen=True, kw_only=True)
class Granted:
    """The claim holds its tokens, now or already."""

    grants: Mapping[str, Grant]  #: by pool
    is_new: bool = True


@dataclass(frozen=True, kw_only=True)
class Exhausted:
    """The claim does not fit now."""

    full: tuple[Full, ...]
    retry_seconds: float  #: when to ask again
    place: int | None = None  #: in line, the first is 1; None where it does not wait there
    waiting: int = 0  #: how many stand in line for any of its pools, itself included
    reason: str = ""  #: why nothing is granted to anyone now, where no limit is full
    is_repeated: bool = False  #: whether the claim was refused before, and asked again
    is_line_full: bool = False  #: whether it was to wait and does not, since too many do already


@dataclass(frozen=True, kw_only=True)
class NeverFits:
    """The claim is larger than a limit: no waiting would help."""

    pool: str
    amount: int
    limit: Limit


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """The token holds something else than the claim asks for."""

    held: Mapping[str, Grant]


@dataclass(frozen=True, kw_only=True)
class Renewed:
    """The tokens are held for another lease."""

    grants: Mapping[str, Grant]


@dataclass(frozen=True, kw_only=True)
class Released:
    """The tokens are free again, or the claim left the line."""

    amounts: Mapping[str, int]  #: by pool; empty where it only waited


@dataclass(frozen=True, kw_only=True)
class NotHeld:
    """The token does not hold in some of the pools what was said: never, no longer, by another number, or as many."""

    pools: tuple[str, ...]
    current: int | None = None  #: the number that holds it now, where the given one is old
    amounts: Mapping[str, int] = field(default_factory=dict)  #: what is held, by pool, where another amount was given


@dataclass(frozen=True, kw_only=True)
class UnknownPools:
    """There are no such pools."""

    pools: tuple[str, ...]


Allocation = Granted | Exhausted | NeverFits | Conflict | UnknownPools
Answer = Allocation | Renewed | Released | NotHeld
