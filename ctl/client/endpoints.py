"""
Endpoints: where an admin listens.

Written as `http://host:port`, `https://host:port`, `host:port` or `dns:///host:port`. The last two name no
protocol: it is plain http on the own machine (localhost, 127.0.0.0/8, ::1) unless a CA file is given, and https
everywhere else, so that no token crosses a network in the clear because a prefix was left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from ctl.client.errors import InvalidInput

DEFAULT = "http://127.0.0.1:8088"

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]+")
_FORMS = "Write it as http://HOST:PORT, https://HOST:PORT or HOST:PORT."


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A checked endpoint."""

    url: str  #: http or https, host, port and path prefix, without a slash at the end
    is_local: bool  #: on this machine


def parse_endpoint(text: str, *, has_ca_file: bool = False) -> Endpoint:
    """The endpoint a text stands for, or an InvalidInput that says what is wrong with it."""
    written = text.strip()
    scheme, rest = _split_scheme(written)
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidInput(f"Endpoint {text!r}: {error}. {_FORMS}") from None
    if not _HOST.fullmatch(host):
        raise InvalidInput(f"Endpoint {text!r} has no valid host. {_FORMS}")
    if parts.username is not None:
        raise InvalidInput(f"Endpoint {text!r} holds a user name; a token is given with --token-file.")
    if parts.query or parts.fragment:
        raise InvalidInput(f"Endpoint {text!r} ends in a query or fragment. {_FORMS}")
    is_local = _is_loopback(host)
    if not scheme:
        scheme = "http" if is_local and not has_ca_file else "https"
    address = f"[{host}]" if ":" in host else host
    prefix = parts.path.rstrip("/").removesuffix("/api/v1")
    return Endpoint(url=f"{scheme}://{address}{f':{port}' if port is not None else ''}{prefix}", is_local=is_local)


def _split_scheme(text: str) -> tuple[str, str]:
    if text.startswith("dns:///"):
        return "", text.removeprefix("dns:///")
    scheme, separator, rest = text.partition("://")
    if not separator:
        return "", text
    if scheme.lower() not in {"http", "https"}:
        raise InvalidInput(f"Endpoint {text!r}: {scheme!r} is not a supported protocol. {_FORMS}")
    return scheme.lower(), rest


def _is_loopback(host: str) -> bool:
    return host in {"localhost", "::1"} or bool(re.fullmatch(r"127(\.[0-9]{1,3}){3}", host))
