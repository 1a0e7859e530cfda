"""Audit events of one worker on their way to the database: noting one never waits, and never fails a request."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
from collections.abc import Iterable

from admin.core.audit import AuditEvent, minute_of
from admin.core.audit_budget import DenialBudget
from admin.core.json_text import json_text
from admin.metrics import count_audited, count_unaudited

#: Events that wait to be stored; what is more is lost.
MOST_WAITING = 10_000
#: Uses of tokens that a worker knows not to be the first ones from their addresses.
_MOST_KNOWN = 100_000

_log = logging.getLogger("rainbow.audit")


class AuditQueue:
    """Events that wait to be stored. Denied requests of one minute that are alike, or too many, are counted as one."""

    def __init__(
        self, file: AuditFile | None = None, *, most_waiting: int = MOST_WAITING, budget: DenialBudget | None = None
    ) -> None:
        self.file = file
        self.storing = threading.Lock()  #: held by whoever stores what waits
        self._most_waiting = most_waiting
        self._budget = budget or DenialBudget()
        self._lock = threading.Lock()
        self._waiting: dict[str | int, AuditEvent] = {}
        self._numbers = itertools.count()
        self._known_uses: set[tuple[str, str]] = set()

    def note(self, event: AuditEvent) -> None:
        """Let an event be stored soon; one that there is no room for is counted as lost."""
        count_audited(event.event)
        with self._lock:
            if not self._add(self._budget.apply(event)):
                count_unaudited("table", event.count)

    def is_new_use(self, token: str, address: str) -> bool:
        """Whether this worker does not know yet that a token is used from an address; from now on it does."""
        use = token, address
        if use in self._known_uses:
            return False
        if len(self._known_uses) >= _MOST_KNOWN:
            self._known_uses.clear()
        self._known_uses.add(use)
        return True

    def take(self) -> list[AuditEvent]:
        """What waits, which the caller stores or puts back."""
        with self._lock:
            taken, self._waiting = self._waiting, {}
        return list(taken.values())

    def put_back(self, events: Iterable[AuditEvent]) -> None:
        """Keep events that could not be stored; those that there is no room for are lost."""
        with self._lock:
            later, self._waiting = self._waiting, {}
            for event in [*events, *later.values()]:
                if not self._add(event):
                    count_unaudited("table", event.count)

    def _add(self, event: AuditEvent) -> bool:
        key = event.repeat_key or next(self._numbers)
        former = self._waiting.get(key)
        if former is None and len(self._waiting) >= self._most_waiting:
            return False
        self._waiting[key] = event if former is None else former.and_again(event)
        return True


class AuditFile:
    """A file that gets each event as a line of JSON; `-` is standard output.

    Of denied requests that are alike it gets the first of a minute at once, and the others together when it is over.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._first: set[str] = set()  #: keys of which there is a line
        self._others: dict[str, AuditEvent] = {}  #: those that came after it
        self._has_failed = False

    def write(self, events: Iterable[AuditEvent], minute: str | None) -> None:
        """Add events, and those whose minute is over; all of them where no minute goes on."""
        events = [event for event in events if self._is_for_now(event)]
        over = [key for key, event in self._others.items() if minute_of(event.at) != minute]
        events += [self._others.pop(key) for key in over]
        self._first = {key for key in self._first if minute is not None and key.startswith(minute)}
        if not events:
            return
        lines = b"".join(json_text(event.as_json()) + b"\n" for event in events)
        try:
            append(self._path, lines)
            self._has_failed = False
        except OSError as error:
            count_unaudited("file", sum(event.count for event in events))
            if not self._has_failed:
                _log.error("audit events are missing in audit.file", extra={"file": self._path, "reason": str(error)})
            self._has_failed = True

    def _is_for_now(self, event: AuditEvent) -> bool:
        key = event.repeat_key
        if key is None or key not in self._first:
            self._first |= {key} if key is not None else set()
            return True
        former = self._others.get(key)
        self._others[key] = event if former is None else former.and_again(event)
        return False


def append(path: str, text: bytes) -> None:
    """Write at the end of a file, which its owner alone can read; it is opened each time, so that it may be moved."""
    if path == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        while text:  # in one piece, but for a disk that has no room for all of it
            text = text[os.write(descriptor, text) :]
    finally:
        os.close(descriptor)
