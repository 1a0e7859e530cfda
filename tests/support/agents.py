"""Agents played by tests: they send the requests of an agent, and have no engine."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.core.fleet.silence import LONGEST_LOOK_SECONDS
from admin.services import agents
from admin.services.clocks import may_judge
from admin.services.context import Context
from admin.services.evictions import evict_from_lost, judge_health, listen
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, created, execution, get, ok, put_cluster

_numbers = itertools.count(1)


class Clock:
    """A clock that stands still until a test advances it."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


class WatchedClock(Clock):
    """A clock whose admin listens to its clusters every few seconds, as its background work does."""

    def __init__(self, app: Flask) -> None:
        super().__init__()
        self._seconds = 1000.0  #: of the monotonic clock
        self._context = replace(set_clock(app, self), monotonic=self.monotonic)
        app.extensions["rainbow"] = self._context

    def monotonic(self) -> float:
        return self._seconds

    def step(self, seconds: float) -> None:
        """Set the clock, which is not what time does."""
        super().advance(seconds)

    def advance(self, seconds: float) -> None:
        self._look()
        while seconds > 0:
            part = min(seconds, LONGEST_LOOK_SECONDS)
            super().advance(part)
            self._seconds += part
            seconds -= part
            self._look()

    def _look(self) -> None:
        may_judge(self._context)
        listen(self._context)


def set_clock(app: Flask, clock: Clock) -> Context:
    """Make an app use a clock."""
    context = app.extensions["rainbow"] = replace(context_of(app), clock=clock)
    return context


@contextmanager
def own_clock(app: Flask) -> Iterator[Clock]:
    """A clock that an app which is shared uses for a while."""
    before, clock = context_of(app), Clock()
    set_clock(app, clock)
    yield clock
    app.extensions["rainbow"] = before


def settled_context(app: Flask, clock: Clock, seconds: float) -> Context:
    """What an app that is shared works with, after so long that all that earlier tests left behind was given away."""
    clock.advance(seconds)
    judge_health(context_of(app))
    evict_from_lost(context_of(app), 10_000)
    return context_of(app)


def watched_clock() -> Any:
    """A fixture: one clock for all tests of a module, in which time never goes back."""

    def clock(shared_app: Flask) -> WatchedClock:
        return WatchedClock(shared_app)

    return pytest.fixture(scope="module")(clock)


def settled_after(seconds: float) -> Any:
    """A fixture: what a module's admin works with, after so long that all of earlier tests was given away."""

    def context(shared_app: Flask, clock: WatchedClock) -> Context:
        return settled_context(shared_app, clock, seconds)

    return pytest.fixture(context)


def key(name: str, project: str = PROJECT, domain: str = DOMAIN) -> dict[str, str]:
    return {"project": project, "domain": domain, "name": name}


