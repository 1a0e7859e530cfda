"""Changes: what a revision does to rows, whichever noun they belong to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from admin.core.problems import invalid
from admin.core.settings.kinds import Payload
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope

#: The author of a change by an unidentified caller.
ANONYMOUS = "anonymous"
#: The author of what was registered before authors were recorded.
UNKNOWN = "unknown"
#: The version of a row that is not stored yet.
UNSTORED = 0


def is_same(payload: Payload | None, other: Payload | None) -> bool:
    """Whether two payloads are the same JSON; true and 1 are not, though Python takes them for equal."""
    return payload == other and json.dumps(payload, sort_keys=True) == json.dumps(other, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What a writer expects of the row: nothing, a version, that there is none, or that there is one."""

    version: int | None = None
    absent: bool = False
    present: bool = False

    def holds(self, current_version: int | None) -> bool:
        """Whether the row is as the writer expects."""
        if self.absent:
            return current_version is None
        if self.present:
            return current_version is not None
        return self.version is None or self.version == current_version


#: The kind of a project's row; that of an attribute is the name of its kind, that of the fleet a FleetKind's value.
PROJECT = "PROJECT"
#: The expectation of a write that replaces any version.
ANYTHING = Expectation()


@dataclass(frozen=True, kw_only=True)
class Authorship:
    """Who changes something, and why."""

    author: str = ANONYMOUS
    claimed_by: str | None = None  #: unverified
    proof: str | None = None  #: how the author was proven; None where nobody asked
    message: str | None = None
    request_id: str | None = None
    undone: int | None = None  #: the revision that a rollback undoes, of several the newest
    also_undone: Sequence[int] | None = None  #: the others that it undoes, oldest first
    restored: int | None = None  #: the revision to which a rollback restores rows


class LastChange(NamedTuple):
    """When a row was changed last, and by whom."""

    updated_at: datetime
    updated_by: str
    claimed_by: str | None  #: unverified


Document = Mapping[str, Any]  #: one change of a request, as its schema read it


class RowKey(NamedTuple):
    """Which row is meant."""

    kind: str
    name: str  #: "" for rows that their scope alone tells apart: attributes and projects
    scope: Scope

    @property
    def is_attribute(self) -> bool:
        """Whether the row is one kind's payload at one scope; rows of other nouns have a name, projects their kind.

        A declared kind may be called POOL or CLUSTER, so the kind alone does not tell.
        """
        return not self.name and self.kind != PROJECT

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}'" if self.name else f"{self.kind} at {self.scope}"


@dataclass(frozen=True, kw_only=True)
class RowWrite:
    """The requested change of a row; `change` is called for each draft of it, so more than once."""

    key: RowKey
    change: Callable[[Payload | None], Payload | None]  #: the payload after, from the one before; None for no row
    expectation: Expectation = ANYTHING
    index: int | None = None  #: its position in a request for many changes


@dataclass(frozen=True, kw_only=True)
class RowChange:
    """One row before and after; None where there is no row."""

    kind: str
    scope: Scope
    before: Payload | None
    after: Payload | None
    name: str = ""  #: of a row that belongs to no scope: a pool, a label, a cluster
    before_version: int | None = None  #: the row's version before, None where there was no row
    revision: int = 0  #: the revision it belongs to, 0 before it is stored

    @property
    def key(self) -> RowKey:
        return RowKey(self.kind, self.name, self.scope)

    @property
    def is_attribute(self) -> bool:
        """Whether the row is one kind's payload at one scope."""
        return self.key.is_attribute

    @property
    def action(self) -> str:
        """What it does to the row: create, update, delete, or leave it unchanged."""
        if is_same(self.before, self.after):
            return "unchanged"
        return "create" if self.before is None else "delete" if self.after is None else "update"

    @property
    def is_real(self) -> bool:
        """Whether the row differs afterwards."""
        return self.action != "unchanged"

    def reverse(self) -> RowChange:
        """The change that undoes this one."""
        return replace(self, before=self.after, after=self.before, before_version=None)


class MadeChange(NamedTuple):
    """A row as a revision left it."""

    revision: int
    key: RowKey
    after: Payload | None  #: None where the row is gone


def net_changes(changes: Iterable[RowChange]) -> dict[RowKey, RowChange]:
    """The sum of changes, oldest first, for each row: from before the first to after the last."""
    net: dict[RowKey, RowChange] = {}
    for change in changes:
        first = net.get(change.key, change)
        net[change.key] = replace(change, before=first.before, before_version=first.before_version)
    return net


def rows_after(rows: Iterable[Row], changes: Iterable[RowChange]) -> dict[Scope, Row]:
    """Rows of attributes of one kind, as changes leave them."""
    after = {row.scope: row for row in rows}
    for change in changes:
        if change.after is None:
            after.pop(change.scope, None)
        else:
            # The revision that would set it does not exist yet.
            version = UNSTORED if change.is_real else change.before_version or UNSTORED
            after[change.scope] = Row(kind=change.kind, scope=change.scope, payload=change.after, version=version)
    return after


def read_named_as(name: str, definition: object, field: str) -> Payload:
    """The payload of a definition, which may leave out the name that the path has, but not have another."""
    given = {"name": name, **definition} if isinstance(definition, dict) else definition
    named, payload = read_named(given, field)
    if named != name:
        raise invalid(f"{field}.name", "is not the path's; leave it out.")
    return payload


def read_deleted(definition: object, field: str) -> str:
    """The name of what is to be deleted, of a definition that has nothing else."""
    name, payload = read_named(definition, field)
    if payload:
        raise invalid(field, "needs only the name of what is to be deleted.")
    return name


def read_named(definition: object, field: str) -> tuple[str, Payload]:
    """The name and the payload of a definition, which the field holds together."""
    if not isinstance(definition, dict):
        raise invalid(field, "is not a mapping.")
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise invalid(f"{field}.name", "is missing.")
    if "\0" in name:  # no database can even be asked for it
        raise invalid(f"{field}.name", "holds a character that no name has.")
    return name, {key: value for key, value in definition.items() if key != "name"}
