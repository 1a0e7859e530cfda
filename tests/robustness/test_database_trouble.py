"""Databases in trouble: every failure is answered clearly, and nothing needs a restart when it is over."""

from __future__ import annotations

import fcntl
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy
from flask.testing import FlaskClient
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.test import TestResponse

from admin.api.failures import translate
from admin.errors import Unavailable
from admin.logs import JsonFormatter
from admin.services.context import Context
from admin.services.state import is_ready
from admin.store.cache.index import STALE_SECONDS, AttributeRow, Index, read_attributes
from admin.store.cache.shared_counter import SharedCounter
from admin.store.database import Database
from admin.store.dialects import TimeLimits
from admin.store.write_probe import WriteProbe
from agent.engines.local import processes
from tests.conftest import MakeApp
from tests.support.apps import context_of, opened_app
from tests.support.disks import SmallDisk, read_only
from tests.support.placing import JOB, asked
from tests.support.threads import all_at_once
from tests.support.waiting import wait_until

PATH = "/api/v1/project_domain_attributes/flytesnacks/staging"  # where no execution is created
SOON = {"lockTimeoutSeconds": 1, "statementTimeoutSeconds": 1}
only_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
only_postgresql = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)


def write(api: FlaskClient, value: str = "a") -> TestResponse:
    label = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": value}}}}
    return api.put(PATH, json=label)


def refused(answer: TestResponse) -> tuple[int, str]:
    assert answer.status_code != 503 or answer.headers["Retry-After"] in ("1", "5")
    return answer.status_code, (answer.json or {}).get("error", "")


def run_sql(url: str, *statements: str) -> None:
    """Run statements beside the admin."""
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def name_of(url: str) -> str:
    return make_url(url).database or ""


