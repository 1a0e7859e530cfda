"""The outbox: events, logs and output files that the admin has not accepted yet."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from agent.clocks import Clock
from agent.engines.base import EngineUnavailable
from agent.engines.safe import SafeEngine
from agent.events import Event, estimate_size, large_outputs, strip_details, strip_outputs
from agent.intents import Ending, Intent, Intents, Stage
from agent.state_directory import StateDirectory

#: How long a final event waits for the rest of the log while the admin takes none of it.
_LOG_SECONDS = 60.0
_STREAMS = ("stdout", "stderr")
#: What the stream of an output file is called, before its path.
_OUTPUT = "output:"
_PIECE_BYTES = 256 * 1024
#: How often a running job that prints without end has a piece sent of what the admin keeps only until the next one.
_TAIL_SECONDS = 10.0


class Outbox:
    """What is to be sent to the admin, of the executions in `intents` and of those that were never taken."""

    def __init__(self, intents: Intents, engine: SafeEngine, state: StateDirectory, clock: Clock) -> None:
        #: Events without an intent, by key: declined offers and answers to questions. The admin repeats what gets lost.
        self.standalone: dict[str, Event] = {}
        self._intents = intents
        self._state = state
        self._clock = clock
        self._engine = engine
        #: Streams of which the admin keeps no more, by key and name.
        self._full: set[tuple[str, str]] = set()
        #: Until when the final event of an execution waits for its log and its output files.
        self._log_deadlines: dict[str, float] = {}
        #: When the admin last stored something of each stream that has more, by key and name.
        self._stored_at: dict[str, dict[str, float]] = {}

    def events(self, limit: int | None = None) -> list[Event]:
        """Events that may be sent now, of about so many bytes but at least one; a final event follows its log."""
        events = list(self.standalone.values())
        for intent in self._intents.values():
            events += intent.events if self._may_send_all(intent) else intent.events[:-1]
        if limit is None:
            return events
        totals = accumulate(estimate_size(event) for event in events)
        return [
            event
            for number, (event, total) in enumerate(zip(events, totals, strict=True))
            if total <= limit or not number
        ]

    def _may_send_all(self, intent: Intent) -> bool:
        """Whether every event of an execution may be sent, the final one included."""
        if intent.stage is not Stage.ENDED or intent.ending is Ending.LOST:
            return True
        now = self._clock.steady()
        if now > self._log_deadlines.setdefault(intent.key, now + _LOG_SECONDS):
            return True
        return not self._next_pieces(intent, 1)

    def start_log_deadline(self, intent: Intent) -> None:
        """Give the rest of an execution's log its time, from when the execution ended."""
        self._log_deadlines[intent.key] = self._clock.steady() + _LOG_SECONDS

    def ended_with(self, events: set[str]) -> set[str]:
        """The keys of executions all of whose events, the final one included, are among these."""
        return {
            key
            for key, intent in self._intents.items()
            if intent.stage is Stage.ENDED and all(event["event"] in events for event in intent.events)
        }

    def settle(self, events: set[str]) -> list[Intent]:
        """Drop events that the admin has accepted or refused for good; returns the executions that are finished."""
        self.standalone = {key: event for key, event in self.standalone.items() if event["event"] not in events}
        finished = []
        for intent in self._intents.values():
            unsent = [event for event in intent.events if event["event"] not in events]
            if len(unsent) == len(intent.events):
                continue
            if not unsent and intent.stage is Stage.ENDED:
                finished.append(intent)
            else:
                intent.events = unsent
                self._state.save(intent, is_durable=False)
        return finished

    def strip_details(self, events: set[str], problem: str) -> None:
        """Reduce events that the admin could not read to their required fields."""
        self.standalone = {
            key: strip_details(event, problem) if event["event"] in events else event
            for key, event in self.standalone.items()
        }
        for intent in self._intents.values():
            if any(event["event"] in events for event in intent.events):
                intent.events = [
                    strip_details(event, problem) if event["event"] in events else event for event in intent.events
                ]
                self._state.save(intent, is_durable=False)

    def strip_outputs(self) -> None:
        """Remove the output files from every final event."""
        for intent in self._intents.values():
            if intent.stage is Stage.ENDED:
                intent.events = [strip_outputs(event) for event in intent.events]
                self._state.save(intent, is_durable=False)

    def log_pieces(self, limit: int, *, include_running: bool) -> list[dict[str, Any]]:
        """Pieces of logs and output files of about so many bytes together.

        The execution whose turn was longest ago comes first, so that none that prints without end keeps others waiting.
        """
        stages = (Stage.ENDED, Stage.SUBMITTED) if include_running else (Stage.ENDED,)
        intents = [intent for stage in stages for intent in self._intents.values() if intent.stage is stage]
        pieces: list[dict[str, Any]] = []
        for intent in sorted(intents, key=self._last_turn):
            if limit <= 0:
                break
            if intent.ending is not Ending.LOST:
                more = self._next_pieces(intent, limit)
                limit -= sum(len(piece.get("data") or piece.get("data_base64", "")) for piece in more)
                pieces += more
        return pieces

    def _last_turn(self, intent: Intent) -> float:
        return max(self._stored_at.get(intent.key, {}).values(), default=0.0)

    def _next_pieces(self, intent: Intent, limit: int) -> list[dict[str, Any]]:
        """What an execution has printed and left and the admin does not have yet, of at most so many bytes."""
        pieces = []
        for stream in (*_STREAMS, *(_OUTPUT + path for path in large_outputs(intent))):
            stored = intent.log_offsets.get(stream, 0)
            offset, data = self._read(intent, stream, stored, min(limit, _PIECE_BYTES))
            if data:
                limit -= len(data)
                after = {} if offset == stored else {"after": stored}
                pieces.append({**intent.reference, "stream": stream, "offset": offset, **after, **_encode(data)})
        return pieces

    def _read(self, intent: Intent, stream: str, offset: int, limit: int) -> tuple[int, bytes]:
        """What is to be sent of a stream, and where it begins."""
        if limit <= 0 or not intent.native_id or (intent.key, stream) in self._full:
            return offset, b""
        try:
            if stream.startswith(_OUTPUT):
                return offset, self._read_output(intent, stream.removeprefix(_OUTPUT), offset, limit)
            return self._read_log(intent, stream, offset, limit)
        except EngineUnavailable:
            return offset, b""

    def _read_output(self, intent: Intent, path: str, offset: int, limit: int) -> bytes:
        end = min(large_outputs(intent)[path], intent.output_limit_bytes or 0)
        if offset >= end:
            return b""
        output = self._engine.read_output(intent.handle, path, min(limit, end - offset), offset)
        return b"" if output is None else output[0]

    def _read_log(self, intent: Intent, stream: str, offset: int, limit: int) -> tuple[int, bytes]:
        """What follows an offset; or, if the engine has dropped that or the admin would not keep it, what is later."""
        tail = intent.lease.get("log_tail_bytes")
        head = 0 if tail is None else int(intent.lease["log_limit_bytes"]) - tail
        if tail is None or offset < head:
            data = self._engine.logs(intent.handle, stream, offset, limit)
            if data or tail is None:
                return offset, data
        parts = self._engine.log_parts(intent.handle, stream)
        if parts and offset >= head:
            if self._is_early(intent, stream, parts[-1][1] - offset):
                return offset, b""
            offset = max(offset, parts[-1][1] - tail)
        offset = next((max(offset, start) for start, end in parts if end > offset), offset)
        return offset, self._engine.logs(intent.handle, stream, offset, limit)

    def _is_early(self, intent: Intent, stream: str, unsent: int) -> bool:
        """Whether the end of a stream waits, because the job goes on and prints faster than is worth storing."""
        stored_at = self._stored_at.get(intent.key, {}).get(stream)
        is_endless = intent.stage is not Stage.ENDED and unsent > _PIECE_BYTES
        return is_endless and stored_at is not None and self._clock.steady() < stored_at + _TAIL_SECONDS

    def mark_logs_stored(self, offsets: Iterable[Mapping[str, Any]]) -> None:
        """Record how far the admin has logs."""
        for stored in offsets:
            intent = self._intents.find(stored)
            if intent is None:
                continue
            self._stored_at.setdefault(intent.key, {})[stored["stream"]] = self._clock.steady()
            if stored["offset"] > intent.log_offsets.get(stored["stream"], 0) and intent.key in self._log_deadlines:
                self.start_log_deadline(intent)
            intent.log_offsets[stored["stream"]] = stored["offset"]
            if stored["full"]:
                self._full.add((intent.key, stored["stream"]))

    def give_up_logs(self, pieces: Iterable[Mapping[str, Any]]) -> None:
        """Send no more of the streams of pieces that the admin could not read."""
        for piece in pieces:
            intent = self._intents.find(piece)
            if intent is not None:
                self._full.add((intent.key, piece["stream"]))

    def forget(self, intent: Intent) -> None:
        """Drop what is remembered of an execution that is over."""
        self._full = {(key, stream) for key, stream in self._full if key != intent.key}
        self._log_deadlines.pop(intent.key, None)
        self._stored_at.pop(intent.key, None)


def _encode(data: bytes) -> dict[str, str]:
    """Text as it is; anything else as base64, so that no byte is changed."""
    try:
        return {"data": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}
