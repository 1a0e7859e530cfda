"""Creations: executions stored with their first decision and first event, many at a time.

On PostgreSQL all of it is one statement, and so one round trip; on SQLite, where a statement costs no trip, a few. What
many executions share is converted to the database's form once, and sent to PostgreSQL once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

from sqlalchemy import Connection, Table, bindparam, func, select, text

from admin.core.executions.quotas import FullQuota, QuotaLimit
from admin.core.json_text import JsonObject, json_string
from admin.core.settings.trails import Trail
from admin.store import decision_basis, execution_quotas
from admin.store.batches import Binding, insert_all
from admin.store.database import Database
from admin.store.decision_basis import POSTGRESQL_BASIS, POSTGRESQL_IS_EXPECTED, DecisionBasis
from admin.store.decisions import decisions, trails
from admin.store.dialects import is_postgresql, sqlite
from admin.store.dialects.postgresql import typed_columns
from admin.store.execution_tables import execution_events, executions
from admin.store.executions import Execution, ExecutionId
from admin.store.sql_types import TableColumn

_MAX_CACHED_TRAILS = 10_000

#: The columns that each execution has of its own, those that equal requests share, and those that a decision shares.
#: All others begin with their defaults.
_OWN = [
    executions.c[name]
    for name in (
        *("name", "uid", "created_by", "claimed_by", "created_proof", "created_use"),
        *("cluster", "reason_message", "queue_deadline", "created_at"),
    )
]
_SHARED = [
    executions.c[name]
    for name in Execution._fields
    if name not in ("id", "updated_at", *(column.name for column in _OWN), *Execution._field_defaults)
]
_WRITTEN = [*_OWN, executions.c.updated_at, *_SHARED]
_DECIDED = [decisions.c.settings_trail, decisions.c.placement_trail, decisions.c.scores]


@dataclass(frozen=True, kw_only=True)
class Template:
    """What all executions share that were requested alike at one basis; converted to its stored form once."""

    basis: DecisionBasis
    values: JsonObject  #: of the shared columns
    quotas: tuple[QuotaLimit, ...] = ()  #: that bound how many of them wait, at that basis
    settings: Trail
    placement: Trail
    scores: JsonObject | None

    @cached_property
    def trails(self) -> dict[str, Trail]:
        """By their digests, in this order."""
        pair = sorted((self.settings, self.placement), key=lambda trail: trail.digest)
        return {trail.digest: trail for trail in pair}

    @cached_property
    def shared(self) -> tuple[object, ...]:
        """The values in the order of an execution's fields."""
        return tuple(self.values[column.name] for column in _SHARED)

    @cached_property
    def execution_tail(self) -> tuple[object, ...]:
        """The fields of an execution after its own: the shared ones, and the defaults of the others."""
        return *self.shared, *Execution._field_defaults.values()

    @cached_property
    def decided(self) -> tuple[str, str, JsonObject | None]:
        """The shared columns of its decisions."""
        return self.settings.digest, self.placement.digest, self.scores

    @cached_property
    def postgresql_json(self) -> str:
        """The shared columns of executions and decisions, as PostgreSQL takes them."""
        return json_string(
            {**self.values, **dict(zip((column.name for column in _DECIDED), self.decided, strict=True))}
        )

    @cached_property
    def sqlite_values(self) -> tuple[object, ...]:
        """The shared columns of executions, as SQLite takes them."""
        return tuple(_bind_shared(list(self.shared)))


class Creation(NamedTuple):
    """One execution to store: a template, and its own values."""

    template: Template
    name: str
    uid: str
    created_by: str
    claimed_by: str | None
    created_proof: str | None
    created_use: str | None
    cluster: str | None
    reason_message: str
    queue_deadline: datetime | None
    created_at: datetime

    @property
    def key(self) -> ExecutionId:
        values = self.template.values
        return ExecutionId(values["project"], values["domain"], self.name)

    @property
    def execution(self) -> Execution:
        """The execution as it is stored, but for its id."""
        template, *own, now = self
        return Execution._make((0, *own, now, now, *template.execution_tail))


class Outcome(Enum):
    """What became of a creation."""

    NEW = auto()
    TAKEN = auto()  # an execution of this name exists
    STALE = auto()  # the basis has changed since it was decided


#: What became of a creation, or the quota that has no room for it.
CreationOutcome = Outcome | FullQuota


