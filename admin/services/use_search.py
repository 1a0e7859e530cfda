"""A search for uses: what names a pool, label, cluster, queue, kind or value, and where that may apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.executions.effective_settings import payload_of
from admin.core.executions.removals import FLEET_NOUNS
from admin.core.problems import Path, closest, invalid, shorten
from admin.core.provenance import Provenance
from admin.core.registrations import Identifier, settings_of
from admin.core.settings.builtin_kinds import (
    CLUSTER_ASSIGNMENT,
    EXECUTION_CLUSTER_LABEL,
    EXECUTION_QUEUE,
    TOKEN_POOL_QUOTA,
)
from admin.core.settings.kinds import Kind
from admin.core.settings.platform import PlatformLeaves
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.settings.uses import Sought
from admin.core.token_pools.limits import QUOTAS
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.known_scopes import scopes_below
from admin.services.token_uses import TOKEN_POOL
from admin.store import active_plans, attributes
from admin.store.registration_tables import PlaceKey
from admin.store.registrations import Registered
from admin.store.token_tables import TOKEN_POOLS

#: Scopes and rows that a page looks at, and scopes for each use that is asked for: a short page takes less time.
SCOPES, ROWS = 1000, 40_000
_SCOPES_EACH = 10
#: Rows and launch plans that are read at once, and rows that are read of those that a page looks at.
CHUNK, _READ = 100, 5000

_POOL, _LABEL = ("cluster_pool_name",), ("value",)
#: Before and after the kinds of rows in the order of what names something: configuration, and launch plans.
_CONFIGURATION, _DEFINITION = "", "~"


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked about: something by its name, as the queries of uses have it, or a kind and perhaps a value."""

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
    """What names it: a key of the configuration, a row, or the definition of a launch plan."""

    position: tuple[str, ...]  #: by which uses are sorted, each its own: five texts
    sought: Sought
    leaves: Mapping[Path, object]
    scope: Scope = PLATFORM
    version: int | None = None
    revision: int | None = None  #: the last one that set the name or value; None where that is not known
    set_before: int | None = None  #: before which it was set then
    key: str = ""
    plan: Identifier | None = None
    registered_by: Provenance | None = None  #: of the launch plan


Ask = Callable[[Connection], Question]  #: makes a question of what a transaction sees


def ask_name(context: Context, connection: Connection, noun: str, name: str) -> Question:
    """The question about a pool, label, cluster, queue, queue tag or token pool.

    To who may not read the fleet nothing is told of it: which names there are, and what leads to a cluster.
    """
    if noun in FLEET_NOUNS and not context.access.sees_fleet():
        kind, path = (CLUSTER_ASSIGNMENT, _POOL) if noun == "pool" else (EXECUTION_CLUSTER_LABEL, _LABEL)
        return Question(noun=noun, name=name, sought=(_sought(kind, path, name),))
    if noun == TOKEN_POOL:
        pools = TOKEN_POOLS.names(connection) if context.access.allows("token_pools.read") else None
        bound = Sought(kind=TOKEN_POOL_QUOTA, path=(QUOTAS, name))
        return Question(noun=noun, name=name, sought=(bound,), known=pools)
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
            known=fleet.cluster_names(),
            pools=tuple(pools),
            labels=tuple(labels),
        )
    tags = queues.get(name, ()) if noun == "queue" else (name,)
    names = queues if noun == "queue" else {tag for served in queues.values() for tag in served}
    return Question(noun=noun, name=name, sought=(_sought(EXECUTION_QUEUE, ("tags",), *tags),), known=names)


