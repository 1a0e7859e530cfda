"""Sums of the grants of tokens at each scope, and indexes of grants by their ends, executions and sizes."""

from __future__ import annotations

from collections import Counter

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0041"

_INDEXES: dict[str, list[str | sa.TextClause]] = {
    "ix_token_grants_ends": ["pool", "expires_at"],
    "ix_token_grants_executions": ["pool", "execution"],
    "ix_token_grants_sizes": ["pool", sa.text("amount DESC"), "number"],
}


def upgrade() -> None:
    sums = op.create_table(
        "token_sums",
        sa.Column("pool", sa.Text, primary_key=True),
        sa.Column("bucket", sa.Text, primary_key=True),
        sa.Column("amount", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    for name, columns in _INDEXES.items():
        op.create_index(name, "token_grants", columns)
    amounts: Counter[tuple[str, str]] = Counter()
    numbers: Counter[tuple[str, str]] = Counter()
    grants = sa.text("SELECT pool, amount, project, domain, workflow, launch_plan FROM token_grants")
    for pool, amount, *place in op.get_bind().execute(grants):
        for bucket in _buckets(*place):
            amounts[pool, bucket] += amount
            numbers[pool, bucket] += 1
    rows = [
        {"pool": pool, "bucket": bucket, "amount": amount, "number": numbers[pool, bucket]}
        for (pool, bucket), amount in sorted(amounts.items())
    ]
    if rows:
        op.bulk_insert(sums, rows)


def _buckets(project: str, domain: str, workflow: str, launch_plan: str) -> set[str]:
    """The paths of the scopes at and above a place, and "" for what has no project."""
    buckets = {"///", f"/{domain}//", f"{project}///", f"{project}/{domain}//"}
    if workflow:
        buckets |= {f"{project}/{domain}/{workflow}/", f"{project}/{domain}/{workflow}/{launch_plan}"}
    return buckets | ({""} if not project else set())


def downgrade() -> None:
    for name in _INDEXES:
        op.drop_index(name, "token_grants")
    op.drop_table("token_sums")
