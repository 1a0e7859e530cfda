"""Logs of executions, and the files that they leave: read by pages, followed by a script, and downloaded."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
from flask import Response, stream_with_context

from admin.console.answers import ask, asked_query
from admin.console.pages import PREFIX, Pages, begin_measuring, render
from admin.core.live_subjects import Topic

pages = Pages("logs")

PATH = "/executions/<project>/<domain>/<name>"
LOG = f"{PATH}/log"
_STREAMS = ("stdout", "stderr")
_TAIL_LINES = 500
_PAGE_BYTES = 65_536
_DOWNLOADED_AT_ONCE = 1024 * 1024
_SHOWN_BYTES = 4096  # of an output
#: What colours the text that follows on a terminal.
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
#: Controls but tab and line break, and the characters that change the direction of what follows.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def visible(text: str) -> str:
    """A text in which each character that would do something to a terminal or a page is shown in place of that.

    Codes that colour what follows are left out.
    """
    return _UNSEEN.sub(_picture, _COLOUR.sub("", text.replace("\r\n", "\n")))


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


@pages.add("GET", LOG, permission="logs.read", live=(Topic.EXECUTION, Topic.LOG))
def show_log(**key: str) -> str:
    """The log of an attempt: its end, or a piece of it."""
    query = asked_query("stream", "attempt", "offset", "tail")
    where = query if "offset" in query else {"tail": str(_TAIL_LINES), **query}
    log = ask("get_execution_logs", where, path=key)
    if "offset" not in query and log["next_offset"] < log["end"]:  # the last lines are long: their end is asked for
        stream = {name: log[name] for name in ("stream", "attempt")}
        log = ask("get_execution_logs", {**stream, "offset": max(0, log["end"] - _PAGE_BYTES)}, path=key)
    options = [word for name in ("stream", "attempt") if name in query for word in (f"--{name}", query[name])]
    explanation = ask("explain_execution", path=key)
    return render(
        "executions/log.html",
        title=f"Log of {key['name']}",
        commands=[["logs", key["name"], "-p", key["project"], "-d", key["domain"], *options]],
        key=key,
        query=query,
        streams=_STREAMS,
        attempts=explanation.get("attempts") or [],
        execution=ask("get_execution", path=key),
        log=log,
    )


@pages.add("GET", f"{LOG}/piece", permission="logs.read")
def get_log_piece(**key: str) -> Response:
    """What the script of the page adds to it."""
    begin_measuring(PREFIX + LOG)
    log = ask("get_execution_logs", asked_query("stream", "attempt", "offset", "limit"), path=key)
    piece = {name: log[name] for name in ("attempt", "next_offset", "end", "complete")} | {"text": visible(log["data"])}
    return Response(msgspec.json.encode(piece), mimetype="application/json")


@pages.add("GET", f"{LOG}/download", permission="logs.read")
def download_log(**key: str) -> Response:
    """All of a log that is kept, as it is."""
    query = asked_query("stream", "attempt")
    asked: dict[str, Any] = {**query, "limit": _DOWNLOADED_AT_ONCE, "with_bytes": True}
    first = ask("get_execution_logs", asked, path=key)

    def pieces() -> Iterator[bytes]:
        log = first
        while content := base64.b64decode(log["data_base64"]):
            yield content
            where = {"attempt": log["attempt"], "offset": log["next_offset"]}
            log = ask("get_execution_logs", {**asked, **where}, path=key)

    return _download(pieces(), f"{key['name']}-{first['attempt']}-{first['stream']}.txt", "text/plain")


@pages.add("GET", f"{PATH}/outputs", permission="logs.read")
def list_outputs(**key: str) -> str:
    """The files that an execution left, with the beginning of those that are text."""
    asked_query()
    answered = ask("list_execution_outputs", path=key)
    return render(
        "executions/outputs.html",
        title=f"Outputs of {key['name']}",
        commands=[["get", "output", key["name"], "-p", key["project"], "-d", key["domain"]]],
        key=key,
        execution=ask("get_execution", path=key),
        outputs=[{**output, "text": _beginning(output)} for output in answered["outputs"]],
        is_pruned=answered.get("pruned", False),
    )


@pages.add("GET", f"{PATH}/outputs/download", permission="logs.read")
def download_output(**key: str) -> Response:
    """All of a file that is stored, as it is."""
    path = asked_query("path").get("path", "")
    first = ask("get_execution_output", {"path": path, "limit": _DOWNLOADED_AT_ONCE}, path=key)

    def pieces() -> Iterator[bytes]:
        piece = first
        while True:
            yield base64.b64decode(piece["content_base64"])
            if piece["complete"]:
                return
            where = {"path": path, "offset": piece["next_offset"], "limit": _DOWNLOADED_AT_ONCE}
            piece = ask("get_execution_output", where, path=key)

    return _download(pieces(), path.rpartition("/")[2] or "output", "application/octet-stream")


def _beginning(output: dict[str, Any]) -> str | None:
    """The first characters of an output; None of one that is no text."""
    content = base64.b64decode(output.get("content_base64") or output.get("beginning_base64") or "")[:_SHOWN_BYTES]
    if b"\0" in content:
        return None
    return visible(content.decode(errors="replace")) or None


def _download(pieces: Iterator[bytes], name: str, type: str) -> Response:
    response = Response(stream_with_context(pieces), mimetype=type)
    response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return response
