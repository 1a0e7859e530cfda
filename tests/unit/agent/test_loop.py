"""The agent's loop against a scripted admin, with a fake engine and a fake clock."""

from __future__ import annotations

import io
import itertools
import logging
import platform
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.calls import Runner
from agent.config import Config
from agent.engines.base import Handle, Orphan
from agent.engines.safe import SafeEngine
from agent.intents import Intent, Intents, Stage
from agent.loop import Agent
from agent.reporter import Reporter
from agent.state_directory import StateDirectory
from agent.status import StatusLine
from agent.tasks import key_of
from agent.testing import QUEUED, RUNNING, SUCCEEDED, FakeClock, FakeEngine, Program
from agent.transport import AdminClient, Token
from ctl.client.quantities import parse_quantity
from tests.support.agent_scripts import ScriptedAdmin, answer, error

REFERENCE = {"id": {"project": "p", "domain": "d", "name": "n"}, "attempt": 1}
LEASE = {**REFERENCE, "lease_seconds": 60, "job": {"command": ["true"]}, "config": {}}


@dataclass
class Bench:
    """An agent with a fake engine and a fake clock; a call is answered at once, and takes 50 ms on the clock."""

    agent: Agent
    engine: FakeEngine
    clock: FakeClock
    script: ScriptedAdmin
    state: StateDirectory


@pytest.fixture
def new_bench(script: ScriptedAdmin, tmp_path: Path, token: Token) -> Iterator[Callable[..., Bench]]:
    logging.getLogger("rainbow.agent").setLevel(logging.CRITICAL)
    config = Config(
        cluster="alpha", endpoint=script.url, state_directory=tmp_path, token_file=token.path, slots=3, want=2
    )
    client = AdminClient(script.url, token=token)
    state = StateDirectory(tmp_path / "state")

    def build(run_call: Runner | None = None, engine: FakeEngine | None = None, **more: Any) -> Bench:
        engine, clock = engine or FakeEngine(), FakeClock()

        def run_now(function: Callable[[], None]) -> None:
            function()
            clock.advance(0.05)

        run_call = run_call or run_now
        agent = Agent(config, engine, state, client, clock=clock, run_call=run_call, **more)
        return Bench(agent, engine, clock, script, state)

    yield build
    state.close()
    client.close()


@pytest.fixture
def bench(new_bench: Callable[..., Bench]) -> Bench:
    return new_bench()


def run_until(bench: Bench, condition: Callable[[], bool]) -> int:
    """Run the loop until a condition holds, then stop it; fails after an hour on the fake clock."""
    deadline = bench.clock.steady() + 3600
    is_stopped = False

    def watch(agent: Agent) -> None:
        nonlocal is_stopped
        assert bench.clock.steady() < deadline, f"the condition was not met: {agent.problem}"
        if not is_stopped and condition():
            is_stopped = True
            agent.stop()

    return bench.agent.run(watch=watch)


