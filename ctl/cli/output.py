"""What is printed where: data on stdout, everything else on stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from ctl.client.errors import InvalidInput, RainbowError
from ctl.client.formats import printable, printable_lines, to_json, to_yaml
from ctl.client.words import did_you_mean, listed

#: What a field of a row is: its key, or what a function makes of the row.
Field = str | Callable[[Any], Any]


@dataclass(frozen=True)
class Time:
    """A column of times, each shown as `Printer.when` does."""

    field: Field
    is_ahead: bool = False  #: whether they may be to come
    is_due: bool = False  #: whether something is to happen then


@dataclass(frozen=True)
class Sentence:
    """A column of sentences of the admin, each with its times as `Printer.sentence` shows them."""

    field: Field
    is_past: bool = False  #: whether they tell of what was, as events do


#: What a column of a table shows.
Column = Field | Time | Sentence
Columns = Mapping[str, Column]

#: The width of answers about one thing, and of sentences on a terminal that is wider.
FOLDED_WIDTH = 100

FORMATS = ("table", "wide", "json", "yaml", "name")


def parse_format(text: str) -> str:
    """A format in any case, or an error that lists them."""
    if text.lower() not in FORMATS:
        hint = did_you_mean(text, FORMATS)
        raise InvalidInput(f"There is no output format {text!r}: choose {listed(FORMATS, 'or')}.{hint}")
    return text.lower()


@dataclass(frozen=True, kw_only=True)
class Printer:
    """Prints in one format."""

    format: str = "table"
    is_quiet: bool = False
    has_headers: bool = True
    width: int | None = None  #: that all is folded to where there is no terminal; None for one line a row or sentence
    is_partial: Callable[[], bool] = lambda: False  #: whether what is shown is only what the caller may see

    @property
    def is_table(self) -> bool:
        """Whether a person reads the answer, rather than a program."""
        return self.format in {"table", "wide"}

    @property
    def is_wide(self) -> bool:
        return self.format == "wide"

    @property
    def report_stream(self) -> IO[str]:
        """Where a plan or a difference is shown: beside the data where a program reads that."""
        return sys.stdout if self.is_table else sys.stderr

    def without_headers(self) -> Printer:
        """The same without headers, for rows that continue a table."""
        return replace(self, has_headers=False)

    def when(self, time: str | None, *, is_ahead: bool = False, is_due: bool = False) -> str:
        """
        How long ago a time was, or with `is_ahead` how far it is to come; wide output has the time itself.

        With `is_due` something is to happen then, and is overdue if it has not. Empty where there is no time. What has
        happened is never to come, though clocks differ.
        """
        from ctl.client.times import age, distance, due, to_second

        if not time or self.is_wide:
            return to_second(time) if time else ""
        return due(time) if is_due else distance(time) if is_ahead else age(time)

    def folded(self) -> Printer:
        """The same for an answer about one thing, which people read: nothing is wider than 100 columns."""
        return self if self.is_wide else replace(self, width=FOLDED_WIDTH)

    def line(self, text: str = "") -> None:
        """One line of data."""
        print(printable_lines(text), file=sys.stdout)

    def sentence(self, text: str, *, indent: str = "") -> None:
        """A sentence for people, folded on a terminal; all its lines but the first are indented."""
        self._write_sentence(text, sys.stdout, indent)

    def report(self, text: str) -> None:
        """A sentence about a plan or a difference, folded on a terminal."""
        self._write_sentence(text, self.report_stream)

    def report_row(self, action: str, title: str, colour: str) -> None:
        """A row of a plan, what is done with it first; folded on a terminal."""
        stream, start = self.report_stream, f"{action:<9}"
        first, *rest = _folded(f"{start}  {printable(title)}", stream, " " * (len(start) + 2))
        print(paint(start, colour, stream) + first[len(start) :], *rest, sep="\n", file=stream)

    def in_words(self, text: str, *, as_of: str | None = None, is_past: bool = False) -> str:
        """A text of the admin with distances in place of its times; wide output has the times themselves.

        They are counted from now, or from the time that the text tells of. With `is_past` it tells of what was.
        """
        from ctl.cli.sentences import with_distances
        from ctl.client.times import parse_timestamp

        if not self.is_table:
            return text
        return with_distances(text, is_wide=self.is_wide, now=parse_timestamp(as_of), is_past=is_past)

    def _write_sentence(self, text: str, stream: IO[str], indent: str = "", colour: str | None = None) -> None:
        shown = printable_lines(self.in_words(text))
        is_data = stream is sys.stdout and not self.is_table
        # Without a terminal only what is told of one thing is folded; a note or warning beside it is one line.
        width = self.width if self.is_table and stream is sys.stdout else None
        lines = [shown] if is_data else _folded(shown, stream, indent, width)
        print(*(paint(line, colour, stream) if colour else line for line in lines), sep="\n", file=stream)

    def text(self, text: str) -> None:
        """Data that brings its own line ends."""
        sys.stdout.write(text)

    def note(self, text: str) -> None:
        """A remark beside the data; not with --quiet."""
        if not self.is_quiet:
            # A line that goes on is indented, so that none passes for another message.
            self._write_sentence(text, sys.stderr, indent="  ")

    def note_absence(self, text: str) -> None:
        """That a list is empty; and where that may be so only for this caller, of what."""
        self.note(re.sub(r"(?=[.:;])", " that you may see", text, count=1) if self.is_partial() else text)

    def instruction(self, text: str) -> None:
        """What a person must do now; with --quiet too."""
        self._write_sentence(text, sys.stderr, indent="  ")

    def warning(self, text: str) -> None:
        """A warning; with --quiet too."""
        self._write_sentence(f"warning: {text}", sys.stderr, indent="  ", colour="yellow")

    def warnings(self, warnings: Iterable[Mapping[str, Any]], already_shown: Iterable[Mapping[str, Any]] = ()) -> None:
        """The warnings of an answer, without those that were shown already."""
        from ctl.client.answers import warning_text

        shown = {warning_text(warning) for warning in already_shown}
        for text in map(warning_text, warnings):
            if text not in shown:
                self.warning(text)

    def document(self, document: Any) -> None:
        """An answer as JSON or YAML."""
        self.text(to_json(document) if self.format == "json" else to_yaml(document))

    def machine_output(self, names: Iterable[str], document: Any) -> bool:
        """
        Print an answer for a program: names with `-o name`, the document with `-o json|yaml`.

        False where a person reads the answer: nothing is printed, the table is up to the caller.
        """
        if self.is_table:
            return False
        if self.format == "name":
            for name in names:
                self.line(name)
        else:
            self.document(document)
        return True

    def stream(self, names: Iterable[str], documents: Iterable[Any]) -> bool:
        """As `machine_output`, for an answer that may go on: each document by itself."""
        if self.is_table or self.format == "name":
            return self.machine_output(names, None)
        for document in documents:
            self.text("---\n" if self.format == "yaml" else "")
            self.document(document)
        return True

    def show(
        self,
        names: Iterable[str],
        rows: Sequence[Any],
        document: Any,
        columns: Columns,
        wide: Columns | None = None,
        *,
        empty: str = "",
    ) -> None:
        """
        Print an answer in the requested format: names, the document unchanged, or a table of its rows.

        `empty` is noted where there are no rows for a table.
        """
        if self.machine_output(names, document):
            return
        if rows:
            self.rows(rows, columns, wide)
        elif empty:
            self.note_absence(empty)

    def rows(self, rows: Sequence[Any], columns: Columns, wide: Columns | None = None) -> None:
        """A table of rows; `wide` are the columns that `-o wide` adds."""
        table = {**columns, **((wide or {}) if self.is_wide else {})}
        self.table(list(table), [[self._cell(row, column) for column in table.values()] for row in rows])

    def _cell(self, row: Any, column: Column) -> str:
        if isinstance(column, Time):
            return self.when(cell_text(row, column.field), is_ahead=column.is_ahead, is_due=column.is_due)
        if isinstance(column, Sentence):
            return self.in_words(cell_text(row, column.field), is_past=column.is_past)
        return cell_text(row, column)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """
        A table: on a terminal as wide as that, plain aligned columns of one line a row anywhere else.

        On a terminal a long last column is folded; where that is not enough, the widest columns are lines below
        each row.
        """
        cells = [[printable(cell) for cell in row] for row in rows]
        header = list(columns) if self.has_headers else None
        width = _terminal_width() if sys.stdout.isatty() else self.width
        if width is None or not cells:
            table = plain_table(header, cells)
        elif _has_room(columns, cells, width):
            table = folded_table(header, cells, width)
        else:
            table = stacked_table(list(columns), cells, width)
            table = table if header else table.partition("\n")[2]
        if header and has_colour(sys.stdout):
            from ctl.cli.state_colours import paint_states

            first, end, rest = table.partition("\n")
            table = f"{_bold(first)}{end}{paint_states(first, rest)}"
        sys.stdout.write(table)


def field_value(row: Any, field: Field) -> Any:
    """What a row has in a field."""
    return row.get(field) if isinstance(field, str) else field(row)


def cell_text(row: Any, field: Field) -> str:
    """The text of one cell; empty where the row has nothing to show."""
    value = field_value(row, field)
    return "" if value is None else str(value)


def id_part(key: str) -> Field:
    """A column: one part of the row's id."""
    return lambda row: row["id"].get(key)


