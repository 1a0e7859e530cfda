"""The tokens that executions need and hold, and how often tokens of a pool came free."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"

_INDEX = "ix_executions_needing_tokens"


def upgrade() -> None:
    op.add_column("executions", sa.Column("token_pools", sa.Text))
    op.add_column("executions", sa.Column("token_number", sa.BigInteger))
    condition = sa.text("token_pools IS NOT NULL AND finished_at IS NULL")
    op.create_index(_INDEX, "executions", ["cluster", "id"], postgresql_where=condition, sqlite_where=condition)
    releases = sa.Column("releases", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("token_pool_heads", releases)


def downgrade() -> None:
    # An older admin knows neither these reasons nor these rows.
    op.execute(
        "UPDATE executions SET reason = 'ASSIGNED', reason_message = 'It waits for the agent of its cluster.' "
        "WHERE phase = 'QUEUED' AND reason IN ('WAITING_FOR_TOKENS', 'QUOTA_FULL')"
    )
    op.execute("DELETE FROM attributes WHERE kind = 'EXECUTION_QUOTA'")
    op.drop_column("token_pool_heads", "releases")
    op.drop_index(_INDEX, "executions")
    for column in ("token_number", "token_pools"):
        op.drop_column("executions", column)
