"""History: the timeline, one revision with what it changed, how it is rolled back, and what differs between two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from admin.api.current import access, context
from admin.api.failures import translate
from admin.console.answers import ask, ask_if_allowed, asked_query, error_answer
from admin.console.commands import history_words, tried_and_done
from admin.console.filters import may, page, scope_keys
from admin.console.pages import Pages, Shown, go_to, is_unconfirmed, render, shown_again
from admin.console.settings import asked_scope, kind_called, scope_options, scope_text
from admin.core.changes import PROJECT
from admin.core.live_subjects import Topic
from admin.core.permissions import SIGNED_IN
from admin.core.problems import Invalid, invalid
from admin.core.settings.scopes import SCOPE_KEYS
from admin.errors import RainbowError
from admin.messages.pages import number_token
from admin.services.changeable.registry import permission_to_write
from admin.services.timeline_filters import SOURCES

pages = Pages("history")

_PAGE_SIZE = 50
#: Rows of one revision, or of one difference, on a page.
_ROWS = 100
#: The filters of the timeline by their names in REST, with what the form calls them.
_FILTERS = {
    "after": "After, such as 7d",
    "before": "Before",
    "actor": "Author",
    "resource_type": "Kind",
    "name": "Name",
    "cluster": "Cluster",
    "project": "Project",
    "domain": "Domain",
    "workflow": "Workflow",
    "launch_plan": "Launch plan",
}
_FLAGS = ("executions", "creations")


@pages.add("GET", "/history", permission="attributes.read", shows_some=True, live=(Topic.SETTINGS, Topic.FLEET))
def list_history() -> str:
    """The timeline, newest first."""
    query = asked_query(*_FILTERS, *_FLAGS, "source", "limit", "token")
    listed = ask("list_timeline", {"limit": _PAGE_SIZE, **query})
    return render(
        "history/list.html",
        title="History",
        commands=[history_words(query, _noun(query.get("resource_type")))],
        listed=listed,
        filters=_FILTERS,
        flags=_FLAGS,
        sources=SOURCES,
        query=query,
    )


def _noun(kind: str | None) -> str | None:
    """The word of rainbowctl for a kind of row; None where all are asked for."""
    if kind is None:
        return None
    nouns = {described["name"]: str(described["noun"]) for described in ask("list_kinds")["kinds"]}
    return nouns.get(kind, kind.lower().replace("_", "-"))


def _start(query: Mapping[str, str]) -> int:
    text = query.get("start", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise invalid("start", "is not the number of a row.")
    return int(text)


def _part(rows: list[Any], query: Mapping[str, str]) -> dict[str, Any]:
    """Some of many rows, and where the others begin."""
    start = _start(query)
    end = start + _ROWS
    return {"rows": rows[start:end], "start": start, "end": end if end < len(rows) else None, "count": len(rows)}


@pages.add("GET", "/history/compare", permission="attributes.read", shows_some=True)
def compare_revisions() -> str:
    """What differs between two revisions."""
    query = asked_query("from", "to", "start")
    asked: dict[str, Any] = {name: value for name, value in query.items() if name != "start"}
    difference = ask("diff_revisions", asked) if asked else None
    return render(
        "history/compare.html",
        title="Compare revisions",
        commands=[["history", f"{query['from']}..{query['to']}"]] if {"from", "to"} <= query.keys() else [],
        query=query,
        part=None if difference is None else _part(difference["rows"], query),
    )


@pages.add("GET", "/history/<number>", permission="attributes.read", shows_some=True)
def show_revision(number: str) -> str:
    """One revision, with what it changed."""
    query = asked_query("start")
    revision = ask("get_revision", path={"number": number})
    earlier = ask_if_allowed("list_revisions", {"token": number_token(revision["number"]), "limit": 1})
    return render(
        "history/one.html",
        title=f"Revision {revision['number']}",
        commands=[["history", number]],
        revision=revision,
        older=[entry["number"] for entry in earlier["revisions"]] if earlier else [],
        newer=_newer(revision, earlier),
        may_restore=_may_restore(revision),
        part=_part(revision["changes"], query),
    )


def _newer(revision: Mapping[str, Any], listed: Mapping[str, Any] | None) -> int | None:
    """The number of the next revision; None after the last, and where it may be one that the caller may not see."""
    is_told = listed is not None and not access().is_restricted
    return revision["number"] + 1 if listed and is_told and listed["head"] > revision["number"] else None


def _may_restore(revision: Mapping[str, Any]) -> bool:
    """Whether the caller may write each row that a revision changed, as rolling it back needs."""
    if not access().is_restricted:
        return True
    rows = {(change["resource_type"], *scope_keys(change).items()) for change in revision["changes"]}
    return len(revision["changes"]) == revision["change_count"] and all(
        may(permission_to_write(context(), kind), **dict(keys)) for kind, *keys in rows
    )


def _target(number: str, query: Mapping[str, str]) -> dict[str, Any]:
    """What is rolled back: a revision, or a scope to how it was at one."""
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise invalid("number", "is not the number of a revision.")
    keys = asked_scope(query)
    if keys:
        kind = {"resource_type": query["resource_type"]} if "resource_type" in query else {}
        return {"to": int(number), **keys, **kind}
    return {"revision": int(number), **({"restorable": True} if query.get("restorable") == "true" else {})}


_TARGET = (*SCOPE_KEYS, "resource_type", "restorable")


# What a rollback needs is asked of each of its rows, as in REST.
@pages.add("GET", "/history/<number>/roll-back", permission=SIGNED_IN)
def preview_rollback(number: str) -> Shown:
    """What rolling a revision back would do."""
    shown, error = _rollback_page(number, asked_query(*_TARGET))
    return shown if error is None else Response(shown, status=error.status, mimetype="text/html")


def _rollback_page(number: str, query: Mapping[str, str]) -> tuple[str, RainbowError | None]:
    """The preview, and why it cannot be rolled back as a whole, if it cannot."""
    target = _target(number, query)
    plan, error = None, None
    try:
        plan = ask("roll_back", {"dry_run": True, "limit": _ROWS}, target)
    except (RainbowError, Invalid) as failure:
        error = translate(failure, "")
        if error.status != 409:
            raise
    keys = asked_scope(query)
    restorable = ["--restorable"] if "restorable" in target else []
    kind = [kind_called(query["resource_type"])["noun"]] if keys and "resource_type" in query else []
    what = ["--to", number, *kind, *scope_options(keys)] if keys else [number]
    shown = render(
        "history/roll_back.html",
        title=f"Roll back to revision {number}" if keys else f"Roll back revision {number}",
        commands=tried_and_done(["rollback", *what, *restorable]),
        number=number,
        keys=keys,
        scope=scope_text(keys) if keys else None,
        target=query,
        plan=plan,
        error=None if error is None else error_answer(error),
    )
    return shown, error


@pages.add("POST", "/history/<number>/roll-back", permission=SIGNED_IN)
def roll_back(form: Mapping[str, str], number: str) -> Response:
    """Roll back, after a confirmation that names the revision; refused if another was made since the preview."""
    query = asked_query(*_TARGET)
    target = _target(number, query)
    if is_unconfirmed(form, number):
        return shown_again(_rollback_page(number, query)[0])
    head = form.get("head", "")
    if not (head.isascii() and head.isdigit() and len(head) < 19):
        raise invalid("head", "is not the number of a revision: load the preview again.")
    message = form.get("message", "").strip()
    body = {**target, "expected_head": int(head), **({"message": message} if message else {})}
    changed = ask("roll_back", body=body)
    if not changed["changed"]:
        return go_to(page("history"), "Everything was like that already.")
    return go_to(_page_after(changed), f"Rolled back by revision {changed['revision']}.")


def _page_after(rolled_back: Mapping[str, Any]) -> str:
    """The page after a rollback: of one setting that which lets what waits there adopt it, as after an edit."""
    rows = [row for row in rolled_back["rows"] if row["action"] != "unchanged"]
    if len(rows) == 1 and scope_keys(rows[0]) and rows[0]["resource_type"] != PROJECT:
        return page("settings", "changed", **scope_keys(rows[0]), resource_type=rows[0]["resource_type"])
    return page("history", str(rolled_back["revision"]))