@dataclass(kw_only=True)
class PlayedAgent:
    """One agent process of a cluster, which calls the app without a server."""

    client: FlaskClient
    cluster: str
    token: str
    id: str = "agent-1"
    instance: str = ""  #: "" for an agent of before there were any
    project: str = PROJECT
    sequence: int = 0
    holding: dict[str, int] = field(default_factory=dict)  #: attempts, by the names of executions

    def post(self, **fields: Any) -> TestResponse:
        """The response to a sync, whatever its status."""
        self.sequence += 1
        held = [{"id": self.key(name), "attempt": attempt} for name, attempt in self.holding.items()]
        body = {"agent": self.id, "sequence": self.sequence, "holding": held, **fields}
        if self.instance:
            body = {"instance": self.instance, "host": f"host-of-{self.instance}", **body}
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.client.post(f"{API}/clusters/{self.cluster}/sync", json=body, headers=headers)

    def sync(self, *events: dict[str, Any], **fields: Any) -> Any:
        """The answer to a sync that succeeds."""
        return ok(self.post(**{"events": list(events), **fields} if events else fields))

    def key(self, name: str) -> dict[str, str]:
        return key(name, self.project)

    def offered(self, want: int = 1, **fields: Any) -> dict[str, int]:
        """The attempts of the leases that a sync offers, by name; they are not held yet."""
        return attempts(self.sync(want=want, **fields)["leases"])

    def take(self, want: int = 1) -> list[str]:
        """Ask for leases and have them confirmed; returns their names in the order of the offers."""
        offered = self.offered(want)
        self.holding |= offered
        confirmed = attempts(self.sync()["confirmed"])
        assert offered.items() <= confirmed.items()
        return list(offered)

    def event(self, name: str, type: str, attempt: int | None = None, **more: Any) -> dict[str, Any]:
        """An event of an execution, of the attempt that is held unless another is given."""
        number = attempt if attempt is not None else self.holding.get(name, 1)
        event = f"{self.id}-{next(_numbers)}"
        return {"event": event, "id": self.key(name), "attempt": number, "type": type, **more}

    def report(self, name: str, type: str, attempt: int | None = None, **more: Any) -> str | None:
        """Report an event; returns why it was refused, or None if it was accepted."""
        event = self.event(name, type, attempt, **more)
        answer = self.sync(event)
        assert [*answer["accepted"], *(refusal["event"] for refusal in answer["refused"])] == [event["event"]]
        return answer["refused"][0]["reason"] if answer["refused"] else None

    def start(self, want: int = 1) -> list[str]:
        """Take leases, and report that their executions run."""
        names = self.take(want)
        answer = self.sync(*(self.event(name, "RUNNING") for name in names))
        assert answer["refused"] == []
        return names

    def finish(self, names: Iterable[str], type: str = "SUCCEEDED", **more: Any) -> None:
        """Report how executions ended, and hold their leases no longer."""
        events = [self.event(name, type, **more) for name in names]
        for name in names:
            del self.holding[name]
        assert self.sync(*events)["refused"] == []

    def log(self, name: str, offset: int, data: bytes, stream: str = "stdout", **more: Any) -> dict[str, Any]:
        """A piece of a log."""
        held = {"id": self.key(name), "attempt": self.holding.get(name, 1), "stream": stream, "offset": offset}
        return {**held, "data_base64": base64.b64encode(data).decode(), **more}


def played_agent(client: FlaskClient, context: Context, cluster: str, **more: Any) -> PlayedAgent:
    """An agent of a new cluster, with a token, that has synced once."""
    put_cluster(client, cluster)
    token = agents.rotate(context, cluster, 0).token
    agent = PlayedAgent(client=client, cluster=cluster, token=token, **more)
    agent.sync()
    return agent


def attempts(references: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Attempts by name, of leases or other objects that have both."""
    return {reference["id"]["name"]: reference["attempt"] for reference in references}


def names(references: Iterable[Mapping[str, Any]]) -> list[str]:
    return [reference["id"]["name"] for reference in references]


def closure(client: FlaskClient, name: str, project: str = PROJECT) -> tuple[str, str]:
    """The phase of an execution, and the reason for it."""
    closure = get(client, f"executions/{project}/{DOMAIN}/{name}")["closure"]
    return closure["phase"], closure["reason"]["code"]


def event_types(client: FlaskClient, name: str, project: str = PROJECT) -> list[str]:
    """The types of an execution's events, oldest first."""
    events = get(client, f"executions/{project}/{DOMAIN}/{name}/events?limit=1000")["events"]
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    return [event["type"] for event in events]


def add(agent: PlayedAgent, *names: str, **spec: Any) -> None:
    """New executions for an agent's cluster."""
    for name in names:
        created(agent.client, name, project=agent.project, cluster=agent.cluster, **spec)


def shown(agent: PlayedAgent, name: str) -> Any:
    """An execution of an agent's project."""
    return execution(agent.client, name, agent.project)


def phase(agent: PlayedAgent, name: str) -> tuple[str, str]:
    """The phase of an execution of an agent's project, and the reason for it."""
    return closure(agent.client, name, agent.project)


def types(agent: PlayedAgent, name: str) -> list[str]:
    """The types of the events of an execution of an agent's project, oldest first."""
    return event_types(agent.client, name, agent.project)
