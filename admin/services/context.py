"""What every service needs: settings, the database, and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from admin.settings import Settings
from admin.store.database import Database
from admin.store.fleet import Fleets
from admin.store.heads import Heads
from admin.store.news import News


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One admin's settings, database and clock."""

    settings: Settings
    database: Database
    heads: Heads  #: of revisions
    happenings: Heads  #: of executions
    news: News  #: of clusters
    fleets: Fleets = field(default_factory=Fleets)
    clock: Callable[[], datetime] = system_clock
