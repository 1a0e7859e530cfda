"""Execution quotas: what is refused by them and waits for them, how much of them is used, and by whom they were set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from admin import metrics
from admin.core.changes import RowChange
from admin.core.executions.quotas import (
    MOST_HOLDERS,
    OF_RUNNING,
    OF_WAITING,
    FullQuota,
    QuotaLimit,
    Tally,
    Usage,
    limits_at,
    limits_of,
    use_of,
)
from admin.core.provenance import Provenance, not_kept, show_name
from admin.core.resources import Amounts
from admin.core.settings.builtin_kinds import EXECUTION_QUOTA
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.settings.warnings import Warning, WarningCode, warn
from admin.errors import QuotaExceeded
from admin.services.access import Access
from admin.services.context import Context
from admin.services.scopes import check_readable
from admin.services.visibility import told_provenance
from admin.store import attributes, execution_quotas, revisions
from admin.store.execution_quotas import CreatorUsage
from admin.store.executions import Execution


@dataclass(frozen=True, kw_only=True)
class QuotaUse:
    """One field of a quota, how much of it is used, and the revision that changed its row last."""

    limit: QuotaLimit
    used: int
    provenance: Provenance | None  #: None for the platform, and where that revision is no longer kept
    users: Sequence[QuotaUser]  #: those who use most first


#: What those who use a quota are told by.
USER, PROJECT = USED_BY = ("user", "project")


class QuotaUser(NamedTuple):
    """How much one user or project uses of a quota."""

    name: str | None  #: None for those whose name is unknown, or not told to the caller
    used: int


def list_usage(context: Context, scope: Scope, by: str = USER) -> list[QuotaUse]:
    """Every quota that applies at a scope, the broadest first, how much of each is used, and by whom."""
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        limits = _limits_at(context, connection, scope)
        used = usage_of(connection, limits)
        set_by = provenance_of(context, connection, limits)
        in_use = [limit for limit in limits if used[limit.scope].of(limit.field)]
        parts = execution_quotas.by_creator(connection, *_scopes_counted(in_use))
    return [
        QuotaUse(
            limit=limit,
            used=used[limit.scope].of(limit.field),
            provenance=set_by.get(limit.version or 0),
            users=_users_of(context.access, limit, parts, by),
        )
        for limit in limits
    ]


def _users_of(access: Access, limit: QuotaLimit, parts: Sequence[CreatorUsage], by: str) -> list[QuotaUser]:
    """Who uses a quota; of executions that the caller may not read, neither users nor projects are told."""
    used = Counter[str | None]()
    for part in parts:
        amount = part.usage.of(limit.field)
        if amount and limit.scope in (PLATFORM, *part.place.chain()):
            named = part.place.project if by == PROJECT else show_name(part.created_by, part.claimed_by)
            place = Scope(domain=part.place.domain, project=part.place.project)
            used[(named or None) if access.allows("executions.read", place) else None] += amount
    # What has no name stands last.
    ordered = sorted(used.items(), key=lambda pair: (pair[0] is None, -pair[1], pair[0] or ""))
    return [QuotaUser(name, amount) for name, amount in ordered]


def every_usage(context: Context, connection: Connection, most: int) -> list[tuple[QuotaLimit, int]]:
    """How much is used of the quotas of all scopes, of a limited number of them."""
    platform = context.settings.platform.at(EXECUTION_QUOTA, "")
    rows = attributes.every(connection, EXECUTION_QUOTA.name)[:most]
    limits = [*limits_at(Scope(), {}, platform), *(limit for row in rows for limit in _limits_of(row))]
    used = usage_of(connection, limits)
    return [(limit, used[limit.scope].of(limit.field)) for limit in limits]


def usage_of(connection: Connection, limits: Sequence[QuotaLimit]) -> dict[Scope, Usage]:
    """What everything at and below the scopes of some limits has; counts only what one of them bounds."""
    scopes_of_running, scopes_of_waiting = _scopes_counted(limits)
    running = execution_quotas.running(connection, scopes_of_running)
    waiting = execution_quotas.waiting(connection, scopes_of_waiting)
    scopes = scopes_of_running | scopes_of_waiting
    return {scope: running.get(scope, Usage()).plus(waiting.get(scope, Usage())) for scope in scopes}


def _scopes_counted(limits: Iterable[QuotaLimit]) -> tuple[set[Scope], set[Scope]]:
    """The scopes of limits on what runs, and of those on what waits."""
    counted: tuple[set[Scope], set[Scope]] = set(), set()
    for limit in limits:
        counted[limit.field not in OF_RUNNING].add(limit.scope)
    return counted


def describe_full(context: Context, connection: Connection, execution: Execution) -> str:
    """Each quota that keeps an execution waiting now, and who has it; empty where none does."""
    scope = Scope(execution.domain, execution.project, execution.workflow, execution.launch_plan)
    limits = [limit for limit in _limits_at(context, connection, scope) if limit.field in OF_RUNNING]
    if not limits:
        return ""
    tally = Tally(execution_quotas.running(connection, {limit.scope for limit in limits}))
    use = use_of(execution.demand, is_running=True)
    full = [quota for limit in limits if (quota := tally.full([limit], use, OF_RUNNING))]
    set_by = provenance_of(context, connection, (quota.limit for quota in full))
    described = []
    for quota in full:
        limit = quota.limit
        holders = execution_quotas.holders(connection, limit.scope, limit=MOST_HOLDERS)
        told = [
            holder.name if (holder.project, holder.domain) == (execution.project, execution.domain) else str(holder)
            for holder in holders
            if context.access.allows("executions.read", Scope(holder.domain, holder.project))
        ]
        held = replace(quota, holders=told, holder_count=tally.used(limit.scope).running)
        described.append(held.describe(describe_origin(limit, set_by.get(limit.version or 0), context.clock())))
    return " ".join(described)


def foresee(
    context: Context, connection: Connection, limits: Sequence[QuotaLimit], demand: Amounts
) -> list[dict[str, str]]:
    """Warnings that a quota would refuse a new execution now, or keep it waiting."""
    if not limits:
        return []
    tally = Tally(usage_of(connection, limits))
    waits, runs = use_of(demand, is_running=False), use_of(demand, is_running=True)
    outcomes = ((tally.full(limits, waits, OF_WAITING), "is refused"), (tally.full(limits, runs, OF_RUNNING), "waits"))
    full = [(quota, outcome) for quota, outcome in outcomes if quota is not None]
    set_by = provenance_of(context, connection, (quota.limit for quota, _ in full))
    now, code = context.clock(), WarningCode.QUOTA_FULL.value
    return [
        {
            "code": code,
            "message": f"It {outcome} now: "
            + quota.describe(describe_origin(quota.limit, set_by.get(quota.limit.version or 0), now)),
        }
        for quota, outcome in full
    ]


def warn_of_use(context: Context, connection: Connection, changes: Iterable[RowChange]) -> list[Warning]:
    """A warning about each quota that changes set and that is full already, with what happens to executions."""
    warnings = []
    for change in changes:
        if change.kind != EXECUTION_QUOTA.name or change.after is None or not change.is_real:
            continue
        row = Row(kind=change.kind, scope=change.scope, payload=change.after, version=change.revision)
        limits = list(limits_of(row.scope, row.payload))
        used = usage_of(connection, limits)
        for limit in limits:
            amount = used[limit.scope].of(limit.field)
            if amount and amount >= limit.most:
                what = "further executions wait" if limit.field in OF_RUNNING else "further executions are refused"
                message = (
                    f"{limit.show(amount)} of {limit.show(limit.most)} {limit.field} is used at {limit.scope} already: "
                    f"{what} until it is less. Nothing that runs or waits is ended."
                )
                warnings.append(warn(EXECUTION_QUOTA, row, WarningCode.QUOTA_FULL, limit.field, message))
    return warnings


def refusals_of(context: Context, full: Sequence[FullQuota]) -> list[QuotaExceeded]:
    """Why executions are not created that quotas have no room for."""
    if not full:
        return []
    with context.database.reading() as connection:
        set_by = provenance_of(context, connection, (quota.limit for quota in full))
    now = context.clock()
    return [_refusal(quota, set_by.get(quota.limit.version or 0), now) for quota in full]


def provenance_of(context: Context, connection: Connection, limits: Iterable[QuotaLimit]) -> dict[int, Provenance]:
    """The revisions that last changed the rows of some limits, as far as the caller may know of them."""
    versions = {limit.version for limit in limits if limit.version}
    return told_provenance(context.access, connection, dict(revisions.provenance_of(connection, versions)))


def describe_origin(limit: QuotaLimit, set_by: Provenance | None, now: datetime | None) -> str:
    """The revision of a limit's row in words; empty for the platform, and for a row that is only assumed."""
    if not limit.version:
        return ""
    return not_kept(f"revision {limit.version}") if set_by is None else set_by.describe(now)


def _limits_at(context: Context, connection: Connection, scope: Scope) -> list[QuotaLimit]:
    rows = {row.scope: row for row in attributes.applying(connection, [EXECUTION_QUOTA.name], scope)}
    return list(limits_at(scope, rows, context.settings.platform.at(EXECUTION_QUOTA, scope.domain)))


def _limits_of(row: Row) -> Iterable[QuotaLimit]:
    return limits_of(row.scope, row.payload, row.version)


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
