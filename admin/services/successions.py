"""Successions: whether another process may speak for a cluster in place of the one that did."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from admin.configuration.settings import Agents
from admin.core.fleet.clusters import AGENT_CHANGED, ClusterState, Health
from admin.core.times import show_time
from admin.errors import AgentPresent, AgentReplaced
from admin.store import cluster_events
from admin.store.cluster_events import ClusterEvent

_log = logging.getLogger("rainbow.agents")


@dataclass(frozen=True, kw_only=True)
class Newcomer:
    """A process that syncs for a cluster for which another one synced last."""

    instance: str  #: the id of its state directory; "" for an agent that sends none
    may_begin: bool  #: this is its first sync, or one that a restored database does not know to be a later one
    takes_over: bool  #: it was started with --take-over
    is_awaited: Callable[[], bool]  #: whether executions wait for it


def check_successor(present: ClusterState, newcomer: Newcomer, agents: Agents, up_seconds: float) -> None:
    """Refuse a process that may not take over from the one that synced last.

    Silence is what the background work has judged by a monotonic clock: a step of the clock makes no agent silent. It
    counts when this admin has been up for a lease: until then an agent that returned may not have had time to sync.
    """
    if not newcomer.may_begin:
        awaited = {"field": "instance", "reason": "Executions wait for this agent: their jobs go on (on_lost: wait)."}
        raise AgentReplaced(
            f"Another agent of cluster '{present.name}' has taken over. Stop this one; a cluster has one agent.",
            details=[awaited] if newcomer.is_awaited() else [],
        )
    # A state directory is used by one process at a time. Agents without an id are replaced as they always were.
    if newcomer.takes_over or present.agent_instance in ("", newcomer.instance) or present.last_sync_at is None:
        return
    silence_outlasts_leases = agents.unreachable_seconds >= agents.lease_seconds
    is_silent = present.health == Health.LOST.value or (
        present.health == Health.UNREACHABLE.value and silence_outlasts_leases
    )
    if is_silent and up_seconds >= agents.lease_seconds:
        return
    if is_silent:
        raise AgentPresent(
            f"Cluster '{present.name}' had an agent, {_described(present)}, and this admin has just started: try again "
            f"when it has been up for {agents.lease_seconds} s, or start this one with --take-over."
        )
    seconds = agents.unreachable_seconds if silence_outlasts_leases else agents.lost_seconds
    raise AgentPresent(
        f"Cluster '{present.name}' has an agent, {_described(present)}. Stop that one and try again when it has been "
        f"silent for {seconds} s, or start this one with --take-over."
    )


def note_succession(connection: Connection, before: ClusterState, after: ClusterState) -> None:
    """Record that another agent serves a cluster, which may not know what the one before it runs."""
    if before.agent is None or before.agent_instance == after.agent_instance or after.last_sync_at is None:
        return
    reason = f"The agent on {_host(after)} replaced that {_described(before)}."
    event = ClusterEvent(cluster=after.name, at=after.last_sync_at, type=AGENT_CHANGED, reason=reason)
    cluster_events.add_event(connection, event)
    _log.warning("another agent serves the cluster", extra={"cluster": after.name, "reason": reason})


def _described(state: ClusterState) -> str:
    return f"on {_host(state)} since {_time(state.agent_since)}, last heard at {_time(state.last_sync_at)}"


def _host(state: ClusterState) -> str:
    return f"host '{state.agent_host}'" if state.agent_host else "an unnamed host"


def _time(time: datetime | None) -> str:
    return "an unknown time" if time is None else show_time(time)
