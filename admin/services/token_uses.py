"""Uses of a token pool: the launch plans, workflows and task types that ask for its tokens, and their executions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from admin.core.registrations import Identifier
from admin.core.settings.scopes import PLATFORM, Scope
from admin.services.context import Context
from admin.store import projects, token_requests
from admin.store.executions import ListedExecution
from admin.store.token_requests import RegisteredRequest

TOKEN_POOL = "token_pool"
#: Launch plans and workflows that are looked at, and those that are named.
_MOST, _NAMED = 1000, 100


@dataclass(frozen=True, kw_only=True)
class TokenRequest:
    """What asks for tokens of a pool: a task type of the configuration, a launch plan or a workflow."""

    scope: Scope = PLATFORM
    version: str | None = None  #: of the launch plan or workflow
    amount: int  #: how many tokens its runs need; 0 where it takes back what a broader statement asks for
    key: str | None = None  #: of the configuration, where that says how many
    run_workflow: Identifier | None = None  #: of a launch plan: whose job says how many
    is_refused: bool = False  #: whether its executions would be refused without the pool


@dataclass(frozen=True, kw_only=True)
class TokenRequests:
    """The requests for tokens of a pool that a caller may see."""

    first: Sequence[TokenRequest]
    workflows: int
    launch_plans: int
    refused: int  #: of the workflows and launch plans
    is_complete: bool  #: whether all launch plans and workflows were looked at


def find_token_requests(context: Context, connection: Connection, pool: str) -> TokenRequests:
    """What asks for tokens of a pool, of what the caller may see: task types, then launch plans and workflows."""
    by_type = {
        task_type: amounts[pool] for task_type, amounts in context.settings.rules.task_tokens.items() if pool in amounts
    }
    readable = context.access.scopes("workflows.read")
    registered = token_requests.registered(connection, pool, by_type, readable, _MOST + 1)
    archived = projects.archived_among(connection, {request.id.project for request in registered})
    is_checked = not context.settings.resource_manager.grants_everything

    def read() -> Iterator[TokenRequest]:
        for request in registered[:_MOST]:
            amount, key, workflow = _amount_of(request, pool, by_type)
            is_refused = is_checked and amount > 0 and request.id.project not in archived
            yield TokenRequest(
                scope=request.scope,
                version=request.id.version,
                amount=amount,
                key=key,
                run_workflow=workflow,
                is_refused=is_refused,
            )

    configured = [
        TokenRequest(amount=amount, key=_key(task_type, pool)) for task_type, amount in sorted(by_type.items())
    ]
    requests = list(read())
    plans = sum(bool(request.scope.launch_plan) for request in requests)
    return TokenRequests(
        first=[*configured, *requests][:_NAMED],
        workflows=len(requests) - plans,
        launch_plans=plans,
        refused=sum(request.is_refused for request in requests),
        is_complete=len(registered) <= _MOST,
    )


def unfinished_executions(
    context: Context, connection: Connection, pool: str, limit: int
) -> tuple[list[ListedExecution], bool]:
    """The newest executions that have not ended and need tokens of a pool, and whether these are all."""
    readable = context.access.scopes("executions.read")
    executions = token_requests.unfinished(connection, pool, readable, limit + 1)
    return executions[:limit], len(executions) <= limit


def _amount_of(
    request: RegisteredRequest, pool: str, by_type: dict[str, int]
) -> tuple[int, str | None, Identifier | None]:
    """How many tokens the runs of a launch plan or workflow need, and the key or workflow that says so for it."""
    if request.of_plan is not None:
        return request.of_plan, None, None
    if request.of_job is not None:
        return request.of_job, None, request.workflow if request.is_plan else None
    return by_type[request.task_type], _key(request.task_type, pool), None


def _key(task_type: str, pool: str) -> str:
    return f"resourcemanager.taskTypes.{task_type}.{pool}"
