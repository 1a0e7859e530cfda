"""What every service needs: settings, the database, caches and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from admin.configuration import Settings
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.seen_changes import SeenChanges
from admin.core.fleet.silence import Watch
from admin.core.graph.machines import Machines
from admin.core.graph.memory import MemoryBackend
from admin.core.memos import Memo
from admin.core.settings.effective_text.texts import EffectiveTexts
from admin.core.settings.warnings import KnownNames
from admin.services.access import UNRESTRICTED, Access
from admin.services.audit_queue import AuditQueue
from admin.services.live_answers import LiveAnswers
from admin.services.live_streams import LiveStreams
from admin.services.preparations import CreationCache
from admin.services.rates import RateLimiter
from admin.services.rendering_cache import RenderingCache
from admin.services.waiting import WaitLimiter
from admin.store.cache.cluster_wakeups import ClusterWakeups
from admin.store.cache.index import Index
from admin.store.cache.known_grants import KnownGrants
from admin.store.cache.known_rights import KnownRights
from admin.store.cache.launchables import Launchables
from admin.store.cache.watchers import SequenceWatcher
from admin.store.creations import Creation, CreationOutcome
from admin.store.database import Database
from admin.store.execution_lists import LIST_LIMITS, ListLimits
from admin.store.fleet import FleetCache
from admin.store.group_commit import GroupCommit
from admin.store.token_backends.base import TokenBackend
from admin.store.token_lookups import TokenLookups
from admin.store.tokens import TokenCache, TokenUses
from admin.store.use_grants import ProvenGroups
from admin.store.users import UserPresence
from admin.store.write_probe import WriteProbe


@dataclass(frozen=True, kw_only=True)
class Context:
    """One admin's settings, database, caches and clock."""

    settings: Settings
    database: Database
    revision_watcher: SequenceWatcher  #: of the numbers of revisions
    event_watcher: SequenceWatcher  #: of the ids of executions' events
    cluster_wakeups: ClusterWakeups
    wait_limiter: WaitLimiter
    rate_limiter: RateLimiter
    index: Index  #: attributes and projects in memory
    effective_texts: EffectiveTexts
    creations: GroupCommit[Creation, CreationOutcome]
    changes: GroupCommit[Any, Any]  #: of `ChangeRequest`s, which know the context and so cannot be known here
    write_probe: WriteProbe
    tokens: TokenBackend
    rendering_cache: RenderingCache  #: of cluster resources
    clock: Callable[[], datetime]  #: the same for all admins of a database
    live_streams: LiveStreams  #: of open pages of the console
    live_answers: LiveAnswers  #: to those
    fleet_cache: FleetCache = field(default_factory=FleetCache)
    #: By transactions that only read: the fleet with the latest reports, and as changes would leave it.
    worked_out_fleets: WeakKeyDictionary[Connection, dict[str, Fleet]] = field(default_factory=WeakKeyDictionary)
    machines: Machines = field(default_factory=lambda: Machines(MemoryBackend()))  #: of described clusters
    creation_cache: CreationCache = field(default_factory=CreationCache)
    known_names: Memo[KnownNames] = field(default_factory=Memo)  #: by the numbers of registrations and of the fleet
    launchables: Launchables = field(default_factory=Launchables)  #: by the number of registrations
    token_cache: TokenCache = field(default_factory=TokenCache)
    token_uses: TokenUses = field(default_factory=TokenUses)
    token_lookups: TokenLookups = field(default_factory=TokenLookups)
    user_presence: UserPresence = field(default_factory=UserPresence)
    audit_queue: AuditQueue = field(default_factory=AuditQueue)
    known_grants: KnownGrants = field(default_factory=KnownGrants)
    known_rights: KnownRights = field(default_factory=KnownRights)
    #: Of users, the number of changes that requests went by, and the groups that counted then by their proofs.
    noted_groups: dict[str, tuple[int | None, ProvenGroups]] = field(default_factory=dict)
    #: Those whose executions stood in line for tokens when this process answered their agents last.
    clusters_in_line: set[str] = field(default_factory=set)
    watch: Watch = field(default_factory=Watch)  #: of the clusters, by the process that does the background work
    seen_changes: SeenChanges = field(default_factory=SeenChanges)  #: of the fleet, by that process too
    list_limits: ListLimits = LIST_LIMITS
    access: Access = UNRESTRICTED  #: what the caller may see whose request is answered
    monotonic: Callable[[], float] = time.monotonic  #: for how long something takes or waits, whatever the clock does
    began_at: float = field(init=False)  #: by the monotonic clock

    def __post_init__(self) -> None:
        object.__setattr__(self, "began_at", self.monotonic())

    def seen_by(self, access: Access) -> Context:
        """The same admin as one caller sees it, with the same caches."""
        if access is self.access or not (access.is_restricted or self.access.is_restricted):
            return self
        view = copy(self)
        object.__setattr__(view, "access", access)
        return view

    @property
    def up_seconds(self) -> float:
        """For how long this process could have heard agents."""
        return self.monotonic() - self.began_at

    def close(self) -> None:
        """Wake every request that waits and end the threads that serve them."""
        for waiting in (
            self.revision_watcher,
            self.event_watcher,
            self.cluster_wakeups,
            self.token_uses,
            self.live_streams,
        ):
            waiting.close()
