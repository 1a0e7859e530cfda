"""Differences between two documents, as people read them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import IO, Any

from ctl.cli.output import paint
from ctl.cli.session import Session
from ctl.client.formats import printable, to_yaml

_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


def unified(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, labels: tuple[str, str]) -> list[str]:
    """A unified diff of two documents' YAML; an absent or empty one has no lines."""
    from difflib import unified_diff

    texts = [to_yaml(dict(document)).splitlines() if document else [] for document in (before, after)]
    return [printable(line.rstrip("\n")) for line in unified_diff(texts[0], texts[1], *labels, n=1000)]


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
