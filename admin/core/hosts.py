"""Names and addresses of machines."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own, out of the reach of others."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_safe_url(url: str) -> bool:
    """Whether a URL is of a server that nobody on the way can pretend to be: https, or http on this machine."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host or "")))


@lru_cache(maxsize=4096)
def source_of(address: str) -> str:
    """What one machine's addresses have in common: of IPv6 it has a whole network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 6 and parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return address if parsed.version == 4 else str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
