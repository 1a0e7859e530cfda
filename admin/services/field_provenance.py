"""The provenance of fields: which revision set each field of the rows that an answer explains, and who made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection

from admin.core.executions.effective_settings import versions_in
from admin.core.json_text import JsonObject
from admin.core.provenance import Provenance
from admin.core.settings.field_revisions import FieldsByRow, RowVersion, rows_in, trace_fields, with_revisions
from admin.services.context import Context
from admin.store import attributes, revisions

#: Rows whose changes are read for one answer, and changes of each.
MOST_ROWS = 100
_MOST_CHANGES = 100


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
) -> FieldProvenance:
    """Which revisions set the fields of some rows; `versions` are of further rows that the answer names."""
    stored_rows = sorted(set(rows))
    fields = {}
    for row in islice(stored_rows, most_rows):
        if row.kind in context.settings.kinds:
            changes = revisions.changes_of_row(connection, row.kind, row.scope, row.version, _MOST_CHANGES)
            if changes and changes[0].revision == row.version:  # else that revision is no longer kept
                fields[row] = trace_fields(context.settings.kinds[row.kind], changes)
    numbers = {*versions, *(row.version for row in stored_rows)}
    numbers.update(number for row_fields in fields.values() for number in row_fields.revisions.values())
    provenance = revisions.provenance_of(connection, numbers)
    pruned = [row for row in stored_rows if row.version not in provenance]
    return FieldProvenance(fields=fields, provenance=provenance | _stored(connection, pruned))


def _stored(connection: Connection, pruned: Iterable[RowVersion]) -> dict[int, Provenance]:
    """What rows themselves tell of the revisions that changed them last, which are no longer kept."""
    versions = {(row.kind, row.scope): row.version for row in pruned}
    return {
        row.version: Provenance(
            revision=row.version,
            author=row.updated_by,
            claimed_by=row.claimed_by,
            at=row.updated_at,
            message=None,
            kept=False,
        )
        for row in (attributes.exactly(connection, versions) if versions else ())
        if row.version == versions[row.kind, row.scope]
    }


def with_field_provenance(
    context: Context, connection: Connection, trail: JsonObject
) -> tuple[JsonObject, Mapping[int, Provenance]]:
    """The trail of an execution's settings, whose origins have the revisions that set them, and who made these."""
    settings = trail["settings"]
    field_provenance = find_field_provenance(context, connection, rows_in(settings), versions_in(trail))
    return {
        **trail,
        "settings": [with_revisions(value, field_provenance.fields) for value in settings],
    }, field_provenance.provenance
