"""Token pools over HTTP: as a noun that revisions change, and claims on their tokens; on both databases."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.core.grants import Grant, Grantee
from admin.core.settings.scopes import Scope
from admin.services import grants, user_tokens, users
from admin.services.changeable.base import ChangeOptions
from tests.conftest import MakeApp
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, ok, refused
from tests.support.ports import free_port

HIVE = {"name": "hive", "capacity": 2, "caps": {"execution": 1}, "description": "Connections."}


def define(api: FlaskClient, **changes: Any) -> dict[str, Any]:
    pool = {**HIVE, **changes}
    return dict(ok(api.put(f"{API}/token_pools/{pool['name']}", json={"token_pool": pool, "message": "Why not."})))


def claim(token: str, **fields: Any) -> dict[str, Any]:
    return {"token": token, "pools": {"hive": 1}, "project": PROJECT, "domain": DOMAIN, **fields}


def allocate(api: FlaskClient, token: str, **fields: Any) -> dict[str, Any]:
    return dict(ok(api.post(f"{API}/token_allocations", json={"claim": claim(token, **fields)})))


def test_a_pool_is_created_changed_listed_and_deleted(api: FlaskClient) -> None:
    created = ok(api.post(f"{API}/token_pools", json={"token_pool": HIVE}))
    assert (created["token_pool"]["capacity"], created["token_pool"]["used"]) == (2, 0)
    assert refused(api.post(f"{API}/token_pools", json={"token_pool": HIVE}), 409, "already_exists")
    changed = define(api, capacity=5)
    assert changed["version"] > created["version"]
    pools = ok(api.get(f"{API}/token_pools"))["token_pools"]
    assert [(pool["name"], pool["capacity"], pool["free"], pool["caps"]) for pool in pools] == [
        ("hive", 5, 5, {"execution": 1})
    ]
    stale = {"If-Match": f'"{created["version"]}"'}
    refused(api.put(f"{API}/token_pools/hive", json={"token_pool": HIVE}, headers=stale), 409, "version_conflict")
    assert ok(api.delete(f"{API}/token_pools/hive"))["changed"]
    gone = refused(api.get(f"{API}/token_pools/hive"), 404, "token_pool_not_found")
    assert "was deleted by" in gone["message"]


def test_pools_are_planned_applied_rolled_back_and_have_a_history(api: FlaskClient) -> None:
    document = {"changes": [{"token_pool_definition": HIVE}]}
    plan = ok(api.post(f"{API}/attribute_changes?dry_run=true", json=document))
    assert (plan["dry_run"], plan["changed"]) == (True, True)
    refused(api.get(f"{API}/token_pools/hive"), 404, "token_pool_not_found")
    first = ok(api.post(f"{API}/attribute_changes", json=document))["revision"]
    define(api, capacity=9)
    rows = ok(api.get(f"{API}/revisions?resource_type=token_pool"))["revisions"]
    assert len(rows) == 2
    ok(api.post(f"{API}/rollbacks", json={"revision": first + 1}))
    assert ok(api.get(f"{API}/token_pools/hive"))["capacity"] == 2


def test_a_cap_that_never_binds_is_a_warning_for_as_long_as_that_is_so(api: FlaskClient) -> None:
    pool = {**HIVE, "caps": {"project": 9, "namespace": 12}}
    created = ok(api.post(f"{API}/token_pools", json={"token_pool": pool}))
    for warnings in (created["warnings"], ok(api.get(f"{API}/warnings"))["warnings"]):
        assert [(warning["code"], warning["field"]) for warning in warnings] == [
            ("loose_cap", "caps.project"),
            ("loose_cap", "caps.namespace"),
        ]
        assert warnings[0]["message"] == "A cap of 9 for each project never binds: capacity is 2."
    assert define(api)["warnings"] == []
    assert ok(api.get(f"{API}/warnings"))["warnings"] == []


def test_bad_definitions_are_refused_by_field(api: FlaskClient) -> None:
    path = f"{API}/token_pools"
    refused(api.post(path, json={"token_pool": {**HIVE, "capacity": -1}}), 400, "invalid_request", "capacity")
    refused(api.post(path, json={"token_pool": {**HIVE, "name": "x" * 300}}), 400, "invalid_request", "name")
    caps = {**HIVE, "caps": {"project": -1}}
    refused(api.post(path, json={"token_pool": caps}), 400, "invalid_request", "caps.project")
    assert ok(api.get(path))["token_pools"] == []


def test_tokens_are_granted_renewed_and_released(api: FlaskClient) -> None:
    define(api)
    first = allocate(api, "a", execution="run1")
    assert (first["status"], first["pools"], first["number"]) == ("granted", {"hive": 1}, 1)
    assert allocate(api, "a", execution="run1") == {**first, "status": "already_held"}
    full = allocate(api, "b", execution="run1", wait_seconds=30)
    [limit] = full["full"]
    assert (full["status"], full["place"], limit["level"], limit["cap"]) == ("exhausted", 1, "execution", 1)
    assert [(holder["token"], holder["execution"]) for holder in limit["holders"]] == [("a", "run1")]
    pool = ok(api.get(f"{API}/token_pools/hive"))
    assert (pool["used"], pool["free"], pool["waiting"]) == (1, 1, 1)
    assert [holder["token"] for holder in pool["holders"]] == ["a"]
    assert [(waiter["place"], waiter["token"]) for waiter in pool["waiters"]] == [(1, "b")]
    holding = {**claim("a"), "number": first["number"]}
    renewed = ok(api.post(f"{API}/token_renewals", json={"renewal": holding}))
    assert renewed["expires_at"] > first["expires_at"]
    assert renewed["lease_seconds"] == first["lease_seconds"] == 60
    assert ok(api.post(f"{API}/token_releases", json={"release": holding}))["pools"] == {"hive": 1}
    assert ok(api.post(f"{API}/token_releases", json={"release": claim("b")}))["pools"] == {}
    assert ok(api.get(f"{API}/token_pools/hive"))["used"] == 0


def test_what_cannot_be_is_refused_and_changes_nothing(api: FlaskClient) -> None:
    define(api, caps={"project": 1})

    def asked(status: int, error: str, field: str | None = None, **fields: Any) -> dict[str, Any]:
        return refused(api.post(f"{API}/token_allocations", json={"claim": claim("x", **fields)}), status, error, field)

    never = asked(400, "invalid_request", "claim.pools.hive", pools={"hive": 2})
    assert "can never fit: the most is 1, by the caps of token pool 'hive' (project). Ask for" in never["message"]
    asked(400, "invalid_request", "claim.pools.hive", pools={"hive": -1})
    asked(400, "invalid_request", "claim.pools.hive", pools={"hive": 0.5})
    unknown = asked(404, "token_pool_not_found", "claim.pools.hvie", pools={"hive": 1, "hvie": 1})
    assert "Did you mean 'hive'?" in unknown["message"]
    asked(400, "unknown_project", "claim.project", project="nowhere")
    asked(400, "unknown_domain", "claim.domain", domain="nowhere")
    holding = {**claim("x"), "number": 1}
    refused(api.post(f"{API}/token_renewals", json={"renewal": holding}), 409, "tokens_not_held")
    refused(api.post(f"{API}/token_releases", json={"release": holding}), 409, "tokens_not_held")
    assert allocate(api, "x")["status"] == "granted"
    old = refused(api.post(f"{API}/token_renewals", json={"renewal": {**holding, "number": 7}}), 409, "tokens_not_held")
    assert "by the number 1 now; the one that was given is old" in old["message"]
    more = {**holding, "number": 1, "pools": {"hive": 2}}
    wrong = refused(api.post(f"{API}/token_renewals", json={"renewal": more}), 400, "invalid_request")
    assert wrong["message"] == "renewal.pools.hive: 2 is not what is held: renew all 1."
    elsewhere = {"token": "x", "pools": {"hive": 1}, "number": 1}
    unheld = refused(api.post(f"{API}/token_releases", json={"release": elsewhere}), 409, "tokens_not_held")
    assert "holds nothing of hive without a project" in unheld["message"]
    again = {"claim": claim("x", domain="staging")}
    refused(api.post(f"{API}/token_allocations", json=again), 409, "token_conflict")
    refused(api.delete(f"{API}/token_pools/hive"), 409, "in_use")
    assert ok(api.get(f"{API}/token_pools/hive"))["used"] == 1
    ok(api.delete(f"{API}/token_pools/hive?force=true"))
    assert ok(api.post(f"{API}/token_releases", json={"release": {**holding}}))["pools"] == {"hive": 1}


def test_a_bound_that_is_lowered_under_use_is_warned_of(api: FlaskClient) -> None:
    define(api, capacity=5)
    for token in ("a", "b", "c"):
        allocate(api, token)
    assert define(api, capacity=5, caps={"project": 4})["warnings"] == []
    lowered = define(api, capacity=2, caps={"project": 1})
    assert [(warning["code"], warning["field"]) for warning in lowered["warnings"]] == [
        ("quota_full", "capacity"),
        ("quota_full", "caps.project"),
    ]
    assert "3 of 2 tokens of pool 'hive' are held already" in lowered["warnings"][0]["message"]
    assert define(api, capacity=2, caps={"project": 1}, description="Half of them.")["warnings"] == []
    assert (lowered["token_pool"]["used"], allocate(api, "d")["status"]) == (3, "exhausted")


@pytest.mark.slow
def test_while_redis_does_not_answer_nothing_is_granted_or_deleted(make_app: MakeApp) -> None:
    pytest.importorskip("redis")
    address = f"127.0.0.1:{free_port()}"
    api = make_app(resourcemanager={"type": "redis", "redis": {"hostPaths": [address]}}).test_client()
    plan = ok(api.put(f"{API}/token_pools/hive?dry_run=true", json={"token_pool": HIVE}))
    assert plan["changed"]
    ok(api.post(f"{API}/attribute_changes", json={"changes": [{"token_pool_definition": HIVE}]}))
    answer = api.post(f"{API}/token_allocations", json={"claim": claim("a")})
    assert "Redis does not answer" in refused(answer, 503, "tokens_unreachable")["message"]
    for pool in (ok(api.get(f"{API}/token_pools/hive")), *ok(api.get(f"{API}/token_pools"))["token_pools"]):
        assert (pool["capacity"], "used" in pool, "holders" in pool) == (HIVE["capacity"], False, False)
        assert "Redis does not answer" in pool["reason"]
    assert define(api, capacity=7)["token_pool"]["capacity"] == 7
    refused(api.get(f"{API}/token_pools/hive/explanation"), 503, "tokens_unreachable")
    refused(api.delete(f"{API}/token_pools/hive"), 503, "tokens_unreachable")


def test_an_explanation_names_what_is_full_and_what_set_it(api: FlaskClient) -> None:
    version = define(api, capacity=1, caps={"namespace": 1})["version"]
    allocate(api, "a", execution="run1")
    answer = ok(api.get(f"{API}/token_pools/hive/explanation"))
    assert answer["summary"].startswith("Full: 1 of 1 tokens are held, by the capacity of token pool 'hive'")
    assert [(limit["level"], limit["full"], limit["version"]) for limit in answer["limits"]] == [
        ("pool", True, version),
        ("namespace", True, version),
    ]
    made_by = answer["limits"][0]["provenance"]
    assert (made_by["revision"], made_by["message"], "at" in made_by) == (version, "Why not.", True)
    elsewhere = ok(api.get(f"{API}/token_pools/hive/explanation?project={PROJECT}&domain=staging&execution=x"))
    assert [(limit["level"], limit.get("domain"), limit["used"]) for limit in elsewhere["limits"]] == [
        ("pool", None, 1),
        ("namespace", "staging", 0),
    ]
    refused(api.get(f"{API}/token_pools/hive/explanation?project=nosuch"), 400, "unknown_project")
    refused(api.get(f"{API}/token_pools/spark/explanation"), 404, "token_pool_not_found")


def test_grants_refusals_and_usage_are_counted(api: FlaskClient) -> None:
    name = f"counted-{secrets.token_hex(4)}"  # all tests of a process count together
    define(api, capacity=1, name=name)
    for token in ("a", "b", "c"):
        ok(api.post(f"{API}/token_allocations", json={"claim": {**claim(token), "pools": {name: 1}}}))
    pool = ok(api.get(f"{API}/token_pools/{name}"))
    assert pool["refusals"] == {"pool": 2}
    text = api.get("/metrics").text
    for line in (
        f'rainbow_token_grants_total{{pool="{name}"}} 1.0',
        f'rainbow_token_refusals_total{{level="pool",pool="{name}"}} 2.0',
        f'rainbow_token_pool_capacity{{pool="{name}"}} 1.0',
        f'rainbow_token_pool_used{{pool="{name}"}} 1.0',
        f'rainbow_token_pool_waiting{{pool="{name}"}} 0.0',
    ):
        assert line in text


def test_a_capacity_above_the_most_that_is_allowed_is_refused_unless_it_is_there_already(make_app: MakeApp) -> None:
    api = make_app(resourcemanager={"resourceMaxQuota": 10}).test_client()
    answer = refused(
        api.post(f"{API}/token_pools", json={"token_pool": {**HIVE, "capacity": 11}}), 400, "invalid_request"
    )
    assert "11 is more than 10, which resourcemanager.resourceMaxQuota" in answer["message"]
    define(api, capacity=10)
    refused(api.put(f"{API}/token_pools/hive", json={"token_pool": {**HIVE, "capacity": 11}}), 400, "invalid_request")
    document = {"changes": [{"token_pool_definition": {**HIVE, "capacity": 99}}]}
    refused(api.post(f"{API}/attribute_changes", json=document), 400, "invalid_request")
    assert ok(api.get(f"{API}/token_pools/hive"))["capacity"] == 10


def test_an_explanation_tells_nothing_of_scopes_that_are_hidden(make_app: MakeApp) -> None:
    app = make_app()
    api, context, options = app.test_client(), context_of(app), ChangeOptions()
    define(api, capacity=5, caps={"project": 1, "execution": 1})
    allocate(api, "own")
    allocate(api, "other", project="flyteexamples", execution="secret-run")
    grant = Grant(role="viewer", grantee=Grantee("user", "bea"), scope=Scope(project=PROJECT))
    grants.create_grant(context, grant, options)
    users.create_user(context, "bea", {}, options)
    bea = app.test_client()
    bea.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {user_tokens.create_token(context, 'bea', 'laptop').token}"
    answer = bea.get(f"{API}/token_pools/hive/explanation")
    assert [(limit["level"], limit.get("project"), limit["used"]) for limit in ok(answer)["limits"]] == [
        ("project", PROJECT, 1),
        ("pool", None, 2),
    ]
    for text in (answer.text, bea.get(f"{API}/token_pools/hive").text):
        assert "flyteexamples" not in text
        assert "secret-run" not in text
    refused(bea.get(f"{API}/token_pools/hive/explanation?project=flyteexamples"), 400, "unknown_project")
