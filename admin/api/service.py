"""Probes, metrics, version, and the API's own description."""

from __future__ import annotations

from flask import Response, current_app, jsonify

from admin.api.current import context
from admin.api.operations import Operations
from admin.errors import Unavailable
from admin.messages.service import DocumentAnswer, StatusAnswer, VersionAnswer
from admin.metrics import StateCollector, exposition
from admin.services.state import is_ready

probes = Operations("service", prefix="")
description = Operations("description")


@probes.add("GET", "/healthz", summary="Whether the process is up", answer=StatusAnswer, errors=(), is_open=True)
def healthz() -> StatusAnswer:
    return StatusAnswer(status="ok")


@probes.add("GET", "/readyz", summary="Whether requests can be served", answer=StatusAnswer, errors=(), is_open=True)
def readyz() -> StatusAnswer:
    ready, reason = is_ready(context())
    if not ready:
        raise Unavailable(f"Not ready: {reason}.")
    return StatusAnswer(status=reason)


@description.add("GET", "/version", summary="The admin's version", answer=VersionAnswer, errors=(), is_open=True)
def version() -> VersionAnswer:
    return VersionAnswer.current()


@description.add("GET", "/openapi.json", summary="This document", answer=DocumentAnswer, errors=(), is_open=True)
def openapi() -> Response:
    return jsonify(current_app.extensions["rainbow-openapi"]())


@probes.add("GET", "/metrics", summary="Prometheus metrics", answer=None, errors=(), is_open=True)
def metrics() -> Response:
    collector: StateCollector = current_app.extensions["rainbow-metrics"]
    return Response(exposition(collector), content_type="text/plain; version=0.0.4; charset=utf-8")
