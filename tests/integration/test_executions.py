"""Executions over the API: what settings make of them, names, lists, events, ends; on both databases."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.changes import ANYTHING
from admin.core.grants import Grant, Grantee
from admin.core.settings.scopes import PLATFORM, Scope
from admin.services import grants
from admin.services.changeable.base import ChangeOptions
from admin.services.context import Context
from admin.services.creations import create_execution
from admin.services.queueing_budgets import end_overdue
from admin.services.run_requests import read_request
from tests.integration.test_grants import signed_in
from tests.support.ages import AGE
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    JOB,
    PROJECT,
    asked,
    create,
    created,
    delete_attribute,
    execution,
    get,
    label,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_label,
    refused,
    report,
    switch,
)

SECTIONS: dict[str, Any] = {
    "clusters": {
        "poolNameClusterMap": {"gpu": [{"id": "gpu-1"}], "base": [{"id": "base-1"}, {"id": "base-2"}]},
        "labelClusterMap": {"sunny": [{"id": "sun"}]},
        "clusterConfigs": [{"name": "small", "capacity": {"cpu": "4", "gpu": "0"}}, {"name": "off", "enabled": False}],
        "defaultClusterPool": "base",
    },
    "queues": {"executionQueues": [{"dynamic": "fast", "attributes": ["critical"]}]},
    "qualityOfService": {"tierExecutionValues": {"HIGH": {"queueingBudget": "60s"}}},
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(value: Any, path: str) -> Any:
    """A part of an answer by its dotted path, None where it is not there."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


KINDS: list[tuple[str, str, Any, dict[str, tuple[Any, Any]]]] = [
    (
        "TASK_RESOURCE",
        "task_resource_attributes",
        {"defaults": {"cpu": "500m"}, "limits": {"memory": "100Mi"}},
        {
            "job.resources.requests": ({"cpu": "2", "memory": "200Mi"}, {"cpu": "500m", "memory": "100Mi"}),
            "job.resources.limits": ({"cpu": "2", "memory": "200Mi"}, {"cpu": "500m", "memory": "100Mi"}),
        },
    ),
    (
        "CLUSTER_RESOURCE",
        "cluster_resource_attributes",
        {"attributes": {"projectQuotaCpu": "9"}},
        {"attributes.CLUSTER_RESOURCE": (None, {"attributes": {"projectQuotaCpu": "9"}})},
    ),
    ("EXECUTION_QUEUE", "execution_queue_attributes", {"tags": ["critical"]}, {"queue": (None, "fast")}),
    (
        "EXECUTION_CLUSTER_LABEL",
        "execution_cluster_label",
        {"value": "sunny"},
        {"label": (None, "sunny"), "pool": ("base", None), "cluster": ("base-1", "sun")},
    ),
    (
        "QUALITY_OF_SERVICE_SPECIFICATION",
        "quality_of_service",
        {"tier": "HIGH"},
        {"quality_of_service.tier": (None, "HIGH"), "quality_of_service.queueing_budget": (None, "60s")},
    ),
    (
        "PLUGIN_OVERRIDE",
        "plugin_overrides",
        {"overrides": [{"task_type": "process", "plugin_id": ["mpi"]}]},
        {"plugins": (None, {"plugin_id": ["mpi"], "missing_plugin_behavior": "FAIL"})},
    ),
    (
        "WORKFLOW_EXECUTION_CONFIG",
        "workflow_execution_config",
        {
            "max_parallelism": 3,
            "labels": {"values": {"team": "search"}},
            "annotations": {"values": {"note": "n"}},
            "envs": {"values": [{"key": "LOG", "value": "debug"}]},
            "security_context": {"run_as": {"k8s_service_account": "robot"}},
            "raw_output_data_config": {"output_location_prefix": "s3://b"},
            "interruptible": True,
            "overwrite_cache": True,
        },
        {
            "config.max_parallelism": (25, 3),
            "config.interruptible": (None, True),
            "config.overwrite_cache": (None, True),
            "config.raw_output_data_config": (None, {"output_location_prefix": "s3://b"}),
            "job.labels": (None, {"team": "search"}),
            "job.annotations": (None, {"note": "n"}),
            "job.environment": (None, {"LOG": "debug"}),
            "job.identity": (None, {"k8s_service_account": "robot"}),
        },
    ),
    (
        "CLUSTER_ASSIGNMENT",
        "cluster_assignment",
        {"cluster_pool_name": "gpu"},
        {"pool": ("base", "gpu"), "cluster": ("base-1", "gpu-1")},
    ),
    (
        "WORKFLOW_PRIORITY",
        "workflow_priority",
        {"priority": 90},
        {"attributes.WORKFLOW_PRIORITY": ({"priority": 50}, {"priority": 90})},
    ),
]


