"""A Flask application that does as little as possible, on the server that the admin runs on.

`python -m bench.ceilings_app PORT DATABASE_URL` serves it on loopback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, jsonify, request
from marshmallow import Schema, fields, validate
from sqlalchemy import JSON, Column, DateTime, Engine, Integer, MetaData, Table, Text, insert

from admin.configuration import load_settings
from admin.errors import RainbowError
from admin.logs import log_configuration
from bench.databases import plain_engine

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

metadata = MetaData()
#: As much as one would store of an execution at the least.
items = Table(
    "items",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("name", Text, nullable=False, unique=True),
    Column("spec", JSON, nullable=False),
    Column("state", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False),
)
_NAME = validate.Length(min=1, max=255)


class ResourcesBody(Schema):
    requests = fields.Dict(keys=fields.String(), values=fields.String())


class JobBody(Schema):
    command = fields.List(fields.String(), required=True)
    resources = fields.Nested(ResourcesBody)


class SpecBody(Schema):
    job = fields.Nested(JobBody)
    launch_plan = fields.Dict(keys=fields.String(), values=fields.String())


class ItemBody(Schema):
    project = fields.String(required=True, validate=_NAME)
    domain = fields.String(required=True, validate=_NAME)
    name = fields.String(required=True, validate=_NAME)
    spec = fields.Nested(SpecBody, required=True)


def row_of(body: dict[str, Any]) -> dict[str, Any]:
    """A body as it is stored."""
    return {**body, "state": "QUEUED", "created_at": datetime.now(UTC)}


def inserter(engine: Engine) -> Callable[[list[dict[str, Any]]], None]:
    """Stores rows and commits, as Core does it."""
    statement = insert(items)

    def store(rows: list[dict[str, Any]]) -> None:
        with engine.begin() as connection:
            connection.execute(statement, rows if len(rows) > 1 else rows[0])

    return store


def create_app(database: str) -> Flask:
    """Two routes: one that does nothing, and one that checks a body and stores a row."""
    app = Flask(__name__)
    store = inserter(plain_engine(database))
    schema = ItemBody()

    @app.get("/empty")
    def empty() -> Response:
        return jsonify(ok=True)

    @app.post("/items")
    def add() -> Response:
        body = schema.load(request.get_json())
        store([row_of(body)])
        return jsonify(name=body["name"])

    return app


def main(port: int, database: str) -> None:
    """Serve with the admin's own settings of the server."""
    from admin.server.granian_worker import serve_worker  # only here: the table needs no server
    from admin.server.receiver import Receiver
    from admin.server.serving import build_server

    def load() -> Receiver:
        return Receiver(_Front(create_app(database)), settings.server.receive_seconds)

    settings = load_settings(None, {}, {})
    logs = log_configuration("warning", settings.log_format)
    server = build_server(settings.server, port, logs)
    server.serve(spawn_target=serve_worker, target_loader=load, wrap_loader=False)


class _Front:
    """Passes every request on."""

    def __init__(self, app: Flask) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self._app(environ, start_response)

    def admit(self, _environ: WSGIEnvironment, _start_response: StartResponse) -> None:
        return None

    def refuse(self, _environ: WSGIEnvironment, start_response: StartResponse, error: RainbowError) -> list[bytes]:
        start_response(f"{error.status} FAILED", [])
        return []

    def most_bytes(self, _environ: WSGIEnvironment) -> int:
        return 1024 * 1024


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
