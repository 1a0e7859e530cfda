"""Clocks that differ, jump or stop: nothing is judged by them that should not be; on both databases."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import delete, update
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from admin.loops.evictions import EvictionLoop
from admin.loops.retention import RetentionLoop
from admin.loops.waiting import WaitingLoop
from admin.metrics import judgement_pauses_total
from admin.server.startup import prepare
from admin.services.clocks import accept_clock, follow_clock
from admin.services.context import Context
from admin.services.state import StateSummary
from admin.store.clock_checks import clock_checks
from admin.store.dialects.postgresql import ServerClock
from admin.store.execution_tables import executions
from tests.conftest import MakeApp
from tests.support.agents import PlayedAgent, WatchedClock, closure, event_types, names, played_agent
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    created,
    execution,
    get,
    ok,
    put_attribute,
    refused,
    row_counts,
)
from tests.support.ports import free_port

LEASE, UNREACHABLE, LOST = 60, 90, 300
HOUR, DAY = 3600, 86400
SUSPENDED = "pruning and giving up are suspended"


@pytest.fixture
def clock(app: Flask) -> WatchedClock:
    return WatchedClock(app)


@pytest.fixture
def context(app: Flask, clock: WatchedClock) -> Context:
    return context_of(app)


class Background:
    """The background work of an admin, in rounds a few seconds apart, while some agents sync."""

    def __init__(self, context: Context, clock: WatchedClock) -> None:
        self._loops: list[Callable[[], None]] = [
            EvictionLoop(context, clock=clock.monotonic),
            WaitingLoop(context, interval=0, clock=clock.monotonic),
        ]
        self._clock = clock

    def run(self, seconds: float, *agents: PlayedAgent) -> None:
        for _ in range(int(seconds / 5)):
            for agent in agents:
                agent.sync()
            self._clock.advance(5)
            for loop in self._loops:
                loop()


@pytest.fixture
def background(context: Context, clock: WatchedClock) -> Background:
    return Background(context, clock)


def health(client: FlaskClient, cluster: str) -> str:
    state: str = get(client, f"clusters/{cluster}")["state"]
    return state


def cluster_events(client: FlaskClient, cluster: str) -> list[str]:
    return [event["type"] for event in reversed(get(client, f"clusters/{cluster}/events")["events"])]


# Jumps


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_step_of_the_clock_ends_nothing_and_moves_nothing(
    api: FlaskClient,
    context: Context,
    clock: WatchedClock,
    background: Background,
    caplog: pytest.LogCaptureFixture,
    jump: float,
) -> None:
    agent = played_agent(api, context, "a")
    for name, on_lost in (("fails", "fail"), ("again", "retry")):
        created(api, name, cluster="a", retry={"on_lost": on_lost})
    agent.start(2)
    put_attribute(api, "domain", "quality_of_service", {"spec": {"queueing_budget": "10m"}})
    created(api, "waits")
    background.run(LEASE, agent)
    jumps = judgement_pauses_total.labels("jump")._value.get()
    clock.step(jump)
    background.run(LEASE - 10)  # nobody can sync: an agent may be in the middle of anything
    assert health(api, "a") == "ready"
    assert closure(api, "waits")[0] == "QUEUED"
    background.run(LOST + LEASE, agent)
    assert cluster_events(api, "a") == ["READY"]
    for name in ("fails", "again"):
        assert (closure(api, name)[0], execution(api, name)["attempt"]) == ("RUNNING", 1)
        assert event_types(api, name) == ["CREATED", "RUNNING"]
    assert judgement_pauses_total.labels("jump")._value.get() == jumps + 1
    assert [record.levelno for record in caplog.records if "the clock has jumped" in record.message] == [
        logging.WARNING
    ]


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_cluster_that_falls_silent_after_a_jump_is_found_silent(
    api: FlaskClient, context: Context, clock: WatchedClock, background: Background, jump: float
) -> None:
    agent = played_agent(api, context, "a")
    created(api, "e", cluster="a", retry={"on_lost": "fail"})
    agent.start()
    background.run(LEASE, agent)
    clock.step(jump)
    background.run(LEASE + 5, agent)
    background.run(UNREACHABLE + 5)
    assert health(api, "a") == "unreachable"
    background.run(LOST - UNREACHABLE)
    assert health(api, "a") == "lost"
    assert closure(api, "e") == ("FAILED", "CLUSTER_LOST")


def test_nothing_waits_for_a_time_that_was_stored_while_the_clock_was_ahead(
    api: FlaskClient, context: Context, clock: WatchedClock, background: Background
) -> None:
    agent, other = (played_agent(api, context, name) for name in ("a", "b"))
    created(api, "again", cluster="a", retry={"attempts": 2, "backoff": "10s"})
    created(api, "lost", cluster="b", retry={"on_lost": "fail"})
    agent.start()
    other.start()
    background.run(LEASE, agent, other)
    clock.step(400 * DAY)
    background.run(5, agent, other)  # the last that is heard of the other one, which renews its lease
    agent.finish(["again"], "FAILED")  # which its back-off follows
    clock.step(-400 * DAY)
    background.run(LEASE, agent)
    assert agent.offered() == {"again": 2}
    background.run(LOST, agent)
    assert closure(api, "lost") == ("FAILED", "CLUSTER_LOST")


def test_after_a_step_an_agent_is_asked_before_anything_counts_as_lost(
    api: FlaskClient, context: Context, clock: WatchedClock
) -> None:
    agent = played_agent(api, context, "a")
    created(api, "e", cluster="a")
    agent.start()
    agent.holding.clear()  # this sync does not name it; the answer to a question will
    clock.step(HOUR)
    assert names(agent.sync()["questions"]) == ["e"]
    assert closure(api, "e")[0] == "RUNNING"
    agent.holding["e"] = 1
    assert names(agent.sync()["confirmed"]) == ["e"]


def test_a_clock_that_jumps_gives_nothing_up(
    api: FlaskClient,
    context: Context,
    clock: WatchedClock,
    background: Background,
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = played_agent(api, context, "a")
    created(api, "e", cluster="a", retry={"on_lost": "wait"})
    agent.start()
    background.run(LOST + LEASE)
    assert health(api, "a") == "lost"
    clock.step(2 * DAY)
    background.run(2 * LEASE)
    assert closure(api, "e") == ("RUNNING", "CLUSTER_SILENT")
    RetentionLoop(context, clock=clock.monotonic)()
    assert SUSPENDED in caplog.messages  # although everything is kept for ever
    assert [warning["code"] for warning in get(api, "warnings")["warnings"]] == ["clock_jumped"]
    accept_clock(context)
    background.run(10)
    assert closure(api, "e") == ("FAILED", "CLUSTER_LOST")


def test_a_new_leader_judges_nothing_for_one_lease(
    api: FlaskClient, context: Context, clock: WatchedClock, background: Background
) -> None:
    agent = played_agent(api, context, "a")
    created(api, "e", cluster="a", retry={"on_lost": "fail"})
    agent.start()
    background.run(LOST + 5)
    assert closure(api, "e")[0] == "FAILED"
    agent.holding.clear()
    agent.sync()
    created(api, "f", cluster="a", retry={"on_lost": "fail"})
    agent.start()
    background.run(UNREACHABLE + 5)
    clock.step(LOST)  # nobody led meanwhile: every sync is long ago by the clock
    context.watch.restart()
    background.run(LEASE)
    assert (health(api, "a"), closure(api, "f")[0]) == ("unreachable", "RUNNING")
    background.run(UNREACHABLE, agent)
    assert health(api, "a") == "ready"


# One clock


SIX_MINUTES = 360


def test_a_second_admin_six_minutes_ahead_moves_nothing(make_app: MakeApp) -> None:
    """On PostgreSQL both go by the server's clock; on SQLite both are on one machine, and have its clock."""
    sections = {"agents": {"leaseSeconds": 2, "waitSeconds": 1, "unreachableSeconds": 30, "lostSeconds": 60}}
    apps = [make_app(**sections) for _ in range(2)]
    here, ahead = (app.extensions["rainbow"] for app in apps)
    if ahead.database.engine.dialect.name == "postgresql":
        wrong = ServerClock(ahead.database.engine, machine_clock=lambda: time.time() + SIX_MINUTES)
        ahead = apps[1].extensions["rainbow"] = replace(ahead, clock=wrong)
    agent = played_agent(apps[0].test_client(), here, "a")
    for name in ("one", "two"):
        created(agent.client, name, cluster="a", retry={"on_lost": "retry", "attempts": 9})
    agent.start()
    loops: list[Callable[[], None]] = [EvictionLoop(ahead), WaitingLoop(ahead)]
    ends_at = time.monotonic() + 4
    clients = [app.test_client() for app in reversed(apps)]  # the last sync is by the right clock
    offers: set[tuple[str, int]] = set()
    while time.monotonic() < ends_at or not ahead.watch.may_judge:
        for agent.client in clients:
            offers |= set(agent.offered().items())
        for loop in loops:
            loop()
        time.sleep(0.02)
    assert offers == {("two", 1)}
    assert cluster_events(agent.client, "a") == ["READY"]
    assert event_types(agent.client, "one") == ["CREATED", "RUNNING"]
    assert abs(ahead.clock() - here.clock()) < timedelta(seconds=1)


