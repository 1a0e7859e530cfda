"""Syncs: the one call of an agent. Heartbeat, reports and logs go in; leases, cancels and questions come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from sqlalchemy import Connection

from admin.core.executions.attempts import Ended, Outcome, requeue
from admin.core.executions.lifecycle import Phase
from admin.core.executions.reports import NEED_DETAILS, REPORTS, apply_report, refusal
from admin.core.fields import read
from admin.core.fleet.cluster_reports import REPORT, differs_only_in_load
from admin.core.fleet.clusters import ClusterState, Health
from admin.core.placement.scores import looks_at_load_of
from admin.core.quantities import parse_duration
from admin.errors import AgentReplaced
from admin.services.context import Context
from admin.services.definitions import are_enabled, current_fleet
from admin.store import fleet, leases, logs
from admin.store.cache.cluster_wakeups import Waiting
from admin.store.executions import ExecutionId
from admin.store.fleet import ClusterEvent
from admin.store.leases import LeasedExecution

#: A lease that was renewed within this part of its time is not renewed again: agents end their work much sooner.
_RENEWED = 1 / 60
#: The least time between two looks for an attempt that backs off.
_SHORTEST_NAP_SECONDS = 0.02


@dataclass(kw_only=True, slots=True)
class Report:
    """What an agent says of one execution."""

    event: str  #: what the agent calls its report
    id: ExecutionId
    attempt: int
    type: str
    reason: str | None = None
    message: str | None = None
    native_id: str | None = None
    nodes: list[str] | None = None
    exit_code: int | None = None
    signal: int | None = None
    duration: float | None = None
    outputs: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LogPiece:
    """A piece of what an execution printed."""

    id: ExecutionId
    attempt: int
    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Sync:
    """What an agent says."""

    cluster: str
    agent: str
    sequence: int
    want: int = 0
    report: Any = None
    holding: tuple[tuple[ExecutionId, int], ...] = ()
    events: tuple[Report, ...] = ()
    logs: tuple[LogPiece, ...] = ()
    wait_seconds: float = 0
    last_heard_at: datetime | None = None  #: when this very sync was heard before, if it waits


class _Overtaken(Exception):
    """While a sync waited, its agent said something newer."""


class _Care(Enum):
    """What few syncs do, and what needs something to be held before all else."""

    FLEET = auto()  # it changes the fleet
    STRANGERS = auto()  # it reports on what its agent has no lease of


class _Careless(Exception):
    """A sync was begun without a care that it needs."""

    def __init__(self, missing: _Care) -> None:
        self.missing = missing


@dataclass(kw_only=True)
class Answer:
    """What the admin says."""

    leases: list[LeasedExecution] = field(default_factory=list)
    confirmed: list[LeasedExecution] = field(default_factory=list)
    lost: list[tuple[ExecutionId, int, str]] = field(default_factory=list)
    cancels: list[LeasedExecution] = field(default_factory=list)
    questions: list[LeasedExecution] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    log_offsets: list[tuple[LogPiece, int, bool]] = field(default_factory=list)
    state: ClusterState
    enabled: bool = True
    finished: list[tuple[LeasedExecution, Ended]] = field(default_factory=list)  #: what ended, for metrics
    started: list[LeasedExecution] = field(default_factory=list)
    is_permission: bool = False  #: whether something may be started that might not before
    next_at: datetime | None = None  #: when the next attempt that backs off may start
    is_crowded: bool = False  #: whether there was no room to wait, so that the agent should stay away for a while

    @property
    def has_news(self) -> bool:
        """Whether there is something that the agent must act on."""
        return bool(self.is_permission or self.leases or self.lost or self.cancels or self.questions)

    @property
    def takes_work(self) -> bool:
        """Whether the cluster may have new work."""
        state = self.state
        return self.enabled and state.admitted and not state.cordoned and not state.draining


def sync(context: Context, said: Sync) -> Answer:
    """Take in what an agent says, and answer; wait while there is nothing to say."""
    if said.report is not None:
        report = {key: value for key, value in read(REPORT, said.report).items() if value is not None}
        said = replace(said, report=report)
    wait = min(said.wait_seconds, _longest_wait(context, said))
    if wait <= 0 or said.events or said.logs:
        return _exchange(context, replace(said, wait_seconds=0))
    with context.cluster_wakeups.subscribe(said.cluster) as waiting:  # before the first look, so that none is missed
        return _wait(context, said, waiting, context.monotonic() + wait)


def _longest_wait(context: Context, said: Sync) -> float:
    """While a sync waits nobody notes that its agent is there, or renews its leases: the next one must be in time."""
    agents = context.settings.agents
    longest = min(agents.wait_seconds, agents.unreachable_seconds / 2)
    return min(longest, agents.lease_seconds / 2) if said.holding else longest


def _wait(context: Context, said: Sync, waiting: Waiting, deadline: float) -> Answer:
    """Look, and look again whenever something has happened for the cluster; nobody asks the database meanwhile."""
    answer = first = _exchange(context, said)
    # A process takes over once: by its first words, not by waiting for the answer to them.
    said = replace(said, sequence=max(said.sequence, 2), report=None)
    while not answer.has_news and not _changed(first, answer) and not context.cluster_wakeups.is_closing:
        if waiting.is_crowded:
            return replace(answer, is_crowded=True)
        heard_at = answer.state.last_sync_at
        is_woken = waiting.sleep(_nap(context, answer, deadline), heard_at)
        if not is_woken and context.monotonic() >= deadline:
            break
        try:
            answer = _exchange(context, replace(said, last_heard_at=heard_at))
        except _Overtaken:  # it may hold more by now, and want less
            return Answer(state=answer.state, enabled=answer.enabled)
    return answer


def _changed(first: Answer, now: Answer) -> bool:
    """Whether the cluster was switched while its agent waited."""
    if first.enabled != now.enabled:
        return True
    return (first.state.cordoned, first.state.draining) != (now.state.cordoned, now.state.draining)


def _nap(context: Context, answer: Answer, deadline: float) -> float:
    """How long to wait at most before looking again: until the next attempt that backs off, if there is one."""
    remaining = max(0.0, deadline - context.monotonic())
    if answer.next_at is None:
        return remaining
    return min(remaining, max(_SHORTEST_NAP_SECONDS, (answer.next_at - context.clock()).total_seconds()))


def _exchange(context: Context, said: Sync) -> Answer:
    """One look: everything that is said counts or is refused in one transaction.

    What takes a lock that few need is found out by doing without, and then begun again.
    """
    cares: frozenset[_Care] = frozenset()
    while True:
        found = context.database.write(_look_together, _Look(context=context, said=said, cares=cares))
        if isinstance(found, Answer):
            return found
        if not isinstance(found, _Careless):
            raise found
        cares |= {found.missing}


@dataclass(kw_only=True, eq=False)
class _Look:
    """One sync of those that are answered together."""

    context: Context
    said: Sync
    cares: frozenset[_Care]
    failure: Exception | None = None  #: why there was no look: nothing is written then, and no other fails for it
    before: ClusterState = field(init=False)
    counts: bool = False  #: whether the cluster is another one to whoever decides
    held: dict[ExecutionId, LeasedExecution] = field(default_factory=dict)
    unanswered: list[LeasedExecution] = field(default_factory=list)
    answer: Answer = field(init=False)


def _look_together(connection: Connection, asked: list[_Look]) -> list[Answer | Exception]:
    """Look for several agents at once, in about as many statements as one of them takes."""
    if any(_Care.FLEET in one.cares for one in asked):
        fleet.lock(connection)  # before any cluster's own row, as everyone does who changes the fleet
    rest = looks = [replace(one) for one in asked]  # which may be asked for again, if these come to nothing
    while rest:  # of one cluster one after the other
        first = {one.said.cluster: one for one in reversed(rest)}
        _look(connection, [first[cluster] for cluster in sorted(first)])
        rest = [one for one in rest if first[one.said.cluster] is not one]
    return [one.answer if one.failure is None else one.failure for one in looks]


def _look(connection: Connection, looks: list[_Look]) -> None:
    context = looks[0].context
    now = context.clock()
    states = fleet.hold_states(connection, [one.said.cluster for one in looks])
    looks = [one for one in looks if _is_heard(one, connection, states[one.said.cluster], now)]
    looks = _hold(connection, looks)
    _note_clusters(connection, looks, now)
    for one in looks:
        one.unanswered = _unanswered(context, one.said, one.held, now)
    leases.add_details(connection, [held for one in looks for held in (*one.unanswered, *_needing_details(one))])
    for one in looks:
        _listen(one, connection, now)
    leases.add_details(connection, [held for one in looks for held in one.answer.leases])  # which never arrived
    until = now + timedelta(seconds=context.settings.agents.lease_seconds)
    for one in looks:
        room = one.said.want - len(one.answer.leases)
        if one.answer.takes_work and room > 0:
            one.answer.leases += leases.offered(connection, one.said.cluster, now, room)
        for lease in one.answer.leases:
            lease.set(lease_expires_at=until)
    leases.save(connection, [held for one in looks for held in (*one.held.values(), *one.answer.leases)])
    idle = [one for one in looks if one.said.wait_seconds > 0 and not one.answer.has_news]
    times = leases.next_not_before(connection, [one.said.cluster for one in idle], now)
    for one in idle:
        one.answer.next_at = times.get(one.said.cluster)


def _is_heard(look: _Look, connection: Connection, before: ClusterState, now: datetime) -> bool:
    """Whether an agent is listened to; if not, the look says why."""
    try:
        state = _heard(before, look.said, now)
        look.counts = _changes_fleet(look.context, connection, before, state)
        if look.counts and _Care.FLEET not in look.cares:
            raise _Careless(_Care.FLEET)
    except (AgentReplaced, _Overtaken, _Careless) as reason:
        look.failure = reason
        return False
    look.before, look.answer = before, Answer(state=state)
    return True


def _note_clusters(connection: Connection, looks: list[_Look], now: datetime) -> None:
    """Note that agents were heard, and what they say of their clusters."""
    heard = []
    for one in looks:
        before, after = one.before, one.answer.state
        if (before.health, before.report) == (after.health, after.report):
            heard.append(after)
            continue
        kind = "READY" if before.health != after.health else "REPORTED"
        fleet.save(connection, after, ClusterEvent(cluster=after.name, at=now, type=kind), counts=one.counts)
    fleet.touch(connection, heard)
    if looks:
        enabled = are_enabled(looks[0].context, connection, [one.answer.state for one in looks])
        for one in looks:
            one.answer.enabled = enabled[one.said.cluster]


def _listen(look: _Look, connection: Connection, now: datetime) -> None:
    """Let count what an agent says of executions."""
    context, said, held, answer = look.context, look.said, look.held, look.answer
    if said.logs:
        _keep(context, connection, said, held, answer)  # before the events: one may end the attempt that printed it
    if said.events:
        _take(context, connection, said, held, answer, now)
    for one in look.unanswered:
        _apply(one, Report(event="", id=one.key, attempt=one.attempt, type="UNKNOWN"), answer, now)
    _renew(context, said, held, answer, now)


def _heard(before: ClusterState, said: Sync, now: datetime) -> ClusterState:
    """A cluster whose agent was heard."""
    if before.agent not in (None, said.agent) and said.sequence > 1:
        raise AgentReplaced(
            f"Another agent of cluster '{said.cluster}' has taken over. End this one; one agent a cluster is enough."
        )
    if said.last_heard_at not in (None, before.last_sync_at):
        raise _Overtaken
    after = replace(before, agent=said.agent, last_sync_at=now, health=Health.READY.value)
    if said.report not in (None, before.report):
        after = replace(after, report=said.report, reported_at=now)
    return after


def _changes_fleet(context: Context, connection: Connection, before: ClusterState, after: ClusterState) -> bool:
    """Whether a cluster is another one to whoever decides; how busy it is need not matter to anybody."""
    if (before.health, before.report) == (after.health, after.report):
        return False
    if before.health != after.health or not differs_only_in_load(before.report, after.report):
        return True
    return looks_at_load_of(current_fleet(context, connection), after.name)


def _hold(connection: Connection, looks: list[_Look]) -> list[_Look]:
    """Hold everything that agents have a lease of, and everything else that they report on; answers who may go on."""
    clusters = [one.said.cluster for one in looks]
    strangers = {report.id for one in looks if _Care.STRANGERS in one.cares for report in one.said.events}
    found = leases.reported(connection, clusters, strangers) if strangers else leases.leased(connection, clusters)
    by_cluster: dict[str | None, dict[ExecutionId, LeasedExecution]] = {}
    for held in found:
        by_cluster.setdefault(held.cluster, {})[held.key] = held
    named = {held.key: held for held in found} if strangers else {}
    for one in looks:
        one.held = by_cluster.get(one.said.cluster, {})
        if _Care.STRANGERS in one.cares:
            one.held |= {report.id: named[report.id] for report in one.said.events if report.id in named}
        elif any(report.id not in one.held for report in one.said.events):
            one.failure = _Careless(_Care.STRANGERS)
    return [one for one in looks if one.failure is None]


def _needing_details(look: _Look) -> Iterable[LeasedExecution]:
    """What is reported on in a way that another attempt may follow."""
    return [look.held[one.id] for one in look.said.events if one.type in NEED_DETAILS and one.id in look.held]


def _unanswered(
    context: Context, said: Sync, held: Mapping[ExecutionId, LeasedExecution], now: datetime
) -> list[LeasedExecution]:
    """What the agent was asked about for so long that it must be thought to know nothing of it."""
    too_long = now - timedelta(seconds=context.settings.agents.lost_seconds)
    named = {*(key for key, _ in said.holding), *(report.id for report in said.events)}
    return [
        one
        for key, one in held.items()
        if one.lease_expires_at is not None
        and one.lease_expires_at <= too_long
        and one.cluster == said.cluster
        and key not in named
        and _may_have_started(one)
    ]


def _may_have_started(one: LeasedExecution) -> bool:
    return one.phase != Phase.QUEUED.value or one.confirmed


def _take(
    context: Context,
    connection: Connection,
    said: Sync,
    held: Mapping[ExecutionId, LeasedExecution],
    answer: Answer,
    now: datetime,
) -> None:
    """Let reports count, or refuse them; the same one again changes nothing."""
    files: dict[int, tuple[int, list[dict[str, Any]]]] = {}
    limit = context.settings.agents.output_limit_bytes
    for report in said.events:
        one = held.get(report.id)
        why = refusal(one, said.cluster, report.attempt, report.type)
        if one is None or why is not None:
            answer.refused.append((report.event, why or "UNKNOWN_EXECUTION"))
            if one is not None:
                message = (
                    f"Cluster '{said.cluster}' reported {report.type} for attempt {report.attempt}; it does not count."
                )
                one.note("REFUSED", why or "", message, now)
            continue
        answer.accepted.append(report.event)
        if _apply(one, report, answer, now) and report.outputs and REPORTS[report.type] is not Phase.RUNNING:
            files[one.id] = report.attempt, [_output(file, limit) for file in report.outputs]
    logs.replace_outputs(connection, files)


def _apply(one: LeasedExecution, report: Report, answer: Answer, now: datetime) -> bool:
    """Do what a report that counts means; False where it is no news."""
    outcome = Outcome(
        phase=REPORTS[report.type] or Phase.FAILED,
        reason=report.reason or report.type,
        message=report.message or (f"Signal {report.signal} ended it." if report.signal else ""),
        exit_code=report.exit_code,
        native_id=report.native_id,
        nodes=report.nodes,
        duration=report.duration,
    )
    change = apply_report(one, report.type, outcome, now, takes_work=answer.takes_work)
    if change is None:
        return False
    one.apply(change, now)
    if change.kind == "RUNNING":
        answer.started.append(one)
    if change.ended is not None:
        answer.finished.append((one, change.ended))
    return True


def _output(one: Mapping[str, Any], limit: int) -> dict[str, Any]:
    content = one["content"][:limit]
    truncated = one["truncated"] or len(one["content"]) > limit
    return {"path": one["path"], "size": one["size"], "truncated": truncated, "content": content}


def _keep(
    context: Context, connection: Connection, said: Sync, held: Mapping[ExecutionId, LeasedExecution], answer: Answer
) -> None:
    """Keep pieces of logs, each if it goes on where the last one ended and there is room."""
    limit = context.settings.agents.log_limit_bytes
    rows: dict[ExecutionId, Any] = {**leases.named(connection, {one.id for one in said.logs} - held.keys()), **held}
    ends = logs.lengths(connection, {row.id for row in rows.values()})
    pieces = []
    for piece in said.logs:
        row = rows.get(piece.id)
        if row is None or row.cluster != said.cluster or row.attempt != piece.attempt:
            answer.log_offsets.append((piece, piece.offset + len(piece.data), True))  # nobody wants it any more
            continue
        place = (row.id, piece.attempt, piece.stream)
        end = ends.get(place, 0)
        skip = end - piece.offset
        if 0 <= skip < len(piece.data) and end < limit:
            data = piece.data[skip : skip + limit - end]
            pieces.append((place, end, data))
            end = ends[place] = end + len(data)
        answer.log_offsets.append((piece, end, end >= limit))
    logs.append(connection, pieces)


def _renew(
    context: Context, said: Sync, held: Mapping[ExecutionId, LeasedExecution], answer: Answer, now: datetime
) -> None:
    """Renew what the agent has and may have; tell it what it has and may not, and what it should have and does not."""
    theirs = {key: one for key, one in held.items() if one.lease_expires_at is not None and one.cluster == said.cluster}
    seconds = context.settings.agents.lease_seconds
    until = now + timedelta(seconds=seconds)
    just_renewed = until - timedelta(seconds=seconds * _RENEWED)
    for key, attempt in dict(said.holding).items():
        one = theirs.get(key)
        if one is None or one.attempt != attempt:
            answer.lost.append((key, attempt, "NOT_YOURS" if one is None else "OLD_ATTEMPT"))
            continue
        del theirs[key]
        if one.phase == Phase.ABORTING.value:
            answer.cancels.append(one)
        else:
            answer.confirmed.append(one)
            answer.is_permission |= not one.confirmed
        if not one.confirmed:
            one.set(confirmed=True)
        if one.lease_expires_at is not None and one.lease_expires_at < just_renewed:
            one.set(lease_expires_at=until)
    for one in theirs.values():
        if _may_have_started(one):
            answer.questions.append(one)
        elif not answer.takes_work:
            one.apply(requeue(one, "Its cluster takes no new work.", stays=False), now)
        elif len(answer.leases) < said.want:
            answer.leases.append(one)  # the answer that offered it never arrived
        else:
            one.set(lease_expires_at=None)


def time_limit_of(row: LeasedExecution) -> float | None:
    """The longest that an execution may run, in seconds."""
    duration = row.content["job"].get("resources", {}).get("duration")
    return float(parse_duration(duration)) if duration else None
