"""Filters: whether a cluster is able to run something, each with a reason where it is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from admin.core.fleet.fleet import Cluster
from admin.core.resources import Amounts, lacking, less, quantity


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is to be placed."""

    key: str  #: project/domain/name, by which the same execution always draws the same numbers
    demand: Amounts = field(default_factory=dict)
    plugins: tuple[str, ...] = ()  #: one of these must be offered; empty for any
    declined: tuple[str, ...] = ()  #: clusters whose agents would not have it


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one filter says of one cluster."""

    filter: str
    passed: bool
    reason: str = ""  #: why it did not pass


WEIGHT, ENABLED, CORDONED, REACHABLE, LARGE_ENOUGH, PLUGINS, DECLINED, ROOM = (
    "weight",
    "enabled",
    "cordoned",
    "reachable",
    "large-enough",
    "plugins",
    "declined",
    "room",
)
_PASSED = {
    name: Verdict(name, True) for name in (WEIGHT, ENABLED, CORDONED, REACHABLE, LARGE_ENOUGH, PLUGINS, DECLINED, ROOM)
}


#: The filters that every cluster is asked, in order; the last one only where a strategy looks for room.
_ALWAYS = (WEIGHT, ENABLED, CORDONED, REACHABLE, LARGE_ENOUGH, PLUGINS, DECLINED)
#: What is said of a cluster that nothing speaks against.
_UNOPPOSED = tuple(_PASSED[name] for name in _ALWAYS)
_UNOPPOSED_WITH_ROOM = (*_UNOPPOSED, _PASSED[ROOM])


def verdicts(cluster: Cluster, weight: float, wanted: Wanted) -> tuple[Verdict, ...]:
    """What every filter says of one cluster, in the order they are asked; of its room only `room_verdicts` does."""
    is_asked_more = wanted.plugins or wanted.declined
    if weight > 0 and cluster.is_able and not is_asked_more and not lacking(cluster.capacity or {}, wanted.demand):
        return _UNOPPOSED  # as nearly every one of them
    return tuple(map(_verdict, _ALWAYS, _reasons(cluster, weight, wanted)))


def room_verdicts(found: tuple[Verdict, ...], free: Amounts | None, wanted: Wanted) -> tuple[Verdict, ...]:
    """The same, and what is said of a cluster's room."""
    short = lacking(free, wanted.demand) if free else ()
    if found is _UNOPPOSED and not short:
        return _UNOPPOSED_WITH_ROOM
    full = f"is full: {_amounts(short, wanted.demand, free or {}, 'free are')}" if short else ""
    return (*found, _verdict(ROOM, full))


def _reasons(cluster: Cluster, weight: float, wanted: Wanted) -> tuple[str, ...]:
    """What each filter has against a cluster; "" for nothing."""
    return (
        "" if weight > 0 else "has weight 0",
        *cluster.standing,
        _too_small(cluster, wanted),
        _plugins(cluster, wanted) if wanted.plugins else "",
        "declined it" if cluster.name in wanted.declined else "",
    )


def have_passed(found: tuple[Verdict, ...]) -> bool:
    """Whether nothing speaks against a cluster."""
    return found is _UNOPPOSED or found is _UNOPPOSED_WITH_ROOM or all(verdict.passed for verdict in found)


def _verdict(name: str, reason: str) -> Verdict:
    return Verdict(name, False, reason) if reason else _PASSED[name]


def _too_small(cluster: Cluster, wanted: Wanted) -> str:
    short = lacking(cluster.capacity, wanted.demand) if cluster.capacity else ()
    return f"is too small: {_amounts(short, wanted.demand, cluster.capacity or {}, 'it has')}" if short else ""


def _plugins(cluster: Cluster, wanted: Wanted) -> str:
    offered = cluster.plugins
    if offered is None or set(offered) & set(wanted.plugins):
        return ""
    return f"offers none of the plugins {', '.join(wanted.plugins)}"


def _amounts(resources: Iterable[str], wanted: Amounts, have: Amounts, verb: str) -> str:
    return ", ".join(
        f"{quantity(one, wanted[one])} {one} wanted, {verb} {quantity(one, have[one])}" for one in resources
    )


def room(cluster: Cluster, waiting: Mapping[str, Amounts]) -> Amounts | None:
    """What is free: what the agent last reported, less what waits for it; None where nobody has said."""
    have, taken = cluster.unused, waiting.get(cluster.name)
    return have if have is None or not taken else less(have, taken)
