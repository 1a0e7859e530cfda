"""Warnings about stored rows: valid but questionable settings, reported for as long as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from admin.core.problems import Invalid, Path, Problem, Setting, closest, did_you_mean, dotted, raise_problems
from admin.core.provenance import Provenance
from admin.core.quantities import parse_quantity
from admin.core.settings.builtin_kinds import CLUSTER_RESOURCE, TASK_RESOURCE, TOKEN_POOL_QUOTA
from admin.core.settings.kinds import Kind, Merge, NameList, Payload
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import EffectiveValue, Resolved, Row, effective_value
from admin.core.settings.scopes import Level, Origin, Scope

#: The names that a row may use without a warning; of a list that is left out nothing is said, for want of a permission.
KnownNames = Mapping[NameList, frozenset[str]]


class WarningCode(StrEnum):
    """The stable codes of warnings; `docs/concepts.md` explains each."""

    UNKNOWN_LABEL = "unknown_label"
    UNKNOWN_POOL = "unknown_pool"
    UNKNOWN_QUEUE_TAG = "unknown_queue_tag"
    UNKNOWN_WORKFLOW = "unknown_workflow"
    UNKNOWN_LAUNCH_PLAN = "unknown_launch_plan"
    UNKNOWN_TOKEN_POOL = "unknown_token_pool"
    UNUSED_KEY = "unused_key"
    NO_NAMESPACES = "no_namespaces"
    LOOSE_CAP = "loose_cap"
    TOKENS_OFF = "tokens_off"
    BELOW_DEFAULT = "below_default"
    UNKNOWN_GROUP = "unknown_group"
    UNKNOWN_USER = "unknown_user"
    EARLIER_GRANTS = "earlier_grants"
    UNKNOWN_CLUSTER = "unknown_cluster"
    UNKNOWN_CLUSTER_GROUP = "unknown_cluster_group"
    USE_IS_OPEN = "use_is_open"
    OVERRIDES_DOMAIN = "overrides_domain"
    DEFAULT_CAPPED = "default_capped"
    ZERO_LIMIT = "zero_limit"
    ABOVE_LIMIT = "above_limit"
    QUOTA_FULL = "quota_full"
    UNREAD_FIELD = "unread_field"
    OUTDATED_PAYLOAD = "outdated_payload"
    UNDECLARED_KIND = "undeclared_kind"
    EXPECTED_CLUSTER = "expected_cluster"
    UNSEEN_CLUSTER = "unseen_cluster"
    UNKNOWN_CAPACITY = "unknown_capacity"
    REPORTED_CAPACITY = "reported_capacity"
    DOUBTFUL_REPORT = "doubtful_report"
    SHADOWED_DEFINITION = "shadowed_definition"
    SHADOWED_PROPERTY = "shadowed_property"
    CLOCK_JUMPED = "clock_jumped"
    DATABASE_RESTORED = "database_restored"
    UNKNOWN_WORK = "unknown_work"
    # These are only said of rows without effect.
    ARCHIVED_PROJECT = "archived_project"
    EMPTY_POOL = "empty_pool"
    EMPTY_LABEL = "empty_label"
    OVERRIDDEN = "overridden"
    TIGHTER_ABOVE = "tighter_above"
    POOL_WINS = "pool_wins"
    LAUNCH_PLAN_SAYS = "launch_plan_says"
    IGNORED_BY_JOB = "ignored_by_job"


_UNKNOWN_NAME = {
    NameList.LABEL: WarningCode.UNKNOWN_LABEL,
    NameList.POOL: WarningCode.UNKNOWN_POOL,
    NameList.QUEUE_TAG: WarningCode.UNKNOWN_QUEUE_TAG,
    NameList.WORKFLOW: WarningCode.UNKNOWN_WORKFLOW,
    NameList.LAUNCH_PLAN: WarningCode.UNKNOWN_LAUNCH_PLAN,
    NameList.TOKEN_POOL: WarningCode.UNKNOWN_TOKEN_POOL,
}

#: Fields that a message names at most.
_MOST_FIELDS = 5
#: What a name that is not defined means.
_UNTIL_DEFINED = "until then "
_REFUSES, _BOUNDS_NOTHING = "executions that need it are refused.", "it bounds nothing."
#: What a grant to a user who does not exist means.
UNTIL_CREATED = "It has no effect until a user of that name is created."
#: The kinds of definitions that may have a name; a label may be the name of a cluster.
_DEFINED_AS = {
    NameList.POOL: ("POOL",),
    NameList.LABEL: ("LABEL", "CLUSTER"),
    NameList.TOKEN_POOL: ("TOKEN_POOL",),
}

#: The codes that `attributes.unknownNames: refuse` turns into errors.
UNKNOWN_NAME_CODES = frozenset({*_UNKNOWN_NAME.values(), WarningCode.UNUSED_KEY})


@dataclass(frozen=True, kw_only=True)
class Warning:
    """A warning about one row."""

    code: WarningCode
    message: str
    kind: str
    scope: Scope
    field: str
    closest: tuple[str, ...] = ()
    name: str = ""  #: of what belongs to no scope: a pool, a label, a cluster
    version: int | None = None  #: of the row, where it is the row's own field
    setting: Setting | None = None  #: the field that it is about, where that may be of another row
    missing: tuple[tuple[str, ...], str] | None = None  #: the kinds of definitions, and the name, that it misses
    deleted_by: Provenance | None = None  #: the revision that deleted what is missing
    set_by: Provenance | None = None  #: the revision that set the field, or changed its row or definition last
    set_before: int | None = None  #: the revision before which the field was set, where another changed the row last
    refuses: bool = False  #: whether it refuses executions, of a row without another effect
    fields: tuple[str, ...] = ()  #: of a row without effect: all of its fields that this is about


def explain_deletion(warning: Warning, kind: str, deleted_by: Provenance, now: datetime) -> Warning:
    """A warning about a missing definition that begins with the revision by which that was deleted."""
    if warning.missing is None:
        return warning
    noun = kind.lower().replace("_", " ")
    deleted = f"The {noun} '{warning.missing[1]}' was deleted by {deleted_by.describe(now)}."
    rest = warning.message.partition(_UNTIL_DEFINED)[2]
    if warning.code is WarningCode.EXPECTED_CLUSTER:
        message = f"{deleted} It stays in the fleet, undeclared, as long as this names it."
    elif warning.code is WarningCode.UNKNOWN_USER:
        message = f"{deleted} {UNTIL_CREATED}"
    else:
        message = f"{deleted} This takes effect once it is defined again; {_UNTIL_DEFINED}{rest}"
    return replace(warning, message=message, deleted_by=deleted_by, closest=())


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What the rows of one kind are checked against."""

    rows: Mapping[Scope, Row]  #: the rows of the kind that may affect each other, the checked ones among them
    domain_rows: tuple[Row, ...]  #: those of them at domain level
    platform: PlatformValues
    known: KnownNames
    untold: KnownNames  #: the names of the lists that are not among the known ones
    variables: frozenset[str] | None  #: of the templates of cluster resources; None where some cannot be read

    @classmethod
    def of(
        cls,
        rows: Iterable[Row],
        platform: PlatformValues,
        known: KnownNames,
        untold: KnownNames | None = None,
        variables: frozenset[str] | None = None,
    ) -> Surroundings:
        """The surroundings that rows of one kind make."""
        by_scope = {row.scope: row for row in rows}
        domain_rows = [row for row in by_scope.values() if row.scope.level is Level.DOMAIN]
        domain_rows.sort(key=lambda row: row.scope)
        return cls(
            rows=by_scope,
            domain_rows=tuple(domain_rows),
            platform=platform,
            known=known,
            untold=untold or {},
            variables=variables,
        )

    def excesses(self, kind: Kind, row: Row) -> list[Excess]:
        """The defaults above their limit that are in force at a row's scope."""
        return excesses_at(kind, row.scope, self.rows, self.platform)


