"""Saying on stderr what takes time: a spinner on a terminal, a plain line anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ctl.output import Printer

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


def _spinner(text: str) -> Any:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(text, total=None)
    return progress
