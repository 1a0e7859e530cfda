"""The reach of a row: which known scopes below it follow it, and which do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from admin.core.provenance import Provenance
from admin.core.settings.field_revisions import RowVersion
from admin.core.settings.kinds import Kind
from admin.core.settings.reach import ScopeRelation, relate
from admin.core.settings.scopes import Scope
from admin.errors import AttributeNotFound
from admin.services.context import Context
from admin.services.field_provenance import find_field_provenance
from admin.services.known_scopes import scopes_below
from admin.services.scopes import check_readable
from admin.store import attributes, revisions
from admin.store.attributes import StoredAttribute


@dataclass(frozen=True, kw_only=True)
class Reach:
    """A row, and how some of the scopes below it stand to it, as of one revision."""

    kind: Kind
    row: StoredAttribute
    revision: int
    relations: tuple[ScopeRelation, ...]
    last: Scope | None  #: the scope after which the next page begins; None for the last page
    fields: Mapping[str, int] | None  #: the revisions that set the fields of the row; None if not kept
    provenance: Mapping[int, Provenance]  #: of these, and of the rows that the scopes have


def find_reach(context: Context, kind: Kind, scope: Scope, after: Scope | None, limit: int) -> Reach:
    """How the known scopes below a row stand to it, a page of them."""
    kind.check_level(scope.level)
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        revision = revisions.head(connection)
        row = next(iter(attributes.exactly(connection, [(kind.name, scope)])), None)
        if row is None:
            raise AttributeNotFound(
                f"No {kind.noun} is set at {scope} itself, so that nothing can follow it from there. "
                f"`rainbowctl explain {kind.noun}` shows which scope sets what applies there."
            )
        places = scopes_below(context, connection, scope, limit + 1, after)
        chains = {(kind.name, place) for below in places for place in below.chain()}
        rows = {row.scope: row for row in attributes.exactly(connection, chains)}
        platform = context.settings.platform
        relations = [relate(kind, row, place, rows, platform.at(kind, place.domain)) for place in places[:limit]]
        versions = (relation.version for relation in relations if relation.version)
        this = RowVersion(kind.name, row.scope, row.version)
        set_by = find_field_provenance(context, connection, [this], versions)
        fields = set_by.fields.get(this)
    last = places[limit - 1] if len(places) > limit else None
    return Reach(
        kind=kind,
        row=row,
        revision=revision,
        relations=tuple(relations),
        last=last,
        fields=fields.revisions if fields and fields.revisions else None,
        provenance=set_by.provenance,
    )
