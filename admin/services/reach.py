"""The reach of a row: which known scopes below it follow it, and which do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.executions.consequences import ROUTE_KINDS, find_outranking, names_place
from admin.core.executions.own_settings import FieldEffect, field_effects
from admin.core.provenance import Provenance
from admin.core.settings.field_revisions import RowVersion
from admin.core.settings.kinds import Kind
from admin.core.settings.reach import Relation, ScopeRelation, relate
from admin.core.settings.resolution import Row, RowsByKind, resolve
from admin.core.settings.scopes import Scope
from admin.errors import AttributeNotFound
from admin.services.consequences import ShownConsequence, show_outranking
from admin.services.context import Context
from admin.services.field_provenance import MOST_ROWS, FieldProvenance, find_field_provenance
from admin.services.known_scopes import scopes_below
from admin.services.registered_work import find_registered, plan_settings
from admin.services.scopes import check_readable
from admin.store import attributes, revisions
from admin.store.attributes import StoredAttribute

#: The relations of scopes at which the value of the row has effect.
_HAVE_VALUE = (Relation.FOLLOWS, Relation.SAYS_THE_SAME)


@dataclass(frozen=True, kw_only=True)
class Reach:
    """A row, and how some of the scopes below it stand to it, as of one revision."""

    kind: Kind
    row: StoredAttribute
    revision: int
    relations: tuple[ScopeRelation, ...]
    outranked: Mapping[Scope, ShownConsequence]  #: what executions go by at scopes that have the value of the row
    field_effects: Mapping[
        Scope, Sequence[FieldEffect]
    ]  #: of fields that scopes have as the row says, and do not follow
    last: Scope | None  #: the scope after which the next page begins; None for the last page
    fields: Mapping[str, int] | None  #: the revisions that set the fields of the row; None if not kept
    set_by: FieldProvenance  #: of the row, of the rows that the scopes have, and of those that they follow instead
    provenance: Mapping[int, Provenance]  #: of all of these revisions, and of what outranks the row


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
        kinds = {kind.name, *ROUTE_KINDS} if names_place(kind, row.payload) else {kind.name}
        chains = {(name, place) for below in places for place in below.chain() for name in kinds}
        rows: dict[str, dict[Scope, StoredAttribute]] = {name: {} for name in kinds}
        for applying in attributes.exactly(connection, chains):
            rows[applying.kind][applying.scope] = applying
        platform = context.settings.platform
        relations = [
            relate(kind, row, place, rows[kind.name], platform.at(kind, place.domain)) for place in places[:limit]
        ]
        outranked, outranked_by = _find_outranked(context, connection, kind, row, relations, rows)
        effects = _find_effects(context, connection, kind, relations, rows[kind.name])
        versions = (relation.version for relation in relations if relation.version)
        this = RowVersion(kind.name, row.scope, row.version)
        deciding = {
            RowVersion(kind.name, origin.scope, origin.version)
            for relation in relations
            for origin in relation.origins.values()
            if origin.version
        }
        set_by = find_field_provenance(
            context, connection, {this, *deciding}, versions, most_rows=max(limit, MOST_ROWS)
        )
        fields = set_by.fields.get(this)
    last = places[limit - 1] if len(places) > limit else None
    return Reach(
        kind=kind,
        row=row,
        revision=revision,
        relations=tuple(relations),
        outranked=outranked,
        field_effects=effects,
        last=last,
        fields=fields.revisions if fields and fields.revisions else None,
        set_by=set_by,
        provenance={**set_by.provenance, **outranked_by},
    )


def _find_outranked(
    context: Context,
    connection: Connection,
    kind: Kind,
    row: StoredAttribute,
    relations: Iterable[ScopeRelation],
    rows: RowsByKind,
) -> tuple[dict[Scope, ShownConsequence], Mapping[int, Provenance]]:
    """What executions go by at scopes that have the pool or label of a row, where that is another one."""
    if not names_place(kind, row.payload):
        return {}, {}
    having = [relation.scope for relation in relations if relation.relation in _HAVE_VALUE]
    definitions, platform = plan_settings(connection, having), context.settings.platform
    rungs = {scope: find_outranking(kind, scope, rows, definitions.get(scope, {}), platform) for scope in having}
    outranking = {scope: rung for scope, rung in rungs.items() if rung is not None}
    shown, provenance = show_outranking(context, connection, list(outranking.values()))
    return dict(zip(outranking, shown, strict=True)), provenance


def _find_effects(
    context: Context,
    connection: Connection,
    kind: Kind,
    relations: Iterable[ScopeRelation],
    rows: Mapping[Scope, Row],
) -> dict[Scope, list[FieldEffect]]:
    """What happens with the fields that scopes have as a row says, where executions there do not follow them."""
    having = {
        relation.scope: [path for path, how in relation.fields.items() if how in _HAVE_VALUE] for relation in relations
    }
    registered, platform = find_registered(connection, having), context.settings.platform
    effects = {
        scope: field_effects(resolve(kind, scope, rows, platform.at(kind, scope.domain)), registered[scope], paths)
        for scope, paths in having.items()
        if paths
    }
    return {scope: entries for scope, entries in effects.items() if entries}
