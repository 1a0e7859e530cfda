"""Workflows and launch plans over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import authorship
from admin.core.registrations import ACTIVE, Identifier
from admin.messages.pages import key_of, parse_number, token_of, wrong_token
from admin.messages.registrations import (
    LaunchPlanAnswer,
    LaunchPlanRegistered,
    LaunchPlansAnswer,
    LaunchPlanStateBody,
    PlansQuery,
    RegisterBody,
    RegisterPlanBody,
    WorkflowAnswer,
    WorkflowRegistered,
    WorkflowsAnswer,
    versions_filter,
)
from admin.messages.requests import Fields, PageQuery, WriteQuery
from admin.services import registrations

operations = Operations("workflows")

MOST_BYTES = 4 * 1024 * 1024


@operations.add(
    "POST", "/workflows", query=WriteQuery, body=RegisterBody, permission="workflows.write", most_bytes=MOST_BYTES
)
def register_workflow(query: Fields, body: Fields) -> WorkflowRegistered:
    """Register a version of a workflow."""
    workflow, is_new = registrations.register_workflow(
        context(), body["id"], body["spec"], authorship=authorship(body), dry_run=query["dry_run"]
    )
    return WorkflowRegistered(
        workflow=WorkflowAnswer.from_registered(workflow),
        created=is_new,
        warnings=registrations.workflow_warnings(context(), workflow),
    )


@operations.add(
    "POST",
    "/launch_plans",
    query=WriteQuery,
    body=RegisterPlanBody,
    errors=(404,),
    permission="workflows.write",
    most_bytes=MOST_BYTES,
)
def register_launch_plan(query: Fields, body: Fields) -> LaunchPlanRegistered:
    """Register a version of a launch plan."""
    launch_plan, is_new = registrations.register_launch_plan(
        context(),
        body["id"],
        body["spec"],
        authorship=authorship(body),
        active=body["state"] == ACTIVE,
        dry_run=query["dry_run"],
    )
    return LaunchPlanRegistered(
        launch_plan=LaunchPlanAnswer.from_registered(launch_plan),
        created=is_new,
        warnings=registrations.launch_plan_warnings(context(), launch_plan),
    )


@operations.add("GET", "/workflows/<project>/<domain>/<name>/<version>", permission="workflows.read", errors=(404,))
def get_workflow(**key: str) -> WorkflowAnswer:
    """Read a version of a workflow, or the latest."""
    return WorkflowAnswer.from_registered(registrations.get_workflow(context(), Identifier(**key)))


@operations.add("GET", "/launch_plans/<project>/<domain>/<name>/<version>", permission="workflows.read", errors=(404,))
def get_launch_plan(**key: str) -> LaunchPlanAnswer:
    """Read a version of a launch plan, or the latest."""
    return LaunchPlanAnswer.from_registered(registrations.get_launch_plan(context(), Identifier(**key)))


@operations.add("GET", "/active_launch_plans/<project>/<domain>/<name>", permission="workflows.read", errors=(404,))
def get_active_launch_plan(**key: str) -> LaunchPlanAnswer:
    """Read the active version of a launch plan."""
    return LaunchPlanAnswer.from_registered(registrations.get_active(context(), Identifier(**key, version="")))


@operations.add(
    "PUT",
    "/launch_plans/<project>/<domain>/<name>/<version>",
    body=LaunchPlanStateBody,
    permission="workflows.write",
    errors=(404,),
)
def set_launch_plan_state(body: Fields, **key: str) -> LaunchPlanAnswer:
    """Activate or deactivate a version of a launch plan."""
    launch_plan, is_change = registrations.set_launch_plan_state(
        context(), Identifier(**key), body["state"], authorship(body)
    )
    return LaunchPlanAnswer.from_registered(launch_plan, changed=is_change)


def _key(token: str | None) -> tuple[str, int] | None:
    """Where a list goes on: after a name, at a row."""
    key = key_of(token, 2)
    return None if key is None else (key[0], parse_number(key[1], wrong_token()))


def _list_workflows(id: str, path: str, summary: str) -> None:
    @operations.add("GET", path, id=id, summary=summary, query=PageQuery, permission="workflows.read")
    def list_workflows(query: Fields, **key: str) -> WorkflowsAnswer:
        page, last = registrations.list_workflows(
            context(), versions_filter(key), _key(query.get("token")), query["limit"]
        )
        answers = [WorkflowAnswer.from_registered(workflow) for workflow in page]
        return WorkflowsAnswer(workflows=answers, token=token_of(last))


def _list_launch_plans(id: str, path: str, summary: str, state: str | None = None) -> None:
    @operations.add("GET", path, id=id, summary=summary, query=PlansQuery, permission="workflows.read")
    def list_launch_plans(query: Fields, **key: str) -> LaunchPlansAnswer:
        chosen = versions_filter(key, workflow=query.get("workflow"), search=query.get("search"), state=state)
        page, last = registrations.list_launch_plans(context(), chosen, _key(query.get("token")), query["limit"])
        answers = [LaunchPlanAnswer.from_registered(launch_plan) for launch_plan in page]
        return LaunchPlansAnswer(launch_plans=answers, token=token_of(last))


_list_workflows("list_workflows", "/workflows/<project>/<domain>", "List workflows, the newest version of each")
_list_workflows(
    "list_workflow_versions",
    "/workflows/<project>/<domain>/<name>",
    "List the versions of a workflow, newest first",
)
_list_launch_plans(
    "list_launch_plans", "/launch_plans/<project>/<domain>", "List launch plans, the newest version of each"
)
_list_launch_plans(
    "list_launch_plan_versions",
    "/launch_plans/<project>/<domain>/<name>",
    "List the versions of a launch plan, newest first",
)
_list_launch_plans(
    "list_active_launch_plans", "/active_launch_plans/<project>/<domain>", "List the active launch plans", ACTIVE
)
