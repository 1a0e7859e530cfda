"""Concurrent calls of agents, on both databases: each lease is given once, and there are no deadlocks."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from flask import Flask
from sqlalchemy import text

from admin.core.changes import Authorship, Expectation
from admin.core.fleet.definitions import FleetKind
from admin.core.provenance import Actor
from admin.errors import RainbowError
from admin.loops.evictions import EvictionLoop
from admin.loops.waiting import WaitingLoop
from admin.services.changeable.base import ChangeOptions
from admin.services.context import Context
from admin.services.creations import create_execution
from admin.services.endings import terminate
from admin.services.exchanges import Sync
from admin.services.fleet import put_definition, report_state
from admin.services.reports import Held, Report
from admin.services.run_requests import read_request
from admin.services.switches import switch_clusters
from admin.services.syncs import sync
from admin.store.executions import ExecutionId
from tests.conftest import MakeApp, Scale
from tests.robustness.lease_histories import checked, without_waiting_for_the_disk
from tests.support.copies import copy_execution
from tests.support.placing import DOMAIN, JOB, PROJECT, created, pool, put_pool
from tests.support.small_fleets import group
from tests.support.threads import all_at_once, repeat_together

THREADS = 8


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    app = make_app(database={"poolSize": 20})
    without_waiting_for_the_disk(app.extensions["rainbow"])
    return app


def key(name: str) -> ExecutionId:
    return ExecutionId(project=PROJECT, domain=DOMAIN, name=name)


class SharedAgent:
    """One agent process with several calls under way; what it holds is known to all of them."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._lock = threading.Lock()
        self._holding: dict[str, int] = {}
        self._events: list[Report] = []
        self._sequence = 0
        self.started: Counter[str] = Counter()  #: how often each was started
        self.done: set[str] = set()

    def call(self, context: Context, want: int) -> bool:
        """One sync: report what is held, start what is confirmed, end what runs; whether there was anything to do."""
        with self._lock:
            self._sequence += 1
            events, self._events = self._events, []
            holding = tuple(Held(key(name), attempt) for name, attempt in self._holding.items())
            request = Sync(
                cluster=self.cluster,
                agent="a",
                sequence=self._sequence,
                want=want,
                holding=holding,
                events=tuple(events),
            )
        answer = sync(context, request)
        assert answer.refused == []
        with self._lock:
            for row in answer.confirmed:
                if row.name in self._holding and row.name not in self.done:
                    self.started[row.name] += 1
                    self.done.add(row.name)
                    del self._holding[row.name]
                    for type in ("RUNNING", "SUCCEEDED"):
                        event = f"{row.name}-{type}"
                        self._events.append(Report(event=event, id=key(row.name), attempt=row.attempt, type=type))
            for held, _ in answer.lost:
                if held.id.name not in self.done:
                    self._holding.pop(held.id.name, None)
            for row in answer.leases:
                if row.name not in self.done:
                    self._holding[row.name] = row.attempt
            return bool(events or answer.leases or answer.confirmed or self._holding or self._events)


@pytest.mark.parametrize("clusters", [1, 4])
def test_eight_calls_at_once_lease_each_execution_exactly_once(
    app: Flask, context: Context, scale: Scale, clusters: int
) -> None:
    number_of_executions = scale(150, full=500)
    names = [f"c{number}" for number in range(clusters)]
    put_pool(app.test_client(), "all", names)
    created(app.test_client(), "e0", **pool("all"))
    copy_execution(context, "e0", [f"e{number}" for number in range(1, number_of_executions)])
    if clusters > 1:
        _spread(context, names)
    agents = [SharedAgent(name) for name in names]
    for agent in agents:
        agent.call(context, 0)

    def work(number: int) -> None:
        agent, idle = agents[number % clusters], 0
        while idle < 3:
            idle = 0 if agent.call(context, 12) else idle + 1

    all_at_once([partial(work, number) for number in range(THREADS)])
    started: Counter[str] = sum((agent.started for agent in agents), Counter())
    assert (len(started), set(started.values())) == (number_of_executions, {1})
    rows = checked(context)
    assert {(row.phase, row.attempt) for row in rows.values()} == {("SUCCEEDED", 1)}


def _spread(context: Context, names: list[str]) -> None:
    """Assign the copies, which all wait at one cluster, to several."""
    with context.database.writing() as connection:
        for number, name in enumerate(names):
            statement = f"UPDATE executions SET cluster = '{name}' WHERE id % {len(names)} = {number}"
            connection.execute(text(statement))


# Everything at once


CLUSTERS = ("east", "west", "north", "south")


