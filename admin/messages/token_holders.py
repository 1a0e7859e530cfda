"""Holders of tokens, and limits that they fill; who they are is left out where the caller may not see it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Full
from admin.core.token_pools.claims import EXECUTION_PREFIX
from admin.core.token_pools.grants import Grant
from admin.messages.shared import Answer

#: Whether the caller may see what is at a place.
Sees = Callable[[Scope], bool]


class TokenHolderAnswer(Answer):
    """Who holds tokens; who and what for is left out of those that the caller may not see."""

    amount: int
    since: datetime
    until: datetime
    number: Annotated[int | None, Meta(description="Of executions; other holders alone know theirs.")] = None
    token: str | None = None
    holder: str | None = None
    project: str | None = None
    domain: str | None = None
    execution: str | None = None

    @classmethod
    def from_grant(cls, grant: Grant, sees: Sees) -> TokenHolderAnswer:
        is_seen = sees(grant.place)
        return cls(
            amount=grant.amount,
            since=grant.granted_at,
            until=grant.expires_at,
            # By the number a holder proves a grant to be its own; that of an execution proves nothing over the API.
            number=grant.number if is_seen and grant.token.startswith(EXECUTION_PREFIX) else None,
            token=if_seen(is_seen, grant.token),
            holder=if_seen(is_seen, grant.holder),
            project=if_seen(is_seen, grant.place.project),
            domain=if_seen(is_seen, grant.place.domain),
            execution=if_seen(is_seen, grant.execution),
        )


class FullLimitAnswer(Answer):
    """A limit that leaves no room for a claim."""

    pool: str
    level: Annotated[str, Meta(description="pool, project, namespace or execution; of a quota the level of its row.")]
    origin: str
    cap: int
    used: int
    amount: int
    promised: Annotated[int | None, Meta(description="Free, but kept for those ahead in line.")] = None
    holders: list[TokenHolderAnswer] | None = None
    holder_count: int = 0

    @classmethod
    def from_full(cls, full: Full, sees: Sees) -> FullLimitAnswer:
        return cls(
            pool=full.pool,
            level=full.limit.level,
            origin=full.limit.origin,
            cap=full.limit.cap,
            used=full.used,
            amount=full.amount,
            promised=full.promised or None,
            holders=[TokenHolderAnswer.from_grant(grant, sees) for grant in full.holders] or None,
            holder_count=full.holder_count,
        )


def if_seen(is_seen: bool, text: str) -> str | None:
    """A text that only those are told who may see what it is about."""
    return text if is_seen and text else None
