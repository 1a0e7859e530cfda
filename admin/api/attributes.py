"""Attributes over HTTP: one path a level, each with GET, PUT, PATCH and DELETE; and the list of all."""

from __future__ import annotations

from typing import Any

from flask import Response, jsonify
from marshmallow import Schema, fields, validate

from admin.api import rendering
from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.api.pages import key_of, token_of
from admin.api.preconditions import WRITE_HEADERS, WriteQuery, expectation
from admin.api.schemas import (
    AuthorshipFields,
    Flag,
    MatchingAttributes,
    Number,
    OriginAnswer,
    PageQuery,
    Payload,
    RequestSchema,
    ResourceType,
    ScopeAnswer,
    ScopeQuery,
    WarningAnswer,
)
from admin.core.changes import Authorship
from admin.core.fields import dotted
from admin.core.problems import Invalid, Problem, shorten
from admin.core.settings import trails
from admin.core.settings.kinds import Kind
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import STORED_LEVELS, Level, Scope, check_scope
from admin.services import attributes
from admin.services.attributes import Reading, WriteOptions, Written
from admin.store.attributes import Filter, StoredAttribute

operations = Operations("attributes")

_ALL = "all"


class ReadQuery(RequestSchema):
    resource_type = ResourceType(required=True)
    exact = Flag(load_default=False, metadata={"description": "Only this scope's own row, nothing inherited."})


class PatchQuery(WriteQuery):
    resource_type = ResourceType(required=True)


class DeleteQuery(WriteQuery, AuthorshipFields):
    resource_type = ResourceType()


class PathScope(ScopeQuery):
    """The path's scope again, as Flyte's messages repeat it."""

    org = fields.String(validate=validate.Equal("", error="there are no organisations here; leave it out."))


class AttributesBody(PathScope):
    """The path's scope, and one payload."""

    matching_attributes = MatchingAttributes(required=True)


class PutBody(PathScope, AuthorshipFields):
    attributes = fields.Nested(AttributesBody, required=True)


class PatchBody(AuthorshipFields):
    set = Payload(load_default=dict, metadata={"description": "Leaves to set, nested or by dotted path."})
    unset = fields.List(fields.String(), load_default=list, metadata={"description": "Leaves to have no value."})
    inherit = fields.List(fields.String(), load_default=list, metadata={"description": "Leaves to leave out."})


class DeleteBody(PathScope, AuthorshipFields):
    resource_type = ResourceType()


class ListQuery(ScopeQuery, PageQuery):
    resource_type = ResourceType(required=True)
    level = fields.String(validate=validate.OneOf([level.value for level in STORED_LEVELS]))
    at = Number(metadata={"description": "The rows as they were at this revision."})


class AttributesAnswer(ScopeAnswer):
    matching_attributes = MatchingAttributes(required=True)


class ReadAnswer(Schema):
    attributes = fields.Nested(AttributesAnswer, required=True)
    version = fields.Integer()
    updated_at = fields.DateTime()
    updated_by = fields.String()
    claimed_by = fields.String()
    inherited_from = fields.Nested(OriginAnswer)
    origins = fields.Dict(keys=fields.String(), values=fields.Nested(OriginAnswer))


class WriteAnswer(Schema):
    attributes = fields.Nested(AttributesAnswer)
    version = fields.Integer(metadata={"description": "Of the row as it is now stored; absent where there is none."})
    revision = fields.Integer()
    changed = fields.Boolean(required=True)
    dry_run = fields.Boolean(required=True)
    before = Payload()
    warnings = fields.List(fields.Nested(WarningAnswer), required=True)


class DeleteAnswer(Schema):
    deleted = fields.Boolean(required=True)
    dry_run = fields.Boolean(required=True)
    revision = fields.Integer()
    before = Payload()
    warnings = fields.List(fields.Nested(WarningAnswer), required=True)


class ConfigurationAnswer(ScopeAnswer):
    attributes = MatchingAttributes(required=True)
    resource_type = fields.String(required=True)
    level = fields.String(required=True)
    version = fields.Integer(required=True)
    updated_at = fields.DateTime(metadata={"description": "Absent for rows of the past."})
    updated_by = fields.String()
    claimed_by = fields.String()


