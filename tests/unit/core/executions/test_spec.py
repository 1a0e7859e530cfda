"""The spec of an execution: how a request is read, and what it is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.executions.spec import read_spec, request_warnings
from admin.core.problems import Invalid
from admin.core.registrations import read_launch_plan
from tests.support.run_plans import label, pool, run_plan


def test_a_pool_and_a_label_in_one_request_go_by_the_pool_with_a_warning() -> None:
    request_ = {**pool("first"), **label("sunny")}
    plan = run_plan(request=request_)
    assert str(plan.route) == "pool 'first'"
    assert [(warning["code"], "the pool counts" in warning["message"]) for warning in request_warnings(request_)] == [
        ("several_places", True)
    ]
    assert "the cluster counts" in request_warnings({"cluster": "a", **request_})[0]["message"]
    assert request_warnings(pool("first")) == request_warnings({}) == []


def test_auth_role_is_part_of_the_security_context_and_must_not_contradict_it() -> None:
    spec = {"job": {"command": ["x"]}, "auth_role": {"assumable_iam_role": "old", "kubernetes_service_account": "sa"}}
    assert read_spec(spec, ("spec",))["security_context"] == {
        "run_as": {"iam_role": "old", "k8s_service_account": "sa"}
    }
    both = {"run_as": {"iam_role": "old", "k8s_service_account": "sa"}}
    for context in ({}, {"run_as": None}, {"run_as": {"iam_role": "old"}}):
        assert read_spec({**spec, "security_context": context}, ("spec",))["security_context"] == both
    with pytest.raises(Invalid) as refused:
        read_spec({**spec, "security_context": {"run_as": {"iam_role": "new"}}}, ("spec",))
    assert [(problem.field, problem.reason) for problem in refused.value.problems] == [
        ("spec.auth_role.assumable_iam_role", "is 'old', and security_context.run_as.iam_role is 'new': give one.")
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec"),
        ({"job": {"command": ["a"]}, "launch_plan": {"name": "x"}}, "spec.job"),
        ({"job": {"command": ["a"]}, "jobspec": {"version": 1}}, "spec.jobspec"),
        ({"job": {"command": ["a"]}, "tags": ["x"]}, "spec.tags"),
        ({"job": {"command": ["a"]}, "notifications": {}}, "spec.notifications"),
        ({"job": {"command": ["a"]}, "disable_all": True}, "spec.disable_all"),
        ({"job": {"command": ["a"]}, "cluster_assignment": None}, "spec.cluster_assignment"),
        ({"job": {"command": ["a"]}, "cluster_assignment": {"pool": "x"}}, "spec.cluster_assignment.pool"),
        ({"job": {"command": ["a"]}, **pool(None)}, "spec.cluster_assignment.cluster_pool_name"),
        ({"job": {"command": ["a"]}, "execution_cluster_label": {"value": None}}, "spec.execution_cluster_label.value"),
        ({"job": {"command": ["a"]}, "cluster_assignment": "first"}, "spec.cluster_assignment"),
        (
            {"job": {"command": ["a"]}, "execution_cluster_label": {"value": "a b"}},
            "spec.execution_cluster_label.value",
        ),
        ({"job": {"command": ["a"]}, "cluster": 5}, "spec.cluster"),
        ({"job": {"command": ["a"]}, "max_parallelism": -1}, "spec.max_parallelism"),
        ({"job": {"command": ["a"]}, "quality_of_service": {"tier": "TOP"}}, "spec.quality_of_service.tier"),
        ({"launch_plan": {"version": "v1"}}, "spec.launch_plan.name"),
        ({"launch_plan": {"name": "x", "resource_type": 9}}, "spec.launch_plan.resource_type"),
        ({"launch_plan": {"name": "a/b"}}, "spec.launch_plan.name"),
        ({"launch_plan": "x"}, "spec.launch_plan"),
        ([], "spec"),
        (None, "spec"),
    ],
    ids=str,
)
def test_a_wrong_spec_is_refused_by_field(spec: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_spec(spec, ("spec",))
    assert field in [problem.field for problem in caught.value.problems], caught.value


@pytest.mark.parametrize("name", ["tags", "notifications", "disable_all", "disableAll", "schedule", "entityMetadata"])
def test_what_flyte_has_and_we_have_not_is_refused_with_what_to_use(name: str) -> None:
    for spec, read in (({"job": {"command": ["a"]}}, read_spec), ({"workflow_id": {}}, read_launch_plan)):
        with pytest.raises(Invalid) as refused:
            read({**spec, name: {}})
        problem = refused.value.problems[0]
        assert problem.field == f"spec.{name}"
        assert any(
            word in problem.reason for word in ("give executions labels", "wait execution", "a scheduler of your")
        )
        assert not problem.closest


def test_a_job_that_is_null_is_not_said_to_be_inherited() -> None:
    for spec in ({"job": None}, {"job": {"resources": None}}, {"job": {"resources": {"requests": None}}}):
        with pytest.raises(Invalid) as refused:
            read_spec(spec)
        assert [problem.reason for problem in refused.value.problems] == [
            "is left empty. Write what is below it, or remove the line."
        ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"job": {"command": ["a"], "requires": None}}, "spec.job.requires"),
        ({"jobspec": {"command": ["a"], "requires": None}}, "spec.jobspec.requires"),
        ({"jobspec": {"resources": {"g": {"with": [{"requires": None}]}}}}, "spec.jobspec.resources.g.with.0.requires"),
    ],
)
def test_requirements_that_are_left_empty_are_refused(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_spec(spec)
    assert [problem.field for problem in refusal.value.problems] == [field]


@pytest.mark.parametrize(
    ("jobspec", "field"),
    [
        ({"command": ["a"], "compatibility": {"io": {}}}, "spec.jobspec.compatibility.io"),
        ({"command": ["a"], "compatibility": {"io": {"speed": None}}}, "spec.jobspec.compatibility.io.speed"),
        ({"command": ["a"], "requires": None}, "spec.jobspec.requires"),
    ],
)
def test_what_a_jobspec_leaves_empty_of_its_image_is_refused(jobspec: Any, field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read_spec({"jobspec": jobspec})
    assert [problem.field for problem in refusal.value.problems] == [field]


def test_a_jobspec_keeps_what_is_left_empty_so_that_it_can_be_refused() -> None:
    jobspec = {"version": 1, "resources": None, "tasks": [{"command": ["a"]}]}
    assert read_spec({"jobspec": jobspec})["jobspec"] == jobspec
