"""Agents: what they and the admin exchange in a sync."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field

from admin.configuration.settings import Agents as AgentSettings
from admin.core.executions.retries import Retries
from admin.core.executions.tokens import lease_job
from admin.core.placement.bid_reports import read_bid
from admin.core.problems import invalid
from admin.messages.bids import BidList, BidRequestAnswer
from admin.messages.creations import IdBody
from admin.messages.executions import ExecutionIdAnswer
from admin.messages.reading import Body, ClusterReport, Text255, UnreadText, or_none
from admin.messages.shared import Answer, Json, Time
from admin.services import exchanges
from admin.services.exchanges import Sync
from admin.services.logs import MOST_OUTPUTS, LogPiece
from admin.services.reports import Held, Report
from admin.store.leases import LeasedExecution
from admin.store.logs import OUTPUT, OutputFile


def _clean(text: str | UnsetType) -> str | None:
    """What an agent passes on; a character that no database can store must not keep a report from arriving."""
    return None if isinstance(text, UnsetType) else text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _time(text: object) -> datetime | None:
    """A time by an agent's clock; one that cannot be read must not keep a report from arriving."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
        return moment and (moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def _decode(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(path, "is not base64.") from None


Attempt = Annotated[int, Meta(ge=1, le=2**62)]


OnLost = Annotated[str, Meta(description="What becomes of it when the cluster falls silent.")]


class HeldBody(Body):
    """An attempt of an execution that the agent has."""

    id: IdBody
    attempt: Attempt
    uid: Annotated[Text255, Meta(description="As the lease said; what is not compared is left out.")] = ""

    def held(self) -> Held:
        return Held(id=self.id.id(), attempt=self.attempt, uid=_clean(self.uid) or "")


class OutputBody(Body):
    path: Annotated[str, Meta(min_length=1, max_length=4096)]
    content_base64: str
    size: Annotated[int, Meta(ge=0, le=2**62)]
    truncated: bool = False

    def output(self, attempt: int) -> OutputFile:
        return OutputFile(
            path=_clean(self.path) or "",
            attempt=attempt,
            size=self.size,
            truncated=self.truncated,
            content=_decode(self.content_base64, "events.outputs.content_base64"),
        )


class EventBody(HeldBody):
    """A report on an attempt."""

    event: Annotated[str, Meta(min_length=1, max_length=255)]
    type: Literal["RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED", "DECLINED", "RELEASED", "UNKNOWN"]
    at: Annotated[UnreadText, Meta(description="By the agent's clock; the admin's own counts.")] | UnsetType = UNSET
    native_id: Text255 | UnsetType = UNSET
    nodes: Annotated[list[Text255], Meta(max_length=10_000)] | UnsetType = UNSET
    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | UnsetType = UNSET
    signal: Annotated[int, Meta(ge=0, le=256)] | UnsetType = UNSET
    reason: Annotated[str, Meta(max_length=64)] | UnsetType = UNSET
    message: Annotated[str, Meta(max_length=4000)] | UnsetType = UNSET
    started_at: Annotated[UnreadText, Meta(description="Of the native job, by the agent's clock.")] | UnsetType = UNSET
    finished_at: Annotated[UnreadText, Meta(description="The same of its end.")] | UnsetType = UNSET
    duration: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    outputs: Annotated[list[OutputBody], Meta(max_length=MOST_OUTPUTS)] = field(default_factory=list)

    def report(self) -> Report:
        nodes = None if isinstance(self.nodes, UnsetType) else [_clean(node) or "" for node in self.nodes]
        outputs = {output.path: output for output in (body.output(self.attempt) for body in self.outputs)}
        return Report(
            event=self.event,
            id=self.id.id(),
            attempt=self.attempt,
            type=self.type,
            uid=self.uid,
            reason=_clean(self.reason),
            message=_clean(self.message),
            native_id=_clean(self.native_id),
            nodes=nodes,
            exit_code=or_none(self.exit_code),
            signal=or_none(self.signal),
            duration=or_none(self.duration),
            started_at=_time(self.started_at),
            finished_at=_time(self.finished_at),
            outputs=list(outputs.values()),
        )


class LogBody(HeldBody):
    """A piece of what an attempt printed, or of a file that it left."""

    stream: Annotated[
        str, Meta(max_length=5000, description="stdout, stderr, or `output:` and the path of an output file.")
    ]
    offset: Annotated[int, Meta(ge=0, le=2**62)]
    after: (
        Annotated[int, Meta(ge=0, le=2**62, description="Up to where it is stored, if what follows is not sent.")]
        | UnsetType
    ) = UNSET
    data: Annotated[str, Meta(description="As text; the offsets count its bytes in UTF-8.")] | UnsetType = UNSET
    data_base64: Annotated[str, Meta(description="As bytes.")] | UnsetType = UNSET

    def piece(self) -> LogPiece:
        if self.stream not in ("stdout", "stderr") and (not self.stream.startswith(OUTPUT) or "\0" in self.stream):
            raise invalid("logs.stream", "is none: give stdout, stderr, or output: and a path.")
        return LogPiece(
            id=self.id.id(),
            attempt=self.attempt,
            stream=self.stream,
            offset=self.offset,
            data=self._bytes(),
            uid=self.uid,
            after=or_none(self.after),
        )

    def _bytes(self) -> bytes:
        match self.data, self.data_base64:
            case str(text), UnsetType():
                return text.encode()
            case UnsetType(), str(text):
                return _decode(text, "logs.data_base64")
        raise invalid("logs.data", "give either data or data_base64.")


class SyncBody(Body):
    """All that an agent has to say."""

    example: ClassVar[Json] = {
        "agent": "east-1",
        "sequence": 1,
        "report": {"capacity": {"cpu": "8", "memory": "32Gi"}, "free": {"cpu": "8", "memory": "32Gi"}},
        "want": 1,
    }
    agent: Annotated[str, Meta(min_length=1, max_length=255)]
    sequence: Attempt
    instance: Annotated[Text255, Meta(description="The id of the agent's state directory.")] = ""
    host: Annotated[Text255, Meta(description="The machine that the agent runs on.")] = ""
    take_over: Annotated[bool, Meta(description="Replace another agent, in the first sync of a process.")] = False
    seen: Annotated[int, Meta(ge=0, le=2**62, description="The greatest position that an answer has told.")] = 0
    report: ClusterReport | UnsetType = UNSET
    want: Annotated[int, Meta(ge=0, le=1000)] = 0
    holding: Annotated[list[HeldBody], Meta(max_length=20_000)] = field(default_factory=list)
    events: Annotated[list[EventBody], Meta(max_length=10_000)] = field(default_factory=list)
    logs: Annotated[list[LogBody], Meta(max_length=10_000)] = field(default_factory=list)
    can_bid: Annotated[bool, Meta(description="Whether the agent answers `bid_requests`.")] = False
    bids: BidList = field(default_factory=list)
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0

    def sync(self, cluster: str) -> Sync:
        return Sync(
            cluster=cluster,
            agent=_clean(self.agent) or "",
            sequence=self.sequence,
            instance=_clean(self.instance) or "",
            host=_clean(self.host) or "",
            take_over=self.take_over,
            seen=self.seen,
            want=self.want,
            report=or_none(self.report),
            holding=tuple([lease.held() for lease in self.holding]),
            events=tuple([event.report() for event in self.events]),
            logs=tuple([log.piece() for log in self.logs]),
            can_bid=self.can_bid,
            bids=tuple(map(read_bid, self.bids)),
            wait_seconds=self.wait_seconds,
        )


class HeldAnswer(Answer):
    """An attempt of an execution that an agent has, had or is to give up."""

    id: ExecutionIdAnswer
    attempt: int
    uid: str
    reason: str | None = None
    code: Annotated[str, Meta(description="Why: what is DRAINED and had not started runs elsewhere.")] | None = None

    @classmethod
    def from_held(cls, held: Held | LeasedExecution, reason: str | None = None, code: str | None = None) -> HeldAnswer:
        id = ExecutionIdAnswer.from_execution(held.id if isinstance(held, Held) else held)
        return cls(id=id, attempt=held.attempt, uid=held.uid, reason=reason, code=code)


def _on_lost(lease: LeasedExecution) -> str:
    return Retries.of(lease.content.get("retry")).on_lost


class QuestionAnswer(Answer):
    """An attempt that an agent is to look for, and adopt if its engine has it."""

    id: ExecutionIdAnswer
    attempt: int
    uid: str
    on_lost: OnLost

    @classmethod
    def from_lease(cls, lease: LeasedExecution) -> QuestionAnswer:
        id = ExecutionIdAnswer.from_execution(lease)
        return cls(id=id, attempt=lease.attempt, uid=lease.uid, on_lost=_on_lost(lease))


class LeaseAnswer(Answer):
    id: ExecutionIdAnswer
    attempt: int
    uid: str
    on_lost: OnLost
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
    log_tail_bytes: Annotated[int, Meta(description="How much of the limit is for the end of a stream.")]
    output_limit_bytes: Annotated[int, Meta(description="Of an output file, which may be sent in pieces.")]

    @classmethod
    def from_lease(cls, lease: LeasedExecution, settings: AgentSettings) -> LeaseAnswer:
        content = {**lease.content, "job": lease_job(lease.content["job"], lease.token_number)}
        return cls(
            id=ExecutionIdAnswer.from_execution(lease),
            attempt=lease.attempt,
            uid=lease.uid,
            on_lost=_on_lost(lease),
            lease_seconds=settings.lease_seconds,
            created_at=lease.created_at,
            **{name: content[name] for name in ("job", "queue", "plugins", "config", "attributes", "inputs")},
            quality_of_service=content["quality_of_service"] or None,
            time_limit_seconds=lease.time_limit_seconds,
            log_limit_bytes=settings.log_limit_bytes,
            log_tail_bytes=settings.log_tail_bytes,
            output_limit_bytes=settings.output_limit_bytes,
        )


class RefusedAnswer(Answer):
    """A report that does not count."""

    event: str
    reason: str


class LogOffsetAnswer(Answer):
    """How much of a stream is stored, and whether more would be."""

    id: ExecutionIdAnswer
    attempt: int
    uid: str
    stream: str
    offset: int
    full: bool

    @classmethod
    def from_piece(cls, piece: LogPiece, offset: int, full: bool) -> LogOffsetAnswer:
        id = ExecutionIdAnswer.from_execution(piece.id)
        return cls(id=id, attempt=piece.attempt, uid=piece.uid, stream=piece.stream, offset=offset, full=full)


class SyncStateAnswer(Answer):
    enabled: bool
    cordoned: bool
    draining: bool
    admitted: bool
    description: Annotated[
        str, Meta(description="The digest of the cluster's description; empty where it has none, so that one is sent.")
    ]


class IntervalsAnswer(Answer):
    wait_seconds: float
    lease_seconds: int
    retry_seconds: float
    pause_seconds: float


class SyncAnswer(Answer):
    position: Annotated[int, Meta(description="How many syncs of the cluster are stored.")]
    leases: list[LeaseAnswer]
    confirmed: list[HeldAnswer]
    lost: list[HeldAnswer]
    cancels: list[HeldAnswer]
    questions: list[QuestionAnswer]
    bid_requests: Annotated[
        list[BidRequestAnswer], Meta(description="Only for agents that can bid; an admin that has none asks nobody.")
    ]
    accepted: list[str]
    refused: list[RefusedAnswer]
    log_offsets: list[LogOffsetAnswer]
    state: SyncStateAnswer
    intervals: IntervalsAnswer

    @classmethod
    def from_answer(cls, answer: exchanges.SyncResult, settings: AgentSettings) -> SyncAnswer:
        return cls(
            position=answer.state.syncs,
            leases=[LeaseAnswer.from_lease(lease, settings) for lease in answer.leases],
            confirmed=[*map(HeldAnswer.from_held, answer.confirmed), *map(HeldAnswer.from_held, answer.kept)],
            lost=[HeldAnswer.from_held(held, reason) for held, reason in answer.lost],
            cancels=[HeldAnswer.from_held(lease, lease.reason_message, lease.reason) for lease in answer.cancels],
            questions=[QuestionAnswer.from_lease(lease) for lease in answer.questions],
            bid_requests=[
                BidRequestAnswer.from_question(question, answer.state.last_sync_at or question.deadline)
                for question in answer.bid_requests
            ],
            accepted=answer.accepted,
            refused=[RefusedAnswer(event=event, reason=reason) for event, reason in answer.refused],
            log_offsets=[LogOffsetAnswer.from_piece(*offset) for offset in answer.log_offsets],
            state=SyncStateAnswer.from_attributes(
                answer.state, enabled=answer.enabled, description=answer.state.description or ""
            ),
            intervals=IntervalsAnswer.from_attributes(settings, pause_seconds=answer.pause_seconds),
        )
