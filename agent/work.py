"""The work of an agent: every execution it has a lease of, from the offer to the final event.

Each step is stored before the next one is taken. Nothing is submitted before it was looked up by its key, so that a
crash at any point submits nothing twice, and nothing without a lease that the admin has confirmed to this process.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from agent.adoptions import WAS_OVER, Adoptions
from agent.cancellations import Cancellations
from agent.clocks import SYSTEM_CLOCK, Clock, boot_id
from agent.crashes import crash_point
from agent.engines.base import (
    EngineUnavailable,
    Handle,
    NativePhase,
    NativeState,
    NothingDone,
    SubmitRefused,
    Task,
)
from agent.engines.safe import SafeEngine
from agent.events import Event, build_event, final_event, read_outputs, running_event
from agent.guard import LeaseGuard
from agent.intents import WAIT, Ending, Intent, Intents, Stage, Turns
from agent.leases import Leases
from agent.outbox import Outbox
from agent.state_directory import StateDirectory
from agent.tasks import build_task

log = logging.getLogger("rainbow.agent")
T = TypeVar("T")

#: How long after its time limit a job may run before the agent ends it because the engine has not.
_OVERTIME_SECONDS = 30.0
#: Why the agent hands back what has not started.
_DRAINING = "Its cluster drains, and it had not started."
#: How much of a lease must be left to start work with it.
_START_SECONDS = 1.0
#: Of how many executions the engine's words are told why they wait, and how long these may be.
_MOST_QUEUED, _QUEUED_LENGTH = 200, 500


class Work:
    """Everything that the agent holds a lease of."""

    def __init__(
        self,
        engine: SafeEngine,
        state: StateDirectory,
        guard: LeaseGuard,
        *,
        cluster: str,
        slots: int,
        poll_seconds: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.engine = engine
        self.intents = Intents()
        self.leases = Leases(self.intents, engine, state, guard, clock)
        self.outbox = Outbox(self.intents, engine, state, clock)
        self.adoptions = Adoptions(engine, self.intents, self.leases, self.outbox, state, clock)
        #: The last state of each job from the engine, by key.
        self.native: dict[str, NativeState] = {}
        #: Why the engine or the state directory could not be used in the last step.
        self.problem = ""
        #: Why what is leased waits although there is a slot; empty if nothing does.
        self.waits_for = ""
        self.is_stopping = False
        self.is_draining = False  #: whether the admin says that the cluster drains
        self._state = state
        self._cluster = cluster
        self._slots = slots
        self._poll_seconds = poll_seconds
        self._clock = clock
        self._next_poll_at = 0.0
        self._turns = Turns(self.intents, clock)
        self._boot = boot_id()
        self._cancellations = Cancellations(engine, state, clock)

    def recover(self) -> None:
        """Resume what an earlier process of this agent left."""
        intents, problems = self._state.load_intents()
        for problem in problems:
            log.error("%s", problem)
        for intent in intents:
            self.intents[intent.key] = intent
            if intent.running_since is not None and intent.boot != self._boot:
                # How long it ran before is not known: its time counts from now.
                intent.running_since, intent.boot = self._clock.steady(), self._boot
        self.leases.recover()
        if intents:
            log.info("resuming %d executions of an earlier run", len(intents))

    # The engine

    def step(self) -> None:
        """Do once whatever can be done now; a part that fails does not keep the others from running."""
        self.problem = ""
        self._state.save_again()
        ending = self._cancel_ending
        leases = self._watch_leases
        parts = (ending, self._renew_jobs, self._look_up, self._poll, leases, self._withdraw, ending, self._submit)
        self._try_each(parts, lambda part: part())
        self.problem = self.problem or self._state.problem

    def _try_each(self, items: Iterable[T], action: Callable[[T], None]) -> None:
        """Do something about each; one that fails does not keep the others from it."""
        for item in items:
            try:
                action(item)
            except EngineUnavailable as error:
                self.problem = str(error)
            except OSError as error:
                self.problem = f"the state directory cannot be written: {error.strerror}"

    def _try_in_turn(self, intents: Iterable[Intent], action: Callable[[Intent], None]) -> None:
        """Do something slow about each as long as leases can wait for it; the others come first in the next step."""
        self._turns.begin(self.leases.guard.interval_seconds / 2)
        self._try_each(intents, action)

    def _look_up(self) -> None:
        """Find out whether the engine has the jobs whose submission was interrupted."""
        self._try_in_turn(self.intents.in_stage(Stage.SUBMITTING), self._find)

    def _find(self, intent: Intent) -> None:
        if not self._turns.take(intent):
            return
        handle = self.engine.find(intent.key)
        intent.native_id = handle.native_id if handle else ""
        self._move(intent, Stage.SUBMITTED if handle else Stage.HELD)
        log.info("%s: %s", intent.key, "adopted" if handle else "had not been submitted")
        if intent.ending is not None and handle is None:
            self._end_unstarted(intent)

    def _poll(self) -> None:
        """Ask the engine which jobs run and which have ended."""
        submitted = self.intents.in_stage(Stage.SUBMITTED)
        if not submitted or self._clock.steady() < self._next_poll_at:
            return
        self._next_poll_at = self._clock.steady() + self._poll_seconds
        states = self.engine.states([intent.handle for intent in submitted])
        for intent in submitted:
            state = states.get(intent.key)
            if state is None:
                continue
            self.native[intent.key] = state
            if state.phase is NativePhase.RUNNING:
                self._mark_running(intent, state)
            elif state.phase.finished and intent.ending is Ending.LOST:
                # All that counts is whether it has ended: the admin refuses what is unsent of it.
                intent.events = []
                self._mark_ended(intent, final_event(intent, state, self._clock.now(), ([], "")))
            elif state.phase.finished:
                crash_point("after-finish")
                now = self._clock.now()
                if intent.running_since is None and state.started_at is not None:
                    # It ended between two polls, but it did run.
                    intent.events.append(running_event(intent, state, now))
                self._mark_ended(intent, final_event(intent, state, now, read_outputs(self.engine, intent)))

    def _mark_running(self, intent: Intent, state: NativeState) -> None:
        now = self._clock.steady()
        if intent.ending is Ending.WITHDRAW:  # it has started meanwhile, and goes on
            intent.ending, intent.ending_message = None, ""
            self._state.save(intent, is_durable=False)
        if intent.running_since is None:
            intent.running_since, intent.boot = now, self._boot
            intent.events.append(running_event(intent, state, self._clock.now()))
            self._state.save(intent, is_durable=False)
            log.info("%s: running", intent.key)
            crash_point("after-running")
        limit = intent.lease.get("time_limit_seconds")
        if limit is not None and now > intent.running_since + float(limit) + _OVERTIME_SECONDS:
            self.end(intent, Ending.TIME_LIMIT, f"It ran longer than its limit of {float(limit):g} s.")

    def _mark_ended(self, intent: Intent, event: Event) -> None:
        intent.events.append(event)
        self.outbox.start_log_deadline(intent)
        self._move(intent, Stage.ENDED)
        outcome = " ".join(str(event[name]) for name in ("type", "reason", "message") if name in event)
        log.info("%s: %s", intent.key, outcome)

    def _renew_jobs(self) -> None:
        """Tell the engine how long guarded jobs may go on."""
        if self.engine.guards_leases:
            self._try_each(self.intents.in_stage(Stage.SUBMITTED), self.leases.renew_in_engine)

    def _watch_leases(self) -> None:
        """End work before its lease is over, because the admin may then give it to another cluster."""
        for intent in self.leases.find_expired():
            seconds = self.leases.guard.longest_silence_seconds
            message = f"Its agent could not reach the admin for {seconds:g} s and ended it before its lease was over."
            self.end(intent, Ending.EXPIRED, message)

    def _cancel_ending(self) -> None:
        """Cancel the jobs that must end, repeatedly until they have."""
        self._try_each(self.intents.in_stage(Stage.SUBMITTED), self._cancellations.cancel_if_ending)

    def _withdraw(self) -> None:
        """Hand back what has not started while the cluster drains."""
        to_withdraw = [
            intent
            for intent in self.intents.values()
            if intent.ending is Ending.WITHDRAW or (self.is_draining and intent.ending is None)
        ]
        self._try_in_turn(to_withdraw, self._withdraw_if_waiting)

    def _withdraw_if_waiting(self, intent: Intent) -> None:
        if intent.stage is Stage.HELD:
            self.end(intent, Ending.WITHDRAW, _DRAINING)
        can_withdraw = self._is_queued(intent) and self.engine.can_withdraw and self._cancellations.is_due(intent)
        if can_withdraw and self._turns.take(intent) and not self._cancellations.withdraw(intent, _DRAINING):
            self.native.pop(intent.key, None)

    def _is_queued(self, intent: Intent) -> bool:
        """Whether its job waits in the engine's queue, as far as the engine has said."""
        state = self.native.get(intent.key)
        return intent.stage is Stage.SUBMITTED and state is not None and state.phase is NativePhase.QUEUED

    def _submit(self) -> None:
        """Submit what the admin has confirmed, as far as there are free slots and room beside what runs."""
        self.waits_for = ""
        self._try_in_turn(self.intents.in_stage(Stage.HELD), self._start_if_confirmed)

    def _start_if_confirmed(self, intent: Intent) -> None:
        if not self.leases.is_confirmed(intent) or intent.ending is not None:
            return
        has_slot = len(self.intents.in_stage(Stage.SUBMITTED)) < self._slots
        may_start = has_slot and not self.is_stopping and not self.is_draining
        was_over = self._was_over(intent)
        if not (was_over or (may_start and self._has_room(intent))):
            return
        if self._turns.take(intent):
            self._start(intent)
            self._next_poll_at = 0.0

    def _has_room(self, intent: Intent) -> bool:
        """Whether it may start beside what runs; behind one that may not, the others wait too, so that it can."""
        if not self.waits_for:
            self.waits_for = self.engine.must_wait(self._task(intent))
        return not self.waits_for

    def _was_over(self, intent: Intent) -> bool:
        """Whether this is an attempt that was over before the admin's database was restored, and is only reported."""
        return intent.stage is Stage.HELD and self._state.load_past_intent(intent.key) is not None

    def _start(self, intent: Intent) -> None:
        handle = self.engine.find(intent.key)
        past = self._state.load_past_intent(intent.key)
        if past is not None:
            self._resume_past(intent, past, handle)
            return
        try:
            if handle is None:
                self._make_directory(intent)
                self._move(intent, Stage.SUBMITTING)
                crash_point("before-submit")
                # Storing it may have taken long.
                seconds_left = self.leases.seconds_left(intent)
                if seconds_left <= _START_SECONDS:
                    self._move(intent, Stage.HELD)
                    return
                self.leases.note_told(intent, seconds_left)
                task = self._task(intent, None if intent.on_lost == WAIT else seconds_left)
                handle = self.engine.submit(task)
                crash_point("after-submit")
        except NothingDone:
            self._move(intent, Stage.HELD)
            raise
        except SubmitRefused as refusal:
            self._mark_ended(intent, self._event(intent.reference, "DECLINED", reason="REFUSED", message=str(refusal)))
            return
        intent.native_id = handle.native_id
        self._move(intent, Stage.SUBMITTED)
        log.info("%s: submitted as %s", intent.key, handle.native_id)

    def _resume_past(self, intent: Intent, past: Intent, handle: Handle | None) -> None:
        """Report an attempt that was over before the admin's database was restored; it is never started again."""
        if handle is None:
            self._mark_ended(intent, self._event(intent.reference, "RELEASED", message=WAS_OVER))
            return
        intent.native_id = handle.native_id
        intent.take_ending(past)
        self._move(intent, Stage.SUBMITTED)

    def _make_directory(self, intent: Intent) -> None:
        self._task(intent).directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _task(self, intent: Intent, lease_seconds: float | None = None) -> Task:
        return build_task(
            intent.lease, key=intent.key, cluster=self._cluster, jobs=self._state.jobs, lease_seconds=lease_seconds
        )

    # The admin

    def accept(self, leases: Iterable[dict[str, Any]]) -> None:
        """Store an intent for each offered lease that the engine can run, and decline the others."""
        for lease in leases:
            crash_point("after-lease")
            intent = Intent(lease=lease)
            if self.intents.find(lease) is not None:
                continue
            if reason := self._reason_to_decline(intent):
                log.warning("%s: declined: %s", intent.key, reason)
                event = self._event(intent.reference, "DECLINED", reason="DECLINED", message=reason)
                self.outbox.standalone[intent.key] = event
                continue
            self._state.save(intent, is_durable=True)
            self.intents[intent.key] = intent
            crash_point("after-intent")

    def _reason_to_decline(self, intent: Intent) -> str:
        try:
            return self.engine.check(self._task(intent))
        except EngineUnavailable:
            return ""  # submit() will refuse it if it must be

    def cancel(self, cancels: Iterable[Mapping[str, Any]]) -> None:
        """End the executions that the admin wants cancelled."""
        for cancel in cancels:
            ending = Ending.DRAIN if cancel.get("code") == "DRAINED" else Ending.CANCEL
            for intent in self.intents.find_all([cancel]):
                self.end(intent, ending, str(cancel.get("reason") or ""))

    def end_lost(self, lost: Iterable[Mapping[str, Any]]) -> None:
        """End the executions whose lease this agent no longer has."""
        for reference in lost:
            for intent in self.intents.find_all([reference]):
                message = f"The admin says that this agent no longer has its lease ({reference.get('reason')})."
                self.end(intent, Ending.LOST, message)

    def settle(self, events: set[str]) -> None:
        """Drop events that the admin has accepted or refused for good, and the executions that are finished by it."""
        for intent in self.outbox.settle(events):
            crash_point("after-report")
            self._drop(intent)

    # Ending

    def end(self, intent: Intent, ending: Ending, message: str) -> None:
        """End an execution; a reason of the admin's overrides one of the agent's."""
        if intent.stage is Stage.ENDED or intent.ending in (Ending.CANCEL, Ending.LOST, ending):
            return
        if ending not in (Ending.CANCEL, Ending.LOST) and self._was_over(intent):
            return  # handed back, it would be started once more
        intent.ending, intent.ending_message = ending, message
        self._state.save(intent, is_durable=False)
        log.warning("%s: ending it: %s", intent.key, message or ending.value)
        if intent.stage is Stage.HELD:
            self._end_unstarted(intent)

    def _end_unstarted(self, intent: Intent) -> None:
        """End an execution that the engine does not have."""
        if intent.ending is Ending.LOST:
            if self._was_over(intent):  # its job may have run before
                self._drop(intent)
                return
            self._mark_ended(intent, self._event(intent.reference, "RELEASED", message=intent.ending_message))
            return
        with contextlib.suppress(OSError):
            self._make_directory(intent)  # which keeps the intent, for a restored admin may ask about it
        kind = "ABORTED" if intent.ending is Ending.CANCEL else "RELEASED"
        self._mark_ended(intent, self._event(intent.reference, kind, message=intent.ending_message))

    def release_unstarted(self) -> None:
        """Hand back what has not started; jobs that wait in the engine's queue are cancelled first.

        Those whose policy is to wait stay in the queue, because one that is just starting would be ended.
        """
        message = "Its agent stopped before it had started."
        self._next_poll_at = 0.0
        self._try_each((self._poll,), lambda poll: poll())
        for intent in list(self.intents.values()):
            if (self._is_queued(intent) and intent.on_lost != WAIT) or intent.stage is Stage.HELD:
                self.end(intent, Ending.STOP, message)

    def _drop(self, intent: Intent) -> None:
        """Drop an execution that needs nothing more."""
        try:
            self.engine.forget(intent.handle)
        except EngineUnavailable as error:
            log.warning("%s: not cleaned up: %s", intent.key, error)
        self._state.remove(intent)
        self.outbox.forget(intent)
        self.leases.forget(intent)
        self.intents.pop(intent.key, None)
        self.native.pop(intent.key, None)
        self._cancellations.forget(intent)

    # Status

    @property
    def held_back(self) -> list[Task]:
        """What may not start beside what runs, in its order, and what waits behind it."""
        if not self.waits_for:
            return []
        held = [intent for intent in self.intents.in_stage(Stage.HELD) if intent.ending is None]
        return [self._task(intent) for intent in held if self.leases.is_confirmed(intent)]

    @property
    def queued(self) -> dict[str, str]:
        """Why executions wait in the engine, in its words, by the uid of each; of the first of them."""
        states = ((intent.uid, self.native.get(intent.key)) for intent in self.intents.in_stage(Stage.SUBMITTED))
        words = (
            (uid, state.message[:_QUEUED_LENGTH])
            for uid, state in states
            if uid and state is not None and state.phase is NativePhase.QUEUED and state.message
        )
        return dict(islice(words, _MOST_QUEUED))

    @property
    def is_unconfirmed(self) -> bool:
        """Whether a lease waits for the admin's confirmation."""
        return any(not self.leases.is_confirmed(intent) for intent in self.intents.in_stage(Stage.HELD))

    @property
    def is_startable(self) -> bool:
        """Whether something is about to be submitted."""
        has_slot = len(self.intents.in_stage(Stage.SUBMITTED)) < self._slots
        may_start = has_slot and not (self.problem or self.waits_for)
        return may_start and any(self.leases.is_confirmed(intent) for intent in self.intents.in_stage(Stage.HELD))

    @property
    def is_unpolled(self) -> bool:
        """Whether the engine has a job whose state it was not asked for yet."""
        submitted = self.intents.in_stage(Stage.SUBMITTED)
        return not self.problem and any(intent.key not in self.native for intent in submitted)

    @property
    def is_unsettled(self) -> bool:
        """Whether a stopping agent still has something to hand back, to look up or to report."""
        return bool(self.outbox.standalone) or self.intents.is_unsettled

    def _event(self, reference: Mapping[str, Any], kind: str, *, reason: str = "", message: str) -> Event:
        return build_event(reference, kind, self._clock.now(), reason=reason, message=message)

    def _move(self, intent: Intent, stage: Stage) -> None:
        intent.stage = stage
        self._state.save(intent, is_durable=stage is Stage.SUBMITTING)
