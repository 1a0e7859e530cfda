"""Many agents' calls at once, on both databases: each lease is given once, and nobody waits for nobody."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from admin.core.changes import Authorship
from admin.core.fleet.definitions import FleetKind
from admin.core.settings.writes import Expectation
from admin.errors import RainbowError
from admin.loops.leases import LeaseLoop
from admin.loops.waiting import WaitingLoop
from admin.services.changeable.base import ChangeOptions
from admin.services.context import Context
from admin.services.creations import create_execution
from admin.services.executions import terminate
from admin.services.fleet import put_definition, report_state, set_cordoned, set_draining
from admin.services.launches import read_request
from admin.services.syncs import Report, Sync, sync
from admin.store.executions import ExecutionId
from tests.conftest import MakeApp
from tests.robustness.lease_histories import checked, without_waiting_for_the_disk
from tests.robustness.test_many_waiting import copied
from tests.support.placing import DOMAIN, JOB, PROJECT, created, pool, put_pool
from tests.support.small_fleets import group

THREADS = 8


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    found = make_app(database={"poolSize": 20})
    without_waiting_for_the_disk(found.extensions["rainbow"])
    return found


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
        """One call: say what is held, start what is confirmed, end what runs. Answers whether there was anything."""
        with self._lock:
            self._sequence += 1
            events, self._events = self._events, []
            holding = tuple((key(name), attempt) for name, attempt in self._holding.items())
            said = Sync(
                cluster=self.cluster,
                agent="a",
                sequence=self._sequence,
                want=want,
                holding=holding,
                events=tuple(events),
            )
        answer = sync(context, said)
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
            for lost in answer.lost:
                if lost[0].name not in self.done:
                    self._holding.pop(lost[0].name, None)
            for row in answer.leases:
                if row.name not in self.done:
                    self._holding[row.name] = row.attempt
            return bool(events or answer.leases or answer.confirmed or self._holding or self._events)


@pytest.mark.parametrize("clusters", [1, 4])
def test_eight_calls_at_once_lease_five_hundred_exactly_once(app: Flask, context: Context, clusters: int) -> None:
    names = [f"c{number}" for number in range(clusters)]
    put_pool(app.test_client(), "all", names)
    created(app.test_client(), "e0", **pool("all"))
    copied(context, "e0", [f"e{number}" for number in range(1, 500)])
    if clusters > 1:
        _spread(context, names)
    agents = [SharedAgent(name) for name in names]
    for agent in agents:
        agent.call(context, 0)

    def work(number: int) -> None:
        agent, idle = agents[number % clusters], 0
        while idle < 3:
            idle = 0 if agent.call(context, 12) else idle + 1

    _all_at_once([partial(work, number) for number in range(THREADS)])
    started: Counter[str] = sum((agent.started for agent in agents), Counter())
    assert (len(started), set(started.values())) == (500, {1})
    found = checked(context)
    assert {(row.phase, row.attempt) for row in found.values()} == {("SUCCEEDED", 1)}


def _spread(context: Context, names: list[str]) -> None:
    """Copies are all at one cluster; let them wait at several."""
    with context.database.writing() as connection:
        for number, name in enumerate(names):
            found = f"UPDATE executions SET cluster = '{name}' WHERE id % {len(names)} = {number}"
            connection.execute(text(found))


def _all_at_once(acts: list[Callable[[], None]]) -> None:
    """Do things at the same time; every failure is one of the test."""
    barrier = threading.Barrier(len(acts))

    def do(act: Callable[[], None]) -> None:
        barrier.wait()
        act()

    with ThreadPoolExecutor(len(acts)) as threads:
        for done in [threads.submit(do, act) for act in acts]:
            done.result(timeout=100)


# Everything at once


SECONDS = 5.0
CLUSTERS = ("east", "west", "north", "south")


def test_nothing_stands_still_while_the_fleet_changes_and_agents_creators_and_people_go_on(
    app: Flask, context: Context
) -> None:
    """On PostgreSQL a deadlock would end one of the transactions, and with it the test."""
    api = app.test_client()
    for strategy in ("least-loaded", "spill", "weighted"):
        put_pool(api, strategy, CLUSTERS, strategy=strategy)
    until = time.monotonic() + SECONDS
    made: list[str] = []
    counts: Counter[str] = Counter()

    def repeatedly(name: str, act: Callable[[random.Random], Any], pause: float = 0.0) -> Callable[[], None]:
        def go_on() -> None:
            dice = random.Random(name)
            while time.monotonic() < until:
                act(dice)
                counts[name] += 1
                time.sleep(pause)

        return go_on

    def create(dice: random.Random) -> None:
        name = f"e{dice.getrandbits(60):x}"
        retry = {"attempts": 3, "backoff": "1ms", "on_lost": "retry"}
        spec = {"job": JOB, "retry": retry, **pool(dice.choice(("least-loaded", "spill", "weighted")))}
        create_execution(context, read_request(project=PROJECT, domain=DOMAIN, name=name, spec=spec, inputs=None))
        made.append(name)

    def cancel(dice: random.Random) -> None:
        if made:
            terminate(context, key(dice.choice(made)), "enough", "me")

    def switch(dice: random.Random) -> None:
        cluster, way = dice.choice(CLUSTERS), dice.random()
        if way < 0.4:
            set_cordoned(context, cluster, dice.random() < 0.4, None, None)
        elif way < 0.6:
            set_draining(context, cluster, dice.random() < 0.3, context.clock(), None, None)
        elif way < 0.8:
            report_state(context, cluster, {"free": {"executions": dice.randrange(500)}})
        else:
            members = {one: dice.choice((1, 5)) for one in dice.sample(CLUSTERS, 4)}
            payload = group(members, strategy="spill")
            options = ChangeOptions(authorship=Authorship(author="me"))
            put_definition(context, FleetKind.POOL, "spill", payload, Expectation(), options)

    loops: list[Callable[[], None]] = [LeaseLoop(context), WaitingLoop(context)]
    agents = [_RandomAgent(name) for name in CLUSTERS]
    acts = [repeatedly(f"agent {agent.cluster}", partial(agent.call, context)) for agent in agents]
    acts += [repeatedly(f"creator {number}", create) for number in range(2)]
    acts.append(repeatedly("canceller", cancel, 0.01))
    acts.append(repeatedly("operator", switch, 0.02))
    acts.append(repeatedly("loops", lambda _: [loop() for loop in loops], 0.02))
    _all_at_once(acts)
    checked(context)
    assert min(counts.values()) >= 5, counts
    if context.database.engine.dialect.name == "postgresql":
        with context.database.reading() as connection:
            found = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            assert connection.execute(text(found)).scalar() == 0


class _RandomAgent:
    """Holds what it is offered, and reports on anything, its own or not, in any order."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._holding: dict[str, int] = {}
        self._known: list[tuple[str, int]] = []
        self._sequence = 0

    def call(self, context: Context, dice: random.Random) -> None:
        self._sequence += 1
        chosen = dice.sample(self._known, min(len(self._known), 8)) + dice.sample(_everybodys, min(len(_everybodys), 4))
        events = []
        for number, (name, attempt) in enumerate(chosen):
            type = dice.choice(
                ("RUNNING", "RUNNING", "SUCCEEDED", "FAILED", "DECLINED", "RELEASED", "UNKNOWN", "ABORTED")
            )
            events.append(Report(event=f"{self._sequence}-{number}", id=key(name), attempt=attempt, type=type))
        holding = tuple((key(name), attempt) for name, attempt in self._holding.items())
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
        for lost in answer.lost:
            self._holding.pop(lost[0].name, None)
        for row in answer.leases:
            self._holding[row.name] = row.attempt
            _everybodys.append((row.name, row.attempt))
        self._known = list(self._holding.items())


_everybodys: list[tuple[str, int]] = []


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    _everybodys.clear()


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
                holding = tuple((key(f"e{number}"), 1) for number in range(40) if "ab"[number % 2] == cluster)
                try:
                    answer = sync(
                        context, Sync(cluster=cluster, agent="a", sequence=2 + turn, holding=holding, events=events)
                    )
                except RainbowError as error:
                    raise AssertionError(error.message) from error
                assert len(answer.refused) == 40

        return go_on

    _all_at_once([report("a"), report("b")])
    assert {row.phase for row in checked(context).values()} == {"QUEUED"}