def text_cells(document: Mapping[str, Any], *keys: str) -> list[str]:
    """Cells of plain fields; empty where there is none."""
    return [cell_text(document, key) for key in keys]


def plain_table(header: list[str] | None, rows: list[list[str]]) -> str:
    """Columns two spaces apart, never cut; empty cells are `-`, so that columns can be counted."""
    lines = ([header] if header else []) + [[cell or "-" for cell in row] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(lines[0]))] if lines else []
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


#: The columns that stay in a row for longest, and are alone in colours; the name is the last one to go.
_LASTING = {"PHASE": 1, "STATE": 1, "NAME": 2}


def stacked_table(header: list[str], rows: list[list[str]], width: int) -> str:
    """A plain table whose widest columns are lines below each row, until the others fit a width.

    Columns without anything in them are left out before, and a name, phase or state stays beside the first column while
    it can. The first column is folded where it is too wide alone.
    """
    from ctl.cli.sentences import fold

    lines = [header, *([cell or "-" for cell in row] for row in rows)]
    widths = {index: max(len(line[index]) for line in lines) for index in range(len(header))}
    empty = [index for index in widths if index and not any(row[index] for row in rows)]
    while len(widths) > 1 and sum(widths.values()) + 2 * (len(widths) - 1) > width:
        widest = max(list(widths)[1:], key=lambda index: (-_LASTING.get(header[index], 0), widths[index], index))
        widths.pop(empty.pop() if empty else widest)
    table = plain_table([header[index] for index in widths], [[row[index] for index in widths] for row in rows])
    first, *others = table.splitlines(keepends=True)
    if len(widths) == 1:
        others = ["".join(f"{part}\n" for part in fold(line.rstrip("\n"), width, indent="    ")) for line in others]
    below = [index for index in range(len(header)) if index not in widths]
    stacked = (
        line + "".join(_below(header[index], row[index], width) for index in below if row[index])
        for line, row in zip(others, rows, strict=True)
    )
    return first + "".join(stacked)


