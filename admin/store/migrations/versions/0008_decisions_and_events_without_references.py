"""Decisions and events that do not refer to their executions by a constraint."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

_TABLES = ("decisions", "execution_events")


def upgrade() -> None:
    # PostgreSQL looked each execution up and locked it again for every decision and every event, an eighth of what a
    # creation costs; whoever writes one holds the execution already, and counts it there.
    for table in _TABLES:
        with op.batch_alter_table(table) as altered:
            altered.drop_constraint(f"fk_{table}_execution_id", type_="foreignkey")


def downgrade() -> None:
    for table in _TABLES:
        with op.batch_alter_table(table) as altered:
            altered.create_foreign_key(f"fk_{table}_execution_id", "executions", ["execution_id"], ["id"])
