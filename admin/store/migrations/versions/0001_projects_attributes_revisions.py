"""Projects, attributes, and the revisions that changed them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
    )
    op.create_table(
        "attributes",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("project", sa.Text, primary_key=True),
        sa.Column("domain", sa.Text, primary_key=True),
        sa.Column("workflow", sa.Text, primary_key=True),
        sa.Column("launch_plan", sa.Text, primary_key=True),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.Column("updated_by", sa.Text, nullable=False),
        sa.Column("claimed_by", sa.Text),
    )
    op.create_index("ix_attributes_scope", "attributes", ["project", "domain", "workflow", "launch_plan"])
    head = op.create_table(
        "revision_head",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(head, [{"id": 1, "number": 0}])
    op.create_table(
        "revisions",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("claimed_by", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("request_id", sa.Text),
    )
    op.create_table(
        "revision_changes",
        sa.Column("revision", sa.BigInteger, sa.ForeignKey("revisions.number"), primary_key=True),
        sa.Column("ordinal", sa.Integer, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("launch_plan", sa.Text, nullable=False),
        sa.Column("before", sa.JSON),
        sa.Column("after", sa.JSON),
    )
    op.create_index(
        "ix_revision_changes_scope", "revision_changes", ["project", "domain", "workflow", "launch_plan", "kind"]
    )


def downgrade() -> None:
    for table in ("revision_changes", "revisions", "revision_head", "attributes", "projects"):
        op.drop_table(table)
