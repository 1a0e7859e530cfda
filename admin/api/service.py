"""The admin itself: probes, metrics, version, clock, configuration, kinds, warnings, and the API's own description."""

from __future__ import annotations

from flask import Response, current_app, redirect, request
from werkzeug.wrappers import Response as AnyResponse

from admin import __version__
from admin.api.browsers import CONSOLE
from admin.api.current import context
from admin.api.operations import Operations, respond
from admin.api.writes import actor
from admin.core.permissions import OPEN, SIGNED_IN
from admin.errors import Unavailable
from admin.messages.attributes import attribute_filter
from admin.messages.health import HealthAnswer
from admin.messages.pages import token_of
from admin.messages.requests import Fields
from admin.messages.service import (
    AdminConfigurationAnswer,
    ClockAcceptedAnswer,
    ClockAnswer,
    DocumentAnswer,
    IndexAnswer,
    KindAnswer,
    KindsAnswer,
    StatusAnswer,
    VersionAnswer,
    WarningsAnswer,
    WarningsQuery,
    position_of,
)
from admin.messages.shared import WarningAnswer
from admin.messages.switches import SwitchBody
from admin.metrics import StateCollector, exposition
from admin.services import clocks
from admin.services.health import read_health
from admin.services.reconciliations import RESTORED, is_waiting
from admin.services.state import is_ready
from admin.services.warnings import list_warnings

DOCS_PATH = "/api/v1/docs"
DOCUMENT_PATH = "/api/v1/openapi.json"

probes = Operations("service", prefix="")
description = Operations("description")
kinds = Operations("kinds")
warnings = Operations("warnings")
clock = Operations("clock")
health = Operations("health")
configuration = Operations("configuration")


@probes.add("GET", "/", answer=IndexAnswer, permission=OPEN)
def index() -> AnyResponse:
    """Where the API is described; a browser is led to the console."""
    types = request.accept_mimetypes
    if types.best_match(["application/json", "text/html"]) == "text/html":
        response = redirect(CONSOLE)
    else:
        response = respond(IndexAnswer(version=__version__, documentation=f"{DOCS_PATH}/", openapi=DOCUMENT_PATH))
    response.vary.add("Accept")
    return response


@probes.add("GET", "/healthz", permission=OPEN)
def healthz() -> StatusAnswer:
    """Whether the process is up."""
    return StatusAnswer(status="ok")


@probes.add("GET", "/readyz", permission=OPEN)
def readyz() -> StatusAnswer:
    """Whether requests can be served."""
    ready, reason = is_ready(context())
    if not ready:
        raise Unavailable(f"Not ready: {reason}.")
    detail = RESTORED if is_waiting(context()) else None
    return StatusAnswer(status=reason, detail=detail)


@description.add("GET", "/version", permission=OPEN)
def version() -> VersionAnswer:
    """The admin's version."""
    return VersionAnswer.current()


@description.add("GET", "/openapi.json", answer=DocumentAnswer, permission=OPEN)
def openapi() -> Response:
    """This document."""
    return Response(current_app.extensions["rainbow-openapi"](), mimetype="application/json")


@probes.add("GET", "/metrics", permission="metrics.read", guarded_with_users=True)
def metrics() -> Response:
    """Prometheus metrics."""
    collector: StateCollector = current_app.extensions["rainbow-metrics"]
    return Response(exposition(collector), content_type="text/plain; version=0.0.4; charset=utf-8")


@kinds.add("GET", "/kinds", permission=SIGNED_IN)
def list_kinds() -> KindsAnswer:
    """List the kinds."""
    return KindsAnswer(kinds=[KindAnswer.from_kind(kind) for kind in context().settings.kinds])


@warnings.add("GET", "/warnings", query=WarningsQuery, shows_some=True, permission="attributes.read")
def get_warnings(query: Fields) -> WarningsAnswer:
    """List what is stored but questionable, perhaps at and below a scope: by pages where a limit is given."""
    conditions = attribute_filter({**query, "resource_type": "all"}, context().settings.kinds)
    page = list_warnings(
        context(),
        position_of(query.get("token")),
        query.get("limit"),
        where=None if conditions.is_everything else conditions,
    )
    return WarningsAnswer(
        warnings=[WarningAnswer.from_warning(warning) for warning in page.warnings], token=token_of(page.next_key)
    )


@clock.add("GET", "/clock", permission="clock.read")
def get_clock() -> ClockAnswer:
    """The admin's clock, and whether pruning and giving up are suspended because it has jumped."""
    return ClockAnswer.from_view(clocks.read_clock(context()))


@health.add("GET", "/health", permission="metrics.read")
def get_health() -> HealthAnswer:
    """How the admin itself fares: its database, background work and clock, and what is wrong."""
    return HealthAnswer.from_health(read_health(context()))


@clock.add("POST", "/clock/accept", body=SwitchBody, body_optional=True, permission="clock.write")
def accept_clock(body: Fields) -> ClockAcceptedAnswer:
    """Trust the clock as it is, so that pruning and giving up go on."""
    view, is_change = clocks.accept_clock(context(), body.get("reason"), actor(body))
    return ClockAcceptedAnswer(clock=ClockAnswer.from_view(view), changed=is_change)


@configuration.add("GET", "/configuration", permission="configuration.read")
def get_configuration() -> AdminConfigurationAnswer:
    """The configuration in force, without passwords."""
    return AdminConfigurationAnswer.from_settings(context().settings)
