"""The status line at the foot of a terminal, with log lines printed above it."""

from __future__ import annotations

import contextlib
import logging
import shutil
from typing import TextIO

from agent.loop import Agent
from ctl.client.formats import printable

_CLEAR = "\r\x1b[K"
_INTERVAL_SECONDS = 0.5


class StatusLine:
    """One line at the foot of a terminal; nothing where there is no terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._text = ""
        self._due_at = 0.0

    def update(self, agent: Agent) -> None:
        """Show the agent's status, at most twice a second."""
        now = agent.clock.steady()
        if self._is_terminal and now >= self._due_at:
            self._due_at = now + _INTERVAL_SECONDS
            width = shutil.get_terminal_size().columns
            self._text = printable(describe(agent))[: width - 1]
            self._write(f"{_CLEAR}{self._text}")

    def print(self, line: str) -> None:
        """Print a line above the status line."""
        self._write(f"{_CLEAR}{line}\n{self._text}" if self._is_terminal else f"{line}\n")

    def clear(self) -> None:
        """Remove the status line."""
        if self._is_terminal:
            self._text = ""
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        # A log on a full disk must not stop the agent.
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


class StatusHandler(logging.Handler):
    """Prints log records above the status line."""

    def __init__(self, line: StatusLine) -> None:
        super().__init__()
        self._line = line
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self._line.print(printable(self.format(record)))


def log_to(line: StatusLine, *, quiet: bool) -> logging.Logger:
    """The agent's log, printed above the status line; warnings and errors only where `quiet`."""
    log = logging.getLogger("rainbow.agent")
    log.handlers = [StatusHandler(line)]
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    return log


def describe(agent: Agent) -> str:
    """The agent's status, in one line."""
    counts = agent.work.intents.counts()
    parts = [
        agent.config.cluster,
        _state(agent),
        f"{counts['running']} running",
        *(f"{counts[name]} {text}" for name, text in _OTHER_COUNTS.items() if counts[name]),
        f"{agent.config.slots} slots",
    ]
    if agent.synced_at is not None:
        parts.append(f"synced {max(0, round(agent.clock.steady() - agent.synced_at))} s ago")
    if agent.work.problem:
        parts.append(agent.work.problem)
    return " · ".join(parts)


_OTHER_COUNTS = {"queued": "queued", "held": "to start", "ended": "to report"}


def _state(agent: Agent) -> str:
    state = agent.cluster_state
    if agent.work.is_stopping:
        return "stopping"
    if agent.problem:
        return "no admin"
    if agent.synced_at is None:
        return "connecting"
    if not state.get("admitted", True):
        return "waiting to be admitted"
    flag = next((name for name in ("draining", "cordoned") if state.get(name)), None)
    return flag or ("ready" if state.get("enabled", True) else "disabled")
