"""Intents: what the agent holds leases of, one file each, written before anything is done about it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from agent.engines.base import Handle
from agent.files import read_json, write_json
from agent.keys import key_of

_FORMAT = 1


class StateError(Exception):
    """The state directory cannot be used, with the reason and the remedy."""


class Stage(Enum):
    """How far the agent has come with a lease."""

    #: Nothing was given to the engine.
    HELD = "HELD"
    #: The engine may or may not have it: to be looked up by its key.
    SUBMITTING = "SUBMITTING"
    #: The engine has it.
    SUBMITTED = "SUBMITTED"
    #: It is over; its final event is still to be accepted.
    ENDED = "ENDED"


class Ending(Enum):
    """Why the agent ends an execution."""

    CANCEL = "CANCEL"
    #: The admin says that it is not ours (any more).
    LOST = "LOST"
    #: The lease could not be renewed in time.
    EXPIRED = "EXPIRED"
    #: Its engine did not keep its time limit.
    TIME_LIMIT = "TIME_LIMIT"
    #: The agent stops, and it had not started.
    STOP = "STOP"


@dataclass
class Intent:
    """One lease, and what became of it."""

    lease: dict[str, Any]
    stage: Stage = Stage.HELD
    native_id: str = ""
    #: When the agent first saw it run, by the wall clock.
    running_since: float | None = None
    ending: Ending | None = None
    ending_message: str = ""
    #: Reports that the admin has not accepted yet, in order.
    events: list[dict[str, Any]] = field(default_factory=list)
    #: How many bytes of each stream the admin has.
    log_offsets: dict[str, int] = field(default_factory=dict)

    @property
    def id(self) -> dict[str, str]:
        """Project, domain and name of the execution."""
        identity: dict[str, str] = self.lease["id"]
        return identity

    @property
    def attempt(self) -> int:
        """The fencing number."""
        return int(self.lease["attempt"])

    @property
    def key(self) -> str:
        """What its native job is called."""
        return key_of(self.id, self.attempt)

    @property
    def handle(self) -> Handle:
        """Its native job."""
        return Handle(self.key, self.native_id)

    @property
    def held(self) -> dict[str, Any]:
        """Execution and attempt, as the admin wants to hear of it."""
        return {"id": self.id, "attempt": self.attempt}

    def document(self) -> dict[str, Any]:
        """As it is written down."""
        return {
            "format": _FORMAT,
            "lease": self.lease,
            "stage": self.stage.value,
            "native_id": self.native_id,
            "running_since": self.running_since,
            "ending": self.ending.value if self.ending else None,
            "ending_message": self.ending_message,
            "events": self.events,
            "log_offsets": self.log_offsets,
        }

    @classmethod
    def of(cls, document: dict[str, Any]) -> Intent:
        """From what was written down; ValueError or KeyError where that is not one of ours."""
        if document["format"] != _FORMAT:
            raise ValueError("of another version of the agent")
        intent = cls(
            lease=document["lease"],
            stage=Stage(document["stage"]),
            native_id=document["native_id"],
            running_since=document["running_since"],
            ending=Ending(document["ending"]) if document["ending"] else None,
            ending_message=document["ending_message"],
            events=document["events"],
            log_offsets=document["log_offsets"],
        )
        if not intent.key:
            raise ValueError("without an execution")
        return intent


class StateDirectory:
    """What the agent must not forget, in a directory that one agent at a time may use.

    lock        held (flock) by the agent
    intents/    one file a lease, called after its key
    jobs/       one directory a job, the engine's to fill
    renewed     when the leases were last renewed
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.jobs = path / "jobs"
        self._intents = path / "intents"
        self._renewed = path / "renewed"
        try:
            for directory in (path, self.jobs, self._intents):
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StateError(f"stateDirectory: {path} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StateError(
                f"stateDirectory: another agent uses {path}: end that one, or give this one a directory of its own"
            ) from None

    def close(self) -> None:
        """Let another agent use the directory."""
        os.close(self._lock)

    def intents(self) -> tuple[list[Intent], list[str]]:
        """Every intent that an earlier agent left, and the problems of those that cannot be read."""
        found, problems = [], []
        for path in self._files():
            try:
                document = read_json(path)
                if document is None:
                    raise ValueError("not JSON")
                found.append(Intent.of(document))
            except (ValueError, KeyError, TypeError) as error:
                # The admin will ask about what it holds, and the engine knows it by its key.
                aside = path.with_suffix(".unreadable")
                path.replace(aside)
                problems.append(f"the intent {path.name} cannot be read ({error}); it is set aside as {aside.name}")
        return found, problems

    def _files(self) -> Iterator[Path]:
        return iter(sorted(self._intents.glob("*.json")))

    def save(self, intent: Intent, *, is_durable: bool = True) -> None:
        """Write an intent down, on the disk when this returns; or only so that a crash of the agent cannot hurt it."""
        write_json(self._intents / f"{intent.key}.json", intent.document(), is_durable=is_durable)

    def remove(self, intent: Intent) -> None:
        """Forget an intent; one that comes back when the machine crashes is looked up and found to be over."""
        (self._intents / f"{intent.key}.json").unlink(missing_ok=True)

    def note_renewal(self, boot: str, at: float, lease_seconds: float) -> None:
        """Remember when leases were renewed; only a crash of the agent needs it, so that it need not reach the disk."""
        draft = self._renewed.with_suffix(".new")
        draft.write_text(f"{boot} {at} {lease_seconds}")
        draft.replace(self._renewed)

    def last_renewal(self, boot: str) -> tuple[float, float] | None:
        """When leases were last renewed in this run of the machine, and for how long."""
        try:
            then, at, seconds = self._renewed.read_text().split()
            return (float(at), float(seconds)) if then == boot else None
        except (OSError, ValueError):
            return None
