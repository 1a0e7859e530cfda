"""What comes too often is refused for a while: wrong tokens, requests, creations; on SQLite and on PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from admin.configuration import load_settings
from admin.core.settings.scopes import Scope
from admin.errors import TooManyRequests
from admin.services.rates import RateLimiter
from admin.shared_values import memory_file
from admin.store.cache.shared_rates import SharedRates
from admin.store.token_lookups import LOOKUP_SECONDS, TokenLookups
from tests.conftest import MakeApp
from tests.support.apps import context_of
from tests.support.people import Person, made_user
from tests.support.placing import API, DOMAIN, JOB, PROJECT, asked, ok, refused
from tests.support.statements import statements

MOST = 5
LIMITS = {"wrongTokensPerMinute": MOST}


def wrong(app: Flask, number: int) -> Person:
    return Person(app.test_client(), f"rbu-{number:08x}-wrong")


class Pauses:
    """A clock that goes on while somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0
        self.count = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.count += 1


def test_who_sends_wrong_tokens_waits_for_each_lookup_and_keeps_nobody_out(make_app: MakeApp) -> None:
    """The right tokens come from the same address, and this worker has never seen them."""
    app, elsewhere = make_app(limits=LIMITS), make_app()
    time = Pauses()
    lookups = TokenLookups(lambda: time.now, time.sleep)
    context = app.extensions["rainbow"] = replace(context_of(app), token_lookups=lookups)
    ada, bea = made_user(elsewhere), made_user(elsewhere, "bea")
    for number in range(MOST):
        refused(wrong(app, number).call("GET", "whoami"), 401, "unauthenticated")
    context.user_presence.is_any(context.database)
    for number in range(40):
        answer = wrong(app, 1000 + number).call("GET", "whoami")
        refused(answer, 429, "too_many_attempts")
        assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert time.now - 100.0 == pytest.approx(39 * LOOKUP_SECONDS)
    with statements(context) as sent:
        for _ in range(20):
            refused(wrong(app, 1039).call("GET", "whoami"), 429, "too_many_attempts")
    assert not [statement for statement in sent if "hash" in statement]
    for person, name in ((ada, "ada"), (bea, "bea")):
        here = Person(app.test_client(), person.headers["Authorization"].split()[1])
        assert [here.get("whoami")["user"] for _ in range(2)] == [name, name]
    new = Person(app.test_client(), made_user(elsewhere, "eve").headers["Authorization"].split()[1])
    assert new.get("whoami")["user"] == "eve"
    here.do("DELETE", "users/eve")
    refused(new.call("GET", "whoami"), 429, "too_many_attempts")
    metrics = here.client.get("/metrics", headers=here.headers).get_data(as_text=True)
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


def limiter(now: list[float], shared: SharedRates | None = None, **limits: Any) -> RateLimiter:
    return RateLimiter(load_settings(overrides={"limits": limits}).limits, shared or SharedRates(), lambda: now[0])


def test_a_seconds_worth_may_come_at_once_and_the_rest_when_it_is_due() -> None:
    now = [1000.0]
    rates = limiter(now, user={"requestsPerSecond": 4})
    for _ in range(4):
        rates.count_request("ada", None)
    with pytest.raises(
        TooManyRequests, match=r"'ada' makes more than 4 requests.*limits\.user\.requestsPerSecond"
    ) as no:
        rates.count_request("ada", None)
    assert no.value.retry_after == 1
    rates.count_request("bea", None)
    now[0] += 0.25
    rates.count_request("ada", None)
    with pytest.raises(TooManyRequests):
        rates.count_request("ada", None)
    now[0] += 10
    for _ in range(4):
        rates.count_request("ada", None)


def test_many_creations_are_taken_whole_and_what_follows_waits_for_them() -> None:
    now = [1000.0]
    rates = limiter(now, user={"creationsPerSecond": 10}, project={"creationsPerSecond": 5})
    rates.count_creations("ada", ["p"] * 100)
    with pytest.raises(TooManyRequests, match="The user 'ada' makes more than 10 creations") as no:
        rates.count_creations("ada", ["q"])
    assert no.value.retry_after == 10  # 100 at 10 a second, and a second's worth may come early
    with pytest.raises(TooManyRequests, match=r"The project 'p'.*limits\.project\.creationsPerSecond") as no:
        rates.count_creations("bea", ["q", "p"])
    assert no.value.retry_after == 20
    rates.count_creations("bea", ["q"] * 5)  # what was refused was not counted
    now[0] += 20
    rates.count_creations("ada", ["p"])


def test_workers_count_together() -> None:
    now, file = [1000.0], memory_file("rates")
    here, there = (limiter(now, SharedRates(file), user={"requestsPerSecond": 2}) for _ in range(2))
    here.count_request("ada", None)
    there.count_request("ada", None)
    for rates in (here, there):
        with pytest.raises(TooManyRequests):
            rates.count_request("ada", None)


def test_any_number_of_users_takes_the_same_memory_and_each_has_its_own_rate() -> None:
    now = [1000.0]
    rates = limiter(now, user={"requestsPerSecond": 1})
    for turn in range(3):
        for number in range(10_000):
            rates.count_request(f"user-{turn}-{number}", None)
        now[0] += 2


