"""Obstacles: why clusters do not take an execution, whether it may stay where it waits, and what ends that."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from admin.core.fleet.clusters import Cluster, Health
from admin.core.fleet.fleet import Fleet
from admin.core.placement.assessments import assess
from admin.core.placement.candidates import Candidate, Workload, candidates_of, free_amounts, group_of
from admin.core.placement.filters import (
    CORDONED,
    ENABLED,
    EXPECTED,
    FILTERS,
    FILTERS_WITH_ROOM,
    REACHABLE,
    ROOM,
    RULES,
    USE,
    Verdict,
    could_run,
    describe_expected,
)
from admin.core.placement.routes import Route, RouteKind
from admin.core.placement.switch_notes import bracketed
from admin.core.problems import list_first
from admin.core.provenance import Provenance
from admin.core.resources import Amounts

#: Clusters that a message names before it only counts them.
MOST_NAMED = 5


def find_failures(
    route: Route, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts] | None = None
) -> dict[str, list[Verdict]] | None:
    """The filters that each cluster of a route fails; None where some cluster passes them all.

    A full cluster passes, unless `waiting` says what is taken of each by what waits there and the strategy needs room;
    so do rules that look at what is free.
    """
    group = group_of(route, fleet)
    if group is None:
        return {}
    assessment = assess(group, fleet, workload, waiting)
    if assessment.able:
        return None
    return {
        candidate.cluster.name: [verdict for verdict in verdicts if not verdict.passed]
        for candidate, verdicts in zip(assessment.candidates, assessment.verdicts, strict=True)
    }


#: The name of the obstacle of a cluster whose agent takes nothing new, because it cannot use its engine.
ENGINE = "engine"


def obstacle_at(cluster: Cluster, workload: Workload, waiting: Mapping[str, Amounts] | None = None) -> Verdict | None:
    """The first filter by which a cluster would not take what waits there now; None where it would.

    Of something new, `waiting` is what is taken by what waits there before it.
    """
    if cluster.is_expected:
        return Verdict(EXPECTED.name, False, describe_expected(cluster))
    taken = None if waiting is None else waiting.get(cluster.name, {})
    candidate = Candidate(cluster, 1, 0, free_amounts(cluster, waiting or {}), taken)
    drops = ((filter_, filter_.drop((candidate,), workload).get(0)) for filter_ in FILTERS_WITH_ROOM)
    return next((Verdict(filter_.name, False, reason) for filter_, reason in drops if reason is not None), None)


def may_stay(cluster: str, route: Route, fleet: Fleet, workload: Workload) -> bool:
    """Whether an execution that waits at a cluster may go on waiting there; it counts in the cluster's room already.

    An unreachable cluster gets nothing new, and keeps what waits there until it is lost.
    """
    group = group_of(route, fleet)
    weight = None if group is None else group.weights.get(cluster)
    if weight is None:
        return False
    candidate = Candidate(fleet.clusters[cluster], weight, 0, None)
    failed = [filter_ for filter_ in FILTERS if filter_.drop((candidate,), workload)]
    if failed == [REACHABLE]:
        return candidate.cluster.health is Health.UNREACHABLE and candidate.cluster.state.admitted
    return not failed


def may_move(cluster: str, route: Route, fleet: Fleet) -> bool:
    """Whether an execution that waits at a cluster may leave it for another: an expected one for one that was seen."""
    present = fleet.clusters.get(cluster)
    group = group_of(route, fleet) if present is not None and present.is_expected else None
    return group is not None and any(not fleet.clusters[member.cluster].is_expected for member in group.members)


def may_find_room(cluster: str, route: Route, fleet: Fleet, workload: Workload) -> bool:
    """Whether an execution leaves the expected cluster where it waits as soon as one that was seen has room."""
    group = group_of(route, fleet) if may_move(cluster, route, fleet) else None
    return group is not None and could_run(candidates_of(group, fleet, None), workload)


def describe_unable(route: Route, obstacles: Mapping[str, Verdict]) -> str:
    """That no cluster of a route is able, with the reason of each, as many as a message names.

    Those that the creator may not use are counted: everyone who may read the execution reads this.
    """
    is_named = route.kind is RouteKind.CLUSTER  # by the request
    reasons = {name: verdict.reason for name, verdict in obstacles.items() if is_named or verdict.filter != USE.name}
    named = [f"'{cluster}' {reason}" for cluster, reason in itertools.islice(reasons.items(), MOST_NAMED)]
    forbidden = [verdict for name, verdict in obstacles.items() if name not in reasons]
    separator = "; " if any(", " in reason or "; " in reason for reason in named) else ", "
    listed = list_first(named, MOST_NAMED, count=len(reasons), separator=separator)
    if forbidden:
        number = "1 cluster" if len(forbidden) == 1 else f"{len(forbidden)} clusters"
        listed = separator.join(filter(None, (listed, f"{number} {forbidden[0].reason}")))
    return f"Cluster {listed}." if route.kind is RouteKind.CLUSTER else f"No cluster of {route} is able: {listed}."


def describe_gone(route: Route, deleted_by: Provenance | None = None, now: datetime | None = None) -> str:
    """That the fleet does not have what a route names, and by which revision it was deleted where that is known."""
    deleted = f", deleted by {deleted_by.describe(now)}" if deleted_by is not None and now is not None else ""
    return f"The {route} is gone from the fleet{deleted}."


def without_clusters(
    message: str, untold: Collection[str], verb: str = "use", unable: Collection[str] | None = None
) -> str:
    """A message without the names of some clusters: those of which it says why they are unable are counted.

    The verb says what its reader may not do with them; `unable` are those that are counted, if these are others.
    """
    forbidden = f"cluster you may not {verb}"
    counted = untold if unable is None else unable
    start, separator, listed = message.partition(" is able: ")
    if separator:
        between = "; " if "; " in listed else ", "
        # A reason may have the separator in it, such as the text of a rule.
        reasons = re.split(rf"{between}(?='[^' ]+' |\d+ clusters? )", listed.removesuffix("."))
        told = [reason for reason in reasons if not any(reason.startswith(f"'{name}' ") for name in counted)]
        hidden = len(reasons) - len(told)
        if hidden:
            told.append(f"1 {forbidden}" if hidden == 1 else f"{hidden} clusters you may not {verb}")
            message = f"{start}{separator}{between.join(told)}."
    for name in untold:
        if f"'{name}'" in message:
            message = message.replace(f"Cluster '{name}'", f"A {forbidden}")
            message = message.replace(f"cluster '{name}'", f"a {forbidden}").replace(f"'{name}'", f"a {forbidden}")
    return message


def describe_triggers(obstacles: Mapping[str, Sequence[Verdict]]) -> str:
    """When an execution is decided again that no cluster takes: `when 'east' is uncordoned, or the fleet changes`.

    `obstacles` are the filters that each cluster fails.
    """
    clusters: dict[str, list[str]] = {}
    for cluster, failed in obstacles.items():
        steps = dict.fromkeys(_TRIGGERS[verdict.filter](verdict) for verdict in failed if verdict.filter in _TRIGGERS)
        if steps and all(verdict.filter in _TRIGGERS for verdict in failed):
            clusters.setdefault(" and ".join(steps), []).append(cluster)
    triggers = [f"{_any_of(names)} {steps}" for steps, names in clusters.items()]
    is_forbidden = any(verdict.filter == USE.name for failed in obstacles.values() for verdict in failed)
    what = "the fleet, or what its creator may use, changes" if is_forbidden else "the fleet changes"
    otherwise = f"{what} otherwise" if triggers else what
    return f"when {', '.join([*triggers, f'or {otherwise}' if triggers else otherwise])}"


def _any_of(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMED:
        return f"one of {len(names)} clusters"
    quoted = [f"'{name}'" for name in names]
    return " or ".join(part for part in (", ".join(quoted[:-1]), quoted[-1]) if part)


def _until_cordon_ends(verdict: Verdict) -> str:
    return "is undrained" if verdict.reason.startswith("is draining") else "is uncordoned"


def _until_reachable(verdict: Verdict) -> str:
    return "is admitted" if verdict.reason.startswith("waits to be admitted") else "is heard again"


#: What must happen to a cluster that fails a filter, of those filters that something other than a definition ends.
_TRIGGERS: Mapping[str, Callable[[Verdict], str]] = {
    ENABLED.name: lambda _: "is enabled",
    CORDONED.name: _until_cordon_ends,
    REACHABLE.name: _until_reachable,
    EXPECTED.name: lambda _: "is seen",
    ROOM.name: lambda _: "has room because something ends there",
    RULES.name: lambda _: "passes the rules",
}
#: The states of clusters that operators switch, by the filters that ask for them.
SWITCHED_STATES = {ENABLED.name: "disabled", CORDONED.name: "cordoned"}


def switched_state(verdict: Verdict) -> str | None:
    """The state that a cluster does not pass a filter for; None where operators have no part in it."""
    return None if verdict.passed else SWITCHED_STATES.get(verdict.filter)


def describe_drop(reason: str, event: Provenance | None, now: datetime | None, *, is_told: bool = True) -> str:
    """Why a filter drops a cluster, and the event by which that is so: `is cordoned, event 7, ana, 3 d ago, 'x'`.

    Without who is behind it where that is not told.
    """
    if event is None:
        return reason
    # The message of the event says it already.
    note = f" ({bracketed(event.message or '')})"
    told = event if is_told else event.without_author()
    return f"{reason.removesuffix(note)}, {told.describe(now)}"


def describe_decline(reason: str, why: str | None) -> str:
    """That a cluster declined an execution, and why, where that is known: `declined it at …: it has no gpu`."""
    return f"{reason} {why}" if why else reason
