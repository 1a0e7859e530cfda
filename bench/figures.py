"""Figures: measurements, each with the ceiling it is compared to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.load import Rate


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One thing that was measured."""

    bench: str
    what: str
    value: float
    unit: str = "/s"
    database: str = ""
    p50: float | None = None  #: milliseconds
    p99: float | None = None
    failures: int | None = None
    size: int | None = None  #: how much was stored, for what grows with it
    ceiling: str = ""  #: what it should come near to, of the same bench and database

    @property
    def name(self) -> str:
        """What it is, with how much was stored."""
        return self.what if self.size is None else f"{self.what}, {self.size:,} stored"


def rate_figure(bench: str, what: str, database: str, rate: Rate, ceiling: str = "", size: int | None = None) -> Figure:
    """A rate that a load measured."""
    return Figure(
        bench=bench,
        what=what,
        database=database,
        value=rate.per_second,
        p50=rate.p50,
        p99=rate.p99,
        failures=rate.failures,
        ceiling=ceiling,
        size=size,
    )


class Figures:
    """Everything that one run measured."""

    def __init__(self, all: Iterable[Figure]) -> None:
        self.all = list(all)
        self._by_key = {
            (figure.bench, figure.what, figure.database): figure for figure in self.all if figure.size is None
        }

    def find(self, bench: str, what: str, database: str = "") -> Figure | None:
        """One figure, None where it was not measured."""
        return self._by_key.get((bench, what, database))

    def of(self, bench: str) -> Iterator[Figure]:
        """The figures of a bench."""
        return (figure for figure in self.all if figure.bench == bench)

    def value(self, bench: str, what: str, database: str = "") -> float | None:
        """The value of one figure, None where it was not measured."""
        figure = self.find(bench, what, database)
        return None if figure is None else figure.value

    def curves(self, bench: str) -> dict[tuple[str, str], list[Figure]]:
        """Figures by size, keyed by what was measured and the database; the smallest size first."""
        curves: dict[tuple[str, str], list[Figure]] = {}
        for figure in sorted(self.all, key=lambda figure: figure.size or 0):
            if figure.bench == bench and figure.size is not None:
                curves.setdefault((figure.what, figure.database), []).append(figure)
        return curves

    def share(self, figure: Figure) -> float | None:
        """What part of its ceiling a figure reaches."""
        ceiling = self.find(figure.bench, figure.ceiling, figure.database) if figure.ceiling else None
        return figure.value / ceiling.value if ceiling and ceiling.value else None
