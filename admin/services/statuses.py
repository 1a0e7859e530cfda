"""Statuses: where an execution stands now, from all that is known of it and of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import zip_longest

from sqlalchemy import Connection

from admin.core.executions.admissions import NAMESPACE_NOT_READY
from admin.core.executions.attempt_records import AttemptRecord
from admin.core.executions.attempts import (
    UNDECIDED,
    attempt_number,
    attempts_begun,
    is_backing_off,
    may_have_started,
    seconds_until_retry,
    time_limit_ends_at,
)
from admin.core.executions.lifecycle import Phase, phase_began_at
from admin.core.executions.limits import Limits, may_lack_memory
from admin.core.executions.retries import CLUSTER_LOST, DRAINED, Retries
from admin.core.executions.run_times import Spent, Times, add_up, late_by, spend
from admin.core.executions.silences import Drain, foresee_silence
from admin.core.executions.starts import MOST_AHEAD, Ahead, Start, find_start
from admin.core.executions.statuses import Circumstances, Status
from admin.core.executions.tokens import read_amounts
from admin.core.fleet.clusters import Cluster
from admin.core.json_text import JsonObject
from admin.core.placement.candidates import Workload
from admin.core.placement.filters import EXPECTED, ROOM
from admin.core.placement.obstacles import obstacle_at
from admin.core.placement.routes import describe_rungs
from admin.core.provenance import Provenance
from admin.core.registrations import Identifier
from admin.core.settings.scopes import Scope
from admin.core.times import show_duration
from admin.services.access import Access
from admin.services.attempts import AttemptList, AttemptView
from admin.services.context import Context
from admin.services.execution_quotas import describe_full
from admin.services.obstacles import find_obstacle, find_obstacles, may_leave
from admin.services.silences import SilenceView, find_drain
from admin.services.token_waits import tokens_lacked, view_token_wait
from admin.services.visibility import told_registration
from admin.store import bid_rounds, execution_events, execution_queue, fleet, registrations, statuses
from admin.store.executions import Execution
from admin.store.fleet import HeardCluster
from admin.store.given_jobs import given_jobs
from admin.store.registration_tables import workflows
from admin.store.statuses import InLine, NewInLine


@dataclass(frozen=True, kw_only=True)
class LeaseView:
    """The lease of an execution, and when the agent that has it was heard."""

    expires_at: datetime
    confirmed: bool  #: the agent is known to have it, and may have started it
    heard_at: datetime | None  #: None where nothing was ever heard of its cluster
    health: str | None  #: of its cluster; `deleted` where that is gone from the fleet
    is_draining: bool  #: whether its cluster is


def view_lease(execution: Execution, heard: HeardCluster | None, cluster: Cluster | None) -> LeaseView | None:
    """The lease of an execution; None where no agent has one."""
    if execution.lease_expires_at is None:
        return None
    return LeaseView(
        expires_at=execution.lease_expires_at,
        confirmed=execution.confirmed,
        # Of the agent that has it, where another one serves the cluster now.
        heard_at=execution.silent_since or (heard and heard.last_sync_at),
        health="deleted" if cluster is None else heard and heard.health,
        is_draining=cluster is not None and cluster.state.draining,
    )


def view_status(
    context: Context,
    connection: Connection,
    execution: Execution,
    settings_trail: JsonObject,
    provenance: Mapping[int, Provenance],
    silence: SilenceView | None,
    attempts: AttemptList,
) -> Status:
    """Where an execution stands, by the trail of the settings that it was decided by and its cluster's silence.

    `provenance` has the revisions of those settings.
    """
    now = context.clock()
    phase = Phase(execution.phase)
    is_waiting = phase is Phase.QUEUED and execution.lease_expires_at is None
    is_in_line = is_waiting and execution.cluster is not None
    is_nowhere = is_waiting and execution.cluster is None and execution.reason != UNDECIDED
    sees_fleet = context.access.sees_fleet()
    backs_off = is_waiting and is_backing_off(execution.not_before, now)
    retries = Retries.of(execution.content.get("retry"))
    limits = _limits(context, connection, execution, settings_trail, provenance, now)
    position = statuses.place_in_line(connection, execution, now) if is_in_line else None
    obstacle = find_obstacle(context, connection, execution) if is_in_line else None
    takes_work = silence is None and not backs_off and (obstacle is None or obstacle.filter == ROOM.name)
    quota = describe_full(context, connection, execution) if is_in_line else ""
    has_room = obstacle is None and not quota and execution.reason != NAMESPACE_NOT_READY
    tokens = None
    if takes_work and is_in_line:
        tokens = view_token_wait(context, connection, execution, has_room=has_room)
    drain = find_drain(context, connection, execution)
    obstacles = None
    if is_nowhere or backs_off:
        # What is in back-off needs room only when its time has come.
        obstacles = find_obstacles(context, connection, execution, attempts.declines, needs_room=not backs_off)
    state = None
    if phase is Phase.QUEUED and execution.cluster:
        state = fleet.states(connection, [execution.cluster]).get(execution.cluster)
    circumstances = Circumstances(
        phase=phase,
        since=phase_began_at(execution),
        reason=execution.reason,
        reason_message=execution.reason_message or _ended_by(attempts),
        cluster=execution.cluster,
        attempt=attempt_number(execution),
        attempts_begun=attempts_begun(execution),
        attempts=retries.attempts,
        failure=None if execution.last_failure is None else AttemptRecord.from_json(execution.last_failure),
        route=describe_rungs(settings_trail["rungs"]),
        limit=limits.describe(
            execution.reason, now, execution.reason_message, is_killed=_is_killed(execution, attempts)
        ),
        time_limit=limits.time_limit,
        queueing_budget=limits.queueing_budget(now),
        no_other=_why_no_other(execution),
        times=times_of(execution, attempts, silence, now),
        duration=execution.duration,
        late=_late(execution, attempts),
        has_started=execution.started_at is not None,
        position=position,
        is_position_told=sees_fleet,
        obstacle=obstacle,
        waits_for="" if state is None else str(state.report.get("waits_for", "")),
        engine_says="" if state is None else str(state.report.get("queued", {}).get(execution.uid, "")),
        has_never_synced=state is not None and state.last_sync_at is None,
        may_move=is_in_line and may_leave(context, connection, execution),
        start=_start(context.access, connection, execution, position, now)
        if position is not None and takes_work and sees_fleet and tokens is None
        else None,
        quota=quota,
        tokens=tokens,
        lacks=tokens_lacked(execution),
        token_pools=read_amounts(execution.token_pools) if execution.token_pools else None,
        holds_tokens=execution.token_number is not None,
        obstacles=obstacles and obstacles.message,
        triggers=obstacles.triggers if obstacles is not None else "",
        ask_again_at=bid_rounds.due_at(connection, execution.id) if is_nowhere and obstacles is None else None,
        drain=drain,
        not_before=execution.not_before,
        queue_deadline=execution.queue_deadline,
        ends_at=time_limit_ends_at(execution.started_at, execution.content),
        aborted_by=execution.aborted_by,
        abort_requested_at=_abort_requested_at(connection, execution),
        given_up_by=execution.given_up_by,
        silence=None if silence is None else silence.message,
        on_lost=retries.on_lost,
        if_silent=foresee_silence(
            retries.on_lost,
            context.settings.agents.give_up_seconds,
            is_retried=seconds_until_retry(execution, CLUSTER_LOST) is not None,
            drained=_drained_before_judgement(context, retries.on_lost, drain),
        ),
        judgement="" if silence is None else silence.next,
        judged_at=None if silence is None else silence.next_at,
    )
    ended_at = execution.finished_at
    kept_until = None if ended_at is None else context.settings.retention.kept_until(ended_at, now)
    return replace(circumstances.status(now), kept_until=kept_until)


def _abort_requested_at(connection: Connection, execution: Execution) -> datetime | None:
    """When somebody asked for the end of what another gave up later, if that event is kept."""
    given_up = [execution.id] if execution.given_up_by is not None else []
    return execution_events.abort_requests(connection, given_up).get(execution.id)


def _ended_by(attempts: AttemptList) -> str:
    """By what the last attempt ended, of which its agent has said no more; "" where it has not ended."""
    return (attempts.attempts[-1].ended_by or "") if attempts.attempts else ""


def _limits(
    context: Context,
    connection: Connection,
    execution: Execution,
    settings_trail: JsonObject,
    provenance: Mapping[int, Provenance],
    now: datetime,
) -> Limits:
    job, workflow = execution.content["job"], execution.launched.get("workflow")
    resources = job.get("resources", {})
    registered = None
    if workflow is not None and (resources.get("duration") or resources.get("limits")):
        registered = registrations.get(connection, workflows, Identifier(**workflow))
    return Limits(
        job=job,
        given_job=given_jobs(connection, [execution]).get(execution.id),
        workflow=workflow,
        registered="" if registered is None else told_registration(context.access, registered).describe(now),
        quality=execution.content["quality_of_service"],
        settings=settings_trail["settings"],
        provenance=provenance,
    )


def _is_killed(execution: Execution, attempts: AttemptList) -> bool:
    """Whether an execution failed as those do which get no more memory."""
    return execution.phase == Phase.FAILED.value and any(
        may_lack_memory(attempt.record) for attempt in attempts.attempts[-1:]
    )


def _why_no_other(execution: Execution) -> str:
    """Why no other attempt follows one that has ended without success, and who set the policy; "" for all others."""
    is_drained = execution.reason == DRAINED
    has_failed = execution.phase in (Phase.FAILED.value, Phase.TIMED_OUT.value)
    is_lost = execution.reason == CLUSTER_LOST
    is_ended = has_failed or ((is_drained or is_lost) and Phase(execution.phase).is_finished)
    if execution.started_at is None or not is_ended:
        return ""
    outcome = CLUSTER_LOST if is_drained or is_lost else execution.phase
    policy = execution.content.get("retry")
    retries = Retries.of(policy)
    why = retries.why_no_other(attempt_number(execution), outcome, is_drained=is_drained)
    plan = execution.launched.get("launch_plan")
    is_by_request = bool(execution.request["spec"].get("retry")) or plan is None
    is_used_up = attempt_number(execution) >= retries.attempts
    is_by_default = not retries.says_attempts if is_used_up else outcome == CLUSTER_LOST and not retries.says_on_lost
    if not why or not policy or is_by_default or (retries.attempts == 1 and is_by_request):
        return why
    if is_by_request or plan is None:
        return f"{why}, as the request says"
    return f"{why}, as launch plan '{plan['name']}', version {plan['version']}, says"


def _start(access: Access, connection: Connection, execution: InLine, position: int, now: datetime) -> Start:
    """When an execution starts that is in line at a cluster."""
    ahead = statuses.ahead(connection, execution, MOST_AHEAD + 1, now)
    held, waiting = ([_as_seen(access, other) for other in others] for others in ahead)
    backing_off = statuses.count_backing_off(connection, execution, now)
    return find_start(execution.cluster or "", position, held, waiting, now, backing_off)


@dataclass(frozen=True, kw_only=True)
class ForeseenWait:
    """Why the cluster of something that would be created would not take it at once."""

    obstacle: str
    start: Start | None  #: where it would be in line; None where no agent has been seen, or that is not told


def foresee_wait(
    context: Context, connection: Connection, cluster: Cluster, workload: Workload, new: NewInLine
) -> ForeseenWait | None:
    """Why a cluster would not take something new at once, and when it would start; None where it would take it."""
    now, state = context.clock(), fleet.states(connection, [cluster.name]).get(cluster.name)
    if state is not None:  # a report of load alone is no new generation of the fleet
        cluster = cluster.with_state(replace(cluster.state, report=state.report, reported_at=state.reported_at))
    waiting = execution_queue.taken_by_waiting(connection, {cluster.name: cluster}, now)
    obstacle = obstacle_at(cluster, workload) or obstacle_at(cluster, workload, waiting)
    if obstacle is None or obstacle.filter not in (ROOM.name, EXPECTED.name):
        return None
    reason = f"{cluster.name} {obstacle.reason}"
    if obstacle.filter == EXPECTED.name or not context.access.sees_fleet():
        return ForeseenWait(obstacle=reason, start=None)
    position = statuses.place_in_line(connection, new, now)
    return ForeseenWait(obstacle=reason, start=_start(context.access, connection, new, position, now))


def _as_seen(access: Access, other: Ahead) -> Ahead:
    """What is ahead of an execution as the caller may know it."""
    is_seen = access.allows("executions.read", Scope(project=other.project, domain=other.domain))
    return other if is_seen else replace(other, is_hidden=True)


def times_of(execution: Execution, attempts: AttemptList, silence: SilenceView | None, now: datetime) -> Times | None:
    """How its time was spent; None where not all of its attempts are recorded."""
    if attempts.unrecorded:
        return None
    silent_since = silence.since if silence is not None and may_have_started(execution) else None
    over_at = _over_at(execution, attempts, now)
    total = max(timedelta(0), over_at - execution.created_at)
    spent = (_spent(execution, attempt, silent_since, now) for attempt in attempts.attempts)
    return add_up(spent, total, _backing_off(execution, attempts, over_at))


def _backing_off(execution: Execution, attempts: AttemptList, over_at: datetime) -> timedelta:
    """How long an execution has waited for its next attempts to be due."""
    retries = Retries.of(execution.content.get("retry"))
    in_all = timedelta(0)
    for attempt, following in zip_longest(attempts.attempts, attempts.attempts[1:]):
        number, record = attempt.record.shown_number, attempt.record
        if number is None or attempt.reported_at is None:
            continue
        outcome = CLUSTER_LOST if record.reason in (CLUSTER_LOST, DRAINED) else record.outcome
        seconds = retries.seconds_until_next(number, outcome) or 0.0
        until = over_at if following is None else following.started_at or following.reported_at or over_at
        in_all += max(timedelta(0), min(timedelta(seconds=seconds), until - attempt.reported_at))
    return in_all


def _over_at(execution: Execution, attempts: AttemptList, now: datetime) -> datetime:
    """When an execution was over; now for one that is not.

    The job of one that was ended without its agent may have gone on, as that has confirmed since.
    """
    if execution.finished_at is None:
        return now
    ends = [execution.finished_at]
    for attempt in attempts.attempts[-1:]:
        is_last = attempt.record.number == execution.attempt
        if is_last and attempt.confirmed_at is not None and attempt.ended_at is not None:
            ends.append(min(attempt.ended_at, attempt.confirmed_at))
    return max(ends)


def _spent(execution: Execution, attempt: AttemptView, silent_since: datetime | None, now: datetime) -> Spent:
    """How the time of an attempt was spent; the last one ran as long as lists say, which its agent has measured."""
    is_last = attempt.record.number == execution.attempt
    measured = execution.duration if is_last and execution.finished_at is not None else None
    return spend(attempt, now, silent_since if is_last else None, measured)


def _late(execution: Execution, attempts: AttemptList) -> str:
    """That the agent of an execution that has ended was silent when its job ended; "" of any other."""
    last = attempts.attempts[-1] if attempts.attempts else None
    if last is None or last.silent_since is None or last.reported_at is None or last.record.unconfirmed:
        return ""
    if last.record.number != execution.attempt or execution.finished_at is None:
        return ""
    late = late_by(last)
    if late is None:
        silent = show_duration((last.reported_at - last.silent_since).total_seconds())
        return f"its job may have ended before: {last.cluster} was silent for {silent}"
    if late < timedelta(seconds=1):
        return ""
    return f"its job had ended {show_duration(late.total_seconds())} before: {last.cluster} was silent"


def _drained_before_judgement(context: Context, on_lost: str, drain: Drain | None) -> str:
    """When the drain of its cluster is over, if that comes before a silence that began now would be judged."""
    agents, now = context.settings.agents, context.clock()
    seconds = agents.give_up_seconds if on_lost == "wait" else max(agents.lost_seconds, agents.lease_seconds)
    if drain is None or drain.deadline is None or drain.deadline >= now + timedelta(seconds=seconds):
        return ""
    return drain.describe_end(now)
