"""The interface of an engine: submit, look up by key, state, cancel, logs, capacity, ETA.

An engine is found by its name in the entry point group `rainbow.engines`. The entry point names a factory, usually the
class itself, called as `factory(options, directory)`: the `engineOptions` of the agent's configuration file, and
the directory under which each task has its own (`task.directory == directory / task.key`).

The agent calls an engine from one thread only. A call that cannot reach the back end raises EngineUnavailable: the
agent tries again later and draws no conclusion from it. Engines enforce time limits themselves if their back end can;
the agent cancels what still runs half a minute after its limit.

Four attributes are optional: `poll_seconds`, how often the agent asks for states unless its configuration says
otherwise (default 0.5); `is_shared`, whether an agent on another machine finds the same jobs (default False: an agent
that is replaced by another ends its jobs); `guards_leases`, whether the engine ends a job whose lease is over even
if there is no agent (default False: only an agent that runs does); and the method `log_parts(handle, stream)`, of an
engine that drops part of a long log: from where to where each part goes that is kept, in order, and without which the
whole of a log is sent in the order of its bytes. An engine that guards leases is a `GuardingEngine`. One with a queue
may have the method `withdraw` (`WithdrawingEngine`), which takes jobs out of it while a cluster drains; one without
a queue the method `must_wait` (`CrowdedEngine`), for what cannot start beside what runs. A shared one,
whose capacity is asked for every few seconds, may have the method `room` (`RoomEngine`), which tells in between what is
free; without it the agent subtracts what the jobs request that have started since. The capacity of any other engine is
asked for with each start and each end that states() tells of, so it must count what states() has called running. One
that knows its machines may have the method `graph` (`DescribingEngine`), by which jobs are matched before they come,
and one that knows more of a job's start than check() and eta() tell the method `bid` (`BiddingEngine`). One whose back
end keeps the jobs of agents that are gone may have the method `orphans` (`OrphanEngine`).

`agent.testing.check_engine` checks an engine against this interface.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

from ctl.client.words import did_you_mean

GROUP = "rainbow.engines"

#: The engines of this package, for an agent that runs from its sources without being installed.
BUILT_IN = {
    "flux": "agent.engines.flux:FluxEngine",
    "kubernetes": "agent.engines.kubernetes:KubernetesEngine",
    "local": "agent.engines.local:LocalEngine",
    "slurm": "agent.engines.slurm:SlurmEngine",
}


class EngineError(Exception):
    """The engine cannot do something, with the reason and the remedy."""


class EngineUnavailable(EngineError):
    """The back end does not answer: nothing is known, and the agent tries again later."""


class NothingDone(EngineUnavailable):
    """The back end answers that it has not done what was asked of it."""


class SubmitRefused(EngineError):
    """The back end will never run this task; nothing was started.

    The agent declines the lease with this reason.
    """


class OptionError(EngineError):
    """An engine option is unknown or invalid."""


class NativePhase(Enum):
    """The phase of a native job, in the words of executions."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    ABORTED = "ABORTED"
    UNKNOWN = "UNKNOWN"  # the back end does not know the job, and not merely because it shows new jobs late

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self not in (NativePhase.QUEUED, NativePhase.RUNNING)


@dataclass(frozen=True)
class Task:
    """A job to run."""

    key: str
    #: The concrete job of the execution: command, image, working_directory, resources, outputs …
    job: Mapping[str, Any]
    #: The directory of the task's own files (logs, scripts, records); exists when submit is called.
    directory: Path
    queue: str = ""
    #: Of the execution, the larger the sooner; for engines whose back end has the notion.
    priority: float = 0
    #: The complete environment of the job: the job's own, the execution config's and RAINBOW_*.
    environment: Mapping[str, str] = field(default_factory=dict)
    time_limit_seconds: float | None = None
    #: Of a question about it: how long an answer is waited for.
    answer_seconds: float | None = None
    #: How long it may go on unless its lease is renewed; None if it goes on however long the cluster is silent.
    lease_seconds: float | None = None
    #: The resolved execution config: identity, output prefix, max parallelism …
    config: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def is_exclusive(job: Mapping[str, Any]) -> bool:
    """Whether a job has its nodes to itself."""
    return bool(job.get("resources", {}).get("exclusive"))


