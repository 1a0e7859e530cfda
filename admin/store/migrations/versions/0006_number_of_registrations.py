"""A number that counts registrations, for those who remember them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    head = op.create_table(
        "registration_head",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(head, [{"id": 1, "number": 0}])
    if op.get_context().dialect.name == "postgresql":
        # What never changes of an execution is kept aside and not written again with every step of its life, and a
        # page has room for the steps that no index tells of.
        op.execute("ALTER TABLE executions SET (toast_tuple_target = 256, fillfactor = 60)")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE executions RESET (toast_tuple_target, fillfactor)")
    op.drop_table("registration_head")
