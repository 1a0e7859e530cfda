"""Named rows: what the use cases of every noun share whose rows have a name."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from admin.core.changes import RowWrite
from admin.core.problems import closest, did_you_mean, shorten
from admin.core.provenance import Provenance
from admin.errors import AlreadyExists, NotFound, VersionConflict
from admin.services.changeable.base import ChangeOptions
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.store import row_changes


def create_row(
    context: Context,
    noun: str,
    write: RowWrite,
    options: ChangeOptions,
    *,
    remedy: str = "Update it instead, or choose another name.",
) -> Changed:
    """Make a row that is expected to be new; AlreadyExists where its name is taken."""
    try:
        return make_change(context, [write], options)
    except VersionConflict as conflict:
        made_by = {key: entry for detail in conflict.details for key, entry in detail.items() if key == "provenance"}
        by = "".join(f" ({Provenance.from_json(entry).describe(context.clock())})" for entry in made_by.values())
        raise AlreadyExists(
            f"A {noun} called '{write.key.name}' exists already{by}. {remedy}",
            details=[{"field": f"{noun.replace('-', '_')}.name", "reason": "is taken.", **made_by}],
        ) from conflict


def row_not_found(
    context: Context,
    connection: Connection | None,
    error: type[NotFound],
    kind: str,
    name: str,
    names: Iterable[str],
    *,
    field: str = "name",
) -> NotFound:
    """The error for a name that no row has: by whom it was deleted, or the closest of the names that there are.

    `field` is where the request names it. Without a connection nothing is said of deletions, for those who may not see
    them all.
    """
    noun = kind.lower().replace("_", "-")
    is_looked_up = connection is not None and "\0" not in name
    deleted_by = row_changes.deleted_by(connection, kind, [name]).get(name) if connection and is_looked_up else None
    if deleted_by is not None:
        reason = f"was deleted by {deleted_by.describe(context.clock())}."
        return error(
            f"The {noun} '{shorten(name)}' {reason} `rainbowctl get {noun}` lists those that there are.",
            details=[{"field": field, "reason": reason, "provenance": deleted_by.as_json()}],
        )
    near = closest(name, names)
    return error(
        f"No {noun} is called '{shorten(name)}'.{did_you_mean(near)} `rainbowctl get {noun}` lists them.",
        details=[{"field": field, "reason": "is unknown.", "closest": list(near)}],
    )
