"""What asks for tokens of a pool: registered launch plans and workflows, and executions that have not ended."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, and_, case, func, or_, select, true

from admin.core.jobs.job import TASK_TYPE_OF_COMMANDS, TASK_TYPE_OF_IMAGES
from admin.core.json_text import json_string
from admin.core.registrations import Identifier
from admin.core.settings.scopes import Scope
from admin.store.execution_tables import executions
from admin.store.executions import OPEN, ListedExecution
from admin.store.keys import is_within
from admin.store.registration_tables import IS_ACTIVE, KEY, PLACE, is_registered_within, launch_plans, workflows
from admin.store.sql_types import AnyColumn, build

_JOB_TYPE = func.coalesce(
    workflows.c.spec["job", "task_type"].as_string(),
    case((workflows.c.spec["job", "image"].as_string().is_not(None), TASK_TYPE_OF_IMAGES), else_=TASK_TYPE_OF_COMMANDS),
).label("task_type")
_RUNS = and_(*(launch_plans.c.spec["workflow_id", name].as_string() == workflows.c[name] for name in KEY))
_executions = executions.c
# What an execution launches may be registered elsewhere, so that rights at workflows are none to its runs.
_PLACE_OF_RUN: dict[str, AnyColumn] = {"project": _executions.project, "domain": _executions.domain}


@dataclass(frozen=True, kw_only=True)
class RegisteredRequest:
    """An active launch plan or the newest version of a workflow, with the statements that ask for tokens of a pool."""

    id: Identifier
    workflow: Identifier  #: the version that runs
    is_plan: bool
    of_plan: int | None  #: how many tokens its definition asks for; None where it says nothing
    of_job: int | None
    task_type: str

    @property
    def scope(self) -> Scope:
        plan = self.id.name if self.is_plan else ""
        return Scope(self.id.domain, self.id.project, self.workflow.name, plan)


def registered(
    connection: Connection, pool: str, task_types: Collection[str], within: frozenset[Scope] | None, limit: int
) -> list[RegisteredRequest]:
    """Launch plans and then workflows that ask for a pool by themselves, by their jobs or by the types of these."""
    of_plan = launch_plans.c.spec["token_pools", pool].as_integer()
    of_job = workflows.c.spec["job", "token_pools", pool].as_integer()
    asks_by_job = or_(of_job.is_not(None), _JOB_TYPE.in_(list(task_types)))
    versions: list[AnyColumn] = [workflows.c[name].label(f"run_{name}") for name in KEY]
    others: list[AnyColumn] = [*versions, of_job.label("of_job"), _JOB_TYPE]
    plans = (
        select(*(launch_plans.c[name] for name in KEY), of_plan.label("of_plan"), *others)
        .join(workflows, _RUNS)
        .where(IS_ACTIVE, or_(of_plan.is_not(None), asks_by_job), _is_seen(launch_plans, within))
        .order_by(*(launch_plans.c[name] for name in PLACE))
        .limit(limit)
    )
    newest = select(func.max(workflows.c.id)).group_by(*(workflows.c[name] for name in PLACE))
    alone = (
        select(*(workflows.c[name] for name in KEY), *others)
        .where(asks_by_job, workflows.c.id.in_(newest), _is_seen(workflows, within))
        .order_by(*(workflows.c[name] for name in PLACE))
        .limit(limit)
    )
    requests = []
    for is_plan, query in ((True, plans), (False, alone)):
        for row in connection.execute(query):
            workflow = Identifier(**{name: getattr(row, f"run_{name}") for name in KEY})
            amount = row.of_plan if is_plan else None
            identity = {"id": build(Identifier, row), "workflow": workflow, "is_plan": is_plan}
            requests.append(build(RegisteredRequest, row, **identity, of_plan=amount))
    return requests[:limit]


def _is_seen(table: Table, within: frozenset[Scope] | None) -> ColumnElement[bool]:
    return true() if within is None else is_registered_within(table, within)


def unfinished(connection: Connection, pool: str, within: frozenset[Scope] | None, limit: int) -> list[ListedExecution]:
    """The newest executions that have not ended and need tokens of a pool; not found along the ids of all."""
    query = (
        select(*(_executions[name] for name in ListedExecution._fields))
        .where(_needs(pool), true() if within is None else is_within(_PLACE_OF_RUN, within))
        .order_by((_executions.id + 0).desc())
        .limit(limit)
    )
    return [ListedExecution._make(row) for row in connection.execute(query)]


def count_unfinished(connection: Connection, pool: str) -> int:
    """How many executions have not ended and need tokens of a pool."""
    return connection.execute(select(func.count()).where(_needs(pool))).scalar_one()


def _needs(pool: str) -> ColumnElement[bool]:
    asks = _executions.token_pools.contains(json_string(pool), autoescape=True)
    return and_(_executions.token_pools.is_not(None), OPEN, asks)