def warnings_of(kind: Kind, row: Row, around: Surroundings) -> list[Warning]:
    """Every warning about one row."""
    return [
        *unknown_names(kind, row, around.known),
        *unknown_scopes(kind, row, around.known),
        *_unused_keys(kind, row, around.variables),
        *_overridden_domains(kind, row, around.domain_rows),
        *_capped_defaults(kind, row, around),
        *_zero_limits(kind, row),
        *_unread(kind, row),
        *_outdated(kind, row),
    ]


def warn(kind: Kind, row: Row, code: WarningCode, field: str, message: str, near: tuple[str, ...] = ()) -> Warning:
    """A warning about one row."""
    return Warning(
        code=code,
        message=message,
        kind=kind.name,
        scope=row.scope,
        field=field,
        closest=near,
        version=row.version or None,
    )


def unknown_names(kind: Kind, row: Row, names: KnownNames, *, suggests: bool = True) -> Iterator[Warning]:
    for path, name_list, name in kind.names_in(kind.leaves(row.payload)):
        if name_list not in names or name in names[name_list]:
            continue
        near = closest(name, names[name_list]) if suggests else ()
        message = (
            f"No {name_list.value} is called '{name}' yet.{did_you_mean(near)} It takes effect once it is defined; "
            f"{_UNTIL_DEFINED}{_BOUNDS_NOTHING if kind.is_quota else _REFUSES}"
        )
        warning = warn(kind, row, _UNKNOWN_NAME[name_list], dotted(path), message, near)
        yield replace(warning, missing=(_DEFINED_AS[name_list], name)) if name_list in _DEFINED_AS else warning


