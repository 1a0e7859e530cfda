"""The name that the creator of an execution gave, which nothing verifies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("executions", sa.Column("claimed_by", sa.Text))


def downgrade() -> None:
    op.drop_column("executions", "claimed_by")
