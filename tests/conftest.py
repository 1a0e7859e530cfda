"""Fixtures that all tests share, and the option --large."""

from __future__ import annotations

import gc
import hashlib
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import Site, engine_settings, running_site
from tests.support.agents import Clock, own_clock, played_agent, set_clock
from tests.support.apps import context_of, opened_app
from tests.support.asking import Asker, MakeAsker
from tests.support.databases import PostgresqlDatabases, SqliteDatabases
from tests.support.disks import SmallDisk, mounted_disk
from tests.support.memory_files import use_memory_for_files
from tests.support.openid_provider import OpenIdProvider, is_installed, running_provider
from tests.support.placing import new_project, put_pool
from tests.support.postgresql import binaries, running_postgresql
from tests.support.programs import kept_warm
from tests.support.redis import RunningRedis, redis_server, running_redis
from tests.support.slurm import SlurmCluster, missing_programs, running_slurm

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_DATABASES = ("sqlite", "postgresql")

use_memory_for_files()
gc.disable()  # until everything is loaded: none of it is garbage
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a shell's background jobs; every program would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
#: Examples of a property, unless it says how many it needs.
hypothesis.settings.register_profile("rainbow", max_examples=60, deadline=None)
hypothesis.settings.load_profile("rainbow")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--large", action="store_true", help="run only tests of scale, at their full size")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Count all of tests/robustness among the slow tests."""
    if "robustness" in item.path.parts:
        item.add_marker("slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --large, keep the tests that have a full size."""
    if config.getoption("--large"):
        by_scale: dict[bool, list[pytest.Item]] = {True: [], False: []}
        for item in items:
            by_scale["scale" in getattr(item, "fixturenames", ())].append(item)
        config.hook.pytest_deselected(items=by_scale[False])
        items[:] = by_scale[True]


def pytest_collection_finish() -> None:
    """Collect no garbage among what is loaded by now: it stays, and going through it takes a seventh of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def argument_names(mark: pytest.Mark) -> list[str]:
    """The arguments that a mark gives values to."""
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what needs a database on both kinds, or on what its module names; tests on what SLOW_ON names are slow."""
    chosen = {name for mark in metafunc.definition.iter_markers("parametrize") for name in argument_names(mark)}
    slow = getattr(metafunc.module, "SLOW_ON", ())
    kinds = [
        pytest.param(kind, marks=[pytest.mark.slow] if kind in slow else [])
        for kind in getattr(metafunc.module, "DATABASES", _DATABASES)
    ]
    for fixture in ("database_url", "shared_app"):
        if fixture in metafunc.fixturenames and fixture not in chosen:
            metafunc.parametrize(fixture, kinds, indirect=True)


class Scale:
    """The size of a test that would take long: reduced but in `make test-large`."""

    def __init__(self, is_full: bool) -> None:
        self._is_full = is_full

    def __call__(self, reduced: int, *, full: int) -> int:
        return full if self._is_full else reduced


@pytest.fixture(scope="session")
def scale(request: pytest.FixtureRequest) -> Scale:
    """Chooses the size of a test."""
    return Scale(bool(request.config.getoption("--large")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In continuous integration every server can be installed, so a skipped test is a failed one."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in continuous integration: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def _warm_programs() -> Iterator[None]:
    """Keep the programs imported in one process, so that tests start them quickly."""
    with kept_warm():
        yield


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """A real PostgreSQL server."""
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with running_postgresql() as url:
        yield url


@pytest.fixture(scope="session")
def redis() -> Iterator[RunningRedis]:
    """A real Redis or Valkey, for tests that leave it as it is."""
    pytest.importorskip("redis")
    if redis_server() is None:
        pytest.skip("neither Redis nor Valkey is installed")
    with running_redis() as server:
        yield server


@pytest.fixture(scope="session")
def slurm_clusters() -> Iterator[tuple[SlurmCluster, SlurmCluster]]:
    """Two independent Slurm clusters of one node each."""
    if missing_programs():
        pytest.skip(f"Slurm is not installed: there is no {', '.join(missing_programs())}")
    with running_slurm("red") as red, running_slurm("blue") as blue:
        yield red, blue


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser."""
    from tests.support.browsers import chromium, running_browser  # which few tests need

    if chromium() is None:
        pytest.skip("Chromium is not installed: tests/install-servers gets it as root")
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def openid_provider() -> Iterator[OpenIdProvider]:
    """A real OpenID provider, which tests of a module may stop and start again."""
    if not is_installed():
        pytest.skip("the OpenID provider is not installed: tests/install-servers gets it with npm")
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="session")
def sqlite_databases() -> SqliteDatabases:
    return SqliteDatabases()


@pytest.fixture(scope="session")
def postgresql_databases(postgresql_url: str) -> PostgresqlDatabases:
    return PostgresqlDatabases(postgresql_url)


@pytest.fixture
def new_postgresql_database(postgresql_databases: PostgresqlDatabases) -> Callable[[], str]:
    """Creates empty databases on the real server."""
    return postgresql_databases.empty


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of each kind, migrated if the test creates apps on it, otherwise empty."""
    is_set_up = "make_app" in request.fixturenames
    if request.param == "sqlite":
        files: SqliteDatabases = request.getfixturevalue("sqlite_databases")
        yield files.set_up(tmp_path) if is_set_up else files.empty(tmp_path)
        return
    server: PostgresqlDatabases = request.getfixturevalue("postgresql_databases")
    if is_set_up:
        with server.borrowed() as url:
            yield url
    else:
        yield server.empty()


MakeApp = Callable[..., Flask]


@pytest.fixture
def make_app(database_url: str) -> Iterator[MakeApp]:
    """Creates apps on one database, with the configured projects."""
    with ExitStack() as stack:
        yield lambda *arguments, **sections: stack.enter_context(opened_app(database_url, *arguments, **sections))


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    return make_app()


@pytest.fixture
def context(app: Flask) -> Context:
    return context_of(app)


@pytest.fixture
def api(app: Flask) -> FlaskClient:
    """The HTTP API, without a server in between."""
    return app.test_client()


@pytest.fixture(scope="module")
def shared_app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """One admin for a whole module, on both databases; the module's SECTIONS configure it."""
    if request.param == "sqlite":
        files: SqliteDatabases = request.getfixturevalue("sqlite_databases")
        url = files.set_up(tmp_path_factory.mktemp("shared"))
    else:
        server: PostgresqlDatabases = request.getfixturevalue("postgresql_databases")
        url = server.set_up()
    with opened_app(url, **getattr(request.module, "SECTIONS", {})) as app:
        yield app


@pytest.fixture
def shared(shared_app: Flask) -> FlaskClient:
    return shared_app.test_client()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A file system of two megabytes."""
    with mounted_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[RunningAdmin]:
    """A real admin with the default configuration on a new SQLite database."""
    with running_admin(tmp_path) as running:
        yield running


@pytest.fixture(params=["local", "slurm"])
def site(request: pytest.FixtureRequest, admin: RunningAdmin, tmp_path: Path) -> Iterator[Site]:
    """A cluster of each engine."""
    with running_site(admin, tmp_path, **engine_settings(request.param, request)) as site:
        yield site


@pytest.fixture
def shared_context(shared_app: Flask) -> Context:
    return context_of(shared_app)


@pytest.fixture
def clock(shared_app: Flask) -> Iterator[Clock]:
    """A clock of the test's own."""
    with own_clock(shared_app) as clock:
        yield clock


@pytest.fixture
def app_clock(app: Flask) -> Clock:
    """A clock of an admin that is the test's own."""
    clock = Clock()
    set_clock(app, clock)
    return clock


@pytest.fixture
def project(shared: FlaskClient, request: pytest.FixtureRequest) -> str:
    """A project of the test's own, called the same every time, so that its executions draw the same."""
    return new_project(shared, "p" + hashlib.blake2b(request.node.nodeid.encode(), digest_size=6).hexdigest())


@pytest.fixture
def asker(shared_app: Flask, shared: FlaskClient, clock: Clock, project: str) -> MakeAsker:
    """Makes the pool of a test; its clusters have agents that can bid, but for those called old."""

    def make(*names: str, **fields: Any) -> Asker:
        agents = {
            name: played_agent(shared, context_of(shared_app), f"{name}-{project}", project=project) for name in names
        }
        asker = Asker(shared, shared_app, clock, project, agents)
        for name, agent in agents.items():
            agent.sync(**({} if name.startswith("old") else {"can_bid": True}))
        put_pool(shared, asker.pool, [asker.full(name) for name in names], strategy="ask", **fields)
        return asker

    return make
