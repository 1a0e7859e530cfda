"""The revisions of a kind, and those by somebody, are found newest first, however many others there are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0057"


def upgrade() -> None:
    is_claimed = sa.text("claimed_by IS NOT NULL")
    op.create_index("ix_revision_changes_kind", "revision_changes", ["kind", "revision"])
    op.create_index("ix_revisions_author", "revisions", ["author", "number"])
    op.create_index(
        "ix_revisions_claimed_by",
        "revisions",
        ["claimed_by", "number"],
        postgresql_where=is_claimed,
        sqlite_where=is_claimed,
    )


def downgrade() -> None:
    op.drop_index("ix_revisions_claimed_by", "revisions")
    op.drop_index("ix_revisions_author", "revisions")
    op.drop_index("ix_revision_changes_kind", "revision_changes")
