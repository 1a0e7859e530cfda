"""The admin's own state, for probes and metrics."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping

from sqlalchemy.exc import SQLAlchemyError

from admin.core.executions.lifecycle import Phase
from admin.core.fleet.fleet import expected_warnings
from admin.core.placement.capacity import usable_amounts
from admin.core.resources import in_units
from admin.core.token_pools.definitions import token_pool_of
from admin.metrics import PoolCounts, State
from admin.services.context import Context
from admin.services.database_failures import explain
from admin.services.definitions import current_fleet
from admin.services.execution_quotas import every_usage
from admin.services.token_lines import count_waiting
from admin.services.warnings import admin_warnings, stored_warnings
from admin.store import execution_queue, fleet, registrations, revisions, unfinished
from admin.store.named_payloads import StoredPayload
from admin.store.schema import SchemaState, schema_state
from admin.store.token_backends.base import TokensUnavailable
from admin.store.token_tables import TOKEN_POOLS

_log = logging.getLogger("rainbow.state")


def is_ready(context: Context) -> tuple[bool, str]:
    """Whether the database answers, can be written and has the schema this version works with; and if not, why."""
    try:
        state = schema_state(context.database.engine)
        if state is not SchemaState.CURRENT:
            return False, f"the schema is {state.value}: run `rainbow-admin migrate`"
        with context.database.reading() as connection:
            revisions.head(connection)
        context.write_probe.check(context.clock())
    except SQLAlchemyError as failure:
        _log.warning("not ready", extra={"reason": str(failure)[:500]})
        error = explain(failure)
        return False, _UNREADY.get(error.name if error else "", "the database does not answer; the log has the reason")
    return True, "ready"


#: What is wrong, by the names of the errors that requests are refused with.
_UNREADY = {
    "database_busy": "the database is busy: a lock, a connection or an answer took too long",
    "database_read_only": "the database can only be read",
    "database_full": "the database's disk is full",
    "database_damaged": "the database cannot be used as it is; the log has the reason",
}


#: The most scopes for which warnings are counted.
_MAX_SCOPES = 20_000
#: The most rows of quotas of which metrics tell.
_MAX_QUOTAS = 1000


class StateSummary:
    """Counts for metrics; the warnings are counted again only when something has been written since."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._counted_at = (-1, -1)
        self._warnings: dict[str, int] = {}

    def __call__(self) -> State | None:
        """None while the database does not answer."""
        try:
            return self._count()
        except SQLAlchemyError as failure:
            _log.warning("metrics without the database's state", extra={"reason": str(failure)[:500]})
            return None

    def _count(self) -> State:
        now = self._context.clock()
        with self._context.database.reading() as connection:
            head = revisions.head(connection)
            moment = head, registrations.number(connection)
            unfinished_counts = list(unfinished.counts(connection))
            fleet_now = current_fleet(self._context, connection).with_states(fleet.states(connection))
            taken = execution_queue.taken_by_waiting(connection, fleet_now.clusters, now)
            about_admin = admin_warnings(self._context, connection)
            pools = TOKEN_POOLS.some(connection, TOKEN_POOLS.names(connection))
            quotas = every_usage(self._context, connection, _MAX_QUOTAS)
        waiting = Counter[str]()
        for phase, _reason, _domain, cluster, _pool, _label, count in unfinished_counts:
            waiting[cluster] += count if phase == Phase.QUEUED.value else 0
        current = Counter(warning.code.value for warning in [*about_admin, *expected_warnings(fleet_now, waiting)])
        clusters = fleet_now.clusters
        with self._lock:
            index = self._context.index
            if index.current() is None or index.size > _MAX_SCOPES:
                self._warnings = {}  # checking so many after each change would take too long
            elif moment != self._counted_at:
                self._warnings = dict(Counter(warning.code for warning in stored_warnings(self._context)))
                self._counted_at = moment
            return State(
                warnings={**self._warnings, **current},
                revision=head,
                executions=unfinished_counts,
                quotas=[
                    ([*limit.scope.sort_key, limit.field], limit.in_units(used), limit.in_units(limit.most))
                    for limit, used in quotas
                ],
                clusters={name: cluster.is_able for name, cluster in clusters.items()},
                sync_ages={
                    name: max(0.0, (now - cluster.state.last_sync_at).total_seconds())
                    for name, cluster in clusters.items()
                    if cluster.state.last_sync_at is not None
                },
                capacities={name: in_units(cluster.capacity or {}) for name, cluster in clusters.items()},
                free={
                    name: in_units(free)
                    for name, cluster in clusters.items()
                    if (free := usable_amounts(cluster, taken)) is not None
                },
                token_pools=self._token_pools(pools),
            )

    def _token_pools(self, pools: Mapping[str, StoredPayload]) -> dict[str, PoolCounts]:
        try:
            totals = self._context.tokens.totals(pools) if pools else {}
        except TokensUnavailable as failure:
            _log.warning("metrics without token pools", extra={"reason": str(failure)[:500]})
            return {}
        with self._context.database.reading() as connection:
            waiting = count_waiting(connection, totals) if totals else Counter()
        return {
            name: PoolCounts(token_pool_of(name, pools[name].payload).capacity, own.used, waiting[name])
            for name, own in totals.items()
        }
