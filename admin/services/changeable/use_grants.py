"""Use grants as revisions change them: they are given and taken, and never changed otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection

from admin.core.changes import ANYTHING, PROJECT, Document, Expectation, RowChange, RowKey, RowWrite
from admin.core.cluster_groups import CLUSTER_GROUP as CLUSTER_GROUP_KIND
from admin.core.narrowing import CLUSTER, CLUSTER_GROUP
from admin.core.problems import invalid, shorten
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM
from admin.core.settings.warnings import Warning, WarningCode
from admin.core.use_grants import GROUP, LABEL, POOL, USE_GRANT, USER, UseGrant, read_use_grant, use_grant_of
from admin.core.use_grants import PROJECT as PROJECT_NOUN
from admin.core.user_groups import GROUP as GROUP_KIND
from admin.errors import UnknownProject
from admin.services.absent_users import find_absent, warn_of_absent
from admin.services.changeable.base import Changeable, read_under, row_change
from admin.services.changeable.user_groups import unknown_group
from admin.services.context import Context
from admin.services.definitions import fleet_after
from admin.services.scopes import known_projects
from admin.services.unknown_members import unknown_name
from admin.store import grants, use_grants, user_groups, users
from admin.store.cluster_groups import CLUSTER_GROUPS

_FIELD = "use_grant_definition"
_UNKNOWN = {
    CLUSTER: WarningCode.UNKNOWN_CLUSTER,
    CLUSTER_GROUP: WarningCode.UNKNOWN_CLUSTER_GROUP,
    POOL: WarningCode.UNKNOWN_POOL,
    LABEL: WarningCode.UNKNOWN_LABEL,
}
#: Rows of which is warned one by one, whatever they name.
_MOST_EXAMINED = 10_000


def use_grant_write(grant: UseGrant, expectation: Expectation = ANYTHING) -> RowWrite:
    """Allow a use."""
    payload = grant.payload
    return RowWrite(
        key=RowKey(USE_GRANT, grant.name, PLATFORM), change=lambda _before: payload, expectation=expectation
    )


def use_grant_removal(name: str, expectation: Expectation = ANYTHING) -> RowWrite:
    """Take the use grant of a name away."""

    def change(_before: Payload | None) -> Payload | None:
        return None

    return RowWrite(key=RowKey(USE_GRANT, name, PLATFORM), change=change, expectation=expectation)


def read_use_grant_definition(definition: object, field: str) -> UseGrant:
    """A use grant from its definition in a request; it may repeat the name that follows from it."""
    if not isinstance(definition, dict):
        raise invalid(field, "is not a mapping.")
    parts = {key: part for key, part in definition.items() if key != "name"}
    grant = use_grant_of(read_under(field, lambda: read_use_grant(parts).payload))
    if definition.get("name", grant.name) != grant.name:
        name = shorten(definition["name"])
        raise invalid(f"{field}.name", f"'{name}' is not '{grant.name}', which follows from the rest: leave it out.")
    return grant


class ChangeableUseGrants(Changeable):
    """Use grants."""

    kinds = (USE_GRANT,)
    permission = "use_grants.write"

    @classmethod
    def read(cls, context: Context, kind: str, document: Document) -> RowWrite:
        definition = document[_FIELD]
        if not document["delete"]:
            return use_grant_write(read_use_grant_definition(definition, _FIELD))
        if isinstance(definition, dict) and definition.keys() == {"name"}:
            return use_grant_removal(_name(definition["name"]))
        return use_grant_removal(read_use_grant_definition(definition, _FIELD).name)

    @classmethod
    def restore(cls, context: Context, change: RowChange) -> RowWrite:
        if change.after is None:
            return use_grant_removal(change.name)
        return use_grant_write(read_use_grant(change.after))

    @classmethod
    def stored_warnings(cls, context: Context, connection: Connection) -> Iterator[Warning]:
        stored = [row.grant for row in use_grants.page(connection, limit=_MOST_EXAMINED)]
        if not stored:
            return
        if not context.settings.is_cluster_use_closed:
            yield _use_is_open(stored[0])
        names = _names(context, connection, ())
        to_users = {grant.grantee.name for grant in stored if grant.grantee.noun == USER}
        absent = find_absent(context, connection, to_users)
        known = users.names(connection) if absent and context.access.allows("users.read") else []
        for grant in stored:
            yield from _unknown(grant, names)
            if grant.grantee.noun == USER and grant.grantee.name in absent:
                yield warn_of_absent(USE_GRANT, grant.name, grant.grantee.name, known)

    def load(self, writes: Sequence[RowWrite]) -> None:
        self._before = use_grants.some(self.connection, [write.key.name for write in writes])
        self._known_projects: list[str] | None = None  # loaded for the first project that this change does not make

    def change(self, write: RowWrite) -> RowChange:
        stored = self._before.get(write.key.name)
        change = row_change(write, stored.grant.payload if stored else None, stored.version if stored else None)
        if change.after is not None and PROJECT_NOUN in change.after:
            self._check_project(change.after[PROJECT_NOUN])
        return change

    def _check_project(self, project_id: str) -> None:
        made = (change for change in self.draft.changes if change.kind == PROJECT and change.after is not None)
        if project_id in {change.scope.project for change in made}:
            return
        if self._known_projects is None:
            self._known_projects = known_projects(self.connection, self.draft.options.access)
        if project_id not in self._known_projects:
            raise UnknownProject.called(project_id, self._known_projects)

    def check(self, rows: Sequence[tuple[RowWrite, RowChange]]) -> Iterator[Warning]:
        given = [use_grant_of(change.after) for _write, change in rows if change.after is not None]
        if given and not self.context.settings.is_cluster_use_closed:
            yield _use_is_open(given[0])
        names = _names(self.context, self.connection, self.draft.changes) if given else {}
        for grant in given:
            yield from _unknown(grant, names)

    def store(self, changes: Sequence[RowChange], revision: int, now: datetime) -> None:
        if changes:
            use_grants.write(self.connection, changes, revision)
            grants.bump(self.connection)


def _names(context: Context, connection: Connection, changes: Sequence[RowChange]) -> Mapping[str, Collection[str]]:
    """The names that use grants may have without a warning, as changes leave them."""
    fleet = fleet_after(context, connection, changes)

    def named(kind: str, stored: Collection[str]) -> set[str]:
        of_kind = [change for change in changes if change.kind == kind and not change.is_attribute]
        return {*stored, *(change.name for change in of_kind)} - {
            change.name for change in of_kind if change.after is None
        }

    return {
        CLUSTER: fleet.cluster_names(),
        POOL: fleet.pools.keys(),
        LABEL: fleet.label_names(),
        CLUSTER_GROUP: named(CLUSTER_GROUP_KIND, CLUSTER_GROUPS.names(connection)),
        GROUP: named(GROUP_KIND, user_groups.names(connection)),
    }


def _unknown(grant: UseGrant, names: Mapping[str, Collection[str]]) -> Iterator[Warning]:
    """Warnings of what a use grant names and nobody has defined; a user may be one of OpenID."""
    noun, name = grant.target
    if name not in names[noun]:
        yield unknown_name(_UNKNOWN[noun], USE_GRANT, grant.name, noun, name, names[noun])
    if grant.grantee.noun == GROUP and grant.grantee.name not in names[GROUP]:
        yield unknown_group(USE_GRANT, grant.name, GROUP, grant.grantee.name, names[GROUP])


def _use_is_open(grant: UseGrant) -> Warning:
    return Warning(
        code=WarningCode.USE_IS_OPEN,
        message="Everybody may use every cluster: use grants have no effect before the configuration says "
        "`placement: {clusterUse: closed}`.",
        kind=USE_GRANT,
        scope=PLATFORM,
        field="",
        name=grant.name,
    )


def _name(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise invalid(f"{_FIELD}.name", "is not the name of a use grant.")
    if "\0" in value:  # no database can even be asked for it
        raise invalid(f"{_FIELD}.name", "holds a character that no name has.")
    return value
