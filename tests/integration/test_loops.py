"""Background work: one process at a time does it, another takes over, and nothing stops it for good."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.exc import OperationalError

from admin.loops.leadership import Leader
from admin.loops.statistics import StatisticsLoop
from admin.loops.waiting import WaitingLoop
from admin.services.context import Context
from admin.services.redecision_rounds import Redecided
from admin.services.redecisions import decide_waiting
from admin.store import loop_leases
from tests.conftest import MakeApp
from tests.support.agents import WatchedClock
from tests.support.apps import context_of, opened_app
from tests.support.databases import PostgresqlDatabases
from tests.support.placing import created, execution, get, pool, put_attribute, put_pool, switch
from tests.support.waiting import wait_until

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUICK = {"intervalMilliseconds": 10, "leaseSeconds": 1}


def take(context: Context, holder: str, seconds: float) -> bool:
    """Ask for a lease of ten seconds, some seconds after noon."""
    with context.database.writing() as connection:
        return loop_leases.take(connection, "work", holder, NOON + timedelta(seconds=seconds), 10)


def test_a_lease_is_had_by_one_until_it_is_given_up_or_over(context: Context) -> None:
    assert take(context, "a", 0)
    assert not take(context, "b", 5)
    assert take(context, "a", 5)
    assert not take(context, "b", 14.9)
    assert take(context, "b", 15)
    assert not take(context, "a", 16)
    with context.database.writing() as connection:
        loop_leases.release(connection, "work", "a", NOON + timedelta(seconds=17))  # not its own any more
    assert not take(context, "a", 17)
    with context.database.writing() as connection:
        loop_leases.release(connection, "work", "b", NOON + timedelta(seconds=18))
    assert take(context, "a", 18)


def test_of_many_that_ask_at_once_one_gets_the_lease(app: Flask, context: Context) -> None:
    barrier = threading.Barrier(8)

    def ask(number: int) -> bool:
        barrier.wait()
        return take(context, f"holder-{number}", 0)

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(ask, range(8))) == [False] * 7 + [True]


class Rounds:
    """Work that counts how often it is done."""

    def __init__(self, act: Callable[[int], Any] = lambda number: None) -> None:
        self.count = 0
        self._act = act

    def __call__(self) -> None:
        self.count += 1
        self._act(self.count)


@contextmanager
def leading(context: Context, work: Callable[[], None]) -> Iterator[Leader]:
    leader = Leader(context, [work])
    leader.start()
    try:
        yield leader
    finally:
        leader.close()


def test_one_of_two_does_the_work_and_the_other_takes_over_when_it_stops(make_app: MakeApp) -> None:
    contexts = [make_app(loops=QUICK).extensions["rainbow"] for _ in range(2)]
    first, second = Rounds(), Rounds()
    with leading(contexts[0], first) as leader:
        wait_until(lambda: first.count >= 3)
        with leading(contexts[1], second):
            done = first.count
            wait_until(lambda: first.count >= done + 10)
            assert second.count == 0
            leader.close()
            wait_until(lambda: second.count >= 3)
            done = first.count
            wait_until(lambda: second.count >= 10)
            assert first.count == done


def test_who_begins_to_lead_begins_to_watch(make_app: MakeApp) -> None:
    context = make_app(loops=QUICK).extensions["rainbow"]
    for second in (0, context.settings.agents.lease_seconds):
        context.watch.look(NOON + timedelta(seconds=second), second, context.settings.agents.lease_seconds)
    assert context.watch.may_judge
    rounds = Rounds()
    with leading(context, rounds):
        wait_until(lambda: rounds.count > 0)
        assert not context.watch.may_judge


def test_a_lease_that_ends_implausibly_late_is_taken(context: Context) -> None:
    """The clock went back by an hour after it was given, and its holder is gone."""
    assert take(context, "a", 3600)
    assert take(context, "b", 0)


def test_work_that_fails_is_tried_again(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    def fail(number: int) -> None:
        if number == 1:
            raise OperationalError("SELECT 1", {}, Exception("gone away"))
        if number == 2:
            raise ValueError("a mistake")

    rounds = Rounds(fail)
    app = make_app(loops=QUICK)
    with leading(app.extensions["rainbow"], rounds):
        wait_until(lambda: rounds.count >= 4)
    assert sum("failed, and is tried again" in record.message for record in caplog.records) == 2
    health = get(app.test_client(), "health")
    assert health["last_failure"]["message"] == "Rounds: ValueError: a mistake"
    assert health["problems"][-1].endswith(" ago, and is tried again: Rounds: ValueError: a mistake")
    assert (health["healthy"], health["database_state"]) == (False, "ready")


def test_a_round_decides_only_when_the_fleet_has_changed(api: FlaskClient, context: Context) -> None:
    decided = Rounds()

    def decide(context: Context) -> list[Redecided]:
        decided()
        return decide_waiting(context)

    loop = WaitingLoop(context, decide=decide)
    put_pool(api, "gpu", ["a", "b"], strategy="spill")
    created(api, "e", **pool("gpu"))
    loop()
    assert decided.count == 1  # nobody knows what happened before it led
    for _ in range(3):
        loop()
    created(api, "f", **pool("gpu"))
    put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 3})
    loop()
    assert decided.count == 1
    switch(api, "a", "cordon")
    loop()
    assert decided.count == 2
    assert (execution(api, "e")["cluster"], execution(api, "f")["cluster"]) == ("b", "b")
    loop()
    assert decided.count == 2


def test_a_round_ends_what_waited_past_its_budget(app: Flask, api: FlaskClient) -> None:
    clock = WatchedClock(app)
    put_attribute(api, "domain", "quality_of_service", {"spec": {"queueing_budget": "1ms"}})
    created(api, "e")
    clock.advance(1)
    loop = WaitingLoop(app.extensions["rainbow"], interval=0)
    loop()
    assert execution(api, "e")["closure"]["phase"] == "QUEUED"  # nothing is judged for one lease after the start
    clock.advance(app.extensions["rainbow"].settings.agents.lease_seconds)
    loop()
    assert execution(api, "e")["closure"]["phase"] == "TIMED_OUT"


def test_a_database_that_grows_from_nothing_is_told_to_look_at_its_tables(
    postgresql_databases: PostgresqlDatabases,
) -> None:
    with opened_app(postgresql_databases.set_up()) as app:  # of which no statistics are left by another test
        _look_at_growth(app.test_client(), context_of(app))


def _look_at_growth(api: FlaskClient, context: Context) -> None:
    def known() -> set[str]:
        with context.database.reading() as connection:
            rows = connection.exec_driver_sql("SELECT DISTINCT tablename FROM pg_stats WHERE schemaname = 'public'")
            return set(rows.scalars())

    loop = StatisticsLoop(context, interval=0)
    loop()
    assert "executions" not in known()
    spec = {"job": {"command": ["echo", "x" * 500]}}
    bodies = [{"project": "flytesnacks", "domain": "staging", "spec": spec} for _ in range(500)]
    assert api.post("/api/v1/executions", json={"executions": bodies}).get_json()["created"] == len(bodies)
    loop()
    assert "executions" in known()
    assert "projects" not in known()  # which is small
