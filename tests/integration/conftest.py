"""An admin that several tests share, for tables of small tests that each keep to names of their own."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator

import pytest
import sqlalchemy
from flask import Flask
from flask.testing import FlaskClient

from admin.app import create_app
from admin.services.context import Context
from admin.services.projects import seed_projects
from admin.settings import load_settings
from admin.store.database import db
from admin.store.schema import migrate
from tests.support.placing import new_project


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """One admin for a whole module, on both databases; the module's SECTIONS configure it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('shared') / 'rainbow.db'}"
    if request.param == "postgresql":
        server: str = request.getfixturevalue("postgresql_url")
        name = f"shared_{secrets.token_hex(6)}"
        engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        url = server.rsplit("/", 1)[0] + f"/{name}"
    sections = getattr(request.module, "SECTIONS", {})
    app = create_app(load_settings(None, {}, {**sections, "database": {"url": url}}))
    found: Context = app.extensions["rainbow"]
    migrate(found.database.engine)
    seed_projects(found)
    yield app
    for news in (found.heads, found.happenings, found.news):
        news.close()
    with app.app_context():
        db.engine.dispose()


@pytest.fixture
def shared(shared_app: Flask) -> FlaskClient:
    return shared_app.test_client()


@pytest.fixture
def shared_context(shared_app: Flask) -> Context:
    found: Context = shared_app.extensions["rainbow"]
    return found


@pytest.fixture
def project(shared: FlaskClient, request: pytest.FixtureRequest) -> str:
    """A project of the test's own, called the same every time, so that its executions draw the same."""
    return new_project(shared, "p" + hashlib.blake2b(request.node.nodeid.encode(), digest_size=6).hexdigest())
