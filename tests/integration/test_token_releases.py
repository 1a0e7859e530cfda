"""Who may give tokens back over HTTP: their holders, whoever knows the number, and operators by force."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.grants import Grant, Grantee
from admin.core.settings.scopes import Scope
from admin.services import grants, user_tokens, users
from admin.services.changeable.base import ChangeOptions
from tests.conftest import MakeApp
from tests.support.agents import add, played_agent
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, refused
from tests.support.redis import redis_server, running_redis
from tests.support.token_backends import opened_backend


@pytest.fixture(params=["database", "redis"])
def app(request: pytest.FixtureRequest, make_app: MakeApp) -> Iterator[Flask]:
    """An admin with five tokens of a pool, in its database and in Redis."""
    app = make_app()
    pool = {"token_pool": {"name": "lic", "capacity": 5}}
    ok(app.test_client().put(f"{API}/token_pools/lic", json=pool))
    if request.param == "database":
        yield app
        return
    pytest.importorskip("redis")
    if redis_server() is None:
        pytest.skip("neither Redis nor Valkey is installed")
    context = context_of(app)
    with running_redis() as server, opened_backend(context.database, server.address) as backend:
        app.extensions["rainbow"] = replace(context, tokens=backend)
        yield app


def claim(token: str, amount: int = 5, **fields: Any) -> dict[str, Any]:
    return {"token": token, "pools": {"lic": amount}, "project": PROJECT, "domain": DOMAIN, **fields}


def allocate(api: FlaskClient, token: str, **fields: Any) -> dict[str, Any]:
    return dict(ok(api.post(f"{API}/token_allocations", json={"claim": claim(token, **fields)})))


def release(api: FlaskClient, token: str, **fields: Any) -> Any:
    return api.post(f"{API}/token_releases", json={"release": claim(token, **fields)})


def force(api: FlaskClient, token: str) -> None:
    assert ok(release(api, token, force=True))["pools"]


def used(api: FlaskClient) -> int:
    return int(get(api, "token_pools/lic")["used"])


def user(app: Flask, name: str, role: str, scope: Scope | None = None) -> FlaskClient:
    context, options = context_of(app), ChangeOptions()
    if scope is None:
        scope = Scope() if role == "admin" else Scope(project=PROJECT)
    grants.create_grant(context, Grant(role=role, grantee=Grantee("user", name), scope=scope), options)
    users.create_user(context, name, {}, options)
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {user_tokens.create_token(context, name, 'laptop').token}"
    return client


def test_without_users_the_number_gives_tokens_back(app: Flask) -> None:
    api = app.test_client()
    number = allocate(api, "a")["number"]
    answer = refused(release(api, "a"), 400, "invalid_request", "release.number")
    assert "give the number of the grant" in answer["message"]
    refused(release(api, "a", number=number + 1), 409, "tokens_not_held")
    assert used(api) == 5
    assert allocate(api, "b", wait_seconds=5)["status"] == "exhausted"
    assert ok(release(api, "b"))["pools"] == {}  # it leaves the line
    assert ok(release(api, "a", number=number))["pools"] == {"lic": 5}
    refused(release(api, "a"), 409, "tokens_not_held")


def test_other_amounts_than_are_held_are_refused(app: Flask) -> None:
    api = app.test_client()
    number = allocate(api, "a")["number"]
    answer = refused(release(api, "a", amount=4, number=number), 400, "invalid_request", "release.pools.lic")
    assert "4 is not what is held: give back all 5" in answer["message"]
    assert used(api) == 5


def test_of_users_the_holder_needs_no_number(app: Flask) -> None:
    ann, bea, olga = user(app, "ann", "submitter"), user(app, "bea", "submitter"), user(app, "olga", "admin")
    allocate(ann, "a")
    [holder] = get(bea, "token_pools/lic")["holders"]
    assert (holder["token"], holder.get("number")) == ("a", None)
    refused(bea.post(f"{API}/token_allocations", json={"claim": claim("a")}), 409, "token_conflict")
    refused(release(bea, "a"), 400, "invalid_request", "release.number")
    refused(release(bea, "a", force=True), 403, "permission_denied")
    assert allocate(ann, "line", wait_seconds=5)["status"] == "exhausted"
    refused(release(bea, "line"), 409, "tokens_not_held")
    assert used(ann) == 5
    ok(release(ann, "line"))
    assert ok(release(ann, "a"))["pools"] == {"lic": 5}
    number = allocate(ann, "b")["number"]
    assert ok(release(bea, "b", number=number))["pools"] == {"lic": 5}
    allocate(ann, "c")
    force(olga, "c")
    assert used(ann) == 0


def test_the_role_operator_is_enough_to_release_by_force(app: Flask) -> None:
    root, agent = app.test_client(), played_agent(app.test_client(), context_of(app), "alpha")
    add(agent, "e", token_pools={"lic": 2})
    assert agent.start(1) == ["e"]
    [run] = get(root, "token_pools/lic")["holders"]
    user(app, "root", "admin")
    ann = user(app, "ann", "submitter")
    local = user(app, "lou", "operator")
    olga = user(app, "olga", "operator", Scope())
    allocate(ann, "a", amount=3)
    # What one holds belongs to the whole platform, so a grant on a project does not do.
    refused(release(local, "a", amount=3, force=True), 403, "permission_denied")
    refused(release(olga, "a", amount=3), 400, "invalid_request", "release.number")
    assert used(ann) == 5
    assert ok(release(olga, "a", amount=3, force=True))["pools"] == {"lic": 3}
    assert ok(release(olga, run["token"], amount=2, force=True))["pools"] == {"lic": 2}
    assert used(ann) == 0
    refused(release(olga, "a", amount=3, force=True), 409, "tokens_not_held")


def test_no_request_names_the_tokens_of_executions(app: Flask, caplog: pytest.LogCaptureFixture) -> None:
    api = app.test_client()
    agent = played_agent(api, context_of(app), "alpha")
    add(agent, "e", token_pools={"lic": 5})
    assert agent.start(1) == ["e"]
    [holder] = get(api, "token_pools/lic")["holders"]
    token, number = holder["token"], holder["number"]
    answer = refused(release(api, token, number=number), 400, "invalid_request", "release.token")
    assert "Tokens that start with 'execution/' are held by executions alone" in answer["message"]
    renewal = {"renewal": claim(token, number=number)}
    refused(api.post(f"{API}/token_renewals", json=renewal), 400, "invalid_request", "renewal.token")
    asked = {"claim": claim("execution/x/1")}
    refused(api.post(f"{API}/token_allocations", json=asked), 400, "invalid_request", "claim.token")
    assert used(api) == 5
    force(api, token)
    assert f"token '{token}' by force" in caplog.text


def test_nobody_stays_in_line_for_longer_than_a_minute_without_asking(app: Flask) -> None:
    asked = {"claim": claim("a", wait_seconds=61)}
    answer = app.test_client().post(f"{API}/token_allocations", json=asked)
    assert "60" in refused(answer, 400, "invalid_request", "claim.wait_seconds")["message"]
