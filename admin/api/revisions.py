"""Revisions over HTTP: history, differences, waiting for news, rolling back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from marshmallow import Schema, fields, validate

from admin.api import rendering
from admin.api.changes import ChangedAnswer, ChangesQuery, changed_answer, options_of
from admin.api.current import context
from admin.api.operations import Operations
from admin.api.pages import number_of, token_of
from admin.api.schemas import (
    NAME,
    AuthorshipFields,
    Flag,
    Number,
    PageQuery,
    Payload,
    RequestSchema,
    ResourceType,
    ScopeAnswer,
    ScopeQuery,
    Seconds,
)
from admin.core.changes import RowChange
from admin.core.problems import Invalid, Problem
from admin.core.settings import trails
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import check_scope
from admin.services import revisions
from admin.services.changeable.registry import KINDS
from admin.store.revisions import Revision, RevisionFilter

operations = Operations("revisions")

_SCOPE_KEYS = ("domain", "project", "workflow", "launch_plan")


class RevisionsQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType()
    name = fields.String(validate=NAME, metadata={"description": "Of a cluster, pool or label."})
    author = fields.String(validate=NAME)
    claimed_by = fields.String(validate=NAME)
    after = fields.AwareDateTime(metadata={"description": "Made at this time or later (RFC 3339)."})
    before = fields.AwareDateTime(metadata={"description": "Made before this time (RFC 3339)."})
    since = Number(metadata={"description": "Only revisions above this number, oldest first."})
    wait = Seconds(
        load_default=0,
        validate=validate.Range(min=0, max=60),
        metadata={"description": "With since: wait this many seconds for a revision if there is none yet."},
    )


class DiffQuery(RequestSchema):
    from_ = Number(required=True, data_key="from")
    to = Number(required=True)


class RollbackBody(ScopeQuery, AuthorshipFields):
    revision = Number(least=1, strict=True, metadata={"description": "Undo this one revision."})
    to = Number(strict=True, metadata={"description": "Bring a scope, or everything, back to this revision."})
    everything = Flag(load_default=False)
    expected_head = Number(strict=True, metadata={"description": "Refuse if a revision has been made since this one."})
    resource_type = ResourceType()


class RevisionAnswer(Schema):
    number = fields.Integer(required=True)
    created_at = fields.DateTime(required=True)
    author = fields.String(required=True)
    claimed_by = fields.String()
    message = fields.String()
    request_id = fields.String()
    change_count = fields.Integer(required=True)


class RevisionsAnswer(Schema):
    revisions = fields.List(fields.Nested(RevisionAnswer), required=True)
    head = fields.Integer(required=True)
    oldest = fields.Integer(metadata={"description": "The oldest that is kept, where older ones are not."})
    token = fields.String()


class RowDifference(ScopeAnswer):
    name = fields.String(metadata={"description": "Of a cluster, pool or label."})
    resource_type = fields.String(required=True)
    level = fields.String(required=True)
    action = fields.String(required=True)
    before = Payload()
    after = Payload()


class OneRevisionAnswer(RevisionAnswer):
    changes = fields.List(fields.Nested(RowDifference), required=True)


class DiffAnswer(Schema):
    from_ = fields.Integer(required=True, data_key="from")
    to = fields.Integer(required=True)
    rows = fields.List(fields.Nested(RowDifference), required=True)


@operations.add("GET", "/revisions", summary="List revisions", query=RevisionsQuery, answer=RevisionsAnswer)
def list_revisions(query: dict[str, Any]) -> dict[str, Any]:
    if query["wait"] and "since" not in query:
        raise Invalid(Problem(field="wait", reason="needs since: the number to wait beyond."))
    wanted = RevisionFilter(
        kind=_kind_name(query.get("resource_type")),
        above=query.get("since"),
        **{
            key: query[key] for key in (*_SCOPE_KEYS, "name", "author", "claimed_by", "after", "before") if key in query
        },
    )
    page = revisions.list_revisions(context(), wanted, number_of(query.get("token")), query["limit"], query["wait"])
    answer: dict[str, Any] = {"revisions": [_revision(one) for one in page.revisions], "head": page.head}
    if page.oldest > 1:
        answer["oldest"] = page.oldest
    return answer | {"token": token_of((str(page.next_number),))} if page.next_number is not None else answer


@operations.add(
    "GET", "/revisions/<number>", summary="Read a revision and its changes", answer=OneRevisionAnswer, errors=(400, 404)
)
def get_revision(number: str) -> dict[str, Any]:
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise Invalid(Problem(field="number", reason="is not the number of a revision."))
    found, changes = revisions.get_revision(context(), int(number))
    return _revision(found) | {"changes": [_difference(change) for change in changes]}


@operations.add(
    "GET",
    "/revision_diff",
    summary="What differs between two revisions",
    query=DiffQuery,
    answer=DiffAnswer,
    errors=(400, 404),
)
def get_difference(query: dict[str, Any]) -> dict[str, Any]:
    rows = revisions.difference(context(), query["from_"], query["to"])
    return {"from": query["from_"], "to": query["to"], "rows": [_difference(change) for change in rows]}


@operations.add(
    "POST",
    "/rollbacks",
    summary="Undo a revision, or bring a scope or everything back to one, as a new revision",
    query=ChangesQuery,
    body=RollbackBody,
    answer=ChangedAnswer,
    errors=(400, 404, 409),
)
def roll_back(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
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


def _revision(found: Revision) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "number": found.number,
        "created_at": rendering.time(found.created_at),
        "author": found.who.author,
        "claimed_by": found.who.claimed_by,
        "message": found.who.message,
        "request_id": found.who.request_id,
        "change_count": found.change_count,
    }
    return {name: value for name, value in answer.items() if value is not None}


def _difference(change: RowChange) -> dict[str, Any]:
    return trails.scope_with(
        change.scope,
        name=change.name or None,
        resource_type=change.kind,
        level=change.scope.level.value,
        action=change.action,
        before=change.before,
        after=change.after,
    )
