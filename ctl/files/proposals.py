"""Proposals: the changes that a set of documents asks for, and where each of them was written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctl.client.answers import Attribute, ChangeSet, Document, RowChange
from ctl.client.errors import Conflict, InvalidRequest
from ctl.client.nouns import DEFINED, json_key
from ctl.client.words import count

if TYPE_CHECKING:
    from ctl.files.document_sets import Declaration

#: The word for rows of a kind, by its name.
Noun = Callable[[str], str]

_PRUNED = "--prune"
#: How the admin begins the names of fields of a definition.
_DEFINITION = re.compile(rf"^({'|'.join(map(json_key, DEFINED))})_definition(\.|$)")


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Changes as the API takes them, each with its place."""

    changes: list[Document]
    places: list[str]  #: of each change: `settings.yaml:12:1`, or what else asked for it
    declarations: Sequence[Declaration] = ()  #: of the first changes, where they come from documents

    @classmethod
    def from_documents(cls, declarations: Sequence[Declaration], pruned: Iterable[Attribute] = ()) -> Proposal:
        """What documents say, and the deletion of rows that they leave out."""
        changes = [declaration.change() for declaration in declarations]
        deletions = [{"resource_type": row.kind, **row.scope.document(), "delete": True} for row in pruned]
        places = [declaration.place for declaration in declarations] + [_PRUNED] * len(deletions)
        return cls(changes=changes + deletions, places=places, declarations=declarations)

    @classmethod
    def from_plan(cls, name: str, changes: list[Document]) -> Proposal:
        """What a plan holds, expectations included."""
        return cls(changes=changes, places=[f"{name} (change {index + 1})" for index in range(len(changes))])

    def expecting(self, trial: ChangeSet) -> list[Document]:
        """The changes, each expecting its row to be as a dry run found it."""
        rows = {row.index: row for row in trial.rows}
        return [{**change, **_expectation(rows.get(index))} for index, change in enumerate(self.changes)]

    def check_versions(self, trial: ChangeSet, noun: Noun) -> None:
        """Refuse documents that were made from another version of a row they would change."""
        details = []
        for row in trial.changed_rows:
            declaration = self._declaration(row.index)
            if declaration is None or declaration.file.version in (None, row.version):
                continue
            facts = {"expected_version": declaration.file.version, "current_version": row.version}
            details.append({"index": row.index, **_row_keys(row), **facts})
        if details:
            raise self.moved(details, noun, "Remove the versions from the documents, or use --force.")

    def moved(
        self, details: Sequence[Mapping[str, Any]], noun: Noun, remedy: str, error: Conflict | None = None
    ) -> Conflict:
        """The conflict that says of each row what was expected and what is there."""
        located = [
            {**detail, "position": self._place(detail), "reason": moved_reason(detail, noun)} for detail in details
        ]
        return Conflict(
            f"{count(len(located), 'row')} changed in the meantime: nothing was written. {remedy}",
            status=error.status if error else None,
            name="version_conflict",
            code=error.code if error else None,
            details=located,
            request_id=error.request_id if error else None,
        )

    def locate(self, error: InvalidRequest) -> InvalidRequest:
        """The admin's refusal with the place of each change it names."""
        is_placed = [self._places(detail) for detail in error.details]
        if is_placed and all(is_placed):
            # The details have positions, so the message need not repeat them.
            error.message = f"The admin refused the change: {count(len(is_placed), 'problem')}. Nothing was written."
        return error

    def position(self, index: int | None, field: str = "") -> str:
        """Where the change at an index was written, or one field of it: `settings.yaml:12:1`."""
        declaration = self._declaration(index)
        return declaration.position(field) if declaration else self._place({"index": index})

    def _places(self, detail: Document) -> bool:
        index = detail.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self.places):
            return False
        declaration = self._declaration(index)
        field = _DEFINITION.sub("", str(detail.get("field") or ""))
        detail["field"] = field
        detail["position"] = declaration.position(field) if declaration else self.places[index]
        return True

    def _place(self, detail: Mapping[str, Any]) -> str:
        index = detail.get("index")
        return self.places[index] if isinstance(index, int) and 0 <= index < len(self.places) else ""

    def _declaration(self, index: int | None) -> Declaration | None:
        return self.declarations[index] if index is not None and index < len(self.declarations) else None


def _expectation(row: RowChange | None) -> Document:
    if row is None:
        return {}
    return {"expected_absent": True} if row.version is None else {"expected_version": row.version}


def _row_keys(row: RowChange) -> Document:
    name = {"name": row.name} if row.name is not None else {}
    return {"resource_type": row.kind, **row.scope.document(), **name}


def moved_reason(detail: Mapping[str, Any], noun: Noun) -> str:
    """Why a row is a conflict: what was expected, and what is stored."""
    row = RowChange.from_document(dict(detail))
    title = row.title(noun(row.kind))
    expected, current = detail.get("expected_version"), detail.get("current_version")
    by = detail.get("changed_by_revision")
    if by is not None and expected is None and current is None:
        return f"{title}: changed again by revision {by}"
    then = f"expected at version {expected}" if expected is not None else "expected not to be set"
    now = f"now at version {current}" if current is not None else "now deleted" if expected is not None else "set"
    return f"{title}: {then}, {now}{f' (revision {by})' if by is not None and by != current else ''}"
