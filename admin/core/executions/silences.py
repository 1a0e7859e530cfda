"""Silences: what it means for an execution that its cluster is silent, and what happens if it stays so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from admin.core.times import show_time


@dataclass(frozen=True, kw_only=True)
class Silence:
    """An unfinished execution at a cluster whose agent is not heard."""

    cluster: str
    since: datetime  #: the last sync of the agent
    on_lost: str
    lease_expires_at: datetime | None
    lost_at: datetime  #: when the cluster counts as lost
    given_up_at: datetime  #: when the cluster is given up
    has_started: bool  #: or may have
    is_aborting: bool
    is_retried: bool  #: another attempt follows if its cluster is lost
    is_taken_over: bool = False  #: another agent serves the cluster now
    command: str  #: by which an operator gives it up

    @property
    def next_at(self) -> datetime | None:
        """When it is judged if the agent stays away; None where it is decided again already."""
        if not self.has_started and self.lease_expires_at is None:
            return None
        is_waited_for = self.has_started and self.on_lost == "wait"
        limit = self.given_up_at if is_waited_for else self.lost_at
        return max(limit, self.lease_expires_at or limit)

    def describe(self, now: datetime) -> str:
        """What is known, what happens next and when, and what an operator can do."""
        start = describe_silence(self.cluster, self.since, is_taken_over=self.is_taken_over)
        if not self.has_started:
            return f"{start} It had not started there, and is decided again{_when(self.next_at, now)}."
        unconfirmed = "Nobody has confirmed that it has ended. " if self.is_aborting else ""
        return f"{unconfirmed}{start} {self._prospect(now)} {self._remedy(now)}"

    def _prospect(self, now: datetime) -> str:
        end = f"{self._end}{_when(self.next_at, now)}"
        if self.on_lost == "wait":
            effect = "it is ended" if self.is_aborting else "its result counts"
            return (
                f"Its job may still run, and {effect} when the agent returns (on_lost: wait); "
                f"else {end} (agents.giveUpAfter)."
            )
        return (
            f"Its job is ended on its node before its lease is over{_at(self.lease_expires_at)}, if its engine guards "
            f"leases (on_lost: {self.on_lost}); {end}, when the cluster is lost."
        )

    @property
    def _end(self) -> str:
        if self.is_retried:
            return "another attempt follows"
        return "it ends ABORTED" if self.is_aborting else "it ends FAILED (CLUSTER_LOST)"

    def _remedy(self, now: datetime) -> str:
        lease = self.lease_expires_at
        start = f" from {show_time(lease)} on" if lease is not None and lease > now else ""
        return f"Wait, or give it up: `{self.command}` ends it without the agent{start}, and records who asked."


def describe_silence(cluster: str | None, since: datetime, *, is_taken_over: bool) -> str:
    """Since when an agent is not heard, and whether another one serves its cluster now."""
    if is_taken_over:
        return f"Another agent serves cluster '{cluster}'; the one that has it was last heard at {show_time(since)}."
    return f"Cluster '{cluster}' has been silent since {show_time(since)}."


def unconfirmed(cause: str) -> str:
    """What is said of an execution that was ended for a cause while its agent was silent."""
    end = "" if cause.endswith((".", "!", "?")) else "."
    return f"{cause}{end} Nobody has confirmed that its job has ended."


def _at(time: datetime | None) -> str:
    return "" if time is None else f" at {show_time(time)}"


def _when(time: datetime | None, now: datetime) -> str:
    return " any moment now" if time is None or time <= now else _at(time)
