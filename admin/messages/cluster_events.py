"""Events of clusters."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.messages.requests import Flag, PageQuery
from admin.messages.shared import Answer, ClaimedBy, Time


class ClusterEventAnswer(Answer):
    at: Time
    type: str
    reason: str | None = None
    author: Annotated[str | None, Meta(description="Absent for what the admin and agents do.")] = None
    claimed_by: ClaimedBy = None
    number: int
    deadline: Annotated[Time | None, Meta(description="Of a drain that still goes on: when it ends what runs.")] = None


class ClusterEventsQuery(PageQuery):
    reports = Flag(load_default=True, metadata={"description": "false leaves out the reports of its agent."})


class ClusterEventsAnswer(Answer):
    events: list[ClusterEventAnswer]
    token: str | None = None
    left_out: Annotated[int | None, Meta(description="How many reports were left out of this page.")] = None