def test_without_limits_nothing_is_refused(make_app: MakeApp) -> None:
    app = make_app()
    assert context_of(app).rate_limiter.limits_requests is False
    assert {app.test_client().get(f"{API}/projects").status_code for _ in range(300)} == {200}


def test_requests_are_limited_by_user_and_probes_and_agents_are_not(make_app: MakeApp) -> None:
    app = make_app(limits={"user": {"requestsPerSecond": 2}})
    now = frozen(app)
    ada, bea = made_user(app), made_user(app, "bea")
    paths = ["whoami", "effective_attributes?domain=staging", "nowhere"]
    answers = [ada.call("GET", path) for path in paths]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    refused(answers[-1], 429, "too_many_requests")
    assert answers[-1].headers["Retry-After"] == "1"
    assert bea.get("whoami")["user"] == "bea"
    assert {app.test_client().get("/healthz").status_code for _ in range(5)} == {200}
    refused(Person(app.test_client(), None).call("GET", "whoami"), 401, "unauthenticated")
    now[0] += 0.5
    assert ada.get("whoami")["user"] == "ada"
    metrics = ada.client.get("/metrics", headers=ada.headers).get_data(as_text=True)
    assert 'rainbow_limited_total{limit="user_requests"}' in metrics


def test_what_is_done_as_somebody_counts_for_who_does_it(make_app: MakeApp) -> None:
    app = make_app(limits={"user": {"requestsPerSecond": 2, "creationsPerSecond": 1}})
    frozen(app)
    ada, bea = made_user(app), made_user(app, "bea")
    body = {"project": PROJECT, "domain": DOMAIN, "spec": {"job": JOB}}
    created = [ada.call("POST", "executions", body, **{"Rainbow-As": "bea"}) for _ in range(2)]
    assert "user 'ada' makes more than 1 creations" in refused(created[1], 429, "too_many_requests")["message"]
    refused(ada.call("GET", "whoami"), 429, "too_many_requests")
    ok(bea.call("POST", "executions", body))


def test_requests_are_limited_by_the_project_that_they_name(make_app: MakeApp) -> None:
    app = make_app(limits={"project": {"requestsPerSecond": 3}})
    frozen(app)
    nobody = Person(app.test_client(), None)
    ask = f"effective_attributes?project={PROJECT}&domain=staging"
    paths = [ask, f"executions/{PROJECT}/staging", f"project_attributes/{PROJECT}?resource_type=3", ask]
    assert [nobody.call("GET", path).status_code for path in paths] == [200, 200, 404, 429]
    assert nobody.call("GET", "effective_attributes?project=flyteexamples&domain=staging").status_code == 200
    assert nobody.call("GET", "projects").status_code == 200


def test_creations_are_limited_whole_and_dry_runs_are_not(make_app: MakeApp) -> None:
    app = make_app(limits={"user": {"creationsPerSecond": 2}})
    frozen(app)
    nobody = Person(app.test_client(), None)
    nobody.do("POST", "executions", asked("e1"))
    for name in ("e7", "e8", "e9"):
        nobody.do("POST", "executions?dry_run=true", asked(name))
    nobody.do("POST", "executions", asked("e2"))
    refused(nobody.call("POST", "executions", asked("e3")), 429, "too_many_requests")
    many = [asked(name) for name in ("e4", "e5")]
    refused(nobody.call("POST", "executions", {"executions": many}), 429, "too_many_requests")
    assert sorted(execution["id"]["name"] for execution in nobody.get("executions")["executions"]) == ["e1", "e2"]


def test_who_may_not_know_of_a_project_takes_nothing_of_its_rate_and_learns_nothing_from_it(make_app: MakeApp) -> None:
    app = make_app(limits={"project": {"requestsPerSecond": 3, "creationsPerSecond": 2}})
    frozen(app)
    admin = made_user(app)
    stranger = made_user(app, "eve", role="submitter", scope=Scope(project="flyteexamples"))

    def ask(person: Person, project: str) -> TestResponse:
        answer: TestResponse = person.call("GET", f"executions/{project}/{DOMAIN}")
        return answer

    def create(person: Person, *projects: str) -> TestResponse:
        many = [asked(f"e{number}", project=project) for number, project in enumerate(projects)]
        answer: TestResponse = person.call("POST", "executions", {"executions": many})
        return answer

    for _ in range(5):
        refused(ask(stranger, PROJECT), 400, "unknown_project")
        assert create(stranger, *[PROJECT] * 50).status_code == 200
    assert [ask(admin, PROJECT).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert [create(admin, PROJECT).status_code for _ in range(3)] == [200, 200, 429]
    refused(ask(stranger, PROJECT), 400, "unknown_project")
    [result] = ok(create(stranger, PROJECT))["results"]
    assert result["error"]["error"] == "unknown_project"


def frozen(app: Flask) -> list[float]:
    """The time by which an admin counts requests and creations, which stands still."""
    now = [1000.0]
    context_of(app).rate_limiter._monotonic = lambda: now[0]
    return now
