"""Changes: many rows as one revision, all or nothing; and what they would do, without doing it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from admin.core.fleet.definitions import Definition, FleetKind
from admin.core.fleet_documents import read_definition
from admin.core.problems import Invalid, Problem
from admin.core.projects import Project, as_payload, project_after
from admin.core.settings.effects import Effect, effects
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.settings.warnings import Surroundings, Warning, fleet_warnings, warnings_of
from admin.core.settings.writes import UNSTORED, Expectation, judge
from admin.errors import MOST_DETAILS, InUse, InvalidRequest, VersionConflict
from admin.services.context import Context
from admin.services.definitions import check_managed, fleet_after, kind_that_names, names_known, users_of
from admin.services.scopes import check_active, check_domain, unknown_project
from admin.store import attributes, executions, fleet, projects, registrations, revisions, tokens
from admin.store.attributes import StoredAttribute
from admin.store.revisions import PROJECT, Authorship, RowChange, RowKey


@dataclass(frozen=True, kw_only=True)
class RowWrite:
    """What one row of attributes is to become."""

    kind: Kind
    scope: Scope
    change: Callable[[Payload | None], Payload | None]  #: from the payload as it is; None for no row
    expectation: Expectation = field(default_factory=Expectation)
    index: int | None = None  #: its position among many

    @property
    def key(self) -> RowKey:
        return self.kind.name, "", self.scope


@dataclass(frozen=True, kw_only=True)
class ProjectWrite:
    """What one project is to become."""

    id: str
    given: Mapping[str, Any] | None  #: the fields to set; None to take the project away
    expectation: Expectation = field(default_factory=Expectation)
    index: int | None = None

    @property
    def key(self) -> RowKey:
        return PROJECT, "", Scope(project=self.id)


@dataclass(frozen=True, kw_only=True)
class DefinitionWrite:
    """What one cluster, pool or label is to become."""

    kind: FleetKind
    name: str
    payload: Payload | None  #: None to take it away
    expectation: Expectation = field(default_factory=Expectation)
    index: int | None = None

    @property
    def key(self) -> RowKey:
        return self.kind.value, self.name, PLATFORM


Write = RowWrite | ProjectWrite | DefinitionWrite


@dataclass(frozen=True, kw_only=True)
class ChangeSet:
    """Everything that one change is to do."""

    rows: tuple[RowWrite, ...] = ()
    projects: tuple[ProjectWrite, ...] = ()
    definitions: tuple[DefinitionWrite, ...] = ()

    def writes(self) -> Iterator[Write]:
        """Projects and definitions first: an attribute of the same change may belong to one, or name one."""
        yield from self.projects
        yield from self.definitions
        yield from self.rows


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """How a change is to be made."""

    who: Authorship = field(default_factory=Authorship)
    dry_run: bool = False
    with_effects: bool = False
    force: bool = False  #: take definitions away that are in use
    only_active: bool = False  #: refuse archived projects even where nothing would change
    restores: bool = False  #: brings back what was stored before, so that what was allowed then is allowed again
    expected_head: int | None = None  #: refuse if another revision has been made since this one
    archived_too: bool = False  #: brings back a whole state, in which a project was archived after its last write


@dataclass(frozen=True, kw_only=True)
class ChangedRow:
    """One row, before and after; the version is that of the row as it is now stored."""

    change: RowChange
    index: int | None
    version: int | None


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a change did, or would do."""

    rows: tuple[ChangedRow, ...]
    warnings: tuple[Warning, ...]
    revision: int  #: the one it made, or the last one where it made none
    dry_run: bool
    effects: tuple[Effect, ...] = ()

    @property
    def is_change(self) -> bool:
        return any(row.change.is_real for row in self.rows)


@dataclass(kw_only=True)
class _Draft:
    """A change in the making: the state around it, and what is known of it so far."""

    projects_before: dict[str, Project]
    projects_after: dict[str, Project]
    rows_before: dict[tuple[str, Scope], StoredAttribute]
    definitions_before: dict[tuple[FleetKind, str], Definition]
    done: list[tuple[Write, RowChange]] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    known_projects: list[str] | None = None  #: every project's id, read when the first unknown one turns up


def make_change(
    context: Context, wanted: ChangeSet | Callable[[Connection], ChangeSet], options: ChangeOptions
) -> Changed:
    """Make a change as one revision, or find out what it would do; nothing is written unless all of it can be.

    What depends on the state is given as a function, which sees the very state that is changed.
    """
    with _transaction(context, dry_run=options.dry_run) as connection:
        _check_head(connection, options.expected_head)
        changes = wanted if isinstance(wanted, ChangeSet) else wanted(connection)
        _check_unique(changes)
        draft = _drafted(context, connection, changes, options)
        real = [change for _, change in draft.done if change.is_real]
        revision = revisions.head(connection)
        if real and not options.dry_run:
            revision = _store(context, connection, real, draft, options.who)
        found = tuple(_effects(context, connection, real, draft)) if options.with_effects else ()
    if real and not options.dry_run:
        context.index.announce(revision)
    rows = tuple(_changed_row(write, change, revision, options.dry_run) for write, change in draft.done)
    return Changed(rows=rows, warnings=tuple(draft.warnings), revision=revision, dry_run=options.dry_run, effects=found)


