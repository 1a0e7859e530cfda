"""Where something is used: what says a pool, label, cluster, queue, kind or value, and what that reaches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange
from admin.core.executions.effective_settings import payload_of
from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.executions.removals import Removal
from admin.core.executions.selectors import Condition, equals
from admin.core.fleet.definitions import FleetKind
from admin.core.json_text import JsonObject
from admin.core.problems import Path, closest, dotted, invalid
from admin.core.provenance import Provenance
from admin.core.registrations import Identifier, settings_of
from admin.core.settings.builtin_kinds import CLUSTER_ASSIGNMENT, EXECUTION_CLUSTER_LABEL, EXECUTION_QUEUE
from admin.core.settings.field_revisions import FieldsByRow, RowVersion
from admin.core.settings.kinds import Kind, Merge
from admin.core.settings.platform import PlatformLeaves
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.settings.uses import Sought
from admin.services.context import Context
from admin.services.definitions import current_fleet, definitions_after
from admin.services.field_provenance import find_field_provenance
from admin.services.known_scopes import scopes_below
from admin.store import attributes, decisions, execution_lists, registrations, revisions, row_changes
from admin.store.executions import ListedExecution

#: Scopes and rows that a page looks at, and executions that are looked at and named.
SCOPES, ROWS, EXECUTIONS, NAMED = 1000, 40_000, 1000, 100
#: Rows and launch plans that are read at once, and rows that are read of those that a page looks at.
_CHUNK, _READ = 100, 5000
#: Definitions whose removal a dry run tells what the scopes miss.
_MOST_REMOVED = 20

_POOL, _LABEL = ("cluster_pool_name",), ("value",)
#: Before and after the kinds of rows in the order of what says something: configuration, and launch plans.
_CONFIGURATION, _DEFINITION = "", "~"


_DEFINED = {kind.noun: kind for kind in FleetKind}


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about: a pool, label, cluster, queue or queue tag by its name, or a kind and perhaps a value."""

    noun: str
    name: str
    sought: tuple[Sought, ...]
    known: Iterable[str] | None = None  #: the names that there are of the noun; None where any will do
    pools: tuple[str, ...] = ()  #: of a cluster: those that it is in
    labels: tuple[str, ...] = ()

    @property
    def closest(self) -> tuple[str, ...]:
        return closest(self.name, self.known or ())

    @property
    def is_known(self) -> bool:
        return self.known is None or self.name in self.known


@dataclass(frozen=True, kw_only=True)
class Use:
    """What says it: a key of the configuration, a row, or the definition of a launch plan."""

    position: tuple[str, ...]  #: by which uses are sorted, each its own: five texts
    sought: Sought
    leaves: Mapping[Path, Any]
    scope: Scope = PLATFORM
    version: int | None = None
    revision: int | None = None  #: the last one that set what it says; None where that is not known
    set_before: int | None = None  #: before which it was set then
    key: str = ""
    plan: Identifier | None = None


class Reached(NamedTuple):
    """A scope that has it, and whether its executions would be refused without, or would wait."""

    scope: Scope
    kind: str
    is_refused: bool
    is_waiting: bool


@dataclass(frozen=True, kw_only=True)
class Affected:
    """Unfinished executions that were decided by it."""

    phases: Mapping[str, int]
    executions: Sequence[ListedExecution]  #: the first of them
    waiting_for: int | None  #: of a cluster: how many of them have none and name it in their requests
    is_complete: bool  #: whether all unfinished executions were looked at


@dataclass(frozen=True, kw_only=True)
class Uses:
    """A page of uses, and the scopes that they reach, as of one revision."""

    question: Question
    revision: int
    provenance: Mapping[int, Provenance]  #: of the rows that say it, by their versions
    uses: list[Use] = field(default_factory=list)
    reached: list[Reached] = field(default_factory=list)
    affected: Affected | None = None  #: on the first page
    deleted_by: Provenance | None = None  #: of a pool, label or cluster that is not there, as far as that is known
    next_key: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class RemovedReach:
    """What new executions would miss something that is removed, of the scopes that a page looks at."""

    noun: str
    name: str
    reached: Sequence[Reached]
    is_complete: bool  #: whether every scope was looked at


