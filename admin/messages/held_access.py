"""Held access: what one user or group may do and use, by which grants."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.core.grants import GROUP, USER
from admin.messages.granted_uses import UseGrantAnswer
from admin.messages.grants import AllowingGrantAnswer, HolderFields
from admin.messages.pages import key_of, token_of, wrong_token
from admin.messages.requests import PageQuery
from admin.messages.shared import SeenAnswer, one_of
from admin.messages.unknown_names import UnknownNameAnswer, UnknownNames
from admin.messages.users import NarrowedAnswer
from admin.services.held_access import HeldAccess, HeldKey, HeldUse

_GRANT, _USE_GRANT = "grant", "use_grant"
#: In the name of a grant, between its role, its noun and its grantee.
_LEAST_COLONS = 2


class HeldAccessQuery(HolderFields, PageQuery):
    """A user or a group; with the keys of a scope, only the grants that reach it."""


def held_key(token: str | None) -> HeldKey | None:
    """The key in the token of a page; None for the first."""
    key = key_of(token, 2)
    if key is None:
        return None
    if key[0] not in (_GRANT, _USE_GRANT) or key[1].count(":") < _LEAST_COLONS:
        raise wrong_token()
    return key[0] == _USE_GRANT, key[1]


class HeldGrantAnswer(AllowingGrantAnswer):
    """A grant that someone has, with what it gives."""

    permissions: Annotated[
        list[str], Meta(description="Those of its role that count at its scope, or at the one asked about.")
    ]


class HeldUseGrantAnswer(UseGrantAnswer):
    """A use grant that counts for someone."""

    through: Annotated[
        list[str] | None, Meta(description="The groups by which the user or group has it, the nearest first.")
    ] = None
    clusters: Annotated[list[str], Meta(description="That it covers now.")]

    @classmethod
    def from_use(cls, use: HeldUse, through: list[str] | None) -> HeldUseGrantAnswer:
        answer = UseGrantAnswer.from_view(use.view)
        return cls.from_attributes(answer, through=through, clusters=list(use.clusters))


class HeldAccessAnswer(SeenAnswer):
    """What a user or group may do and use."""

    user: str | None = None
    group: str | None = None
    message: Annotated[str, Meta(description="All of it in a few sentences.")]
    groups: Annotated[list[str], Meta(description="That the user is in, or that contain the group.")]
    grants: Annotated[list[HeldGrantAnswer], Meta(description="Those on the platform first, then by scope.")]
    cluster_use: Annotated[
        str, one_of("open", "closed"), Meta(description="Whether everybody may use every cluster, or by use grants.")
    ]
    use_grants: Annotated[
        list[HeldUseGrantAnswer] | None,
        Meta(
            description="By which clusters may be used, also those of projects where the user may create executions; "
            "absent where you may not see them."
        ),
    ] = None
    narrowed: Annotated[
        NarrowedAnswer | None,
        Meta(description="What the token of the request is good for, where a user asks by one that is narrower."),
    ] = None
    unknown_names: UnknownNames = None
    token: Annotated[
        str | None, Meta(description="For the next page: grants come first, then use grants; absent on the last.")
    ] = None

    @classmethod
    def from_held(cls, held: HeldAccess) -> HeldAccessAnswer:
        def through(noun: str, name: str) -> list[str] | None:
            return (list(held.paths.get(name, ())) or None) if noun == GROUP else None

        noun, name = held.grantee
        key = held.next_key
        return cls(
            user=name if noun == USER else None,
            group=name if noun == GROUP else None,
            message=held.message,
            groups=list(held.groups),
            grants=[
                HeldGrantAnswer.from_view(
                    view,
                    through=through(*view.grant.grantee),
                    permissions=list(held.permissions[view.grant.name]),
                )
                for view in held.views
            ],
            cluster_use="closed" if held.is_closed else "open",
            use_grants=None
            if held.uses is None
            else [HeldUseGrantAnswer.from_use(use, through(*use.view.grant.grantee)) for use in held.uses],
            narrowed=NarrowedAnswer.from_narrowing(held.narrowed),
            unknown_names=UnknownNameAnswer.from_unknown(held.unknown_names),
            token=None if key is None else token_of((_USE_GRANT if key[0] else _GRANT, key[1])),
            partial=held.is_partial or None,
        )
