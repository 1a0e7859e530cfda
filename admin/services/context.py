"""What every service needs: settings, the database, and the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from admin.configuration import Settings
from admin.core.settings.effective_text import EffectiveTexts
from admin.services.creation_cache import CreationCache
from admin.store.cache.cluster_wakeups import ClusterWakeups
from admin.store.cache.index import Index
from admin.store.cache.revision_watcher import RevisionWatcher
from admin.store.creations import Creation, Outcome
from admin.store.database import Database
from admin.store.fleet import Fleets
from admin.store.group_commit import GroupCommit
from admin.store.tokens import KnownTokens


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True)
class Context:
    """One admin's settings, database and clock."""

    settings: Settings
    database: Database
    heads: RevisionWatcher  #: of revisions
    execution_events: RevisionWatcher  #: of executions
    news: ClusterWakeups  #: of clusters
    index: Index  #: of settings
    effective_texts: EffectiveTexts
    creations: GroupCommit[Creation, Outcome]
    fleets: Fleets = field(default_factory=Fleets)
    recollection: CreationCache = field(default_factory=CreationCache)
    tokens: KnownTokens = field(default_factory=KnownTokens)
    clock: Callable[[], datetime] = system_clock
