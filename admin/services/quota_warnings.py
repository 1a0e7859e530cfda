"""Warnings about quotas that never bind, and about those that refuse executions which ask for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.executions.quotas import RESOURCES, limits_of, never_fitting
from admin.core.problems import Path, dotted
from admin.core.resources import parse_demand
from admin.core.settings.builtin_kinds import EXECUTION_QUOTA, TASK_RESOURCE, TOKEN_POOL_QUOTA
from admin.core.settings.resolution import Row, effective_value
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning, WarningCode, warn
from admin.core.token_pools.definitions import (
    TOKEN_POOL,
    TOKENS_OFF,
    TokenPool,
    describe_loose_quota,
    loose_quota,
    token_pool_of,
)
from admin.core.token_pools.limits import QUOTAS
from admin.services.context import Context
from admin.store import attributes
from admin.store.token_tables import TOKEN_POOLS


def warn_of_quotas(
    context: Context, connection: Connection, rows: Iterable[Row], changes: Sequence[RowChange] = ()
) -> list[Warning]:
    """Warnings about those of some rows that are quotas; `changes` may be such that the connection does not see."""
    listed = list(rows)
    quotas = [row for row in listed if row.kind == TOKEN_POOL_QUOTA.name]
    bounds = [row for row in listed if row.kind == EXECUTION_QUOTA.name]
    return [*_of_tokens(context, connection, quotas, changes), *_below_defaults(context, connection, bounds, changes)]


def loose_leaves(
    context: Context, connection: Connection, rows: Iterable[Row], changes: Sequence[RowChange] = ()
) -> dict[Scope, dict[Path, str]]:
    """Why quotas of tokens never bind, by the scopes of their rows and the leaves; nothing to who may read no pool."""
    wanted = {row.scope: row.payload.get(QUOTAS) or {} for row in rows if row.kind == TOKEN_POOL_QUOTA.name}
    names = {name for quotas in wanted.values() for name in quotas}
    if not names or not context.access.allows_some("token_pools.read"):
        return {}
    pools = _pools(connection, names, changes)
    found: dict[Scope, dict[Path, str]] = {scope: {} for scope in wanted}
    for scope, quotas in wanted.items():
        for name, most in quotas.items():
            loose = None if most is None or name not in pools else loose_quota(pools[name], scope, most)
            if loose is not None:
                found[scope][QUOTAS, name] = describe_loose_quota(name, loose)
    return found


def _of_tokens(
    context: Context, connection: Connection, rows: Sequence[Row], changes: Sequence[RowChange]
) -> Iterator[Warning]:
    if context.settings.resource_manager.grants_everything:
        for row in rows:
            yield warn(TOKEN_POOL_QUOTA, row, WarningCode.TOKENS_OFF, QUOTAS, TOKENS_OFF)
        return
    leaves = loose_leaves(context, connection, rows, changes)
    for row in rows:
        for path, reason in leaves.get(row.scope, {}).items():
            yield warn(TOKEN_POOL_QUOTA, row, WarningCode.LOOSE_CAP, dotted(path), reason)


def _pools(connection: Connection, names: Iterable[str], changes: Sequence[RowChange]) -> dict[str, TokenPool]:
    payloads = {name: pool.payload for name, pool in TOKEN_POOLS.some(connection, names).items()}
    changed = {change.name: change.after for change in changes if change.kind == TOKEN_POOL}
    defined = {**payloads, **changed}
    return {name: token_pool_of(name, payload) for name, payload in defined.items() if payload is not None}


def _below_defaults(
    context: Context, connection: Connection, rows: Sequence[Row], changes: Sequence[RowChange]
) -> Iterator[Warning]:
    """A quota that is smaller than what one task gets by default, so that a job which asks for nothing is refused."""
    if not rows:
        return
    kind = context.settings.kinds[TASK_RESOURCE.name]
    stored = attributes.applying_to(connection, [kind.name], [row.scope for row in rows])
    by_scope = rows_after(stored, [change for change in changes if change.kind == kind.name])
    for row in rows:
        platform = context.settings.platform.at(kind, row.scope.domain)
        resolved = effective_value(kind, row.scope, by_scope, platform)
        defaults, limits = resolved.value.get("defaults", {}), resolved.value.get("limits", {})
        demand = {
            resource: min(parse_demand(resource, text) for text in (defaults[resource], limits.get(resource)) if text)
            for resource in RESOURCES
            if defaults.get(resource)
        }
        for limit in never_fitting(limits_of(row.scope, row.payload), demand):
            message = (
                f"A task that asks for nothing gets {limit.show(demand[limit.field])} {limit.field} by the defaults "
                f"set {resolved.origins['defaults', limit.field]}, which is more than this quota: such jobs are "
                "refused (quota_too_small)."
            )
            yield warn(EXECUTION_QUOTA, row, WarningCode.BELOW_DEFAULT, limit.field, message)
