"""Warnings: what is stored but questionable, for as long as it is so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from admin.core.executions.queues import Queue
from admin.core.fields import Path, dotted
from admin.core.fleet.definitions import Definition, Source
from admin.core.fleet.fleet import Fleet
from admin.core.problems import Invalid, closest, did_you_mean
from admin.core.settings.kinds import Kind, NameList
from admin.core.settings.origins import described
from admin.core.settings.platform import PlatformValues
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.scopes import PLATFORM, Level, Scope
from admin.core.settings.task_resources import excesses, zero_limits

KnownNames = Mapping[NameList, frozenset[str]]

_CODES = {
    NameList.LABEL: "unknown_label",
    NameList.POOL: "unknown_pool",
    NameList.QUEUE_TAG: "unknown_queue_tag",
    NameList.WORKFLOW: "unknown_workflow",
    NameList.LAUNCH_PLAN: "unknown_launch_plan",
}

#: The codes that `attributes.unknownNames: refuse` turns into errors.
UNKNOWN_NAME_CODES = frozenset(_CODES.values())


@dataclass(frozen=True, kw_only=True)
class Warning:
    """One thing about one row that its owner should know."""

    code: str
    message: str
    kind: str
    scope: Scope
    field: str
    closest: tuple[str, ...] = ()
    name: str = ""  #: of what belongs to no scope: a pool, a label, a cluster


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a row is judged against."""

    rows: Mapping[Scope, Row]  #: the rows of its kind that may touch it; its own among them
    domain_rows: tuple[Row, ...]  #: those of them that stand at domain level
    platform: PlatformValues
    known: KnownNames

    @classmethod
    def of(cls, rows: Iterable[Row], platform: PlatformValues, known: KnownNames) -> Surroundings:
        """The surroundings that some rows of one kind make."""
        by_scope = {row.scope: row for row in rows}
        domain_rows = tuple(row for row in by_scope.values() if row.scope.level is Level.DOMAIN)
        return cls(rows=by_scope, domain_rows=domain_rows, platform=platform, known=known)


def known_names(
    fleet: Fleet, queues: Iterable[Queue], workflows: Iterable[str], launch_plans: Iterable[str]
) -> KnownNames:
    """The names that a row may use without a warning."""
    return {
        NameList.POOL: frozenset(fleet.pools),
        NameList.LABEL: fleet.label_names(),  # a cluster's own name is a label too
        NameList.QUEUE_TAG: frozenset(tag for queue in queues for tag in queue.tags),
        NameList.WORKFLOW: frozenset(workflows),
        NameList.LAUNCH_PLAN: frozenset(launch_plans),
    }


def fleet_warnings(fleet: Fleet) -> list[Warning]:
    """Every warning about what the fleet is made of."""
    found = [
        _fleet_warning(
            "expected_cluster",
            group.definition,
            f"Nobody has declared cluster '{member.cluster}'; it counts as a cluster that is expected to register.",
        )
        for group in [*fleet.pools.values(), *fleet.labels.values()]
        for member in group.members
        if fleet.clusters[member.cluster].definition.source is Source.EXPECTED
    ]
    return found + [
        _fleet_warning(
            "shadowed_definition",
            one,
            f"Configuration declares the {one.kind.noun} '{one.name}' too, and wins. Delete one.",
        )
        for one in fleet.shadowed
    ]


def _fleet_warning(code: str, definition: Definition, message: str) -> Warning:
    return Warning(
        code=code, message=message, kind=definition.kind.value, scope=PLATFORM, field="members", name=definition.name
    )


def warnings_of(kind: Kind, row: Row, around: Surroundings) -> list[Warning]:
    """Every warning about one row."""
    return [
        *_unknown_names(kind, row, around.known),
        *_unknown_places(kind, row, around.known),
        *_overridden_domains(kind, row, around.domain_rows),
        *_capped_defaults(kind, row, around),
        *_odd_resources(kind, row),
        *_outdated(kind, row),
    ]


