"""The loop: sync, lease, report, recover.

One call does everything, and waits at the admin while there is nothing to say. Two may be on their way: one that waits
for news, and one that says something meanwhile. The thread that runs the loop is the only one that touches the engine
and the intents; calls are made in the background, so that the lease guard is never late because the admin is.
"""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from agent.backoff import Backoff
from agent.calls import Call, Line, next_call
from agent.clocks import steady
from agent.config import Config
from agent.crashes import crash_point
from agent.engines.base import Engine
from agent.engines.careful import CarefulEngine
from agent.guard import LeaseGuard
from agent.intents import Ending, StateDirectory
from agent.reporter import Reporter
from agent.transport import (
    AdminError,
    Refused,
    Replaced,
    TooLarge,
    Transport,
    Unauthenticated,
    Unreachable,
    cluster_path,
)
from agent.work import Work

log = logging.getLogger("rainbow.agent")

_IDLE_SECONDS = 1.0
#: How often a log goes to the admin while its execution runs.
_LOG_SECONDS = 1.0
#: How long the admin may take to answer, beyond the time that it is asked to wait.
_ANSWER_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 30.0
#: Bytes of logs and of events in one sync, together below what proxies take; halved where something refuses it.
_MOST_BYTES, _LEAST_BYTES = 384 * 1024, 16 * 1024
#: The least time between two syncs that say something.
_SAY_SECONDS = 0.03
#: How long a stopping agent tries to hand things back.
_STOP_SECONDS = 15.0
#: How long `once` waits to see what it has started run.
_SETTLING_SECONDS = 3.0


