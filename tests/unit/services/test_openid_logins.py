"""Logins of the console at an OpenID provider: how often, and by how many at once, the provider is asked."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import requests

from admin.errors import Busy, ProviderUnavailable
from admin.services.openid_keys import FRESH_SECONDS
from admin.services.openid_logins import MOST_AT_ONCE, ProviderEndpoints
from tests.support.openid_tokens import ISSUER

TOKEN = f"{ISSUER}/token"


class Provider:
    """A provider whose answers and clock a test sets."""

    def __init__(self) -> None:
        self.discovery: dict[str, Any] = {"issuer": ISSUER, "token_endpoint": TOKEN}
        self.is_down = False
        self.fetched = 0
        self.now = 1000.0

    def fetch(self, url: str) -> dict[str, Any]:
        assert url == f"{ISSUER}/.well-known/openid-configuration"
        self.fetched += 1
        if self.is_down:
            raise requests.ConnectionError("no route")
        return self.discovery

    def opened(self) -> ProviderEndpoints:
        return ProviderEndpoints(self.fetch, monotonic=lambda: self.now)


def test_the_discovery_document_is_fetched_once_in_a_while() -> None:
    provider = Provider()
    endpoints = provider.opened()
    assert [endpoints.find(ISSUER, "token_endpoint") for _ in range(3)] == [TOKEN] * 3
    assert provider.fetched == 1
    provider.discovery = {**provider.discovery, "token_endpoint": f"{TOKEN}2"}
    provider.now += FRESH_SECONDS + 1
    assert endpoints.find(ISSUER, "token_endpoint") == f"{TOKEN}2"
    assert provider.fetched == 2


def test_few_requests_ask_the_provider_at_once() -> None:
    provider = Provider()
    endpoints = provider.opened()
    with ExitStack() as asking:
        for _ in range(MOST_AT_ONCE):
            asking.enter_context(endpoints.asking())
        with pytest.raises(Busy):
            endpoints.find(ISSUER, "token_endpoint")
    assert provider.fetched == 0
    provider.is_down = True
    for _ in range(MOST_AT_ONCE + 1):  # a place is given back where the provider does not answer
        with pytest.raises(ProviderUnavailable):
            endpoints.find(ISSUER, "token_endpoint")


@pytest.mark.parametrize("changes", [{"issuer": "https://evil.example"}, {"token_endpoint": "http://elsewhere/"}])
def test_a_document_of_another_issuer_or_with_unsafe_addresses_is_none(changes: dict[str, str]) -> None:
    provider = Provider()
    provider.discovery = {**provider.discovery, **changes}
    with pytest.raises(ProviderUnavailable):
        provider.opened().find(ISSUER, "token_endpoint")