@pytest.mark.parametrize(
    ("code", "name", "status"),
    [
        ("25006", "database_read_only", 503),
        ("25P03", "database_busy", 503),
        ("40001", "database_busy", 503),
        ("40P01", "database_busy", 503),
        ("53000", "database_busy", 503),
        ("53100", "database_full", 503),
        ("53300", "database_busy", 503),
        ("55P03", "database_busy", 503),
        ("57014", "database_busy", 503),
        ("57P01", "unavailable", 503),
        ("57P03", "unavailable", 503),
        ("58030", "unavailable", 503),
        ("08006", "unavailable", 503),
        ("XX000", "database_damaged", 503),
        ("XX001", "database_damaged", 503),
        ("42P01", "database_damaged", 503),
        ("42501", "database_damaged", 503),
        ("0A000", "database_busy", 503),
        ("22021", "invalid_request", 400),
        ("22P05", "invalid_request", 400),
        ("23505", "conflict", 409),
        ("42601", "internal", 500),
    ],
)
def test_every_error_of_postgresql_has_its_answer(
    postgresql_url: str, code: str, name: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    engine = sqlalchemy.create_engine(postgresql_url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection, pytest.raises(SQLAlchemyError) as caught:
        connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$")
    error = translate(caught.value, "abc")
    assert (error.name, error.status) == (name, status)
    assert [record.request_id for record in caplog.records] == ["abc"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [Unavailable, *Unavailable.__subclasses__()])
def test_every_failure_of_the_database_says_to_look_before_a_change_is_repeated(kind: type[Unavailable]) -> None:
    """A request of several transactions may fail after the first was committed."""
    assert kind().message.endswith("Before you repeat a change, see whether it was made.")


@only_postgresql
def test_a_server_that_became_read_only_is_left_and_written_again_when_it_is_over(
    make_app: MakeApp, database_url: str
) -> None:
    api = make_app().test_client()
    assert write(api, "before").status_code == 200
    run_sql(database_url, f"ALTER DATABASE {name_of(database_url)} SET default_transaction_read_only = on")
    end_connections(database_url)
    write(api)  # which may find that its connection has ended
    assert refused(write(api)) == (503, "database_read_only")
    assert refused(api.post("/api/v1/executions", json=asked("one"))) == (503, "database_read_only")
    assert api.get(PATH, query_string={"resource_type": "3"}).status_code == 200
    run_sql(
        database_url,
        "SET default_transaction_read_only = off",
        f"ALTER DATABASE {name_of(database_url)} RESET default_transaction_read_only",
    )
    write(api)  # which may find that its connection is an old one
    assert write(api).status_code == 200, "without a restart"


def end_connections(url: str) -> None:
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    run_sql(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


@only_postgresql
def test_statements_and_locks_of_postgresql_have_a_time_limit(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database=SOON)
    context = context_of(app)
    with pytest.raises(SQLAlchemyError) as caught, context.database.reading() as connection:
        connection.execute(text("SELECT pg_sleep(20)"))
    assert translate(caught.value, "abc").name == "database_busy"
    engine = sqlalchemy.create_engine(database_url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as blocker:
        blocker.exec_driver_sql("LOCK TABLE attributes")
        assert refused(write(app.test_client())) == (503, "database_busy")
    assert write(app.test_client()).status_code == 200


@only_postgresql
def test_a_transaction_whose_admin_has_stopped_is_ended(make_app: MakeApp) -> None:
    app = make_app(database=SOON)
    context: Context = app.extensions["rainbow"]
    with context.database.engine.connect() as stopped:
        stopped.execute(text("SELECT * FROM revision_head FOR UPDATE"))
        wait_until(lambda: write(app.test_client()).status_code == 200)
        stopped.invalidate()


@only_postgresql
def test_a_server_that_falls_silent_is_given_up(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel still acknowledges what it gets, so that only a time limit of our own ends the wait."""
    monkeypatch.setattr("admin.store.dialects.postgresql._GRACE_SECONDS", -0.5)  # before the server gives up itself
    context = context_of(make_app(database={"statementTimeoutSeconds": 1}))
    with pytest.raises(SQLAlchemyError) as caught, context.database.reading() as connection:
        connection.execute(text("SELECT pg_sleep(20)"))
    assert translate(caught.value, "abc").name == "unavailable"
    with context.database.reading() as connection:
        assert connection.scalar(text("SELECT 1")) == 1


@only_postgresql
def test_the_wait_for_a_connection_has_a_time_limit(make_app: MakeApp) -> None:
    app = make_app(database={"poolSize": 1, "lockTimeoutSeconds": 1})
    context = context_of(app)
    with context.database.reading(), context.database.reading():
        assert refused(app.test_client().get("/api/v1/revisions")) == (503, "database_busy")
    assert app.test_client().get("/api/v1/revisions").status_code == 200


def test_a_database_without_its_tables_is_damaged_until_they_are_back(make_app: MakeApp, database_url: str) -> None:
    api = make_app().test_client()
    run_sql(database_url, "ALTER TABLE attributes RENAME TO elsewhere")
    assert refused(write(api)) == (503, "database_damaged")
    run_sql(database_url, "ALTER TABLE elsewhere RENAME TO attributes")
    assert write(api).status_code == 200


@only_sqlite
def test_a_lock_that_another_program_has_on_sqlite_is_waited_for_only_so_long(
    make_app: MakeApp, database_url: str
) -> None:
    api = make_app(database=SOON).test_client()
    with sqlalchemy.create_engine(database_url).connect() as blocker:
        blocker.exec_driver_sql("BEGIN IMMEDIATE")
        assert refused(write(api)) == (503, "database_busy")
    assert write(api).status_code == 200


@contextmanager
def turn_of(url: str) -> Iterator[None]:
    """The lock that writers of SQLite take turns by, as a process that was stopped would hold it."""
    with Path(f"{name_of(url)}.turn").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@only_sqlite
def test_many_writers_wait_for_the_turn_at_the_same_time_and_only_so_long(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database=SOON)

    def act(number: int) -> tuple[int, str]:
        api = app.test_client()
        if number % 2:
            return refused(write(api, f"label-{number}"))
        return refused(api.post("/api/v1/executions", json=asked(f"run-{number}")))

    def succeed(number: int) -> None:
        wait_until(lambda: act(number)[0] in (200, 201))

    begun_at = time.monotonic()
    with turn_of(database_url):
        answers = all_at_once([partial(act, number) for number in range(20)])
        threads = [thread for thread in threading.enumerate() if thread.name == "turn"]
    assert set(answers) == {(503, "database_busy")}
    assert time.monotonic() - begun_at < 15, "one after the other they would wait for 20 s"
    assert len(threads) <= 1, "a writer that gave up leaves its place to the next"
    # On a busy machine some may still wait for longer than a second.
    all_at_once([partial(succeed, number) for number in range(20)])


@only_sqlite
def test_a_damaged_file_is_used_again_once_it_is_whole(make_app: MakeApp, database_url: str) -> None:
    api = make_app().test_client()
    assert write(api, "before").status_code == 200
    run_sql(database_url, "PRAGMA wal_checkpoint(TRUNCATE)")
    file = Path(name_of(database_url))
    content = file.read_bytes()
    file.write_bytes(b"\xa5" * len(content))
    run_sql_quietly(database_url)
    assert refused(write(api)) == (503, "database_damaged")
    file.write_bytes(content)
    assert write(api).status_code == 200


def run_sql_quietly(url: str) -> None:
    with suppress(SQLAlchemyError):
        run_sql(url, "SELECT 1")


@only_sqlite
def test_a_file_that_was_read_only_is_written_again_without_a_restart(make_app: MakeApp, database_url: str) -> None:
    app = make_app()
    api = app.test_client()
    assert write(api, "before").status_code == 200
    with read_only(Path(name_of(database_url))):
        app.extensions["rainbow"].database.engine.dispose()
        for value in ("b", "c"):
            assert refused(write(api, value)) == (503, "database_read_only")
        assert refused(api.post("/api/v1/executions", json=asked("one"))) == (503, "database_read_only")
        assert api.get("/api/v1/revisions").status_code == 200, "opened for reading"
    assert refused(write(api, "d"))[0] in (200, 503), "the connection may still be the one that could only read"
    assert write(api, "e").status_code == 200


@contextmanager
def no_growing_files(size: int) -> Iterator[None]:
    """No file of this process may become longer than this; writes to those that are open fail too."""
    former, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (former, most))


@only_sqlite
def test_a_file_that_cannot_be_written_since_it_was_opened_can_only_be_read(
    make_app: MakeApp, database_url: str
) -> None:
    api = make_app().test_client()
    assert write(api, "before").status_code == 200
    log = Path(f"{name_of(database_url)}-wal")
    with no_growing_files(log.stat().st_size):
        assert refused(write(api, "b")) == (503, "database_read_only")
        assert api.get("/api/v1/revisions").status_code == 200
    assert write(api, "c").status_code == 200


@only_sqlite
def test_a_full_disk_refuses_changes_until_there_is_room(database_url: str, small_disk: SmallDisk) -> None:
    with opened_app(f"sqlite:///{small_disk.path}/rainbow.db") as app:
        api = app.test_client()
        assert write(api, "before").status_code == 200
        small_disk.fill()
        answers = [refused(write(api, f"label-{number}" * 20)) for number in range(20)]
        assert answers[-1] == (503, "database_full")
        assert {status for status, _ in answers} <= {200, 503}
        revisions = api.get("/api/v1/revisions").get_json()["revisions"]
        assert len(revisions) == 1 + sum(status == 200 for status, _ in answers), "what was refused is not stored"
        small_disk.fill()
        unready = api.get("/readyz")
        assert (unready.status_code, "the database's disk is full" in unready.text) == (503, True)
        small_disk.empty()
        assert write(api, "after").status_code == 200
        wait_until(lambda: api.get("/readyz").status_code == 200)


def test_a_logged_failure_holds_no_value_that_was_sent(
    make_app: MakeApp, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = make_app().test_client()
    run_sql(database_url, "ALTER TABLE executions RENAME TO elsewhere", "ALTER TABLE attributes RENAME TO nowhere")
    assert write(api, "swordfish").status_code == 503
    secret = asked("swordfish", job={**JOB, "environment": {"PASSWORD": "swordfish"}})
    assert api.post("/api/v1/executions", json=secret).status_code == 503
    lines = [JsonFormatter().format(record) for record in caplog.records]
    assert sum("parameters hidden" in line for line in lines) >= 2, "the statements are logged"
    assert not [line for line in lines if "swordfish" in line]


@contextmanager
def away(url: str) -> Iterator[None]:
    """A database that cannot be read: a server that takes no connections, or a file without tables."""
    if url.startswith("sqlite"):
        tables = ("revision_head", "attributes", "projects")
        run_sql(url, *(f"ALTER TABLE {table} RENAME TO former_{table}" for table in tables))
        yield
        run_sql(url, *(f"ALTER TABLE former_{table} RENAME TO {table}" for table in tables))
        return
    other = make_url(url).set(database="postgres").render_as_string()
    run_sql(other, f"ALTER DATABASE {name_of(url)} ALLOW_CONNECTIONS false")
    run_sql(other, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(url)}'")
    yield
    run_sql(other, f"ALTER DATABASE {name_of(url)} ALLOW_CONNECTIONS true")


def test_an_admin_is_ready_only_while_its_database_can_be_written(context: Context, database_url: str) -> None:
    now = [100.0]
    probed = replace(context, write_probe=WriteProbe(context.database, monotonic=lambda: now[0]))
    assert is_ready(probed) == (True, "ready")
    run_sql(database_url, "ALTER TABLE loop_leases RENAME TO elsewhere")  # which nothing reads
    assert is_ready(probed) == (True, "ready"), "nothing is written again so soon"
    now[0] += 5
    assert is_ready(probed) == (False, "the database cannot be used as it is; the log has the reason")
    run_sql(database_url, "ALTER TABLE elsewhere RENAME TO loop_leases")
    assert not is_ready(probed)[0], "nor after a failure"
    now[0] += 1
    assert is_ready(probed) == (True, "ready")


def test_effective_values_are_answered_from_memory_while_the_database_is_away(
    make_app: MakeApp, database_url: str
) -> None:
    app = make_app()
    api, index = app.test_client(), app.extensions["rainbow"].index
    now = [time.monotonic()]
    index.monotonic = lambda: now[0]
    assert write(api, "known").status_code == 200
    plain = "/api/v1/effective_attributes?project=flytesnacks&domain=staging&resource_type=3"
    paths = [plain, plain.replace("staging", "%73taging"), f"{plain}&workflow=new"]
    documents = [api.get(path).get_json() for path in paths]
    with away(database_url):
        now[0] += 7
        for path, document in zip(paths, documents, strict=True):
            answer = api.get(path)
            assert (answer.status_code, answer.get_json()) == (200, document)
            assert 7 <= int(answer.headers["Rainbow-Stale"]) <= 60
        assert api.get(f"{plain}&at=1").status_code == 503, "history is not in memory"
        assert api.get(plain.replace("flytesnacks", "nobody")).status_code == 503, "nor what is not known"
        assert api.get(PATH, query_string={"resource_type": "3"}).status_code == 503
        assert write(api, "other").status_code == 503
        assert api.get("/readyz").status_code == 503
        assert "rainbow_database_up 0.0" in (metrics := api.get("/metrics").text)
        assert "rainbow_http_requests_total" in metrics
    now[0] += 1
    for path, document in zip(paths, documents, strict=True):
        answer = api.get(path)
        assert (answer.status_code, answer.get_json()) == (200, document)
        assert "Rainbow-Stale" not in answer.headers
    assert "rainbow_database_up 1.0" in api.get("/metrics").text


def test_no_answer_is_older_than_what_this_admin_has_written(make_app: MakeApp, database_url: str) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    path = "/api/v1/effective_attributes?project=flytesnacks&domain=staging&resource_type=3"
    write(api, "first")
    assert api.get(path).status_code == 200
    context.index.announce(2)  # by another worker
    with away(database_url):
        assert refused(api.get(path))[0] == 503


@only_postgresql
def test_many_readers_wait_for_a_silent_database_together_and_only_once(make_app: MakeApp, database_url: str) -> None:
    app = make_app(database=SOON)
    path = "/api/v1/effective_attributes?project=flytesnacks&domain=staging&resource_type=3"
    assert app.test_client().get(path).status_code == 200
    index = app.extensions["rainbow"].index
    engine = sqlalchemy.create_engine(database_url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as blocker:
        blocker.exec_driver_sql("LOCK TABLE revision_head IN ACCESS EXCLUSIVE MODE")
        index.monotonic = lambda: time.monotonic() + STALE_SECONDS
        begun_at = time.monotonic()
        answers = all_at_once([partial(app.test_client().get, path) for _ in range(12)])
        assert time.monotonic() - begun_at < 9, "one after the other they would wait for 12 s"
    assert {(answer.status_code, "Rainbow-Stale" in answer.headers) for answer in answers} == {(200, True)}


@contextmanager
def stopped(url: str) -> Iterator[None]:
    """A server whose processes are all stopped: its kernel takes connections and statements, and nobody answers."""
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        pids = set(connection.exec_driver_sql("SELECT pid FROM pg_stat_activity").scalars())
        own_pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        # Others may have ended by now; the parent of all of them is the server.
        pids.add(int(Path(f"/proc/{own_pid}/stat").read_text().rpartition(")")[2].split()[1]))
    processes.signal_all(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        processes.signal_all(pids, signal.SIGCONT)


@only_postgresql
@pytest.mark.parametrize("is_checked", [True, False])
def test_the_first_reader_of_a_server_that_hangs_waits_only_as_long_as_connecting_may_take(
    make_app: MakeApp, database_url: str, is_checked: bool
) -> None:
    app = make_app(database={"connectTimeoutSeconds": 2})
    context: Context = app.extensions["rainbow"]
    # Connections that were used a moment ago are not checked before they are used again.
    used_at = time.monotonic() + (-3600 if is_checked else 3600)
    sqlalchemy.event.listen(
        context.database.engine, "checkin", lambda _, record: record.info.update(rainbow_used_at=used_at)
    )
    path = "/api/v1/effective_attributes?project=flytesnacks&domain=staging&resource_type=3"
    assert app.test_client().get(path).status_code == 200
    context.index.monotonic = lambda: time.monotonic() + STALE_SECONDS
    with stopped(database_url):
        begun_at = time.monotonic()
        answer = app.test_client().get(path)
        assert time.monotonic() - begun_at < 20, "a statement may take 30 s"
    assert (answer.status_code, "Rainbow-Stale" in answer.headers) == (200, True)


@only_postgresql
def test_loading_may_take_longer_than_connecting(make_app: MakeApp) -> None:
    context: Context = make_app(database={"connectTimeoutSeconds": 2}).extensions["rainbow"]

    def read_slowly(connection: sqlalchemy.Connection) -> Iterable[AttributeRow]:
        connection.exec_driver_sql("SELECT pg_sleep(2.5)")
        return read_attributes(connection)

    index = Index(context.database, SharedCounter(), context.settings.kinds, read_rows=read_slowly)
    wait_until(lambda: index.current() is not None)


@only_postgresql
def test_connecting_to_a_server_that_never_answers_has_a_time_limit(database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = make_url(database_url).set(port=silent.getsockname()[1])
        database = Database(sqlalchemy.create_engine(url), limits=TimeLimits(connect=2))
        begun_at = time.monotonic()
        with pytest.raises(SQLAlchemyError) as caught, database.reading():
            pass
        assert time.monotonic() - begun_at < 15
    assert translate(caught.value, "abc").name == "unavailable"


@only_sqlite
def test_a_file_that_was_replaced_is_the_one_that_is_written(make_app: MakeApp, database_url: str) -> None:
    """As a backup would be put back; what is acknowledged must not go into the file that is gone."""
    api = make_app().test_client()
    file = Path(name_of(database_url))
    assert write(api, "before").status_code == 200
    run_sql(database_url, "PRAGMA wal_checkpoint(TRUNCATE)", f"VACUUM INTO '{file}.backup'")
    assert write(api, "lost").status_code == 200
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink()
    Path(f"{file}.backup").replace(file)
    assert write(api, "after").status_code == 200
    engine = sqlalchemy.create_engine(database_url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM revisions").scalar() == 2


@only_sqlite
def test_nothing_is_acknowledged_once_the_file_is_removed(make_app: MakeApp, database_url: str) -> None:
    api = make_app().test_client()
    assert write(api, "before").status_code == 200
    for file in Path(name_of(database_url)).parent.glob("rainbow.db*"):
        file.unlink()
    assert refused(write(api, "after")) == (503, "database_damaged")
    assert api.get("/readyz").status_code == 503
    assert not Path(name_of(database_url)).exists(), "an empty file was put in its place"
