"""What if: which recent executions would go elsewhere if a file of settings were applied. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from admin.console.answers import ask, asked_query
from admin.console.documents import FIELD, Asked, read_changes
from admin.console.pages import Pages, render
from admin.core.problems import Invalid, Problem, invalid
from admin.errors import Conflict
from admin.services.placements import FleetState

pages = Pages("what-if")

_SINCE = "24h"
#: Executions that are listed of those that would go elsewhere.
_LISTED = 200
_FIELDS = ("since", "project", "domain", "fleet")
#: Where the next page of a simulation begins.
_TOKEN = "token"
_STATES = tuple(state.value for state in FleetState)


@pages.add("GET", "/what-if", permission="executions.read", shows_some=True)
def ask_what_if() -> str:
    """The form."""
    return _render({"since": _SINCE, **asked_query(*_FIELDS)})


@pages.add("POST", "/what-if", permission="executions.read", shows_some=True)
def simulate(form: Mapping[str, str]) -> Response:
    """Decide recent executions again with the settings of a file."""
    given = {name: form.get(name, "").strip() for name in (*_FIELDS, _TOKEN)}
    given[FIELD] = form.get(FIELD, "")
    asked: list[Asked] = []
    try:
        given[FIELD] = _uploaded() or given[FIELD]
        asked = read_changes(given[FIELD])
        chosen = {name: given[name] for name in (*_FIELDS, _TOKEN) if given[name]}
        body = {"changes": [entry.change for entry in asked], "since": _SINCE, **chosen, "limit": _LISTED}
        return Response(_render(given, ask("simulate", body=body), len(asked)), mimetype="text/html")
    except Invalid as refusal:
        problems = [_located(problem, asked) for problem in refusal.problems]
        return Response(_render(given, problems=problems), status=400, mimetype="text/html")
    except Conflict as conflict:  # such as a definition of what the configuration declares
        problems = [Problem(field=FIELD, reason=conflict.message)]
        return Response(_render(given, problems=problems), status=conflict.status, mimetype="text/html")


def _uploaded() -> str | None:
    """The text of the file that was chosen; None without one."""
    file = request.files.get("file")
    if file is None or not file.filename:
        return None
    try:
        return str(file.read(), "utf-8-sig")
    except UnicodeDecodeError as error:
        raise invalid(FIELD, "are not text in UTF-8: choose a file of YAML or JSON.") from error


def _located(problem: Problem, asked: list[Asked]) -> Problem:
    """A problem, with the document that it is about."""
    if problem.index is None or not 0 <= problem.index < len(asked):
        return problem
    field = problem.field.removeprefix("payload.")
    return Problem(field=FIELD, reason=f"{asked[problem.index].title}: {field} {problem.reason}")


def _render(
    given: Mapping[str, str], answer: Any = None, documents: int = 0, problems: list[Problem] | None = None
) -> str:
    options = [
        word
        for name, flag in (("since", "--since"), ("project", "-p"), ("domain", "-d"), ("fleet", "--fleet"))
        for word in (flag, given.get(name, ""))
        if given.get(name)
    ]
    by_field: dict[str, list[str]] = {}
    for problem in problems or []:
        field = problem.field if problem.field in _FIELDS else FIELD
        by_field.setdefault(field, []).append(
            problem.reason if problem.field in (*_FIELDS, FIELD) else f"{problem.field} {problem.reason}"
        )
    return render(
        "what_if/form.html",
        title="What if",
        commands=[["simulate", "--with", "FILE", *options]],
        given=given,
        answer=answer,
        documents=documents,
        problems=by_field,
        states=_STATES,
        example=_EXAMPLE,
    )


_EXAMPLE = """kind: pool
name: gpu
members: {east: 2, west: 1}
---
kind: cluster-pool-attribute
project: flytesnacks
domain: development
cluster_pool_name: gpu
"""
