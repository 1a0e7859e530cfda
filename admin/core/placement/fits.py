"""Fits: whether each cluster of the fleet could run a workload, whether it is a candidate of the route or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from admin.core.fleet.clusters import Cluster
from admin.core.fleet.fleet import Fleet, Group, Member
from admin.core.json_text import JsonObject
from admin.core.placement.assessments import assess
from admin.core.placement.candidates import EVERY_CLUSTER, Workload, group_of
from admin.core.placement.filters import (
    EXPECTED,
    FITS,
    LARGE_ENOUGH,
    PLUGINS,
    ROOM,
    STATE_FILTERS,
    USE,
    Verdict,
    describe_expected,
)
from admin.core.placement.routes import Route
from admin.core.resources import TASK_RESOURCES, Amounts
from admin.core.times import show_time

#: The filters that ask what a cluster has and offers, whatever its state and load.
_LASTING = (LARGE_ENOUGH.name, FITS.name, PLUGINS.name)

#: The filters that are among the reasons why a cluster is no candidate.
_TOLD_OF_NON_CANDIDATES = (USE.name, *(filter_.name for filter_ in STATE_FILTERS))


class CouldRun(Enum):
    """When a cluster could run a job, the best answer first."""

    NOW = "now"
    LATER = "later"  # it is large enough, and something keeps it from taking the job now
    UNKNOWN = "unknown"  # nobody says how much it has of something that the job wants
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What filters make of a cluster for a workload, as if it were a candidate of its route."""

    could_run: CouldRun
    obstacles: Sequence[Verdict] = ()  #: why it would not take the job now
    unknown: Sequence[str] = ()  #: the resources of which nobody says how much it has

    def as_json(self) -> JsonObject:
        """As answers have it."""
        obstacles = [{"filter": verdict.filter, "reason": verdict.reason} for verdict in self.obstacles]
        return {
            "could_run": self.could_run.value,
            **({"obstacles": obstacles} if obstacles else {}),
            **({"unknown_resources": list(self.unknown)} if self.unknown else {}),
        }


class FitCounts(NamedTuple):
    """How many of some clusters could run a job."""

    clusters: int
    now: int
    later: int
    unknown: int
    never: int


class FleetFits(NamedTuple):
    """How many clusters could run a job, of all and of the candidates."""

    all: FitCounts
    candidates: FitCounts


def with_members(route: Route, fleet: Fleet, names: Iterable[str]) -> Group:
    """The pool or label of a route with some clusters of a fleet as further members.

    Where the fleet no longer has what the route names, those are the only ones.
    """
    group = group_of(route, fleet) or Group(definition=EVERY_CLUSTER, members=())
    candidates = {member.cluster for member in group.members}
    others = (Member(cluster=name, weight=1) for name in names if name in fleet.clusters and name not in candidates)
    return replace(group, members=(*group.members, *others))


def find_fits(group: Group, fleet: Fleet, workload: Workload, waiting: Mapping[str, Amounts]) -> dict[str, Fit]:
    """What the filters and the rules of a group make of each of its clusters.

    `waiting` is what is taken of each by what waits there.
    """
    assessment = assess(group, fleet, workload, waiting, needs_room=True)
    return {
        candidate.cluster.name: _fit(candidate.cluster, workload, verdicts)
        for candidate, verdicts in zip(assessment.candidates, assessment.verdicts, strict=True)
    }


def _fit(cluster: Cluster, workload: Workload, verdicts: Iterable[Verdict]) -> Fit:
    # An expected cluster takes nothing before its agent is there, whether or not another one could run the job.
    obstacles = [verdict for verdict in verdicts if not verdict.passed and verdict.filter != EXPECTED.name]
    if cluster.awaits_agent:
        obstacles.insert(0, Verdict(EXPECTED.name, False, describe_expected(cluster)))
    if any(verdict.filter in _LASTING for verdict in obstacles):
        # How much of it is taken does not matter.
        lasting = [verdict for verdict in obstacles if verdict.filter != ROOM.name]
        return Fit(could_run=CouldRun.NEVER, obstacles=lasting)
    unknown = unknown_resources(cluster, workload)
    if unknown:
        return Fit(could_run=CouldRun.UNKNOWN, obstacles=obstacles, unknown=unknown)
    return Fit(could_run=CouldRun.LATER if obstacles else CouldRun.NOW, obstacles=obstacles)


