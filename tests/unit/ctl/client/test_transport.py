"""What a program other than rainbowctl, such as the agent, sets in the transport."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ctl.client import (
    ClientError,
    Conflict,
    InvalidInput,
    InvalidRequest,
    Remedies,
    ServerError,
    Transport,
    Unanswered,
    Unreachable,
)
from tests.support.servers import serving


class Handler(BaseHTTPRequestHandler):
    """Notes each request and gives the next answer: status, headers and body."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.requests.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        status, headers, text = self.server.answers.pop(0)  # type: ignore[attr-defined]
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(text))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Admin(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, status: int = 200, text: bytes = b"{}", **headers: str) -> None:
        self.answers.append((status, {name.replace("_", "-"): value for name, value in headers.items()}, text))


@pytest.fixture
def admin() -> Iterator[Admin]:
    with serving(Admin()) as server:
        yield server


@pytest.mark.parametrize("id", ["", "release 7", "x" * 129, "é", "a\n"])
def test_an_id_that_the_admin_would_replace_is_refused_before_anything_is_sent(id: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be the id of a request"):
        Transport("http://127.0.0.1:9", request_id=id)


def test_a_token_that_is_a_function_is_read_for_each_request(admin: Admin) -> None:
    tokens = iter(["first", "second"])
    with closing(Transport(admin.url, token=lambda: next(tokens), user_agent="rainbow-agent")) as transport:
        for _ in range(2):
            admin.answer()
            transport.call("POST", "clusters/a/sync", body={})
    assert [headers["Authorization"] for _path, headers, _body in admin.requests] == ["Bearer first", "Bearer second"]
    assert {headers["User-Agent"] for _path, headers, _body in admin.requests} == {"rainbow-agent"}
    assert {path for path, _headers, _body in admin.requests} == {"/api/v1/clusters/a/sync"}


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("soon", None)])
def test_an_error_says_how_long_the_admin_asks_to_wait(admin: Admin, header: str, seconds: float | None) -> None:
    admin.answer(503, json.dumps({"message": "not ready", "error": "unavailable"}).encode(), Retry_After=header)
    with closing(Transport(admin.url, retries=0)) as transport, pytest.raises(Unreachable) as caught:
        transport.call("POST", "x", body={}, is_safe=True)
    assert (caught.value.retry_after, caught.value.status, caught.value.name) == (seconds, 503, "unavailable")


@pytest.mark.parametrize(
    ("status", "text", "expected", "name"),
    [
        (409, b'{"message": "m", "error": "agent_replaced"}', Conflict, "agent_replaced"),
        (413, b'{"message": "m", "error": "too_large"}', InvalidRequest, "too_large"),
        (413, b"<html>", ServerError, "server_error"),
        (404, b"<html>", ServerError, "server_error"),
        (500, b'{"message": "m", "error": "internal"}', ServerError, "internal"),
    ],
)
def test_an_error_has_the_status_and_the_name_of_the_refusal(
    admin: Admin, status: int, text: bytes, expected: type[ClientError], name: str
) -> None:
    admin.answer(status, text)
    with closing(Transport(admin.url, retries=0)) as transport, pytest.raises(ClientError) as caught:
        transport.call("POST", "x", body={}, is_safe=True)
    assert (type(caught.value), caught.value.status) == (expected, status)
    assert caught.value.name == name


def test_headers_that_are_too_large_for_the_server_point_to_the_token(admin: Admin) -> None:
    admin.answer(431, b"")
    with closing(Transport(admin.url)) as transport, pytest.raises(InvalidRequest, match="RAINBOW_TOKEN") as refusal:
        transport.call("POST", "placements")
    assert refusal.value.status == 431


