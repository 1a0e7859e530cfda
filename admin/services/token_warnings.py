"""Warnings about bounds on tokens that a change sets and that are full already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from admin.core.changes import RowChange
from admin.core.settings.scopes import Level
from admin.core.settings.warnings import Warning, WarningCode
from admin.core.token_pools.definitions import TOKEN_POOL
from admin.core.token_pools.limits import (
    EXECUTION,
    NO_PROJECT,
    QUOTAS,
    TOKEN_POOL_QUOTA,
    WHOLE_POOL,
    counted_at,
    execution_bucket,
)
from admin.services.context import Context
from admin.store.token_backends.base import PoolUsage, TokensUnavailable

_BOUNDING = (TOKEN_POOL, TOKEN_POOL_QUOTA)


class _NewBound(NamedTuple):
    """The most tokens of a pool that a change allows at a scope, or at each scope of a level."""

    change: RowChange
    field: str
    pool: str
    most: int
    level: str = ""  #: of a cap: project, namespace or execution
    bucket: str = WHOLE_POOL  #: of what is no cap


def bounds_tokens(change: RowChange) -> bool:
    """Whether a change may set what bounds tokens."""
    return change.kind in _BOUNDING and change.after is not None


def warn_of_held_tokens(context: Context, changes: Iterable[RowChange]) -> list[Warning]:
    """A warning about each bound that changes set and that is full already; nothing is taken away.

    There is none while the backend does not answer: the change itself does not need it.
    """
    bounds = [bound for change in changes if bounds_tokens(change) for bound in _new_bounds(change)]
    try:
        usage = context.tokens.usage({bound.pool for bound in bounds}) if bounds else {}
    except TokensUnavailable:
        return []
    used = [(bound, _used(bound, usage[bound.pool])) for bound in bounds if bound.pool in usage]
    return [_warning(bound, amount) for bound, amount in used if amount and amount >= bound.most]


def _new_bounds(change: RowChange) -> Iterator[_NewBound]:
    """The bounds of a row that differ from those before."""
    before, after = change.before or {}, change.after or {}
    if change.kind == TOKEN_POOL_QUOTA:
        for pool, most in after.get(QUOTAS, {}).items():
            if most is not None and before.get(QUOTAS, {}).get(pool) != most:
                yield _NewBound(change, f"{QUOTAS}.{pool}", pool, most, bucket=change.scope.path)
        return
    if before.get("capacity") != after["capacity"]:
        yield _NewBound(change, "capacity", change.name, after["capacity"])
    for level, most in after.get("caps", {}).items():
        if before.get("caps", {}).get(level) != most:
            yield _NewBound(change, f"caps.{level}", change.name, most, level)


def _used(bound: _NewBound, usage: PoolUsage) -> int:
    """How many tokens are held of what a bound counts; of a cap, by whoever holds most.

    Of executions those count whose grants are among the largest, which are read.
    """
    if not bound.level:
        return usage.amounts[bound.bucket]
    if bound.level == EXECUTION:
        sums: Counter[str] = Counter()
        for grant in usage.grants:
            if grant.execution and grant.place.domain:
                sums[execution_bucket(grant.place, grant.execution)] += grant.amount
        return max(sums.values(), default=0)
    level = Level.PROJECT if bound.level == "project" else Level.PROJECT_DOMAIN
    counted = [bucket for bucket in usage.sums if bucket != NO_PROJECT and counted_at(bucket)[0].level is level]
    return max((usage.amounts[bucket] for bucket in counted), default=0)


def _warning(bound: _NewBound, amount: int) -> Warning:
    change = bound.change
    by = f" by one {bound.level}" if bound.level else f" at {change.scope}" if change.kind == TOKEN_POOL_QUOTA else ""
    message = (
        f"{amount} of {bound.most} tokens of pool '{bound.pool}' are held{by} already: nothing more is granted there "
        "until it is less. Nothing is taken away."
    )
    return Warning(
        code=WarningCode.QUOTA_FULL,
        message=message,
        kind=change.kind,
        scope=change.scope,
        field=bound.field,
        name=change.name,
        version=change.revision or None,
    )
