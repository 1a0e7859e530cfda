"""The terms of a run: how long it may take, and what becomes of it if its cluster is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from admin.core.executions.attempts import time_limit_seconds
from admin.core.executions.retries import Retries


class RunTerms(NamedTuple):
    """What lists show of an execution's job and retry policy."""

    on_lost: str
    time_limit_seconds: float | None  #: None for as long as it takes

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> RunTerms:
        """The terms of an execution with this content."""
        return cls(Retries.of(content.get("retry")).on_lost, time_limit_seconds(content))
