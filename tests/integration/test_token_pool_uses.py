"""Where a token pool is used, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MakeApp
from tests.support.people import made_user
from tests.support.placing import (
    API,
    JOB,
    PROJECT,
    create,
    created,
    get,
    ok,
    put_attribute,
    refused,
    register_plan,
    register_workflow,
)

SLOW_ON = ("postgresql",)

CONFIG = {"resourcemanager": {"taskTypes": {"hive": {"hive": 1}}}}


def put_token_pool(api: FlaskClient, name: str, capacity: int = 10) -> None:
    ok(api.put(f"{API}/token_pools/{name}", json={"token_pool": {"capacity": capacity}}))


@pytest.fixture
def asking(make_app: MakeApp) -> FlaskClient:
    """A pool with a quota, asked for by a task type, by jobs, by launch plans and by executions."""
    api = make_app(**CONFIG).test_client()
    put_token_pool(api, "hive")
    put_token_pool(api, "hive-2")
    put_attribute(api, "project-domain", "token_pool_quota", {"pools": {"hive": 5, "hive-2": 3}})
    put_attribute(api, "domain", "token_pool_quota", {"pools": {"hive-2": 7}})
    ok(register_workflow(api, "of-job", job={**JOB, "token_pools": {"hive": 2}}))
    ok(register_workflow(api, "of-type", job={**JOB, "task_type": "hive"}))
    ok(register_workflow(api, "of-none", job={**JOB, "token_pools": {"hive-2": 2}}))
    ok(register_plan(api, "by-job", "of-job"))
    ok(register_plan(api, "by-type", "of-type"))
    ok(register_plan(api, "by-plan", "of-none", token_pools={"hive": 3}))
    ok(register_plan(api, "taken-back", "of-job", token_pools={"hive": 0}))
    ok(register_plan(api, "inactive", "of-job", state="INACTIVE"))
    ok(register_plan(api, "other", "of-none"))
    return api


def test_a_definition_that_can_get_no_tokens_is_stored_with_a_warning(asking: FlaskClient) -> None:
    def warnings(answer: Any) -> list[tuple[str, str]]:
        return [(warning["code"], warning["message"]) for warning in ok(answer).get("warnings", [])]

    until = "Until then executions that need it are refused."
    unknown = "There is no token pool 'hiv'. Did you mean 'hive' or 'hive-2'? Define it, or ask for another."
    [warning] = warnings(register_workflow(asking, "unknown", job={**JOB, "token_pools": {"hiv": 1, "hive": 1}}))
    assert warning == ("unknown_token_pool", f"token_pools.hiv: {unknown} {until}")
    [(code, message)] = warnings(register_plan(asking, "too-many", "of-none", token_pools={"hive": 6}))
    assert code == "tokens_never_fit"
    assert message.startswith("token_pools.hive: 6 can never fit: the most is 5, by TOKEN_POOL_QUOTA at")
    assert warnings(register_plan(asking, "none", "unknown", token_pools={"hiv": 0})) == []


def used(api: FlaskClient, name: str = "hive") -> Any:
    return get(api, f"uses?token_pool={name}&reach=true")


def asked(answer: Any) -> dict[str, tuple[int, str | None, str | None, bool]]:
    """The amount, key, version of the workflow and refusal of each request, by the name of what asks."""
    return {
        request.get("launch_plan") or request.get("workflow") or request["level"]: (
            request["amount"],
            request.get("key"),
            request.get("workflow_version"),
            request["refused"],
        )
        for request in answer["token_requests"]["requests"]
    }


def test_quotas_definitions_task_types_and_executions(asking: FlaskClient) -> None:
    created(asking, "by-request", token_pools={"hive": 1})
    created(asking, "of-plan", launch_plan={"name": "by-plan"})
    created(asking, "of-other", token_pools={"hive-2": 1})
    created(asking, "freed", launch_plan={"name": "taken-back"})
    answer = used(asking)
    assert [(use["level"], use["resource_type"], use["fields"]) for use in answer["uses"]] == [
        ("project-domain", "TOKEN_POOL_QUOTA", {"pools.hive": 5})
    ]
    assert answer["reach"]["scopes"] == len(answer["scopes"]) > 1
    key = "resourcemanager.taskTypes.hive.hive"
    assert asked(answer) == {
        "platform": (1, key, None, False),
        "by-job": (2, None, "v1", True),
        "by-plan": (3, None, None, True),
        "by-type": (1, key, None, True),
        "taken-back": (0, None, None, False),
        "of-job": (2, None, None, True),
        "of-type": (1, key, None, True),
    }
    counts = {key: answer["token_requests"][key] for key in ("launch_plans", "workflows", "refused", "complete")}
    assert counts == {"launch_plans": 4, "workflows": 2, "refused": 5, "complete": True}
    names = [entry["id"]["name"] for entry in answer["executions"]["executions"]]
    assert (names, answer["executions"]["phases"]) == (["of-plan", "by-request"], {"QUEUED": 2})
    assert answer["known"] is True


def test_what_is_said_to_be_refused_is_and_nothing_else(asking: FlaskClient) -> None:
    requests = asked(used(asking))
    ok(asking.delete(f"{API}/token_pools/hive?force=true"))
    answer = used(asking)
    assert (answer["known"], answer["closest"]) == (False, ["hive-2"])
    assert answer["deleted_by"]["author"] == "anonymous"
    assert asked(answer) == requests
    for plan in ("by-job", "by-plan", "by-type", "taken-back"):
        outcome = create(asking, f"run-{plan}", launch_plan={"name": plan})
        assert (outcome.status_code == 400) is requests[plan][-1], plan


def test_without_checks_nothing_is_refused_and_an_archived_project_misses_nothing(make_app: MakeApp) -> None:
    api = make_app(resourcemanager={"type": "noop"}).test_client()
    ok(register_workflow(api, "of-job", job={**JOB, "token_pools": {"hive": 2}}))
    answer = used(api)
    assert (answer["known"], asked(answer)) == (False, {"of-job": (2, None, None, False)})
    other = make_app().test_client()
    ok(register_workflow(other, "of-job", job={**JOB, "token_pools": {"hive": 2}}))
    assert used(other)["token_requests"]["refused"] == 1
    ok(other.patch(f"{API}/projects/{PROJECT}", json={"state": "ARCHIVED"}))
    assert used(other)["token_requests"]["refused"] == 0


def test_a_token_pool_is_asked_about_alone(asking: FlaskClient) -> None:
    refused(asking.get(f"{API}/uses?pool=a&token_pool=hive"), 400, "invalid_request", "token_pool")
    nothing = used(asking, "nobodys")
    assert (nothing["uses"], nothing["token_requests"]["requests"], nothing["executions"]["phases"]) == ([], [], {})


def test_a_pool_that_something_asks_for_is_deleted_with_force_alone(asking: FlaskClient) -> None:
    created(asking, "by-request", token_pools={"hive": 1})
    created(asking, "of-plan", launch_plan={"name": "by-plan"})
    problem = refused(asking.delete(f"{API}/token_pools/hive"), 409, "in_use")
    by_noun: dict[str, list[str]] = {}
    for detail in problem["details"]:
        by_noun.setdefault(detail["field"], []).append(detail["reason"])
    assert {noun: len(reasons) for noun, reasons in by_noun.items()} == {
        "attributes": 1,
        "configuration": 1,
        "launch_plans": 3,
        "workflows": 2,
        "executions": 1,
    }
    [configured], [executions] = by_noun["configuration"], by_noun["executions"]
    [quota] = by_noun["attributes"]
    assert quota.startswith(
        f"token pool 'hive': the quota at project-domain {PROJECT}/development bounds it (revision "
    )
    assert configured == "token pool 'hive': resourcemanager.taskTypes.hive.hive asks for 1 of it."
    first, second = (f"{PROJECT}/development/{name}" for name in ("of-plan", "by-request"))
    assert executions == f"token pool 'hive': 2 unfinished executions need its tokens: {first}, {second}."
    preview = ok(asking.delete(f"{API}/token_pools/hive?force=true&dry_run=true"))
    assert [user["reason"] for user in preview["users"]] == [detail["reason"] for detail in problem["details"]]
    put_token_pool(asking, "spare.2")
    put_attribute(asking, "domain", "token_pool_quota", {"pools": {"spare.2": 7}})
    [detail] = refused(asking.delete(f"{API}/token_pools/spare.2"), 409, "in_use")["details"]
    assert detail["reason"].startswith("token pool 'spare.2': the quota at domain development bounds it (revision ")
    together = [
        {"token_pool_definition": {"name": "spare.2"}, "delete": True},
        {"resource_type": "TOKEN_POOL_QUOTA", "domain": "development", "delete": True},
    ]
    ok(asking.post(f"{API}/attribute_changes", json={"changes": together}))
    put_token_pool(asking, "spare")
    ok(asking.delete(f"{API}/token_pools/spare"))


def test_more_quotas_than_are_named_are_counted(make_app: MakeApp) -> None:
    api = make_app().test_client()
    put_token_pool(api, "hive")
    places = [{"project": PROJECT, "domain": "development", "workflow": f"w{number:02}"} for number in range(24)]
    quotas = [{"resource_type": "TOKEN_POOL_QUOTA", **place, "payload": {"pools": {"hive": 5}}} for place in places]
    ok(api.post(f"{API}/attribute_changes", json={"changes": quotas}))
    removals = [
        {"token_pool_definition": {"name": "hive"}, "delete": True},
        *({"resource_type": "TOKEN_POOL_QUOTA", **place, "delete": True} for place in places[1:3]),
        {"resource_type": "TOKEN_POOL_QUOTA", "domain": "staging", "payload": {"pools": {"hive": 5}}},
    ]
    plan = ok(api.post(f"{API}/attribute_changes?force=true&dry_run=true", json={"changes": removals}))
    named = [user["reason"] for user in plan["users"]]
    assert [reason.split(" bounds it")[0].rpartition("/")[2] for reason in named[:3]] == ["w00", "w03", "w04"]
    assert (len(named), named[-1]) == (21, "token pool 'hive': 3 more quotas bound it.")


def test_holders_are_named_to_those_alone_who_may_see_them(make_app: MakeApp) -> None:
    app = make_app(roles={"pools": {"permissions": ["token_pools.read", "token_pools.write"]}})
    api = app.test_client()
    put_token_pool(api, "hive")
    created(api, "secret-run", token_pools={"hive": 1})
    claim = {"token": "secret-token", "pools": {"hive": 1}, "project": PROJECT, "domain": "development"}
    ok(api.post(f"{API}/token_allocations", json={"claim": claim}))
    ada, eve = made_user(app), made_user(app, "eve", role="pools")
    assert "'secret-token' holds 1 of it" in ada.call("DELETE", "token_pools/hive").text
    refusal = eve.call("DELETE", "token_pools/hive")
    assert "secret" not in refusal.text
    [holder, executions] = refused(refusal, 409, "in_use")["details"]
    assert holder["reason"] == "token pool 'hive': somebody whose work you may not see holds 1 of it."
    assert executions["reason"] == "token pool 'hive': 1 unfinished execution needs its tokens."
