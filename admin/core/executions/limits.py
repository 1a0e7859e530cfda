"""Limits: how much memory, time and waiting an execution is allowed, and where each was set, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from admin.core.executions.received import setting_of, source_of_amount
from admin.core.provenance import Provenance
from admin.core.settings import trails
from admin.core.settings.builtin_kinds import QUALITY_OF_SERVICE

#: The resource whose limit ends an execution for a reason.
LIMITED = {"OUT_OF_MEMORY": "memory"}
#: The signals by which processes end that get no more memory; shells add 128 for an exit code.
_KILLING = (6, 9, 11)
#: The reasons of attempts that failed by themselves, as far as their agent could tell.
_PLAIN_ENDS = ("FAILED", "SIGNAL")
#: The reasons of executions that their time limit ends.
TIME_LIMITS = ("TIME_LIMIT", "DEADLINE")
#: The reason of executions that wait longer than they may.
QUEUEING_BUDGET_EXCEEDED = "QUEUEING_BUDGET_EXCEEDED"
#: How agents say that a time limit ended an execution, before they say which.
_NAMED = "longer than its limit of "
_BUDGET = "spec.queueing_budget"


class EndedAttempt(Protocol):
    """How an attempt ended."""

    @property
    def reason(self) -> str: ...

    @property
    def exit_code(self) -> int | None: ...

    @property
    def signal(self) -> int | None: ...


def may_lack_memory(attempt: EndedAttempt) -> bool:
    """Whether an attempt ended as those do which get no more memory, though its agent could not tell."""
    is_killed = attempt.signal in _KILLING or attempt.exit_code in [128 + number for number in _KILLING]
    return is_killed and attempt.reason in _PLAIN_ENDS


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What limits an execution, and what that follows from."""

    job: Mapping[str, Any]  #: as it runs
    given_job: Mapping[str, Any] | None  #: as its request or workflow gave it; None where that is not known
    workflow: Mapping[str, Any] | None = None  #: the id of the one that gave it
    registered: str = ""  #: by whom that workflow was registered, when and why
    quality: Mapping[str, Any]  #: of service: tier and queueing budget
    settings: Sequence[Mapping[str, Any]]  #: the effective values that it was decided by
    provenance: Mapping[int, Provenance]  #: of their revisions

    def describe(self, reason: str, now: datetime, message: str = "", *, is_killed: bool = False) -> str:
        """Where the limit was set that ended an execution for a reason, and by whom; "" where none did.

        `message` is what the agent says, which may name the limit already. Of one that was killed, as happens for lack
        of memory, the limit is told that may be why.
        """
        if reason in LIMITED:
            return self._of_resource(LIMITED[reason], now)
        if is_killed and (limit := self._of_resource("memory", now)):
            return f"If it ran out of memory: {limit[:1].lower()}{limit[1:]}"
        if reason in TIME_LIMITS and self.time_limit:
            if _NAMED in message:
                return f"That limit is {self._set_by}."
            return f"Its time limit is {self.time_limit}."
        if reason == QUEUEING_BUDGET_EXCEEDED and self.queueing_budget(now):
            return f"Its queueing budget is {self.queueing_budget(now)}."
        return ""

    def _of_resource(self, resource: str, now: datetime) -> str:
        limit = self.job.get("resources", {}).get("limits", {}).get(resource)
        if limit is None:
            return ""
        if self.given_job is None:
            return f"Its limit is {limit}."
        source = source_of_amount(resource, limit, self.given_job, self.settings)
        if source is None:
            return f"Its limit {limit} is {self._set_by}."
        word = "default" if source.setting.startswith("defaults.") else "limit"
        return f"Its limit {limit} is the {word} set {trails.describe_origin(source.origin, self.provenance, now)}."

    @property
    def time_limit(self) -> str:
        """How long it may run, and who says so: `90s, set by the job itself`; "" for as long as it takes."""
        duration = self.job.get("resources", {}).get("duration")
        if not duration:
            return ""
        return f"{duration}, {self._set_by}"

    @property
    def _set_by(self) -> str:
        if self.workflow is not None:
            registered = f" (registered by {self.registered})" if self.registered else ""
            return f"set by workflow '{self.workflow['name']}', version {self.workflow['version']}{registered}"
        return "set by the job itself"

    def queueing_budget(self, now: datetime) -> str:
        """How long it may wait, and where that was set; "" for as long as it takes."""
        budget = self.quality.get("queueing_budget")
        if budget is None:
            return ""
        origins = setting_of(self.settings, QUALITY_OF_SERVICE.name)["origins"]
        if _BUDGET in origins:
            return f"{budget}, set {trails.describe_origin(origins[_BUDGET], self.provenance, now)}"
        key = f"qualityOfService.tierExecutionValues.{self.quality.get('tier')}.queueingBudget"
        tier = f"{budget}, set in configuration ({key})"
        if "tier" not in origins:
            return tier
        return f"{tier}; the tier is set {trails.describe_origin(origins['tier'], self.provenance, now)}"