class ListAnswer(Schema):
    configurations = fields.List(fields.Nested(ConfigurationAnswer), required=True)
    token = fields.String(metadata={"description": "For the next page; absent on the last."})


def _path(level: Level) -> str:
    """`/project_domain_attributes/<project>/<domain>`; the last part takes slashes, to be refused by name."""
    *parts, last = level.keys
    noun = level.value.replace("-", "_")
    return "/".join([f"/{noun}_attributes", *(f"<{part}>" for part in parts), f"<rest:{last}>"])


def _register(level: Level) -> None:
    """The four operations of one level."""
    path, where = _path(level), f"at {level.value} level"

    @operations.add(
        "GET", path, summary=f"Read an attribute {where}", query=ReadQuery, answer=ReadAnswer, errors=(400, 404)
    )
    def read(query: dict[str, Any], **keys: str) -> Response:
        kind = context().settings.kinds.find(query["resource_type"])
        return _read_answer(attributes.read_attribute(context(), kind, check_scope(**keys), exact=query["exact"]))

    @operations.add(
        "PUT",
        path,
        summary=f"Replace an attribute {where}",
        query=WriteQuery,
        body=PutBody,
        answer=WriteAnswer,
        errors=(400, 409),
        headers=WRITE_HEADERS,
    )
    def put(query: dict[str, Any], body: dict[str, Any], **keys: str) -> Response:
        scope = check_scope(**keys)
        _check_same_scope(scope, body["attributes"], "attributes.")
        _check_same_scope(scope, body)
        kind, payload = context().settings.kinds.of_payload(body["attributes"]["matching_attributes"])
        return _write_answer(attributes.put_attribute(context(), kind, scope, payload, _options(query, body)))

    @operations.add(
        "PATCH",
        path,
        summary=f"Change single fields of an attribute {where}",
        query=PatchQuery,
        body=PatchBody,
        answer=WriteAnswer,
        errors=(400, 409),
        headers=WRITE_HEADERS,
    )
    def patch(query: dict[str, Any], body: dict[str, Any], **keys: str) -> Response:
        kind = context().settings.kinds.find(query["resource_type"])
        if not isinstance(body["set"], dict):
            raise Invalid(Problem(field="set", reason="is not a mapping of fields."))
        return _write_answer(
            attributes.patch_attribute(context(), kind, check_scope(**keys), body, _options(query, body))
        )

    @operations.add(
        "DELETE",
        path,
        summary=f"Delete an attribute {where}, and nothing below it",
        query=DeleteQuery,
        body=DeleteBody,
        body_optional=True,
        answer=DeleteAnswer,
        errors=(400, 409),
        headers=WRITE_HEADERS,
    )
    def delete(query: dict[str, Any], body: dict[str, Any], **keys: str) -> dict[str, Any]:
        scope = check_scope(**keys)
        _check_same_scope(scope, body)
        said = _agreed(query, body)
        kind = _kind(said.get("resource_type"))
        return _delete_answer(attributes.delete_attribute(context(), kind, scope, _options(query, said)))


for _level in STORED_LEVELS:
    _register(_level)


@operations.add(
    "GET",
    "/matchable_attributes",
    summary="List the stored attributes of a kind",
    query=ListQuery,
    answer=ListAnswer,
    errors=(400, 404),
)
def list_attributes(query: dict[str, Any]) -> dict[str, Any]:
    kinds = context().settings.kinds
    chosen = tuple(kinds) if query["resource_type"] == _ALL else (kinds.find(query["resource_type"]),)
    wanted = Filter(
        kinds=tuple(kind.name for kind in chosen),
        level=Level(query["level"]) if "level" in query else None,
        **{key: query[key] for key in ("domain", "project", "workflow", "launch_plan") if key in query},
    )
    after = key_of(query.get("token"), 5)
    page = attributes.list_attributes(context(), wanted, after, query["limit"], at=query.get("at"))
    answer: dict[str, Any] = {"configurations": [_configuration(kinds[row.kind], row) for row in page.rows]}
    return answer | {"token": token_of(page.next_key)} if page.next_key else answer


