"""Past definitions: clusters, pools and labels as they were defined at a revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.fleet.definitions import Definition, FleetKind
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.provenance import Provenance
from admin.errors import NotFound
from admin.services.cluster_provenance import defined_by
from admin.services.context import Context
from admin.services.definitions import is_declared
from admin.services.fleet import NOT_FOUND
from admin.services.revisions import check_number
from admin.store import history, revisions, row_changes


@dataclass(frozen=True, kw_only=True)
class StoredDefinition:
    """A definition as a revision left it."""

    definition: Definition
    provenance: Provenance | None  #: of that revision; None where nothing is kept of it


@dataclass(frozen=True, kw_only=True)
class DefinitionsAt:
    """A page of definitions as of one revision, and the name after which the next page begins."""

    definitions: Sequence[StoredDefinition]
    revision: int
    next_name: str | None


def list_definitions(
    context: Context, kind: FleetKind, *, at: int | None, name: str | None, after: str | None, limit: int
) -> DefinitionsAt:
    """The managed definitions of a kind at a revision, or as they are, by name; or the one of a name.

    Those of configuration are kept by no revision, and are not among them.
    """
    with context.database.reading() as connection:
        revision = revisions.head(connection) if at is None else at
        check_number(connection, revision)
        definitions = history.definitions_at(connection, revision, kind, name)
        if name is not None and not definitions:
            raise _not_found(context, connection, kind, name, revision)
        remaining = [definition for definition in definitions if after is None or definition.name > after]
        page = remaining[:limit]
        made_by = defined_by(connection, page)
    return DefinitionsAt(
        definitions=[
            StoredDefinition(definition=definition, provenance=made_by.get(definition.version or 0))
            for definition in page
        ],
        revision=revision,
        next_name=page[-1].name if len(remaining) > len(page) else None,
    )


def _not_found(context: Context, connection: Connection, kind: FleetKind, name: str, revision: int) -> NotFound:
    """The error for a name that was not defined at a revision: by which it was defined later, if it was."""
    later = row_changes.first_change(connection, kind.value, name, revision)
    made_by = revisions.provenance_of(connection, [later]).get(later) if later is not None else None
    if made_by is not None:
        more = f" It was defined later, by {made_by.describe(context.clock())}."
    elif is_declared(context, kind, name):
        more = " The admin's configuration declares it, which no revision keeps."
    else:
        more = f" `rainbowctl history {kind.noun}` shows the changes that are kept."
    near = closest(name, (definition.name for definition in history.definitions_at(connection, revision, kind)))
    return NOT_FOUND[kind](
        f"No {kind.noun} called '{shorten(name)}' was defined at revision {revision}.{did_you_mean(near)}{more}",
        details=[{"field": "name", "reason": f"was not defined at revision {revision}.", "closest": list(near)}],
    )
