"""Live streams: open pages of the console, each of which is told when what it shows has changed.

A stream holds a connection and no thread. One thread looks at the database once a second for all streams of a worker,
and ends those whose callers may no longer see their pages. Pages that are told ask again for themselves, which costs
processor time: what that takes is measured, and pages are told only as fast as leaves most of a worker to others, those
first that were told longest ago. Pages that show the same are told together, and share one answer (see `live_answers`).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from admin import metrics
from admin.core.live_subjects import Subject
from admin.errors import RainbowError
from admin.store.database import Database
from admin.store.live_versions import versions

#: Where the environ of a request says that its answer may stay open.
MAY_STAY_OPEN = "rainbow.may_stay_open"
#: Where the application leaves what is to be called with the sink of an answer that stays open.
OPENED = "rainbow.opened"

#: How soon a page comes back that lost its stream, and one for which there was none.
RETRY_SECONDS, POLL_SECONDS = 2, 15

_LOOK_SECONDS = 1.0
_HEARTBEAT_SECONDS = 5.0
#: How often a stream's caller is admitted again.
_CHECK_SECONDS = 3.0
#: How old a page gets at most before it is shown anew although nothing tells that it has changed: time goes on.
_OLDEST_SECONDS = 60.0
#: What part of a processor the pages that were told may take, and how much of it may be saved up, in seconds.
_SHARE, _MOST_SAVED = 0.02, 0.3
#: What it is taken to cost before it was measured to make an answer, and to give one that is there; in seconds.
_FIRST_COST, _FIRST_SHARED_COST = 0.03, 0.002
_WEIGHT = 0.2  #: how much each measurement counts

_log = logging.getLogger("rainbow.live")


class Sink(Protocol):
    """A client's open answer."""

    @property
    def is_open(self) -> bool:
        """Whether the client was still there when something was sent last."""

    def send(self, text: str) -> None:
        """Send something, or find that the client is gone."""

    def close(self) -> None:
        """End the answer after what was sent."""


@dataclass(eq=False, kw_only=True)
class Stream:
    """An open page."""

    page: str  #: the rule of its path
    shown: Hashable  #: the same as of another stream whose page shows the same
    subject: Subject
    version: str  #: what its client has seen
    admit: Callable[[], None]  #: RainbowError where the caller may no longer see the page
    sink: Sink
    is_behind: bool = False  #: whether it was told that it has to wait for its turn
    told_at: float = 0.0
    sent_at: float = 0.0
    checked_at: float = 0.0


def message(event: str, version: str, *, at: str = "", retry_seconds: int | None = None) -> str:
    """An event as it is sent; its id comes back when the client connects again.

    One that has a page ask for itself again says when the version was read, which the page gives as it asks.
    """
    retry = "" if retry_seconds is None else f"retry: {retry_seconds * 1000}\n"
    return f"{retry}id: {version}\nevent: {event}\ndata: {' '.join(filter(None, (version, at)))}\n\n"


def _told_at(streams: Sequence[Stream]) -> float:
    """When the first of some streams was told last."""
    return min(stream.told_at for stream in streams)


def _by_what_they_show(streams: Iterable[Stream]) -> list[list[Stream]]:
    """Streams in groups whose pages show the same, first those that were told longest ago."""
    groups: dict[Hashable, list[Stream]] = defaultdict(list)
    for stream in streams:
        groups[stream.shown].append(stream)
    return sorted(groups.values(), key=_told_at)