def folded_table(header: list[str] | None, rows: list[list[str]], width: int) -> str:
    """A plain table whose last column is folded to a width; the others leave enough room for it."""
    from ctl.cli.sentences import fold

    cells = [*([header] if header else []), *([cell or "-" for cell in row] for row in rows)]
    room = width - sum(max(len(row[index]) for row in cells) + 2 for index in range(len(cells[0]) - 1))
    lines = []
    for *others, last in cells:
        first, *more = fold(last, room)
        lines += [[*others, first], *([*[" "] * len(others), line] for line in more)]
    return plain_table(None, lines)


def _below(name: str, cell: str, width: int) -> str:
    from ctl.cli.sentences import fold

    return "".join(f"  {line}\n" for line in fold(f"{name}: {cell}", width - 2, indent="  "))


def _folded(text: str, stream: IO[str], indent: str, width: int | None = None) -> list[str]:
    """The lines of a text: folded on a terminal, or to a width anywhere else if one is given."""
    from ctl.cli.sentences import fold

    if stream.isatty():
        width = min(_terminal_width(), FOLDED_WIDTH)
    return [text] if width is None else fold(text, width, indent=indent)


def _terminal_width() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _has_room(columns: Sequence[str], rows: list[list[str]], width: int) -> bool:
    """Whether a width is enough to fold only the last column, without breaking a word of it."""
    widths = [max(len(line[index]) for line in [columns, *rows]) + 2 for index in range(len(columns) - 1)]
    longest = max((len(word) for row in rows for word in row[-1].replace(",", ", ").split()), default=0)
    return sum(widths) <= width * 2 // 3 and sum(widths) + longest <= width


def has_colour(stream: IO[str]) -> bool:
    """Whether colours and bold letters may be used: on a terminal, unless NO_COLOR says no."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: IO[str]) -> str:
    import click

    return click.style(text, fg=colour) if has_colour(stream) else text


def _bold(text: str) -> str:
    import click

    return click.style(text, bold=True) if has_colour(sys.stdout) else text


def print_error(error: RainbowError, *, as_json: bool, is_wide: bool = False) -> None:
    """An error, once, on stderr; with its times as `Printer.in_words` shows them."""
    from ctl.cli.sentences import with_distances

    if as_json:
        sys.stderr.write(to_json(error.document()))
        return
    first, *rest = (printable_lines(with_distances(line, is_wide=is_wide)) for line in error.lines())
    start, *more = _folded(f"error: {first}", sys.stderr, "  ")
    more += [part for line in rest for part in _folded(line, sys.stderr, "    ")]
    print(f"{paint('error:', 'red', sys.stderr)}{start.removeprefix('error:')}", *more, sep="\n", file=sys.stderr)
