"""Changes of many rows over HTTP, and their plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from marshmallow import Schema, fields, validate

from admin.api import rendering
from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.api.pages import key_of, token_of
from admin.api.projects import NewProject, given_fields
from admin.api.schemas import (
    AuthorshipFields,
    Change,
    Flag,
    PageQuery,
    Payload,
    ResourceType,
    ScopeAnswer,
    ScopeQuery,
    WarningAnswer,
    load,
)
from admin.core.fields import dotted
from admin.core.fleet.definitions import FleetKind
from admin.core.fleet_documents import read_definition
from admin.core.problems import Invalid, Problem
from admin.core.settings import trails
from admin.core.settings.effects import Effect
from admin.core.settings.scopes import check_scope
from admin.core.settings.writes import Expectation
from admin.metrics import count_change
from admin.services.changes import (
    Changed,
    ChangedRow,
    ChangeOptions,
    ChangeSet,
    DefinitionWrite,
    ProjectWrite,
    RowWrite,
    make_change,
)
from admin.store.revisions import PROJECT, Authorship

operations = Operations("changes")

MOST_CHANGES = 20_000
MOST_BYTES = 32 * 1024 * 1024


class ChangeBody(ScopeQuery):
    """One row of attributes, or one project."""

    resource_type = ResourceType()
    payload = Payload()
    delete = Flag(load_default=False)
    project_definition = fields.Raw(metadata={"type": "object"})
    cluster_definition = fields.Raw(metadata={"type": "object"})
    pool_definition = fields.Raw(metadata={"type": "object"})
    label_definition = fields.Raw(metadata={"type": "object"})
    expected_version = fields.Integer(strict=True, validate=validate.Range(min=0))
    expected_absent = Flag(load_default=False)


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
    changed = make_change(context(), read_changes(body["changes"]), options_of(query, body))
    return changed_answer(changed, query)


def options_of(query: dict[str, Any], body: dict[str, Any]) -> ChangeOptions:
    """How a request wants its change to be made."""
    who = Authorship(claimed_by=body.get("claimed_by"), message=body.get("message"), request_id=caller().request_id)
    return ChangeOptions(
        who=who, dry_run=query["dry_run"], with_effects=query["dry_run"], force=query.get("force", False)
    )


def read_changes(given: list[Any]) -> ChangeSet:
    """The changes of a request; Invalid with the position of everything that is wrong."""
    if not given or len(given) > MOST_CHANGES:
        raise Invalid(Problem(field="changes", reason=f"holds {len(given)} changes; give 1 to {MOST_CHANGES}."))
    schema, project_schema = ChangeBody(), NewProject()
    rows: list[RowWrite] = []
    projects: list[ProjectWrite] = []
    definitions: list[DefinitionWrite] = []
    problems: list[Problem] = []
    for index, item in enumerate(given):
        try:
            said = load(schema, item)
            _check_one_definition(said)
            if "project_definition" in said:
                definition = load(project_schema, said["project_definition"], "project_definition")
                projects.append(_project(said, definition, index))
            elif said.keys() & _DEFINITIONS.keys():
                definitions.append(_definition(said, index))
            else:
                rows.append(_row(said, index))
        except Invalid as invalid:
            problems += [replace(problem, index=index) for problem in invalid.problems]
    if problems:
        raise Invalid(*problems)
    return ChangeSet(rows=tuple(rows), projects=tuple(projects), definitions=tuple(definitions))


def _check_one_definition(said: dict[str, Any]) -> None:
    given = sorted(said.keys() & {"project_definition", *_DEFINITIONS})
    if len(given) > 1:
        raise Invalid(Problem(field=given[1], reason=f"stands alone; {given[0]} is a change of its own."))


_DEFINITIONS = {f"{kind.noun}_definition": kind for kind in FleetKind}


def _definition(said: dict[str, Any], index: int) -> DefinitionWrite:
    key = next(iter(said.keys() & _DEFINITIONS.keys()))
    if said.keys() & {"resource_type", "payload", "domain", "project", "workflow", "launch_plan"}:
        raise Invalid(Problem(field=key, reason="stands alone; attributes are changes of their own."))
    name, payload = read_named(said[key], key)
    if said["delete"] and payload:
        raise Invalid(Problem(field=key, reason="needs only the name of what is to be deleted."))
    kind = _DEFINITIONS[key]
    normal = None if said["delete"] else _read_definition(kind, name, payload, key)
    return DefinitionWrite(kind=kind, name=name, payload=normal, expectation=_expectation(said), index=index)


def _read_definition(kind: FleetKind, name: str, payload: dict[str, Any], under: str) -> dict[str, Any]:
    try:
        return read_definition(kind, name, payload)
    except Invalid as invalid:
        raise Invalid(*(replace(one, field=f"{under}.{one.field}".rstrip(".")) for one in invalid.problems)) from None


def read_named(definition: Any, under: str) -> tuple[str, dict[str, Any]]:
    """The name and the rest of a definition."""
    if not isinstance(definition, dict):
        raise Invalid(Problem(field=under, reason="is not a mapping."))
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise Invalid(Problem(field=f"{under}.name", reason="is missing."))
    return name, {key: value for key, value in definition.items() if key != "name"}


def _expectation(said: dict[str, Any]) -> Expectation:
    if said["expected_absent"] and "expected_version" in said:
        raise Invalid(Problem(field="expected_absent", reason="cannot stand beside expected_version."))
    return Expectation(version=said.get("expected_version"), absent=said["expected_absent"])


def _project(said: dict[str, Any], definition: dict[str, Any], index: int) -> ProjectWrite:
    beside = said.keys() & {"resource_type", "payload", "domain", "project", "workflow", "launch_plan"}
    if beside or said["delete"]:
        raise Invalid(Problem(field="project_definition", reason="stands alone; attributes are changes of their own."))
    fields_given = {
        name: value for name, value in given_fields(definition, "project_definition").items() if name != "id"
    }
    return ProjectWrite(id=definition["id"], given=fields_given, expectation=_expectation(said), index=index)


def _row(said: dict[str, Any], index: int) -> RowWrite:
    if "resource_type" not in said:
        raise Invalid(Problem(field="resource_type", reason="is missing: name the kind of this attribute."))
    if said["delete"] == ("payload" in said):
        raise Invalid(Problem(field="payload", reason="give either a payload or delete: true."))
    kind = context().settings.kinds.find(said["resource_type"])
    scope = check_scope(**{key: said.get(key, "") for key in ("domain", "project", "workflow", "launch_plan")})
    kind.check_level(scope.level)
    payload = None if said["delete"] else kind.read(said["payload"])
    return RowWrite(kind=kind, scope=scope, change=lambda _before: payload, expectation=_expectation(said), index=index)


def changed_answer(changed: Changed, query: dict[str, Any]) -> dict[str, Any]:
    """What a change did, or would do."""
    count_change(changed)
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
        level="project" if change.kind == PROJECT else change.scope.level.value,
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
