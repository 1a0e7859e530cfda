"""Descriptions as they are sent: read whole, the large ones in a process of their own.

To read a graph of hundreds of thousands of vertices takes seconds, in which this process would answer nobody else.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from admin.core.graph.compiled import Compiled, compile_description, read_document
from admin.core.graph.described_documents import FIELDS, GRAPH_FIELDS
from admin.core.problems import Invalid, Problem, invalid, quoted, raise_problems, unknown_fields
from admin.core.strict_json import parse_body
from admin.errors import BodyTooLarge, Busy

#: Bytes from which on a description is read by another process, which takes a quarter of a second to start.
LARGE_BYTES = 1 << 20
#: How long a large one may take to be read, and how long others wait for their turn.
_MOST_SECONDS = 120.0
#: Memory that the other process may take: its own, and so much for each byte that it reads.
_OWN_MEMORY, _MEMORY_PER_BYTE = 512 << 20, 12
#: Its exit status where that was not enough.
_OUT_OF_MEMORY = 3
_REMEDY = "give equal vertices once, with their number as size, and leave out what is no resource of jobs."
#: Large ones are read one after the other, since each takes much memory for a moment.
_TURN = threading.Lock()
_ROOT = Path(__file__).parents[2]


class SentDescription(NamedTuple):
    """A description that was sent and found right, and what was sent beside it."""

    compiled: Compiled
    others: dict[str, Any]  #: the other fields of the body


def read_sent(raw: bytes, current: bytes | None, most_vertices: int) -> SentDescription:
    """The description in a body; Invalid with every problem.

    `current` is the compressed document that the body changes, None where it replaces all.
    """
    if len(raw) + len(current or b"") < LARGE_BYTES:
        return read_here(raw, current, most_vertices)
    if not _TURN.acquire(timeout=_MOST_SECONDS):
        raise Busy("Other large descriptions are being read. Send it again when Retry-After is over.")
    try:
        return _read_elsewhere(raw, current, most_vertices)
    finally:
        _TURN.release()


def read_here(raw: bytes, current: bytes | None, most_vertices: int) -> SentDescription:
    """The same, in this process."""
    body = parse_body(raw)
    sent = {name: body.pop(name) for name in FIELDS if name in body}
    _check_fields(sent)
    document = sent if current is None else _changed(read_document(current), sent)
    return SentDescription(_compile(document, most_vertices), body)


def read_within(sent: Mapping[str, Any], path: str, most_vertices: int) -> Compiled:
    """A description that is a part of another body, at a path; Invalid with every problem."""
    try:
        raise_problems(list(unknown_fields(sorted(sent.keys() - FIELDS), FIELDS, "")))
        _check_fields(sent)
        return _compile(dict(sent), most_vertices)
    except Invalid as wrong:
        raise Invalid(
            *(replace(problem, field=f"{path}.{problem.field}".rstrip(".")) for problem in wrong.problems)
        ) from wrong


def _check_fields(sent: Mapping[str, Any]) -> None:
    if all(name in sent for name in GRAPH_FIELDS):
        raise invalid("scheduling", "stands beside graph: give one of the two.")
    subsystems = sent.get("subsystems", {})
    if not isinstance(subsystems, Mapping):
        raise invalid("subsystems", f"{quoted(subsystems)} is not a mapping: give a graph for each name.")


def _compile(document: dict[str, Any], most_vertices: int) -> Compiled:
    if not document.get("subsystems"):
        document.pop("subsystems", None)
    return compile_description(document, most_vertices)


def _changed(current: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """A description with the graph and the subsystems that are sent; null removes a subsystem."""
    if not sent:
        raise invalid("", "Nothing to change: give graph, subsystems, or both.")
    changed = dict(current)
    if any(name in sent for name in GRAPH_FIELDS):
        changed = {}
    subsystems = {**current.get("subsystems", {}), **sent.get("subsystems", {})}
    for name in sent.get("subsystems", {}):
        if subsystems[name] is None and name not in current.get("subsystems", {}):
            known = ", ".join(sorted(current.get("subsystems", {}))) or "none"
            raise invalid(f"subsystems.{name}", f"there is no such subsystem to remove. Known: {known}.")
    left = {name: subsystem for name, subsystem in subsystems.items() if subsystem is not None}
    return {**changed, **sent, "subsystems": left}


def _read_elsewhere(raw: bytes, current: bytes | None, most_vertices: int) -> SentDescription:
    path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    most_memory = _OWN_MEMORY + _MEMORY_PER_BYTE * (len(raw) + len(current or b""))
    try:
        process = subprocess.run(
            [sys.executable, "-m", __name__, str(most_vertices), str(most_memory)],
            input=_framed(current or b"", raw),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            timeout=_MOST_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BodyTooLarge(f"To read this description takes longer than {_MOST_SECONDS:g} s: {_REMEDY}") from error
    if process.returncode == _OUT_OF_MEMORY or process.returncode < 0:  # by a signal, of the system if that has no more
        memory = f"{most_memory / 2**30:.1f} GiB of memory"
        raise BodyTooLarge(f"To read this description takes more than {memory}: {_REMEDY}")
    process.check_returncode()
    header, document, folded = _unframed(process.stdout)
    answer = json.loads(header)
    if "problems" in answer:
        raise Invalid(*(Problem(**problem) for problem in answer["problems"]))
    return SentDescription(Compiled(answer["digest"], answer["inventory"], document, folded), answer["others"])


def _framed(*parts: bytes) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _unframed(content: bytes) -> list[bytes]:
    parts, start = [], 0
    while start < len(content):
        end = start + 8 + int.from_bytes(content[start : start + 8], "big")
        parts.append(content[start + 8 : end])
        start = end
    return parts


def _main() -> None:
    """Read what stands on standard input, and write what came of it."""
    most_memory = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (most_memory, most_memory))
    gc.disable()  # it looked at millions of values again and again, of which none is garbage
    current, raw = _unframed(sys.stdin.buffer.read())
    document = folded = b""
    answer: dict[str, Any]
    try:
        sent = read_here(raw, current or None, int(sys.argv[1]))
        document, folded = sent.compiled.document, sent.compiled.folded
        answer = {"digest": sent.compiled.digest, "inventory": sent.compiled.inventory, "others": sent.others}
    except Invalid as wrong:
        answer = {"problems": [{"field": problem.field, "reason": problem.reason} for problem in wrong.problems]}
    sys.stdout.buffer.write(_framed(json.dumps(answer).encode(), document, folded))


if __name__ == "__main__":
    try:
        _main()
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)  # at once: what was read is not worth tidying up
