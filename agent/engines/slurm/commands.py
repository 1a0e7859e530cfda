"""Slurm's commands, each with a time limit, and what they print as values.

With the controller down every one of them would block for about ten seconds. Times are asked for in UTC.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.engines.base import EngineError, EngineUnavailable

#: What belongs to a login; nothing else of the agent's environment is passed on to Slurm or to jobs.
LOGIN = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")

_PROGRAMS = ("sbatch", "squeue", "scontrol", "scancel")
_SILENT = re.compile(
    r"unable to contact|socket timed out|timed out on send|connection (refused|reset|timed out)|zero bytes were|"
    r"transport endpoint|temporarily un|standby|protocol authentication|unable to establish|slurmdbd|munge",
    re.IGNORECASE,
)
_GONE = re.compile(r"invalid job id", re.IGNORECASE)
_PREFIX = re.compile(
    r"^(sbatch|squeue|scontrol|scancel|sacct|allocation failure)(: error)?: |batch job submission failed: ", re.I
)
#: Jobs asked for in one command: ids go on the command line.
_AT_ONCE = 500
_QUEUE_FIELDS = ("JobID", "Name", "State", "exit_code", "StartTime", "EndTime", "NodeList", "Reason")
_ACCOUNTING_FIELDS = "JobIDRaw,JobName,State,ExitCode,Start,End,NodeList"
_COMPLETED_TAIL_BYTES = 4 << 20
#: Lists of nodes remembered, so that a job on many nodes does not cost a command at each look.
_UNFOLDED = 10_000


@dataclass(frozen=True)
class NativeJob:
    """A job as Slurm shows it."""

    id: str
    name: str
    #: One of Slurm's states, without what it may say after it.
    state: str
    exit_code: int = 0
    signal: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    #: The nodes, still folded together: `n[1-3]`.
    nodes: str = ""
    reason: str = ""


class Refusal(EngineError):
    """Slurm answered, and said no."""


class SlurmCommands:
    """One cluster's commands."""

    def __init__(self, configuration: str, timeout_seconds: float) -> None:
        self.environment = {name: os.environ[name] for name in LOGIN if name in os.environ}
        configuration = configuration or os.environ.get("SLURM_CONF", "")
        if configuration:
            self.environment["SLURM_CONF"] = configuration
        self.timeout_seconds = timeout_seconds
        self._silent_until = 0.0
        self._settings: dict[str, str] | None = None
        self._unfolded: dict[str, tuple[str, ...]] = {}
        for program in _PROGRAMS:
            if shutil.which(program) is None:
                raise EngineError(
                    f"engine slurm: there is no {program} on PATH: install Slurm's commands where the agent runs, or "
                    "add their directory to its PATH"
                )

    def run(self, program: str, *arguments: str, script: str = "", holding: int | None = None) -> tuple[str, str]:
        """What a command printed on both streams; Refusal where it failed, EngineUnavailable where nobody answered."""
        now = time.monotonic()
        if now < self._silent_until:
            raise EngineUnavailable("Slurm's controller did not answer a moment ago")
        # What changes something gets more time: a submission cut short may yet be carried out.
        seconds = self.timeout_seconds * (3 if program in ("sbatch", "scancel") else 1)
        try:
            done = subprocess.run(
                [program, *arguments],
                env=self._environment(plain=program == "sbatch" and "--test-only" not in arguments),
                input=script,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                pass_fds=() if holding is None else (holding,),
            )
        except subprocess.TimeoutExpired:
            raise self._unavailable(f"{program} got no answer from Slurm's controller in {seconds:g} s") from None
        except OSError as error:
            raise self._unavailable(f"{program} cannot be started: {error.strerror}") from error
        if done.returncode == 0:
            return done.stdout, done.stderr
        said = _said(done.stderr) or f"{program} ended with status {done.returncode}"
        if _SILENT.search(done.stderr):
            raise self._unavailable(said)
        raise Refusal(said)

    def _environment(self, *, plain: bool) -> dict[str, str]:
        # What sbatch has in its environment reaches the job.
        return self.environment if plain else {**self.environment, "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}

    def _unavailable(self, reason: str) -> EngineUnavailable:
        """Each call would wait as long again: for a while none is made."""
        self._silent_until = time.monotonic() + self.timeout_seconds
        return EngineUnavailable(f"{reason}; it is asked again later")

    def version(self) -> str:
        """Slurm's version."""
        return self.run("sbatch", "--version")[0].strip().rpartition(" ")[2]

    def jobs(self, ids: Sequence[str]) -> dict[str, NativeJob]:
        """Jobs that the controller knows, by id."""
        found: dict[str, NativeJob] = {}
        for start in range(0, len(ids), _AT_ONCE):
            asked = ",".join(ids[start : start + _AT_ONCE])
            try:
                found |= {job.id: job for job in self._queue("--jobs", asked)}
            except Refusal as refusal:
                if not _GONE.search(str(refusal)):
                    raise EngineUnavailable(str(refusal)) from refusal
        return found

    def named(self, name: str) -> list[NativeJob]:
        """Our jobs of that name that the controller knows, oldest first."""
        try:
            found = self._queue("--name", name, "--user", str(os.geteuid()))
        except Refusal as refusal:
            raise EngineUnavailable(str(refusal)) from refusal
        return sorted(found, key=lambda job: int(job.id))

    def _queue(self, *which: str) -> list[NativeJob]:
        fields = ",".join(f"{field}:|" for field in _QUEUE_FIELDS)
        printed, _ = self.run("squeue", "--noheader", "--all", "--states=all", *which, "--Format", fields)
        rows = (line.strip().split("|")[: len(_QUEUE_FIELDS)] for line in printed.splitlines())
        return [_from_queue(row) for row in rows if len(row) == len(_QUEUE_FIELDS)]

    def past_jobs(self, *, ids: Sequence[str] = (), name: str = "") -> list[NativeJob]:
        """Jobs that the controller has forgotten, from accounting or the completion log, where there is one."""
        if "slurmdbd" in self.settings().get("AccountingStorageType", ""):
            which = ["--jobs", ",".join(ids)] if ids else ["--name", name]
            # Without a start sacct would look at today only.
            since = (datetime.now(UTC) - timedelta(days=31)).strftime("%Y-%m-%dT%H:%M:%S")
            printed, _ = self.run(
                *("sacct", "--allocations", "--noheader", "--parsable2", "--starttime", since),
                *(*which, "--format", _ACCOUNTING_FIELDS),
            )
            return [_from_accounting(line.split("|")) for line in printed.splitlines() if line.count("|") == 6]
        return [job for job in self._completed() if (job.id in ids if ids else job.name == name)]

    def _completed(self) -> Iterator[NativeJob]:
        """The end of the completion log, where the controller writes one and the agent may read it."""
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
                yield _from_completed(fields)

    def settings(self) -> dict[str, str]:
        """The controller's configuration."""
        if self._settings is None:
            try:
                printed, _ = self.run("scontrol", "show", "config")
            except Refusal as refusal:
                raise EngineUnavailable(str(refusal)) from refusal
            self._settings = dict(re.findall(r"^(\w+) *= (.*?) *$", printed, re.MULTILINE))
        return self._settings

    def records(self, *arguments: str) -> list[dict[str, str]]:
        """What `scontrol show` prints of nodes or partitions, one mapping each."""
        try:
            printed, _ = self.run("scontrol", "--all", "--oneliner", *arguments)
        except Refusal as refusal:
            raise EngineUnavailable(str(refusal)) from refusal
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in printed.splitlines() if "=" in line]

    def unfolded(self, nodes: str) -> tuple[str, ...]:
        """The single names in `n[1-3]`."""
        if not nodes:
            return ()
        if "[" not in nodes and "," not in nodes:
            return (nodes,)
        if nodes not in self._unfolded:
            if len(self._unfolded) >= _UNFOLDED:
                self._unfolded.clear()
            self._unfolded[nodes] = tuple(self.run("scontrol", "show", "hostnames", nodes)[0].split())
        return self._unfolded[nodes]


