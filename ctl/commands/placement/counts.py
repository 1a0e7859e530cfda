"""`get placement-counts`: how many executions went where."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from ctl.cli.groups import command
from ctl.cli.lists import Listing, choose
from ctl.cli.options import Option
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.times import parse_since
from ctl.client.words import count
from ctl.commands.executions.options import SINCE, scope_options, selected_scope

_BY = ["cluster", "pool", "label", "project", "domain", "phase", "reason"]
_LISTING = Listing(fields={"value": "value", "count": "count"}, order="count")
_EIGHTHS = "▏▎▍▌▋▊▉"
_FULL = "█"
_LONGEST_BAR = 60
_SHORTEST_BAR = 5


@command(
    help="Show how many executions went where, the largest number first.",
    params=[
        Option(
            ["--by"],
            type=click.Choice(_BY, case_sensitive=False),
            default="cluster",
            show_default=True,
            help="What to count by.",
        ),
        SINCE,
        *scope_options(),
        *_LISTING.options(),
    ],
    examples=[
        "rainbowctl get placement-counts",
        "rainbowctl get placement-counts --by reason --since 7d -p flytesnacks",
        "rainbowctl get placement-counts --by pool --allProjects -o json",
    ],
)
def get_placement_counts(session: Session, **flags: Any) -> None:
    since = parse_since(flags["since"], "--since", now=datetime.now(UTC))
    where: dict[str, Any] = selected_scope(session, flags)
    answer = session.client.placement_counts(flags["by"], since, **where)
    counts = list(choose(session, answer["counts"], flags, _LISTING))
    if answer["counts"] and not counts and session.printer.is_table:
        session.printer.note("No counts match.")
    _print(session, {**answer, "counts": counts}, since, where)


def _print(session: Session, answer: Document, since: str, where: Mapping[str, str]) -> None:
    printer = session.printer
    counts = answer["counts"]
    by = str(answer.get("by", ""))
    if printer.machine_output((f"{by}/{entry['value']}" for entry in counts), answer):
        return
    scope = ", ".join(f"{key} {name}" for key, name in where.items())
    total = count(int(answer.get("total") or 0), "execution")
    printer.note(f"{total} since {printer.when(since)}{f' of {scope}' if scope else ''}.")
    if counts:
        printer.table([by.upper(), "COUNT", "SHARE", ""], _rows(by, counts, int(answer.get("total") or 0)))
    if answer.get("not_counted"):
        printer.note(str(answer["not_counted"]))


def _rows(by: str, counts: Sequence[Document], total: int) -> list[list[str]]:
    rows = []
    for entry in counts:
        number = int(entry["count"])
        share = f"{number / total:.1%}" if total else ""
        rows.append([str(entry["value"]) or "(none)", str(number), share])
    widths = [max(len(line[index]) for line in [[by, "COUNT", "SHARE"], *rows]) + 2 for index in range(3)]
    room = shutil.get_terminal_size().columns - sum(widths)
    width = max(_SHORTEST_BAR, min(_LONGEST_BAR, room))
    largest = max((int(entry["count"]) for entry in counts), default=0)
    signs = (_FULL, _EIGHTHS) if _can_draw() else ("#", "")
    bars = [bar(int(entry["count"]), largest, width, *signs) for entry in counts]
    return [[*row, drawn] for row, drawn in zip(rows, bars, strict=True)]


def bar(number: int, largest: int, width: int, full: str = _FULL, parts: str = _EIGHTHS) -> str:
    """A bar of at most `width` characters, in proportion; a share above 0 is always visible."""
    if number <= 0 or largest <= 0:
        return ""
    steps = len(parts) + 1
    blocks, rest = divmod(max(1, round(number / largest * width * steps)), steps)
    return full * blocks + (parts[rest - 1] if rest else "")


def _can_draw() -> bool:
    """Whether the terminal's encoding has blocks."""
    try:
        (_FULL + _EIGHTHS).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
