"""How who ended an execution, and who registered or activated something, was proven; and who gave executions up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"

_REGISTERED = ("workflows", "launch_plans", "launch_plan_activations")
_NAMES = ("abort_cause", "abort_principal", "abort_author", "abort_proof")
_executions = sa.table("executions", *(sa.column(name) for name in ("id", "phase", "reason", *_NAMES)))
_events = sa.table(
    "execution_events",
    *(sa.column(name) for name in ("execution_id", "number", "type", "message", "by", "proven_author", "proof")),
)


def upgrade() -> None:
    op.add_column("executions", sa.Column("abort_proof", sa.Text))
    for table in _REGISTERED:
        op.add_column(table, sa.Column("proof", sa.Text))
    # The events of executions have known it before.
    is_end = _events.c.type.in_(("ABORTING", "ABORTED"))
    op.execute(
        _executions.update()
        .where(_executions.c.abort_author.is_not(None))
        .values(abort_proof=_last("proof", is_end, _events.c.by == _executions.c.abort_principal))
    )
    is_given_up = _events.c.type == "GIVEN_UP"
    of_events = dict(zip(_NAMES, ("message", "by", "proven_author", "proof"), strict=True))
    op.execute(
        _executions.update()
        .where(
            _executions.c.phase == "FAILED",
            _executions.c.reason == "CLUSTER_LOST",
            sa.exists().where(_events.c.execution_id == _executions.c.id, is_given_up),
        )
        .values({name: _last(column, is_given_up) for name, column in of_events.items()})
    )


def _last(column: str, *conditions: sa.ColumnElement[bool]) -> sa.ScalarSelect[str]:
    """What the last of some events of an execution has in a column."""
    query = sa.select(_events.c[column]).where(_events.c.execution_id == _executions.c.id, *conditions)
    return query.order_by(_events.c.number.desc()).limit(1).scalar_subquery()


def downgrade() -> None:
    # The version before knew nobody who had ended one that failed.
    values = dict.fromkeys(_NAMES[:-1])
    op.execute(_executions.update().where(_executions.c.phase == "FAILED").values(values))
    for table in reversed(_REGISTERED):
        op.drop_column(table, "proof")
    op.drop_column("executions", "abort_proof")
