"""Who registered workflows and launch plans, which clusters rounds and revisions are about, and what was pruned."""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

from admin.store.database import RowId, UtcDateTime

revision = "0028"
down_revision = "0027"

_REGISTERED = ("workflows", "launch_plans")
#: Moves as the event of a round names them: `east -> west: 7`, `east -> none (CLUSTERS_FULL): 3`.
_MOVE = re.compile(r"([^\s,:()]+) -> ([^\s,:()]+)(?: \([A-Z_]+\))?: [0-9]+")
_NO_CLUSTER = "none"
_events = sa.table("cluster_events", *(sa.column(name) for name in ("number", "cluster", "type", "reason")))


_changes = sa.table(
    "revision_changes",
    *(sa.column(name) for name in ("revision", "kind")),
    *(sa.column(name, sa.JSON) for name in ("before", "after")),
)
#: Rows that are inserted at once.
_BATCH = 10_000


def upgrade() -> None:
    for table in _REGISTERED:
        op.add_column(table, sa.Column("author", sa.Text, nullable=False, server_default="unknown"))
        op.add_column(table, sa.Column("claimed_by", sa.Text))
        op.add_column(table, sa.Column("message", sa.Text))
        op.create_index(f"ix_{table}_created_at", table, ["created_at", "id"])
    moved_clusters = op.create_table(
        "moved_clusters",
        sa.Column("event", RowId, primary_key=True, autoincrement=False),
        sa.Column("cluster", sa.Text, primary_key=True),
    )
    op.create_index("ix_moved_clusters_cluster", "moved_clusters", ["cluster", "event"])
    member_changes = op.create_table(
        "member_changes",
        sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("cluster", sa.Text, primary_key=True),
    )
    op.create_index("ix_member_changes_cluster", "member_changes", ["cluster", "revision"])
    cutoffs = op.create_table(
        "retention_cutoffs",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("cutoff", UtcDateTime, nullable=False),
    )
    _fill_moved_clusters(moved_clusters)
    _fill_member_changes(member_changes)
    _fill_cutoffs(cutoffs)


def _fill_moved_clusters(moved_clusters: sa.Table) -> None:
    """Rounds of before name at most five moves, which is all that is known of them."""
    query = sa.select(_events.c.number, _events.c.reason).where(_events.c.cluster == "", _events.c.type == "REDECIDED")
    rows = []
    for number, reason in op.get_bind().execute(query):
        names = {name for move in _MOVE.finditer(reason or "") for name in move.groups()}
        rows += [{"event": number, "cluster": name} for name in sorted(names - {_NO_CLUSTER})]
    if rows:
        op.bulk_insert(moved_clusters, rows)


def _fill_member_changes(member_changes: sa.Table) -> None:
    is_group = (_changes.c.kind.in_(("POOL", "LABEL")), sa.text("name <> ''"))
    query = sa.select(_changes.c.revision, _changes.c.before, _changes.c.after).where(*is_group)
    pairs: set[tuple[int, str]] = set()
    for revision, *payloads in op.get_bind().execute(query):
        before, after = ((payload or {}).get("members") or [] for payload in payloads)
        if before != after:
            pairs |= {(revision, member["id"]) for member in (*before, *after)}
    rows = [{"revision": revision, "cluster": cluster} for revision, cluster in sorted(pairs)]
    for start in range(0, len(rows), _BATCH):
        op.bulk_insert(member_changes, rows[start : start + _BATCH])


def _fill_cutoffs(cutoffs: sa.Table) -> None:
    """What is gone is older than the oldest that is kept; how long it was to be kept is not known."""
    connection = op.get_bind()
    for name, time in (("revisions", "created_at"), ("cluster_events", "at")):
        table = sa.table(name, sa.column("number"), sa.column(time, UtcDateTime))
        first = connection.execute(sa.select(table).order_by(table.c.number).limit(1)).first()
        if first is not None and first.number > 1:
            op.bulk_insert(cutoffs, [{"name": name, "cutoff": first[1]}])
    pruned = sa.select(_events.c.number).where(_events.c.cluster == "", _events.c.type == "PRUNED")
    if connection.execute(pruned.where(_events.c.reason.contains(" executions: ")).limit(1)).first() is not None:
        executions = sa.table("executions", sa.column("finished_at", UtcDateTime))
        first_end = connection.execute(sa.select(sa.func.min(executions.c.finished_at))).scalar()
        if first_end is not None:
            op.bulk_insert(cutoffs, [{"name": "executions", "cutoff": first_end}])


def downgrade() -> None:
    op.drop_table("retention_cutoffs")
    op.drop_table("member_changes")
    op.drop_table("moved_clusters")
    for table in _REGISTERED:
        op.drop_index(f"ix_{table}_created_at", table)
        for column in ("message", "claimed_by", "author"):
            op.drop_column(table, column)
