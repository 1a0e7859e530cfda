"""Active launch plans are found without their other versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

_ACTIVE = sa.text("state = 'ACTIVE'")
_INDEXES = {
    "ix_launch_plans_active": ["project", "domain", "name"],
    "ix_launch_plans_active_workflow": ["project", "domain", "workflow", "name"],
}


def upgrade() -> None:
    for name, columns in _INDEXES.items():
        op.create_index(name, "launch_plans", columns, postgresql_where=_ACTIVE, sqlite_where=_ACTIVE)


def downgrade() -> None:
    for name in _INDEXES:
        op.drop_index(name, "launch_plans")
