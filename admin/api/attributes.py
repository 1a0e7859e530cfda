"""Attributes over HTTP: one path a level, each with GET, PUT, PATCH and DELETE; and the list of all."""

from __future__ import annotations

from functools import partial

from flask import Response

from admin.api.current import context
from admin.api.operations import Operations, respond
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.core.changes import Expectation
from admin.core.problems import invalid, shorten
from admin.core.settings.kinds import Kind, Payload
from admin.core.settings.patches import apply_patch
from admin.core.settings.scopes import STORED_LEVELS, Level, Scope, check_scope
from admin.messages.attributes import (
    ConfigurationAnswer,
    DeleteAnswer,
    DeleteBody,
    DeleteQuery,
    ListAnswer,
    ListQuery,
    NoEffectAnswer,
    NoEffectQuery,
    NoEffectReason,
    PatchBody,
    PatchQuery,
    PutBody,
    ReadAnswer,
    ReadQuery,
    WriteAnswer,
    attribute_filter,
)
from admin.messages.pages import key_of, token_of
from admin.messages.reading import present_fields
from admin.messages.requests import Fields, WriteQuery
from admin.messages.shared import ProvenanceAnswer
from admin.services import attributes, no_effect
from admin.services.changeable.attributes import QUOTAS_WRITE
from admin.services.changeable.base import ChangeOptions, Mode
from admin.services.changes import Changed
from admin.services.context import Context
from admin.services.effective import Effective

operations = Operations("attributes")


def path_of(level: Level) -> str:
    """`/project_domain_attributes/<project>/<domain>`; the last part takes slashes, to be refused by name."""
    *parts, last = level.keys
    noun = level.value.replace("-", "_")
    return "/".join([f"/{noun}_attributes", *(f"<{part}>" for part in parts), f"<rest:{last}>"])


def _register(level: Level) -> None:
    """The four operations of one level."""
    path, where = path_of(level), f"at {level.value} level"
    noun = f"{level.value.replace('-', '_')}_attribute"

    @operations.add(
        "GET",
        path,
        id=f"get_{noun}",
        summary=f"Read an attribute {where}",
        query=ReadQuery,
        answer=ReadAnswer,
        errors=(404,),
        permission="attributes.read",
    )
    def read(query: Fields, **keys: str) -> Response:
        kind = context().settings.kinds.find(query["resource_type"])
        reading = attributes.read_attribute(
            context(), kind, check_scope(**keys), exact=query["exact"], with_provenance=query["provenance"]
        )
        return respond(ReadAnswer.from_reading(reading), etag=None if reading.row is None else reading.row.version)

    change = partial(
        operations.add,
        path=path,
        errors=(409,),
        headers=WRITE_HEADERS,
        permission="attributes.write",
        also=QUOTAS_WRITE,
    )

    @change(
        "PUT",
        id=f"put_{noun}",
        summary=f"Replace an attribute {where}",
        query=WriteQuery,
        body=PutBody,
        answer=WriteAnswer,
    )
    def put(query: Fields, body: PutBody, **keys: str) -> Response:
        options = change_options(query, present_fields(body), Mode.PLAN)
        return _respond(*put_attribute(context(), check_scope(**keys), body, expectation(), options))

    @change(
        "PATCH",
        id=f"patch_{noun}",
        summary=f"Change single fields of an attribute {where}",
        query=PatchQuery,
        body=PatchBody,
        answer=WriteAnswer,
    )
    def patch(query: Fields, body: Fields, **keys: str) -> Response:
        kind = context().settings.kinds.find(query["resource_type"])
        after, options = partial(_patched, kind, body), change_options(query, body, Mode.PLAN)
        changed = attributes.write_attribute(context(), kind, check_scope(**keys), after, expectation(), options)
        return _respond(kind, changed)

    @change(
        "DELETE",
        id=f"delete_{noun}",
        summary=f"Delete an attribute {where}, and nothing below it",
        query=DeleteQuery,
        body=DeleteBody,
        body_optional=True,
    )
    def delete(query: Fields, body: Fields, **keys: str) -> DeleteAnswer:
        return DeleteAnswer.from_changed(*_delete(check_scope(**keys), query, body))


