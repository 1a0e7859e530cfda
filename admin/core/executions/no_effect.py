"""Rows without effect: settings that affect no execution, each with the reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from admin.core.cluster_resources.untaken import describe_untaken
from admin.core.executions.own_settings import definition_message, definition_paths, job_message, job_paths
from admin.core.problems import Path, dotted
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings.kinds import Kind, Merge, NameList
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level, Scope
from admin.core.settings.warnings import (
    KnownNames,
    Warning,
    WarningCode,
    describe_unread,
    unknown_names,
    unknown_scopes,
    warn,
)

_EMPTY = {NameList.POOL: WarningCode.EMPTY_POOL, NameList.LABEL: WarningCode.EMPTY_LABEL}


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What decides whether one row has an effect."""

    known: KnownNames
    empty: KnownNames = field(default_factory=dict)  #: pools and labels without a cluster that can be chosen
    is_archived: bool = False  #: whether its project is
    is_untaken: bool = False  #: whether it is for clusters that make namespaces, and none does
    pool: str | None = None  #: what the pool attribute at the same scope names
    overridden: Sequence[Path] = ()  #: its leaves that more specific rows override everywhere
    tighter: Mapping[Path, Scope] = field(default_factory=dict)  #: a broader row for each leaf that it bounds first
    loose: Mapping[Path, str] = field(default_factory=dict)  #: why each quota of tokens never binds that does not
    tokens_off: str = ""  #: why no quota of tokens has an effect, where that is so
    definition: Mapping[str, Any] = field(default_factory=dict)  #: the settings of the launch plan that it is for
    jobs: Sequence[Mapping[str, Any]] = ()  #: those that run under it: of each version of its workflow that is run


def no_effect(kind: Kind, row: Row, around: Circumstances) -> list[Warning]:
    """Why a row has no effect, or which of its fields have none: one reason for each field.

    The reason is the one that decides while the others hold as well: a label that a pool outranks is not used, whether
    or not it is known.
    """
    # Claims of tokens may name any workflow.
    scopes = () if kind is kinds.TOKEN_POOL_QUOTA else unknown_scopes(kind, row, around.known)
    if row_warnings := [*_archived(kind, row, around)] or [*scopes]:
        every = tuple(map(dotted, kind.leaves(row.payload)))
        return [replace(warning, fields=every) for warning in row_warnings]
    left = list(kind.leaves(row.payload))
    warnings: list[Warning] = []
    for reason in _REASONS:
        paths = reason.paths(kind, row, around)
        covered = [path for path in left if path in paths]
        if covered:
            warning = warn(kind, row, reason.code, dotted(covered[0]), reason.message(kind, row, around, covered))
            warnings.append(replace(warning, fields=tuple(map(dotted, covered))))
            left = [path for path in left if path not in covered]
    fields = {dotted(path) for path in left}
    unknown = [_refusing(kind, row, warning, around) for warning in unknown_names(kind, row, around.known)]
    names = [*unknown, *_empty_groups(kind, row, around)]
    return [*warnings, *(replace(warning, fields=(warning.field,)) for warning in names if warning.field in fields)]


#: What executions are refused for.
_REFUSING = (WarningCode.UNKNOWN_POOL, WarningCode.UNKNOWN_LABEL, WarningCode.UNKNOWN_QUEUE_TAG)


def _refusing(kind: Kind, row: Row, warning: Warning, around: Circumstances) -> Warning:
    """A warning about an unknown name that says that executions are refused; of tags, one that is known is enough."""
    value = kind.leaves(row.payload).get(tuple(warning.field.split(".")))
    names = around.known.get(kind.refers_to.get(tuple(warning.field.split(".")), NameList.POOL), ())
    if warning.code not in _REFUSING or (isinstance(value, list) and any(name in names for name in value)):
        return warning
    message = (
        f"{warning.message} This does harm: executions at {row.scope} that follow it are refused until the name is "
        "defined, or the setting changed or deleted."
    )
    return replace(warning, message=message, refuses=True)


def tighter_above(kind: Kind, row: Row, applying: Mapping[Scope, Row]) -> dict[Path, Scope]:
    """The quotas of a row that never bind, each with the broader row that is at least as tight.

    `applying` has the rows of the kind that apply at its scope; all that counts for a row counts for these too.
    """
    tighter: dict[Path, Scope] = {}
    leaves = kind.leaves(row.payload)
    broader = [applying[scope] for scope in row.scope.chain()[:-1] if scope in applying]
    for other in broader if kind.is_quota else ():
        bounds = {path: value for path, value in kind.leaves(other.payload).items() if kind.is_bound(path)}
        for path in leaves.keys() & bounds.keys() - tighter.keys():
            if kind.worth(path, bounds[path]) <= kind.worth(path, leaves[path]):
                tighter[path] = other.scope
    return tighter


def overridden_leaves(kind: Kind, row: Row, overriding: Iterable[Sequence[Row | None]]) -> list[Path]:
    """The leaves of a row that are overridden everywhere.

    `overriding` has, for each place right below, the more specific rows that apply there; it is read until each leaf is
    effective somewhere. Without places nothing is said.
    """
    paths = kind.leaves(row.payload)
    everywhere: set[Path] | None = None
    for rows in overriding:
        present = [other for other in rows if other is not None]
        replaced = paths.keys() if kind.merge is Merge.REPLACE and present else set[Path]()
        overridden = {path for other in present for path in kind.leaves(other.payload)}.union(replaced)
        everywhere = overridden.intersection(paths if everywhere is None else everywhere)
        if not everywhere:
            break
    return [path for path in paths if path in (everywhere or ()) and not kind.is_bound(path)]