class Agent:
    """One agent process."""

    def __init__(
        self, config: Config, given_engine: Engine, state: StateDirectory, connect: Callable[[], Transport]
    ) -> None:
        engine = CarefulEngine(given_engine)
        self.config = config
        self.guard = LeaseGuard()
        poll = config.poll_seconds or engine.poll_seconds
        self.work = Work(engine, state, self.guard, cluster=config.cluster, slots=config.slots, poll_seconds=poll)
        #: Why the last sync failed, until one succeeds.
        self.problem = ""
        #: What the admin last said of the cluster, and when by the steady clock.
        self.cluster_state: dict[str, Any] = {}
        self.synced_at: float | None = None
        self.is_replaced = False
        self._engine = engine
        self._poll = poll
        self._id = uuid.uuid4().hex
        self._sequence = 1
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()
        path = cluster_path(config.cluster, "sync")
        self._saying = Line(connect, path, self._inbox)
        self._waiting = Line(connect, path, self._inbox)
        self._backoff = Backoff()
        self._retry_at = 0.0
        self._wait_at = 0.0
        self._wait_seconds = 30.0
        self._most_bytes = _MOST_BYTES
        self._say_at = 0.0
        self._logs_at = 0.0
        self._reporter = Reporter(config, engine)
        self._reported: dict[str, Any] | None = None
        self._began_at = steady()
        self._stop_at: float | None = None
        self._signals = 0
        self._drains = False
        self._is_over = False

    def stop(self, *, drain: bool = False) -> None:
        """Ask the loop to end; asked twice it ends at once. May be called by a signal handler."""
        self._signals += 1
        self._drains = drain
        self._inbox.put(None)

    def run(self, *, once: bool = False, watch: Callable[[Agent], None] = lambda agent: None) -> int:
        """Until asked to stop, or with `once` until there is nothing left to say; the exit status."""
        self.work.recover()
        while not self._is_over:
            if self._signals:
                self._stop()
            self.work.step()
            self._reporter.measure(self.work)
            self._start_calls(once=once)
            if self._may_end(once=once):
                break
            watch(self)
            self._take_calls(self._pause())
        if self.work.active and not once:
            log.info(
                "%d executions go on; start the agent again within %g s, and it takes them up",
                self.work.active,
                self.guard.lease_seconds,
            )
        return 1 if self.problem else 0

    def _pause(self) -> float:
        """How long to wait for calls to come back before looking at everything again."""
        if self._say_at - steady() > 0 and not self._saying.is_busy:
            return _SAY_SECONDS
        return self._poll if self.work.intents else max(self._poll, _IDLE_SECONDS)

    # The end

    def _stop(self) -> None:
        """Take nothing new, hand back what has not started."""
        if self._stop_at is None:
            self._stop_at = steady()
            log.info("stopping: handing back what has not started%s", ", waiting for the rest" if self._drains else "")
        self.work.is_stopping = True
        self.work.release_unstarted()

    def _may_end(self, *, once: bool) -> bool:
        if once:
            is_waiting = self._saying.is_busy or self._has_to_say() or self.work.is_startable or self._is_settling()
            return bool(self.problem) or (self.synced_at is not None and not is_waiting)
        if self._stop_at is None:
            return False
        is_late = steady() > self._stop_at + _STOP_SECONDS
        if self._signals > 1:
            return True
        if self.is_replaced:
            return is_late or not self.work.is_ending
        if self._drains:
            return not self.work.intents and not self.work.loose
        return is_late or not self.work.is_unsettled

    def _is_settling(self) -> bool:
        """Whether something was given to the engine that may run in a moment."""
        is_queued = self.work.counts()["queued"] > 0 and steady() < self._began_at + _SETTLING_SECONDS
        return self.work.is_unseen or (is_queued and not self.work.trouble)

    # What is said

    def _has_to_say(self) -> bool:
        has_news = self.work.is_unconfirmed or self._reporter.report != self._reported
        return bool(has_news or self.work.events() or self.work.log_pieces(1, running=steady() >= self._logs_at))

    def _start_calls(self, *, once: bool) -> None:
        """Say what there is to say; else wait for news."""
        for line in (self._saying, self._waiting):
            if line.call is not None and line.call.is_overdue:
                line.give_up()
                self._failed(Unreachable(f"the admin at {self.config.endpoint} does not answer in time"))
        if steady() < self._retry_at or self._saying.is_busy or self.is_replaced:
            return
        if self.synced_at is None or self._has_to_say():
            if steady() < self._say_at:
                return
            self._say_at = steady() + _SAY_SECONDS
            self._saying.start(self._body(wait_seconds=0), _ANSWER_SECONDS)
        elif not (once or self._waiting.is_busy or (self._stop_at is not None and not self._drains)):
            if steady() < self._wait_at:
                return
            wait, answer = self._wait_seconds, _ANSWER_SECONDS
            if self.work.intents:
                wait, answer = (min(seconds, self.guard.interval_seconds) for seconds in (wait, answer))
            self._waiting.start(self._body(wait_seconds=wait), wait + answer)

    def _body(self, *, wait_seconds: float) -> dict[str, Any]:
        """One sync; an execution whose last event is in it is not held any more."""
        events = self.work.events(self._most_bytes)
        ending = self.work.ended_with({event["event"] for event in events})
        if ending:
            crash_point("before-report")
        body: dict[str, Any] = {
            "agent": self._id,
            "sequence": self._sequence,
            "want": self._wanted(),
            "holding": [intent.held for key, intent in self.work.intents.items() if key not in ending],
            "events": events,
            "logs": self._logs(),
            "wait_seconds": wait_seconds,
        }
        if self._reporter.report != self._reported:
            body["report"] = self._reporter.report
        return body

    def _wanted(self) -> int:
        if self.work.is_stopping or self.work.trouble:
            return 0
        return max(0, min(self.config.want, self.config.slots - self.work.active))

    def _logs(self) -> list[dict[str, Any]]:
        """Of what has ended whatever there is; of what runs, what was printed within a second together."""
        is_due = steady() >= self._logs_at
        pieces = self.work.log_pieces(self._most_bytes, running=is_due)
        if is_due:
            self._logs_at = steady() + _LOG_SECONDS
        return pieces

    # What is heard

    def _take_calls(self, seconds: float) -> None:
        """Wait for a call to come back; take in all that have."""
        call = next_call(self._inbox, seconds)
        while call is not None:
            lines = [line for line in (self._saying, self._waiting) if line.finish(call)]
            # One that was given up is not heard any more.
            if lines and call.answer is not None:
                self._heard(call, call.answer)
            elif lines and call.error is not None:
                if isinstance(call.error, Refused) and call.error.status == 400:
                    self._unread(call.body, str(call.error))
                self._failed(call.error)
            call = next_call(self._inbox, 0)

    def _heard(self, call: Call, answer: Mapping[str, Any]) -> None:
        """Do what the admin says."""
        try:
            self.guard.lease_seconds = float(answer["intervals"]["lease_seconds"])
            self._wait_seconds = float(answer["intervals"]["wait_seconds"])
            if pause := float(answer["intervals"].get("pause_seconds", 0)):  # too many wait there already
                self._wait_at = steady() + min(pause * random.uniform(1.0, 1.2), self._longest_pause())
            self.cluster_state = answer["state"]
            for one in answer["refused"]:
                log.warning("the admin refused the report %s: %s", one["event"], one["reason"])
            self.work.settle({*answer["accepted"], *(one["event"] for one in answer["refused"])})
            self.work.logs_stored(answer["log_offsets"])
            self.work.renew(answer["confirmed"], call.sent_at, confirms=True)
            self.work.renew(answer["cancels"], call.sent_at, confirms=False)
            self.work.cancel(answer["cancels"])
            self.work.lose(answer["lost"])
            self.work.take(answer["leases"])
            self.work.answer(answer["questions"])
        except (KeyError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            self._failed(Unreachable(f"{self.config.endpoint} answers, but not as an admin of this version ({what})"))
            return
        except OSError as error:
            self._failed(Unreachable(f"stateDirectory: cannot be written: {error.strerror}: make room, or mend it"))
            return
        if self.problem or self.synced_at is None:
            log.info("the admin at %s answers", self.config.endpoint)
        self.problem = ""
        self.synced_at = steady()
        self._sequence += 1
        self._backoff.reset()
        self._retry_at = 0.0
        self._reported = call.body.get("report", self._reported)

    def _unread(self, body: Mapping[str, Any], why: str) -> None:
        """The admin cannot read a sync: leave out what may be the reason, for the rest must get through."""
        if "report" in body:
            self._reported = body["report"]
        elif body["events"]:
            self.work.shorten({event["event"] for event in body["events"]}, why)

    def _failed(self, error: AdminError) -> None:
        """Come back later; or not at all, where nothing is to be hoped for and nothing is to be lost."""
        is_new = str(error) != self.problem
        if is_new:
            log.error("%s", error)
        self.problem = str(error)
        if isinstance(error, TooLarge) and self._most_bytes <= _LEAST_BYTES:
            self.work.drop_outputs()
        if isinstance(error, TooLarge):
            self._most_bytes = max(_LEAST_BYTES, self._most_bytes // 2)
        if isinstance(error, Replaced):
            self._give_way()
        # The second time: a token that is being rotated may not be in its file yet.
        if isinstance(error, Unauthenticated) and not is_new and not self.work.intents:
            self._is_over = True
        self._retry_at = steady() + self._backoff.next_seconds(self._longest_pause(), error.retry_after)

    def _longest_pause(self) -> float:
        """How long the admin may be left alone: no lease is lost for it."""
        return self.guard.interval_seconds if self.work.intents else _LONGEST_PAUSE_SECONDS

    def _give_way(self) -> None:
        """Another agent serves the cluster now: what only this one can see must end, and so must this one."""
        self.is_replaced = self.work.is_stopping = True
        self._stop_at = self._stop_at or steady()
        if not self._engine.is_shared:
            for intent in list(self.work.intents.values()):
                self.work.end(intent, Ending.LOST, "Another agent has taken the cluster over.")
