"""Workflows and launch plans over the API, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, select, update

from admin.services import changes, row_warnings
from admin.services.context import Context
from admin.services.warnings import stored_warnings
from admin.store.cache import launchables
from admin.store.cache.launchables import Launchables
from admin.store.registration_tables import workflows
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    create,
    created,
    get,
    identifier,
    label,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_label,
    put_pool,
    refused,
    register_plan,
    register_workflow,
)
from tests.support.statements import statements

SLOW_ON = ("postgresql",)

INPUTS = {
    "epochs": {"type": "integer"},
    "rate": {"type": "float", "default": 0.5},
    "mode": {"type": "enum", "values": ["fast", "slow"], "default": "fast"},
    "tags": {"type": "list", "of": "string", "default": []},
}
TRAIN = {"command": ["train", "{{ inputs.epochs }}", "--rate={{ inputs.rate }}"]}


def launch(name: str, **more: Any) -> dict[str, Any]:
    return {"launch_plan": {"name": name, **more}}


@pytest.fixture
def place(project: str) -> dict[str, str]:
    """Where a test registers things of its own."""
    return {"project": project, "domain": "development"}


@pytest.mark.parametrize("extra", [{"compatibility": {"io": {}}}, {"requires": [{"name": "io", "match": "nvme"}]}])
def test_what_an_earlier_version_registered_and_is_refused_now_is_unchanged(
    shared: FlaskClient, shared_app: Flask, place: dict[str, str], extra: dict[str, Any]
) -> None:
    job = {"command": ["true"], **extra}
    refused(register_workflow(shared, "old", project=place["project"], job=job), 400, "invalid_request")
    ok(register_workflow(shared, "old", project=place["project"], job={"command": ["true"]}))
    is_old = (workflows.c.project == place["project"], workflows.c.name == "old")
    with context_of(shared_app).database.writing() as connection:
        spec = {**connection.execute(select(workflows.c.spec).where(*is_old)).scalar_one(), "job": job}
        connection.execute(update(workflows).where(*is_old).values(spec=spec, digest="of an earlier version"))
    answer = ok(register_workflow(shared, "old", project=place["project"], job=job))
    assert answer["created"] is False
    other = {**job, "command": ["false"]}
    refused(register_workflow(shared, "old", project=place["project"], job=other), 400, "invalid_request")


def test_a_version_is_registered_once_and_never_edited(shared: FlaskClient, place: dict[str, str]) -> None:
    path = f"workflows/{place['project']}/development"
    first = ok(register_workflow(shared, "wf", "v1", inputs=INPUTS, job=TRAIN, **place))
    assert first["created"] is True
    assert first["workflow"]["spec"]["inputs"]["rate"] == {"type": "float", "default": 0.5}
    assert ok(register_workflow(shared, "wf", "v1", inputs=INPUTS, job=TRAIN, **place)) == {**first, "created": False}
    refused(register_workflow(shared, "wf", "v1", **place), 400, "version_exists", "id.version")
    assert get(shared, f"{path}/wf/v1") == first["workflow"]
    ok(register_workflow(shared, "wf", "v2", **place))
    ok(register_workflow(shared, "a-first", "v9", **place))
    assert get(shared, f"{path}/wf/latest")["id"]["version"] == "v2"
    assert [workflow["id"]["version"] for workflow in get(shared, f"{path}/wf")["workflows"]] == ["v2", "v1"]
    listed = get(shared, path)["workflows"]
    assert [(version["id"]["name"], version["id"]["version"]) for version in listed] == [
        ("a-first", "v9"),
        ("wf", "v2"),
    ]
    page = get(shared, f"{path}?limit=1")
    assert page["workflows"] + get(shared, f"{path}?limit=1&token={page['token']}")["workflows"] == listed
    versions = get(shared, f"{path}/wf?limit=1")
    assert get(shared, f"{path}/wf?limit=5&token={versions['token']}")["workflows"][0]["id"]["version"] == "v1"


def test_a_version_has_who_registered_it_and_why(shared: FlaskClient, place: dict[str, str]) -> None:
    id, spec = identifier("wf", **place), {"job": {"command": ["true"]}}
    body = {"id": id, "spec": spec, "claimed_by": "rita", "message": "larger batches"}
    by = {"author": "anonymous", "claimed_by": "rita", "message": "larger batches"}
    tried = ok(shared.post(f"{API}/workflows?dry_run=true", json=body))["workflow"]
    registered = ok(shared.post(f"{API}/workflows", json=body))["workflow"]
    again = ok(shared.post(f"{API}/workflows", json={**body, "claimed_by": "otto", "message": "again"}))
    listed = get(shared, f"workflows/{place['project']}/development")["workflows"]
    read = get(shared, f"workflows/{place['project']}/development/wf/v1")
    for workflow in (tried, registered, again["workflow"], read, *listed):
        assert {key: workflow[key] for key in by} == by
    assert again["created"] is False
    plan = {"id": identifier("plan", **place), "spec": {"workflow_id": {"name": "wf", "version": "v1"}}}
    ok(shared.post(f"{API}/launch_plans", json=plan))
    path = f"launch_plans/{place['project']}/development/plan"
    [listed_plan] = get(shared, path)["launch_plans"]
    for launch_plan in (listed_plan, get(shared, f"{path}/v1")):
        assert (launch_plan["author"], launch_plan.keys() & {"claimed_by", "message"}) == ("anonymous", set())
    other = {**body, "id": identifier("other", **place)}
    for field, value in (("claimed_by", "a\0b"), ("message", "x" * 1001), ("by", "rita")):
        refused(shared.post(f"{API}/workflows", json={**other, field: value}), 400, "invalid_request", field)
    refused(shared.get(f"{API}/workflows/{place['project']}/development/other/v1"), 404, "workflow_not_found")


def test_other_content_under_a_version_is_refused_with_the_difference(
    shared: FlaskClient, place: dict[str, str]
) -> None:
    job = {"command": ["train"], "image": "a", "resources": {"requests": {"cpu": "1"}}}
    ok(register_workflow(shared, "wf", "v1", job=job, **place))
    other = {"command": ["train", "-v"], "resources": {"requests": {"cpu": "2"}}}
    answer = refused(register_workflow(shared, "wf", "v1", job=other, description="x", **place), 400, "version_exists")
    assert answer["code"] == 3
    assert answer["message"].endswith(
        "another body: spec.job.command, spec.job.image, spec.job.resources.requests.cpu, spec.description differ. "
        "Choose another version; none is ever edited."
    )
    assert [(detail["field"], detail["reason"]) for detail in answer["details"][1:]] == [
        ("spec.job.command", 'is ["train","-v"], registered is ["train"].'),
        ("spec.job.image", 'is absent, registered is "a".'),
        ("spec.job.resources.requests.cpu", 'is "2", registered is "1".'),
        ("spec.description", 'is "x", registered is absent.'),
    ]
    ok(register_plan(shared, "plan", "wf", "v1", max_parallelism=1, **place))
    answer = refused(register_plan(shared, "plan", "wf", "v1", max_parallelism=2, **place), 400, "version_exists")
    assert "another body: spec.max_parallelism differs. Choose" in answer["message"]
    assert [detail["field"] for detail in answer["details"]] == ["id.version", "spec.max_parallelism"]


def test_a_workflow_that_contradicts_itself_is_not_registered(shared: FlaskClient, place: dict[str, str]) -> None:
    def register(requests: dict[str, str], limits: dict[str, str]) -> Any:
        resources = {"requests": requests, "limits": limits}
        return register_workflow(shared, "wf", job={"command": ["x"], "resources": resources}, **place)

    for requests, limits, resource in (({"cpu": "2"}, {"cpu": "1500m"}, "cpu"), ({"gpu": "2"}, {"gpu": "1"}, "gpu")):
        answer = refused(register(requests, limits), 400, "above_limit", f"spec.job.resources.requests.{resource}")
        assert f"{requests[resource]} is above the job's own limit of {limits[resource]}" in answer["message"]
    answer = refused(register({"gpu": "1"}, {"gpu": "2"}), 400, "invalid_request", "spec.job.resources.requests.gpu")
    assert "1 is not the job's own limit of 2" in answer["message"]
    resources = {"requests": {"gpu": "1"}, "limits": {"gpu": "2"}}
    job = {"command": ["x"], "resources": resources}
    refused(create(shared, job=job, **place), 400, "invalid_request", "spec.job.resources.requests.gpu")
    unclear: list[tuple[str, Any, str]] = [
        ("requires", [{"name": "io", "match": "nvme"}], "requires.0.field"),
        ("requires", [{"name": "io", "field": "type", "maxx": 3}], "requires.0.maxx"),
        ("compatibility", {"io": [1]}, "compatibility.io"),
    ]
    for name, value, field in unclear:
        registered = register_workflow(shared, "unclear", job={"command": ["x"], name: value}, **place)
        refused(registered, 400, "invalid_request", f"spec.job.{field}")
    for empty in ("project", "name"):
        body = {"id": {**identifier("wf", **place), empty: ""}, "spec": {"job": job}}
        refused(shared.post(f"{API}/workflows", json=body), 400, "invalid_request", f"id.{empty}")
    assert get(shared, f"workflows/{place['project']}/development")["workflows"] == []
    assert ok(register({"gpu": "1", "cpu": "1"}, {"gpu": "1", "cpu": "1000m"}))["warnings"] == []


def test_a_workflow_beyond_the_limits_of_its_scope_is_registered_with_a_warning(
    shared: FlaskClient, place: dict[str, str]
) -> None:
    def limit(level: str, cpu: str, **names: str) -> None:
        put_attribute(shared, level, "task_resource_attributes", {"limits": {"cpu": cpu}}, **place, **names)

    limit("project-domain", "4")
    job = {"command": ["x"], "resources": {"limits": {"cpu": "8"}}}
    [warning] = ok(register_workflow(shared, "wf", job=job, **place))["warnings"]
    assert warning == {
        "code": "above_limit",
        "message": "spec.job.resources.limits.cpu: 8 is above the limit of 4 set at project-domain "
        f"{place['project']}/development: ask for less, or raise it. Until then executions of "
        f"{place['project']}/development/wf version v1 are refused there.",
    }
    limit("workflow", "16", workflow="wf")
    assert ok(register_workflow(shared, "wf", job=job, **place))["warnings"] == []
    limit("launch-plan", "2", workflow="wf", launch_plan="plan")
    [warning] = ok(register_plan(shared, "plan", "wf", **place))["warnings"]
    assert f"limit of 2 set at launch-plan {place['project']}/development/wf/plan" in warning["message"]
    refused(create(shared, **launch("plan"), **place), 400, "above_limit")
    assert ok(register_plan(shared, "other", "wf", **place))["warnings"] == []


Put = Callable[..., list[Any]]
SMALL, LARGE = ({"command": ["x"], "resources": {"requests": {"cpu": cpu}}} for cpu in ("1", "8"))


@pytest.fixture
def put(shared: FlaskClient, place: dict[str, str]) -> Put:
    """Sets task resources, and answers with the warnings about limits."""

    def put(level: str, payload: Any, query: str = "", **names: str) -> list[Any]:
        path = "/".join([f"{level.replace('-', '_')}_attributes", *place.values(), *names.values()])
        body = {"attributes": {"matching_attributes": {"task_resource_attributes": payload}}}
        warnings: list[Any] = ok(shared.put(f"{API}/{path}{query}", json=body))["warnings"]
        return [warning for warning in warnings if warning["code"] == "above_limit"]

    return put


def limits_warned_of(api: FlaskClient, place: dict[str, str]) -> list[Any]:
    """The stored warnings about limits in the project of a test."""
    listed = get(api, "warnings")["warnings"]
    return [entry for entry in listed if entry["code"] == "above_limit" and entry.get("project") == place["project"]]


def test_a_limit_that_refuses_runs_of_a_workflow_is_warned_of(
    shared_app: Flask, shared: FlaskClient, place: dict[str, str], put: Put
) -> None:
    ok(register_workflow(shared, "small", job=SMALL, **place))
    ok(register_workflow(shared, "mended", version="v1", job=LARGE, **place))
    ok(register_workflow(shared, "mended", version="v2", job=SMALL, **place))
    for number in range(7):
        ok(register_workflow(shared, f"large{number}", job=LARGE, **place))
    ok(register_workflow(shared, "exempt", job=LARGE, **place))
    assert put("workflow", {"limits": {"cpu": "16"}}, workflow="exempt") == []
    assert put("project-domain", {"limits": {"cpu": "8", "memory": "1Gi"}}) == limits_warned_of(shared, place) == []
    tried = put("project-domain", {"limits": {"cpu": "4"}}, "?dry_run=true")
    assert limits_warned_of(shared, place) == []
    [warning] = put("project-domain", {"limits": {"cpu": "4"}})
    where = f"{place['project']}/{place['domain']}"
    five = ", ".join(f"{where}/large{number} version v1 (requests.cpu 8)" for number in range(5))
    assert warning["message"] == (
        f"limits.cpu of 4 refuses runs of the newest version of 7 registered workflows: {five} and 2 more. Raise it, "
        "or register versions that ask for less."
    )
    assert warning["field"] == "limits.cpu"
    stored = limits_warned_of(shared, place)
    assert [entry["message"] for entry in (*tried, *stored)] == [warning["message"]] * 2
    ok(register_plan(shared, "plan", "large0", **place))
    refused(create(shared, **launch("plan"), **place), 400, "above_limit")
    [own] = put("workflow", {"limits": {"cpu": "2"}}, workflow="large1")
    assert "of the newest version of 1 registered workflow: " in own["message"]
    assert len(limits_warned_of(shared, place)) == 2
    with statements(context_of(shared_app)) as made:
        put("project-domain", {"defaults": {"cpu": "1"}})
    assert not [statement for statement in made if "workflows" in statement]


def test_a_limit_is_compared_with_the_version_that_a_launch_plan_runs(
    shared: FlaskClient, place: dict[str, str], put: Put
) -> None:
    where = f"{place['project']}/{place['domain']}"
    ok(register_workflow(shared, "grown", version="v1", job=SMALL, **place))
    ok(register_workflow(shared, "grown", version="v2", job=LARGE, **place))
    ok(register_plan(shared, "modest", "grown", **place))
    limit = {"limits": {"cpu": "4"}}
    assert put("launch-plan", limit, workflow="grown", launch_plan="modest") == []
    created(shared, **launch("modest"), **place)

    ok(register_workflow(shared, "mended", version="v1", job=LARGE, **place))
    ok(register_workflow(shared, "mended", version="v2", job=SMALL, **place))
    ok(register_plan(shared, "old", "mended", **place))
    assert limits_warned_of(shared, place) == []
    [warning] = put("launch-plan", limit, workflow="mended", launch_plan="old")
    message = (
        f"limits.cpu of 4 refuses runs by the active version of 1 launch plan: {where}/old "
        f"({where}/mended version v1, requests.cpu 8). Raise it, or activate versions whose workflow asks for less."
    )
    assert warning["message"] == message
    assert [entry["message"] for entry in limits_warned_of(shared, place)] == [message]
    refused(create(shared, **launch("old"), **place), 400, "above_limit")
    # At a broader scope the workflow that asks for more and the launch plan of an older version are both refused.
    assert put("launch-plan", {"defaults": {"cpu": "1"}}, workflow="mended", launch_plan="old") == []
    newest, by_plan = put("project-domain", limit)
    assert f"of the newest version of 1 registered workflow: {where}/grown version v2 " in newest["message"]
    assert by_plan["message"] == message
    mended = {"name": "mended", "version": "v2"}
    ok(register_plan(shared, "old", "mended", version="v2", workflow_id=mended, **place))
    assert [entry["message"] for entry in limits_warned_of(shared, place)] == [newest["message"]]
    ok(shared.put(f"{API}/launch_plans/{where}/old/v1", json={"state": "ACTIVE"}))
    assert [entry["message"] for entry in limits_warned_of(shared, place)] == [newest["message"], message]
    # A launch plan that runs the newest version is refused with its workflow, and named with it.
    grown = {"name": "grown", "version": "v2"}
    ok(register_plan(shared, "grand", "grown", workflow_id=grown, **place))
    at_project = [entry for entry in limits_warned_of(shared, place) if not entry.get("launch_plan")]
    with_plan = (
        f"limits.cpu of 4 refuses runs of the newest version of 1 registered workflow: {where}/grown version v2 "
        f"(requests.cpu 8); and by 1 launch plan, 2 scopes in all: {where}/grand. Raise it, or register versions that "
        "ask for less."
    )
    assert [entry["message"] for entry in at_project] == [with_plan, message]
    tried, _ = put("project-domain", {"limits": {"cpu": "3"}}, "?dry_run=true")
    assert f"; and by 1 launch plan, 2 scopes in all: {where}/grand. " in tried["message"]
    refused(create(shared, **launch("grand"), **place), 400, "above_limit")


def test_a_limit_is_compared_with_the_newest_version_of_a_launch_plan_without_an_active_one(
    shared: FlaskClient, place: dict[str, str], put: Put
) -> None:
    where = f"{place['project']}/{place['domain']}"
    ok(register_workflow(shared, "mended", version="v1", job=LARGE, **place))
    ok(register_workflow(shared, "mended", version="v2", job=SMALL, **place))
    ok(register_plan(shared, "old", "mended", state="INACTIVE", **place))
    [warning] = put("project-domain", {"limits": {"cpu": "4"}})
    assert warning["message"] == (
        f"limits.cpu of 4 refuses runs by the newest version, for none is active, of 1 launch plan: {where}/old "
        f"({where}/mended version v1, requests.cpu 8). Raise it, or activate versions whose workflow asks for less."
    )
    assert [entry["message"] for entry in limits_warned_of(shared, place)] == [warning["message"]]
    refused(create(shared, **launch("old"), **place), 400, "above_limit")
    ok(shared.put(f"{API}/launch_plans/{where}/old/v1", json={"state": "ACTIVE"}))
    [active] = limits_warned_of(shared, place)
    assert "refuses runs by the active version of 1 launch plan: " in active["message"]
    ok(shared.put(f"{API}/launch_plans/{where}/old/v1", json={"state": "INACTIVE"}))
    mended = {"name": "mended", "version": "v2"}
    ok(register_plan(shared, "old", "mended", version="v2", state="INACTIVE", workflow_id=mended, **place))
    assert limits_warned_of(shared, place) == []


def test_what_workflows_ask_for_is_read_once(
    shared_app: Flask, shared: FlaskClient, place: dict[str, str], put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(shared_app)
    for number in range(3):
        ok(register_workflow(shared, f"large{number}", job=LARGE, **place))
        put("workflow", {"limits": {"cpu": "4"}}, workflow=f"large{number}")
    with statements(context) as made:
        assert put("project-domain", {"limits": {"memory": "1Gi"}}) == []
        assert len(put("workflow", {"limits": {"cpu": "3"}}, workflow="large0")) == 1
    assert not [statement for statement in made if "FROM workflows" in statement]
    monkeypatch.setattr(row_warnings, "_CHUNK", 1)
    with statements(context) as listing:
        assert len(limits_warned_of(shared, place)) == 3
    assert not [statement for statement in listing if "FROM workflows" in statement]

    ok(register_workflow(shared, "large0", version="v2", job=LARGE, **place))
    read: list[int] = []

    def resources_of_rows(connection: Connection, ids: list[int]) -> Any:
        read.extend(ids)
        return resources(connection, ids)

    resources = launchables.resources_of_rows
    monkeypatch.setattr(launchables, "resources_of_rows", resources_of_rows)
    assert len(limits_warned_of(shared, place)) == 3
    assert len(stored_warnings(context)) >= 3
    [warning] = put("workflow", {"limits": {"cpu": "2"}}, workflow="large0")
    assert "large0 version v2 (requests.cpu 8)" in warning["message"]
    assert len(read) == 1


def test_a_limit_that_is_raised_costs_no_question_while_nothing_is_registered(
    api: FlaskClient, context: Context
) -> None:
    def limit(cpu: str) -> None:
        put_attribute(api, "project-domain", "task_resource_attributes", {"limits": {"cpu": cpu}})

    limit("2")
    with statements(context) as made:
        limit("4")
    verbs = [statement.split()[0] for statement in made]
    assert verbs.count("SELECT") == 1  # the head, when it was made, and what decisions are based on


def test_refused_workflows_beyond_those_that_are_kept_are_not_hidden(
    shared_app: Flask, shared: FlaskClient, place: dict[str, str], put: Put
) -> None:
    for number in range(3):
        ok(register_workflow(shared, f"large{number}", job=LARGE, **place))
    [warning] = put("project-domain", {"limits": {"cpu": "4"}})
    assert " of 3 registered workflows: " in warning["message"]
    few = replace(context_of(shared_app), launchables=Launchables(most=2))
    messages = [entry.message for entry in stored_warnings(few) if entry.scope.project == place["project"]]
    assert any(" of at least 2 registered workflows: " in message for message in messages)


def test_a_fault_of_a_warning_does_not_fail_a_committed_change(
    shared: FlaskClient,
    place: dict[str, str],
    put: Put,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a fault")

    monkeypatch.setattr(changes, "refusals_in_memory", fail)
    assert put("project-domain", {"limits": {"cpu": "4"}}) == []
    assert "a fault" in caplog.text
    path = f"project_domain_attributes/{place['project']}/{place['domain']}?resource_type=TASK_RESOURCE"
    attributes = get(shared, path)["attributes"]["matching_attributes"]
    assert attributes == {"task_resource_attributes": {"limits": {"cpu": "4"}}}


def test_a_launch_plan_may_give_its_identity_in_the_older_form(shared: FlaskClient, place: dict[str, str]) -> None:
    ok(register_workflow(shared, "wf", **place))
    role = {"assumable_iam_role": "arn:x", "kubernetes_service_account": "runner"}
    plan = ok(register_plan(shared, "plan", "wf", auth_role=role, **place))["launch_plan"]
    identity = {"iam_role": "arn:x", "k8s_service_account": "runner"}
    assert plan["spec"]["security_context"] == {"run_as": identity}
    assert created(shared, **launch("plan"), **place)["job"]["identity"] == identity
    own: dict[str, Any] = {"security_context": {"run_as": {"k8s_service_account": "own"}}}
    answer = register_plan(shared, "both", "wf", auth_role=role, **own, **place)
    refused(answer, 400, "invalid_request", "spec.auth_role.kubernetes_service_account")


def test_one_version_of_a_launch_plan_is_active(shared: FlaskClient, place: dict[str, str]) -> None:
    ok(register_workflow(shared, "wf", **place))
    base = f"launch_plans/{place['project']}/development/plan"
    active = f"active_launch_plans/{place['project']}/development"
    assert ok(register_plan(shared, "plan", "wf", "v1", "INACTIVE", **place))["launch_plan"]["state"] == "INACTIVE"
    refused(shared.get(f"{API}/{active}/plan"), 404, "launch_plan_not_found")
    assert ok(register_plan(shared, "plan", "wf", "v2", **place))["launch_plan"]["state"] == "ACTIVE"
    ok(register_plan(shared, "plan", "wf", "v3", "INACTIVE", **place))
    assert get(shared, f"{active}/plan")["id"]["version"] == "v2"
    assert get(shared, f"{base}/latest")["id"]["version"] == "v3"
    changed = ok(shared.put(f"{API}/{base}/v3", json={"state": "ACTIVE"}))
    assert (changed["state"], changed["changed"]) == ("ACTIVE", True)
    assert ok(shared.put(f"{API}/{base}/v3", json={"state": 1}))["changed"] is False
    assert [
        (launch_plan["id"]["version"], launch_plan["state"]) for launch_plan in get(shared, base)["launch_plans"]
    ] == [
        ("v3", "ACTIVE"),
        ("v2", "INACTIVE"),
        ("v1", "INACTIVE"),
    ]
    assert [launch_plan["id"]["version"] for launch_plan in get(shared, active)["launch_plans"]] == ["v3"]
    assert get(shared, f"launch_plans/{place['project']}/development?workflow=other")["launch_plans"] == []
    ok(shared.put(f"{API}/{base}/v3", json={"state": "INACTIVE"}))
    answer = ok(create(shared, "newest", launch_plan={"name": "plan"}, **place))
    assert answer["execution"]["launch_plan"]["version"] == "v3"
    assert [warning["code"] for warning in answer["warnings"]] == ["inactive_launch_plan", "unseen_cluster"]
    ok(shared.put(f"{API}/{base}/v1", json={"state": "ACTIVE"}))
    answer = ok(create(shared, "active", launch_plan={"name": "plan"}, **place))
    assert answer["execution"]["launch_plan"]["version"] == "v1"
    assert [warning["code"] for warning in answer["warnings"]] == ["unseen_cluster"]
    assert ok(register_plan(shared, "plan", "wf", "v4", **place))["created"] is True
    assert [launch_plan["id"]["version"] for launch_plan in get(shared, active)["launch_plans"]] == ["v4"]
    assert get(shared, f"{base}/v1")["state"] == "INACTIVE"


def test_a_launch_plan_tells_the_inputs_it_expects(shared: FlaskClient, place: dict[str, str]) -> None:
    ok(register_workflow(shared, "wf", "v1", inputs=INPUTS, job=TRAIN, **place))
    ok(register_plan(shared, "lp", "wf", default_inputs={"rate": 0.1}, fixed_inputs={"mode": "slow"}, **place))
    path = f"{place['project']}/development"
    expected = {
        "epochs": {"type": "integer", "required": True},
        "rate": {"type": "float", "default": 0.1, "required": False},
        "tags": {"type": "list", "of": {"type": "string"}, "default": [], "required": False},
    }
    assert get(shared, f"launch_plans/{path}/lp/v1")["expected_inputs"] == expected
    assert get(shared, f"active_launch_plans/{path}/lp")["expected_inputs"] == expected
    for listed in (f"launch_plans/{path}", f"launch_plans/{path}/lp", f"active_launch_plans/{path}"):
        assert [plan["expected_inputs"] for plan in get(shared, listed)["launch_plans"]] == [expected]


def test_inputs_are_bound_request_over_default_and_nothing_over_fixed(
    shared: FlaskClient, place: dict[str, str], shared_context: Context
) -> None:
    ok(register_workflow(shared, "wf", inputs=INPUTS, job=TRAIN, **place))
    ok(register_plan(shared, "plan", "wf", default_inputs={"epochs": 3}, fixed_inputs={"rate": 0.1}, **place))
    execution = created(shared, "plain", **launch("plan"), **place)
    assert execution["inputs"] == {"epochs": 3, "rate": 0.1, "mode": "fast", "tags": []}
    assert execution["job"]["command"] == ["train", "3", "--rate=0.1"]
    assert (execution["workflow"]["name"], execution["launch_plan"]["name"]) == ("wf", "plan")
    literal = {"literals": {"epochs": {"scalar": {"primitive": {"integer": "7"}}}}}
    assert created(shared, "literal", inputs=literal, **launch("plan"), **place)["inputs"]["epochs"] == 7
    direct = created(shared, "direct", inputs={"epochs": 1}, **launch("wf", resource_type="WORKFLOW"), **place)
    assert "launch_plan" not in direct
    assert direct["inputs"]["rate"] == 0.5
    with nothing_stored(shared_context):
        for inputs, field in (
            ({"rate": 0.2}, "inputs.rate"),
            ({"epochs": "three"}, "inputs.epochs"),
            ({"epochs": 1.5}, "inputs.epochs"),
            ({"epochs": True}, "inputs.epochs"),
            ({"epoch": 3}, "inputs.epoch"),
            ({"mode": "medium"}, "inputs.mode"),
            ({"tags": [1]}, "inputs.tags.0"),
        ):
            answer = create(shared, "bad", inputs=inputs, **launch("plan"), **place)
            refused(answer, 400, "invalid_request", field)
        missing = create(shared, "bad", **launch("wf", resource_type="WORKFLOW"), **place)
        refused(missing, 400, "invalid_request", "inputs.epochs")
        refused(create(shared, "bad", inputs={"epochs": 1}, **place), 400, "invalid_request", "inputs.epochs")


@pytest.mark.parametrize(
    ("asked", "error", "field", "near"),
    [
        (launch("plna"), "launch_plan_not_found", "name", ["plan"]),
        (launch("plan", version="v11"), "launch_plan_not_found", "version", ["v1"]),
        (launch("wff", resource_type="WORKFLOW"), "workflow_not_found", "name", ["wf"]),
        (launch("wf", resource_type=2, version="v11"), "workflow_not_found", "version", ["v1"]),
    ],
    ids=str,
)
def test_what_is_not_registered_is_refused_with_what_comes_close(
    shared: FlaskClient,
    shared_context: Context,
    place: dict[str, str],
    asked: dict[str, Any],
    error: str,
    field: str,
    near: list[str],
) -> None:
    ok(register_workflow(shared, "wf", **place))
    ok(register_plan(shared, "plan", "wf", **place))
    with nothing_stored(shared_context):
        answer = refused(create(shared, "bad", **asked, **place), 404, error, field)
        assert answer["details"][0]["closest"] == near
        refused(shared.post(f"{API}/placements", json={**place, "spec": asked}), 404, error, field)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"job": {}}, "spec.job"),
        ({"job": {"command": ["{{ inputs.x }}"]}}, "spec.job.command.0"),
        ({"job": {"command": ["a"], "resources": {"requests": {"cpu": "many"}}}}, "spec.job.resources.requests.cpu"),
        ({"inputs": {"x": "complex"}}, "spec.inputs.x"),
        ({"inputs": {"x": {"type": "integer", "default": "a"}}}, "spec.inputs.x.default"),
        ({"steps": []}, "spec.steps"),
    ],
    ids=str,
)
def test_a_wrong_workflow_is_refused_by_field_and_not_stored(
    shared: FlaskClient, shared_context: Context, spec: dict[str, Any], field: str
) -> None:
    with nothing_stored(shared_context):
        refused(register_workflow(shared, "bad", **spec), 400, "invalid_request", field)
        body = {"id": identifier("bad"), "spec": {"job": {"command": ["a"]}}}
        assert ok(shared.post(f"{API}/workflows?dry_run=true", json=body))["created"] is True


@pytest.mark.parametrize(
    ("spec", "status", "error", "field"),
    [
        ({"workflow_id": {"name": "wf", "version": "v7"}}, 404, "workflow_not_found", "version"),
        ({"workflow_id": {"name": "wf"}}, 400, "invalid_request", "spec.workflow_id.version"),
        ({"default_inputs": {"x": 1}}, 400, "invalid_request", "spec.default_inputs.x"),
        ({"default_inputs": {"epochs": "a"}}, 400, "invalid_request", "spec.default_inputs.epochs"),
        (
            {"default_inputs": {"epochs": 1}, "fixed_inputs": {"epochs": 2}},
            400,
            "invalid_request",
            "spec.fixed_inputs.epochs",
        ),
        (
            {"cluster_assignment": {"cluster_pool_name": None}},
            400,
            "invalid_request",
            "spec.cluster_assignment.cluster_pool_name",
        ),
        ({"schedule": {}}, 400, "invalid_request", "spec.schedule"),
    ],
    ids=str,
)
def test_a_wrong_launch_plan_is_refused_by_field_and_not_stored(
    shared: FlaskClient,
    shared_context: Context,
    place: dict[str, str],
    spec: dict[str, Any],
    status: int,
    error: str,
    field: str,
) -> None:
    ok(register_workflow(shared, "wf", inputs=INPUTS, job=TRAIN, **place))
    with nothing_stored(shared_context):
        refused(register_plan(shared, "bad", "wf", **spec, **place), status, error, field)


@pytest.mark.parametrize("version", ["latest", "", "a b", ".."])
def test_a_version_that_could_not_be_asked_for_is_refused(shared: FlaskClient, version: str) -> None:
    answer = register_workflow(shared, "wf", version)
    assert (answer.status_code, answer.get_json()["error"]) == (400, "invalid_request")


def test_a_pool_attribute_at_a_launch_plan_moves_only_its_executions_and_a_request_beats_it(api: FlaskClient) -> None:
    for name in ("base", "gpu", "asked"):
        put_pool(api, name, [f"{name}-cluster"])
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "base"})
    ok(register_workflow(api, "wf"))
    for plan in ("nightly", "hourly"):
        ok(register_plan(api, plan, "wf"))
    scope = {"workflow": "wf", "launch_plan": "nightly"}
    put_attribute(api, "launch-plan", "cluster_assignment", {"cluster_pool_name": "gpu"}, **scope)
    assert created(api, "e1", **launch("nightly"))["cluster"] == "gpu-cluster"
    assert created(api, "e2", **launch("hourly"))["cluster"] == "base-cluster"
    assert created(api, "e3", **launch("wf", resource_type="WORKFLOW"))["cluster"] == "base-cluster"
    assert created(api, "e4")["cluster"] == "base-cluster"
    mine = created(api, "e5", **launch("nightly"), **pool("asked"))
    assert (mine["cluster"], mine["pool"]) == ("asked-cluster", "asked")

    def relaunched(of: str, **more: Any) -> Any:
        body = {"id": {"project": "flytesnacks", "domain": "development", "name": of}, **more}
        answer = ok(api.post(f"{API}/executions/relaunch", json=body))["execution"]
        assert (answer["mode"], answer["reference_execution"]["name"]) == ("RELAUNCH", of)
        return answer

    assert relaunched("e5")["pool"] == "asked"
    assert relaunched("e1")["pool"] == "gpu"
    assert relaunched("e5", name="e6", **pool("base"))["pool"] == "base"
    put_label(api, "sunny", ["sun"])
    moved = relaunched("e5", **label("sunny"))
    assert (moved.get("pool"), moved["label"], moved["cluster"]) == (None, "sunny", "sun")


def test_a_launch_plans_definition_stands_between_request_and_attributes(api: FlaskClient) -> None:
    for name in ("row", "plan", "asked"):
        put_pool(api, name, [f"{name}-cluster"])
    put_label(api, "planned", ["label-cluster"])
    ok(register_workflow(api, "wf"))
    ok(register_plan(api, "lp", "wf", max_parallelism=7, labels={"values": {"from": "plan"}}, **pool("plan")))
    ok(register_plan(api, "by-label", "wf", **label("planned")))
    for plan in ("lp", "by-label"):
        scope = {"workflow": "wf", "launch_plan": plan}
        put_attribute(api, "launch-plan", "cluster_assignment", {"cluster_pool_name": "row"}, **scope)
        put_attribute(api, "launch-plan", "workflow_execution_config", {"max_parallelism": 3}, **scope)
    answer = created(api, "e1", **launch("lp"))
    assert (answer["pool"], answer["config"]["max_parallelism"], answer["job"]["labels"]) == (
        "plan",
        7,
        {"from": "plan"},
    )
    assert created(api, "e2", **launch("by-label"))["label"] == "planned"
    execution = created(api, "e3", max_parallelism=9, **launch("lp"), **pool("asked"))
    assert (execution["pool"], execution["config"]["max_parallelism"]) == ("asked", 9)
    assert created(api, "e4", **launch("by-label"), **label("plan-cluster"))["cluster"] == "plan-cluster"


def test_workflows_of_another_project_are_launched_under_the_executions_own_settings(api: FlaskClient) -> None:
    put_pool(api, "mine", ["mine-cluster"])
    put_pool(api, "theirs", ["theirs-cluster"])
    ok(register_workflow(api, "wf", project="flyteexamples"))
    ok(register_plan(api, "lp", "wf", project="flyteexamples"))
    for project, name in (("flytesnacks", "mine"), ("flyteexamples", "theirs")):
        payload = {"cluster_pool_name": name}
        put_attribute(api, "workflow", "cluster_assignment", payload, project=project, workflow="wf")
    answer = created(api, "e", **launch("lp", project="flyteexamples"))
    assert (answer["launch_plan"]["project"], answer["pool"]) == ("flyteexamples", "mine")
