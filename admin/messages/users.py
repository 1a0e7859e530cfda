"""Users, their tokens, and who calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar

from marshmallow import fields, validate
from msgspec import Meta

from admin.core import names
from admin.core.identities import Identity, Proof
from admin.core.narrowing import Narrowing
from admin.core.provenance import Provenance
from admin.core.users import User
from admin.messages.definitions import WrittenAnswer, named_body
from admin.messages.requests import NAME, Duration, Fields, Flag, PageQuery, Pattern, RequestSchema, ScopeQuery
from admin.messages.shared import (
    Answer,
    Json,
    ProvenanceAnswer,
    SeenAnswer,
    Time,
    VersionPruned,
    described_as,
    is_pruned,
    one_of,
)
from admin.services.tokens import Issued, state_of
from admin.store.tokens import StoredToken

UserBody = named_body("user", {"name": "ada", "description": "Runs the examples."})


class UsersQuery(PageQuery):
    service_account = Flag(metadata={"description": "true for service accounts alone, false for people alone."})
    idle = Duration(
        metadata={
            "type": "string",
            "description": "Only those of whom no token was used for so long, such as 90d, and who are older; needs "
            "tokens.read.",
        }
    )


class UserTokensQuery(PageQuery):
    unused = Duration(
        metadata={
            "type": "string",
            "description": "Only those that are neither revoked nor expired and were not used for so long, such as "
            "90d, and are older.",
        }
    )


class UserAnswer(Answer):
    name: str
    service_account: bool
    description: str | None = None
    created_at: Time
    updated_at: Time
    last_seen_at: Annotated[
        Time | None,
        Meta(
            description="When a token of it was used last, to the minute; absent where none was, and for who may not "
            "list its tokens."
        ),
    ] = None
    version: Annotated[int, Meta(description="The number of the last revision that changed it.")]
    provenance: Annotated[dict[str, ProvenanceAnswer] | None, Meta(description="Of its `definition`.")] = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_user(cls, user: User, made_by: Mapping[int, Provenance], last_seen: Mapping[str, datetime]) -> UserAnswer:
        """A user, with the revision that made it as it is if that is kept."""
        definition = made_by.get(user.version)
        return cls.from_attributes(
            user,
            last_seen_at=last_seen.get(user.name),
            provenance=None if definition is None else ProvenanceAnswer.by_state({"definition": definition}),
            version_pruned=is_pruned(user.version, definition),
        )


class UsersAnswer(Answer):
    users: list[UserAnswer]
    token: str | None = None


class UserWritten(WrittenAnswer):
    user: Annotated[Json | None, described_as("UserAnswer", "UserDefinition")] = None  # the latter in a plan


class NarrowedBody(ScopeQuery):
    """What a token is good for, of all that its user may do."""

    role = fields.String(validate=NAME, metadata={"description": "It may do what this role allows."})
    permissions = fields.List(
        fields.String(validate=NAME),
        validate=validate.Length(min=1, max=100),
        metadata={"description": "It may do these alone."},
    )
    clusters = fields.List(
        fields.String(validate=NAME),
        validate=validate.Length(min=1, max=100),
        metadata={"description": "The executions that it creates may use these clusters, and no others."},
    )
    cluster_groups = fields.List(
        fields.String(validate=NAME),
        validate=validate.Length(min=1, max=100),
        metadata={"description": "They may use the clusters of these groups too, as they are at each decision."},
    )


class UserTokenBody(RequestSchema):
    example: ClassVar[Fields] = {"name": "laptop", "expires": "90d", "narrowed": {"role": "viewer"}}

    name = fields.String(
        required=True,
        validate=Pattern(f"^{names.ENTITY_NAME}$", error=f"is not a token's name: use {names.ENTITY_NAME_RULE}."),
        metadata={"description": "What it is for: no other good token of the user has it."},
    )
    expires = Duration(
        metadata={"type": "string", "description": "After how long it ends, such as 90d; without it, never."}
    )
    narrowed = fields.Nested(
        NarrowedBody, metadata={"description": "What it is good for; without it, for all that its user may do."}
    )


class NarrowedAnswer(Answer):
    """What a token is good for, of all that its user may do."""

    role: str | None = None
    permissions: list[str] | None = None
    project: str | None = None
    domain: str | None = None
    workflow: str | None = None
    launch_plan: str | None = None
    clusters: list[str] | None = None
    cluster_groups: list[str] | None = None

    @classmethod
    def from_narrowing(cls, narrowing: Narrowing | None) -> NarrowedAnswer | None:
        return None if narrowing is None else cls(**narrowing.payload)


#: What a token is good for.
NarrowedField = Annotated[NarrowedAnswer | None, Meta(description="Absent where it is as good as its user.")]


class IssuedUserTokenAnswer(Answer):
    user: str
    name: str
    token: Annotated[str, Meta(description="Shown this once.")]
    prefix: str
    created_at: Time
    expires_at: Time | None = None
    narrowed: NarrowedField = None

    @classmethod
    def from_issued(cls, issued: Issued) -> IssuedUserTokenAnswer:
        narrowed = NarrowedAnswer.from_narrowing(issued.narrowed)
        return cls.from_attributes(issued, user=issued.owner, narrowed=narrowed)


class UserTokenAnswer(Answer):
    user: str
    prefix: str
    name: str
    state: Annotated[str, one_of("live", "expiring", "expired", "revoked")]
    created_at: Time
    last_used_at: Annotated[Time | None, Meta(description="To the minute; absent where it was never used.")] = None
    expires_at: Time | None = None
    revoked_at: Time | None = None
    narrowed: NarrowedField = None

    @classmethod
    def from_token(cls, token: StoredToken, now: datetime) -> UserTokenAnswer:
        narrowed = NarrowedAnswer.from_narrowing(Narrowing.of_payload(token.narrowed))
        return cls.from_attributes(token, user=token.owner, state=state_of(token, now), narrowed=narrowed)


class UserTokensAnswer(Answer):
    tokens: list[UserTokenAnswer]


class AllUserTokensAnswer(SeenAnswer):
    tokens: list[UserTokenAnswer]
    token: Annotated[str | None, Meta(description="Of the next page.")] = None


class WhoamiAnswer(Answer):
    """Who calls, and how that was proven."""

    user: str
    groups: list[str]
    proof: Annotated[str, one_of(*(proof.value for proof in Proof))]
    cluster: Annotated[str | None, Meta(description="Of an agent.")] = None
    administrator: Annotated[str | None, Meta(description="Who acts as the user, and was proven.")] = None
    narrowed: NarrowedField = None

    @classmethod
    def from_identity(cls, identity: Identity) -> WhoamiAnswer:
        narrowed = NarrowedAnswer.from_narrowing(identity.narrowed)
        groups = sorted(identity.groups)
        return cls.from_attributes(identity, groups=groups, proof=identity.proof.value, narrowed=narrowed)
