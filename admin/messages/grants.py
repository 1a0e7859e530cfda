"""Grants, roles, and who may do what."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from marshmallow import ValidationError, fields, validates_schema
from msgspec import Meta

from admin.core.grants import GROUP, USER, Grant, Grantee
from admin.core.permissions import PERMISSIONS, Role
from admin.core.settings.scopes import Level, Scope, check_scope
from admin.messages.definitions import WrittenAnswer, named_body
from admin.messages.requests import NAME, Fields, PageQuery, ScopeQuery
from admin.messages.shared import (
    Answer,
    Json,
    ProvenanceAnswer,
    ScopeAnswer,
    SeenAnswer,
    StatesProvenance,
    VersionPruned,
    described_as,
    is_pruned,
    one_of,
)
from admin.messages.unknown_names import UnknownNameAnswer, UnknownNames
from admin.messages.users import NarrowedAnswer
from admin.services.grants import AccessExplanation, GrantView, ScopeAccess
from admin.store.grants import GrantFilter

GrantBody = named_body("grant", {"role": "viewer", "user": "ada", "project": "flytesnacks", "domain": "development"})


class GranteeFields(ScopeQuery):
    user = fields.String(validate=NAME)
    group = fields.String(validate=NAME)


class GrantsQuery(GranteeFields, PageQuery):
    role = fields.String(validate=NAME)


class AccessQuery(ScopeQuery, PageQuery):
    """A scope, without keys the platform, and a page of the grants that reach it."""


class HolderFields(GranteeFields):
    """A user or a group, and perhaps a scope."""

    @validates_schema
    def check_grantee(self, query: Fields, **_: object) -> None:
        if (USER in query) == (GROUP in query):
            raise ValidationError("is missing: give a user, or a group, and not both.", USER)


class ExplainAccessQuery(HolderFields):
    permission = fields.String(
        required=True, validate=NAME, metadata={"description": "As /api/v1/roles lists them.", "example": "logs.read"}
    )


def scope_of(query: Fields) -> Scope:
    """The scope that a query names; the platform without keys."""
    return check_scope(**{key: query.get(key, "") for key in Scope._fields})


def grantee_of(query: Fields) -> Grantee:
    """The user or group that a query names."""
    noun = USER if USER in query else GROUP
    return Grantee(noun, query[noun])


def grant_filter(query: Fields) -> GrantFilter:
    """The grants that a query asks for: on a scope and below it."""
    scope = scope_of(query)
    nouns = [noun for noun in (USER, GROUP) if noun in query]
    return GrantFilter(
        role=query.get("role"),
        grantees=[Grantee(noun, query[noun]) for noun in nouns] if nouns else None,
        below=scope if any(scope) else None,
    )


class GrantAnswer(ScopeAnswer):
    """A role that a user or group has on a scope."""

    name: str
    role: str
    user: str | None = None
    group: str | None = None
    level: Annotated[str, one_of(*(level.value for level in Level))]
    version: int
    provenance: StatesProvenance = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_view(cls, view: GrantView, **more: object) -> Self:
        grant = view.grant
        return cls.from_attributes(
            grant,
            user=grant.grantee.name if grant.grantee.noun == USER else None,
            group=grant.grantee.name if grant.grantee.noun == GROUP else None,
            level=grant.scope.level.value,
            version=view.version,
            provenance=ProvenanceAnswer.by_state({"definition": view.provenance} if view.provenance else {}),
            version_pruned=is_pruned(view.version, view.provenance),
            **more,
        )


class GrantsAnswer(SeenAnswer):
    grants: list[GrantAnswer]
    token: str | None = None


class GrantWritten(WrittenAnswer):
    grant: Annotated[Json | None, described_as("GrantAnswer", "GrantDefinition")] = None  # the latter in a plan


class AccessGrantAnswer(GrantAnswer):
    """A grant that reaches a scope, with what it gives there."""

    users: Annotated[list[str] | None, Meta(description="Of a group: who is in it, also through other groups.")] = None
    absent_users: Annotated[
        list[str] | None,
        Meta(description="Of its users, those that do not exist: it has no effect for them until they are created."),
    ] = None
    permissions: Annotated[list[str], Meta(description="Those of its role that count at this scope.")]


class AccessAnswer(ScopeAnswer):
    """Who may do what at a scope."""

    level: str
    grants: Annotated[list[AccessGrantAnswer], Meta(description="That reach it, those on the broadest scopes first.")]
    unknown_names: UnknownNames = None
    token: str | None = None

    @classmethod
    def from_access(cls, access: ScopeAccess, token: str | None) -> AccessAnswer:
        def users_of(grant: Grant) -> list[str]:
            name = grant.grantee.name
            return list(access.users[name]) if grant.grantee.noun == GROUP else [name]

        grants = [
            AccessGrantAnswer.from_view(
                view,
                users=users_of(view.grant) if view.grant.grantee.noun == GROUP else None,
                absent_users=[name for name in users_of(view.grant) if name in access.absent] or None,
                permissions=list(access.permissions[view.grant.name]),
            )
            for view in access.views
        ]
        return cls.from_attributes(
            access,
            level=access.scope.level.value,
            grants=grants,
            unknown_names=UnknownNameAnswer.from_unknown(access.unknown_names),
            token=token,
        )


class AllowingGrantAnswer(GrantAnswer):
    """A grant by which someone may do something."""

    through: Annotated[
        list[str] | None, Meta(description="The groups by which the user or group has it, the nearest first.")
    ] = None


class AccessExplanationAnswer(ScopeAnswer):
    """Whether someone may do something, by what, or what is missing."""

    user: str | None = None
    group: str | None = None
    permission: str
    allowed: bool
    message: Annotated[str, Meta(description="All of it in a few sentences.")]
    grants: Annotated[
        list[AllowingGrantAnswer],
        Meta(description="That allow it, of the broadest scopes first; that would, where there is no such user."),
    ]
    elsewhere: Annotated[
        list[AllowingGrantAnswer], Meta(description="Where none allows it: those that give it at other scopes.")
    ]
    groups: Annotated[list[str], Meta(description="That the user is in, or that contain the group, itself included.")]
    roles: Annotated[list[str], Meta(description="That hold the permission.")]
    could_give: Annotated[list[str], Meta(description="Who could give it: `user ada`, `group ops`.")]
    narrowed: Annotated[
        NarrowedAnswer | None,
        Meta(description="What the token of the request is good for, where a user asks by one that is narrower."),
    ] = None
    token_allowed: Annotated[bool | None, Meta(description="Whether it is allowed by that token.")] = None
    unknown_names: UnknownNames = None

    @classmethod
    def from_explanation(cls, explanation: AccessExplanation) -> AccessExplanationAnswer:
        def answers(views: Iterable[GrantView]) -> list[AllowingGrantAnswer]:
            paths = explanation.paths
            return [
                AllowingGrantAnswer.from_view(view, through=list(paths.get(view.grant.name, ())) or None)
                for view in views
            ]

        grantee = explanation.grantee
        return cls.from_attributes(
            explanation,
            user=grantee.name if grantee.noun == USER else None,
            group=grantee.name if grantee.noun == GROUP else None,
            allowed=explanation.is_allowed,
            grants=answers(explanation.views),
            elsewhere=answers(explanation.elsewhere),
            groups=list(explanation.groups),
            roles=list(explanation.roles),
            could_give=list(map(str, explanation.able)),
            narrowed=NarrowedAnswer.from_narrowing(explanation.narrowed),
            unknown_names=UnknownNameAnswer.from_unknown(explanation.unknown_names),
        )


class RoleAnswer(Answer):
    """A named set of permissions."""

    name: str
    description: str
    permissions: list[str]

    @classmethod
    def from_role(cls, role: Role) -> RoleAnswer:
        return cls(name=role.name, description=role.description, permissions=sorted(role.permissions))


class PermissionAnswer(Answer):
    """One thing that one may do."""

    name: str
    description: str
    place: Annotated[str, Meta(description="Where one must have it.")]


class RolesAnswer(Answer):
    roles: list[RoleAnswer]
    permissions: list[PermissionAnswer]

    @classmethod
    def from_roles(cls, roles: Iterable[Role]) -> RolesAnswer:
        return cls(
            roles=[RoleAnswer.from_role(role) for role in roles],
            permissions=[
                PermissionAnswer(name=item.name, description=item.description, place=item.place.value)
                for item in PERMISSIONS.values()
            ],
        )
