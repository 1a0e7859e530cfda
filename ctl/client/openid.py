"""
An OpenID provider, as a program without a secret sees it: its endpoints, and how tokens are got, refreshed and revoked.

A provider is spoken to with the client's own HTTP (`ctl.client.connections`), over https or on this machine. What it
refuses is a `LoginRefused` with OAuth's word for the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from ctl.client.connections import Answer, Connections, NoAnswer, Remedies
from ctl.client.endpoints import parse_endpoint
from ctl.client.errors import InvalidInput, LoginRefused, ServerError, Unreachable
from ctl.client.transport import find_proxy_of

_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_CONNECT_SECONDS = 10.0
#: Of the device flow, where the provider does not say.
_INTERVAL_SECONDS, _LONGEST_INTERVAL_SECONDS, _SLOWER_SECONDS = 5.0, 60.0, 5.0
_REMEDIES = Remedies(
    check="Check that it runs, and that this machine may reach it.",
    trust="Name the file of its certificate authority in REQUESTS_CA_BUNDLE.",
)
#: What OAuth's words mean to a person.
_REASONS = {
    "access_denied": "the login was denied",
    "expired_token": "the code was not entered in time",
    "invalid_grant": "the login has ended",
    "invalid_client": "it does not know this client",
    "unauthorized_client": "it does not let this client log in so",
    "invalid_scope": "it does not have the scopes that the admin asks for",
}


class Tokens(NamedTuple):
    """What a provider gives for a login."""

    access_token: str
    refresh_token: str | None
    expires_in: float | None  #: seconds


class DeviceCode(NamedTuple):
    """A login that a person confirms in any browser."""

    device_code: str
    user_code: str
    verification_uri: str
    complete_uri: str | None  #: with the code in it
    expires_in: float  #: seconds
    interval: float  #: seconds between two questions


class Provider:
    """Speaks to one OpenID provider for one public client."""

    def __init__(self, issuer: str, client_id: str, *, timeout: float = 30.0) -> None:
        self.issuer = issuer
        self._client_id = client_id
        self._timeout = timeout

    @cached_property
    def _metadata(self) -> Mapping[str, Any]:
        document = self._json(self._ask("GET", f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"))
        if document.get("issuer") != self.issuer:
            raise ServerError(f"The discovery document of {self.issuer} names another issuer.")
        return document

    def endpoint(self, name: str, purpose: str) -> str:
        """One of the provider's endpoints; ServerError where it does not have it."""
        url = self._metadata.get(name)
        if not isinstance(url, str) or not url:
            raise ServerError(f"The OpenID provider {self.issuer} has no endpoint for {purpose} ({name}).")
        return url

    def begin_device_login(self, scopes: Sequence[str]) -> DeviceCode:
        """Ask for a code that a person enters in a browser."""
        url = self.endpoint("device_authorization_endpoint", "the device flow; try `rainbowctl login --browser`")
        answer = self._post(url, {"client_id": self._client_id, "scope": " ".join(scopes)})
        complete = answer.get("verification_uri_complete")
        return DeviceCode(
            device_code=self._text(answer, "device_code"),
            user_code=self._text(answer, "user_code"),
            verification_uri=self._text(answer, "verification_uri"),
            complete_uri=complete if isinstance(complete, str) else None,
            expires_in=_seconds(answer.get("expires_in")) or 600.0,
            interval=_seconds(answer.get("interval")) or _INTERVAL_SECONDS,
        )

    def wait_for_device(
        self, code: DeviceCode, *, sleep: Callable[[float], None], monotonic: Callable[[], float]
    ) -> Tokens:
        """The tokens of a login once a person has confirmed it; LoginRefused if that does not happen in time."""
        deadline, interval = monotonic() + code.expires_in, code.interval
        while monotonic() < deadline:
            sleep(interval)
            try:
                return self._tokens({"grant_type": _DEVICE_GRANT, "device_code": code.device_code})
            except LoginRefused as refusal:
                if refusal.reason == "slow_down":
                    interval += _SLOWER_SECONDS
                elif refusal.reason != "authorization_pending":
                    raise
            except Unreachable:  # the person may still be at it, and the network come back
                interval = min(2 * interval, _LONGEST_INTERVAL_SECONDS)
        raise self._refusal("expired_token")

    def exchange(self, code: str, *, redirect_uri: str, verifier: str) -> Tokens:
        """The tokens for an authorization code."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        return self._tokens({**form, "code_verifier": verifier})

    def refresh(self, refresh_token: str) -> Tokens:
        """New tokens for a login; LoginRefused where it has ended."""
        return self._tokens({"grant_type": "refresh_token", "refresh_token": refresh_token})

    def revoke(self, refresh_token: str) -> bool:
        """End a login at the provider; False where it has no way to do so."""
        url = self._metadata.get("revocation_endpoint")
        if not isinstance(url, str):
            return False
        form = {"client_id": self._client_id, "token": refresh_token, "token_type_hint": "refresh_token"}
        self._check(self._ask("POST", url, form))
        return True

    def _tokens(self, form: Mapping[str, str]) -> Tokens:
        url = self.endpoint("token_endpoint", "tokens")
        answer = self._post(url, {"client_id": self._client_id, **form})
        refresh_token = answer.get("refresh_token")
        token = self._text(answer, "access_token")
        if not token.isascii() or not token.isprintable():
            raise ServerError(f"The OpenID provider {self.issuer} gave a token that cannot be sent.")
        return Tokens(
            access_token=token,
            refresh_token=refresh_token if isinstance(refresh_token, str) else None,
            expires_in=_seconds(answer.get("expires_in")),
        )

    def _post(self, url: str, form: Mapping[str, str]) -> Mapping[str, Any]:
        return self._json(self._check(self._ask("POST", url, form)))

    def _check(self, answer: Answer) -> Answer:
        """The answer, unless it is a refusal."""
        if answer.status == 200:
            return answer
        try:
            document = json.loads(answer.content)
        except ValueError:
            document = None
        if answer.status in {400, 401, 403} and isinstance(document, dict) and isinstance(document.get("error"), str):
            raise self._refusal(document["error"], document.get("error_description"))
        if answer.status == 429 or answer.status >= 500:
            raise Unreachable(f"The OpenID provider {self.issuer} answered {answer.status} {answer.reason}.")
        raise ServerError(f"The OpenID provider {self.issuer} answered {answer.status} {answer.reason}.")

    def _refusal(self, reason: str, description: object = None) -> LoginRefused:
        words = _REASONS.get(reason) or (description if isinstance(description, str) and description else reason)
        return LoginRefused(f"The OpenID provider {self.issuer} refuses: {words.rstrip('.')}.", reason=reason)

    def _json(self, answer: Answer) -> Mapping[str, Any]:
        try:
            document = json.loads(answer.content) if answer.status == 200 else None
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ServerError(
                f"The OpenID provider {self.issuer} answered {answer.status}, but not as a provider does: is it one?"
            )
        return document

    def _text(self, answer: Mapping[str, Any], name: str) -> str:
        value = answer.get(name)
        if not isinstance(value, str) or not value:
            raise ServerError(f"The OpenID provider {self.issuer} answered without {name!r}.")
        return value

    def _ask(self, method: str, url: str, form: Mapping[str, str] | None = None) -> Answer:
        connections, path = self._connections(url)
        headers = {"Accept": "application/json", "User-Agent": "rainbowctl"}
        content = None
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            content = urlencode(form).encode()
        try:
            limits = (min(self._timeout, _CONNECT_SECONDS), self._timeout)
            return connections.ask(method, path, headers, content, timeout=limits)
        except NoAnswer as error:
            message = f"The OpenID provider {self.issuer} cannot be reached: {error.reason}. {error.remedy}"
            raise Unreachable(message) from error
        finally:
            connections.close()

    def _connections(self, url: str) -> tuple[Connections, str]:
        """A connection for a URL of the provider, and the path to ask for; tokens go over https, or not far."""
        parts = urlsplit(url)
        try:
            endpoint = parse_endpoint(f"{parts.scheme}://{parts.netloc}")
        except InvalidInput as error:
            raise ServerError(f"The OpenID provider {self.issuer} names a wrong URL. {error.message}") from None
        if parts.scheme != "https" and not endpoint.is_local:
            raise ServerError(f"The OpenID provider {self.issuer} names {url}, which has no https: nothing was sent.")
        path = parts.path or "/"
        connections = Connections(endpoint.url, proxy=find_proxy_of(endpoint), remedies=_REMEDIES)
        return connections, f"{path}?{parts.query}" if parts.query else path


def _seconds(value: object) -> float | None:
    """A number of seconds, of which some providers make a text."""
    try:
        seconds = float(value) if isinstance(value, int | float | str) else 0.0
    except ValueError:
        return None
    return seconds if 0 < seconds < 1e9 else None