@dataclass(frozen=True)
class Handle:
    """A job that was submitted: the agent's key for it and the back end's own id."""

    key: str
    native_id: str


@dataclass(frozen=True)
class NativeState:
    """The state of a job according to the back end."""

    phase: NativePhase
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    #: A code such as OUT_OF_MEMORY; empty if there is nothing to add to the phase.
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    #: How many seconds it ran, by a monotonic clock; else the difference of the two times counts.
    duration: float | None = None

    @property
    def outcome(self) -> str:
        """Its message; of a failure without one, its exit code in words."""
        if self.message or self.phase is not NativePhase.FAILED or self.exit_code is None:
            return self.message
        return f"It ended with exit code {self.exit_code}."


@dataclass(frozen=True)
class Bid:
    """Whether and when a back end would start a task, if it were submitted now; nothing is kept free for it."""

    #: `yes`; `not-now`, if it could start it one day; `never`, if it will not, as submit() would refuse it.
    answer: str
    #: Of a yes.
    start_seconds: float | None = None
    #: What it would cost, in the unit of the clusters' definitions; None for what the definition says.
    cost: float | None = None
    #: Why it is no yes.
    reason: str = ""

    @classmethod
    def yes(cls, start_seconds: float, cost: float | None = None) -> Bid:
        """It would start in so many seconds."""
        return cls("yes", start_seconds, cost)

    @classmethod
    def not_now(cls, reason: str) -> Bid:
        """It may start one day, and nobody knows when."""
        return cls("not-now", reason=reason)

    @classmethod
    def never(cls, reason: str) -> Bid:
        """It will not start, however long it waits."""
        return cls("never", reason=reason)


class Engine(Protocol):
    """A back end that runs tasks."""

    name: str

    def version(self) -> str:
        """The back end's version."""

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What there is and what is free, each with any of cpu, memory, gpu, ephemeral_storage, nodes, executions."""

    def check(self, task: Task) -> str:
        """Why the task must be declined, or an empty text."""

    def submit(self, task: Task) -> Handle:
        """Start the task, or queue it; called only after find() returned None for its key.

        NothingDone if it was not started and may be later: it is then tried again.
        """

    def find(self, key: str) -> Handle | None:
        """The job of that key, queued, running or finished, even if another process submitted it.

        None is final: a submission that a crash interrupted is visible by now, or never will be.
        """

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job by key; the agent asks again for a job that is left out."""

    def cancel(self, handle: Handle) -> None:
        """End the job and everything it started; no error if it has finished or is unknown."""

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of stdout or stderr from `offset` on; empty if there is nothing (yet)."""

    def read_output(self, handle: Handle, path: str, limit: int, offset: int = 0) -> tuple[bytes, int, bool] | None:
        """Content (at most `limit` bytes from `offset` on), size, and whether more follows, of a file in the working
        directory; None if there is no such file."""

    def eta(self, task: Task) -> float | None:
        """Seconds until the task would start, or None if the back end cannot tell."""

    def forget(self, handle: Handle) -> None:
        """Remove what is kept about a finished job; called once its final report was accepted."""


class GuardingEngine(Engine, Protocol):
    """An engine that ends jobs whose lease is over, on their nodes and without the agent.

    Such a job ends FAILED with the reason CLUSTER_LOST. Only tasks with `lease_seconds` are guarded.
    """

    guards_leases: bool

    def renew(self, seconds: Mapping[Handle, float]) -> None:
        """Let each job go on for so many seconds from now; nothing happens to one that has ended or is not guarded."""


class WithdrawingEngine(Engine, Protocol):
    """An engine that can take a job out of its queue without ending one that is just starting."""

    def withdraw(self, handle: Handle) -> bool:
        """Cancel the job if it has not started; False if it has, or may yet. NothingDone if the back end refuses."""


@dataclass(frozen=True)
class Orphan:
    """A job in the back end that the agent knows nothing of, though it is of its cluster."""

    handle: Handle
    #: The execution's project, domain and name, its random id, and the number of the attempt.
    id: Mapping[str, str]
    uid: str
    attempt: int


class OrphanEngine(Engine, Protocol):
    """A shared engine that knows of its jobs whose they are, so that what a dead agent left is found and cleared."""

    def orphans(self, known: Collection[str]) -> list[Orphan]:
        """The jobs of the agent's cluster whose keys are not known, and of which forget() was not called.

        The agent then holds them, and the admin says whether they go on or are ended.
        """


class CrowdedEngine(Engine, Protocol):
    """An engine without a queue, on which some tasks cannot run beside others."""

    def must_wait(self, task: Task) -> str:
        """Why the task cannot be started beside what runs, or an empty text; it then waits at the agent.

        What the agent has leased after it waits too, so that it comes to its turn.
        """


class BiddingEngine(Engine, Protocol):
    """An engine that can tell more of a task's start than check() and eta() do."""

    def bid(self, task: Task) -> Bid:
        """Whether and when the task would start. Nothing is submitted, and nothing is kept free for it."""


