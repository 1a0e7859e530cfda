"""Calls in the background, so that the agent watches its leases while it waits for the admin's answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from agent.clocks import Clock
from agent.transport import AdminError, Transport, Unreachable

#: Name resolution has no timeout: a call that takes this much longer than its own timeout is abandoned.
_OVERDUE_SECONDS = 5.0

#: Runs a function beside the agent's own thread.
Runner = Callable[[Callable[[], None]], None]


def run_in_thread(function: Callable[[], None]) -> None:
    """Run a function in a daemon thread: nobody waits for an answer when the agent ends."""
    threading.Thread(target=function, daemon=True).start()


@dataclass(eq=False, kw_only=True)
class Call:
    """One sync that was sent."""

    body: dict[str, Any]
    timeout_seconds: float
    sent_at: float  #: by the steady clock
    answer: dict[str, Any] | None = None
    error: AdminError | None = None

    def is_overdue(self, now: float) -> bool:
        """Whether its answer is no longer worth waiting for."""
        return now > self.sent_at + self.timeout_seconds + _OVERDUE_SECONDS


class Connection:
    """A connection to the admin that carries one call at a time."""

    def __init__(
        self,
        connect: Callable[[], Transport],
        path: str,
        inbox: SimpleQueue[Call | None],
        *,
        clock: Clock,
        run: Runner = run_in_thread,
    ) -> None:
        self._connect = connect
        self._path = path
        self._inbox = inbox
        self._clock = clock
        self._run = run
        self._transport: Transport | None = None
        self._call: Call | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call has been sent and not answered."""
        return self._call is not None

    @property
    def is_overdue(self) -> bool:
        """Whether its call should be abandoned."""
        return self._call is not None and self._call.is_overdue(self._clock.steady())

    def send(self, body: dict[str, Any], timeout_seconds: float) -> None:
        """Send a sync; the call arrives in the inbox when it has been answered or has failed."""
        transport = self._transport = self._transport or self._connect()
        call = self._call = Call(body=body, timeout_seconds=timeout_seconds, sent_at=self._clock.steady())
        self._run(lambda: self._post(transport, call))

    def _post(self, transport: Transport, call: Call) -> None:
        try:
            call.answer = transport.post(self._path, call.body, seconds=call.timeout_seconds)
        except AdminError as error:
            call.error = error
        except Exception as error:
            call.error = Unreachable(f"the admin cannot be asked: {error}")
        self._inbox.put(call)

    def finish(self, call: Call) -> bool:
        """Mark a call as finished; False if it is not the current call of this connection."""
        if call is not self._call:
            return False
        self._call = None
        return True

    def abandon(self) -> None:
        """Stop waiting for the current call, and open a new connection for the next one."""
        self._call = None
        self._transport = None
