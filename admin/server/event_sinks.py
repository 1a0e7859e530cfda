"""Answers that stay open: what a client is sent goes by the server's own threads, and none waits for the client.

granian keeps what it could not send yet. That is little: a stream gets some bytes a second at most, and a client that
takes nothing for `server.receiveSeconds` is disconnected, as all clients are.
"""

from __future__ import annotations

from typing import Any

from granian._granian import RSGIProtocolClosed, RSGIProtocolError


class ServerSink:
    """One client's open answer."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    @property
    def is_open(self) -> bool:
        """Whether the client was still there when something was sent last."""
        return self._transport is not None

    def send(self, text: str) -> None:
        """Send something, or find that the client is gone."""
        transport = self._transport
        if transport is None:
            return
        try:
            for _ in transport.send_bytes(text.encode()).__await__():  # has no step, and tells whether it went wrong
                pass
        except (RSGIProtocolClosed, RSGIProtocolError):
            self.close()

    def close(self) -> None:
        """End the answer after what was sent; the server does so when nobody has the transport any more."""
        self._transport = None
