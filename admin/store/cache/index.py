"""The index: every attribute and project in memory, as of one revision.

A read waits only for revisions that are not applied yet. What this admin has written is seen at once, for its workers
share a counter; what another replica wrote, within `STALE_SECONDS`.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Text, cast, func, select
from sqlalchemy.exc import SQLAlchemyError

from admin.core.changes import PROJECT, LastChange, MadeChange, RowKey
from admin.core.json_text import json_value
from admin.core.projects import Project
from admin.core.settings.effective_text.shapes import PackedRows, Shapes, unpack_rows
from admin.core.settings.kinds import Kind, Kinds
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.store import decision_basis, projects, revisions, row_changes
from admin.store.attributes import StoredAttribute, attributes
from admin.store.cache.recent_changes import RecentChanges
from admin.store.cache.shared_counter import SharedCounter
from admin.store.database import Database
from admin.store.decision_basis import DecisionBasis
from admin.store.dialects.postgresql import answering_soon
from admin.store.revisions import NewRevision
from admin.store.row_changes import MadeAbove
from admin.store.sql_types import AnySelect

_log = logging.getLogger("rainbow.index")

#: How long a revision of another replica may go unseen.
STALE_SECONDS = 0.1
#: Up to so many rows are loaded while a request waits; more of them in the background, while the database answers.
_FEW_ROWS = 20_000
_RETRY_SECONDS = 1.0
_CHUNK = 10_000

#: An attribute as the index reads it: kind, project, domain, workflow, launch plan, its payload as text, its version,
#: and its last change.
AttributeRow = tuple[str, str, str, str, str, str, int, datetime, str, str | None]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Applying:
    """What applies at a scope, as of one revision."""

    def __init__(self, revision: int, project: Project | None, scope: Scope, packed: Sequence[PackedRows]) -> None:
        self.revision = revision
        self.project = project
        self.packed = packed  #: the rows at each scope of the chain
        self._scope = scope

    def rows(self, kinds: Iterable[Kind]) -> dict[str, dict[Scope, StoredAttribute]]:
        """The rows of some kinds, by the names of these and by scope."""
        rows: dict[str, dict[Scope, StoredAttribute]] = {kind.name: {} for kind in kinds}
        for scope, packed in zip(self._scope.chain(), self.packed, strict=True):
            for row in _stored(scope, packed, rows):
                rows[row.kind][scope] = row
        return rows


class Index:
    """Settings in memory, kept current by revision."""

    def __init__(
        self,
        database: Database,
        shared_counter: SharedCounter,
        kinds: Kinds,
        *,
        few_rows: int = _FEW_ROWS,
        read_rows: Callable[[Connection], Iterable[AttributeRow]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.monotonic = monotonic  #: its clock
        self._database = database
        self._shared_counter = shared_counter
        self._few_rows = few_rows
        self._read_rows = read_rows or read_attributes
        self._shapes = Shapes(kinds)
        self._reading = threading.Lock()  #: held briefly, so that no reader sees half of a revision
        self._catching_up = threading.Lock()
        self._scopes: dict[str, PackedRows] | None = None  #: by path; None until all of them are loaded
        self._domains: set[str] = set()  #: the paths at domain level among them
        self._projects: dict[str, Project] = {}
        self._revision = -1
        self._made_at: datetime | None = None  #: when that revision was made
        self._recent = RecentChanges()  #: those that were applied
        self._checked_at = 0.0
        self._retry_at = 0.0
        self._current_at = 0.0  #: when the database was last seen to have nothing newer
        self._is_failing = False  #: the database could not be read when that was last tried
        self._failed_at = -1.0
        self._starting = threading.Lock()
        self._loader: threading.Thread | None = None

    @property
    def revision(self) -> int:
        """The last revision that is applied, -1 before the index is loaded."""
        return self._revision if self._scopes is not None else -1

    @property
    def size(self) -> int:
        """How many scopes have attributes."""
        scopes = self._scopes
        return 0 if scopes is None else len(scopes)

    def announce(self, number: int) -> None:
        """Announce a committed revision: no worker of this admin answers without it from now on."""
        self._shared_counter.announce(number)

    def current(self) -> int | None:
        """The current revision, after catching up with the database; None while that is not possible."""
        return self._revision if self._is_current() else None

    def applying(self, scope: Scope) -> Applying | None:
        """The rows at a scope and at every broader one; None while the index cannot answer, and the database must."""
        return self._applying(scope) if self._is_current() else None

    def stale(self, scope: Scope) -> tuple[Applying, float] | None:
        """What applied at a scope while the database could last be read, and how many seconds ago that was.

        None while the database can be read, and where this admin has written since: nobody reads what is older than
        what was answered to a writer.
        """
        if not self._is_failing or self._revision < self._shared_counter.latest():
            return None
        applied = self._applying(scope)
        return None if applied is None else (applied, self.monotonic() - self._current_at)

    def _applying(self, scope: Scope) -> Applying | None:
        paths = scope.paths()
        with self._reading:
            scopes = self._scopes
            if scopes is None:
                return None
            packed = [scopes.get(path, ()) for path in paths]
            revision, project = self._revision, self._projects.get(scope.project)
        return Applying(revision, project, scope, packed)

    def project(self, project_id: str) -> Project | None:
        """A project; None where there is none, or the index cannot answer."""
        return self.known_project(project_id) if self._is_current() else None

    def catch_up(self) -> None:
        """Apply every revision that is committed by now."""
        self._checked_at = 0.0
        self._is_current()

    def lock_and_catch_up(self, connection: Connection) -> tuple[int, DecisionBasis | None]:
        """Lock the head of the revisions for a transaction, and apply everything up to it.

        Answers the head, and the basis as of it; None where the index cannot come to it and the database must be read.
        `rows`, `domains` and `known_project` are then as of that head until the transaction ends.
        """
        revision = self.revision
        if revision < 0:
            return revisions.lock_head(connection), None
        basis, above = decision_basis.read_with_changes(connection, revision, lock=True)
        if not self._catching_up.acquire(timeout=_RETRY_SECONDS):
            return basis.revision, None
        try:
            if self.revision != revision and self.revision >= 0:  # another thread has caught up meanwhile
                basis, above = decision_basis.read_with_changes(connection, self._revision)
            if self.revision >= 0 and self._catch_up(connection, basis.revision, above):
                return basis.revision, basis
            self._drop()
            return basis.revision, None
        finally:
            self._catching_up.release()

    def apply(self, new: Sequence[NewRevision]) -> None:
        """Apply changes of attributes that were just committed; where one before them is missing, it is read later."""
        if not self._catching_up.acquire(blocking=False):
            return
        try:
            if self._scopes is not None and self._revision == new[0].number - 1:
                with self._reading:
                    made = {revision.number: revision.last_change for revision in new}
                    self._apply((change for revision in new for change in revision.made_changes), made)
                    self._revision, self._made_at = new[-1].number, new[-1].created_at
        except Exception:  # they are committed, so that no error of ours may be taken for theirs
            _log.exception("the index could not take a change and is loaded again")
            self._drop()
        finally:
            self._catching_up.release()

    def rows(self, kind: str, scopes: Iterable[Scope]) -> list[Row]:
        """The rows of a kind at some scopes, as of the last revision that is applied, without their last changes."""
        paths = [(scope, scope.path) for scope in scopes]
        with self._reading:
            known = self._scopes or {}
            packed = [(scope, known[path]) for scope, path in paths if path in known]
        return [
            Row(kind=kind, scope=scope, payload=json_value(payload), version=int(version))
            for scope, rows in packed
            for shape, version, payload, _, _ in unpack_rows(rows)
            if shape.kind.name == kind
        ]

    def domains(self) -> list[Scope]:
        """The scopes at domain level that have rows."""
        with self._reading:
            return [Scope(domain=path.split("/")[1]) for path in self._domains]

    def known_project(self, project_id: str) -> Project | None:
        """A project as of the last revision that is applied."""
        with self._reading:
            return self._projects.get(project_id)

    def mark(self) -> int | None:
        """The mark to ask with what has changed since; None before the index is loaded."""
        with self._reading:
            return None if self._scopes is None else self._recent.mark

    def changed_since(self, mark: int) -> list[RowKey] | None:
        """The rows of the changes that were applied since a mark; None where there are too many to know."""
        with self._reading:
            return self._recent.since(mark)

    def start(self) -> None:
        """Load in the background."""
        with self._starting:
            if self._scopes is None and not self._is_loading():
                self._loader = threading.Thread(target=self._load_soon, name="index", daemon=True)
                self._loader.start()

    def _is_current(self) -> bool:
        """Catch up if something may be missing; False where that is not possible."""
        now = self.monotonic()
        if self._is_failing and (now < self._retry_at or self._catching_up.locked()):
            return False  # one request finds out whether the database is back; the others do not wait for it
        if self._scopes is not None and self._revision >= self._shared_counter.latest():
            if now - self._checked_at < STALE_SECONDS:
                return True
        elif self._scopes is None and (now < self._retry_at or self._is_loading()):
            return False
        return self._refresh()

    def _is_loading(self) -> bool:
        return self._loader is not None and self._loader.is_alive()

    def _refresh(self) -> bool:
        asked_at = self.monotonic()
        with self._catching_up:
            if self._checked_at >= asked_at:
                return self._scopes is not None  # another thread has just caught up
            if self._failed_at >= asked_at:
                return False  # another thread has just failed; to wait as long again would tell no more
            begun_at = self.monotonic()
            try:
                with self._database.reading() as connection:
                    with answering_soon(connection):  # to catch up, or to load, may take longer
                        head, made_at = revisions.head_and_time(connection, self._revision)
                    if self._scopes is not None and not self._catch_up_if_behind(connection, head, made_at):
                        self._drop()
                    if self._scopes is None and _is_small(connection, self._few_rows):
                        self._load(connection)
            except SQLAlchemyError:
                self._is_failing, self._failed_at = True, self.monotonic()
                self._retry_at = self._failed_at + _RETRY_SECONDS
                return False  # the caller asks the database instead, and finds out what is wrong
            self._is_failing = False
            self._checked_at = self._current_at = begun_at
        if self._scopes is None:
            self.start()
        return self._scopes is not None

    def _catch_up_if_behind(self, connection: Connection, head: int, made_at: datetime | None) -> bool:
        """Catch up where the last revision is another one; `made_at` is when the applied one was made."""
        if head == self._revision:
            return made_at in (None, self._made_at)
        return self._catch_up(connection, head, row_changes.made_above(connection, self._revision, head))

    def _catch_up(self, connection: Connection, head: int, above: MadeAbove) -> bool:
        """Apply the revisions that were committed since, up to the last.

        False where some of them were pruned, or where the database has lost revisions and numbered others like them.
        """
        if above.made_at not in (None, self._made_at) or len(above.made) != head - self._revision:
            return False
        if not above.made:
            return True
        named = {change.key.scope.project for change in above.changes if change.key.kind == PROJECT}
        changed_projects = projects.get_many(connection, sorted(named)) if named else {}
        with self._reading:
            self._apply(above.changes, above.made)
            for project_id in named:
                self._projects.pop(project_id, None)
            self._projects |= changed_projects
            self._revision, self._made_at = head, above.made[head].updated_at
        return True

    def _apply(self, changes: Iterable[MadeChange], made: Mapping[int, LastChange]) -> None:
        assert self._scopes is not None
        for revision, key, after in changes:
            self._recent.add(key)
            if not key.is_attribute:
                continue
            path = key.scope.path
            packed = _without(self._scopes.get(path, ()), key.kind)
            shaped = None if after is None else self._shapes.of(key.kind, after)
            if shaped is not None:
                shape, payload = shaped
                version, *last_change = _pack_change(revision, *made[revision])
                packed = (*packed, shape, version, payload, *last_change)
            if packed:
                self._scopes[path] = packed
            else:
                self._scopes.pop(path, None)
            if _is_domain(path):
                (self._domains.add if packed else self._domains.discard)(path)

    def _load_soon(self) -> None:
        try:
            with self._catching_up, self._database.reading() as connection:
                self._load(connection)
        except SQLAlchemyError:
            _log.exception("the index could not be loaded; requests are answered from the database")
            self._retry_at = self.monotonic() + _RETRY_SECONDS

    def _load(self, connection: Connection) -> None:
        """Load everything from one snapshot; nothing is answered from it before it is complete."""
        begun_at = self.monotonic()
        head = revisions.head(connection)
        scopes: dict[str, PackedRows] = {}
        read = lru_cache(maxsize=_CHUNK)(self._shapes.read)  # equal payloads are kept once
        rows = self._read_rows(connection)
        for kind, project, domain, workflow, launch_plan, text, number, at, by, claimed_by in rows:
            shaped = read(kind, text)
            if shaped is not None:
                key = f"{project}/{domain}/{workflow}/{launch_plan}"
                shape, payload = shaped
                version, updated_at, authors = _pack_change(number, at, by, claimed_by)
                packed = shape, version, payload, updated_at, authors
                others = scopes.get(key)
                scopes[key] = packed if others is None else others + packed
        with self._reading:
            self._projects = {project.id: project for project in projects.every(connection)}
            self._scopes, self._revision, self._made_at = scopes, head, revisions.made_at(connection, head)
            self._domains = set(filter(_is_domain, scopes))
            self._recent.forget()
            self._checked_at = self._current_at = begun_at
        if len(scopes) > self._few_rows:
            gc.freeze()  # nothing of it is garbage, and scanning a million entries takes long
        _log.info(
            "index loaded",
            extra={"scopes": len(scopes), "revision": head, "seconds": round(self.monotonic() - begun_at, 2)},
        )

    def _drop(self) -> None:
        with self._reading:
            self._scopes, self._domains, self._projects = None, set(), {}
            self._revision, self._made_at = -1, None
            self._recent.forget()


_ALL_ATTRIBUTES: AnySelect = select(
    *(attributes.c[name] for name in ("kind", *SCOPE_KEYS)),
    cast(attributes.c.payload, Text),
    *(attributes.c[name] for name in ("version", *LastChange._fields)),
).execution_options(yield_per=_CHUNK)


def read_attributes(connection: Connection) -> Iterable[AttributeRow]:
    """Every attribute, a chunk at a time."""
    rows: Iterable[Any] = connection.execute(_ALL_ATTRIBUTES)  # whose rows are tuples of these types
    return rows


def _is_domain(path: str) -> bool:
    """Whether the path of a scope is that of a domain."""
    return path.startswith("/")


def _stored(scope: Scope, packed: PackedRows, kinds: Container[str]) -> Iterator[StoredAttribute]:
    """The rows of some kinds, by their names, of one scope."""
    for shape, version, payload, updated_at, (updated_by, claimed_by) in unpack_rows(packed):
        name = shape.kind.name
        if name in kinds:
            yield StoredAttribute(
                kind=name,
                scope=scope,
                payload=json_value(payload),
                version=int(version),
                updated_at=_EPOCH + updated_at * _MICROSECOND,
                updated_by=updated_by,
                claimed_by=claimed_by,
            )


@lru_cache(maxsize=_CHUNK)
def _pack_change(
    version: int, updated_at: datetime, updated_by: str, claimed_by: str | None
) -> tuple[bytes, int, tuple[str, str | None]]:
    """The last change of a row as it takes least room: rows of one revision share it, and the time is a number."""
    return b"%d" % version, (updated_at - _EPOCH) // _MICROSECOND, _authors(updated_by, claimed_by)


@lru_cache(maxsize=_CHUNK)
def _authors(updated_by: str, claimed_by: str | None) -> tuple[str, str | None]:
    """The same tuple for the same authors."""
    return updated_by, claimed_by


def _without(packed: PackedRows, kind: str) -> PackedRows:
    """The rows of a scope but for one kind."""
    return tuple(part for row in unpack_rows(packed) if row[0].kind.name != kind for part in row)


def _is_small(connection: Connection, most: int) -> bool:
    rows = select(attributes.c.kind).limit(most + 1).subquery()
    return int(connection.execute(select(func.count()).select_from(rows)).scalar_one()) <= most
