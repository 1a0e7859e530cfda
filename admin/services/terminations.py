"""Terminations: what ending an execution, or giving it up, would do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from admin.core.executions.attempts import phase_when_ended
from admin.core.executions.lifecycle import Phase
from admin.core.executions.silences import describe_remedy
from admin.core.fleet.clusters import Health
from admin.services.abandonments import phase_when_given_up
from admin.services.context import Context
from admin.services.endings import TERMINATED
from admin.services.executions import find_execution
from admin.services.silences import find_silence, give_up_command, heard_last, note_silence
from admin.store import fleet
from admin.store.executions import Execution, ExecutionId, ListedExecution
from admin.store.fleet import HeardCluster


@dataclass(frozen=True, kw_only=True)
class EndPreview:
    """What ending an execution would do to it."""

    execution: Execution  #: as it is
    phase_after: Phase | None  #: None where nothing would change
    note: str | None  #: since when its cluster is silent, and what can be done about that
    silent_since: datetime | None  #: when the agent that has it was last heard, if it is silent


class SilentEnd(NamedTuple):
    """Since when the agent is silent that is to end an execution, and that in words."""

    since: datetime
    message: str


def find_silent(context: Context, ended: Sequence[tuple[Execution | ListedExecution, bool]]) -> dict[int, SilentEnd]:
    """The silent agents that are to end some executions, by the row ids of these; the others are left out."""
    # What waits in the queue is ended without an agent, unless one has it already.
    with_agents = [
        execution
        for execution, _ in ended
        if execution.cluster and (execution.phase != Phase.QUEUED.value or execution.lease_expires_at is not None)
    ]
    if not with_agents:
        return {}
    with context.database.reading() as connection:
        heard = fleet.heard(connection, {execution.cluster or "" for execution in with_agents})
    silent: dict[int, SilentEnd] = {}
    for execution in with_agents:
        at_cluster = heard.get(execution.cluster or "")
        last, note = heard_last(execution, at_cluster), note_silence(execution, at_cluster)
        if last is not None and note is not None:
            silent[execution.id] = SilentEnd(last.since, note)
    return silent


def silent_end(context: Context, execution: Execution) -> SilentEnd | None:
    """The silent agent that is to end an execution, with what happens next and what an operator can do."""
    silence = find_silence(context, execution)
    return None if silence is None else SilentEnd(silence.since, silence.message)


def preview_end(context: Context, key: ExecutionId, *, give_up: bool) -> EndPreview:
    """What ending an execution would do, or giving it up, which is refused where that would be."""
    now = context.clock()
    with context.database.reading() as connection:
        execution = find_execution(context, connection, key)
        cluster = execution.cluster or ""
        heard = fleet.heard(connection, [cluster]).get(cluster, HeardCluster(None, Health.EXPECTED.value))
    if give_up:
        phase_after = phase_when_given_up(execution, heard.health, now)
    else:
        phase_after = phase_when_ended(execution, Phase.ABORTED, TERMINATED)
    is_aborting = (phase_after or Phase(execution.phase)) is Phase.ABORTING
    silent = heard_last(execution, heard) if is_aborting or give_up else None
    note = None if silent is None else note_silence(execution, heard)
    if note is not None and is_aborting:
        note = f"{note} {describe_remedy(give_up_command(execution), execution.lease_expires_at, now)}"
    since = None if silent is None else silent.since
    return EndPreview(execution=execution, phase_after=phase_after, note=note, silent_since=since)
