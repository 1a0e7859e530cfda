"""Indexes that fit lists and the queue, however many executions have ended; trails may go before decisions do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_CREATED = ("created_at", "id")
#: By name: the columns, and which rows are in it.
_NEW: dict[str, tuple[tuple[str, ...], str | None]] = {
    "active": (_CREATED, "state = 'ACTIVE'"),
    "archived": (_CREATED, "state = 'ARCHIVED'"),
    "scope": (("project", "domain", *_CREATED), None),
    "phase": (("phase", *_CREATED), None),
    "cluster": (("cluster", *_CREATED), None),
    "pool": (("pool", *_CREATED), "pool IS NOT NULL"),
    "label": (("label", *_CREATED), "label IS NOT NULL"),
    "workflow": (("workflow", *_CREATED), "workflow <> ''"),
    "launch_plan": (("launch_plan", *_CREATED), "launch_plan <> ''"),
    "offered": (("cluster", "tier", "priority DESC", "id"), "phase = 'QUEUED' AND lease_expires_at IS NULL"),
    "held": (("cluster", "id"), "lease_expires_at IS NOT NULL"),
    "unfinished": (("phase", "id"), "finished_at IS NULL"),
    "unplaced": (("phase", "reason", "id"), "phase = 'QUEUED' AND cluster IS NULL"),
    "deadline": (("phase", "queue_deadline"), "phase = 'QUEUED' AND queue_deadline IS NOT NULL"),
    "backing_off": (("cluster", "not_before"), "phase = 'QUEUED' AND not_before IS NOT NULL"),
}
_OLD = {
    "phase_cluster_id": ("phase", "cluster", "id"),
    "phase_queue_deadline": ("phase", "queue_deadline"),
    "created_at_id": ("created_at", "id"),
    "lease": ("cluster", "phase", "tier", "priority", "id"),
}
_TRAILS = ("settings_trail", "placement_trail")


def upgrade() -> None:
    for name in _OLD:
        op.drop_index(f"ix_executions_{name}", "executions")
    for name, (columns, where) in _NEW.items():
        condition = None if where is None else sa.text(where)
        op.create_index(
            f"ix_executions_{name}",
            "executions",
            [sa.text(column) if " " in column else column for column in columns],
            postgresql_where=condition,
            sqlite_where=condition,
        )
    with op.batch_alter_table("decisions") as decisions:
        for name in _TRAILS:
            decisions.drop_constraint(f"fk_decisions_{name}", type_="foreignkey")
    if _is_postgresql():
        # Rows that have left the queue are cleared away before they fill its indexes, however large the table is.
        op.execute("ALTER TABLE executions SET (autovacuum_vacuum_scale_factor = 0.01)")


def downgrade() -> None:
    if _is_postgresql():
        op.execute("ALTER TABLE executions RESET (autovacuum_vacuum_scale_factor)")
    for name in _TRAILS:
        op.execute(
            f"INSERT INTO trails (digest, body) SELECT {name}, '{{}}' FROM decisions "
            f"WHERE NOT EXISTS (SELECT 1 FROM trails WHERE digest = {name}) GROUP BY {name}"
        )
    with op.batch_alter_table("decisions") as decisions:
        for name in _TRAILS:
            decisions.create_foreign_key(f"fk_decisions_{name}", "trails", [name], ["digest"])
    for name in _NEW:
        op.drop_index(f"ix_executions_{name}", "executions")
    for name, columns in _OLD.items():
        op.create_index(f"ix_executions_{name}", "executions", list(columns))


def _is_postgresql() -> bool:
    return op.get_context().dialect.name == "postgresql"
