"""What an engine promises, checked by a few small jobs."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import Engine, GuardingEngine, Handle, NativePhase, OrphanEngine, bid_of
from agent.engines.leases import CLUSTER_LOST
from agent.testing.jobs import EXECUTION, CheckedJobs, describe
from ctl.client.quantities import parse_quantity

#: What `check_engine` checks, in this order.
CHECKS = (
    "description",  # name, version and optional attributes
    "capacity",  # what is free is part of what there is
    "bids",  # a bid submits nothing
    "unknown",  # a job that was never submitted
    "success",  # a job that ends well, its times, its log and its look-up
    "outputs",  # output files
    "failure",  # an exit code
    "cancel",  # a job that is ended, twice
    "time_limit",  # a job that runs too long: TIMED_OUT
    "memory",  # a job above its memory limit: FAILED with the reason OUT_OF_MEMORY
    "crash",  # an agent that is gone after each step: before submit, after it, while it runs, after the end
    "orphans",  # what a dead agent left, of an engine that has `orphans`
    "leases",  # a job whose lease is over, of an engine that guards leases
)

_RESOURCES = ("cpu", "memory", "gpu", "ephemeral_storage", "nodes", "executions")


def check_engine(
    engine: Engine,
    directory: Path,
    *,
    restarted: Engine | None = None,
    prefix: str = "rb-c0ffee",
    seconds: float = 120.0,
    clock: Clock = SYSTEM_CLOCK,
    checks: Collection[str] = CHECKS,
) -> dict[str, bool]:
    """Exercise an engine as the agent does; AssertionError with a sentence for the first promise that it breaks.

    Returns whether each of CHECKS was made: of those that were not asked for, and of those for what an engine may leave
    out and this one does, False.

    The engine runs `echo`, `touch`, `false`, `sleep`, `sh` and `tail` in jobs whose keys start with `prefix`, and may
    take so many seconds for each. `directory` is the directory that the engine was built with. `restarted` is a second
    engine of the same back end, in the place of an agent that was started again; without it the first engine is used.
    `checks` are those of CHECKS that the back end can keep: one without a limit of memory leaves out `memory`.
    """
    if unknown := sorted(set(checks) - set(CHECKS)):
        raise ValueError(f"checks: there is no '{unknown[0]}'; there are {', '.join(CHECKS)}")
    check = _Check(CheckedJobs(engine, restarted or engine, directory, prefix, seconds, clock))
    return {name: name in checks and check.has(name) and check.is_kept(name) for name in CHECKS}


@dataclass(frozen=True)
class _Check:
    jobs: CheckedJobs

    @property
    def engine(self) -> Engine:
        return self.jobs.engine

    @property
    def restarted(self) -> Engine:
        return self.jobs.restarted

    def has(self, name: str) -> bool:
        """Whether the engine has what is checked, of what it may leave out."""
        if name == "orphans":
            return hasattr(self.engine, "orphans")
        return name != "leases" or bool(getattr(self.engine, "guards_leases", False))

    def is_kept(self, name: str) -> bool:
        """True; AssertionError if the engine breaks the promise."""
        getattr(self, name)()
        return True

    def description(self) -> None:
        engine = self.engine
        assert engine.name, "name is empty"
        assert isinstance(engine.version(), str), "version() does not return a text"
        assert getattr(engine, "poll_seconds", 0.5) > 0, "poll_seconds is not greater than 0"
        assert isinstance(getattr(engine, "is_shared", False), bool), "is_shared is not True or False"
        task = self.jobs.task("eta", "true")
        eta = engine.eta(task)
        assert eta is None or eta >= 0, f"eta() returns {eta}, which is neither None nor 0 or more seconds"
        assert engine.check(task) == "", f"check() declines the command `true`: {engine.check(task)}"

    def capacity(self) -> None:
        capacity, free = self.engine.capacity()
        for resource in {*capacity, *free}:
            assert resource in _RESOURCES, f"capacity() has the resource '{resource}': use {', '.join(_RESOURCES)}"
        for resource, quantity in free.items():
            assert resource in capacity, f"capacity() has free {resource} but no {resource} at all"
            total = capacity[resource]
            is_less = 0 <= parse_quantity(quantity) <= parse_quantity(total)
            assert is_less, f"capacity() has {quantity} of {total} {resource} free"

    def bids(self) -> None:
        task = self.jobs.task("bid", "true")
        bid = bid_of(self.engine, task)
        assert bid.answer in ("yes", "not-now"), f"bid() says {bid.answer} to the command `true`: {bid.reason}"
        has_start = bid.start_seconds is not None and math.isfinite(bid.start_seconds) and bid.start_seconds >= 0
        assert bid.answer != "yes" or has_start, f"bid() says yes, and starts in {bid.start_seconds} s"
        assert bid.answer == "yes" or bid.reason, f"bid() says {bid.answer} without a reason"
        assert self.engine.find(task.key) is None, "bid() has submitted the task that it was asked about"

    def unknown(self) -> None:
        key = self.jobs.key("unknown")
        assert self.engine.find(key) is None, f"find() returns a job of the key {key}, which was never submitted"
        handle = Handle(key, "999999999")
        state = self.engine.states([handle]).get(key)
        is_unknown = state is None or state.phase is NativePhase.UNKNOWN
        assert is_unknown, f"states() returns {state} for a job that was never submitted"
        self.engine.cancel(handle)
        assert self.engine.logs(handle, "stdout", 0, 10) == b"", (
            "logs() of a job that was never submitted are not empty"
        )
        assert self.engine.read_output(handle, "result", 10) is None, (
            "a job that was never submitted has an output file"
        )
        self.engine.forget(handle)

    def success(self) -> None:
        handle = self.jobs.submit("echo", "echo", "hello")
        state = self.jobs.wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.SUCCEEDED, f"`echo hello` ended {describe(state)}"
        assert state.exit_code == 0, f"`echo hello` ended with exit code {state.exit_code}"
        assert state.started_at is not None, "a job that has ended has no started_at"
        assert state.finished_at is not None, "a job that has ended has no finished_at"
        assert state.started_at.tzinfo is not None, "started_at has no time zone"
        assert state.started_at <= state.finished_at, "a job has ended before it started"
        logs = self.engine.logs(handle, "stdout", 0, 100)
        assert logs == b"hello\n", f"logs() of `echo hello` are {logs!r}"
        piece = self.engine.logs(handle, "stdout", 1, 3)
        assert piece == b"ell", f"logs() of `echo hello` from offset 1, limited to 3 bytes, are {piece!r}"
        assert self.engine.logs(handle, "stdout", 6, 3) == b"", "logs() after the end of a stream are not empty"
        assert self.engine.logs(handle, "stderr", 0, 3) == b"", "`echo hello` has written to stderr"
        assert self.engine.find(handle.key) == handle, "find() does not return a job that has ended"
        self.engine.cancel(handle)
        after = self.engine.states([handle]).get(handle.key)
        assert after == state, "cancel() changes the state of a job that has ended"
        self.engine.forget(handle)

    def outputs(self) -> None:
        handle = self.jobs.submit("touch", "touch", "result", outputs=["result", "absent"])
        self.jobs.wait(handle, lambda state: state.phase.finished)
        output = self.engine.read_output(handle, "result", 10)
        assert output == (b"", 0, False), f"read_output() of an empty file returns {output}"
        later = self.engine.read_output(handle, "result", 10, 0)
        assert later == output, f"read_output() of an empty file from offset 0 on returns {later}"
        assert self.engine.read_output(handle, "absent", 10) is None, "read_output() of a missing file is not None"
        self.engine.forget(handle)

    def failure(self) -> None:
        handle = self.jobs.submit("false", "false")
        state = self.jobs.wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.FAILED, f"`false` ended {describe(state)}"
        assert state.exit_code == 1, f"`false` ended with exit code {state.exit_code}"
        self.engine.forget(handle)

    def cancel(self) -> None:
        handle = self.jobs.submit("sleep", "sleep", "600")
        state = self.jobs.wait(handle, lambda state: state.phase is not NativePhase.QUEUED)
        assert state.phase is NativePhase.RUNNING, f"`sleep 600` ended {describe(state)}"
        assert state.started_at is not None, "a job that runs has no started_at"
        assert state.finished_at is None, "a job that runs has a finished_at"
        self.engine.cancel(handle)
        self.engine.cancel(handle)
        state = self.jobs.wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.ABORTED, f"`sleep 600` was cancelled, and ended {describe(state)}"
        self.engine.forget(handle)

    def time_limit(self) -> None:
        handle = self.jobs.submit("time-limit", "tail", "-f", "/dev/null", time_limit_seconds=1.0)
        state = self.jobs.wait(handle, lambda state: state.phase.finished)
        assert state.phase is NativePhase.TIMED_OUT, f"a job that ran longer than its limit ended {describe(state)}"
        self.engine.forget(handle)

    def memory(self) -> None:
        script = "head -c 268435456 /dev/zero | tail -c 268435456 > /dev/null"
        resources = {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}
        handle = self.jobs.submit("memory", "sh", "-c", script, resources=resources)
        state = self.jobs.wait(handle, lambda state: state.phase.finished)
        is_told = (state.phase, state.reason) == (NativePhase.FAILED, "OUT_OF_MEMORY")
        assert is_told, f"a job above its memory limit ended {describe(state)}, not FAILED OUT_OF_MEMORY"
        self.engine.forget(handle)

    def crash(self) -> None:
        task = self.jobs.task("crash", "echo", "hello")
        assert self.restarted.find(task.key) is None, "find() returns a job that an agent had only meant to submit"
        handle = self.jobs.submit("crash", "echo", "hello")
        state = self.jobs.wait(handle, lambda state: state.phase.finished, self.restarted)
        assert state.phase is NativePhase.SUCCEEDED, f"after a restart `echo hello` ended {describe(state)}"
        logs = self.restarted.logs(handle, "stdout", 0, 100)
        assert logs == b"hello\n", f"after a restart logs() of `echo hello` are {logs!r}"
        first = self.jobs.wait(handle, lambda state: state.phase.finished)
        assert (first.phase, first.exit_code) == (state.phase, state.exit_code), (
            f"a job ended {describe(first)}, and after a restart {describe(state)}"
        )
        self.restarted.forget(handle)
        handle = self.jobs.submit("crash-running", "sleep", "600")
        self.jobs.wait(handle, lambda state: state.phase is NativePhase.RUNNING)
        state = self.jobs.wait(handle, lambda state: state.phase is not NativePhase.QUEUED, self.restarted)
        assert state.phase is NativePhase.RUNNING, f"after a restart `sleep 600` is {describe(state)}"
        self.restarted.cancel(handle)
        state = self.jobs.wait(handle, lambda state: state.phase.finished, self.restarted)
        assert state.phase is NativePhase.ABORTED, f"cancelled after a restart, `sleep 600` ended {describe(state)}"
        self.restarted.forget(handle)

    def orphans(self) -> None:
        engine = cast(OrphanEngine, self.restarted)
        handle = self.jobs.submit("orphan", "echo", "hello")
        self.jobs.wait(handle, lambda state: state.phase.finished)
        adopted = {orphan.handle.key: orphan for orphan in engine.orphans(())}.get(handle.key)
        assert adopted is not None, f"orphans() leaves out {handle.key}"
        told = (dict(adopted.id), adopted.attempt, adopted.handle)
        assert told == (EXECUTION, 1, handle), f"orphans() tells {told} of a job of {EXECUTION}"
        known = [orphan.handle.key for orphan in engine.orphans([handle.key])]
        assert handle.key not in known, "orphans() has a job whose key is known"
        engine.forget(handle)
        left = [orphan.handle.key for orphan in engine.orphans(())]
        assert handle.key not in left, "orphans() has a job that was forgotten"

    def leases(self) -> None:
        engine = cast(GuardingEngine, self.engine)
        handle = self.jobs.submit("never-renewed", "sleep", "600", lease_seconds=1.0)
        self._assert_lease_over(handle)
        handle = self.jobs.submit("renewed", "sleep", "600", lease_seconds=self.jobs.seconds * 10)
        self.jobs.wait(handle, lambda state: state.phase is NativePhase.RUNNING)
        engine.renew({handle: self.jobs.seconds * 10})
        state = engine.states([handle]).get(handle.key)
        assert state is None or not state.phase.finished, f"a job ended {describe(state)} when its lease was renewed"
        engine.renew({handle: 1.0, Handle(self.jobs.key("unknown"), "999999999"): 1.0})
        self._assert_lease_over(handle)

    def _assert_lease_over(self, handle: Handle) -> None:
        state = self.jobs.wait(handle, lambda state: state.phase.finished)
        is_ended = state.phase is NativePhase.FAILED and state.reason == CLUSTER_LOST
        assert is_ended, f"a job whose lease was over ended {describe(state)}, not {CLUSTER_LOST}"
        self.engine.forget(handle)
