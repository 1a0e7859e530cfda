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
