"""Tables: figures as people read them, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Figures
from bench.promises import Promise

_TITLE = "16 connections on loopback, load and servers on the same cores"
KEPT = {True: "yes", False: "NO", None: ""}
COLUMNS = ("bench", "database", "what", "figure", "of", "ceiling", "p50 ms", "p99 ms", "failures")


def show(figures: Figures) -> None:
    """Print everything that was measured."""
    table = Table(title=_TITLE, title_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("bench", "database", "what", "ceiling") else "right")
    for figure in figures.all:
        table.add_row(*cells(figures, figure))
    Console(width=160).print(table)


def show_promises(promises: list[Promise]) -> None:
    """Print each promise with the figure that was measured."""
    table = Table(title="Promises, by the same run", title_justify="left")
    for name in ("promise", "measured", "kept?"):
        table.add_column(name, justify="right" if name == "measured" else "left")
    for promise in promises:
        table.add_row(promise.promise, promise.measured, KEPT[promise.kept])
    Console(width=160).print(table)


def cells(figures: Figures, figure: Figure) -> list[str]:
    """A figure as one row."""
    share = figures.share(figure)
    return [
        figure.bench,
        figure.database,
        figure.name,
        shown(figure),
        "" if share is None else f"{share:.2f} ×",
        "" if share is None else figure.ceiling,
        _milliseconds(figure.p50),
        _milliseconds(figure.p99),
        "" if figure.failures is None else str(figure.failures),
    ]


def shown(figure: Figure) -> str:
    """A figure with its unit; nothing where nothing was measured."""
    if not figure.unit:
        return ""
    digits = 0 if figure.value >= 100 else 1 if figure.value >= 10 else 2
    return f"{figure.value:,.{digits}f} {figure.unit}".replace(" /s", "/s")


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
