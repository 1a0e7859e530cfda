"""Groups of clusters, who may use which clusters, and the groups that proofs of identities named last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    op.create_table(
        "cluster_groups",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "use_grants",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("target_noun", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("noun", sa.Text, nullable=False),
        sa.Column("grantee", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_use_grants_target", "use_grants", ["target_noun", "target"])
    op.create_index("ix_use_grants_grantee", "use_grants", ["noun", "grantee"])
    op.create_table(
        "proven_groups",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("groups", sa.JSON, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_proven_groups_number", "proven_groups", ["number"])


def downgrade() -> None:
    op.drop_table("proven_groups")
    op.drop_table("use_grants")
    op.drop_table("cluster_groups")
    # An older admin does not know these rows.
    op.execute("DELETE FROM revision_changes WHERE kind IN ('CLUSTER_GROUP', 'USE_GRANT') AND name <> ''")
