"""Retention: walk the keys from the oldest on, and delete rows that are due a few at a time.

The newest row of a numbered table is always kept: SQLite would assign its number again, and those that wait for higher
numbers would miss it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Column, ColumnElement, Connection, Table, Text, delete, func, literal, select, tuple_, update

from admin.core.fleet.clusters import HEALTH_EVENTS, STATE_EVENTS
from admin.core.retention import Cutoffs, Lifespan
from admin.store import pruned_authors, pruned_executions
from admin.store.audit_events import audit_events
from admin.store.bid_tables import bid_rounds, bids
from admin.store.cluster_events import lasting
from admin.store.cluster_resources import namespace_events
from admin.store.database import UtcDateTime, insert_new, metadata
from admin.store.decisions import decisions, trails
from admin.store.execution_tables import execution_events, executions
from admin.store.fleet import bump_generation
from admin.store.fleet_tables import cluster_descriptions, cluster_events, moved_clusters
from admin.store.logs import execution_logs, execution_outputs
from admin.store.revision_tables import member_changes, revision_changes, revisions
from admin.store.revisions import lock_head
from admin.store.sql_types import AnyColumn, AnyRow, AnySelect

#: The latest of each of the `Cutoffs` by which anything was pruned.
retention_cutoffs = Table(
    "retention_cutoffs",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cutoff", UtcDateTime, nullable=False),
)

Key = int | tuple[object, ...]  #: a number, or several values where a table's key has several columns
Counts = dict[str, int]  #: rows, by the names of their tables

#: Bytes that count as much as a row.
_ROW_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a walk: the keys that are due, each with its weight in rows, and where the next step begins."""

    due: list[tuple[Key, int]]
    last: Key | None  #: what the next step is after; None at the end


