"""Bids: what agents are asked, what they answer, and what is told of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta

from admin.core.executions.attempts import time_limit_seconds
from admin.core.placement import bids
from admin.core.placement.rounds import RoundOutcome
from admin.messages.executions import ExecutionIdAnswer
from admin.messages.shared import Answer, Json, Time, one_of
from admin.services.explained_rounds import RoundView
from admin.store.bids import BidRecord, Question

#: The core reads each of them: one that is wrong is refused alone, and the rest of the sync is not.
BidList = Annotated[
    list[Any], Meta(max_length=10_000, extra_json_schema={"items": {"$ref": "#/components/schemas/Bid"}})
]


class BidRequestAnswer(Answer):
    """A job that an agent is asked about: could its cluster run it, and when? It is answered with the next sync."""

    question: Annotated[int, Meta(description="What the answer names.")]
    id: ExecutionIdAnswer
    uid: str
    round: Annotated[int, Meta(description="How often clusters were asked about the execution.")]
    seconds: Annotated[float, Meta(description="How long the answer is waited for.")]
    job: Annotated[Json, Meta(description="Without its environment.")]
    queue: str | None = None
    time_limit_seconds: float | None = None

    @classmethod
    def from_question(cls, question: Question, now: datetime) -> BidRequestAnswer:
        job = {name: value for name, value in question.content["job"].items() if name != "environment"}
        return cls(
            question=question.bid,
            id=ExecutionIdAnswer.from_execution(question.key),
            uid=question.uid,
            round=question.number,
            seconds=max(0.0, (question.deadline - now).total_seconds()),
            job=job,
            queue=question.content["queue"],
            time_limit_seconds=time_limit_seconds(question.content),
        )


class BidRecordAnswer(Answer):
    """How often a cluster started work as it had promised by the bids that it was chosen for."""

    promised: Annotated[int, Meta(description="Starts that were promised and have come about.")]
    kept: Annotated[int, Meta(description="Those of them that were at most 5 s late, or a tenth of what was promised.")]
    late_seconds: Annotated[float, Meta(description="How late they were, on average.")]

    @classmethod
    def from_record(cls, record: BidRecord) -> BidRecordAnswer:
        average = record.late_seconds / max(1, record.promised)
        return cls(promised=record.promised, kept=record.kept, late_seconds=round(average, 1))


class BidAnswer(Answer):
    """What one cluster answered in a round."""

    cluster: str
    answer: Annotated[
        str | None,
        one_of(*(answer.value for answer in bids.BidAnswer)),
        Meta(
            description="`reported` where its agent cannot bid, `silent` where it was late, `refused` if its bid was "
            "refused; absent while it is open."
        ),
    ] = None
    start_seconds: Annotated[float | None, Meta(description="In how many seconds, from its answer on.")] = None
    cost: float | None = None
    reason: str | None = None
    answered_at: Time | None = None


class BidRoundAnswer(Answer):
    """A round of questions about an execution."""

    number: int
    asked_at: Time
    deadline: Time
    decided_at: Time | None = None
    outcome: Annotated[
        str | None,
        one_of(*(outcome.value for outcome in RoundOutcome)),
        Meta(description="Absent while answers are awaited."),
    ] = None
    decision: Annotated[int | None, Meta(description="The number of the decision that it led to.")] = None
    cluster: Annotated[str | None, Meta(description="The one that was chosen.")] = None
    promised_seconds: Annotated[
        float | None, Meta(description="Its start from then on, with what was assigned to it since its bid.")
    ] = None
    present: Annotated[str | None, Meta(description="Where the execution waited meanwhile.")] = None
    ask_again_at: Annotated[Time | None, Meta(description="When the next round is due.")] = None
    bids: list[BidAnswer]

    @classmethod
    def from_view(cls, view: RoundView) -> BidRoundAnswer:
        answers = [
            BidAnswer.from_attributes(bid, answer=bid.answer.value, reason=bid.reason or None) for bid in view.bids
        ]
        awaited = [BidAnswer(cluster=cluster) for cluster in view.awaited]
        return cls.from_attributes(view.round, bids=[*answers, *awaited])
