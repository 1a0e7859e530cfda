"""The public keys of an OpenID provider: fetched when they are needed, kept, and fetched again when they may be others.

PyJWT's own client for keys gives up its keys when they are old and the provider does not answer, and asks a provider
that is down again at each request. Here the last keys stay good, and nobody can make the admin ask often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import requests

from admin.core.hosts import is_safe_url
from admin.errors import Busy, ProviderUnavailable

#: Keys that are older than this are fetched again, so that those which the provider took away do not count any more.
FRESH_SECONDS = 300.0
#: The least time between two fetches, whatever tokens arrive.
PAUSE_SECONDS = 10.0

#: How many requests wait at once for keys that are being fetched.
_MOST_WAITING = 16
_TIMEOUT_SECONDS = (3.0, 5.0)  #: for the connection, and for each part of the answer
_MOST_BYTES = 1024 * 1024
_KEY_TYPES = frozenset({"RSA", "EC", "OKP"})  #: those of public keys; a symmetric one would be no secret there

_log = logging.getLogger("rainbow.openid")

Key = Mapping[str, Any]
Document = Mapping[str, Any]


class ProviderKeys:
    """The keys that an issuer signs with, as its discovery document leads to them."""

    def __init__(
        self,
        issuer: str,
        fetch: Callable[[str], Document] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch or fetch_document
        self._monotonic = monotonic
        self._keys: tuple[Key, ...] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._problem = ""  #: why the last fetch failed
        self._lock = threading.Lock()  #: held while keys are fetched
        self._places = threading.Semaphore(_MOST_WAITING)

    def find(self, key_id: str | None) -> Key | None:
        """The key of an id, or the only one there is for a token that names none; None where there is no such key.

        ProviderUnavailable where that cannot be known, because the provider does not answer.
        """
        key = self.known(key_id)
        if key is None:
            self._wait_for_keys()
            key = self.known(key_id)
        if key is None and self._problem:
            raise ProviderUnavailable()
        return key

    def known(self, key_id: str | None) -> Key | None:
        """The same by the keys that were fetched last, without waiting for others."""
        keys = self._keys
        if self._fetched_at is not None and self._monotonic() - self._fetched_at > FRESH_SECONDS:
            self._refresh()
        if key_id is None:
            return keys[0] if len(keys) == 1 else None
        return next((key for key in keys if key.get("kid") == key_id), None)

    def _refresh(self) -> None:
        """Fetch the keys again beside the requests, which go by those that are there."""
        if not self._may_fetch() or not self._lock.acquire(blocking=False):
            return
        try:
            threading.Thread(target=self._fetch_and_release, name="openid-keys", daemon=True).start()
        except RuntimeError:  # there are too many threads already; a later request tries again
            self._lock.release()

    def _fetch_and_release(self) -> None:
        try:
            self._fetch_keys()
        finally:
            self._lock.release()

    def _wait_for_keys(self) -> None:
        """Fetch the keys, unless that was done just now; whoever comes meanwhile waits for the same fetch."""
        if not self._may_fetch():
            return
        if not self._places.acquire(blocking=False):
            raise Busy()
        try:
            with self._lock:
                if self._may_fetch():
                    self._fetch_keys()
        finally:
            self._places.release()

    def _may_fetch(self) -> bool:
        return self._tried_at is None or self._monotonic() - self._tried_at >= PAUSE_SECONDS

    def _fetch_keys(self) -> None:
        try:
            keys = self._published_keys()
        except (requests.RequestException, ValueError) as error:
            self._note_failure(error)
        else:
            if keys != self._keys:
                self._keys = keys
                _log.info("keys of the OpenID provider", extra={"issuer": self._issuer, "keys": len(keys)})
            self._fetched_at = self._monotonic()
            self._problem = ""
        # Counted from the end of the fetch, so that a provider that answers slowly is not asked all the time.
        self._tried_at = self._monotonic()

    def _note_failure(self, error: Exception) -> None:
        is_ours = not isinstance(error, requests.RequestException)  # theirs name addresses of objects
        problem = str(error) if is_ours else f"it cannot be reached ({type(error).__name__})"
        if problem != self._problem:
            _log.warning(
                "the keys of the OpenID provider cannot be fetched; tokens go by the former ones",
                extra={"issuer": self._issuer, "problem": problem, "keys": len(self._keys)},
            )
        self._problem = problem

    def _published_keys(self) -> tuple[Key, ...]:
        """The keys for signatures that the provider publishes; ValueError for an answer that has none."""
        document = self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise ValueError("its discovery document names another issuer")
        place = document.get("jwks_uri")
        if not isinstance(place, str) or not is_safe_url(place):
            raise ValueError("its discovery document names no safe jwks_uri")
        published = self._fetch(place).get("keys")
        keys = tuple(key for key in published if _is_for_signatures(key)) if isinstance(published, list) else ()
        if not keys:
            raise ValueError("it publishes no keys for signatures")
        return keys


def _is_for_signatures(key: Any) -> bool:
    return isinstance(key, dict) and key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig"


def fetch_document(url: str) -> Document:
    """A JSON object from the provider; ValueError or an error of requests where there is none."""
    with requests.get(url, timeout=_TIMEOUT_SECONDS, allow_redirects=False, stream=True) as answer:
        if answer.status_code != requests.codes.ok:
            raise ValueError(f"it answered {answer.status_code}")
        content = b""
        for piece in answer.iter_content(65_536):
            content += piece
            if len(content) > _MOST_BYTES:
                raise ValueError(f"its answer is larger than {_MOST_BYTES} bytes")
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise ValueError("its answer is no JSON object")
    return document
