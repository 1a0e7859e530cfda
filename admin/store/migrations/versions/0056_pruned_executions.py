"""How many executions of each project and domain retention has deleted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0056"
down_revision = "0055"


def upgrade() -> None:
    table = op.create_table(
        "pruned_executions",
        sa.Column("project", sa.Text, primary_key=True),
        sa.Column("domain", sa.Text, primary_key=True),
        sa.Column("total", sa.BigInteger, nullable=False),
        sa.Column("first_ended_at", UtcDateTime),
        sa.Column("last_ended_at", UtcDateTime),
    )
    cutoffs = sa.table("retention_cutoffs", sa.column("name"))
    # A row of no project says that others were deleted before they were counted.
    row = sa.select(sa.literal("").label("project"), sa.literal("").label("domain"), sa.literal(0).label("total"))
    uncounted = row.select_from(cutoffs).where(cutoffs.c.name == "executions")
    op.execute(sa.insert(table).from_select(["project", "domain", "total"], uncounted))


def downgrade() -> None:
    op.drop_table("pruned_executions")
