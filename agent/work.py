"""The work in hand: each lease from its intent to its final event, and what the engine says of it.

Every step is written down before the next one is taken. What a crash interrupts is found again by its key: nothing is
submitted without being looked up first, and nothing without a lease that the admin has confirmed to this process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from agent import reports
from agent.clocks import boot_id, steady
from agent.crashes import crash_point
from agent.engines.base import EngineUnavailable, NativePhase, NativeState, SubmitRefused, Task
from agent.engines.careful import CarefulEngine
from agent.guard import LeaseGuard
from agent.intents import Ending, Intent, Stage, StateDirectory
from agent.keys import key_of
from agent.log_pieces import LogPieces

log = logging.getLogger("rainbow.agent")

#: How often a job that does not end is told again to.
_CANCEL_SECONDS = 5.0
#: How long after its time limit a job may still run before the agent ends it in the engine's stead.
_OVERTIME_SECONDS = 30.0
#: How long the final event waits for the rest of the log while the admin takes none of it.
_LOG_SECONDS = 60.0
#: The least that must be left of a lease to start work with it.
_START_SECONDS = 1.0
#: What work found at the start may go on for until the admin was asked, however old its lease.
_GRACE_SECONDS = 10.0


class Work:
    """Everything that the agent holds a lease of."""

    def __init__(
        self,
        engine: CarefulEngine,
        state: StateDirectory,
        guard: LeaseGuard,
        *,
        cluster: str,
        slots: int,
        poll_seconds: float,
    ) -> None:
        self.engine = engine
        self.guard = guard
        self.logs = LogPieces(engine)
        self.intents: dict[str, Intent] = {}
        self.native: dict[str, NativeState] = {}
        #: Events without an intent: declined offers and answers to questions. What is lost of them is asked again.
        self.loose: dict[str, dict[str, Any]] = {}
        #: Why the engine cannot be reached, while it cannot.
        self.trouble = ""
        self.is_stopping = False
        self._state = state
        self._cluster = cluster
        self._slots = slots
        self._poll_seconds = poll_seconds
        self._observe_at = 0.0
        self._boot = boot_id()
        self._confirmed: set[str] = set()
        self._cancelled_at: dict[str, float] = {}
        self._log_deadline: dict[str, float] = {}

    # At the start

    def recover(self) -> None:
        """Take up what an earlier process of this agent left."""
        found, problems = self._state.intents()
        for problem in problems:
            log.error("%s", problem)
        renewal = self._state.last_renewal(self._boot)
        if renewal is not None:
            self.guard.lease_seconds = renewal[1]
        least = steady() - self.guard.lease_seconds + self.guard.margin_seconds + _GRACE_SECONDS
        for intent in found:
            self.intents[intent.key] = intent
            self.guard.renew(intent.key, max(least, renewal[0] if renewal else least))
        if found:
            log.info("taking up %d executions of an earlier run", len(found))

    # With the engine

    def step(self) -> None:
        """Look at everything once, and do what can be done."""
        self.trouble = ""
        for step in (self._look_up, self._observe, self._watch_leases, self._end, self._submit):
            try:
                step()
            except EngineUnavailable as error:
                self.trouble = str(error)
            except OSError as error:
                self.trouble = f"the state directory cannot be written: {error.strerror}"

    def _look_up(self) -> None:
        """Find out about submissions that were cut short."""
        for intent in self._in(Stage.SUBMITTING):
            handle = self.engine.find(intent.key)
            intent.native_id = handle.native_id if handle else ""
            self._move(intent, Stage.SUBMITTED if handle else Stage.HELD)
            log.info("%s: %s", intent.key, "adopted" if handle else "had not been submitted")
            if intent.ending is not None and handle is None:
                self._end_unstarted(intent)

    def _observe(self) -> None:
        """Take note of what runs and what has ended."""
        submitted = self._in(Stage.SUBMITTED)
        if not submitted or steady() < self._observe_at:
            return
        self._observe_at = steady() + self._poll_seconds
        states = self.engine.states([intent.handle for intent in submitted])
        for intent in submitted:
            state = states.get(intent.key)
            if state is None:
                continue
            self.native[intent.key] = state
            if state.phase is NativePhase.RUNNING:
                self._runs(intent, state)
            elif state.phase.finished:
                crash_point("after-finish")
                if intent.running_since is None and state.started_at is not None:
                    # It was over before anyone looked, but it did run.
                    intent.events.append(reports.running(intent, state))
                self._ended(intent, reports.final(intent, state, reports.read_outputs(self.engine, intent)))

    def _runs(self, intent: Intent, state: NativeState) -> None:
        if intent.running_since is None:
            intent.running_since = time.time()
            intent.events.append(reports.running(intent, state))
            self._note(intent)
            log.info("%s: running", intent.key)
            crash_point("after-running")
        limit = intent.lease.get("time_limit_seconds")
        if limit is not None and time.time() > intent.running_since + float(limit) + _OVERTIME_SECONDS:
            self.end(intent, Ending.TIME_LIMIT, f"It ran longer than its limit of {float(limit):g} s.")

    def _ended(self, intent: Intent, event: dict[str, Any]) -> None:
        intent.events.append(event)
        self._log_deadline[intent.key] = steady() + _LOG_SECONDS
        self._move(intent, Stage.ENDED)
        log.info(
            "%s: %s", intent.key, " ".join(str(event[part]) for part in ("type", "reason", "message") if part in event)
        )

    def _watch_leases(self) -> None:
        """End what the admin may soon give to others."""
        now = steady()
        for intent in self.intents.values():
            if self.guard.seconds_left(intent.key, now) > 0:
                continue
            self._confirmed.discard(intent.key)
            if intent.stage in (Stage.SUBMITTING, Stage.SUBMITTED) and intent.ending is None:
                seconds = self.guard.lease_seconds - self.guard.margin_seconds
                message = (
                    f"Its agent could not reach the admin for {seconds:g} s and ended it before its lease was over."
                )
                self.end(intent, Ending.EXPIRED, message)

    def _end(self) -> None:
        """Cancel what must end, again and again until it has."""
        for intent in self._in(Stage.SUBMITTED):
            again_at = self._cancelled_at.get(intent.key, 0.0) + _CANCEL_SECONDS
            if intent.ending is not None and steady() >= again_at:
                self._cancelled_at[intent.key] = steady()
                self.engine.cancel(intent.handle)

    def _submit(self) -> None:
        """Give the engine what the admin has confirmed, as far as there is room."""
        room = self._slots - len(self._in(Stage.SUBMITTED))
        for intent in self._in(Stage.HELD):
            if room <= 0 or self.is_stopping:
                return
            fresh = self.guard.seconds_left(intent.key, steady()) > _START_SECONDS
            if intent.key in self._confirmed and fresh and intent.ending is None:
                self._start(intent)
                self._observe_at = 0.0
                room -= 1

    def _start(self, intent: Intent) -> None:
        handle = self.engine.find(intent.key)
        try:
            if handle is None:
                task = self._task(intent.lease)
                task.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._move(intent, Stage.SUBMITTING)
                crash_point("before-submit")
                handle = self.engine.submit(task)
                crash_point("after-submit")
        except SubmitRefused as refusal:
            self._ended(intent, reports.event(intent.held, "DECLINED", reason="REFUSED", message=str(refusal)))
            return
        intent.native_id = handle.native_id
        self._move(intent, Stage.SUBMITTED)
        log.info("%s: submitted as %s", intent.key, handle.native_id)

    def _task(self, lease: Mapping[str, Any]) -> Task:
        """What the engine is to run."""
        key = key_of(lease["id"], lease["attempt"])
        job = lease["job"]
        return Task(
            key=key,
            job=job,
            directory=self._state.jobs / key,
            queue=lease.get("queue") or "",
            environment={**(job.get("environment") or {}), **self._variables(lease, key)},
            time_limit_seconds=lease.get("time_limit_seconds"),
            config=lease.get("config") or {},
            labels=job.get("labels") or {},
        )

    def _variables(self, lease: Mapping[str, Any], key: str) -> dict[str, str]:
        """What a job is told about itself."""
        prefix = ((lease.get("config") or {}).get("raw_output_data_config") or {}).get("output_location_prefix")
        return {
            "RAINBOW_PROJECT": lease["id"]["project"],
            "RAINBOW_DOMAIN": lease["id"]["domain"],
            "RAINBOW_EXECUTION": lease["id"]["name"],
            "RAINBOW_ATTEMPT": str(lease["attempt"]),
            "RAINBOW_CLUSTER": self._cluster,
            "RAINBOW_KEY": key,
            **({"RAINBOW_OUTPUT_PREFIX": str(prefix)} if prefix else {}),
        }

    # With the admin

    def take(self, leases: Iterable[dict[str, Any]]) -> None:
        """Write an intent for each offer that the engine could run, and decline the others."""
        for lease in leases:
            crash_point("after-lease")
            intent = Intent(lease=lease)
            if intent.key in self.intents:
                continue
            if why := self._why_not(lease):
                log.warning("%s: declined: %s", intent.key, why)
                self.loose[intent.key] = reports.event(intent.held, "DECLINED", reason="DECLINED", message=why)
                continue
            self._note(intent, is_durable=True)
            self.intents[intent.key] = intent
            crash_point("after-intent")

    def _why_not(self, lease: Mapping[str, Any]) -> str:
        try:
            return self.engine.check(self._task(lease))
        except EngineUnavailable:
            return ""  # it will say when it gets it

    def renew(self, held: Iterable[Mapping[str, Any]], sent_at: float, *, confirms: bool) -> None:
        """The admin has renewed leases; those that it confirms may be started."""
        for intent in self._known(held):
            self.guard.renew(intent.key, sent_at)
            if confirms and intent.key not in self._confirmed:
                self._confirmed.add(intent.key)
                crash_point("after-confirm")
        if self.intents:
            self._state.note_renewal(self._boot, sent_at, self.guard.lease_seconds)

    def cancel(self, held: Iterable[Mapping[str, Any]]) -> None:
        """The admin wants an end of executions."""
        for one in held:
            for intent in self._known([one]):
                self.end(intent, Ending.CANCEL, str(one.get("reason") or ""))

    def lose(self, held: Iterable[Mapping[str, Any]]) -> None:
        """Executions are not this agent's any more."""
        for one in held:
            for intent in self._known([one]):
                self.end(intent, Ending.LOST, f"The admin says that it is not this agent's ({one.get('reason')}).")

    def answer(self, questions: Iterable[Mapping[str, Any]]) -> None:
        """Look up what the admin believes to be here: adopt it, or say that nobody knows it."""
        for one in questions:
            key = key_of(one["id"], one["attempt"])
            if key in self.intents or key in self.loose:
                continue
            try:
                handle = self.engine.find(key)
            except EngineUnavailable:
                continue  # it will be asked again
            lease = {"id": one["id"], "attempt": one["attempt"], "job": {}}
            if handle is None:
                message = "The agent has no record of it, and neither has its engine."
                self.loose[key] = reports.event(one, "UNKNOWN", message=message)
            else:
                intent = Intent(lease=lease, stage=Stage.SUBMITTED, native_id=handle.native_id)
                self._note(intent, is_durable=True)
                self.intents[key] = intent
                self.guard.renew(key, steady())  # the question itself says that the lease is this cluster's
                log.info("%s: adopted", key)

    def end(self, intent: Intent, ending: Ending, message: str) -> None:
        """Bring an execution to its end, for a reason; what the admin wants goes before what the agent wants."""
        if intent.stage is Stage.ENDED or intent.ending in (Ending.CANCEL, Ending.LOST, ending):
            return
        intent.ending, intent.ending_message = ending, message
        self._note(intent)
        log.warning("%s: ending it: %s", intent.key, message or ending.value)
        if intent.stage is Stage.HELD:
            self._end_unstarted(intent)

    def _end_unstarted(self, intent: Intent) -> None:
        """The end of what the engine never had."""
        if intent.ending is Ending.LOST:
            self._drop(intent)
            return
        kind = "ABORTED" if intent.ending is Ending.CANCEL else "RELEASED"
        self._ended(intent, reports.event(intent.held, kind, message=intent.ending_message))

    def release_unstarted(self) -> None:
        """Hand back what has not started; what waits in the engine's own queue is taken out of it first."""
        message = "Its agent stopped before it had started."
        for intent in list(self.intents.values()):
            state = self.native.get(intent.key)
            is_queued = intent.stage is Stage.SUBMITTED and state is not None and state.phase is NativePhase.QUEUED
            if is_queued or intent.stage is Stage.HELD:
                self.end(intent, Ending.STOP, message)

    def events(self, room: int | None = None) -> list[dict[str, Any]]:
        """Events that may be sent now, of about so many bytes; the last one of an execution only after its log."""
        found = list(self.loose.values())
        for intent in self.intents.values():
            found += intent.events if self._may_report(intent) else intent.events[:-1]
        if room is None:
            return found
        sizes = accumulate(reports.size(event) for event in found)
        return [
            event for number, (event, sent) in enumerate(zip(found, sizes, strict=True)) if sent <= room or not number
        ]

    def shorten(self, events: set[str], why: str) -> None:
        """Say only what must be said by events that the admin could not read."""
        self.loose = {
            key: reports.bare(event, why) if event["event"] in events else event for key, event in self.loose.items()
        }
        for intent in self.intents.values():
            if any(event["event"] in events for event in intent.events):
                intent.events = [reports.bare(one, why) if one["event"] in events else one for one in intent.events]
                self._note(intent)

    def drop_outputs(self) -> None:
        """Send the output files of nothing that waits to be reported."""
        for intent in self._in(Stage.ENDED):
            intent.events = [reports.without_outputs(event) for event in intent.events]
            self._note(intent)

    def ended_with(self, events: set[str]) -> set[str]:
        """The keys of executions whose last event is among these."""
        return {
            key
            for key, intent in self.intents.items()
            if intent.stage is Stage.ENDED and all(event["event"] in events for event in intent.events)
        }

    def _may_report(self, intent: Intent) -> bool:
        """Whether all events of an execution may be sent, the last one included."""
        if intent.stage is not Stage.ENDED or intent.ending is Ending.LOST:
            return True
        if steady() > self._log_deadline.setdefault(intent.key, steady() + _LOG_SECONDS):
            return True
        return not self.logs.next_of(intent, 1)

    def log_pieces(self, room: int, *, running: bool) -> list[dict[str, Any]]:
        """Pieces of logs of at most so many bytes together; what has ended goes first, what runs if it is asked for."""
        pieces: list[dict[str, Any]] = []
        for intent in [*self._in(Stage.ENDED), *(self._in(Stage.SUBMITTED) if running else ())]:
            if room <= 0:
                break
            if intent.ending is not Ending.LOST:
                found = self.logs.next_of(intent, room)
                room -= sum(len(piece.get("data") or piece.get("data_base64", "")) for piece in found)
                pieces += found
        return pieces

    def logs_stored(self, offsets: Iterable[Mapping[str, Any]]) -> None:
        """The admin says how far it has logs."""
        for one in offsets:
            for intent in self._known([one]):
                if one["offset"] > intent.log_offsets.get(one["stream"], 0) and intent.key in self._log_deadline:
                    self._log_deadline[intent.key] = steady() + _LOG_SECONDS
                self.logs.stored(intent, one["stream"], one["offset"], one["full"])

    def settle(self, events: set[str]) -> None:
        """Events that the admin has accepted, or refused for good, are over; and with the last one the execution."""
        self.loose = {key: event for key, event in self.loose.items() if event["event"] not in events}
        for intent in list(self.intents.values()):
            left = [event for event in intent.events if event["event"] not in events]
            if len(left) == len(intent.events):
                continue
            if not left and intent.stage is Stage.ENDED:
                crash_point("after-report")
                self._drop(intent)
            else:
                intent.events = left
                self._note(intent)

    def _drop(self, intent: Intent) -> None:
        """Nothing more is to be done about it."""
        try:
            self.engine.forget(intent.handle)
        except EngineUnavailable as error:
            log.warning("%s: not cleaned up: %s", intent.key, error)
        self._state.remove(intent)
        self.logs.forget(intent)
        self.guard.forget(intent.key)
        self._confirmed.discard(intent.key)
        self.intents.pop(intent.key, None)
        self.native.pop(intent.key, None)
        self._cancelled_at.pop(intent.key, None)
        self._log_deadline.pop(intent.key, None)

    # How it stands

    @property
    def active(self) -> int:
        """How many executions take a slot."""
        return sum(1 for intent in self.intents.values() if intent.stage is not Stage.ENDED)

    @property
    def is_unconfirmed(self) -> bool:
        """Whether there is something that waits for the admin's word."""
        return any(intent.key not in self._confirmed for intent in self._in(Stage.HELD))

    @property
    def is_startable(self) -> bool:
        """Whether there is something that the engine is about to get."""
        has_room = len(self._in(Stage.SUBMITTED)) < self._slots and not self.trouble
        return has_room and any(intent.key in self._confirmed for intent in self._in(Stage.HELD))

    @property
    def is_unseen(self) -> bool:
        """Whether the engine has something that it was not asked about yet."""
        return not self.trouble and any(intent.key not in self.native for intent in self._in(Stage.SUBMITTED))

    @property
    def is_ending(self) -> bool:
        """Whether something is being ended that has not ended."""
        return any(intent.ending for intent in self.intents.values() if intent.stage is not Stage.ENDED)

    @property
    def is_unsettled(self) -> bool:
        """Whether a stopping agent has something to see to: to hand back, to look up or to report."""
        return bool(self.loose) or any(
            intent.events or intent.stage in (Stage.HELD, Stage.SUBMITTING) or intent.ending is Ending.STOP
            for intent in self.intents.values()
        )

    def counts(self) -> dict[str, int]:
        """How many run, wait in the engine, wait for the engine, and are being reported."""
        submitted = list(self._in(Stage.SUBMITTED))
        running = sum(1 for intent in submitted if intent.running_since is not None)
        return {
            "running": running,
            "queued": len(submitted) - running,
            "held": sum(1 for intent in self.intents.values() if intent.stage in (Stage.HELD, Stage.SUBMITTING)),
            "ended": sum(1 for intent in self.intents.values() if intent.stage is Stage.ENDED),
        }

    def _in(self, stage: Stage) -> list[Intent]:
        return [intent for intent in self.intents.values() if intent.stage is stage]

    def _known(self, held: Iterable[Mapping[str, Any]]) -> list[Intent]:
        keys = [key_of(one["id"], one["attempt"]) for one in held]
        return [self.intents[key] for key in keys if key in self.intents]

    def _move(self, intent: Intent, stage: Stage) -> None:
        intent.stage = stage
        self._note(intent, is_durable=stage is Stage.SUBMITTING)

    def _note(self, intent: Intent, *, is_durable: bool = False) -> None:
        """Write an intent down.

        On the disk must be that there is a lease, and that the engine may have it; everything else is found out again
        from the engine and the admin, should the machine crash.
        """
        self._state.save(intent, is_durable=is_durable)
