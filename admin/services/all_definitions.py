"""All definitions: what exists under a name, of every noun, with who defined it last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import Connection, Table

from admin.core.all_definitions import CONFIGURATION, MANAGED, NOUNS, REGISTERED, SETTING, Defined
from admin.core.changes import LastChange
from admin.core.fleet.definitions import Definition, Source
from admin.core.permissions import PERMISSIONS, ROLES, Place
from admin.core.provenance import Provenance, pruned_provenance
from admin.core.row_conditions import RowCondition
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


class _Read(NamedTuple):
    """Definitions of a noun by name, and the name after which the next ones come; None for the last."""

    definitions: Sequence[Defined]
    examined: int  #: among how many they were found
    last: str | None


#: Reads definitions of a noun from after a name on, and looks at no more than so many.
_Reader = Callable[[str, int], _Read]

#: Reads definitions of a noun by name from after one on, and at most so many.
_ReadAll = Callable[[str, int], Iterable[Defined]]


def _paged(read: _ReadAll) -> _Reader:
    """The same with where to go on."""

    def read_page(after: str, most: int) -> _Read:
        definitions = list(read(after, most))
        last = definitions[-1].name if len(definitions) == most else None
        return _Read(definitions, len(definitions), last)

    return read_page


#: Definitions that are looked at together where some are selected: few, or many where the last ones had none.
_FEW_AT_ONCE, _EXAMINED_AT_ONCE = 1000, 10_000
#: How many are looked at for one page, and how many of them are read whole.
_MOST_EXAMINED, _MOST_READ = 50_000, 3000


def list_all_definitions(
    context: Context,
    nouns: Sequence[str],
    scope: Scope,
    after: tuple[str, str] | None,
    limit: int,
    conditions: Sequence[RowCondition] = (),
) -> DefinedPage:
    """What is defined that the caller may see: of some nouns, and of a project or domain where one is given.

    Where `conditions` select few of many, a page may have less than it could, even nothing, and be followed by another.
    """
    context.access.check_known(scope)
    first, name = after or (NOUNS[0], "")
    of_noun = [condition for condition in conditions if condition.field == "noun"]
    chosen = [
        noun
        for noun in NOUNS[NOUNS.index(first) :]
        if noun in nouns and (not any(scope) or noun in _SCOPED) and Defined(noun=noun, name="").has(of_noun)
    ]
    with context.database.reading() as connection:
        check_readable(context, connection, scope)
        readers = _Readers(context, connection, scope, conditions)
        definitions, next_key = _read_page(readers, chosen, (first, name), limit)
    return DefinedPage(definitions=definitions, next_key=next_key, is_partial=_is_partial(context, nouns, scope))


def _read_page(
    readers: _Readers, nouns: Sequence[str], after: tuple[str, str], limit: int
) -> tuple[Sequence[Defined], tuple[str, str] | None]:
    """The definitions of a page, and the key of the last one that the next page comes after."""
    page: list[Defined] = []
    examined = whole = 0
    most = _FEW_AT_ONCE if readers.conditions else limit + 1
    for noun, read in readers.by_noun(nouns).items():
        last: str | None = after[1] if noun == after[0] else ""
        while last is not None:
            if last and (examined >= _MOST_EXAMINED or (readers.conditions and whole >= _MOST_READ)):
                return page, (noun, last)
            found, number, last = read(last, most)
            examined, whole = examined + number, whole + len(found)
            if readers.conditions:
                most = _FEW_AT_ONCE if found else _EXAMINED_AT_ONCE
            page += readers.selected(found)
            if len(page) > limit:
                return page[:limit], (page[limit - 1].noun, page[limit - 1].name)
    return page, None


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

    def __init__(
        self, context: Context, connection: Connection, scope: Scope, conditions: Sequence[RowCondition]
    ) -> None:
        self.conditions = conditions
        self._context = context
        self._connection = connection
        self._scope = scope

    def selected(self, found: Sequence[Defined]) -> list[Defined]:
        """Those that are asked for, with the revisions that made them as they are."""
        made_by = revisions.provenance_of(self._connection, {row.revision for row in found if row.revision})
        made_by = told_provenance(self._context.access, self._connection, made_by)
        rows = (replace(row, provenance=made_by.get(row.revision or 0, row.provenance)) for row in found)
        return [row for row in rows if row.has(self.conditions)]

    def by_noun(self, nouns: Sequence[str]) -> dict[str, _Reader]:
        """By noun; those are left out of which the caller may see nothing."""
        settings = self._context.settings
        domains = [name for name in settings.domain_ids() if self._scope.domain in ("", name)]
        built_in = {kind.name for kind in BUILTIN_KINDS}
        readers: dict[str, _ReadAll] = {
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
        }
        paged = {noun: _paged(read) for noun, read in readers.items()} | {SETTING: self._settings}
        return {noun: paged[noun] for noun in nouns if self._sees_some(noun)}

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

    def _fleet(self, noun: str) -> _ReadAll:
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

    def _payloads(self, noun: str, page: Callable[..., Sequence[StoredPayload]]) -> _ReadAll:
        def read(after: str, limit: int) -> Iterable[Defined]:
            rows = page(self._connection, after=after or None, limit=limit)
            return [Defined(noun=noun, name=row.name, revision=row.version) for row in rows]

        return read

    def _registered(self, noun: str, table: Table) -> _ReadAll:
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

    def _settings(self, after: str, most: int) -> _Read:
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
        page = attributes.examine_changes(self._connection, filters, self.conditions, key, most=most)
        definitions = []
        for row in page.rows:
            made_by = pruned_provenance(row.version, LastChange(row.updated_at, row.updated_by, row.claimed_by))
            name = _name_of(kinds[row.kind], row.scope)
            definitions.append(Defined(noun=SETTING, name=name, revision=row.version, provenance=made_by))
        last = None
        if page.last is not None:
            kind, project, domain, workflow, launch_plan = page.last
            last = _name_of(kinds[kind], Scope(domain, project, workflow, launch_plan))
        return _Read(definitions, page.examined, last)


def _name_of(noun: str, scope: Scope) -> str:
    return "/".join((noun, *_names_of(scope)))


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


def _configured(noun: str, names: Iterable[str]) -> _ReadAll:
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
