"""The agent's loop: sync with the admin, run what it leases, report what happens.

One call, sync, does everything, and waits at the admin while there is nothing to report. Two may be under way at once:
a long poll for news, and a report meanwhile. Only the thread that runs the loop uses the engine and the intents; calls
are made in the background, so that a slow answer never delays the watch over leases.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from agent.bids import Bids
from agent.calls import Backoff, Call, Channel, Runner, run_in_thread
from agent.clocks import SYSTEM_CLOCK, Clock
from agent.cluster_resources.keeper import NamespaceKeeper
from agent.config import Config
from agent.describer import Describer
from agent.engine_problems import EngineProblems
from agent.engines.base import Engine
from agent.engines.safe import SafeEngine
from agent.guard import LeaseGuard
from agent.intents import WAIT, Ending
from agent.reporter import Reporter
from agent.state_directory import StateDirectory
from agent.sync_requests import SyncRequests
from agent.transport import (
    AdminClient,
    cluster_path,
    describe,
    is_awaited,
    is_replaced,
)
from agent.work import Work
from ctl.client.errors import ClientError, Unauthenticated, Unreachable

log = logging.getLogger("rainbow.agent")

_IDLE_SECONDS = 1.0
#: How long the admin may take to answer, beyond the time that it is asked to wait.
_ANSWER_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 30.0
#: How often the engine is asked for jobs of dead agents, and how long after the first answer of the admin.
_ORPHANS_SECONDS = 10.0
#: The least time between two reports.
_REPORT_SECONDS = 0.03
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
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()
        path = cluster_path(config.cluster, "sync")
        self._reports = Channel(client, path, self._inbox, clock=clock, run=run_call)
        self._long_polls = Channel(client, path, self._inbox, clock=clock, run=run_call)
        self._backoff = Backoff()
        self._retry_at = 0.0
        self._wait_seconds = 30.0
        self._next_poll_at = 0.0
        self._next_report_at = 0.0
        self._reporter = Reporter(config, self._engine, clock)
        self._describer = Describer(config.cluster, self._engine, client, clock=clock, run=run_call)
        self._namespaces = self._keeper(engine, client, run_call)
        self._bids = Bids(self._engine, config.state_directory / "jobs", clock)
        self._requests = SyncRequests(config, self.work, self._reporter, self._bids, state, clock, take_over=take_over)
        self._orphans_at: float | None = None
        self._started_at = clock.steady()
        self._engine_problems = EngineProblems(clock)
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
            self._engine_problems.note(self.work.problem)
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
        self._requests.save_position()
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
        elif self.clock.steady() >= self._orphans_at and not (self.work.is_stopping or self._requests.is_older_admin):
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
            is_unfinished = (
                self._reports.is_busy or self._requests.has_news or self.work.is_startable or self._is_settling()
            )
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

    def _start_calls(self, *, once: bool) -> None:
        """Report if there is news, else poll for some."""
        for channel in (self._reports, self._long_polls):
            if channel.is_overdue:
                channel.abandon()
                self._handle_failure(Unreachable(f"The admin at {self.config.endpoint} does not answer in time."))
        now = self.clock.steady()
        if now < self._retry_at or self._reports.is_busy or self.is_replaced:
            return
        if self.synced_at is None or self._requests.has_news:
            if now < self._next_report_at:
                return
            self._next_report_at = now + _REPORT_SECONDS
            self._reports.send(self._requests.body(wait_seconds=0), _ANSWER_SECONDS)
        elif not (once or self._long_polls.is_busy or (self._stop_at is not None and not self._drains)):
            if now < self._next_poll_at:
                return
            wait, answer = self._wait_seconds, _ANSWER_SECONDS
            if self.work.intents:
                wait, answer = (min(seconds, self.guard.interval_seconds) for seconds in (wait, answer))
            self._long_polls.send(self._requests.body(wait_seconds=wait), wait + answer)

    # Answers

    def _take_calls(self, seconds: float) -> None:
        """Wait for a call to finish, and handle every call that has."""
        call = self.clock.wait_for(self._inbox, seconds)
        while call is not None:
            # An abandoned call belongs to no channel, and is ignored.
            is_current = self._reports.finish(call) or self._long_polls.finish(call)
            if is_current and call.answer is not None:
                self._handle_answer(call, call.answer)
            elif is_current and call.error is not None and not self._requests.omit_unknown(call.error):
                self._requests.omit_refused(call, call.error)
                self._handle_failure(call.error)
            call = self.clock.wait_for(self._inbox, 0)

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
        self._requests.note_answer(call.body)
        self._backoff.reset()
        self._retry_at = 0.0

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
        self._requests.note_position(answer.get("position"))
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

    def _handle_failure(self, error: ClientError) -> None:
        """Try again later; or end, if trying again is pointless and nothing is held."""
        problem = describe(error)
        is_new = problem != self.problem
        if is_new:
            log.error("%s", problem)
        self.problem = problem
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
