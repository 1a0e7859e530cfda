"""Comparisons of amounts and times, by the names that filters have for them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
