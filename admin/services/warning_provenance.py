"""The provenance of warnings: which revisions set what they are about, and who made these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from admin.core.cluster_groups import CLUSTER_GROUP
from admin.core.fleet.definitions import FleetKind
from admin.core.grants import GRANT
from admin.core.provenance import Named
from admin.core.settings.field_revisions import RowVersion, untraced
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning
from admin.core.use_grants import USE_GRANT
from admin.core.user_groups import GROUP
from admin.services.context import Context
from admin.services.field_provenance import MOST_ROWS, find_field_provenance
from admin.store import fleet, grants, use_grants, user_groups
from admin.store.cluster_groups import CLUSTER_GROUPS


def with_setters(
    context: Context, connection: Connection, warnings: Sequence[Warning], limit: int | None
) -> list[Warning]:
    """Warnings that say which revision set the field or the definition that each is about, as far as that is known.

    Of more rows than `limit`, or than are looked at without one, it is said to be the last one of the row or before.
    """
    versions = _definition_versions(connection, warnings)
    rows = {row for warning in warnings if (row := _row_of(warning)) is not None}
    set_by = find_field_provenance(context, connection, rows, versions.values(), most_rows=limit or MOST_ROWS)
    explained = []
    for warning in warnings:
        row, number, set_before = _row_of(warning), versions.get((warning.kind, warning.name)), None
        if row is not None:
            row_fields = set_by.fields.get(row) or untraced(row.version)
            field = warning.field if warning.setting is None else warning.setting.field
            number = row_fields.revisions.get(field, row.version)
            set_before = None if field in row_fields.revisions else row_fields.set_before
        provenance = set_by.provenance.get(number or 0)
        explained.append(replace(warning, set_by=provenance, set_before=set_before))
    return explained


def _row_of(warning: Warning) -> RowVersion | None:
    setting = warning.setting
    if setting is not None:
        return RowVersion(setting.kind, Scope(*setting.scope), setting.version)
    return RowVersion(warning.kind, warning.scope, warning.version) if warning.version else None


def _definition_versions(connection: Connection, warnings: Sequence[Warning]) -> Mapping[Named, int]:
    """The versions of the rows with a name that warnings are about, by kind and name."""
    kinds = {kind.value: kind for kind in FleetKind}
    keys = {(kinds[warning.kind], warning.name) for warning in warnings if warning.name and warning.kind in kinds}
    definitions = fleet.get_definitions(connection, keys) if keys else {}
    versions = {
        (kind.value, name): definition.version for (kind, name), definition in definitions.items() if definition.version
    }
    for kind, some in (
        (GROUP, user_groups.some),
        (GRANT, grants.some),
        (CLUSTER_GROUP, CLUSTER_GROUPS.some),
        (USE_GRANT, use_grants.some),
    ):
        named = {warning.name for warning in warnings if warning.name and warning.kind == kind}
        versions |= {(kind, name): row.version for name, row in some(connection, named).items()} if named else {}
    return versions
