"""Create: a launch plan or an ad hoc job, with "where would it run?" answered before anything is created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from admin.console.answers import ask, asked_query
from admin.console.commands import create_options, tried_and_done
from admin.console.fields import Field, input_field, read_form, shown
from admin.console.filters import page
from admin.console.pages import Pages, Shown, go_to, render
from admin.console.suggestions import suggestions
from admin.console.tries import Tried, nested, tried
from admin.core.placement.scores import STRATEGIES
from admin.core.problems import invalid

pages = Pages("creations")

_PLACE = (
    Field("spec.cluster_assignment.cluster_pool_name", "Pool", suggestions="pools"),
    Field("spec.execution_cluster_label.value", "Label", suggestions="labels"),
    Field("spec.cluster", "Cluster", suggestions="clusters"),
    Field("spec.strategy", "Strategy", "choice", words=tuple(STRATEGIES), hint="In place of the pool's."),
)
_WHERE = (
    Field("project", "Project", required=True, suggestions="projects"),
    Field("domain", "Domain", required=True, suggestions="domains"),
    Field("name", "Name", hint="Generated if left empty."),
)
_JOB = (
    Field("spec.job.command", "Command", "words", hint="The program and its arguments, quoted as in a shell."),
    Field("spec.job.image", "Image"),
    Field("spec.job.resources.requests.cpu", "CPU", hint="Of each task: 2 or 500m."),
    Field("spec.job.resources.requests.memory", "Memory", hint="Of each task: 4Gi."),
    Field("spec.job.resources.requests.gpu", "GPUs"),
    Field("spec.job.resources.nodes", "Nodes", "integer"),
    Field("spec.job.resources.tasks", "Tasks", "integer"),
    Field("spec.job.resources.duration", "Time limit", hint="90s or 1h."),
    Field("spec.job.environment", "Environment", "pairs", hint="One KEY=VALUE a line."),
    Field("spec.job.outputs", "Outputs", "yaml", hint="Small files to bring back: [result.json]."),
)
_MORE = (
    Field("spec.retry.attempts", "Attempts", "integer"),
    Field("spec.retry.on_lost", "If its cluster is lost", "choice", words=("wait", "fail", "retry")),
    Field("spec.labels.values", "Labels", "pairs", hint="One KEY=VALUE a line."),
    Field("spec.token_pools", "Tokens", "yaml", hint="By token pool: {hive: 2}."),
)
#: What the form has no field of its own for, of the spec that an execution had which another is to be like.
_REST = Field("rest", "Everything else", "map", hint="Of `spec` as REST takes it: {annotations: {values: {a: b}}}.")
_PAGE_SIZE = 50
_SUGGESTED = ("projects", "domains", "pools", "labels", "clusters")


@pages.add("GET", "/create", permission="executions.create", shows_some=True)
def show_create() -> str:
    """The form: of an ad hoc job, of a launch plan, or of a job like that of an execution."""
    query = asked_query("project", "domain", "launch_plan", "version", "like")
    plan = _plan(query)
    values: dict[str, str] = {str(name): query[name] for name in ("project", "domain") if name in query}
    if like := query.get("like"):
        values = _like(like)
    return _create_page(values, plan)


@pages.add("GET", "/create/launch-plans", permission="workflows.read", shows_some=True)
def choose_launch_plan() -> str:
    """The launch plans of a project and domain."""
    query = asked_query("project", "domain", "search", "token")
    listed = None
    if query.get("project") and query.get("domain"):
        path = {"project": query["project"], "domain": query["domain"]}
        asked: dict[str, Any] = {"limit": _PAGE_SIZE, "search": query.get("search"), "token": query.get("token")}
        listed = ask("list_launch_plans", asked, path=path)
    return render(
        "create/launch_plans.html",
        title="Create from a launch plan",
        commands=[
            [
                *("get", "launchplan", "-p", query.get("project", "PROJECT"), "-d", query.get("domain", "DOMAIN")),
                *(["--search", query["search"]] if "search" in query else []),
            ]
        ],
        query=query,
        listed=listed,
        suggested=suggestions("projects", "domains"),
    )


@pages.add("POST", "/create", permission="executions.create", shows_some=True)
def create(form: Mapping[str, str]) -> Shown:
    """Create it, once for each form."""
    plan = _plan_of(form)
    fields = _fields(plan)
    read = read_form(fields, form)
    if read.problems:
        return _answer(_create_page(form, plan, problems=read.problems), 400)
    made = tried(ask, "create_execution", {}, _body(read.values, plan), idempotency_key=form.get("idempotency_key"))
    if made.answer is None:
        problems = made.problems(field.name for field in fields)
        return _answer(_create_page(form, plan, made=made, problems=problems), made.status)
    id = made.answer["id"]
    warned = "".join(f" {warning['message']}" for warning in made.answer["warnings"])
    done = "was created." if made.answer["created"] else "had been created before; nothing was started again."
    return go_to(page("executions", id["project"], id["domain"], id["name"]), f"{id['name']} {done}{warned}"[:1000])


@pages.add("POST", "/create/place", permission="executions.create", shows_some=True)
def place(form: Mapping[str, str]) -> Shown:
    """Where would it run? The page again, or for its script the part with the answer alone."""
    plan = _plan_of(form)
    fields = _fields(plan)
    read = read_form(fields, form)
    placed = Tried()
    if not read.problems:
        placed = tried(ask, "place", None, {**_body(read.values, plan), "limit": _PAGE_SIZE})
    problems = {**placed.problems(field.name for field in fields), **read.problems}
    if request.args.get("part") == "answer":
        return render("create/place.html", title="", placed=placed, problems=problems, fields=fields, values=form)
    return _answer(_create_page(form, plan, placed=placed, problems=problems), 400 if read.problems else placed.status)


def _answer(shown_page: str, status: int) -> Response:
    return Response(shown_page, status=status, mimetype="text/html")


def _create_page(
    values: Mapping[str, str],
    plan: Mapping[str, Any] | None,
    *,
    made: Tried | None = None,
    placed: Tried | None = None,
    problems: Mapping[str, str] | None = None,
) -> str:
    fields = _fields(plan)
    return render(
        "create/form.html",
        title="Create",
        commands=_commands(values, plan),
        plan=plan,
        where=_WHERE,
        what=[field for field in fields if field.name.startswith("inputs.")] if plan else _JOB,
        place_fields=_PLACE,
        more=_MORE if plan else (*_MORE, _REST),
        fields=fields,
        values=values,
        made=made,
        placed=placed,
        problems=problems or {},
        suggested=suggestions(*_SUGGESTED),
    )


def _commands(values: Mapping[str, str], plan: Mapping[str, Any] | None) -> list[list[str]]:
    """The command that creates what a form says, as a dry run first."""
    project, domain = values.get("project") or "PROJECT", values.get("domain") or "DOMAIN"
    read = read_form(_fields(plan), values).values
    named = [str(read["name"])] if "name" in read else []
    options = create_options(read)
    if plan:
        id = plan["id"]
        where = ["-p", id["project"], "-d", id["domain"]]
        where += [] if project == id["project"] else ["--targetProject", project]
        where += [] if domain == id["domain"] else ["--targetDomain", domain]
        of_plan = ["--launchplan", id["name"], "--version", id["version"]]
        return tried_and_done(["create", "execution", *named, *where, *of_plan, *options])
    words = ["create", "execution", *named, "-p", project, "-d", domain, *options]
    command = read.get("spec.job.command") or ([] if "spec.job.image" in read else ["COMMAND"])
    end = ["--", *map(str, command)] if command else []
    return [[*words, "--dryRun", *end], [*words, *end]]


def _plan_of(form: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The launch plan that a form is of; it may run in another project than it is registered in."""
    names = {"project": "plan_project", "domain": "plan_domain", "launch_plan": "plan_name", "version": "plan_version"}
    return _plan({ours: form[theirs] for ours, theirs in names.items() if form.get(theirs)})


