"""Refused workflows: those that are registered and whose runs a limit refuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from sqlalchemy import Connection

from admin.core.changes import RowChange, rows_after
from admin.core.jobs.job import AboveLimit, above_limits
from admin.core.problems import list_first
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.kinds import NameList
from admin.core.settings.resolution import Row, resolve
from admin.core.settings.scopes import Scope
from admin.core.settings.warnings import Warning, WarningCode, warn
from admin.services.context import Context
from admin.services.definitions import NAMES
from admin.store import attributes, registrations
from admin.store.cache.launchables import KnownLaunchables, Launchable

#: Workflows and launch plans that a warning names; the others are counted.
_MOST_NAMED = 5

_ReadRows = Callable[[Collection[Scope]], Iterable[Row]]  #: the rows of task resources at some scopes


class _Refused(NamedTuple):
    """A workflow or launch plan whose runs ask for more than a limit."""

    launchable: Launchable
    excess: AboveLimit

    def __str__(self) -> str:
        scope, workflow = self.launchable.scope, self.launchable.workflow
        asked = f"{self.excess.part}.{self.excess.resource} {self.excess.amount}"
        if scope.launch_plan:
            return f"{scope.project}/{scope.domain}/{scope.launch_plan} ({workflow}, {asked})"
        return f"{workflow} ({asked})"


class Refusals:
    """Finds the limits that refuse runs of what is registered, as of one transaction."""

    def __init__(self, context: Context, connection: Connection, number: int | None = None) -> None:
        """The number is that of registrations, where it is known."""
        self._context = context
        self._connection = connection
        self._number = number

    @cached_property
    def _launchables(self) -> KnownLaunchables:
        number = registrations.number(self._connection) if self._number is None else self._number
        return self._context.launchables.at(self._connection, number)

    def warnings(self, rows: Iterable[Row], changes: Iterable[RowChange] = ()) -> list[Warning]:
        """A warning about each limit of some rows that refuses runs, once some changes are made."""

        def read(scopes: Collection[Scope]) -> Iterable[Row]:
            return attributes.exactly(self._connection, [(TASK_RESOURCE.name, scope) for scope in scopes])

        limiting = [row for row in rows if _limits(row)]
        return _find(self._context, limiting, changes, self._launchables, read) if limiting else []


def refusals_in_memory(context: Context, changes: Sequence[RowChange], revision: int) -> list[Warning] | None:
    """The same for the limits that a change has set as a revision; None where the database must be asked."""
    limiting = rows_with_limits(changes)
    if not limiting:
        return []
    version, names = context.known_names.latest(NAMES)
    if names is None or not isinstance(version, tuple):
        return None
    if not names[NameList.WORKFLOW]:
        return []
    launchables = context.launchables.latest(version[0])
    if launchables is None or context.index.revision < revision:
        return None

    def read(scopes: Collection[Scope]) -> Iterable[Row]:
        return context.index.rows(TASK_RESOURCE.name, scopes)

    return _find(context, limiting, changes, launchables, read)


def rows_with_limits(changes: Iterable[RowChange]) -> list[Row]:
    """The rows with limits among those that a change leaves."""
    written = [change for change in changes if change.kind == TASK_RESOURCE.name]
    return [row for row in rows_after((), written).values() if _limits(row)]


def _find(
    context: Context,
    limiting: Sequence[Row],
    changes: Iterable[RowChange],
    launchables: KnownLaunchables,
    read: _ReadRows,
) -> list[Warning]:
    readable = partial(context.access.allows, "workflows.read")
    asking = {
        row.scope: [
            launchable
            for launchable in _asking_for_more(row, launchables.by_path.get(row.scope.path, ()))
            if readable(launchable.scope)
        ]
        for row in limiting
    }
    scopes = {scope for asking_here in asking.values() for each in asking_here for scope in each.scope.chain()}
    if not scopes:
        return []
    written = [change for change in changes if change.kind == TASK_RESOURCE.name]
    around = rows_after(read(scopes), written)
    warnings: list[Warning] = []
    for row in limiting:
        refused: dict[str, list[_Refused]] = defaultdict(list)
        for launchable in asking[row.scope]:
            for excess in _in_force(context, row, launchable, around):
                refused[excess.resource].append(_Refused(launchable, excess))
        for resource, refused_here in refused.items():
            warnings += _warnings(row, resource, refused_here, is_complete=launchables.is_complete)
    return warnings


def _limits(row: Row) -> Mapping[str, str | None]:
    limits: Mapping[str, str | None] = row.payload.get("limits") or {}
    return {resource: limit for resource, limit in limits.items() if limit is not None}


def _asking_for_more(row: Row, launchables: Iterable[Launchable]) -> list[Launchable]:
    """Those that ask for more than a row's own limits, which other rows may override."""
    limits = _limits(row)
    return [launchable for launchable in launchables if any(above_limits(launchable.asked, limits))]


