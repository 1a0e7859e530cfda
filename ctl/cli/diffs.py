"""Differences between two documents, as people read them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from ctl.cli.output import paint
from ctl.cli.session import Session
from ctl.client.formats import printable, to_yaml
from ctl.client.schemas import parts_of, show

_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


def unified(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, labels: tuple[str, str]) -> list[str]:
    """A unified diff of two documents' YAML; an absent or empty one has no lines."""
    from difflib import unified_diff

    texts = [to_yaml(dict(document)).splitlines() if document else [] for document in (before, after)]
    return [printable(line.rstrip("\n")) for line in unified_diff(texts[0], texts[1], *labels, n=1000)]


class Difference(NamedTuple):
    """A value that differs between two documents; the key is missing in a side that does not have it."""

    path: str
    sides: Mapping[str, Any]  #: `before` and `after`

    def __str__(self) -> str:
        before, after = (show(self.sides[side]) if side in self.sides else "-" for side in ("before", "after"))
        return f"{self.path}: {before} → {after}"


def differences(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    values: Callable[[Mapping[str, Any]], Iterable[tuple[str, Any]]] | None = None,
) -> list[Difference]:
    """The values that differ between two documents, by their paths; `values` has those of a document."""
    of = values or _values
    sides = {"before": dict(of(before or {})), "after": dict(of(after or {}))}
    paths = dict.fromkeys(path for side in sides.values() for path in side)
    differing = [Difference(path, {name: side[path] for name, side in sides.items() if path in side}) for path in paths]
    return [part for part in differing if len(part.sides) == 1 or part.sides["before"] != part.sides["after"]]


def one_line(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, most: int = 3) -> str:
    """The values that differ between two documents, each as `path: before → after`; the first few of them."""
    changed = differences(before, after, values=lambda document: parts_of(document).items() if document else ())
    rest = f" and {len(changed) - most} more" if len(changed) > most else ""
    return ", ".join(map(str, changed[:most])) + rest


def _values(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from _values(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def show_difference(
    session: Session,
    title: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    labels: tuple[str, str] = ("stored", "after this update"),
    *,
    asks_first: bool,
) -> bool:
    """Show what a write changes, unless --quiet is given and there is no prompt; whether it was shown."""
    if session.printer.is_quiet and not asks_first:
        return False
    stream = session.printer.report_stream
    session.printer.report(printable(title))
    print_diff(unified(before, after, labels), stream)
    return True


def print_diff(lines: list[str], stream: IO[str] = sys.stdout) -> None:
    """Print a diff, in colours on a terminal."""
    for line in lines:
        colour = _COLOURS.get(line[:1])
        print(paint(line, colour, stream) if colour else line, file=stream)
