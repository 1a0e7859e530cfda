"""Documents of workflows and launch plans."""

from __future__ import annotations

from typing import Any

import pytest

from ctl.client.errors import InvalidFile, InvalidInput, InvalidRequest, NotFound
from ctl.client.yaml_files import Source
from ctl.files.registrations import Registration, registration_reader


def parse(text: str, noun: str | None = None) -> list[Registration]:
    return registration_reader(noun).parse(Source(name="f.yaml", text=text))


def problems(text: str, noun: str | None = None) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        parse(text, noun)
    return [line.strip() for line in caught.value.lines()[1:]]


WORKFLOW = """\
kind: workflow
name: train
version: 1
description: Learns
inputs:
  epochs: {type: integer, default: 3, description: How often}
  rate: float
  shards: {type: list, of: {type: map, of: integer}, default: [{a: 1}]}
  name: {type: String, default: 5}
  Name: duration
job:
  command: [python, train.py, 5, "{{ inputs.epochs }}"]
  workingDirectory: /work
  environment: {A: no}
  resources: {nodes: 2, requests: {cpu: 2}, duration: 1h}
"""
PLAN = """\
kind: launch_plan
name: nightly
version: v2
project: p
workflow: {name: train, version: v1, domain: e}
"""


def test_a_workflow_is_read_as_its_types_want_it() -> None:
    [registration] = parse(WORKFLOW)
    assert (registration.noun, registration.name, registration.version, registration.title) == (
        "workflow",
        "train",
        "1",
        "workflow train version 1",
    )
    assert registration.spec == {
        "description": "Learns",
        "inputs": {
            "epochs": {"type": "integer", "default": 3, "description": "How often"},
            "rate": "float",
            "shards": {"type": "list", "of": {"type": "map", "of": "integer"}, "default": [{"a": 1}]},
            "name": {"type": "string", "default": "5"},
            "Name": "duration",
        },
        "job": {
            "command": ["python", "train.py", "5", "{{ inputs.epochs }}"],
            "working_directory": "/work",
            "environment": {"A": "no"},
            "resources": {"nodes": 2, "requests": {"cpu": "2"}, "duration": "1h"},
        },
    }


@pytest.mark.parametrize("word", ["launchplan", "launch_plan", "LaunchPlans", "launch-plan"])
def test_a_launch_plan_names_its_workflow(word: str) -> None:
    [registration] = parse(PLAN.replace("launch_plan", word))
    assert (registration.noun, registration.workflow, registration.active) == (
        "launch_plan",
        {"name": "train", "version": "v1", "domain": "e"},
        None,
    )
    completed = registration.completed("q", "d", None)
    assert completed.id.document() == {"project": "p", "domain": "d", "name": "nightly", "version": "v2"}
    assert completed.workflow_id() == {"project": "p", "domain": "e", "name": "train", "version": "v1"}


@pytest.mark.parametrize(
    ("line", "spec"),
    [
        ("defaultInputs: {a: 1, b: x}", {"default_inputs": {"a": 1, "b": "x"}}),
        ("fixed_inputs: {a: [true]}", {"fixed_inputs": {"a": [True]}}),
        ("clusterPool: gpu", {"cluster_assignment": {"cluster_pool_name": "gpu"}}),
        ("executionClusterLabel: fast", {"execution_cluster_label": {"value": "fast"}}),
        ("labels: {team: ml}", {"labels": {"values": {"team": "ml"}}}),
        ("labels: {values: {team: ml}}", {"labels": {"values": {"team": "ml"}}}),
        ("labels: {values: ml}", {"labels": {"values": {"values": "ml"}}}),
        ("annotations: {a: b}", {"annotations": {"values": {"a": "b"}}}),
        ("envs: {A: b}", {"envs": {"values": [{"key": "A", "value": "b"}]}}),
        ("envs: {values: [{key: A, value: b}]}", {"envs": {"values": [{"key": "A", "value": "b"}]}}),
        ("kubeServiceAcct: s", {"security_context": {"run_as": {"k8s_service_account": "s"}}}),
        ("iamRoleARN: r", {"security_context": {"run_as": {"iam_role": "r"}}}),
        ("securityContext: {runAs: {iamRole: r}}", {"security_context": {"run_as": {"iam_role": "r"}}}),
        (
            "auth_role: {assumable_iam_role: r, kubernetesServiceAccount: s}",
            {"security_context": {"run_as": {"k8s_service_account": "s", "iam_role": "r"}}},
        ),
        ("maxParallelism: 3", {"max_parallelism": 3}),
        ("interruptible: false", {"interruptible": False}),
        ("overwriteCache: true", {"overwrite_cache": True}),
        ("outputLocationPrefix: s3://b", {"raw_output_data_config": {"output_location_prefix": "s3://b"}}),
        (
            "rawOutputDataConfig: {outputLocationPrefix: s3://b}",
            {"raw_output_data_config": {"output_location_prefix": "s3://b"}},
        ),
        ("qualityOfService: high", {"quality_of_service": {"tier": "HIGH"}}),
        (
            "qualityOfService: {spec: {queueingBudget: 60s}}",
            {"quality_of_service": {"spec": {"queueing_budget": "60s"}}},
        ),
        ("description: Every night", {"description": "Every night"}),
    ],
)
def test_a_launch_plan_is_written_shorter_than_the_api_has_it(line: str, spec: dict[str, Any]) -> None:
    [registration] = parse(f"{PLAN}{line}\n")
    assert registration.spec == spec


