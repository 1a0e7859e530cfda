"""The keys of an OpenID provider: kept while they are good, fetched again when they may be others, but not often."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from admin.errors import Busy, ProviderUnavailable
from admin.services import openid_keys
from admin.services.openid_keys import FRESH_SECONDS, PAUSE_SECONDS, ProviderKeys, fetch_document
from tests.support.openid_tokens import ISSUER
from tests.support.servers import serving
from tests.support.waiting import wait_until

JWKS = f"{ISSUER}/jwks"


class Provider:
    """A provider whose answers and clock a test sets."""

    def __init__(self, *ids: str) -> None:
        self.keys: list[Any] = [key(id) for id in ids]
        self.discovery: dict[str, Any] = {"issuer": ISSUER, "jwks_uri": JWKS}
        self.is_down = False
        self.fetched: list[str] = []
        self.now = 1000.0

    def fetch(self, url: str) -> dict[str, Any]:
        self.fetched.append(url)
        if self.is_down:
            raise requests.ConnectionError("no route")
        return {"keys": self.keys} if url == JWKS else self.discovery

    def opened(self) -> ProviderKeys:
        return ProviderKeys(ISSUER, fetch=self.fetch, monotonic=lambda: self.now)


def key(id: str | None, **fields: Any) -> dict[str, Any]:
    return {"kty": "RSA", **({"kid": id} if id else {}), **fields}


def test_keys_are_fetched_when_they_are_first_needed_and_kept() -> None:
    provider = Provider("a", "b")
    keys = provider.opened()
    assert provider.fetched == []
    assert keys.find("b") == key("b")
    assert provider.fetched == [f"{ISSUER}/.well-known/openid-configuration", JWKS]
    assert keys.find("a") == key("a")
    assert len(provider.fetched) == 2


def test_an_unknown_key_id_fetches_again_but_not_more_often_than_the_pause_allows() -> None:
    provider = Provider("a")
    keys = provider.opened()
    assert keys.find("a")
    provider.keys = [key("b")]
    assert keys.find("b") is None  # the keys were fetched just now
    assert len(provider.fetched) == 2
    provider.now += PAUSE_SECONDS
    assert keys.find("b") == key("b")
    assert keys.find("a") is None
    for _ in range(100):
        assert keys.find("random") is None
    assert len(provider.fetched) == 4


def test_old_keys_are_fetched_again_beside_the_requests() -> None:
    provider = Provider("a", "b")
    keys = provider.opened()
    assert keys.find("a")
    provider.keys = [key("a")]
    provider.now += FRESH_SECONDS + 1
    assert keys.find("b") == key("b")  # it goes by the keys that are there
    wait_until(lambda: keys.known("b") is None)
    assert keys.find("a") == key("a")


def test_while_the_provider_is_down_the_last_keys_stay_good(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider("a")
    keys = provider.opened()
    assert keys.find("a")
    provider.is_down = True
    for _ in range(20):
        provider.now += FRESH_SECONDS + 1
        provider.fetched.clear()
        assert keys.find("a") == key("a")
        wait_until(lambda: len(provider.fetched) > 0)
        with keys._lock:  # until that fetch is over
            pass
    assert caplog.messages.count("the keys of the OpenID provider cannot be fetched; tokens go by the former ones") == 1
    with pytest.raises(ProviderUnavailable):  # it may be a new one
        keys.find("b")
    provider.is_down = False
    provider.now += PAUSE_SECONDS
    assert keys.find("b") is None


def test_a_provider_that_never_answered_is_asked_again_after_the_pause() -> None:
    provider = Provider("a")
    provider.is_down = True
    keys = provider.opened()
    for _ in range(10):
        with pytest.raises(ProviderUnavailable):
            keys.find("a")
    assert len(provider.fetched) == 1
    provider.is_down = False
    provider.now += PAUSE_SECONDS
    assert keys.find("a") == key("a")


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://other.example.org", "jwks_uri": JWKS},
        {"jwks_uri": JWKS},
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": "http://login.example.org/jwks"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER, "jwks_uri": 7},
    ],
)
def test_a_discovery_document_that_cannot_be_trusted_gives_no_keys(discovery: dict[str, Any]) -> None:
    provider = Provider("a")
    provider.discovery = discovery
    with pytest.raises(ProviderUnavailable):
        provider.opened().find("a")
    assert len(provider.fetched) == 1


@pytest.mark.parametrize(
    "unusable", [key("a", use="enc"), {"kty": "oct", "kid": "a", "k": "c2VjcmV0"}, {"kid": "a"}, "a", None]
)
def test_only_public_keys_for_signatures_count(unusable: Any) -> None:
    provider = Provider("b")
    provider.keys.append(unusable)
    assert provider.opened().find("a") is None
    provider.keys = [unusable]
    with pytest.raises(ProviderUnavailable):
        provider.opened().find("a")


def test_a_token_without_a_key_id_is_of_the_only_key() -> None:
    assert Provider("a").opened().find(None) == key("a")
    assert Provider("a", "b").opened().find(None) is None


def test_many_unknown_keys_at_once_are_one_fetch_and_few_wait() -> None:
    provider = Provider("a")
    is_going_on, may_go_on = threading.Event(), threading.Event()
    answer = provider.fetch

    def slowly(url: str) -> dict[str, Any]:
        is_going_on.set()
        may_go_on.wait(60)
        return answer(url)

    keys = ProviderKeys(ISSUER, fetch=slowly, monotonic=lambda: provider.now)
    outcomes: list[Any] = []

    def ask() -> None:
        try:
            outcomes.append(keys.find("a"))
        except Busy as error:
            outcomes.append(error)

    threads = [threading.Thread(target=ask) for _ in range(openid_keys._MOST_WAITING + 4)]
    for thread in threads:
        thread.start()
    is_going_on.wait(60)
    wait_until(lambda: len(outcomes) == 4)
    may_go_on.set()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Busy) for outcome in outcomes) == 4
    assert outcomes.count(key("a")) == openid_keys._MOST_WAITING
    assert len(provider.fetched) == 2


@contextmanager
def answering(status: int, content: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/"


def test_a_document_is_a_json_object() -> None:
    with answering(200, b'{"keys": []}') as url:
        assert fetch_document(url) == {"keys": []}


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (500, b"{}", "answered 500"),
        (302, b"{}", "answered 302"),
        (200, b"[]", "no JSON object"),
        (200, b"<html>", "no JSON object"),
        (200, b"[" * 100_000, "no JSON object"),
        (200, b" " * (1024 * 1024 + 1), "larger than"),
    ],
)
def test_any_other_answer_is_refused(status: int, content: bytes, reason: str) -> None:
    with answering(status, content) as url, pytest.raises(ValueError, match=reason):
        fetch_document(url)


def test_the_reason_of_a_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider()
    keys = provider.opened()
    problems: list[Callable[[], None]] = [
        lambda: setattr(provider, "is_down", True),
        lambda: setattr(provider, "is_down", False),
    ]
    for change in [lambda: None, *problems]:
        change()
        for _ in range(3):
            provider.now += PAUSE_SECONDS
            with pytest.raises(ProviderUnavailable):
                keys.find("a")
    logged = [vars(record)["problem"] for record in caplog.records if "problem" in vars(record)]
    none = "it publishes no keys for signatures"
    assert logged == [none, "it cannot be reached (ConnectionError)", none]
