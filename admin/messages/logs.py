"""Logs of executions, and the small files that they leave."""

from __future__ import annotations

import base64
from typing import Annotated

from marshmallow import fields, validate
from msgspec import Meta

from admin.messages.requests import Number, RequestSchema, Seconds, Whole
from admin.messages.shared import Answer
from admin.store.logs import OutputFile


class LogsQuery(RequestSchema):
    attempt = Number(least=1, metadata={"description": "The last one, if not given."})
    stream = fields.String(load_default="stdout", validate=validate.OneOf(["stdout", "stderr"]))
    offset = Number(load_default=0)
    limit = Whole(load_default=65_536, validate=validate.Range(min=1, max=1024 * 1024))
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))


class LogsAnswer(Answer):
    attempt: int
    stream: str
    offset: int
    data: str
    next_offset: int
    complete: Annotated[bool, Meta(description="It has ended, and there is no more.")]
    truncated: Annotated[bool, Meta(description="It printed more than is kept.")]
    pruned: Annotated[bool | None, Meta(description="It ended so long ago that what it printed is no longer kept.")] = (
        None
    )


class OutputAnswer(Answer):
    path: str
    size: int
    truncated: bool
    attempt: int
    content_base64: str

    @classmethod
    def from_output(cls, output: OutputFile) -> OutputAnswer:
        return cls.from_attributes(output, content_base64=base64.b64encode(output.content).decode())


class OutputsAnswer(Answer):
    outputs: list[OutputAnswer]
    pruned: Annotated[bool | None, Meta(description="It ended so long ago that what it left is no longer kept.")] = None
