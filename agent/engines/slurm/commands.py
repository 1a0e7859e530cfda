"""Slurm's commands, each with a time limit, and their output as values.

Without a time limit each would block for about ten seconds while the controller is down. Times are requested in UTC.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.clocks import SYSTEM_CLOCK, Clock
from agent.engines.base import EngineError, EngineUnavailable

#: The variables of the agent's environment that are passed on to Slurm and to jobs.
LOGIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")

_PROGRAMS = ("sbatch", "squeue", "scontrol", "scancel")
_NO_ANSWER = re.compile(
    r"unable to contact|socket timed out|timed out on send|connection (refused|reset|timed out)|zero bytes were|"
    r"transport endpoint|temporarily un|standby|protocol authentication|unable to establish|slurmdbd|munge",
    re.IGNORECASE,
)
_UNKNOWN_JOB = re.compile(r"invalid job id", re.IGNORECASE)
_PREFIX = re.compile(
    r"^(sbatch|squeue|scontrol|scancel|sacct|allocation failure)(: error)?: |batch job submission failed: ", re.I
)
#: The most ids in one command line.
_MOST_IDS = 500
_QUEUE_FIELDS = ("JobID", "Name", "State", "exit_code", "StartTime", "EndTime", "NodeList", "Reason", "tres-alloc")
_ACCOUNTING_FIELDS = "JobIDRaw,JobName,State,ExitCode,Start,End,NodeList"
_COMPLETED_FIELDS = ("JobId", "Name", "JobState", "ExitCode", "StartTime", "EndTime", "NodeList")
_COMPLETED_TAIL_BYTES = 4 << 20
#: The most node lists to remember, so that a job on many nodes does not cost a command at each poll.
_MOST_NODE_LISTS = 10_000


@dataclass(frozen=True)
class NativeJob:
    """A job as Slurm shows it."""

    id: str
    name: str
    #: One of Slurm's states, without the details that may follow it.
    state: str
    exit_code: int = 0
    signal: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    #: The node list, unexpanded: `n[1-3]`.
    nodes: str = ""
    reason: str = ""
    #: What it has of its nodes: `cpu=4,mem=2G,node=1,billing=4,gres/gpu=1`.
    allocated: str = ""


class Refusal(EngineError):
    """Slurm answered, and refused the command."""


class SlurmCommands:
    """The commands of one cluster."""

    def __init__(self, configuration: str, timeout_seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.environment = {name: os.environ[name] for name in LOGIN if name in os.environ}
        configuration = configuration or os.environ.get("SLURM_CONF", "")
        if configuration:
            self.environment["SLURM_CONF"] = configuration
        self.timeout_seconds = timeout_seconds
        self._clock = clock
        self._unavailable_until = 0.0
        self._settings: dict[str, str] | None = None
        self._node_lists: dict[str, tuple[str, ...]] = {}
        for program in _PROGRAMS:
            if shutil.which(program) is None:
                raise EngineError(
                    f"engine slurm: there is no {program} on PATH: install Slurm's commands where the agent runs, or "
                    "add their directory to its PATH"
                )

    def run(
        self,
        program: str,
        *arguments: str,
        script: str = "",
        holding: int | None = None,
        answer_seconds: float | None = None,
    ) -> tuple[str, str]:
        """The output of a command on both streams; Refusal if it failed, EngineUnavailable if Slurm did not answer.

        `answer_seconds` is how long its answer is worth something, where that may be less than Slurm is waited for.
        """
        if self._clock.steady() < self._unavailable_until:
            raise EngineUnavailable("Slurm's controller did not answer a moment ago")
        # Commands that change something get more time: Slurm may carry out a submission that was interrupted.
        is_change = program == "scancel" or (program == "sbatch" and "--test-only" not in arguments)
        longest = self.timeout_seconds * (3 if is_change else 1)
        seconds = longest if answer_seconds is None else min(longest, answer_seconds)
        try:
            done = subprocess.run(
                [program, *arguments],
                env=self._environment(plain=program == "sbatch" and is_change),
                input=script,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                pass_fds=() if holding is None else (holding,),
            )
        except subprocess.TimeoutExpired:
            reason = f"{program} got no answer from Slurm's controller in {seconds:g} s"
            raise (self._unavailable(reason) if seconds == longest else EngineUnavailable(reason)) from None
        except OSError as error:
            raise self._unavailable(f"{program} cannot be started: {error.strerror}") from error
        if done.returncode == 0:
            return done.stdout, done.stderr
        reason = _reason(done.stderr) or f"{program} ended with status {done.returncode}"
        if _NO_ANSWER.search(done.stderr):
            raise self._unavailable(reason)
        raise Refusal(reason)

    def _environment(self, *, plain: bool) -> dict[str, str]:
        # The job gets the environment of sbatch.
        return self.environment if plain else {**self.environment, "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}

    def _unavailable(self, reason: str) -> EngineUnavailable:
        """An error after which no command is run for a while, because each would wait for the time limit again."""
        self._unavailable_until = self._clock.steady() + self.timeout_seconds
        return EngineUnavailable(f"{reason}; the agent tries again later")

    def version(self) -> str:
        """Slurm's version."""
        return self.run("sbatch", "--version")[0].strip().rpartition(" ")[2]

    def jobs(self, ids: Sequence[str]) -> dict[str, NativeJob]:
        """Jobs that the controller knows, by id."""
        jobs: dict[str, NativeJob] = {}
        for start in range(0, len(ids), _MOST_IDS):
            listed = ",".join(ids[start : start + _MOST_IDS])
            try:
                jobs |= {job.id: job for job in self._queue("--jobs", listed)}
            except Refusal as refusal:
                if not _UNKNOWN_JOB.search(str(refusal)):
                    raise EngineUnavailable(str(refusal)) from refusal
        return jobs

    def named(self, name: str) -> list[NativeJob]:
        """This user's jobs of that name that the controller knows, oldest first."""
        with _refusal_is_unavailable():
            jobs = self._queue("--name", name, "--user", str(os.geteuid()))
        return sorted(jobs, key=lambda job: int(job.id))

    def _queue(self, *selection: str) -> list[NativeJob]:
        fields = ",".join(f"{field}:|" for field in _QUEUE_FIELDS)
        printed, _ = self.run("squeue", "--noheader", "--all", "--states=all", *selection, "--Format", fields)
        rows = (line.strip().split("|")[: len(_QUEUE_FIELDS)] for line in printed.splitlines())
        return [_native_job(field.strip() for field in row) for row in rows if len(row) == len(_QUEUE_FIELDS)]

    def past_jobs(self, *, ids: Sequence[str] = (), name: str = "") -> list[NativeJob]:
        """Jobs that the controller has forgotten, from accounting or the completion log, if the site has either."""
        if "slurmdbd" in self.settings().get("AccountingStorageType", ""):
            selection = ["--jobs", ",".join(ids)] if ids else ["--name", name]
            # By default sacct shows jobs of today only.
            since = (self._clock.now() - timedelta(days=31)).strftime("%Y-%m-%dT%H:%M:%S")
            printed, _ = self.run(
                *("sacct", "--allocations", "--noheader", "--parsable2", "--starttime", since),
                *(*selection, "--format", _ACCOUNTING_FIELDS),
            )
            return [_native_job(line.split("|")) for line in printed.splitlines() if line.count("|") == 6]
        return [job for job in self._completed() if (job.id in ids if ids else job.name == name)]

    def _completed(self) -> Iterator[NativeJob]:
        """The jobs at the end of the completion log, if the controller writes one and the agent can read it."""
        if self.settings().get("JobCompType") != "jobcomp/filetxt":
            return
        try:
            with Path(self.settings().get("JobCompLoc", "")).open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _COMPLETED_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return
        for line in text.splitlines():
            fields = dict(re.findall(r"(\w+)=(\S*)", line))
            if fields.keys() >= {"JobId", "Name", "JobState", "ExitCode"}:
                # The log is in the local time of the controller, which is taken to be that of the agent.
                yield _native_job((fields.get(name, "") for name in _COMPLETED_FIELDS), local=True)

    def settings(self) -> dict[str, str]:
        """The controller's configuration."""
        if self._settings is None:
            with _refusal_is_unavailable():
                printed, _ = self.run("scontrol", "show", "config")
            self._settings = dict(re.findall(r"^(\w+) *= (.*?) *$", printed, re.MULTILINE))
        return self._settings

    def records(self, *arguments: str) -> list[dict[str, str]]:
        """The nodes or partitions that `scontrol show` prints, one mapping each."""
        with _refusal_is_unavailable():
            printed, _ = self.run("scontrol", "--all", "--oneliner", *arguments)
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in printed.splitlines() if "=" in line]

    def expand_nodes(self, nodes: str) -> tuple[str, ...]:
        """The names in a node list such as `n[1-3]`."""
        if not nodes:
            return ()
        if "[" not in nodes and "," not in nodes:
            return (nodes,)
        if nodes not in self._node_lists:
            if len(self._node_lists) >= _MOST_NODE_LISTS:
                self._node_lists.clear()
            self._node_lists[nodes] = tuple(self.run("scontrol", "show", "hostnames", nodes)[0].split())
        return self._node_lists[nodes]


