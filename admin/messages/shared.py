"""The parts that many messages share: the base of every answer, scopes, origins and warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Self, dataclass_transform

import msgspec
from msgspec import Meta, Struct, StructMeta, field

from admin.core.provenance import Provenance
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.scopes import Level
from admin.core.settings.warnings import Warning

#: A time in UTC, written in RFC 3339 to the microsecond.
Time = Annotated[datetime, Meta(tz=True)]
#: JSON whose fields a kind, a configuration or an engine defines: the only values here without a type of their own.
Json = dict[str, Any]


def one_of(*values: str) -> Meta:
    """The description of a text that is one of some words."""
    return Meta(extra_json_schema={"enum": list(values)})


def described_as(*components: str) -> Meta:
    """The description of JSON that the document describes under a name, or under one of several."""
    references = [{"$ref": f"#/components/schemas/{component}"} for component in components]
    return Meta(extra_json_schema=references[0] if len(references) == 1 else {"anyOf": references})


class MessageMeta(StructMeta):
    """Lets every message have keyword-only fields, so that optional ones may stand before others."""

    # The types are those of msgspec.
    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **config: Any) -> MessageMeta:
        return super().__new__(mcls, name, bases, namespace, **{"kw_only": True, "frozen": True, **config})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Answer(Struct, metaclass=MessageMeta, omit_defaults=True, frozen=True):
    """What every answer is: fields in the order of their JSON, and those that are None are left out."""

    has_other_fields: ClassVar[bool] = False  #: whether there may be more than is described

    @classmethod
    def from_attributes(cls, source: object, /, **fields: object) -> Self:
        """The answer whose fields are the attributes of a value by the same names, but for the given ones."""
        values: Json = {name: getattr(source, name) for name in cls.__struct_fields__ if name not in fields}
        return cls(**values, **fields)


class SeenAnswer(Answer):
    """An answer that has of what was asked for only what the caller may see."""

    partial: Annotated[
        bool | None, Meta(description="True where there may be more that you may not see; absent otherwise.")
    ] = None


def encode(answer: Answer) -> bytes:
    """An answer as JSON, on a line of its own."""
    try:
        return msgspec.json.encode(answer) + b"\n"
    except OverflowError:  # a payload holds a number with more than 64 bits, which only Python's encoder writes
        return encode_json(msgspec.to_builtins(answer))


def encode_json(values: Json) -> bytes:
    """The same of an answer as plain JSON values."""
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


#: One kind's payload under the key of its kind.
MatchingAttributes = Annotated[Json, described_as("MatchingAttributes")]


def to_json(answer: Answer) -> Json:
    """An answer as plain JSON values, for a place in another."""
    values: Json = msgspec.to_builtins(answer)
    return values


#: Where a value may come from: a level, or what lies above all of them for one execution.
LEVELS = [*(level.value for level in Level), "launch-plan-definition", "request"]
#: The name beside an author.
ClaimedBy = Annotated[str | None, Meta(description="The name that the caller gave, unverified.")]
#: How an author was proven.
ProofField = Annotated[
    str | None,
    Meta(
        description="How the author was proven: token, openid or shared-token; `token of ada` where the administrator "
        "ada acted as the author. Absent where nobody asked."
    ),
]
#: The revision before which the fields were set whose revisions are no longer kept.
SetBefore = Annotated[
    int | None, Meta(description="The revision before which the others were set, by ones that are no longer kept.")
]


class ScopeAnswer(Answer):
    """The keys of a scope; the ones that do not apply are left out."""

    domain: str | None = None
    project: str | None = None
    workflow: str | None = None
    launch_plan: str | None = None

    @classmethod
    def from_attributes(cls, source: Any, /, **fields: object) -> Self:  # with a scope
        """The keys are those of the value's scope."""
        keys = {name: key or None for name, key in source.scope._asdict().items()}
        return super().from_attributes(source, **keys, **fields)


class OriginAnswer(ScopeAnswer):
    """Where a value comes from."""

    level: Annotated[str, one_of(*LEVELS)]
    version: Annotated[int | None, Meta(description="Of the stored row.")] = None
    key: Annotated[str | None, Meta(description="The configuration key, for the platform's own values.")] = None
    revision: Annotated[int | None, Meta(description="That set this field; in answers with provenance.")] = None
    set_before: Annotated[
        int | None, Meta(description="The revision before which the field was set, by one that is no longer kept.")
    ] = None
    assumed: Annotated[bool | None, Meta(description="True for a field that the proposed changes would set.")] = None


