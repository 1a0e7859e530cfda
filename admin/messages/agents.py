"""Agents: their tokens, and what a sync answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from admin.configuration.settings import Agents as AgentSettings
from admin.messages.executions import ExecutionIdAnswer
from admin.messages.shared import Answer, Json, Time
from admin.services import agents, syncs
from admin.services.agents import Issued
from admin.services.syncs import LogPiece, time_limit_of
from admin.store.leases import LeasedExecution
from admin.store.tokens import StoredToken


class IssuedAnswer(Answer):
    cluster: str
    token: Annotated[str, Meta(description="Shown this once.")]
    prefix: str
    created_at: Time

    @classmethod
    def from_issued(cls, issued: Issued) -> IssuedAnswer:
        return cls(cluster=issued.cluster, token=issued.token, prefix=issued.prefix, created_at=issued.created_at)


class TokenAnswer(Answer):
    prefix: str
    state: str
    created_at: Time
    last_used_at: Time | None = None
    expires_at: Time | None = None
    revoked_at: Time | None = None

    @classmethod
    def from_token(cls, token: StoredToken, now: datetime) -> TokenAnswer:
        return cls(
            prefix=token.prefix,
            state=agents.state_of(token, now),
            created_at=token.created_at,
            last_used_at=token.last_used_at,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
        )


class TokensAnswer(Answer):
    tokens: list[TokenAnswer]


class RevokedAnswer(Answer):
    prefix: str
    changed: bool


class HeldAnswer(Answer):
    """An attempt of an execution that an agent has, had or is to give up."""

    id: ExecutionIdAnswer
    attempt: int
    reason: str | None = None

    @classmethod
    def from_held(cls, held: LeasedExecution, reason: str | None = None) -> HeldAnswer:
        return cls(id=ExecutionIdAnswer.from_execution(held), attempt=held.attempt, reason=reason)


class LeaseAnswer(Answer):
    id: ExecutionIdAnswer
    attempt: int
    lease_seconds: int
    created_at: Time
    job: Json
    queue: str | None = None
    plugins: Json | None = None
    config: Json
    attributes: Json
    inputs: Json
    quality_of_service: Json | None = None
    time_limit_seconds: float | None = None
    log_limit_bytes: int

    @classmethod
    def from_held(cls, held: LeasedExecution, settings: AgentSettings) -> LeaseAnswer:
        content = held.content
        return cls(
            id=ExecutionIdAnswer.from_execution(held),
            attempt=held.attempt,
            lease_seconds=settings.lease_seconds,
            created_at=held.created_at,
            job=content["job"],
            queue=content["queue"],
            plugins=content["plugins"],
            config=content["config"],
            attributes=content["attributes"],
            inputs=content["inputs"],
            quality_of_service=content["quality_of_service"] or None,
            time_limit_seconds=time_limit_of(held),
            log_limit_bytes=settings.log_limit_bytes,
        )


class RefusedAnswer(Answer):
    """A report that does not count."""

    event: str
    reason: str


class LogOffsetAnswer(Answer):
    """How much of a stream is stored, and whether more would be."""

    id: ExecutionIdAnswer
    attempt: int
    stream: str
    offset: int
    full: bool

    @classmethod
    def from_piece(cls, piece: LogPiece, offset: int, full: bool) -> LogOffsetAnswer:
        id = ExecutionIdAnswer.from_execution(piece.id)
        return cls(id=id, attempt=piece.attempt, stream=piece.stream, offset=offset, full=full)


class SyncStateAnswer(Answer):
    enabled: bool
    cordoned: bool
    draining: bool
    admitted: bool


class IntervalsAnswer(Answer):
    wait_seconds: float
    lease_seconds: int
    retry_seconds: float
    pause_seconds: float


class SyncAnswer(Answer):
    leases: list[LeaseAnswer]
    confirmed: list[HeldAnswer]
    lost: list[HeldAnswer]
    cancels: list[HeldAnswer]
    questions: list[HeldAnswer]
    accepted: list[str]
    refused: list[RefusedAnswer]
    log_offsets: list[LogOffsetAnswer]
    state: SyncStateAnswer
    intervals: IntervalsAnswer

    @classmethod
    def from_answer(cls, answer: syncs.Answer, settings: AgentSettings) -> SyncAnswer:
        retry_seconds = min(5, settings.lease_seconds / 4)
        return cls(
            leases=[LeaseAnswer.from_held(held, settings) for held in answer.leases],
            confirmed=[HeldAnswer.from_held(held) for held in answer.confirmed],
            lost=[
                HeldAnswer(id=ExecutionIdAnswer.from_execution(id), attempt=attempt, reason=reason)
                for id, attempt, reason in answer.lost
            ],
            cancels=[HeldAnswer.from_held(held, held.reason_message) for held in answer.cancels],
            questions=[HeldAnswer.from_held(held) for held in answer.questions],
            accepted=answer.accepted,
            refused=[RefusedAnswer(event=event, reason=reason) for event, reason in answer.refused],
            log_offsets=[LogOffsetAnswer.from_piece(*offset) for offset in answer.log_offsets],
            state=SyncStateAnswer(
                enabled=answer.enabled,
                cordoned=answer.state.cordoned,
                draining=answer.state.draining,
                admitted=answer.state.admitted,
            ),
            intervals=IntervalsAnswer(
                wait_seconds=settings.wait_seconds,
                lease_seconds=settings.lease_seconds,
                retry_seconds=retry_seconds,
                pause_seconds=retry_seconds if answer.is_crowded else 0,
            ),
        )
