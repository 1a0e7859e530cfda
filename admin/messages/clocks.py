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

    @classmethod
    def from_view(cls, view: ClockView) -> ClockAnswer:
        return cls.from_attributes(view, suspended=view.problem is not None, message=view.problem)


class ClockAcceptedAnswer(Answer):
    clock: ClockAnswer
    changed: bool
