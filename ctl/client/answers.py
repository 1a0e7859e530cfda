"""What the admin answers about attributes, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctl.client.scopes import Scope

Document = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One kind's payload at one scope: the row stored there, or what is inherited."""

    scope: Scope
    payload: Document
    version: int | None = None  #: of the row; None when the value is inherited
    updated_at: str | None = None
    updated_by: str | None = None
    claimed_by: str | None = None
    inherited_from: Document | None = None  #: origin of the most specific contributor
    origins: Mapping[str, Document] = field(default_factory=dict)  #: by leaf path; of a row if provenance is asked for
    kind: str | None = None  #: name of the kind, in lists
    #: The revision that is the version of the row, in lists and if asked for; retention may shorten it.
    provenance: Document | None = field(default=None, compare=False)
    #: By number, those that origins name; if asked for.
    revisions: Mapping[str, Document] = field(default_factory=dict, compare=False)
    #: The revision that deleted the row that stood here; if asked for.
    deleted_by: Document | None = field(default=None, compare=False)
    #: What happens with the value where executions do not follow it; if asked for.
    consequence: Document | None = field(default=None, compare=False)

    @classmethod
    def from_document(cls, document: Document, scope: Scope) -> Attribute:
        """From the answer to GET on a level's path."""
        return cls(
            scope=scope,
            payload=_written_payload(document),
            inherited_from=document.get("inherited_from"),
            origins=document.get("origins") or {},
            revisions=document.get("revisions") or {},
            deleted_by=document.get("deleted_by"),
            consequence=document.get("consequence"),
            **_stamps(document),
        )

    @classmethod
    def inherited(cls, effective: Effective, scope: Scope) -> Attribute:
        """From what a kind resolves to at a scope that has no row of its own."""
        # The trail starts at the broadest level, so the last step that was used is the most specific one.
        steps = [step for step in effective.trail if step.get("used")]
        return cls(
            scope=scope,
            payload=effective.value,
            inherited_from=steps[-1] if steps else {"level": "platform"},
            origins=effective.origins,
            revisions=effective.revisions,
            deleted_by=effective.deleted_by,
            consequence=effective.consequence,
        )

    @property
    def last_change(self) -> Document:
        """The revision that is the version of the row, as far as it is known; an older admin tells no message."""
        stamps: Document = {
            "revision": self.version,
            "author": self.updated_by,
            "claimed_by": self.claimed_by,
            "at": self.updated_at,
        }
        return self.provenance or {key: value for key, value in stamps.items() if value is not None}

    def with_origins(self, effective: Effective) -> Attribute:
        """The row with the origins of its fields, of what the kind resolves to at its scope with provenance."""
        here: Document = {"level": self.scope.level, **self.scope.document(), "version": self.version}
        steps = (step for step in effective.trail if Scope.from_document(step) == self.scope)
        step = next((step for step in steps if step.get("version") == self.version), {})
        set_by, before = step.get("revisions") or {}, step.get("set_before")
        paths = [*(step.get("used") or ()), *(step.get("overridden") or ())]
        numbers = {path: {"revision": set_by[path]} if path in set_by else {"set_before": before} for path in paths}
        known = {path: {key: value for key, value in number.items() if value} for path, number in numbers.items()}
        origins = {path: {**here, **number} for path, number in known.items()}
        return replace(self, origins=origins, revisions=effective.revisions)

    @classmethod
    def from_entry(cls, entry: Document) -> Attribute:
        """From one entry of `matchable_attributes`."""
        return cls(
            scope=Scope.from_document(entry),
            payload=_sole_payload(entry.get("attributes")),
            kind=entry.get("resource_type"),
            **_stamps(entry),
        )


