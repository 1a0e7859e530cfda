"""Structured logs: one line per event, with the id of its request."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from admin.core.masking import without_secrets

#: The attributes of every record; others were passed as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # JSON escapes line breaks, but not every character that controls a terminal.
        text = without_secrets(json.dumps(line, ensure_ascii=False, default=str))
        if text.isprintable():
            return text
        return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


class TextFormatter(logging.Formatter):
    """The same for people: time, level, message and extras."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S")
        extras = " ".join(f"{name}={value}" for name, value in _extras(record).items())
        line = f"{moment} {record.levelname.lower():7} {record.getMessage()} {extras}".rstrip()
        # Lines of an exception are indented: what it quotes cannot pass for a line of the log.
        exception = self.formatException(record.exc_info).split("\n") if record.exc_info else []
        return without_secrets("\n    ".join(map(_printable, [line, *exception])))


def _printable(text: str) -> str:
    """Text with its control characters escaped, so that no name can end a line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}


def log_configuration(level: str, style: str) -> dict[str, Any]:
    """The logging configuration of every process of an admin."""
    formatter = "admin.logs.JsonFormatter" if style == "json" else "admin.logs.TextFormatter"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": formatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
        "root": {"level": "WARNING", "handlers": ["stderr"]},
        "loggers": {
            "rainbow": {"level": level.upper(), "handlers": ["stderr"], "propagate": False},
            "_granian": {"level": "ERROR", "handlers": ["stderr"], "propagate": False},
        },
    }
