"""Filters: which candidates are able, each with a reason where it is not.

To add a filter on what a cluster is defined or reported as, write it beside the others, add it to `FILTERS` and
describe it in docs/placement.md: decisions, trails, reason codes and shares follow from the list. One on what runs
there is more: see CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from admin.core.fleet.clusters import Cluster, Health
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.silence import silent_since
from admin.core.graph.request_texts import read_request
from admin.core.graph.requests import special_types
from admin.core.placement.candidates import Candidate, Workload
from admin.core.placement.switch_notes import bracketed
from admin.core.resources import Amounts, format_amount, shortages

#: Why a cluster is dropped that pools or labels still name.
WAS_DELETED = "was deleted"

#: Types that a message names which only a description could tell of.
_MOST_TYPES = 3

#: Why candidates are dropped, by their position; the others pass.
Drops = Mapping[int, str]


@dataclass(frozen=True, kw_only=True)
class Filter:
    """A question to all candidates; those that fail it are not chosen."""

    name: str  #: as it stands in trails
    code: str  #: why an execution waits where this filter drops every candidate
    drop: Callable[[Sequence[Candidate], Workload], Drops]
    passed_over: str = ""  #: why a member of a pool that it drops is passed over, as shares tell it
    is_permanent: bool = False  #: whether waiting cannot help: the job is too much for the cluster, busy or not


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one filter for one candidate."""

    filter: str
    passed: bool
    reason: str = ""  #: why it did not pass


#: The verdicts of all filters on one candidate, in the filters' order.
Verdicts = tuple[Verdict, ...]


