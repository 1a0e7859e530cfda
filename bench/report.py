"""`python -m bench.report`: writes the figures of the last runs into docs/performance.md, and the pictures beside it.

Text between `<!-- NAME -->` and `<!-- /NAME -->` is generated; everything else in the page is written by hand. Benches
that were run by themselves replace their own tables and promises.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from bench import results
from bench.__main__ import LARGE
from bench.figures import Figures
from bench.promises import Promise
from bench.tables import COLUMNS, KEPT, cells

_DOCUMENT = Path(__file__).parents[1] / "docs/performance.md"
#: The x axis of each picture.
_STORED = {"growth": "finished executions", "memory": "attributes"}


def main() -> None:
    """Write the results that exist; a part without results is left as it is."""
    text = _DOCUMENT.read_text()
    for path in (results.STANDARD, results.LARGE):
        if not path.exists():
            print(f"There is no {path.name} yet: make bench, or make bench-large.", file=sys.stderr)
            continue
        machine, figures, promises = results.load(path)
        text = _with(text, f"machine {path.stem}", _machine(machine))
        for bench in dict.fromkeys(figure.bench for figure in figures.all):
            text = _with(text, bench, [*_picture(figures, bench), *_figures(figures, bench)])
        text = _with(text, f"promises {path.stem}", _promises(promises))
    for path in results.of_all_benches():
        text = with_some(text, *results.load(path))
    _DOCUMENT.write_text(text)


def with_some(text: str, machine: dict[str, str], figures: Figures, promises: list[Promise]) -> str:
    """The text with the tables of some benches, which were measured by themselves, and the promises that they judge."""
    [of_machine] = _machine(machine)
    measured = dict.fromkeys(figure.bench for figure in figures.all)
    for bench in measured:
        lines = [f"Measured by itself: {of_machine}", "", *_picture(figures, bench), *_figures(figures, bench)]
        text = _with(text, bench, lines)
    table = "promises results-large" if set(measured) & set(LARGE) else "promises results"
    present = re.search(rf"<!-- {table} -->\n(.*?)<!-- /{table} -->", text, re.DOTALL)
    rows = {_first_cell(row): row for row in (present[1].strip().splitlines() if present else [])}
    rows |= {_first_cell(row): row for row in _promises(promises)}
    return _with(text, table, rows.values())


def _first_cell(row: str) -> str:
    return row.split("|")[1].strip()


def _with(text: str, name: str, lines: Iterable[str]) -> str:
    """The text with the part between the marks of a name replaced."""
    part = "\n".join(["", *lines, ""])
    marked = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
    if not marked.search(text):
        print(f"{_DOCUMENT.name} has no place for {name}.", file=sys.stderr)
    return marked.sub(lambda match: f"{match[1]}{part}\n{match[2]}", text)


def _machine(machine: dict[str, str]) -> list[str]:
    return [f"{machine.pop('cores')} cores, " + ", ".join(f"{name} {value}" for name, value in machine.items()) + "."]


def _figures(figures: Figures, bench: str) -> list[str]:
    rows = [cells(figures, figure)[1:] for figure in figures.all if figure.bench == bench]
    used = [index for index in range(len(COLUMNS) - 1) if any(row[index] for row in rows)]
    heads = [COLUMNS[1:][index] for index in used]
    left = ("database", "what", "ceiling")
    return [
        _row(heads),
        _row("---" if head in left else "---:" for head in heads),
        *(_row(row[index] for index in used) for row in rows),
    ]


def _promises(promises: list[Promise]) -> list[str]:
    judged = [promise for promise in promises if promise.kept is not None]
    rows = [_row((promise.promise, promise.measured, KEPT[promise.kept])) for promise in judged]
    return [_row(("promise", "measured", "kept?")), _row(("---", "---:", "---")), *rows]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _picture(figures: Figures, bench: str) -> list[str]:
    """The picture of a bench that has curves, drawn anew."""
    if not figures.curves(bench):
        return []
    from bench import pictures  # needs the extra `bench`, which nothing else does

    name, stored = f"{bench}.svg", _STORED[bench]
    pictures.draw(figures, bench, stored, _DOCUMENT.with_name(name))
    return [f"![{bench.capitalize()} over the number of {stored}]({name})", ""]


if __name__ == "__main__":
    main()
