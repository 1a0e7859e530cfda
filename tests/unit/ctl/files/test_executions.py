from __future__ import annotations

from typing import Any

import pytest

from ctl.client.errors import InvalidFile, InvalidInput, InvalidRequest
from ctl.client.yaml_files import Source
from ctl.files.execution_documents import ExecutionDocument
from ctl.files.executions import parse_execution_files, parse_input

#: As flytectl generates it.
GENERATED = """\
iamRoleARN: ""
inputs:
    epochs: 5
    rate: 0.5
    names: [a, "1"]
    ratio: "0.5"
envs: {}
kubeServiceAcct: ""
targetDomain: ""
targetProject: ""
version: 0.1
workflow: core.train
"""


def parsed(text: str) -> ExecutionDocument:
    [document] = parse_execution_files(Source(name="exec.yaml", text=text))
    return document


def test_a_file_that_flytectl_generated_is_read_as_it_is() -> None:
    file = parsed(GENERATED)
    assert file.values == {
        "inputs": {"epochs": 5, "rate": 0.5, "names": ["a", "1"], "ratio": "0.5"},
        "envs": {},
        "version": "0.1",
        "workflow": "core.train",
    }
    assert file.run_key == "workflow"


def test_keys_are_read_in_any_spelling() -> None:
    file = parsed("cluster_pool: gpu\ntarget-project: p\noverwrite_cache: true\nenvs: {A: 010}\nlaunch_plan: x\n")
    expected = {"cluster_pool": "gpu", "target_project": "p", "overwrite_cache": True, "envs": {"A": "010"}}
    assert file.values == {**expected, "launchplan": "x"}


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("workflow: a\ndryRun: true\n", ["exec.yaml:2:1: dryRun: belongs on the command line: use --dryRun"]),
        ("relaunch: a\n", ["exec.yaml:1:1: relaunch: belongs on the command line: use --relaunch"]),
        ("recover: a\n", ["exec.yaml:1:1: recover: belongs on the command line: use --recover"]),
        ("exec_file: a\n", ["exec.yaml:1:1: exec_file: belongs on the command line: use --execFile"]),
        ("workflow: a\ntags: [x]\n", ["exec.yaml:2:1: tags: there are no tags: give executions labels"]),
        ("workflw: a\n", ["exec.yaml:1:1: workflw: unknown key. Did you mean workflow?"]),
        ("workflow: a\ntask: b\n", ["exec.yaml:2:7: task: workflow is already given: keep one of the two"]),
        (
            "executionClusterLabel: a\ntargetExecutionCluster: b\n",
            ["exec.yaml:1:24: executionClusterLabel: means the same as targetExecutionCluster: keep one of the two"],
        ),
        (
            "kubeServiceAcct: a\nsecurityContext: {run_as: {iam_role: b}}\n",
            ["exec.yaml:1:18: kubeServiceAcct: means the same as securityContext: keep one of the two"],
        ),
        (
            "kubeServiceAcct: a\nauth_role: {assumable_iam_role: b}\n",
            ["exec.yaml:1:18: kubeServiceAcct: means the same as authRole: keep one of the two"],
        ),
        ("job: {command: [a]}\nversion: 1\n", ["exec.yaml:2:10: version: a job has no version: remove it"]),
        ("job: [a]\n", ["exec.yaml:1:6: job: must hold keys and values"]),
        ("inputs: 5\n", ["exec.yaml:1:9: inputs: must hold keys and values"]),
        ("overwriteCache: maybe\n", ["exec.yaml:1:17: overwriteCache: must be true or false, got 'maybe'"]),
        ("workflow: [a]\nenvs: 3\n", ["exec.yaml:1:11: workflow: must be", "exec.yaml:2:7: envs: must hold keys"]),
    ],
)
def test_every_problem_is_named_with_its_place(text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidFile) as refused:
        parsed(text)
    message = refused.value.lines()[1:]
    assert len(message) == len(problems)
    assert all(line.strip().startswith(problem) for line, problem in zip(message, problems, strict=True)), message


@pytest.mark.parametrize(
    ("field", "position"),
    [
        ("inputs.epochs", "exec.yaml:3:13"),
        ("inputs.names[1]", "exec.yaml:5:16"),
        ("spec.launch_plan.name", "exec.yaml:12:11"),
        ("spec.launch_plan.version", "exec.yaml:11:10"),
        ("inputs.other", "exec.yaml:3:5"),
    ],
)
def test_a_refusal_of_the_admin_finds_back_to_its_line(field: str, position: str) -> None:
    error = parsed(GENERATED).locate(InvalidRequest("no", details=[{"field": field, "reason": "is wrong"}]))
    assert error.details[0]["position"] == position
    assert error.message == "The admin refused exec.yaml: 1 problem."


def test_a_refusal_of_what_is_not_in_the_file_stays_as_it_is() -> None:
    details: list[dict[str, Any]] = [
        {"field": "inputs.epochs", "reason": "a"},
        {"field": "spec.cluster", "reason": "b"},
    ]
    error = parsed(GENERATED).locate(InvalidRequest("no", details=details))
    assert (error.message, "position" in details[0], "position" in details[1]) == ("no", True, False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("0.5", 0.5),
        ("true", True),
        ('"5"', "5"),
        ("'true'", "true"),
        ("[1, 2]", [1, 2]),
        ("{a: 1}", {"a": 1}),
        ("hello", "hello"),
        ("2026-03-01", "2026-03-01"),
        ("010", "010"),
        ("no", "no"),
        ("s3://bucket/key", "s3://bucket/key"),
        ("null", None),
        ("", ""),
    ],
)
def test_the_value_of_an_input_is_read_as_yaml(text: str, value: Any) -> None:
    parsed = parse_input(text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize("text", ["*.txt", "[1, 2", "!!python/none x", "&a b", "@x"])
def test_what_yaml_has_another_use_for_must_be_quoted(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_input(text)
    assert f"text is quoted once more: '\"{text}\"'" in refused.value.message