def test_the_first_sync_describes_the_cluster(bench: Bench) -> None:
    run_until(bench, lambda: len(bench.script.bodies) >= 2)
    first, second = bench.script.bodies[:2]
    assert (first["sequence"], first["want"], first["wait_seconds"], first["holding"]) == (1, 2, 0, [])
    assert first["report"] == {
        "engine": "fake",
        "engine_version": "1",
        "capacity": {"cpu": "4", "executions": 3},
        "free": {"cpu": "2", "executions": 3},
        "eta": "1500ms",
        "plugins": [],
        "properties": {"agent_version": version("rainbow")},
    }
    assert ("report" in second, second["sequence"], second["agent"]) == (False, 2, first["agent"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_an_engine_says_cannot_control_the_terminal_by_the_status_line(bench: Bench) -> None:
    terminal = Terminal()
    bench.agent.work.problem = "no\x1b[2J\nforged"
    StatusLine(terminal).update(bench.agent)
    status = terminal.getvalue().removeprefix("\r\x1b[K")
    assert (status.isprintable(), "no\\x1b[2J\\nforged" in status) == (True, True)


def test_an_engine_that_does_not_answer_is_told_once_and_nothing_is_taken_until_it_does(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.engine.unavailable = "User stranger cannot list resource pods"
    with caplog.at_level(logging.INFO, "rainbow.agent"):
        run_until(bench, lambda: bench.clock.steady() > 60)
        assert {body["want"] for body in bench.script.bodies} == {0}
        assert [record.message for record in caplog.records if "stranger" in record.message] == [
            "User stranger cannot list resource pods"
        ]


def test_an_engine_that_answers_again_is_told_and_gets_work(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def mend() -> bool:
        if bench.clock.steady() > 30:
            bench.engine.unavailable = ""
        return any("works again" in record.message for record in caplog.records)

    bench.engine.unavailable = "no answer"
    with caplog.at_level(logging.INFO, "rainbow.agent"):
        run_until(bench, mend)
    assert bench.script.bodies[0]["want"] == 0
    assert next(body["want"] for body in bench.script.bodies if body["want"]) == 2


def test_each_sync_says_which_agent_it_is_from_and_how_far_it_has_seen_the_admin(bench: Bench) -> None:
    bench.script.answers = [answer(position=7), answer(position=9), answer(position=8)]
    run_until(bench, lambda: len(bench.script.bodies) >= 4)
    assert [body["seen"] for body in bench.script.bodies[:4]] == [0, 7, 9, 9]
    assert {(body["instance"], body["host"]) for body in bench.script.bodies} == {
        (bench.state.instance, platform.node())
    }
    assert not any("take_over" in body for body in bench.script.bodies)
    assert bench.state.load_position("alpha") == 9


def test_an_agent_that_is_asked_bids_and_tells_an_older_admin_nothing_of_it(bench: Bench) -> None:
    question = {"question": 5, "uid": "ab", "round": 1, "seconds": 60, "job": {"command": ["true"]}}
    field = {"field": "can_bid", "reason": "is unknown"}
    bench.script.answers = [
        answer(bid_requests=[]),
        answer(bid_requests=[question]),
        (503, error("x")),
        answer(bid_requests=[]),
        (400, {**error("invalid_request"), "details": [field]}),
        answer(),
    ]
    run_until(bench, lambda: len(bench.script.bodies) >= 8)
    bid = {"question": 5, "uid": "ab", "answer": "yes", "start_seconds": 1.5}
    bodies = bench.script.bodies[:8]
    assert [body.get("can_bid") for body in bodies] == [None, True, True, True, True, None, None, None]
    assert [body.get("bids") for body in bodies[1:5]] == [[], [bid], [bid], []]
    assert not any("bids" in body for body in bodies[5:])
    assert bench.engine.submitted == []


def test_a_bid_waits_for_a_slot_of_the_agent(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    question = {"question": 5, "uid": "ab", "round": 1, "seconds": 60, "job": {"command": ["true"]}}
    bench.script.answers = [answer(bid_requests=[question]), answer(bid_requests=[])]
    ends = {bench.agent.config.slots: 40.0}
    monkeypatch.setattr(bench.agent.work.intents, "seconds_until_slot", lambda slots, now: ends[slots])
    run_until(bench, lambda: len(bench.script.bodies) >= 2)
    assert bench.script.bodies[1]["bids"] == [{"question": 5, "uid": "ab", "answer": "yes", "start_seconds": 40.0}]


def test_an_agent_takes_over_with_its_first_sync_only(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench(take_over=True)
    bench.script.answers = [(503, error("x")), answer()]
    run_until(bench, lambda: len(bench.script.bodies) >= 4)
    assert [body.get("take_over") for body in bench.script.bodies[:4]] == [True, True, None, None]


def test_an_older_admin_is_not_told_what_it_does_not_know(bench: Bench) -> None:
    """An answer with a position shows that the admin was upgraded."""
    details = [{"field": name, "reason": "unknown"} for name in ("host", "instance", "holding.0.uid")]
    refusal = (400, {**error("invalid_request"), "details": details})
    seen: list[set[str]] = []

    def respond(body: dict[str, Any]) -> Any:
        seen.append({"instance", "host", "seen"} & set(body) | {"uid" for item in body["holding"] if "uid" in item})
        if len(seen) < 4:
            return refusal if seen[-1] else answer(leases=[{**LEASE, "uid": "00ff"}])
        return answer(position=1)

    bench.script.answers = [respond]
    assert run_until(bench, lambda: len(seen) >= 6) == 0
    assert seen[:6] == [{"instance", "host", "seen"}, set(), set(), set(), *[{"instance", "host", "seen", "uid"}] * 2]


def test_why_the_engine_cannot_be_used_is_reported_and_that_it_can_be_again(bench: Bench) -> None:
    """An agent that was started while its engine is away tells only that."""
    bench.engine.unavailable = "User stranger cannot list resource pods"
    reports: list[dict[str, Any]] = []

    def respond(body: dict[str, Any]) -> Any:
        reports.extend([body["report"]] if "report" in body else [])
        if len(reports) == 1:
            bench.engine.unavailable = ""
        elif len(reports) == 2:
            bench.engine.unavailable = "no answer"
        return answer()

    bench.script.answers = [respond]
    assert run_until(bench, lambda: len(reports) >= 3) == 0
    assert reports[0] == {"engine": "fake", "problem": "User stranger cannot list resource pods"}
    assert "problem" not in reports[1]
    assert reports[2] == {**reports[1], "problem": "no answer"}


def test_an_older_admin_is_not_told_why_the_engine_cannot_be_used(bench: Bench) -> None:
    bench.engine.unavailable = "no answer"
    refusal = (400, {**error("invalid_request"), "details": [{"field": "report.problem", "reason": "unknown"}]})
    told: list[bool] = []

    def respond(body: dict[str, Any]) -> Any:
        told.append("report" in body)
        return refusal if told[-1] else answer()

    bench.script.answers = [respond]
    assert run_until(bench, lambda: len(told) >= 4) == 0
    assert told[:4] == [True, False, False, False]


def test_why_work_waits_is_reported_and_an_older_admin_is_not_told(bench: Bench) -> None:
    names = {"project": "p", "domain": "d"}
    first, second = ({**LEASE, "id": {**names, "name": name}} for name in ("first", "second"))
    bench.engine.waits = {key_of(second): "the machine is in use"}
    reports: list[Any] = []

    def respond(body: dict[str, Any]) -> Any:
        if "report" in body:
            reports.append(body["report"].get("waits_for"))
            if reports[-1]:
                return 400, {
                    **error("invalid_request"),
                    "details": [{"field": "report.waits_for", "reason": "unknown"}],
                }
        return answer(confirmed=body["holding"], leases=[] if body["holding"] else [first, second])

    bench.script.answers = [respond]
    begin = bench.clock.steady()
    run_until(bench, lambda: bench.clock.steady() > begin + 60)
    assert reports.count("the machine is in use") == 1
    assert len(reports) > reports.index("the machine is in use") + 1
    assert bench.agent.problem == ""


def test_a_refused_agent_waits_until_the_cluster_is_free(bench: Bench) -> None:
    refusal = (409, error("agent_present", "Another agent of it runs on red: stop it."))
    bench.script.answers = [*[refusal] * 5, answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0
    assert [body["sequence"] for body in bench.script.bodies[:6]] == [1] * 6


def test_a_refused_agent_that_is_run_once_says_who_is_there(bench: Bench) -> None:
    bench.script.answers = [(409, error("agent_present", "Another agent of it runs on red: stop it."))]
    assert bench.agent.run(once=True) == 1
    assert (bench.agent.problem, len(bench.script.bodies)) == ("Another agent of it runs on red: stop it.", 1)


def test_a_refused_agent_ends_and_starts_nothing(bench: Bench) -> None:
    bench.state.save(Intent(lease={**LEASE, "on_lost": "wait"}, stage=Stage.SUBMITTED, native_id="1"), is_durable=True)
    bench.state.save(Intent(lease={**LEASE, "attempt": 2, "on_lost": "wait"}), is_durable=True)
    (running, _), _ = bench.state.load_intents()
    bench.engine.jobs[running.key] = RUNNING
    bench.script.answers = [(409, error("agent_present", "Another agent of it runs on red: stop it."))]
    begin = bench.clock.steady()
    assert run_until(bench, lambda: bench.clock.steady() > begin + 300) == 1
    assert (bench.engine.cancelled, bench.engine.submitted) == ([], [])


def test_a_failed_sync_is_repeated_until_one_succeeds(bench: Bench) -> None:
    bench.script.answers = [(503, error("x")), (500, b""), (429, error("y")), (400, error("z")), answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0
    # The first sync that is answered makes this process the cluster's agent: until then each is the first.
    assert [body["sequence"] for body in bench.script.bodies[:5]] == [1, 1, 1, 1, 1]


def test_an_unexpected_answer_is_a_failure(bench: Bench) -> None:
    bench.script.answers = [{"hello": "world"}, answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0


def request_times(bench: Bench, status: int, document: dict[str, Any]) -> list[float]:
    """When each request arrives, by the fake clock; every request gets the same answer."""
    times: list[float] = []

    def respond(body: dict[str, Any]) -> Any:
        times.append(bench.clock.steady())
        return status, document

    bench.script.answers = [respond]
    return times


def test_pauses_between_failures_grow(bench: Bench) -> None:
    times = request_times(bench, 503, error("x"))
    assert run_until(bench, lambda: len(times) == 8) == 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 0.25 <= pauses[0] <= 0.5 + 1
    assert all(pause >= 15 for pause in pauses[-1:])
    assert sum(pauses) > 30


def test_the_admin_can_ask_for_a_pause(bench: Bench) -> None:
    times = request_times(bench, 429, error("too_many_attempts"))
    assert run_until(bench, lambda: len(times) == 3) == 1
    assert all(later - earlier >= 7 for earlier, later in itertools.pairwise(times))


def test_an_agent_that_the_admin_sends_away_waits_before_its_next_long_poll(bench: Bench) -> None:
    intervals = {"wait_seconds": 30, "lease_seconds": 60, "retry_seconds": 5, "pause_seconds": 20}
    times = request_times(bench, 200, answer(intervals=intervals))
    assert run_until(bench, lambda: len(times) >= 4) == 0
    assert [body["wait_seconds"] for body in bench.script.bodies[:4]] == [0, 30, 30, 30]
    assert all(later - earlier >= 20 for earlier, later in itertools.pairwise(times))


def test_a_call_without_an_answer_is_abandoned(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench(lambda function: None)
    assert run_until(bench, lambda: bool(bench.agent.problem)) == 1
    assert bench.agent.problem == f"The admin at {bench.script.url} does not answer in time."


def test_a_request_that_is_too_large_is_made_smaller(bench: Bench) -> None:
    bench.script.answers = [(413, error("too_large")), (413, error("too_large")), answer()]
    run_until(bench, lambda: bench.agent.synced_at is not None)
    assert bench.agent._requests._most_bytes == 96 * 1024


def test_a_report_that_the_admin_cannot_read_does_not_stop_the_rest(bench: Bench) -> None:
    bench.script.answers = [lambda body: (400, error("invalid_request")) if "report" in body else answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0
    assert ["report" in body for body in bench.script.bodies[:2]] == [True, False]


def test_an_event_that_the_admin_cannot_read_is_reduced_to_its_required_fields(bench: Bench) -> None:
    taken: list[dict[str, Any]] = []

    def respond(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = SUCCEEDED
        if any("native_id" in event for event in body["events"]):
            return 400, error("invalid_request", "What is this?")
        taken.extend(body["events"])
        reply = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        return {**reply, "leases": [] if bench.engine.submitted or body["holding"] else [LEASE]}

    bench.script.answers = [respond]
    run_until(bench, lambda: len(taken) == 2 and not bench.agent.work.intents)
    assert [event["type"] for event in taken] == ["RUNNING", "SUCCEEDED"]
    assert "What is this?" in taken[1]["message"]


def test_a_log_that_the_admin_cannot_read_does_not_stop_the_rest(bench: Bench) -> None:
    bench.engine.programs["true"] = Program(stdout=b"text", states=(QUEUED, RUNNING, SUCCEEDED))
    taken: list[str] = []

    def respond(body: dict[str, Any]) -> Any:
        if body["logs"]:
            details = [{"field": "logs[0].offset", "reason": "is too large."}]
            return 400, {**error("invalid_request"), "details": details}
        taken.extend(event["type"] for event in body["events"])
        reply = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        return {**reply, "leases": [] if bench.engine.submitted or body["holding"] else [LEASE]}

    bench.script.answers = [respond]
    run_until(bench, lambda: "SUCCEEDED" in taken)
    assert sum(bool(body["logs"]) for body in bench.script.bodies) == 1


@pytest.mark.parametrize("seconds", [1e12, float("inf"), float("nan"), None])
def test_an_unknown_eta_is_not_reported(bench: Bench, seconds: float | None) -> None:
    bench.engine.eta_seconds = seconds
    run_until(bench, lambda: bool(bench.script.bodies))
    assert "eta" not in bench.script.bodies[0]["report"]


def test_no_eta_is_reported_while_every_slot_is_taken(bench: Bench, tmp_path: Path) -> None:
    reporter = build_reporter(bench, bench.engine, tmp_path)
    reports = []
    for active in (1, 2, 1):
        reporter.measure(work_of(*[Intent(lease=LEASE)] * active))
        assert reporter.report is not None
        reports.append((reporter.report["free"]["executions"], reporter.report.get("eta")))
        bench.clock.advance(3600)
    assert reports == [(1, "1500ms"), (0, None), (1, "1500ms")]


def test_a_refused_token_ends_an_agent_that_holds_nothing(bench: Bench) -> None:
    bench.script.answers = [(401, error("unauthenticated", "This token does not count."))]
    assert bench.agent.run() == 1
    assert bench.agent.problem == "This token does not count."
    assert len(bench.script.bodies) == 2


def test_a_token_that_is_refused_once_is_tried_again(bench: Bench) -> None:
    bench.script.answers = [(401, error("unauthenticated", "This token does not count.")), answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0


def test_after_its_token_was_refused_an_agent_reports_all_of_its_cluster_again(bench: Bench) -> None:
    refusal = (401, error("unauthenticated", "This token does not count."))
    bench.script.answers = [answer(), answer(), refusal, answer(), answer()]
    assert run_until(bench, lambda: len(bench.script.bodies) >= 5) == 0
    reports = [body.get("report") for body in bench.script.bodies[:5]]
    assert reports[0] is not None
    assert reports[1:3] == [None, None]
    assert reports[3] == reports[0]


def test_an_execution_over_http(bench: Bench) -> None:
    taken: list[str] = []

    def respond(body: dict[str, Any]) -> dict[str, Any]:
        events = body["events"]
        taken.extend(event["type"] for event in events)
        reply = answer(accepted=[event["event"] for event in events], confirmed=body["holding"])
        if len(bench.script.bodies) == 1:
            return {**reply, "leases": [LEASE]}
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = SUCCEEDED if "RUNNING" in taken else RUNNING
        return reply

    bench.script.answers = [respond]
    assert run_until(bench, lambda: "SUCCEEDED" in taken and not bench.agent.work.intents) == 0
    assert taken == ["RUNNING", "SUCCEEDED"]
    holding = [len(body["holding"]) for body in bench.script.bodies]
    assert holding[0] == 0
    assert holding[1] == 1
    assert holding[-1] == 0
    assert bench.state.load_intents() == ([], [])


def test_a_lost_answer_changes_nothing(bench: Bench) -> None:
    """Every second answer is lost on the way back; each report arrives all the same."""
    seen: list[str] = []

    def respond(body: dict[str, Any]) -> Any:
        is_lost = len(bench.script.bodies) % 2 == 1
        seen.extend(event["event"] for event in body["events"] if event["event"] not in seen)
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = SUCCEEDED
        reply = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        if not seen and not body["holding"]:
            reply["leases"] = [LEASE]
        return (502, b"") if is_lost else reply

    bench.script.answers = [respond]
    run_until(bench, lambda: len(seen) == 2 and not bench.agent.work.intents)
    assert len(bench.engine.submitted) == 1


@dataclass(kw_only=True)
class CountingEngine(FakeEngine):
    """An engine with four cores, of which each job that runs has one."""

    questions: int = 0

    def capacity(self) -> tuple[dict[str, Any], dict[str, Any]]:
        self.questions += 1
        self.free = {"cpu": str(4 - sum(state == RUNNING for state in self.jobs.values()))}
        return super().capacity()


class SharedEngine(CountingEngine):
    """An engine that is asked every few seconds, and knows what is left in between."""

    left: dict[str, Any] | None = None

    def room(self) -> dict[str, Any] | None:
        return self.left


def reports_with(bench: Bench, type: str) -> list[dict[str, Any]]:
    """The last report of the cluster whenever events of a type were sent, with those at the latest."""
    reports: list[dict[str, Any]] = []
    report: dict[str, Any] = {}
    for body in bench.script.bodies:
        report = body.get("report", report)
        if any(event["type"] == type for event in body["events"]):
            reports.append(report)
    return reports


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_is_free_is_reported_no_later_than_each_start(new_bench: Callable[..., Bench], is_shared: bool) -> None:
    engine = CountingEngine(is_shared=is_shared, programs={"true": Program(states=(QUEUED, RUNNING))})
    bench = new_bench(engine=engine)
    job = {"command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    leases = [
        {**LEASE, "id": {"project": "p", "domain": "d", "name": name}, "job": job} for name in ("first", "second")
    ]

    def respond(body: dict[str, Any]) -> Any:
        accepted = [event["event"] for event in body["events"]]
        is_next = leases and len(reports_with(bench, "RUNNING")) == len(body["holding"])
        return answer(accepted=accepted, confirmed=body["holding"], leases=[leases.pop(0)] if is_next else [])

    bench.script.answers = [respond]
    run_until(bench, lambda: len(reports_with(bench, "RUNNING")) == 2)
    frees = [report["free"] for report in reports_with(bench, "RUNNING")]
    in_cores = [str(parse_quantity(free["cpu"])) for free in frees]
    assert (in_cores, [free["executions"] for free in frees]) == (["3", "2"], [2, 1])
    assert engine.questions == (1 if is_shared else 3)


def test_what_is_free_again_is_reported_with_the_end(new_bench: Callable[..., Bench]) -> None:
    engine = CountingEngine(programs={"true": Program(states=(QUEUED, RUNNING, SUCCEEDED))})
    bench = new_bench(engine=engine)

    def respond(body: dict[str, Any]) -> Any:
        accepted = [event["event"] for event in body["events"]]
        leases = [] if engine.submitted or body["holding"] else [LEASE]
        return answer(accepted=accepted, confirmed=body["holding"], leases=leases)

    bench.script.answers = [respond]
    run_until(bench, lambda: bool(reports_with(bench, "SUCCEEDED")))
    [report] = reports_with(bench, "SUCCEEDED")
    assert report["free"] == {"cpu": "4", "executions": 3}
    assert engine.questions == 3


def build_reporter(bench: Bench, engine: FakeEngine, tmp_path: Path) -> Reporter:
    config = Config(cluster="alpha", endpoint=bench.script.url, state_directory=tmp_path, token_file=tmp_path, slots=2)
    return Reporter(config, SafeEngine(engine), bench.clock)


def work_of(*intents: Intent) -> Any:
    return SimpleNamespace(
        intents=Intents({str(number): intent for number, intent in enumerate(intents)}),
        problem="",
        waits_for="",
        queued={},
    )


def running_intent(**resources: Any) -> Intent:
    lease = {**LEASE, "job": {"command": ["true"], "resources": resources}}
    return Intent(lease=lease, stage=Stage.SUBMITTED, native_id="1", running_since=0.0)


def free_of(reporter: Reporter) -> dict[str, Any]:
    assert reporter.report is not None
    free: dict[str, Any] = reporter.report["free"]
    return free


def test_a_shared_engine_tells_what_is_free_after_a_start_without_being_asked_more_often(
    bench: Bench, tmp_path: Path
) -> None:
    engine = SharedEngine(is_shared=True)
    reporter = build_reporter(bench, engine, tmp_path)
    held = Intent(lease=LEASE)
    frees = []
    for intents, left in (((), None), ((held,), None), ((running_intent(),), {"cpu": "1"}), ((), {"cpu": "2"})):
        engine.left = left
        reporter.measure(work_of(*intents))
        frees.append(free_of(reporter))
        bench.clock.advance(1)
    assert frees == [
        {"cpu": "4", "executions": 2},
        {"cpu": "4", "executions": 1},
        {"cpu": "1", "executions": 1},
        {"cpu": "2", "executions": 2},
    ]
    assert engine.questions == 1
    bench.clock.advance(5)
    reporter.measure(work_of())
    assert engine.questions == 2


@pytest.mark.parametrize(
    ("resources", "left"),
    [
        ({"tasks": 2, "requests": {"cpu": "500m", "memory": "1Gi", "gpu": 1}}, ("7000m", str(6 << 30), 0, 3)),
        ({"nodes": 2, "exclusive": True, "requests": {"cpu": "100m"}}, ("4000m", str(4 << 30), 1, 2)),
        ({"nodes": 9, "requests": {"cpu": "100"}}, ("0m", "8Gi", 2, 0)),
        ({"requests": {"cpu": "what the engine knows"}}, ("8", "8Gi", 2, 4)),
        ({}, ("8", "8Gi", 2, 3)),
    ],
)
def test_what_a_start_leaves_of_an_engine_that_is_not_asked_is_by_what_the_job_requests(
    bench: Bench, tmp_path: Path, resources: dict[str, Any], left: tuple[Any, ...]
) -> None:
    names = ("cpu", "memory", "gpu", "nodes")
    total = dict(zip(names, ("8", "8Gi", 2, 4), strict=True))
    reporter = build_reporter(bench, FakeEngine(is_shared=True, total=total, free=total), tmp_path)
    for intents in ((), (running_intent(**resources),)):
        reporter.measure(work_of(*intents))
    assert free_of(reporter) == {**dict(zip(names, left, strict=True)), "executions": 1}
    bench.clock.advance(5)
    reporter.measure(work_of(running_intent(**resources)))
    assert free_of(reporter) == {**total, "executions": 1}  # which the engine has counted by now


def test_a_start_counts_although_the_engine_does_not_answer(bench: Bench, tmp_path: Path) -> None:
    engine = CountingEngine()
    reporter = build_reporter(bench, engine, tmp_path)
    reporter.measure(work_of())
    engine.unavailable = "no answer"
    work = work_of(running_intent(requests={"cpu": "1"}))
    for _ in range(3):
        reporter.measure(work)
    assert (free_of(reporter), work.problem) == ({"cpu": "3000m", "executions": 1}, "no answer")
    assert engine.questions == 2


def test_a_replaced_agent_leaves_jobs_that_wait_for_it(bench: Bench) -> None:
    awaited = error("agent_replaced") | {"details": [{"field": "instance", "reason": "Executions wait for it."}]}
    names = {"project": "p", "domain": "d"}
    waits, guarded = ({**LEASE, "id": {**names, "name": name}, "on_lost": name} for name in ("wait", "fail"))

    def respond(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = RUNNING
        if len(bench.engine.submitted) == 2:
            return 409, awaited
        return answer(confirmed=body["holding"], leases=[] if body["holding"] else [waits, guarded])

    bench.script.answers = [respond]
    assert bench.agent.run() == 1
    assert [key for key in bench.engine.cancelled if "wait" in key] == []
    assert len(bench.engine.cancelled) == 1
    intents = {intent.id["name"]: intent for intent in bench.state.load_intents()[0]}
    assert intents["wait"].stage is Stage.SUBMITTED
    assert intents["fail"].stage is Stage.ENDED  # reported should this agent ever serve the cluster again


def test_a_replaced_agent_ends_jobs_that_its_successor_cannot_see(bench: Bench) -> None:
    def respond(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = RUNNING
        if bench.engine.submitted:
            return 409, error("agent_replaced", "Another agent has taken over.")
        return answer(confirmed=body["holding"], leases=[] if body["holding"] else [LEASE])

    bench.script.answers = [respond]
    assert bench.agent.run() == 1
    assert bench.agent.problem == "Another agent has taken over."
    assert len(bench.engine.cancelled) == 1


def test_a_replaced_agent_keeps_the_result_of_a_job_that_ended_by_itself(bench: Bench) -> None:
    bench.engine.programs["true"] = Program(stdout=b"all of it", files={"result": b"42"})
    lease = {**LEASE, "on_lost": "fail", "job": {"command": ["true"], "outputs": ["result"]}}

    def respond(body: dict[str, Any]) -> Any:
        if bench.engine.submitted:
            bench.engine.jobs = dict.fromkeys(bench.engine.jobs, SUCCEEDED)
            return 409, error("agent_replaced", "Another agent has taken over.")
        return answer(confirmed=body["holding"], leases=[] if body["holding"] else [lease])

    bench.script.answers = [respond]
    assert bench.agent.run() == 1
    [intent] = bench.state.load_intents()[0]
    assert (intent.stage, intent.events[-1]["type"]) == (Stage.ENDED, "SUCCEEDED")
    assert [file["path"] for file in intent.events[-1]["outputs"]] == ["result"]
    pieces = bench.agent.work.outbox.log_pieces(1000, include_running=False)
    assert [piece["data"] for piece in pieces] == ["all of it"]


def test_once_ends_when_everything_is_reported(bench: Bench) -> None:
    def respond(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = RUNNING
        reply = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        return {**reply, "leases": [] if bench.engine.submitted or body["holding"] else [LEASE]}

    bench.script.answers = [respond]
    assert bench.agent.run(once=True) == 0
    assert len(bench.engine.submitted) == 1
    assert len(bench.state.load_intents()[0]) == 1


def test_once_does_not_wait_for_an_admin_that_does_not_answer(bench: Bench) -> None:
    bench.script.answers = [(503, error("x"))]
    assert bench.agent.run(once=True) == 1
    assert len(bench.script.bodies) == 1


def test_stopping_hands_back_what_was_not_confirmed(bench: Bench) -> None:
    released: list[str] = []

    def respond(body: dict[str, Any]) -> Any:
        released.extend(event["type"] for event in body["events"])
        reply = answer(accepted=[event["event"] for event in body["events"]])
        return {**reply, "leases": [] if body["holding"] or released else [LEASE]}

    bench.script.answers = [respond]
    assert run_until(bench, lambda: bool(bench.agent.work.intents)) == 0
    assert (released, bench.engine.submitted, bench.state.load_intents()) == (["RELEASED"], [], ([], []))


def test_a_cancel_counts_although_the_state_directory_cannot_be_written(bench: Bench) -> None:
    """As on a full disk: nothing can be stored, and a new lease that comes with the cancel cannot be taken."""
    other = {**LEASE, "id": {"project": "p", "domain": "d", "name": "other"}}

    def respond(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = RUNNING
        reply = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        if not bench.engine.submitted:
            return {**reply, "leases": [] if body["holding"] else [LEASE]}
        if bench.state.path.exists():
            bench.state.path.rename(bench.state.path.with_name("elsewhere"))
        return {**reply, "cancels": [{**REFERENCE, "reason": "enough"}], "leases": [other]}

    bench.script.answers = [respond]
    run_until(bench, lambda: bool(bench.engine.cancelled))
    assert len(bench.engine.cancelled) == 1
    assert "stateDirectory: cannot be written" in bench.agent.problem


class LeftEngine(FakeEngine):
    """An engine in which a dead agent has left a job."""

    def orphans(self, known: Collection[str]) -> list[Orphan]:
        keys = [key for key in self.jobs if key not in known and key not in self.forgotten]
        return [Orphan(Handle(key, "1"), id=LEFT["id"], uid=LEFT["uid"], attempt=2) for key in keys]


LEFT: dict[str, Any] = {"id": {"project": "p", "domain": "d", "name": "left"}, "attempt": 2, "uid": "abc123"}


def test_what_a_dead_agent_left_is_held_and_ended_if_the_admin_does_not_know_it(
    new_bench: Callable[..., Bench],
) -> None:
    key = key_of(LEFT)
    bench = new_bench(engine=LeftEngine(jobs={key: RUNNING}))

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        lost = [{**LEFT, "reason": "NOT_YOURS"}] if body["holding"] else []
        return answer(lost=lost, refused=[{"event": event["event"], "reason": "OLD"} for event in body["events"]])

    bench.script.answers = [reply]
    run_until(bench, lambda: key in bench.engine.forgotten)
    assert next(body["holding"] for body in bench.script.bodies if body["holding"]) == [LEFT]
    assert bench.engine.cancelled == [key]
    assert bench.agent.work.intents == {}
