"""Events of clusters keep the deadline of a drain, and the revision that deleted a cluster with who made it.

Of the drains that go on, and of clusters that were deleted before, both are filled in.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from admin.store.database import UtcDateTime

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.add_column("cluster_events", sa.Column("deadline", UtcDateTime))
    op.add_column("cluster_events", sa.Column("revision", sa.BigInteger))
    deadline = "SELECT drain_deadline FROM cluster_states WHERE name = cluster_events.cluster AND draining"
    last = (
        "SELECT MAX(others.number) FROM cluster_events AS others "
        "WHERE others.cluster = cluster_events.cluster AND others.type = 'DRAINING'"
    )
    op.execute(f"UPDATE cluster_events SET deadline = ({deadline}) WHERE type = 'DRAINING' AND number = ({last})")
    # A cluster was deleted in the moment that its revision has.
    deleting = (
        "FROM revision_changes JOIN revisions ON revisions.number = revision_changes.revision "
        "WHERE revision_changes.kind = 'CLUSTER' AND revision_changes.name = cluster_events.cluster "
        "AND revision_changes.after IS NULL AND revisions.created_at = cluster_events.at"
    )
    op.execute(
        f"UPDATE cluster_events SET revision = (SELECT MAX(revision_changes.revision) {deleting}) "
        "WHERE type = 'DELETED'"
    )
    made_by = "FROM revisions WHERE revisions.number = cluster_events.revision"
    op.execute(
        f"UPDATE cluster_events SET claimed_by = (SELECT claimed_by {made_by}), reason = (SELECT message {made_by}) "
        "WHERE revision IS NOT NULL"
    )


def downgrade() -> None:
    op.drop_column("cluster_events", "revision")
    op.drop_column("cluster_events", "deadline")
