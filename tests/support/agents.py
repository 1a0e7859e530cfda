"""Agents played by tests: they say what agents say, and have no engine."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.services import agents
from admin.services.context import Context
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, put_cluster

_numbers = itertools.count(1)


class Clock:
    """A clock that stands still until a test moves it on."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def set_clock(app: Flask, clock: Clock) -> Context:
    """Let an app go by a clock."""
    context: Context = replace(app.extensions["rainbow"], clock=clock)
    app.extensions["rainbow"] = context
    return context


def key(name: str, project: str = PROJECT, domain: str = DOMAIN) -> dict[str, str]:
    return {"project": project, "domain": domain, "name": name}


@dataclass(kw_only=True)
class PlayedAgent:
    """One agent process of a cluster, by HTTP without a server in between."""

    client: FlaskClient
    cluster: str
    token: str
    id: str = "agent-1"
    project: str = PROJECT
    sequence: int = 0
    holding: dict[str, int] = field(default_factory=dict)  #: attempts, by the names of executions

    def post(self, **said: Any) -> TestResponse:
        """A sync as it is answered, whatever the answer is."""
        self.sequence += 1
        held = [{"id": self.key(name), "attempt": attempt} for name, attempt in self.holding.items()]
        body = {"agent": self.id, "sequence": self.sequence, "holding": held, **said}
        headers = {"Authorization": f"Bearer {self.token}"}
        return self.client.post(f"{API}/clusters/{self.cluster}/sync", json=body, headers=headers)

    def sync(self, *events: dict[str, Any], **said: Any) -> Any:
        """A sync that is answered well."""
        return ok(self.post(**{"events": list(events), **said} if events else said))

    def key(self, name: str) -> dict[str, str]:
        return key(name, self.project)

    def offered(self, want: int = 1, **said: Any) -> dict[str, int]:
        """What is offered, by name and attempt; it is not held yet."""
        return attempts(self.sync(want=want, **said)["leases"])

    def take(self, want: int = 1) -> list[str]:
        """Ask for leases and have them confirmed; answers their names in the order they came."""
        offered = self.offered(want)
        self.holding |= offered
        confirmed = attempts(self.sync()["confirmed"])
        assert offered.items() <= confirmed.items()
        return list(offered)

    def event(self, name: str, type: str, attempt: int | None = None, **more: Any) -> dict[str, Any]:
        """A report on an execution; of the attempt that is held unless another is said."""
        number = attempt if attempt is not None else self.holding.get(name, 1)
        event = f"{self.id}-{next(_numbers)}"
        return {"event": event, "id": self.key(name), "attempt": number, "type": type, **more}

    def report(self, name: str, type: str, attempt: int | None = None, **more: Any) -> str | None:
        """Report on an execution; answers why the report was refused, None where it counts."""
        said = self.event(name, type, attempt, **more)
        answer = self.sync(said)
        assert [*answer["accepted"], *(one["event"] for one in answer["refused"])] == [said["event"]]
        return answer["refused"][0]["reason"] if answer["refused"] else None

    def start(self, want: int = 1) -> list[str]:
        """Take leases and say that the work runs."""
        names = self.take(want)
        answer = self.sync(*(self.event(name, "RUNNING") for name in names))
        assert answer["refused"] == []
        return names

    def finish(self, names: Iterable[str], type: str = "SUCCEEDED", **more: Any) -> None:
        """Say how work ended, and hold it no longer."""
        events = [self.event(name, type, **more) for name in names]
        for name in names:
            del self.holding[name]
        assert self.sync(*events)["refused"] == []

    def log(self, name: str, offset: int, data: bytes, stream: str = "stdout", **more: Any) -> dict[str, Any]:
        """A piece of a log."""
        held = {"id": self.key(name), "attempt": self.holding.get(name, 1), "stream": stream, "offset": offset}
        return {**held, "data_base64": base64.b64encode(data).decode(), **more}


def played_agent(client: FlaskClient, context: Context, cluster: str, **more: Any) -> PlayedAgent:
    """An agent of a cluster that is made for it, known by a new token, and seen once."""
    put_cluster(client, cluster)
    token = agents.rotate(context, cluster, 0).token
    found = PlayedAgent(client=client, cluster=cluster, token=token, **more)
    found.sync()
    return found


def attempts(held: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Attempts by name, of leases or other things that name both."""
    return {one["id"]["name"]: one["attempt"] for one in held}


def names(held: Iterable[Mapping[str, Any]]) -> list[str]:
    return [one["id"]["name"] for one in held]


def closure(client: FlaskClient, name: str, project: str = PROJECT) -> tuple[str, str]:
    """The phase of an execution, and the reason for it."""
    found = get(client, f"executions/{project}/{DOMAIN}/{name}")["closure"]
    return found["phase"], found["reason"]["code"]


def event_types(client: FlaskClient, name: str, project: str = PROJECT) -> list[str]:
    """What happened to an execution, oldest first."""
    found = get(client, f"executions/{project}/{DOMAIN}/{name}/events?limit=1000")["events"]
    assert [one["number"] for one in found] == list(range(1, len(found) + 1))
    return [one["type"] for one in found]
