"""Terminations: ending an execution, or all that a selector matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from marshmallow import fields, validate
from msgspec import Meta

from admin.messages.executions import ExecutionIdAnswer
from admin.messages.requests import Fields, Whole
from admin.messages.selectors import MOST_SHOWN, CauseBody, ManyBody
from admin.messages.shared import Answer, Time
from admin.services.endings import EndedMany
from admin.services.terminations import EndPreview, SilentEnd
from admin.store.executions import Execution, ListedExecution


class EndBody(CauseBody):
    example: ClassVar[Fields] = {"cause": "Wrong inputs.", "claimed_by": "ada"}

    give_up = fields.Boolean(
        load_default=False,
        metadata={"description": "End it without its agent, at a cluster that is silent; the job may go on there."},
    )


class EndManyBody(ManyBody, EndBody):
    example: ClassVar[Fields] = {"selector": {"phase": "QUEUED", "project": "flytesnacks"}, "cause": "Wrong inputs."}

    limit = Whole(
        validate=validate.Range(min=1),
        metadata={"description": "End at most so many, the oldest first; all if not given."},
    )


class EndedAnswer(Answer):
    id: ExecutionIdAnswer
    phase: str
    changed: bool
    message: Annotated[
        str | None, Meta(description="Since when its cluster is silent, if it is, and what can be done about that.")
    ] = None
    silent_since: Annotated[
        Time | None,
        Meta(description="When the agent that has it was last heard, if it is silent: it is told when heard again."),
    ] = None
    dry_run: Annotated[bool | None, Meta(description="True where nothing was done.")] = None
    phase_after: Annotated[
        str | None, Meta(description="Of a dry run: the phase that it would have, where that would change it.")
    ] = None

    @classmethod
    def from_execution(
        cls, execution: Execution | ListedExecution, silent: SilentEnd | None, *, changed: bool
    ) -> EndedAnswer:
        return cls(
            id=ExecutionIdAnswer.from_execution(execution),
            phase=execution.phase,
            changed=changed,
            message=None if silent is None else silent.message,
            silent_since=None if silent is None else silent.since,
        )

    @classmethod
    def from_preview(cls, preview: EndPreview) -> EndedAnswer:
        after = preview.phase_after
        return cls(
            id=ExecutionIdAnswer.from_execution(preview.execution),
            phase=preview.execution.phase,
            changed=after is not None,
            message=preview.note,
            silent_since=preview.silent_since,
            dry_run=True,
            phase_after=None if after is None else after.value,
        )


class ManyEndedAnswer(Answer):
    matched: int
    terminated: int
    executions: list[EndedAnswer]
    dry_run: bool
    more: Annotated[bool | None, Meta(description="Whether others fit too, beyond the limit.")] = None

    @classmethod
    def from_ended(
        cls,
        many: EndedMany,
        silent: Mapping[int, SilentEnd],
        *,
        dry_run: bool,
    ) -> ManyEndedAnswer:
        ended = many.executions
        return cls(
            matched=len(ended),
            terminated=0 if dry_run else sum(is_change for _, is_change in ended),
            executions=[
                EndedAnswer.from_execution(execution, silent.get(execution.id), changed=is_change and not dry_run)
                for execution, is_change in ended[:MOST_SHOWN]
            ],
            dry_run=dry_run,
            more=many.more or None,
        )
