"""What an agent prints of itself."""

from __future__ import annotations

import io
import logging
from contextlib import suppress
from pathlib import Path

from agent.status import StatusHandler, StatusLine


def test_a_message_cannot_forge_a_line_of_the_log_or_control_the_terminal() -> None:
    stream = io.StringIO()
    handler = StatusHandler(StatusLine(stream))
    message = "n: ending it: enough\n12:00:00 ERROR   forged\x1b]0;title\x07\x9b2J"
    handler.emit(logging.LogRecord("rainbow.agent", logging.WARNING, "file", 1, message, (), None))
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("enough\\n12:00:00 ERROR   forged\\x1b]0;title\\x07\\x9b2J")


def test_a_log_that_cannot_be_written_does_not_stop_the_agent() -> None:
    has_gone_on = False
    with suppress(OSError), Path("/dev/full").open("w") as stream:
        StatusLine(stream).print("x" * 100_000)
        has_gone_on = True
    assert has_gone_on
