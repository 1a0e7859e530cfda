"""Explanations of token pools: what bounds their tokens, how much of each bound is used, and what sets it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.limits import Limit, Terms, all_limits, counted_at

#: Limits that an explanation shows; the others are counted.
MOST_LIMITS = 100


@dataclass(frozen=True, kw_only=True)
class LimitUse:
    """A limit, and how much of it is used."""

    limit: Limit
    used: int

    @property
    def free(self) -> int:
        return max(self.limit.cap - self.used, 0)

    @property
    def is_full(self) -> bool:
        return self.used >= self.limit.cap

    @property
    def place(self) -> Scope:
        """The scope at and below which it counts."""
        return counted_at(self.limit.bucket)[0]

    @property
    def execution(self) -> str:
        """The execution that it is of, if it is of one."""
        return counted_at(self.limit.bucket)[1]


def limit_uses(pool: str, terms: Iterable[Terms], used: Mapping[str, int]) -> list[LimitUse]:
    """Every limit of some terms, the full ones first, each group from the broadest to the narrowest."""
    limits = dict.fromkeys(limit for own in terms for limit in all_limits(pool, own))
    uses = [LimitUse(limit=limit, used=used.get(limit.bucket, 0)) for limit in limits]
    return sorted(uses, key=lambda use: (not use.is_full, _breadth(use), use.free, use.limit.bucket))


def _breadth(use: LimitUse) -> int:
    return sum(map(bool, use.place)) + (4 if use.execution else 0)


def summary_of(pool: str, uses: Iterable[LimitUse], waiting: int = 0) -> str:
    """What is full, in a sentence; of what is free, that those who wait in line come first."""
    full = [use for use in uses if use.is_full]
    if not full:
        line = f" {waiting} wait in line, and what is free is kept for those ahead." if waiting else ""
        return f"Nothing of token pool '{pool}' is full.{line}"
    first, others = full[0], len(full) - 1
    where = "" if use_is_whole(first) else f" for {describe(first)}"
    more = f", and {others} more limits are full" if others > 1 else ", and one more limit is full" if others else ""
    return f"Full{where}: {first.used} of {first.limit.cap} tokens are held, by {first.limit.origin}{more}."


def use_is_whole(use: LimitUse) -> bool:
    """Whether a limit bounds the whole pool."""
    return use.place == PLATFORM and not use.execution


def describe(use: LimitUse) -> str:
    """What a limit bounds, in words."""
    return f"execution {use.place.project}/{use.place.domain}/{use.execution}" if use.execution else str(use.place)
