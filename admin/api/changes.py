"""Changes of many rows over HTTP, and their plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from marshmallow import fields, validate

from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.api.projects import NewProject
from admin.api.schemas import (
    AuthorshipFields,
    Change,
    Flag,
    PageQuery,
    Payload,
    RequestSchema,
    ResourceType,
    ScopeQuery,
    load,
)
from admin.core.changes import Authorship, RowWrite
from admin.core.problems import Invalid, Problem
from admin.messages.changes import ChangedAnswer
from admin.messages.pages import key_of
from admin.services.changeable.base import ChangeOptions, Mode
from admin.services.changeable.registry import DEFINITION_FIELDS, definition_field, read_write
from admin.services.changes import Changed, apply_changes

operations = Operations("changes")

MOST_CHANGES = 20_000
MOST_BYTES = 32 * 1024 * 1024


class _ChangeFields(ScopeQuery):
    resource_type = ResourceType()
    payload = Payload()
    delete = Flag(load_default=False)
    expected_version = fields.Integer(strict=True, validate=validate.Range(min=0))
    expected_absent = Flag(load_default=False)


#: One row of attributes, or the definition of one row of another noun.
ChangeBody = cast(
    type[RequestSchema],
    _ChangeFields.from_dict(
        {field: fields.Raw(metadata={"type": "object"}) for field in DEFINITION_FIELDS}, name="ChangeBody"
    ),
)
#: The definitions that a schema reads; the others are read by the rules of their noun.
_DEFINITION_SCHEMAS: dict[str, RequestSchema] = {"project_definition": NewProject()}


class ChangesBody(AuthorshipFields):
    changes = fields.List(Change(allow_none=True), required=True, validate=validate.Length(min=1))


class ChangesQuery(PageQuery):
    force = Flag(load_default=False, metadata={"description": "Delete clusters, pools and labels that are in use."})
    dry_run = Flag(load_default=False, metadata={"description": "Say what would change, and change nothing."})


@operations.add(
    "POST",
    "/attribute_changes",
    summary="Change many attributes and projects at once, all or nothing; or say what that would do",
    query=ChangesQuery,
    body=ChangesBody,
    answer=ChangedAnswer,
    errors=(400, 409),
    most_bytes=MOST_BYTES,
)
def change_attributes(query: dict[str, Any], body: dict[str, Any]) -> ChangedAnswer:
    changed = apply_changes(context(), read_changes(body["changes"]), options_of(query, body))
    return changed_answer(changed, query)


def options_of(query: dict[str, Any], body: dict[str, Any]) -> ChangeOptions:
    """How a request wants its change to be made."""
    authorship = Authorship(
        claimed_by=body.get("claimed_by"), message=body.get("message"), request_id=caller().request_id
    )
    mode = Mode.PLAN if query["dry_run"] else Mode.MAKE
    return ChangeOptions(authorship=authorship, mode=mode, force=query.get("force", False))


def read_changes(documents: list[Any]) -> list[RowWrite]:
    """The changes of a request; Invalid with the position of everything that is wrong."""
    if not documents or len(documents) > MOST_CHANGES:
        raise Invalid(Problem(field="changes", reason=f"holds {len(documents)} changes; give 1 to {MOST_CHANGES}."))
    schema = ChangeBody()
    writes: list[RowWrite] = []
    problems: list[Problem] = []
    for index, document in enumerate(documents):
        try:
            loaded = load(schema, document)
            field = definition_field(loaded)
            if field is not None and field in _DEFINITION_SCHEMAS:
                loaded[field] = load(_DEFINITION_SCHEMAS[field], loaded[field], field)
            writes.append(read_write(context(), loaded, index))
        except Invalid as invalid:
            problems += [replace(problem, index=index) for problem in invalid.problems]
    if problems:
        raise Invalid(*problems)
    return writes


def changed_answer(changed: Changed, query: dict[str, Any]) -> ChangedAnswer:
    """What a change did, or would do."""
    key = key_of(query.get("token"), 1) if changed.dry_run else None
    if key is not None and not key[0].isdecimal():
        raise Invalid(Problem(field="token", reason="is not a token that a plan gave; leave it out to start anew."))
    return ChangedAnswer.from_changed(changed, start=int(key[0][:9]) if key else 0, limit=query["limit"])