@pytest.mark.parametrize(("kind", "key", "payload", "differences"), KINDS, ids=[kind for kind, *_ in KINDS])
def test_a_kind_makes_a_difference_to_the_stored_execution(
    shared: FlaskClient, project: str, kind: str, key: str, payload: Any, differences: dict[str, tuple[Any, Any]]
) -> None:
    def seen(name: str) -> dict[str, Any]:
        created(shared, name, project=project)
        stored = execution(shared, name, project)
        shown = {path: at(stored, path) for path in differences}
        if "cluster" in shown and shown["cluster"] == "base-2":
            shown["cluster"] = "base-1"  # either will do
        return shown

    before = {path: without for path, (without, _) in differences.items()}
    assert seen("without") == before
    put_attribute(shared, "project-domain", key, payload, project=project)
    assert seen("with") == {path: then for path, (_, then) in differences.items()}
    assert execution(shared, "without", project)["revision"] < execution(shared, "with", project)["revision"]
    delete_attribute(shared, "project-domain", kind, project=project)
    assert seen("again") == before


# Resources


def test_a_request_above_the_limit_is_refused_and_nothing_is_stored(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    limits = {"limits": {"cpu": "200m"}, "defaults": {"cpu": "100m"}}
    body = {"attributes": {"matching_attributes": {"task_resource_attributes": limits}}, "message": "cap it"}
    path = f"{API}/project_domain_attributes/{project}/development"
    revision = ok(shared.put(path, json={**body, "claimed_by": "ana"}))["revision"]
    job = {"command": ["x"], "resources": {"requests": {"cpu": "900m"}}}
    with nothing_stored(shared_context):
        for response in (
            create(shared, "big", project=project, job=job),
            shared.post(f"{API}/executions?dry_run=true", json=asked("big", project=project, job=job)),
            shared.post(f"{API}/placements", json=asked("big", project=project, job=job)),
        ):
            answer = refused(response, 400, "above_limit", "spec.job.resources.requests.cpu")
            assert f"900m is above the limit of 200m set at project-domain {project}/development" in answer["message"]
            set_by = rf"That was set by revision {revision}, anonymous \(says ana\), {AGE}, 'cap it'\."
            assert re.search(set_by, answer["message"])
            provenance = answer["details"][0]["provenance"]
            assert (provenance["revision"], provenance["claimed_by"]) == (revision, "ana")
        [outcome] = ok(shared.post(f"{API}/executions", json={"executions": [asked("big", project=project, job=job)]}))[
            "results"
        ]
        assert re.search(set_by, outcome["error"]["message"])
    assert created(shared, "fits", project=project)["job"]["resources"]["requests"]["cpu"] == "100m"


def test_a_default_above_the_limit_cannot_be_stored_and_an_inherited_one_is_capped(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    path = f"{API}/project_attributes/{project}"

    def put(payload: Any) -> Any:
        return shared.put(path, json={"attributes": {"matching_attributes": {"task_resource_attributes": payload}}})

    with nothing_stored(shared_context):
        refused(put({"defaults": {"cpu": "3"}}), 400, "invalid_request", "defaults.cpu")
        refused(put({"defaults": {"cpu": "2"}, "limits": {"cpu": "1"}}), 400, "invalid_request", "defaults.cpu")
        for bad in ("1x", "-1", "", "1GiB", "NaN", "1e400", True, ["1"]):
            refused(put({"limits": {"cpu": bad}}), 400, "invalid_request", "limits.cpu")
            job = {"command": ["x"], "resources": {"limits": {"cpu": bad}}}
            refused(
                create(shared, "bad", project=project, job=job), 400, "invalid_request", "spec.job.resources.limits.cpu"
            )
    answer = ok(put({"limits": {"cpu": "200m"}}))
    assert [warning["code"] for warning in answer["warnings"]] == ["default_capped"]
    assert created(shared, "capped", project=project)["job"]["resources"]["requests"]["cpu"] == "200m"


def test_a_job_that_no_cluster_could_ever_run_is_refused(shared: FlaskClient, shared_context: Context) -> None:
    job = {"command": ["x"], "resources": {"requests": {"gpu": "1"}}}
    with nothing_stored(shared_context):
        answer = refused(
            create(shared, "big", job=job, cluster="small"), 400, "no_cluster_large_enough", "spec.job.resources"
        )
        assert "0 gpu in all, 1 wanted" in answer["message"]


# Names


def test_the_same_name_and_body_twice_is_one_execution_and_another_body_a_conflict(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    first = ok(create(shared, "once", project=project, max_parallelism=3))
    assert first["created"] is True
    with nothing_stored(shared_context):
        again = ok(create(shared, "once", project=project, max_parallelism=3))
        assert (again["created"], again["execution"]) == (False, first["execution"])
        spelled = {
            "project": project,
            "domain": "development",
            "name": "once",
            "spec": {"maxParallelism": 3.0, "job": JOB},
        }
        assert ok(shared.post(f"{API}/executions", json=spelled))["created"] is False
        answer = refused(create(shared, "once", project=project), 409, "execution_exists", "name")
        assert "Nothing was started" in answer["message"]
        refused(create(shared, "once", project=project, max_parallelism=3, **pool("gpu")), 409, "execution_exists")
    assert ok(create(shared, "once", project=project, domain="staging", max_parallelism=3))["created"] is True
    ok(shared.delete(f"{API}/executions/{project}/development/once", json={}))
    assert ok(create(shared, "once", project=project, max_parallelism=3))["created"] is False


def test_an_idempotency_key_names_what_has_no_name(shared: FlaskClient, shared_context: Context, project: str) -> None:
    def send(key: str, **fields: Any) -> Any:
        return shared.post(f"{API}/executions", json=asked(project=project, **fields), headers={"Idempotency-Key": key})

    first = ok(send("k1"))
    assert first["created"] is True
    with nothing_stored(shared_context):
        again = ok(send("k1"))
        assert (again["created"], again["id"]) == (False, first["id"])
        refused(send("k1", **pool("gpu")), 409, "execution_exists")
        refused(send(""), 400, "invalid_request", "Idempotency-Key")
        refused(send("k" * 256), 400, "invalid_request", "Idempotency-Key")
    assert ok(send("k2"))["id"] != first["id"]
    assert ok(create(shared, project=project))["id"] != ok(create(shared, project=project))["id"]


def test_a_dry_run_says_what_would_be_and_stores_nothing(shared: FlaskClient, shared_context: Context) -> None:
    with nothing_stored(shared_context):
        dry = ok(shared.post(f"{API}/executions?dry_run=true", json=asked("dry", **pool("gpu"))))
        assert (dry["created"], dry["dry_run"], dry["execution"]["cluster"]) == (True, True, "gpu-1")
        assert "uid" not in dry["execution"]
    real = created(shared, "dry", **pool("gpu"))
    volatile = {"closure", "uid", "phase_since", "could_start_at"}
    assert {key: value for key, value in real.items() if key not in volatile} == {
        key: value for key, value in dry["execution"].items() if key not in volatile
    }


# Bad input


LONG = "a" * 64


@pytest.mark.parametrize(
    ("body", "status", "error", "field"),
    [
        (asked("Upper"), 400, "invalid_request", "name"),
        (asked("-a"), 400, "invalid_request", "name"),
        (asked(LONG), 400, "invalid_request", "name"),
        (asked("a", project="nowhere"), 400, "unknown_project", "project"),
        (asked("a", domain="nowhere"), 400, "unknown_domain", "domain"),
        (asked("a", project="A B"), 400, "invalid_request", "project"),
        ({"project": "flytesnacks", "domain": "development"}, 400, "invalid_request", "spec"),
        ({**asked("a"), "spec": {}}, 400, "invalid_request", "spec"),
        ({**asked("a"), "spec": None}, 400, "invalid_request", "spec"),
        ({**asked("a"), "color": "red"}, 400, "invalid_request", "color"),
        ({**asked("a"), "inputs": [1]}, 400, "invalid_request", "inputs"),
        (asked("a", tags=["x"]), 400, "invalid_request", "spec.tags"),
        (asked("a", jobspec={"version": 99}), 400, "invalid_request", "spec.jobspec.version"),
        (asked("a", **pool("gpuu")), 400, "unknown_pool", "spec.cluster_assignment.cluster_pool_name"),
        (asked("a", **label("suny")), 400, "unknown_label", "spec.execution_cluster_label.value"),
        (asked("a", cluster="smal"), 400, "unknown_cluster", "spec.cluster"),
        (asked("a", cluster="off"), 400, "cluster_disabled", "spec.cluster"),
        (asked("a", launch_plan={"name": "none"}), 404, "launch_plan_not_found", "name"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_bad_request_is_refused_by_field_and_nothing_is_half_stored(
    shared: FlaskClient, shared_context: Context, body: Any, status: int, error: str, field: str
) -> None:
    with nothing_stored(shared_context):
        refused(shared.post(f"{API}/executions", json=body), status, error, field)
        refused(shared.post(f"{API}/placements", json=body), status, error, field)


def test_a_pool_and_a_label_in_one_request_go_by_the_pool_with_a_warning(shared: FlaskClient, project: str) -> None:
    answer = ok(create(shared, "both", project=project, **pool("gpu"), **label("sunny")))
    assert (answer["execution"]["pool"], answer["execution"]["cluster"]) == ("gpu", "gpu-1")
    assert [warning["code"] for warning in answer["warnings"]] == ["several_places", "unseen_cluster"]
    answer = ok(create(shared, "all", project=project, cluster="small", **pool("gpu"), **label("sunny")))
    assert answer["execution"]["cluster"] == "small"
    assert "the cluster counts" in answer["warnings"][0]["message"]


def test_a_tag_that_no_queue_serves_refuses_the_execution(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    put_attribute(shared, "project", "execution_queue_attributes", {"tags": ["critcal"]}, project=project)
    with nothing_stored(shared_context):
        answer = refused(create(shared, "a", project=project), 400, "unknown_queue_tag", "tags")
    assert f"project {project}" in answer["message"]
    assert answer["details"][0]["closest"] == ["critical"]


# The fence


@pytest.mark.parametrize("fence", [False, {"development": False}], ids=["everywhere", "by-domain"])
def test_behind_a_fence_requests_repeat_the_settings_or_are_refused_naming_the_scope(
    make_app: Callable[..., Any], fence: Any
) -> None:
    app = make_app(**SECTIONS, placement={"requestMayOverride": fence})
    api, context = app.test_client(), app.extensions["rainbow"]
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "base"})
    assert created(api, "silent")["pool"] == "base"
    assert created(api, "same", **pool("base"))["pool"] == "base"
    assert created(api, "member", cluster="base-2")["cluster"] == "base-2"
    with nothing_stored(context):
        for body, field in (
            (pool("gpu"), "spec.cluster_assignment.cluster_pool_name"),
            (label("sunny"), "spec.execution_cluster_label.value"),
            ({"cluster": "gpu-1"}, "spec.cluster"),
        ):
            answer = refused(create(api, "other", **body), 400, "request_fenced", field)
            assert "project flytesnacks says pool 'base'" in answer["message"]
            refused(api.post(f"{API}/placements", json=asked("other", **body)), 400, "request_fenced", field)
    elsewhere = create(api, "elsewhere", domain="staging", **pool("gpu"))
    if fence is False:
        refused(elsewhere, 400, "request_fenced")
    else:
        assert ok(elsewhere)["execution"]["pool"] == "gpu"


def granted(app: Flask, name: str, role: str, scope: Scope) -> FlaskClient:
    """A client that calls with a token of a new user, who has a role."""
    grant = Grant(role=role, grantee=Grantee("user", name), scope=scope)
    grants.create_grant(context_of(app), grant, ChangeOptions())
    return signed_in(app, name)


def test_the_fence_does_not_hold_for_those_whose_role_may_override(make_app: Callable[..., Any]) -> None:
    mover = {"description": "Moves.", "permissions": ["executions.create", "executions.read", "executions.override"]}
    fenced = {"requestMayOverride": {"development": False}}
    app = make_app(**SECTIONS, placement=fenced, roles={"mover": mover})
    context, anybody = context_of(app), app.test_client()
    put_attribute(anybody, "project", "cluster_assignment", {"cluster_pool_name": "base"})
    refused(create(anybody, "nobody", **pool("gpu")), 400, "request_fenced")
    people = {
        name: granted(app, name, role, scope)
        for name, role, scope in (
            ("root", "admin", PLATFORM),
            ("eve", "editor", PLATFORM),
            ("ada", "mover", Scope(project=PROJECT, domain=DOMAIN)),
            ("otto", "mover", Scope(project=PROJECT, domain="staging")),
        )
    }
    for name in ("root", "ada"):
        assert ok(people[name].post(f"{API}/placements", json=asked("x", **pool("gpu"))))["pool"] == "gpu"
        for _ in range(2):  # from the database, and from memory
            assert created(people[name], **pool("gpu"))["pool"] == "gpu"
    body = {"name": "narrow", "narrowed": {"role": "submitter"}}
    token = ok(people["root"].post(f"{API}/users/root/tokens", json=body))["token"]
    narrow = app.test_client()
    narrow.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    refused(create(narrow, **pool("gpu")), 400, "request_fenced")
    for _ in range(2):  # what one of them may is not remembered for another
        refused(create(people["eve"], **pool("gpu")), 400, "request_fenced")
    refused(create(people["otto"], **pool("gpu")), 403, "permission_denied")
    # When it is decided again, or simulated, its creator's right of now counts.
    here, unrelated = (
        {"project": PROJECT, "domain": DOMAIN},
        {"pool_definition": {"name": "new", "members": [{"id": "gpu-1"}]}},
    )
    selector, window = {"selector": here}, {**here, "since": "2000-01-01T00:00:00Z", "changes": [unrelated]}
    simulated = ok(people["root"].post(f"{API}/simulations", json=window))
    assert simulated["by_refusal"] == {}
    grants.delete_grant(context, f"mover:user:ada:{PROJECT}:{DOMAIN}", ANYTHING, ChangeOptions())
    grants.create_grant(context, Grant(role="submitter", grantee=Grantee("user", "ada")), ChangeOptions())
    simulated = ok(people["root"].post(f"{API}/simulations", json=window))
    assert {reason: counts["after"] for reason, counts in simulated["by_refusal"].items()} == {"request_fenced": 2}
    redecided = ok(people["root"].post(f"{API}/executions/redecide", json=selector))
    assert sum("executions.override" in outcome["reason"]["message"] for outcome in redecided["executions"]) == 2


# Ends, states, events


def test_an_execution_is_terminated_once_and_archived_and_brought_back(shared: FlaskClient, project: str) -> None:
    created(shared, "e", project=project, **pool("gpu"))
    path = f"{API}/executions/{project}/development/e"
    ended = ok(shared.delete(path, json={"cause": "no longer needed", "claimed_by": "ann"}))
    assert (ended["phase"], ended["changed"]) == ("ABORTED", True)
    assert ok(shared.delete(path, json={"cause": "again"})) == {**ended, "changed": False}
    stored = execution(shared, "e", project)
    [listed] = get(shared, f"executions/{project}/development")["executions"]
    assert listed["closure"] == stored["closure"]
    requested_at = stored["closure"]["abort_metadata"].pop("requested_at")
    assert requested_at == get(shared, f"executions/{project}/development/e/events")["events"][1]["at"]
    assert (stored["closure"]["abort_metadata"], stored["closure"]["reason"]) == (
        {"cause": "no longer needed", "principal": "ann", "author": "anonymous", "claimed_by": "ann"},
        {"code": "TERMINATED", "message": "no longer needed"},
    )
    assert stored["closure"]["finished_at"] >= stored["closure"]["created_at"]
    for state, changed in (("EXECUTION_ARCHIVED", True), ("ARCHIVED", False), (1, False), ("EXECUTION_ACTIVE", True)):
        assert ok(shared.put(path, json={"state": state}))["changed"] is changed
    ok(shared.put(path, json={"state": "ARCHIVED", "claimed_by": "bob"}))
    refused(shared.put(path, json={"state": "GONE"}), 400, "invalid_request", "state")
    refused(shared.put(path, json={"state": "ACTIVE", "claimed_by": "a\0b"}), 400, "invalid_request", "claimed_by")
    listing = f"executions/{project}/development"
    assert get(shared, listing)["executions"] == []
    assert [execution["state"] for execution in get(shared, f"{listing}?state=ARCHIVED")["executions"]] == ["ARCHIVED"]
    assert len(get(shared, f"{listing}?state=ALL")["executions"]) == 1
    events = get(shared, f"{listing}/e/events")["events"]
    assert [(event["number"], event["type"], event["phase"]) for event in events] == [
        (1, "CREATED", "QUEUED"),
        (2, "ABORTED", "ABORTED"),
        (3, "ARCHIVED", "ABORTED"),
        (4, "ACTIVATED", "ABORTED"),
        (5, "ARCHIVED", "ABORTED"),
    ]
    assert (events[0]["cluster"], events[0]["reason"]["code"], events[1]["by"]) == ("gpu-1", "CLUSTER_EXPECTED", "ann")
    assert (events[1]["author"], events[1]["claimed_by"]) == ("anonymous", "ann")
    assert [(event["author"], event.get("claimed_by")) for event in events[2:]] == [
        ("anonymous", None),
        ("anonymous", None),
        ("anonymous", "bob"),
    ]
    assert (events[0]["author"], events[0]["by"], "claimed_by" in events[0]) == ("anonymous", "anonymous", False)
    page = get(shared, f"{listing}/e/events?limit=2")
    assert page["events"] + get(shared, f"{listing}/e/events?token={page['token']}")["events"] == events
    refused(shared.delete(f"{API}/executions/{project}/development/f", json={}), 404, "execution_not_found", "name")
    assert refused(shared.get(f"{API}/executions/{project}/development/ee"), 404, "execution_not_found")["details"][0][
        "closest"
    ] == ["e"]


def test_news_of_an_execution_are_waited_for(shared: FlaskClient, project: str) -> None:
    created(shared, "e", project=project)
    path = f"executions/{project}/development/e"
    assert get(shared, f"{path}?after_event=0&wait_seconds=30")["events"] == 1
    assert get(shared, f"{path}?after_event=1&wait_seconds=0.1")["events"] == 1
    refused(shared.get(f"{API}/{path}?wait_seconds=61"), 400, "invalid_request", "wait_seconds")


def test_a_selector_terminates_what_fits_and_an_empty_one_nothing(
    shared: FlaskClient, shared_context: Context, project: str
) -> None:
    for name, to in (("a1", "gpu"), ("a2", "gpu"), ("b1", "base")):
        created(shared, name, project=project, **pool(to))
    ok(shared.delete(f"{API}/executions/{project}/development/a2", json={}))

    def terminate(selector: Any, query: str = "") -> Any:
        return shared.post(f"{API}/executions/terminate{query}", json={"selector": selector, "cause": "all"})

    with nothing_stored(shared_context):
        refused(terminate({}), 400, "invalid_request", "selector")
        refused(terminate({"phaze": "QUEUED"}), 400, "invalid_request", "selector.phaze")
        refused(terminate({"phase": "WAITING", "project": project}), 400, "invalid_request", "phase")
        refused(terminate({"project": "nowhere"}), 400, "unknown_project", "project")
        dry = ok(terminate({"project": project, "pool": "gpu"}, "?dry_run=true"))
        assert (dry["matched"], dry["terminated"], dry["dry_run"]) == (1, 0, True)
    done = ok(terminate({"project": project, "pool": "gpu"}))
    assert (done["matched"], done["terminated"], [execution["id"]["name"] for execution in done["executions"]]) == (
        1,
        1,
        ["a1"],
    )
    assert execution(shared, "b1", project)["closure"]["phase"] == "QUEUED"
    assert ok(terminate({"project": project, "filters": "contains(name,b)"}))["terminated"] == 1


def test_what_ended_without_success_is_recovered_and_nothing_else(shared: FlaskClient, project: str) -> None:
    created(shared, "e", project=project, **pool("gpu"))
    body = {"id": {"project": project, "domain": "development", "name": "e"}, "name": "again"}
    refused(shared.post(f"{API}/executions/recover", json=body), 409, "not_recoverable")
    ok(shared.delete(f"{API}/executions/{project}/development/e", json={}))
    answer = ok(shared.post(f"{API}/executions/recover", json=body))["execution"]
    assert (answer["mode"], answer["pool"], answer["reference_execution"]["name"]) == ("RECOVERED", "gpu", "e")
    assert ok(shared.post(f"{API}/executions/recover", json=body))["created"] is False
    refused(shared.post(f"{API}/executions/relaunch", json=body), 409, "execution_exists")
    gone = {"id": {**body["id"], "name": "gone"}}  # type: ignore[dict-item]
    refused(shared.post(f"{API}/executions/relaunch", json=gone), 404, "execution_not_found")


# The queueing budget


def test_a_queueing_budget_that_runs_out_ends_the_execution(
    shared_context: Context, shared: FlaskClient, project: str
) -> None:
    put_attribute(shared, "project", "quality_of_service", {"spec": {"queueing_budget": "90s"}}, project=project)

    def clock(seconds: float) -> Context:
        return replace(shared_context, clock=lambda: NOON + timedelta(seconds=seconds))

    request = read_request(project=project, domain="development", name="e", spec={"job": JOB}, inputs=None)
    create_execution(clock(0), request)
    stored = execution(shared, "e", project)
    assert stored["quality_of_service"] == {"queueing_budget": "90s", "queue_deadline": "2026-03-01T12:01:30Z"}
    assert end_overdue(clock(89.9)) == []
    assert execution(shared, "e", project)["closure"]["phase"] == "QUEUED"
    assert [row.name for row in end_overdue(clock(90))] == ["e"]
    closure = execution(shared, "e", project)["closure"]
    assert (closure["phase"], closure["reason"]["code"]) == ("TIMED_OUT", "QUEUEING_BUDGET_EXCEEDED")
    assert closure["finished_at"] == "2026-03-01T12:01:30Z"
    assert execution(shared, "e", project)["limit_scope"] == f"project {project}"
    assert end_overdue(clock(91)) == []
    assert [event["type"] for event in get(shared, f"executions/{project}/development/e/events")["events"]] == [
        "CREATED",
        "TIMED_OUT",
    ]


# Lists


@pytest.fixture
def listed(shared: FlaskClient, project: str) -> str:
    """A project with twelve executions of all sorts."""
    for number in range(12):
        place = (pool("gpu"), pool("base"), label("sunny"))[number % 3]
        created(shared, f"e{number:02}", project=project, domain=("development", "staging")[number % 2], **place)
    ok(shared.delete(f"{API}/executions/{project}/development/e00", json={}))
    return project


def names(api: FlaskClient, query: str) -> list[str]:
    return [execution["id"]["name"] for execution in get(api, f"executions?{query}")["executions"]]


def test_lists_are_filtered(shared: FlaskClient, listed: str) -> None:
    def find(query: str) -> list[str]:
        return sorted(names(shared, f"project={listed}&{query}"))

    everything = [f"e{number:02}" for number in range(12)]
    assert find("") == everything
    assert find("pool=gpu") == ["e00", "e03", "e06", "e09"]
    assert find("label=sunny&domain=development") == ["e02", "e08"]
    assert find("cluster=sun,gpu-1&domain=staging") == ["e03", "e05", "e09", "e11"]
    assert find("phase=ABORTED") == find("reason=TERMINATED") == ["e00"]
    assert find("phase=QUEUED,ABORTED") == everything
    assert find("mode=RELAUNCH") == find("workflow=wf") == []
    assert find(f"filters={quote('ne(pool,gpu)+eq(domain,staging)')}") == ["e01", "e05", "e07", "e11"]
    assert find("filters=eq(phase,ABORTED)") == ["e00"]
    assert find("filters=value_not_in(pool,gpu;base)") == ["e02", "e05", "e08", "e11"]
    assert find("filters=value_in(label,)") == [name for name in everything if int(name[1:]) % 3 != 2]
    assert find("filters=contains(name,1)") == ["e01", "e10", "e11"]
    assert find("filters=contains(name,%25)") == []
    assert find("filters=gte(name,e10)") == ["e10", "e11"]
    assert find("created_after=1h") == everything
    assert find("created_before=1h") == []
    assert find("created_after=2020-01-01T00:00:00Z&created_before=2020-01-02") == []
    assert find("state=ARCHIVED") == []
    path = f"executions/{listed}/staging"
    assert len(get(shared, path)["executions"]) == 6
    refused(shared.get(f"{API}/{path}?domain=development"), 400, "invalid_request", "domain")
    for query, field in (
        ("phase=WAITING", "phase"),
        ("sort_by.key=color", "sort_by.key"),
        ("sort_by.direction=UP", "sort_by.direction"),
        ("filters=eq(color,red)", "filters"),
        ("token=x", "token"),
        ("limit=0", "limit"),
        ("created_after=soon", "created_after"),
        ("colour=red", "colour"),
    ):
        refused(shared.get(f"{API}/executions?{query}"), 400, "invalid_request", field)


@pytest.mark.parametrize("key", ["created_at", "updated_at", "name", "phase", "cluster", "pool", "label", "duration"])
@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
def test_every_page_comes_once_in_order_and_inserts_disturb_nothing(
    shared: FlaskClient, listed: str, key: str, direction: str
) -> None:
    query = f"project={listed}&sort_by.key={key}&sort_by.direction={direction}"
    complete = names(shared, query)
    assert len(complete) == len(set(complete)) == 12
    assert complete == list(reversed(names(shared, query.replace(direction, _opposite(direction)))))
    listed_names: list[str] = []
    token = ""
    while True:
        page = get(shared, f"executions?{query}&limit=5{token}")
        assert len(page["executions"]) <= 5
        listed_names += [execution["id"]["name"] for execution in page["executions"]]
        created(shared, f"new-{len(listed_names)}", project=listed)
        if "token" not in page:
            break
        token = f"&token={page['token']}"
        if len(listed_names) > 40:
            raise AssertionError("the list does not end")
    assert [name for name in listed_names if not name.startswith("new")] == complete
    assert len(listed_names) == len(set(listed_names))
    if "token=" in token:
        other = "name" if key != "name" else "phase"
        refused(shared.get(f"{API}/executions?sort_by.key={other}{token}"), 400, "invalid_request", "token")


def _opposite(direction: str) -> str:
    return "ASCENDING" if direction == "DESCENDING" else "DESCENDING"


def test_placements_are_counted_by_any_column(shared: FlaskClient, listed: str) -> None:
    def counts(by: str, more: str = "") -> dict[str, int]:
        answer = get(shared, f"placement_counts?by={by}&project={listed}{more}")
        assert answer["total"] == sum(count["count"] for count in answer["counts"])
        sizes = [count["count"] for count in answer["counts"]]
        assert sizes == sorted(sizes, reverse=True)
        return {count["value"]: count["count"] for count in answer["counts"]}

    assert counts("pool") == {"gpu": 4, "base": 4, "": 4}
    assert counts("label", "&domain=staging") == {"": 4, "sunny": 2}
    assert counts("domain", "&since=24h") == {"development": 6, "staging": 6}
    assert counts("phase") == {"QUEUED": 11, "ABORTED": 1}
    assert counts("reason") == {"CLUSTER_EXPECTED": 11, "TERMINATED": 1}
    by_cluster = counts("cluster")
    assert (by_cluster["gpu-1"], by_cluster["sun"], by_cluster.get("base-1", 0) + by_cluster.get("base-2", 0)) == (
        4,
        4,
        4,
    )
    assert counts("phase", "&since=2999-01-01") == {}
    refused(shared.get(f"{API}/placement_counts?by=color"), 400, "invalid_request", "by")
    refused(shared.get(f"{API}/placement_counts"), 400, "invalid_request", "by")


def test_plugins_that_a_cluster_does_not_offer_are_waited_for(shared: FlaskClient, project: str) -> None:
    put_label(shared, "plugged", ["plug-1"])
    report(shared, "plug-1", plugins=["spark"])
    overrides = {"overrides": [{"task_type": "process", "plugin_id": ["mpi", "spark2"]}]}
    put_attribute(shared, "project", "plugin_overrides", overrides, project=project)
    answer = created(shared, "e", project=project, **label("plugged"))
    assert (answer.get("cluster"), answer["closure"]["reason"]["code"]) == (None, "PLUGIN_MISSING")
    assert "'plug-1' offers none of the plugins mpi, spark2" in answer["closure"]["reason"]["message"]
    switch(shared, "plug-1", "disable")


def test_an_execution_records_its_creator_and_keeps_the_principal_of_the_request(api: FlaskClient) -> None:
    metadata = {"principal": "ann", "mode": "SCHEDULED"}
    answer = created(api, "e", metadata=metadata)
    assert (answer["created_by"], answer["principal"], answer["spec"]["metadata"]) == ("anonymous", "ann", metadata)
    created(api, "other")
    read = execution(api, "e")
    assert {name: read[name] for name in answer} == answer
    assert "principal" not in execution(api, "other")
    [listed] = get(api, "executions?principal=ann&created_by=anonymous")["executions"]
    assert (listed["id"]["name"], listed["created_by"], listed["principal"]) == ("e", "anonymous", "ann")
    assert get(api, "executions?created_by=cluster/a")["executions"] == []
    again = ok(api.post(f"{API}/executions/relaunch", json={"id": read["id"], "name": "again"}))["execution"]
    assert (again["created_by"], again["principal"]) == ("anonymous", "ann")


def test_executions_are_selected_by_their_own_labels(api: FlaskClient) -> None:
    created(api, "a", job={"command": ["x"], "labels": {"team": "ml", "example.com/tier-1": "gold"}})
    created(api, "b", labels={"values": {"team": "search"}})
    created(api, "c")
    assert execution(api, "b")["labels"] == {"team": "search"}

    def names(filters: str) -> list[str]:
        query = {"filters": filters, "sort_by.direction": "ASCENDING"}
        listed = ok(api.get(f"{API}/executions", query_string=query))["executions"]
        return [item["id"]["name"] for item in listed]

    assert names("eq(labels.team,ml)") == ["a"]
    assert names("value_in(labels.team,ml;search)") == ["a", "b"]
    assert names("ne(labels.team,ml)") == ["b", "c"]
    assert names("eq(labels.team,)") == ["c"]
    assert names("contains(labels.team,ear)+eq(phase,QUEUED)") == ["b"]
    assert names("eq(labels.example.com/tier-1,gold)") == ["a"]
    assert names("value_in(phase,QUEUED;RUNNING)+ne(labels.team,)") == ["a", "b"]
    body = {"selector": {"filters": "eq(labels.team,ml)"}}
    assert ok(api.post(f"{API}/executions/terminate", json=body))["matched"] == 1
    assert [execution(api, name)["closure"]["phase"] for name in "abc"] == ["ABORTED", "QUEUED", "QUEUED"]