# The server's clock


@pytest.fixture
def engine(database_url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(database_url)
    yield engine
    engine.dispose()


def server_time(engine: sqlalchemy.Engine) -> datetime:
    with engine.connect() as connection:
        now: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return now.astimezone(UTC)


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_clock_is_the_servers_and_is_measured_again_seldom_or_after_a_step(engine: sqlalchemy.Engine) -> None:
    monotonic, machine = [1000.0], [5.0]  # the machine's clock is decades behind
    clock = ServerClock(engine, monotonic=lambda: monotonic[0], machine_clock=lambda: machine[0])
    began = clock()
    assert abs(began - server_time(engine)) < timedelta(seconds=5)

    def go_on(seconds: float, step: float = 0.0) -> timedelta:
        """Time goes on for this process alone; answers how far its clock is from where it began."""
        monotonic[0] += seconds
        machine[0] += seconds + step
        with engine.connect() as connection:
            connection.exec_driver_sql("SELECT 1")
        return clock() - began

    # Nine seconds that the server does not know of: it is not asked, so they count.
    assert go_on(9) == timedelta(seconds=9)
    assert go_on(0, step=-HOUR) < timedelta(seconds=5)  # asked because the machine's clock moved
    assert go_on(9) >= timedelta(seconds=9)
    assert go_on(2) < timedelta(seconds=5)  # asked again after ten seconds


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_the_clock_runs_on_while_the_server_is_away(engine: sqlalchemy.Engine) -> None:
    offset = [0.0]
    clock = ServerClock(engine, monotonic=lambda: time.monotonic() + offset[0])
    began = clock()
    engine.dispose()
    sqlalchemy.event.listen(engine, "do_connect", _refuse)
    offset[0] = 60.0
    with pytest.raises(SQLAlchemyError), engine.connect():
        pass
    assert timedelta(seconds=60) <= clock() - began < timedelta(seconds=90)


def _refuse(*_: object) -> None:
    raise OperationalError("connect", {}, Exception("refused"))


def test_a_clock_that_was_never_measured_fails_as_the_database_does() -> None:
    url = f"postgresql+psycopg://rainbow@127.0.0.1:{free_port()}/none"
    clock = ServerClock(sqlalchemy.create_engine(url))
    with pytest.raises(SQLAlchemyError):
        clock()


def test_each_admin_goes_by_the_clock_of_its_database(make_app: MakeApp) -> None:
    context = make_app().extensions["rainbow"]
    is_server = isinstance(context.clock, ServerClock)
    assert is_server == (context.database.engine.dialect.name == "postgresql")
    assert abs(context.clock() - datetime.now(UTC)) < timedelta(seconds=60)


# Pruning


def test_six_seconds_at_four_hundred_days_ahead_delete_nothing(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    ages = dict.fromkeys(("executions", "events", "logs", "revisions"), "90d")
    app = make_app(retention={**ages, "interval": "1m"})
    clock = WatchedClock(app)
    context, api = app.extensions["rainbow"], app.test_client()
    loop = RetentionLoop(context, clock=clock.monotonic)

    def go_on(seconds: int) -> None:
        for _ in range(seconds):
            clock.advance(1)
            loop()

    agent = played_agent(api, context, "a")
    created(api, "e", cluster="a")
    created(api, "f", cluster="a")
    agent.start(2)
    agent.finish(["e"])
    go_on(LEASE + 10)
    clock.step(400 * DAY)
    agent.sync()  # what is stored meanwhile has the wrong time
    agent.finish(["f"])
    stored = row_counts(context)
    go_on(6)
    go_on(LEASE + 120)  # also once the jump is long enough ago
    assert row_counts(context) == stored
    [warning] = get(api, "warnings")["warnings"]
    assert (warning["code"], warning["level"]) == ("clock_jumped", "platform")
    assert "--acceptClock" in warning["message"]
    state = StateSummary(context)()
    assert state is not None
    assert state.warnings["clock_jumped"] == 1
    assert [record.levelno for record in caplog.records if record.message == SUSPENDED] == [logging.ERROR]
    clock.step(-400 * DAY)
    go_on(LEASE + 120)
    assert get(api, "warnings")["warnings"] == []
    # Afterwards it works as ever: what is old enough goes.
    with context.database.writing() as connection:
        connection.execute(update(executions).values(finished_at=clock() - timedelta(days=91)))
    created(api, "newest", cluster="a")
    go_on(130)
    assert [row["id"]["name"] for row in get(api, f"executions/{PROJECT}/{DOMAIN}")["executions"]] == ["newest"]


def test_after_a_jump_nothing_is_pruned_for_one_lease(make_app: MakeApp) -> None:
    app = make_app(retention={"executions": "90d", "interval": "1m"})
    clock = WatchedClock(app)
    context, api = app.extensions["rainbow"], app.test_client()
    loop = RetentionLoop(context, clock=clock.monotonic)
    agent = played_agent(api, context, "a")
    created(api, "e", cluster="a")
    agent.start()
    agent.finish(["e"])

    def is_kept_after(seconds: int) -> bool:
        for _ in range(seconds):
            clock.advance(1)
            loop()
        return "e" in [row["id"]["name"] for row in get(api, f"executions/{PROJECT}/{DOMAIN}")["executions"]]

    created(api, "newest", cluster="a")
    is_kept_after(LEASE + 60)
    with context.database.writing() as connection:
        connection.execute(update(executions).values(finished_at=clock() - timedelta(days=90) + timedelta(hours=1)))
    assert is_kept_after(60)
    clock.step(2 * HOUR)
    assert is_kept_after(LEASE - 1)
    assert not is_kept_after(LEASE + 60)


def test_an_operator_may_say_that_the_clock_is_right(make_app: MakeApp) -> None:
    app = make_app(retention={"executions": "90d"})
    clock = WatchedClock(app)
    context = context_of(app)
    assert follow_clock(context, clock(), 0) is None
    clock.step(2 * DAY)
    assert follow_clock(context, clock(), 0) is not None
    clock_view, is_change = accept_clock(context)
    assert (clock_view.time, is_change) == (clock(), True)
    assert follow_clock(context, clock(), 0) is None
    assert get(app.test_client(), "warnings")["warnings"] == []


def test_the_clock_is_read_and_accepted_over_http(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    app = make_app(retention={"executions": "90d"})
    clock, api = WatchedClock(app), app.test_client()
    context: Context = app.extensions["rainbow"]
    follow_clock(context, clock(), 0)
    right = clock()
    assert get(api, "clock") == {"time": shown(right), "suspended": False, "trusted_at": shown(right)}
    accepted = ok(api.post(f"{API}/clock/accept"))
    assert (accepted["changed"], accepted["clock"]["suspended"]) == (False, False)
    clock.step(2 * DAY)
    jumped = get(api, "clock")
    assert (jumped["time"], jumped["suspended"], jumped["trusted_at"]) == (shown(clock()), True, shown(right))
    assert "`rainbowctl accept clock`" in jumped["message"]
    refused(api.post(f"{API}/clock/accept", json={"why": "x"}), 400, "invalid_request", "why")
    assert get(api, "clock") == jumped
    with caplog.at_level(logging.INFO, logger="rainbow.loops"):
        accepted = ok(api.post(f"{API}/clock/accept", json={"reason": "a long weekend", "claimed_by": "ops"}))
    assert accepted["changed"] is True
    assert accepted["clock"] == {
        "time": shown(clock()),
        "suspended": False,
        "trusted_at": shown(clock()),
        "accepted_at": shown(clock()),
        "accepted_by": "ops",
        "accepted_reason": "a long weekend",
    }
    assert get(api, "clock") == accepted["clock"]
    [record] = [record for record in caplog.records if "the clock is right" in record.message]
    assert (record.__dict__["claimed_by"], record.__dict__["reason"]) == ("ops", "a long weekend")
    assert follow_clock(context, clock(), 0) is None


def shown(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def test_a_clock_that_jumps_before_it_was_ever_followed_is_not_trusted(make_app: MakeApp) -> None:
    app = make_app(retention={"executions": "90d"})
    clock = WatchedClock(app)
    clock.step(2 * DAY)
    created(app.test_client(), "e")  # stored at a wrong time, by which the clock looks right
    assert follow_clock(app.extensions["rainbow"], clock(), 0) is not None


def test_in_a_database_without_a_check_what_was_stored_last_tells(make_app: MakeApp) -> None:
    app = make_app(retention={"executions": "90d"})
    clock, context = WatchedClock(app), context_of(app)
    created(app.test_client(), "e")
    with context.database.writing() as connection:
        connection.execute(delete(clock_checks))  # as in one of an earlier version
    clock.step(2 * DAY)
    prepare(app)
    assert follow_clock(app.extensions["rainbow"], clock(), 0) is not None
