"""Logs on their way to the admin: what executions have printed and the admin does not have yet."""

from __future__ import annotations

import base64
from typing import Any

from agent.engines.base import Engine, EngineUnavailable
from agent.intents import Intent

_STREAMS = ("stdout", "stderr")
_PIECE_BYTES = 256 * 1024


class LogReader:
    """Reads logs from the engine, each from where the admin's copy ends, until the admin keeps no more."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        #: Streams of which the admin keeps no more, by key and name.
        self._full: set[tuple[str, str]] = set()

    def read(self, intent: Intent, limit: int) -> list[dict[str, Any]]:
        """The next pieces of an execution's logs, of at most so many bytes together."""
        pieces = []
        for stream in _STREAMS:
            data = self._read_stream(intent, stream, min(limit, _PIECE_BYTES))
            if data:
                limit -= len(data)
                offset = intent.log_offsets.get(stream, 0)
                pieces.append({**intent.reference, "stream": stream, "offset": offset, **_encode(data)})
        return pieces

    def _read_stream(self, intent: Intent, stream: str, limit: int) -> bytes:
        if limit <= 0 or not intent.native_id or (intent.key, stream) in self._full:
            return b""
        try:
            return self._engine.logs(intent.handle, stream, intent.log_offsets.get(stream, 0), limit)
        except EngineUnavailable:
            return b""

    def mark_stored(self, intent: Intent, stream: str, offset: int, is_full: bool) -> None:
        """Record that the admin has a stream up to an offset."""
        intent.log_offsets[stream] = offset
        if is_full:
            self._full.add((intent.key, stream))

    def forget(self, intent: Intent) -> None:
        """Drop what is remembered of an execution's logs."""
        self._full -= {(intent.key, stream) for stream in _STREAMS}


def _encode(data: bytes) -> dict[str, str]:
    """Text as it is; anything else as base64, so that no byte is changed."""
    try:
        return {"data": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}
