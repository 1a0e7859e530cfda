"""The agent's loop: sync with the admin, run what it leases, report what happens.

One call, sync, does everything, and waits at the admin while there is nothing to report. Two may be under way at once:
a long poll for news, and a report meanwhile. Only the thread that runs the loop uses the engine and the intents; calls
are made in the background, so that a slow answer never delays the watch over leases.
"""

from __future__ import annotations

import logging
import platform
import random
import uuid
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from agent.bids import Bids
from agent.calls import Backoff, Call, Channel, Runner, run_in_thread
from agent.clocks import SYSTEM_CLOCK, Clock
from agent.cluster_resources.keeper import NamespaceKeeper
from agent.config import Config
from agent.crashes import crash_point
from agent.describer import Describer
from agent.engine_problems import EngineProblems
from agent.engines.base import Engine
from agent.engines.safe import SafeEngine
from agent.guard import LeaseGuard
from agent.intents import WAIT, Ending
from agent.reporter import Reporter
from agent.state_directory import StateDirectory
from agent.transport import (
    AdminClient,
    cluster_path,
    describe,
    is_awaited,
    is_refused_field,
    is_replaced,
    is_too_large,
    is_unreadable,
)
from agent.work import Work
from ctl.client.errors import ClientError, Unauthenticated, Unreachable

log = logging.getLogger("rainbow.agent")

_IDLE_SECONDS = 1.0
#: How often the log of a running execution is sent.
_LOG_SECONDS = 1.0
#: How long the admin may take to answer, beyond the time that it is asked to wait.
_ANSWER_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 30.0
#: Bytes of logs, and of events, in one sync: together less than proxies accept; halved when one refuses it.
_MOST_BYTES, _LEAST_BYTES = 384 * 1024, 16 * 1024
#: How often the engine is asked for jobs of dead agents, and how long after the first answer of the admin.
_ORPHANS_SECONDS = 10.0
#: The least time between two reports.
_REPORT_SECONDS = 0.03
#: The least time between two times that the position is stored.
_POSITION_SECONDS = 5.0
#: How long a stopping agent tries to hand work back.
_STOP_SECONDS = 15.0
#: How long `once` waits for a job that it has submitted to run.
_SETTLING_SECONDS = 3.0


