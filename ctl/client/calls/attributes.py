"""The calls of the client that are about attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

from ctl.client.answers import Attribute, Change, Document, Effective
from ctl.client.calls.base import PutOptions, VersionOptions, non_empty
from ctl.client.calls.kinds import KindCalls, KindLike
from ctl.client.errors import NotFound
from ctl.client.kinds import Kind
from ctl.client.scopes import Scope


def _joined_revisions(first: Document, page: Document) -> Document:
    """Of which revision a list is whose pages were read one after the other, and who made the revisions it names.

    Where something was changed meanwhile, `first_revision` is that of the first page.
    """
    joined: Document = {"revisions": {**(first.get("revisions") or {}), **(page.get("revisions") or {})}}
    since = first.get("first_revision", first["revision"])
    return joined if since == page["revision"] else {**joined, "first_revision": since}


class NoEffect:
    """The reasons why rows have no effect, read page by page while it is iterated, and what was examined so far."""

    def __init__(self, pages: Iterator[Document]) -> None:
        self._warnings = self._read(pages)
        self.document: Document = {"warnings": [], "revision": 0, "examined": 0}  #: all pages that were read

    @property
    def is_complete(self) -> bool:
        """Whether the last page was read."""
        return not self.document.get("token")

    def __iter__(self) -> Iterator[Document]:
        return self._warnings

    def __next__(self) -> Document:
        return next(self._warnings)

    def _read(self, pages: Iterator[Document]) -> Iterator[Document]:
        for page in pages:
            read = self.document
            joined = {**page, "warnings": read["warnings"] + page["warnings"]}
            joined["examined"] = read["examined"] + page["examined"]
            self.document = {**joined, **(_joined_revisions(read, page) if read["revision"] else {})}
            yield from page["warnings"]


class AttributeCalls(KindCalls):
    """Part of the client; see `ctl.client.Client`."""

    def get_attribute(
        self,
        kind: KindLike,
        scope: Scope,
        exact: bool = False,
        *,
        at: int | None = None,
        provenance: bool = False,
    ) -> Attribute:
        """
        The row of a kind at a scope, or the inherited value, which has no version; with `at`, as of that revision.

        Raises NotFound where there is neither, and with `exact` where there is no row. With `provenance` it has the
        origins of its fields and the revisions that set them, unless the admin is older.
        """
        if at is not None:
            return self._attribute_at(self.kind(kind), scope, exact, at, provenance)
        flags = {"exact": exact, "provenance": provenance}
        query: Document = {"resource_type": self.kind(kind).name}
        query |= {name: "true" for name, is_wanted in flags.items() if is_wanted}
        return Attribute.from_document(self._read_as_known(scope.path, query, "provenance"), scope)

    def _attribute_at(self, kind: Kind, scope: Scope, exact: bool, at: int, provenance: bool) -> Attribute:
        filters: Document = {**scope.document(), "level": scope.level, "at": at}
        row = next((row for row in self.list_attributes(kind, **filters) if row.scope == scope), None)
        if row is not None and not provenance:
            return row
        is_needed = row is not None or not exact or provenance
        values = self.effective(scope, kind, at=at, provenance=provenance) if is_needed else []
        effective = next(iter(values), None)
        if row is not None:
            return row if effective is None else row.with_origins(effective)
        if effective is None or effective.is_empty or exact:
            deleted_by = effective.deleted_by if effective else None
            raise NotFound(
                f"No {kind.noun} applied at {scope.describe()} then.",
                name="attribute_not_found",
                details=[{"provenance": deleted_by}] if deleted_by else [],
            )
        return Attribute.inherited(effective, scope)

    def put_attribute(
        self, kind: KindLike, scope: Scope, payload: Mapping[str, Any], **options: Unpack[PutOptions]
    ) -> Change:
        """
        Replace the whole payload at exactly this scope.

        `message` and `claimed_by` are the reason and the author, kept with the revision. It is a Conflict unless the
        row still has the version `if_match`, or with `if_none_match` unless there is no row yet. `dry_run` checks
        everything and answers as usual, but writes nothing.
        """
        wrapped = {"matching_attributes": {self.kind(kind).payload_key: payload}}
        return Change.from_document(self._change("PUT", scope.path, {"attributes": wrapped}, **options))

    def patch_attribute(
        self,
        kind: KindLike,
        scope: Scope,
        *,
        set: Mapping[str, Any] | None = None,
        unset: Sequence[str] = (),
        inherit: Sequence[str] = (),
        **options: Unpack[PutOptions],
    ) -> Change:
        """
        Change some leaves of the row at this scope and leave the others.

        `set` is a partial payload, nested. `unset` names leaves that have no value here and inherit none, `inherit`
        those to remove from this row, so that they inherit again; a row without leaves is removed. The rest is as in
        `put_attribute`.
        """
        body: Document = {"set": dict(set or {}), "unset": list(unset), "inherit": list(inherit)}
        body = {key: value for key, value in body.items() if value}
        query = {"resource_type": self.kind(kind).name}
        return Change.from_document(self._change("PATCH", scope.path, body, **options, query=query))

    def delete_attribute(self, kind: KindLike, scope: Scope, **options: Unpack[VersionOptions]) -> Change:
        """Delete the row at exactly this scope; `changed` tells whether there was one."""
        query = {"resource_type": self.kind(kind).name}
        return Change.from_document(self._change("DELETE", scope.path, {}, **options, query=query))

    def list_attributes(
        self,
        kind: KindLike | None = None,
        *,
        level: str | None = None,
        project: str | None = None,
        domain: str | None = None,
        workflow: str | None = None,
        launch_plan: str | None = None,
        at: int | None = None,
        page_size: int | None = None,
    ) -> Iterator[Attribute]:
        """
        Every stored row, page by page: of one kind or all, filtered by level and by scope keys.

        With `at`, the rows as they were at that revision.
        """
        query = {
            "resource_type": "all" if kind is None else self.kind(kind).name,
            "limit": page_size,
            "level": level,
            "project": project,
            "domain": domain,
            "workflow": workflow,
            "launch_plan": launch_plan,
            "at": at,
        }
        for entry in self._pages("matchable_attributes", "configurations", query):
            yield Attribute.from_entry(entry)

    def effective(
        self, scope: Scope, kind: KindLike | None = None, *, at: int | None = None, provenance: bool = False
    ) -> list[Effective]:
        """
        What one kind, or every kind, resolves to at a scope; with `at`, what it resolved to at that revision.

        With `provenance`, each has the revisions that set its levels.
        """
        document = self.effective_document(scope, kind, at=at, provenance=provenance)
        beside = document.get("revisions"), document.get("deleted_by"), document.get("consequences")
        return [Effective.from_document(value, *beside) for value in document["values"]]

    def effective_document(
        self,
        scope: Scope,
        kind: KindLike | None = None,
        *,
        at: int | None = None,
        provenance: bool = False,
        nearest: bool = False,
    ) -> Document:
        """
        The JSON answer behind `effective`, with the revision it was resolved at.

        With `provenance` it has `revisions` too, unless the admin is older: who made each revision that a version in
        the answer names, when and why, by its number; and `deleted_by`, by the name of each kind whose row stood here,
        the revision that deleted it. With `nearest` it has, by the name of each kind that no row sets here or above,
        the nearest row one scope over, and the command that sets it here.
        """
        query: Document = {**scope.document(), **({"resource_type": self.kind(kind).name} if kind is not None else {})}
        query |= {"at": at} if at is not None else {}
        optional = {"provenance": provenance, "nearest": nearest}
        query |= {name: "true" for name, is_wanted in optional.items() if is_wanted}
        return self._read_as_known("effective_attributes", query, *optional, holding="values")

    def compare(
        self,
        scope: Scope,
        other: Scope,
        kind: KindLike | None = None,
        *,
        at: int | None = None,
        other_at: int | None = None,
    ) -> Document:
        """What differs between two scopes, each now or as of a revision; `differences` with the origins."""
        others = {f"other_{key}": name for key, name in other.document().items()}
        revisions = {"at": at, "other_at": other_at}
        query: Document = {**scope.document(), **others, **non_empty(revisions)}
        query |= {"resource_type": self.kind(kind).name} if kind is not None else {}
        return self._read("effective_attributes/comparison", query, holding="differences")

    def reach(self, scope: Scope, kind: KindLike, *, everything: bool = False) -> Document:
        """
        How the scopes below the row at a scope stand to it: `counts` and `scopes`, as of `revision`.

        It is of the first thousand, and has a `token` where there are more; with `everything`, of all of them.
        """
        query: Document = {**scope.document(), "resource_type": self.kind(kind).name, "limit": 1000}
        pages = self._answers("effective_attributes/reach", "scopes", query)
        reach = next(pages)
        for page in pages if everything else ():
            counts = {key: number + page["counts"][key] for key, number in reach["counts"].items()}
            joined = {**page, "counts": counts, "scopes": reach["scopes"] + page["scopes"]}
            reach = {**joined, **_joined_revisions(reach, page)}
        return reach

    def no_effect(self, kind: KindLike | None = None, **scope: str) -> NoEffect:
        """The reasons why stored rows have no effect, page by page: of one kind or all, filtered by scope keys."""
        query = {"resource_type": None if kind is None else self.kind(kind).name, **scope}
        return NoEffect(self._answers("matchable_attributes/no_effect", "warnings", {"limit": 500, **non_empty(query)}))

    def scopes_below(self, scope: Scope, *, search: str | None = None) -> Iterator[Document]:
        """The scopes right below one, with the kinds that are set at each, page by page; only names with a text."""
        return self._pages("scopes", "scopes", {**scope.document(), "search": search})

    def quota_usage(self, scope: Scope, *, by: str | None = None) -> Document:
        """
        Every execution quota that applies at a scope, the broadest first, how much of it is used, and by whom.

        `by` tells what uses it by `user`, which is the default, or by `project`.
        """
        return self._read("quota_usage", non_empty({**scope.document(), "by": by}), holding="quotas")

    def uses(self, query: Mapping[str, str], *, reach: bool = False, everything: bool = False) -> Document:
        """
        Where something is used: what says it, how many scopes have it from there, and the executions decided by it.

        The query is `{"pool": name}`, or the same of a label, cluster, queue, queue_tag or token_pool, or a
        resource_type with perhaps a field and a value of it. With `reach` the scopes are listed too. It is of the
        first page, and has a `token` where there is more; with `everything`, of all pages.
        """
        pages = self._answers("uses", "uses", {**query, **({"reach": "true"} if reach else {})})
        answer = next(pages)
        for page in pages if everything else ():
            counts = {key: number + page["reach"][key] for key, number in answer["reach"].items()}
            lists: Document = {key: answer[key] + page[key] for key in ("uses", "scopes") if key in answer}
            first: Document = {
                key: answer[key]
                for key in ("executions", "use_grants", "use_grant_count", "token_requests")
                if key in answer
            }
            joined = {**page, **lists, **first, "reach": counts}
            answer = {**joined, **_joined_revisions(answer, page)}
        return answer

    def warnings(self) -> list[Document]:
        """The warnings about stored rows that still apply."""
        return list(self.list_warnings())

    def list_warnings(self, **scope: str) -> Iterator[Document]:
        """The same, read page by page as they are needed; with scope keys, only those at such scopes."""
        return self._pages("warnings", "warnings", non_empty(scope), optional=("limit",))
