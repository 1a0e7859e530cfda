"""Executions: the list, one of them and why it is where it is, and how it is ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.filters import page
from admin.console.pages import Pages, confirmed_name, go_to, render

pages = Pages("executions")

_PATH = "/executions/<project>/<domain>/<name>"
#: The filters of the list, by their names in REST, with what the form calls them.
_FILTERS = {
    "phase": "Phase",
    "reason": "Reason",
    "project": "Project",
    "domain": "Domain",
    "cluster": "Cluster",
    "pool": "Pool",
    "workflow": "Workflow",
    "created_by": "Created by",
}
_MORE = ("label", "launch_plan", "cause", "created_after", "created_before", "filters", "state")
_SORTS = ("sort_by.key", "sort_by.direction")
#: What the list may be counted by in place of rows.
_GROUPS = ("phase", "reason", "cause", "cluster", "pool", "project", "domain", "workflow", "user", "day")
_PAGE_SIZE = 50
_TAIL_LINES = 200


@pages.add("GET", "/executions", permission="executions.read", shows_some=True)
def list_executions() -> str:
    """The list, or how many there are of each phase, reason and so on."""
    query = asked_query(*_FILTERS, *_MORE, *_SORTS, "search", "by", "limit", "token")
    selector = {name: value for name, value in query.items() if name in _FILTERS or name in _MORE}
    if search := query.get("search"):
        selector["filters"] = "+".join(filter(None, [selector.get("filters"), f"contains(name,{search})"]))
    shared: dict[str, Any] = {"query": query, "filters": _FILTERS, "groups": _GROUPS, "selector": selector}
    options = [word for name, value in selector.items() for word in (f"--{_camel(name)}", value)]
    if by := query.get("by"):
        counted = ask("count_executions", {**selector, "by": by, "token": query.get("token")})
        commands = [["get", "execution", *options, "--by", by]]
        return render("executions/counts.html", title="Executions", commands=commands, counted=counted, by=by, **shared)
    paging = {name: query[name] for name in (*_SORTS, "limit", "token") if name in query}
    listed = ask("list_executions_everywhere", {"limit": _PAGE_SIZE, **selector, **paging})
    commands = [["get", "execution", *options]]
    return render("executions/list.html", title="Executions", commands=commands, listed=listed, **shared)


@pages.add("GET", _PATH, permission="executions.read")
def show_execution(project: str, domain: str, name: str) -> str:
    """One execution."""
    query = asked_query("decision", "why_not")
    key = {"project": project, "domain": domain, "name": name}
    where = ["-p", project, "-d", domain]
    return render(
        "executions/one.html",
        title=name,
        commands=[
            ["get", "execution", name, *where],
            ["explain", "execution", name, *where],
            ["logs", name, *where],
        ],
        key=key,
        execution=ask("get_execution", {"with_status": True}, path=key),
        explanation=ask("explain_execution", query, path=key),
        events=ask("list_execution_events", {"limit": 100}, path=key),
        log=ask_if_allowed("get_execution_logs", {"tail": _TAIL_LINES}, path=key),
    )


@pages.add("GET", f"{_PATH}/cancel", permission="executions.end")
def preview_cancel(project: str, domain: str, name: str) -> str:
    """What ending an execution would do."""
    asked_query()
    key = {"project": project, "domain": domain, "name": name}
    return render(
        "executions/cancel.html",
        title=f"Cancel {name}",
        commands=[["delete", "execution", name, "-p", project, "-d", domain, "--dryRun"]],
        key=key,
        execution=ask("get_execution", {"with_status": True}, path=key),
        preview=ask("terminate_execution", {"dry_run": True}, path=key),
    )


@pages.add("POST", f"{_PATH}/cancel", permission="executions.end")
def cancel_execution(form: Mapping[str, str], project: str, domain: str, name: str) -> Response:
    """End an execution, after a confirmation that names it."""
    confirmed_name(form, name)
    body = {"cause": form["cause"].strip()} if form.get("cause", "").strip() else {}
    ended = ask("terminate_execution", body=body, path={"project": project, "domain": domain, "name": name})
    notice = f"{name} is being ended." if ended.get("changed", True) else f"{name} had ended before."
    return go_to(page("executions", project, domain, name), notice)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
