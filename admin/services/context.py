"""What every service needs: settings, the database, and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from admin.core.effective_texts import EffectiveTexts
from admin.services.recollections import Recollection
from admin.settings import Settings
from admin.store.creations import Creation, Outcome
from admin.store.database import Database
from admin.store.fleet import Fleets
from admin.store.heads import Heads
from admin.store.index import Index
from admin.store.joint_writes import JointWrites
from admin.store.news import News
from admin.store.tokens import KnownTokens


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
    index: Index  #: of settings
    effective_texts: EffectiveTexts
    creations: JointWrites[Creation, Outcome]
    fleets: Fleets = field(default_factory=Fleets)
    recollection: Recollection = field(default_factory=Recollection)
    tokens: KnownTokens = field(default_factory=KnownTokens)
    clock: Callable[[], datetime] = system_clock
