"""Watching: show something, and again whenever it changes, until Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ctl.cli.session import Session
from ctl.client.errors import ClientError, ServerError, Unreachable

Seen = TypeVar("Seen")

_WAIT_SECONDS = 30
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


def watch(session: Session, read: Callable[[], Seen], show: Callable[[Seen, Seen | None, bool], None]) -> NoReturn:
    """
    Call `show` with what was read, what was seen before, and whether it is the first; then whenever it is another.

    The admin is asked to answer as soon as there is a new revision. When it cannot be reached, as while it restarts,
    it is tried again with growing pauses; only at the very start that is an error.
    """
    client = session.client
    since = client.head()
    shown = read()
    show(shown, None, True)
    sys.stdout.flush()
    backoff = Backoff(session)
    while True:
        try:
            # A restart may bring another configuration without a revision, so read at once.
            head = int(client.wait_for_revisions(since, 0 if backoff.pause else _WAIT_SECONDS).get("head") or 0)
            value = shown if head == since and not backoff.pause else read()
        except (Unreachable, ServerError) as error:
            backoff.pause_after(error)
            continue
        backoff.answered()
        since = head
        if value != shown:
            show(value, shown, False)
            sys.stdout.flush()
            shown = value


class Backoff:
    """Pauses between attempts while the admin does not answer; each is longer than the last."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.pause = 0.0  #: seconds, 0 while the admin answers

    def call(self, read: Callable[[], Seen], longest: float = _LONGEST_PAUSE_SECONDS) -> Seen | None:
        """What `read` returns; None after a pause where the admin does not answer."""
        try:
            value = read()
        except (Unreachable, ServerError) as error:
            self.pause_after(error, longest)
            return None
        self.answered()
        return value

    def pause_after(
        self,
        error: ClientError,
        longest: float = _LONGEST_PAUSE_SECONDS,
        next_step: str = "Trying again until it answers.",
    ) -> None:
        """Report the first failure, and sleep for at most `longest` seconds."""
        if not self.pause:
            self._session.printer.note(f"{error.message} {next_step}")
        self.pause = min(self.pause * 2, _LONGEST_PAUSE_SECONDS) or _FIRST_PAUSE_SECONDS
        self._session.sleep(min(self.pause, max(longest, 0.0)))

    def answered(self) -> None:
        if self.pause:
            self._session.printer.note("The admin answers again.")
        self.pause = 0.0