def bid_of(engine: Engine, task: Task) -> Bid:
    """The bid of an engine; of one without the method, by what it declines and by its ETA."""
    bid: Callable[[Task], Bid] | None = getattr(engine, "bid", None)
    if bid is not None:
        return bid(task)
    if reason := engine.check(task):
        return Bid.never(reason)
    seconds = engine.eta(task)
    return Bid.not_now(f"the {engine.name} engine cannot tell when") if seconds is None else Bid.yes(seconds)


class RoomEngine(Engine, Protocol):
    """A shared engine that knows what is left after each start, without asking its back end."""

    def room(self) -> dict[str, Any] | None:
        """What is free: by the last capacity(), less what jobs have that states() has seen to start since.

        None before capacity() was called.
        """


class DescribingEngine(Engine, Protocol):
    """An engine that knows what its machines have."""

    def graph(self) -> dict[str, Any] | None:
        """The description of the cluster: a `graph`, and `subsystems` by name; None where it is not known yet.

        It says what there is, whatever its state, and is the same each time as long as the machines are.
        """

    def node_room(self) -> dict[str, Any] | None:
        """What is free of each node by its name, as of room(): any of cpu, memory, gpu, and `closed`.

        Nodes that are free as a whole are left out. None before capacity() was called.
        """


class Factory(Protocol):
    """The callable that an engine's entry point names."""

    def __call__(self, options: Mapping[str, Any], directory: Path) -> Engine:
        """Build the engine; OptionError for an unknown or invalid option."""


def find_engine(name: str) -> Factory:
    """The factory of the engine of that name."""
    points = {built_in: EntryPoint(built_in, target, GROUP) for built_in, target in BUILT_IN.items()}
    points.update({point.name: point for point in entry_points(group=GROUP)})
    if name not in points:
        suggestion = did_you_mean(name, points)
        raise OptionError(f"engine: there is no '{name}'.{suggestion} Installed: {', '.join(sorted(points))}.")
    try:
        factory: Factory = points[name].load()
    except Exception as error:
        raise OptionError(f"engine: '{name}' cannot be loaded: {error}") from error
    return factory


def parse_seconds(options: Mapping[str, Any], name: str, least: int = 0) -> float:
    """An engine option that is a number of seconds; OptionError if it is not."""
    value = options[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise OptionError(f"engineOptions.{name}: must be a number of seconds, {least} or more")
    return float(value)


def refuse_unknown(options: Mapping[str, Any], names: Collection[str]) -> None:
    """Refuse an engine option that the engine does not have, with the closest name that it has."""
    for name in options:
        if name not in names:
            raise OptionError(f"engineOptions.{name}: there is no such option.{did_you_mean(name, names)}")
