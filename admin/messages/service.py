"""Probes, the version, the description of the API, and the registry of kinds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin import __version__
from admin.core.settings.kinds import Kind
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


class WarningsAnswer(Answer):
    warnings: list[WarningAnswer]
