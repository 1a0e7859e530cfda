"""Saying on stderr what takes time: a spinner on a terminal, a plain line anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctl.cli.output import Printer

if TYPE_CHECKING:
    from rich.progress import Progress

#: From how many documents on a plain line is worth it.
MANY = 100


@contextmanager
def step(printer: Printer, text: str, number: int = 0) -> Iterator[None]:
    """
    Say that something is being done for as long as it is; nothing with --quiet.

    `number` is how many things it is done to; without a terminal a few are not worth a line.
    """
    if sys.stderr.isatty() and not printer.is_quiet:
        with _spinner(text):
            yield
        return
    if number >= MANY:
        printer.note(f"{text}…")
    yield


@contextmanager
def counted(printer: Printer, text: str, number: int) -> Iterator[Callable[[int], None]]:
    """As `step`, with a bar where there are many: call what it yields with how many more are done."""
    if number < MANY or printer.is_quiet or not sys.stderr.isatty():
        with step(printer, text, number):
            yield lambda done: None
        return
    with _spinner(text, number) as progress:
        yield lambda done: progress.advance(progress.task_ids[0], done)


def _spinner(text: str, number: int | None = None) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = [BarColumn(), MofNCompleteColumn()] if number is not None else []
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), *bar, TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(text, total=number)
    return progress
