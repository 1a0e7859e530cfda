"""Pieces of logs: what executions have printed and the admin does not have yet."""

from __future__ import annotations

import base64
from typing import Any

from agent.engines.base import Engine, EngineUnavailable
from agent.intents import Intent

_STREAMS = ("stdout", "stderr")
_PIECE_BYTES = 256 * 1024


class LogPieces:
    """Reads logs from the engine, from where the admin has them, until it has enough."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: Streams of which the admin wants no more.
        self._full: set[tuple[str, str]] = set()

    def next_of(self, intent: Intent, room: int) -> list[dict[str, Any]]:
        """The next pieces of an execution's logs, of at most so many bytes together; none where there are none."""
        pieces = []
        for stream in _STREAMS:
            data = self._read(intent, stream, min(room, _PIECE_BYTES))
            if data:
                room -= len(data)
                offset = intent.log_offsets.get(stream, 0)
                pieces.append({**intent.held, "stream": stream, "offset": offset, **_encoded(data)})
        return pieces

    def _read(self, intent: Intent, stream: str, room: int) -> bytes:
        if room <= 0 or not intent.native_id or (intent.key, stream) in self._full:
            return b""
        try:
            return self._engine.logs(intent.handle, stream, intent.log_offsets.get(stream, 0), room)
        except EngineUnavailable:
            return b""

    def stored(self, intent: Intent, stream: str, offset: int, full: bool) -> None:
        """The admin has the log up to there."""
        intent.log_offsets[stream] = offset
        if full:
            self._full.add((intent.key, stream))

    def forget(self, intent: Intent) -> None:
        """Nothing more is sent."""
        self._full -= {(intent.key, stream) for stream in _STREAMS}


def _encoded(data: bytes) -> dict[str, str]:
    """Text as it is; anything else as base64, so that not a byte is changed."""
    try:
        return {"data": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}
