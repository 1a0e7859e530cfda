"""Later revisions: those that changed a row after the one that a write or a rollback expects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection

from admin.core.json_text import JsonObject
from admin.core.provenance import Provenance
from admin.store import revisions, row_changes

#: Later revisions that are named of each row, the newest.
MOST_LATER = 10


def later_revisions(connection: Connection, numbers: Iterable[int]) -> dict[int, JsonObject]:
    """Some revisions as details of conflicts show them; one that is no longer kept has its number alone."""
    distinct = set(numbers)
    kept = revisions.kept_revisions(connection, distinct)
    return {number: _entry(number, kept.get(number)) for number in distinct}


def _entry(number: int, revision: revisions.KeptRevision | None) -> JsonObject:
    if revision is None:
        return {"revision": number}
    rolled_back = {"undone": revision.undone, "restored": revision.restored}
    kept = {name: number for name, number in rolled_back.items() if number is not None}
    return {**revision.provenance.as_json(), **kept}


def later_details(entries: Sequence[JsonObject], count: int) -> JsonObject:
    """What a detail of a conflict says of the later revisions of a row, newest first, where there are several.

    Of a single one, which the detail has the provenance of, it is what that rolled back.
    """
    if count > 1:
        return {"later": list(entries), "later_count": count}
    return rolled_back_by(entries[0]) if entries else {}


#: What is told of a rollback beside its provenance: the revision that it undid, or the one that it went back to.
_ROLLED_BACK = {"undone": "of", "restored": "to"}


def rolled_back_by(entry: JsonObject) -> JsonObject:
    """What a revision rolled back, of its entry or of a detail of a conflict; empty where it is no rollback."""
    return {name: entry[name] for name in _ROLLED_BACK if name in entry}


def provenance_in(entry: JsonObject) -> JsonObject:
    """The provenance of a revision, of its entry."""
    return {name: value for name, value in entry.items() if name not in _ROLLED_BACK}


def describe_rollback(entry: JsonObject) -> str:
    """` (rollback of revision 7)` after a revision in a sentence; empty where it is no rollback."""
    rolled_back = rolled_back_by(entry)
    return "".join(f" (rollback {_ROLLED_BACK[name]} revision {number})" for name, number in rolled_back.items())


def describe_later(entries: Sequence[JsonObject], count: int, now: datetime) -> str:
    """The later revisions of a row in a sentence: `revision 9, ana, 3 min ago, and by revision 7, …`."""
    rest = count - len(entries)
    others = "many" if count >= row_changes.MOST_COUNTED else rest
    return ", and by ".join(_describe(entry, now) for entry in entries) + (
        f", and by {others} more before" if rest else ""
    )


def _describe(entry: JsonObject, now: datetime) -> str:
    fields = provenance_in(entry)
    shown = Provenance.from_json(fields).describe(now) if "author" in fields else f"revision {fields['revision']}"
    return f"{shown}{describe_rollback(entry)}"
