"""HTTP with the admin: one request, one answer, every failure in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    import requests

_CONNECT_SECONDS = 5.0
_LOCAL = ("localhost", "127.0.0.1", "::1")


class AdminError(Exception):
    """What the admin, or the way to it, did not do."""

    #: Whether the same may succeed later.
    passes = False

    def __init__(self, message: str, *, status: int = 0, name: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.name = name
        self.retry_after = retry_after


class Unreachable(AdminError):
    """No answer, or one that says to come back later."""

    passes = True


class Unauthenticated(AdminError):
    """The token does not count."""


class Replaced(AdminError):
    """Another agent process serves this cluster now."""


class TooLarge(AdminError):
    """The request is larger than the admin, or a proxy before it, takes."""


class Refused(AdminError):
    """Any other refusal."""


class Token:
    """The cluster's token in its file, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int] | None = None
        self._text = ""

    def text(self) -> str:
        """The token; Unauthenticated where there is none."""
        try:
            found = self.path.stat()
            if (found.st_mtime_ns, found.st_ino) != self._seen:
                self._text = self.path.read_text(encoding="utf-8").strip()
                self._seen = (found.st_mtime_ns, found.st_ino)
        except FileNotFoundError:
            raise Unauthenticated(
                f"tokenFile: there is no {self.path}: run `rainbow-agent register`, or give the right file"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthenticated(f"tokenFile: {self.path} cannot be read: {error}") from error
        if not self._text or any(letter.isspace() or not letter.isprintable() for letter in self._text):
            raise Unauthenticated(
                f"tokenFile: {self.path} does not hold a token: it must be one line, as register wrote it"
            )
        return self._text


class Transport:
    """Sends requests to one admin; not to be shared by threads."""

    def __init__(self, endpoint: str, *, token: Token | None = None, ca_file: str | None = None) -> None:
        import requests

        self.endpoint = endpoint.rstrip("/")
        self._token = token
        self._verify: bool | str = ca_file or True
        self._session = requests.Session()
        # Proxies are for other machines.
        self._session.trust_env = urlsplit(endpoint).hostname not in _LOCAL
        # An `auth` of our own: otherwise a ~/.netrc would replace the token.
        self._session.auth = lambda request: request
        self._session.headers.update({"Accept": "application/json", "User-Agent": "rainbow-agent"})

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def get(self, path: str, *, seconds: float = 10.0) -> dict[str, Any]:
        """The answer to a read."""
        return self._call("GET", path, None, seconds)

    def post(self, path: str, body: Mapping[str, Any], *, seconds: float = 10.0) -> dict[str, Any]:
        """The answer to a write, which must come within so many seconds."""
        return self._call("POST", path, body, seconds)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
        import requests

        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.text()}"
        data = None if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        try:
            answer = self._session.request(
                method,
                f"{self.endpoint}{path}",
                data=data,
                headers=headers,
                timeout=(_CONNECT_SECONDS, seconds),
                verify=self._verify,
                allow_redirects=False,
            )
        except requests.exceptions.SSLError:
            raise Unreachable(
                f"the certificate of {self.endpoint} is not trusted: give the right CA in caFile"
            ) from None
        except requests.exceptions.Timeout:
            raise Unreachable(f"the admin at {self.endpoint} does not answer in time") from None
        except requests.exceptions.ConnectionError:
            raise Unreachable(
                f"the admin at {self.endpoint} cannot be reached: check the endpoint, and that the admin runs"
            ) from None
        except (requests.RequestException, OSError, ValueError) as error:
            raise Unreachable(f"the admin at {self.endpoint} cannot be asked: {error}") from None
        return self._read(answer)

    def _read(self, answer: requests.Response) -> dict[str, Any]:
        try:
            document = answer.json()
        except ValueError:
            document = None
        status = answer.status_code
        if 200 <= status < 300 and isinstance(document, dict):
            return document
        said = document if isinstance(document, dict) and "message" in document else {}
        message = _message(said) or f"{self.endpoint} answered {status}, not as an admin does: is it one?"
        name = str(said.get("error", ""))
        kind: type[AdminError] = Refused
        if status in (401, 403):
            kind = Unauthenticated
        elif status == 409 and name == "agent_replaced":
            kind = Replaced
        elif status == 413:
            kind = TooLarge
        elif status == 429 or status >= 500 or not said:
            kind = Unreachable
        raise kind(message, status=status, name=name, retry_after=_seconds(answer.headers.get("Retry-After")))


def cluster_path(cluster: str, what: str) -> str:
    """The path of something of a cluster's."""
    return f"/api/v1/clusters/{quote(cluster, safe='')}/{what}"


def _message(said: Mapping[str, Any]) -> str:
    """The admin's words, with the fields that they are about."""
    details = said.get("details")
    named = [
        f"{detail['field']}: {detail.get('reason', '')}"
        for detail in (details if isinstance(details, list) else [])
        if isinstance(detail, dict) and detail.get("field")
    ]
    return " ".join([str(said.get("message", "")), *named]).strip()


def _seconds(header: str | None) -> float | None:
    return float(header) if header and header.strip().isdigit() else None
