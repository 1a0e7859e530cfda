"""Execution quotas: how many executions, and how much of clusters, everything at and below a scope may have at once.

Every row on the way to a scope holds, each for the sum of all executions at and below its own scope on all clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from admin.core.problems import Problem, Refused, Setting, list_first
from admin.core.resources import Amounts, format_amount, in_units, parse_capacity
from admin.core.settings.builtin_kinds import EXECUTION_QUOTA
from admin.core.settings.kinds import Payload
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Level, Scope

RUNNING, WAITING = "running", "waiting"
#: The resources of running executions that quotas bound.
RESOURCES = ("cpu", "memory", "gpu")
#: What is bounded of executions that run, and of those that wait.
OF_RUNNING, OF_WAITING = (RUNNING, *RESOURCES), (WAITING,)
#: Why an execution waits that a quota has no room for.
QUOTA_FULL = "QUOTA_FULL"
#: Holders that a sentence names; the others are counted.
MOST_HOLDERS = 5


class QuotaLimit(NamedTuple):
    """One field of a quota: the most that all executions at and below a scope may have at once."""

    scope: Scope
    field: str  #: running, waiting, cpu, memory or gpu
    most: int  #: executions, thousandths of a core, bytes or pieces
    version: int | None = None  #: of the row; None for the platform
    key: str = ""  #: the configuration key, for the platform

    @property
    def setting(self) -> Setting | None:
        """The field of the row that it is; None where no row is stored."""
        return Setting(EXECUTION_QUOTA.name, self.scope, self.version, self.field) if self.version else None

    @property
    def level(self) -> Level:
        return self.scope.level

    def show(self, amount: int) -> str:
        """An amount of its field as people read it."""
        return str(amount) if self.field in (RUNNING, WAITING) else str(format_amount(self.field, amount))

    def in_units(self, amount: int) -> float:
        """An amount of its field in executions, cores, bytes or pieces."""
        return in_units({self.field: amount})[self.field]

    def __str__(self) -> str:
        """`cpu of the execution-quota at project flytesnacks`."""
        where = f"in configuration ({self.key})" if self.key else f"at {self.scope}"
        return f"{self.field} of the {EXECUTION_QUOTA.noun} {where}"


class Usage(NamedTuple):
    """What the executions at and below a scope have."""

    running: int = 0
    waiting: int = 0
    cpu: int = 0
    memory: int = 0
    gpu: int = 0

    def of(self, field: str) -> int:
        """How much they have of one field."""
        amount: int = getattr(self, field)
        return amount

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(*(mine + more for mine, more in zip(self, other, strict=True)))


def use_of(demand: Amounts, *, is_running: bool) -> Usage:
    """What one execution has while it runs, or while it waits."""
    if not is_running:
        return Usage(waiting=1)
    return Usage(running=1, **{resource: demand.get(resource, 0) for resource in RESOURCES})


def limits_of(scope: Scope, payload: Payload, version: int | None = None, key: str = "") -> Iterator[QuotaLimit]:
    """What one row bounds."""
    resources = parse_capacity({name: payload[name] for name in RESOURCES if name in payload})
    for field in (*OF_RUNNING, *OF_WAITING):
        if field in payload:
            most = resources[field] if field in RESOURCES else payload[field]
            yield QuotaLimit(scope, field, most, version, f"{key}.{field}" if key else "")


def limits_at(scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults) -> tuple[QuotaLimit, ...]:
    """What bounds an execution at a scope: every row on the way there, the broadest first."""
    limits = list(limits_of(PLATFORM, platform.payload, key=platform.key.partition(".")[0])) if platform else []
    for place in scope.chain():
        if place in rows:
            limits += limits_of(place, rows[place].payload, rows[place].version)
    return tuple(limits)


def waiting_limits(limits: Iterable[QuotaLimit]) -> tuple[QuotaLimit, ...]:
    """Those of some limits that bound how many executions wait."""
    return tuple(limit for limit in limits if limit.field in OF_WAITING)


def never_fitting(limits: Iterable[QuotaLimit], demand: Amounts) -> list[QuotaLimit]:
    """The limits on resources that a demand exceeds even if nothing else runs; of each resource the tightest."""
    too_small = [limit for limit in limits if limit.field in RESOURCES and demand.get(limit.field, 0) > limit.most]
    tightest: dict[str, QuotaLimit] = {}
    for limit in sorted(too_small, key=lambda limit: limit.most):
        tightest.setdefault(limit.field, limit)
    return list(tightest.values())


def check_fits(limits: Iterable[QuotaLimit], demand: Amounts, job_path: str) -> None:
    """Refuse a job that a quota would never let run."""
    problems = [
        Problem(
            field=f"{job_path}.resources",
            reason=f"asks for {limit.show(demand[limit.field])} {limit.field}, which can never fit: the most is "
            f"{limit.show(limit.most)}, by {limit}. Ask for less, or have the quota raised.",
            setting=limit.setting,
        )
        for limit in never_fitting(limits, demand)
    ]
    if problems:
        raise Refused("quota_too_small", *problems)


@dataclass(frozen=True, kw_only=True)
class FullQuota:
    """A limit that leaves no room for an execution."""

    limit: QuotaLimit
    used: int
    amount: int  #: that the execution needs
    holders: Sequence[str] = ()  #: names of executions that have it, the oldest first: those that may be told
    holder_count: int = 0  #: of all

    def describe(self, origin: str = "") -> str:
        """What is full, how much of it is used, by whom it was set and who has it; `origin` is a revision in words."""
        limit = self.limit
        noun = {RUNNING: " executions run", WAITING: " executions wait"}.get(limit.field, f" {limit.field} is used")
        needs = "" if limit.field in (RUNNING, WAITING) else f", and this needs {limit.show(self.amount)}"
        used = f"{limit.show(self.used)} of {limit.show(limit.most)}{noun}{needs}"
        return f"{used}, by {limit}{f' ({origin})' if origin else ''}.{self._held_by()}"

    def describe_briefly(self) -> str:
        """The same without what changes while it waits, and without what not everybody may know."""
        limit = self.limit
        revision = f" (revision {limit.version})" if limit.version else ""
        if limit.field == RUNNING:
            return f"{limit.most} of {limit.most} executions run, by {limit}{revision}."
        needed, most = limit.show(self.amount), limit.show(limit.most)
        return f"It needs {needed} {limit.field}, and less is free of {most}, by {limit}{revision}."

    def _held_by(self) -> str:
        if not self.holders:
            return ""
        return f" Held by {list_first(self.holders, MOST_HOLDERS, count=self.holder_count)}."


class Tally:
    """What is used of some quotas, while executions are admitted one after the other."""

    def __init__(self, used: Mapping[Scope, Usage]) -> None:
        self._used = dict(used)

    def used(self, scope: Scope) -> Usage:
        """What everything at and below a scope has by now."""
        return self._used.get(scope, Usage())

    def full(self, limits: Iterable[QuotaLimit], use: Usage, fields: Collection[str]) -> FullQuota | None:
        """The first limit without room for an execution, the broadest first; None where it fits."""
        for limit in limits:
            used, amount = self.used(limit.scope).of(limit.field), use.of(limit.field)
            if limit.field in fields and amount and used + amount > limit.most:
                return FullQuota(limit=limit, used=used, amount=amount)
        return None

    def admit(self, limits: Sequence[QuotaLimit], use: Usage, fields: Collection[str]) -> FullQuota | None:
        """Count an execution if it fits; else the limit that is full."""
        full = self.full(limits, use, fields)
        if full is None:
            self.add(limits, use)
        return full

    def add(self, limits: Iterable[QuotaLimit], use: Usage) -> None:
        """Count an execution that was admitted."""
        for scope in {limit.scope for limit in limits}:
            self._used[scope] = self.used(scope).plus(use)