def _changed_row(write: Write, change: RowChange, revision: int, dry_run: bool) -> ChangedRow:
    if not change.is_real or dry_run:
        return ChangedRow(change=change, index=write.index, version=change.before_version)
    return ChangedRow(change=change, index=write.index, version=None if change.after is None else revision)


@contextmanager
def _transaction(context: Context, *, dry_run: bool) -> Iterator[Connection]:
    """A dry run goes the same way as a write, on a picture of the database that it cannot change."""
    if dry_run:
        with context.database.reading() as connection:
            yield connection
    else:
        with context.database.writing() as connection:
            revisions.lock_head(connection)
            yield connection


def _check_head(connection: Connection, expected: int | None) -> None:
    head = revisions.head(connection)
    if expected is not None and expected != head:
        raise VersionConflict(
            f"This was planned at revision {expected}, and revision {head} has been made since. Look, and plan again."
        )


def _check_unique(changes: ChangeSet) -> None:
    seen: dict[RowKey, int | None] = {}
    problems = []
    for write in changes.writes():
        if write.key in seen:
            where = f"also at position {seen[write.key]}"
            reason = f"{_named(write.key)} stands twice in the change, {where}; give it once."
            problems.append(Problem(field="", reason=reason, index=write.index))
        seen[write.key] = write.index
    if problems:
        raise Invalid(*problems)


def _named(key: RowKey) -> str:
    kind, name, scope = key
    return f"{kind} '{name}'" if name else f"{kind} at {scope}"


def _drafted(context: Context, connection: Connection, changes: ChangeSet, options: ChangeOptions) -> _Draft:
    mentioned = {write.id for write in changes.projects} | {write.scope.project for write in changes.rows} - {""}
    before = projects.some(connection, mentioned)
    draft = _Draft(
        projects_before=before,
        projects_after=dict(before),
        rows_before=attributes.exactly(connection, [(write.kind.name, write.scope) for write in changes.rows]),
        definitions_before=fleet.some(connection, [(write.kind, write.name) for write in changes.definitions]),
    )
    for project_write in changes.projects:
        _draft_project(context, draft, project_write)
    for definition_write in changes.definitions:
        with _noting(draft, definition_write, options):
            _draft_definition(context, draft, definition_write)
    for row_write in changes.rows:
        with _noting(draft, row_write, options):
            _draft_row(context, connection, draft, row_write, options)
    _judge(context, connection, draft, options)
    _check_removals(connection, draft)
    if draft.problems:
        raise Invalid(*draft.problems)
    if draft.conflicts:
        raise _conflict(draft)
    if not options.force:
        _check_in_use(context, connection, draft)
    return draft


@contextmanager
def _noting(draft: _Draft, write: Write, options: ChangeOptions) -> Iterator[None]:
    """Note what is wrong with one write of many and go on; a write that stands alone fails with its own error."""
    try:
        yield
    except Invalid as invalid:
        if options.restores:  # nobody gave it a position, so it is named
            named = [replace(one, reason=f"{_named(write.key)}: {one.reason}") for one in invalid.problems]
            draft.problems += named
        else:
            draft.problems += [replace(problem, index=write.index) for problem in invalid.problems]
    except InvalidRequest as error:
        if write.index is None:
            raise
        for detail in error.details:
            near = tuple(detail.get("closest", ()))
            problem = Problem(field=detail["field"], reason=detail["reason"], closest=near, index=write.index)
            draft.problems.append(problem)


def _draft_project(context: Context, draft: _Draft, write: ProjectWrite) -> None:
    before = draft.projects_before.get(write.id)
    after = None if write.given is None else project_after(before, write.id, write.given, context.clock())
    if after is None:
        draft.projects_after.pop(write.id, None)
    else:
        draft.projects_after[write.id] = after
    change = RowChange(
        kind=PROJECT,
        scope=Scope(project=write.id),
        before=as_payload(before) if before else None,
        after=as_payload(after) if after else None,
        before_version=before.version if before else None,
    )
    _expect(draft, write, change)


def _draft_definition(context: Context, draft: _Draft, write: DefinitionWrite) -> None:
    before = draft.definitions_before.get((write.kind, write.name))
    if before is None or write.payload is not None:
        check_managed(context, write.kind, write.name)
    after = None if write.payload is None else read_definition(write.kind, write.name, write.payload)
    change = RowChange(
        kind=write.kind.value,
        name=write.name,
        scope=PLATFORM,
        before=before.payload if before else None,
        after=after,
        before_version=before.version if before else None,
    )
    _expect(draft, write, change)