@dataclass(frozen=True, kw_only=True)
class ExecutionRows:
    """Rows that belong to executions, and may be deleted before them."""

    name: str
    table: Table
    size: ColumnElement[int]  #: in bytes
    is_numbered: bool = False

    def find(self, connection: Connection, after: Key | None, limit: datetime, page: int) -> Step:
        query = _next(self.table, after, page, self.table.c.execution_id, self.size.label("size"))
        rows = connection.execute(query).all()
        if self.is_numbered:
            newest = _newest(connection, self.table)
            rows = [row for row in rows if row[0] != newest]
        lives = _lives(connection, executions.c.id.in_({row.execution_id for row in rows}))
        gone = [row for row in rows if lives[row.execution_id].is_due(limit)]
        is_over = all(life.is_later(limit) for life in lives.values())
        return Step(
            due=[(_key(self.table, row), 1 + row.size // _ROW_BYTES) for row in gone],
            last=None if is_over else _key(self.table, rows[-1]),
        )

    def count(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        return {self.table.name: len(keys)}

    def delete(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        return {self.table.name: _delete(connection, self.table, _place(self.table).in_(keys))}


#: In the order in which they are deleted.
LOGS = ExecutionRows(name="logs", table=execution_logs, size=execution_logs.c.end - execution_logs.c.start)
OUTPUTS = ExecutionRows(name="logs", table=execution_outputs, size=func.length(execution_outputs.c.content))
EVENTS = ExecutionRows(name="execution_events", table=execution_events, size=literal(0), is_numbered=True)


class Executions:
    """Executions, with all that belongs to them."""

    name = "executions"

    def find(self, connection: Connection, after: Key | None, limit: datetime, page: int) -> Step:
        columns = [executions.c[name] for name in ("created_at", "phase", "finished_at", "decisions")]
        query = _next(executions, after, page, *columns)
        rows = [(row, Lifespan(row.created_at, row.phase, row.finished_at)) for row in connection.execute(query)]
        due = [(row.id, 2 + row.decisions) for row, life in rows if life.is_due(limit)]
        is_over = all(life.is_later(limit) for _, life in rows)
        return Step(due=due, last=None if is_over else rows[-1][0].id)

    def count(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        ids = _deletable(connection, executions.c.id.in_(keys), limit)
        query = select(func.count()).where(decisions.c.execution_id.in_(ids))
        return {executions.name: len(ids), decisions.name: connection.execute(query).scalar_one()}

    def delete(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        ids = _deletable(connection, executions.c.id.in_(keys), limit, hold=True)
        pruned_executions.add(connection, ids)
        counts = {
            table.name: _delete(connection, table, table.c.execution_id.in_(ids))
            for table in (execution_logs, execution_outputs, execution_events, decisions)
        }
        rounds = select(bid_rounds.c.id).where(bid_rounds.c.execution_id.in_(ids))
        counts[bids.name] = _delete(connection, bids, bids.c.round.in_(rounds))
        counts[bid_rounds.name] = _delete(connection, bid_rounds, bid_rounds.c.execution_id.in_(ids))
        return counts | {executions.name: _delete(connection, executions, executions.c.id.in_(ids))}


#: The types of events that begin a state or a health of a cluster.
_BEGINNINGS = {*HEALTH_EVENTS.values(), *(type_ for types in STATE_EVENTS.values() for type_ in types)}


class ClusterEvents:
    """What happened to clusters, but for what says by whom and why a cluster is in the state in which it still is."""

    name = "cluster_events"

    def find(self, connection: Connection, after: Key | None, limit: datetime, page: int) -> Step:
        newest = _newest(connection, cluster_events)
        query = _next(cluster_events, after, page, cluster_events.c.at, cluster_events.c.type)
        rows = [row for row in connection.execute(query) if row.number != newest]
        old = [row for row in rows if row.at < limit]
        # Later events alone end a state, so what is found here may still be deleted in another transaction.
        spared = lasting(connection, [row.number for row in old if row.type in _BEGINNINGS])
        due = [(row.number, 1) for row in old if row.number not in spared]
        return Step(due=due, last=rows[-1].number if old else None)

    def count(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        query = select(func.count()).where(moved_clusters.c.event.in_(keys))
        return {cluster_events.name: len(keys), moved_clusters.name: connection.execute(query).scalar_one()}

    def delete(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        moved = _delete(connection, moved_clusters, moved_clusters.c.event.in_(keys))
        events = _delete(connection, cluster_events, cluster_events.c.number.in_(keys))
        return {cluster_events.name: events, moved_clusters.name: moved}


class Revisions:
    """Revisions from the first one on without a gap, so that all later states can still be reached."""

    name = "revisions"

    def find(self, connection: Connection, after: Key | None, limit: datetime, page: int) -> Step:
        newest = _newest(connection, revisions)
        due = []
        for row in connection.execute(_next(revisions, after, page, revisions.c.created_at)):
            if row.number == newest or row.created_at >= limit:
                break
            due.append(row.number)
        if not due:
            return Step(due=[], last=None)
        number = revision_changes.c.revision
        counted = select(number, func.count().label("changes")).where(number.between(due[0], due[-1])).group_by(number)
        weights = Counter({row.revision: row.changes for row in connection.execute(counted)})
        return Step(due=[(number, 1 + weights[number]) for number in due], last=due[-1])

    def count(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        counts = {
            table.name: connection.execute(select(func.count()).where(table.c.revision.in_(keys))).scalar_one()
            for table in (revision_changes, member_changes)
        }
        return {revisions.name: len(keys), **counts}

    def delete(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        lock_head(connection)  # readers that undo changes read them in several steps
        pruned_authors.keep(connection, keys[-1])
        changes = {
            table.name: _delete(connection, table, table.c.revision <= keys[-1])
            for table in (revision_changes, member_changes)
        }
        return {revisions.name: _delete(connection, revisions, revisions.c.number <= keys[-1]), **changes}


@dataclass(frozen=True)
class PlainEvents:
    """Events that belong to no other rows: each goes by its own time."""

    table: Table

    @property
    def name(self) -> str:
        return self.table.name

    def find(self, connection: Connection, after: Key | None, limit: datetime, page: int) -> Step:
        newest = _newest(connection, self.table)
        rows = connection.execute(_next(self.table, after, page, self.table.c.at)).all()
        old = [row[0] for row in rows if row.at < limit and row[0] != newest]
        return Step(due=[(number, 1) for number in old], last=old[-1] if old else None)

    def count(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        return {self.name: len(keys)}

    def delete(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        [number] = self.table.primary_key.columns
        return {self.name: _delete(connection, self.table, number.in_(keys))}


#: What was noted of logins, tokens and denied requests.
AUDIT_EVENTS = PlainEvents(audit_events)
#: What became of the objects of namespaces.
NAMESPACE_EVENTS = PlainEvents(namespace_events)


class Descriptions:
    """Revisions of descriptions that a later one has replaced; the newest of each cluster stays."""

    name = "descriptions"

    def find(self, connection: Connection, after: Key | None, limit: datetime, page: int) -> Step:
        columns = cluster_descriptions.c
        size = func.coalesce(func.length(columns.document), 0).label("size")
        rows = connection.execute(_next(cluster_descriptions, after, page, columns.at, size)).all()
        newest = select(columns.cluster, func.max(columns.number)).where(columns.cluster.in_({row[0] for row in rows}))
        spared = {tuple(row) for row in connection.execute(newest.group_by(columns.cluster))}
        due = [
            (_key(cluster_descriptions, row), 1 + row.size // _ROW_BYTES)
            for row in rows
            if row.at < limit and (row.cluster, row.number) not in spared
        ]
        return Step(due=due, last=_key(cluster_descriptions, rows[-1]) if rows else None)

    def count(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        return {cluster_descriptions.name: len(keys)}

    def delete(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        deleted = _delete(connection, cluster_descriptions, _place(cluster_descriptions).in_(keys))
        return {cluster_descriptions.name: deleted}


class Bids:
    """Rounds of bids that are decided and lead to nothing more, with their bids."""

    name = "bids"

    def find(self, connection: Connection, after: Key | None, limit: datetime, page: int) -> Step:
        newest = _newest(connection, bid_rounds)
        query = _next(
            bid_rounds, after, page, *(bid_rounds.c[name] for name in ("asked_at", "decided_at", "ask_again_at"))
        )
        rows = [row for row in connection.execute(query) if row.id != newest]
        old = [row for row in rows if row.decided_at is not None and row.decided_at < limit]
        due = [(row.id, 2) for row in old if row.ask_again_at is None]
        return Step(due=due, last=rows[-1].id if any(row.asked_at < limit for row in rows) else None)

    def count(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        query = select(func.count()).where(bids.c.round.in_(keys))
        return {bid_rounds.name: len(keys), bids.name: connection.execute(query).scalar_one()}

    def delete(self, connection: Connection, keys: Sequence[Key], limit: datetime) -> Counts:
        deleted = _delete(connection, bids, bids.c.round.in_(keys))
        return {bid_rounds.name: _delete(connection, bid_rounds, bid_rounds.c.id.in_(keys)), bids.name: deleted}


#: Rows with a retention of their own. `find` is the next step of a walk, which looks at up to `page` rows; `count` is
#: what `delete` would delete of some keys and what belongs to them, without those that are already gone. `name` is
#: that of their cutoff.
PrunedRows = ExecutionRows | Executions | ClusterEvents | Revisions | PlainEvents | Descriptions | Bids


def record_cutoff(connection: Connection, name: str, cutoff: datetime) -> None:
    """Store that something was pruned which ended or was made before a time."""
    insert_new(connection, retention_cutoffs, [{"name": name, "cutoff": cutoff}])
    is_earlier = (retention_cutoffs.c.name == name, retention_cutoffs.c.cutoff < cutoff)
    connection.execute(update(retention_cutoffs).where(*is_earlier).values(cutoff=cutoff))


def cutoffs(connection: Connection) -> Cutoffs:
    """The latest cutoffs by which anything was pruned."""
    return Cutoffs(**{row.name: row.cutoff for row in connection.execute(select(retention_cutoffs))})


def _place(table: Table) -> AnyColumn:
    columns = list(table.primary_key.columns)
    return columns[0] if len(columns) == 1 else tuple_(*columns)


def _key(table: Table, row: AnyRow) -> Key:
    values = tuple(row[: len(table.primary_key.columns)])
    return values[0] if len(values) == 1 else values


def _next(table: Table, after: Key | None, page: int, *more: AnyColumn) -> AnySelect:
    """A query for the keys of the next `page` rows after a key, and for more columns."""
    columns = list(table.primary_key.columns)
    query = select(*columns, *more).order_by(*columns).limit(page)
    return query if after is None else query.where(_place(table) > after)


def _newest(connection: Connection, table: Table) -> int | None:
    [number] = table.primary_key.columns
    return connection.execute(select(func.max(number))).scalar()


def _delete(connection: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    return connection.execute(delete(table).where(condition)).rowcount


def _lives(connection: Connection, condition: ColumnElement[bool], *, hold: bool = False) -> dict[int, Lifespan]:
    columns = executions.c
    query = select(columns.id, columns.created_at, columns.phase, columns.finished_at).where(condition)
    if hold:  # locked executions are left for the next run
        query = query.order_by(columns.id).with_for_update(skip_locked=True)
    return {id: Lifespan(*life) for id, *life in connection.execute(query)}


def _deletable(connection: Connection, among: ColumnElement[bool], limit: datetime, *, hold: bool = False) -> list[int]:
    """The executions that are due, but for the newest and the one that the last event of all belongs to.

    `among` must name them by their ids alone: by another index, a database might scan all of them.
    """
    last = select(execution_events.c.execution_id).order_by(execution_events.c.id.desc()).limit(1)
    spared = {connection.execute(last).scalar(), _newest(connection, executions)}
    lives = _lives(connection, among, hold=hold)
    return [id for id, life in lives.items() if life.is_due(limit) and id not in spared]


def trails_after(connection: Connection, digest: str, limit: int) -> list[str]:
    """The digests of the next trails, in order."""
    query = select(trails.c.digest).where(trails.c.digest > digest).order_by(trails.c.digest).limit(limit)
    return list(connection.execute(query).scalars())


def trails_in_use(
    connection: Connection, after: int, spared: datetime | None, window: int
) -> tuple[set[str], int | None]:
    """The trails of the next `window` executions after an id, and the id to go on after; None at the end.

    Executions that are due by `spared` are left out, if it is not None.
    """
    owner = decisions.c.execution_id
    first = connection.execute(select(func.min(owner)).where(owner > after)).scalar()
    if first is None:
        return set(), None
    last = first + window - 1
    used = select(decisions.c.settings_trail, decisions.c.placement_trail).where(owner.between(first, last)).distinct()
    if spared is not None:
        used = used.where(owner.not_in(_deletable(connection, executions.c.id.between(first, last), spared)))
    return _digests(connection, used), last


def trails_decided(connection: Connection, above: int, up_to: int) -> set[str]:
    """The trails of all executions with events between two ids: every decision leaves an event."""
    numbers = execution_events.c.id
    query = select(execution_events.c.execution_id).where(numbers > above, numbers <= up_to).distinct()
    ids = list(connection.execute(query).scalars())
    used = select(decisions.c.settings_trail, decisions.c.placement_trail).where(decisions.c.execution_id.in_(ids))
    return _digests(connection, used.distinct())


def _digests(connection: Connection, query: AnySelect) -> set[str]:
    return {digest for pair in connection.execute(query) for digest in pair}


def delete_trails(connection: Connection, digests: Sequence[str]) -> Counts:
    """Delete trails that nothing refers to. The fleet must be locked: writers cache stored trails by its generation."""
    deleted = _delete(connection, trails, trails.c.digest.in_(digests))
    if deleted:
        bump_generation(connection)
    return {trails.name: deleted}
