"""Unusual requests that must work: other spellings, odd letters, and writing back what was read."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.robustness.pictures import BASE, PROJECT, PROJECT_DOMAIN, WORKFLOW, put_body, sqlite_only, stored

KIND_NAMES = [
    "TASK_RESOURCE",
    "CLUSTER_RESOURCE",
    "EXECUTION_QUEUE",
    "EXECUTION_CLUSTER_LABEL",
    "QUALITY_OF_SERVICE_SPECIFICATION",
    "PLUGIN_OVERRIDE",
    "WORKFLOW_EXECUTION_CONFIG",
    "CLUSTER_ASSIGNMENT",
    "TOKEN_POOL_QUOTA",
    "EXECUTION_QUOTA",
    "WORKFLOW_PRIORITY",
]
LEVELS = {
    "domain": f"{BASE}/domain_attributes/development",
    "project": PROJECT,
    "project-domain": PROJECT_DOMAIN,
    "workflow": WORKFLOW,
    "launch-plan": f"{BASE}/launch_plan_attributes/flyteexamples/development/core.sort/nightly",
}


def kind_called(api: FlaskClient, name: str) -> dict[str, Any]:
    kind: dict[str, Any] = {kind["name"]: kind for kind in api.get(f"{BASE}/kinds").get_json()["kinds"]}[name]
    return kind


def payload_at(api: FlaskClient, path: str, name: str) -> Any:
    answer = api.get(f"{path}?resource_type={name}&exact=true").get_json()
    [payload] = answer["attributes"]["matching_attributes"].values()
    return payload


def test_every_kind_is_named_here(api: FlaskClient) -> None:
    assert [kind["name"] for kind in api.get(f"{BASE}/kinds").get_json()["kinds"]] == KIND_NAMES


@pytest.mark.parametrize("name", KIND_NAMES)
def test_reading_and_writing_back_changes_nothing_at_any_level(api: FlaskClient, name: str) -> None:
    kind = kind_called(api, name)
    for level in kind["levels"]:
        path = LEVELS[level]
        first = api.put(path, json=put_body(kind["payload_key"], kind["example"]))
        assert (first.status_code, first.get_json()["changed"]) == (200, True), first.get_json()
        read = api.get(f"{path}?resource_type={name}")
        version = read.get_json()["version"]
        before = stored(api)
        for body in ({"attributes": read.get_json()["attributes"]}, put_body(name, kind["example"])):
            again = api.put(path, json=body, headers={"If-Match": read.headers["ETag"]})
            answer = again.get_json()
            assert (again.status_code, answer["changed"]) == (200, False)
            assert (answer["version"], answer["revision"]) == (version, version)
        assert stored(api) == before


@pytest.mark.parametrize(
    ("payload_key", "payload"),
    [
        ("task_resource_attributes", {"defaults": {"cpu": None}, "limits": {"memory": None, "gpu": "1"}}),
        ("cluster_resource_attributes", {"attributes": {"projectQuotaCpu": None, "b": ""}}),
        ("execution_queue_attributes", {"tags": None}),
        ("execution_cluster_label", {"value": None}),
        ("quality_of_service", {"tier": None}),
        ("quality_of_service", {"spec": {"queueing_budget": None}}),
        ("plugin_overrides", {"overrides": [{"task_type": "python", "plugin_id": None}]}),
        (
            "workflow_execution_config",
            {
                "max_parallelism": None,
                "security_context": {"run_as": None, "secrets": None},
                "raw_output_data_config": {"output_location_prefix": None},
                "labels": {"values": {"app.kubernetes.io/name": None}},
                "annotations": {"values": {"a": None}},
                "interruptible": None,
                "envs": {"values": [{"key": "HOME", "value": None}, {"key": "A", "value": ""}]},
                "execution_env_assignments": None,
            },
        ),
        ("cluster_assignment", {"cluster_pool_name": None}),
        ("workflow_priority", {"priority": None}),
    ],
)
def test_a_row_with_nulls_comes_back_as_it_was_written(api: FlaskClient, payload_key: str, payload: Any) -> None:
    first = api.put(PROJECT_DOMAIN, json=put_body(payload_key, payload))
    assert (first.status_code, first.get_json()["changed"]) == (200, True), first.get_json()
    [row] = api.get(f"{BASE}/matchable_attributes?resource_type=all").get_json()["configurations"]
    assert row["attributes"] == {payload_key: payload}
    before = stored(api)
    attributes = api.get(f"{PROJECT_DOMAIN}?resource_type={row['resource_type']}").get_json()["attributes"]
    again = api.put(PROJECT_DOMAIN, json={"attributes": attributes})
    assert (again.status_code, again.get_json()["changed"]) == (200, False)
    assert stored(api) == before


@pytest.mark.parametrize(
    ("name", "payloads", "normal"),
    [
        (
            "TASK_RESOURCE",
            {"taskResourceAttributes": {"limits": {"ephemeralStorage": "1Gi"}}},
            {"limits": {"ephemeral_storage": "1Gi"}},
        ),
        ("TASK_RESOURCE", {"TASK_RESOURCE": {"limits": {"cpu": 1}}}, {"limits": {"cpu": "1"}}),
        ("TASK_RESOURCE", {"task_resource_attributes": {"limits": {"cpu": 0.5}}}, {"limits": {"cpu": "0.5"}}),
        ("TASK_RESOURCE", {"task_resource_attributes": {"limits": {"cpu": 0}}}, {"limits": {"cpu": "0"}}),
        ("QUALITY_OF_SERVICE_SPECIFICATION", {"qualityOfService": {"tier": 1}}, {"tier": "HIGH"}),
        ("QUALITY_OF_SERVICE_SPECIFICATION", {"quality_of_service": {"tier": 0}}, {"tier": "UNDEFINED"}),
        (
            "QUALITY_OF_SERVICE_SPECIFICATION",
            {"qualityOfService": {"spec": {"queueingBudget": "1h30m"}}},
            {"spec": {"queueing_budget": "1h30m"}},
        ),
        (
            "PLUGIN_OVERRIDE",
            {"pluginOverrides": {"overrides": [{"taskType": "a", "pluginId": ["b"], "missingPluginBehavior": 1}]}},
            {"overrides": [{"task_type": "a", "plugin_id": ["b"], "missing_plugin_behavior": "USE_DEFAULT"}]},
        ),
        ("WORKFLOW_EXECUTION_CONFIG", {"workflowExecutionConfig": {"maxParallelism": 5.0}}, {"max_parallelism": 5}),
        (
            "WORKFLOW_EXECUTION_CONFIG",
            {"workflow_execution_config": {"interruptible": {"value": True}}},
            {"interruptible": True},
        ),
        (
            "WORKFLOW_EXECUTION_CONFIG",
            {"workflow_execution_config": {"envs": {"values": {"A": "1", "B": "", "C": None}}}},
            {"envs": {"values": [{"key": "A", "value": "1"}, {"key": "B", "value": ""}, {"key": "C", "value": None}]}},
        ),
        (
            "WORKFLOW_EXECUTION_CONFIG",
            {"workflow_execution_config": {"annotations": {"values": {"note": ""}}, "labels": {"values": {"x": ""}}}},
            {"annotations": {"values": {"note": ""}}, "labels": {"values": {"x": ""}}},
        ),
        (
            "WORKFLOW_EXECUTION_CONFIG",
            {"workflow_execution_config": {"annotations": {"values": {"note": "日本 😀 ünï\n\tcode"}}}},
            {"annotations": {"values": {"note": "日本 😀 ünï\n\tcode"}}},
        ),
        (
            "WORKFLOW_EXECUTION_CONFIG",
            {"workflow_execution_config": {"securityContext": {"runAs": {"iamRole": "r", "k8sServiceAccount": ""}}}},
            {"security_context": {"run_as": {"iam_role": "r"}}},
        ),
        ("EXECUTION_QUEUE", {"executionQueueAttributes": {"tags": ["ü", "日本"]}}, {"tags": ["ü", "日本"]}),
        ("CLUSTER_ASSIGNMENT", {"clusterAssignment": {"clusterPoolName": "gpu"}}, {"cluster_pool_name": "gpu"}),
    ],
)
def test_another_spelling_is_stored_in_the_one_normal_form(
    api: FlaskClient, name: str, payloads: Any, normal: Any
) -> None:
    answer = api.put(PROJECT, json={"attributes": {"matchingAttributes": payloads}, "claimedBy": "ännchen"})
    assert (answer.status_code, answer.get_json()["changed"]) == (200, True), answer.get_json()
    assert payload_at(api, PROJECT, name) == normal
    assert api.get(f"{PROJECT}?resourceType={name}").get_json()["claimed_by"] == "ännchen"
    [payload_key] = api.get(f"{PROJECT}?resource_type={name}").get_json()["attributes"]["matching_attributes"]
    assert api.put(PROJECT, json=put_body(payload_key, normal)).get_json()["changed"] is False


@pytest.mark.parametrize("key", ["app.kubernetes.io/name", "a", "a.b.c", "x-y.z/A_b.C", "values", "labels.values.x"])
@pytest.mark.parametrize("section", ["labels", "annotations"])
def test_a_key_with_dots_and_slashes_goes_through_every_patch(api: FlaskClient, section: str, key: str) -> None:
    path, leaf = f"{WORKFLOW}?resource_type=6", f"{section}.values.{key}"
    assert api.put(WORKFLOW, json=put_body("workflow_execution_config", {"max_parallelism": 5})).status_code == 200

    def after(patch: dict[str, Any]) -> Any:
        answer = api.patch(path, json=patch)
        assert (answer.status_code, answer.get_json()["changed"]) == (200, True), answer.get_json()
        return payload_at(api, WORKFLOW, "6")

    row = {"max_parallelism": 5}
    assert after({"set": {leaf: "one"}}) == {**row, section: {"values": {key: "one"}}}
    assert after({"unset": [leaf]}) == {**row, section: {"values": {key: None}}}
    assert after({"set": {section: {"values": {key: "two"}}}}) == {**row, section: {"values": {key: "two"}}}
    assert after({"set": {leaf: None}}) == {**row, section: {"values": {key: None}}}
    assert after({"inherit": [leaf]}) == row


def test_an_environment_variable_is_patched_by_its_name(api: FlaskClient) -> None:
    path = f"{WORKFLOW}?resource_type=6"
    body = put_body("workflow_execution_config", {"envs": {"values": {"HOME": "/root", "my.VAR": "1"}}})
    assert api.put(WORKFLOW, json=body).status_code == 200
    assert api.patch(path, json={"set": {"envs.values.HOME": {"value": "/home"}}}).status_code == 200
    assert api.patch(path, json={"unset": ["envs.values.my.VAR"]}).status_code == 200
    assert payload_at(api, WORKFLOW, "6") == {
        "envs": {"values": [{"key": "HOME", "value": "/home"}, {"key": "my.VAR", "value": None}]}
    }


@pytest.mark.parametrize(
    ("number", "leaf", "value", "payload"),
    [
        (6, "envs.values.HOME", "/home", {"envs": {"values": [{"key": "HOME", "value": "/home"}]}}),
        (5, "overrides.python", ["a"], {"overrides": [{"task_type": "python", "plugin_id": ["a"]}]}),
    ],
)
def test_an_entry_of_a_keyed_list_is_set_by_its_plain_value(
    api: FlaskClient, number: int, leaf: str, value: Any, payload: Any
) -> None:
    """A path names the entry, so its value is all that is left to say; or the answer says what to send instead."""
    answer = api.patch(f"{WORKFLOW}?resource_type={number}", json={"set": {leaf: value}})
    if answer.status_code == 400:
        assert answer.get_json()["details"][0]["field"] == leaf
    else:
        assert (answer.status_code, payload_at(api, WORKFLOW, str(number))) == (200, payload)


def test_a_patch_that_leaves_nothing_removes_the_row(api: FlaskClient) -> None:
    body = put_body("execution_cluster_label", {"value": "mycluster"})
    assert api.put(WORKFLOW, json=body).get_json()["revision"] == 1
    answer = api.patch(f"{WORKFLOW}?resource_type=3", json={"inherit": ["value"]}).get_json()
    expected = {"changed": True, "dry_run": False, "revision": 2, "before": {"value": "mycluster"}, "warnings": []}
    assert answer == expected
    assert stored(api)["rows"] == []


@pytest.mark.parametrize("header", ['"1"', "1", 'W/"1"', " 1 ", "*"])
def test_a_version_is_matched_with_and_without_quotes(api: FlaskClient, header: str) -> None:
    assert api.put(PROJECT, json=put_body("execution_cluster_label", {"value": "mycluster"})).get_json()["version"] == 1
    answer = api.put(
        PROJECT, json=put_body("execution_cluster_label", {"value": "local"}), headers={"If-Match": header}
    )
    assert (answer.status_code, answer.get_json()["version"], answer.headers["ETag"]) == (200, 2, '"2"')


@sqlite_only
@pytest.mark.parametrize("message", ["", "because 😀", "two\nlines\tand a tab", "x" * 1000])
def test_a_message_may_say_anything_printable(api: FlaskClient, message: str) -> None:
    body = put_body("execution_cluster_label", {"value": "mycluster"}, message=message)
    assert api.put(PROJECT, json=body).status_code == 200
    assert api.delete(PROJECT, query_string={"resource_type": "3", "message": message}).get_json()["deleted"] is True


@sqlite_only
@pytest.mark.parametrize("word", ["3", "EXECUTION_CLUSTER_LABEL", "execution-cluster-label", "Execution_Cluster_Label"])
def test_a_kind_is_found_by_any_of_its_words(api: FlaskClient, word: str) -> None:
    assert api.put(PROJECT, json=put_body("execution_cluster_label", {"value": "mycluster"})).status_code == 200
    assert payload_at(api, PROJECT, word) == {"value": "mycluster"}
    assert api.delete(PROJECT, json={"resource_type": word}).get_json()["deleted"] is True


@sqlite_only
def test_a_deletion_takes_the_number_of_a_kind_as_a_number(api: FlaskClient) -> None:
    assert api.put(PROJECT, json=put_body("execution_cluster_label", {"value": "mycluster"})).status_code == 200
    answer = api.delete(PROJECT, json={"resource_type": 3})
    assert (answer.status_code, answer.get_json().get("deleted")) == (200, True), answer.get_json()


@sqlite_only
def test_a_deletion_may_name_its_kind_twice_in_two_words(api: FlaskClient) -> None:
    assert api.put(PROJECT, json=put_body("execution_cluster_label", {"value": "mycluster"})).status_code == 200
    answer = api.delete(f"{PROJECT}?resource_type=3", json={"resource_type": "EXECUTION_CLUSTER_LABEL"})
    assert (answer.status_code, answer.get_json().get("deleted")) == (200, True), answer.get_json()


def test_deleting_what_is_absent_changes_nothing(api: FlaskClient) -> None:
    before = stored(api)
    answer = api.delete(f"{PROJECT}?resource_type=3")
    document = answer.get_json()
    afterwards = document.pop("afterwards")
    assert (answer.status_code, document) == (200, {"deleted": False, "dry_run": False, "warnings": []})
    assert [value["value"] for value in afterwards["values"]] == [{}]
    assert stored(api) == before


@pytest.mark.parametrize("name", ["w", "W", "a.b.c", "-", "_", "...", "w" * 255, "0"])
def test_a_workflow_may_be_called_anything_that_a_module_may(api: FlaskClient, name: str) -> None:
    path = f"{BASE}/workflow_attributes/flyteexamples/development/{name}"
    assert api.put(path, json=put_body("execution_cluster_label", {"value": "mycluster"})).status_code == 200
    [row] = stored(api)["rows"]
    assert row["workflow"] == name


def test_pages_hold_every_row_once(api: FlaskClient) -> None:
    names = ["a", "B", "a.b", "a-b", "a_b", "Z", "z", "_", "-", "0", "10", "9"]
    for name in names:
        path = f"{BASE}/workflow_attributes/flyteexamples/development/{name}"
        assert api.put(path, json=put_body("execution_cluster_label", {"value": "mycluster"})).status_code == 200
    complete = [row["workflow"] for row in stored(api)["rows"]]
    assert sorted(complete) == sorted(names)
    paged: list[str] = []
    token = ""
    while True:
        page = api.get(f"{BASE}/matchable_attributes?resource_type=all&limit=5&token={token}").get_json()
        paged += [row["workflow"] for row in page["configurations"]]
        if "token" not in page:
            break
        token = page["token"]
    assert paged == complete


def test_a_project_keeps_what_an_update_leaves_out(api: FlaskClient) -> None:
    created = api.post(
        f"{BASE}/projects",
        json={
            "project": {
                "id": "search",
                "name": "Sück 😀",
                "description": "über",
                "labels": {"values": {"app.kubernetes.io/name": "x", "empty": ""}},
            }
        },
    )
    assert created.status_code == 200, created.get_json()
    for method, body in (("PUT", {}), ("PATCH", {"name": "Sück 😀"}), ("PUT", {"state": 0})):
        assert api.open(f"{BASE}/projects/search", method=method, json=body).get_json() == created.get_json()
    archived = api.put(f"{BASE}/projects/search", json={"state": 1}).get_json()
    assert archived == {**created.get_json(), "state": "ARCHIVED", "updated_at": archived["updated_at"], "version": 2}
    assert api.get(f"{BASE}/projects/search").get_json() == archived
