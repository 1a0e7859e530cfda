"""The record of a run: every call, answer and fault in the order of time, and every start and end of a process."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A call of a client and its answer; one without an answer may have had its effect, or not."""

    client: str
    name: str
    request: Mapping[str, Any] = field(default_factory=dict)
    begun: float
    ended: float | None = None  #: when the answer arrived
    status: int | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether it was answered, and not refused."""
        return self.status == 200

    def __str__(self) -> str:
        fields = " ".join(f"{key}={value}" for key, value in self.request.items())
        answered = f"{self.status} {dict(self.answer)}" if self.status else "no answer"
        until = f"{self.ended:.3f}" if self.ended else "…"
        return f"{self.client} {self.name} {fields} → {answered} [{self.begun:.3f}–{until}]"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that was done to the system."""

    name: str
    target: str
    begun: float
    ended: float
    backup: float = 0.0  #: of a restore: when the backup was begun


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A sync that renewed leases, as the proxy of a cluster saw it from one side.

    At the side of the admin it ends when its answer arrives, at that of the agent when the agent has acted on it.
    """

    cluster: str
    side: str  #: admin or agent
    begun: float
    ended: float


@dataclass(frozen=True, kw_only=True)
class Step:
    """The start or the end of a process, as it recorded itself; steps are in the order in which they happened."""

    event: str  #: start or end
    token: str  #: of the creation that it belongs to
    key: str  #: of its native job
    attempt: int
    nonce: str  #: different in each process, and printed by it
    cluster: str
    at: float
    code: int | None = None  #: at the end, its exit status
    is_alone: bool = True  #: at the start: no other process of this execution was running


@dataclass(frozen=True, kw_only=True)
class History:
    """All that is known of a run."""

    operations: tuple[Operation, ...] = ()  #: by the time at which they began
    steps: tuple[Step, ...] = ()
    faults: tuple[Fault, ...] = ()
    exchanges: tuple[Exchange, ...] = ()

    def named(self, *names: str) -> list[Operation]:
        """The operations of some names that were answered and not refused."""
        return [operation for operation in self.operations if operation.name in names and operation.is_done]

    def counts(self, earlier: Operation, later: Operation) -> bool:
        """Whether what the earlier operation saw must still be so for the later one.

        It must be over before the other begins, and no restored backup from before its end may lie between them.
        """
        if earlier.ended is None or later.ended is None or earlier.ended >= later.begun:
            return False
        return not any(
            restore.begun < later.ended and restore.backup < earlier.ended and earlier.begun < restore.ended
            for restore in self.restores
        )

    @property
    def restores(self) -> list[Fault]:
        """The restored backups, which undo what happened since each was made."""
        return [fault for fault in self.faults if fault.backup > 0]


#: Files of a history's directory: what a recorder writes, and what the processes of jobs write themselves.
_CALLS, PROCESSES = "calls", "processes"


class Recorder:
    """Writes the lines of a history to a directory as they happen, so that a run that dies leaves them behind."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / _CALLS).open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)

    def close(self) -> None:
        """Stop recording: what a proxy still hears of is no part of the history."""
        with self._lock:
            self._file.close()

    def call(
        self,
        client: str,
        name: str,
        request: Mapping[str, Any],
        send: Callable[[], tuple[int, Mapping[str, Any]] | None],
    ) -> Operation:
        """Record a call, make it, and record its answer; None stands for no answer."""
        number, begun = next(self._numbers), now()
        line = {"number": number, "client": client, "name": name, "request": dict(request), "begun": begun}
        self._write({"record": "call", **line})
        reply, ended = send(), now()
        if reply is None:
            return Operation(client=client, name=name, request=request, begun=begun)
        status, answer = reply
        self._write({"record": "answer", "number": number, "ended": ended, "status": status, "answer": dict(answer)})
        return Operation(
            client=client, name=name, request=request, begun=begun, ended=ended, status=status, answer=answer
        )

    @contextmanager
    def fault(self, name: str, target: str, backup: float = 0.0) -> Iterator[None]:
        """Record what is done to the system within this context."""
        begun = now()
        try:
            yield
        finally:
            self._write(
                {"record": "fault", "name": name, "target": target, "begun": begun, "ended": now(), "backup": backup}
            )

    def exchange(self, exchange: Exchange) -> None:
        """Record a sync."""
        self._write({"record": "exchange", **vars(exchange)})

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()


def now() -> float:
    """Seconds since the machine's start; no fault changes this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read_history(directory: Path) -> History:
    """The history in a directory."""
    lines = [json.loads(line) for line in (directory / _CALLS).read_text().splitlines()]
    answers = {line["number"]: line for line in lines if line["record"] == "answer"}
    operations = [
        Operation(
            **{key: line[key] for key in ("client", "name", "request", "begun")},
            **{key: answers.get(line["number"], {}).get(key) for key in ("ended", "status")},
            answer=answers.get(line["number"], {}).get("answer", {}),
        )
        for line in lines
        if line["record"] == "call"
    ]
    faults = [Fault(**_without_kind(line)) for line in lines if line["record"] == "fault"]
    exchanges = [Exchange(**_without_kind(line)) for line in lines if line["record"] == "exchange"]
    processes = directory / PROCESSES
    steps = processes.read_text().splitlines() if processes.exists() else []
    return History(
        operations=tuple(sorted(operations, key=lambda operation: operation.begun)),
        steps=tuple(Step(**json.loads(line)) for line in steps),
        faults=tuple(faults),
        exchanges=tuple(exchanges),
    )


def _without_kind(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "record"}
