"""Creations: executions stored with their first decision and first event, many at a time.

On PostgreSQL all of it is one statement, and so one round trip; on SQLite, where asking costs nothing, a few. What many
have in common is brought into the form in which a database takes it only once, and PostgreSQL is told it only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Dialect, Table, bindparam, func, select, text
from sqlalchemy.dialects import postgresql

from admin.core.settings.trails import Trail
from admin.store import fleet
from admin.store.batches import Binding, insert_all
from admin.store.database import SQLITE, Database, json_column
from admin.store.decisions import decisions, trails
from admin.store.executions import execution_events, executions
from admin.store.fleet import SHARE_THE_DOOR, fleet_head
from admin.store.registrations import registration_head
from admin.store.revisions import revision_head

_KNOWN_TRAILS = 10_000


class DecisionBasis(NamedTuple):
    """What a decision was made by: numbers that change with everything that could make it another one."""

    revision: int
    registrations: int
    fleet: int


@dataclass(frozen=True, kw_only=True)
class Template:
    """What all executions have in common that ask for the same at one moment; it is put into its stored form once."""

    heads: DecisionBasis
    values: dict[str, Any]  #: of their rows
    settings: Trail
    placement: Trail
    scores: dict[str, float | None] | None

    @cached_property
    def trails(self) -> dict[str, Trail]:
        """By their digests, and in the order of these."""
        return {trail.digest: trail for trail in sorted((self.settings, self.placement), key=lambda one: one.digest)}

    @cached_property
    def made(self) -> tuple[Any, ...]:
        """How its decisions were made, as the columns of a decision have it."""
        return self.settings.digest, self.placement.digest, self.scores

    @cached_property
    def text(self) -> str:
        """As PostgreSQL takes it."""
        return json_column(self.values | dict(zip((one.name for one in _MADE), self.made, strict=True)))

    @cached_property
    def row(self) -> tuple[Any, ...]:
        """As SQLite takes it."""
        return tuple(_bind_shared([self.values[column.name] for column in _SHARED]))


class Creation(NamedTuple):
    """One execution to store: a template, and what is its own."""

    template: Template
    name: str
    cluster: str | None
    reason_message: str
    queue_deadline: datetime | None
    created_at: datetime

    @property
    def key(self) -> tuple[str, str, str]:
        values = self.template.values
        return values["project"], values["domain"], self.name

    @property
    def values(self) -> dict[str, Any]:
        """Of its row."""
        _, name, cluster, message, deadline, now = self
        own = {"name": name, "cluster": cluster, "reason_message": message, "queue_deadline": deadline}
        return {**self.template.values, **own, "created_at": now, "updated_at": now}


class Outcome(Enum):
    """What became of a creation."""

    NEW = auto()
    TAKEN = auto()  # there is an execution of this name
    STALE = auto()  # something has changed since it was decided


class CreationWriter:
    """Writes creations that were decided from memory, if what is in memory is still true."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: tuple[int, set[str]] = (-1, set())  #: trails that are stored, for as long as the fleet stays

    def __call__(self, creations: list[Creation]) -> list[Outcome]:
        newest = max(one.template.heads for one in creations)
        # Of two with the same name the first one counts, and the rest find it taken.
        first = {one.key: one for one in reversed(creations) if one.template.heads == newest}
        chosen = [first[key] for key in sorted(first)]
        unknown = self._unknown_trails(newest, chosen)
        with self._transaction() as connection:
            found, stored = store(connection, chosen, newest, unknown)
        if found != newest:
            return [Outcome.STALE] * len(creations)
        if unknown:
            self._remember(newest, stored)
        if len(stored) == len(creations):  # as nearly always
            return [Outcome.NEW] * len(creations)
        new = set(map(id, stored))
        return [
            Outcome.STALE if one.template.heads != newest else Outcome.NEW if id(one) in new else Outcome.TAKEN
            for one in creations
        ]

    def _transaction(self) -> Any:
        is_one_statement = self._database.engine.dialect.name == "postgresql"
        return self._database.autocommit() if is_one_statement else self._database.writing()

    def _unknown_trails(self, heads: DecisionBasis, creations: list[Creation]) -> dict[str, Trail]:
        """Trails that may have to be stored. Whoever takes trails away counts the fleet up, so that none is missed."""
        number, known = self._known
        if number != heads.fleet:
            known = set()
        found = _trails(creations)
        return {digest: found[digest] for digest in sorted(found.keys() - known)}

    def _remember(self, heads: DecisionBasis, stored: list[Creation]) -> None:
        number, known = self._known
        if number != heads.fleet or len(known) > _KNOWN_TRAILS:
            known = set()
            self._known = heads.fleet, known
        known.update(_trails(stored))


