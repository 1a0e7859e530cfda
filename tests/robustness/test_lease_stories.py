"""Leases under every order of events: each execution ends once, in a legal phase.

Clusters are modelled with the work that runs on them, so that a test sees whether anything runs twice.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from admin.core.executions.lifecycle import Phase
from admin.core.executions.retries import Retries
from admin.core.provenance import Actor
from admin.services.context import Context
from admin.services.creations import create_execution
from admin.services.endings import terminate
from admin.services.evictions import end_drained, evict_from_lost, judge_health
from admin.services.exchanges import Sync, SyncResult
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.services.reports import Held, Report
from admin.services.run_requests import read_request
from admin.services.switches import switch_clusters
from admin.services.syncs import sync
from admin.store import unfinished
from admin.store.execution_tables import execution_events
from admin.store.executions import ExecutionId
from tests.conftest import MakeApp, Scale
from tests.robustness.lease_histories import checked, without_waiting_for_the_disk
from tests.support.agents import Clock, WatchedClock
from tests.support.apps import context_of
from tests.support.copies import copy_execution
from tests.support.placing import DOMAIN, JOB, PROJECT, pool, put_pool

LEASE, UNREACHABLE, LOST = 30, 40, 60
MARGIN = 5
SECTIONS = {"agents": {"leaseSeconds": LEASE, "unreachableSeconds": UNREACHABLE, "lostSeconds": LOST, "waitSeconds": 1}}
Lease = tuple[str, int]  # a name and an attempt


def key(name: str) -> ExecutionId:
    return ExecutionId(project=PROJECT, domain=DOMAIN, name=name)


@dataclass(kw_only=True)
class Cluster:
    """An agent as it should be, and the work on its engine."""

    name: str
    holding: set[Lease] = field(default_factory=set)
    confirmed: set[Lease] = field(default_factory=set)
    running: set[Lease] = field(default_factory=set)  #: on the engine
    waiting: set[str] = field(default_factory=set)  #: names of what goes on while the cluster is silent
    events: list[Report] = field(default_factory=list)
    heard_at: datetime | None = None  #: of the last sync that was answered
    sequence: int = 0

    def say(self, lease: Lease, type: str) -> None:
        number = f"{self.name}-{len(self.events)}-{lease}-{type}"
        self.events.append(Report(event=number, id=key(lease[0]), attempt=lease[1], type=type))

    def start(self, lease: Lease) -> None:
        """Only what was confirmed is started."""
        if lease in self.confirmed and lease not in self.running:
            self.running.add(lease)
            self.say(lease, "RUNNING")

    def finish(self, lease: Lease, type: str = "SUCCEEDED") -> None:
        self.running.discard(lease)
        self.confirmed.discard(lease)
        if lease in self.holding:
            self.holding.discard(lease)
            self.say(lease, type)

    def drop(self, lease: Lease) -> None:
        for leases in (self.holding, self.confirmed, self.running):
            leases.discard(lease)

    def guard(self, now: datetime) -> None:
        """End the work before its lease can be given away, unless it is waited for; start nothing more."""
        if self.heard_at is not None and (now - self.heard_at).total_seconds() > LEASE - MARGIN:
            for lease in list(self.running):
                if lease[0] not in self.waiting:
                    self.drop(lease)
            self.confirmed &= self.running

    def sync(self, context: Context, want: int, *, is_heard: bool = True) -> bool:
        """One sync; its answer may be lost. Answers whether anything new came of it."""
        self.sequence += 1
        sent, began = list(self.events), context.clock()
        request = Sync(
            cluster=self.name,
            agent="a",
            sequence=self.sequence,
            want=want,
            holding=tuple(Held(key(name), attempt) for name, attempt in sorted(self.holding)),
            events=tuple(sent),
        )
        answer = sync(context, request)
        if is_heard:
            self.heard_at = began
            self._hear(answer, sent)
        return answer.has_news

    def _hear(self, answer: SyncResult, sent: list[Report]) -> None:
        answered = {*answer.accepted, *(event for event, _ in answer.refused)}
        assert answered == {report.event for report in sent}
        self.events = [report for report in self.events if report.event not in answered]
        for held, _ in answer.lost:
            self.drop((held.id.name, held.attempt))
        self.confirmed |= {(row.name, row.attempt) for row in answer.confirmed}
        for row in answer.cancels:
            self.finish((row.name, row.attempt), "ABORTED")
        for row in answer.questions:
            lease = (row.name, row.attempt)
            if lease in self.running:
                self.holding.add(lease)
            elif lease not in self.holding:
                self.say(lease, "UNKNOWN")
        self.holding |= {(row.name, row.attempt) for row in answer.leases}
        self.waiting |= {row.name for row in answer.leases if Retries.of(row.content["retry"]).on_lost == "wait"}


@pytest.fixture
def clock(app: Flask) -> Clock:
    return WatchedClock(app)


@pytest.fixture
def context(app: Flask, clock: Clock) -> Context:
    return context_of(app)


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    app = make_app(**SECTIONS)
    without_waiting_for_the_disk(app.extensions["rainbow"])
    return app


def create(context: Context, name: str, **spec: Any) -> None:
    request = read_request(project=PROJECT, domain=DOMAIN, name=name, spec={"job": JOB, **spec}, inputs=None)
    create_execution(context, request)


def round_of_loops(context: Context) -> None:
    judge_health(context)
    evict_from_lost(context, 1000)
    end_drained(context)
    decide_undecided(context)
    decide_waiting(context)


# Every order


STEPS = ("cancel", "claim", "start", "finish", "expire")
POLICIES = ("wait", "fail", "retry")


def test_every_order_of_what_can_happen_ends_in_one_legal_phase(
    app: Flask, context: Context, clock: Clock, scale: Scale
) -> None:
    put_pool(app.test_client(), "all", ["c"])
    orders = random.Random(1).sample(list(itertools.permutations(STEPS)), scale(20, full=120))
    for number, order in enumerate(orders):
        for on_lost in POLICIES:
            _tell(context, clock, f"e{number}-{on_lost}", order, on_lost)
    rows = checked(context)
    assert len(rows) == len(POLICIES) * len(orders)
    for number, order in enumerate(orders):
        for on_lost in POLICIES:
            row = rows[f"e{number}-{on_lost}"]
            assert (row.phase, row.attempt) == _expected(order, on_lost), (order, on_lost)


def _expected(order: tuple[str, ...], on_lost: str) -> tuple[str, int]:
    """How an execution ends, and at which attempt; steps that are not possible do nothing."""
    done: set[str] = set()
    attempt = 1
    for step in order:
        if step == "cancel":
            return "ABORTED", attempt
        if step == "finish" and "claim" in done:
            return "SUCCEEDED", attempt
        if step == "expire" and "claim" in done:
            if on_lost == "fail":
                return "FAILED", attempt
            if on_lost == "retry":
                attempt, done = 2, set()
        elif step == "claim" or (step == "start" and "claim" in done):
            done.add(step)
    return "SUCCEEDED", attempt  # everybody comes back, and nobody keeps it from ending well


def _tell(context: Context, clock: Clock, name: str, order: tuple[str, ...], on_lost: str) -> None:
    """One execution from its beginning to its end."""
    create(context, name, cluster="c", retry={"on_lost": on_lost, "backoff": "1ms"})
    cluster = Cluster(name="c")
    cluster.sync(context, 0)
    for step in order:
        mine = sorted(cluster.holding)
        if step == "cancel":
            terminate(context, key(name), "enough", Actor(claimed_by="me"))
        elif step == "claim":
            cluster.sync(context, 0)
            round_of_loops(context)  # it may have been lost
            cluster.sync(context, 1)
            cluster.sync(context, 0)
        elif step == "expire":
            clock.advance(LOST + 1)
            cluster.guard(clock())
            round_of_loops(context)
        elif mine:
            (cluster.start if step == "start" else cluster.finish)(mine[0])
            cluster.sync(context, 0)
    while cluster.sync(context, 1) or cluster.holding or cluster.events:
        round_of_loops(context)
        for lease in sorted(cluster.confirmed):
            cluster.start(lease)
            cluster.finish(lease)


# Any order


NAMES = ("east", "west", "north", "south")


@dataclass(kw_only=True)
class Story:
    """Four clusters, their work, and people who cancel it."""

    context: Context
    clock: Clock
    dice: random.Random
    unfinished: list[str]
    clusters: list[Cluster] = field(default_factory=lambda: [Cluster(name=name) for name in NAMES])

    def go_on(self) -> None:
        """Something happens."""
        dice = self.dice
        cluster = dice.choice(self.clusters)
        act = dice.choices(
            (self.talk, self.work, self.wait, self.cancel, self.look, self.drain), (30, 40, 12, 25, 6, 1)
        )[0]
        act(cluster)
        self.check()

    def talk(self, cluster: Cluster) -> None:
        if self.dice.random() < 0.1:
            self.dice.shuffle(cluster.events)
        cluster.sync(self.context, self.dice.choice((0, 5, 40)), is_heard=self.dice.random() > 0.15)

    def work(self, cluster: Cluster) -> None:
        for lease in sorted(cluster.confirmed):
            luck = self.dice.random()
            if luck < 0.3:
                cluster.start(lease)
            elif luck < 0.5 and lease in cluster.running:
                cluster.finish(lease, self.dice.choice(("SUCCEEDED", "SUCCEEDED", "FAILED", "TIMED_OUT")))
            elif luck < 0.55 and lease not in cluster.running:
                cluster.finish(lease, self.dice.choice(("DECLINED", "RELEASED")))

    def wait(self, _: Cluster) -> None:
        self.clock.advance(self.dice.choice((1, 5, 15, LEASE)))
        for cluster in self.clusters:
            cluster.guard(self.clock())

    def cancel(self, _: Cluster) -> None:
        if self.unfinished:
            name = self.unfinished.pop(self.dice.randrange(len(self.unfinished)))
            terminate(self.context, key(name), "enough", Actor(claimed_by="me"))

    def look(self, _: Cluster) -> None:
        round_of_loops(self.context)

    def drain(self, cluster: Cluster) -> None:
        deadline = self.clock() + timedelta(seconds=20)
        word = "drain" if self.dice.random() < 0.4 else "undrain"
        switch_clusters(self.context, word, [cluster.name], deadline=deadline)

    def check(self) -> None:
        """Nothing runs twice at the same time, whatever the admin and the agents believe."""
        running = Counter(name for cluster in self.clusters for name, _ in cluster.running)
        assert not running or max(running.values()) == 1, running

    def come_to_an_end(self) -> None:
        """Everybody is well again: whatever is left is brought to an end."""
        for cluster in self.clusters:
            switch_clusters(self.context, "undrain", [cluster.name])
        for _ in range(40):
            round_of_loops(self.context)
            self.clock.advance(10)
            for cluster in self.clusters:
                cluster.sync(self.context, 500)
                cluster.sync(self.context, 0)
                for lease in sorted(cluster.confirmed):
                    cluster.start(lease)
                    cluster.finish(lease)
                self.check()
            with self.context.database.reading() as connection:
                left = unfinished.counts(connection)
                if not any(waits for *_, waits in left):
                    return


@pytest.mark.parametrize("seed", [2, 3])
def test_whatever_happens_everything_ends_once_and_nothing_runs_twice(
    app: Flask, context: Context, clock: Clock, scale: Scale, seed: int
) -> None:
    count = scale(120, full=400)
    put_pool(app.test_client(), "all", NAMES)
    policies: list[dict[str, Any]] = [
        {"attempts": 1, "on_lost": "fail"},
        {"on_lost": "retry"},
        {"attempts": 3, "backoff": "5s"},
        {"attempts": 2, "retry_on": ["CLUSTER_LOST"], "on_lost": "retry"},
    ]
    names: list[str] = []
    for number, policy in enumerate(policies):
        create(context, f"t{number}", retry=policy, **pool("all"))
        more = [f"e{number}-{index}" for index in range(count // len(policies) - 1)]
        copy_execution(context, f"t{number}", more)
        names += [f"t{number}", *more]
    dice = random.Random(seed)
    story = Story(context=context, clock=clock, dice=dice, unfinished=dice.sample(names, count // 2))
    for _ in range(2 * count):
        story.go_on()
    checked(context)
    story.come_to_an_end()
    rows = checked(context)
    ends = Counter(row.phase for row in rows.values())
    waits = {row.reason for row in rows.values() if row.phase == "QUEUED"}
    assert waits <= {"CLUSTERS_DECLINED"}, ends  # nobody would have them
    assert sum(ends.values()) == count
    assert min(ends[phase] for phase in ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED")) > 0, ends
    assert set(ends) <= {phase.value for phase in Phase if phase.is_finished} | {"QUEUED"}, ends
    events = _events(context)
    # Everything that can happen has happened; losing a lease before it is confirmed is rare in a short story.
    usual = {"RUNNING", "RETRY", "DECLINED", "RELEASED", "REFUSED", "ABORTING", "DECIDED", "SILENT", "HEARD"}
    assert events.keys() | {"EVICTED"} >= usual
    assert "EVICTED" in events or count < 400


def _events(context: Context) -> Counter[str]:
    with context.database.reading() as connection:
        return Counter(connection.execute(select(execution_events.c.type)).scalars())
