"""The admin's own state, for probes and metrics."""

from __future__ import annotations

import threading
from collections import Counter

from sqlalchemy.exc import SQLAlchemyError

from admin.metrics import State
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.warnings import admin_warnings, stored_warnings
from admin.store import executions, registrations, revisions
from admin.store.schema import SchemaState, schema_state


def is_ready(context: Context) -> tuple[bool, str]:
    """Whether the database answers and has the schema this version works with; and if not, why."""
    try:
        state = schema_state(context.database.engine)
        with context.database.reading() as connection:
            revisions.head(connection)
    except SQLAlchemyError:
        return False, "the database does not answer; the log has the reason"
    if state is not SchemaState.CURRENT:
        return False, f"the schema is {state.value}: run `rainbow-admin migrate`"
    return True, "ready"


#: The most scopes for which warnings are counted.
_MAX_SCOPES = 20_000


class StateSummary:
    """Counts for metrics; the warnings are counted again only when something has been written since."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._counted_at = (-1, -1)
        self._warnings: dict[str, int] = {}

    def __call__(self) -> State:
        with self._context.database.reading() as connection:
            head = revisions.head(connection)
            moment = head, registrations.number(connection)
            unfinished = list(executions.unfinished_counts(connection))
            clusters = current_fleet(self._context, connection).clusters
            about_admin = Counter(warning.code.value for warning in admin_warnings(self._context, connection))
        with self._lock:
            index = self._context.index
            if index.current() is None or index.size > _MAX_SCOPES:
                self._warnings = {}  # checking so many after each change would take too long
            elif moment != self._counted_at:
                self._warnings = dict(Counter(warning.code for warning in stored_warnings(self._context)))
                self._counted_at = moment
            return State(
                warnings={**self._warnings, **about_admin},
                revision=head,
                executions=unfinished,
                clusters={name: cluster.enabled and not cluster.cordoned for name, cluster in clusters.items()},
            )
