"""Calls in the background: the agent must see to its work while the admin takes its time to answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from agent.clocks import steady
from agent.transport import AdminError, Transport, Unreachable

#: Name resolution knows no time limit: a call that takes this much longer than it may is given up.
_OVERDUE_SECONDS = 5.0


@dataclass(eq=False)
class Call:
    """One sync on its way."""

    body: dict[str, Any]
    seconds: float
    sent_at: float = field(default_factory=steady)
    answer: dict[str, Any] | None = None
    error: AdminError | None = None

    @property
    def is_overdue(self) -> bool:
        """Whether its answer is not worth waiting for."""
        return steady() > self.sent_at + self.seconds + _OVERDUE_SECONDS


class Line:
    """A connection to the admin on which one call at a time is made."""

    def __init__(self, connect: Callable[[], Transport], path: str, inbox: SimpleQueue[Call | None]) -> None:
        self._connect = connect
        self._path = path
        self._inbox = inbox
        self._transport: Transport | None = None
        self.call: Call | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call is on its way."""
        return self.call is not None

    def start(self, body: dict[str, Any], seconds: float) -> None:
        """Send a sync; the call comes back through the inbox."""
        self._transport = self._transport or self._connect()
        self.call = Call(body, seconds)
        # A daemon: nobody waits for an answer when the agent ends.
        threading.Thread(target=self._run, args=(self._transport, self.call), daemon=True).start()

    def _run(self, transport: Transport, call: Call) -> None:
        try:
            call.answer = transport.post(self._path, call.body, seconds=call.seconds)
        except AdminError as error:
            call.error = error
        except Exception as error:
            call.error = Unreachable(f"the admin cannot be asked: {error}")
        self._inbox.put(call)

    def finish(self, call: Call) -> bool:
        """Take note that a call has come back; whether it was still waited for."""
        if call is not self.call:
            return False
        self.call = None
        return True

    def give_up(self) -> None:
        """Wait no longer, and start the next call on a new connection."""
        self.call = None
        self._transport = None


def next_call(inbox: SimpleQueue[Call | None], seconds: float) -> Call | None:
    """The next call that comes back within so many seconds."""
    try:
        return inbox.get(timeout=max(0.0, seconds)) if seconds > 0 else inbox.get_nowait()
    except Empty:
        return None
