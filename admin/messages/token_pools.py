"""Token pools, and claims on their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, ClassVar

from marshmallow import fields
from msgspec import Meta

from admin.core.provenance import Provenance
from admin.core.settings.scopes import SCOPE_KEYS
from admin.core.token_pools.answers import Exhausted, Granted, Released, Renewed
from admin.core.token_pools.explanations import MOST_LIMITS, LimitUse, summary_of
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.lines import Waiter
from admin.messages.definitions import WrittenAnswer, named_body
from admin.messages.requests import SCOPE_KEY, Fields, PayloadField, RequestSchema, ScopeQuery
from admin.messages.shared import (
    Answer,
    Json,
    ProvenanceAnswer,
    StatesProvenance,
    VersionPruned,
    described_as,
    is_pruned,
    one_of,
)
from admin.messages.token_holders import FullLimitAnswer, Sees, TokenHolderAnswer, if_seen
from admin.services.token_pools import TokenPoolExplanation, TokenPoolView
from admin.store.token_backends.base import MOST_SHOWN

TokenPoolBody = named_body(
    "token_pool", {"name": "hive", "capacity": 100, "caps": {"project": 20, "namespace": 10, "execution": 2}}
)

_HOLDING = {"token": "etl-1", "pools": {"hive": 1}, "project": "flytesnacks", "domain": "development", "number": 1}


class TokenClaimBody(RequestSchema):
    """Asks for tokens."""

    claim = PayloadField("TokenClaim", required=True)
    example: ClassVar[Fields] = {
        "claim": {"token": "etl-1", "pools": {"hive": 1}, "project": "flytesnacks", "domain": "development"},
    }


class TokenRenewalBody(RequestSchema):
    """Renews tokens."""

    renewal = PayloadField("TokenHolding", required=True)
    example: ClassVar[Fields] = {"renewal": _HOLDING}


class TokenReleaseBody(RequestSchema):
    """Gives tokens back."""

    release = PayloadField("TokenHolding", required=True)
    example: ClassVar[Fields] = {"release": _HOLDING}


class CapsAnswer(Answer):
    """The most tokens that each project, namespace and execution may have."""

    project: int | None = None
    namespace: int | None = None
    execution: int | None = None


class TokenWaiterAnswer(Answer):
    """Who waits for tokens; who and what for is left out of those that the caller may not see."""

    place: int
    amount: int
    priority: int
    since: datetime
    token: str | None = None
    holder: str | None = None
    project: str | None = None
    domain: str | None = None
    execution: str | None = None

    @classmethod
    def from_waiter(cls, place: int, pool: str, waiter: Waiter, sees: Sees) -> TokenWaiterAnswer:
        is_seen = sees(waiter.place)
        return cls(
            place=place,
            amount=waiter.amounts[pool],
            priority=waiter.priority,
            since=waiter.since,
            token=if_seen(is_seen, waiter.token),
            holder=if_seen(is_seen, waiter.holder),
            project=if_seen(is_seen, waiter.place.project),
            domain=if_seen(is_seen, waiter.place.domain),
            execution=if_seen(is_seen, waiter.execution),
        )


#: Refused claims by the level that was full.
Refusals = Annotated[
    dict[str, int] | None,
    Meta(description="How many claims were refused since the admin started, by the level that was full."),
]


class TokenPoolAnswer(Answer):
    """A token pool, and how much of it is held."""

    name: str
    capacity: int
    caps: CapsAnswer | None = None
    description: str | None = None
    used: Annotated[int | None, Meta(description="Left out while the backend does not answer.")] = None
    free: int | None = None
    waiting: Annotated[int, Meta(description="How many claims and executions wait.")]
    holders: Annotated[list[TokenHolderAnswer] | None, Meta(description=f"The largest {MOST_SHOWN}, by age.")] = None
    holder_count: int | None = None
    waiters: Annotated[list[TokenWaiterAnswer] | None, Meta(description=f"The first {MOST_SHOWN} in line.")] = None
    refusals: Refusals = None
    reason: Annotated[str | None, Meta(description="Why nothing is granted to anyone now, or everything is.")] = None
    version: int
    provenance: StatesProvenance = None
    version_pruned: VersionPruned = None

    @classmethod
    def from_view(cls, view: TokenPoolView, sees: Sees | None = None) -> TokenPoolAnswer:
        """Without `sees` only the numbers of holders and waiters."""
        payload, usage, name = view.pool.payload, view.usage, view.pool.name
        capacity: int = payload["capacity"]
        shows = sees if usage is not None else None
        grants, waiters = ((), ()) if usage is None else (usage.grants, usage.waiters)
        used = None if view.totals is None else view.totals.used if usage is None else usage.used
        return cls(
            name=name,
            capacity=capacity,
            caps=CapsAnswer(**payload["caps"]) if "caps" in payload else None,
            description=payload.get("description"),
            used=used,
            free=None if used is None else max(capacity - used, 0),
            waiting=view.waiting,
            holders=shows and [TokenHolderAnswer.from_grant(grant, shows) for grant in grants],
            holder_count=usage.holder_count if usage is not None and shows else None,
            waiters=shows
            and [
                TokenWaiterAnswer.from_waiter(place, name, waiter, shows)
                for place, waiter in enumerate(waiters[:MOST_SHOWN], 1)
            ],
            refusals=sees and (view.refusals or None),
            reason=view.reason or None,
            version=view.pool.version,
            provenance=ProvenanceAnswer.by_state({"definition": view.provenance} if view.provenance else {}),
            version_pruned=is_pruned(view.pool.version, view.provenance),
        )


class TokenPoolsAnswer(Answer):
    token_pools: list[TokenPoolAnswer]
    token: str | None = None


class TokenPoolExplanationQuery(ScopeQuery):
    """Where tokens are to be held."""

    execution = fields.String(validate=SCOPE_KEY)


class TokenLimitAnswer(Answer):
    """A bound of a pool's tokens, and how much of it is used."""

    level: Annotated[str, Meta(description="pool, project, namespace or execution; of a quota the level of its row.")]
    project: str | None = None
    domain: str | None = None
    workflow: str | None = None
    launch_plan: str | None = None
    execution: str | None = None
    cap: int
    used: int
    free: int
    full: bool
    origin: str
    version: Annotated[int, Meta(description="The revision that set it.")]
    provenance: ProvenanceAnswer | None = None

    @classmethod
    def from_use(cls, use: LimitUse, version: int, provenance: Mapping[int, Provenance]) -> TokenLimitAnswer:
        made_by = provenance.get(version)
        return cls(
            level=use.limit.level,
            **{key: getattr(use.place, key) or None for key in SCOPE_KEYS},
            execution=use.execution or None,
            cap=use.limit.cap,
            used=use.used,
            free=use.free,
            full=use.is_full,
            origin=use.limit.origin,
            version=version,
            provenance=None if made_by is None else ProvenanceAnswer.from_attributes(made_by),
        )


