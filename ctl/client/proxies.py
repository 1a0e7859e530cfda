"""Proxies on the way to the admin, as HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name them."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from ctl.client.errors import InvalidInput

_PORT = 80


class Proxy(NamedTuple):
    """An HTTP proxy, and the headers it is to be sent."""

    host: str
    port: int
    headers: dict[str, str]

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def find_proxy(url: str) -> Proxy | None:
    """The proxy that the environment names for a URL, if it names one."""
    from urllib.request import getproxies, proxy_bypass

    target = urlsplit(url)
    proxies = getproxies()
    written = proxies.get(target.scheme) or proxies.get("all")
    host = target.hostname or ""
    if not written or proxy_bypass(target.netloc) or _is_within(host, proxies.get("no", "")):
        return None
    try:
        parts = urlsplit(written if "://" in written else f"http://{written}")
        port = parts.port or _PORT
    except ValueError:
        parts, port = urlsplit(""), _PORT
    if parts.scheme != "http" or not parts.hostname:
        # The text itself is not shown: it may hold a password.
        raise InvalidInput(
            f"The proxy for {target.scheme} is not written http://HOST:PORT: correct {target.scheme.upper()}_PROXY or "
            f"ALL_PROXY, or add {host} to NO_PROXY. TLS with the admin goes through such a proxy untouched."
        )
    return Proxy(host=parts.hostname, port=port, headers=_credentials(parts))


def _credentials(parts: SplitResult) -> dict[str, str]:
    if parts.username is None:
        return {}
    from base64 import b64encode

    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _is_within(host: str, no_proxy: str) -> bool:
    """Whether an address is in one of the networks of NO_PROXY, such as 10.0.0.0/8."""
    from ipaddress import ip_address, ip_network

    try:
        address = ip_address(host)
    except ValueError:
        return False
    for text in no_proxy.split(","):
        try:
            if address in ip_network(text.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False
