"""Rows that have a name: the errors for a name that is taken, and for one that nothing has."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection

from admin.core.problems import closest, did_you_mean, shorten
from admin.core.provenance import Provenance
from admin.errors import AlreadyExists, NotFound, VersionConflict
from admin.services.context import Context
from admin.store import row_changes


def already_exists(context: Context, noun: str, name: str, conflict: VersionConflict) -> AlreadyExists:
    """The error for a new row whose name is taken, with the revision that made the other one."""
    made_by = {key: entry for detail in conflict.details for key, entry in detail.items() if key == "provenance"}
    by = "".join(f" ({Provenance.from_json(entry).describe(context.clock())})" for entry in made_by.values())
    return AlreadyExists(
        f"A {noun} called '{name}' exists already{by}. Update it instead, or choose another name.",
        details=[{"field": f"{noun}.name", "reason": "is taken.", **made_by}],
    )


def not_found(
    context: Context, connection: Connection, error: type[NotFound], kind: str, name: str, existing: Iterable[str]
) -> NotFound:
    """The error for a name that no row of a kind has: by whom it was deleted, or the closest existing ones."""
    noun = kind.lower()
    deleted_by = row_changes.deleted_by(connection, kind, [name]).get(name) if "\0" not in name else None
    if deleted_by is not None:
        reason = f"was deleted by {deleted_by.describe(context.clock())}."
        return error(
            f"The {noun} '{shorten(name)}' {reason} `rainbowctl get {noun}` lists those that there are.",
            details=[{"field": "name", "reason": reason, "provenance": deleted_by.as_json()}],
        )
    near = closest(name, existing)
    return error(
        f"No {noun} is called '{shorten(name)}'.{did_you_mean(near)} `rainbowctl get {noun}` lists them.",
        details=[{"field": "name", "reason": "is unknown.", "closest": list(near)}],
    )