class LiveStreams:
    """The streams of one worker, of which there are at most so many."""

    def __init__(
        self, database: Database, most: int, *, workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`workers` are those that may be asked for a page, each of which makes an answer of its own."""
        self._database = database
        self._most = most
        self._workers = workers
        self._clock = clock
        self._lock = threading.Lock()
        self._streams: dict[Stream, None] = {}
        self._thread: threading.Thread | None = None
        self._is_closing = threading.Event()
        self._costs: dict[str, float] = {}  #: of making the answer of each page
        self._shared_cost = _FIRST_SHARED_COST
        self._saved = _MOST_SAVED
        self._saved_at = clock()

    @property
    def open_streams(self) -> int:
        """How many there are."""
        return len(self._streams)

    def version(self, subject: Subject) -> str:
        """The version of what a page shows, read now."""
        with self._database.reading() as connection:
            return versions(connection, [subject])[subject]

    def refusal(self, page: str, subject: Subject) -> str:
        """What a page is sent for which there is no place: what it shows now, and when to come back."""
        metrics.count_refused_stream(page)
        version = self.version(subject)
        return message("full", version, at=self._time(), retry_seconds=POLL_SECONDS)

    def _time(self) -> str:
        """Now, by the clock that all workers have in common."""
        return f"{self._database.clock().timestamp():.6f}"

    @property
    def has_room(self) -> bool:
        """Whether another stream may be opened."""
        return len(self._streams) < self._most and not self._is_closing.is_set()

    def open(self, stream: Stream) -> None:
        """Begin to serve a stream; where there is no place for it, its client is told to come back later."""
        stream.told_at = stream.sent_at = stream.checked_at = self._clock()
        with self._lock:
            is_taken = self.has_room
            if is_taken:
                self._streams[stream] = None
                if self._thread is None:
                    self._thread = threading.Thread(target=self._serve, name="live", daemon=True)
                    self._thread.start()
                metrics.count_stream(stream.page, 1)
        event, seconds = ("live", RETRY_SECONDS) if is_taken else ("full", POLL_SECONDS)
        stream.sink.send(message(event, stream.version, retry_seconds=seconds))
        if not is_taken:
            metrics.count_refused_stream(stream.page)
            stream.sink.close()

    def note_cost(self, page: str, seconds: float, *, is_shared: bool = False) -> None:
        """Note what it cost to answer a page that asked for itself again; whether by an answer that was there."""
        if is_shared:
            self._shared_cost += _WEIGHT * (seconds - self._shared_cost)
        else:
            cost = self._costs.get(page, _FIRST_COST)
            self._costs[page] = cost + _WEIGHT * (seconds - cost)

    def _cost(self, streams: Sequence[Stream]) -> float:
        """What it costs when streams are told whose pages show the same: each worker makes one answer for all."""
        made = min(len(streams), self._workers)
        return made * self._costs.get(streams[0].page, _FIRST_COST) + (len(streams) - made) * self._shared_cost

    def close(self) -> None:
        """End all streams; their clients come back to another worker, or to the next admin."""
        with self._lock:
            self._is_closing.set()
            streams, self._streams = self._streams, {}
            thread = self._thread
        for stream in streams:
            metrics.count_stream(stream.page, -1)
            stream.sink.close()
        if thread is not None:
            thread.join(timeout=5)  # it may hold a connection, which should be given back

    def _serve(self) -> None:
        while not self._is_closing.wait(_LOOK_SECONDS):
            try:
                self._look()
            except Exception:
                _log.exception("live pages could not be told of changes")
            with self._lock:
                if not self._streams:
                    self._thread = None
                    return

    def _look(self) -> None:
        """Drop the streams that are over, and tell others what has changed."""
        now = self._clock()
        for stream in list(self._streams):
            if not stream.sink.is_open or not self._is_admitted(stream, now):
                with self._lock:
                    is_counted = stream in self._streams  # not where all are being ended
                    self._streams.pop(stream, None)
                if is_counted:
                    metrics.count_stream(stream.page, -1)
        streams = list(self._streams)
        try:
            with self._database.reading() as connection:
                current = versions(connection, (stream.subject for stream in streams))
        except SQLAlchemyError:
            current = {}  # the database may be back at the next look
        at = self._time()  # after that: an answer that is begun later has all of it
        self._saved = min(_MOST_SAVED, self._saved + _SHARE * (now - self._saved_at))
        self._saved_at = now
        behind = 0.0
        changed = (stream for stream in streams if current.get(stream.subject, stream.version) != stream.version)
        for group in _by_what_they_show(changed):
            if self._saved <= 0:
                behind += self._cost(group)
                for stream in group:
                    self._tell_behind(stream, now, (behind - self._saved) / _SHARE)
                continue
            self._tell(group, "changed", current[group[0].subject], now, at)
        aged = (stream for stream in streams if now >= stream.told_at + _OLDEST_SECONDS)
        for group in _by_what_they_show(aged):
            if self._saved <= _MOST_SAVED / 2:
                break  # of what is saved up, half is for pages that have changed
            self._tell(group, "aged", current.get(group[0].subject, group[0].version), now, at)
        for stream in streams:
            if now >= stream.sent_at + _HEARTBEAT_SECONDS:
                stream.sent_at = now
                stream.sink.send(": still here\n\n")

    def _tell(self, streams: Sequence[Stream], event: str, version: str, now: float, at: str) -> None:
        """Have pages that show the same ask for themselves again."""
        self._saved -= self._cost(streams)
        text = message(event, version, at=at)
        for stream in streams:
            stream.version = version
            stream.is_behind = False
            stream.told_at = stream.sent_at = now
            stream.sink.send(text)

    def _tell_behind(self, stream: Stream, now: float, seconds: float) -> None:
        """Tell a page that it has changed and in about how many seconds its turn comes; not at each look."""
        if not stream.is_behind or now >= stream.sent_at + _HEARTBEAT_SECONDS:
            stream.is_behind = True
            stream.sent_at = now
            stream.sink.send(f"event: behind\ndata: {math.ceil(seconds)}\n\n")

    def _is_admitted(self, stream: Stream, now: float) -> bool:
        """Whether a stream's caller may still see the page; where not, the stream is told so and ended."""
        if now < stream.checked_at + _CHECK_SECONDS:
            return True
        stream.checked_at = now
        try:
            stream.admit()
        except SQLAlchemyError:
            return True  # which says nothing of the caller
        except RainbowError as refused:
            if refused.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return True
            stream.sink.send(message("end", stream.version))
            stream.sink.close()
            return False
        return True
