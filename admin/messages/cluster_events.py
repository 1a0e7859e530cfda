"""Events of clusters."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.core.provenance import Provenance
from admin.messages.requests import Flag, PageQuery
from admin.messages.shared import Answer, ClaimedBy, ProofField, ProvenanceAnswer, Time
from admin.store.cluster_events import ClusterEvent

#: Fields of the event of a drain.
Deadline = Annotated[Time | None, Meta(description="Of a drain: when it ends what runs, unless it is over before.")]
DrainEnd = Annotated[
    ProvenanceAnswer | None, Meta(description="The event that ended a drain, or began another one in its place.")
]


class ClusterEventAnswer(Answer):
    at: Time
    type: str
    reason: str | None = None
    author: Annotated[
        str | None,
        Meta(description="`its agent` where that registered; absent for what else the admin and agents do."),
    ] = None
    claimed_by: ClaimedBy = None
    proof: ProofField = None
    number: int
    revision: Annotated[int | None, Meta(description="That deleted the cluster.")] = None
    deadline: Deadline = None
    ended_by: DrainEnd = None

    @classmethod
    def from_event(cls, event: ClusterEvent, ended_by: Provenance | None) -> ClusterEventAnswer:
        """An event, and what ended the drain that it began."""
        return cls.from_attributes(event, ended_by=ended_by and ProvenanceAnswer.from_attributes(ended_by))


class ClusterEventsQuery(PageQuery):
    reports = Flag(load_default=True, metadata={"description": "false leaves out the reports of its agent."})


class ClusterEventsAnswer(Answer):
    events: list[ClusterEventAnswer]
    token: str | None = None
    left_out: Annotated[int | None, Meta(description="How many reports were left out of this page.")] = None
