"""Requests that are well-formed JSON and break a rule: each is refused by name, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.robustness.pictures import (
    BASE,
    LAUNCH_PLAN,
    PROJECT,
    PROJECT_DOMAIN,
    WORKFLOW,
    put_body,
    refused,
    seeded,
    shared_sqlite_only,
)

LABEL = put_body("execution_cluster_label", {"value": "mycluster"})


@pytest.fixture
def api(shared: FlaskClient) -> FlaskClient:
    """One admin for them all: what is refused changes nothing."""
    return shared


@pytest.fixture
def new_api(app: Flask) -> FlaskClient:
    return app.test_client()


@pytest.mark.parametrize(
    ("path", "error", "field", "closest"),
    [
        ("project_attributes/flyteexample", "unknown_project", "project", ["flyteexamples"]),
        ("project_domain_attributes/nowhere/development", "unknown_project", "project", []),
        ("project_domain_attributes/flyteexamples/develop", "unknown_domain", "domain", ["development"]),
        ("domain_attributes/product", "unknown_domain", "domain", ["production"]),
        ("workflow_attributes/flytesnack/development/w", "unknown_project", "project", ["flytesnacks"]),
        ("launch_plan_attributes/flyteexamples/stagin/w/l", "unknown_domain", "domain", ["staging"]),
    ],
)
def test_an_unknown_project_or_domain_is_refused_with_the_closest_ones(
    api: FlaskClient, path: str, error: str, field: str, closest: list[str]
) -> None:
    seeded(api)
    for send in (
        lambda: api.put(f"{BASE}/{path}", json=LABEL),
        lambda: api.patch(f"{BASE}/{path}?resource_type=3", json={"set": {"value": "x"}}),
        lambda: api.delete(f"{BASE}/{path}?resource_type=3"),
        lambda: api.get(f"{BASE}/{path}?resource_type=3"),
    ):
        answer = refused(api, send, error=error)
        assert [(detail["field"], detail["closest"]) for detail in answer["details"]] == [(field, closest)]


@shared_sqlite_only
@pytest.mark.parametrize(
    ("method", "path", "body", "field", "meant"),
    [
        ("GET", "matchable_attributes?resource_type=0&levl=project", None, "levl", "level"),
        ("GET", "matchable_attributes?resource_type=0&level=projects", None, "level", "project"),
        ("GET", "projects?state=archive", None, "state", "ARCHIVED"),
        ("GET", "timeline?source=revisions", None, "source", "revision"),
        ("GET", "executions?sort_by.direction=ascend", None, "sort_by.direction", "ASCENDING"),
        ("GET", "execution_counts?by=clusters", None, "by", "cluster"),
        ("GET", "executions?phase=QUEUD", None, "phase", "QUEUED"),
        ("POST", "projects", {"project": {"id": "new", "nam": "New"}}, "project.nam", "name"),
        ("PUT", "projects/flyteexamples", {"state": "archive"}, "state", "ARCHIVED"),
        ("POST", "executions", {"project": "flyteexamples", "domain": "development", "spce": {}}, "spce", "spec"),
        (
            "PUT",
            "domain_attributes/development",
            put_body("quality_of_service", {"tier": "HIHG"}),
            "tier",
            "HIGH",
        ),
        (
            "PUT",
            "domain_attributes/development",
            put_body("cluster_assignment", {"clusterpool_name": "a"}),
            "clusterpool_name",
            "cluster_pool_name",
        ),
    ],
)
def test_an_unknown_field_parameter_or_word_is_refused_with_the_closest(
    api: FlaskClient, method: str, path: str, body: Any, field: str, meant: str
) -> None:
    seeded(api)
    answer = refused(api, lambda: api.open(f"{BASE}/{path}", method=method, json=body))
    [detail] = [detail for detail in answer["details"] if detail["field"].endswith(field)]
    assert meant in detail["closest"]
    assert f"Did you mean '{detail['closest'][0]}'" in answer["message"]


@shared_sqlite_only
@pytest.mark.parametrize(
    "word", ["TASK_RESOURCES", "99", "-1", "", " ", "task_resource_attributes", "0x0", "é", "a" * 101]
)
def test_an_unknown_kind_is_refused(api: FlaskClient, word: str) -> None:
    seeded(api)
    query = {"resource_type": word}
    refused(api, lambda: api.get(PROJECT, query_string=query), field="resource_type")
    refused(api, lambda: api.patch(PROJECT, query_string=query, json={"set": {"value": "x"}}), field="resource_type")
    refused(api, lambda: api.delete(PROJECT, query_string=query), field="resource_type")
    refused(api, lambda: api.delete(PROJECT, json=query), field="resource_type")
    refused(api, lambda: api.get(f"{BASE}/matchable_attributes", query_string=query), field="resource_type")
    refused(api, lambda: api.get(f"{BASE}/effective_attributes", query_string=query), field="resource_type")


@shared_sqlite_only
def test_a_missing_kind_is_refused(api: FlaskClient) -> None:
    seeded(api)
    refused(api, lambda: api.get(PROJECT), field="resource_type")
    refused(api, lambda: api.patch(PROJECT, json={"set": {"value": "x"}}), field="resource_type")
    refused(api, lambda: api.delete(PROJECT), field="resource_type")
    refused(api, lambda: api.delete(PROJECT, json={}), field="resource_type")
    refused(api, lambda: api.get(f"{BASE}/matchable_attributes"), field="resource_type")


@shared_sqlite_only
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "attributes"),
        ({"attributes": None}, "attributes"),
        ({"attributes": []}, "attributes"),
        ({"attributes": "x"}, "attributes"),
        ({"attributes": {}}, "attributes.matching_attributes"),
        ({"attributes": {"matching_attributes": None}}, "attributes.matching_attributes"),
        ({"attributes": {"matching_attributes": {}}}, "matching_attributes"),
        ({"attributes": {"matching_attributes": []}}, "matching_attributes"),
        (put_body("task_resource_attribute", {"limits": {"cpu": "1"}}), "matching_attributes.task_resource_attribute"),
        (put_body("", {"limits": {"cpu": "1"}}), "matching_attributes."),
        (
            {
                "attributes": {
                    "matching_attributes": {
                        "execution_cluster_label": {"value": "x"},
                        "cluster_assignment": {"cluster_pool_name": "gpu"},
                    }
                }
            },
            "matching_attributes",
        ),
        (
            {
                "attributes": {
                    "matching_attributes": {
                        "execution_cluster_label": {"value": "x"},
                        "executionClusterLabel": {"value": "x"},
                    }
                }
            },
            "matching_attributes",
        ),
        ({**LABEL, "attribute": {}}, "attribute"),
        ({**LABEL, "dry_run": True}, "dry_run"),
        ({**LABEL, "message": 5}, "message"),
        ({**LABEL, "message": None}, "message"),
        ({**LABEL, "message": "x" * 1001}, "message"),
        ({**LABEL, "message": "a\x00b"}, "message"),
        ({**LABEL, "claimed_by": "a\x1b[31mb"}, "claimed_by"),
        ({**LABEL, "claimed_by": "x" * 256}, "claimed_by"),
        ({**LABEL, "claimed_by": ["ann"]}, "claimed_by"),
        ({**LABEL, "claimed_by": "ann", "claimedBy": "ann"}, "claimed_by"),
        ({"attributes": {**LABEL["attributes"], "matchingAttributes": {}}}, "attributes.matching_attributes"),
        ({"attributes": {**LABEL["attributes"], "project": "flytesnacks"}}, "attributes.project"),
        ({"attributes": {**LABEL["attributes"], "domain": "staging"}}, "attributes.domain"),
        ({"attributes": {**LABEL["attributes"], "workflow": "w"}}, "attributes.workflow"),
        ({"attributes": {**LABEL["attributes"], "launchPlan": "w"}}, "attributes.launch_plan"),
        ({"attributes": {**LABEL["attributes"], "project": 5}}, "attributes.project"),
        ({"attributes": {**LABEL["attributes"], "org": "x"}}, "attributes.org"),
    ],
)
def test_a_body_of_the_wrong_shape_is_refused(api: FlaskClient, body: Any, field: str) -> None:
    seeded(api)
    refused(api, lambda: api.put(PROJECT_DOMAIN, json=body), field=field)


@shared_sqlite_only
@pytest.mark.parametrize("payload", [None, "x", 5, True, [], [{"value": "x"}], {}])
def test_a_payload_that_is_no_mapping_or_says_nothing_is_refused_by_its_name(api: FlaskClient, payload: Any) -> None:
    seeded(api)
    answer = refused(api, lambda: api.put(PROJECT, json=put_body("execution_cluster_label", payload)))
    assert "execution_cluster_label" in answer["message"], answer["message"]


@shared_sqlite_only
@pytest.mark.parametrize(
    "value",
    [
        "1x",
        "-1",
        -1,
        -0.5,
        "1e999999",
        "1e100",
        "",
        " 1",
        "1 ",
        "1\n",
        "NaN",
        "Infinity",
        "0x10",
        "1_000",
        "１",
        "1,5",
        "9" * 21,
        9223372036854775808,
        1e300,
        "1KI",
        "1mi",
        "+-1",
        ".",
        True,
        [],
        {},
        ["1"],
        pytest.param(10**400, id="a number of four hundred digits"),
        pytest.param(-(10**400), id="a negative number of four hundred digits"),
    ],
)
def test_what_is_no_quantity_is_refused(api: FlaskClient, value: Any) -> None:
    seeded(api)
    body = put_body("task_resource_attributes", {"limits": {"cpu": value}})
    refused(api, lambda: api.put(PROJECT, json=body), field="limits.cpu")
    refused(
        api,
        lambda: api.patch(f"{PROJECT}?resource_type=0", json={"set": {"limits.cpu": value}}),
        field="limits.cpu",
    )


@shared_sqlite_only
@pytest.mark.parametrize(
    ("payload_key", "payload", "field"),
    [
        ("task_resource_attributes", {"limit": {"cpu": "1"}}, "limit"),
        ("task_resource_attributes", {"limits": {"cpus": "1"}}, "limits.cpus"),
        ("task_resource_attributes", {"limits": {"cpu": "1", "CPU": "1"}}, "limits.CPU"),
        ("task_resource_attributes", {"limits": None}, "limits"),
        ("task_resource_attributes", {"limits": "2"}, "limits"),
        ("task_resource_attributes", {"limits": []}, "limits"),
        ("task_resource_attributes", {"limits": {"gpu": "0.5"}}, "limits.gpu"),
        ("task_resource_attributes", {"defaults": {"cpu": "3"}, "limits": {"cpu": "2"}}, "defaults.cpu"),
        ("task_resource_attributes", {"defaults": {"memory": "2Gi"}}, "defaults.memory"),
        (
            "task_resource_attributes",
            {"limits": {"ephemeral_storage": "1Gi", "ephemeralStorage": "2Gi"}},
            "limits.ephemeral_storage",
        ),
        ("cluster_resource_attributes", {"attributes": None}, "attributes"),
        ("cluster_resource_attributes", {"attributes": {"project": "x"}}, "attributes.project"),
        ("cluster_resource_attributes", {"attributes": {"": "x"}}, "attributes."),
        ("cluster_resource_attributes", {"attributes": {"a b": "x"}}, "attributes.a b"),
        ("cluster_resource_attributes", {"attributes": {"quota": 5}}, "attributes.quota"),
        ("cluster_resource_attributes", {"attributes": {"quota": "a\x00"}}, "attributes.quota"),
        ("cluster_resource_attributes", {"attributes": {"quota": "x" * 16385}}, "attributes.quota"),
        ("cluster_resource_attributes", {"attributes": {f"k{i}": "x" for i in range(1025)}}, "attributes"),
        ("execution_queue_attributes", {"tags": []}, "tags"),
        ("execution_queue_attributes", {"tags": "critical"}, "tags"),
        ("execution_queue_attributes", {"tags": ["a", None]}, "tags.1"),
        ("execution_queue_attributes", {"tags": ["a", "a"]}, "tags"),
        ("execution_queue_attributes", {"tags": [f"t{i}" for i in range(257)]}, "tags"),
        ("execution_cluster_label", {"value": "a/b"}, "value"),
        ("execution_cluster_label", {"value": "x" * 300}, "value"),
        ("execution_cluster_label", {"value": "a\x00b"}, "value"),
        ("execution_cluster_label", {"value": "mycluster\n"}, "value"),
        ("execution_cluster_label", {"value": ""}, "value"),
        ("execution_cluster_label", {"value": 5}, "value"),
        ("quality_of_service", {"tier": "HIGHEST"}, "tier"),
        ("quality_of_service", {"tier": 4}, "tier"),
        ("quality_of_service", {"tier": True}, "tier"),
        ("quality_of_service", {"tier": "HIGH", "spec": {"queueing_budget": "1s"}}, "spec"),
        ("quality_of_service", {"spec": {"queueing_budget": "0s"}}, "spec.queueing_budget"),
        ("quality_of_service", {"spec": {"queueing_budget": 600}}, "spec.queueing_budget"),
        ("quality_of_service", {"spec": {"queueing_budget": "1d"}}, "spec.queueing_budget"),
        ("quality_of_service", {"spec": None}, "spec"),
        ("plugin_overrides", {"overrides": None}, "overrides"),
        ("plugin_overrides", {"overrides": {}}, "overrides"),
        ("plugin_overrides", {"overrides": [{"task_type": "a"}]}, "overrides.0.plugin_id"),
        ("plugin_overrides", {"overrides": [{"plugin_id": ["a"]}]}, "overrides.0.task_type"),
        ("plugin_overrides", {"overrides": [{"task_type": "a", "plugin_id": []}]}, "overrides.0.plugin_id"),
        ("plugin_overrides", {"overrides": [None]}, "overrides.0"),
        ("plugin_overrides", {"overrides": ["a"]}, "overrides.0"),
        (
            "plugin_overrides",
            {"overrides": [{"task_type": "a", "plugin_id": ["x"]}, {"task_type": "a", "plugin_id": ["y"]}]},
            "overrides.a",
        ),
        ("workflow_execution_config", {"max_parallelism": -1}, "max_parallelism"),
        ("workflow_execution_config", {"max_parallelism": 2**31}, "max_parallelism"),
        ("workflow_execution_config", {"max_parallelism": 10**400}, "max_parallelism"),
        ("workflow_execution_config", {"max_parallelism": 1.5}, "max_parallelism"),
        ("workflow_execution_config", {"max_parallelism": "5"}, "max_parallelism"),
        ("workflow_execution_config", {"max_parallelism": True}, "max_parallelism"),
        ("workflow_execution_config", {"max_parallelism": 5, "maxParallelism": 5}, "max_parallelism"),
        ("workflow_execution_config", {"interruptible": "true"}, "interruptible"),
        ("workflow_execution_config", {"interruptible": {"value": "true"}}, "interruptible"),
        ("workflow_execution_config", {"interruptible": {"value": True, "x": 1}}, "interruptible"),
        ("workflow_execution_config", {"overwrite_cache": {"value": True}}, "overwrite_cache"),
        ("workflow_execution_config", {"labels": None}, "labels"),
        ("workflow_execution_config", {"labels": {"values": None}}, "labels.values"),
        ("workflow_execution_config", {"labels": {"values": {"-a": "b"}}}, "labels.values.-a"),
        ("workflow_execution_config", {"labels": {"values": {"a": "-b"}}}, "labels.values.a"),
        ("workflow_execution_config", {"labels": {"values": {"a": "b" * 64}}}, "labels.values.a"),
        ("workflow_execution_config", {"labels": {"values": {"A.b/c": "d"}}}, "labels.values.A.b/c"),
        ("workflow_execution_config", {"annotations": {"values": {"a": "\x07"}}}, "annotations.values.a"),
        ("workflow_execution_config", {"envs": {"values": {"1A": "x"}}}, "envs.values.0.key"),
        ("workflow_execution_config", {"envs": {"values": [{"key": "A"}]}}, "envs.values.0.value"),
        ("workflow_execution_config", {"envs": {"values": [{"key": "A", "value": "\x00"}]}}, "envs.values.0.value"),
        (
            "workflow_execution_config",
            {"envs": {"values": [{"key": "A", "value": "1"}, {"key": "A", "value": "2"}]}},
            "envs.values.A",
        ),
        ("workflow_execution_config", {"security_context": None}, "security_context"),
        ("workflow_execution_config", {"security_context": {"run_as": {}}}, "security_context.run_as"),
        ("workflow_execution_config", {"security_context": {"run_as": "root"}}, "security_context.run_as"),
        (
            "workflow_execution_config",
            {"execution_env_assignments": [{"task_type": None}]},
            "execution_env_assignments.0",
        ),
        (
            "workflow_execution_config",
            {"execution_env_assignments": [{"execution_env": {"spec": []}}]},
            "execution_env_assignments.0.execution_env.spec",
        ),
        ("cluster_assignment", {"cluster_pool_name": "a b"}, "cluster_pool_name"),
        ("cluster_assignment", {"clusterPoolName": ".." * 200}, "cluster_pool_name"),
        ("workflow_priority", {"priority": 101}, "priority"),
        ("workflow_priority", {"priority": -1}, "priority"),
        ("workflow_priority", {"priority": "50"}, "priority"),
        ("workflow_priority", {"importance": 50}, "importance"),
    ],
)
def test_a_payload_that_breaks_a_rule_is_refused_by_field(
    api: FlaskClient, payload_key: str, payload: Any, field: str
) -> None:
    seeded(api)
    refused(api, lambda: api.put(PROJECT_DOMAIN, json=put_body(payload_key, payload)), field=field)
    refused(api, lambda: api.put(f"{PROJECT_DOMAIN}?dry_run=true", json=put_body(payload_key, payload)), field=field)


@shared_sqlite_only
@pytest.mark.parametrize("path", [WORKFLOW, LAUNCH_PLAN])
def test_a_kind_is_refused_at_a_level_it_does_not_have(api: FlaskClient, path: str) -> None:
    seeded(api)
    body = put_body("cluster_resource_attributes", {"attributes": {"quota": "1"}})
    patch = {"set": {"attributes": {"quota": "1"}}}
    refused(api, lambda: api.put(path, json=body), field="resource_type")
    refused(api, lambda: api.patch(f"{path}?resource_type=1", json=patch), field="resource_type")
    refused(api, lambda: api.delete(f"{path}?resource_type=1"), field="resource_type")
    refused(api, lambda: api.get(f"{path}?resource_type=1"), field="resource_type")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("project_attributes/FlyteExamples", "project"),
        ("project_attributes/flyte.examples", "project"),
        ("project_attributes/flyteexamples%2Fdevelopment", "project"),
        ("project_attributes/flyteexamples/development", "project"),
        ("project_attributes/..", "project"),
        ("project_attributes/%2e%2e", "project"),
        ("project_attributes/" + "a" * 300, "project"),
        ("project_attributes/a%00b", "project"),
        ("project_attributes/a%0Ab", "project"),
        ("project_attributes//flyteexamples", "project"),
        ("project_attributes/flyteexamples%0A", "project"),
        ("project_attributes/%FF", "project"),
        ("project_attributes/%ED%A0%80", "project"),
        ("project_attributes/-a", "project"),
        ("project_attributes/flyteexamples%20", "project"),
        ("domain_attributes/Development", "domain"),
        ("domain_attributes/development%0A", "domain"),
        ("project_domain_attributes/a%0Ab/development", "project"),
        ("project_domain_attributes/flyteexamples/development%2Fx", "domain"),
        ("workflow_attributes/flyteexamples/development/..", "workflow"),
        ("workflow_attributes/flyteexamples/development/.", "workflow"),
        ("workflow_attributes/flyteexamples/development/%2e%2e", "workflow"),
        ("workflow_attributes/flyteexamples/development/a/b", "workflow"),
        ("workflow_attributes/flyteexamples/development/a%2Fb", "workflow"),
        ("workflow_attributes/flyteexamples/development/a%20b", "workflow"),
        ("workflow_attributes/flyteexamples/development/a%00b", "workflow"),
        ("workflow_attributes/flyteexamples/development/a%0Ab", "workflow"),
        ("workflow_attributes/flyteexamples/development/w%0A", "workflow"),
        ("workflow_attributes/flyteexamples/development/" + "w" * 300, "workflow"),
        ("workflow_attributes/flyteexamples/development/%C3%BC", "workflow"),
        ("launch_plan_attributes/flyteexamples/development/../nightly", "workflow"),
        ("launch_plan_attributes/flyteexamples/development/w/..", "launch_plan"),
        ("launch_plan_attributes/flyteexamples/development/w/" + "l" * 300, "launch_plan"),
        ("launch_plan_attributes/flyteexamples/development/w/a%0Ab", "launch_plan"),
        ("launch_plan_attributes/flyteexamples/development/w%0A/l", "workflow"),
    ],
)
def test_an_ill_formed_name_in_a_path_is_refused_by_its_key(api: FlaskClient, path: str, field: str) -> None:
    seeded(api)
    refused(api, lambda: api.put(f"{BASE}/{path}", json=LABEL), field=field)
    refused(api, lambda: api.patch(f"{BASE}/{path}?resource_type=3", json={"set": {"value": "x"}}), field=field)
    refused(api, lambda: api.delete(f"{BASE}/{path}?resource_type=3"), field=field)
    refused(api, lambda: api.get(f"{BASE}/{path}?resource_type=3"), field=field)


@pytest.mark.parametrize(
    "path",
    [
        "project_attributes/",
        "project_domain_attributes/flyteexamples",
        "project_domain_attributes//development",
        "workflow_attributes/flyteexamples/development/",
        "workflow_attributes/flyteexamples//core.sort",
        "attributes/flyteexamples",
    ],
)
@shared_sqlite_only
def test_a_path_with_a_part_left_out_is_not_found(api: FlaskClient, path: str) -> None:
    seeded(api)
    refused(api, lambda: api.put(f"{BASE}/{path}", json=LABEL), status=404, error="path_not_found")


@shared_sqlite_only
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"project": "Bad"}, "project"),
        ({"project": "a\x00"}, "project"),
        ({"domain": "a" * 300}, "domain"),
        ({"workflow": "w"}, "project"),
        ({"project": "flyteexamples", "workflow": "w"}, "domain"),
        ({"project": "flyteexamples", "domain": "development", "launch_plan": "l"}, "workflow"),
        ({"project": "flyteexamples", "domain": "development", "workflow": ".."}, "workflow"),
        ({"project": "flyteexamples", "launchPlan": "l", "launch_plan": "l"}, "launch_plan"),
        ({"org": "x"}, "org"),
    ],
)
def test_a_bad_scope_in_a_query_is_refused(api: FlaskClient, query: dict[str, str], field: str) -> None:
    refused(api, lambda: api.get(f"{BASE}/effective_attributes", query_string=query), field=field)


@pytest.mark.parametrize("key", ["project", "domain", "workflow", "launch_plan"])
@pytest.mark.parametrize("value", ["a\x00b", "\x00", "'; DROP TABLE attributes; --", "%", "é", "x" * 5000])
def test_a_filter_of_odd_letters_finds_nothing_or_is_refused(api: FlaskClient, key: str, value: str) -> None:
    seeded(api)
    response = api.get(f"{BASE}/matchable_attributes", query_string={"resource_type": "all", key: value})
    if response.status_code == 200:
        assert response.get_json() == {"configurations": []}
    else:
        assert (response.status_code, response.get_json()["details"][0]["field"]) == (400, key)


@pytest.mark.parametrize(
    "letters", ["%00", "a%00b", "%0A", "%FF", "%ED%A0%80", "..", "a%2Fb", "A", "x" * 5000, "'%20OR%201=1"]
)
def test_a_project_of_odd_letters_is_not_found(api: FlaskClient, letters: str) -> None:
    for send in (
        lambda: api.get(f"{BASE}/projects/{letters}"),
        lambda: api.put(f"{BASE}/projects/{letters}", json={"description": "x"}),
        lambda: api.patch(f"{BASE}/projects/{letters}", json={"state": "ARCHIVED"}),
    ):
        answer = refused(api, send, status=404, error="project_not_found")
        assert [detail["field"] for detail in answer["details"]] == ["project"]


@shared_sqlite_only
@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"set": {"limits": {"cpu": "1"}}, "unset": ["limits.cpu"]}, "limits.cpu"),
        ({"set": {"limits.cpu": "1"}, "inherit": ["limits.cpu"]}, "limits.cpu"),
        ({"unset": ["limits.cpu"], "inherit": ["limits.cpu"]}, "limits.cpu"),
        ({"unset": ["limits.cpu", "limits.cpu"]}, "limits.cpu"),
        ({"unset": ["limits.ephemeral_storage", "limits.ephemeralStorage"]}, "limits.ephemeral_storage"),
        ({"set": {"limits": {"cpu": "1"}, "limits.cpu": "2"}}, "limits.cpu"),
        ({"set": {"limits.ephemeral_storage": "1", "limits.ephemeralStorage": "1"}}, "limits.ephemeral_storage"),
        ({"unset": ["limits.cpus"]}, "limits.cpus"),
        ({"unset": [""]}, ""),
        ({"unset": ["."]}, ""),
        ({"unset": ["limits."]}, "limits"),
        ({"unset": ["limits.cpu."]}, None),
        ({"unset": ["limits..cpu"]}, "limits."),
        ({"inherit": ["nothing"]}, "nothing"),
        ({"set": {"limits.cpus": "1"}}, "limits.cpus"),
        ({"unset": ["limits.cpu.millis"]}, "limits.cpu"),
        ({"inherit": ["limits.cpu.millis"]}, "limits.cpu"),
        ({"set": {"limits.cpu.millis": "1"}}, "limits.cpu"),
        ({"unset": ["limits"]}, "limits"),
        ({"inherit": ["limits"]}, "limits"),
        ({"set": {"limits": None}}, "limits"),
        ({"set": {"limits": "1"}}, "limits"),
        ({"set": {"defaults": {"cpu": "3"}}}, "defaults.cpu"),
        ({"set": []}, "set"),
        ({"set": None}, "set"),
        ({"set": "limits.cpu=1"}, "set"),
        ({"unset": "limits.cpu"}, "unset"),
        ({"unset": [5]}, "unset.0"),
        ({"unset": [None]}, "unset.0"),
        ({"inherit": {"limits": "cpu"}}, "inherit"),
        ({"unset": ["limits.cpu\x00"]}, None),
        ({"delete": ["limits.cpu"]}, "delete"),
        ({}, None),
        ({"set": {}, "unset": [], "inherit": []}, None),
        ({"message": "why"}, None),
    ],
)
def test_a_patch_that_makes_no_sense_is_refused(api: FlaskClient, patch: dict[str, Any], field: str | None) -> None:
    seeded(api)
    refused(api, lambda: api.patch(f"{PROJECT_DOMAIN}?resource_type=0", json=patch), field=field)


@pytest.mark.parametrize(
    ("number", "patch", "field"),
    [
        (6, {"set": {"envs.values.HOME": 5}}, "envs.values.HOME"),
        (6, {"set": {"envs.values.HOME": ["x"]}}, "envs.values.HOME"),
        (6, {"set": {"envs.values.HOME": {"key": "PATH", "value": "x"}}}, "envs.values.HOME"),
        (6, {"set": {"envs.values.HOME": {"value": "x", "more": "y"}}}, "envs.values.HOME"),
        (6, {"set": {"labels.values.": "x"}}, "labels.values"),
        (6, {"set": {"labels.values.a b": "x"}}, "labels.values.a b"),
        (6, {"unset": ["labels.values.a b"]}, "labels.values.a b"),
        (6, {"set": {"labels.values": {"a": "b"}}}, "labels.values"),
        (6, {"set": {"security_context.run_as.iam_role": "x"}}, "security_context.run_as"),
        (5, {"set": {"overrides.python": 5}}, "overrides.python"),
        (5, {"set": {"overrides.python": {"plugin_id": []}}}, "overrides.python"),
        (4, {"set": {"tier": "LOW", "spec": {"queueing_budget": "1s"}}}, "spec"),
    ],
)
def test_a_patch_of_a_keyed_leaf_that_makes_no_sense_is_refused(
    api: FlaskClient, number: int, patch: dict[str, Any], field: str
) -> None:
    seeded(api)
    refused(api, lambda: api.patch(f"{WORKFLOW}?resource_type={number}", json=patch), field=field)


@shared_sqlite_only
@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"If-Match": ""}, "If-Match"),
        ({"If-Match": "abc"}, "If-Match"),
        ({"If-Match": '"-1"'}, "If-Match"),
        ({"If-Match": '"1.0"'}, "If-Match"),
        ({"If-Match": '"1", "2"'}, "If-Match"),
        ({"If-Match": "9" * 19}, "If-Match"),
        ({"If-Match": "٣"}, "If-Match"),
        ({"If-None-Match": '"1"'}, "If-None-Match"),
        ({"If-None-Match": ""}, "If-None-Match"),
        ({"If-None-Match": '"*"'}, "If-None-Match"),
        ({"If-Match": '"1"', "If-None-Match": "*"}, "If-Match"),
    ],
)
def test_a_precondition_that_cannot_be_read_is_refused(api: FlaskClient, headers: dict[str, str], field: str) -> None:
    seeded(api)
    headers = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    refused(api, lambda: api.put(PROJECT, json=LABEL, headers=headers), field=field)
    refused(
        api,
        lambda: api.patch(f"{PROJECT}?resource_type=3", json={"set": {"value": "x"}}, headers=headers),
        field=field,
    )
    refused(api, lambda: api.delete(f"{PROJECT}?resource_type=3", headers=headers), field=field)


@pytest.mark.parametrize(
    ("path", "headers", "version"),
    [
        (PROJECT, {"If-Match": '"2"'}, 3),
        (PROJECT, {"If-Match": '"999999999999999999"'}, 3),
        (PROJECT, {"If-Match": '"0"'}, 3),
        (PROJECT, {"If-None-Match": "*"}, 3),
        (LAUNCH_PLAN, {"If-Match": '"3"'}, None),
        (LAUNCH_PLAN, {"If-Match": "*"}, None),
    ],
)
def test_a_stale_precondition_is_a_conflict_that_tells_the_version(
    api: FlaskClient, path: str, headers: dict[str, str], version: int | None
) -> None:
    seeded(api)
    body = put_body("execution_cluster_label", {"value": "other"})
    for send in (
        lambda: api.put(path, json=body, headers=headers),
        lambda: api.put(f"{path}?dry_run=true", json=body, headers=headers),
        lambda: api.patch(f"{path}?resource_type=3", json={"set": {"value": "other"}}, headers=headers),
        lambda: api.delete(f"{path}?resource_type=3", headers=headers),
    ):
        [detail] = refused(api, send, status=409, error="version_conflict")["details"]
        assert detail.get("current_version") == version
        assert detail["resource_type"] == "EXECUTION_CLUSTER_LABEL"


@shared_sqlite_only
@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("GET", "kinds?x=1", "x"),
        ("GET", "domains?limit=1", "limit"),
        ("GET", "warnings?resource_type=0", "resource_type"),
        ("GET", "version?v=1", "v"),
        ("GET", "projects/flyteexamples?full=1", "full"),
        ("GET", "projects?page=2", "page"),
        ("GET", "projects?limit=0", "limit"),
        ("GET", "projects?limit=-1", "limit"),
        ("GET", "projects?limit=1001", "limit"),
        ("GET", "projects?limit=ten", "limit"),
        ("GET", "projects?limit=1.5", "limit"),
        ("GET", "projects?limit=", "limit"),
        ("GET", "projects?limit=1_0", "limit"),
        ("GET", "projects?limit=%D9%A1", "limit"),
        ("GET", "projects?limit=" + "9" * 5000, "limit"),
        ("GET", "projects?limit=1&limit=2", "limit"),
        ("GET", "projects?state=active", "state"),
        ("GET", "projects?state=", "state"),
        ("GET", "projects?token=abc", "token"),
        ("GET", "projects?token=%00", "token"),
        ("GET", "projects?token=%C3%A9", "token"),
        ("GET", "projects?token=WyJhIiwiYiJd", "token"),  # two parts, where a list of projects has one
        ("GET", "projects?token=WzFd", "token"),  # a number
        ("GET", "projects?token=WyJcdTAwMDAiXQ", "token"),  # a NUL
        ("GET", "projects?token=WyJcdWQ4MDAiXQ", "token"),  # half a character
        ("GET", "projects?token=" + "W1tb" * 1000, "token"),
        ("GET", "projects?token=" + "a" * 4097, "token"),
        ("GET", "matchable_attributes?resource_type=all&token=WyJhIl0", "token"),
        ("GET", "matchable_attributes?resource_type=all&level=platform", "level"),
        ("GET", "matchable_attributes?resource_type=all&level=", "level"),
        ("GET", "matchable_attributes?resource_type=0&resource_type=1", "resource_type"),
        ("GET", "matchable_attributes?resource_type=0&resourceType=0", "resource_type"),
        ("GET", "matchable_attributes?resource_type=0&filters=x", "filters"),
        ("GET", "project_attributes/flyteexamples?resource_type=3&exact=1", "exact"),
        ("GET", "project_attributes/flyteexamples?resource_type=3&exact=", "exact"),
        ("GET", "project_attributes/flyteexamples?resource_type=3&dry_run=true", "dry_run"),
        ("DELETE", "project_attributes/flyteexamples?resource_type=3&dry_run=yes", "dry_run"),
        ("DELETE", "project_attributes/flyteexamples?resource_type=3&dry_run=true&dry_run=false", "dry_run"),
        ("DELETE", "project_attributes/flyteexamples?resource_type=3&dry_run=true&dryRun=true", "dry_run"),
        ("DELETE", "project_attributes/flyteexamples?resource_type=3&message=a%00", "message"),
        ("DELETE", "project_attributes/flyteexamples?resource_type=3&claimed_by=a%1B", "claimed_by"),
        ("DELETE", "project_attributes/flyteexamples?resource_type=3&force=true", "force"),
    ],
)
def test_a_bad_query_is_refused(api: FlaskClient, method: str, path: str, field: str) -> None:
    seeded(api)
    refused(api, lambda: api.open(f"{BASE}/{path}", method=method), field=field)


@shared_sqlite_only
def test_a_query_and_a_body_that_contradict_each_other_are_refused(api: FlaskClient) -> None:
    seeded(api)
    refused(
        api,
        lambda: api.delete(f"{PROJECT}?resource_type=3", json={"resource_type": "TASK_RESOURCE"}),
        field="resource_type",
    )
    refused(api, lambda: api.delete(f"{PROJECT}?resource_type=3&message=a", json={"message": "b"}), field="message")


MANY_LABELS = {f"label{number}": "x" for number in range(17)}


@shared_sqlite_only
@pytest.mark.parametrize(
    ("project", "field"),
    [
        (None, "project"),
        ([], "project"),
        ({}, "project.id"),
        ({"id": None}, "project.id"),
        ({"id": ""}, "project.id"),
        ({"id": 5}, "project.id"),
        ({"id": "Search"}, "project.id"),
        ({"id": "search\n"}, "project.id"),
        ({"id": "a\x00"}, "project.id"),
        ({"id": ".."}, "project.id"),
        ({"id": "a/b"}, "project.id"),
        ({"id": "a" * 64}, "project.id"),
        ({"id": "ü"}, "project.id"),
        ({"id": "search", "name": ""}, "project.name"),
        ({"id": "search", "name": "x" * 65}, "project.name"),
        ({"id": "search", "name": "a\x00"}, "project.name"),
        ({"id": "search", "name": None}, "project.name"),
        ({"id": "search", "description": "x" * 301}, "project.description"),
        ({"id": "search", "description": "\x1b"}, "project.description"),
        ({"id": "search", "state": "GONE"}, "project.state"),
        ({"id": "search", "state": 2}, "project.state"),
        ({"id": "search", "state": True}, "project.state"),
        ({"id": "search", "state": []}, "project.state"),
        ({"id": "search", "state": None}, "project.state"),
        ({"id": "search", "labels": None}, "project.labels"),
        ({"id": "search", "labels": {"team": "a"}}, "project.labels.team"),
        ({"id": "search", "labels": {"values": []}}, "project.labels.values"),
        ({"id": "search", "labels": {"values": {"team": 5}}}, "project.labels.values.team"),
        ({"id": "search", "labels": {"values": {"team": None}}}, "project.labels.values.team"),
        ({"id": "search", "labels": {"values": {"a b": "c"}}}, "project.labels.values.a b"),
        ({"id": "search", "labels": {"values": {"a": "-c"}}}, "project.labels.values.a"),
        ({"id": "search", "labels": {"values": MANY_LABELS}}, "project.labels"),
        ({"id": "search", "owner": "ann"}, "project.owner"),
        ({"id": "search", "domains": []}, "project.domains"),
    ],
)
def test_a_bad_project_is_not_created(api: FlaskClient, project: Any, field: str) -> None:
    refused(api, lambda: api.post(f"{BASE}/projects", json={"project": project}), field=field)


@shared_sqlite_only
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"id": "other"}, "id"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"description": None}, "description"),
        ({"state": "archived"}, "state"),
        ({"state": 2}, "state"),
        ({"labels": {"values": {"a": "b c"}}}, "labels.values.a"),
        ({"labels": {"values": MANY_LABELS}}, "labels"),
        ({"labels": []}, "labels"),
        ({"id": "flytesnacks"}, "id"),
        ({"org": "acme"}, "org"),
    ],
)
def test_a_bad_change_of_a_project_is_refused(api: FlaskClient, method: str, body: Any, field: str) -> None:
    refused(api, lambda: api.open(f"{BASE}/projects/flyteexamples", method=method, json=body), field=field)


def test_a_project_is_not_created_twice(api: FlaskClient) -> None:
    answer = refused(
        api,
        lambda: api.post(f"{BASE}/projects", json={"project": {"id": "flyteexamples", "name": "mine"}}),
        status=409,
        error="project_exists",
    )
    assert (answer["code"], answer["details"]) == (6, [{"field": "project.id", "reason": "is taken."}])


@pytest.mark.parametrize("query", ["", "&dry_run=true"])
def test_an_archived_project_is_readable_and_not_writable(new_api: FlaskClient, query: str) -> None:
    seeded(new_api)
    assert new_api.patch(f"{BASE}/projects/flyteexamples", json={"state": "ARCHIVED"}).get_json()["state"] == "ARCHIVED"
    for path in (PROJECT, PROJECT_DOMAIN, WORKFLOW, LAUNCH_PLAN):
        for send in (
            lambda path=path: new_api.put(f"{path}?{query}", json=LABEL),
            lambda path=path: new_api.patch(f"{path}?resource_type=3{query}", json={"set": {"value": "x"}}),
            lambda path=path: new_api.delete(f"{path}?resource_type=3{query}"),
        ):
            answer = refused(new_api, send, error="project_archived", field="project")
            assert answer["code"] == 9
    assert new_api.get(f"{PROJECT}?resource_type=3&exact=true").status_code == 200
    assert new_api.put(f"{BASE}/domain_attributes/development", json=LABEL).status_code == 200


@shared_sqlite_only
@pytest.mark.parametrize(
    ("method", "path"), [("POST", PROJECT), ("DELETE", f"{BASE}/projects/flyteexamples"), ("PUT", f"{BASE}/kinds")]
)
def test_a_method_that_a_path_does_not_take_is_refused(api: FlaskClient, method: str, path: str) -> None:
    seeded(api)
    refused(api, lambda: api.open(path, method=method, json=LABEL), status=405, error="method_not_allowed")
    assert "GET" in api.open(path, method=method, json=LABEL).headers["Allow"]
