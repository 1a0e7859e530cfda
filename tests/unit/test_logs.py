"""Logs of the admin: one line for each event, whatever its texts contain."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from admin.logs import JsonFormatter, TextFormatter

FORGED = "a\n12:00:00 error   forged\r\x1b[31m\x9b2J\u2028\u202e\x7f\udc80é"


def record(message: str = "request", **extra: str) -> logging.LogRecord:
    return logging.getLogger("rainbow.test").makeRecord(
        "rainbow.test", logging.INFO, "file", 1, message, (), None, extra=extra
    )


def test_a_name_cannot_forge_a_line_of_text() -> None:
    line = TextFormatter().format(record(FORGED, path=FORGED))
    assert line.isprintable()
    assert line.count("forged\\r\\x1b[31m\\x9b2J\\u2028\\u202e\\x7f\\udc80é") == 2


def test_a_name_cannot_forge_a_line_of_json() -> None:
    line = JsonFormatter().format(record(FORGED, path=FORGED))
    assert line.isprintable()
    assert line.encode()
    assert (json.loads(line)["message"], json.loads(line)["path"]) == (FORGED, FORGED)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_exception_cannot_forge_a_line(formatter: logging.Formatter) -> None:
    event = record("unexpected")
    try:
        raise ValueError(FORGED)
    except ValueError:
        event.exc_info = sys.exc_info()
    first, *rest = formatter.format(event).split("\n")
    assert "unexpected" in first
    assert all(line.startswith("    ") and line.isprintable() for line in rest)


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_the_secret_of_a_token_is_hidden_wherever_it_was_sent(formatter: logging.Formatter) -> None:
    secret = "Xy_7-secret"
    event = record(f"no user rbu-0a1b2c3d-{secret}", path=f"/api/v1/users/rbc-0a1b2c3d-{secret}/x")
    try:
        raise ValueError(f"rbu-0a1b2c3d-{secret}")
    except ValueError:
        event.exc_info = sys.exc_info()
    text = formatter.format(event)
    assert secret not in text
    assert (text.count("rbu-0a1b2c3d-***") >= 2, "/api/v1/users/rbc-0a1b2c3d-***/x" in text) == (True, True)