def _forbidden(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    usable = workload.usable
    if usable is None:
        return {}
    return {
        candidate.position: usable.reason for candidate in candidates if candidate.cluster.name not in usable.clusters
    }


def _weightless(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {candidate.position: "has weight 0" for candidate in candidates if not candidate.weight > 0}


def _disabled(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {
        candidate.position: _with_note("is disabled", candidate.cluster.switched_by.get("disabled"))
        for candidate in candidates
        if not candidate.cluster.enabled
    }


def _cordoned(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {
        candidate.position: _cordon(candidate.cluster) for candidate in candidates if candidate.cluster.state.cordoned
    }


def _cordon(cluster: Cluster) -> str:
    status = "is draining" if cluster.state.draining else "is cordoned"
    return _with_note(status, cluster.switched_by.get("cordoned") or cluster.state.cordon_reason)


def _with_note(status: str, note: str | None) -> str:
    return f"{status} ({bracketed(note)})" if note else status


def _unreachable(candidates: Sequence[Candidate], _: Workload) -> Drops:
    return {
        candidate.position: _silence(cluster) if cluster.state.admitted else "waits to be admitted"
        for candidate in candidates
        if not (cluster := candidate.cluster).is_reachable or not cluster.state.admitted
    }


def _silence(cluster: Cluster) -> str:
    if cluster.is_deleted:
        return WAS_DELETED
    last = cluster.state.last_sync_at
    return f"is {cluster.health.value}" + (f" ({silent_since(last)})" if last is not None else "")


def _expected(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    expected = [candidate for candidate in candidates if candidate.cluster.is_expected]
    if not expected or not could_run(candidates, workload):
        return {}
    return {candidate.position: describe_expected(candidate.cluster) for candidate in expected}


def describe_expected(cluster: Cluster) -> str:
    """Why a cluster that is expected gets nothing that another one could run."""
    return f"is expected: {cluster.why_expected}"


def could_run(candidates: Sequence[Candidate], workload: Workload) -> bool:
    """Whether a cluster that has been seen and is not lost could run the job, though perhaps not now."""
    seen = [candidate for candidate in candidates if candidate.cluster.health not in (Health.EXPECTED, Health.LOST)]
    if not seen:
        return False
    unable = set[int]().union(*(filter_.drop(seen, workload) for filter_ in _LASTING))
    return len(unable) < len(seen)


def _too_small(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    demand = workload.demand
    drops = {
        candidate.position: f"is too small: {_sizes(short, demand, candidate.cluster)}"
        for candidate in candidates
        if (capacity := candidate.cluster.capacity)
        and (short := shortages(capacity, demand))
        and (short := _undescribed(short, candidate.cluster, workload))
    }
    if demand.get("gpu"):
        missing = f"has no gpu by its last report, {format_amount('gpu', demand['gpu'])} wanted"
        for candidate in candidates:
            if candidate.cluster.has_no_gpu and _undescribed(["gpu"], candidate.cluster, workload):
                small = drops.get(candidate.position)
                drops[candidate.position] = missing if small is None else f"{missing}, and {small}"
    return drops


def _undescribed(resources: list[str], cluster: Cluster, workload: Workload) -> list[str]:
    """Those of some resources that the cluster's description does not tell of: the sum over all nodes counts."""
    machine = cluster.machine
    if machine is None or workload.asks is None:
        return resources
    return [resource for resource in resources if resource not in machine.totals]


def _unfit(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    asks = workload.asks
    if asks is None:
        return {}
    described = [(candidate, machine) for candidate in candidates if (machine := candidate.cluster.machine) is not None]
    drops = _unchecked(candidates, asks) if len(described) < len(candidates) else {}
    if not described:
        return drops
    misfits = described[0][1].machines.misfits(asks, [machine for _, machine in described])
    return drops | {
        candidate.position: f"has no place for it: {missing}"
        for candidate, machine in described
        if (missing := misfits[machine.digest])
    }


def _unchecked(candidates: Sequence[Candidate], asks: str) -> dict[int, str]:
    """The clusters of which nobody says whether they have what a job requires.

    What an agent that has not been seen yet will describe is not known, as its capacity is not.
    """
    request = read_request(asks)
    requires = [f"`requires` ({requirement})" for requirement in request.requires[:1]]
    unchecked = requires or [f"`{type_}`" for type_ in special_types(request)[:_MOST_TYPES]]
    if not unchecked:
        return {}
    remedy = "describe it with rainbowctl update cluster-description, or its agent does"
    reason = f"has no description by which {' and '.join(unchecked)} could be checked: {remedy}"
    return {
        candidate.position: reason
        for candidate in candidates
        if candidate.cluster.machine is None and not candidate.cluster.is_expected
    }


def lack_descriptions(candidates: Iterable[Candidate], verdicts: Iterable[Iterable[Verdict]]) -> bool:
    """Whether it is for want of a description alone that no candidate is known to have what a job requires."""
    lasting = [
        (candidate, verdict)
        for candidate, of_candidate in zip(candidates, verdicts, strict=True)
        for verdict in of_candidate
        if not verdict.passed and BY_NAME[verdict.filter].is_permanent
    ]
    return bool(lasting) and all(
        verdict.filter == FITS.name and candidate.cluster.machine is None for candidate, verdict in lasting
    )


def _sizes(resources: Iterable[str], demand: Amounts, cluster: Cluster) -> str:
    """What a cluster has in all of resources of which a job wants more: `4 cpu in all, 8 wanted`."""
    capacity, declared = cluster.capacity or {}, cluster.outranked_capacity
    parts = []
    for resource in resources:
        defined = f"not {format_amount(resource, declared[resource])} as defined" if resource in declared else ""
        reported = f" as its agent reports, {defined}" if defined else ""
        size, wanted = (format_amount(resource, amounts[resource]) for amounts in (capacity, demand))
        parts.append(f"{size} {resource} in all{reported}, {wanted} wanted")
    return ", ".join(parts)


def _full(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    drops = {
        candidate.position: f"is full ({_uses(short, taken, free, candidate.cluster.capacity or {})})"
        for candidate in candidates
        if (free := candidate.free) and (short := shortages(free, taken := workload.takes_of(candidate.cluster)))
    }
    # To look for a place on single nodes costs much more: only where the sums leave room.
    others = [candidate for candidate in candidates if candidate.position not in drops]
    return {**drops, **_crowded(others, workload)}


def _crowded(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    """The clusters on whose nodes there is no place for a job beside what was assigned there since the last report."""
    return {
        candidate.position: f"is full ({lacks})" for candidate in candidates if (lacks := candidate.lacks_for(workload))
    }


def _uses(resources: Iterable[str], demand: Amounts, free: Amounts, capacity: Amounts) -> str:
    """What is left of resources of which a job wants more: `8 of 8 cpu taken`, `7 of 8 cpu taken, 2 wanted`."""
    return ", ".join(_use(resource, demand[resource], free[resource], capacity.get(resource)) for resource in resources)


def _use(resource: str, demand: int, free: int, capacity: int | None) -> str:
    wanted = f"{format_amount(resource, demand)} wanted"
    if capacity is None:
        return f"{format_amount(resource, free)} {resource} free, {wanted}"
    used, size = format_amount(resource, max(0, capacity - free)), format_amount(resource, capacity)
    taken = f"{used} of {size} {resource} taken"
    return f"{taken}, {wanted}" if free > 0 else taken


def _missing_plugin(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    if not workload.plugins:
        return {}
    reason = f"offers none of the plugins {', '.join(workload.plugins)}"
    return {
        candidate.position: reason
        for candidate in candidates
        if (offered := candidate.cluster.plugins) is not None and not set(offered) & set(workload.plugins)
    }


def _declined(candidates: Sequence[Candidate], workload: Workload) -> Drops:
    if not workload.declined:
        return {}
    return {
        candidate.position: "declined it" for candidate in candidates if candidate.cluster.name in workload.declined
    }


USE = Filter(name="use", code="CREATOR_MAY_NOT", drop=_forbidden, passed_over="closed to the creator")
WEIGHT = Filter(name="weight", code="NO_CLUSTERS", drop=_weightless)
ENABLED = Filter(name="enabled", code="CLUSTERS_DISABLED", drop=_disabled, passed_over="disabled")
CORDONED = Filter(name="cordoned", code="CLUSTERS_CORDONED", drop=_cordoned, passed_over="cordoned")
REACHABLE = Filter(name="reachable", code="CLUSTERS_UNREACHABLE", drop=_unreachable, passed_over="silent")
EXPECTED = Filter(name="expected", code="CLUSTER_EXPECTED", drop=_expected, passed_over="never seen")
LARGE_ENOUGH = Filter(
    name="large-enough", code="CLUSTERS_TOO_SMALL", drop=_too_small, passed_over="too small", is_permanent=True
)
FITS = Filter(
    name="fits", code="CLUSTERS_DO_NOT_FIT", drop=_unfit, passed_over="without a place for it", is_permanent=True
)
PLUGINS = Filter(name="plugins", code="PLUGIN_MISSING", drop=_missing_plugin, passed_over="without the plugin")
DECLINED = Filter(name="declined", code="CLUSTERS_DECLINED", drop=_declined, passed_over="declined")
ROOM = Filter(name="room", code="CLUSTERS_FULL", drop=_full, passed_over="full")
#: What rules drop of the clusters that pass all others; `constraints` applies them, each with what it looks at.
RULES = Filter(name="rules", code="CLUSTERS_RULED_OUT", drop=lambda candidates, workload: {}, passed_over="ruled out")
#: Not asked of candidates: the verdict of a round of bids on those that passed all filters.
BID = Filter(name="bid", code="ASKING", drop=lambda candidates, workload: {}, passed_over="without a bid")

#: The filters that ask what operators and its agent have made of a cluster.
STATE_FILTERS = (ENABLED, CORDONED, REACHABLE, EXPECTED)
#: The filters of every candidate, in their order; what its creator may not use is told nothing else of.
FILTERS = (USE, WEIGHT, ENABLED, CORDONED, REACHABLE, EXPECTED, LARGE_ENOUGH, FITS, PLUGINS, DECLINED)
#: The filters that a cluster does not pass later because it is uncordoned, is heard again or has room again.
_LASTING = (USE, WEIGHT, ENABLED, LARGE_ENOUGH, FITS, PLUGINS, DECLINED)
#: The same where the strategy passes over full clusters.
FILTERS_WITH_ROOM = (*FILTERS, ROOM)
#: All of them, with those of pools and requests that have rules, and of pools that ask.
ALL_FILTERS = (*FILTERS_WITH_ROOM, RULES, BID)
BY_NAME = {filter_.name: filter_ for filter_ in ALL_FILTERS}


class Chain:
    """Filters that run one after the other; each gives its verdict on every candidate, whatever the others say."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self.passed = tuple(Verdict(filter_.name, True) for filter_ in filters)  #: verdicts of an able candidate

    def verdicts(self, candidates: Sequence[Candidate], workload: Workload) -> list[Verdicts]:
        """The verdicts on each candidate, which stand in the order of their positions from 0.

        They are `passed` itself where every filter passes.
        """
        drops = [filter_.drop(candidates, workload) for filter_ in self._filters]
        verdicts = [self.passed] * len(candidates)
        failing = [(at, reasons) for at, reasons in enumerate(drops) if reasons]
        equal: dict[tuple[str | None, ...], Verdicts] = {}  # most that are dropped are dropped for the same reasons
        for position in set[int]().union(*drops):
            key = tuple([reasons.get(position) for _, reasons in failing])
            if key not in equal:
                of_position = list(self.passed)
                for (at, _), reason in zip(failing, key, strict=True):
                    if reason is not None:
                        of_position[at] = Verdict(of_position[at].filter, False, reason)
                equal[key] = tuple(of_position)
            verdicts[position] = equal[key]
        return verdicts


CHAIN = Chain(FILTERS)
CHAIN_WITH_ROOM = Chain(FILTERS_WITH_ROOM)


def able_clusters(fleet: Fleet, workload: Workload) -> list[str]:
    """The clusters of the fleet that were seen, whose size is known and that pass every filter, by name."""
    seen = [cluster for cluster in fleet.clusters.values() if not cluster.is_expected]
    known = [cluster for cluster in seen if cluster.machine is not None or cluster.capacity]
    candidates = [Candidate(cluster, 1, at, None) for at, cluster in enumerate(known)]
    verdicts = CHAIN.verdicts(candidates, workload)
    return sorted(
        candidate.cluster.name for candidate, passed in zip(candidates, verdicts, strict=True) if passed is CHAIN.passed
    )