Ask = Callable[[Connection], Question]  #: makes a question of what a transaction sees


def ask_name(context: Context, connection: Connection, noun: str, name: str) -> Question:
    """The question about a pool, label, cluster, queue or queue tag."""
    fleet = current_fleet(context, connection)
    queues = {queue.name: queue.tags for queue in context.settings.rules.queues}
    if noun == "pool":
        return Question(noun=noun, name=name, sought=(_sought(CLUSTER_ASSIGNMENT, _POOL, name),), known=fleet.pools)
    if noun == "label":
        sought = _sought(EXECUTION_CLUSTER_LABEL, _LABEL, name)
        return Question(noun=noun, name=name, sought=(sought,), known=fleet.label_names())
    if noun == "cluster":
        pools, labels = fleet.groups_of(name, fleet.pools), fleet.groups_of(name, fleet.labels)
        own = [] if name in fleet.labels else [name]
        return Question(
            noun=noun,
            name=name,
            sought=(
                _sought(CLUSTER_ASSIGNMENT, _POOL, *pools),
                _sought(EXECUTION_CLUSTER_LABEL, _LABEL, *labels, *own),
            ),
            known=fleet.clusters,
            pools=tuple(pools),
            labels=tuple(labels),
        )
    tags = queues.get(name, ()) if noun == "queue" else (name,)
    names = queues if noun == "queue" else {tag for served in queues.values() for tag in served}
    return Question(noun=noun, name=name, sought=(_sought(EXECUTION_QUEUE, ("tags",), *tags),), known=names)


def ask_kind(kind: Kind, field: str | None, value: str | None) -> Question:
    """The question about a kind, one of its fields, or a value of it."""
    if value is not None and field is None:
        raise invalid("field", "is missing: name the field that has the value.")
    path = None if field is None else kind.payload.find(field)
    values = None if value is None else frozenset({value})
    name = "" if field is None else field if value is None else f"{field}={value}"
    return Question(noun=kind.noun, name=name, sought=(Sought(kind=kind, path=path, values=values),))


def _sought(kind: Kind, path: Path, *values: str) -> Sought:
    return Sought(kind=kind, path=path, values=frozenset(values))


def find_uses(context: Context, ask: Ask, after: tuple[str, ...] | None, limit: int) -> Uses:
    """A page of what says it and of the scopes that this reaches, from after a position on.

    A position is that of a use, and then the scope below that was looked at last, as nine texts.
    """
    with context.database.reading() as connection:
        question = ask(connection)
        search = _Search(context, connection, question)
        uses, places, last = search.page(after, limit)
        affected = search.affected() if after is None else None
        revision = revisions.head(connection)
        reached = search.reached(places)
        field_provenance = find_field_provenance(context, connection, filter(None, map(_row_of, uses)))
        deleted_by = None
        if not question.is_known and question.noun in _DEFINED:
            kind = _DEFINED[question.noun].value
            deleted_by = row_changes.deleted_by(connection, kind, [question.name]).get(question.name)
    return Uses(
        question=question,
        revision=revision,
        provenance=field_provenance.provenance,
        uses=[_with_revision(use, field_provenance.fields) for use in uses],
        reached=reached,
        affected=affected,
        deleted_by=deleted_by,
        next_key=last,
    )


