"""What tests have of an admin that they share: they keep to names of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from tests.support.agents import Clock, own_clock, played_agent, set_clock
from tests.support.apps import context_of
from tests.support.asking import Asker, MakeAsker
from tests.support.placing import new_project, put_pool


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