def unknown_resources(cluster: Cluster, workload: Workload) -> list[str]:
    """The resources that a job wants and of which neither the definition, the agent nor a description tells."""
    told = set(cluster.capacity or ()).union(cluster.machine.totals if cluster.machine else ())
    return [resource for resource in TASK_RESOURCES if workload.demand.get(resource) and resource not in told]


#: Those that could run it stand first.
_ORDER = [could_run.value for could_run in CouldRun]


def add_fits(
    candidates: Iterable[JsonObject], others: Iterable[JsonObject], fits: Mapping[str, Fit]
) -> tuple[list[JsonObject], list[JsonObject]]:
    """The clusters of an answer with when they could run the job, those that are no candidates in that order.

    A candidate that the fleet no longer has stays as it is, and so do others that were not asked about, which are last.
    """

    def with_fit(entry: JsonObject) -> JsonObject:
        fit = fits.get(entry["cluster"])
        return entry if fit is None else {**entry, **fit.as_json()}

    def place(entry: JsonObject) -> tuple[int, str]:
        return _ORDER.index(entry["could_run"]) if "could_run" in entry else len(_ORDER), entry["cluster"]

    ordered = sorted(map(with_fit, others), key=place)
    return [with_fit(entry) for entry in candidates], ordered


def without_obstacles(entry: JsonObject) -> JsonObject:
    """A cluster of an answer with when it could run the job, and not why."""
    return {key: value for key, value in entry.items() if key not in ("obstacles", "unknown_resources")}


def count_fits(candidates: Sequence[JsonObject], others: Sequence[JsonObject]) -> FleetFits:
    """How many of the clusters that an answer tells of could run its job."""
    return FleetFits(all=_count([*candidates, *others]), candidates=_count(candidates))


def _count(entries: Sequence[JsonObject]) -> FitCounts:
    numbers = Counter(entry["could_run"] for entry in entries)
    return FitCounts(len(entries), *(numbers[could_run] for could_run in _ORDER))


class EntryText(NamedTuple):
    """Why a job does not go to one cluster."""

    message: str
    then: str | None = None  #: of a candidate of a decision: what was so when it was made
    now: str | None = None  #: and what is so now


class DecisionTime(NamedTuple):
    """Which decision something was decided by, and when."""

    number: int
    at: datetime

    def __str__(self) -> str:
        return f"As of decision {self.number}, made at {show_time(self.at)}"


def describe_entry(entry: JsonObject, *, is_candidate: bool, decided: DecisionTime | None) -> EntryText:
    """Why a job does not go to one cluster, by what an answer tells of it; `decided` is None of one that is asked."""
    cluster = f"cluster '{entry['cluster']}'"
    if decided is None:
        if entry.get("chosen"):
            return EntryText(f"C{cluster[1:]} is chosen.")
        if is_candidate:
            return EntryText(f"C{cluster[1:]} is a candidate, and is not chosen: {entry['why_not']}.")
        return EntryText(f"C{cluster[1:]} is not a candidate: {entry['why_not']}. {_describe_fit(entry)}")
    if not is_candidate:  # what is told of those is told of the fleet as it is
        reasons = f"As the fleet is now: {entry['why_not']}. {_describe_fit(entry)}"
        return EntryText(f"{decided}, {cluster} was not a candidate. {reasons}")
    if entry.get("chosen"):
        return EntryText(f"{decided}, {cluster} was chosen.")
    then = f"{cluster} was a candidate, and was not chosen: {entry['why_not']}."
    now = _describe_fit(entry, with_state=True)
    return EntryText(f"{decided}: {then} {now}", then, now)


def _describe_fit(entry: JsonObject, *, with_state: bool = False) -> str:
    """Whether a cluster could run the job now, and with `with_state` also what keeps it from getting any work.

    Why not is said as far as that is told.
    """
    if "could_run" not in entry:
        return "It is no longer in the fleet."
    told = () if with_state else _TOLD_OF_NON_CANDIDATES
    reasons = "; ".join(obstacle["reason"] for obstacle in entry.get("obstacles", ()) if obstacle["filter"] not in told)
    because = f": {reasons}" if reasons else ""
    match CouldRun(entry["could_run"]):
        case CouldRun.NOW:
            return "It could run it now." if with_state else "It could run it now if it were a candidate."
        case CouldRun.LATER:
            return f"It could run it, though not now{because}."
        case CouldRun.UNKNOWN:
            resources = " and ".join(entry.get("unknown_resources", ()))
            because = f": nobody says how much {resources} it has" if resources else ""
            return f"Whether it could run it is not known{because}."
        case CouldRun.NEVER:
            return f"It could never run it{because}."