def _kind(word: str | None) -> Kind:
    if word is None:
        known = [kind.name for kind in context().settings.kinds]
        raise Invalid(Problem(field="resource_type", reason=f"is missing: name a kind, one of {', '.join(known)}."))
    return context().settings.kinds.find(word)


def _agreed(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """What query and body say together; Invalid where they contradict each other."""
    for key in query.keys() & body.keys():
        same = _kind(query[key]) is _kind(body[key]) if key == "resource_type" else query[key] == body[key]
        if not same:
            raise Invalid(Problem(field=key, reason="differs between query and body; give it once."))
    return {**query, **body}


def _check_same_scope(scope: Scope, given: dict[str, Any], under: str = "") -> None:
    """A body may repeat the path's scope, as Flyte's do; it may not name another."""
    for key in ("domain", "project", "workflow", "launch_plan"):
        value = given.get(key)
        if value and value != getattr(scope, key):
            mine = getattr(scope, key)
            other = f"'{mine}'" if mine else "none"
            reason = (
                f"'{shorten(value)}' is not what the path names ({other}); leave it out or use the path of that scope."
            )
            raise Invalid(Problem(field=f"{under}{key}", reason=reason))


def _options(query: dict[str, Any], said: dict[str, Any]) -> WriteOptions:
    authorship = Authorship(
        claimed_by=said.get("claimed_by"), message=said.get("message"), request_id=caller().request_id
    )
    return WriteOptions(authorship=authorship, expectation=expectation(), dry_run=query["dry_run"])


def _read_answer(reading: Reading) -> Response:
    kind, row = reading.kind, reading.row
    value = row.payload if row else reading.resolved.value
    answer: dict[str, Any] = {
        "attributes": trails.scope_with(reading.scope, matching_attributes=rendering.matching(kind, value))
    }
    if row is not None:
        response = jsonify(answer | _stamp(row))
        response.set_etag(str(row.version))
        return response
    source = reading.resolved.most_specific
    assert source is not None, "a value has an origin"
    answer["inherited_from"] = trails.origin(source)
    answer["origins"] = {dotted(path): trails.origin(one) for path, one in reading.resolved.origins.items()}
    return jsonify(answer)


def _stamp(row: StoredAttribute) -> dict[str, Any]:
    stamp = {"version": row.version, "updated_at": rendering.time(row.updated_at), "updated_by": row.updated_by}
    return stamp | {"claimed_by": row.claimed_by} if row.claimed_by else stamp


def _write_answer(written: Written) -> Response:
    answer: dict[str, Any] = {}
    if written.after is not None:
        matching = rendering.matching(written.kind, written.after)
        answer["attributes"] = trails.scope_with(written.scope, matching_attributes=matching)
    if written.version is not None:
        answer["version"] = written.version
    if written.revision is not None:
        answer["revision"] = written.revision
    answer |= {"changed": written.changed, "dry_run": written.dry_run}
    if written.before is not None:
        answer["before"] = written.before
    response = jsonify(answer | {"warnings": [rendering.warning(one) for one in written.warnings]})
    if "version" in answer and not written.dry_run:
        response.set_etag(str(written.version))
    return response


def _delete_answer(written: Written) -> dict[str, Any]:
    answer: dict[str, Any] = {"deleted": written.changed and not written.dry_run, "dry_run": written.dry_run}
    if answer["deleted"]:
        answer["revision"] = written.revision
    if written.before is not None:
        answer["before"] = written.before
    return answer | {"warnings": []}


def _configuration(kind: Kind, row: Row) -> dict[str, Any]:
    level = row.scope.level.value
    matching = rendering.matching(kind, row.payload)
    stamp = _stamp(row) if isinstance(row, StoredAttribute) else {"version": row.version}
    return trails.scope_with(row.scope, attributes=matching, resource_type=kind.name, level=level) | stamp
