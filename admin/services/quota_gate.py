"""The gate of execution quotas: how many executions of a scope run at once, and how much they use, on all clusters.

What runs is counted from the executions themselves, while the scopes are locked whose quotas apply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from admin.core.executions.admissions import Refusal
from admin.core.executions.quotas import (
    OF_RUNNING,
    QUOTA_FULL,
    QuotaLimit,
    Tally,
    Usage,
    limits_at,
    use_of,
)
from admin.core.settings.builtin_kinds import EXECUTION_QUOTA
from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.exchanges import Exchange
from admin.store import attributes, execution_quotas
from admin.store.leases import LeasedExecution
from admin.store.offers import Needs

#: When to ask again: what ends at another cluster makes room without waking this one's agent.
_RETRY_SECONDS = 1.0


class QuotaGate:
    """The quotas of some executions, and what runs by now."""

    def __init__(self, limits: Mapping[Scope, Sequence[QuotaLimit]], tally: Tally) -> None:
        self._limits = limits  #: of running executions, by their scope
        self._tally = tally

    @staticmethod
    def is_needed(context: Context, lease: LeasedExecution | Needs) -> bool:
        """Whether a quota may apply to an execution; asks no database."""
        return lease.is_bounded or bool(context.settings.platform.at(EXECUTION_QUOTA, lease.domain))

    @classmethod
    def open(
        cls, context: Context, waiting: Sequence[LeasedExecution | Needs], connection: Connection
    ) -> QuotaGate | None:
        """Lock the quotas of some executions and count what runs; None where none applies."""
        scopes = {lease.scope for lease in waiting if cls.is_needed(context, lease)}
        limits = _limits(context, connection, scopes)
        locked: set[QuotaLimit] = set()
        while missing := _all(limits) - locked:  # a row may have been changed while its lock was waited for
            execution_quotas.lock(connection, missing)
            locked |= missing
            limits = _limits(context, connection, scopes)
        if not locked:
            return None
        return cls(limits, Tally(execution_quotas.running(connection, {limit.scope for limit in _all(limits)})))

    def concerns(self, lease: LeasedExecution) -> bool:
        return bool(self._limits.get(lease.scope))

    def share(self, lease: LeasedExecution) -> float | None:
        """None: projects wait for room in their own quotas."""
        return None

    def refuse(self, lease: LeasedExecution) -> Refusal | None:
        full = self._tally.full(self._limits[lease.scope], _use(lease), OF_RUNNING)
        if full is None:
            return None
        return Refusal(code=QUOTA_FULL, message=full.describe_briefly(), retry_seconds=_RETRY_SECONDS)

    def admit(self, lease: LeasedExecution) -> None:
        self._tally.add(self._limits[lease.scope], _use(lease))

    def leave(self, lease: LeasedExecution) -> None:
        """Nothing: one that is not asked for has no place."""

    def extend(self, exchange: Exchange, leases: Sequence[LeasedExecution]) -> None:
        """Nothing: the quotas of all that was foreseen are locked and counted."""

    def close(self) -> None:
        """Nothing: what runs is counted from the leases."""


def _limits(context: Context, connection: Connection, scopes: set[Scope]) -> dict[Scope, list[QuotaLimit]]:
    """What bounds running executions at each of some scopes now."""
    rows = attributes.applying_to(connection, [EXECUTION_QUOTA.name], scopes) if scopes else []
    by_scope = {row.scope: row for row in rows}
    platform = context.settings.platform
    return {
        scope: [
            limit
            for limit in limits_at(scope, by_scope, platform.at(EXECUTION_QUOTA, scope.domain))
            if limit.field in OF_RUNNING
        ]
        for scope in scopes
    }


def _all(limits: Mapping[Scope, Sequence[QuotaLimit]]) -> set[QuotaLimit]:
    return {limit for own in limits.values() for limit in own}


def _use(lease: LeasedExecution) -> Usage:
    demand = {"cpu": lease.demand_cpu, "memory": lease.demand_memory, "gpu": lease.demand_gpu}
    return use_of(demand, is_running=True)
