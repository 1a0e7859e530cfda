"""Audit events; from where a user's token was used, and what it is good for; how often tokens were taken away."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import RowId, UtcDateTime

revision = "0034"
down_revision = "0033"

_TEXTS = ("user_name", "proof", "address", "method", "route", "request_id", "target", "reason")


def upgrade() -> None:
    op.create_table(
        "audit_events",
        sa.Column("number", RowId, primary_key=True),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        *(sa.Column(name, sa.Text) for name in _TEXTS),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("last_at", UtcDateTime),
        sa.Column("repeat_key", sa.Text),
    )
    op.create_index("ix_audit_events_repeat_key", "audit_events", ["repeat_key"], unique=True)
    op.create_index("ix_audit_events_at_number", "audit_events", ["at", "number"])
    op.create_index("ix_audit_events_user_name_number", "audit_events", ["user_name", "number"])
    op.create_index("ix_audit_events_address_number", "audit_events", ["address", "number"])
    op.add_column("user_tokens", sa.Column("addresses", sa.JSON, nullable=False, server_default="[]"))
    op.add_column("user_tokens", sa.Column("narrowed", sa.JSON))
    op.add_column("grants_head", sa.Column("tokens", sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    # An older admin would take a narrowed token for one as good as its user, and knows no cutoff of events.
    op.execute("DELETE FROM user_tokens WHERE narrowed IS NOT NULL")
    op.execute("DELETE FROM retention_cutoffs WHERE name = 'audit_events'")
    op.drop_column("grants_head", "tokens")
    op.drop_column("user_tokens", "narrowed")
    op.drop_column("user_tokens", "addresses")
    op.drop_table("audit_events")