class ProvenanceAnswer(Answer):
    """The revision or event that set something."""

    revision: int | None = None
    event: Annotated[int | None, Meta(description="The number of a cluster's event.")] = None
    author: Annotated[
        str | None, Meta(description="Left out, as the names and the message, where you may not read the revision.")
    ] = None
    claimed_by: ClaimedBy = None
    at: Time
    message: str | None = None
    kept: Annotated[
        bool | None, Meta(description="False for a revision that is no longer kept; the row tells the rest.")
    ] = None
    undone: Annotated[int | None, Meta(description="The revision that it rolled back, of a rollback.")] = None
    also_undone: Annotated[
        list[int] | None, Meta(description="The other revisions that it rolled back, of a rollback of several.")
    ] = None
    restored: Annotated[int | None, Meta(description="The revision that it went back to, of a rollback.")] = None
    proof: Annotated[
        str | None, Meta(description="Where an administrator acted as the author: how, and who, as `token of ada`.")
    ] = None

    @classmethod
    def from_attributes(cls, source: Any, /, **fields: object) -> Self:
        return super().from_attributes(source, author=source.author or None, **fields)

    @classmethod
    def by_number(cls, provenance: Mapping[int, Provenance]) -> dict[str, ProvenanceAnswer]:
        """Revisions by their numbers, which JSON has as text where they are keys."""
        return {str(number): cls.from_attributes(revision) for number, revision in sorted(provenance.items())}

    @classmethod
    def by_state(cls, provenance: Mapping[str, Provenance]) -> dict[str, ProvenanceAnswer] | None:
        """Revisions and events by the state that they led to; None where there are none."""
        return {state: cls.from_attributes(entry) for state, entry in provenance.items()} or None


#: The revision or event that set each state of a part of the fleet.
StatesProvenance = Annotated[
    dict[str, ProvenanceAnswer] | None,
    Meta(
        description="Of its `definition`; of a cluster also of `disabled`, `cordoned` and `draining` while it is so, "
        "and of `deleted` where its definition is gone and pools or labels still name it."
    ),
]
#: Whether nobody knows any more who made a definition as it is, or only what its row keeps.
VersionPruned = Annotated[
    bool | None, Meta(description="True where the revision that is its version is no longer kept; absent otherwise.")
]


def is_pruned(version: int | None, provenance: Provenance | None) -> bool | None:
    """The value of `VersionPruned`."""
    return True if version and (provenance is None or provenance.kept is False) else None


#: The revisions that made what an answer shows.
Revisions = Annotated[
    dict[str, ProvenanceAnswer] | None,
    Meta(description="The revisions that are named, by number; those of which nothing is kept are left out."),
]


class WarningAnswer(ScopeAnswer):
    """Something stored that is questionable."""

    code: str
    message: str
    resource_type: str
    level: str
    field: str
    closest: list[str] | None = None
    name: Annotated[str | None, Meta(description="Of what belongs to no scope: a pool, label, group or grant.")] = None
    deleted_by: Annotated[
        ProvenanceAnswer | None, Meta(description="The revision that deleted the pool, label or cluster it names.")
    ] = None
    set_by: Annotated[
        ProvenanceAnswer | None,
        Meta(
            description="In the list of warnings: the revision that set the field, or with `set_before`, and where the "
            "field is none of the row's, the last one of the row; of a pool, label or cluster that of its definition."
        ),
    ] = None
    set_before: Annotated[
        int | None, Meta(description="The revision before which it was set, by one that is no longer kept.")
    ] = None

    @classmethod
    def from_warning(cls, warning: Warning, **fields: object) -> Self:
        deleted_by, set_by = warning.deleted_by, warning.set_by
        return cls.from_attributes(
            warning,
            deleted_by=None if deleted_by is None else ProvenanceAnswer.from_attributes(deleted_by),
            set_by=None if set_by is None else ProvenanceAnswer.from_attributes(set_by),
            resource_type=warning.kind,
            level=warning.scope.level.value,
            closest=list(warning.closest) or None,
            name=warning.name or None,
            **fields,
        )


class NoticeAnswer(Answer):
    """Something questionable about a request that is carried out all the same."""

    code: str
    message: str

    @classmethod
    def from_warnings(cls, warnings: Iterable[Mapping[str, str]]) -> list[Self]:
        return [cls(code=warning["code"], message=warning["message"]) for warning in warnings]


def matching(kind: Kind, payload: Payload) -> Json:
    """A payload under the key of its kind."""
    return {kind.payload_key: payload}
