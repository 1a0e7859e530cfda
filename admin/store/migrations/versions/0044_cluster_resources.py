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
    # An older admin knows neither this reason nor this cutoff, and refuses definitions with a field that it lacks.
    op.execute(
        "UPDATE executions SET reason = 'ASSIGNED', reason_message = 'It waits for the agent of its cluster.' "
        "WHERE phase = 'QUEUED' AND reason = 'NAMESPACE_NOT_READY'"
    )
    op.execute("DELETE FROM retention_cutoffs WHERE name = 'namespace_events'")
    _make_no_namespaces()
    op.drop_table("namespace_events")
    op.drop_table("namespace_reports")
    op.drop_table("installations")


def _make_no_namespaces() -> None:
    definitions = sa.table("fleet_definitions", sa.column("kind"), sa.column("name"), sa.column("payload", sa.JSON))
    connection = op.get_bind()
    for row in connection.execute(sa.select(definitions).where(definitions.c.kind == "CLUSTER")).all():
        if "cluster_resources" in row.payload:
            payload = {name: value for name, value in row.payload.items() if name != "cluster_resources"}
            own = (definitions.c.kind == row.kind, definitions.c.name == row.name)
            connection.execute(sa.update(definitions).where(*own).values(payload=payload))
