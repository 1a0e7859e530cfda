"""Executions at their corners: requests that nearly make sense."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

API = "/api/v1"
WHERE = {"project": "flytesnacks", "domain": "development"}
JOB = {"command": ["true"]}


def answer(api: FlaskClient, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    response = api.open(f"{API}/{path}", method=method, json=body)
    return response.status_code, response.json


def ok(api: FlaskClient, method: str, path: str, body: Any = None) -> Any:
    status, document = answer(api, method, path, body)
    assert status == 200, document
    return document


def create(api: FlaskClient, name: str, **spec: Any) -> Any:
    return ok(api, "POST", "executions", {**WHERE, "name": name, "spec": {"job": JOB, **spec}})["execution"]


@pytest.mark.parametrize("key", ["project", "domain"])
@pytest.mark.parametrize("path", ["executions", "placements"])
def test_an_empty_place_is_refused_by_name(api: FlaskClient, key: str, path: str) -> None:
    status, problem = answer(api, "POST", path, {**WHERE, key: "", "spec": {"job": JOB}})
    assert (status, problem["details"][0]["field"]) == (400, key)
    assert answer(api, "GET", f"executions?{key}=")[0] == 400


def test_rolling_back_takes_no_pool_that_is_in_use(api: FlaskClient) -> None:
    revision = ok(api, "PUT", "pools/gpu", {"pool": {"members": [{"id": "a"}]}})["revision"]
    create(api, "one", cluster_assignment={"cluster_pool_name": "gpu"})
    status, problem = answer(api, "POST", "rollbacks", {"revision": revision})
    assert (status, problem["error"]) == (409, "in_use")
    ok(api, "POST", "rollbacks?force=true", {"revision": revision})
    assert answer(api, "GET", "pools/gpu")[0] == 404


def test_rolling_back_takes_no_project_that_has_executions(api: FlaskClient) -> None:
    ok(api, "POST", "projects", {"project": {"id": "fresh", "name": "fresh"}})
    head = ok(api, "GET", "revisions")["head"]
    ok(api, "POST", "executions", {**WHERE, "project": "fresh", "name": "one", "spec": {"job": JOB}})
    status, problem = answer(api, "POST", "rollbacks?force=true", {"revision": head})
    assert status == 400
    assert "Archive it instead" in problem["message"]
    ok(api, "GET", "executions/fresh/development/one")


def test_two_definitions_do_not_stand_in_one_change(api: FlaskClient) -> None:
    members = [{"id": "a"}]
    both = {
        "pool_definition": {"name": "p", "members": members},
        "label_definition": {"name": "l", "members": members},
    }
    status, problem = answer(api, "POST", "attribute_changes", {"changes": [both]})
    assert (status, problem["details"][0]["index"]) == (400, 0)


def test_a_relaunch_with_an_empty_place_keeps_the_old_one(api: FlaskClient) -> None:
    ok(api, "PUT", "pools/gpu", {"pool": {"members": [{"id": "a"}]}})
    create(api, "one", cluster_assignment={"cluster_pool_name": "gpu"})
    body = {"id": {**WHERE, "name": "one"}, "name": "two", "clusterAssignment": {}}
    assert ok(api, "POST", "executions/relaunch", body)["execution"]["pool"] == "gpu"


def test_amounts_beyond_a_pebibyte_are_counted(api: FlaskClient) -> None:
    ok(api, "PUT", "clusters/big", {"cluster": {"capacity": {"memory": "2Pi", "ephemeral_storage": "7Ei"}}})
    ok(api, "PUT", "pools/big", {"pool": {"members": [{"id": "big"}], "strategy": "spill"}})
    ok(
        api,
        "PUT",
        "domain_attributes/development",
        {"attributes": {"matching_attributes": {"task_resource_attributes": {"limits": {"memory": "9Pi"}}}}},
    )
    place = {"cluster_assignment": {"cluster_pool_name": "big"}}
    job = {**JOB, "resources": {"requests": {"memory": "900Ti"}}}
    clusters = [create(api, f"e{number}", **place, job=job).get("cluster") for number in range(3)]
    assert clusters == ["big", "big", None]
    body = {**WHERE, "spec": {**place, "job": {**JOB, "resources": {"requests": {"memory": "3Pi"}}}}}
    assert answer(api, "POST", "executions", body)[1]["error"] == "no_cluster_large_enough"


def test_a_report_of_one_resource_leaves_the_others_as_declared(api: FlaskClient) -> None:
    ok(api, "PUT", "clusters/a", {"cluster": {"capacity": {"executions": 1, "cpu": "64"}}})
    ok(api, "PUT", "pools/p", {"pool": {"members": [{"id": "a"}], "strategy": "spill"}})
    ok(api, "PUT", "clusters/a/state", {"free": {"cpu": "60"}})
    place = {"cluster_assignment": {"cluster_pool_name": "p"}}
    assert [create(api, name, **place).get("cluster") for name in ("one", "two")] == ["a", None]


def test_an_execution_does_not_stand_in_its_own_way_in_a_simulation(api: FlaskClient) -> None:
    for name in ("a", "b"):
        ok(api, "PUT", f"clusters/{name}", {"cluster": {"capacity": {"executions": 1}}})
    pool = {"members": [{"id": "a"}, {"id": "b"}], "strategy": "spill"}
    ok(api, "PUT", "pools/p", {"pool": pool})
    for name in ("one", "two"):
        create(api, name, cluster_assignment={"cluster_pool_name": "p"})
    changes = [{"pool_definition": {"name": "p", **pool, "description": "the same"}}]
    simulation = ok(api, "POST", "simulations", {"changes": changes, "since": "1h"})
    assert (simulation["compared"], simulation["moved"]) == (2, 0)
    assert "" not in simulation["by_cluster"]


def test_proposals_of_projects_count(api: FlaskClient) -> None:
    new = [{"project_definition": {"id": "later", "name": "later"}}]
    body = {"project": "later", "domain": "staging", "spec": {"job": JOB}, "changes": new}
    assert ok(api, "POST", "placements", body)["cluster"] == "local"
    create(api, "one")
    archived = [{"project_definition": {"id": "flytesnacks", "state": "ARCHIVED"}}]
    simulation = ok(api, "POST", "simulations", {"changes": archived, "since": "1h"})
    assert (simulation["moved"], simulation["refused"]) == (1, 1)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "clusters/local/cordon", {"reason": "a\0b"}),
        ("POST", "clusters/local/cordon", {"claimed_by": "a\0b"}),
        ("DELETE", "executions/flytesnacks/development/x", {"claimed_by": "a\0b"}),
        ("GET", "executions/%00/development/x", None),
        ("GET", "workflows/flytesnacks/development/%00", None),
        ("PUT", "pools/%00", {"pool": {"members": [{"id": "a"}]}}),
    ],
)
def test_characters_that_no_database_takes_are_refused(api: FlaskClient, method: str, path: str, body: Any) -> None:
    assert answer(api, method, path, body)[0] == 400


@pytest.mark.parametrize("filters", ["ne(phase,queuing)", "eq(state,gone)", "eq(name,1)eq(name,2)", "eq(mode,nope)"])
def test_filters_that_could_not_be_meant_are_refused(api: FlaskClient, filters: str) -> None:
    assert answer(api, "GET", f"executions?filters={filters}")[0] == 400


def test_filters_heed_case_and_know_what_has_none(api: FlaskClient) -> None:
    ok(api, "PUT", "pools/gpu", {"pool": {"members": [{"id": "a"}]}})
    create(api, "with-pool", cluster_assignment={"cluster_pool_name": "gpu"})
    create(api, "without")

    def names(filters: str) -> list[str]:
        return [execution["id"]["name"] for execution in ok(api, "GET", f"executions?filters={filters}")["executions"]]

    assert names("contains(pool,GP)") == []
    assert names("contains(pool,gp)") == ["with-pool"]
    assert names("ne(pool,)") == names("value_not_in(pool,)") == ["with-pool"]
    assert names("eq(pool,)") == ["without"]


def test_a_page_goes_on_only_in_its_own_order(api: FlaskClient) -> None:
    for name in ("one", "two"):
        create(api, name)
    token = ok(api, "GET", "executions?limit=1")["token"]
    assert answer(api, "GET", f"executions?limit=1&token={token}&sort_by.direction=ASCENDING")[0] == 400


def test_inputs_are_refused_where_they_are_not_filled_in(api: FlaskClient) -> None:
    spec = {"inputs": {"tag": "string"}, "job": {"image": "repo:{{ inputs.tag }}"}}
    body = {"id": {**WHERE, "name": "w", "version": "1"}, "spec": spec}
    status, problem = answer(api, "POST", "workflows", body)
    assert (status, problem["details"][0]["field"]) == (400, "spec.job.image")


def test_a_null_in_the_request_takes_away_what_the_job_says(api: FlaskClient) -> None:
    job = {**JOB, "environment": {"A": "1", "B": "2"}}
    execution = create(api, "one", job=job, envs={"values": [{"key": "A", "value": None}]})
    assert execution["job"]["environment"] == {"B": "2"}


def test_the_stored_explanation_keeps_the_warning(api: FlaskClient) -> None:
    ok(api, "PUT", "pools/gpu", {"pool": {"members": [{"id": "a"}]}})
    create(api, "one", cluster_assignment={"cluster_pool_name": "gpu"}, execution_cluster_label={"value": "mycluster"})
    explanation = ok(api, "GET", "executions/flytesnacks/development/one/explanation")
    assert [warning["code"] for warning in explanation["warnings"]] == ["several_places"]


def test_a_launch_plan_that_names_an_unknown_pool_is_stored_with_a_warning(api: FlaskClient) -> None:
    ok(api, "POST", "workflows", {"id": {**WHERE, "name": "w", "version": "1"}, "spec": {"job": JOB}})
    spec = {"workflow_id": {"name": "w", "version": "1"}, "cluster_assignment": {"cluster_pool_name": "gpu"}}
    registered = ok(api, "POST", "launch_plans", {"id": {**WHERE, "name": "l", "version": "1"}, "spec": spec})
    assert [warning["code"] for warning in registered["warnings"]] == ["unknown_pool"]
