"""Launchables: what runs that name no version would run, and the amounts that it asks for, in memory."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, exists, func, literal_column, select

from admin.core.jobs.job import AskedAmount, asked_amounts
from admin.core.json_text import JsonObject
from admin.core.registrations import ACTIVE, Identifier
from admin.core.settings.scopes import Scope
from admin.store import active_plans
from admin.store.keys import KeyedQuery
from admin.store.registration_tables import KEY, PLACE, keys_of, launch_plans, workflows
from admin.store.sql_types import build

#: Workflows, active launch plans and those without an active version that are kept: those that were registered last.
_MOST = 20_000
#: Those that are read at once.
_CHUNK = 1000
#: Of very many workflows only what they ask for is read, and not all of their jobs.
_KEY_COLUMNS = [workflows.c[name] for name in KEY]
_RESOURCES = select(*_KEY_COLUMNS, workflows.c.id, workflows.c.spec["job", "resources"].label("resources"))
_RESOURCES_OF = KeyedQuery(_RESOURCES, _KEY_COLUMNS)


class Launchable(NamedTuple):
    """The newest version of a workflow, or the version that the active version of a launch plan runs, or its newest."""

    scope: Scope  #: where the settings of its runs are resolved
    workflow: Identifier
    asked: tuple[AskedAmount, ...]
    is_active: bool = True  #: False for a launch plan without an active version, whose newest one is run


_ById = Mapping[int, Launchable]  #: by the number of the row of a workflow or launch plan


@dataclass(frozen=True, kw_only=True)
class KnownLaunchables:
    """The launchables as of a number of registrations."""

    number: int
    is_complete: bool  #: False where there are more than are kept
    workflows: _ById
    launch_plans: _ById  #: the active ones
    inactive_plans: _ById  #: those without an active version
    by_path: Mapping[str, Sequence[Launchable]]  #: those that ask for something, by the path of each scope that applies


class Launchables:
    """The launchables of the last number of registrations that was asked for."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._known: KnownLaunchables | None = None
        self._reading = threading.Lock()  #: so that they are read once where several requests need them

    def latest(self, number: int) -> KnownLaunchables | None:
        """Those of a number of registrations; None where they are not in memory."""
        known = self._known
        return known if known is not None and known.number == number else None

    def at(self, connection: Connection, number: int) -> KnownLaunchables:
        """Those of a transaction and its number of registrations, from memory where they are known.

        No version is ever edited, so only those are read that came since.
        """
        with self._reading:
            known = self._known
            if known is None or known.number > number:  # the database may have been restored, and count again
                known = KnownLaunchables(
                    number=-1, is_complete=True, workflows={}, launch_plans={}, inactive_plans={}, by_path={}
                )
            if known.number != number:
                known = self._read(connection, number, known)
                self._known = known
            return known

    def _read(self, connection: Connection, number: int, before: KnownLaunchables) -> KnownLaunchables:
        shared = {launchable.asked: launchable.asked for launchable in before.workflows.values()}

        def load(
            ids: list[int], kept: _ById, read: Callable[[Connection, Iterable[int]], Iterator[tuple[int, Launchable]]]
        ) -> _ById:
            launchables = {id: kept[id] for id in ids if id in kept}
            missing = [id for id in ids if id not in kept]
            for start in range(0, len(missing), _CHUNK):
                for id, new in read(connection, missing[start : start + _CHUNK]):
                    launchables[id] = new._replace(asked=shared.setdefault(new.asked, new.asked))
            return launchables

        workflow_ids = _newest_ids(connection, self._most + 1)
        plan_ids = active_plans.newest_ids(connection, self._most + 1)
        inactive_ids = _inactive_plan_ids(connection, self._most + 1)
        workflows = load(workflow_ids[: self._most], before.workflows, _newest_workflows)
        launch_plans = load(plan_ids[: self._most], before.launch_plans, _plans)
        inactive = load(inactive_ids[: self._most], before.inactive_plans, _plans)
        inactive = {id: launchable._replace(is_active=False) for id, launchable in inactive.items()}
        return KnownLaunchables(
            number=number,
            is_complete=max(len(workflow_ids), len(plan_ids), len(inactive_ids)) <= self._most,
            workflows=workflows,
            launch_plans=launch_plans,
            inactive_plans=inactive,
            by_path=_by_path([*workflows.values(), *launch_plans.values(), *inactive.values()]),
        )


def _newest_ids(connection: Connection, limit: int) -> list[int]:
    """The numbers of the rows with the newest version of each workflow, those registered last first."""
    newest = func.max(workflows.c.id)
    query = select(newest).group_by(*(workflows.c[name] for name in PLACE)).order_by(newest.desc()).limit(limit)
    return list(connection.execute(query).scalars())


def _inactive_plan_ids(connection: Connection, limit: int) -> list[int]:
    """The numbers of the rows with the newest version of each launch plan of which none is active, newest first."""
    newest, active = func.max(launch_plans.c.id), launch_plans.alias("active").c
    is_active = exists().where(
        active.state == literal_column(f"'{ACTIVE}'"), *(active[name] == launch_plans.c[name] for name in PLACE)
    )
    query = select(newest).where(~is_active).group_by(*(launch_plans.c[name] for name in PLACE))
    return list(connection.execute(query.order_by(newest.desc()).limit(limit)).scalars())


def resources_of_rows(connection: Connection, ids: Iterable[int]) -> list[tuple[int, Identifier, JsonObject]]:
    """What the jobs of workflows ask for, by the numbers of their rows."""
    rows = connection.execute(_RESOURCES.where(workflows.c.id.in_(ids)))
    return [(row.id, build(Identifier, row), row.resources or {}) for row in rows]


def _resources_of(connection: Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, JsonObject]:
    """What the jobs of some versions of workflows ask for."""
    keys = keys_of(identifiers)
    rows = _RESOURCES_OF.execute(connection, keys) if keys else ()
    return {build(Identifier, row): row.resources or {} for row in rows}


def _newest_workflows(connection: Connection, ids: Iterable[int]) -> Iterator[tuple[int, Launchable]]:
    for id, workflow, resources in resources_of_rows(connection, ids):
        scope = Scope(workflow.domain, workflow.project, workflow.name)
        yield id, Launchable(scope, workflow, asked_amounts({"resources": resources}))


def _plans(connection: Connection, ids: Iterable[int]) -> Iterator[tuple[int, Launchable]]:
    plans = active_plans.workflows_of_rows(connection, ids)
    resources = _resources_of(connection, {workflow for _, _, workflow in plans})
    for id, plan, workflow in plans:
        scope = Scope(plan.domain, plan.project, workflow.name, plan.name)
        yield id, Launchable(scope, workflow, asked_amounts({"resources": resources.get(workflow, {})}))


def _by_path(launchables: Iterable[Launchable]) -> Mapping[str, Sequence[Launchable]]:
    by_path: dict[str, list[Launchable]] = defaultdict(list)
    for launchable in sorted(launchables, key=lambda launchable: launchable.scope.sort_key):
        if launchable.asked:
            for path in launchable.scope.paths():
                by_path[path].append(launchable)
    return dict(by_path)
