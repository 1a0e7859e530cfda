"""Rows without effect, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from admin.services.context import Context
from admin.services.no_effect import list_no_effect
from admin.store.attributes import Filter
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    get,
    new_project,
    ok,
    put_attribute,
    put_pool,
    refused,
    register_plan,
    register_workflow,
    switch,
)
from tests.support.statements import statements

SLOW_ON = ("postgresql",)

LABEL = "execution_cluster_label"
POOL = "cluster_assignment"


def reasons(api: FlaskClient, query: str = "") -> Any:
    return get(api, f"matchable_attributes/no_effect{query}")


def codes(api: FlaskClient, query: str = "") -> list[tuple[str, str]]:
    return [(entry["code"], entry["level"]) for entry in reasons(api, query)["warnings"]]


@pytest.fixture
def set_up(api: FlaskClient) -> FlaskClient:
    """Rows of which each but the first two has no effect, for another reason."""
    ok(register_workflow(api, "fit", job={"command": ["true"], "resources": {"requests": {"cpu": "1"}}}))
    ok(register_plan(api, "nightly", "fit", quality_of_service={"tier": "HIGH"}))
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"cpu": "4"}})
    put_pool(api, "hollow", {"a": 1})
    switch(api, "a", "disable")
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "hollow"})
    put_attribute(api, "project-domain", LABEL, {"value": "hollow"})
    put_attribute(api, "workflow", "task_resource_attributes", {"defaults": {"cpu": "1"}}, workflow="fit")
    plan = {"workflow": "fit", "launch_plan": "nightly"}
    put_attribute(api, "launch-plan", "quality_of_service", {"tier": "LOW"}, **plan)
    put_attribute(api, "workflow", "quality_of_service", {"tier": "LOW"}, workflow="fitt")
    return api


EXPECTED = [
    ("empty_pool", "project-domain"),
    ("pool_wins", "project-domain"),
    ("launch_plan_says", "launch-plan"),
    ("unknown_workflow", "workflow"),
    ("ignored_by_job", "workflow"),
]


def test_each_reason_is_said_by_kind_and_scope(set_up: FlaskClient) -> None:
    assert codes(set_up) == EXPECTED
    answer = reasons(set_up)
    assert answer["revision"] == get(set_up, "revisions")["head"]
    assert answer["examined"] == 6
    assert "token" not in answer
    assert codes(set_up, "?resource_type=TASK_RESOURCE") == [("ignored_by_job", "workflow")]
    assert codes(set_up, f"?project={PROJECT}&workflow=fit") == [EXPECTED[2], EXPECTED[4]]
    assert codes(set_up, f"?domain={DOMAIN}") == EXPECTED
    assert codes(set_up, "?domain=staging") == []


def test_an_unknown_name_that_refuses_executions_says_so(api: FlaskClient) -> None:
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "nosuch"})
    put_attribute(api, "domain", "execution_queue_attributes", {"tags": ["nosuch"]}, domain="staging")
    answer = reasons(api)
    assert [(entry["code"], entry["refuses"]) for entry in answer["warnings"]] == [
        ("unknown_pool", True),
        ("unknown_queue_tag", True),
    ]
    assert f"executions at domain {DOMAIN} that follow it are refused" in answer["warnings"][0]["message"]
    put_pool(api, "nosuch", {"a": 1})
    assert all(entry.get("refuses") for entry in reasons(api)["warnings"] if entry["code"] == "unknown_queue_tag")
    assert not any(entry.get("refuses") for entry in reasons(api, f"?domain={DOMAIN}")["warnings"])


def test_pages_hold_the_same_once(set_up: FlaskClient) -> None:
    warnings: list[Any] = []
    examined = 0
    query = "?limit=1"
    while query:
        answer = reasons(set_up, query)
        warnings += answer["warnings"]
        examined += answer["examined"]
        query = f"?limit=1&token={answer['token']}" if "token" in answer else ""
    assert warnings == reasons(set_up)["warnings"]
    assert examined == reasons(set_up)["examined"]


def test_each_reason_names_the_row_and_who_set_it(set_up: FlaskClient) -> None:
    answer = reasons(set_up)
    rows = get(set_up, "matchable_attributes?resource_type=EXECUTION_CLUSTER_LABEL")["configurations"]
    [label] = [entry for entry in answer["warnings"] if entry["code"] == "pool_wins"]
    assert label["version"] == rows[0]["version"]
    revision = answer["revisions"][str(label["version"])]
    assert (revision["revision"], revision["author"]) == (label["version"], "anonymous")


def test_what_active_launch_plans_run_decides_whether_a_job_ignores_a_row(api: FlaskClient) -> None:
    asks = {"command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    ok(register_workflow(api, "fit", job=asks))
    ok(register_plan(api, "nightly", "fit"))
    for level, keys in (("workflow", {}), ("launch-plan", {"launch_plan": "nightly"})):
        put_attribute(api, level, "task_resource_attributes", {"defaults": {"cpu": "1"}}, workflow="fit", **keys)
    both = [("ignored_by_job", "workflow"), ("ignored_by_job", "launch-plan")]
    assert codes(api) == both
    ok(register_workflow(api, "fit", version="v2", job={"command": ["true"]}))
    assert codes(api) == [("ignored_by_job", "launch-plan")]  # a run without a launch plan takes the newest
    ok(register_workflow(api, "fit", version="v3", job=asks))
    assert codes(api) == both
    ok(register_plan(api, "nightly", "fit", version="v2", workflow_id={"name": "fit", "version": "v2"}))
    assert codes(api) == []


def test_a_page_looks_at_a_limited_number_of_rows(app: Flask) -> None:
    api = app.test_client()
    for number in range(3):
        put_attribute(api, "workflow", "quality_of_service", {"tier": "LOW"}, workflow=f"w{number}")
    context = context_of(app)
    conditions = Filter(kinds=("QUALITY_OF_SERVICE_SPECIFICATION",), domain=DOMAIN)
    page = list_no_effect(context, conditions, None, 100, examined=1)
    assert (len(page.warnings), page.next_key) == (3, None)  # a chunk is read at once


def test_a_project_and_a_domain_are_overridden_everywhere_or_somewhere(api: FlaskClient) -> None:
    put_attribute(api, "project", LABEL, {"value": "p"})
    for domain in ("development", "staging"):
        put_attribute(api, "project-domain", LABEL, {"value": "q"}, domain=domain)

    def overridden() -> list[str]:
        warnings = reasons(api, "?resource_type=3")["warnings"]
        return [entry["level"] for entry in warnings if entry["code"] == "overridden"]

    assert overridden() == []
    put_attribute(api, "project-domain", LABEL, {"value": "q"}, domain="production")
    assert overridden() == ["project"]
    put_attribute(api, "domain", LABEL, {"value": "d"})
    others = [project["id"] for project in get(api, "projects")["projects"] if project["id"] != PROJECT]
    for project in others:
        assert overridden() == ["project"]
        put_attribute(api, "project-domain", LABEL, {"value": "q"}, project=project)
    assert overridden() == ["domain", "project"]
    new_project(api, "newcomer")
    assert overridden() == ["project"]
    ok(api.put(f"{API}/projects/newcomer", json={"state": "ARCHIVED"}))
    assert overridden() == ["domain", "project"]


@pytest.mark.parametrize(
    ("broad", "narrow"),
    [((LABEL, "value"), (POOL, "cluster_pool_name")), ((POOL, "cluster_pool_name"), (LABEL, "value"))],
)
def test_a_label_is_overridden_by_more_specific_pools_and_a_pool_by_labels(
    api: FlaskClient, broad: tuple[str, str], narrow: tuple[str, str]
) -> None:
    def put(level: str, row: tuple[str, str], name: str | None, **scope: str) -> None:
        put_attribute(api, level, row[0], {row[1]: name}, **scope)

    def overridden() -> list[str]:
        warnings = reasons(api)["warnings"]
        return sorted(entry["level"] for entry in warnings if entry["code"] == "overridden")

    put("project", broad, "broad")
    put("domain", broad, "broad")
    for domain in ("development", "staging"):
        put("project-domain", narrow, "narrow", domain=domain)
    put("project-domain", narrow, None, domain="production")
    assert overridden() == [], "one that is unset cancels rows of its own kind alone"
    put("project-domain", narrow, "narrow", domain="production")
    assert overridden() == ["project"]
    for project in get(api, "projects")["projects"]:
        put("project-domain", narrow, "narrow", project=project["id"])
    assert overridden() == ["domain", "project"]


def test_rows_of_an_archived_project_and_of_a_kind_that_is_not_declared(app: Flask) -> None:
    api = app.test_client()
    new_project(api, "old")
    put_attribute(api, "project-domain", "quality_of_service", {"tier": "LOW"}, project="old")
    ok(api.put(f"{API}/projects/old", json={"state": "ARCHIVED"}))
    put_attribute(api, "domain", "quality_of_service", {"tier": "LOW"})
    with context_of(app).database.engine.begin() as connection:
        connection.execute(text("UPDATE attributes SET kind = 'GONE' WHERE project = ''"))
    assert codes(api) == [("undeclared_kind", "platform"), ("archived_project", "project-domain")]
    first = reasons(api, "?limit=1")
    assert [entry["code"] for entry in first["warnings"]] == ["undeclared_kind"]
    assert codes(api, f"?limit=1&token={first['token']}") == [("archived_project", "project-domain")]
    assert codes(api, "?project=old") == [("archived_project", "project-domain")]


@pytest.mark.parametrize(
    ("query", "error", "field"),
    [
        ("resource_type=NONE", "invalid_request", "resource_type"),
        ("domain=nowhere", "unknown_domain", None),
        ("project=nobody", "unknown_project", None),
        ("token=x", "invalid_request", "token"),
        ("limit=0", "invalid_request", "limit"),
    ],
)
def test_bad_input_is_refused_by_name(api: FlaskClient, query: str, error: str, field: str | None) -> None:
    refused(api.get(f"{API}/matchable_attributes/no_effect?{query}"), 400, error, field)


def test_each_reason_names_the_revision_that_set_the_field(api: FlaskClient) -> None:
    asks = {"command": ["true"], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    ok(register_workflow(api, "fit", job=asks))
    path = f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/fit?resource_type=0"
    made = [
        ok(api.patch(path, json={"set": {field: value}, "claimed_by": name}))["revision"]
        for field, value, name in (
            ("defaults.cpu", "1", "ana"),
            ("limits.cpu", "4", "ben"),
            ("defaults.memory", "1Gi", "cleo"),
            ("limits.memory", "4Gi", "dan"),
        )
    ]
    answer = reasons(api)
    [entry] = answer["warnings"]
    assert (entry["code"], entry["version"]) == ("ignored_by_job", made[3])
    assert entry["fields"] == ["defaults.cpu", "defaults.memory"]
    assert entry["revisions"] == {"defaults.cpu": made[0], "defaults.memory": made[2]}
    names = {path: answer["revisions"][str(number)]["claimed_by"] for path, number in entry["revisions"].items()}
    assert names == {"defaults.cpu": "ana", "defaults.memory": "cleo"}


def test_of_launch_plans_only_the_workflows_that_they_run_are_read(set_up: FlaskClient, context: Context) -> None:
    put_attribute(set_up, "workflow", LABEL, {"value": "a"}, workflow="fit")
    with statements(context) as seen:
        reasons(set_up, "?workflow=fit&resource_type=EXECUTION_CLUSTER_LABEL")
    # Whole launch plans are read by the names of rows that are for one, of which there is none here.
    by_workflow = [statement for statement in seen if "launch_plans.workflow" in statement.partition("WHERE")[2]]
    assert by_workflow
    assert not any("digest" in statement or "LIMIT" not in statement for statement in by_workflow)
