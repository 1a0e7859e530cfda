"""Pictures: how figures grow, one panel for each of them."""

from __future__ import annotations

from pathlib import Path

import matplotlib

from bench.figures import Figure, Figures

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "rainbow"  # the same figures make the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # letters, not their outlines
matplotlib.rcParams["font.size"] = 9

from matplotlib import pyplot  # noqa: E402

_COLOURS = {"sqlite": "#0b6e99", "postgresql": "#c25a00"}
_COLUMNS = 3
_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def draw(figures: Figures, bench: str, stored: str, path: Path) -> None:
    """Draw every curve of a bench; `stored` says what there is more of to the right."""
    curves = figures.curves(bench)
    titles = list(dict.fromkeys(what for what, _ in curves))
    rows = -(-len(titles) // _COLUMNS)
    picture, grid = pyplot.subplots(rows, _COLUMNS, figsize=(3.4 * _COLUMNS, 2.7 * rows), squeeze=False)
    panels = list(grid.flat)
    for panel in panels[len(titles) :]:
        panel.axis("off")
    for panel, what in zip(panels, titles, strict=False):
        drawn = [curves[what, database] for database in _NAMES if (what, database) in curves]
        for curve in drawn:
            database = curve[0].database
            values = [figure.value for figure in curve]
            panel.plot(_sizes(curve), values, marker="o", color=_COLOURS[database], label=_NAMES[database])
        unit = drawn[0][0].unit
        panel.set_title(what, fontsize=9)
        panel.set_xscale("symlog", linthresh=1000)
        panel.set_xticks(_sizes(drawn[0]), labels=[_short(size) for size in _sizes(drawn[0])], minor=False)
        panel.set_xticks([], minor=True)
        panel.set_xlabel(stored)
        panel.set_ylabel("a second" if unit == "/s" else unit)
        panel.set_ylim(0, 1.2 * max(figure.value for curve in drawn for figure in curve))
        panel.grid(alpha=0.3)
    panels[0].legend(frameon=False)
    picture.tight_layout()
    picture.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(picture)


def _sizes(curve: list[Figure]) -> list[int]:
    return [figure.size or 0 for figure in curve]


def _short(size: int) -> str:
    """A size in two or three letters."""
    return f"{size / 1e6:.0f}M" if size >= 1e6 else f"{size / 1e3:.0f}k" if size >= 1e3 else str(size)