def _templates(creations: Iterable[Creation]) -> list[Template]:
    """The templates of some creations, each once."""
    return list({id(one.template): one.template for one in creations}.values())


def _trails(creations: Iterable[Creation]) -> dict[str, Trail]:
    return {digest: trail for template in _templates(creations) for digest, trail in template.trails.items()}


def store(
    connection: Connection, creations: list[Creation], expected: DecisionBasis, unknown: Mapping[str, Trail]
) -> tuple[DecisionBasis, list[Creation]]:
    """Store executions, unless the heads are not as expected; answers the heads and those whose names were new.

    Every name must be there once, in their order; trails that may not be stored yet come along.
    """
    if connection.dialect.name == "postgresql":
        return _state(connection, creations, expected, unknown)
    return _write(connection, creations, expected, unknown)


def heads(connection: Connection, *, share: bool = False) -> DecisionBasis:
    """The heads as a transaction sees them; `share` holds the fleet still until it ends."""
    if share:
        fleet.share(connection)
    return DecisionBasis(*connection.execute(_HEADS).one())


_HEADS = select(
    select(revision_head.c.number).scalar_subquery(),
    select(registration_head.c.number).scalar_subquery(),
    fleet_head.c.number,
)

#: What is an execution's own, what its template says of it, and what begins with its default.
_OWN = [executions.c[name] for name in ("name", "cluster", "reason_message", "queue_deadline", "created_at")]
_LATER = (
    *("id", "updated_at", "abort_cause", "abort_principal", "started_at", "finished_at", "duration"),
    *("not_before", "lease_expires_at", "confirmed", "native_id", "nodes", "exit_code", "avoid"),
)
_SHARED = [one for one in executions.c if one.name not in (*_LATER, *(own.name for own in _OWN))]
_EVERY = [*_OWN, executions.c.updated_at, *_SHARED]
_MADE = [decisions.c.settings_trail, decisions.c.placement_trail, decisions.c.scores]
#: What the first decision and the first event of an execution say, out of its row.
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


def _named(columns: Iterable[Column[Any]]) -> str:
    return ", ".join(column.name for column in columns)


def _typed(columns: Iterable[Column[Any]]) -> str:
    dialect: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    return ", ".join(f"{column.name} {column.type.compile(dialect)}" for column in columns)


def _following(table: Table, columns: dict[str, str], source: str) -> str:
    """An insert of rows that follow from others, each column from what stands beside it."""
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table.name} ({names}) SELECT {', '.join(columns.values())} FROM {source}"


def _state(
    connection: Connection, creations: list[Creation], expected: DecisionBasis, unknown: Mapping[str, Trail]
) -> tuple[DecisionBasis, list[Creation]]:
    templates = _templates(creations)
    numbers = {id(template): number for number, template in enumerate(templates, 1)}
    given = [
        {
            "template": numbers[id(template)],
            "name": name,
            "cluster": cluster,
            "reason_message": message,
            "queue_deadline": deadline,
            "created_at": now,
        }
        for template, name, cluster, message, deadline, now in creations
    ]
    bodies = [{"digest": trail.digest, "body": trail.body} for trail in unknown.values()]
    *found, taken = connection.execute(
        _STATEMENT,
        {
            "given": json_column(given),
            "templates": f"[{','.join(template.text for template in templates)}]",
            "bodies": json_column(bodies),
            **expected._asdict(),
        },
    ).one()
    now = DecisionBasis(*found)
    return now, [one for number, one in enumerate(creations, 1) if number not in taken] if now == expected else []


