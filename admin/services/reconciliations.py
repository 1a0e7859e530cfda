"""Reconciliations: a restored database is brought up to what the agents know before anything is judged by it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from admin.core.executions.adoptions import adopt, may_adopt
from admin.core.executions.reports import Reporter, is_same
from admin.core.fleet.clusters import DATABASE_RESTORED, RECONCILED
from admin.core.problems import list_first, shorten
from admin.core.provenance import NOBODY, Actor
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning, WarningCode
from admin.errors import ReconciliationChanged, ReconciliationNotFound
from admin.services.context import Context
from admin.services.exchanges import Exchange
from admin.services.reports import Held
from admin.store import cluster_events, reconciliations
from admin.store.cluster_events import ClusterEvent
from admin.store.executions import ExecutionId
from admin.store.leases import LeasedExecution
from admin.store.reconciliations import Reconciliation, Restoration, UnknownAttempt

_log = logging.getLogger("rainbow.agents")
RESTORED = (
    "The database was restored from a backup: nothing is given away or ended until every agent has synced. "
    "`rainbowctl get reconciliation` says which are missing."
)
#: How many of the executions that a cluster holds a warning names.
_NAMED = 10


def find_restoration(
    connection: Connection, clusters: Iterable[str], clusters_ahead: Iterable[str], now: datetime
) -> Restoration:
    """What is to be reconciled; a cluster that has seen more of the admin than is stored shows that it was restored.

    It is locked as far as syncs of some clusters may change it.
    """
    restoration = reconciliations.load(connection)
    if restoration.open:
        reconciliations.hold(connection, None if restoration.is_waiting else clusters)
        restoration = reconciliations.load(connection)
    for cluster in clusters_ahead:
        reconciliation = restoration.open.get(cluster)
        if reconciliation is not None and reconciliation.is_waiting:
            continue  # found before, by another cluster
        reconciliations.begin(connection, cluster, now)
        restoration = reconciliations.load(connection)
        _add_events(
            connection, restoration.open, now, DATABASE_RESTORED, f"The agent of cluster '{cluster}' knows more."
        )
        _log.error(
            "the database was restored from a backup: nothing is given away or ended until every agent has synced",
            extra={"cluster": cluster, "waits_for": ", ".join(restoration.unsynced)},
        )
    return restoration


def note_end(connection: Connection, before: Restoration, now: datetime) -> None:
    """Wake the agents of all clusters when the last one that was waited for has synced, or counts as reconciled."""
    if before.is_waiting and not reconciliations.load(connection).is_waiting:
        clusters = reconciliations.clusters_with_agents(connection)
        _add_events(connection, clusters, now, RECONCILED, "No agent is waited for any more.")


def _add_events(connection: Connection, clusters: Iterable[str], now: datetime, type: str, reason: str) -> None:
    for cluster in clusters:
        cluster_events.add_event(connection, ClusterEvent(cluster=cluster, at=now, type=type, reason=reason))


def reconcile(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Bring a restored database up to what an agent has, and let go on what it does not know."""
    request, own = exchange.request, exchange.restoration.open.get(exchange.request.cluster)
    if exchange.restoration.is_waiting:
        until = now + timedelta(seconds=exchange.context.settings.agents.lease_seconds)
        reported = [Held(report.id, report.attempt, report.uid) for report in exchange.believed_reports]
        _adopt_all([*request.holding, *reported], exchange.leased, request.reporter, until, now)
    if own is not None:
        exchange.answer.kept = _unknown_of(request.holding, exchange.leased)
        _note_synced(connection, own, exchange.answer.kept, now)


def _adopt_all(
    references: Iterable[Held],
    locked: Mapping[ExecutionId, LeasedExecution],
    by: Reporter,
    until: datetime,
    now: datetime,
) -> None:
    """Give executions to the agent that has a newer attempt of them than is stored."""
    for held in references:
        execution = locked.get(held.id)
        if execution is None or not is_same(held.uid, execution.uid):
            continue
        if may_adopt(execution, by.cluster, held.attempt):
            execution.apply(adopt(by.cluster, by.instance, held.attempt, until), now)


def _unknown_of(holding: Iterable[Held], locked: Mapping[ExecutionId, LeasedExecution]) -> list[Held]:
    """What an agent holds and the database does not know."""
    return [held for held in holding if held.id not in locked or not is_same(held.uid, locked[held.id].uid)]


def _note_synced(connection: Connection, before: Reconciliation, unknown: Iterable[Held], now: datetime) -> None:
    """Store that a cluster's agent has said what it has."""
    attempts = [_unknown_attempt(held) for held in unknown]
    after = replace(before, synced_at=before.synced_at or now, unknown=attempts)
    if after != before:
        reconciliations.save(connection, after)


def _unknown_attempt(held: Held) -> UnknownAttempt:
    id = held.id
    return UnknownAttempt(project=id.project, domain=id.domain, name=id.name, attempt=held.attempt, uid=held.uid)


def is_waiting(context: Context) -> bool:
    """Whether nothing may be given away or ended, because the database was restored."""
    with context.database.autocommit() as connection:
        return reconciliations.load(connection).is_waiting


