"""The status line of a terminal, and log lines that do not tear it."""

from __future__ import annotations

import logging
import shutil
from typing import TextIO

from agent.clocks import steady
from agent.loop import Agent

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
        """Show how the agent stands, not too often."""
        if self._is_terminal and steady() >= self._due_at:
            self._due_at = steady() + _INTERVAL_SECONDS
            width = shutil.get_terminal_size().columns
            self._text = describe(agent)[: width - 1]
            self._write(f"{_CLEAR}{self._text}")

    def print(self, line: str) -> None:
        """Print a line above."""
        self._write(f"{_CLEAR}{line}\n{self._text}" if self._is_terminal else f"{line}\n")

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._is_terminal:
            self._text = ""
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class StatusHandler(logging.Handler):
    """Log lines through the status line."""

    def __init__(self, line: StatusLine) -> None:
        super().__init__()
        self._line = line
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        self._line.print(self.format(record))


def describe(agent: Agent) -> str:
    """How the agent stands, in one line."""
    counts = agent.work.counts()
    parts = [
        agent.config.cluster,
        _state(agent),
        f"{counts['running']} running",
        *(f"{counts[word]} {text}" for word, text in _OTHERS.items() if counts[word]),
        f"{agent.config.slots} slots",
    ]
    if agent.synced_at is not None:
        parts.append(f"synced {max(0, round(steady() - agent.synced_at))} s ago")
    if agent.work.trouble:
        parts.append(agent.work.trouble)
    return " · ".join(parts)


_OTHERS = {"queued": "queued", "held": "to start", "ended": "to report"}


def _state(agent: Agent) -> str:
    said = agent.cluster_state
    if agent.work.is_stopping:
        return "stopping"
    if agent.problem:
        return "no admin"
    if agent.synced_at is None:
        return "connecting"
    if not said.get("admitted", True):
        return "waiting to be admitted"
    words = (("draining", "draining"), ("cordoned", "cordoned"))
    return next((word for name, word in words if said.get(name)), "ready" if said.get("enabled", True) else "disabled")
