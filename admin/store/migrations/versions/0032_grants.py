"""Groups of users and grants, and the number that counts their changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

_SCOPE = ("project", "domain", "workflow", "launch_plan")


def upgrade() -> None:
    op.create_table(
        "user_groups",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "grants",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("noun", sa.Text, nullable=False),
        sa.Column("grantee", sa.Text, nullable=False),
        *(sa.Column(key, sa.Text, nullable=False) for key in _SCOPE),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_grants_grantee", "grants", ["noun", "grantee"])
    op.create_index("ix_grants_scope", "grants", list(_SCOPE))
    head = op.create_table(
        "grants_head",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(head, [{"id": 1, "number": 0}])


def downgrade() -> None:
    op.drop_table("grants_head")
    op.drop_table("grants")
    op.drop_table("user_groups")
    # An older admin does not know these rows.
    op.execute("DELETE FROM revision_changes WHERE kind IN ('GROUP', 'GRANT') AND name <> ''")
