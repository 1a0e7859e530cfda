"""Silences: what it means for an execution that its cluster is silent, and what happens if it stays so."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from admin.core.fleet.silence import Loss, show_loss, silent_since
from admin.core.times import show_due, show_duration, show_time

#: What is said of an execution that was ended, or is to be ended, while its agent is silent.
UNCONFIRMED = "Nobody has confirmed that its job has ended."
#: What becomes of the work of a cluster when that counts as lost.
WHEN_LOST = "What had not started there is then decided again; what may run there goes by its on_lost."


@dataclass(frozen=True, kw_only=True)
class Drain:
    """The drain of the cluster at which an execution is."""

    cluster: str
    deadline: datetime | None  #: when it ends what still runs
    by: str  #: the event by which it was drained, by whom, when and why
    is_retried: bool  #: whether another attempt follows

    def describe_end(self, now: datetime) -> str:
        """When it is over, and who began it."""
        when = "" if self.deadline is None else f" {show_due(self.deadline, now)}"
        return f"the drain of {self.cluster} is over{when} ({self.by})"


@dataclass(frozen=True, kw_only=True)
class Silence:
    """An unfinished execution at a cluster whose agent is not heard."""

    cluster: str
    since: datetime  #: the last sync of the agent
    on_lost: str
    lease_expires_at: datetime | None
    loss: Loss  #: when the cluster counts as lost
    given_up_at: datetime  #: when the cluster is given up
    has_started: bool  #: or may have
    is_aborting: bool
    is_drained: bool = False  #: it is being ended for a drain
    is_retried: bool  #: another attempt follows if its cluster is lost
    is_taken_over: bool = False  #: another agent serves the cluster now
    is_lost: bool = False  #: the cluster counts as lost already
    drain: Drain | None = None  #: of the cluster
    deleted: str = ""  #: by which revision its cluster was deleted
    command: str  #: by which an operator gives it up

    @property
    def next_at(self) -> datetime:
        """When something happens to it if the agent stays away."""
        drain = self._drain_before
        return self._judged_at if drain is None or drain.deadline is None else drain.deadline

    @property
    def _drain_before(self) -> Drain | None:
        """The drain whose deadline comes before the silence is judged."""
        drain = self.drain
        if drain is None or drain.deadline is None or self.is_aborting or drain.deadline >= self._judged_at:
            return None
        return drain

    @property
    def _judged_at(self) -> datetime:
        """When the silence is judged."""
        limit = max(self.given_up_at, self.loss.at) if self._is_waited_for else self.loss.at
        return max(limit, self.lease_expires_at or limit)

    @property
    def _is_waited_for(self) -> bool:
        return self.has_started and self.on_lost == "wait"

    def _when_judged(self, now: datetime) -> str:
        """The same in words; a cluster that is deleted or lost is not listened to for any longer."""
        is_given_up = self._is_waited_for and self.given_up_at >= self.loss.at
        if self.is_lost or self.deleted or is_given_up:
            return show_due(self._judged_at, now)
        return show_loss(self._judged_at, self.loss, now)

    @property
    def note(self) -> str:
        """What is known, as lists have it too."""
        return describe_silence(
            self.cluster, self.since, is_taken_over=self.is_taken_over, is_aborting=self.is_aborting
        )

    def outlook(self, now: datetime) -> str:
        """What becomes of it, and when."""
        if not self.has_started:
            return f"It had not started there, and is decided again{self._redecided(now)}."
        return self._prospect(now)

    def describe(self, now: datetime) -> str:
        """What is known, what happens next and when, and what an operator can do."""
        start = self.note
        if self.deleted:
            again = "can no longer report until the cluster is defined and registered again"
            start = f"{start} It was deleted by {self.deleted}: its agent {again}."
        rest = [self._remedy(now)] if self.has_started else []
        return " ".join([start, self.outlook(now), *rest])

    def next_step(self, now: datetime) -> str:
        """What decides about it next, and when."""
        if not self.has_started:
            return f"It is decided again{self._redecided(now)}."
        drain = self._drain_before
        if drain is not None:
            then = "another attempt follows after that" if self.is_retried else "it ends ABORTED after that"
            return f"It is ABORTING when {drain.describe_end(now)}; {then}, unless it has succeeded."
        return f"Whether it is lost is decided {self._when_judged(now)} if the agent that has it stays away."

    def _redecided(self, now: datetime) -> str:
        """When it is decided again, which had not started.

        That is not before its cluster is lost and its lease is over, or a drain is.
        """
        if self._drain_before is not None:
            return f" when {self._drain_before.describe_end(now)}"
        if self.is_lost:
            return _when(self.lease_expires_at, now)
        return f" {self._when_judged(now)}, when {self.cluster} counts as lost"

    def _prospect(self, now: datetime) -> str:
        end = f"{self._end} {self._when_judged(now)}"
        drain = self._drain_before
        if drain is not None:
            return self._drained_prospect(drain, end, now)
        if self.on_lost == "wait":
            may_run = may_still_run(is_aborting=self.is_aborting, is_drained=self.is_drained)
            return f"{may_run} (on_lost: wait); else {end} (agents.giveUpAfter)."
        return f"{self._job(now)} (on_lost: {self.on_lost}); {end}{self._when_lost}."

    def _drained_prospect(self, drain: Drain, end: str, now: datetime) -> str:
        over = drain.describe_end(now)
        if self.on_lost == "wait":
            may_run = may_still_run(is_aborting=False)
            outcome = "is ended when the agent returns, unless it has succeeded by then"
            ending = f"It is ABORTING from then on, and {outcome}; else {end} (agents.giveUpAfter)."
            return f"{may_run} (on_lost: wait), until {over}. {ending}"
        return f"{self._job(now)} (on_lost: {self.on_lost}). It is ABORTING when {over}; {end}{self._when_lost}."

    @property
    def _when_lost(self) -> str:
        """A deleted cluster is given up at once, so that only leases count."""
        return ", when its lease is over" if self.deleted else ", when the cluster is lost"

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
        if self.is_aborting or self._drain_before is not None:
            return "it ends ABORTED"
        used_up = ", for its attempts are used up," if self.on_lost == "retry" else ""
        return f"it ends FAILED (CLUSTER_LOST){used_up}"

    def _remedy(self, now: datetime) -> str:
        return describe_remedy(self.command, self.lease_expires_at, now)


def describe_remedy(command: str, lease_expires_at: datetime | None, now: datetime) -> str:
    """What an operator can do about an execution at a silent cluster."""
    is_ahead = lease_expires_at is not None and lease_expires_at > now
    start = f" from {show_time(lease_expires_at)} on" if lease_expires_at is not None and is_ahead else ""
    return f"Wait, or give it up: `{command}` ends it without the agent{start}, and records who asked."


def describe_silence(
    cluster: str | None, since: datetime, *, is_taken_over: bool = False, is_aborting: bool = False
) -> str:
    """Since when an agent is not heard, whether another one serves its cluster now, and what is not known so."""
    start = f"{UNCONFIRMED} " if is_aborting else ""
    if is_taken_over:
        return f"{start}Another agent serves cluster '{cluster}'; the one that has it has been {silent_since(since)}."
    return f"{start}Cluster '{cluster}' has been {silent_since(since)}."


def foresee_silence(on_lost: str, give_up_seconds: float, *, is_retried: bool, drained: str = "") -> str:
    """What would become of an execution that runs if its cluster fell silent.

    `drained` says when the drain of the cluster is over, where that comes before the silence is judged.
    """
    failed = "FAILED" if not drained else "ABORTED"
    if on_lost == "wait":
        after = f"after {show_duration(give_up_seconds)}"
        end = "another attempt follows" if drained and is_retried else f"it ends {failed}"
        aborting = f", until {drained}, and it is ABORTING from then on" if drained else ""
        result = f"its result counts when the agent returns{aborting}"
        return f"It goes on (on_lost: wait), and {result}; {after} {end} (agents.giveUpAfter)."
    code = "" if drained else " (CLUSTER_LOST)"
    end = "another attempt follows" if is_retried else f"it ends {failed}{code}"
    used_up = ", for its attempts are used up," if on_lost == "retry" and not is_retried else ""
    job = "Its job is ended on its node when its lease is over, if its engine guards leases"
    job += f"; it is ABORTING when {drained}" if drained else ""
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