def _patched(kind: Kind, body: Fields, before: Payload | None) -> Payload | None:
    leaves = {"set_": body["set"], "unset": body["unset"], "inherit": body["inherit"]}
    return apply_patch(kind, before or {}, **leaves) or None


def _delete(scope: Scope, query: Fields, body: Fields) -> tuple[Changed, Effective | None]:
    _check_same_scope(scope, body)
    fields = _agreed(query, body)
    kind, options = _kind(fields.get("resource_type")), change_options(query, fields, Mode.PLAN)
    return attributes.delete_attribute(context(), kind, scope, expectation(), options)


for _level in STORED_LEVELS:
    _register(_level)


@operations.add(
    "GET", "/matchable_attributes", query=ListQuery, shows_some=True, permission="attributes.read", errors=(404,)
)
def list_attributes(query: Fields) -> ListAnswer:
    """List the stored attributes of a kind."""
    kinds = context().settings.kinds
    after = key_of(query.get("token"), 5)
    page = attributes.list_attributes(
        context(), attribute_filter(query, kinds), after, query["limit"], at=query.get("at")
    )
    return ListAnswer(
        configurations=[
            ConfigurationAnswer.from_row(kinds[row.kind], row, page.provenance.get(row.version)) for row in page.rows
        ],
        token=token_of(page.next_key),
    )


@operations.add(
    "GET",
    "/matchable_attributes/no_effect",
    query=NoEffectQuery,
    shows_some=True,
    permission="attributes.read",
    errors=(404,),
)
def list_no_effect(query: Fields) -> NoEffectAnswer:
    """List the stored attributes that affect no execution, each with the reason."""
    conditions = attribute_filter(query, context().settings.kinds)
    page = no_effect.list_no_effect(context(), conditions, key_of(query.get("token"), 5), query["limit"])
    return NoEffectAnswer(
        warnings=[NoEffectReason.from_reason(warning, page.set_by.fields) for warning in page.warnings],
        revision=page.revision,
        examined=page.examined,
        revisions=ProvenanceAnswer.by_number(page.set_by.provenance),
        token=token_of(page.next_key),
    )


def _kind(word: str | None) -> Kind:
    if word is None:
        names = [kind.name for kind in context().settings.kinds]
        raise invalid("resource_type", f"is missing: name a kind, one of {', '.join(names)}.")
    return context().settings.kinds.find(word)


def _agreed(query: Fields, body: Fields) -> Fields:
    """What query and body say together; Invalid where they contradict each other."""
    for key in query.keys() & body.keys():
        same = _kind(query[key]) is _kind(body[key]) if key == "resource_type" else query[key] == body[key]
        if not same:
            raise invalid(key, "differs between query and body; give it once.")
    return {**query, **body}


def put_attribute(
    context: Context, scope: Scope, body: PutBody, expectation: Expectation, options: ChangeOptions
) -> tuple[Kind, Changed]:
    """Replace the attribute at a scope by what a body says."""
    _check_same_scope(scope, present_fields(body.attributes), "attributes.")
    _check_same_scope(scope, present_fields(body))
    kind, payload = context.settings.kinds.of_payload(body.attributes.matching_attributes)
    kind.check_level(scope.level)
    normal = kind.read(payload)
    return kind, attributes.write_attribute(context, kind, scope, lambda _before: normal, expectation, options)


def _check_same_scope(scope: Scope, keys: Fields, under: str = "") -> None:
    """A body may repeat the path's scope, as Flyte's do; it may not name another."""
    for key in Scope._fields:
        value = keys.get(key)
        if value and value != getattr(scope, key):
            mine = getattr(scope, key)
            other = f"'{mine}'" if mine else "none"
            reason = (
                f"'{shorten(value)}' is not what the path names ({other}); leave it out or use the path of that scope."
            )
            raise invalid(f"{under}{key}", reason)


def _respond(kind: Kind, changed: Changed) -> Response:
    return respond(WriteAnswer.from_changed(kind, changed), etag=None if changed.dry_run else changed.rows[0].version)