def _in_force(context: Context, row: Row, launchable: Launchable, around: Mapping[Scope, Row]) -> Iterator[AboveLimit]:
    """What a launchable asks for beyond those limits of a row that no other row overrides at its scope."""
    settings, scope = context.settings, launchable.scope
    kind = settings.kinds[TASK_RESOURCE.name]
    allowed = resolve(kind, scope, around, settings.platform.at(kind, scope.domain))
    named: set[str] = set()
    for excess in above_limits(launchable.asked, allowed.value.get("limits", {})):
        if allowed.origins["limits", excess.resource].scope == row.scope and excess.resource not in named:
            named.add(excess.resource)  # a request and the job's own limit are one reason
            yield excess


def _warnings(row: Row, resource: str, refused: Sequence[_Refused], *, is_complete: bool) -> Iterator[Warning]:
    workflows = [each for each in refused if not each.launchable.scope.launch_plan]
    # A launch plan that runs the newest version is refused with its workflow, and named with it.
    newest = {each.launchable.workflow for each in workflows}
    of_plans = [each for each in refused if each.launchable.scope.launch_plan]
    launch_plans = [each for each in of_plans if each.launchable.workflow not in newest]
    of_newest = [each for each in of_plans if each.launchable.workflow in newest]
    active = [each for each in launch_plans if each.launchable.is_active]
    inactive = [each for each in launch_plans if not each.launchable.is_active]
    limit = refused[0].excess.limit
    for which, noun, remedy, entries in (
        ("of the newest version", "of {} registered workflow", "register versions that ask for less", workflows),
        ("by the active version", "of {} launch plan", "activate versions whose workflow asks for less", active),
        (
            "by the newest version, for none is active,",
            "of {} launch plan",
            "activate versions whose workflow asks for less",
            inactive,
        ),
    ):
        if entries:
            number = len(entries)
            counted = noun.format(f"{'' if is_complete else 'at least '}{number}") + ("" if number == 1 else "s")
            named = list_first(entries, _MOST_NAMED) + (_with_plans(entries, of_newest) if entries is workflows else "")
            message = f"limits.{resource} of {limit} refuses runs {which} {counted}: {named}. Raise it, or {remedy}."
            yield warn(TASK_RESOURCE, row, WarningCode.ABOVE_LIMIT, f"limits.{resource}", message)


def _with_plans(workflows: Sequence[_Refused], launch_plans: Sequence[_Refused]) -> str:
    """That launch plans are refused with their workflows, and at how many scopes runs are refused so."""
    if not launch_plans:
        return ""
    scopes = [each.launchable.scope for each in launch_plans]
    named = list_first([f"{scope.project}/{scope.domain}/{scope.launch_plan}" for scope in scopes], _MOST_NAMED)
    plans = "1 launch plan" if len(scopes) == 1 else f"{len(scopes)} launch plans"
    return f"; and by {plans}, {len(workflows) + len(scopes)} scopes in all: {named}"