class CreationWriter:
    """Stores creations that were decided from memory, if their basis is still the current one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stored_trails: tuple[int, set[str]] = (-1, set())  #: digests, at a generation of the fleet

    def __call__(self, creations: list[Creation]) -> list[CreationOutcome]:
        newest = max(creation.template.basis for creation in creations)
        # Of two with the same name the first one is stored, and the others find the name taken.
        first = {creation.key: creation for creation in reversed(creations) if creation.template.basis == newest}
        chosen = [creation for creation in creations if first.get(creation.key) is creation]
        unknown = self._unknown_trails(newest, chosen)
        is_bounded = any(creation.template.quotas for creation in chosen)
        with self._transaction(is_bounded=is_bounded) as connection:
            full = refused_by_quotas(connection, chosen) if is_bounded else {}
            admitted = [creation for creation in chosen if id(creation) not in full] if full else chosen
            current, stored = store(connection, admitted, newest, unknown)
        if current != newest:
            return [Outcome.STALE] * len(creations)
        if unknown:
            self._note_stored(newest, stored)
        if len(stored) == len(creations):  # as nearly always
            return [Outcome.NEW] * len(creations)
        if len(stored) < len(admitted):  # some names were taken, which leaves room for others
            full = dict.fromkeys(full, Outcome.STALE)
        new: dict[int, CreationOutcome] = {**dict.fromkeys(map(id, stored), Outcome.NEW), **full}
        return [
            Outcome.STALE if creation.template.basis != newest else new.get(id(creation), Outcome.TAKEN)
            for creation in creations
        ]

    def _transaction(self, *, is_bounded: bool) -> AbstractContextManager[Connection]:
        is_one_statement = is_postgresql(self._database.engine) and not is_bounded
        return self._database.autocommit() if is_one_statement else self._database.writing()

    def _unknown_trails(self, basis: DecisionBasis, creations: list[Creation]) -> dict[str, Trail]:
        """Trails that may not be stored yet. Deleting trails bumps the fleet's generation, so that none is missed."""
        generation, digests = self._stored_trails
        if generation != basis.fleet:
            digests = set()
        needed = _trails(creations)
        return {digest: needed[digest] for digest in sorted(needed.keys() - digests)}

    def _note_stored(self, basis: DecisionBasis, stored: list[Creation]) -> None:
        generation, digests = self._stored_trails
        if generation != basis.fleet or len(digests) > _MAX_CACHED_TRAILS:
            digests = set()
            self._stored_trails = basis.fleet, digests
        digests.update(_trails(stored))


def _templates(creations: Iterable[Creation]) -> list[Template]:
    """The templates of creations, each once."""
    return list({id(creation.template): creation.template for creation in creations}.values())


def _trails(creations: Iterable[Creation]) -> dict[str, Trail]:
    return {digest: trail for template in _templates(creations) for digest, trail in template.trails.items()}


def refused_by_quotas(connection: Connection, creations: list[Creation]) -> dict[int, CreationOutcome]:
    """Why creations may not be stored, by their ids, that a quota has no room for; the others count until the end."""
    full = execution_quotas.admit_waiting(connection, [creation.template.quotas for creation in creations])
    return {id(creation): quota for creation, quota in zip(creations, full, strict=True) if quota is not None}


def store(
    connection: Connection, creations: list[Creation], expected: DecisionBasis, unknown: Mapping[str, Trail]
) -> tuple[DecisionBasis, list[Creation]]:
    """Store executions if the basis is as expected; returns the current basis and the creations whose names were new.

    The names must be distinct; `unknown` are the trails that may not be stored yet. The ids, by which equal executions
    queue, are in the order of the creations.
    """
    if not creations:
        return decision_basis.read(connection), []
    if is_postgresql(connection):
        return _store_in_postgresql(connection, creations, expected, unknown)
    return _store_in_sqlite(connection, creations, expected, unknown)


#: The columns of the first decision and of the first event, each with the expression over the execution's row.
_DECISION = {
    "execution_id": "id",
    "number": "1",
    "decided_at": "created_at",
    "cluster": "cluster",
    "reason": "reason",
    "reason_message": "reason_message",
    "because": "'created'",
    "revision": "revision",
}
_EVENT = {
    "execution_id": "id",
    "number": "1",
    "at": "created_at",
    "type": "'CREATED'",
    "phase": "phase",
    "reason": "reason",
    "message": "reason_message",
    "cluster": "cluster",
}


def _names(columns: Iterable[TableColumn]) -> str:
    return ", ".join(column.name for column in columns)


def _insert_select(table: Table, columns: dict[str, str], source: str) -> str:
    """An INSERT … SELECT, with the expression of each column."""
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table.name} ({names}) SELECT {', '.join(columns.values())} FROM {source}"


def _store_in_postgresql(
    connection: Connection, creations: list[Creation], expected: DecisionBasis, unknown: Mapping[str, Trail]
) -> tuple[DecisionBasis, list[Creation]]:
    templates = _templates(creations)
    numbers = {id(template): number for number, template in enumerate(templates, 1)}
    own = [
        {
            "template": numbers[id(template)],
            "name": name,
            "uid": uid,
            "created_by": created_by,
            "claimed_by": claimed_by,
            "created_proof": proof,
            "created_use": use,
            "cluster": cluster,
            "reason_message": message,
            "queue_deadline": deadline,
            "created_at": now,
        }
        for template, name, uid, created_by, claimed_by, proof, use, cluster, message, deadline, now in creations
    ]
    bodies = [{"digest": trail.digest, "body": trail.body} for trail in unknown.values()]
    *numbers_now, taken = connection.execute(
        _POSTGRESQL_STATEMENT,
        {
            "own": json_string(own),
            "templates": f"[{','.join(template.postgresql_json for template in templates)}]",
            "bodies": json_string(bodies),
            **expected._asdict(),
        },
    ).one()
    current = DecisionBasis(*numbers_now)
    if current != expected:
        return current, []
    return current, [creation for position, creation in enumerate(creations, 1) if position not in taken]


