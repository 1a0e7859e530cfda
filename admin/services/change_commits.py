"""Change commits: changes that are made at the same time, each a revision of its own, stored in one transaction."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from admin.core.problems import Invalid
from admin.errors import RainbowError
from admin.services.change_drafts import Drafted, Writes, draft_change
from admin.services.changeable.base import Draft
from admin.services.changeable.views import KnownSettings, SettingsView, StoredSettings
from admin.services.changes import ChangeOutcome, ChangeRequest, changed_by
from admin.services.context import Context
from admin.store import attributes
from admin.store.revisions import NewRevision

#: Rows that are drafted before they are stored.
MOST_ROWS = 1000


def commit_changes(requests: list[ChangeRequest]) -> list[ChangeOutcome]:
    """Make changes in their order, each after the ones before it; a refusal of one does not affect the others."""
    context = requests[0].context
    if context.index.revision < 0:
        context.index.current()  # which loads it
    is_complete = False
    try:
        with context.database.writing() as connection:
            batch = _Batch(context, connection)
            requests = [*requests, *context.changes.join()]  # changes that arrived while this one waited for the head
            outcomes = [batch.make(request) for request in requests]
            batch.store()
            is_complete = True
    except Exception as failure:
        if not is_complete:
            raise
        return [failure] * len(requests)  # they may have been committed, so they must not be retried
    batch.announce()
    return outcomes


class _Batch:
    """Changes within one transaction."""

    def __init__(self, context: Context, connection: Connection) -> None:
        self._context = context
        self._connection = connection
        self._head, basis = context.index.lock_and_catch_up(connection)
        #: Memory, while it has everything with what this batch has made.
        self._known = None if basis is None else KnownSettings(context, connection, basis)
        self._drafted: list[NewRevision] = []  #: not stored yet
        self._drafted_rows = 0
        self._made: list[NewRevision] = []

    def make(self, request: ChangeRequest) -> ChangeOutcome:
        """Draft a change as the next revision."""
        try:
            drafted = self._draft(request)
        except (Invalid, RainbowError) as refusal:
            return refusal
        if drafted.changes:
            self._append(drafted)
        return changed_by(drafted, self._head)

    def _draft(self, request: ChangeRequest) -> Drafted:
        view, early = self._view(request.writes), request.early
        if early is not None and self._known is not None and self._known.agrees_with(early.view):
            return early.drafted
        context, connection, options = self._context, self._connection, request.options
        draft = Draft(context=context, transaction=connection, settings_view=view, options=options)
        return draft_change(draft, request.writes, self._head)

    def _view(self, writes: Writes) -> SettingsView:
        """Memory for changes of attributes, as long as the batch has made no others; else the database."""
        if self._known is not None and not callable(writes) and all(write.key.is_attribute for write in writes):
            return self._known
        self.store()
        return StoredSettings(self._context, self._connection)

    def _append(self, drafted: Drafted) -> None:
        self._head += 1
        now = self._context.clock()
        revision = NewRevision(
            number=self._head,
            created_at=now,
            authorship=drafted.draft.options.authorship,
            changes=[replace(change, revision=self._head) for change in drafted.changes],
        )
        self._drafted.append(revision)
        self._drafted_rows += len(revision.changes)
        for noun in drafted.nouns:
            noun.store(drafted.changes_of(noun), self._head, now)
        if self._known is not None and all(change.is_attribute for change in revision.changes):
            self._known.add(revision)
        else:
            self._known = None
        if self._drafted_rows > MOST_ROWS:
            self.store()

    def store(self) -> None:
        """Store what is drafted."""
        if self._drafted:
            attributes.store_revisions(self._connection, self._drafted)
            self._made += self._drafted
            self._drafted, self._drafted_rows = [], 0

    def announce(self) -> None:
        """Let every worker of this admin know of what was committed."""
        if not self._made:
            return
        self._context.index.announce(self._head)  # first: no worker is to answer with less than another has answered
        if self._known is not None:
            self._context.index.apply(self._made)
        else:  # groups or grants may be among them
            self._context.known_grants.forget()
