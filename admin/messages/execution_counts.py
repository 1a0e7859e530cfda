"""Counts of executions by a field."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.executions.selectors import DAY, GROUPS
from admin.messages.execution_lists import StateSelector
from admin.messages.shared import Answer, Time
from admin.messages.unknown_names import UnknownNameAnswer, UnknownNames
from admin.services.executions import CountedPage


class ExecutionCountsQuery(StateSelector):
    by = fields.String(required=True, metadata={"description": f"{', '.join(GROUPS)}, or labels.KEY."})
    token = fields.String(metadata={"description": "Of the answer before: count those that it did not look at."})


class ExecutionCountAnswer(Answer):
    value: Annotated[str, Meta(description="Empty for those that have none.")]
    count: int
    not_before: Annotated[Time | None, Meta(description="When the first of those in back-off may start.")] = None


class ExecutionCountsAnswer(Answer):
    by: str
    counts: list[ExecutionCountAnswer]
    total: int
    unknown_names: UnknownNames = None
    token: Annotated[str | None, Meta(description="More to count: ask for the next page and add its counts.")] = None

    @classmethod
    def from_counted(cls, by: str, counted: CountedPage, token: str | None) -> ExecutionCountsAnswer:
        groups = sorted(counted.page.groups, key=lambda group: (-group.count, group.value))
        if by == DAY:
            groups.sort(key=lambda group: group.value, reverse=True)
        return cls(
            by=by,
            counts=[ExecutionCountAnswer.from_attributes(group) for group in groups],
            total=sum(group.count for group in groups),
            unknown_names=UnknownNameAnswer.from_unknown(counted.unknown),
            token=token,
        )
