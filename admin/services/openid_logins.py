"""OpenID logins of the console: authorization codes with PKCE, which the admin exchanges for the browser.

Nobody needs a token to begin or finish a login, so that the provider is asked by few requests at once, and for its
endpoints only now and then.
"""

from __future__ import annotations

import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
import requests

from admin.configuration import OpenId
from admin.core.hosts import is_safe_url
from admin.core.problems import shorten
from admin.errors import Busy, NoProvider, ProviderUnavailable, Unauthenticated
from admin.services.openid_keys import FRESH_SECONDS, Document, fetch_document

_TIMEOUT_SECONDS = (3.0, 10.0)  #: for the connection, and for each part of the answer
_MOST_BYTES = 256 * 1024
#: How many requests ask the provider at once; each holds a thread until it answers.
MOST_AT_ONCE = 4


class BegunLogin(NamedTuple):
    """A login that a browser is sent to the provider for."""

    url: str
    state: str
    verifier: str


def begin_login(openid: OpenId, redirect_uri: str) -> BegunLogin:
    """Where a browser logs in; NoProvider where there is no client for that."""
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    parameters = {
        "response_type": "code",
        "client_id": _client_of(openid),
        "redirect_uri": redirect_uri,
        "scope": " ".join(scope for scope in openid.scopes if scope != "offline_access"),
        "state": state,
        "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    authorize = _endpoints.find(openid.issuer, "authorization_endpoint")
    return BegunLogin(f"{authorize}{'&' if '?' in authorize else '?'}{urlencode(parameters)}", state, verifier)


def finish_login(openid: OpenId, *, code: str, redirect_uri: str, verifier: str) -> str:
    """The access token for an authorization code; Unauthenticated where the provider refuses it."""
    form = {
        "grant_type": "authorization_code",
        "client_id": _client_of(openid),
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    endpoint = _endpoints.find(openid.issuer, "token_endpoint")
    headers = {"Accept": "application/json"}
    try:
        with (
            _endpoints.asking(),
            requests.post(
                endpoint, data=form, headers=headers, timeout=_TIMEOUT_SECONDS, allow_redirects=False, stream=True
            ) as answer,
        ):
            content = answer.raw.read(_MOST_BYTES, decode_content=True)
        document = orjson.loads(content)
    except (requests.RequestException, ValueError):
        raise ProviderUnavailable() from None  # without its cause, which may hold what was sent
    token = document.get("access_token") if isinstance(document, dict) else None
    if answer.status_code != requests.codes.ok or not isinstance(token, str):
        raise Unauthenticated(f"The OpenID provider refuses the login{_why(document)}. Sign in again.")
    return token


def _why(document: Any) -> str:
    """The provider's word for a refusal."""
    word = document.get("error") if isinstance(document, Mapping) else None
    return f" ({shorten(word)})" if isinstance(word, str) else ""


def _client_of(openid: OpenId) -> str:
    if openid.client_id is None:
        raise NoProvider("Nobody can log in with a browser: openid.clientId names no client. Give a token instead.")
    return openid.client_id


class ProviderEndpoints:
    """The endpoints of providers, as their discovery documents name them, which are kept for a while."""

    def __init__(
        self, fetch: Callable[[str], Document] = fetch_document, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._monotonic = monotonic
        self._documents: dict[str, tuple[float, Document]] = {}  #: by issuer, with the time when each was fetched
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """One of the places for requests that ask a provider; Busy where there is none."""
        if not self._places.acquire(blocking=False):
            raise Busy()
        try:
            yield
        finally:
            self._places.release()

    def find(self, issuer: str, name: str) -> str:
        """The address of an endpoint."""
        url = self._document(issuer).get(name)
        if not isinstance(url, str) or not is_safe_url(url):
            raise ProviderUnavailable(f"The discovery document of {issuer} names no {name} that can be used.")
        return url

    def _document(self, issuer: str) -> Document:
        fetched_at, document = self._documents.get(issuer, (0.0, None))
        if document is None or self._monotonic() - fetched_at > FRESH_SECONDS:
            with self.asking():
                try:
                    document = self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                except (requests.RequestException, ValueError):
                    raise ProviderUnavailable() from None
            if document.get("issuer") != issuer:
                raise ProviderUnavailable(f"The discovery document of {issuer} names another issuer.")
            self._documents[issuer] = self._monotonic(), document
        return document


_endpoints = ProviderEndpoints()
