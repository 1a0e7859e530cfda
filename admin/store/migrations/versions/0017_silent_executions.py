"""Executions that wait for a silent agent are found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

_IS_SILENT = sa.text("silent_since IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_executions_silent",
        "executions",
        ["silent_since"],
        postgresql_where=_IS_SILENT,
        sqlite_where=_IS_SILENT,
    )


def downgrade() -> None:
    op.drop_index("ix_executions_silent", "executions")
