"""Users and their tokens; and how the author of a revision, event or execution was proven."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0031"
down_revision = "0030"

#: The columns that are new in other tables.
_NEW = {
    "revisions": ("proof",),
    "executions": ("created_proof", "abort_author"),
    "execution_events": ("proven_author", "proof"),
    "cluster_events": ("proven_author", "proof"),
    "clock_checks": ("accepted_author",),
}


def upgrade() -> None:
    op.create_table(
        "users",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("service_account", sa.Boolean, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "user_tokens",
        sa.Column("prefix", sa.Text, primary_key=True),
        sa.Column("user_name", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("last_used_at", UtcDateTime),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("revoked_at", UtcDateTime),
    )
    op.create_index("ix_user_tokens_user_name", "user_tokens", ["user_name"])
    for table, columns in _NEW.items():
        for column in columns:
            op.add_column(table, sa.Column(column, sa.Text))


def downgrade() -> None:
    for table, columns in _NEW.items():
        for column in reversed(columns):
            op.drop_column(table, column)
    op.drop_table("user_tokens")
    op.drop_table("users")
    op.execute("DELETE FROM revision_changes WHERE kind = 'USER' AND name <> ''")
