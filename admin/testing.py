"""For tests of programs that talk to Rainbow: a real admin within the test's own process.

`running_admin` serves it on a free port of the loopback interface, for the Python client, an agent or rainbowctl:

    from admin.testing import running_admin
    from ctl.client import Client

    with running_admin() as url, Client(url) as client:
        assert [project["id"] for project in client.projects()] == ["flyteexamples", "flytesnacks"]

`admin_app` gives its Flask app, for requests without a server:

    with admin_app() as app:
        assert app.test_client().get("/readyz").status_code == 200

Both start with a new SQLite database, which is deleted at the end. The configuration is that of rainbow.yaml:

    running_admin({"clusters": {"poolNameClusterMap": {"gpu": [{"id": "east"}]}}})
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy
from flask import Flask
from werkzeug.serving import WSGIRequestHandler, make_server

from admin.app import create_app
from admin.configuration import load_settings
from admin.loops.background import start_background
from admin.server.startup import prepare
from admin.store.schema import migrate

#: Sections of rainbow.yaml, by name.
Sections = Mapping[str, Any]


@contextmanager
def admin_app(config: Sections | None = None, *, config_file: str | None = None) -> Iterator[Flask]:
    """An admin's Flask app, without background work; on a new database unless the configuration names one."""
    with tempfile.TemporaryDirectory(prefix="rainbow-") as directory:
        database = dict((config or {}).get("database", {}))
        if "url" not in database:
            path = Path(directory) / "rainbow.db"
            path.write_bytes(migrated_database())
            database["url"] = f"sqlite:///{path}"
        app = create_app(load_settings(config_file, {}, {**(config or {}), "database": database}))
        try:
            prepare(app)
            yield app
        finally:
            context = app.extensions["rainbow"]
            context.close()
            context.database.engine.dispose()


@contextmanager
def running_admin(config: Sections | None = None, *, config_file: str | None = None) -> Iterator[str]:
    """The URL of an admin that runs in threads of this process, its background work included."""
    with admin_app(config, config_file=config_file) as app:
        server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_QuietHandler)
        serving = threading.Thread(target=server.serve_forever, name="admin", daemon=True)
        serving.start()
        leader = start_background(app.extensions["rainbow"])
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            leader.close()
            app.extensions["rainbow"].close()  # answers the requests that wait
            server.shutdown()
            serving.join()
            server.server_close()


class _QuietHandler(WSGIRequestHandler):
    """Keeps connections open between requests, and logs none of them."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer is several packets, the last of which would wait for the client

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@cache
def migrated_database() -> bytes:
    """The file of an empty database with the current schema, migrated once in each process."""
    with tempfile.TemporaryDirectory(prefix="rainbow-") as directory:
        path = Path(directory) / "rainbow.db"
        engine = sqlalchemy.create_engine(f"sqlite:///{path}")
        migrate(engine)
        engine.dispose()
        return path.read_bytes()
