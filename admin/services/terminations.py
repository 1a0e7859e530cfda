"""Terminations: what ending an execution, or giving it up, would do to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from admin.core.executions.attempts import phase_when_ended
from admin.core.executions.lifecycle import Phase
from admin.core.executions.silences import describe_remedy
from admin.core.fleet.clusters import Health
from admin.services.abandonments import phase_when_given_up
from admin.services.context import Context
from admin.services.executions import TERMINATED, find_execution
from admin.services.silences import give_up_command, heard_last, note_silence
from admin.store import fleet
from admin.store.executions import Execution, ExecutionId
from admin.store.fleet import HeardCluster


@dataclass(frozen=True, kw_only=True)
class EndPreview:
    """What ending an execution would do to it."""

    execution: Execution  #: as it is
    phase_after: Phase | None  #: None where nothing would change
    note: str | None  #: since when its cluster is silent, and what can be done about that
    silent_since: datetime | None  #: when the agent that has it was last heard, if it is silent


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
