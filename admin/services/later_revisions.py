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
    kept = revisions.provenance_of(connection, distinct)
    return {number: kept[number].as_json() if number in kept else {"revision": number} for number in distinct}


def later_details(entries: Sequence[JsonObject], count: int) -> JsonObject:
    """What a detail of a conflict says of the later revisions of a row, newest first, where there are several.

    Of a single one, which the detail has the provenance of, it is what that rolled back, for older clients.
    """
    if count > 1:
        return {"later": list(entries), "later_count": count}
    return {
        name: entry[name] for entry in entries[:1] for name in ("undone", "also_undone", "restored") if name in entry
    }


def describe_later(entries: Sequence[JsonObject], count: int, now: datetime) -> str:
    """The later revisions of a row in a sentence: `revision 9, ana, 3 min ago, and by revision 7, …`."""
    rest = count - len(entries)
    others = "many" if count >= row_changes.MOST_COUNTED else rest
    return ", and by ".join(_describe(entry, now) for entry in entries) + (
        f", and by {others} more before" if rest else ""
    )


def _describe(entry: JsonObject, now: datetime) -> str:
    return Provenance.from_json(entry).describe(now) if "author" in entry else f"revision {entry['revision']}"