def list_reconciliations(context: Context) -> list[Reconciliation]:
    """Every cluster that is not reconciled yet, by name."""
    with context.database.reading() as connection:
        return list(reconciliations.load(connection).open.values())


def get_reconciliation(context: Context, cluster: str) -> Reconciliation:
    """How far one cluster is reconciled; ReconciliationNotFound where nothing is left to reconcile."""
    with context.database.reading() as connection:
        return _open_at(reconciliations.load(connection), cluster)


def _open_at(restoration: Restoration, cluster: str) -> Reconciliation:
    if cluster not in restoration.open:
        raise ReconciliationNotFound(
            f"There is nothing to reconcile with cluster '{shorten(cluster)}'. `rainbowctl get reconciliation` lists "
            "the clusters that are not reconciled yet."
        )
    return restoration.open[cluster]


def end_reconciliation(
    context: Context,
    cluster: str,
    *,
    state: str | None = None,
    unknown_count: int | None = None,
    reason: str | None = None,
    by: Actor = NOBODY,
) -> Reconciliation:
    """Count a cluster as reconciled by an operator's word; returns what was ended.

    ReconciliationChanged if the operator saw another state, or fewer unknown executions.
    """
    with context.database.writing() as connection:
        reconciliations.hold(connection)
        before = reconciliations.load(connection)
        reconciliation = _open_at(before, cluster)
        _check_as_seen(reconciliation, state, unknown_count)
        _end(connection, before, [cluster], context.clock(), reason, by)
    return reconciliation


def _check_as_seen(reconciliation: Reconciliation, state: str | None, unknown_count: int | None) -> None:
    current, count = reconciliation.state, len(reconciliation.unknown)
    differences = {}
    if state not in (None, current):
        differences["state"] = f"is {current}, not {state}"
    if unknown_count is not None and count > unknown_count:
        differences["unknown_count"] = f"is {count}, not {unknown_count} at most"
    if differences:
        changes = ", and ".join(f"{field} {difference}" for field, difference in differences.items())
        raise ReconciliationChanged(
            f"The reconciliation of cluster '{reconciliation.cluster}' is not as it was seen: {changes}. Nothing was "
            f"changed. Look at `rainbowctl get reconciliation {reconciliation.cluster}`, then repeat it.",
            details=[{"field": field, "reason": f"{difference}."} for field, difference in differences.items()],
        )


def end_reconciliations(context: Context, clusters: Iterable[str], *, every: bool, by: Actor = NOBODY) -> list[str]:
    """Count all clusters as reconciled, or some; returns those that were not."""
    names = set(clusters)
    with context.database.writing() as connection:
        reconciliations.hold(connection)
        before = reconciliations.load(connection)
        ended = [name for name in before.open if every or name in names]
        _end(connection, before, ended, context.clock(), None, by)
    return ended


def _end(
    connection: Connection,
    before: Restoration,
    clusters: Sequence[str],
    now: datetime,
    reason: str | None,
    by: Actor,
) -> None:
    reconciliations.end(connection, clusters)
    for name in clusters:
        text = _outcome(before.open[name]) + (f" Reason: {reason}" if reason else "")
        event = ClusterEvent(cluster=name, at=now, type=RECONCILED, reason=text).by(by)
        cluster_events.add_event(connection, event)
    note_end(connection, before, now)


def _outcome(reconciliation: Reconciliation) -> str:
    """What it means that an operator counts a cluster as reconciled."""
    if reconciliation.unknown:
        return f"An operator lets its agent end what the database does not know: {_shown_all(reconciliation)}."
    return "An operator waits for its agent no longer."


def restoration_warnings(connection: Connection) -> list[Warning]:
    """What an operator should know of a restored database."""
    restoration = reconciliations.load(connection)
    unsynced = restoration.unsynced
    warnings = []
    if unsynced:
        message = (
            "The database was restored from a backup. Nothing is given away or ended until the agents of these "
            f"clusters have synced: {', '.join(unsynced)}. If they are gone for good, run "
            f"`rainbowctl delete reconciliation {' '.join(unsynced)}`."
        )
        warnings.append(_warning(WarningCode.DATABASE_RESTORED, message))
    for name, reconciliation in restoration.open.items():
        if reconciliation.unknown:
            message = (
                "Its agent has work that the restored database does not know, and that goes on: "
                f"{_shown_all(reconciliation)}. `rainbowctl delete reconciliation {name}` lets the agent end it."
            )
            warnings.append(_warning(WarningCode.UNKNOWN_WORK, message, name))
    return warnings


def _shown_all(reconciliation: Reconciliation) -> str:
    """The first executions that the database does not know, and how many more there are."""
    return list_first([_shown(unknown) for unknown in reconciliation.unknown], _NAMED)


def _shown(unknown: UnknownAttempt) -> str:
    return f"{unknown['project']}/{unknown['domain']}/{unknown['name']} (attempt {unknown['attempt']})"


def _warning(code: WarningCode, message: str, cluster: str = "") -> Warning:
    return Warning(code=code, message=message, kind="CLUSTER", scope=Scope(), field="", name=cluster)
