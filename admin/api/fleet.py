"""The fleet over HTTP: clusters, pools and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from marshmallow import Schema, fields, validate

from admin.api import rendering
from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.api.pages import key_of, number_of, token_of
from admin.api.preconditions import WRITE_HEADERS, WriteQuery, expectation
from admin.api.schemas import NAME, PRINTABLE_LINES, AuthorshipFields, Flag, PageQuery, RequestSchema, WarningAnswer
from admin.core.changes import Authorship, read_named
from admin.core.fleet.clusters import Health
from admin.core.fleet.definitions import FleetKind, Source
from admin.core.fleet.fleet import Fleet
from admin.core.fleet.groups import Group
from admin.core.problems import Invalid, Problem
from admin.core.resources import format_amounts
from admin.services import fleet
from admin.services.changeable.base import ChangeOptions, Mode
from admin.services.changes import Changed
from admin.services.definitions import current_fleet
from admin.services.fleet import ClusterView

operations = Operations("fleet")


class DeleteQuery(WriteQuery):
    force = Flag(load_default=False, metadata={"description": "Delete it although it is in use."})


class ClustersQuery(PageQuery):
    pool = fields.String(validate=NAME)
    label = fields.String(validate=NAME)


class SwitchBody(RequestSchema):
    reason = fields.String(validate=[validate.Length(max=1000), PRINTABLE_LINES])
    claimed_by = fields.String(validate=NAME)


class ReportBody(RequestSchema):
    """What a cluster says of itself; the core checks it."""

    capacity = fields.Raw(metadata={"type": "object"})
    free = fields.Raw(metadata={"type": "object"})
    eta = fields.Raw(metadata={"type": "string"})
    plugins = fields.Raw(metadata={"type": "array", "items": {"type": "string"}})
    engine = fields.Raw(metadata={"type": "string"})
    engine_version = fields.Raw(metadata={"type": "string"})
    properties = fields.Raw(metadata={"type": "object"})


class MemberAnswer(Schema):
    id = fields.String(required=True)
    weight = fields.Float(required=True)
    expected = fields.Boolean(required=True)


class GroupAnswer(Schema):
    name = fields.String(required=True)
    members = fields.List(fields.Nested(MemberAnswer), required=True)
    strategy = fields.String()
    description = fields.String()
    source = fields.String(required=True)
    version = fields.Integer()


class ClusterAnswer(Schema):
    name = fields.String(required=True)
    endpoint = fields.String()
    auth = fields.Dict()
    enabled = fields.Boolean(required=True)
    cordoned = fields.Boolean(required=True)
    cordon_reason = fields.String()
    draining = fields.Boolean(required=True)
    drain_deadline = fields.DateTime()
    last_sync_at = fields.DateTime()
    agent = fields.String(metadata={"description": "The process that synced last."})
    leases = fields.Integer(required=True)
    state = fields.String(required=True, validate=validate.OneOf(["pending", *(health.value for health in Health)]))
    cost = fields.Float()
    capacity = fields.Dict()
    free = fields.Dict()
    waiting = fields.Integer(required=True)
    running = fields.Integer(required=True)
    pools = fields.List(fields.String(), required=True)
    labels = fields.List(fields.String(), required=True)
    reported_at = fields.DateTime()
    engine = fields.String()
    engine_version = fields.String()
    plugins = fields.List(fields.String())
    eta = fields.String()
    properties = fields.Dict()
    description = fields.String()
    source = fields.String(required=True)
    version = fields.Integer()


class SwitchedAnswer(Schema):
    cluster = fields.Nested(ClusterAnswer, required=True)
    changed = fields.Boolean(required=True)


class ReportedAnswer(Schema):
    cluster = fields.Nested(ClusterAnswer, required=True)


class ClusterEventAnswer(Schema):
    number = fields.Integer(required=True)
    at = fields.DateTime(required=True)
    type = fields.String(required=True)
    reason = fields.String()
    claimed_by = fields.String()


class ClusterEventsAnswer(Schema):
    events = fields.List(fields.Nested(ClusterEventAnswer), required=True)
    token = fields.String()


def _shown_group(group: Group, found: Fleet) -> dict[str, Any]:
    definition = group.definition
    answer: dict[str, Any] = {
        "name": group.name,
        "members": [
            {
                "id": one.cluster,
                "weight": one.weight,
                "expected": found.clusters[one.cluster].definition.source is Source.EXPECTED,
            }
            for one in group.members
        ],
        "strategy": group.strategy if definition.kind is FleetKind.POOL else None,
        "description": definition.payload.get("description"),
        "source": definition.source.value,
        "version": definition.version,
    }
    return {name: value for name, value in answer.items() if value is not None}


def shown_cluster(view: ClusterView) -> dict[str, Any]:
    """A cluster as it stands in answers."""
    one = view.cluster
    defined, report = one.definition.payload, one.state.report
    answer: dict[str, Any] = {
        "name": one.name,
        "endpoint": defined.get("endpoint"),
        "auth": defined.get("auth"),
        "enabled": one.enabled,
        "cordoned": one.cordoned,
        "cordon_reason": one.state.cordon_reason,
        "draining": one.state.draining,
        "drain_deadline": rendering.time(one.state.drain_deadline) if one.state.drain_deadline else None,
        "last_sync_at": rendering.time(one.state.last_sync_at) if one.state.last_sync_at else None,
        "agent": one.state.agent,
        "leases": view.leases,
        "state": "pending" if not one.state.admitted else one.health.value,
        "cost": one.cost,
        "capacity": format_amounts(one.capacity) if one.capacity is not None else None,
        "free": format_amounts(view.free) if view.free is not None else None,
        "waiting": view.waiting,
        "running": view.running,
        "pools": view.pools,
        "labels": view.labels,
        "reported_at": rendering.time(one.state.reported_at) if one.state.reported_at else None,
        "engine": report.get("engine"),
        "engine_version": report.get("engine_version"),
        "plugins": report.get("plugins"),
        "eta": report.get("eta"),
        "properties": {**defined.get("properties", {}), **report.get("properties", {})} or None,
        "description": defined.get("description"),
        "source": one.definition.source.value,
        "version": one.definition.version,
    }
    return {name: value for name, value in answer.items() if value is not None}


def _list(kind: FleetKind, query: dict[str, Any]) -> list[dict[str, Any]]:
    if kind is FleetKind.CLUSTER:
        views = fleet.list_clusters(context(), pool=query.get("pool"), label=query.get("label"))
        return [shown_cluster(view) for view in views]
    with context().database.reading() as connection:
        found = current_fleet(context(), connection)
    return [_shown_group(group, found) for group in fleet.list_groups(context(), kind)]


def _get(kind: FleetKind, name: str) -> dict[str, Any]:
    if kind is FleetKind.CLUSTER:
        return shown_cluster(fleet.get_cluster(context(), name))
    with context().database.reading() as connection:
        found = current_fleet(context(), connection)
    return _shown_group(fleet.get_group(context(), kind, name), found)


def _options(query: dict[str, Any], body: dict[str, Any]) -> ChangeOptions:
    authorship = Authorship(
        claimed_by=body.get("claimed_by"), message=body.get("message"), request_id=caller().request_id
    )
    mode = Mode.of(dry_run=query["dry_run"])
    return ChangeOptions(authorship=authorship, mode=mode, force=query.get("force", False))


def _written(kind: FleetKind, name: str, changed: Changed) -> dict[str, Any]:
    row = changed.rows[0]
    answer: dict[str, Any] = {
        "version": row.version,
        "revision": changed.revision,
        "changed": changed.is_change,
        "dry_run": changed.dry_run,
        "warnings": [rendering.warning(one) for one in changed.warnings],
    }
    if row.change.after is not None:
        is_stored = not changed.dry_run or not changed.is_change
        answer[kind.noun] = _get(kind, name) if is_stored else {"name": name, **row.change.after}
    return {key: value for key, value in answer.items() if value is not None}


def _operations_of(kind: FleetKind, answer: type[Schema]) -> None:
    """The operations that clusters, pools and labels have in common."""
    noun, nouns = kind.noun, f"{kind.noun}s"
    shape: dict[str, fields.Field[Any]] = {noun: fields.Raw(required=True, metadata={"type": "object"})}
    body = cast(type[RequestSchema], AuthorshipFields.from_dict(shape, name=f"{noun.title()}Body"))
    listed = Schema.from_dict(
        {nouns: fields.List(fields.Nested(answer), required=True), "token": fields.String()},
        name=f"{noun.title()}ListAnswer",
    )
    written = Schema.from_dict(
        {
            noun: fields.Nested(answer),
            "version": fields.Integer(),
            "revision": fields.Integer(required=True),
            "changed": fields.Boolean(required=True),
            "dry_run": fields.Boolean(required=True),
            "warnings": fields.List(fields.Nested(WarningAnswer), required=True),
        },
        name=f"{noun.title()}Written",
    )

    @operations.add(
        "GET",
        f"/{nouns}",
        summary=f"List the {nouns}",
        query=ClustersQuery if kind is FleetKind.CLUSTER else PageQuery,
        answer=listed,
        errors=(400, 404),
    )
    def list_all(query: dict[str, Any]) -> dict[str, Any]:
        after = key_of(query.get("token"), 1)
        found = [one for one in _list(kind, query) if after is None or one["name"] > after[0]]
        page = found[: query["limit"]]
        shown_page: dict[str, Any] = {nouns: page}
        return shown_page | {"token": token_of((page[-1]["name"],))} if len(found) > len(page) else shown_page

    @operations.add(
        "POST", f"/{nouns}", summary=f"Define a {noun}", query=WriteQuery, body=body, answer=written, errors=(400, 409)
    )
    def create(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        name, payload = read_named(body[noun], noun)
        return _written(kind, name, fleet.create_definition(context(), kind, name, payload, _options(query, body)))

    @operations.add("GET", f"/{nouns}/<name>", summary=f"Read a {noun}", answer=answer, errors=(404,))
    def get(name: str) -> dict[str, Any]:
        return _get(kind, name)

    @operations.add(
        "PUT",
        f"/{nouns}/<name>",
        summary=f"Define a {noun}, or define it anew",
        query=WriteQuery,
        body=body,
        answer=written,
        errors=(400, 409),
        headers=WRITE_HEADERS,
    )
    def put(name: str, query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        said = body[noun]
        named, payload = read_named({"name": name, **said} if isinstance(said, dict) else said, noun)
        if named != name:
            raise Invalid(Problem(field=f"{noun}.name", reason="is not the path's; leave it out."))
        changed = fleet.put_definition(context(), kind, name, payload, expectation(), _options(query, body))
        return _written(kind, name, changed)

    @operations.add(
        "DELETE",
        f"/{nouns}/<name>",
        summary=f"Delete a {noun}",
        query=DeleteQuery,
        body=AuthorshipFields,
        body_optional=True,
        answer=written,
        errors=(400, 409),
        headers=WRITE_HEADERS,
    )
    def delete(name: str, query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        changed = fleet.delete_definition(context(), kind, name, expectation(), _options(query, body))
        return _written(kind, name, changed)


_operations_of(FleetKind.CLUSTER, ClusterAnswer)
_operations_of(FleetKind.POOL, GroupAnswer)
_operations_of(FleetKind.LABEL, GroupAnswer)


def _switch(word: str, summary: str, act: Callable[[str, dict[str, Any]], tuple[ClusterView, bool]]) -> None:
    @operations.add(
        "POST",
        f"/clusters/<name>/{word}",
        summary=summary,
        body=SwitchBody,
        body_optional=True,
        answer=SwitchedAnswer,
        errors=(400, 404),
    )
    def switch(name: str, body: dict[str, Any]) -> dict[str, Any]:
        view, is_change = act(name, body)
        return {"cluster": shown_cluster(view), "changed": is_change}


def _enable(name: str, body: dict[str, Any], to: bool) -> tuple[ClusterView, bool]:
    return fleet.set_enabled(context(), name, to, body.get("reason"), body.get("claimed_by"))


def _cordon(name: str, body: dict[str, Any], to: bool) -> tuple[ClusterView, bool]:
    return fleet.set_cordoned(context(), name, to, body.get("reason"), body.get("claimed_by"))


_switch("enable", "Let a cluster take part", lambda name, body: _enable(name, body, True))
_switch("disable", "Take a cluster out of use", lambda name, body: _enable(name, body, False))
_switch("cordon", "Give a cluster no new work", lambda name, body: _cordon(name, body, True))
_switch("uncordon", "Give a cluster work again", lambda name, body: _cordon(name, body, False))


@operations.add(
    "PUT",
    "/clusters/<name>/state",
    summary="Report what a cluster has, and what is free",
    body=ReportBody,
    answer=ReportedAnswer,
    errors=(400, 404),
)
def report_state(name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"cluster": shown_cluster(fleet.report_state(context(), name, body))}


@operations.add(
    "GET",
    "/clusters/<name>/events",
    summary="What happened to a cluster, newest first",
    query=PageQuery,
    answer=ClusterEventsAnswer,
    errors=(400, 404),
)
def list_events(name: str, query: dict[str, Any]) -> dict[str, Any]:
    found, last = fleet.list_events(context(), name, number_of(query.get("token")), query["limit"])
    events = [
        {
            key: value
            for key, value in {**vars(one), "at": rendering.time(one.at)}.items()
            if value is not None and key != "cluster"
        }
        for one in found
    ]
    answer: dict[str, Any] = {"events": events}
    return answer | {"token": token_of((str(last),))} if last is not None else answer
