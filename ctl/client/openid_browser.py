"""Logging in with a browser on this machine: authorization code with PKCE, answered on a loopback port (RFC 8252)."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, Queue
from threading import Thread
from urllib.parse import parse_qs, urlencode, urlsplit

from ctl.client.errors import InvalidInput, LoginRefused
from ctl.client.openid import Provider, Tokens

_PATH = "/callback"
_PAGE = "<!DOCTYPE html><meta charset=utf-8><title>rainbowctl</title><p>{}</p>"


def log_in_with_browser(
    provider: Provider, client_id: str, scopes: Sequence[str], show: Callable[[str], None], *, seconds: float
) -> Tokens:
    """The tokens of a login that `show` gets the URL of; LoginRefused if a browser does not come back in time."""
    authorize = provider.endpoint("authorization_endpoint", "logins")
    verifier, state = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    with _Callback(provider.issuer, state) as callback:
        parameters = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": callback.url,
            "scope": " ".join(scopes),
            "state": state,
            "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        if "offline_access" in scopes:
            parameters["prompt"] = "consent"  # without it providers may not give a refresh token
        show(f"{authorize}{'&' if urlsplit(authorize).query else '?'}{urlencode(parameters)}")
        code = callback.wait(seconds)
        return provider.exchange(code, redirect_uri=callback.url, verifier=verifier)


class _Callback:
    """A server on loopback that gets the answer of the provider from the browser."""

    def __init__(self, issuer: str, state: str) -> None:
        self._issuer = issuer
        self._state = state
        self._answers: Queue[dict[str, str]] = Queue()
        answers = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # a browser may open a connection and send nothing

            def do_GET(self) -> None:
                status, text = answers.take(self.path)
                page = _PAGE.format(text).encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:
                pass

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        except OSError as error:
            raise InvalidInput(
                f"No port of 127.0.0.1 can be listened on: {error.strerror}. Log in without --browser."
            ) from None
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def url(self) -> str:
        """Where the browser is sent back to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{_PATH}"

    def __enter__(self) -> _Callback:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path: str) -> tuple[int, str]:
        """The status and text that answer a request; the provider's answer is kept, anything else is nobody's."""
        parts = urlsplit(path)
        values = {name: texts[0] for name, texts in parse_qs(parts.query).items()}
        is_ours = parts.path == _PATH and compare_digest(values.get("state", "").encode(), self._state.encode())
        # A provider that names itself must be the one that was asked (RFC 9207).
        if not is_ours or values.get("iss", self._issuer) != self._issuer or not {"code", "error"} & values.keys():
            return 404, "This is no answer to a login that rainbowctl waits for."
        self._answers.put(values)
        if "code" in values:
            return 200, "The login is done: rainbowctl goes on. You may close this page."
        return 200, "The login was refused: rainbowctl says why. You may close this page."

    def wait(self, seconds: float) -> str:
        """The authorization code."""
        try:
            values = self._answers.get(timeout=seconds)
        except Empty:
            raise LoginRefused(
                f"No browser has finished the login within {seconds:g} s. Run `rainbowctl login --browser` again.",
                reason="timeout",
            ) from None
        if "code" not in values:
            words = values.get("error_description") or values["error"]
            raise LoginRefused(f"The OpenID provider {self._issuer} refuses: {words}.", reason=values["error"])
        return values["code"]
