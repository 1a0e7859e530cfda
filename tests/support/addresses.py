"""More addresses of this machine, which its containers reach and no other machine does. They need root."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_SET_ADDRESS, _SET_MASK, _SET_FLAGS = 0x8916, 0x891C, 0x8914  # of netdevice(7)


@contextmanager
def loopback_addresses(*addresses: str) -> Iterator[None]:
    """Addresses of the loopback device, for a while."""
    with ExitStack() as stack:
        for number, address in enumerate(addresses):
            alias = f"lo:rb{number}"
            _call(_SET_ADDRESS, alias, _address(address))
            stack.callback(_call, _SET_FLAGS, alias, b"")  # down, and gone
            _call(_SET_MASK, alias, _address("255.255.255.255"))
        yield


def _call(operation: int, device: str, value: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle, operation, struct.pack("16s16s", device.encode(), value))


def _address(text: str) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))