_AS_EXPECTED = "fleet_now = :fleet AND revision_now = :revision AND registrations_now = :registrations"
_STATEMENT = text(
    f"""
WITH door AS MATERIALIZED (
  SELECT {SHARE_THE_DOOR}
), heads AS MATERIALIZED (
  SELECT (SELECT number FROM {revision_head.name}) AS revision_now,
    (SELECT number FROM {registration_head.name}) AS registrations_now, number AS fleet_now
  FROM door CROSS JOIN {fleet_head.name} FOR SHARE OF {fleet_head.name}
), given AS MATERIALIZED (
  SELECT own.*, own.created_at AS updated_at, shared.*
  FROM heads
  CROSS JOIN ROWS FROM (json_to_recordset(CAST(:given AS json)) AS (template bigint, {_typed(_OWN)}))
    WITH ORDINALITY AS own(template, {_named(_OWN)}, position)
  JOIN ROWS FROM (json_to_recordset(CAST(:templates AS json)) AS ({_typed([*_SHARED, *_MADE])}))
    WITH ORDINALITY AS shared({_named([*_SHARED, *_MADE])}, shared_position) ON shared_position = template
  WHERE {_AS_EXPECTED} ORDER BY position
), new AS (
  INSERT INTO {executions.name} ({_named(_EVERY)}) SELECT {_named(_EVERY)} FROM given
  ON CONFLICT (project, domain, name) DO NOTHING
  RETURNING id, project, domain, name, phase, reason, reason_message, cluster, revision, created_at
), traced AS MATERIALIZED (
  SELECT new.*, position, {_named(_MADE)} FROM new JOIN given USING (project, domain, name)
), kept AS (
  INSERT INTO {trails.name} (digest, body)
  SELECT digest, body FROM json_to_recordset(CAST(:bodies AS json)) AS one({_typed(trails.c)})
  WHERE digest IN (SELECT settings_trail FROM traced UNION SELECT placement_trail FROM traced)
  ON CONFLICT DO NOTHING
), decided AS (
  {_following(decisions, _DECISION | {one.name: one.name for one in _MADE}, "traced")}
), happened AS (
  {_following(execution_events, _EVENT, "new")}
)
SELECT heads.*, ARRAY(SELECT position FROM given EXCEPT SELECT position FROM traced) FROM heads
"""
)


_bind_shared = Binding(_SHARED, SQLITE)
_bind_times = Binding([executions.c.queue_deadline, executions.c.created_at], SQLITE)
_NEXT_ID = select(func.coalesce(func.max(executions.c.id), 0) + 1)
_INSERT = (
    f"INSERT INTO {executions.name} (id, {_named(_EVERY)}) VALUES ({', '.join('?' * (1 + len(_EVERY)))})"
    " ON CONFLICT DO NOTHING"
)
_STORED = select(executions.c.id).where(executions.c.id >= bindparam("first"))
_COUNT = select(func.count()).select_from(executions).where(executions.c.id >= bindparam("first"))
_DECIDE = text(
    _following(
        decisions,
        _DECISION | {one.name: f"json_extract(given.value, '$[{at}]')" for at, one in enumerate(_MADE)},
        f"(SELECT key, value FROM json_each(:made)) AS given CROSS JOIN {executions.name} ON id = :first + given.key",
    )
)
_HAPPEN = text(_following(execution_events, _EVENT, f"{executions.name} WHERE id >= :first"))


def _write(
    connection: Connection, creations: list[Creation], expected: DecisionBasis, unknown: Mapping[str, Trail]
) -> tuple[DecisionBasis, list[Creation]]:
    found = heads(connection)
    if found != expected:
        return found, []
    first: int = connection.execute(_NEXT_ID).scalar_one()
    connection.exec_driver_sql(_INSERT, [_row(number, one) for number, one in enumerate(creations, first)])
    new = creations
    if connection.execute(_COUNT, {"first": first}).scalar_one() < len(creations):  # some names are taken
        stored = set(connection.execute(_STORED, {"first": first}).scalars())
        new = [one for number, one in enumerate(creations, first) if number in stored]
    if unknown:
        used = _trails(new)
        rows = [one._asdict() for digest, one in unknown.items() if digest in used]
        insert_all(connection, trails, rows, if_new=True)
    # One statement each: whoever holds the database should not have to wait for the interpreter between two rows.
    connection.execute(_DECIDE, {"made": json_column([one.template.made for one in creations]), "first": first})
    connection.execute(_HAPPEN, {"first": first})
    return found, new


def _row(number: int, one: Creation) -> tuple[Any, ...]:
    template, name, cluster, message, *times = one
    deadline, now = _bind_times(times)
    return number, name, cluster, message, deadline, now, now, *template.row
