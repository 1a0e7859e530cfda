"""Warnings: everything that is questionable now, in what is stored and about the admin itself."""

from __future__ import annotations

from sqlalchemy import Connection

from admin.core.executions.lifecycle import Phase
from admin.core.fleet.fleet import expected_warnings
from admin.core.settings.warnings import Warning
from admin.services.changeable.registry import NOUNS
from admin.services.clocks import clock_warnings
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.deletions import explain_deletions
from admin.services.reconciliations import restoration_warnings
from admin.store import execution_queue, executions


def list_warnings(context: Context) -> list[Warning]:
    """Every warning that is true now, those about the admin first, then by noun, kind and scope."""
    with context.database.reading() as connection:
        about_admin = admin_warnings(context, connection)
        counts = executions.counts_by_cluster(connection)
        waiting = {name: count for (name, phase), count in counts.items() if phase == Phase.QUEUED.value}
        fleet_now = current_fleet(context, connection)
        expected = [name for name, cluster in fleet_now.clusters.items() if cluster.is_expected and waiting.get(name)]
        naming = execution_queue.count_naming(connection, expected)
        about_work = expected_warnings(fleet_now, waiting, naming)
        stored = [warning for noun in NOUNS for warning in noun.stored_warnings(context, connection)]
        return [*about_admin, *about_work, *explain_deletions(context, connection, stored)]


def stored_warnings(context: Context) -> list[Warning]:
    """Every warning about what is stored, by noun, kind and scope."""
    with context.database.reading() as connection:
        return [warning for noun in NOUNS for warning in noun.stored_warnings(context, connection)]


def admin_warnings(context: Context, connection: Connection) -> list[Warning]:
    """What is wrong with the admin or its database, and keeps it from doing something."""
    return [*restoration_warnings(connection), *clock_warnings(context, connection)]
