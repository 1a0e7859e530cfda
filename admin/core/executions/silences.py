"""Silences: what it means for an execution that its cluster is silent, and what happens if it stays so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from admin.core.fleet.silence import silent_since
from admin.core.times import show_due, show_duration, show_time

#: What is said of an execution that was ended, or is to be ended, while its agent is silent.
UNCONFIRMED = "Nobody has confirmed that its job has ended."


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
    is_drained: bool = False  #: it is being ended for a drain
    is_retried: bool  #: another attempt follows if its cluster is lost
    is_taken_over: bool = False  #: another agent serves the cluster now
    is_lost: bool = False  #: the cluster counts as lost already
    deleted: str = ""  #: by which revision its cluster was deleted
    command: str  #: by which an operator gives it up

    @property
    def next_at(self) -> datetime:
        """When it is judged if the agent stays away."""
        is_waited_for = self.has_started and self.on_lost == "wait"
        limit = self.given_up_at if is_waited_for else self.lost_at
        return max(limit, self.lease_expires_at or limit)

    @property
    def note(self) -> str:
        """What is known, as lists have it too."""
        return describe_silence(
            self.cluster, self.since, is_taken_over=self.is_taken_over, is_aborting=self.is_aborting
        )

    def describe(self, now: datetime) -> str:
        """What is known, what happens next and when, and what an operator can do."""
        start = f"{self.note} It was deleted by {self.deleted}." if self.deleted else self.note
        if not self.has_started:
            return f"{start} It had not started there, and is decided again{self._redecided(now)}."
        return f"{start} {self._prospect(now)} {self._remedy(now)}"

    def next_step(self, now: datetime) -> str:
        """What decides about it next, and when."""
        if not self.has_started:
            return f"It is decided again{self._redecided(now)}."
        return f"It is judged {show_due(self.next_at, now)} if the agent that has it stays away."

    def _redecided(self, now: datetime) -> str:
        """When it is decided again, which had not started: not before its cluster is lost and its lease is over."""
        if self.is_lost:
            return _when(self.lease_expires_at, now)
        return f" {show_due(self.next_at, now)}, when {self.cluster} counts as lost"

    def _prospect(self, now: datetime) -> str:
        end = f"{self._end}{_when(self.next_at, now)}"
        if self.on_lost == "wait":
            may_run = may_still_run(is_aborting=self.is_aborting, is_drained=self.is_drained)
            return f"{may_run} (on_lost: wait); else {end} (agents.giveUpAfter)."
        return f"{self._job(now)} (on_lost: {self.on_lost}); {end}, when the cluster is lost."

    def _job(self, now: datetime) -> str:
        """What becomes of its job when the lease is over, or has become of it."""
        lease = self.lease_expires_at
        if lease is not None and lease <= now:
            return f"Its lease was over at {show_time(lease)}: its node has ended its job, if its engine guards leases"
        over = "" if lease is None else f", {show_due(lease, now)}"
        return f"Its job is ended on its node when its lease is over{over}, if its engine guards leases"

    @property
    def _end(self) -> str:
        if self.is_retried:
            return "another attempt follows"
        if self.is_aborting:
            return "it ends ABORTED"
        used_up = ", for its attempts are used up," if self.on_lost == "retry" else ""
        return f"it ends FAILED (CLUSTER_LOST){used_up}"

    def _remedy(self, now: datetime) -> str:
        lease = self.lease_expires_at
        start = f" from {show_time(lease)} on" if lease is not None and lease > now else ""
        return f"Wait, or give it up: `{self.command}` ends it without the agent{start}, and records who asked."


def describe_silence(
    cluster: str | None, since: datetime, *, is_taken_over: bool = False, is_aborting: bool = False
) -> str:
    """Since when an agent is not heard, whether another one serves its cluster now, and what is not known so."""
    start = f"{UNCONFIRMED} " if is_aborting else ""
    if is_taken_over:
        return f"{start}Another agent serves cluster '{cluster}'; the one that has it has been {silent_since(since)}."
    return f"{start}Cluster '{cluster}' has been {silent_since(since)}."


def foresee_silence(on_lost: str, give_up_seconds: float, *, is_retried: bool) -> str:
    """What would become of an execution that runs if its cluster fell silent."""
    if on_lost == "wait":
        end = f"after {show_duration(give_up_seconds)} it ends FAILED (agents.giveUpAfter)"
        return f"It goes on (on_lost: wait), and its result counts when the agent returns; {end}."
    end = "another attempt follows" if is_retried else "it ends FAILED (CLUSTER_LOST)"
    used_up = ", for its attempts are used up," if on_lost == "retry" and not is_retried else ""
    job = "Its job is ended on its node when its lease is over, if its engine guards leases"
    return f"{job}; {end}{used_up} when the cluster is lost (on_lost: {on_lost})."


def may_still_run(*, is_aborting: bool, is_drained: bool = False) -> str:
    """What becomes of a job at a silent cluster when its agent returns."""
    effect = "it is ended" if is_aborting else "its result counts"
    unless = ", unless it has succeeded by then" if is_aborting and is_drained else ""
    return f"Its job may still run, and {effect} when the agent returns{unless}"


def unconfirmed(cause: str) -> str:
    """What is said of an execution that was ended for a cause while its agent was silent."""
    return f"{as_sentence(cause)} {UNCONFIRMED}"


def confirmed(message: str, cluster: str, at: datetime, end: str) -> str:
    """Its message once its agent has reported the end of its job, in words, or that it had not started.

    The stored message is changed, for lists show it without the events, which alone tell of this and may be pruned.
    """
    return message.replace(UNCONFIRMED, f"Cluster '{cluster}' confirmed at {show_time(at)} that {end}.")


def no_longer_held(message: str, cluster: str, at: datetime) -> str:
    """Its message once its agent has it no longer, and has not reported the end of its job."""
    return message.replace(UNCONFIRMED, f"{UNCONFIRMED} Cluster '{cluster}' no longer had it at {show_time(at)}.")


def as_sentence(text: str) -> str:
    """A text of a user with a full stop at its end, so that another sentence can follow."""
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


def _when(time: datetime | None, now: datetime) -> str:
    return " any moment now" if time is None else f" {show_due(time, now)}"
