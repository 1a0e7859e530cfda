"""Who created an execution and for whom, and its labels, by which executions are selected."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def _columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("created_by", sa.Text, nullable=False, server_default=""),
        sa.Column("principal", sa.Text),
        sa.Column("labels", sa.JSON),
    )


#: The columns of executions from before, out of what was stored of them. PostgreSQL reads no part of JSON with a NUL.
_POSTGRESQL = (
    "UPDATE executions SET principal = NULLIF(request #>> '{spec,metadata,principal}', ''), "
    "labels = content #> '{job,labels}' "
    "WHERE CASE WHEN strpos(concat(request, content), '\\u0000') > 0 THEN FALSE "
    "ELSE request #>> '{spec,metadata,principal}' <> '' OR content #> '{job,labels}' IS NOT NULL END"
)
_SQLITE = (
    "UPDATE executions SET principal = NULLIF(json_extract(request, '$.spec.metadata.principal'), ''), "
    "labels = json_extract(content, '$.job.labels') "
    "WHERE json_extract(request, '$.spec.metadata.principal') <> '' "
    "OR json_extract(content, '$.job.labels') IS NOT NULL"
)


def upgrade() -> None:
    for column in _columns():
        op.add_column("executions", column)
    op.execute(_POSTGRESQL if op.get_bind().dialect.name == "postgresql" else _SQLITE)


def downgrade() -> None:
    for column in _columns():
        op.drop_column("executions", column.name)
