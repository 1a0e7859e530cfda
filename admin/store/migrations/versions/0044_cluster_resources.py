"""What agents report of the namespaces that they make, what happened to their objects, and whose these are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import RowId, UtcDateTime

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    op.create_table(
        "installations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("created_at", UtcDateTime, nullable=False),
    )
    op.create_table(
        "namespace_reports",
        sa.Column("cluster", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("is_there", sa.Boolean, nullable=False),
        sa.Column("objects", sa.JSON, nullable=False),
        sa.Column("reported_at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_namespace_reports_scope", "namespace_reports", ["project", "domain"])
    op.create_table(
        "namespace_events",
        sa.Column("id", RowId, primary_key=True, autoincrement=True),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("object", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
    )
    op.create_index("ix_namespace_events_scope", "namespace_events", ["project", "domain", "id"])
    op.create_index("ix_namespace_events_at", "namespace_events", ["at"])


def downgrade() -> None:
    op.drop_table("namespace_events")
    op.drop_table("namespace_reports")
    op.drop_table("installations")
