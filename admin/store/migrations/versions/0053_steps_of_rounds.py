"""What a round of new decisions that somebody asked for has moved so far, for its next step to add to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0054"


def upgrade() -> None:
    op.add_column("cluster_events", sa.Column("moves", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    op.drop_column("cluster_events", "moves")