def test_nothing_stands_still_while_the_fleet_changes_and_agents_creators_and_people_go_on(
    app: Flask, context: Context, scale: Scale
) -> None:
    """On PostgreSQL a deadlock would end one of the transactions, and with it the test."""
    api = app.test_client()
    for strategy in ("least-loaded", "spill", "weighted"):
        put_pool(api, strategy, CLUSTERS, strategy=strategy)
    names: list[str] = []

    def create(dice: random.Random) -> None:
        name = f"e{dice.getrandbits(60):x}"
        retry = {"attempts": 3, "backoff": "1ms", "on_lost": "retry"}
        spec = {"job": JOB, "retry": retry, **pool(dice.choice(("least-loaded", "spill", "weighted")))}
        create_execution(context, read_request(project=PROJECT, domain=DOMAIN, name=name, spec=spec, inputs=None))
        names.append(name)

    def cancel(dice: random.Random) -> None:
        if names:
            terminate(context, key(dice.choice(names)), "enough", Actor(claimed_by="me"))

    def switch(dice: random.Random) -> None:
        cluster, way = dice.choice(CLUSTERS), dice.random()
        if way < 0.4:
            switch_clusters(context, "cordon" if dice.random() < 0.4 else "uncordon", [cluster])
        elif way < 0.6:
            word = "drain" if dice.random() < 0.3 else "undrain"
            switch_clusters(context, word, [cluster], deadline=context.clock())
        elif way < 0.8:
            report_state(context, cluster, {"free": {"executions": dice.randrange(500)}})
        else:
            members = {name: dice.choice((1, 5)) for name in dice.sample(CLUSTERS, 4)}
            payload = group(members, strategy="spill")
            options = ChangeOptions(authorship=Authorship(author="me"))
            put_definition(context, FleetKind.POOL, "spill", payload, Expectation(), options)

    loops: list[Callable[[], None]] = [EvictionLoop(context), WaitingLoop(context)]
    agents = [_RandomAgent(name) for name in CLUSTERS]
    acts: dict[str, Callable[[random.Random], object]] = {
        **{f"agent {agent.cluster}": partial(agent.call, context) for agent in agents},
        **{f"creator {number}": create for number in range(2)},
        "canceller": cancel,
        "operator": switch,
        "loops": lambda _: [loop() for loop in loops],
    }
    repeat_together(
        {name: partial(act, random.Random(name)) for name, act in acts.items()},
        scale(20, full=100),
        paced=("canceller", "operator", "loops"),
    )
    checked(context)
    if context.database.engine.dialect.name == "postgresql":
        with context.database.reading() as connection:
            query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            assert connection.execute(text(query)).scalar() == 0


class _RandomAgent:
    """Holds what it is offered, and reports on anything, its own or not, in any order."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._holding: dict[str, int] = {}
        self._known: list[tuple[str, int]] = []
        self._sequence = 0

    def call(self, context: Context, dice: random.Random) -> None:
        self._sequence += 1
        chosen = dice.sample(self._known, min(len(self._known), 8)) + dice.sample(_all_leases, min(len(_all_leases), 4))
        events = []
        for number, (name, attempt) in enumerate(chosen):
            type = dice.choice(
                ("RUNNING", "RUNNING", "SUCCEEDED", "FAILED", "DECLINED", "RELEASED", "UNKNOWN", "ABORTED")
            )
            events.append(Report(event=f"{self._sequence}-{number}", id=key(name), attempt=attempt, type=type))
        holding = tuple(Held(key(name), attempt) for name, attempt in self._holding.items())
        report = {"free": {"executions": dice.randrange(500)}} if dice.random() < 0.1 else None
        answer = sync(
            context,
            Sync(
                cluster=self.cluster,
                agent=self.cluster,
                sequence=self._sequence,
                want=dice.randrange(10),
                report=report,
                holding=holding,
                events=tuple(events),
            ),
        )
        for held, _ in answer.lost:
            self._holding.pop(held.id.name, None)
        for row in answer.leases:
            self._holding[row.name] = row.attempt
            _all_leases.append((row.name, row.attempt))
        self._known = list(self._holding.items())


_all_leases: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    _all_leases.clear()


def test_two_agents_that_report_on_each_others_work_do_not_wait_for_each_other(app: Flask, context: Context) -> None:
    """As they do when work of one was given to the other."""
    put_pool(app.test_client(), "all", ["a", "b"])
    for number in range(40):
        created(app.test_client(), f"e{number}", cluster="ab"[number % 2])
    agents = [SharedAgent(name) for name in "ab"]
    for agent in agents:
        sync(context, Sync(cluster=agent.cluster, agent="a", sequence=1, want=40))

    def report(cluster: str) -> Callable[[], None]:
        def go_on() -> None:
            dice = random.Random(cluster)
            for turn in range(15):
                order = dice.sample(range(40), 40)
                events = tuple(
                    Report(event=f"{turn}-{number}", id=key(f"e{number}"), attempt=7, type="FAILED") for number in order
                )
                holding = tuple(Held(key(f"e{number}"), 1) for number in range(40) if "ab"[number % 2] == cluster)
                try:
                    answer = sync(
                        context, Sync(cluster=cluster, agent="a", sequence=2 + turn, holding=holding, events=events)
                    )
                except RainbowError as error:
                    raise AssertionError(error.message) from error
                assert len(answer.refused) == 40

        return go_on

    all_at_once([report("a"), report("b")])
    assert {row.phase for row in checked(context).values()} == {"QUEUED"}
