"""All definitions: what exists under a name, of every noun, with who defined it last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Table

from admin.core.all_definitions import CONFIGURATION, MANAGED, NOUNS, REGISTERED, SETTING, Defined
from admin.core.changes import LastChange
from admin.core.fleet.definitions import Definition, Source
from admin.core.permissions import PERMISSIONS, ROLES, Place
from admin.core.provenance import Provenance, pruned_provenance
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.scopes import SCOPE_KEYS, Level, Scope
from admin.core.use_grants import PROJECT, Named
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.scopes import check_readable
from admin.services.visibility import told_provenance
from admin.store import attributes, grants, projects, registration_history, revisions, use_grants, user_groups, users
from admin.store.attributes import Filter, key_at
from admin.store.cluster_groups import CLUSTER_GROUPS
from admin.store.grants import GrantFilter, StoredGrant
from admin.store.named_payloads import StoredPayload
from admin.store.registration_history import RegistrationFilter
from admin.store.registration_tables import launch_plans, workflows
from admin.store.token_tables import TOKEN_POOLS
from admin.store.use_grants import StoredUseGrant, UseGrantFilter

#: The nouns whose definitions belong to projects or domains, so that those of one can be asked for.
_SCOPED = ("project", "domain", "workflow", "launch-plan", "grant", "use-grant", SETTING)


@dataclass(frozen=True, kw_only=True)
class DefinedPage:
    """A page of definitions, and the noun and name after which the next page starts, if there is one."""

    definitions: Sequence[Defined]
    next_key: tuple[str, str] | None
    is_partial: bool  #: whether there may be more that the caller may not see


#: Reads definitions of a noun by name, from after a name on, and at most so many.
_Read = Callable[[str, int], Iterable[Defined]]


def list_all_definitions(
    context: Context, nouns: Sequence[str], scope: Scope, after: tuple[str, str] | None, limit: int
) -> DefinedPage:
    """What is defined that the caller may see: of some nouns, and of a project or domain where one is given."""
    context.access.check_known(scope)
    first, name = after or (NOUNS[0], "")
    chosen = [noun for noun in NOUNS[NOUNS.index(first) :] if noun in nouns and (not any(scope) or noun in _SCOPED)]
    page: list[Defined] = []
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        readers = _Readers(context, connection, scope).by_noun()
        for noun in chosen:
            if len(page) <= limit and noun in readers:
                page += readers[noun](name if noun == first else "", limit + 1 - len(page))
        made_by = revisions.provenance_of(connection, {row.revision for row in page[:limit] if row.revision})
        made_by = told_provenance(context.access, connection, made_by)
    definitions = [replace(row, provenance=made_by.get(row.revision or 0, row.provenance)) for row in page[:limit]]
    last = definitions[-1] if len(page) > limit else None
    return DefinedPage(
        definitions=definitions,
        next_key=None if last is None else (last.noun, last.name),
        is_partial=_is_partial(context, nouns, scope),
    )


#: What one needs to see all definitions of a noun; what it does not name is known to everybody.
_READING: Mapping[str, str] = {
    "project": "projects.read",
    **dict.fromkeys(("cluster", "pool", "label", "cluster-group"), "fleet.read"),
    "token-pool": "token_pools.read",
    **dict.fromkeys(("workflow", "launch-plan"), "workflows.read"),
    "user": "users.read",
    "group": "groups.read",
    "grant": "grants.read",
    "use-grant": "use_grants.read",
    SETTING: "attributes.read",
}


def _is_partial(context: Context, nouns: Sequence[str], scope: Scope) -> bool:
    """Whether the caller lacks a permission to see all of what was asked for."""
    asked = (noun for noun in nouns if not any(scope) or noun in _SCOPED)
    return not all(context.access.allows(_READING[noun], scope) for noun in asked if noun in _READING)


class _Readers:
    """What reads each noun, as far as the caller may see it."""

    def __init__(self, context: Context, connection: Connection, scope: Scope) -> None:
        self._context = context
        self._connection = connection
        self._scope = scope

    def by_noun(self) -> dict[str, _Read]:
        """By noun; those are left out of which the caller may see nothing."""
        settings = self._context.settings
        domains = [name for name in settings.domain_ids() if self._scope.domain in ("", name)]
        built_in = {kind.name for kind in BUILTIN_KINDS}
        readers: dict[str, _Read] = {
            "project": self._projects,
            "domain": _configured("domain", domains if not self._scope.project else ()),
            "cluster": self._fleet("cluster"),
            "pool": self._fleet("pool"),
            "label": self._fleet("label"),
            "cluster-group": self._payloads("cluster-group", CLUSTER_GROUPS.page),
            "token-pool": self._payloads("token-pool", TOKEN_POOLS.page),
            "queue": _configured("queue", (queue.name for queue in settings.rules.queues)),
            "workflow": self._registered("workflow", workflows),
            "launch-plan": self._registered("launch-plan", launch_plans),
            "kind": _configured("kind", (kind.noun for kind in settings.kinds if kind.name not in built_in)),
            "role": _configured("role", settings.roles.keys() - ROLES.keys()),
            "user": self._users,
            "group": self._payloads("group", user_groups.page),
            "grant": self._grants,
            "use-grant": self._use_grants,
            SETTING: self._settings,
        }
        return {noun: read for noun, read in readers.items() if self._sees_some(noun)}

    def _sees_some(self, noun: str) -> bool:
        permission, access = _READING.get(noun), self._context.access
        if permission is None or access.allows(permission):
            return True
        return PERMISSIONS[permission].place is Place.SCOPE and access.allows_some(permission)

    def _projects(self, after: str, limit: int) -> Iterable[Defined]:
        among = self._context.access.projects
        if self._scope.project:
            among = frozenset({self._scope.project})
        elif self._scope.domain:
            return
        for project in projects.page(self._connection, state=None, after=after or None, limit=limit, among=among):
            source = MANAGED if project.version else CONFIGURATION
            yield Defined(noun="project", name=project.id, source=source, revision=project.version or None)

    def _fleet(self, noun: str) -> _Read:
        def read(after: str, limit: int) -> Iterable[Defined]:
            fleet = current_fleet(self._context, self._connection)
            definitions = {
                "cluster": [cluster.definition for cluster in fleet.clusters.values()],
                "pool": [pool.definition for pool in fleet.pools.values()],
                "label": [label.definition for label in fleet.labels.values()],
            }[noun]
            # A cluster that only pools or labels name is not defined.
            defined = {row.name: row for row in definitions if row.source is not Source.NAMED and row.name > after}
            return [_of_fleet(noun, defined[name]) for name in sorted(defined)[:limit]]

        return read

    def _payloads(self, noun: str, page: Callable[..., Sequence[StoredPayload]]) -> _Read:
        def read(after: str, limit: int) -> Iterable[Defined]:
            rows = page(self._connection, after=after or None, limit=limit)
            return [Defined(noun=noun, name=row.name, revision=row.version) for row in rows]

        return read

    def _registered(self, noun: str, table: Table) -> _Read:
        def read(after: str, limit: int) -> Iterable[Defined]:
            filters = RegistrationFilter(
                project=self._scope.project or None,
                domain=self._scope.domain or None,
                within=self._context.access.scopes("workflows.read"),
            )
            last = tuple(after.split("/")) if after else None
            for row in registration_history.newest_versions(self._connection, table, filters, last, limit):
                name = "/".join((row.id.project, row.id.domain, row.id.name))
                made_by = Provenance(author=row.author, claimed_by=row.claimed_by, at=row.at, message=row.message)
                yield Defined(noun=noun, name=name, source=REGISTERED, version=row.id.version, provenance=made_by)

        return read

    def _users(self, after: str, limit: int) -> Iterable[Defined]:
        page = users.page(self._connection, after=after or None, limit=limit)
        return [Defined(noun="user", name=user.name, revision=user.version) for user in page]

    def _grants(self, after: str, limit: int) -> Iterable[Defined]:
        below = self._scope if any(self._scope) else None
        conditions = GrantFilter(within=self._context.access.scopes("grants.read"), below=below)
        return _versioned("grant", grants.page(self._connection, conditions, after=after or None, limit=limit))

    def _use_grants(self, after: str, limit: int) -> Iterable[Defined]:
        if self._scope.domain:  # a use grant is for a project in all its domains
            return []
        grantee = Named(PROJECT, self._scope.project) if self._scope.project else None
        conditions = UseGrantFilter(grantee=grantee)
        return _versioned("use-grant", use_grants.page(self._connection, conditions, after=after or None, limit=limit))

    def _settings(self, after: str, limit: int) -> Iterable[Defined]:
        kinds = {kind.name: kind.noun for kind in self._context.settings.kinds}
        filters = Filter(
            kinds=tuple(kinds),
            project=self._scope.project or None,
            domain=self._scope.domain or None,
            within=self._context.access.scopes("attributes.read"),
        )
        key = None
        if after:
            noun, *names = after.split("/")
            key = key_at(self._context.settings.kinds.find(noun).name, _scope_of(names))
        for row in attributes.page(self._connection, filters, key, limit):
            name = "/".join((kinds[row.kind], *_names_of(row.scope)))
            change = LastChange(row.updated_at, row.updated_by, row.claimed_by)
            made_by = pruned_provenance(row.version, change)
            yield Defined(noun=SETTING, name=name, revision=row.version, provenance=made_by)


def _names_of(scope: Scope) -> list[str]:
    """The keys of a scope as a path; in place of the project of a domain stands `-`."""
    names = [scope.keys()[key] for key in scope.level.keys]
    return ["-", *names] if scope.level is Level.DOMAIN else names


def _scope_of(names: Sequence[str]) -> Scope:
    """The scope of such a path."""
    project, domain, workflow, launch_plan = (*names, "", "", "")[: len(SCOPE_KEYS)]
    return Scope(domain, "" if project == "-" else project, workflow, launch_plan)


def _versioned(noun: str, rows: Iterable[StoredGrant | StoredUseGrant]) -> list[Defined]:
    return [Defined(noun=noun, name=row.name, revision=row.version) for row in rows]


def _configured(noun: str, names: Iterable[str]) -> _Read:
    """What reads names of the configuration."""
    known = sorted(names)

    def read(after: str, limit: int) -> Iterable[Defined]:
        following = [name for name in known if name > after][:limit]
        return [Defined(noun=noun, name=name, source=CONFIGURATION) for name in following]

    return read


def _of_fleet(noun: str, definition: Definition) -> Defined:
    number, change = definition.version, definition.last_change
    return Defined(
        noun=noun,
        name=definition.name,
        source=CONFIGURATION if number is None else MANAGED,
        revision=number,
        # What the row keeps, for as long as the revision is kept no longer.
        provenance=pruned_provenance(number, change) if number is not None and change is not None else None,
    )
