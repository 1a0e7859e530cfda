"""Differences between two documents, as people read them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

from ctl.cli.output import paint
from ctl.cli.session import Session
from ctl.client.formats import printable, to_yaml
from ctl.client.schemas import show

_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


def unified(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, labels: tuple[str, str]) -> list[str]:
    """A unified diff of two documents' YAML; an absent or empty one has no lines."""
    from difflib import unified_diff

    texts = [to_yaml(dict(document)).splitlines() if document else [] for document in (before, after)]
    return [printable(line.rstrip("\n")) for line in unified_diff(texts[0], texts[1], *labels, n=1000)]


def one_line(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, *, most: int = 3) -> str:
    """The values that differ between two documents, each as `path: before → after`; the first few of them."""
    old, new = dict(_values(before or {})), dict(_values(after or {}))
    changed = [path for path in [*old, *(path for path in new if path not in old)] if old.get(path) != new.get(path)]
    parts = [f"{path}: {_shown(old, path)} → {_shown(new, path)}" for path in changed[:most]]
    return ", ".join(parts) + (f" and {len(changed) - most} more" if len(changed) > most else "")


def _values(document: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from _values(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _shown(values: Mapping[str, Any], path: str) -> str:
    return show(values[path]) if path in values else "-"


def show_difference(
    session: Session,
    title: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    labels: tuple[str, str] = ("stored", "after this update"),
    *,
    is_asked: bool,
) -> bool:
    """Show what a write changes, unless --quiet is given and nobody is asked about it; whether it was shown."""
    if session.printer.is_quiet and not is_asked:
        return False
    stream = session.printer.report_stream
    print(printable(title), file=stream)
    print_diff(unified(before, after, labels), stream)
    return True


def print_diff(lines: list[str], stream: IO[str] = sys.stdout) -> None:
    """Print a diff, in colours on a terminal."""
    for line in lines:
        colour = _COLOURS.get(line[:1])
        print(paint(line, colour, stream) if colour else line, file=stream)
