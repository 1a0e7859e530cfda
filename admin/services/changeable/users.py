"""Users as revisions change them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from admin.core.audit import USER_TARGET
from admin.core.changes import ANYTHING, Document, Expectation, RowChange, RowKey, RowWrite, read_deleted, read_named
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning
from admin.core.users import USER, read_user
from admin.services.absent_users import warn_of_earlier, warn_of_left
from admin.services.changeable.base import Changeable, read_under, row_change
from admin.services.context import Context
from admin.store import grants, users
from admin.store.user_tokens import USER_TOKENS

_FIELD = "user_definition"


def user_write(name: str, payload: Payload | None, expectation: Expectation = ANYTHING) -> RowWrite:
    """Define a user; None removes it."""

    def change(before: Payload | None) -> Payload | None:
        return None if payload is None else read_user(name, payload)

    return RowWrite(key=RowKey(USER, name, PLATFORM), change=change, expectation=expectation)


class ChangeableUsers(Changeable):
    """People and service accounts."""

    kinds = (USER,)
    permission = "users.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        if document["delete"]:
            return user_write(read_deleted(document[_FIELD], _FIELD), None)
        name, payload = read_named(document[_FIELD], _FIELD)
        return user_write(name, read_under(_FIELD, lambda: read_user(name, payload)))

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        return user_write(change.name, change.after)

    def load(self, writes: Sequence[RowWrite]) -> None:
        self._before = users.some(self.connection, {write.key.name for write in writes})

    def change(self, write: RowWrite) -> RowChange:
        user = self._before.get(write.key.name)
        return row_change(write, None, None) if user is None else row_change(write, user.payload, user.version)

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterator[Warning]:
        """Tell what stays behind a user who goes, and what a new one finds."""
        access, changes = self.draft.options.access, self.draft.changes
        for _write, change in rows:
            if change.is_real and change.after is None:
                yield from warn_of_left(self.context, self.connection, access, change.name, changes)
            elif change.is_real and change.before is None:
                yield from warn_of_earlier(self.context, self.connection, access, change.name, changes)

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        """Store users; the tokens of those that go are revoked, and never come back."""
        users.write(self.connection, changes, revision, now)
        if any(change.before is None or change.after is None for change in changes):
            grants.bump(self.connection)  # what a user has created waits while there is no such user
        removed = [change.name for change in changes if change.after is None]
        if removed:
            USER_TOKENS.revoke_all(self.connection, removed, now)
            self.draft.without_tokens += [f"{USER_TARGET}{name}" for name in removed]
        forget_users(self.context)


def forget_users(context: Context) -> None:
    """Empty the caches that depend on users."""
    context.token_cache.forget()
    context.user_presence.forget()
