"""A command that runs below rainbowctl: it gets our signals, is ended with us, and its status becomes ours."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

#: Statuses that a shell has for a command that cannot be run, and for one that is not found.
EXIT_NOT_RUN, EXIT_NOT_FOUND = 126, 127
#: Added to the number of the signal that ended a command.
EXIT_BY_SIGNAL = 128
#: How long a command has to end after SIGTERM.
KILL_AFTER_SECONDS = 10.0

_PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
_WAITED_FOR = _PASSED_ON | {signal.SIGCHLD}
#: Of a signal that the terminal sent to all processes in its foreground, the command included.
_SENT_BY_KERNEL = 128
_SET_DEATH_SIGNAL = 1


class Child:
    """
    A command that runs. To be made in the main thread, before threads are started, which would take its signals.

    On a terminal it is in the group of processes that Ctrl-C and Ctrl-Z reach; otherwise it has a group of its own, so
    that what it starts is ended with it.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """OSError where it cannot be run."""
        self._has_group = not _is_in_foreground()
        self._kill_at: float | None = None
        self._thread = threading.main_thread().ident or 0
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED_FOR)
        try:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **env},
                process_group=0 if self._has_group else None,
                preexec_fn=_prepare(mask),
            )
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            raise

    def end(self) -> None:
        """Send it SIGTERM, and SIGKILL if it goes on; may be called in any thread."""
        self._kill_at = time.monotonic() + KILL_AFTER_SECONDS
        self._send(signal.SIGTERM)
        signal.pthread_kill(self._thread, signal.SIGCHLD)  # so that `wait` looks at the time

    def wait(self) -> int:
        """Pass signals on until it ends; returns its status, 128 and the number of the signal that ended it."""
        while (status := self._process.poll()) is None:
            left = 3600.0 if self._kill_at is None else self._kill_at - time.monotonic()
            if left <= 0:
                self._send(signal.SIGKILL)
                left = 1.0
            info = signal.sigtimedwait(_WAITED_FOR, left)
            if info is None or info.si_signo == signal.SIGCHLD:
                continue
            if self._has_group or info.si_code != _SENT_BY_KERNEL:
                self._send(info.si_signo)
        if self._kill_at is not None:
            self._send(signal.SIGKILL)  # what it has started
        return EXIT_BY_SIGNAL - status if status < 0 else status

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            if self._has_group:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)


def _is_in_foreground() -> bool:
    """Whether a terminal sends the signals of its keys to this process."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _prepare(mask: Iterable[int]) -> Callable[[], None]:
    """What the new process does first: it takes signals again, and gets SIGTERM when rainbowctl is killed."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if prctl is not None:
            prctl(_SET_DEATH_SIGNAL, signal.SIGTERM)

    return prepare
