"""Token pools, grants of tokens, and those that wait for some."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"

_TIME = sa.DateTime(timezone=True)


def _scope() -> list[sa.Column[str]]:
    return [sa.Column(key, sa.Text, nullable=False) for key in ("project", "domain", "workflow", "launch_plan")]


def upgrade() -> None:
    op.create_table(
        "token_pools",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "token_pool_heads",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "token_grants",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("amount", sa.BigInteger, nullable=False),
        *_scope(),
        sa.Column("execution", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("lease_seconds", sa.Float, nullable=False),
        sa.Column("granted_at", _TIME, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
    )
    op.create_table(
        "token_waiters",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("amounts", sa.JSON, nullable=False),
        sa.Column("caps", sa.JSON, nullable=False),
        sa.Column("standings", sa.JSON, nullable=False),
        *_scope(),
        sa.Column("execution", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("weight", sa.Float, nullable=False),
        sa.Column("since", _TIME, nullable=False),
        sa.Column("wait_seconds", sa.Float, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
    )


def downgrade() -> None:
    for table in ("token_waiters", "token_grants", "token_pool_heads", "token_pools"):
        op.drop_table(table)
    # An older admin does not know these rows.
    op.execute("DELETE FROM revision_changes WHERE kind = 'TOKEN_POOL' AND name <> ''")
    op.execute("DELETE FROM attributes WHERE kind = 'TOKEN_POOL_QUOTA'")
