"""The leases of an agent: which are confirmed, when they are over, and until when the engine may run their jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.clocks import Clock, boot_id
from agent.crashes import crash_point
from agent.engines.safe import SafeEngine
from agent.guard import LeaseGuard
from agent.intents import WAIT, Intent, Intents, Stage
from agent.state_directory import StateDirectory

#: How long work may go on, however old its lease, when a process that was paused or is new first asks the admin.
_GRACE_SECONDS = 10.0


class Leases:
    """The leases of the executions in `intents`, as far as this process knows them."""

    def __init__(
        self, intents: Intents, engine: SafeEngine, state: StateDirectory, guard: LeaseGuard, clock: Clock
    ) -> None:
        self.guard = guard
        self._intents = intents
        self._engine = engine
        self._state = state
        self._clock = clock
        self._boot = boot_id()
        #: When leases were last watched, and until when none is ended because the admin is asked first.
        self._watched_at = self._grace_until = clock.steady()
        #: Whether the admin has answered since that time was given.
        self._is_answered = True
        #: Until when the engine may run a guarded job, by key.
        self._told_until: dict[str, float] = {}
        #: Keys whose leases the admin has confirmed to this process.
        self._confirmed: set[str] = set()

    def recover(self) -> None:
        """Count from the last renewal of an earlier process, and ask the admin before anything is ended."""
        self._watched_at = self._clock.steady()
        self._ask_first()
        renewal = self._state.load_renewal(self._boot)
        if renewal is not None:
            sent_at, self.guard.lease_seconds = renewal
            for key in self._intents:
                self.guard.renew(key, sent_at)

    def renew(self, references: Iterable[Mapping[str, Any]], sent_at: float, *, confirms: bool) -> None:
        """Record that the admin has answered and renewed leases; those that it confirms may be started."""
        self._is_answered = True
        for intent in self._intents.find_all(references):
            self.guard.renew(intent.key, sent_at)
            if confirms and intent.key not in self._confirmed:
                self._confirmed.add(intent.key)
                crash_point("after-confirm")
        if self._intents:
            self._state.save_renewal(self._boot, sent_at, self.guard.lease_seconds)

    def is_confirmed(self, intent: Intent) -> bool:
        """Whether the admin has confirmed a lease to this process, and it was not over since."""
        return intent.key in self._confirmed

    def seconds_left(self, intent: Intent) -> float:
        """How long an execution may go on; below zero it must end."""
        return self.guard.seconds_left(intent.key, self._clock.steady())

    def note_told(self, intent: Intent, seconds: float) -> None:
        """Record how long the engine may run a job."""
        self._told_until[intent.key] = self._clock.steady() + seconds

    def renew_in_engine(self, intent: Intent) -> None:
        """Tell the engine how long a guarded job may go on, if that is much longer than it was told."""
        now = self._clock.steady()
        seconds_left = self.guard.seconds_left(intent.key, now)
        until = now + seconds_left
        is_guarded = intent.on_lost != WAIT and self.is_confirmed(intent)
        if is_guarded and until > self._told_until.get(intent.key, 0.0) + self.guard.interval_seconds / 2:
            self._engine.renew({intent.handle: seconds_left})
            self._told_until[intent.key] = until

    def find_expired(self) -> list[Intent]:
        """What must end now because its lease is almost over, and the admin may then give it to another cluster."""
        now = self._clock.steady()
        if now - self._watched_at > self.guard.interval_seconds:
            # The process was stopped, or the machine suspended: it could not have asked.
            self._ask_first()
        self._watched_at = now
        over = [intent for intent in self._intents.values() if self.guard.seconds_left(intent.key, now) <= 0]
        self._confirmed -= {intent.key for intent in over}
        return [intent for intent in over if now >= self._grace_until and self._ends_for_silence(intent)]

    def _ends_for_silence(self, intent: Intent) -> bool:
        """Whether the agent ends an execution whose lease is over; the policy of an adopted one its engine knows."""
        if intent.stage not in (Stage.SUBMITTING, Stage.SUBMITTED) or intent.ending is not None:
            return False
        return not self._engine.guards_leases if intent.on_lost is None else intent.on_lost != WAIT

    def _ask_first(self) -> None:
        """Give the admin time to answer before work is ended; once, until it has answered."""
        if self._is_answered:
            self._is_answered = False
            self._grace_until = self._clock.steady() + _GRACE_SECONDS

    def forget(self, intent: Intent) -> None:
        """Stop watching a lease."""
        self.guard.forget(intent.key)
        self._confirmed.discard(intent.key)
        self._told_until.pop(intent.key, None)
