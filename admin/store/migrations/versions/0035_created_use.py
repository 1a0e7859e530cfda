"""The clusters that the token of an execution's creator was for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.add_column("executions", sa.Column("created_use", sa.Text))


def downgrade() -> None:
    op.drop_column("executions", "created_use")
