"""Revisions over HTTP: history, differences, waiting for news, rolling back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from admin.api.changes import changed_answer, options_of
from admin.api.current import context
from admin.api.operations import Operations
from admin.core.problems import Invalid, Problem
from admin.core.quantities import is_whole_number
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import check_scope
from admin.messages.changes import ChangedAnswer, ChangesQuery
from admin.messages.pages import number_of, token_of
from admin.messages.revisions import (
    DiffAnswer,
    DiffQuery,
    OneRevisionAnswer,
    RevisionAnswer,
    RevisionsAnswer,
    RevisionsQuery,
    RollbackBody,
    revision_filter,
)
from admin.services import revisions
from admin.services.changeable.registry import KINDS

operations = Operations("revisions")

_SCOPE_KEYS = ("domain", "project", "workflow", "launch_plan")


@operations.add("GET", "/revisions", summary="List revisions", query=RevisionsQuery, answer=RevisionsAnswer)
def list_revisions(query: dict[str, Any]) -> RevisionsAnswer:
    if query["wait"] and "since" not in query:
        raise Invalid(Problem(field="wait", reason="needs since: the number to wait beyond."))
    conditions = revision_filter(query, _kind_name(query.get("resource_type")))
    page = revisions.list_revisions(context(), conditions, number_of(query.get("token")), query["limit"], query["wait"])
    return RevisionsAnswer(
        revisions=[RevisionAnswer.from_revision(revision) for revision in page.revisions],
        head=page.head,
        oldest=page.oldest if page.oldest > 1 else None,
        token=None if page.next_number is None else token_of((str(page.next_number),)),
    )


@operations.add(
    "GET", "/revisions/<number>", summary="Read a revision and its changes", answer=OneRevisionAnswer, errors=(400, 404)
)
def get_revision(number: str) -> OneRevisionAnswer:
    if not is_whole_number(number):
        raise Invalid(Problem(field="number", reason="is not the number of a revision."))
    return OneRevisionAnswer.from_revision(*revisions.get_revision(context(), int(number)))


@operations.add(
    "GET",
    "/revision_diff",
    summary="What differs between two revisions",
    query=DiffQuery,
    answer=DiffAnswer,
    errors=(400, 404),
)
def get_difference(query: dict[str, Any]) -> DiffAnswer:
    changes = revisions.difference(context(), query["from_"], query["to"])
    return DiffAnswer.from_changes(query["from_"], query["to"], changes)


@operations.add(
    "POST",
    "/rollbacks",
    summary="Undo a revision, or bring a scope or everything back to one, as a new revision",
    query=ChangesQuery,
    body=RollbackBody,
    answer=ChangedAnswer,
    errors=(400, 404, 409),
)
def roll_back(query: dict[str, Any], body: dict[str, Any]) -> ChangedAnswer:
    options = replace(options_of(query, body), expected_head=body.get("expected_head"))
    keys = {key: body[key] for key in _SCOPE_KEYS if body.get(key)}
    _check_rollback(body, keys)
    if "revision" in body:
        changed = revisions.roll_back_revision(context(), body["revision"], options)
    elif body["everything"]:
        changed = revisions.roll_back_everything(context(), body["to"], options)
    else:
        kind: Kind | None = None
        if "resource_type" in body:
            kind = context().settings.kinds.find(body["resource_type"])
        changed = revisions.roll_back_scope(context(), body["to"], check_scope(**keys), kind, options)
    return changed_answer(changed, query)


def _check_rollback(body: dict[str, Any], keys: dict[str, str]) -> None:
    if ("revision" in body) == ("to" in body):
        raise Invalid(Problem(field="revision", reason="give either revision, to undo it, or to, to go back to one."))
    if "revision" in body and (keys or body["everything"] or "resource_type" in body):
        raise Invalid(Problem(field="revision", reason="is undone as a whole; a scope goes with to."))
    if "to" in body and bool(keys) == body["everything"]:
        raise Invalid(Problem(field="to", reason="needs a scope, or everything: true."))
    if body["everything"] and "resource_type" in body:
        raise Invalid(Problem(field="resource_type", reason="goes with a scope, not with everything."))


def _kind_name(word: str | None) -> str | None:
    if word is None or word.upper() in KINDS:
        return word and word.upper()
    return context().settings.kinds.find(word).name
