"""Results: the figures of a run, saved as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine
from bench.figures import Figure, Figures
from bench.promises import Promise

STANDARD, LARGE = (Path(__file__).with_name(name) for name in ("results.json", "results-large.json"))
_OF_BENCH = "results-of-{}.json"


def of_benches(names: list[str]) -> Path:
    """The file of a run of some benches only."""
    return STANDARD.with_name(_OF_BENCH.format("-".join(names)))


def of_all_benches() -> list[Path]:
    """The files of runs of some benches, the oldest first."""
    return sorted(STANDARD.parent.glob(_OF_BENCH.format("*")), key=lambda path: path.stat().st_mtime)


def save(path: Path, figures: Figures, promises: list[Promise]) -> None:
    """Write everything that was measured; a figure with a ceiling also says what part of it that is."""
    document: dict[str, Any] = {
        "machine": machine.described(),
        "figures": [_document(figures, figure) for figure in figures.all],
        "promises": [asdict(promise) for promise in promises],
    }
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def _document(figures: Figures, figure: Figure) -> dict[str, Any]:
    fields = asdict(figure) | {"of_ceiling": figures.share(figure)}
    return {name: value for name, value in fields.items() if value is not None}


def load(path: Path) -> tuple[dict[str, str], Figures, list[Promise]]:
    """The machine, the figures and the promises of a file."""
    document = json.loads(path.read_text())
    for figure in document["figures"]:
        figure.pop("of_ceiling", None)
    figures = Figures(Figure(**figure) for figure in document["figures"])
    return document["machine"], figures, [Promise(**promise) for promise in document["promises"]]
