"""OpenID logins of the console: authorization codes with PKCE, which the admin exchanges for the browser."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson
import requests

from admin.configuration import OpenId
from admin.core.hosts import is_safe_url
from admin.core.problems import shorten
from admin.errors import NoProvider, ProviderUnavailable, Unauthenticated
from admin.services.openid_keys import fetch_document

_TIMEOUT_SECONDS = (3.0, 10.0)  #: for the connection, and for each part of the answer
_MOST_BYTES = 256 * 1024


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
    authorize = _endpoint(openid, "authorization_endpoint")
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
    endpoint = _endpoint(openid, "token_endpoint")
    headers = {"Accept": "application/json"}
    try:
        with requests.post(
            endpoint, data=form, headers=headers, timeout=_TIMEOUT_SECONDS, allow_redirects=False, stream=True
        ) as answer:
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


def _endpoint(openid: OpenId, name: str) -> str:
    """An endpoint of the provider, as its discovery document names it."""
    try:
        document = fetch_document(f"{openid.issuer.rstrip('/')}/.well-known/openid-configuration")
    except (requests.RequestException, ValueError):
        raise ProviderUnavailable() from None
    url = document.get(name)
    if document.get("issuer") != openid.issuer or not isinstance(url, str) or not is_safe_url(url):
        raise ProviderUnavailable(f"The discovery document of {openid.issuer} names no {name} that can be used.")
    return url
