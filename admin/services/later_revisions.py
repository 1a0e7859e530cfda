"""Later revisions: those that changed a row after the one that a write or a rollback expects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from admin.core.json_text import JsonObject
from admin.core.provenance import Provenance
from admin.store import revisions

#: Later revisions that are named of each row, the newest.
MOST_LATER = 10


def later_revisions(connection: Connection, numbers: Iterable[int]) -> dict[int, JsonObject]:
    """Some revisions as details of conflicts show them; one that is no longer kept has its number alone."""
    wanted = set(numbers)
    made_by = revisions.provenance_of(connection, wanted)
    undone = revisions.undone_by(connection, wanted)
    return {number: _entry(number, made_by, undone) for number in wanted}


def _entry(number: int, made_by: Mapping[int, Provenance], undone: Mapping[int, int]) -> JsonObject:
    entry = made_by[number].as_json() if number in made_by else {"revision": number}
    return {**entry, "undone": undone[number]} if number in undone else entry


def later_details(entries: Sequence[JsonObject], count: int) -> JsonObject:
    """What a detail of a conflict says of the later revisions of a row, newest first, where there are several."""
    return {"later": list(entries), "later_count": count} if count > 1 else {}


def describe_later(entries: Sequence[JsonObject], count: int, now: datetime) -> str:
    """The later revisions of a row in a sentence: `revision 9, ana, 3 min ago, and by revision 7, …`."""
    rest = count - len(entries)
    others = "many" if count >= revisions.MOST_COUNTED else rest
    return ", and by ".join(_describe(entry, now) for entry in entries) + (
        f", and by {others} more before" if rest else ""
    )


def _describe(entry: JsonObject, now: datetime) -> str:
    fields = {name: value for name, value in entry.items() if name != "undone"}
    shown = Provenance.from_json(fields).describe(now) if "author" in fields else f"revision {fields['revision']}"
    return f"{shown} (rollback of revision {entry['undone']})" if "undone" in entry else shown
