"""Probes, metrics, version, and the API's own description."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app
from marshmallow import INCLUDE, Schema, fields

from admin import __version__
from admin.api.current import context
from admin.api.operations import Operations
from admin.errors import Unavailable
from admin.metrics import StateCollector, exposition
from admin.services.state import is_ready

probes = Operations("service", prefix="")
description = Operations("description")


class StatusAnswer(Schema):
    status = fields.String(required=True)


class FlyteVersion(Schema):
    Version = fields.String(required=True)
    Build = fields.String(required=True)
    BuildTime = fields.String(required=True)


class VersionAnswer(Schema):
    version = fields.String(required=True)
    control_plane_version = fields.Nested(FlyteVersion, required=True)


class DocumentAnswer(Schema):
    class Meta:
        unknown = INCLUDE

    openapi = fields.String(required=True)


@probes.add("GET", "/healthz", summary="Whether the process is up", answer=StatusAnswer, errors=(), is_open=True)
def healthz() -> dict[str, str]:
    return {"status": "ok"}


@probes.add("GET", "/readyz", summary="Whether requests can be served", answer=StatusAnswer, errors=(), is_open=True)
def readyz() -> dict[str, str]:
    ready, reason = is_ready(context())
    if not ready:
        raise Unavailable(f"Not ready: {reason}.")
    return {"status": reason}


@description.add("GET", "/version", summary="The admin's version", answer=VersionAnswer, errors=(), is_open=True)
def version() -> dict[str, Any]:
    flyte = {"Version": __version__, "Build": "", "BuildTime": ""}
    return {"version": __version__, "control_plane_version": flyte}


@description.add("GET", "/openapi.json", summary="This document", answer=DocumentAnswer, errors=(), is_open=True)
def openapi() -> dict[str, Any]:
    found: dict[str, Any] = current_app.extensions["rainbow-openapi"]()
    return found


@probes.add("GET", "/metrics", summary="Prometheus metrics", answer=None, errors=(), is_open=True)
def metrics() -> Response:
    collector: StateCollector = current_app.extensions["rainbow-metrics"]
    return Response(exposition(collector), content_type="text/plain; version=0.0.4; charset=utf-8")
