"""Intents: what the agent means to do about each lease, written down before it does anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from agent.clocks import Clock
from agent.engines.base import Handle
from agent.tasks import key_of

_FORMAT = 2

#: The policy by which work goes on, however long the cluster is silent.
WAIT = "wait"


class Stage(Enum):
    """How far the agent has come with a lease."""

    HELD = "HELD"  # nothing was given to the engine
    SUBMITTING = "SUBMITTING"  # the engine may or may not have it: to be looked up by its key
    SUBMITTED = "SUBMITTED"  # the engine has it
    ENDED = "ENDED"  # it is over; the admin has not accepted its final event yet


class Ending(Enum):
    """Why the agent ends an execution."""

    CANCEL = "CANCEL"  # the admin asks for it
    LOST = "LOST"  # the admin says that this agent no longer has its lease
    EXPIRED = "EXPIRED"  # its lease could not be renewed in time, or another agent serves the cluster
    TIME_LIMIT = "TIME_LIMIT"  # the engine did not enforce its time limit
    STOP = "STOP"  # the agent stops, and it had not started
    WITHDRAW = "WITHDRAW"  # the cluster drains; it goes on if it has started meanwhile
    DRAIN = "DRAIN"  # the cluster's drain is over; it runs elsewhere if it had not started


@dataclass
class Intent:
    """One lease and its progress."""

    lease: dict[str, Any]
    stage: Stage = Stage.HELD
    native_id: str = ""
    running_since: float | None = None  #: when the agent first saw it run, by the steady clock of that boot
    boot: str = ""  #: the boot of which `running_since` is a time
    ending: Ending | None = None
    ending_message: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)  #: not accepted by the admin yet, oldest first
    log_offsets: dict[str, int] = field(default_factory=dict)  #: how many bytes of each stream the admin has
    key: str = ""  #: the name of its native job
    has_run: bool = False  #: an earlier intent of the same attempt, which was over, had seen it run

    def __post_init__(self) -> None:
        self.key = self.key or key_of(self.lease)

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
    def uid(self) -> str:
        """The random id of the execution; empty if an older admin leased it."""
        return str(self.lease.get("uid") or "")

    @property
    def ends_at(self) -> float | None:
        """When its time limit is over, by the steady clock; None where it has none, or has not been seen to run."""
        limit = self.lease.get("time_limit_seconds")
        return None if limit is None or self.running_since is None else self.running_since + float(limit)

    @property
    def on_lost(self) -> str | None:
        """What becomes of it when the cluster is silent; None if the admin did not say."""
        return self.lease.get("on_lost")

    @property
    def output_limit_bytes(self) -> int | None:
        """How much of each output file the admin takes in pieces; None if it is an older one, which takes none."""
        return self.lease.get("output_limit_bytes")

    @property
    def handle(self) -> Handle:
        """Its native job."""
        return Handle(self.key, self.native_id)

    @property
    def reference(self) -> dict[str, Any]:
        """Execution and attempt, as requests to the admin name them."""
        return {"id": self.id, "attempt": self.attempt, **({"uid": self.uid} if self.uid else {})}

    def is_of(self, reference: Mapping[str, Any]) -> bool:
        """Whether the admin means it by a reference; one of them may be without a uid."""
        is_same = self.id == reference["id"] and self.attempt == reference["attempt"]
        return is_same and (not self.uid or reference.get("uid", "") in ("", self.uid))

    def take_ending(self, past: Intent) -> None:
        """Take over why the agent ended the same attempt before: for a reason of its own, not by an abort."""
        self.has_run = past.has_run
        if past.ending not in (None, Ending.CANCEL, Ending.DRAIN):
            # A lease that was another's before the admin's database was restored is not any more.
            self.ending = Ending.EXPIRED if past.ending is Ending.LOST else past.ending
            self.ending_message = past.ending_message

    def to_document(self) -> dict[str, Any]:
        """The intent as it is stored."""
        ending = self.ending.value if self.ending else None
        return {"format": _FORMAT, **vars(self), "stage": self.stage.value, "ending": ending}

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Intent:
        """An intent as it was stored; ValueError, KeyError or TypeError if the document is not one."""
        if document["format"] == 1:
            # It measured time by the wall clock, and the keys of its jobs have no uid.
            key = key_of({**document["lease"], "uid": ""})
            document = {**document, "format": _FORMAT, "boot": "", "key": key}
        if document["format"] != _FORMAT:
            raise ValueError("written by another version of the agent")
        document = {"has_run": False, **document}  # which older agents do not store
        intent = cls(**{entry.name: document[entry.name] for entry in fields(cls)})
        intent.stage = Stage(intent.stage)
        intent.ending = Ending(intent.ending) if intent.ending else None
        return intent


class Intents(dict[str, Intent]):
    """Every lease that the agent holds, by the key of its job."""

    def in_stage(self, stage: Stage) -> list[Intent]:
        """Those that have come so far."""
        return [intent for intent in self.values() if intent.stage is stage]

    def find(self, reference: Mapping[str, Any]) -> Intent | None:
        """The one that the admin means, by its key; one of an older agent or admin by its execution."""
        key = key_of(reference)
        if key in self:
            return self[key]
        return next((intent for intent in self.values() if intent.is_of(reference)), None)

    def find_all(self, references: Iterable[Mapping[str, Any]]) -> list[Intent]:
        """Those that the admin means, without any that are not here."""
        intents = (self.find(reference) for reference in references)
        return [intent for intent in intents if intent is not None]

    @property
    def active(self) -> int:
        """How many executions occupy a slot."""
        return sum(1 for intent in self.values() if intent.stage is not Stage.ENDED)

    def seconds_until_slot(self, slots: int, now: float) -> float:
        """In how many seconds a slot is free by the time limits of what runs; 0 where they do not tell.

        `now` is a time of the steady clock.
        """
        over = self.active - slots
        ends = [intent.ends_at for intent in self.values() if intent.stage is not Stage.ENDED]
        known = sorted(end - now for end in ends if end is not None)
        return max(0.0, known[over]) if 0 <= over < len(known) else 0.0

    @property
    def begun(self) -> dict[str, Intent]:
        """Those whose jobs run, or have ended, by key."""
        return {
            key: intent
            for key, intent in self.items()
            if intent.native_id and (intent.running_since is not None or intent.stage is Stage.ENDED)
        }

    @property
    def guarded(self) -> int:
        """How many executions in the engine must end when their leases are over."""
        return sum(1 for intent in self.in_stage(Stage.SUBMITTED) if intent.on_lost != WAIT)

    @property
    def is_ending(self) -> bool:
        """Whether something is being ended and has not ended yet."""
        return any(intent.ending for intent in self.values() if intent.stage is not Stage.ENDED)

    @property
    def is_unsettled(self) -> bool:
        """Whether a stopping agent still has something to hand back, to look up or to report."""
        return any(
            intent.events or intent.stage in (Stage.HELD, Stage.SUBMITTING) or intent.ending is Ending.STOP
            for intent in self.values()
        )

    def counts(self) -> dict[str, int]:
        """How many executions run, are queued in the engine, are to be submitted, and are to be reported."""
        submitted = self.in_stage(Stage.SUBMITTED)
        running = sum(1 for intent in submitted if intent.running_since is not None)
        return {
            "running": running,
            "queued": len(submitted) - running,
            "held": sum(1 for intent in self.values() if intent.stage in (Stage.HELD, Stage.SUBMITTING)),
            "ended": len(self.in_stage(Stage.ENDED)),
        }


class Turns:
    """The turns of executions within one step; those that have had theirs come last in the next one.

    What is slow is done about some executions at a time, so that leases are renewed in between.
    """

    def __init__(self, intents: Intents, clock: Clock) -> None:
        self._intents = intents
        self._clock = clock
        self._end_at = 0.0

    def begin(self, seconds: float) -> None:
        """Give turns from now on for so long."""
        self._end_at = self._clock.steady() + seconds

    def take(self, intent: Intent) -> bool:
        """Whether it is the turn of an execution."""
        if self._clock.steady() > self._end_at:
            return False
        self._intents[intent.key] = self._intents.pop(intent.key)
        return True
