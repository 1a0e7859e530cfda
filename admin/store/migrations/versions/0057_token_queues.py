"""The queues of those that wait for tokens, so that of a long line few need be read."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"


def upgrade() -> None:
    op.add_column("token_waiters", sa.Column("queue", sa.Text))
    columns = ["pool", "queue", "since", "number", "expires_at"]
    op.create_index("ix_token_waiters_queues", "token_waiters", columns)


def downgrade() -> None:
    op.drop_index("ix_token_waiters_queues", "token_waiters")
    op.drop_column("token_waiters", "queue")
