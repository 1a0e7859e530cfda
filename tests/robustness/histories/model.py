"""The model: what one execution, one setting and the processes of the jobs may do, one step after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.robustness.histories.causes import Causes
from tests.robustness.histories.records import Step

ENDS = frozenset({"SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"})
_NEXT = {
    "": {"QUEUED"},
    "QUEUED": {"QUEUED", "RUNNING", "ABORTING", *ENDS},
    "RUNNING": {"RUNNING", "QUEUED", "ABORTING", *ENDS},
    "ABORTING": {"ABORTING", "QUEUED", "ABORTED"},
    **{end: {end} for end in ENDS},
}


class Impossible(Exception):
    """A step that cannot follow those before it."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the creation of an execution asked for."""

    on_lost: str
    attempts: int
    code: int  #: with which its process exits
    created_at: float = 0.0  #: at the earliest
    may_be_aborted: bool = False  #: whether someone asked for its end
    may_be_given_up: bool = False  #: whether someone asked to wait for its cluster no longer
    is_hit: bool = False  #: whether a supervisor of it was killed

    @property
    def most_processes(self) -> int:
        """How many processes may be started for it in all."""
        return self.attempts if self.code or self.on_lost == "retry" or self.is_hit else 1

    @property
    def may_be_ended(self) -> bool:
        """Whether a process of it may be ended though its cluster is heard."""
        return self.may_be_aborted or self.may_be_given_up or self.is_hit

    @property
    def may_be_lost(self) -> bool:
        """Whether it may end because its cluster is silent."""
        return self.on_lost != "wait" or self.may_be_given_up


@dataclass
class Lifecycle:
    """The phases of one execution, event by event."""

    phase: str = ""
    phases: list[str] = field(default_factory=list)  #: after each event

    def apply(self, number: int, kind: str, phase: str) -> None:
        """The next event."""
        if number != len(self.phases) + 1:
            raise Impossible(f"event {number} follows event {len(self.phases)}")
        if phase not in _NEXT[self.phase]:
            raise Impossible(f"event {number} ({kind}) makes {phase} of {self.phase or 'nothing'}")
        self.phase = phase
        self.phases.append(phase)


@dataclass
class Processes:
    """The processes of all executions, start by start and end by end."""

    running: dict[str, dict[str, Step]] = field(default_factory=lambda: defaultdict(dict))  #: by token and nonce
    starts: dict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[str, list[Step]] = field(default_factory=lambda: defaultdict(list))

    def apply(self, step: Step, policy: Policy | None) -> None:
        """The next start or end."""
        running = self.running[step.token]
        if step.event == "end":
            self.ends[step.token].append(step)
            running.pop(step.nonce, None)
            return
        others = {} if step.is_alone else dict(running)  # those that left no end were killed before
        self.running[step.token] = {**others, step.nonce: step}
        self.starts[step.token].append(step)
        attempts = [start.attempt for start in self.starts[step.token]]
        if policy is None:
            raise Impossible(f"a process of {step.token} started, which nobody created")
        if others:
            raise Impossible(
                f"attempt {step.attempt} of {step.token} ({policy.on_lost}) started while attempt "
                f"{next(iter(others.values())).attempt} was running"
            )
        if len(attempts) > policy.most_processes:
            raise Impossible(
                f"{step.token} ({policy.on_lost}, attempts: {policy.attempts}) was started {len(attempts)} times: "
                f"attempts {attempts}"
            )

    def check_ends(self, token: str, policy: Policy, causes: Causes, now: float) -> None:
        """Whether every process that has not ended by itself until now was ended for a reason."""
        starts = self.starts[token]
        for start, following in zip(starts, [*starts[1:], None], strict=True):
            ends = [end for end in self.ends[token] if end.nonce == start.nonce]
            if policy.may_be_ended or any(end.code == policy.code for end in ends):
                continue
            was = f"attempt {start.attempt} of {token} ({policy.on_lost}) was ended, and nobody aborted it"
            is_restored = causes.has_restore(policy.created_at)
            if policy.on_lost == "wait" and (ends or not is_restored):
                raise Impossible(was)
            until = ends[0].at if ends else following.at if following else now
            if not is_restored and not causes.of_loss(start.cluster, start.at, until):
                raise Impossible(f"{was}, nor was {start.cluster} silent between {start.at} and {until}")

    def check_result(self, token: str, policy: Policy, result: Mapping[str, Any], causes: Causes, now: float) -> None:
        """Whether a reported end is one that a process came to."""
        phase, code, attempt = result["phase"], result.get("exit_code"), result["attempt"]
        reported = f"{token} ({policy.on_lost}) is reported {phase} ({result['reason']}) with exit code {code}"
        if phase not in ENDS:
            raise Impossible(f"{token} ({policy.on_lost}) never ended: {phase} ({result['reason']})")
        if phase == "ABORTED":
            if not policy.may_be_aborted:
                raise Impossible(f"{reported}, but nobody aborted it")
            return
        starts = [start for start in self.starts[token] if start.attempt == attempt]
        if phase == "FAILED" and result["reason"] == "CLUSTER_LOST" and policy.may_be_lost:
            since = min((start.at for start in starts), default=policy.created_at)
            if not causes.has_restore(policy.created_at) and not causes.of_loss(result["cluster"], since, now):
                raise Impossible(f"{reported}, but {result['cluster']} was not silent after {since}")
            return
        if phase == "FAILED" and result["reason"] == "SUPERVISOR_LOST" and policy.is_hit:
            return
        could_not_start = not starts and causes.of_no_start(result["cluster"])
        if phase == "FAILED" and result["reason"] == "NOT_STARTED" and could_not_start:
            return
        codes = [end.code for end in self.ends[token] if end.attempt == attempt]
        if code is None or code not in codes or phase != ("FAILED" if code else "SUCCEEDED"):
            raise Impossible(f"{reported}, but the processes of attempt {attempt} ended with {codes or 'nothing'}")
        if code != policy.code:
            raise Impossible(f"{reported}, but its process exits with {policy.code} unless someone ends it")

    def check_log(self, token: str, attempt: int, text: str) -> None:
        """Whether a reported log is what a process printed."""
        nonces = [start.nonce for start in self.starts[token] if start.attempt == attempt]
        if text and text.strip() not in nonces:
            raise Impossible(f"the log of {token}, attempt {attempt}, is {text!r}, but its processes printed {nonces}")


@dataclass
class Settings:
    """The values of all scopes, revision by revision."""

    head: int = 0
    _changes: dict[str, list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))

    def apply(self, number: int, scope: str | None, value: Any) -> None:
        """The next revision; without a scope it changed something else."""
        if number != self.head + 1:
            raise Impossible(f"revision {number} follows revision {self.head}")
        self.head = number
        if scope is not None:
            self._changes[scope].append((number, value))

    def value_at(self, scope: str, number: int) -> Any:
        """What a scope had at a revision; None before its first."""
        return next((value for revision, value in reversed(self._changes[scope]) if revision <= number), None)
