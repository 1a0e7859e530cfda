"""Quotas: how much of them is used."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.core.executions.quotas import OF_RUNNING, OF_WAITING
from admin.messages.shared import LEVELS, Answer, ProvenanceAnswer, ScopeAnswer, one_of
from admin.services.execution_quotas import QuotaUse


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

    @classmethod
    def from_use(cls, use: QuotaUse) -> QuotaUseAnswer:
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
        )


class QuotaUsesAnswer(Answer):
    quotas: Annotated[list[QuotaUseAnswer], Meta(description="The broadest first; all of them hold together.")]
