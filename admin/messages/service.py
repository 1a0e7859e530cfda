"""The admin itself: probes, version, clock, configuration, the description of the API, kinds and warnings."""

from __future__ import annotations

from typing import Annotated, Any

from marshmallow import ValidationError, validate, validates_schema
from msgspec import Meta

from admin import __version__
from admin.configuration import Settings
from admin.core.problems import dotted
from admin.core.settings.kinds import Kind
from admin.messages.pages import key_of, parse_number, wrong_token
from admin.messages.requests import Fields, LevelField, PageQuery, ScopeQuery, Whole
from admin.messages.shared import Answer, Json, SeenAnswer, Time, WarningAnswer, one_of
from admin.services.clocks import ClockView


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
    refers_to: Annotated[
        dict[str, str] | None,
        Meta(description="Fields whose values, or keys, are names of other things: which list each name is in."),
    ] = None

    @classmethod
    def from_kind(cls, kind: Kind) -> KindAnswer:
        return cls.from_attributes(
            kind,
            levels=[level.value for level in kind.levels],
            merge=kind.merge.value,
            schema=kind.payload.schema(),
            refers_to={dotted(path): names.value for path, names in kind.refers_to.items()} or None,
        )


class KindsAnswer(Answer):
    kinds: list[KindAnswer]


class WarningsQuery(ScopeQuery, PageQuery):
    level = LevelField()
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


class WarningsAnswer(SeenAnswer):
    warnings: list[WarningAnswer]
    token: Annotated[str | None, Meta(description="For the next page; absent on the last.")] = None


class ClockAnswer(Answer):
    time: Time
    suspended: Annotated[bool, Meta(description="Whether nothing is pruned or given up, because the clock has jumped.")]
    trusted_at: Annotated[Time, Meta(description="The time at which the clock was last trusted.")]
    message: Annotated[str | None, Meta(description="Why it is not trusted, and what to do.")] = None
    accepted_at: Annotated[Time | None, Meta(description="When an operator last said that it is right.")] = None
    accepted_by: Annotated[str | None, Meta(description="Who said so; not verified, unless it is the author.")] = None
    accepted_author: Annotated[str | None, Meta(description="The user who said so; absent where nobody is known.")] = (
        None
    )
    accepted_reason: str | None = None

    @classmethod
    def from_view(cls, view: ClockView) -> ClockAnswer:
        problem = view.problem
        return cls.from_attributes(view.check, time=view.time, suspended=problem is not None, message=problem)


class ClockAcceptedAnswer(Answer):
    clock: ClockAnswer
    changed: bool


class ConfigurationKeyAnswer(Answer):
    key: Annotated[str, Meta(description="As the file has it: server.port.")]
    value: Any
    source: Annotated[str, one_of("default", "file", "environment", "command line")]


class AdminConfigurationAnswer(Answer):
    values: Annotated[
        list[ConfigurationKeyAnswer], Meta(description="Of the worker that answers; passwords are hidden.")
    ]

    @classmethod
    def from_settings(cls, settings: Settings) -> AdminConfigurationAnswer:
        values = (
            ConfigurationKeyAnswer(key=key, value=value, source=settings.sources.get(key, "default"))
            for key, value in settings.shown_values.items()
        )
        return cls(values=list(values))
