"""Execution quotas: what is refused by them, and by whom they were set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection

from admin import metrics
from admin.core.executions.quotas import FullQuota, QuotaLimit
from admin.core.provenance import Provenance, not_kept
from admin.errors import QuotaExceeded
from admin.services.context import Context
from admin.services.visibility import told_provenance
from admin.store import revisions


def refusals_of(context: Context, full: Sequence[FullQuota]) -> list[QuotaExceeded]:
    """Why executions are not created that quotas have no room for."""
    with context.database.reading() as connection:
        set_by = provenance_of(context, connection, (quota.limit for quota in full))
    now = context.clock()
    return [_refusal(quota, set_by.get(quota.limit.version or 0), now) for quota in full]


def provenance_of(context: Context, connection: Connection, limits: Iterable[QuotaLimit]) -> dict[int, Provenance]:
    """The revisions that last changed the rows of some limits, as far as the caller may know of them."""
    versions = {limit.version for limit in limits if limit.version}
    return told_provenance(context.access, connection, dict(revisions.provenance_of(connection, versions)))


def describe_origin(limit: QuotaLimit, set_by: Provenance | None, now: datetime | None) -> str:
    """The revision of a limit's row in words; empty for the platform."""
    if limit.version is None:
        return ""
    return not_kept(f"revision {limit.version}") if set_by is None else set_by.describe(now)


def _refusal(full: FullQuota, set_by: Provenance | None, now: datetime) -> QuotaExceeded:
    limit = full.limit
    metrics.count_limited(f"quota_{limit.field}")
    reason = full.describe(describe_origin(limit, set_by, now))
    detail = {
        "field": limit.field,
        "reason": reason,
        "level": limit.level.value,
        **limit.scope.keys(),
        "used": full.used,
        "limit": limit.most,
        "version": limit.version,
        "provenance": None if set_by is None else set_by.as_json(),
    }
    return QuotaExceeded(
        f"{reason} Nothing was created; try again when fewer wait, or have the quota raised.",
        details=[{key: value for key, value in detail.items() if value is not None}],
    )
