"""What comes too often is refused for a while: wrong tokens, on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

from flask import Flask

from admin.store.tokens import CACHE_SECONDS, LiveTokens
from tests.conftest import MakeApp
from tests.integration.test_users import Person, made_user
from tests.support.apps import context_of
from tests.support.placing import refused
from tests.support.statements import statements

MOST = 5
LIMITS = {"wrongTokensPerMinute": MOST}


def wrong(app: Flask, number: int) -> Person:
    return Person(app.test_client(), f"rbu-{number:08x}-wrong")


def test_who_sends_wrong_tokens_costs_a_query_a_second_and_keeps_nobody_out(make_app: MakeApp) -> None:
    """The right tokens come from the same address, and this worker has never seen them."""
    app, elsewhere = make_app(limits=LIMITS), make_app()
    now = [100.0]
    context = app.extensions["rainbow"] = replace(context_of(app), live_tokens=LiveTokens(lambda: now[0]))
    ada, bea = made_user(elsewhere), made_user(elsewhere, "bea")
    for number in range(MOST):
        refused(wrong(app, number).call("GET", "whoami"), 401, "unauthenticated")
    context.user_presence.is_any(context.database)
    with statements(context) as sent:
        for number in range(100):
            answer = wrong(app, 1000 + number).call("GET", "whoami")
            refused(answer, 429, "too_many_attempts")
            assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert len([statement for statement in sent if "hash" in statement]) <= 2  # of clusters, and of users
    for person, name in ((ada, "ada"), (bea, "bea")):
        here = Person(app.test_client(), person.headers["Authorization"].split()[1])
        assert [here.get("whoami")["user"] for _ in range(2)] == [name, name]
    new = Person(app.test_client(), made_user(elsewhere, "eve").headers["Authorization"].split()[1])
    refused(new.call("GET", "whoami"), 429, "too_many_attempts")
    now[0] += CACHE_SECONDS
    assert new.get("whoami")["user"] == "eve"
    here.do("DELETE", "users/eve")
    now[0] += CACHE_SECONDS
    refused(new.call("GET", "whoami"), 429, "too_many_attempts")
    metrics = app.test_client().get("/metrics").get_data(as_text=True)
    assert 'rainbow_limited_total{limit="wrong_tokens"}' in metrics


def test_other_addresses_are_not_affected(make_app: MakeApp) -> None:
    app = make_app(limits=LIMITS)
    made_user(app)
    statuses = [wrong(app, number).call("GET", "whoami").status_code for number in range(MOST + 1)]
    assert statuses == [401] * MOST + [429]
    client = app.test_client()
    answer = client.get(
        "/api/v1/whoami", headers={"Authorization": "Bearer rbu-0"}, environ_base={"REMOTE_ADDR": "192.0.2.7"}
    )
    refused(answer, 401, "unauthenticated")