class Agent:
    """One agent process."""

    def __init__(
        self,
        config: Config,
        engine: Engine,
        state: StateDirectory,
        client: AdminClient,
        *,
        take_over: bool = False,
        clock: Clock = SYSTEM_CLOCK,
        run_call: Runner = run_in_thread,
    ) -> None:
        self.config = config
        self.clock = clock
        self.guard = LeaseGuard()
        self._engine = SafeEngine(engine)
        self._poll_seconds = config.poll_seconds or self._engine.poll_seconds
        self.work = Work(
            self._engine,
            state,
            self.guard,
            cluster=config.cluster,
            slots=config.slots,
            poll_seconds=self._poll_seconds,
            clock=clock,
        )
        #: Why the last sync failed, until one succeeds.
        self.problem = ""
        #: The state of the cluster in the admin's last answer, and when that answer arrived.
        self.cluster_state: dict[str, Any] = {}
        self.synced_at: float | None = None
        self.is_replaced = False
        self._id = uuid.uuid4().hex
        self._state = state
        self._takes_over = take_over
        #: Whether the admin refuses what agents of this version say of themselves.
        self._is_older_admin = False
        #: The greatest position of the admin's answers, and when to store it.
        self._seen = state.load_position(config.cluster)
        self._save_seen_at = 0.0
        self._sequence = 1
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()
        path = cluster_path(config.cluster, "sync")
        self._reports = Channel(client, path, self._inbox, clock=clock, run=run_call)
        self._long_polls = Channel(client, path, self._inbox, clock=clock, run=run_call)
        self._backoff = Backoff()
        self._retry_at = 0.0
        self._wait_seconds = 30.0
        self._next_poll_at = 0.0
        self._next_report_at = 0.0
        self._next_logs_at = 0.0
        self._most_bytes = _MOST_BYTES
        self._reporter = Reporter(config, self._engine, clock)
        self._describer = Describer(config.cluster, self._engine, client, clock=clock, run=run_call)
        self._namespaces = self._keeper(engine, client, run_call)
        self._bids = Bids(self._engine, config.state_directory / "jobs", clock)
        self._orphans_at: float | None = None
        self._reported: dict[str, Any] | None = None
        self._started_at = clock.steady()
        self._work_problems = EngineProblems(clock)
        self._stop_at: float | None = None
        self._stops = 0
        self._drains = False
        self._is_over = False

    def _keeper(self, engine: Engine, client: AdminClient, run: Runner) -> NamespaceKeeper | None:
        """What makes the namespaces of projects; None for an engine that has none."""
        open_api = getattr(engine, "resource_api", None)
        if open_api is None:
            return None
        namespace_of = getattr(engine, "namespace_of", None)
        return NamespaceKeeper(
            self.config.cluster, open_api(), client, namespace_of=namespace_of, clock=self.clock, run=run
        )

    def stop(self, *, drain: bool = False) -> None:
        """Ask the loop to end; asked twice, it ends at once. May be called by a signal handler."""
        self._stops += 1
        self._drains = drain
        self._inbox.put(None)

    def run(self, *, once: bool = False, watch: Callable[[Agent], None] = lambda agent: None) -> int:
        """Run until asked to stop, or with `once` until nothing is left to report; returns the exit status."""
        self.work.recover()
        while not self._is_over:
            if self._stops:
                self._stop()
            self.work.step()
            self._reporter.measure(self.work)
            self._work_problems.note(self.work.problem)
            obstacle = "the agent is stopping" if self.work.is_stopping else self.work.problem
            slot_seconds = self.work.intents.seconds_until_slot(self.config.slots, self.clock.steady())
            self._bids.step(obstacle, self.work.intents.counts(), slot_seconds, self.work.held_back)
            self._start_calls(once=once)
            if self.synced_at is not None and not self.is_replaced:
                self._describer.step()
                self._claim_orphans()
                if self._namespaces is not None:
                    self._namespaces.step()
            if self._may_end(once=once):
                break
            watch(self)
            self._take_calls(self._pause())
        self._state.save_position(self.config.cluster, self._seen)
        if self.work.intents.active and not once:
            log.info("%d executions go on; started again, the agent resumes them", self.work.intents.active)
        if self.work.intents.guarded and not once:
            text = "%d of them do not wait for it: start it within %g s"
            rest = (
                "or they are ended" if self._engine.guards_leases else "because nothing else ends them on this engine"
            )
            log.warning(f"{text}, {rest}", self.work.intents.guarded, self.guard.longest_silence_seconds)
        return 1 if self.problem else 0

    def _claim_orphans(self) -> None:
        """Look now and then for what a dead agent left, once the admin has asked about what it knows of."""
        assert self.synced_at is not None
        if self._orphans_at is None:
            self._orphans_at = self.clock.steady() + _ORPHANS_SECONDS
        elif self.clock.steady() >= self._orphans_at and not (self.work.is_stopping or self._is_older_admin):
            self._orphans_at = self.clock.steady() + _ORPHANS_SECONDS
            self.work.adoptions.claim_orphans()

    def _pause(self) -> float:
        """How long to wait for an answer before the next round."""
        if self._bids.has_questions:
            return 0.0
        if self._next_report_at > self.clock.steady() and not self._reports.is_busy:
            return _REPORT_SECONDS
        return self._poll_seconds if self.work.intents else max(self._poll_seconds, _IDLE_SECONDS)

    # Stopping

    def _stop(self) -> None:
        """Take nothing new, and hand back what has not started."""
        if self._stop_at is None:
            self._stop_at = self.clock.steady()
            rest = ", waiting for what runs" if self._drains else ""
            log.info("stopping: handing back what has not started%s", rest)
        self.work.is_stopping = True
        self.work.release_unstarted()

    def _may_end(self, *, once: bool) -> bool:
        if once:
            is_unfinished = self._reports.is_busy or self._has_news() or self.work.is_startable or self._is_settling()
            is_unfinished |= self._describer.is_busy
            return bool(self.problem) or (self.synced_at is not None and not is_unfinished)
        if self._stop_at is None:
            return False
        is_late = self.clock.steady() > self._stop_at + _STOP_SECONDS
        if self._stops > 1:
            return True
        if self.is_replaced:
            return is_late or not self.work.intents.is_ending
        if self._drains:
            return not self.work.intents and not self.work.outbox.standalone
        return is_late or not self.work.is_unsettled

    def _is_settling(self) -> bool:
        """Whether a job was submitted that may run in a moment."""
        is_recent = self.clock.steady() < self._started_at + _SETTLING_SECONDS
        is_queued = self.work.intents.counts()["queued"] > 0 and is_recent
        return self.work.is_unpolled or (is_queued and not self.work.problem)

    # Requests

    def _has_news(self) -> bool:
        """Whether there is something to report, or a lease to be confirmed."""
        outbox = self.work.outbox
        has_logs = bool(outbox.log_pieces(1, include_running=self.clock.steady() >= self._next_logs_at))
        has_report = self._reporter.report != self._reported
        return self.work.is_unconfirmed or has_report or bool(outbox.events()) or has_logs or bool(self._bids.answers)

    def _start_calls(self, *, once: bool) -> None:
        """Report if there is news, else poll for some."""
        for channel in (self._reports, self._long_polls):
            if channel.is_overdue:
                channel.abandon()
                self._handle_failure(Unreachable(f"The admin at {self.config.endpoint} does not answer in time."))
        now = self.clock.steady()
        if now < self._retry_at or self._reports.is_busy or self.is_replaced:
            return
        if self.synced_at is None or self._has_news():
            if now < self._next_report_at:
                return
            self._next_report_at = now + _REPORT_SECONDS
            self._reports.send(self._body(wait_seconds=0), _ANSWER_SECONDS)
        elif not (once or self._long_polls.is_busy or (self._stop_at is not None and not self._drains)):
            if now < self._next_poll_at:
                return
            wait, answer = self._wait_seconds, _ANSWER_SECONDS
            if self.work.intents:
                wait, answer = (min(seconds, self.guard.interval_seconds) for seconds in (wait, answer))
            self._long_polls.send(self._body(wait_seconds=wait), wait + answer)

    def _body(self, *, wait_seconds: float) -> dict[str, Any]:
        """The body of one sync; an execution whose final event is in it is no longer named as held."""
        events = self.work.outbox.events(self._most_bytes)
        ended = self.work.outbox.ended_with({event["event"] for event in events})
        if ended:
            crash_point("before-report")
        held = [intent.reference for key, intent in self.work.intents.items() if key not in ended]
        references = {"holding": held, "events": events, "logs": self._logs()}
        if self._is_older_admin:
            references = {name: [_without_uid(item) for item in items] for name, items in references.items()}
        body: dict[str, Any] = {
            "agent": self._id,
            "sequence": self._sequence,
            "want": self._free_slots(),
            "wait_seconds": wait_seconds,
            **references,
            **({} if self._is_older_admin else self._identity()),
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
        if self.work.is_stopping or self.work.problem or self.work.waits_for:
            return 0
        return max(0, min(self.config.want, self.config.slots - self.work.intents.active))

    def _logs(self) -> list[dict[str, Any]]:
        """Log pieces: those of ended executions in every sync, those of running ones once a second."""
        is_due = self.clock.steady() >= self._next_logs_at
        pieces = self.work.outbox.log_pieces(self._most_bytes, include_running=is_due)
        if is_due:
            self._next_logs_at = self.clock.steady() + _LOG_SECONDS
        return pieces

    # Answers

    def _take_calls(self, seconds: float) -> None:
        """Wait for a call to finish, and handle every call that has."""
        call = self.clock.wait_for(self._inbox, seconds)
        while call is not None:
            # An abandoned call belongs to no channel, and is ignored.
            is_current = self._reports.finish(call) or self._long_polls.finish(call)
            if is_current and call.answer is not None:
                self._handle_answer(call, call.answer)
            elif is_current and call.error is not None and self._is_older(call.error):
                log.warning("the admin is older than this agent, and cannot tell it from others of the cluster")
                self._is_older_admin = True
            elif is_current and call.error is not None and (unknown := self._unknown_in_report(call.error)):
                self._reporter.tells -= unknown
            elif (
                is_current
                and call.error is not None
                and self._bids.is_asked
                and is_refused_field(call.error, "can_bid")
            ):
                self._bids.is_asked = False  # the admin is an older one by now
            elif is_current and call.error is not None:
                if is_unreadable(call.error):
                    self._handle_unreadable(call.body, call.error)
                self._handle_failure(call.error)
            call = self.clock.wait_for(self._inbox, 0)

    def _unknown_in_report(self, error: ClientError) -> set[str]:
        """The fields of a report that an admin refuses, which is older than they are."""
        return {name for name in self._reporter.tells if is_refused_field(error, name)}

    def _is_older(self, error: ClientError) -> bool:
        """Whether the admin refuses fields that were added after its version."""
        return not self._is_older_admin and any(is_refused_field(error, name) for name in ("instance", "uid"))

    def _handle_answer(self, call: Call, answer: Mapping[str, Any]) -> None:
        """Do what the admin's answer asks for."""
        try:
            self._apply(call, answer)
        except (KeyError, TypeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            self._handle_failure(
                Unreachable(f"{self.config.endpoint} answers, but not as an admin of this version ({problem}).")
            )
            return
        except OSError as error:
            self._handle_failure(
                Unreachable(f"stateDirectory: cannot be written: {error.strerror}: free some space, or repair it.")
            )
            return
        if self.problem or self.synced_at is None:
            log.info("the admin at %s answers", self.config.endpoint)
        self.problem = ""
        self.synced_at = self.clock.steady()
        self._sequence += 1
        self._backoff.reset()
        self._retry_at = 0.0
        self._reported = call.body.get("report", self._reported)

    def _apply(self, call: Call, answer: Mapping[str, Any]) -> None:
        # First what ends work, last what may fail: storing new leases.
        self.work.cancel(answer["cancels"])
        self.work.end_lost(answer["lost"])
        self.guard.lease_seconds = float(answer["intervals"]["lease_seconds"])
        self._wait_seconds = float(answer["intervals"]["wait_seconds"])
        # Sent when as many agents wait there as the admin has threads for.
        if pause := float(answer["intervals"].get("pause_seconds", 0)):
            self._next_poll_at = self.clock.steady() + min(pause * random.uniform(1.0, 1.2), self._longest_pause())
        self.cluster_state = answer["state"]
        self.work.is_draining = bool(answer["state"].get("draining"))
        self._describer.stored = answer["state"].get("description")
        self._see(answer.get("position"))
        for refusal in answer["refused"]:
            log.warning("the admin refused the report %s: %s", refusal["event"], refusal["reason"])
        self.work.settle({*answer["accepted"], *(refusal["event"] for refusal in answer["refused"])})
        self.work.outbox.mark_logs_stored(answer["log_offsets"])
        self.work.leases.renew(answer["confirmed"], call.sent_at, confirms=True)
        self.work.leases.renew(answer["cancels"], call.sent_at, confirms=False)
        self.work.adoptions.answer(answer["questions"])
        self._bids.forget(call.body.get("bids", ()))
        self._bids.take(answer)
        self.work.accept(answer["leases"])

    def _see(self, position: int | None) -> None:
        """Store the admin's position, by which it later recognises that its database was restored."""
        if position is None:
            return
        self._is_older_admin = False
        self._seen = max(self._seen, int(position))
        if self.clock.steady() >= self._save_seen_at:
            self._save_seen_at = self.clock.steady() + _POSITION_SECONDS
            self._state.save_position(self.config.cluster, self._seen)

    def _handle_unreadable(self, body: Mapping[str, Any], error: ClientError) -> None:
        """Leave out of the next sync what the admin may have been unable to read, so that the rest arrives."""
        problem = describe(error)
        fields = [str(detail.get("field")) for detail in error.details]
        if fields and all(field.startswith("logs") for field in fields):
            log.error("the rest of a log is not sent: %s", problem)
            self.work.outbox.give_up_logs(body["logs"])
        elif "report" in body:
            self._reported = body["report"]
        elif body["events"]:
            self.work.outbox.strip_details({event["event"] for event in body["events"]}, problem)

    def _handle_failure(self, error: ClientError) -> None:
        """Try again later; or end, if trying again is pointless and nothing is held."""
        problem = describe(error)
        is_new = problem != self.problem
        if is_new:
            log.error("%s", problem)
        self.problem = problem
        if is_too_large(error) and self._most_bytes <= _LEAST_BYTES:
            self.work.outbox.strip_outputs()
        if is_too_large(error):
            self._most_bytes = max(_LEAST_BYTES, self._most_bytes // 2)
        if isinstance(error, Unauthenticated):
            self._reported = None  # who is registered again is not known to have reported anything
        if is_replaced(error):
            self._handle_replacement(is_awaited=is_awaited(error))
        # The second time only: a token that is being rotated may not be in its file yet.
        if isinstance(error, Unauthenticated) and not is_new and not self.work.intents:
            self._is_over = True
        pause = self._backoff.next_seconds(self._longest_pause(), error.retry_after)
        self._retry_at = self.clock.steady() + pause

    def _longest_pause(self) -> float:
        """How long the agent may stay away from the admin without losing a lease."""
        return self.guard.interval_seconds if self.work.intents else _LONGEST_PAUSE_SECONDS

    def _handle_replacement(self, *, is_awaited: bool) -> None:
        """Stop, because another agent serves the cluster now; end jobs that the other cannot see."""
        self.is_replaced = self.work.is_stopping = True
        self._stop_at = self._stop_at or self.clock.steady()
        if not self._engine.is_shared:
            for intent in list(self.work.intents.values()):
                if not (is_awaited and intent.on_lost == WAIT):
                    # Its result counts if this agent serves the cluster again while the attempt is current.
                    self.work.end(intent, Ending.EXPIRED, "Another agent has taken the cluster over.")


def _without_uid(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "uid"}
