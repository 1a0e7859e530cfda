"""Refused workflows: those that are registered and of which a limit refuses every run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.jobs.job import AboveLimit, above_limits
from admin.core.json_text import JsonObject
from admin.core.registrations import Identifier
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.kinds import NameList
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning, WarningCode, warn
from admin.services.context import Context
from admin.services.definitions import NAMES
from admin.store import attributes, registrations

#: Versions of workflows that are looked at for one row, and for several.
_MOST_VERSIONS, _MOST_VERSIONS_OF_MANY = 1000, 10_000
#: Rows of one change that are looked at.
_MOST_ROWS = 500
#: Workflows that a warning names; the others are counted.
_MOST_NAMED = 5


_Version = tuple[Identifier, JsonObject]  #: of a workflow, and its job


class _Refused(NamedTuple):
    """A workflow that asks for more than a limit."""

    id: Identifier
    excess: AboveLimit

    def __str__(self) -> str:
        return f"{self.id} ({self.excess.part}.{self.excess.resource} {self.excess.amount})"


def rows_with_limits(changes: Iterable[RowChange]) -> list[Row]:
    """The rows with limits among those that a change leaves."""
    written = [change for change in changes if change.kind == TASK_RESOURCE.name]
    return [row for row in rows_after((), written).values() if _limits(row)][:_MOST_ROWS]


def may_refuse(context: Context, changes: Iterable[RowChange]) -> bool:
    """Whether a change may have set a limit that refuses a workflow, as far as memory knows."""
    if not rows_with_limits(changes):
        return False
    _, names = context.known_names.latest(NAMES)
    return names is None or bool(names[NameList.WORKFLOW])


def refusal_warnings(
    context: Context, connection: Connection, rows: Sequence[Row], changes: Iterable[RowChange] = ()
) -> list[Warning]:
    """A warning about each limit of some rows that refuses every run of a workflow, once some changes are made.

    What counts is the version of a workflow that was registered last, which runs unless another one is named.
    """
    limiting = [row for row in rows if _limits(row)]
    if not limiting:
        return []
    scopes = {row.scope._replace(launch_plan="") for row in limiting}
    most = _MOST_VERSIONS if len(scopes) == 1 else _MOST_VERSIONS_OF_MANY
    versions = registrations.workflows_below(connection, scopes, most)
    newest = _newest_by_place(versions)
    asking = {row.scope: _asking_for_more(row, newest[_place(row)]) for row in limiting}
    if not any(asking.values()):
        return []
    affected = {_run_scope(row, id) for row in limiting for id, _ in asking[row.scope]}
    places = {(TASK_RESOURCE.name, place) for scope in affected for place in scope.chain()}
    written = [change for change in changes if change.kind == TASK_RESOURCE.name]
    around = rows_after(attributes.exactly(connection, places), written)
    warnings: list[Warning] = []
    for row in limiting:
        refused: dict[str, list[_Refused]] = defaultdict(list)
        for id, job in asking[row.scope]:
            for excess in _in_force(context, row, _run_scope(row, id), job, around):
                refused[excess.resource].append(_Refused(id, excess))
        warnings += _warnings(row, refused, is_complete=len(versions) < most)
    return warnings


def _limits(row: Row) -> Mapping[str, str | None]:
    limits: Mapping[str, str | None] = row.payload.get("limits") or {}
    return {resource: limit for resource, limit in limits.items() if limit is not None}


def _place(row: Row) -> tuple[str, str, str]:
    """The project, domain and workflow of a row; "" for any."""
    return row.scope.project, row.scope.domain, row.scope.workflow


def _asking_for_more(row: Row, workflows: Iterable[_Version]) -> list[_Version]:
    """The workflows that ask for more than a row's own limits, which other rows may override."""
    limits = _limits(row)
    return [(id, job) for id, job in workflows if any(above_limits(job, limits))]


def _newest_by_place(versions: Iterable[_Version]) -> Mapping[tuple[str, str, str], list[_Version]]:
    """The newest version of each workflow by each place whose settings apply to it."""
    newest: dict[tuple[str, str, str], _Version] = {}
    for id, job in versions:
        newest.setdefault((id.project, id.domain, id.name), (id, job))
    by_place: dict[tuple[str, str, str], list[_Version]] = defaultdict(list)
    for (project, domain, name), version in sorted(newest.items(), key=lambda item: item[0]):
        for place in ((project, domain, name), (project, domain, ""), (project, "", ""), ("", domain, "")):
            by_place[place].append(version)
    return by_place


def _run_scope(row: Row, id: Identifier) -> Scope:
    """Where the settings of a run of a workflow are resolved that a row applies to."""
    return Scope(id.domain, id.project, id.name, row.scope.launch_plan)


def _in_force(
    context: Context, row: Row, scope: Scope, job: JsonObject, around: Mapping[Scope, Row]
) -> Iterator[AboveLimit]:
    """What a job asks for beyond those limits of a row that no other row overrides at a scope."""
    settings = context.settings
    kind = settings.kinds[TASK_RESOURCE.name]
    allowed = resolve(kind, scope, around, settings.platform.at(kind, scope.domain))
    named: set[str] = set()
    for excess in above_limits(job, allowed.value.get("limits", {})):
        if allowed.origins["limits", excess.resource].scope == row.scope and excess.resource not in named:
            named.add(excess.resource)  # a request and the job's own limit are one reason
            yield excess


def _warnings(row: Row, refused: Mapping[str, Sequence[_Refused]], *, is_complete: bool) -> Iterator[Warning]:
    by = f" by launch plan '{row.scope.launch_plan}'" if row.scope.launch_plan else ""
    for resource, workflows in refused.items():
        number = len(workflows)
        counted = f"{'' if is_complete else 'at least '}{number} registered workflow{'' if number == 1 else 's'}"
        named = ", ".join(map(str, workflows[:_MOST_NAMED]))
        more = f" and {number - _MOST_NAMED} more" if number > _MOST_NAMED else ""
        limit = workflows[0].excess.limit
        message = (
            f"limits.{resource} of {limit} refuses every run{by} of {counted}: {named}{more}. Raise it, or register "
            "versions that ask for less."
        )
        yield warn(TASK_RESOURCE, row, WarningCode.ABOVE_LIMIT, f"limits.{resource}", message)
