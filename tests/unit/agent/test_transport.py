"""HTTP with the admin, and how the loop comes back from its failures; what answers here is no admin, but a script."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent import loop as loop_module
from agent.config import Config
from agent.intents import StateDirectory
from agent.loop import Agent
from agent.transport import (
    AdminError,
    Refused,
    Replaced,
    Token,
    TooLarge,
    Transport,
    Unauthenticated,
    Unreachable,
    cluster_path,
)
from tests.unit.agent.fakes import RUNNING, SUCCEEDED, FakeEngine

HELD = {"id": {"project": "p", "domain": "d", "name": "n"}, "attempt": 1}
LEASE = {**HELD, "lease_seconds": 60, "job": {"command": ["true"]}, "config": {}}


def answer(**more: Any) -> dict[str, Any]:
    lists = ("leases", "confirmed", "lost", "cancels", "questions", "accepted", "refused", "log_offsets")
    intervals = {"wait_seconds": 0.05, "lease_seconds": 60, "retry_seconds": 5}
    return {**{name: [] for name in lists}, "state": {"enabled": True}, "intervals": intervals, **more}


def error(name: str, message: str = "No.") -> dict[str, Any]:
    return {"code": 1, "error": name, "message": message, "details": []}


@dataclass
class Script:
    """Answers in turn; the last one for ever. A callable is given the request's body."""

    answers: list[Any]
    bodies: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    url: str = ""

    def reply(self, body: dict[str, Any], token: str) -> tuple[int, Any]:
        self.bodies.append(body)
        self.tokens.append(token)
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        found = found(body) if callable(found) else found
        return found if isinstance(found, tuple) else (200, found)


@pytest.fixture
def script() -> Iterator[Script]:
    found = Script(answers=[answer()])

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document = found.reply(body, self.headers.get("Authorization", ""))
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            if status == 429:
                self.send_header("Retry-After", "7")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def token(tmp_path: Path) -> Token:
    path = tmp_path / "token"
    path.write_text("rbc-12345678-abc\n")
    return Token(path)


@pytest.mark.parametrize(
    ("status", "document", "kind"),
    [
        (401, error("unauthenticated"), Unauthenticated),
        (403, error("forbidden"), Unauthenticated),
        (409, error("agent_replaced"), Replaced),
        (409, error("already_registered"), Refused),
        (413, error("too_large"), TooLarge),
        (400, error("invalid_request"), Refused),
        (429, error("too_many_attempts"), Unreachable),
        (500, error("internal"), Unreachable),
        (503, b"<html>", Unreachable),
        (200, b"<html>", Unreachable),
        (302, b"", Unreachable),
    ],
)
def test_every_answer_has_its_kind(script: Script, status: int, document: Any, kind: type[AdminError]) -> None:
    script.answers = [(status, document)]
    transport = Transport(script.url)
    with pytest.raises(AdminError) as caught:
        transport.post("/x", {})
    transport.close()
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert caught.value.retry_after == (7.0 if status == 429 else None)


def test_details_are_said(script: Script) -> None:
    script.answers = [(400, {**error("invalid_request"), "details": [{"field": "want", "reason": "is too large."}]})]
    transport = Transport(script.url)
    with pytest.raises(Refused, match=r"No\. want: is too large\."):
        transport.post("/x", {})
    transport.close()