class TokenPoolExplanationAnswer(Answer):
    """What bounds the tokens of a pool, what of it is full, and what set it."""

    name: str
    summary: str
    capacity: int
    used: int
    free: int
    waiting: int
    limits: list[TokenLimitAnswer]
    left_out: Annotated[int | None, Meta(description="How many more limits there are.")] = None
    refusals: Refusals = None

    @classmethod
    def from_explanation(cls, explanation: TokenPoolExplanation) -> TokenPoolExplanationAnswer:
        view, limits = explanation.view, explanation.limits
        name, capacity = view.pool.name, view.pool.payload["capacity"]
        used = 0 if view.usage is None else view.usage.used
        shown = limits[:MOST_LIMITS]
        return cls(
            name=name,
            summary=view.reason or summary_of(name, limits, view.waiting),
            capacity=capacity,
            used=used,
            free=max(capacity - used, 0),
            waiting=view.waiting,
            limits=[
                TokenLimitAnswer.from_use(use, use.limit.version or view.pool.version, explanation.provenance)
                for use in shown
            ],
            left_out=len(limits) - len(shown) or None,
            refusals=view.refusals or None,
        )


class TokenPoolWritten(WrittenAnswer):
    token_pool: Annotated[Json | None, described_as("TokenPoolAnswer", "TokenPoolDefinition")] = (
        None  # the latter in a plan
    )


class TokenAllocationAnswer(Answer):
    """Whether a claim holds its tokens; where not, what is full and when to ask again."""

    status: Annotated[str, one_of("granted", "already_held", "exhausted")]
    token: str
    pools: dict[str, int]
    number: Annotated[int | None, Meta(description="Larger than that of every earlier grant of the pools.")] = None
    granted_at: datetime | None = None
    expires_at: datetime | None = None
    lease_seconds: float | None = None
    full: list[FullLimitAnswer] | None = None
    place: Annotated[int | None, Meta(description="In line; the first is 1.")] = None
    waiting: int | None = None
    retry_seconds: float | None = None
    reason: str | None = None

    @classmethod
    def from_answer(
        cls, token: str, amounts: Mapping[str, int], answer: Granted | Exhausted, sees: Sees
    ) -> TokenAllocationAnswer:
        if isinstance(answer, Granted):
            return cls.from_grants(answer.grants, "granted" if answer.is_new else "already_held")
        return cls(
            status="exhausted",
            token=token,
            pools=dict(amounts),
            full=[FullLimitAnswer.from_full(full, sees) for full in answer.full],
            place=answer.place,
            waiting=answer.waiting,
            retry_seconds=answer.retry_seconds,
            reason=answer.reason or None,
        )

    @classmethod
    def from_grants(cls, grants: Mapping[str, Grant], status: str) -> TokenAllocationAnswer:
        first = next(iter(grants.values()))
        return cls(
            status=status,
            token=first.token,
            pools={pool: grant.amount for pool, grant in grants.items()},
            number=first.number,
            granted_at=first.granted_at,
            expires_at=min(grant.expires_at for grant in grants.values()),
            lease_seconds=first.lease_seconds,
        )


class TokenRenewalAnswer(Answer):
    """Tokens that are held for another lease."""

    token: str
    pools: dict[str, int]
    number: int
    expires_at: datetime
    lease_seconds: float

    @classmethod
    def from_renewed(cls, renewed: Renewed) -> TokenRenewalAnswer:
        first = next(iter(renewed.grants.values()))
        return cls(
            token=first.token,
            pools={pool: grant.amount for pool, grant in renewed.grants.items()},
            number=first.number,
            expires_at=min(grant.expires_at for grant in renewed.grants.values()),
            lease_seconds=first.lease_seconds,
        )


class TokenReleaseAnswer(Answer):
    """Tokens that were given back; none where the claim only left the line."""

    token: str
    pools: dict[str, int]

    @classmethod
    def from_released(cls, token: str, released: Released) -> TokenReleaseAnswer:
        return cls(token=token, pools=dict(released.amounts))