_POSTGRESQL_STATEMENT = text(
    f"""
WITH {POSTGRESQL_BASIS}, given AS MATERIALIZED (
  SELECT nextval(pg_get_serial_sequence('{executions.name}', 'id')) AS id, own.*, own.created_at AS updated_at, shared.*
  FROM basis
  CROSS JOIN ROWS FROM (json_to_recordset(CAST(:own AS json)) AS (template bigint, {typed_columns(_OWN)}))
    WITH ORDINALITY AS own(template, {_names(_OWN)}, position)
  JOIN ROWS FROM (json_to_recordset(CAST(:templates AS json)) AS ({typed_columns([*_SHARED, *_DECIDED])}))
    WITH ORDINALITY AS shared({_names([*_SHARED, *_DECIDED])}, shared_position) ON shared_position = template
  WHERE {POSTGRESQL_IS_EXPECTED} ORDER BY position
), new AS (
  INSERT INTO {executions.name} (id, {_names(_WRITTEN)}) SELECT id, {_names(_WRITTEN)} FROM given
  ORDER BY project, domain, name -- so that transactions with the same names wait for each other in one order
  ON CONFLICT (project, domain, name) DO NOTHING
  RETURNING id, project, domain, name, phase, reason, reason_message, cluster, revision, created_at
), decided AS MATERIALIZED (
  SELECT new.*, position, {_names(_DECIDED)} FROM new JOIN given USING (id)
), new_trails AS (
  INSERT INTO {trails.name} (digest, body)
  SELECT digest, body FROM json_to_recordset(CAST(:bodies AS json)) AS trail({typed_columns(trails.c)})
  WHERE digest IN (SELECT settings_trail FROM decided UNION SELECT placement_trail FROM decided)
  ON CONFLICT DO NOTHING
), new_decisions AS (
  {_insert_select(decisions, _DECISION | {column.name: column.name for column in _DECIDED}, "decided")}
), new_events AS (
  {_insert_select(execution_events, _EVENT, "new")}
)
SELECT basis.*, ARRAY(SELECT position FROM given EXCEPT SELECT position FROM decided) FROM basis
"""
)


_bind_shared = Binding(_SHARED, sqlite.DIALECT)
_bind_times = Binding([executions.c.queue_deadline, executions.c.created_at], sqlite.DIALECT)
_NEXT_ID = select(func.coalesce(func.max(executions.c.id), 0) + 1)
_INSERT_EXECUTIONS = (
    f"INSERT INTO {executions.name} (id, {_names(_WRITTEN)}) VALUES ({', '.join('?' * (1 + len(_WRITTEN)))})"
    " ON CONFLICT DO NOTHING"
)
_SELECT_STORED = select(executions.c.id).where(executions.c.id >= bindparam("first"))
_COUNT_STORED = select(func.count()).select_from(executions).where(executions.c.id >= bindparam("first"))
_INSERT_DECISIONS = text(
    _insert_select(
        decisions,
        _DECISION | {column.name: f"json_extract(given.value, '$[{place}]')" for place, column in enumerate(_DECIDED)},
        "(SELECT key, value FROM json_each(:decided)) AS given"
        f" CROSS JOIN {executions.name} ON id = :first + given.key",
    )
)
_INSERT_EVENTS = text(_insert_select(execution_events, _EVENT, f"{executions.name} WHERE id >= :first"))


def _store_in_sqlite(
    connection: Connection, creations: list[Creation], expected: DecisionBasis, unknown: Mapping[str, Trail]
) -> tuple[DecisionBasis, list[Creation]]:
    current = decision_basis.read(connection)
    if current != expected:
        return current, []
    first: int = connection.execute(_NEXT_ID).scalar_one()
    rows = [_sqlite_row(number, creation) for number, creation in enumerate(creations, first)]
    connection.exec_driver_sql(_INSERT_EXECUTIONS, rows)
    new = creations
    if connection.execute(_COUNT_STORED, {"first": first}).scalar_one() < len(creations):  # some names are taken
        stored = set(connection.execute(_SELECT_STORED, {"first": first}).scalars())
        new = [creation for number, creation in enumerate(creations, first) if number in stored]
    if unknown:
        used = _trails(new)
        bodies = [trail._asdict() for digest, trail in unknown.items() if digest in used]
        insert_all(connection, trails, bodies, if_new=True)
    # One statement each: a writer that holds the database should not wait for the interpreter between two rows.
    decided = json_string([creation.template.decided for creation in creations])
    connection.execute(_INSERT_DECISIONS, {"decided": decided, "first": first})
    connection.execute(_INSERT_EVENTS, {"first": first})
    return current, new


def _sqlite_row(number: int, creation: Creation) -> tuple[object, ...]:
    template, *own, queue_deadline, created_at = creation
    deadline, now = _bind_times([queue_deadline, created_at])
    return number, *own, deadline, now, now, *template.sqlite_values