@pytest.mark.parametrize("status", [414, 431])
def test_an_address_that_is_too_long_for_the_server_points_to_what_is_selected_by(admin: Admin, status: int) -> None:
    admin.answer(status, b"")
    selected = r"the address of the request has [0-9,]+ characters, which is too long\. Select by fewer terms"
    with closing(Transport(admin.url)) as transport, pytest.raises(InvalidRequest, match=selected) as refusal:
        transport.call("POST", "placements", query={"filters": "x" * 5000})
    assert refusal.value.status == status


def test_without_retries_a_safe_call_is_sent_once_and_is_never_unanswered() -> None:
    remedies = Remedies(check="Look at the file.")
    with closing(Transport("http://127.0.0.1:1", retries=0, remedies=remedies)) as transport:
        with pytest.raises(Unreachable, match=r"cannot be reached: connection refused\. Look at the file\.$") as caught:
            transport.call("POST", "x", body={}, is_safe=True)
        assert not isinstance(caught.value, Unanswered)


def test_text_that_is_no_unicode_is_replaced_where_that_is_asked_for(admin: Admin) -> None:
    for replaces in (True, False):
        admin.answer()
        with closing(Transport(admin.url, replace_bad_text=replaces)) as transport:
            transport.call("POST", "x", body={"name": "ä\udce4"})
    assert [body for _path, _headers, body in admin.requests] == [
        '{"name": "ä?"}'.encode(),
        b'{"name": "\\u00e4\\udce4"}',
    ]


def test_a_timeout_of_one_call_stands_for_the_usual_one() -> None:
    """The server never answers, and the usual timeout would outlast the test."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:  # accepts by its backlog, serves nothing
        url = f"http://127.0.0.1:{server.server_address[1]}"
        transport = Transport(url, timeout=3600, retries=0)
        with closing(transport), pytest.raises(Unreachable, match="no answer in time"):
            transport.call("POST", "x", body={}, is_safe=True, timeout=0.05)


def test_a_program_is_told_how_old_an_answer_from_memory_is(admin: Admin) -> None:
    ages: list[int] = []
    with closing(Transport(admin.url, on_stale=ages.append)) as transport:
        for age in ("12", "", "soon"):
            admin.answer(Rainbow_Stale=age)
            transport.call("POST", "x", body={}, is_safe=True)
    assert ages == [12]


def test_a_program_is_told_whether_an_answer_had_only_what_the_caller_may_see(admin: Admin) -> None:
    with closing(Transport(admin.url)) as transport:
        admin.answer(text=b'{"complete": false}')
        transport.call("POST", "x", body={}, is_safe=True)
        assert not transport.is_partial
        admin.answer(text=b'{"partial": true}')
        transport.call("POST", "x", body={}, is_safe=True)
        assert transport.is_partial


@pytest.mark.parametrize(
    ("error", "is_safe", "count"),
    [
        ("too_many_requests", False, 3),  # nothing was done, so a write may be sent again
        ("too_many_requests", True, 3),
        ("too_many_attempts", True, 1),  # a wrong token stays wrong
        ("too_many_attempts", False, 1),
        ("of_a_proxy", True, 3),
        ("of_a_proxy", False, 1),
    ],
)
def test_what_comes_too_often_is_tried_again_when_the_admin_says(
    admin: Admin, error: str, is_safe: bool, count: int
) -> None:
    pauses: list[float] = []
    for _ in range(3):
        admin.answer(429, json.dumps({"message": "m", "error": error}).encode(), Retry_After="2")
    with closing(Transport(admin.url, sleep=pauses.append)) as transport, pytest.raises(Unreachable):
        transport.call("POST", "x", body={}, is_safe=is_safe)
    assert (len(admin.requests), pauses) == (count, [2.0] * (count - 1))


def test_a_proxy_that_says_too_often_in_its_own_words_is_asked_again(admin: Admin) -> None:
    pauses: list[float] = []
    admin.answer(429, b"<html>")
    admin.answer(429, b"[]")
    admin.answer()
    with closing(Transport(admin.url, sleep=pauses.append)) as transport:
        assert transport.call("POST", "x", body={}, is_safe=True) == {}
    assert len(pauses) == 2