def _draft_row(
    context: Context, connection: Connection, draft: _Draft, write: RowWrite, options: ChangeOptions
) -> None:
    scope = write.scope
    write.kind.check_level(scope.level)
    if scope.domain:
        check_domain(context, scope.domain)
    row = draft.rows_before.get((write.kind.name, scope))
    before = row.payload if row else None
    change = RowChange(
        kind=write.kind.name,
        scope=scope,
        before=before,
        after=write.change(before),
        before_version=row.version if row else None,
    )
    if scope.project:
        is_written = (options.only_active or change.is_real) and not options.archived_too
        _check_project(connection, draft, change, is_written=is_written)
    _expect(draft, write, change)


def _check_project(connection: Connection, draft: _Draft, change: RowChange, *, is_written: bool) -> None:
    project_id = change.scope.project
    after, before = draft.projects_after.get(project_id), draft.projects_before.get(project_id)
    goes_with_it = before is not None and change.after is None
    if after is None and not goes_with_it:
        if draft.known_projects is None:
            draft.known_projects = projects.ids(connection)
        # To look for the closest of many takes long, and only the first problems are shown.
        known = draft.known_projects if len(draft.problems) < MOST_DETAILS else []
        raise unknown_project(project_id, known)
    if is_written and before is not None and after is not None and before.state is after.state:
        check_active(after)  # archiving a project and writing its last rows may be one change


def _check_removals(connection: Connection, draft: _Draft) -> None:
    """A project goes only together with everything that is stored below it."""
    going = {(change.kind, change.scope) for _, change in draft.done if change.after is None and not change.name}
    for kind, scope in sorted(going, key=str):
        if kind != PROJECT:
            continue
        stays = ""
        if any(key not in going for key in attributes.keys_below(connection, scope.project)):
            stays = "attributes that would stay"
        elif executions.has_project(connection, scope.project) or registrations.has_project(connection, scope.project):
            stays = "executions or workflows"
        if stays:
            reason = f"project '{scope.project}' has {stays}, so it cannot be taken away."
            remedy = "Delete them first." if stays.startswith("attributes") else "Archive it instead."
            draft.problems.append(Problem(field="project", reason=f"{reason} {remedy}"))


def _check_in_use(context: Context, connection: Connection, draft: _Draft) -> None:
    """What is in use goes only by force; what this very change stops to use it does not count."""
    changes = [change for _, change in draft.done]
    going = [one for change in changes if change.name and change.after is None and (one := _gone(draft, change))]
    if not going:
        return
    after = fleet_after(context, connection, changes)
    users = []
    for one in going:
        kind = kind_that_names(one.kind)
        rows = rows_after(attributes.every(connection, kind), _changes(draft, kind)).values()
        for sort, which in users_of(context, connection, one, after, rows):
            users.append({"field": sort, "reason": f"{one.kind.noun} '{one.name}': {which}."})
    if users:
        named = " ".join(user["reason"] for user in users[:5]) + (f" And {len(users) - 5} more." if users[5:] else "")
        raise InUse(f"In use: {named} Change them first, or use --force (force=true).", details=users[:MOST_DETAILS])


def _gone(draft: _Draft, change: RowChange) -> Definition | None:
    return draft.definitions_before.get((FleetKind(change.kind), change.name))


def _expect(draft: _Draft, write: Write, change: RowChange) -> None:
    draft.done.append((write, change))
    if write.expectation.holds(change.before_version):
        return
    facts = {"expected_version": write.expectation.version, "current_version": change.before_version}
    named = {"name": change.name or None, **change.scope.keys()}
    conflict: dict[str, Any] = {"index": write.index, "resource_type": change.kind, **named, **facts}
    draft.conflicts.append({name: value for name, value in conflict.items() if value is not None})


def _conflict(draft: _Draft) -> VersionConflict:
    moved = []
    for conflict in draft.conflicts[:5]:
        version = conflict.get("current_version")
        place = "/".join(
            str(conflict[key]) for key in ("name", "project", "domain", "workflow", "launch_plan") if key in conflict
        )
        moved.append(
            f"{conflict['resource_type']} at {place} {f'is at version {version}' if version else 'is not there'}"
        )
    more = f" and {len(draft.conflicts) - 5} more" if len(draft.conflicts) > 5 else ""
    return VersionConflict(
        f"Not as expected: {'; '.join(moved)}{more}. Read again, and repeat the change on what is there now.",
        details=draft.conflicts,
    )