def test_nobody_there() -> None:
    transport = Transport("http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="cannot be reached: check the endpoint"):
        transport.post("/x", {})
    transport.close()


def test_an_answer_that_takes_too_long(script: Script) -> None:
    def slow(_body: Any) -> Any:
        time.sleep(0.5)
        return answer()

    script.answers = [slow]
    transport = Transport(script.url)
    with pytest.raises(Unreachable, match="in time"):
        transport.post("/x", {}, seconds=0.1)
    transport.close()


def test_a_cluster_name_cannot_leave_its_path() -> None:
    assert cluster_path("a/../b?", "sync") == "/api/v1/clusters/a%2F..%2Fb%3F/sync"


def test_the_token_is_read_again_when_its_file_changes(script: Script, token: Token) -> None:
    transport = Transport(script.url, token=token)
    transport.post("/x", {})
    token.path.write_text("rbc-87654321-def")
    transport.post("/x", {})
    transport.close()
    assert script.tokens == ["Bearer rbc-12345678-abc", "Bearer rbc-87654321-def"]


@pytest.mark.parametrize("content", [None, "", "two words", "two\nlines"])
def test_a_token_file_that_holds_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(Unauthenticated, match="tokenFile"):
        Token(tmp_path / "token").text()


@dataclass
class Bench:
    """An agent with a fake engine against a script."""

    agent: Agent
    engine: FakeEngine
    script: Script
    state: StateDirectory


@pytest.fixture
def bench(script: Script, tmp_path: Path, token: Token, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    logging.getLogger("rainbow.agent").setLevel(logging.CRITICAL)
    monkeypatch.setattr("agent.backoff._FIRST_SECONDS", 0.02)
    config = Config(
        cluster="alpha",
        endpoint=script.url,
        state_directory=tmp_path,
        token_file=token.path,
        poll_seconds=0.01,
        slots=3,
        want=2,
    )
    monkeypatch.setattr(loop_module, "_IDLE_SECONDS", 0.01)
    transports: list[Transport] = []

    def connect() -> Transport:
        transports.append(Transport(script.url, token=token))
        return transports[-1]

    state = StateDirectory(tmp_path / "state")
    engine = FakeEngine()
    yield Bench(Agent(config, engine, state, connect), engine, script, state)
    state.close()
    time.sleep(0.1)  # calls on their way come back
    for transport in transports:
        transport.close()


def run_until(bench: Bench, condition: Callable[[], bool]) -> int:
    """Run the loop until a condition holds, then stop it."""
    deadline = time.monotonic() + 20

    is_stopped = False

    def watch(agent: Agent) -> None:
        nonlocal is_stopped
        assert time.monotonic() < deadline, f"it did not come about: {agent.problem}"
        if not is_stopped and condition():
            is_stopped = True
            agent.stop()

    return bench.agent.run(watch=watch)


def test_the_first_sync_says_who_is_there(bench: Bench) -> None:
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
        "properties": {},
    }
    assert ("report" in second, second["sequence"], second["agent"]) == (False, 2, first["agent"])


def test_failures_are_tried_again_until_one_succeeds(bench: Bench) -> None:
    bench.script.answers = [(503, error("x")), (500, b""), (429, error("y")), (400, error("z")), answer()]
    bench.script.answers.pop(2)  # a Retry-After of seven seconds is too long for a test
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0
    # The first sync that is heard makes this process the cluster's agent: until then each is the first.
    assert [body["sequence"] for body in bench.script.bodies[:4]] == [1, 1, 1, 1]


def test_an_answer_that_makes_no_sense_is_a_failure(bench: Bench) -> None:
    bench.script.answers = [{"hello": "world"}, answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0


def test_pauses_between_failures_grow(bench: Bench) -> None:
    bench.script.answers = [(503, error("x"))]
    assert run_until(bench, lambda: len(bench.script.bodies) >= 5) == 1
    assert len(bench.script.bodies) < 20


def test_an_agent_that_is_sent_away_comes_back_later(bench: Bench) -> None:
    away = answer(intervals={"wait_seconds": 30, "lease_seconds": 60, "retry_seconds": 5, "pause_seconds": 0.5})
    bench.script.answers = [answer(), away]
    began = time.monotonic()
    assert run_until(bench, lambda: len(bench.script.bodies) >= 4) == 0
    assert time.monotonic() - began >= 1.0
    assert [body["wait_seconds"] > 0 for body in bench.script.bodies[:4]] == [False, True, True, True]


def test_a_request_that_is_too_large_is_made_smaller(bench: Bench) -> None:
    bench.script.answers = [(413, error("too_large")), (413, error("too_large")), answer()]
    run_until(bench, lambda: bench.agent.synced_at is not None)
    assert bench.agent._most_bytes == 96 * 1024


def test_a_report_that_the_admin_cannot_read_does_not_stop_the_rest(bench: Bench) -> None:
    bench.script.answers = [lambda body: (400, error("invalid_request")) if "report" in body else answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0
    assert ["report" in body for body in bench.script.bodies[:2]] == [True, False]


def test_an_event_that_the_admin_cannot_read_is_said_in_fewer_words(bench: Bench) -> None:
    taken: list[dict[str, Any]] = []

    def reply(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = SUCCEEDED
        if any("native_id" in event for event in body["events"]):
            return 400, error("invalid_request", "What is this?")
        taken.extend(body["events"])
        said = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        return {**said, "leases": [] if bench.engine.submitted or body["holding"] else [LEASE]}

    bench.script.answers = [reply]
    run_until(bench, lambda: len(taken) == 2 and not bench.agent.work.intents)
    assert [event["type"] for event in taken] == ["RUNNING", "SUCCEEDED"]
    assert "What is this?" in taken[1]["message"]


@pytest.mark.parametrize("seconds", [1e12, float("inf"), float("nan"), None])
def test_a_wait_that_nobody_knows_is_not_reported(bench: Bench, seconds: float | None) -> None:
    bench.engine.wait = seconds
    run_until(bench, lambda: bool(bench.script.bodies))
    assert "eta" not in bench.script.bodies[0]["report"]


def test_a_refused_token_ends_an_agent_that_holds_nothing(bench: Bench) -> None:
    bench.script.answers = [(401, error("unauthenticated", "This token does not count."))]
    assert bench.agent.run() == 1
    assert bench.agent.problem == "This token does not count."
    assert len(bench.script.bodies) == 2


def test_a_token_that_is_refused_once_may_be_on_its_way(bench: Bench) -> None:
    bench.script.answers = [(401, error("unauthenticated", "This token does not count.")), answer()]
    assert run_until(bench, lambda: bench.agent.synced_at is not None) == 0


def test_an_execution_over_http(bench: Bench) -> None:
    key = ""
    taken: list[str] = []

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        nonlocal key
        events = body["events"]
        taken.extend(event["type"] for event in events)
        said = answer(accepted=[event["event"] for event in events], confirmed=body["holding"])
        if len(bench.script.bodies) == 1:
            return {**said, "leases": [LEASE]}
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = SUCCEEDED if "RUNNING" in taken else RUNNING
        return said

    bench.script.answers = [reply]
    assert run_until(bench, lambda: "SUCCEEDED" in taken and not bench.agent.work.intents) == 0
    assert taken == ["RUNNING", "SUCCEEDED"]
    holding = [len(body["holding"]) for body in bench.script.bodies]
    assert holding[0] == 0
    assert holding[1] == 1
    assert holding[-1] == 0
    assert bench.state.intents() == ([], [])


def test_a_lost_answer_changes_nothing(bench: Bench) -> None:
    """Every second answer is lost on the way back; each report arrives all the same."""
    seen: list[str] = []

    def reply(body: dict[str, Any]) -> Any:
        is_lost = len(bench.script.bodies) % 2 == 1
        seen.extend(event["event"] for event in body["events"] if event["event"] not in seen)
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = SUCCEEDED
        said = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        if not seen and not body["holding"]:
            said["leases"] = [LEASE]
        return (502, b"") if is_lost else said

    bench.script.answers = [reply]
    run_until(bench, lambda: len(seen) == 2 and not bench.agent.work.intents)
    assert len(bench.engine.submitted) == 1


def test_a_replaced_agent_ends_what_only_it_can_see(bench: Bench) -> None:
    def reply(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = RUNNING
        if bench.engine.submitted:
            return 409, error("agent_replaced", "Another agent has taken over.")
        return answer(confirmed=body["holding"], leases=[] if body["holding"] else [LEASE])

    bench.script.answers = [reply]
    bench.engine.obeys = True
    assert bench.agent.run() == 1
    assert bench.agent.problem == "Another agent has taken over."
    assert len(bench.engine.cancelled) == 1


def test_once_ends_when_all_is_said(bench: Bench) -> None:
    def reply(body: dict[str, Any]) -> Any:
        for job in bench.engine.jobs:
            bench.engine.jobs[job] = RUNNING
        said = answer(accepted=[event["event"] for event in body["events"]], confirmed=body["holding"])
        return {**said, "leases": [] if bench.engine.submitted or body["holding"] else [LEASE]}

    bench.script.answers = [reply]
    assert bench.agent.run(once=True) == 0
    assert len(bench.engine.submitted) == 1
    assert len(bench.state.intents()[0]) == 1


def test_once_does_not_wait_for_an_admin_that_is_away(bench: Bench) -> None:
    bench.script.answers = [(503, error("x"))]
    assert bench.agent.run(once=True) == 1
    assert len(bench.script.bodies) == 1


def test_stopping_hands_back_what_was_not_confirmed(bench: Bench) -> None:
    released: list[str] = []

    def reply(body: dict[str, Any]) -> Any:
        released.extend(event["type"] for event in body["events"])
        said = answer(accepted=[event["event"] for event in body["events"]])
        return {**said, "leases": [] if body["holding"] or released else [LEASE]}

    bench.script.answers = [reply]
    assert run_until(bench, lambda: bool(bench.agent.work.intents)) == 0
    assert (released, bench.engine.submitted, bench.state.intents()) == (["RELEASED"], [], ([], []))