@dataclass(frozen=True, kw_only=True)
class Change:
    """The answer to a write, or to a dry run of one."""

    payload: Document  #: what the row holds afterwards; empty when nothing is left of it
    before: Document | None  #: what it held
    changed: bool
    version: int | None
    revision: int | None
    warnings: list[Document]
    document: Document  #: the answer, unchanged

    @classmethod
    def from_document(cls, document: Document) -> Change:
        return cls(
            payload=_written_payload(document),
            before=document.get("before"),
            changed=bool(document.get("changed", document.get("deleted", False))),
            version=document.get("version"),
            revision=document.get("revision"),
            warnings=document.get("warnings") or [],
            document=document,
        )


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """How one row changes, or has changed."""

    action: str  #: create, update, delete or unchanged
    kind: str  #: name of the kind; PROJECT, CLUSTER, POOL or LABEL for a definition
    scope: Scope
    name: str | None = None  #: of what is part of the fleet, and has no scope
    before: Document | None
    after: Document | None
    version: int | None = None  #: of the row as it is stored
    index: int | None = None  #: of the change that asked for it

    @classmethod
    def from_document(cls, document: Document) -> RowChange:
        before, after = document.get("before"), document.get("after")
        action = "create" if before is None else "delete" if after is None else "update"
        return cls(
            action=str(document.get("action", action)),
            kind=str(document.get("resource_type", "")),
            scope=Scope.from_document(document),
            name=document.get("name"),
            before=before,
            after=after,
            version=document.get("version"),
            index=document.get("index"),
        )

    @property
    def is_changed(self) -> bool:
        """Whether the row is created, updated or deleted."""
        return self.action != "unchanged"

    @property
    def place(self) -> Scope | str:
        """Where the row is: its scope, or its name in the fleet."""
        return self.scope if self.name is None else self.short(self.kind)

    def title(self, noun: str) -> str:
        """The row in words: `execution-cluster-label at domain development`, `project flyteexamples`, `pool gpu`."""
        if self.name is not None:
            return f"{noun} {self.name}"
        return f"{noun} {self.scope.project}" if self.kind == "PROJECT" else f"{noun} at {self.scope.describe()}"

    def short(self, noun: str) -> str:
        """The row as `-o name` prints it."""
        return f"{noun}/{self.name}" if self.name is not None else self.scope.name(noun)


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """The answer to a change of many rows or to a rollback, or to a dry run of one."""

    rows: list[RowChange]  #: in the order of the request
    revision: int  #: the new one, or the latest when nothing changed or in a dry run
    changed: bool
    warnings: list[Document]
    effective: Document | None  #: which effective values change, in a dry run
    document: Document  #: the answer, unchanged

    @classmethod
    def from_document(cls, document: Document) -> ChangeSet:
        return cls(
            rows=[RowChange.from_document(row) for row in document.get("rows") or []],
            revision=int(document.get("revision") or 0),
            changed=bool(document.get("changed")),
            warnings=document.get("warnings") or [],
            effective=document.get("effective"),
            document=document,
        )

    @property
    def changed_rows(self) -> list[RowChange]:
        """The rows that are created, updated or deleted."""
        return [row for row in self.rows if row.is_changed]


@dataclass(frozen=True, kw_only=True)
class Effective:
    """What one kind resolves to at a scope, and every step that led to it."""

    resource_type: str
    value: Document
    origins: Mapping[str, Document]  #: by leaf path
    unset: Mapping[str, Document]  #: leaves that a level unsets, by path
    trail: list[Document]  #: broadest first, silent levels too
    revisions: Mapping[str, Document] = field(
        default_factory=dict
    )  #: by number, those that versions name; if asked for
    deleted_by: Document | None = None  #: the revision that deleted the row that stood at the scope; if asked for
    consequence: Document | None = None  #: what happens with a value that executions do not follow; if asked for

    @classmethod
    def from_document(
        cls,
        document: Document,
        revisions: Mapping[str, Document] | None = None,
        deleted_by: Mapping[str, Document] | None = None,
        consequences: Mapping[str, Document] | None = None,
    ) -> Effective:
        """From one value of an answer; the others are what the answer has beside its values."""
        kind = str(document.get("resource_type", ""))
        return cls(
            resource_type=kind,
            value=document.get("value") or {},
            origins=document.get("origins") or {},
            unset=document.get("unset") or {},
            trail=document.get("trail") or [],
            revisions=revisions or {},
            deleted_by=(deleted_by or {}).get(kind),
            consequence=(consequences or {}).get(kind),
        )

    @property
    def is_empty(self) -> bool:
        """Whether no level sets anything."""
        return not self.value and not self.unset


def _written_payload(document: Document) -> Document:
    """The payload in an answer about one row."""
    return _sole_payload((document.get("attributes") or {}).get("matching_attributes"))


def _stamps(document: Document) -> Document:
    """What an answer says about a row beside its payload."""
    return {key: document.get(key) for key in ("version", "updated_at", "updated_by", "claimed_by", "provenance")}


def _sole_payload(wrapped: Any) -> Document:
    """The payload under its kind's key, which is the only one."""
    return dict(next(iter(wrapped.values()), None) or {}) if wrapped else {}


def group_values(group: Document) -> tuple[str, ...]:
    """What the executions of a group share, of each word that they are counted by."""
    return tuple(group.get("values") or [group["value"]])


def warning_text(warning: Mapping[str, Any]) -> str:
    """A warning of the admin as one line of text."""
    text = str(warning.get("message", warning.get("code", "")))
    closest = [str(word) for word in warning.get("closest") or [] if str(word) not in text]
    return f"{text} Closest: {', '.join(closest)}." if closest else text
