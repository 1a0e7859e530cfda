"""Leadership: one process of all replicas does the background work; if it ends, another takes over."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from admin.services.context import Context
from admin.store import loop_leases

_log = logging.getLogger("rainbow.loops")


class OwnWork(Protocol):
    """Work that every process does for itself."""

    def __call__(self) -> None: ...

    def close(self) -> None:
        """Do what is left when the process ends."""


class Leader:
    """Runs rounds of work while this process has the lease, and waits for it otherwise.

    What every process has to do for itself is done meanwhile too, and a last time when it ends.
    """

    def __init__(
        self, context: Context, works: Iterable[Callable[[], None]], own_works: Iterable[OwnWork] = ()
    ) -> None:
        self._context = context
        self._works = tuple(works)
        self._own_works = tuple(own_works)
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._noted: tuple[str, float] | None = None  #: the last failure, and when it was noted
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loops", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop, and release the lease."""
        self._closing.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        settings = self._context.settings
        leads = False
        next_claim = 0.0
        while not self._closing.is_set():
            now = time.monotonic()
            if now >= next_claim:
                leads = self._claim(leads)
                next_claim = now + settings.loop_lease_seconds / 3
            works: list[Callable[[], None]] = [*self._own_works, *(self._works if leads else ())]
            for work in works:
                self._do(work)
            self._closing.wait(settings.loop_interval_seconds if leads else settings.loop_lease_seconds / 3)
        for own_work in self._own_works:
            self._do(own_work.close)
        if leads:
            self._release()

    def _claim(self, leads: bool) -> bool:
        try:
            with self._context.database.writing() as connection:
                seconds = self._context.settings.loop_lease_seconds
                now = self._context.clock()
                has_lease = loop_leases.take(connection, loop_leases.BACKGROUND, self._holder, now, seconds)
                if has_lease and not leads:
                    loop_leases.note_start(connection, loop_leases.BACKGROUND, self._holder, now)
        except SQLAlchemyError as error:
            _log.warning("background work pauses: the database does not answer", extra={"reason": str(error)[:200]})
            return False
        if has_lease and not leads:
            _log.info("background work starts here", extra={"holder": self._holder})
            self._context.watch.restart()
        return has_lease

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except SQLAlchemyError as error:
            _log.warning("background work failed, and is tried again", extra={"reason": str(error)[:200]})
            self._note_failure(work, error)
        except Exception as error:
            _log.exception("background work failed, and is tried again")
            self._note_failure(work, error)

    def _note_failure(self, work: Callable[[], None], error: Exception) -> None:
        """Store a failure, for `get health`; one that goes on only now and then."""
        message = f"{type(work).__name__}: {type(error).__name__}: {str(error)[:200]}"
        now = time.monotonic()
        noted, noted_at = self._noted or ("", 0.0)
        if noted == message and now < noted_at + loop_leases.NOTED_EVERY_SECONDS:
            return
        self._noted = message, now
        try:
            with self._context.database.writing() as connection:
                loop_leases.note_failure(connection, loop_leases.BACKGROUND, message, self._context.clock())
        except SQLAlchemyError:
            _log.debug("the failure could not be stored; the log has it")

    def _release(self) -> None:
        try:
            with self._context.database.writing() as connection:
                loop_leases.release(connection, loop_leases.BACKGROUND, self._holder, self._context.clock())
        except SQLAlchemyError:
            _log.debug("the lease could not be released; it will expire")
