"""Calls in the background, so that the agent watches its leases while it waits, and the pauses after failed ones."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from agent.clocks import Clock
from agent.transport import AdminClient
from ctl.client.errors import ClientError, Unreachable

#: Name resolution has no timeout: a call that takes this much longer than its own timeout is abandoned.
_OVERDUE_SECONDS = 5.0

#: The pauses after calls that failed.
_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 30.0

#: Runs a function beside the agent's own thread.
Runner = Callable[[Callable[[], None]], None]


def run_in_thread(function: Callable[[], None]) -> None:
    """Run a function in a daemon thread, so that the agent can end without its answer."""
    threading.Thread(target=function, daemon=True).start()


@dataclass(eq=False, kw_only=True)
class Call:
    """One sync that was sent."""

    body: dict[str, Any]
    timeout_seconds: float
    sent_at: float  #: by the steady clock
    answer: dict[str, Any] | None = None
    error: ClientError | None = None


class Channel:
    """Carries one call to the admin at a time."""

    def __init__(
        self,
        client: AdminClient,
        path: str,
        inbox: SimpleQueue[Call | None],
        *,
        clock: Clock,
        run: Runner = run_in_thread,
    ) -> None:
        self._client = client
        self._path = path
        self._inbox = inbox
        self._clock = clock
        self._run = run
        self._call: Call | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call has been sent and not answered."""
        return self._call is not None

    @property
    def is_overdue(self) -> bool:
        """Whether its call should be abandoned."""
        call = self._call
        return call is not None and self._clock.steady() > call.sent_at + call.timeout_seconds + _OVERDUE_SECONDS

    def send(self, body: dict[str, Any], timeout_seconds: float) -> None:
        """Send a sync; the call arrives in the inbox when it has been answered or has failed."""
        call = self._call = Call(body=body, timeout_seconds=timeout_seconds, sent_at=self._clock.steady())
        self._run(lambda: self._post(call))

    def _post(self, call: Call) -> None:
        try:
            call.answer = self._client.post(self._path, call.body, seconds=call.timeout_seconds)
        except ClientError as error:
            call.error = error
        except Exception as error:
            call.error = Unreachable(f"The request to the admin failed: {error}")
        self._inbox.put(call)

    def finish(self, call: Call) -> bool:
        """Mark a call as finished; False if it is not the current call of this channel."""
        if call is not self._call:
            return False
        self._call = None
        return True

    def abandon(self) -> None:
        """Stop waiting for the current call."""
        self._call = None


class Backoff:
    """Growing pauses with jitter, so that many agents do not return to the admin at the same instant."""

    def __init__(self) -> None:
        self._failures = 0

    def reset(self) -> None:
        """Start with the shortest pause again, after a success."""
        self._failures = 0

    def next_seconds(self, at_most: float = _LONGEST_SECONDS, retry_after: float | None = None) -> float:
        """How long to wait after another failure: what the admin asked for, else twice as long as the last time."""
        doubled = _FIRST_SECONDS * float(2 ** min(self._failures, 10))
        self._failures += 1
        if retry_after is not None:
            return min(retry_after, _LONGEST_SECONDS) * random.uniform(1.0, 1.2)
        return min(doubled, at_most, _LONGEST_SECONDS) * random.uniform(0.5, 1.0)