def reach_of_removed(context: Context, connection: Connection, changes: Sequence[RowChange]) -> list[RemovedReach]:
    """The scopes that have the pools, labels and clusters which changes remove, of the first ones.

    None where something else is changed too, by which the scopes may come to have something else.
    """
    definitions = definitions_after(changes)
    if len(definitions) < len(changes) or any(definition is not None for definition in definitions.values()):
        return []
    removed = []
    for kind, name in list(definitions)[:_MOST_REMOVED]:
        search = _Search(context, connection, ask_name(context, connection, kind.noun, name))
        _, places, last = search.page(None, _CHUNK)
        reached = search.reached(places)
        removed.append(RemovedReach(noun=kind.noun, name=name, reached=reached, is_complete=last is None))
    return removed


def _row_of(use: Use) -> RowVersion | None:
    return RowVersion(use.sought.kind.name, use.scope, use.version) if use.version else None


def _with_revision(use: Use, fields: FieldsByRow) -> Use:
    """A use with the last revision that set a field by which a row uses it, or with one before which it was set."""
    row = _row_of(use)
    if row is None or row not in fields:
        return use
    revisions = fields[row].revisions
    number = max((revisions[path] for path in map(dotted, use.leaves) if path in revisions), default=None)
    return replace(use, revision=number, set_before=fields[row].set_before if number is None else None)


