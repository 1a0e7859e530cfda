"""Rows without effect: settings that affect no execution, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from admin.core.executions.effective_settings import payload_of
from admin.core.executions.spec import target_of
from admin.core.jobs.job import task_type
from admin.core.problems import Path, dotted
from admin.core.settings import builtin_kinds as kinds
from admin.core.settings.kinds import Kind, Merge, NameList
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Level
from admin.core.settings.warnings import KnownNames, Warning, WarningCode, names_without_effect, warn

_EMPTY = {NameList.POOL: WarningCode.EMPTY_POOL, NameList.LABEL: WarningCode.EMPTY_LABEL}


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What decides whether one row has an effect."""

    known: KnownNames
    empty: KnownNames = field(default_factory=dict)  #: pools and labels without a cluster that can be chosen
    is_archived: bool = False  #: whether its project is
    pool: str | None = None  #: what the pool attribute at the same scope names
    overridden: Sequence[Path] = ()  #: its leaves that more specific rows override everywhere
    definition: Mapping[str, Any] = field(default_factory=dict)  #: the settings of the launch plan that it is for
    job: Mapping[str, Any] | None = None  #: of the workflow that it is for, where that is registered there


def no_effect(kind: Kind, row: Row, around: Circumstances) -> list[Warning]:
    """Every reason why a row, or a field of it, has no effect."""
    return [
        *_archived(kind, row, around),
        *names_without_effect(kind, row, around.known),
        *_empty_groups(kind, row, around),
        *_overridden(kind, row, around),
        *_outranked(kind, row, around),
        *_set_by_launch_plan(kind, row, around),
        *_ignored_by_job(kind, row, around),
    ]


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
    return [path for path in paths if path in (everywhere or ())]


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


def _overridden(kind: Kind, row: Row, around: Circumstances) -> Iterator[Warning]:
    if around.overridden:
        where = "in every domain" if row.scope.level is Level.PROJECT else "by every project"
        message = (
            f"{_listed(around.overridden)} is overridden {where}. Delete it here, or in one of the more specific rows."
        )
        yield warn(kind, row, WarningCode.OVERRIDDEN, dotted(around.overridden[0]), message)


def _outranked(kind: Kind, row: Row, around: Circumstances) -> Iterator[Warning]:
    if kind.name == kinds.EXECUTION_CLUSTER_LABEL.name and around.pool and row.payload.get("value"):
        message = f"The pool '{around.pool}' is set at the same scope and wins over the label. Delete one of the two."
        yield warn(kind, row, WarningCode.POOL_WINS, "value", message)


def _set_by_launch_plan(kind: Kind, row: Row, around: Circumstances) -> Iterator[Warning]:
    own_leaves = kind.leaves(payload_of(kind, around.definition))
    paths = list(kind.leaves(row.payload))
    overridden = paths if own_leaves and kind.merge is Merge.REPLACE else [path for path in paths if path in own_leaves]
    if kind.name in (kinds.EXECUTION_CLUSTER_LABEL.name, kinds.CLUSTER_ASSIGNMENT.name):
        target = target_of(around.definition)
        overridden = paths if target.pool or target.label else []
    if overridden:
        plan = row.scope.launch_plan
        message = f"The definition of launch plan '{plan}' says {_listed(overridden)} itself, and wins over attributes."
        yield warn(kind, row, WarningCode.LAUNCH_PLAN_SAYS, dotted(overridden[0]), message)


def _ignored_by_job(kind: Kind, row: Row, around: Circumstances) -> Iterator[Warning]:
    if around.job is None:
        return
    ignored = [path for path in kind.leaves(row.payload) if _is_ignored(kind, path, around.job)]
    if ignored:
        workflow = row.scope.workflow
        message = f"The job of workflow '{workflow}' says {_listed(ignored)} itself."
        if kind.name == kinds.PLUGIN_OVERRIDE.name:
            message = f"The job of workflow '{workflow}' is of the task type '{task_type(around.job)}'."
        yield warn(kind, row, WarningCode.IGNORED_BY_JOB, dotted(ignored[0]), f"{message} This does not reach it.")


#: The maps of the execution config that a job has too; its own entries win.
_JOB_MAPS = {"labels": "labels", "annotations": "annotations", "envs": "environment"}


def _is_ignored(kind: Kind, path: Path, job: Mapping[str, Any]) -> bool:
    """Whether a job has its own word on a leaf."""
    if kind.name == kinds.PLUGIN_OVERRIDE.name:
        return path[-1] != task_type(job)
    if kind.name == kinds.TASK_RESOURCE.name and path[0] == "defaults":
        resources = job.get("resources", {})
        return any(path[-1] in resources.get(part, {}) for part in ("requests", "limits"))
    if kind.name == kinds.WORKFLOW_EXECUTION_CONFIG.name and path[0] in _JOB_MAPS:
        return path[-1] in job.get(_JOB_MAPS[path[0]], {})
    return False


def _listed(paths: Iterable[Path]) -> str:
    return ", ".join(map(dotted, paths))
