"""Refusals: by whom the settings, and the states of clusters, pools and labels, were made that refuse a request."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from sqlalchemy import Connection

from admin.core.problems import Invalid, Setting
from admin.core.provenance import Named, Provenance, definitions_of, explain_refusal, settings_of
from admin.core.settings.field_revisions import RowVersion
from admin.core.settings.scopes import Scope
from admin.services.cluster_provenance import cluster_provenance
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.field_provenance import find_field_provenance
from admin.store import row_changes

#: Clusters, pools and labels that are looked up for one answer.
_MOST_LOOKED_UP = 50


def is_explainable(refusals: Sequence[Exception]) -> bool:
    """Whether something is stored that tells more of some refusals."""
    return bool(settings_of(refusals) or definitions_of(refusals))


def explain_refusals(
    context: Context, connection: Connection, refusals: Sequence[Invalid], *, are_rows_stored: bool = True
) -> list[Invalid]:
    """Refusals that say by whom what refuses was made; rows that are only assumed have no revision."""
    settings = sorted(settings_of(refusals)) if are_rows_stored else []
    rows = {setting: RowVersion(setting.kind, Scope(*setting.scope), setting.version) for setting in settings}
    field_provenance = find_field_provenance(context, connection, rows.values())
    set_by: dict[Setting, Provenance] = {}
    changed_by: dict[Setting, Provenance] = {}
    for setting, row in rows.items():
        fields = field_provenance.fields.get(row)
        number = fields.revisions.get(setting.field) if fields else None
        if (provenance := field_provenance.provenance.get(number or row.version)) is not None:
            (set_by if number or fields is None else changed_by)[setting] = provenance
    names = sorted(definitions_of(refusals)) if context.access.sees_fleet() else []
    made_by = {named: _made_by(context, connection, named) for named in islice(names, _MOST_LOOKED_UP)}
    known = {named: provenance for named, provenance in made_by.items() if provenance is not None}
    now = context.clock()
    return [explain_refusal(refusal, set_by, known, now, changed_by=changed_by) for refusal in refusals]


def _made_by(context: Context, connection: Connection, named: Named) -> Provenance | None:
    """By what a cluster was disabled, or what is missing was deleted; None where nothing is known of that."""
    kind, name = named
    cluster = current_fleet(context, connection).clusters.get(name) if kind == "CLUSTER" else None
    if cluster is not None and not cluster.is_deleted:
        return cluster_provenance(context, connection, [cluster])[name].get("disabled")
    return row_changes.deleted_by(connection, kind, [name]).get(name)
