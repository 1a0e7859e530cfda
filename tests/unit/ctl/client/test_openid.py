"""What the client makes of the answers of an OpenID provider, such as a well-kept one never gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

from ctl.client.errors import LoginRefused, ServerError, Unreachable
from ctl.client.openid import DeviceCode, Provider, Tokens
from tests.support.ports import free_port
from tests.support.servers import serving

DISCOVERY = "/.well-known/openid-configuration"


class Answers(ThreadingHTTPServer):
    """A provider whose answers a test sets, by path; those in a list are given one after the other."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.forms: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers[DISCOVERY] = {
            "issuer": self.issuer,
            "token_endpoint": f"{self.issuer}/token?of=tests",
            "device_authorization_endpoint": f"{self.issuer}/device",
        }

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def provider(self) -> Provider:
        return Provider(self.issuer, "rainbowctl", timeout=60.0)

    def discover(self, **changes: Any) -> None:
        self.answers[DISCOVERY] = {**self.answers[DISCOVERY], **changes}


class _Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        if text:
            self.server.forms.append({name: values[0] for name, values in parse_qs(text).items()})
        answer = self.server.answers.get(self.path, (404, "nothing here"))
        if isinstance(answer, list):
            answer = answer.pop(0)
        status, document = answer if isinstance(answer, tuple) else (200, answer)
        content = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def answers() -> Iterator[Answers]:
    with serving(Answers()) as server:
        yield server


TOKEN = "/token?of=tests"
CODE = DeviceCode(
    device_code="d", user_code="u", verification_uri="v", complete_uri=None, expires_in=600.0, interval=5.0
)


def refused(reason: str) -> tuple[int, dict[str, str]]:
    return 400, {"error": reason}


def test_tokens_are_asked_for_as_a_public_client(answers: Answers) -> None:
    answers.answers[TOKEN] = {"access_token": "a", "refresh_token": "r", "expires_in": "600", "token_type": "Bearer"}
    assert answers.provider().refresh("old") == Tokens(access_token="a", refresh_token="r", expires_in=600.0)
    assert answers.forms == [{"client_id": "rainbowctl", "grant_type": "refresh_token", "refresh_token": "old"}]


def test_a_device_login_is_asked_for_as_the_provider_wants(answers: Answers) -> None:
    answers.answers["/device"] = {
        "device_code": "d",
        "user_code": "u",
        "verification_uri": "https://login.example.org/device",
        "expires_in": 60,
        "interval": 1,
    }
    code = answers.provider().begin_device_login(["openid", "offline_access"])
    assert (code.user_code, code.expires_in, code.interval, code.complete_uri) == ("u", 60.0, 1.0, None)
    assert answers.forms == [{"client_id": "rainbowctl", "scope": "openid offline_access"}]


def test_a_device_login_is_waited_for_ever_more_slowly_where_the_provider_wants_it(answers: Answers) -> None:
    answers.answers[TOKEN] = [
        refused("authorization_pending"),
        refused("slow_down"),
        refused("authorization_pending"),
        (503, "later"),
        {"access_token": "a"},
    ]
    waits: list[float] = []
    tokens = answers.provider().wait_for_device(CODE, sleep=waits.append, monotonic=lambda: 0.0)
    assert tokens == Tokens(access_token="a", refresh_token=None, expires_in=None)
    assert waits == [5.0, 5.0, 10.0, 10.0, 20.0]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("access_denied", "the login was denied"),
        ("expired_token", "not entered in time"),
        ("invalid_client", "does not know this client"),
        ("strange", "strange"),
    ],
)
def test_a_device_login_that_is_refused_says_why(answers: Answers, reason: str, words: str) -> None:
    answers.answers[TOKEN] = refused(reason)
    with pytest.raises(LoginRefused, match=words) as refusal:
        answers.provider().wait_for_device(CODE, sleep=lambda _seconds: None, monotonic=lambda: 0.0)
    assert (refusal.value.reason, refusal.value.exit_code) == (reason, 4)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((200, "<html>"), ServerError),
        ((200, "[]"), ServerError),
        ({}, ServerError),
        ({"access_token": 7}, ServerError),
        ({"access_token": "two\nlines"}, ServerError),
        ((302, ""), ServerError),
        ((400, "<html>"), ServerError),
        ((500, {"error": "server_error"}), Unreachable),
        ((429, ""), Unreachable),
    ],
)
def test_any_other_answer_is_a_fault_of_the_provider(answers: Answers, answer: Any, error: type[Exception]) -> None:
    answers.answers[TOKEN] = answer
    with pytest.raises(error, match=answers.issuer):
        answers.provider().refresh("old")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"issuer": "https://other.example.org"}, "names another issuer"),
        ({"token_endpoint": None}, "no endpoint for tokens"),
        ({"token_endpoint": "http://login.example.org/token"}, "has no https: nothing was sent"),
        ({"token_endpoint": "ftp://login.example.org/token"}, "names a wrong URL"),
        ({"token_endpoint": "https:///token"}, "names a wrong URL"),
    ],
)
def test_a_discovery_document_that_leads_nowhere_is_refused(
    answers: Answers, changes: dict[str, Any], reason: str
) -> None:
    answers.discover(**changes)
    with pytest.raises(ServerError, match=reason):
        answers.provider().refresh("secret")
    assert answers.forms == []


def test_a_provider_without_the_device_flow_leads_to_the_browser(answers: Answers) -> None:
    answers.discover(device_authorization_endpoint=None)
    with pytest.raises(ServerError, match="rainbowctl login --browser"):
        answers.provider().begin_device_login(["openid"])


def test_a_provider_that_cannot_revoke_is_no_error(answers: Answers) -> None:
    assert not answers.provider().revoke("r")
    answers.discover(revocation_endpoint=f"{answers.issuer}/revoke")
    answers.answers["/revoke"] = (200, "")
    assert answers.provider().revoke("r")
    assert answers.forms == [{"client_id": "rainbowctl", "token": "r", "token_type_hint": "refresh_token"}]


def test_a_provider_that_does_not_answer_is_unreachable() -> None:
    provider = Provider(f"http://127.0.0.1:{free_port()}", "rainbowctl")
    with pytest.raises(Unreachable, match="cannot be reached: connection refused") as error:
        provider.refresh("r")
    assert error.value.exit_code == 6