def unknown_scopes(kind: Kind, row: Row, names: KnownNames) -> Iterator[Warning]:
    """A workflow or launch plan that is not registered yet, in this project or any other."""
    for field, name_list in (("workflow", NameList.WORKFLOW), ("launch_plan", NameList.LAUNCH_PLAN)):
        name = getattr(row.scope, field)
        if name and name_list in names and name not in names[name_list]:
            near = closest(name, names[name_list])
            # Who asks for tokens may name any workflow.
            effect = "It bounds claims that name it" if kind is TOKEN_POOL_QUOTA else "It takes effect once one is"
            message = f"No {name_list.value} called '{name}' is registered yet.{did_you_mean(near)} {effect}."
            yield warn(kind, row, _UNKNOWN_NAME[name_list], field, message, near)


def _unused_keys(kind: Kind, row: Row, variables: frozenset[str] | None) -> Iterator[Warning]:
    """Keys of cluster resources that no template fills in."""
    if kind.name != CLUSTER_RESOURCE.name or variables is None:
        return
    for path in kind.leaves(row.payload):
        key = path[-1]
        if key not in variables:
            near = closest(key, variables)
            message = f"No template has the variable '{key}'.{did_you_mean(near)} It has no effect until one has it."
            yield warn(kind, row, WarningCode.UNUSED_KEY, dotted(path), message, near)


def _overridden_domains(kind: Kind, row: Row, domain_rows: tuple[Row, ...]) -> Iterator[Warning]:
    """A project's row overrides the rows of every domain, which few expect."""
    if row.scope.level is not Level.PROJECT:
        return
    paths = set(kind.leaves(row.payload))
    for domain_row in domain_rows:
        domain_paths = set(kind.leaves(domain_row.payload))
        lost = sorted(domain_paths if kind.merge is Merge.REPLACE else paths & domain_paths)
        lost = [path for path in lost if not kind.is_bound(path)]
        if lost:
            message = (
                f"Overrides {', '.join(map(dotted, lost))} of {domain_row.scope} for this project: a project's row "
                "is more specific than a domain's. Set it in single domains of the project if that is not meant."
            )
            yield warn(kind, row, WarningCode.OVERRIDES_DOMAIN, dotted(lost[0]), message)


def _capped_defaults(kind: Kind, row: Row, around: Surroundings) -> Iterator[Warning]:
    yield from (warn_of_excess(kind, row, excess) for excess in around.excesses(kind, row))


def warn_of_excess(kind: Kind, row: Row, excess: Excess) -> Warning:
    """The warning that a default is capped."""
    warning = warn(kind, row, WarningCode.DEFAULT_CAPPED, f"defaults.{excess.resource}", describe_excess(excess))
    # The row may say something else: what counts is who set the default, or else the limit.
    default = excess.default_origin.setting(kind.name, f"defaults.{excess.resource}")
    setting = default or excess.limit_origin.setting(kind.name, f"limits.{excess.resource}")
    return replace(warning, version=warning.version if setting else None, setting=setting)


def _outdated(kind: Kind, row: Row) -> Iterator[Warning]:
    """A row that was stored when its kind was declared otherwise."""
    if not kind.declared:
        return
    try:
        kind.read(row.payload)
    except Invalid as error:
        problem = error.problems[0]
        message = f"Was stored when {kind.name} was declared otherwise, and no longer fits: {problem} Write it anew."
        yield warn(kind, row, WarningCode.OUTDATED_PAYLOAD, problem.field, message)


def _zero_limits(kind: Kind, row: Row) -> Iterator[Warning]:
    if kind.name != TASK_RESOURCE.name:
        return
    for resource in zero_limits(row.payload.get("limits", {})):
        message = f"A limit of 0 lets nothing run that needs {resource}. Set limits.{resource} to null for no limit."
        yield warn(kind, row, WarningCode.ZERO_LIMIT, f"limits.{resource}", message)


def _unread(kind: Kind, row: Row) -> Iterator[Warning]:
    """One warning about all fields of a row that no part of Rainbow reads."""
    paths = kind.unread_among(kind.leaves(row.payload))
    if paths:
        yield warn(kind, row, WarningCode.UNREAD_FIELD, dotted(paths[0]), describe_unread(kind, paths))


