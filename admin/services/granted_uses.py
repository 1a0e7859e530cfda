"""Granted uses: the use grants that name a cluster, cluster group, pool or label, and so would miss it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.in_use import Use
from admin.core.use_grants import USE_GRANT, Named
from admin.store import use_grants
from admin.store.use_grants import UseGrantFilter

#: Use grants that an answer has; the others are counted.
_MOST_USERS = 500


def granted_uses(connection: Connection, target: Named, changes: Iterable[RowChange]) -> Iterator[Use]:
    """The use grants on something, but for those that some changes take away."""
    taken = {change.name for change in changes if change.kind == USE_GRANT and change.after is None}
    conditions, most = UseGrantFilter(target=target), _MOST_USERS + len(taken)
    stored = use_grants.page(connection, conditions, limit=most)
    left = [row for row in stored if row.name not in taken][:_MOST_USERS]
    for row in left:
        yield Use(noun="use-grant", reason=f"{row.grant.grantee} may use it", version=row.version)
    if len(stored) < most:  # there are no others
        return
    gone = [row for row in use_grants.some(connection, taken).values() if row.grant.target == target]
    rest = use_grants.count(connection, conditions) - len(gone) - len(left)
    if rest > 0:
        verb = "use grant names" if rest == 1 else "use grants name"
        yield Use(noun="use-grant", reason=f"{rest} more {verb} it", count=rest)
