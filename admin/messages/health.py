"""Health of the admin itself, as answers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin import __version__
from admin.messages.service import ClockAnswer
from admin.messages.shared import Answer, Time
from admin.services.health import Health, describe_health


class LeaderAnswer(Answer):
    """The process of all replicas that does the background work."""

    process: Annotated[str, Meta(description="Its host and process id.")]
    since: Annotated[Time | None, Meta(description="When it began; absent where that is not known.")] = None
    present: Annotated[bool, Meta(description="Whether it still has the lease.")]


class LoopFailureAnswer(Answer):
    """A failure of the background work."""

    at: Time
    message: str


class HealthAnswer(Answer):
    summary: Annotated[str, Meta(description="What is wrong, or that nothing is.")]
    healthy: Annotated[bool, Meta(description="Whether nothing of `problems` is to be said.")]
    problems: list[str]
    version: str
    database: Annotated[str, Meta(description="sqlite or postgresql.")]
    database_state: Annotated[str, Meta(description="ready, or why requests cannot be served.")]
    schema: Annotated[str, Meta(description="The migration that this version works with.")]
    revision: Annotated[int, Meta(description="Number of the last revision.")]
    leader: Annotated[LeaderAnswer | None, Meta(description="Absent where nobody ever did background work.")] = None
    last_failure: Annotated[
        LoopFailureAnswer | None, Meta(description="The last failure of the background work, however long ago.")
    ] = None
    clock: ClockAnswer

    @classmethod
    def from_health(cls, health: Health) -> HealthAnswer:
        return cls(
            summary=describe_health(health),
            healthy=not health.problems,
            problems=health.problems,
            version=__version__,
            database=health.database,
            database_state=health.database_state,
            schema=health.schema,
            revision=health.revision,
            leader=health.leader
            and LeaderAnswer(
                process=health.leader.process, since=health.leader.since, present=health.leader.is_present
            ),
            last_failure=health.failure and LoopFailureAnswer(**health.failure._asdict()),
            clock=ClockAnswer.from_view(health.clock),
        )