def _unknown_names(kind: Kind, row: Row, known: KnownNames) -> Iterator[Warning]:
    leaves = kind.leaves(row.payload)
    for path, list_of_names in kind.refers_to.items():
        for name in _names_in(leaves.get(path)):
            if name in known[list_of_names]:
                continue
            near = closest(name, known[list_of_names])
            yield Warning(
                code=_CODES[list_of_names],
                message=f"No {list_of_names.value} is called '{name}' yet.{did_you_mean(near)} "
                f"It takes effect once it is defined; until then executions that need it are refused.",
                kind=kind.name,
                scope=row.scope,
                field=dotted(path),
                closest=near,
            )


def _unknown_places(kind: Kind, row: Row, known: KnownNames) -> Iterator[Warning]:
    """A workflow or launch plan that nobody has registered yet, in this project or any other."""
    for field, list_of_names in (("workflow", NameList.WORKFLOW), ("launch_plan", NameList.LAUNCH_PLAN)):
        name = getattr(row.scope, field)
        if name and name not in known[list_of_names]:
            near = closest(name, known[list_of_names])
            yield Warning(
                code=_CODES[list_of_names],
                message=f"No {list_of_names.value} called '{name}' is registered yet.{did_you_mean(near)} "
                "It takes effect once one is.",
                kind=kind.name,
                scope=row.scope,
                field=field,
                closest=near,
            )


def _names_in(value: Any) -> list[str]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _overridden_domains(kind: Kind, row: Row, domain_rows: tuple[Row, ...]) -> Iterator[Warning]:
    """A project's row beats the rows of every domain, which few expect."""
    if row.scope.level is not Level.PROJECT:
        return
    mine = set(kind.leaves(row.payload))
    for other in domain_rows:
        lost = _lost(kind, mine, set(kind.leaves(other.payload)))
        if lost:
            yield Warning(
                code="overrides_domain",
                message=f"Overrides {', '.join(map(dotted, lost))} of {other.scope} for this project: a project's row "
                "is more specific than a domain's. Set it in single domains of the project if that is not meant.",
                kind=kind.name,
                scope=row.scope,
                field=dotted(lost[0]),
            )


def _lost(kind: Kind, mine: set[Path], theirs: set[Path]) -> list[Path]:
    return sorted(theirs if kind.merge.value == "replace" else mine & theirs)


def _capped_defaults(kind: Kind, row: Row, around: Surroundings) -> Iterator[Warning]:
    if kind.name != "TASK_RESOURCE":
        return
    resolved = resolve(kind, row.scope, around.rows, around.platform.at(kind, row.scope.domain))
    for excess in excesses(resolved):
        yield Warning(
            code="default_capped",
            message=f"The default {excess.resource} of {excess.default} ({described(excess.default_origin)}) is above "
            f"the limit of {excess.limit} ({described(excess.limit_origin)}); executions get {excess.limit}.",
            kind=kind.name,
            scope=row.scope,
            field=f"defaults.{excess.resource}",
        )


def _outdated(kind: Kind, row: Row) -> Iterator[Warning]:
    """A row that was stored when its kind was declared otherwise."""
    if not kind.declared:
        return
    try:
        kind.read(row.payload)
    except Invalid as invalid:
        problem = invalid.problems[0]
        yield Warning(
            code="outdated_payload",
            message=f"Was stored when {kind.name} was declared otherwise, and no longer fits: {problem} Write it anew.",
            kind=kind.name,
            scope=row.scope,
            field=problem.field,
        )


def _odd_resources(kind: Kind, row: Row) -> Iterator[Warning]:
    if kind.name != "TASK_RESOURCE":
        return
    for resource in zero_limits(row.payload.get("limits", {})):
        yield Warning(
            code="zero_limit",
            message=f"A limit of 0 lets nothing run that needs {resource}. Set limits.{resource} to null for no limit.",
            kind=kind.name,
            scope=row.scope,
            field=f"limits.{resource}",
        )
    for path in kind.leaves(row.payload):
        if path[-1] == "storage":
            yield Warning(
                code="unread_field",
                message=f"{dotted(path)} is stored but has no effect; use {path[0]}.ephemeral_storage.",
                kind=kind.name,
                scope=row.scope,
                field=dotted(path),
            )
