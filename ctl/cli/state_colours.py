"""Colours of phases and states in tables on a terminal."""

from __future__ import annotations

import re

#: The headings of columns whose cells are coloured.
_COLUMN = re.compile(r"(?:^|(?<=  ))(?:PHASE|STATE)(?=  |$)")
_WORD = re.compile(r"[A-Za-z_,]+")
#: By colour, what it stands for; of several states of a cluster the first colour that one of them has.
_COLOURS = {
    "red": frozenset({"FAILED", "TIMED_OUT", "lost"}),
    "yellow": frozenset(
        {"QUEUED", "ABORTING", "unreachable", "cordoned", "draining", "disabled", "pending", "expected"}
    ),
    "magenta": frozenset({"ABORTED"}),
    "cyan": frozenset({"RUNNING"}),
    "green": frozenset({"SUCCEEDED", "ready"}),
}


def paint_states(header: str, lines: str) -> str:
    """The lines of a table with its phases and states in colours, which change no column's width."""
    offsets = [match.start() for match in _COLUMN.finditer(header)]
    return "".join(_paint_line(line, offsets) for line in lines.splitlines(keepends=True)) if offsets else lines


def _paint_line(line: str, offsets: list[int]) -> str:
    import click

    for offset in reversed(offsets):  # the colours of one must not move the next one
        match = _WORD.match(line, offset)
        is_cell = offset == 0 or line[max(offset - 2, 0) : offset] == "  "
        colour = colour_of(match[0]) if match and is_cell else None
        if match and colour:
            line = f"{line[:offset]}{click.style(match[0], fg=colour)}{line[match.end() :]}"
    return line


def colour_of(state: str) -> str | None:
    """The colour of a phase, or of the states of a cluster: `cordoned,lost`."""
    words = set(state.split(","))
    return next((colour for colour, states in _COLOURS.items() if words & states), None)