def _judge(context: Context, connection: Connection, draft: _Draft, options: ChangeOptions) -> None:
    """Check every row against the state that all of them leave together."""
    settings = context.settings
    fleet_then = fleet_after(context, connection, [change for _, change in draft.done])
    known = names_known(context, connection, fleet_then)
    written_names = {(change.kind, change.name) for _, change in draft.done if change.name}
    draft.warnings += [one for one in fleet_warnings(fleet_then) if (one.kind, one.name) in written_names]
    by_kind: dict[str, list[tuple[RowWrite, RowChange]]] = defaultdict(list)
    for write, change in draft.done:
        if isinstance(write, RowWrite) and change.after is not None:
            by_kind[change.kind].append((write, change))
    for name, written in by_kind.items():
        kind = settings.kinds[name]
        after = rows_after(_around(connection, name, [change.scope for _, change in written]), _changes(draft, name))
        around = Surroundings.of(after.values(), settings.platform, known)
        for write, change in written:
            row = around.rows[change.scope]
            if options.restores:
                draft.warnings += warnings_of(kind, row, around)
                continue
            with _noting(draft, write, options):
                draft.warnings += judge(kind, row, around, refuse_unknown_names=settings.refuse_unknown_names)


def _around(connection: Connection, kind: str, scopes: list[Scope]) -> Iterable[Row]:
    """The rows of a kind that changes at some scopes must look at; all of them where the scopes are many."""
    return attributes.touching(connection, kind, scopes[0]) if len(scopes) == 1 else attributes.every(connection, kind)


def _changes(draft: _Draft, kind: str) -> list[RowChange]:
    return [change for _, change in draft.done if change.kind == kind]


def rows_after(rows: Iterable[Row], changes: Iterable[RowChange]) -> dict[Scope, Row]:
    """Rows of one kind as changes leave them."""
    after = {row.scope: row for row in rows}
    for change in changes:
        if change.after is None:
            after.pop(change.scope, None)
        else:
            version = change.before_version or UNSTORED
            after[change.scope] = Row(kind=change.kind, scope=change.scope, payload=change.after, version=version)
    return after


def _store(context: Context, connection: Connection, changes: list[RowChange], draft: _Draft, who: Authorship) -> int:
    now = context.clock()
    number = revisions.append(connection, changes, who, now)
    removed = [change.scope.project for change in changes if change.kind == PROJECT and change.after is None]
    for change in changes:
        if change.kind == PROJECT and change.after is not None:
            project = replace(draft.projects_after[change.scope.project], version=number, updated_at=now)
            (projects.add if change.before is None else projects.change)(connection, project)
    fleet.write(connection, [change for change in changes if change.name], number)
    _forget_clusters(context, connection, changes)
    rows = [change for change in changes if change.kind != PROJECT and not change.name]
    attributes.write(connection, rows, number, who, now)
    for project_id in removed:
        projects.remove(connection, project_id)
    return number


def _forget_clusters(context: Context, connection: Connection, changes: list[RowChange]) -> None:
    """A cluster that is gone takes along what happened to it: one of the same name starts anew.

    What its agent still has is given away like the work of a lost cluster, when the leases are over.
    """
    gone = {change.name for change in changes if change.kind == FleetKind.CLUSTER.value and change.after is None}
    if gone:
        gone -= set(fleet_after(context, connection, changes).clusters)
        tokens.revoke_all(connection, gone, context.clock())
        context.token_cache.forget()
        leased = gone & executions.leases_by_cluster(connection).keys()
        fleet.forget(connection, gone - leased)
        fleet.lose(connection, leased)


def _effects(context: Context, connection: Connection, changes: list[RowChange], draft: _Draft) -> Iterator[Effect]:
    """Which effective values change, at every scope that is known after the change."""
    settings = context.settings
    of_rows = {change.kind for change in changes if not change.name} - {PROJECT}
    names = sorted(of_rows, key=lambda name: settings.kinds[name].number)
    if not names:
        return
    scopes = _known_scopes(context, connection, changes)
    for name in names:
        before = {row.scope: row for row in attributes.every(connection, name)}
        after = rows_after(before.values(), _changes(draft, name))
        yield from effects(settings.kinds[name], before, after, scopes, settings.platform)


def _known_scopes(context: Context, connection: Connection, changes: list[RowChange]) -> list[Scope]:
    domains = context.settings.domain_ids()
    project_ids = sorted({*projects.ids(connection), *(change.scope.project for change in changes)} - {""})
    scopes = {Scope(domain=domain) for domain in domains} | {Scope(project=project) for project in project_ids}
    scopes |= {Scope(project=project, domain=domain) for project in project_ids for domain in domains}
    scopes |= {*attributes.scopes(connection), *(change.scope for change in changes if not change.name)}
    return sorted(scopes, key=lambda scope: (scope.project, scope.domain, scope.workflow, scope.launch_plan))
