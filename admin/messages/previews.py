"""Previews: what becomes of executions if a change is made."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec import Meta, field

from admin.core.cluster_resources.differences import NamespaceAction
from admin.core.executions.consequences import ConsequenceCode
from admin.core.executions.switch_outcomes import Outcome
from admin.core.in_use import Use, first_uses
from admin.core.placement.routes import RouteKind
from admin.messages.executions import ExecutionIdAnswer
from admin.messages.shared import Answer, OriginAnswer, ProvenanceAnswer, ScopeAnswer, Time, one_of
from admin.messages.uses import RemovedReachAnswer
from admin.services.changes import Changed
from admin.services.new_executions import NewExecutions, ScopesKept
from admin.services.next_routes import NextRoute
from admin.services.previews import ExecutionEffect, ExecutionPreview

#: Executions and users that the answer to a dry run names; the counts are of all.
_MOST_SHOWN = 1000
#: Namespaces that it names.
_MOST_NAMESPACES = 100
#: Scopes that it names of those below a changed row.
_MOST_BELOW = 5


class EffectOnExecutionAnswer(Answer):
    """What a change would do to one execution."""

    id: ExecutionIdAnswer
    phase: str
    outcome: Annotated[str, one_of(*(outcome.value for outcome in Outcome))]
    from_: Annotated[str | None, Meta(description="The cluster that it is at.")] = field(default=None, name="from")
    cluster: Annotated[str | None, Meta(description="Where it would be; absent where none would take it.")] = None
    redecided_cluster: Annotated[
        str | None, Meta(description="Of one that STAYS: where `executions/redecide` would take it.")
    ] = None
    at: Annotated[
        Time | None, Meta(description="When it ends or is decided again, where that is known and not at once.")
    ] = None
    message: str

    @classmethod
    def from_effect(cls, effect: ExecutionEffect) -> EffectOnExecutionAnswer:
        return cls.from_attributes(
            effect.outcome,
            id=ExecutionIdAnswer.from_execution(effect.id),
            phase=effect.phase,
            outcome=effect.outcome.outcome.value,
            from_=effect.previous_cluster,
        )


Effects = Annotated[
    list[EffectOnExecutionAnswer],
    Meta(description="Of a dry run: what would become of each execution that is affected."),
]
EffectCounts = Annotated[dict[str, int], Meta(description="How many executions each outcome has.")]
Notes = Annotated[
    list[str] | None,
    Meta(description="Of silent clusters: since when, and what that means; what else a switch ends; what goes on."),
]
IsComplete = Annotated[bool, Meta(description="Whether every execution was looked at.")]
NotExamined = Annotated[
    int | None, Meta(description="How many executions were not looked at, since they are too many.")
]


class PreviewAnswer(Answer):
    """What would become of executions."""

    effects: Effects
    counts: EffectCounts
    complete: IsComplete
    not_examined: NotExamined = None
    notes: Notes = None

    @classmethod
    def from_preview(cls, preview: ExecutionPreview) -> PreviewAnswer:
        return cls(
            effects=[EffectOnExecutionAnswer.from_effect(effect) for effect in preview.effects[:_MOST_SHOWN]],
            counts=dict(Counter(effect.outcome.outcome.value for effect in preview.effects)),
            complete=not preview.not_examined,
            not_examined=preview.not_examined or None,
            notes=list(preview.notes) or None,
        )

    @classmethod
    def of(cls, changed: Changed) -> PreviewAnswer | None:
        """That of a dry run."""
        return None if changed.preview is None else cls.from_preview(changed.preview)


class DefinitionUserAnswer(Answer):
    """What names or holds something that is removed."""

    field: str
    reason: str
    name: Annotated[str | None, Meta(description="Of what it names or holds.")] = None
    provenance: Annotated[ProvenanceAnswer | None, Meta(description="Of the row that uses it.")] = None
    executions: Annotated[list[str] | None, Meta(description="The first that were placed by it.")] = None
    count: Annotated[int | None, Meta(description="The users that this counts, if several.")] = None

    @classmethod
    def from_use(cls, use: Use) -> DefinitionUserAnswer:
        provenance = None if use.provenance is None else ProvenanceAnswer.from_attributes(use.provenance)
        executions = list(use.executions) or None
        return cls(
            field=use.noun,
            reason=use.sentence,
            name=use.removed or None,
            provenance=provenance,
            executions=executions,
            count=use.count if use.count > 1 else None,
        )


Reach = Annotated[
    list[RemovedReachAnswer] | None,
    Meta(
        description="Of a dry run with force that only removes pools, labels and clusters: at how many scopes new "
        "executions would be refused, or wait, without each of the first twenty that are in use."
    ),
]


def reach_of(changed: Changed) -> list[RemovedReachAnswer] | None:
    """Where new executions would miss the rows that a dry run removes."""
    return [RemovedReachAnswer.from_removed(removed) for removed in changed.reach] or None


class KeptScopesAnswer(ScopeAnswer):
    """Scopes at which new executions would be refused, or wait, for one reason; the keys are those of the first."""

    outcome: Annotated[str, one_of(ConsequenceCode.REFUSES.value, ConsequenceCode.WAITS.value)]
    message: str
    scopes: Annotated[int, Meta(description="How many there are.")]

    @classmethod
    def from_kept(cls, kept: ScopesKept) -> KeptScopesAnswer:
        keys = {name: key or None for name, key in kept.scopes[0]._asdict().items()}
        return cls(outcome=kept.outcome.value, message=kept.message, scopes=len(kept.scopes), **keys)


class NewExecutionsAnswer(Answer):
    """At how many scopes new executions, which ask for nothing themselves, would be kept from being placed."""

    refused: Annotated[int, Meta(description="Scopes where they would be refused, and are not now.")]
    waiting: Annotated[int, Meta(description="Scopes where no cluster would take them, and one does now.")]
    reasons: Annotated[list[KeptScopesAnswer], Meta(description="The first twenty; those of the most scopes first.")]
    complete: Annotated[bool, Meta(description="Whether every scope was looked at, or only the first ones.")]

    @classmethod
    def of(cls, new: NewExecutions) -> NewExecutionsAnswer | None:
        """None where there is nothing to tell."""
        if not new.reasons:
            return None
        reasons = [KeptScopesAnswer.from_kept(kept) for kept in new.reasons]
        return cls(refused=new.refused, waiting=new.waiting, reasons=reasons, complete=new.is_complete)


NewExecutionsField = Annotated[
    NewExecutionsAnswer | None,
    Meta(description="Of a dry run: where new executions would be refused, or wait; absent where they are as now."),
]


class NamespaceChangeAnswer(ScopeAnswer):
    """What would become of one namespace."""

    namespace: str
    action: Annotated[
        str,
        one_of(*(action.value for action in NamespaceAction)),
        Meta(
            description="`fail`: it cannot be rendered, and stays as it is. `leave`: its cluster makes none any more."
        ),
    ]
    clusters: list[str]
    objects: Annotated[list[str] | None, Meta(description="Of an update: those that differ.")] = None
    message: Annotated[str | None, Meta(description="Of a failure: the first reason.")] = None


class NamespaceChangesAnswer(Answer):
    """What would become of the namespaces on clusters that say `clusterResources: true`."""

    count: int
    changes: Annotated[list[NamespaceChangeAnswer], Meta(description="The first hundred.")]

    @classmethod
    def of(cls, changed: Changed) -> NamespaceChangesAnswer | None:
        """None where nothing changes."""
        changes = [
            NamespaceChangeAnswer.from_attributes(
                change,
                action=change.action.value,
                clusters=list(change.clusters),
                objects=list(change.objects) or None,
                message=change.problem or None,
            )
            for change in changed.namespaces[:_MOST_NAMESPACES]
        ]
        return cls(count=len(changed.namespaces), changes=changes) if changes else None


NamespaceChanges = Annotated[
    NamespaceChangesAnswer | None,
    Meta(description="Of a dry run: namespaces that clusters would make otherwise; absent where there are none."),
]


class ChangedBelowAnswer(Answer):
    """The scopes below a changed row whose effective values change with it."""

    count: Annotated[int, Meta(description="How many there are, of those that were looked at.")]
    scopes: Annotated[list[ScopeAnswer], Meta(description="The first five.")]
    complete: Annotated[bool, Meta(description="Whether every known scope below was looked at.")]

    @classmethod
    def of(cls, changed: Changed) -> ChangedBelowAnswer | None:
        """None where there are none."""
        own = {row.change.scope for row in changed.rows}
        effects = {effect.scope: effect for effect in changed.values.effects if effect.scope not in own}
        scopes = [ScopeAnswer.from_attributes(effect) for effect in list(effects.values())[:_MOST_BELOW]]
        return cls(count=len(effects), scopes=scopes, complete=changed.values.is_complete) if scopes else None


ChangedBelow = Annotated[
    ChangedBelowAnswer | None,
    Meta(description="Of a dry run: the scopes below whose effective values would change; absent where none would."),
]


class NextRouteAnswer(ScopeAnswer):
    """What new executions at a changed scope would go by."""

    noun: Annotated[
        str,
        one_of(RouteKind.POOL.value, RouteKind.LABEL.value, RouteKind.ANY.value),
        Meta(description="`any` where nothing is left that decides: any enabled cluster may be chosen."),
    ]
    name: Annotated[str | None, Meta(description="Of the pool or label.")] = None
    origin: Annotated[OriginAnswer | None, Meta(description="Where it is set.")] = None
    message: str

    @classmethod
    def from_route(cls, route: NextRoute) -> NextRouteAnswer:
        keys = {name: key or None for name, key in route.scope._asdict().items()}
        origin = None if route.origin is None else OriginAnswer(**route.origin)
        return cls(noun=route.noun, name=route.name, origin=origin, message=route.message, **keys)


Routes = Annotated[
    list[NextRouteAnswer] | None,
    Meta(
        description="Of a dry run: the pools and labels that decide where changed settings no longer do, or that none "
        "does, at the first twenty changed scopes."
    ),
]


def routes_of(changed: Changed) -> list[NextRouteAnswer] | None:
    """What decides where the settings that a dry run changes no longer do."""
    return [NextRouteAnswer.from_route(route) for route in changed.routes] or None


Users = Annotated[
    list[DefinitionUserAnswer] | None,
    Meta(description="Of a dry run with force: what would be left without the rows that are removed."),
]


def users_of(changed: Changed) -> list[DefinitionUserAnswer] | None:
    """What would miss the rows that a dry run removes."""
    users = [DefinitionUserAnswer.from_use(use) for use in first_uses(changed.users, _MOST_SHOWN)]
    return users or None


class LostRightAnswer(ScopeAnswer):
    """What a user would lose with one grant."""

    user: str
    role: str
    through: Annotated[list[str], Meta(description="The groups by which the user has it, the user's own first.")]
    permissions: Annotated[list[str], Meta(description="That no other grant would give the user there.")]
    message: str


LostRights = Annotated[
    list[LostRightAnswer] | None,
    Meta(description="Of a dry run that changes groups: what users would no longer have, as far as you may see it."),
]


def lost_rights_of(changed: Changed) -> list[LostRightAnswer] | None:
    """What users would no longer have, for a dry run."""
    return [
        LostRightAnswer.from_attributes(right, through=list(right.through), permissions=list(right.permissions))
        for right in changed.lost_rights
    ] or None
