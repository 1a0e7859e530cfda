"""Fixtures that every room of tests shares."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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
from tests.support.admins import RunningAdmin, running_admin
from tests.support.postgresql import binaries, running_postgresql
from tests.support.slurm import SlurmCluster, missing_programs, running_slurm


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """In continuous integration every server can be installed, so a skipped test is a failed one."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in continuous integration: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A real PostgreSQL server."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with running_postgresql() as url:
        yield url


@pytest.fixture(scope="session")
def slurm_clusters() -> Iterator[tuple[SlurmCluster, SlurmCluster]]:
    """Two real Slurm clusters of one node each, which know nothing of each other."""
    if missing_programs():
        pytest.skip(f"Slurm is not installed: there is no {', '.join(missing_programs())}")
    with running_slurm("red") as red, running_slurm("blue") as blue:
        yield red, blue


@pytest.fixture
def new_postgresql_database(postgresql_url: str) -> Callable[[], str]:
    """Makes empty databases on the real server."""

    def create() -> str:
        name = f"test_{secrets.token_hex(6)}"
        engine = sqlalchemy.create_engine(postgresql_url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        engine.dispose()
        return postgresql_url.rsplit("/", 1)[0] + f"/{name}"

    return create


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database; each test that asks for it runs on both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rainbow.db'}"
    create: Callable[[], str] = request.getfixturevalue("new_postgresql_database")
    return create()


MakeApp = Callable[..., Flask]


@pytest.fixture
def make_app(database_url: str) -> Iterator[MakeApp]:
    """Makes apps on one database, set up and with the configured projects."""
    made: list[Flask] = []

    def make(config_file: str | None = None, **sections: dict[str, Any]) -> Flask:
        overrides = {**sections, "database": {"url": database_url, **sections.get("database", {})}}
        app = create_app(load_settings(config_file, {}, overrides))
        context: Context = app.extensions["rainbow"]
        migrate(context.database.engine)
        seed_projects(context)
        made.append(app)
        return app

    yield make
    for app in made:
        context = app.extensions["rainbow"]
        for news in (context.heads, context.happenings, context.news):
            news.close()
        with app.app_context():
            db.engine.dispose()


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    return make_app()


@pytest.fixture
def context(app: Flask) -> Context:
    found: Context = app.extensions["rainbow"]
    return found


@pytest.fixture
def api(app: Flask) -> FlaskClient:
    """The HTTP API, without a server in between."""
    return app.test_client()


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[RunningAdmin]:
    """A real admin with the default configuration on a new SQLite database."""
    with running_admin(tmp_path) as running:
        yield running
