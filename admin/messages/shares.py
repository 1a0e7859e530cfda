"""Shares of a pool: what it promises its clusters, and what was placed there."""

from __future__ import annotations

from typing import Annotated

from marshmallow import fields
from msgspec import Meta

from admin.core.placement.routes import RouteKind
from admin.core.placement.shares import REASONS, SHARED_BY
from admin.messages.requests import OneOf, RequestSchema
from admin.messages.selectors import TimeField
from admin.messages.shared import Answer, ProvenanceAnswer, Time, one_of
from admin.services.shares import ClusterShare, PoolShares

#: Pairs of a cluster that was passed over and the reason, of one cluster; the counts by reason are of all.
_MOST_PAIRS = 20


class SharesQuery(RequestSchema):
    after = TimeField(
        metadata={"type": "string", "description": "Created at this time or later, or so long ago; 1h by default."}
    )
    before = TimeField(metadata={"type": "string", "description": "Created before this time; now by default."})
    by = fields.String(
        validate=OneOf(SHARED_BY), metadata={"description": "Count what was placed by this too, in `groups`."}
    )


class PassedOverAnswer(Answer):
    """Executions that would have gone to another cluster."""

    cluster: str
    reason: Annotated[str, one_of(*REASONS.values())]
    count: int
    switched_by: Annotated[
        list[ProvenanceAnswer] | None,
        Meta(description="The events by which it was cordoned, drained or disabled then, newest first."),
    ] = None


class DefinitionChangeAnswer(Answer):
    """A change of a pool's members, weights or strategy."""

    change: Annotated[str, Meta(description="In words: `weight of east 2 -> 1`.")]
    made_by: ProvenanceAnswer


class RangeAnswer(Answer):
    low: int
    high: int


class ClusterShareAnswer(Answer):
    cluster: str
    weight: Annotated[float | None, Meta(description="Absent for a cluster that is no longer in the pool.")] = None
    promised_share: Annotated[
        float | None,
        Meta(
            description="By the weights that the executions were placed by, of now where there are none; absent where "
            "the strategy promises no share."
        ),
    ] = None
    placed: Annotated[int, Meta(description="By the pool.")]
    share: Annotated[float | None, Meta(description="Of all that the pool placed, if that is anything.")] = None
    by_strategy: Annotated[int, Meta(description="Those of `placed` that no other cluster was passed over for.")]
    instead_of: Annotated[
        list[PassedOverAnswer], Meta(description="The rest: which cluster was passed over, and why; the most first.")
    ]
    otherwise: Annotated[
        dict[str, int],
        Meta(
            description="What came there by other routes: a named `cluster`, a `label`, another `pool`, or `any`.",
            extra_json_schema={"propertyNames": {"enum": [kind.value for kind in RouteKind]}},
        ),
    ]

    drawn: Annotated[
        int | None, Meta(description="What would have come there with all clusters able, where a share is promised.")
    ] = None
    expected: Annotated[
        RangeAnswer | None, Meta(description="What chance makes of the promised share in 95 of 100 cases.")
    ] = None
    why: Annotated[str, Meta(description="Why so many came there, and that it joined or left the pool.")]
    joined: Annotated[
        ProvenanceAnswer | None, Meta(description="The revision by which it joined the pool since the window began.")
    ] = None
    left: Annotated[
        ProvenanceAnswer | None, Meta(description="The revision by which it left the pool since the window began.")
    ] = None

    @classmethod
    def from_share(cls, share: ClusterShare, placed: int) -> ClusterShareAnswer:
        pairs = sorted(share.passed_over.items(), key=lambda pair: (-pair[1], pair[0]))
        return cls.from_attributes(
            share,
            share=share.placed / placed if placed else None,
            instead_of=[
                PassedOverAnswer(
                    cluster=other.cluster,
                    reason=other.reason,
                    count=count,
                    switched_by=[ProvenanceAnswer.from_attributes(event) for event in share.switched_by[other]] or None,
                )
                for other, count in pairs[:_MOST_PAIRS]
            ],
            otherwise=dict(share.otherwise),
            expected=share.expected and RangeAnswer.from_attributes(share.expected),
            joined=share.joined and ProvenanceAnswer.from_attributes(share.joined),
            left=share.left and ProvenanceAnswer.from_attributes(share.left),
        )


class GroupShareAnswer(Answer):
    """What one user, project or cluster has of the executions that a pool placed.

    It has none of the three where that is unknown, or of executions that the caller may not read.
    """

    user: Annotated[
        str | None, Meta(description="Who created them, a claimed name as such: `anonymous (says ana)`.")
    ] = None
    project: str | None = None
    cluster: str | None = None
    placed: int
    share: Annotated[float, Meta(description="Of all that the pool placed.")]


class SharesAnswer(Answer):
    pool: str
    summary: Annotated[str, Meta(description="What was placed, and why some clusters got more or less.")]
    promise: Annotated[
        str | None,
        Meta(description="Of which definitions the shares are, where the pool was changed in the window."),
    ] = None
    changes: Annotated[
        list[DefinitionChangeAnswer] | None,
        Meta(description="Of the members, weights or strategy of the pool since the window began, the newest first."),
    ] = None
    not_counted: Annotated[list[str], Meta(description="What the numbers leave out.")]
    strategy: str
    after: Time
    before: Time
    placed: Annotated[int, Meta(description="Executions that the pool gave to a cluster, of the examined ones.")]
    unplaced: Annotated[int, Meta(description="Examined executions that no cluster was able to take yet.")]
    examined: Annotated[int, Meta(description="The newest executions of the window, to which all counts refer.")]
    total: Annotated[int, Meta(description="Executions of the window; not counted beyond 100000.")]
    complete: Annotated[bool, Meta(description="Whether all of them were examined.")]
    examined_since: Annotated[Time | None, Meta(description="When the oldest examined one was created.")] = None
    clusters: list[ClusterShareAnswer]
    by: Annotated[str | None, one_of(*SHARED_BY), Meta(description="What `groups` are of, as asked.")] = None
    groups: Annotated[
        list[GroupShareAnswer] | None,
        Meta(description="Who has how many of the executions that were placed, the most first, if that was asked."),
    ] = None

    @classmethod
    def from_shares(cls, shares: PoolShares) -> SharesAnswer:
        return cls.from_attributes(
            shares,
            pool=shares.group.name,
            strategy=shares.group.strategy,
            after=shares.window.after,
            before=shares.window.before,
            complete=shares.examined == shares.total,
            changes=[
                DefinitionChangeAnswer(change=change.change, made_by=ProvenanceAnswer.from_attributes(change.made_by))
                for change in reversed(shares.changes)
            ]
            or None,
            clusters=[ClusterShareAnswer.from_share(share, shares.placed) for share in shares.clusters],
            groups=None
            if shares.by is None
            else [
                GroupShareAnswer(**{shares.by: group.value}, placed=group.placed, share=group.placed / shares.placed)
                for group in shares.groups
            ],
        )
