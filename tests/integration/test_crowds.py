"""Crowds: how many requests may wait or be answered at once, and what those beyond that get."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from werkzeug.test import Client, TestResponse

from admin.api.browsers import BrowserGuard
from admin.api.front import MOST_ON_OPEN_PATH, Front
from admin.app import all_operations
from admin.errors import Unauthenticated
from admin.gate import MOST_LOOKUPS, Gate
from admin.services.waiting import Wait, WaitLimiter
from tests.conftest import MakeApp
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, created, put_pool
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

EXECUTION = f"{API}/executions/{PROJECT}/{DOMAIN}/e"
WAITS = {
    Wait.REVISION: f"{API}/revisions?since=1000&wait=60",
    Wait.EXECUTION: f"{EXECUTION}?after_event=1000&wait_seconds=60",
    Wait.LOG: f"{EXECUTION}/logs?wait_seconds=60",
}


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    app = make_app()
    put_pool(app.test_client(), "all", ["c"])
    created(app.test_client(), "e", cluster="c")
    return app


@pytest.mark.parametrize("kind", WAITS)
def test_of_each_kind_of_wait_only_so_many_are_held_and_others_told_to_come_back(app: Flask, kind: Wait) -> None:
    context = context_of(app)
    limiter = WaitLimiter(threads=16)
    app.extensions["rainbow"] = replace(context, wait_limiter=limiter)
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(app.test_client().get, WAITS[kind]) for _ in range(2)]
        wait_until(lambda: limiter.waiting(kind) == 2)
        refused = app.test_client().get(WAITS[kind])
        assert (refused.status_code, refused.get_json()["error"]) == (503, "too_many_wait")
        assert (refused.headers["Retry-After"], kind.value in refused.get_json()["message"]) == ("5", True)
        assert app.test_client().get(WAITS[kind].replace("=60", "=0")).status_code == 200  # it does not wait
        context.close()
        assert [wait.result(20).status_code for wait in waits] == [200, 200]
    assert limiter.waiting(kind) == 0


def test_all_waits_together_leave_threads_for_other_requests() -> None:
    limiter = WaitLimiter(threads=40)
    for _ in range(3):
        assert all(limiter.take(kind) for kind in WAITS)
    taken = 0
    while limiter.take(Wait.SYNC):
        taken += 1
    assert taken == 40 - 10 - 9
    assert not any(limiter.take(kind) for kind in WAITS)


class Held:
    """A front whose application answers and whose tokens are found only when it is told to, but for /healthz."""

    def __init__(self, most_at_once: int) -> None:
        self.release = threading.Event()
        self.entered = threading.Semaphore(0)
        gate = Gate(tokens=None, cluster_of=self._cluster_of, operations=all_operations())
        self.front = Front(
            gate, BrowserGuard(None), self._answer, most_at_once=most_at_once, max_body_bytes=1024 * 1024
        )

    def _cluster_of(self, _token: str) -> str:
        self.entered.release()
        assert self.release.wait(60)
        raise Unauthenticated()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            self.entered.release()
            assert self.release.wait(60)
        start_response("200 OK", [])
        return []

    def get(self, path: str, **headers: str) -> TestResponse:
        return Client(self.front).get(path, headers=headers)

    def post(self, path: str) -> TestResponse:
        return Client(self.front).post(path, json={})


def assert_busy(answer: TestResponse) -> None:
    body: Any = answer.get_json()
    assert (answer.status_code, body["error"], answer.headers["Retry-After"]) == (503, "busy", "2")


def hold(held: Held, pool: ThreadPoolExecutor, ask: Callable[[], TestResponse], count: int) -> list[Any]:
    """Ask so many times at once, until all are being answered."""
    requests = [pool.submit(ask) for _ in range(count)]
    for _ in range(count):
        assert held.entered.acquire(timeout=60)
    return requests


def test_a_path_that_needs_no_token_has_a_small_share_of_its_own() -> None:
    held = Held(most_at_once=100)
    register = f"{API}/clusters/c/register"
    with ThreadPoolExecutor(MOST_ON_OPEN_PATH + 2) as pool:
        requests = hold(held, pool, lambda: held.post(register), MOST_ON_OPEN_PATH)
        assert_busy(held.post(f"{API}/clusters/another/register"))
        assert held.get("/healthz").status_code == 200
        requests += hold(held, pool, lambda: held.get("/readyz"), 1)
        requests += hold(held, pool, lambda: held.get(f"{API}/projects"), 1)
        held.release.set()
        assert {answer.result(20).status_code for answer in requests} == {200}
    assert held.post(register).status_code == 200


def test_requests_beyond_those_that_can_be_answered_at_once_are_told_to_come_back() -> None:
    held = Held(most_at_once=3)
    with ThreadPoolExecutor(5) as pool:
        requests = hold(held, pool, lambda: held.get(f"{API}/projects"), 3)
        assert_busy(held.get(f"{API}/domains"))
        assert held.get("/healthz").status_code == 200
        requests += hold(held, pool, lambda: held.post(f"{API}/clusters/c/register"), 1)
        held.release.set()
        assert {answer.result(20).status_code for answer in requests} == {200}
    assert held.get(f"{API}/domains").status_code == 200


def test_invented_tokens_keep_nobody_out_while_the_database_is_silent() -> None:
    held = Held(most_at_once=3)
    invented = {"Authorization": "Bearer rbc-00000000-invented"}
    with ThreadPoolExecutor(MOST_LOOKUPS + 1) as pool:
        requests = hold(held, pool, lambda: held.get(f"{API}/clusters/c", **invented), MOST_LOOKUPS)
        beyond = pool.submit(held.get, f"{API}/clusters/c", **invented)
        assert_busy(beyond.result(20))
        assert held.get("/healthz").status_code == 200
        held.release.set()
        assert {answer.result(20).status_code for answer in requests} == {401}
    assert held.get(f"{API}/clusters/c", **invented).status_code == 429  # after so many wrong ones
