"""Warnings: everything stored that is still questionable."""

from __future__ import annotations

from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Surroundings, Warning, fleet_warnings, warnings_of
from admin.services.context import Context
from admin.services.definitions import current_fleet, names_known
from admin.store import attributes


def list_warnings(context: Context) -> list[Warning]:
    """Every warning that is true now, by kind and scope."""
    settings = context.settings
    found: list[Warning] = []
    with context.database.reading() as connection:
        fleet = current_fleet(context, connection)
        known = names_known(context, connection, fleet)
        found += fleet_warnings(fleet)
        for name in sorted(attributes.kinds_in_use(connection)):
            if name not in settings.kinds:
                found.append(_undeclared(name))
                continue
            kind = settings.kinds[name]
            around = Surroundings.of(attributes.every(connection, name), settings.platform, known)
            for row in around.rows.values():
                found += warnings_of(kind, row, around)
    return found


def _undeclared(name: str) -> Warning:
    return Warning(
        code="undeclared_kind",
        message=f"Rows of the kind {name} are stored, but configuration no longer declares it, so they have no effect. "
        f"Declare kinds.{name} again to use them.",
        kind=name,
        scope=PLATFORM,
        field="",
    )
