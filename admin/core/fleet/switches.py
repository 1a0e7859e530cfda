"""Switches: what operators do to clusters, and the state that each leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from admin.core.fleet.clusters import Cluster, ClusterState


@dataclass(frozen=True, kw_only=True)
class SwitchRequest:
    """Why a cluster is switched, and by when a drain is to be over."""

    reason: str | None = None
    deadline: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Switch:
    """One thing that operators do to clusters."""

    event: str  #: the type of its event
    new_state: Callable[[Cluster, SwitchRequest], ClusterState | None]  #: None where that changes nothing
    ends: tuple[str, ...] = ()  #: the states that it ends, the one that it is named after first


def _enabled(cluster: Cluster, _: SwitchRequest) -> ClusterState | None:
    return None if cluster.enabled else replace(cluster.state, enabled=True)


def _disabled(cluster: Cluster, _: SwitchRequest) -> ClusterState | None:
    return replace(cluster.state, enabled=False) if cluster.enabled else None


def _cordoned(cluster: Cluster, request: SwitchRequest) -> ClusterState | None:
    if cluster.state.cordoned and request.reason in (None, cluster.state.cordon_reason):
        return None
    return replace(cluster.state, cordoned=True, cordon_reason=request.reason)


def _without_cordon(cluster: Cluster, _: SwitchRequest) -> ClusterState | None:
    return _released(cluster.state) if cluster.state.cordoned else None


def _draining(cluster: Cluster, request: SwitchRequest) -> ClusterState | None:
    state = cluster.state
    if state.draining and request.deadline in (None, state.drain_deadline):
        return None
    return replace(state, draining=True, drain_deadline=request.deadline, cordoned=True, cordon_reason=request.reason)


def _without_drain(cluster: Cluster, _: SwitchRequest) -> ClusterState | None:
    return _released(cluster.state) if cluster.state.draining else None


def _released(state: ClusterState) -> ClusterState:
    """Neither cordoned nor draining: a drain is a cordon too, and either end ends both."""
    return replace(state, cordoned=False, cordon_reason=None, draining=False, drain_deadline=None)


def _admitted(cluster: Cluster, _: SwitchRequest) -> ClusterState | None:
    return None if cluster.state.admitted else replace(cluster.state, admitted=True)


#: The switches by the words of the API.
BY_WORD = {
    "enable": Switch(event="ENABLED", new_state=_enabled),
    "disable": Switch(event="DISABLED", new_state=_disabled),
    "cordon": Switch(event="CORDONED", new_state=_cordoned),
    "uncordon": Switch(event="UNCORDONED", new_state=_without_cordon, ends=("cordoned", "draining")),
    "drain": Switch(event="DRAINING", new_state=_draining),
    "undrain": Switch(event="UNDRAINED", new_state=_without_drain, ends=("draining", "cordoned")),
    "admit": Switch(event="ADMITTED", new_state=_admitted),
}


def describe_end(name: str, state: str, by: str, *, dry_run: bool) -> str:
    """That a switch also ends another state of a cluster, which an event of its own began, or would end it."""
    verb = {"cordoned": "cordon", "draining": "drain"}[state]
    apart = " apart from the drain" if state == "cordoned" else ""
    if dry_run:
        again = f"`rainbowctl {verb} {name}` would {verb} it again."
        return f"Cluster '{name}' is {state}{apart} ({by}): that would be over too. {again}"
    was = "had been" if state == "cordoned" else "was"
    return (
        f"Cluster '{name}' {was} {state}{apart} ({by}): that is over too. `rainbowctl {verb} {name}` {verb}s it again."
    )
