"""Leased executions as the rules of attempts and reports read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from admin.core.executions.lifecycle import Phase

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class LeasedExecution:
    """The fields of an execution that the rules read."""

    phase: str
    uid: str = "1234"
    lease_expires_at: datetime | None = NOW
    lease_instance: str = "i"
    cluster: str | None = "a"
    attempt: int = 2
    reason: str = "ASSIGNED"
    reason_message: str = "It goes to a."
    started_at: datetime | None = None
    confirmed: bool = True
    silent_since: datetime | None = None
    unstarted: int = 0
    native_id: str | None = "77"
    content: Mapping[str, Any] = field(default_factory=lambda: {"quality_of_service": {}})
    avoid: list[str] = field(default_factory=list)
    nodes: list[str] | None = field(default_factory=lambda: ["n1"])


def leased(
    phase: Phase, *, has_lease: bool = True, cluster: str | None = "a", attempt: int = 2, **more: Any
) -> LeasedExecution:
    until = NOW if has_lease else None
    return LeasedExecution(phase=phase.value, lease_expires_at=until, cluster=cluster, attempt=attempt, **more)
