"""Where sessions of the console began, and when they were used; the provider of logins is a column of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0054"
down_revision = "0052"

_sessions = sa.table("sessions", *(sa.column(name) for name in ("proof", "token_hash", "issuer_hash")))
_is_login = _sessions.c.proof == "openid"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("issuer_hash", sa.Text))
    op.add_column("sessions", sa.Column("last_used_at", UtcDateTime))
    op.add_column("sessions", sa.Column("address", sa.Text))
    op.add_column("sessions", sa.Column("browser", sa.Text))
    op.execute(_sessions.update().where(_is_login).values(issuer_hash=_sessions.c.token_hash, token_hash=None))
    op.create_index("ix_sessions_user", "sessions", ["user_name", "hash"])


def downgrade() -> None:
    op.drop_index("ix_sessions_user", "sessions")
    op.execute(_sessions.update().where(_is_login).values(token_hash=_sessions.c.issuer_hash))
    for column in ("browser", "address", "last_used_at", "issuer_hash"):
        op.drop_column("sessions", column)
