"""Sync requests: what the agent says in each sync, in fields that the admin knows and as much as it takes."""

from __future__ import annotations

import logging
import platform
import uuid
from collections.abc import Mapping
from typing import Any

from agent.bids import Bids
from agent.calls import Call
from agent.clocks import Clock
from agent.config import Config
from agent.crashes import crash_point
from agent.reporter import Reporter
from agent.state_directory import StateDirectory
from agent.transport import describe, is_refused_field, is_too_large, is_unreadable
from agent.work import Work
from ctl.client.errors import ClientError, Unauthenticated

log = logging.getLogger("rainbow.agent")

#: How often the log of a running execution is sent.
_LOG_SECONDS = 1.0
#: Bytes of logs, and of events, in one sync: together less than proxies accept; halved when one refuses it.
_MOST_BYTES, _LEAST_BYTES = 384 * 1024, 16 * 1024
#: The least time between two times that the position is stored.
_POSITION_SECONDS = 5.0


class SyncRequests:
    """Makes the bodies of syncs, and learns from each answer what the next one should say."""

    def __init__(
        self,
        config: Config,
        work: Work,
        reporter: Reporter,
        bids: Bids,
        state: StateDirectory,
        clock: Clock,
        *,
        take_over: bool,
    ) -> None:
        #: Whether the admin refuses what agents of this version say of themselves.
        self.is_older_admin = False
        self._config = config
        self._work = work
        self._reporter = reporter
        self._bids = bids
        self._state = state
        self._clock = clock
        self._takes_over = take_over
        self._id = uuid.uuid4().hex
        self._sequence = 1
        #: The greatest position of the admin's answers, and when to store it.
        self._seen = state.load_position(config.cluster)
        self._save_seen_at = 0.0
        self._most_bytes = _MOST_BYTES
        self._next_logs_at = 0.0
        self._reported: dict[str, Any] | None = None

    @property
    def has_news(self) -> bool:
        """Whether there is something to report, or a lease to be confirmed."""
        outbox = self._work.outbox
        has_logs = bool(outbox.log_pieces(1, include_running=self._clock.steady() >= self._next_logs_at))
        has_report = self._reporter.report != self._reported
        return self._work.is_unconfirmed or has_report or bool(outbox.events()) or has_logs or bool(self._bids.answers)

    def body(self, *, wait_seconds: float) -> dict[str, Any]:
        """The body of one sync; an execution whose final event is in it is no longer named as held."""
        events = self._work.outbox.events(self._most_bytes)
        ended = self._work.outbox.ended_with({event["event"] for event in events})
        if ended:
            crash_point("before-report")
        held = [intent.reference for key, intent in self._work.intents.items() if key not in ended]
        references = {"holding": held, "events": events, "logs": self._logs()}
        if self.is_older_admin:
            references = {name: [_without_uid(item) for item in items] for name, items in references.items()}
        body: dict[str, Any] = {
            "agent": self._id,
            "sequence": self._sequence,
            "want": self._free_slots(),
            "wait_seconds": wait_seconds,
            **references,
            **({} if self.is_older_admin else self._identity()),
            **({"can_bid": True, "bids": self._bids.answers} if self._bids.is_asked else {}),
        }
        if self._reporter.report != self._reported:
            body["report"] = self._reporter.report
        return body

    def _identity(self) -> dict[str, Any]:
        """What tells this agent from others, and this admin from an earlier state of its database."""
        identity = {"instance": self._state.instance, "host": platform.node()[:255], "seen": self._seen}
        return {**identity, "take_over": True} if self._takes_over and self._sequence == 1 else identity

    def _free_slots(self) -> int:
        """How many new executions to ask for."""
        if self._work.is_stopping or self._work.problem or self._work.waits_for:
            return 0
        return max(0, min(self._config.want, self._config.slots - self._work.intents.active))

    def _logs(self) -> list[dict[str, Any]]:
        """Log pieces: those of ended executions in every sync, those of running ones once a second."""
        is_due = self._clock.steady() >= self._next_logs_at
        pieces = self._work.outbox.log_pieces(self._most_bytes, include_running=is_due)
        if is_due:
            self._next_logs_at = self._clock.steady() + _LOG_SECONDS
        return pieces

    # Answers

    def note_answer(self, body: Mapping[str, Any]) -> None:
        """Note that the admin has understood a body."""
        self._sequence += 1
        self._reported = body.get("report", self._reported)

    def note_position(self, position: int | None) -> None:
        """Store the admin's position, by which it later recognises that its database was restored."""
        if position is None:
            return
        self.is_older_admin = False
        self._seen = max(self._seen, int(position))
        if self._clock.steady() >= self._save_seen_at:
            self._save_seen_at = self._clock.steady() + _POSITION_SECONDS
            self.save_position()

    def save_position(self) -> None:
        self._state.save_position(self._config.cluster, self._seen)

    # Refusals

    def omit_unknown(self, error: ClientError) -> bool:
        """Leave out from now on what an older admin refuses because it does not know it; whether that was why."""
        unknown = {name for name in self._reporter.tells if is_refused_field(error, name)}
        if not self.is_older_admin and any(is_refused_field(error, name) for name in ("instance", "uid")):
            log.warning("the admin is older than this agent, and cannot tell it from others of the cluster")
            self.is_older_admin = True
        elif unknown:
            self._reporter.tells -= unknown
        elif self._bids.is_asked and is_refused_field(error, "can_bid"):
            self._bids.is_asked = False  # the admin is an older one by now
        else:
            return False
        return True

    def omit_refused(self, call: Call, error: ClientError) -> None:
        """Leave out of the next sync what the admin or a proxy may have refused of a body, so that the rest arrives."""
        if is_unreadable(error):
            self._omit_unreadable(call.body, error)
        if is_too_large(error) and self._most_bytes <= _LEAST_BYTES:
            self._work.outbox.strip_outputs()
        if is_too_large(error):
            self._most_bytes = max(_LEAST_BYTES, self._most_bytes // 2)
        if isinstance(error, Unauthenticated):
            self._reported = None  # who is registered again is not known to have reported anything

    def _omit_unreadable(self, body: Mapping[str, Any], error: ClientError) -> None:
        problem = describe(error)
        fields = [str(detail.get("field")) for detail in error.details]
        if fields and all(field.startswith("logs") for field in fields):
            log.error("the rest of a log is not sent: %s", problem)
            self._work.outbox.give_up_logs(body["logs"])
        elif "report" in body:
            self._reported = body["report"]
        elif body["events"]:
            self._work.outbox.strip_details({event["event"] for event in body["events"]}, problem)


def _without_uid(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "uid"}
