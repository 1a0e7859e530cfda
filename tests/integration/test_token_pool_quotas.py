"""Quotas of token pools as settings: written, resolved, explained and refused by; on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MakeApp
from tests.integration.test_token_pools import allocate, claim, define
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, put_attribute, refused

SLOW_ON = ("postgresql",)

SCOPES: dict[str, dict[str, str]] = {
    "domain": {"domain": DOMAIN},
    "project": {"project": PROJECT},
    "project-domain": {"project": PROJECT, "domain": DOMAIN},
}


def quota(api: FlaskClient, level: str, **payload: Any) -> Any:
    return put_attribute(api, level, "token_pool_quota", payload, **SCOPES[level])


def effective(api: FlaskClient) -> Any:
    query = f"project={PROJECT}&domain={DOMAIN}&resource_type=8&provenance=true"
    [value] = get(api, f"effective_attributes?{query}")["values"]
    return value


def test_every_row_holds_and_the_tightest_is_the_value(api: FlaskClient) -> None:
    define(api, capacity=9)
    quota(api, "domain", pools={"hive": 3}, weight=2)
    quota(api, "project", pools={"hive": 9})
    quota(api, "project-domain", pools={"hive": 5}, weight=4)
    value = effective(api)
    assert value["value"] == {"pools": {"hive": 3}, "weight": 4}
    assert value["origins"]["pools.hive"]["level"] == "domain"
    assert value["origins"]["weight"]["level"] == "project-domain"
    steps = {step["level"]: (step["state"], step.get("used"), step.get("overridden")) for step in value["trail"]}
    assert steps["project"] == ("set", ["pools.hive"], [])
    assert steps["domain"] == ("set", ["pools.hive"], ["weight"])
    # The same from memory, past Flask.
    [plain] = get(api, f"effective_attributes?project={PROJECT}&domain={DOMAIN}&resource_type=8")["values"]
    assert (plain["value"], plain["trail"]) == (value["value"], plain["trail"])
    reasons = get(api, "matchable_attributes/no_effect?resource_type=8")["warnings"]
    assert [(reason["code"], reason["fields"]) for reason in reasons] == [("tighter_above", ["pools.hive"])]


def test_a_refusal_names_the_row_and_who_set_it(api: FlaskClient) -> None:
    define(api, capacity=10, caps={})
    row = quota(api, "project", pools={"hive": 1})
    allocate(api, "first")
    full = allocate(api, "second")["full"]
    assert [(entry["level"], entry["cap"], entry["used"]) for entry in full] == [("project", 1, 1)]
    assert full[0]["origin"].startswith(f"TOKEN_POOL_QUOTA at project {PROJECT} (revision {row['revision']}, ")
    body = {"claim": claim("third", pools={"hive": 2})}
    answer = refused(api.post(f"{API}/token_allocations", json=body), 400, "invalid_request", "claim.pools.hive")
    assert f"by TOKEN_POOL_QUOTA at project {PROJECT} (revision {row['revision']}, " in answer["message"]
    quota(api, "project", pools={"hive": 2})
    assert allocate(api, "second")["status"] == "granted"


def test_an_unknown_pool_is_warned_of_and_has_no_effect(api: FlaskClient) -> None:
    define(api)
    [warning] = quota(api, "project", pools={"hivee": 3, "hive": 1})["warnings"]
    assert (warning["code"], warning["field"], warning["closest"]) == ("unknown_token_pool", "pools.hivee", ["hive"])
    assert "it bounds nothing" in warning["message"]
    [reason] = get(api, "matchable_attributes/no_effect?resource_type=8")["warnings"]
    assert (reason["code"], reason["fields"]) == ("unknown_token_pool", ["pools.hivee"])
    listed = get(api, "warnings")["warnings"]
    assert "unknown_token_pool" in [entry["code"] for entry in listed]
    define(api, name="hivee", capacity=4)
    assert get(api, "matchable_attributes/no_effect?resource_type=8")["warnings"] == []
    assert quota(api, "project", pools={"hivee": 4, "hive": 1})["warnings"] == []


def test_a_quota_below_what_is_held_is_warned_of(api: FlaskClient) -> None:
    define(api, capacity=9, caps={})
    for token in ("a", "b"):
        allocate(api, token)
    body = {"attributes": {"matching_attributes": {"token_pool_quota": {"pools": {"hive": 1}}}}}
    for query in ("?dry_run=true", ""):
        [warning] = ok(api.put(f"{API}/project_attributes/{PROJECT}{query}", json=body))["warnings"]
        assert (warning["code"], warning["field"]) == ("quota_full", "pools.hive")
        assert f"2 of 1 tokens of pool 'hive' are held at project {PROJECT} already" in warning["message"]
    assert allocate(api, "c")["full"][0]["level"] == "project"
    assert quota(api, "domain", pools={"hive": 3})["warnings"] == []


def test_a_quota_above_what_bounds_the_pool_is_warned_of_as_long_as_it_never_binds(api: FlaskClient) -> None:
    define(api, capacity=9, caps={"project": 5, "namespace": 2})
    body = {"attributes": {"matching_attributes": {"token_pool_quota": {"pools": {"hive": 6}}}}}
    for query in ("?dry_run=true", ""):
        [warning] = ok(api.put(f"{API}/project_attributes/{PROJECT}{query}", json=body))["warnings"]
        assert (warning["code"], warning["field"]) == ("loose_cap", "pools.hive")
        assert warning["message"] == "A quota of 6 never binds: caps.project of token pool 'hive' is 5."
    [listed] = get(api, "warnings")["warnings"]
    assert (listed["code"], listed["message"]) == ("loose_cap", warning["message"])
    [reason] = get(api, "matchable_attributes/no_effect?resource_type=8")["warnings"]
    assert (reason["code"], reason["fields"]) == ("loose_cap", ["pools.hive"])
    # A row is bound by its own level and the broader ones alone, and a change is checked against itself.
    assert quota(api, "domain", pools={"hive": 9})["warnings"] == []
    [warning] = quota(api, "domain", pools={"hive": 10})["warnings"]
    assert warning["message"] == "A quota of 10 never binds: capacity of token pool 'hive' is 9."
    pool = {"token_pool_definition": {"name": "hive", "capacity": 20}}
    row = {"resource_type": "TOKEN_POOL_QUOTA", "project": PROJECT, "payload": {"pools": {"hive": 11}}}
    for query in ("?dry_run=true", ""):
        assert ok(api.post(f"{API}/attribute_changes{query}", json={"changes": [row, pool]}))["warnings"] == []


def test_nothing_of_pools_and_quotas_has_an_effect_where_the_resource_manager_is_off(make_app: MakeApp) -> None:
    api = make_app(resourcemanager={"type": "noop"}).test_client()
    off = "resourcemanager.type is noop: everything is granted, and nothing of it is kept."
    for written, field in ((define(api), None), (quota(api, "project", pools={"hive": 1}, weight=2), "pools")):
        [warning] = written["warnings"]
        assert (warning["code"], warning["message"], warning.get("field") or None) == ("tokens_off", off, field)
    assert [entry["code"] for entry in get(api, "warnings")["warnings"]] == ["tokens_off", "tokens_off"]
    [reason] = get(api, "matchable_attributes/no_effect?resource_type=8")["warnings"]
    assert (reason["code"], sorted(reason["fields"])) == ("tokens_off", ["pools.hive", "weight"])
    assert allocate(api, "a", pools={"hive": 5})["status"] == "granted"
    assert (get(api, "token_pools/hive")["reason"], get(api, "token_pools/hive/explanation")["summary"]) == (off, off)


def test_a_pool_and_its_quota_may_be_one_change(api: FlaskClient) -> None:
    pool = {"token_pool_definition": {"name": "spark", "capacity": 3}}
    row = {"resource_type": "TOKEN_POOL_QUOTA", "project": PROJECT, "payload": {"pools": {"spark": 1}}}
    answer = ok(api.post(f"{API}/attribute_changes", json={"changes": [row, pool]}))
    assert answer["warnings"] == []


def test_unknown_names_may_be_refused(make_app: MakeApp) -> None:
    api = make_app(attributes={"unknownNames": "refuse"}).test_client()
    body = {"attributes": {"matching_attributes": {"token_pool_quota": {"pools": {"hive": 1}}}}}
    refused(api.put(f"{API}/project_attributes/{PROJECT}", json=body), 400, "invalid_request", "pools.hive")


@pytest.mark.parametrize(
    "payload", [{"pools": {"hive": -1}}, {"pools": {"hive": 10**100}}, {"pool": {}}, {"weight": 0}]
)
def test_bad_payloads_change_nothing(api: FlaskClient, payload: Any) -> None:
    body = {"attributes": {"matching_attributes": {"token_pool_quota": payload}}}
    refused(api.put(f"{API}/project_attributes/{PROJECT}", json=body), 400, "invalid_request")
    assert get(api, "matchable_attributes?resource_type=8")["configurations"] == []


def test_a_project_with_a_larger_weight_is_served_first(api: FlaskClient) -> None:
    """Both hold one; the share of the heavy one counts for less, so it is ahead though it asks later."""
    define(api, capacity=2, caps={})
    put_attribute(api, "project", "token_pool_quota", {"weight": 3}, project="flyteexamples")
    held = {"light": PROJECT, "heavy": "flyteexamples"}
    for token, project in held.items():
        assert allocate(api, token, project=project)["status"] == "granted"
    assert allocate(api, "light-2", project=PROJECT, wait_seconds=60)["place"] == 1
    assert allocate(api, "heavy-2", project="flyteexamples", wait_seconds=60)["place"] == 1
    assert allocate(api, "light-2", project=PROJECT, wait_seconds=60)["place"] == 2
