"""The admin's clock over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.clocks import ClockAcceptedAnswer, ClockAnswer
from admin.messages.requests import Fields
from admin.messages.switches import SwitchBody
from admin.services import clocks

operations = Operations("clock")


@operations.add("GET", "/clock")
def get_clock() -> ClockAnswer:
    """The admin's clock, and whether pruning and giving up are suspended because it has jumped."""
    return ClockAnswer.from_view(clocks.read_clock(context()))


@operations.add("POST", "/clock/accept", body=SwitchBody, body_optional=True)
def accept_clock(body: Fields) -> ClockAcceptedAnswer:
    """Trust the clock as it is, so that pruning and giving up go on."""
    view, is_change = clocks.accept_clock(context(), body.get("reason"), body.get("claimed_by"))
    return ClockAcceptedAnswer(clock=ClockAnswer.from_view(view), changed=is_change)
