"""Logs of executions, and the files that they leave."""

from __future__ import annotations

import base64
from typing import Annotated

from marshmallow import ValidationError, fields, validate, validates_schema
from msgspec import Meta

from admin.messages.requests import Fields, Flag, Number, OneOf, RequestSchema, Seconds, Whole
from admin.messages.selectors import TimeField
from admin.messages.shared import Answer
from admin.services.logs import LogText, OutputPiece
from admin.store.logs import StoredOutput


class LogsQuery(RequestSchema):
    attempt = Number(least=1, metadata={"description": "The last one, if not given."})
    stream = fields.String(load_default="stdout", validate=OneOf(["stdout", "stderr"]))
    offset = Number(metadata={"description": "Where to begin; 0, if not given."})
    tail = Number(metadata={"description": "Begin with the last lines, so many; they may go on with next_offset."})
    since = TimeField(metadata={"type": "string", "description": "Begin with what was stored since a time, or 5m ago."})
    limit = Whole(load_default=65_536, validate=validate.Range(min=1, max=1024 * 1024))
    with_bytes = Flag(
        load_default=False, metadata={"description": "Also answer the bytes as they are, which may be no UTF-8."}
    )
    wait_seconds = Seconds(load_default=0, validate=validate.Range(min=0, max=60))

    @validates_schema
    def check_start(self, query: Fields, **_: object) -> None:
        if "offset" in query and query.keys() & {"tail", "since"}:
            raise ValidationError("says where to begin, as tail and since do: give it without them.", "offset")


class LogsAnswer(Answer):
    attempt: int
    stream: str
    offset: int
    data: Annotated[str, Meta(description="Where bytes of the stream are missing, a line says how many.")]
    next_offset: int
    complete: Annotated[bool, Meta(description="It has ended, and there is no more.")]
    truncated: Annotated[bool, Meta(description="It printed more than is kept: the middle is missing.")]
    end: Annotated[int, Meta(description="Where what is stored of it ends by now.")]
    data_base64: Annotated[str | None, Meta(description="With with_bytes: what data is the text of.")] = None
    pruned: Annotated[bool | None, Meta(description="It ended so long ago that what it printed is no longer kept.")] = (
        None
    )

    @classmethod
    def from_text(cls, log: LogText) -> LogsAnswer:
        content = None if log.content is None else base64.b64encode(log.content).decode()
        return cls.from_attributes(log, data_base64=content)


class OutputAnswer(Answer):
    path: str
    size: int
    kept: Annotated[int, Meta(description="How many bytes of it are stored; fewer than its size if it was cut.")]
    limit: Annotated[int, Meta(description="How many bytes of a file are stored at most.")]
    truncated: Annotated[bool, Meta(description="It was cut: fewer bytes are stored than it has.")]
    attempt: int
    content_base64: Annotated[
        str | None, Meta(description="All that is stored of it. Of a large file outputs/content has it.")
    ] = None
    beginning_base64: Annotated[
        str | None, Meta(description="The first 64 KiB of a large file, in place of content_base64.")
    ] = None

    @classmethod
    def from_stored(cls, stored: StoredOutput, limit: int) -> OutputAnswer:
        file, kept = stored
        content = base64.b64encode(file.content).decode()
        is_all = len(file.content) >= kept
        return cls.from_attributes(
            file,
            kept=kept,
            limit=limit,
            truncated=kept < file.size,
            content_base64=content if is_all else None,
            beginning_base64=None if is_all else content,
        )


class OutputsAnswer(Answer):
    outputs: list[OutputAnswer]
    pruned: Annotated[bool | None, Meta(description="It ended so long ago that what it left is no longer kept.")] = None


class OutputQuery(RequestSchema):
    path = fields.String(required=True, validate=validate.Length(min=1, max=4096))
    offset = Number(load_default=0)
    limit = Whole(load_default=262_144, validate=validate.Range(min=1, max=1024 * 1024))


class OutputPieceAnswer(Answer):
    path: str
    size: int
    kept: int
    attempt: int
    offset: int
    content_base64: str
    next_offset: int
    complete: Annotated[bool, Meta(description="There is no more of it.")]

    @classmethod
    def from_piece(cls, piece: OutputPiece) -> OutputPieceAnswer:
        return cls.from_attributes(piece, content_base64=base64.b64encode(piece.content).decode())
