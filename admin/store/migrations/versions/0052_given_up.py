"""Who gave an execution up, also where another had ended it before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0047"

_NAMES = ("given_up_principal", "given_up_author", "given_up_proof")
_executions = sa.table("executions", *(sa.column(name) for name in ("id", "reason", *_NAMES)))
_events = sa.table(
    "execution_events",
    *(sa.column(name) for name in ("execution_id", "number", "type", "by", "proven_author", "proof")),
)


def upgrade() -> None:
    for name in _NAMES:
        op.add_column("executions", sa.Column(name, sa.Text))
    # The events of executions have known it before; a search over all executions would take long where there are many.
    is_given_up = _events.c.type == "GIVEN_UP"
    given_up = sa.select(_events.c.execution_id).where(is_given_up)
    for column, name in zip(("by", "proven_author", "proof"), _NAMES, strict=True):
        last = sa.select(_events.c[column]).where(_events.c.execution_id == _executions.c.id, is_given_up)
        op.execute(
            _executions.update()
            .where(_executions.c.id.in_(given_up))
            .values({name: last.order_by(_events.c.number.desc()).limit(1).scalar_subquery()})
        )


def downgrade() -> None:
    for name in reversed(_NAMES):
        op.drop_column("executions", name)
