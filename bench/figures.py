"""Figures: what was measured, and beside what it stands."""

from __future__ import annotations

from collections.abc import Iterable
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
        self._by_key = {(one.bench, one.what, one.database): one for one in self.all if one.size is None}

    def find(self, bench: str, what: str, database: str = "") -> Figure | None:
        """One figure, None where it was not measured."""
        return self._by_key.get((bench, what, database))

    def value(self, bench: str, what: str, database: str = "") -> float | None:
        """The value of one figure, None where it was not measured."""
        found = self.find(bench, what, database)
        return None if found is None else found.value

    def curves(self, bench: str) -> dict[tuple[str, str], list[Figure]]:
        """What grows, by what it is and the database; the smallest first."""
        found: dict[tuple[str, str], list[Figure]] = {}
        for one in sorted((one for one in self.all if one.bench == bench), key=lambda one: one.size or 0):
            if one.size is not None:
                found.setdefault((one.what, one.database), []).append(one)
        return found

    def share(self, figure: Figure) -> float | None:
        """What part of its ceiling a figure reaches."""
        ceiling = self.find(figure.bench, figure.ceiling, figure.database) if figure.ceiling else None
        return figure.value / ceiling.value if ceiling and ceiling.value else None
