"""The provenance of fields: which revision set each field of the rows that an answer explains, and who made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection

from admin.core.changes import UNSTORED, LastChange, RowChange
from admin.core.executions.effective_settings import versions_in
from admin.core.json_text import JsonObject
from admin.core.placement.routes import asks_by_definition, with_sources
from admin.core.provenance import Provenance, pruned_provenance
from admin.core.registrations import Identifier
from admin.core.settings.field_revisions import (
    FieldRevisions,
    FieldsByRow,
    RowVersion,
    rows_in,
    trace_fields,
    untraced,
    with_revisions,
)
from admin.core.settings.resolution import Row
from admin.services.access import Access
from admin.services.context import Context
from admin.services.visibility import told_provenance, told_registration
from admin.store import attributes, registrations, revisions, row_changes
from admin.store.attributes import StoredAttribute
from admin.store.registration_tables import launch_plans

#: Rows whose changes are read for one answer, and changes of each.
MOST_ROWS = 100
_MOST_CHANGES = 100
#: More rows than these are read together, so many changes of each, and after that one by one.
_FEW_ROWS = 10
_MOST_TOGETHER = 20


@dataclass(frozen=True, kw_only=True)
class FieldProvenance:
    """The revisions that set the fields of some rows, and who made these."""

    fields: FieldsByRow
    provenance: Mapping[int, Provenance]  #: of those revisions, and of the versions of the rows


def find_field_provenance(
    context: Context,
    connection: Connection,
    rows: Iterable[RowVersion],
    versions: Iterable[int] = (),
    most_rows: int = MOST_ROWS,
    assumed: Sequence[RowChange] = (),
) -> FieldProvenance:
    """Which revisions set the fields of some rows; `versions` are of further rows that the answer names.

    Rows without a version are as the changes `assumed` would leave them.
    """
    named_rows = sorted(set(rows))
    changed = {(change.kind, change.scope): change for change in assumed if change.is_attribute}
    traced = [row for row in islice(named_rows, most_rows) if row.kind in context.settings.kinds]
    fields = _trace_together(context, connection, [row for row in traced if row.version != UNSTORED])
    fields |= {
        row: _trace(context, connection, row, changed.get((row.kind, row.scope))) for row in traced if row not in fields
    }
    stored_rows = [row for name in named_rows if (row := _stored_row(name, fields.get(name))).version]
    numbers = {number for number in (*versions, *(row.version for row in stored_rows)) if number}
    numbers.update(number for row_fields in fields.values() for number in row_fields.revisions.values())
    provenance = told_provenance(context.access, connection, revisions.provenance_of(connection, numbers))
    pruned = [row for row in stored_rows if row.version not in provenance]
    return FieldProvenance(fields=fields, provenance=provenance | _stored(context.access, connection, pruned))


def _trace_together(
    context: Context, connection: Connection, rows: Sequence[RowVersion]
) -> dict[RowVersion, FieldRevisions]:
    """Which revisions set the fields of many rows, the last change of all first, and then the one before it.

    Rows are left out of which more changes would have to be read than that pays for.
    """
    fields: dict[RowVersion, FieldRevisions] = {}
    open_rows: dict[RowVersion, list[RowChange]] = {row: [] for row in rows}
    for _ in range(_MOST_TOGETHER):
        if len(open_rows) <= _FEW_ROWS:
            break
        wanted = {
            row: row._replace(version=changes[-1].before_version or UNSTORED) if changes else row
            for row, changes in open_rows.items()
        }
        changes_by_row = row_changes.changes_by_row(connection, wanted.values())
        for row, version in wanted.items():
            kind, changes, change = context.settings.kinds[row.kind], open_rows[row], changes_by_row.get(version)
            if change is not None:
                changes.append(change)
            traced = trace_fields(kind, changes) if changes else untraced(row.version)
            if change is None or traced.set_before is None:
                fields[row] = traced
                del open_rows[row]
    return fields


def _trace(context: Context, connection: Connection, row: RowVersion, change: RowChange | None) -> FieldRevisions:
    """Which revisions set the fields of a row; `change` is the one that would make it, if it is not stored."""
    kind = context.settings.kinds[row.kind]
    if row.version != UNSTORED:
        changes = row_changes.changes_of_row(connection, row.kind, row.scope, row.version, _MOST_CHANGES)
        is_kept = bool(changes) and changes[0].revision == row.version
        return trace_fields(kind, changes) if is_kept else untraced(row.version)
    if change is None:
        return FieldRevisions(revisions={})
    before = change.before_version
    changes = row_changes.changes_of_row(connection, row.kind, row.scope, before, _MOST_CHANGES) if before else []
    return trace_fields(kind, [change, *changes])


def _stored_row(row: RowVersion, fields: FieldRevisions | None) -> RowVersion:
    """The row as it is stored; without a version if it is not."""
    stored_version = fields.stored_version if fields else None
    return row._replace(version=stored_version) if stored_version else row


def _stored(access: Access, connection: Connection, pruned: Iterable[RowVersion]) -> dict[int, Provenance]:
    """What rows themselves have of the revisions that changed them last, which are no longer kept."""
    versions = {(row.kind, row.scope): row.version for row in pruned}
    return {
        row.version: _provenance_of(row)
        if access.allows("attributes.read", row.scope)
        else _provenance_of(row).without_author()
        for row in (attributes.exactly(connection, versions) if versions else ())
        if row.version == versions[row.kind, row.scope]
    }


def _provenance_of(row: StoredAttribute) -> Provenance:
    """What a row itself has of the revision that changed it last, which is no longer kept."""
    return pruned_provenance(row.version, LastChange(row.updated_at, row.updated_by, row.claimed_by))


def find_row_provenance(connection: Connection, rows: Sequence[Row]) -> dict[int, Provenance]:
    """The revisions that changed some rows last, by number; of a row of the past only one that is kept."""
    by_rows = {row.version: _provenance_of(row) for row in rows if isinstance(row, StoredAttribute)}
    return by_rows | revisions.provenance_of(connection, (row.version for row in rows))


def with_field_provenance(
    context: Context, connection: Connection, trail: JsonObject, assumed: Sequence[RowChange] = ()
) -> tuple[JsonObject, Mapping[int, Provenance]]:
    """The trail of an execution's settings, whose origins have the revisions that set them, and who made these."""
    settings = trail["settings"]
    field_provenance = find_field_provenance(
        context, connection, rows_in(settings), versions_in(trail), assumed=assumed
    )
    return {
        **trail,
        "settings": [with_revisions(value, field_provenance.fields) for value in settings],
    }, field_provenance.provenance


def rungs_with_sources(
    context: Context, connection: Connection, rungs: Sequence[JsonObject], launched: Mapping[str, Mapping[str, str]]
) -> list[JsonObject]:
    """The rungs of a trail, of which those that are no setting name their source, and who registered a launch plan."""
    plan = launched.get("launch_plan")
    registered = None
    if plan and asks_by_definition(rungs):
        registered = registrations.get(connection, launch_plans, Identifier(**plan))
    return with_sources(rungs, plan, told_registration(context.access, registered) if registered else None)
