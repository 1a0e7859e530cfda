"""Field revisions: which revision set each field of a row, for a row's version names only its last change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from admin.core.changes import UNSTORED, RowChange, is_same
from admin.core.json_text import JsonObject
from admin.core.problems import dotted
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Scope


class RowVersion(NamedTuple):
    """A row of attributes as one revision left it, or as a change that is not stored would."""

    kind: str
    scope: Scope
    version: int

    @classmethod
    def of_origin(cls, kind: str, origin: Mapping[str, Any]) -> RowVersion | None:
        """The row that an origin or a step names, as they are stored and shown; None for those without one."""
        if origin.get("version") is None:
            return None
        scope = Scope(**{key: origin[key] for key in Scope._fields if key in origin})
        return cls(kind, scope, origin["version"])


@dataclass(frozen=True, kw_only=True)
class FieldRevisions:
    """The revisions that set the fields of a row, by dotted path."""

    revisions: Mapping[str, int]  #: without those that a change that is not stored would set
    set_before: int | None = None  #: before which the other fields were set; None where all are known
    assumed: frozenset[str] = frozenset()  #: what a change that is not stored would set
    stored_version: int | None = None  #: of the row before such a change


#: The fields of rows, as far as their changes are known.
FieldsByRow = Mapping[RowVersion, FieldRevisions]


def trace_fields(kind: Kind, changes: Sequence[RowChange]) -> FieldRevisions:
    """The newest change of each field, of the changes of a row, newest first; none before it was created last."""
    revisions: dict[str, int] = {}
    assumed: set[str] = set()
    missing = kind.leaves(changes[0].after or {}) if changes else {}
    last = changes[0] if changes else None
    for change in changes:
        if last is not change and last is not None and last.before_version != change.revision:
            break  # the one in between is no longer kept
        last = change
        before = kind.leaves(change.before or {})
        for path in list(missing):
            if path not in before or not is_same(before[path], missing[path]):
                if change.revision == UNSTORED:
                    assumed.add(dotted(path))
                else:
                    revisions[dotted(path)] = change.revision
                del missing[path]
        if not missing or change.before is None:
            break
    set_before = last.revision or _after(last.before_version) if missing and last else None
    is_assumed = bool(changes) and changes[0].revision == UNSTORED
    return FieldRevisions(
        revisions=revisions,
        set_before=set_before,
        assumed=frozenset(assumed),
        stored_version=changes[0].before_version if is_assumed else None,
    )


def untraced(version: int) -> FieldRevisions:
    """The fields of a row whose last revision is no longer kept: it or an earlier one set each of them."""
    return FieldRevisions(revisions={}, set_before=_after(version))


def _after(version: int | None) -> int | None:
    return None if version is None else version + 1


def rows_in(settings: Iterable[Mapping[str, Any]]) -> set[RowVersion]:
    """The rows that effective values follow from, as trails have these."""
    rows = (RowVersion.of_origin(value["resource_type"], step) for value in settings for step in value["trail"])
    return {row for row in rows if row is not None}


def with_revision(kind: str, path: str, origin: Mapping[str, Any], fields: FieldsByRow) -> JsonObject:
    """An origin with the revision that set the field, or with one before which it was set."""
    row = RowVersion.of_origin(kind, origin)
    row_fields = fields.get(row) if row else None
    if row_fields is None:
        return dict(origin)
    if path in row_fields.assumed:
        return {**origin, "assumed": True}
    stored = {**origin, "version": row_fields.stored_version or origin["version"]}
    if path in row_fields.revisions:
        return {**stored, "revision": row_fields.revisions[path]}
    return {**stored, "set_before": row_fields.set_before} if row_fields.set_before else stored


def with_revisions(effective: Mapping[str, Any], fields: FieldsByRow) -> JsonObject:
    """An effective value, as trails have it, whose origins and steps have the revisions that set each field."""
    kind = effective["resource_type"]
    origins = {
        part: {path: with_revision(kind, path, origin, fields) for path, origin in effective[part].items()}
        for part in ("origins", "unset")
    }
    return {**effective, **origins, "trail": [_with_revisions(kind, step, fields) for step in effective["trail"]]}


def _with_revisions(kind: str, step: Mapping[str, Any], fields: FieldsByRow) -> JsonObject:
    row = RowVersion.of_origin(kind, step)
    row_fields = fields.get(row) if row else None
    if row_fields is None:
        return dict(step)
    more = {"set_before": row_fields.set_before, "assumed": sorted(row_fields.assumed)}
    return {**step, "revisions": dict(row_fields.revisions), **{key: value for key, value in more.items() if value}}