def _archived(kind: Kind, row: Row, around: Circumstances) -> Iterator[Warning]:
    if around.is_archived:
        project = row.scope.project
        message = f"Project '{project}' is archived, so that nothing runs in it. Activate it, or delete the row."
        yield warn(kind, row, WarningCode.ARCHIVED_PROJECT, "project", message)


def _empty_groups(kind: Kind, row: Row, around: Circumstances) -> Iterator[Warning]:
    leaves = kind.leaves(row.payload)
    for path, name_list in kind.refers_to.items():
        name = leaves.get(path)
        if name_list in _EMPTY and name in around.empty.get(name_list, ()):
            noun = name_list.value
            message = f"The {noun} '{name}' has no cluster that is enabled and has a weight above 0."
            yield warn(kind, row, _EMPTY[name_list], dotted(path), message)


class _Reason(NamedTuple):
    """A reason why fields of a row have no effect."""

    code: WarningCode
    paths: Callable[[Kind, Row, Circumstances], Collection[Path]]  #: the leaves of the row that it holds for
    message: Callable[[Kind, Row, Circumstances, Sequence[Path]], str]  #: about some of them


def _overridden_message(_kind: Kind, row: Row, _around: Circumstances, paths: Sequence[Path]) -> str:
    where = "in every domain" if row.scope.level is Level.PROJECT else "by every project"
    return f"{_listed(paths)} is overridden {where}. Delete it at {row.scope}, or one of the more specific rows."


def _tighter_message(kind: Kind, row: Row, around: Circumstances, paths: Sequence[Path]) -> str:
    scopes = sorted({around.tighter[path] for path in paths})
    where = " and ".join(str(scope) for scope in scopes)
    return f"{_listed(paths)} never binds: the {kind.noun} at {where} is as tight or tighter. Delete it at {row.scope}."


def _off_paths(kind: Kind, row: Row, around: Circumstances) -> Collection[Path]:
    return kind.leaves(row.payload) if kind is kinds.TOKEN_POOL_QUOTA and around.tokens_off else ()


def _loose_message(_kind: Kind, _row: Row, around: Circumstances, paths: Sequence[Path]) -> str:
    return " ".join(dict.fromkeys(around.loose[path] for path in paths))


def _outranked_paths(kind: Kind, row: Row, around: Circumstances) -> Collection[Path]:
    is_label = kind.name == kinds.EXECUTION_CLUSTER_LABEL.name
    return [("value",)] if is_label and around.pool and row.payload.get("value") else []


def _outranked_message(_kind: Kind, _row: Row, around: Circumstances, _paths: Sequence[Path]) -> str:
    return f"The pool '{around.pool}' is set at the same scope and wins over the label. Delete one of the two."


def _launch_plan_paths(kind: Kind, row: Row, around: Circumstances) -> Collection[Path]:
    return definition_paths(kind, kind.leaves(row.payload), around.definition)


def _launch_plan_message(_kind: Kind, row: Row, _around: Circumstances, paths: Sequence[Path]) -> str:
    return definition_message(row.scope.launch_plan, paths)


def _job_paths(kind: Kind, row: Row, around: Circumstances) -> Collection[Path]:
    return job_paths(kind, kind.leaves(row.payload), around.jobs)


def _job_message(kind: Kind, row: Row, around: Circumstances, paths: Sequence[Path]) -> str:
    return job_message(kind, row.scope.workflow, around.jobs, paths)


def _unread_paths(kind: Kind, row: Row, _around: Circumstances) -> Collection[Path]:
    return kind.unread_among(kind.leaves(row.payload))


def _unread_message(kind: Kind, _row: Row, _around: Circumstances, paths: Sequence[Path]) -> str:
    return describe_unread(kind, paths)


def _untaken_paths(kind: Kind, row: Row, around: Circumstances) -> Collection[Path]:
    return kind.leaves(row.payload) if around.is_untaken else ()


def _untaken_message(_kind: Kind, row: Row, _around: Circumstances, _paths: Sequence[Path]) -> str:
    return describe_untaken(row.scope, row.payload.get("attributes", {}))


#: The reasons that hold for single fields, the one that decides first.
_REASONS = (
    _Reason(WarningCode.TOKENS_OFF, _off_paths, lambda _kind, _row, around, _paths: around.tokens_off),
    _Reason(WarningCode.LAUNCH_PLAN_SAYS, _launch_plan_paths, _launch_plan_message),
    _Reason(WarningCode.NO_NAMESPACES, _untaken_paths, _untaken_message),
    _Reason(WarningCode.OVERRIDDEN, lambda _kind, _row, around: around.overridden, _overridden_message),
    _Reason(WarningCode.TIGHTER_ABOVE, lambda _kind, _row, around: around.tighter, _tighter_message),
    _Reason(WarningCode.LOOSE_CAP, lambda _kind, _row, around: around.loose, _loose_message),
    _Reason(WarningCode.POOL_WINS, _outranked_paths, _outranked_message),
    _Reason(WarningCode.IGNORED_BY_JOB, _job_paths, _job_message),
    _Reason(WarningCode.UNREAD_FIELD, _unread_paths, _unread_message),
)


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(map(dotted, paths))
