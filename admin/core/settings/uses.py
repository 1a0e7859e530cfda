"""Uses: which payloads contain a name or a value, and whether a scope has it from there."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from admin.core.comparisons import COMPARISONS
from admin.core.problems import Path
from admin.core.quantities import parse_quantity
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.platform import PlatformDefaults
from admin.core.settings.resolution import Row, effective_value
from admin.core.settings.scopes import Origin, Scope


@dataclass(frozen=True, kw_only=True)
class Sought:
    """What payloads of a kind are searched for: one of some values, of one leaf or of any."""

    kind: Kind
    path: Path | None = None  #: None for any leaf
    values: frozenset[str] | None = None  #: as texts; None for any value
    comparison: str = ""  #: one of `COMPARISONS`, where amounts are searched for that compare so with the value

    def find(self, payload: Payload) -> dict[Path, Any]:
        """The leaves of a payload that contain it."""
        return {
            path: value
            for path, value in self.kind.leaves(payload).items()
            if self.path in (None, path) and self._has(path, value)
        }

    @cached_property
    def worths(self) -> frozenset[Any]:
        """What the values are worth, where the leaf is an amount; else nothing."""
        path = self.path
        if path is None:
            return frozenset()
        worths = {value: self.kind.worth(path, value) for value in self.values or ()}
        return frozenset(worth for value, worth in worths.items() if worth != value)

    @cached_property
    def amounts(self) -> frozenset[float | Fraction]:
        """What the values amount to, as far as they are amounts."""
        amounts = {amount_of(self.kind, self.path or (), value) for value in self.values or ()}
        return frozenset(amount for amount in amounts if amount is not None)

    def _has(self, path: Path, value: Any) -> bool:
        if self.values is None:
            return True
        if self.comparison:
            amounts = (amount_of(self.kind, path, text) for text in _texts(value))
            compares = COMPARISONS[self.comparison]
            return any(compares(amount, other) for amount in amounts if amount is not None for other in self.amounts)
        if not self.values.isdisjoint(_texts(value)):
            return True
        return bool(self.worths) and self.kind.worth(path, value) in self.worths

    def origins_at(self, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformDefaults) -> set[Origin]:
        """Where a scope has it from, from the rows of the kind that apply there; nothing where it has it not."""
        effective = effective_value(self.kind, scope, rows, platform)
        origins = {effective.origins[path] for path in self.find(effective.value)}
        if self.kind.is_quota:
            applying = (rows[place] for place in scope.chain() if place in rows)
            origins |= {Origin(row.scope, row.version) for row in applying if self._bounds(row)}
        return origins

    def _bounds(self, row: Row) -> bool:
        """Whether a row has it in a leaf that holds whatever more specific rows say."""
        return any(map(self.kind.is_bound, self.find(row.payload)))


def amount_of(kind: Kind, path: Path, text: str) -> float | Fraction | None:
    """The number that a text amounts to in a leaf; None for what is no amount."""
    worth = kind.worth(path, text)
    if isinstance(worth, Fraction):
        return worth
    # Variables of templates are texts that hold quantities.
    parsers: list[Callable[[str], float | Fraction]] = [float] if _is_time(kind, path) else [parse_quantity, float]
    for parse in parsers:
        with contextlib.suppress(ValueError):
            amount = parse(text)
            return amount if math.isfinite(amount) else None
    return None


def _is_time(kind: Kind, path: Path) -> bool:
    """Whether a leaf is a length of time: `10M` is none, though it is a quantity."""
    return isinstance(kind.worth(path, "1s"), Fraction)


def _texts(value: Any) -> Iterator[str]:
    """The texts of all values that a leaf holds: of each entry of a list or record, however deep."""
    entries = value if isinstance(value, list) else value.values() if isinstance(value, Mapping) else None
    if entries is None:
        yield leaf_text(value)
    else:
        for entry in entries:
            yield from _texts(entry)


def leaf_text(value: Any) -> str:
    """The text by which a value is searched."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
