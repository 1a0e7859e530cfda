"""Changes of many rows over HTTP, and their plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

from marshmallow import Schema, fields, validate

from admin.api import rendering
from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.api.pages import key_of, token_of
from admin.api.projects import NewProject
from admin.api.schemas import (
    AuthorshipFields,
    Change,
    Flag,
    PageQuery,
    Payload,
    RequestSchema,
    ResourceType,
    ScopeAnswer,
    ScopeQuery,
    WarningAnswer,
    load,
)
from admin.core.changes import Authorship, RowWrite
from admin.core.fields import dotted
from admin.core.problems import Invalid, Problem
from admin.core.settings import trails
from admin.core.settings.effects import Effect
from admin.services.changeable.base import ChangeOptions, Mode
from admin.services.changeable.registry import DEFINITION_FIELDS, definition_field, read_write
from admin.services.changes import Changed, ChangedRow, apply_changes

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


class RowAnswer(ScopeAnswer):
    index = fields.Integer()
    name = fields.String(metadata={"description": "Of a cluster, pool or label."})
    action = fields.String(required=True, validate=validate.OneOf(["create", "update", "delete", "unchanged"]))
    resource_type = fields.String(required=True)
    level = fields.String(required=True)
    before = Payload()
    after = Payload()
    version = fields.Integer()


class CountsAnswer(Schema):
    create = fields.Integer(required=True)
    update = fields.Integer(required=True)
    delete = fields.Integer(required=True)
    unchanged = fields.Integer(required=True)


class EffectAnswer(ScopeAnswer):
    resource_type = fields.String(required=True)
    level = fields.String(required=True)
    field = fields.String(required=True)
    before = fields.Raw()
    after = fields.Raw()


class EffectsAnswer(Schema):
    count = fields.Integer(required=True)
    scopes = fields.Integer(required=True)
    by_kind = fields.Dict(keys=fields.String(), values=fields.Integer(), required=True)
    changes = fields.List(fields.Nested(EffectAnswer), required=True)
    token = fields.String()


class ChangedAnswer(Schema):
    rows = fields.List(fields.Nested(RowAnswer), required=True)
    counts = fields.Nested(CountsAnswer, required=True)
    revision = fields.Integer(required=True)
    changed = fields.Boolean(required=True)
    dry_run = fields.Boolean(required=True)
    effective = fields.Nested(EffectsAnswer)
    warnings = fields.List(fields.Nested(WarningAnswer), required=True)


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
def change_attributes(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
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


def changed_answer(changed: Changed, query: dict[str, Any]) -> dict[str, Any]:
    """What a change did, or would do."""
    counts = Counter(row.change.action for row in changed.rows)
    answer: dict[str, Any] = {
        "rows": [_row_answer(row) for row in sorted(changed.rows, key=lambda row: row.index or 0)],
        "counts": {action: counts[action] for action in ("create", "update", "delete", "unchanged")},
        "revision": changed.revision,
        "changed": changed.is_change,
        "dry_run": changed.dry_run,
        "warnings": [rendering.warning(one) for one in changed.warnings],
    }
    return answer | {"effective": _effects_answer(changed.effects, query)} if changed.dry_run else answer


def _row_answer(row: ChangedRow) -> dict[str, Any]:
    change = row.change
    return trails.scope_with(
        change.scope,
        index=row.index,
        name=change.name or None,
        action=change.action,
        resource_type=change.kind,
        level=change.scope.level.value,
        before=change.before,
        after=change.after,
        version=row.version,
    )


def _effects_answer(found: tuple[Effect, ...], query: dict[str, Any]) -> dict[str, Any]:
    after = key_of(query.get("token"), 1)
    if after is not None and not after[0].isdecimal():
        raise Invalid(Problem(field="token", reason="is not a token that a plan gave; leave it out to start anew."))
    start = int(after[0][:9]) if after else 0
    shown = found[start : start + query["limit"]]
    answer: dict[str, Any] = {
        "count": len(found),
        "scopes": len({effect.scope for effect in found}),
        "by_kind": dict(Counter(effect.kind.name for effect in found)),
        "changes": [
            trails.scope_with(
                effect.scope,
                resource_type=effect.kind.name,
                level=effect.scope.level.value,
                field=dotted(effect.path),
                before=effect.before,
                after=effect.after,
            )
            for effect in shown
        ],
    }
    return answer | {"token": token_of((str(start + len(shown)),))} if start + len(shown) < len(found) else answer