def _plan(query: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The launch plan that a query names: the version, else the active one."""
    if not query.get("launch_plan"):
        return None
    for name in ("project", "domain"):
        if not query.get(name):
            raise invalid(name, "is missing: a launch plan is registered in a project and a domain.")
    path = {"project": query["project"], "domain": query["domain"], "name": query["launch_plan"]}
    if version := query.get("version"):
        plan: dict[str, Any] = ask("get_launch_plan", path={**path, "version": version})
    else:
        plan = ask("get_active_launch_plan", path=path)
    return plan


def _fields(plan: Mapping[str, Any] | None) -> list[Field]:
    """All fields of the form."""
    if plan is None:
        return [*_WHERE, *_JOB, *_PLACE, *_MORE, _REST]
    declared = plan.get("expected_inputs") or {}
    return [*_WHERE, *(input_field(name, input_) for name, input_ in declared.items()), *_PLACE, *_MORE]


def _body(values: Mapping[str, Any], plan: Mapping[str, Any] | None) -> dict[str, Any]:
    """The request that a form makes."""
    rest = values.get(_REST.name, {})
    given = nested({name: value for name, value in values.items() if name != _REST.name})
    body = {"project": "", "domain": "", **given, "spec": _merged(rest, given.get("spec", {}))}
    if plan is not None:
        body["spec"] = {**body["spec"], "launch_plan": dict(plan["id"])}
    elif "job" not in body["spec"]:
        body["spec"] = {**body["spec"], "job": {}}
    return body


def _like(like: str) -> dict[str, str]:
    """The values of the form for an execution like another one."""
    parts = like.split("/")
    if len(parts) != 3:
        raise invalid("like", "is no execution: give project/domain/name.")
    key = dict(zip(("project", "domain", "name"), parts, strict=True))
    rest: dict[str, Any] = {"spec": ask("get_execution", path=key)["spec"]}
    values = {"project": key["project"], "domain": key["domain"]}
    for field in (*_JOB, *_PLACE, *_MORE):
        value = _taken(rest, field.name.split("."))
        if value is not None:
            values[field.name] = shown(field, value)
    if rest["spec"]:
        values[_REST.name] = shown(_REST, rest["spec"])
    return values


def _taken(tree: dict[str, Any], path: list[str]) -> Any:
    """The value at a path, which is taken out of the tree with the mappings that it leaves empty."""
    if len(path) == 1:
        return tree.pop(path[0], None)
    below = tree.get(path[0])
    value = _taken(below, path[1:]) if isinstance(below, dict) else None
    if below == {} and path[0] != "spec":
        del tree[path[0]]
    return value


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two trees as one; what both say is as the second says it."""
    both = {**first, **second}
    for name in first.keys() & second.keys():
        if isinstance(first[name], Mapping) and isinstance(second[name], Mapping):
            both[name] = _merged(first[name], second[name])
    return both