def _said(text: str) -> str:
    """The reason in what a command printed, without names of programs."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        while (shorter := _PREFIX.sub("", line)) != line:
            line = shorter
        lines[number] = line
    return "; ".join(dict.fromkeys(lines))


def _from_queue(row: Sequence[str]) -> NativeJob:
    job_id, name, state, status, start, end, nodes, reason = (field.strip() for field in row)
    code, signal = _split_status(status)
    return NativeJob(
        job_id, name, _word(state), code, signal, _moment(start), _moment(end), _given(nodes), _given(reason)
    )


def _from_accounting(row: Sequence[str]) -> NativeJob:
    job_id, name, state, status, start, end, nodes = row
    return NativeJob(job_id, name, _word(state), *_split_status(status), _moment(start), _moment(end), _given(nodes))


def _from_completed(fields: Mapping[str, str]) -> NativeJob:
    # The controller writes its own local time, and the log is read on its machine.
    start, end = (_moment(fields.get(name, ""), local=True) for name in ("StartTime", "EndTime"))
    status = _split_status(fields["ExitCode"])
    return NativeJob(
        fields["JobId"],
        fields["Name"],
        _word(fields["JobState"]),
        *status,
        start,
        end,
        _given(fields.get("NodeList", "")),
    )


def _split_status(text: str) -> tuple[int, int]:
    """Exit code and signal, from `3:0` or from what wait() says."""
    if ":" in text:
        code, _, signal = text.partition(":")
        return int(code), int(signal)
    status = int(text) if text.isdigit() else 0
    return status >> 8 & 0xFF, status & 0x7F


def _word(state: str) -> str:
    """`CANCELLED by 1000` and `CANCELLED+` are CANCELLED."""
    return state.split(" ")[0].rstrip("+")


def _given(text: str) -> str:
    return "" if text in ("None", "(null)", "None assigned") else text


def _moment(text: str, *, local: bool = False) -> datetime | None:
    """A time; None for N/A, Unknown, NONE and the like."""
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return None
    return found.astimezone(UTC) if local else found.replace(tzinfo=UTC)