@pytest.mark.parametrize(
    ("line", "version"), [("workflow: train", None), ("workflowVersion: v9\nworkflow: train", "v9")]
)
def test_the_version_of_the_workflow_may_be_left_open(line: str, version: str | None) -> None:
    [registration] = parse(f"kind: launchplan\nname: x\n{line}\nactive: true\n")
    assert (registration.workflow or {}).get("version") == version
    assert registration.active is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: workflow\nname: x", ["f.yaml:1:1: lacks job: what does the workflow run?"]),
        ("kind: workflow\njob: {image: i}", ["f.yaml:1:1: lacks name: what is it called?"]),
        ("kind: launchplan\nname: x", ["f.yaml:1:1: lacks workflow: what does the launch plan launch?"]),
        ("name: x", ["f.yaml:1:1: lacks kind: write `kind: workflow` or `kind: launchplan`"]),
        ("kind: worfklow\nname: x", ["f.yaml:1:7: kind: there is nothing to register called 'worfklow'. Did you mean"]),
        ("kind: pool\nname: x", ["f.yaml:1:7: kind: there is nothing to register called 'pool'. There is workflow"]),
        ("kind: workflow\nname: x\njob: {comand: [a]}", ["f.yaml:3:7: job.comand: unknown key. Did you mean command?"]),
        (
            "kind: workflow\nname: x\njob: {image: i}\ninputs:\n  a: {type: interger}\n  b: int\n"
            "  c: {type: integer, default: x}\n  d: {type: list, of: {type: enum, value: [a]}}",
            [
                "f.yaml:5:13: inputs.a.type: must be integer, float, ",
                "f.yaml:6:6: inputs.b: must be integer, float, ",
                "f.yaml:7:31: inputs.c.default: must be a whole number, got 'x'",
                "f.yaml:8:36: inputs.d.of.value: unknown key. Did you mean values?",
            ],
        ),
        (
            f"{PLAN}notifications: []\nschedule: {{cron: '@daily'}}\ntags: [a]",
            [
                "f.yaml:6:1: notifications: nobody is notified: ",
                "f.yaml:7:1: schedule: launch plans have no schedule: ",
                "f.yaml:8:1: tags: there are no tags: ",
            ],
        ),
        (f"{PLAN}clusterPol: x", ["f.yaml:6:1: clusterPol: unknown key. Did you mean cluster_pool?"]),
        (f"{PLAN}workflowVersion: v1", ["f.yaml:6:18: workflow_version: means the same as workflow"]),
        (
            f"{PLAN}iamRoleARN: r\nsecurityContext: {{runAs: {{iamRole: r}}}}",
            ["f.yaml:6:13: iam_role_arn: means the same as security_context"],
        ),
        (
            f"{PLAN}authRole: {{assumableIamRole: r}}\nsecurityContext: {{runAs: {{iamRole: r}}}}",
            ["f.yaml:6:11: auth_role: means the same as security_context"],
        ),
        (f"{PLAN}---\n{PLAN}", ["f.yaml:7:1: launch plan nightly version v2 is given twice: first at f.yaml:1:1."]),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, message: list[str]) -> None:
    registration = problems(text)
    assert len(registration) == len(message)
    assert all(line.startswith(start) for line, start in zip(registration, message, strict=True)), registration


