"""Run plans: what settings make of a job, and in which order they apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admin.core.executions.plans import PRIORITY_KIND
from admin.core.executions.queues import Queue
from admin.core.problems import Refused
from admin.core.settings.declared_kinds import registry
from admin.core.settings.scopes import Scope
from tests.support.run_plans import SCOPE, rules, run_plan


def test_labels_merge_by_specificity_and_the_most_specific_wins() -> None:
    config = {"labels": {"values": {"row": "row", "own": "row", "plan": "row"}}}
    plan = run_plan(
        {("WORKFLOW_EXECUTION_CONFIG", Scope(project="p")): config},
        project_labels={"project": "project", "row": "project", "own": "project"},
        job={"command": ["x"], "labels": {"own": "job", "plan": "job", "request": "job"}},
        definition={"labels": {"values": {"plan": "plan", "request": "plan"}}},
        request={"labels": {"values": {"request": "request"}}},
    )
    assert plan.job["labels"] == {
        "project": "project",
        "row": "row",
        "own": "job",
        "plan": "plan",
        "request": "request",
    }


def test_environment_variables_merge_the_same_way_without_project_labels() -> None:
    envs = {"envs": {"values": [{"key": "A", "value": "row"}, {"key": "B", "value": "row"}]}}
    plan = run_plan(
        {("WORKFLOW_EXECUTION_CONFIG", SCOPE): envs},
        project_labels={"A": "project"},
        job={"command": ["x"], "environment": {"B": "job", "C": "job"}},
        request={"envs": {"values": [{"key": "C", "value": "request"}]}},
    )
    assert plan.job["environment"] == {"A": "row", "B": "job", "C": "request"}


def test_an_identity_is_one_leaf_and_the_request_overrides_the_row() -> None:
    row = {"security_context": {"run_as": {"iam_role": "row", "k8s_service_account": "row"}}}
    attributes = {("WORKFLOW_EXECUTION_CONFIG", SCOPE): row}
    assert run_plan(attributes).job["identity"] == {"iam_role": "row", "k8s_service_account": "row"}
    requested = {"security_context": {"run_as": {"iam_role": "mine"}}}
    plan = run_plan(attributes, request=requested)
    assert plan.job["identity"] == {"iam_role": "mine"}
    config = plan.effective.settings["WORKFLOW_EXECUTION_CONFIG"]
    assert config.origins["security_context", "run_as"].layer == "request"
    assert [(step.layer, step.used, step.overridden) for step in config.trail if step.payload] == [
        ("", (), (("security_context", "run_as"),)),
        ("request", (("security_context", "run_as"),), ()),
    ]


def test_the_first_tag_that_a_queue_serves_counts_and_none_is_refused_by_scope() -> None:
    key = ("EXECUTION_QUEUE", Scope(domain="d"))
    assert run_plan({}).queue is None
    assert run_plan({key: {"tags": ["nothing", "batch", "critical"]}}).queue == "slow"
    with pytest.raises(Refused) as caught:
        run_plan({key: {"tags": ["critcal"]}})
    [problem] = caught.value.problems
    assert (caught.value.error, problem.closest[0]) == ("unknown_queue_tag", "critical")
    assert "domain d" in problem.reason


def test_executions_are_spread_over_the_queues_of_one_tag_by_name() -> None:
    queues = tuple(Queue(name=name, tags=("t",)) for name in "xyz")
    under = replace(rules(), queues=queues)
    tags = {("EXECUTION_QUEUE", SCOPE): {"tags": ["t"]}}
    drawn = [run_plan(tags, under, f"e{number}").queue for number in range(60)]
    assert set(drawn) == {"x", "y", "z"}
    assert drawn == [run_plan(tags, under, f"e{number}").queue for number in range(60)]


def test_a_tier_means_the_configured_budget_and_a_spec_its_own() -> None:
    key = ("QUALITY_OF_SERVICE_SPECIFICATION", SCOPE)
    assert run_plan({}).quality_of_service == {}
    assert run_plan({key: {"tier": "HIGH"}}).quality_of_service == {"tier": "HIGH", "queueing_budget": "60s"}
    assert run_plan({key: {"tier": "LOW"}}).quality_of_service == {"tier": "LOW"}
    requested = {"quality_of_service": {"spec": {"queueing_budget": "5m"}}}
    assert run_plan({key: {"tier": "HIGH"}}, request=requested).quality_of_service == {"queueing_budget": "5m"}


def test_plugins_are_required_of_a_cluster_unless_the_default_may_be_used() -> None:
    key = ("PLUGIN_OVERRIDE", SCOPE)
    entry = {"task_type": "process", "plugin_id": ["a", "b"]}
    must = run_plan({key: {"overrides": [entry]}})
    assert (must.plugins, must.workload.plugins) == (
        {"plugin_id": ["a", "b"], "missing_plugin_behavior": "FAIL"},
        ("a", "b"),
    )
    may = run_plan({key: {"overrides": [{**entry, "missing_plugin_behavior": "USE_DEFAULT"}]}})
    assert (may.plugins is not None, may.workload.plugins) == (True, ())
    other = run_plan({key: {"overrides": [{**entry, "task_type": "spark"}]}})
    assert (other.plugins, other.workload.plugins) == (None, ())


def test_leases_carry_declared_kinds_with_their_defaults() -> None:
    assert run_plan({}).attributes == {"WORKFLOW_PRIORITY": {"priority": 50}}
    attributes = {("WORKFLOW_PRIORITY", SCOPE): {"priority": 90}}
    assert run_plan(attributes).attributes == {"WORKFLOW_PRIORITY": {"priority": 90}}


# The lease order


def test_the_lease_order_is_tier_and_then_priority() -> None:
    quality = {("QUALITY_OF_SERVICE_SPECIFICATION", SCOPE): {"tier": "MEDIUM"}}
    assert [run_plan().tier, run_plan(quality).tier] == [3, 1]
    assert [run_plan().priority, run_plan({(PRIORITY_KIND, SCOPE): {"priority": 90}}).priority] == [50, 90]


@pytest.mark.parametrize(
    ("field", "value", "priority"),
    [
        ("int", 10**12, 2**31 - 1),
        ("int", -(10**12), -(2**31 - 1)),
        ("float", 7.9, 7),
        ("string", "urgent", 50),
    ],
)
def test_the_priority_of_another_declaration_counts_where_it_is_a_number(field: str, value: Any, priority: int) -> None:
    kinds = registry({PRIORITY_KIND: {"number": 10, "fields": {"priority": field}}})
    assert run_plan({(PRIORITY_KIND, SCOPE): {"priority": value}}, rules(kinds=kinds)).priority == priority
    assert run_plan({}, rules(kinds=registry({}))).priority == 50
