"""Retries: whether another attempt follows one that did not succeed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from admin.core.fields.compounds import ListOf, Record
from admin.core.fields.leaves import Choice, Duration, Integer
from admin.core.problems import Path, Problem, dotted
from admin.core.quantities import parse_duration

CLUSTER_LOST = "CLUSTER_LOST"
#: The reason of an execution that is aborted because its cluster's drain is over.
DRAINED = "DRAINED"

#: What may become of work that may have started on a cluster that is lost.
ON_LOST = ("wait", "fail", "retry")

RETRY = Record(
    description="Whether, and how often, what did not succeed is run again.",
    fields={
        "attempts": Integer(minimum=1, maximum=100, description="Attempts in all; 1, and 2 with on_lost: retry."),
        "backoff": Duration(description="The wait before the second attempt; it doubles with each one."),
        "retry_on": ListOf(
            item=Choice(words=("FAILED", "TIMED_OUT", CLUSTER_LOST)), description="What counts; FAILED and TIMED_OUT."
        ),
        "on_lost": Choice(
            words=ON_LOST,
            description="What becomes of work that may have started on a cluster that is silent: it goes on and is "
            "waited for, or its node ends it and it fails, or is run again; wait.",
        ),
    },
)

LONGEST_BACKOFF_SECONDS = 3600.0


def retry_problems(settings: Mapping[str, Any], path: Path) -> list[Problem]:
    """What a retry policy allows and what it does not."""
    retry = settings.get("retry") or {}
    if retry.get("on_lost") != "retry" or retry.get("attempts") != 1:
        return []
    reason = "is 1, and on_lost: retry needs a second one: give 2 or more, or leave one of them out."
    return [Problem(field=dotted((*path, "retry", "attempts")), reason=reason)]


@dataclass(frozen=True, kw_only=True)
class Retries:
    """The retry policy of an execution."""

    attempts: int = 1
    backoff_seconds: float = 10.0
    retry_on: tuple[str, ...] = ("FAILED", "TIMED_OUT")
    on_lost: str = "wait"
    says_on_lost: bool = field(default=False, compare=False)  #: otherwise it is the default
    says_attempts: bool = field(default=False, compare=False)  #: likewise

    @classmethod
    def of(cls, payload: Mapping[str, Any] | None) -> Retries:
        """The policy that a request or a launch plan gives."""
        fields = payload or {}
        default = cls()
        if fields.get("on_lost") == "retry" and "attempts" not in fields:
            default = cls(attempts=2, retry_on=())  # nothing but a lost cluster was to be followed by another attempt
        return cls(
            attempts=fields.get("attempts", default.attempts),
            backoff_seconds=float(parse_duration(fields["backoff"]))
            if "backoff" in fields
            else default.backoff_seconds,
            retry_on=tuple(fields.get("retry_on", default.retry_on)),
            on_lost=fields.get("on_lost", default.on_lost),
            says_on_lost="on_lost" in fields,
            says_attempts="attempts" in fields,
        )

    def why_no_other(self, attempt: int, outcome: str, *, is_drained: bool = False) -> str:
        """Why no other attempt follows one that ended so; "" where one does. A drain counts as a loss."""
        if self.seconds_until_next(attempt, outcome) is not None:
            return ""
        if self.attempts == 1:
            return "no retries were asked for"
        if attempt >= self.attempts:
            which = "" if self.says_attempts else f", the default with on_lost: {self.on_lost}"
            return f"its {self.attempts} attempts are used up{which}"
        if outcome == CLUSTER_LOST:
            loss = "a drain counts as a loss, which is" if is_drained else "the loss of its cluster is"
            return f"{loss} not retried (on_lost: {self.on_lost}{'' if self.says_on_lost else ', the default'})"
        return f"{outcome} is not retried (retry_on: {', '.join(self.retry_on) or 'nothing'})"

    def seconds_until_next(self, attempt: int, outcome: str) -> float | None:
        """How long to wait before the next attempt; None where there is none."""
        is_retried = outcome in self.retry_on or (outcome == CLUSTER_LOST and self.on_lost == "retry")
        if not is_retried or attempt >= self.attempts:
            return None
        return float(min(self.backoff_seconds * 2 ** min(attempt - 1, 30), LONGEST_BACKOFF_SECONDS))
