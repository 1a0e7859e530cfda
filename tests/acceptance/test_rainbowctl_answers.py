"""Answers about settings: in text, as JSON and over HTTP with the same facts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.admins import running_admin
from tests.support.shells import Shell

LABEL = "execution_cluster_label"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("answers")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_reach_of_a_row(shell: Shell) -> None:
    project = shell.project("reaching")
    place = f"{project}/staging"
    shell.put(f"project_domain_attributes/{place}", **{LABEL: {"value": "a"}})
    for workflow, value in (("same", "a"), ("other", "b")):
        shell.put(f"workflow_attributes/{place}/{workflow}", **{LABEL: {"value": value}})
    shell.put(f"launch_plan_attributes/{place}/other/nightly", quality_of_service={"tier": "LOW"})
    shell.put(f"launch_plan_attributes/{place}/free/nightly", quality_of_service={"tier": "LOW"})
    command = f"rainbowctl explain execution-cluster-label -p {project} -d staging --reach"
    query = f"project={project}&domain=staging&resource_type=3&limit=1000"
    answer = shell.rest("GET", f"effective_attributes/reach?{query}")
    assert json.loads(shell.ok(f"{command} -o json")) == answer
    assert json.loads(shell.ok(f"{command} --all -o json")) == answer
    first, counts, _blank, _header, *rows = shell.ok(command).splitlines()
    version = answer["row"]["version"]
    assert first == f"execution-cluster-label at project {project}, domain staging (version {version}): value=a"
    assert counts == (
        "Of 4 scopes below: 1 follows it, 1 says otherwise, 1 says the same again, 1 follows another row; "
        f"as of revision {answer['revision']}."
    )
    words = {
        "follows": "follows it",
        "says_otherwise": "says otherwise",
        "says_the_same": "says the same again",
        "follows_another": "follows another row",
    }
    expected = [[entry["level"], place_of(entry), words[entry["relation"]]] for entry in answer["scopes"]]
    assert [cells(row) for row in rows] == expected
    assert "No execution-cluster-label is set" in shell.refused(3, command.replace("staging", "production"))
    assert "--all goes with --reach" in shell.refused(2, "rainbowctl explain all -d staging --all")
    assert "Name one kind" in shell.refused(2, f"rainbowctl explain all -p {project} -d staging --reach")


def place_of(entry: dict[str, str]) -> str:
    keys = ("project", "domain", "workflow", "launch_plan")
    return ", ".join(f"{key.replace('_', ' ')} {entry[key]}" for key in keys if key in entry)


@pytest.mark.parametrize(
    ("noun", "number", "key", "payload", "shown"),
    [
        ("execution-cluster-label", 3, LABEL, {"value": "far"}, "value=far"),
        (
            "execution-queue-attribute",
            2,
            "execution_queue_attributes",
            {"tags": ["default", "gpu"]},
            "tags=default, gpu",
        ),
        (
            "plugin-override",
            5,
            "plugin_overrides",
            {"overrides": [{"task_type": "spark", "plugin_id": ["a b"], "missing_plugin_behavior": "USE_DEFAULT"}]},
            "overrides.spark=",
        ),
    ],
)
def test_the_nearest_row_and_a_command_that_sets_the_same_here(
    shell: Shell, noun: str, number: int, key: str, payload: object, shown: str
) -> None:
    project = shell.project(f"near-{number}")
    shell.put(f"workflow_attributes/{project}/development/there", **{key: payload})
    command = f"rainbowctl explain {noun} -p {project} -d development here"
    query = f"project={project}&domain=development&workflow=here&resource_type={number}"
    answer = shell.rest("GET", f"effective_attributes?{query}&provenance=true&nearest=true")
    assert json.loads(shell.ok(f"{command} -o json")) == answer
    [nearest] = answer["nearest"].values()
    *_trail, row, advice = shell.ok(command).splitlines()
    assert row.startswith(f"Nearest: {shown}")
    place = f"project {project}, domain development, workflow there (version {nearest['version']})."
    assert row.endswith(f" at {place}")
    assert advice == f"To set the same here: {nearest['command']}"
    shell.ok(f"{nearest['command']} -q --force")
    [value] = shell.rest("GET", f"effective_attributes?{query}")["values"]
    assert value["value"] == nearest["value"] == payload
    assert "Nearest" not in shell.ok(command)


def test_settings_without_effect(shell: Shell) -> None:
    project = shell.project("overridden")
    shell.put(f"project_domain_attributes/{project}/staging", **{LABEL: {"value": "nowhere"}})
    shell.put(f"workflow_attributes/{project}/staging/lost", quality_of_service={"tier": "LOW"})
    command = f"rainbowctl get no-effect -p {project}"
    answer = shell.rest("GET", f"matchable_attributes/no_effect?project={project}")
    assert [entry["code"] for entry in answer["warnings"]] == ["unknown_label", "unknown_workflow"]
    assert json.loads(shell.ok(f"{command} -o json")) == answer["warnings"]
    header, *rows = shell.ok(command).splitlines()
    assert cells(header) == ["KIND", "LEVEL", "SCOPE", "FIELD", "REASON"]
    nouns = {"EXECUTION_CLUSTER_LABEL": "execution-cluster-label"}
    nouns["QUALITY_OF_SERVICE_SPECIFICATION"] = "quality-of-service"
    assert [cells(row) for row in rows] == [
        [nouns[entry["resource_type"]], entry["level"], place_of(entry), entry["field"], entry["message"]]
        for entry in answer["warnings"]
    ]
    assert len(json.loads(shell.ok(f"{command} execution-cluster-label -o json"))) == 1
    assert len(json.loads(shell.ok(f"{command} --filter.fieldSelector code=unknown_workflow -o json"))) == 1
    assert "Every setting has an effect." in shell.run(f"{command} -d development").err


def test_where_a_pool_is_used(shell: Shell) -> None:
    project = shell.project("using")
    place = f"{project}/staging"
    shell.rest("PUT", "pools/used", {"pool": {"members": [{"id": "somewhere"}]}})
    shell.put(f"project_domain_attributes/{place}", cluster_assignment={"cluster_pool_name": "used"})
    shell.put(f"launch_plan_attributes/{place}/fit/nightly", quality_of_service={"tier": "LOW"})
    shell.put(f"workflow_attributes/{place}/fit", **{LABEL: {"value": "somewhere"}})
    shell.ok(f"rainbowctl create execution waits -p {project} -d staging -q -- true")
    command = "rainbowctl where-used pool used"
    answer = shell.rest("GET", "uses?pool=used")
    assert json.loads(shell.ok(f"{command} -o json")) == answer
    reach = shell.rest("GET", "uses?pool=used&reach=true")
    assert json.loads(shell.ok(f"{command} --reach --all -o json")) == reach
    assert answer["reach"] == {"scopes": 3, "launch_plans": 1, "refused": 1}
    lines = [cells(line) for line in shell.ok(f"{command} --reach").splitlines() if line]
    [use] = answer["uses"]
    said = f"project {project}, domain staging (version {use['version']})"
    assert lines == [
        [f"pool used, as of revision {answer['revision']}"],
        ["SAID BY", "KIND", "FIELDS"],
        [said, "CLUSTER_ASSIGNMENT", "cluster_pool_name=used"],
        ["Said 1 time; 3 scopes have it, 1 launch plan among them."],
        ["Without it executions would be refused at 1 scope."],
        ["SCOPE", "KIND", "WITHOUT IT"],
        *(
            [place_of(entry), "CLUSTER_ASSIGNMENT", "refused" if entry["refused"] else "goes on"]
            for entry in reach["scopes"]
        ),
        ["Executions that have not ended: 1 QUEUED."],
        ["EXECUTION", "PHASE"],
        [f"{project}/staging/waits", "QUEUED"],
    ]
    done = shell.run("rainbowctl where-used pool usde")
    assert (done.status, "No pool is called 'usde'. Did you mean used?" in done.err) == (0, True), done.err
    assert "Which pool?" in shell.refused(2, "rainbowctl where-used pool")
    assert "limits" in shell.refused(2, "rainbowctl where-used task-resource-attribute limit.cpu=2")
    value = shell.ok("rainbowctl where-used cluster-pool-attribute cluster_pool_name=used -o json")
    assert json.loads(value)["uses"] == answer["uses"]
