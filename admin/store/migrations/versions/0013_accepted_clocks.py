"""When the clock was last trusted, under its own name, and who accepted it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.execute("ALTER TABLE clock_checks RENAME COLUMN believed_at TO trusted_at")
    op.add_column("clock_checks", sa.Column("accepted_at", sa.DateTime(timezone=True)))
    op.add_column("clock_checks", sa.Column("accepted_by", sa.Text))
    op.add_column("clock_checks", sa.Column("accepted_reason", sa.Text))


def downgrade() -> None:
    for name in ("accepted_reason", "accepted_by", "accepted_at"):
        op.drop_column("clock_checks", name)
    op.execute("ALTER TABLE clock_checks RENAME COLUMN trusted_at TO believed_at")
