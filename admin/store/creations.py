"""Creations: executions stored with their first decision and first event, many at a time.

On PostgreSQL all of it is one statement, and so one round trip; on SQLite, where asking costs nothing, a few.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Dialect, Table, bindparam, func, select, text
from sqlalchemy.dialects import postgresql

from admin.core.json_text import json_text
from admin.core.trails import Trail
from admin.store.batches import insert_all
from admin.store.database import Database
from admin.store.decisions import decisions, trails
from admin.store.executions import execution_events, executions
from admin.store.fleet import fleet_head
from admin.store.registrations import registration_head
from admin.store.revisions import revision_head

_KNOWN_TRAILS = 10_000


class Heads(NamedTuple):
    """What a decision was made by: numbers that change with everything that could make it another one."""

    revision: int
    registrations: int
    fleet: int


@dataclass(frozen=True, slots=True)
class Creation:
    """One execution to store."""

    heads: Heads
    values: dict[str, Any]  #: of its row
    settings: Trail
    placement: Trail
    scores: dict[str, float | None] | None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.values["project"], self.values["domain"], self.values["name"]


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
        newest = max(one.heads for one in creations)
        unknown = self._unknown_trails(newest, creations)
        # Of two with the same name the first one counts, and the rest find it taken.
        first = {one.key: one for one in reversed(creations) if one.heads == newest}
        chosen = [first[key] for key in sorted(first)]
        with self._transaction() as connection:
            found, new = store(connection, chosen, newest, unknown)
        if found != newest:
            return [Outcome.STALE] * len(creations)
        self._remember(newest, [one for one in chosen if one.key in new])
        return [
            Outcome.STALE if one.heads != newest else _outcome(one is first[one.key] and one.key in new)
            for one in creations
        ]

    def _transaction(self) -> Any:
        is_one_statement = self._database.engine.dialect.name == "postgresql"
        return self._database.stating() if is_one_statement else self._database.writing()

    def _unknown_trails(self, heads: Heads, creations: list[Creation]) -> dict[str, Trail]:
        """Trails that may have to be stored. Whoever takes trails away counts the fleet up, so that none is missed."""
        number, known = self._known
        if number != heads.fleet:
            known = set()
        found = {trail.digest: trail for one in creations for trail in (one.settings, one.placement)}
        return {digest: found[digest] for digest in sorted(found) if digest not in known}

    def _remember(self, heads: Heads, stored: list[Creation]) -> None:
        number, known = self._known
        if number != heads.fleet or len(known) > _KNOWN_TRAILS:
            known = set()
            self._known = heads.fleet, known
        for one in stored:
            known |= {one.settings.digest, one.placement.digest}


def _outcome(is_new: bool) -> Outcome:
    return Outcome.NEW if is_new else Outcome.TAKEN


def store(
    connection: Connection, creations: list[Creation], expected: Heads, unknown: dict[str, Trail]
) -> tuple[Heads, set[tuple[str, str, str]]]:
    """Store executions, unless the heads are not as expected; answers the heads and the names that were new.

    Every name must be there once, in their order; trails that may not be stored yet come along.
    """
    if connection.dialect.name == "postgresql":
        return _state(connection, creations, expected, unknown)
    return _write(connection, creations, expected, unknown)


def heads(connection: Connection, *, share: bool = False) -> Heads:
    """The heads as a transaction sees them; `share` holds the fleet still until it ends."""
    return Heads(*connection.execute(_HEADS_SHARED if share else _HEADS).one())


_HEADS = select(
    select(revision_head.c.number).scalar_subquery(),
    select(registration_head.c.number).scalar_subquery(),
    fleet_head.c.number,
)
_HEADS_SHARED = _HEADS.with_for_update(read=True, of=fleet_head)

#: What creation says of an execution; the other columns begin with their defaults.
_COLUMNS = [
    column
    for column in executions.c
    if column.name
    not in (
        "id",
        *("abort_cause", "abort_principal", "started_at", "finished_at", "duration"),
        *("not_before", "lease_expires_at", "confirmed", "native_id", "nodes", "exit_code", "avoid"),
    )
]
_NAMES = [column.name for column in _COLUMNS]
#: What the first decision and the first event of every execution say.
_FIRST = {"number": 1, "because": "created", "type": "CREATED"}
#: The columns of an execution, its first decision and its first event, each with what it is called in what is given.
_EXECUTION = {name: name for name in ("id", *_NAMES)}
_DECISION = {
    "execution_id": "id",
    "number": "number",
    "decided_at": "created_at",
    "cluster": "cluster",
    "reason": "reason",
    "reason_message": "reason_message",
    "because": "because",
    "revision": "revision",
    "settings_trail": "settings_trail",
    "placement_trail": "placement_trail",
    "scores": "scores",
}
_EVENT = {
    "execution_id": "id",
    "number": "number",
    "at": "created_at",
    "type": "type",
    "phase": "phase",
    "reason": "reason",
    "message": "reason_message",
    "cluster": "cluster",
}


def _state(
    connection: Connection, creations: list[Creation], expected: Heads, unknown: dict[str, Trail]
) -> tuple[Heads, set[tuple[str, str, str]]]:
    given = [_given(one) for one in creations]
    bodies = [{"digest": trail.digest, "body": trail.body} for trail in unknown.values()]
    rows = connection.execute(
        _STATEMENT,
        {"given": json_text(given).decode(), "bodies": json_text(bodies).decode(), **expected._asdict()},
    ).all()
    new = {(row.project, row.domain, row.name) for row in rows if row.name is not None}
    return Heads(rows[0].revision_now, rows[0].registrations_now, rows[0].fleet_now), new


def _given(one: Creation) -> dict[str, Any]:
    """All that is to be stored of a creation but its trails."""
    said = {"settings_trail": one.settings.digest, "placement_trail": one.placement.digest, "scores": one.scores}
    return {**one.values, **_FIRST, **said}


def _typed(columns: list[Column[Any]]) -> str:
    dialect: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    return ", ".join(f"{column.name} {column.type.compile(dialect)}" for column in columns)


def _inserted(table: Table, columns: dict[str, str], source: str) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table.name} ({names}) SELECT {', '.join(columns.values())} FROM {source}"


_MORE = [
    *(decisions.c.settings_trail, decisions.c.placement_trail, decisions.c.scores),
    *(decisions.c.number, decisions.c.because, execution_events.c.type),
]
_AS_EXPECTED = "fleet_now = :fleet AND revision_now = :revision AND registrations_now = :registrations"
_SOURCE = "new JOIN given USING (project, domain, name)"
_STATEMENT = text(
    f"""
