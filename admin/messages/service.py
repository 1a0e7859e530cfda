"""Probes, the version, the description of the API, and the registry of kinds."""

from __future__ import annotations

from typing import Annotated

from marshmallow import ValidationError, validate, validates_schema
from msgspec import Meta

from admin import __version__
from admin.core.settings.kinds import Kind
from admin.messages.pages import key_of, parse_number, wrong_token
from admin.messages.requests import Fields, PageQuery, Whole
from admin.messages.shared import Answer, Json, WarningAnswer


class StatusAnswer(Answer):
    status: str
    detail: Annotated[str | None, Meta(description="What keeps a ready admin from doing everything.")] = None


class IndexAnswer(Answer):
    version: str
    documentation: Annotated[str, Meta(description="The page that shows the API.")]
    openapi: Annotated[str, Meta(description="The document that describes it.")]


class FlyteVersion(Answer):
    Version: str
    Build: str
    BuildTime: str


class VersionAnswer(Answer):
    version: str
    control_plane_version: FlyteVersion

    @classmethod
    def current(cls) -> VersionAnswer:
        flyte = FlyteVersion(Version=__version__, Build="", BuildTime="")
        return cls(version=__version__, control_plane_version=flyte)


class DocumentAnswer(Answer):
    """An OpenAPI document; only its first field is described here."""

    has_other_fields = True

    openapi: str


class KindAnswer(Answer):
    number: int
    name: str
    noun: str
    payload_key: str
    levels: list[str]
    merge: str
    declared: bool
    description: str
    example: Json
    schema: Annotated[Json, Meta(description="JSON Schema of the payload.")]

    @classmethod
    def from_kind(cls, kind: Kind) -> KindAnswer:
        return cls.from_attributes(
            kind,
            levels=[level.value for level in kind.levels],
            merge=kind.merge.value,
            schema=kind.payload.schema(),
        )


class KindsAnswer(Answer):
    kinds: list[KindAnswer]


class WarningsQuery(PageQuery):
    #: Clients of earlier versions read one answer, which has everything.
    limit = Whole(
        validate=validate.Range(min=1, max=1000),
        metadata={"description": "The most on a page; without it every warning comes at once."},
    )

    @validates_schema
    def check_token(self, query: Fields, **_: object) -> None:
        if "token" in query and "limit" not in query:
            raise ValidationError("goes with limit.", "token")


def position_of(token: str | None) -> tuple[str, ...] | None:
    """Where the page of a token starts; None for the first one."""
    key = key_of(token, 5)
    if key is not None and not key[0] and any(key):
        parse_number(key[1], wrong_token())
    return key


class WarningsAnswer(Answer):
    warnings: list[WarningAnswer]
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None
