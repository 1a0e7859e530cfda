"""The interface of an engine: submit, look up by key, state, cancel, logs, capacity, ETA.

An engine is found by its name in the entry point group `rainbow.engines`. The entry point names a factory, usually
the class itself, called as `factory(options, directory)`: the `engineOptions` of the agent's configuration file, and
the directory under which each task has its own (`task.directory == directory / task.key`).

The agent calls an engine from one thread only. A call that cannot reach the back end raises EngineUnavailable: the
agent asks again later and concludes nothing from it. Engines keep time limits themselves where their back end can;
the agent cancels what is still running well after its limit.

Two attributes are optional: `poll_seconds`, how often the agent asks for states unless its configuration says otherwise
(0.5), and `is_shared`, whether an agent on another machine finds the same jobs (False: an agent that was replaced by
another ends its own).
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

GROUP = "rainbow.engines"

#: The engines that come along, for an agent that runs from its sources, without having been installed.
BUILT_IN = {"local": "agent.engines.local:LocalEngine", "slurm": "agent.engines.slurm:SlurmEngine"}


class EngineError(Exception):
    """What an engine cannot do, with the reason and the remedy."""


class EngineUnavailable(EngineError):
    """The back end does not answer: nothing is known, the agent tries again later."""


class SubmitRefused(EngineError):
    """The back end will never take this task; nothing was started.

    The agent declines the lease with this reason.
    """


class OptionError(EngineError):
    """An engine option that is unknown or does not fit."""


class NativePhase(Enum):
    """Where a native job stands, in the words of executions."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    ABORTED = "ABORTED"
    #: The back end does not know the job, beyond doubt (not merely within its visibility lag).
    UNKNOWN = "UNKNOWN"

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen to the job."""
        return self not in (NativePhase.QUEUED, NativePhase.RUNNING)


@dataclass(frozen=True)
class Task:
    """What to run."""

    key: str
    #: The concrete job of the execution: command, image, working_directory, resources, outputs …
    job: Mapping[str, Any]
    #: Where the task's own files (logs, scripts, records) go; exists when submit is called.
    directory: Path
    queue: str = ""
    #: The complete environment of the job: the job's own, the execution config's and RAINBOW_*.
    environment: Mapping[str, str] = field(default_factory=dict)
    time_limit_seconds: float | None = None
    #: The resolved execution config: identity, output prefix, max parallelism …
    config: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Handle:
    """A job that was submitted: our key and the back end's own id."""

    key: str
    native_id: str


@dataclass(frozen=True)
class NativeState:
    """What the back end says of a job."""

    phase: NativePhase
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    #: A code such as OUT_OF_MEMORY, empty where there is nothing to add to the phase.
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


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
        """Start the task, or queue it; called only after find() said that there is none of its key."""

    def find(self, key: str) -> Handle | None:
        """The job of that key, running, queued or finished, whoever submitted it.

        None is final: a submission that a crash cut short has become visible by now, or never will.
        """

    def states(self, handles: Sequence[Handle]) -> dict[str, NativeState]:
        """The state of each job by key; a job left out is asked for again."""

    def cancel(self, handle: Handle) -> None:
        """End the job and everything it started; finished or gone already is fine."""

    def logs(self, handle: Handle, stream: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of stdout or stderr from `offset` on; empty where there is nothing (yet)."""

    def read_output(self, handle: Handle, path: str, limit: int) -> tuple[bytes, int, bool] | None:
        """Content (at most `limit` bytes), whole size and whether it was cut, of a file in the working directory."""

    def eta(self, task: Task) -> float | None:
        """Seconds until the task would start, or None where the back end cannot say."""

    def forget(self, handle: Handle) -> None:
        """Remove what is kept about a finished job; called once its final report was accepted."""


class Factory(Protocol):
    """What the entry point of an engine names."""

    def __call__(self, options: Mapping[str, Any], directory: Path) -> Engine:
        """Build the engine; OptionError for an option that it does not know."""


def find_engine(name: str) -> Factory:
    """The factory of the engine of that name."""
    found = {built_in: EntryPoint(built_in, place, GROUP) for built_in, place in BUILT_IN.items()}
    found.update({point.name: point for point in entry_points(group=GROUP)})
    if name not in found:
        raise OptionError(f"engine: there is no '{name}'{closest(name, found)}; installed: {', '.join(sorted(found))}")
    try:
        factory: Factory = found[name].load()
    except Exception as error:
        raise OptionError(f"engine: '{name}' cannot be loaded: {error}") from error
    return factory


def refuse_unknown(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse an engine option that nobody reads, naming the nearest one."""
    for name in options:
        if name not in known:
            raise OptionError(f"engineOptions.{name}: there is no such option{closest(name, known)}")


def closest(name: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?`, or nothing where nothing is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