class _Search:
    """Finds uses in one transaction."""

    def __init__(self, context: Context, connection: Connection, question: Question) -> None:
        self._context = context
        self._connection = connection
        self._question = question
        self.examined_to: tuple[str, ...] | None = None  #: where the next page begins if no use is left on this one

    def page(
        self, after: tuple[str, ...] | None, limit: int
    ) -> tuple[list[Use], list[tuple[Use, Scope]], tuple[str, ...] | None]:
        """What says it and the scopes that may have it from there, from after a position on, and where that ends."""
        uses: list[Use] = []
        places: list[tuple[Use, Scope]] = []
        last = after
        use_after, scope_after = (None, None) if after is None else (after[:5], Scope(*after[5:]))
        for use in self.uses(use_after):
            is_resumed = use.position == use_after
            if is_resumed and scope_after == PLATFORM:
                continue  # the page before has ended with it
            if not is_resumed and (len(uses) == limit or len(places) == SCOPES):
                break
            uses += [] if is_resumed else [use]
            room = SCOPES - len(places)
            below = self.places(use, room + 1, scope_after if is_resumed else None)
            places += [(use, scope) for scope in below[:room]]
            if len(below) > room:
                last = (*use.position, *places[-1][1])
                break
            last = (*use.position, *PLATFORM)
        else:
            last = self.examined_to
        return uses, places, last

    def uses(self, after: tuple[str, ...] | None) -> Iterator[Use]:
        """What says it, from a position on, that included."""
        start = after or ("",) * 5
        for use in sorted(self._configured(), key=lambda use: use.position):
            if use.position >= start:
                yield use
        if start[0] != _DEFINITION:
            yield from self._rows(start)
        if self.examined_to is None:
            yield from self._definitions(start)

    def _configured(self) -> Iterator[Use]:
        platform = self._context.settings.platform
        for sought in self._question.sought:
            name = sought.kind.name
            places: list[tuple[Scope, PlatformLeaves]] = [(PLATFORM, platform.at(sought.kind, ""))]
            places += [(Scope(domain), leaves) for (kind, domain), leaves in platform.by_domain.items() if kind == name]
            for scope, leaves in places:
                payload = sought.kind.nest({path: leaf.value for path, leaf in leaves.items()})
                for path, value in sought.find(payload).items():
                    key = leaves[path].key
                    position = (_CONFIGURATION, key, "", "", "")
                    yield Use(position=position, sought=sought, leaves={path: value}, scope=scope, key=key)

    def _rows(self, start: tuple[str, ...]) -> Iterator[Use]:
        examined = read = 0
        for sought in sorted(self._question.sought, key=lambda sought: sought.kind.name):
            name = sought.kind.name
            if name < start[0]:
                continue
            last = None
            if name == start[0]:
                project, domain, workflow, launch_plan = start[1:]
                last = Scope(domain, project, workflow, launch_plan)
                row = next(iter(attributes.exactly(self._connection, [(name, last)])), None)
                yield from self._use_of_row(sought, row)
            while sought.values is None or sought.values:
                page = attributes.containing(self._connection, name, _texts(sought), last, most=ROWS, limit=_CHUNK)
                for row in page.rows:
                    yield from self._use_of_row(sought, row)
                examined, read = examined + page.examined, read + len(page.rows)
                if page.last is None:
                    break
                if examined >= ROWS or read >= _READ:
                    self.examined_to = (*page.last, *PLATFORM)
                    return
                _kind, project, domain, workflow, launch_plan = page.last
                last = Scope(domain, project, workflow, launch_plan)

    def _use_of_row(self, sought: Sought, row: Row | None) -> Iterator[Use]:
        leaves = {} if row is None else sought.find(row.payload)
        if row is not None and leaves:
            position = attributes.page_key(row)
            yield Use(position=position, sought=sought, leaves=leaves, scope=row.scope, version=row.version)

    def _definitions(self, start: tuple[str, ...]) -> Iterator[Use]:
        key: registrations.PlaceKey | None = None
        if start[0] == _DEFINITION:
            _mark, project, domain, name, _kind = start
            key = project, domain, name
            plans_of_name = registrations.active_plans_of(self._connection, [key]).values()
            yield from (use for use in self._uses_of_plans(plans_of_name) if use.position >= start)
        texts = [text for sought in self._question.sought for text in _texts(sought)]
        while True:
            plans = registrations.active_plans_containing(self._connection, texts, key, _CHUNK)
            yield from self._uses_of_plans(plans)
            if len(plans) < _CHUNK:
                return
            key = plans[-1].id.project, plans[-1].id.domain, plans[-1].id.name

    def _uses_of_plans(self, plans: Iterable[registrations.Registered]) -> Iterator[Use]:
        for plan in plans:
            settings = settings_of(plan.spec)
            for sought in sorted(self._question.sought, key=lambda sought: sought.kind.name):
                leaves = sought.find(payload_of(sought.kind, settings))
                if leaves:
                    project, domain, name = plan.id.project, plan.id.domain, plan.id.name
                    yield Use(
                        position=(_DEFINITION, project, domain, name, sought.kind.name),
                        sought=sought,
                        leaves=leaves,
                        scope=Scope(domain, project, plan.workflow, name),
                        plan=plan.id,
                    )

    def places(self, use: Use, limit: int, after: Scope | None) -> list[Scope]:
        """Scopes that may have it from a use, its own among them, from after one of them on."""
        own = [use.scope] if after is None and use.scope.project and use.scope.domain else []
        if use.plan is not None:
            return own
        return [*own, *scopes_below(self._context, self._connection, use.scope, limit - len(own), after)][:limit]

    def reached(self, places: Sequence[tuple[Use, Scope]]) -> list[Reached]:
        """Those of some scopes that have it from the use beside them."""
        kinds = {use.sought.kind.name for use, _ in places} | {CLUSTER_ASSIGNMENT.name, EXECUTION_CLUSTER_LABEL.name}
        chains = {place for _, scope in places for place in scope.chain()}
        rows: dict[str, dict[Scope, Row]] = defaultdict(dict)
        for row in attributes.exactly(self._connection, [(kind, place) for kind in kinds for place in chains]):
            rows[row.kind][row.scope] = row
        keys = {(scope.project, scope.domain, scope.launch_plan) for _, scope in places if scope.launch_plan}
        plans = registrations.active_plans_of(self._connection, keys)
        removal = Removal(
            noun=self._question.noun,
            name=self._question.name,
            fleet=current_fleet(self._context, self._connection),
            rules=self._context.settings.rules,
        )
        reached = []
        for use, scope in places:
            plan = plans.get((scope.project, scope.domain, scope.launch_plan)) if scope.launch_plan else None
            definition = {} if plan is None else settings_of(plan.spec)
            kind = use.sought.kind.name
            if not self._is_reached(use, scope, rows[kind], definition):
                continue
            if removal.noun == "cluster":  # which the pool or the label leads to, whichever of the two wins
                route = removal.route(scope, rows, definition)
                if (route.pool if kind == CLUSTER_ASSIGNMENT.name else route.label) is None:
                    continue
            is_refused = removal.refuses(scope, rows, definition)
            reached.append(Reached(scope, kind, is_refused, removal.waits(scope, rows, definition)))
        return reached

    def _is_reached(self, use: Use, scope: Scope, rows: Mapping[Scope, Row], definition: JsonObject) -> bool:
        if use.plan is not None:
            return True
        kind = use.sought.kind
        own_leaves = kind.leaves(payload_of(kind, definition))
        if own_leaves and (kind.merge is Merge.REPLACE or use.leaves.keys() <= own_leaves.keys()):
            return False
        platform = self._context.settings.platform.at(kind, scope.domain)
        origins = use.sought.origins_at(scope, rows, platform)
        if use.key:
            return any(origin.key == use.key for origin in origins)
        return any(origin.scope == use.scope and not origin.key for origin in origins)

    def affected(self) -> Affected:
        """The unfinished executions that were decided by it, of a limited number; of a cluster also what waits for it.

        Those are without a cluster, and their requests name it.
        """
        question = self._question
        unfinished = equals("phase", *(phase.value for phase in UNFINISHED))
        if question.noun not in ("pool", "label", "cluster"):
            page = self._executions(unfinished)
            return _affected(self._decided_by(page.executions), is_complete=page.last is None)
        page = self._executions(unfinished, equals(question.noun, question.name))
        if question.noun != "cluster":
            return _affected(page.executions, is_complete=page.last is None)
        is_queued, is_nowhere = equals("phase", Phase.QUEUED.value), equals("cluster", "")
        waiting = self._executions(is_queued, is_nowhere, equals("requested_cluster", question.name))
        newest = sorted([*page.executions, *waiting.executions], key=lambda execution: execution.id, reverse=True)
        is_complete = page.last is None and waiting.last is None
        return _affected(newest, is_complete=is_complete, waiting_for=len(waiting.executions))

    def _executions(self, *conditions: Condition) -> execution_lists.Page[ListedExecution]:
        """The newest executions that fit some conditions, up to a number."""
        limits = self._context.list_limits
        return execution_lists.page(self._connection, conditions, ListedExecution, limit=EXECUTIONS, limits=limits)

    def _decided_by(self, listed: Sequence[ListedExecution]) -> list[ListedExecution]:
        """Those of some executions whose settings say it; equal trails are read once."""
        keys = [(execution.id, execution.decisions) for execution in listed]
        digests = decisions.settings_trails(self._connection, keys)
        matching = {
            digest
            for digest, settings in decisions.settings(self._connection, digests.values()).items()
            if any(self._says(setting) for setting in settings)
        }
        return [execution for execution in listed if digests.get(execution.id) in matching]

    def _says(self, setting: JsonObject) -> bool:
        return any(
            sought.kind.name == setting["resource_type"] and sought.find(setting["value"])
            for sought in self._question.sought
        )


def _affected(executions: Sequence[ListedExecution], *, is_complete: bool, waiting_for: int | None = None) -> Affected:
    phases = Counter(execution.phase for execution in executions)
    first = executions[:NAMED]
    return Affected(phases=phases, executions=first, is_complete=is_complete, waiting_for=waiting_for)


def _texts(sought: Sought) -> list[str]:
    """Texts of which a payload that says it contains one; none where any may."""
    values = sorted(sought.values or ())
    are_plain = all(value.isascii() and value.isprintable() and not {'"', "\\"} & set(value) for value in values)
    return values if are_plain and sought.values is not None else []
