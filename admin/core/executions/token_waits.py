"""Waits for tokens: what is full for an execution as things stand, who holds it, and its place in line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from admin.core.executions.tokens import describe_amounts, describe_level, describe_refusal
from admin.core.token_pools.answers import Allocation, Exhausted, Full, Granted
from admin.core.token_pools.grants import Grant

_PLACES = ("first", "second", "third", "fourth", "fifth")
#: Holders that a sentence names.
_MOST_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class TokenWait:
    """What an execution waits for in token pools, as far as the asker may know."""

    amounts: Mapping[str, int]  #: by pool
    message: str  #: without its place in line
    full: tuple[Full, ...] = ()
    place: int | None = None  #: the first is 1; None where nothing is granted to anyone, or nothing it waits for
    waiting: int = 0  #: how many wait for any of its pools, itself included
    may_be_granted: bool = False  #: whether it fits, and is only to be asked for

    @property
    def line(self) -> str:
        """Its place in line: `second of 290 in line for tokens`."""
        if self.place is None:
            return ""
        place = _PLACES[self.place - 1] if self.place <= len(_PLACES) else f"number {self.place}"
        return f"{place} of {self.waiting} in line for tokens"


def wait_of(answer: Allocation | None, amounts: Mapping[str, int], place: int, waiting: int) -> TokenWait:
    """What an execution waits for by the answer that it would get now; None where nobody answers."""
    if answer is None:
        message = f"it waits for {describe_amounts(amounts)}. Redis does not answer: nothing is granted"
        return TokenWait(amounts=amounts, message=f"{message} until it does.")
    match answer:
        case Exhausted(full=(_, *_)):
            parts = [_describe(full) for full in answer.full]
            message = f"it waits for {describe_amounts(amounts)}: {'; '.join(parts)}."
            return TokenWait(amounts=amounts, message=message, full=answer.full, place=place, waiting=waiting)
        case Granted():
            message = f"{describe_amounts(amounts)} may be granted now, when its cluster asks for it next."
            return TokenWait(amounts=amounts, message=message, place=place, waiting=waiting, may_be_granted=True)
    refusal = describe_refusal(answer, amounts)
    return TokenWait(amounts=amounts, message=f"{refusal[:1].lower()}{refusal[1:]}")


def _describe(full: Full) -> str:
    held = f"{full.used} of {full.limit.cap} held"
    kept = f", {full.promised} kept for those ahead" if full.promised else ""
    names = [name for holder in full.holders if (name := _name(holder))][:_MOST_NAMED]
    others = full.holder_count - len(names)
    if others:
        names.append(f"{others} {'other' if others == 1 else 'others'}" if names else f"{others} that you may not see")
    by = f"; held by {', '.join(names)}" if names else ""
    return f"{describe_level(full)} ({held}{kept}), by {full.limit.origin}{by}"


def _name(grant: Grant) -> str:
    """Who holds tokens, in short; "" where the asker may not know."""
    place = "/".join(part for part in (grant.place.project, grant.place.domain, grant.execution) if part)
    return place if grant.execution else grant.holder or grant.token
