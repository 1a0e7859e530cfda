"""Indexes of what waits that no query can mistake the index of phases for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_QUEUE = ("cluster", "tier", "priority DESC", "id")
_NEW = {
    "offered": (_QUEUE, "(phase = 'QUEUED') IS TRUE AND lease_expires_at IS NULL"),
    "deadline": (("queue_deadline",), "(phase = 'QUEUED') IS TRUE AND queue_deadline IS NOT NULL"),
    "backing_off": (("cluster", "not_before"), "(phase = 'QUEUED') IS TRUE AND not_before IS NOT NULL"),
}
_OLD = {
    "offered": (_QUEUE, "phase = 'QUEUED' AND lease_expires_at IS NULL"),
    "deadline": (("phase", "queue_deadline"), "phase = 'QUEUED' AND queue_deadline IS NOT NULL"),
    "backing_off": (("cluster", "not_before"), "phase = 'QUEUED' AND not_before IS NOT NULL"),
}


def upgrade() -> None:
    # Among millions that have ended PostgreSQL holds what waits for a single row, as its statistics say, and read all
    # of it by its phase for every agent that asked for work.
    _create(_NEW)


def downgrade() -> None:
    _create(_OLD)


def _create(indexes: dict[str, tuple[tuple[str, ...], str]]) -> None:
    for name, (columns, condition) in indexes.items():
        op.drop_index(f"ix_executions_{name}", "executions")
        op.create_index(
            f"ix_executions_{name}",
            "executions",
            [sa.text(column) if " " in column else column for column in columns],
            postgresql_where=sa.text(condition),
            sqlite_where=sa.text(condition),
        )
