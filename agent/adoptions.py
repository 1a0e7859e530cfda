"""Adoptions: jobs of the engine that the agent holds though this state of it did not submit them.

The admin asks about executions that it believes to be here, after a restart without state or from a backup; and an
engine finds what a dead agent has left.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from agent.clocks import Clock
from agent.engines.base import EngineUnavailable
from agent.engines.safe import SafeEngine
from agent.events import build_event
from agent.intents import Intent, Intents, Stage
from agent.leases import Leases
from agent.outbox import Outbox
from agent.state_directory import StateDirectory
from agent.tasks import key_of

log = logging.getLogger("rainbow.agent")

#: Why the agent hands back what it handed back before, or never submitted, when a restored admin has it again.
WAS_OVER = "It was over here before, without a job: another attempt can start."
#: How many jobs of dead agents are held at once.
_MOST_ORPHANS = 100


class Adoptions:
    """Looks up jobs that the agent has no intent of, and holds those that there are."""

    def __init__(
        self, engine: SafeEngine, intents: Intents, leases: Leases, outbox: Outbox, state: StateDirectory, clock: Clock
    ) -> None:
        self._engine = engine
        self._intents = intents
        self._leases = leases
        self._outbox = outbox
        self._state = state
        self._clock = clock

    def answer(self, questions: Iterable[Mapping[str, Any]]) -> None:
        """Look up executions that the admin believes to be here: adopt them, or report them unknown."""
        for question in questions:
            key = key_of(question)
            if self._intents.find(question) is not None or key in self._outbox.standalone:
                continue
            try:
                handle = self._engine.find(key)
                if handle is not None:
                    self._adopt(question, handle.native_id)
                    continue
            except (EngineUnavailable, OSError):
                continue  # the admin asks again
            past = self._state.load_past_intent(key)
            if past is not None and not past.native_id:
                self._report(question, "RELEASED", WAS_OVER)
                continue
            self._report(question, "UNKNOWN", "Neither the agent nor its engine has a record of it.")

    def claim_orphans(self) -> None:
        """Hold what a dead agent left in the engine: the admin then says whether it goes on or is ended."""
        with contextlib.suppress(EngineUnavailable, OSError):
            for orphan in self._engine.orphans(self._intents.keys())[:_MOST_ORPHANS]:
                reference = {"id": dict(orphan.id), "attempt": orphan.attempt, "uid": orphan.uid}
                if orphan.handle.key not in self._outbox.standalone:
                    self._adopt(reference, orphan.handle.native_id)

    def _report(self, question: Mapping[str, Any], kind: str, message: str) -> None:
        event = build_event(question, kind, self._clock.now(), reason="", message=message)
        self._outbox.standalone[key_of(question)] = event

    def _adopt(self, question: Mapping[str, Any], native_id: str) -> None:
        reported = {name: question[name] for name in ("id", "attempt", "uid", "on_lost") if question.get(name)}
        past = self._state.load_past_intent(key_of(question)) or Intent(lease={"job": {}}, key=key_of(question))
        intent = Intent(lease={**past.lease, **reported}, stage=Stage.SUBMITTED, native_id=native_id)
        intent.take_ending(past)
        self._state.save(intent, is_durable=True)
        self._intents[intent.key] = intent
        # The admin asks only about leases of this cluster.
        self._leases.guard.renew(intent.key, self._clock.steady())
        log.info("%s: adopted", intent.key)