WITH heads AS MATERIALIZED (
  SELECT number AS fleet_now, (SELECT number FROM {revision_head.name}) AS revision_now,
    (SELECT number FROM {registration_head.name}) AS registrations_now
  FROM {fleet_head.name} FOR SHARE OF {fleet_head.name}
), given AS MATERIALIZED (
  SELECT one.* FROM heads, json_to_recordset(CAST(:given AS json)) AS one({_typed([*_COLUMNS, *_MORE])})
  WHERE {_AS_EXPECTED}
), new AS (
  INSERT INTO {executions.name} ({", ".join(_NAMES)}) SELECT {", ".join(_NAMES)} FROM given
  ON CONFLICT DO NOTHING RETURNING id, project, domain, name
), kept AS (
  INSERT INTO {trails.name} (digest, body)
  SELECT digest, body FROM json_to_recordset(CAST(:bodies AS json)) AS one({_typed(list(trails.c))})
  WHERE digest IN (SELECT settings_trail FROM {_SOURCE} UNION SELECT placement_trail FROM {_SOURCE})
  ON CONFLICT DO NOTHING
), decided AS (
  {_inserted(decisions, _DECISION, _SOURCE)}
), happened AS (
  {_inserted(execution_events, _EVENT, _SOURCE)}
)
SELECT heads.*, new.project, new.domain, new.name FROM heads LEFT JOIN new ON true
"""
)


_NEXT_ID = select(func.coalesce(func.max(executions.c.id), 0) + 1)
_STORED = select(executions.c.id).where(executions.c.id >= bindparam("first"))


def _write(
    connection: Connection, creations: list[Creation], expected: Heads, unknown: dict[str, Trail]
) -> tuple[Heads, set[tuple[str, str, str]]]:
    found = heads(connection)
    if found != expected:
        return found, set()
    first = connection.execute(_NEXT_ID).scalar_one()
    rows = [{**_given(one), "id": number} for number, one in enumerate(creations, first)]
    insert_all(connection, executions, [_part(row, _EXECUTION) for row in rows], if_new=True)
    stored = set(connection.execute(_STORED, {"first": first}).scalars())
    rows = [row for row in rows if row["id"] in stored]  # the others' names are taken
    used = {digest for row in rows for digest in (row["settings_trail"], row["placement_trail"])}
    new = [trail._asdict() for digest, trail in unknown.items() if digest in used]
    insert_all(connection, trails, new, if_new=True)
    insert_all(connection, decisions, [_part(row, _DECISION) for row in rows])
    insert_all(connection, execution_events, [_part(row, _EVENT) for row in rows])
    return found, {(row["project"], row["domain"], row["name"]) for row in rows}


def _part(row: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    return {name: row[source] for name, source in columns.items()}
