"""Clocks: the admin's time, and whether anything is deleted or given up by it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.messages.shared import Answer, Time
from admin.services.clocks import ClockView


class ClockAnswer(Answer):
    time: Time
    suspended: Annotated[bool, Meta(description="Whether nothing is pruned or given up, because the clock has jumped.")]
    trusted_at: Annotated[Time, Meta(description="The time at which the clock was last trusted.")]
    message: Annotated[str | None, Meta(description="Why it is not trusted, and what to do.")] = None
    accepted_at: Annotated[Time | None, Meta(description="When an operator last said that it is right.")] = None
    accepted_by: Annotated[str | None, Meta(description="Who said so; not verified.")] = None
    accepted_reason: str | None = None

    @classmethod
    def from_view(cls, view: ClockView) -> ClockAnswer:
        problem = view.problem
        return cls.from_attributes(view.check, time=view.time, suspended=problem is not None, message=problem)


class ClockAcceptedAnswer(Answer):
    clock: ClockAnswer
    changed: bool
