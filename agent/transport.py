"""Requests to the admin: the client's transport with the cluster's token, each request sent once."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ctl.client.connections import Remedies
from ctl.client.endpoints import parse_endpoint
from ctl.client.errors import (
    ClientError,
    InvalidInput,
    InvalidRequest,
    RainbowError,
    Unauthenticated,
    Unreachable,
    UnwritableBody,
)
from ctl.client.transport import Transport

_CONNECT_SECONDS = 5.0
_REMEDIES = Remedies(
    check="Check the endpoint, and that the admin runs.", trust="Name the file of its certificate authority in caFile."
)


class Token:
    """The cluster's token in its file, read again whenever the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version: tuple[int, int] | None = None
        self._text = ""

    def read(self) -> str:
        """The token; Unauthenticated if the file does not contain one."""
        try:
            status = self.path.stat()
            if (status.st_mtime_ns, status.st_ino) != self._version:
                self._text = self.path.read_text(encoding="utf-8").strip()
                self._version = (status.st_mtime_ns, status.st_ino)
        except FileNotFoundError:
            raise Unauthenticated(
                f"tokenFile: there is no {self.path}: run `rainbow-agent register`, or name the right file"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise Unauthenticated(f"tokenFile: {self.path} cannot be read: {error}") from error
        if not self._text or not self._text.isascii() or not self._text.isprintable() or " " in self._text:
            raise Unauthenticated(
                f"tokenFile: {self.path} does not contain a token: it must be one line, as `rainbow-agent register` "
                "writes it"
            )
        return self._text


class AdminClient(Transport):
    """Sends requests to one admin, each once; several threads may share it. Every failure is a ClientError."""

    def __init__(self, endpoint: str, *, token: Token | None = None, ca_file: str | None = None) -> None:
        """InvalidInput if the endpoint or the CA file cannot be used."""
        super().__init__(
            endpoint,
            token=token.read if token else None,
            ca_file=ca_file,
            retries=0,
            connect_timeout=_CONNECT_SECONDS,
            user_agent="rainbow-agent",
            replace_bad_text=True,
            remedies=_REMEDIES,
        )

    def post(self, path: str, body: Mapping[str, Any], *, seconds: float = 10.0) -> dict[str, Any]:
        """The answer to a write, for which the admin may take so many seconds."""
        return self._send("POST", path, body, seconds)

    def put(self, path: str, body: Mapping[str, Any], *, seconds: float = 10.0) -> dict[str, Any]:
        """The same for something that is set as a whole."""
        return self._send("PUT", path, body, seconds)

    def _send(self, method: str, path: str, body: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        try:
            return self.call(method, path, body=body, is_safe=True, timeout=seconds)
        except UnwritableBody as error:
            # The admin could not have read it either.
            raise InvalidRequest(error.message, status=400) from error
        except InvalidInput as error:
            # Such as certificate authorities that cannot be read: nothing was sent, and the body is not at fault.
            raise Unreachable(error.message) from error


def exposures(token_file: Path, endpoint: str, *, has_ca_file: bool) -> list[str]:
    """Warnings of what lets others read the cluster's token."""
    warnings = []
    if token_file.stat().st_mode & stat.S_IROTH:
        warnings.append(f"everybody on this machine may read the token: chmod 600 {token_file}")
    admin = parse_endpoint(endpoint, has_ca_file=has_ca_file)
    if not admin.is_local and admin.url.startswith("http:"):
        warnings.append(f"the token is sent to {admin.url} in clear text: use https")
    return warnings


def cluster_path(cluster: str, name: str) -> str:
    """The path of a resource of a cluster."""
    return f"clusters/{quote(cluster, safe='')}/{name}"


def describe(error: RainbowError) -> str:
    """An error in one line, without a request id, so that the same problem reads the same each time."""
    return " ".join(line.strip() for line in RainbowError.lines(error))


def is_replaced(error: ClientError) -> bool:
    """Whether another agent process serves the cluster now."""
    return error.status == 409 and error.name == "agent_replaced"


def is_awaited(error: ClientError) -> bool:
    """Whether executions wait for this agent, though another one serves the cluster now."""
    return any(detail.get("field") == "instance" for detail in error.details)


def is_refused_field(error: ClientError, name: str) -> bool:
    """Whether the admin does not know a field of the request, as an older one does not."""
    return is_unreadable(error) and any(str(detail.get("field")).split(".")[-1] == name for detail in error.details)


def is_older(error: ClientError) -> bool:
    """Whether the admin does not have the path, as an older one does not, or does not let agents use it."""
    return error.name in ("path_not_found", "method_not_allowed") or error.status == 403


def is_too_large(error: ClientError) -> bool:
    """Whether the request is larger than the admin, or a proxy before it, accepts."""
    return error.status == 413


def is_unreadable(error: ClientError) -> bool:
    """Whether the admin could not read the request."""
    return isinstance(error, InvalidRequest) and error.status == 400  # a proxy's 400 says nothing of the body