def test_with_a_noun_the_kind_may_be_left_out_but_be_no_other() -> None:
    [registration] = parse("name: x\njob: {image: i}", "workflow")
    assert registration.noun == "workflow"
    assert problems(PLAN, "workflow") == [
        "f.yaml:1:7: kind: this is a launch plan, not a workflow: `rainbowctl register files` takes both"
    ]


@pytest.mark.parametrize(
    ("project", "domain", "version", "message"),
    [
        (None, "d", "v", "f.yaml:1:1: workflow x lacks a project: write it there, or give -p PROJECT."),
        ("p", None, "v", "f.yaml:1:1: workflow x lacks a domain: write it there, or give -d DOMAIN."),
        ("p", "d", None, "f.yaml:1:1: workflow x lacks a version: write it there, or give --version V."),
        ("p", "d", "latest", "f.yaml:1:1: no version can be called latest, which means the newest."),
    ],
)
def test_what_nobody_says_is_asked_for(
    project: str | None, domain: str | None, version: str | None, message: str
) -> None:
    [registration] = parse("kind: task\nname: x\njob: {image: i}")
    with pytest.raises(InvalidInput) as caught:
        registration.completed(project, domain, version)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("id.version", "f.yaml:3:10"),
        ("spec.workflow_id.name", "f.yaml:5:18"),
        ("spec.workflow_id.version", "f.yaml:5:34"),
        ("spec.workflow_id.project", "f.yaml:5:11"),
        ("spec.default_inputs.epochs", "f.yaml:6:25"),
        ("spec.cluster_assignment.cluster_pool_name", "f.yaml:7:14"),
        ("spec.labels.values.team", "f.yaml:8:16"),
        ("spec.security_context.run_as.iam_role", "f.yaml:9:13"),
        ("spec.envs.values[1].value", "f.yaml:10:7"),
        ("spec.nonsense", "f.yaml:1:1"),
        ("", "f.yaml:1:1"),
    ],
)
def test_a_refusal_of_the_admin_is_found_in_the_document(field: str, place: str) -> None:
    more = "defaultInputs: {epochs: x}\nclusterPool: gpu\nlabels: {team: ml}\niamRoleARN: r\nenvs: {A: b, B: c}\n"
    [registration] = parse(PLAN + more)
    error = registration.locate(InvalidRequest("refused", details=[{"field": field, "reason": "is odd"}]))
    assert str(error.details[0]["position"]).startswith(place)


def test_a_workflow_that_is_not_there_is_found_where_the_launch_plan_names_it() -> None:
    [registration] = parse(PLAN)
    error = NotFound("No workflow is called so.", name="workflow_not_found", details=[{"field": "name", "reason": "?"}])
    assert registration.locate(error).lines() == [
        "No workflow is called so.",
        "  f.yaml:5:18: launch plan nightly version v2",
    ]


def test_a_refusal_without_details_names_the_document() -> None:
    [registration] = parse(WORKFLOW)
    error = registration.locate(NotFound("There is no such project."))
    assert error.lines() == ["There is no such project.", "  f.yaml:1:1: workflow train version 1"]


def test_a_launch_plan_says_whether_it_is_run_again() -> None:
    [registration] = parse(f"{PLAN}retry: {{attempts: 3, backoff: 10s, retryOn: [timed_out], onLost: Retry}}\n")
    assert registration.spec["retry"] == {
        "attempts": 3,
        "backoff": "10s",
        "retry_on": ["TIMED_OUT"],
        "on_lost": "retry",
    }
    assert problems(f"{PLAN}retry: {{attempts: 0, retries: 2}}\n") == [
        "f.yaml:6:19: retry.attempts: must be between 1 and 100, got 0",
        "f.yaml:6:22: retry.retries: unknown key: there is attempts, backoff, retry_on and on_lost",
    ]