@contextmanager
def _refusal_is_unavailable() -> Iterator[None]:
    """For questions that Slurm refuses only if something is wrong with it."""
    try:
        yield
    except Refusal as refusal:
        raise EngineUnavailable(str(refusal)) from refusal


def _reason(text: str) -> str:
    """The error messages of a command, without the names of programs."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        while (shorter := _PREFIX.sub("", line)) != line:
            line = shorter
        lines[number] = line
    return "; ".join(dict.fromkeys(lines))


def _native_job(fields: Iterable[str], *, local: bool = False) -> NativeJob:
    """A job from the texts that Slurm prints, in the order of `_QUEUE_FIELDS`; the last two may be missing."""
    id, name, state, status, start, end, nodes, *details = fields
    reason, allocated = details or ("", "")
    code, signal = _split_status(status)
    return NativeJob(
        id,
        name,
        # `CANCELLED by 1000` and `CANCELLED+` are CANCELLED.
        state.split(" ")[0].rstrip("+"),
        code,
        signal,
        _moment(start, local=local),
        _moment(end, local=local),
        _value(nodes),
        _value(reason),
        _value(allocated),
    )


def _split_status(text: str) -> tuple[int, int]:
    """Exit code and signal, from `3:0` or from a wait status."""
    if ":" in text:
        code, _, signal = text.partition(":")
        return int(code), int(signal)
    status = int(text) if text.isdigit() else 0
    return status >> 8 & 0xFF, status & 0x7F


def _value(text: str) -> str:
    return "" if text in ("None", "(null)", "None assigned") else text


def _moment(text: str, *, local: bool = False) -> datetime | None:
    """A time that Slurm printed; None for N/A, Unknown, NONE and the like."""
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None
    return moment.astimezone(UTC) if local else moment.replace(tzinfo=UTC)
