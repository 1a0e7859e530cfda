"""Who may do what: groups, grants and roles, whether somebody may do something, and the audit."""

from __future__ import annotations

from typing import Any

from admin.console.answers import ask, asked_query
from admin.console.pages import Pages, render
from admin.core.audit import AuditType
from admin.core.permissions import SIGNED_IN
from admin.core.problems import Invalid

pages = Pages("access")

_PAGE_SIZE = 50
_SCOPE = {"project": "-p", "domain": "-d", "workflow": "-w", "launch_plan": "--launchplan"}
_GRANTEES = ("user", "group")
_AUDIT = {"user": "User", "address": "Address", "after": "After (7d or a time)", "before": "Before"}


def _flags(query: dict[str, str], flags: dict[str, str]) -> list[str]:
    return [word for key, flag in flags.items() if key in query for word in (flag, query[key])]


@pages.add("GET", "/access", permission="grants.read")
def show_access() -> str:
    """Who may do what at a scope, and whether somebody may do something there, and why."""
    query = asked_query(*_SCOPE, *_GRANTEES, "permission", "token")
    scope = {key: query[key] for key in _SCOPE if key in query}
    explanation, problems = None, {}
    if "permission" in query or "user" in query or "group" in query:
        asked = {key: query[key] for key in (*_SCOPE, *_GRANTEES, "permission") if key in query}
        try:
            explanation = ask("explain_access", asked)
        except Invalid as refusal:
            problems = {problem.field: problem.reason for problem in refusal.problems}
    where = _flags(query, _SCOPE)
    who = query.get("user") or f"group:{query.get('group')}"
    commands = [["get", "access", *where]]
    if explanation is not None:
        commands.append(["explain", "access", who, query["permission"], *where])
    return render(
        "users/access.html",
        title="Who may do what",
        commands=commands,
        access=ask("get_access", {**scope, "limit": _PAGE_SIZE, "token": query.get("token")}),
        explanation=explanation,
        problems=problems,
        permissions=[permission["name"] for permission in ask("list_roles")["permissions"]],
        query=query,
        scope=scope,
    )


@pages.add("GET", "/access/groups", permission="groups.read")
def list_groups() -> str:
    """The groups of users."""
    query = asked_query("limit", "token")
    listed = ask("list_groups", {"limit": _PAGE_SIZE, **query})
    return render("users/groups.html", title="Groups", commands=[["get", "group"]], listed=listed, query=query)


@pages.add("GET", "/access/groups/<name>", permission="groups.read")
def show_group(name: str) -> str:
    """One group, and what it may do."""
    query = asked_query("token")
    return render(
        "users/group.html",
        title=name,
        commands=[["get", "group", name], ["get", "access", "--group", name]],
        group=ask("get_group", path={"name": name}),
        held=ask("get_held_access", {"group": name, "limit": _PAGE_SIZE, **query}),
        query=query,
    )


@pages.add("GET", "/access/grants", permission="grants.read", shows_some=True)
def list_grants() -> str:
    """The grants."""
    query = asked_query("user", "group", "role", "project", "domain", "limit", "token")
    flags = {"user": "--user", "group": "--group", "role": "--role", "project": "-p", "domain": "-d"}
    return render(
        "users/grants.html",
        title="Grants",
        commands=[["get", "grant", *_flags(query, flags)]],
        listed=ask("list_grants", {"limit": _PAGE_SIZE, **query}),
        query=query,
    )


@pages.add("GET", "/access/roles", permission=SIGNED_IN)
def list_roles() -> str:
    """The roles, and the permissions of each."""
    asked_query()
    roles: dict[str, Any] = ask("list_roles")
    return render("users/roles.html", title="Roles", commands=[["get", "role"]], listed=roles)


@pages.add("GET", "/audit", permission="audit.read")
def list_audit_events() -> str:
    """Logins, what was done with tokens, and denied requests."""
    query = asked_query(*_AUDIT, "event", "limit", "token")
    flags = {"event": "--event", "user": "--user", "address": "--address", "after": "--since", "before": "--until"}
    return render(
        "users/audit.html",
        title="Audit",
        commands=[["get", "audit", *_flags(query, flags)]],
        listed=ask("list_audit_events", {"limit": _PAGE_SIZE, **query}),
        filters=_AUDIT,
        events=[kind.value for kind in AuditType],
        query=query,
    )
