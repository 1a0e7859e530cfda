"""The index: every attribute and project in memory, as of one revision.

A read waits for nothing but the revisions it does not know yet. What this admin itself has written is seen at once,
for it is announced; what another replica wrote, within `STALE_SECONDS`.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, Text, cast, func, select
from sqlalchemy.exc import SQLAlchemyError

from admin.core.changes import RowChange
from admin.core.json_text import json_value
from admin.core.projects import Project, project_changes
from admin.core.settings.effective_text import PackedRows, Shapes, unpack_rows
from admin.core.settings.kinds import Kind, Kinds
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.store import projects, revisions
from admin.store.attributes import attributes
from admin.store.cache.shared_counter import SharedCounter
from admin.store.database import Database

_log = logging.getLogger("rainbow.index")

#: How long a revision of another replica may go unseen.
STALE_SECONDS = 0.1
#: So few rows are loaded while somebody waits; more of them while the database itself is asked.
_FEW_ROWS = 20_000
_RETRY_SECONDS = 1.0
_CHUNK = 10_000


class Applying:
    """What applies at a scope, as of one revision."""

    def __init__(self, revision: int, project: Project | None, scope: Scope, said: Sequence[PackedRows]) -> None:
        self.revision = revision
        self.project = project
        self.said = said  #: at each scope of the chain
        self._scope = scope

    def rows(self, kinds: Iterable[Kind]) -> dict[str, dict[Scope, Row]]:
        """The same as rows, by the names of their kinds."""
        found: dict[str, dict[Scope, Row]] = {kind.name: {} for kind in kinds}
        for place, said in zip(self._scope.chain(), self.said, strict=True):
            for shape, version, payload in unpack_rows(said):
                name = shape.kind.name
                if name in found:
                    found[name][place] = Row(kind=name, scope=place, payload=json_value(payload), version=int(version))
        return found


class Index:
    """Settings in memory, kept current by revision."""

    def __init__(self, database: Database, shared_counter: SharedCounter, kinds: Kinds) -> None:
        self._database = database
        self._shared_counter = shared_counter
        self._shapes = Shapes(kinds)
        self._reading = threading.Lock()  #: held for moments, so that nobody sees half of a revision
        self._catching_up = threading.Lock()
        self._places: dict[str, PackedRows] | None = None  #: None while there is nothing whole to answer from
        self._projects: dict[str, Project] = {}
        self._revision = -1
        self._checked_at = 0.0
        self._retry_at = 0.0
        self._starting = threading.Lock()
        self._loader: threading.Thread | None = None

    @property
    def revision(self) -> int:
        """The last revision it knows, -1 before it is loaded."""
        return self._revision if self._places is not None else -1

    @property
    def size(self) -> int:
        """How many scopes have something."""
        places = self._places
        return 0 if places is None else len(places)

    def announce(self, number: int) -> None:
        """A revision has been committed here: no worker of this admin answers without it from now on."""
        self._shared_counter.announce(number)

    def current(self) -> int | None:
        """The revision it is at, with nothing missing; None while it cannot say."""
        return self._revision if self._is_current() else None

    def applying(self, scope: Scope) -> Applying | None:
        """The rows at a scope and at every broader one; None while the index cannot say, so that the database must."""
        if not self._is_current():
            return None
        paths = scope.paths()
        with self._reading:
            places = self._places
            if places is None:
                return None
            said = [places.get(path, ()) for path in paths]
            revision, project = self._revision, self._projects.get(scope.project)
        return Applying(revision, project, scope, said)

    def project(self, project_id: str) -> Project | None:
        """A project; None where there is none, or the index cannot say."""
        if not self._is_current():
            return None
        with self._reading:
            return self._projects.get(project_id)

    def catch_up(self) -> None:
        """Learn of every revision that is committed by now."""
        self._checked_at = 0.0
        self._is_current()

    def start(self) -> None:
        """Load in the background."""
        with self._starting:
            if self._places is None and not self._is_loading():
                self._loader = threading.Thread(target=self._load_soon, name="index", daemon=True)
                self._loader.start()

    def _is_current(self) -> bool:
        """Make sure that nothing is missing; False where that cannot be."""
        now = time.monotonic()
        if self._places is not None and self._revision >= self._shared_counter.latest():
            if now - self._checked_at < STALE_SECONDS:
                return True
        elif self._places is None and (now < self._retry_at or self._is_loading()):
            return False
        try:
            return self._refresh()
        except SQLAlchemyError:
            self._retry_at = now + _RETRY_SECONDS
            return False  # whoever asks the database instead finds out what is wrong

    def _is_loading(self) -> bool:
        return self._loader is not None and self._loader.is_alive()

    def _refresh(self) -> bool:
        asked_at = time.monotonic()
        with self._catching_up:
            if self._checked_at >= asked_at:
                return self._places is not None  # somebody else has just looked
            begun_at = time.monotonic()
            with self._database.reading() as connection:
                if self._places is not None and not self._catch_up(connection):
                    self._drop()
                is_small = self._places is None and _is_small(connection)
                if is_small:
                    self._load(connection)
            self._checked_at = begun_at
        if self._places is None:
            self.start()
        return self._places is not None

    def _catch_up(self, connection: Connection) -> bool:
        """Apply the revisions that came since; False where some of them are not kept any more."""
        head = revisions.head(connection)
        if head == self._revision:
            return True
        if revisions.count_above(connection, self._revision) != head - self._revision:
            return False
        changes = list(revisions.changes_above(connection, self._revision))
        named = list(project_changes(changes))
        known = projects.some(connection, named) if named else {}
        with self._reading:
            self._apply(changes)
            for project_id in named:
                self._projects.pop(project_id, None)
            self._projects |= known
            self._revision = head
        return True

    def _apply(self, changes: Iterable[RowChange]) -> None:
        assert self._places is not None
        for change in changes:
            if not change.is_attribute:
                continue
            key = change.scope.path
            said = _without(self._places.get(key, ()), change.kind)
            found = None if change.after is None else self._shapes.of(change.kind, change.after)
            if found is not None:
                shape, payload = found
                said = (*said, shape, b"%d" % change.revision, payload)
            if said:
                self._places[key] = said
            else:
                self._places.pop(key, None)

    def _load_soon(self) -> None:
        try:
            with self._catching_up, self._database.reading() as connection:
                self._load(connection)
        except SQLAlchemyError:
            _log.exception("the index could not be loaded; the database is asked instead")
            self._retry_at = time.monotonic() + _RETRY_SECONDS

    def _load(self, connection: Connection) -> None:
        """Everything, from one picture of the database; nothing is answered from it before it is whole."""
        begun_at = time.monotonic()
        head = revisions.head(connection)
        places: dict[str, PackedRows] = {}
        read = lru_cache(maxsize=_CHUNK)(self._shapes.read)  # many rows say the same, which is kept once
        written = lru_cache(maxsize=_CHUNK)(b"%d".__mod__)
        for kind, project, domain, workflow, launch_plan, version, text in connection.execute(_EVERYTHING):
            found = read(kind, text)
            if found is not None:
                key = f"{project}/{domain}/{workflow}/{launch_plan}"
                row = found[0], written(version), found[1]
                there = places.get(key)
                places[key] = row if there is None else there + row
        with self._reading:
            self._projects = {one.id: one for one in projects.every(connection)}
            self._places, self._revision, self._checked_at = places, head, begun_at
        if len(places) > _FEW_ROWS:
            gc.freeze()  # nothing of it is garbage, and looking at a million entries takes a while
        _log.info(
            "index loaded",
            extra={"scopes": len(places), "revision": head, "seconds": round(time.monotonic() - begun_at, 2)},
        )

    def _drop(self) -> None:
        with self._reading:
            self._places, self._projects, self._revision = None, {}, -1


_EVERYTHING: Select[Any] = select(
    *(attributes.c[name] for name in ("kind", "project", "domain", "workflow", "launch_plan", "version")),
    cast(attributes.c.payload, Text),
).execution_options(yield_per=_CHUNK)


def _without(said: PackedRows, kind: str) -> PackedRows:
    """What a scope has, but for one kind."""
    return tuple(part for row in unpack_rows(said) if row[0].kind.name != kind for part in row)


def _is_small(connection: Connection) -> bool:
    some = select(attributes.c.kind).limit(_FEW_ROWS + 1).subquery()
    return int(connection.execute(select(func.count()).select_from(some)).scalar_one()) <= _FEW_ROWS
