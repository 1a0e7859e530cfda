"""Groups of users as revisions change them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import ANYTHING, Document, Expectation, RowChange, RowKey, RowWrite, read_deleted, read_named
from admin.core.grants import GRANT, Grantee
from admin.core.grants import GROUP as GROUP_NOUN
from admin.core.in_use import Use
from admin.core.problems import closest, did_you_mean, invalid
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode
from admin.core.use_grants import Named
from admin.core.user_groups import GROUP, Memberships, UserGroup, group_of, read_group
from admin.services.access import Access
from admin.services.changeable.base import Changeable, read_under, row_change
from admin.services.context import Context
from admin.services.creator_rights import check_giving_use
from admin.store import grants, user_groups
from admin.store.grants import GrantFilter

_FIELD = "group_definition"


def group_write(name: str, payload: Payload | None, expectation: Expectation = ANYTHING) -> RowWrite:
    """Define a group; None removes it."""

    def change(_before: Payload | None) -> Payload | None:
        return None if payload is None else read_group(name, payload)

    return RowWrite(key=RowKey(GROUP, name, PLATFORM), change=change, expectation=expectation)


class ChangeableGroups(Changeable):
    """Groups of users."""

    kinds = (GROUP,)
    permission = "groups.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        if document["delete"]:
            return group_write(read_deleted(document[_FIELD], _FIELD), None)
        name, payload = read_named(document[_FIELD], _FIELD)
        return group_write(name, read_under(_FIELD, lambda: read_group(name, payload)))

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        return group_write(change.name, change.after)

    @classmethod
    def stored_warnings(cls, context: Context, connection: Connection) -> Iterator[Warning]:
        groups = [stored.group for stored in user_groups.every(connection)]
        names = {group.name for group in groups}
        for group in sorted(groups, key=lambda group: group.name):
            yield from _absent_members(group, names)

    def load(self, writes: Sequence[RowWrite]) -> None:
        self._before = user_groups.some(self.connection, [write.key.name for write in writes])

    def change(self, write: RowWrite) -> RowChange:
        stored = self._before.get(write.key.name)
        return row_change(write, stored.payload if stored else None, stored.version if stored else None)

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterator[Warning]:
        after = groups_after(self.connection, self.draft.changes)
        memberships = Memberships(after.values())
        for write, change in rows:
            with self.draft.collecting_problems(write):
                if circle := memberships.cycle(change.name):
                    way = " → ".join(circle)
                    raise invalid("groups", f"'{change.name}' would be a member of itself: {way}. Remove one of them.")
            if change.name in after:
                yield from _absent_members(after[change.name], after.keys())

    def check_access(self, access: Access, change: RowChange) -> None:
        super().check_access(access, change)
        if change.after is None:
            return
        before, after = group_of(change.name, change.before or {}), group_of(change.name, change.after)
        if after.users - before.users or after.groups - before.groups:
            access.check_joining(change.name)
            # Others who share the transaction may have changed rights, and nothing is committed yet.
            grantee = Named(GROUP_NOUN, change.name)
            check_giving_use(self.context, self.connection, access, grantee, is_kept=False)

    def users(self, removed: Sequence[RowChange]) -> Iterator[Use]:
        """Grants for a group, and groups that contain it; whatever this change itself takes away does not count."""
        names = {change.name for change in removed if change.name in self._before}
        if not names:
            return
        taken = {change.name for change in self.draft.changes if change.kind == GRANT and change.after is None}
        wanted = GrantFilter(grantees=[Grantee(GROUP_NOUN, name) for name in sorted(names)])
        for stored in grants.page(self.connection, wanted):
            if stored.name not in taken:
                grant, name = stored.grant, stored.grant.grantee.name
                reason = f"group '{name}': it has the role {grant.role} on {grant.scope}"
                yield _use("grant", name, reason, stored.version)
        versions = {stored.name: stored.version for stored in user_groups.every(self.connection)}
        for group in groups_after(self.connection, self.draft.changes).values():
            for name in sorted(group.groups & names):
                reason = f"group '{name}': it is a member of group '{group.name}'"
                yield _use("group", name, reason, versions.get(group.name))

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        if changes:
            user_groups.write(self.connection, changes, revision)
            grants.bump(self.connection)
            self.context.known_grants.forget()


def groups_after(connection: Connection, changes: Sequence[RowChange]) -> dict[str, UserGroup]:
    """Every group as some changes leave it."""
    after = {stored.name: stored.group for stored in user_groups.every(connection)}
    for change in changes:
        if change.kind == GROUP and not change.is_attribute:
            after.pop(change.name, None)
            if change.after is not None:
                after[change.name] = group_of(change.name, change.after)
    return after


def _absent_members(group: UserGroup, names: Collection[str]) -> Iterator[Warning]:
    """A warning for each member of a group that is a group which nobody has defined."""
    return (unknown_group(GROUP, group.name, "groups", member, names) for member in sorted(group.groups - {*names}))


def unknown_group(kind: str, row: str, field: str, name: str, names: Collection[str]) -> Warning:
    """The warning that a group or grant names a group which nobody has defined."""
    near = closest(name, names)
    return Warning(
        code=WarningCode.UNKNOWN_GROUP,
        message=f"No group is called '{name}'.{did_you_mean(near)} It has members once it is defined, and whom OpenID "
        "puts into it.",
        kind=kind,
        scope=PLATFORM,
        field=field,
        closest=near,
        name=row,
    )


def _use(noun: str, removed: str, reason: str, version: int | None) -> Use:
    return Use(noun=noun, reason=reason, removed=removed, removed_noun="group", version=version)
