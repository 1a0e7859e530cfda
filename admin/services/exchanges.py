"""Exchanges: a sync of an agent, the answer to it, and what is known while it is handled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from typing import Any

from admin.core.executions.reports import Reporter
from admin.core.fleet.clusters import SILENT, ClusterState
from admin.core.placement.bid_reports import BidReport
from admin.core.token_pools.grants import Release
from admin.services.context import Context
from admin.services.logs import LogPiece
from admin.services.reports import Held, Report, Reported
from admin.store.bids import Question
from admin.store.executions import ExecutionId
from admin.store.leases import LeasedExecution
from admin.store.reconciliations import Restoration


@dataclass(frozen=True, kw_only=True)
class Sync:
    """An agent's request."""

    cluster: str
    agent: str
    sequence: int
    instance: str = ""  #: the id of the agent's state directory; "" from an agent that sends none
    host: str = ""
    take_over: bool = False  #: from another agent that may still be there; counts in the first sync
    seen: int = 0  #: the greatest position that the agent has got in an answer
    want: int = 0
    report: Any = None  #: of the cluster: JSON that `sync` checks
    holding: tuple[Held, ...] = ()
    events: tuple[Report, ...] = ()
    logs: tuple[LogPiece, ...] = ()
    can_bid: bool = False  #: whether the agent answers questions for bids
    bids: tuple[BidReport, ...] = ()
    wait_seconds: float = 0
    last_sync_at: datetime | None = None  #: the time of this very sync, when it is answered again while it waits

    @property
    def reporter(self) -> Reporter:
        return Reporter(cluster=self.cluster, instance=self.instance)


class SyncSuperseded(Exception):
    """A newer sync of the same agent arrived while this one waited."""


class Lock(Enum):
    """What few syncs need locked, and has to be locked before everything else."""

    FLEET = auto()  # it changes the fleet
    OTHER_EXECUTIONS = auto()  # it reports on executions that its agent has no lease of


class NeedsLock(Exception):
    """A sync was begun without a lock that it needs."""

    def __init__(self, lock: Lock) -> None:
        self.lock = lock


@dataclass(kw_only=True)
class SyncResult(Reported):
    """The answer to a sync."""

    leases: list[LeasedExecution] = field(default_factory=list)
    confirmed: list[LeasedExecution] = field(default_factory=list)
    kept: list[Held] = field(default_factory=list)  #: what a restored database does not know, and goes on
    lost: list[tuple[Held, str]] = field(default_factory=list)
    cancels: list[LeasedExecution] = field(default_factory=list)
    questions: list[LeasedExecution] = field(default_factory=list)
    log_offsets: list[tuple[LogPiece, int, bool]] = field(default_factory=list)
    bid_requests: list[Question] = field(default_factory=list)
    has_new_questions: bool = False  #: whether some of these were not told to the agent's process before
    complete_rounds: list[int] = field(default_factory=list)  #: of bids, in which its own was the last answer
    state: ClusterState
    enabled: bool = True
    is_permission: bool = False  #: whether the agent may start something that it might not before
    next_at: datetime | None = None  #: when the next attempt that backs off may start, or tokens may come free
    watched: Mapping[str, int] = field(default_factory=dict)  #: token pools that its executions wait for, as `Waiter`
    pending: list[Release] = field(default_factory=list)  #: tokens to be given back once this is committed
    pause_seconds: float = 0  #: how long the agent should pause, where there was no thread to wait in

    @property
    def has_news(self) -> bool:
        """Whether there is something that the agent must act on."""
        return bool(
            self.is_permission or self.leases or self.lost or self.cancels or self.questions or self.has_new_questions
        )

    @property
    def takes_work(self) -> bool:
        """Whether the cluster may have new work."""
        return self.enabled and self.state.takes_work


@dataclass(kw_only=True, eq=False)
class Exchange:
    """One of the syncs that are handled together."""

    context: Context
    request: Sync
    locks: frozenset[Lock] = frozenset()
    claimed: list[Release] = field(default_factory=list)  #: tokens to be given back if nothing of it is committed
    failure: Exception | None = None  #: why it was not handled; nothing is written for it then
    before: ClusterState = field(init=False)
    changes_fleet: bool = False
    leased: dict[ExecutionId, LeasedExecution] = field(default_factory=dict)  #: and what else it reports on
    unanswered: list[LeasedExecution] = field(default_factory=list)
    restoration: Restoration = field(init=False)
    answer: SyncResult = field(init=False)

    @property
    def silent_since(self) -> datetime | None:
        """When the agent was last heard, if it was silent before this sync."""
        return self.before.last_sync_at if self.before.health in SILENT else None

    @property
    def believed_reports(self) -> list[Report]:
        """The reports that count; nothing ends because its agent has no record of it while a restored database is
        reconciled."""
        return [report for report in self.request.events if report.type != "UNKNOWN" or not self.restoration.is_waiting]

    @property
    def ending(self) -> list[Held]:
        """What the agent was told to end when it synced before; of another agent's nothing can be concluded."""
        is_same_agent = bool(self.request.instance) and self.request.instance == self.before.agent_instance
        return [Held.from_json(stored) for stored in self.before.ending] if is_same_agent else []

    @property
    def tells_other_things(self) -> bool:
        """Whether the agent is told to end or to answer other things than before."""
        before, after = self.before, self.answer.state
        return (after.ending, after.asked) != (before.ending, before.asked)

    @property
    def dropped(self) -> list[Held]:
        """What the agent was told to end and has no longer, without a report."""
        if self.restoration.is_waiting or not self.before.ending:
            return []
        named = {(held.id, held.attempt) for held in self.request.holding}
        named |= {(report.id, report.attempt) for report in self.request.events}
        return [held for held in self.ending if (held.id, held.attempt) not in named]

    @property
    def other_ids(self) -> set[ExecutionId]:
        """What an agent reports on or was told to end, and what it holds if a restored database knows nothing of it."""
        ids = {report.id for report in self.request.events} | {held.id for held in self.dropped}
        return ids | {held.id for held in self.request.holding} if self.restoration.open else ids
