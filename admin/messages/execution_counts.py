"""Counts of executions by a field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from marshmallow import fields, validate
from msgspec import Meta

from admin.core.executions.selectors import DAYS, GROUPS
from admin.core.resources import Amounts, in_units
from admin.messages.execution_lists import StateSelector
from admin.messages.requests import Whole
from admin.messages.shared import Answer, SeenAnswer, Time
from admin.messages.unknown_names import UnknownNameAnswer, UnknownNames
from admin.services.executions import CountedPage
from admin.store.execution_counts import Group
from admin.store.execution_lists import LIST_LIMITS


class ExecutionCountsQuery(StateSelector):
    by = fields.String(
        required=True,
        metadata={"description": f"{', '.join(GROUPS)}, or labels.KEY; or up to three of them: project,cluster."},
    )
    limit = Whole(
        validate=validate.Range(min=1, max=LIST_LIMITS.counted),
        metadata={"description": f"How many to look at, instead of {LIST_LIMITS.counted:,}."},
    )
    token = fields.String(metadata={"description": "Of the answer before: count those that it did not look at."})


class RequestedAnswer(Answer):
    """What executions request, added up: of each what every task of it requests, times its tasks."""

    cpu: Annotated[float, Meta(description="Cores.")]
    memory: Annotated[int, Meta(description="Bytes.")]
    gpu: int

    @classmethod
    def from_amounts(cls, amounts: Amounts) -> RequestedAnswer:
        return cls(cpu=in_units(amounts)["cpu"], memory=amounts["memory"], gpu=amounts["gpu"])


class WaitingAnswer(Answer):
    """Those of some executions that wait for their start; those in back-off are not among them."""

    count: int
    longest_seconds: Annotated[int, Meta(description="For how long the first of them has waited.")]
    median_seconds: Annotated[int, Meta(description="For how long half of them have waited at least.")]

    @classmethod
    def from_group(cls, group: Group) -> WaitingAnswer | None:
        if not group.waits:
            return None
        return cls(count=len(group.waits), longest_seconds=int(group.waits[-1]), median_seconds=int(group.median_wait))


class StartedAnswer(Answer):
    """Those of some executions that have started, and how long they had waited since they could start."""

    count: int
    longest_seconds: Annotated[int, Meta(description="For how long one of them had waited at most.")]
    mean_seconds: Annotated[float, Meta(description="For how long they had waited on average.")]

    @classmethod
    def from_group(cls, group: Group) -> StartedAnswer | None:
        if not group.started:
            return None
        mean = round(group.waited / group.started, 3)
        return cls(count=group.started, longest_seconds=int(group.longest_waited), mean_seconds=mean)


class RanAnswer(Answer):
    """Those of some executions that ran, by the last attempt of each; what runs counts until now."""

    count: int
    seconds: Annotated[float, Meta(description="For how long they ran, together.")]
    longest_seconds: Annotated[int, Meta(description="For how long one of them ran at most.")]
    mean_seconds: Annotated[float, Meta(description="For how long they ran on average.")]
    cpu_hours: Annotated[float, Meta(description="The cores that each requests, times the hours that it ran.")]
    memory_byte_hours: Annotated[float, Meta(description="The same of memory, in bytes.")]
    gpu_hours: float

    @classmethod
    def from_group(cls, group: Group) -> RanAnswer | None:
        ran = group.ran
        if not ran.count:
            return None
        hours = {resource: amount / 3600 for resource, amount in ran.used.items()}
        return cls(
            count=ran.count,
            seconds=round(ran.seconds, 3),
            longest_seconds=int(ran.longest),
            mean_seconds=round(ran.seconds / ran.count, 3),
            cpu_hours=round(hours["cpu"] / 1000, 6),
            memory_byte_hours=round(hours["memory"], 3),
            gpu_hours=round(hours["gpu"], 6),
        )


class ExecutionCountAnswer(Answer):
    value: Annotated[str, Meta(description="Of the first group; empty for those that have none.")]
    values: Annotated[list[str] | None, Meta(description="Of every group, where more than one was asked for.")] = None
    count: int
    not_before: Annotated[
        Time | None, Meta(description="When the first of those in back-off may start, or is decided by bids.")
    ] = None
    requested: Annotated[RequestedAnswer, Meta(description="By all of them together.")]
    waiting: Annotated[WaitingAnswer | None, Meta(description="Those that wait, if any do.")] = None
    started: Annotated[StartedAnswer | None, Meta(description="Those that have started, if any have.")] = None
    ran: Annotated[RanAnswer | None, Meta(description="Those that ran, if any did, and what they had.")] = None

    @classmethod
    def from_group(cls, group: Group) -> ExecutionCountAnswer:
        return cls.from_attributes(
            group,
            value=group.values[0],
            values=list(group.values) if len(group.values) > 1 else None,
            requested=RequestedAnswer.from_amounts(group.requested),
            waiting=WaitingAnswer.from_group(group),
            started=StartedAnswer.from_group(group),
            ran=RanAnswer.from_group(group),
        )


class ExecutionCountsAnswer(SeenAnswer):
    by: str
    counts: list[ExecutionCountAnswer]
    total: int
    unknown_names: UnknownNames = None
    not_counted: Annotated[str | None, Meta(description="What was pruned, and might have been among them.")] = None
    token: Annotated[str | None, Meta(description="More to count: ask for the next page and add its counts.")] = None

    @classmethod
    def from_counted(cls, by: Sequence[str], counted: CountedPage, token: str | None) -> ExecutionCountsAnswer:
        groups = sorted(counted.page.groups, key=lambda group: (-group.count, group.values))
        if by[0] in DAYS:
            groups.sort(key=lambda group: group.values[0], reverse=True)
        return cls(
            by=",".join(by),
            counts=[ExecutionCountAnswer.from_group(group) for group in groups],
            total=sum(group.count for group in groups),
            unknown_names=UnknownNameAnswer.from_unknown(counted.unknown),
            not_counted=counted.not_counted,
            token=token,
        )