def describe_unread(kind: Kind, paths: Sequence[Path]) -> str:
    """That no part of Rainbow reads some leaves, and what to use."""
    rest = len(paths) - _MOST_FIELDS
    fields = ", ".join(map(dotted, paths[:_MOST_FIELDS])) + (f" and {rest} more" if rest > 0 else "")
    verb, has, them = ("is", "has", "it") if len(paths) == 1 else ("are", "have", "them")
    if kind.name == TASK_RESOURCE.name:
        instead = " and ".join(f"{path[0]}.ephemeral_storage" for path in paths)
        return f"{fields} {verb} stored but {has} no effect; use {instead}."
    return f"{fields} {verb} passed to agents, but no engine of Rainbow reads {them}; one of your own may."


def check_row(kind: Kind, row: Row, around: Surroundings, *, refuse_unknown_names: bool) -> list[Warning]:
    """The warnings about a row among its surroundings; Invalid where it may not be stored."""
    _check_defaults(kind, row, around)
    warnings = warnings_of(kind, row, around)
    if refuse_unknown_names:
        unknown = [warning for warning in warnings if warning.code in UNKNOWN_NAME_CODES]
        unknown += unknown_names(kind, row, around.untold, suggests=False)
        raise_problems(
            [Problem(field=warning.field, reason=warning.message, closest=warning.closest) for warning in unknown]
        )
    return warnings


def _check_defaults(kind: Kind, row: Row, around: Surroundings) -> None:
    """Refuse a default of this row above the limit in force at its scope; inherited defaults are only capped."""
    problems = [
        Problem(
            field=f"defaults.{excess.resource}",
            reason=f"{excess.default} is above the limit of {excess.limit} set {excess.limit_origin}: "
            "lower the default or raise the limit.",
        )
        for excess in around.excesses(kind, row)
        if excess.default_origin.scope == row.scope
    ]
    raise_problems(problems)


def zero_limits(limits: Mapping[str, str | None]) -> list[str]:
    """The resources that every task needs and whose limit is 0; Flyte reads 0 as no limit at all."""
    return [
        resource
        for resource in ("cpu", "memory")
        if (limit := limits.get(resource)) is not None and parse_quantity(limit) == 0
    ]


def only_relieves(before: Payload, after: Payload) -> bool:
    """Whether a change of a row of resources only raises limits and lowers defaults, so that it caps nothing."""

    def rises(low: Payload, high: Payload, part: str) -> bool:
        least, most = low.get(part, {}), high.get(part, {})
        return least.keys() == most.keys() and all(_is_at_most(least[name], most[name]) for name in least)

    return rises(before, after, "limits") and rises(after, before, "defaults")


def _is_at_most(least: str | None, most: str | None) -> bool:
    """Whether an amount is not above another one; null, which unsets, is comparable only with itself."""
    if least is None or most is None:
        return least == most
    return parse_quantity(least) <= parse_quantity(most)


@dataclass(frozen=True, kw_only=True)
class Excess:
    """One effective default above the effective limit of the same resource."""

    resource: str
    default: str
    limit: str
    default_origin: Origin
    limit_origin: Origin

    @property
    def cause(self) -> tuple[str, Origin, Origin]:
        """What it follows from: scopes that have the same cause have the same excess."""
        return self.resource, self.default_origin, self.limit_origin

    @property
    def amounts(self) -> tuple[str, str, str]:
        """The resource, its default and its limit."""
        return self.resource, self.default, self.limit


def excesses_at(kind: Kind, scope: Scope, rows: Mapping[Scope, Row], platform: PlatformValues) -> list[Excess]:
    """The defaults above their limit that are in force at a scope."""
    if kind.name != TASK_RESOURCE.name:
        return []
    return list(excesses(effective_value(kind, scope, rows, platform.at(kind, scope.domain))))


def excesses(resolved: Resolved | EffectiveValue) -> Iterator[Excess]:
    """Every default of an effective value that is above its limit."""
    defaults, limits = resolved.value.get("defaults", {}), resolved.value.get("limits", {})
    for resource, default in defaults.items():
        limit = limits.get(resource)
        if limit is not None and parse_quantity(default) > parse_quantity(limit):
            yield Excess(
                resource=resource,
                default=default,
                limit=limit,
                default_origin=resolved.origins[("defaults", resource)],
                limit_origin=resolved.origins[("limits", resource)],
            )


def describe_excess(excess: Excess) -> str:
    """That a default is above its limit, where both are set, and what executions get."""
    return (
        f"The default {excess.resource} of {excess.default}, set {excess.default_origin}, is above "
        f"the limit of {excess.limit}, set {excess.limit_origin}; executions get {excess.limit}."
    )
