"""Filters: whether a cluster is able to run something, each with a reason where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from admin.core.fleet import Cluster, Strategy
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


def verdicts(
    cluster: Cluster, weight: float, wanted: Wanted, strategy: Strategy, waiting: Mapping[str, Amounts]
) -> tuple[Verdict, ...]:
    """What every filter says of one cluster, in the order they are asked."""
    found = (
        _verdict(WEIGHT, "" if weight > 0 else "has weight 0"),
        _verdict(ENABLED, "" if cluster.enabled else "is disabled"),
        _verdict(CORDONED, _cordon(cluster) if cluster.cordoned else ""),
        _verdict(REACHABLE, _unreachable(cluster)),
        _verdict(LARGE_ENOUGH, _too_small(cluster, wanted)),
        _verdict(PLUGINS, _plugins(cluster, wanted)),
        _verdict(DECLINED, "declined it" if cluster.name in wanted.declined else ""),
    )
    if not strategy.needs_room:
        return found
    return (*found, _verdict(ROOM, _full(cluster, wanted, waiting)))


def _verdict(name: str, reason: str) -> Verdict:
    return Verdict(name, False, reason) if reason else _PASSED[name]


def _cordon(cluster: Cluster) -> str:
    why = cluster.state.cordon_reason
    what = "is draining" if cluster.state.draining else "is cordoned"
    return f"{what} ({why})" if why else what


def _unreachable(cluster: Cluster) -> str:
    if not cluster.state.admitted:
        return "waits to be admitted"
    return "" if cluster.is_reachable else f"is {cluster.health.value}"


def _too_small(cluster: Cluster, wanted: Wanted) -> str:
    short = lacking(cluster.capacity or {}, wanted.demand)
    return f"is too small: {_amounts(short, wanted.demand, cluster.capacity or {}, 'it has')}" if short else ""


def _plugins(cluster: Cluster, wanted: Wanted) -> str:
    offered = cluster.plugins
    if not wanted.plugins or offered is None or set(offered) & set(wanted.plugins):
        return ""
    return f"offers none of the plugins {', '.join(wanted.plugins)}"


def _full(cluster: Cluster, wanted: Wanted, waiting: Mapping[str, Amounts]) -> str:
    have = room(cluster, waiting)
    short = lacking(have or {}, wanted.demand)
    return f"is full: {_amounts(short, wanted.demand, have or {}, 'free are')}" if short else ""


def _amounts(resources: list[str], wanted: Amounts, have: Amounts, verb: str) -> str:
    return ", ".join(
        f"{quantity(one, wanted[one])} {one} wanted, {verb} {quantity(one, have[one])}" for one in resources
    )


def room(cluster: Cluster, waiting: Mapping[str, Amounts]) -> Amounts | None:
    """What is free: what the agent last reported, less what waits for it; None where nobody has said."""
    if cluster.free is None and cluster.capacity is None:
        return None
    have = {**(cluster.capacity or {}), **(cluster.free or {})}
    return less(have, waiting.get(cluster.name, {}))
