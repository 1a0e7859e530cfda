"""Executions: the list, what waits and why, and one of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from flask import g

from admin.api.failures import translate
from admin.console.answers import ask, ask_if_allowed, asked_query
from admin.console.commands import search_filters, selector_options, sort_options
from admin.console.filters import limits
from admin.console.pages import Pages, render
from admin.console.suggestions import suggestions
from admin.core.executions.lifecycle import Phase
from admin.core.executions.selectors import SORT_FIELDS
from admin.core.live_subjects import Topic
from admin.core.problems import Invalid
from admin.errors import NotFound
from admin.messages.selectors import SelectorFields

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
    "launch_plan": "Launch plan",
    "created_by": "Created by",
    "created_after": "After, such as 7d",
    "created_before": "Before",
}
#: Every other way of REST to say which ones are meant; the form keeps those that the address has.
_MORE = (*(name for name in SelectorFields().fields if name not in _FILTERS), "state")
#: What an address of a list may say of which ones it means.
SELECTORS = (*_FILTERS, *_MORE)
_SORTS = ("sort_by.key", "sort_by.direction")
#: What the list may be counted by in place of rows.
_GROUPS = ("phase", "reason", "cause", "cluster", "pool", "project", "domain", "workflow", "user", "day")
_PAGE_SIZE = 50
#: How many executions a page counts, for counting more takes longer than anybody waits for a page.
_MOST_COUNTED = 10_000
_MOST_SHOWN = 200  #: groups of a count
#: The groups of what waits: how many, and which executions of each.
_MOST_GROUPS = 8
_OLDEST = {"limit": 5, "sort_by.key": "created_at", "sort_by.direction": "ASCENDING"}
_TAIL_LINES = 30


def selector_of(query: Mapping[str, str]) -> dict[str, str]:
    """Which executions the address of a list means, as REST says it."""
    selector = {name: value for name, value in query.items() if name in SELECTORS}
    if filters := search_filters(query.get("filters"), query.get("search")):
        selector["filters"] = filters
    return selector


def _suggested() -> dict[str, list[str]]:
    """The names that filters suggest; none where a page is shown anew, which leaves its filters as they are."""
    lists = {"project": "projects", "domain": "domains", "cluster": "clusters", "pool": "pools"}
    suggested = {} if g.is_anew else suggestions(*lists.values())
    return {name: suggested[of_names] for name, of_names in lists.items() if of_names in suggested}


def _is_of_ended(phases: str) -> bool:
    """Whether a list is of phases alone in which nothing can be cancelled."""
    ended = {phase.value for phase in Phase if phase.is_finished}
    return bool(phases) and {phase.strip().upper() for phase in phases.split(",")} <= ended


def most_counted() -> int:
    """How many executions a page counts at most."""
    return min(_MOST_COUNTED, limits()["counted"])


def longest_wait(count: Mapping[str, Any]) -> tuple[int, int]:
    """For how long one of those that were counted has waited at most, and how many they are."""
    waiting = count.get("waiting")
    return (waiting["longest_seconds"] if waiting else -1, count["count"])


@pages.add("GET", "/executions", permission="executions.read", shows_some=True, live=(Topic.EXECUTIONS,))
def list_executions() -> str:
    """The list, or how many there are of each phase, reason and so on."""
    query = asked_query(*_FILTERS, *_MORE, *_SORTS, "search", "by", "limit", "token")
    selector = selector_of(query)
    shared: dict[str, Any] = {"query": query, "filters": _FILTERS, "more": _MORE, "sorts": _SORTS, "groups": _GROUPS}
    shared["words"] = {"phase": [phase.value for phase in Phase], **_suggested()}
    shared["selector"] = selector
    options = selector_options(selector)
    if by := query.get("by"):
        most = most_counted()
        shared |= {"by": by, "most_counted": most, "most_shown": _MOST_SHOWN}
        counted = ask("count_executions", {**selector, "by": by, "limit": most, "token": query.get("token")})
        commands = [["get", "execution", *options, "--by", by]]
        days = [count["value"] for count in counted["counts"] if by == "day"]
        return render(
            "executions/counts.html",
            title="Executions",
            commands=commands,
            counted=counted,
            next_days={day: (date.fromisoformat(day) + timedelta(days=1)).isoformat() for day in days},
            **shared,
        )
    paging = {name: query[name] for name in (*_SORTS, "limit", "token") if name in query}
    unsorted = None
    try:
        listed = ask("list_executions_everywhere", {"limit": _PAGE_SIZE, **selector, **paging})
    except Invalid as refusal:
        is_sort = [problem.field for problem in refusal.problems] == ["sort_by.key"]
        if not is_sort or query["sort_by.key"] not in SORT_FIELDS:
            raise
        unsorted = f"Not sorted: {refusal.problems[0].reason}"  # too many of them; the filters may narrow them down
        limit = {"limit": query["limit"]} if "limit" in query else {}
        listed = ask("list_executions_everywhere", {"limit": _PAGE_SIZE, **selector, **limit})
    return render(
        "executions/list.html",
        title="Executions",
        commands=[["get", "execution", *options, *([] if unsorted else sort_options(query))]],
        listed=listed,
        unsorted=unsorted,
        may_be_unfinished=not _is_of_ended(selector.get("phase", "")),
        **shared,
    )


@pages.add("GET", "/executions/waiting", permission="executions.read", shows_some=True, live=(Topic.EXECUTIONS,))
def list_waiting() -> str:
    """What waits and why: a group for each reason, with those in it that wait longest."""
    query = asked_query(*_FILTERS, *_MORE, "token")
    selector = {**selector_of(query), "phase": "QUEUED"}
    options = selector_options(selector)
    counted = ask(
        "count_executions", {**selector, "by": "reason", "limit": most_counted(), "token": query.get("token")}
    )
    groups = [
        {**count, "oldest": ask("list_executions_everywhere", {**selector, **_OLDEST, "reason": count["value"]})}
        for count in sorted(counted["counts"], key=longest_wait, reverse=True)[:_MOST_GROUPS]
    ]
    return render(
        "executions/waiting.html",
        title="What waits, and why",
        commands=[["get", "execution", *options, "--by", "reason"]],
        query=query,
        selector=selector,
        filters={name: label for name, label in _FILTERS.items() if name != "phase"},
        more=_MORE,
        words=_suggested(),
        groups=groups,
        counted=counted,
        most_counted=most_counted(),
    )


def _explained(key: Mapping[str, str], query: Mapping[str, str]) -> tuple[Any, str | None]:
    """The explanation of an execution, and what is wrong with the cluster that it is asked about."""
    try:
        return ask("explain_execution", query, path=key), None
    except (Invalid, NotFound) as failure:
        if "why_not" not in query:
            raise
        others = {name: value for name, value in query.items() if name != "why_not"}
        return ask("explain_execution", others, path=key), translate(failure, "").message


@pages.add("GET", _PATH, permission="executions.read", live=(Topic.EXECUTION, Topic.FLEET, Topic.LOG))
def show_execution(project: str, domain: str, name: str) -> str:
    """One execution."""
    query = asked_query("decision", "why_not")
    key = {"project": project, "domain": domain, "name": name}
    where = ["-p", project, "-d", domain]
    flags = {"decision": "--decision", "why_not": "--whyNot"}
    asked = [word for field, flag in flags.items() if field in query for word in (flag, query[field])]
    explanation, unknown = _explained(key, query)
    return render(
        "executions/one.html",
        title=name,
        commands=[
            ["get", "execution", name, *where],
            ["explain", "execution", name, *where, *asked],
            ["logs", name, *where],
        ],
        key=key,
        query=query,
        execution=ask("get_execution", {"with_status": True}, path=key),
        explanation=explanation,
        unknown=unknown,
        events=ask("list_execution_events", {"limit": 100}, path=key),
        log=ask_if_allowed("get_execution_logs", {"tail": _TAIL_LINES}, path=key),
    )
