"""Quotas: how much of them is used, and by whom."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.executions.quotas import OF_RUNNING, OF_WAITING
from admin.messages.requests import OneOf, ScopeQuery
from admin.messages.shared import LEVELS, Answer, ProvenanceAnswer, ScopeAnswer, one_of
from admin.services.execution_quotas import USED_BY, USER, QuotaUse

#: Users or projects that are told; the others are counted.
_MOST_USERS = 20


class QuotaUsesQuery(ScopeQuery):
    by = fields.String(validate=OneOf(USED_BY), metadata={"description": f"What `used_by` is by; {USER} by default."})


class QuotaUserAnswer(Answer):
    """What one user or project uses; neither is told where it is unknown, or of executions that one may not read."""

    user: Annotated[
        str | None, Meta(description="Who created the executions, a claimed name as such: `anonymous (says ana)`.")
    ] = None
    project: str | None = None
    used: str


class QuotaUseAnswer(ScopeAnswer):
    """One field of a quota, and how much of it everything at and below its scope uses."""

    level: Annotated[str, one_of(*LEVELS)]
    field: Annotated[str, one_of(*OF_RUNNING, *OF_WAITING)]
    used: Annotated[str, Meta(description="Executions, or a quantity of the resource.")]
    limit: Annotated[str, Meta(description="The most; further executions wait or are refused.")]
    is_full: Annotated[bool, Meta(description="Whether nothing is left.")]
    version: Annotated[int | None, Meta(description="Of the row; none for the configuration.")] = None
    key: Annotated[str | None, Meta(description="The key of the configuration.")] = None
    provenance: ProvenanceAnswer | None = None
    used_by: Annotated[
        list[QuotaUserAnswer], Meta(description=f"Who uses it, those who use most first, {_MOST_USERS} at most.")
    ]
    users: Annotated[int, Meta(description="How many do.")]

    @classmethod
    def from_use(cls, use: QuotaUse, by: str) -> QuotaUseAnswer:
        limit = use.limit
        return cls(
            **limit.scope.keys(),
            level=limit.level.value,
            field=limit.field,
            used=limit.show(use.used),
            limit=limit.show(limit.most),
            is_full=use.used >= limit.most,
            version=limit.version,
            key=limit.key or None,
            provenance=None if use.provenance is None else ProvenanceAnswer.from_attributes(use.provenance),
            used_by=[
                QuotaUserAnswer(**{by: user.name}, used=limit.show(user.used)) for user in use.users[:_MOST_USERS]
            ],
            users=len(use.users),
        )


class QuotaUsesAnswer(Answer):
    quotas: Annotated[list[QuotaUseAnswer], Meta(description="The broadest first; all of them hold together.")]
