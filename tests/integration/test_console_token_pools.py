"""The console's pages of token pools, without a browser."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.conftest import MakeApp
from tests.integration.test_console import send, signed_in
from tests.integration.test_console_fleet import shown, words_of
from tests.support.people import made_user
from tests.support.placing import API, DOMAIN, PROJECT, get, ok
from tests.support.ports import free_port
from tests.support.small_console import HOSTILE

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
POOLS = "/console/token-pools"


@pytest.fixture
def hive(api: FlaskClient) -> FlaskClient:
    """A pool that somebody fills, and for which somebody waits."""
    definition = {"name": "hive", "capacity": 2, "caps": {"project": 2}, "description": HOSTILE}
    ok(api.post(f"{API}/token_pools", json={"token_pool": definition}))
    for token, wait in (("etl-1", 0), ("etl-2", 60)):
        place = {"project": PROJECT, "domain": DOMAIN}
        claim = {"token": token, "pools": {"hive": 2}, "wait_seconds": wait, "lease_seconds": 600, **place}
        ok(api.post(f"{API}/token_allocations", json={"claim": claim}))
    return api


def test_a_pool_shows_who_holds_and_who_waits_and_what_is_full(hive: FlaskClient) -> None:
    assert "2 2 full 1 project 2" in words_of(shown(hive, POOLS))
    page = words_of(shown(hive, f"{POOLS}/hive"))
    assert "2 of 2 held, 0 free" in page
    assert "etl-1 flytesnacks/development 2" in page
    assert "1 etl-2 flytesnacks/development 2 0" in page
    assert "Refused since the admin started" in page
    assert "flytesnacks" in words_of(shown(hive, f"{POOLS}/hive?project={PROJECT}&domain={DOMAIN}"))
    assert hive.get(f"{POOLS}/nothing").status_code == 404


def test_what_is_held_is_released_by_force_after_its_name_was_typed(hive: FlaskClient) -> None:
    path = f"{POOLS}/hive/release"
    page = f"{path}?token=etl-1"
    assert "Type etl-1 to confirm" in shown(hive, page)
    wrong = send(hive, path, page, token="etl-1", confirmation="hive")
    assert (wrong.status_code, "type etl-1 to confirm" in wrong.text) == (400, True)
    assert get(hive, "token_pools/hive")["used"] == 2
    done = send(hive, path, page, token="etl-1", confirmation="etl-1")
    assert (done.status_code, done.location) == (303, f"{POOLS}/hive")
    assert get(hive, "token_pools/hive")["used"] == 0
    assert hive.get(f"{path}?token=nobody").status_code == 409


def test_pools_are_shown_while_redis_does_not_answer(make_app: MakeApp) -> None:
    pytest.importorskip("redis")
    redis = {"hostPaths": [f"127.0.0.1:{free_port()}"]}
    api = make_app(resourcemanager={"type": "redis", "redis": redis}).test_client()
    ok(api.put(f"{API}/token_pools/hive", json={"token_pool": {"name": "hive", "capacity": 471}}))
    for page in (POOLS, f"{POOLS}/hive"):
        words = words_of(shown(api, page))
        assert "471" in words
        assert "Redis does not answer" in words


def test_that_everything_is_granted_is_no_error(make_app: MakeApp) -> None:
    api = make_app(resourcemanager={"type": "noop"}).test_client()
    ok(api.put(f"{API}/token_pools/hive", json={"token_pool": {"name": "hive", "capacity": 471}}))
    assert '<span class="muted">resourcemanager.type is noop: everything is granted' in shown(api, POOLS)
    assert '<p class="notice">resourcemanager.type is noop: everything is granted' in shown(api, f"{POOLS}/hive")


def test_viewers_see_the_pool_and_release_nothing(app: Flask, hive: FlaskClient) -> None:
    made_user(app)
    viewer, _ = signed_in(app, made_user(app, "eve", role="viewer"))
    assert "Release…" not in shown(viewer, f"{POOLS}/hive")
    assert viewer.get(f"{POOLS}/hive/release?token=etl-1").status_code == 403
