"""What `make_change` needs to know of a noun that revisions change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import ClassVar, TypeVar

from sqlalchemy import Connection

from admin.core.changes import Authorship, Document, RowChange, RowKey, RowWrite
from admin.core.in_use import Use
from admin.core.permissions import reading
from admin.core.problems import Invalid, Problem
from admin.core.settings.kinds import Payload
from admin.core.settings.warnings import Warning
from admin.errors import InvalidRequest
from admin.services.access import UNRESTRICTED, Access
from admin.services.changeable.views import NotInMemory, SettingsView
from admin.services.context import Context

Value = TypeVar("Value")


class Mode(Enum):
    """Whether a change is made or only tried."""

    MAKE = "make"  # store it as a revision
    DRY_RUN = "dry run"  # check it and store nothing
    PLAN = "plan"  # a dry run that also lists the effective values that would change


class Policy(Enum):
    """Which rules a change must keep beside those of its rows."""

    EDIT = "edit"  # one row; its project must be active
    APPLY = "apply"  # many rows; the project must be active where a row changes
    RESTORE = "restore"  # what was stored before and so was allowed; only what no longer fits is refused
    RESTORE_ALL = "restore all"  # the same for a whole state, in which a project may be archived


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """How a change is to be made."""

    authorship: Authorship = field(default_factory=Authorship)
    mode: Mode = Mode.MAKE
    policy: Policy = Policy.APPLY
    force: bool = False  #: remove rows that are in use
    expected_head: int | None = None  #: refuse if another revision has been made since this one
    access: Access = UNRESTRICTED  #: what the caller may do

    @property
    def dry_run(self) -> bool:
        return self.mode is not Mode.MAKE

    @property
    def restores(self) -> bool:
        return self.policy in (Policy.RESTORE, Policy.RESTORE_ALL)


@dataclass(kw_only=True)
class Draft:
    """A change in the making: what it does to each row so far, and what is wrong with it."""

    context: Context
    transaction: Connection | None  #: None where memory must do
    settings_view: SettingsView  #: what attributes are checked against
    options: ChangeOptions
    rows: list[tuple[RowWrite, RowChange]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    #: Users and clusters whose tokens were revoked when it was stored, as audit events name them.
    without_tokens: list[str] = field(default_factory=list)

    @property
    def connection(self) -> Connection:
        """The transaction; NotInMemory where there is none."""
        if self.transaction is None:
            raise NotInMemory
        return self.transaction

    @property
    def changes(self) -> list[RowChange]:
        """What it does to each row, of every noun."""
        return [change for _, change in self.rows]

    @contextmanager
    def collecting_problems(self, write: RowWrite) -> Iterator[None]:
        """Collect the problems of one write among many and go on; a single write raises its own error."""
        try:
            yield
        except Invalid as invalid:
            if self.options.restores:  # the caller gave no positions, so the row is named
                named = (replace(problem, reason=f"{write.key}: {problem.reason}") for problem in invalid.problems)
                self.problems.extend(named)
            else:
                self.problems += [replace(problem, index=write.index) for problem in invalid.problems]
        except InvalidRequest as error:
            if write.index is None:
                raise
            for detail in error.details:
                near = tuple(detail.get("closest", ()))
                problem = Problem(field=detail["field"], reason=detail["reason"], closest=near, index=write.index)
                self.problems.append(problem)


class Changeable(ABC):
    """The rows of one noun within one change.

    `registry.NOUNS` lists the subclasses in the order in which their rows are drafted, checked and stored. Creating one
    loads the rows as they are before the change.
    """

    #: What `RowChange.kind` is for its rows. Its definition is the field `<kind>_definition` of a change's document.
    kinds: ClassVar[tuple[str, ...]]
    #: What one needs to write its rows.
    permission: ClassVar[str]

    def __init__(self, draft: Draft, writes: Sequence[RowWrite]) -> None:
        self.draft = draft
        self.context = draft.context
        self.rows: list[tuple[RowWrite, RowChange]] = []  #: those of the draft's that are its own
        self.load(writes)

    @property
    def connection(self) -> Connection:
        return self.draft.connection

    @property
    def removed(self) -> list[RowChange]:
        """The changes that remove one of its rows."""
        return [change for _, change in self.rows if change.after is None]

    @classmethod
    @abstractmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        """One change from its document in a request; Invalid with every problem in it."""

    @classmethod
    @abstractmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        """The write that gives a row the payload it has after a change in history."""

    @classmethod
    def stored_warnings(cls, context: Context, connection: Connection) -> Iterable[Warning]:
        """Every warning about its stored rows."""
        return ()

    @abstractmethod
    def load(self, writes: Sequence[RowWrite]) -> None:
        """Load the state before that drafting these writes needs."""

    @abstractmethod
    def change(self, write: RowWrite) -> RowChange:
        """What a write does to its row; Invalid or an InvalidRequest where it may not."""

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterable[Warning]:
        """Check its rows against the state that all changes leave together: warnings out, problems to the draft."""
        return ()

    def check_removals(self, removed: Sequence[RowChange]) -> Iterable[Problem]:
        """A problem for each row that must not go while others stay."""
        return ()

    def users(self, removed: Sequence[RowChange]) -> Iterable[Use]:
        """What would miss its removed rows; removing them needs force."""
        return ()

    def check_known(self, access: Access, key: RowKey) -> None:
        """Refuse a row that the caller may neither read nor write, before anything is told of it."""
        if not access.allows(reading(self.permission), key.scope):
            access.check(self.permission, key.scope)

    def check_access(self, access: Access, change: RowChange) -> None:
        """Refuse a caller who may not write a row; PermissionDenied with what is missing."""
        access.check(self.permission, change.scope)

    @abstractmethod
    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        """Store the rows that change, while the head of the revisions is locked."""


def read_under(field: str, read: Callable[[], Value]) -> Value:
    """A definition that stands in a field of a document; the problems in it name that field."""
    try:
        return read()
    except Invalid as invalid:
        problems = (replace(problem, field=f"{field}.{problem.field}".rstrip(".")) for problem in invalid.problems)
        raise Invalid(*problems) from None


def row_change(write: RowWrite, before: Payload | None, version: int | None) -> RowChange:
    """What a write does to a row that has a payload and a version, or is absent."""
    kind, name, scope = write.key
    return RowChange(
        kind=kind, name=name, scope=scope, before=before, after=write.change(before), before_version=version
    )