#: How questions write comparisons.
_SIGNS = {"": "=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def ask_kind(kind: Kind, field: str | None, value: str | None, comparison: str = "") -> Question:
    """The question about a kind, one of its fields, a value of it, or the amounts that compare so with the value."""
    if value is not None and field is None:
        raise invalid("field", "is missing: name the field that has the value.")
    if comparison and value is None:
        raise invalid("value", f"is missing: what {comparison} compares the field with.")
    path = None if field is None else kind.payload.find(field)
    values = None if value is None else frozenset({value})
    name = "" if field is None else field if value is None else f"{field}{_SIGNS[comparison]}{value}"
    sought = Sought(kind=kind, path=path, values=values, comparison=comparison)
    if comparison and not sought.amounts:
        raise invalid("value", f"'{shorten(value or '')}' is not an amount of {field}: {_AMOUNTS}.")
    return Question(noun=kind.noun, name=name, sought=(sought,))


_AMOUNTS = "give a quantity such as 4Gi, a duration such as 10m, or a number"


def _sought(kind: Kind, path: Path, *values: str) -> Sought:
    return Sought(kind=kind, path=path, values=frozenset(values))


class UseSearch:
    """Finds uses in one transaction."""

    def __init__(self, context: Context, connection: Connection, question: Question) -> None:
        self._context = context
        self._connection = connection
        self._question = question
        self._readable = context.access.scopes("attributes.read")
        self._examined_to: tuple[str, ...] | None = None  #: where the next page begins if no use is left on this one

    def page(
        self, after: tuple[str, ...] | None, limit: int
    ) -> tuple[list[Use], list[tuple[Use, Scope]], tuple[str, ...] | None]:
        """What names it and the scopes that may have it from there, from after a position on, and where that ends."""
        uses: list[Use] = []
        places: list[tuple[Use, Scope]] = []
        most = min(SCOPES, limit * _SCOPES_EACH)
        last = after
        use_after, scope_after = (None, None) if after is None else (after[:5], Scope(*after[5:]))
        for use in self._uses(use_after):
            is_resumed = use.position == use_after
            if is_resumed and scope_after == PLATFORM:
                continue  # the page before has ended with it
            if not is_resumed and (len(uses) == limit or len(places) == most):
                break
            uses += [] if is_resumed else [use]
            room = most - len(places)
            below = self._places(use, room + 1, scope_after if is_resumed else None)
            places += [(use, scope) for scope in below[:room]]
            if len(below) > room:
                last = (*use.position, *places[-1][1])
                break
            last = (*use.position, *PLATFORM)
        else:
            last = self._examined_to
        return uses, places, last

    def _uses(self, after: tuple[str, ...] | None) -> Iterator[Use]:
        """What names it, from a position on, that included."""
        start = after or ("",) * 5
        for use in sorted(self._configured(), key=lambda use: use.position):
            if use.position >= start:
                yield use
        if start[0] != _DEFINITION:
            yield from self._rows(start)
        is_of_quotas = all(sought.kind.is_quota for sought in self._question.sought)  # which no definition sets
        if self._examined_to is None and not is_of_quotas:
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
                page = attributes.containing(
                    self._connection, name, _texts(sought), last, most=ROWS, limit=CHUNK, within=self._readable
                )
                for row in page.rows:
                    yield from self._use_of_row(sought, row)
                examined, read = examined + page.examined, read + len(page.rows)
                if page.last is None:
                    break
                if examined >= ROWS or read >= _READ:
                    self._examined_to = (*page.last, *PLATFORM)
                    return
                _kind, project, domain, workflow, launch_plan = page.last
                last = Scope(domain, project, workflow, launch_plan)

    def _use_of_row(self, sought: Sought, row: Row | None) -> Iterator[Use]:
        leaves = {} if row is None else sought.find(row.payload)
        if row is not None and leaves:
            position = attributes.page_key(row)
            yield Use(position=position, sought=sought, leaves=leaves, scope=row.scope, version=row.version)

    def _definitions(self, start: tuple[str, ...]) -> Iterator[Use]:
        key: PlaceKey | None = None
        if start[0] == _DEFINITION:
            _mark, project, domain, name, _kind = start
            key = project, domain, name
            plans_of_name = active_plans.of_places(self._connection, [key]).values()
            yield from (use for use in self._uses_of_plans(plans_of_name) if use.position >= start)
        texts = [text for sought in self._question.sought for text in _texts(sought)]
        while True:
            plans = active_plans.containing(self._connection, texts, key, CHUNK)
            yield from self._uses_of_plans(plans)
            if len(plans) < CHUNK:
                return
            key = plans[-1].id.project, plans[-1].id.domain, plans[-1].id.name

    def _uses_of_plans(self, plans: Iterable[Registered]) -> Iterator[Use]:
        for plan in plans:
            project, domain, name = plan.id.project, plan.id.domain, plan.id.name
            scope = Scope(domain, project, plan.workflow, name)
            if not self._context.access.allows("attributes.read", scope):
                continue
            settings = settings_of(plan.spec)
            for sought in sorted(self._question.sought, key=lambda sought: sought.kind.name):
                leaves = sought.find(payload_of(sought.kind, settings))
                if leaves:
                    yield Use(
                        position=(_DEFINITION, project, domain, name, sought.kind.name),
                        sought=sought,
                        leaves=leaves,
                        scope=scope,
                        plan=plan.id,
                        registered_by=plan.registered_by,
                    )

    def _places(self, use: Use, limit: int, after: Scope | None) -> list[Scope]:
        """Scopes that may have it from a use, its own among them, from after one of them on."""
        own = [use.scope] if after is None and use.scope.project and use.scope.domain else []
        if use.plan is not None:
            return own
        return [*own, *scopes_below(self._context, self._connection, use.scope, limit - len(own), after)][:limit]


def _texts(sought: Sought) -> list[str]:
    """Texts of which a payload that names it contains one; none where any may."""
    if (sought.worths or sought.comparison) and sought.path is not None:
        return [sought.path[-1]]  # an amount may be written otherwise
    values = sorted(sought.values or ())
    are_plain = all(value.isascii() and value.isprintable() and not {'"', "\\"} & set(value) for value in values)
    return values if are_plain and sought.values is not None else []
