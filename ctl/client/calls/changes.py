"""The calls of the client that are about changes: many rows at once, revisions, and going back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Unpack

from ctl.client.answers import ChangeSet, Document
from ctl.client.calls.base import WriteOptions, non_empty
from ctl.client.calls.kinds import KindCalls, KindLike
from ctl.client.scopes import Scope

#: How much longer a change may take for each of its rows; the admin checks all of them together.
_SECONDS_PER_CHANGE = 0.02
#: How much longer than the wait itself the answer to a waiting read may take.
_SPARE_SECONDS = 5.0
#: How much longer a rollback, of any number of rows, may take.
_ROLLBACK_SECONDS = 300.0


class ChangeCalls(KindCalls):
    """Part of the client; see `ctl.client.Client`."""

    def change_attributes(
        self,
        changes: Sequence[Mapping[str, Any]],
        *,
        page_size: int | None = None,
        **options: Unpack[WriteOptions],
    ) -> ChangeSet:
        """
        Make many changes as one revision, or none of them. Never repeated once it may have arrived.

        A change is an attribute, `{"resource_type", scope keys, "payload"}` or with `"delete": True` instead of the
        payload, or a project, `{"project_definition": {"id", …}}`, or a `pool_definition`, `label_definition` or
        `cluster_definition` (`{"name", …}`), with `"delete": True` to delete it. `"expected_version"` and
        `"expected_absent"` say what a row must be like, else it is a Conflict.

        The answer to a `dry_run` also lists `page_size` of the effective values that would change, and their number.
        The rest is as in `put_attribute`.
        """
        body = {"changes": list(changes)}
        query = non_empty({"limit": page_size})
        more_seconds = len(changes) * _SECONDS_PER_CHANGE
        return ChangeSet.from_document(
            self._change("POST", "attribute_changes", body, **options, query=query, more_seconds=more_seconds)
        )

    def roll_back(
        self,
        revision: int | Collection[int] | None = None,
        *,
        to: int | None = None,
        scope: Scope | None = None,
        kind: KindLike | None = None,
        restorable: bool = False,
        expected_head: int | None = None,
        force: bool = False,
        **options: Unpack[WriteOptions],
    ) -> ChangeSet:
        """
        Undo one or more revisions, or restore rows as they were at one; either way one new revision is made.

        It is a Conflict if another revision changed a row of the `revision` to undo after it, or of one of several;
        with `restorable` only if all were, and the document of the answer has those that are `left`. Going back `to` a
        revision is for the rows of exactly `scope`, of one `kind` if it is named, or for everything without a scope; it
        is a Conflict if another revision than `expected_head` is the latest. With `force` definitions in use are also
        deleted.
        """
        query = {"force": "true"} if force else {}
        body: Document = {"revision": revision} if to is None else {"to": to}
        if to is None and isinstance(revision, Collection):
            body = {"revisions": sorted(revision)}
        if to is not None:
            body |= scope.document() if scope is not None else {"everything": True}
            body |= {"resource_type": self.kind(kind).name} if kind is not None else {}
        body |= {"restorable": True} if restorable else {}
        body |= {"expected_head": expected_head} if expected_head is not None else {}
        return ChangeSet.from_document(
            self._change("POST", "rollbacks", body, **options, query=query, more_seconds=_ROLLBACK_SECONDS)
        )

    def effective_with(
        self, scope: Scope, kind: KindLike | None = None, *, changes: Sequence[Mapping[str, Any]]
    ) -> Document:
        """What `effective_document` would answer if the changes had been made; nothing is written."""
        body: Document = {**scope.document(), "changes": list(changes)}
        body |= {"resource_type": self.kind(kind).name} if kind is not None else {}
        more_seconds = len(changes) * _SECONDS_PER_CHANGE
        answer = self._transport.call(
            "POST", "effective_attributes", body=body, is_safe=True, more_seconds=more_seconds
        )
        return self._require_list(answer, "values")

    # Revisions

    def revisions(self, **filters: Any) -> Iterator[Document]:
        """
        Revisions, newest first, page by page.

        Filters are `project`, `domain`, `workflow`, `launch_plan`, `resource_type` (a name, or PROJECT), `author`,
        `claimed_by`, `after` and `before` (RFC 3339), `since` (a number; then oldest first), and `limit`, the size of
        a page.
        """
        yield from self._pages("revisions", "revisions", filters)

    def timeline(self, **filters: Any) -> Iterator[Document]:
        """
        Revisions, registrations, what happened to clusters and ends of executions, newest first, page by page.

        Filters are `project`, `domain`, `workflow`, `launch_plan`, `resource_type`, `name` (of a cluster, pool or
        label), `cluster`, `actor` (an author, verified or claimed), `source` (`execution` for the ends of executions),
        `executions` (these too), `after` and `before` (RFC 3339), and `limit`, the size of a page.
        """
        yield from self._pages("timeline", "entries", filters)

    def timeline_pages(self, **filters: Any) -> Iterator[Document]:
        """The same as answers: each has its `entries`, and the last what was pruned and is `not_listed`."""
        yield from self._answers("timeline", "entries", non_empty(filters))

    def unknown_timeline_names(self, **filters: Any) -> list[Document]:
        """The names among the filters of an empty timeline that nothing has, each with similar ones."""
        answer = self._read("timeline", {**filters, "limit": 1}, holding="entries")
        return list(answer.get("unknown_names") or [])

    def revision_before(self, time: str) -> tuple[int | None, int]:
        """The number of the last revision before a time (RFC 3339), if any, and that of the oldest that is kept."""
        answer = self._read("revisions", {"before": time, "limit": 1}, holding="revisions")
        numbers = [int(revision["number"]) for revision in answer["revisions"]]
        return (numbers[0] if numbers else None), int(answer.get("oldest") or 1)

    def head(self) -> int:
        """The number of the latest revision, 0 before the first."""
        return int(self._read("revisions", {"limit": 1}, holding="revisions").get("head") or 0)

    def wait_for_revisions(self, since: int, seconds: int = 30) -> Document:
        """Revisions after `since` as soon as there are any, or none after `seconds`; `head` is the latest there is."""
        query = {"since": since, "wait": seconds}
        return self._read("revisions", query, holding="revisions", more_seconds=seconds + _SPARE_SECONDS)

    def revision(self, number: int) -> Document:
        """One revision with its changes, each with what was before and after."""
        return self._read(f"revisions/{int(number)}", holding="changes")

    def revision_diff(self, before: int, after: int) -> list[Document]:
        """The net difference between the states at two revisions, row by row; 0 is before the first."""
        return list(self._read("revision_diff", {"from": before, "to": after}, holding="rows")["rows"])
