"""Files with descriptions of clusters, and the trees that are drawn of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ctl.client.answers import Document
from ctl.client.errors import InvalidFile, InvalidInput
from ctl.client.yaml_files import MAX_BYTES, MIB, load_mapping, read_source

#: What the admin accepts.
_MOST_BYTES = 256 * MIB
#: Types that are measured, in bytes; all others are counted.
_MEASURED = ("memory", "storage")
_UNITS = ("", "Ki", "Mi", "Gi", "Ti")


def read_graph(path: str) -> dict[str, Any]:
    """The document of a file with a graph, in JSON, or in YAML where it is small."""
    source = read_source(path, _MOST_BYTES)
    try:
        document = json.loads(source.text)
    except json.JSONDecodeError as error:
        if len(source.text) > MAX_BYTES:
            place = f"line {error.lineno}, column {error.colno}"
            raise InvalidFile(f"{source.name} is not JSON: {error.msg} at {place}.") from None
        document = load_mapping(source)
    except RecursionError:
        raise InvalidFile(f"{source.name} is nested too deeply to be a graph.") from None
    if not isinstance(document, dict):
        raise InvalidFile(f"{source.name} is not a graph: it must hold `graph` with nodes and edges.")
    return document


def read_subsystems(given: Iterable[str], removed: Iterable[str]) -> dict[str, Any]:
    """The subsystems of `--subsystem NAME=FILE`; those to be removed are None."""
    subsystems: dict[str, Any] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not name or not equals or not path:
            raise InvalidInput(f"--subsystem {text}: write NAME=FILE, such as io=io.json.")
        if name in subsystems:
            raise InvalidInput(f"--subsystem: {name} is given twice: keep one.")
        subsystems[name] = read_graph(path)
    for name in removed:
        if name in subsystems:
            raise InvalidInput(f"--removeSubsystem: {name} is also given with --subsystem: keep one.")
        subsystems[name] = None
    return subsystems


def tree_lines(branch: Document) -> Iterator[str]:
    """A tree as lines, equal siblings on one: `node ×3: core ×12`."""
    yield from _lines(branch, "", "")


def _lines(branch: Document, before: str, around: str) -> Iterator[str]:
    text, inner = _text(branch), branch.get("contains") or []
    while len(inner) == 1:  # what holds one kind of thing only goes on the same line
        text, inner = f"{text}: {_text(inner[0])}", inner[0].get("contains") or []
    yield f"{before}{text}"
    for number, child in enumerate(inner):
        is_last = number == len(inner) - 1
        mark, rest = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        yield from _lines(child, f"{around}{mark}", f"{around}{rest}")


def _text(branch: Mapping[str, Any]) -> str:
    count = f" ×{branch['count']}" if branch["count"] > 1 else ""
    size = f" {branch['size']}" if branch.get("size") else ""
    linked = ", ".join(f"{name} ×{number}" for name, number in (branch.get("linked") or {}).items())
    return f"{branch['type']}{size}{count}{f' ({linked})' if linked else ''}"


def show_types(types: Mapping[str, Mapping[str, Any]] | None) -> str:
    """How much there is of each type, in one table cell: `3 nodes, 36 cores, 71.5Gi memory`."""
    return ", ".join(_counted(str(counted["amount"]), name) for name, counted in (types or {}).items())


def _counted(amount: str, type_: str) -> str:
    if type_ in _MEASURED:
        return f"{_rounded(amount)} {type_}"
    return f"{amount} {type_ if amount == '1' else _plural(type_)}"


def _plural(type_: str) -> str:
    """The name of a type of which there are several, as the admin's messages have it."""
    if type_.endswith("s"):  # chassis
        return type_
    if type_.endswith(("x", "ch", "sh")):
        return f"{type_}es"
    return f"{type_[:-1]}ies" if re.search("[^aeiou]y$", type_) else f"{type_}s"


def _rounded(amount: str) -> str:
    """An amount of bytes as people read it: in a unit of which there are fewer than ten thousand."""
    parts = re.fullmatch(r"([0-9]+)(|Ki|Mi|Gi|Ti)", amount)
    if parts is None:
        return amount
    number, unit = float(parts[1]), _UNITS.index(parts[2])
    while number >= 10_000 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{round(number, 1):g}{_UNITS[unit]}"
