"""Projects have versions, and a change remembers the version that it replaced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("projects") as projects:
        projects.add_column(sa.Column("version", sa.BigInteger, nullable=False, server_default="0"))
    with op.batch_alter_table("revision_changes") as changes:
        changes.add_column(sa.Column("before_version", sa.BigInteger))


def downgrade() -> None:
    with op.batch_alter_table("revision_changes") as changes:
        changes.drop_column("before_version")
    with op.batch_alter_table("projects") as projects:
        projects.drop_column("version")
