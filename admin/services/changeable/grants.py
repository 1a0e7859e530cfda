"""Grants as revisions change them: they are given and taken, and never changed otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import ANYTHING, PROJECT, Document, Expectation, RowChange, RowKey, RowWrite
from admin.core.grants import GRANT, Grant, grant_of, read_grant
from admin.core.grants import GROUP as GROUP_NOUN
from admin.core.grants import USER as USER_NOUN
from admin.core.problems import invalid, shorten
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning
from admin.core.user_groups import GROUP
from admin.core.users import USER
from admin.errors import UnknownProject
from admin.services.absent_users import are_users_stored, find_absent, is_of_user, warn_of_absent
from admin.services.access import Access
from admin.services.changeable.base import Changeable, read_under, row_change
from admin.services.changeable.user_groups import unknown_group
from admin.services.context import Context
from admin.services.scopes import check_domain, known_projects
from admin.store import grants, user_groups, users

_FIELD = "grant_definition"
_READING = "grants.read"


def grant_write(grant: Grant, expectation: Expectation = ANYTHING) -> RowWrite:
    """Give a grant."""
    payload = grant.payload
    return RowWrite(key=RowKey(GRANT, grant.name, PLATFORM), change=lambda _before: payload, expectation=expectation)


def revocation(name: str, expectation: Expectation = ANYTHING) -> RowWrite:
    """Take the grant of a name away."""

    def change(_before: Payload | None) -> Payload | None:
        return None

    return RowWrite(key=RowKey(GRANT, name, PLATFORM), change=change, expectation=expectation)


def read_definition(context: Context, definition: object, field: str) -> Grant:
    """A grant from its definition in a request; it may repeat the name that follows from it."""
    if not isinstance(definition, dict):
        raise invalid(field, "is not a mapping.")
    parts = {key: part for key, part in definition.items() if key != "name"}
    grant = grant_of(read_under(field, lambda: read_grant(parts, context.settings.roles).payload))
    if definition.get("name", grant.name) != grant.name:
        name = shorten(definition["name"])
        raise invalid(f"{field}.name", f"'{name}' is not '{grant.name}', which follows from the rest: leave it out.")
    return grant


class ChangeableGrants(Changeable):
    """Grants."""

    kinds = (GRANT,)
    permission = "grants.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        definition = document[_FIELD]
        if not document["delete"]:
            return grant_write(read_definition(context, definition, _FIELD))
        if isinstance(definition, dict) and definition.keys() == {"name"}:
            return revocation(_name(definition["name"]))
        return revocation(read_definition(context, definition, _FIELD).name)

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        if change.after is None:
            return revocation(change.name)
        return grant_write(read_grant(change.after, context.settings.roles))

    @classmethod
    def stored_warnings(cls, context: Context, connection: Connection) -> Iterator[Warning]:
        unknown = grants.to_unknown_groups(connection)
        names = user_groups.names(connection) if unknown else []
        yield from (unknown_group(GRANT, grant.name, "group", grant.grantee.name, names) for grant in unknown)
        if are_users_stored(context, connection):
            absent = [grant for grant in grants.to_unknown_users(connection) if is_of_user(grant.grantee.name)]
            known = users.names(connection) if absent and context.access.allows("users.read") else []
            yield from (warn_of_absent(GRANT, grant.name, grant.grantee.name, known) for grant in absent)

    def load(self, writes: Sequence[RowWrite]) -> None:
        access = self.draft.options.access
        self._before = grants.some(self.connection, [write.key.name for write in writes])
        # To take away what one may not see is to take away what does not exist.
        self._unseen = {name for name, row in self._before.items() if not access.allows(_READING, row.grant.scope)}
        self._known_projects: list[str] | None = None  # loaded for the first project that this change does not make

    def change(self, write: RowWrite) -> RowChange:
        stored = self._before.get(write.key.name)
        if write.key.name in self._unseen and write.change(None) is None:
            stored = None
        change = row_change(write, stored.grant.payload if stored else None, stored.version if stored else None)
        if change.after is not None:
            scope = grant_of(change.after).scope
            self.draft.options.access.check_known(scope)
            if scope.domain:
                check_domain(self.context, scope.domain)
            if scope.project:
                self._check_project(scope.project)
        return change

    def _check_project(self, project_id: str) -> None:
        projects_made = (change for change in self.draft.changes if change.kind == PROJECT and change.after is not None)
        made = {change.scope.project for change in projects_made}
        if project_id in made:
            return
        if self._known_projects is None:
            self._known_projects = known_projects(self.connection, self.draft.options.access)
        if project_id not in self._known_projects:
            raise UnknownProject.called(project_id, self._known_projects)

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterator[Warning]:
        given = [grant_of(change.after) for _write, change in rows if change.after is not None]
        yield from self._check_users(given)
        to_groups = [grant for grant in given if grant.grantee.noun == GROUP_NOUN]
        # Who may not read groups learns nothing from their names.
        if not to_groups or not self.draft.options.access.allows("groups.read"):
            return
        written = {change.name for change in self.draft.changes if change.kind == GROUP and change.after is not None}
        names = {*user_groups.names(self.connection), *written}
        for grant in to_groups:
            if grant.grantee.name not in names:
                yield unknown_group(GRANT, grant.name, "group", grant.grantee.name, names)

    def _check_users(self, given: Sequence[Grant]) -> Iterator[Warning]:
        """Warn of users that do not exist, whoever may read users."""
        names = {grant.grantee.name for grant in given if grant.grantee.noun == USER_NOUN}
        if not names or not self.draft.options.access.allows("users.read"):
            return
        written = {change.name: change.after is not None for change in self.draft.changes if change.kind == USER}
        absent = find_absent(self.context, self.connection, names) - {name for name in written if written[name]}
        known = users.names(self.connection) if absent else []
        for grant in given:
            if grant.grantee.noun == USER_NOUN and grant.grantee.name in absent:
                yield warn_of_absent(GRANT, grant.name, grant.grantee.name, known)

    def check_known(self, access: Access, key: RowKey) -> None:
        """Whoever may see some grants may name any; those that they may not see do not exist for them."""
        if not access.allows_some(_READING):
            access.check_some(self.permission)

    def check_access(self, access: Access, change: RowChange) -> None:
        payload = change.before if change.after is None else change.after
        assert payload is not None
        grant = grant_of(payload)
        if change.after is None:
            access.check(self.permission, grant.scope)
        else:
            access.check_giving(grant)

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        if changes:
            grants.write(self.connection, changes, revision)
            grants.bump(self.connection)
            self.context.known_grants.forget()


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(f"{_FIELD}.name", "is not the name of a grant.")
    if "\0" in value:  # no database can even be asked for it
        raise invalid(f"{_FIELD}.name", "holds a character that no name has.")
    return value
