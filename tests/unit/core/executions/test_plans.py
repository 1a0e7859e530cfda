"""What a launch comes to under the settings in force, and where it may go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from admin.configuration import load_settings
from admin.core.executions.effective_settings import resolve_settings
from admin.core.executions.launches import Launch, Rules
from admin.core.executions.placements import place
from admin.core.executions.plans import RunPlan, build_run_plan
from admin.core.executions.queues import Queue
from admin.core.executions.spec import read_spec, request_warnings
from admin.core.fleet.fleet import Fleet
from admin.core.problems import Invalid, Refused
from admin.core.settings.kinds import Kinds
from admin.core.settings.platform import PlatformLeaf, PlatformLeaves, PlatformValues
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from tests.support.small_fleets import group, small_fleet

SCOPE = Scope(project="p", domain="d", workflow="w", launch_plan="l")
QUEUES = (Queue(name="fast", tags=("critical", "gpu")), Queue(name="slow", tags=("batch",)))
FLEET = small_fleet(
    clusters={name: {} for name in "abcd"},
    pools={"first": group(["a", "b"]), "second": group(["c"])},
    labels={"sunny": group(["d"])},
)


def kinds() -> Kinds:
    return load_settings().kinds


def rules(*fenced: str, platform: PlatformValues | None = None) -> Rules:
    return Rules(
        kinds=kinds(),
        platform=platform or PlatformValues(),
        queues=QUEUES,
        queueing_budgets={"HIGH": "60s"},
        fenced=frozenset(fenced),
    )


def rows(said: Mapping[tuple[str, Scope], dict[str, Any]]) -> dict[str, dict[Scope, Row]]:
    found: dict[str, dict[Scope, Row]] = {}
    for (kind, scope), payload in said.items():
        found.setdefault(kind, {})[scope] = Row(kind=kind, scope=scope, payload=payload, version=5)
    return found


def run_plan(
    said: Mapping[tuple[str, Scope], dict[str, Any]] | None = None, under: Rules | None = None, **launch: Any
) -> RunPlan:
    made = Launch(**{"scope": SCOPE, "job": {"command": ["run"]}, **launch})
    under = under or rules()
    return build_run_plan(made, "e", resolve_settings(made, rows(said or {}), under), under)


def pool(name: str | None) -> dict[str, Any]:
    return {"cluster_assignment": {"cluster_pool_name": name}}


def label(name: str) -> dict[str, Any]:
    return {"execution_cluster_label": {"value": name}}


def refused(made: RunPlan, fleet: Fleet = FLEET) -> tuple[str, str, str]:
    with pytest.raises(Refused) as caught:
        place(made, fleet, {})
    [problem] = caught.value.problems
    return caught.value.error, problem.field, problem.reason


POOL_ROW = {("CLUSTER_ASSIGNMENT", SCOPE): {"cluster_pool_name": "first"}}
LABEL_ROW = {("EXECUTION_CLUSTER_LABEL", Scope(domain="d")): {"value": "sunny"}}


# The fence


@pytest.mark.parametrize(
    "request_", [{}, pool("first"), {"cluster": "a"}, {"cluster": "b"}, {"interruptible": True}], ids=str
)
def test_behind_a_fence_a_request_may_repeat_the_settings_or_name_a_cluster_they_lead_to(request_: Any) -> None:
    decision = place(run_plan(POOL_ROW, rules("d"), request=request_), FLEET, {})
    assert decision.cluster in ("a", "b")
    assert decision.cluster == request_.get("cluster", decision.cluster)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pool("second"), "spec.cluster_assignment.cluster_pool_name"),
        (label("sunny"), "spec.execution_cluster_label.value"),
        (label("first"), "spec.execution_cluster_label.value"),
        ({"cluster": "c"}, "spec.cluster"),
        ({"cluster": "nowhere"}, "spec.cluster"),
        ({"cluster": "c", **pool("first")}, "spec.cluster"),
    ],
    ids=str,
)
def test_behind_a_fence_anything_else_is_refused_naming_the_scope(request_: Any, field: str) -> None:
    error, where, reason = refused(run_plan(POOL_ROW, rules("d"), request=request_))
    assert (error, where) == ("request_fenced", field)
    assert "launch-plan p/d/w/l says pool 'first'" in reason
    assert "placement.requestMayOverride" in reason


def test_a_fence_stands_in_its_own_domain_only() -> None:
    assert place(run_plan(POOL_ROW, rules("other"), request=pool("second")), FLEET, {}).cluster == "c"


def test_where_settings_say_nothing_there_is_nothing_to_disagree_with() -> None:
    assert place(run_plan({}, rules("d"), request={"cluster": "c"}), FLEET, {}).cluster == "c"
    assert place(run_plan({}, rules("d"), request=label("sunny")), FLEET, {}).cluster == "d"


def test_a_fence_names_the_launch_plans_definition_or_the_configuration_that_set_the_place() -> None:
    made = run_plan({}, rules("d"), definition=pool("first"), request=pool("second"))
    assert "the launch plan's definition says pool 'first'" in refused(made)[2]
    leaf: PlatformLeaves = {("value",): PlatformLeaf(value="sunny", key="clusters.defaultExecutionLabel")}
    configured = PlatformValues(everywhere={"EXECUTION_CLUSTER_LABEL": leaf})
    made = run_plan({}, rules("d", platform=configured), request=pool("second"))
    assert "configuration (clusters.defaultExecutionLabel) says label 'sunny'" in refused(made)[2]


def test_a_launch_plans_definition_may_pass_the_fence_that_stops_requests() -> None:
    assert place(run_plan(LABEL_ROW, rules("d"), definition=pool("second")), FLEET, {}).cluster == "c"


# Unknown and disabled places


@pytest.mark.parametrize(
    ("said", "launch", "error", "words"),
    [
        ({}, {"request": pool("frist")}, "unknown_pool", ["'frist'", "the request", "first"]),
        ({}, {"request": label("suny")}, "unknown_label", ["'suny'", "the request", "sunny"]),
        ({}, {"request": {"cluster": "e"}}, "unknown_cluster", ["'e'", "the request"]),
        ({}, {"definition": pool("frist")}, "unknown_pool", ["the launch plan's definition", "first"]),
        ({}, {"definition": label("suny")}, "unknown_label", ["the launch plan's definition", "sunny"]),
        (
            {("CLUSTER_ASSIGNMENT", Scope(project="p")): {"cluster_pool_name": "frist"}},
            {},
            "unknown_pool",
            ["project p", "first"],
        ),
        (
            {("EXECUTION_CLUSTER_LABEL", Scope(project="p", domain="d", workflow="w")): {"value": "suny"}},
            {},
            "unknown_label",
            ["workflow p/d/w", "sunny"],
        ),
    ],
)
def test_an_unknown_place_is_refused_naming_who_set_it_and_what_comes_close(
    said: Any, launch: dict[str, Any], error: str, words: list[str]
) -> None:
    found, _, reason = refused(run_plan(said, **launch))
    assert found == error
    assert all(word in reason for word in words), reason


def test_an_unknown_place_of_configuration_is_refused_naming_its_key() -> None:
    leaf: PlatformLeaves = {("cluster_pool_name",): PlatformLeaf(value="gone", key="clusters.defaultClusterPool")}
    made = run_plan({}, rules(platform=PlatformValues(everywhere={"CLUSTER_ASSIGNMENT": leaf})))
    error, _, reason = refused(made)
    assert (error, "configuration (clusters.defaultClusterPool)" in reason) == ("unknown_pool", True)


def test_an_unknown_place_that_is_overridden_harms_nobody() -> None:
    made = run_plan(
        {("CLUSTER_ASSIGNMENT", Scope(project="p")): {"cluster_pool_name": "frist"}}, request=pool("second")
    )
    assert place(made, FLEET, {}).cluster == "c"


def test_a_named_cluster_that_is_disabled_is_refused_and_one_that_is_cordoned_is_waited_for() -> None:
    fleet = small_fleet(clusters={"a": {}, "b": {}}, states={"a": {"enabled": False}, "b": {"cordoned": True}})
    error, field, reason = refused(run_plan(request={"cluster": "a"}), fleet)
    assert (error, field, "disabled" in reason) == ("cluster_disabled", "spec.cluster", True)
    decision = place(run_plan(request={"cluster": "b"}), fleet, {})
    assert (decision.cluster, decision.code) == (None, "CLUSTERS_CORDONED")


def test_a_job_that_no_cluster_could_ever_run_is_refused_with_what_is_missing() -> None:
    fleet = small_fleet(clusters={"a": {"capacity": {"cpu": "4", "gpu": "0"}}})
    made = run_plan(job={"command": ["x"], "resources": {"requests": {"gpu": "1"}}})
    error, field, reason = refused(made, fleet)
    assert (error, field) == ("no_cluster_large_enough", "spec.job.resources")
    assert "1 gpu wanted, it has 0" in reason


def test_a_pool_and_a_label_in_one_request_go_by_the_pool_with_a_warning() -> None:
    request_ = {**pool("first"), **label("sunny")}
    made = run_plan(request=request_)
    assert str(made.route) == "pool 'first'"
    assert [(one["code"], "the pool counts" in one["message"]) for one in request_warnings(request_)] == [
        ("several_places", True)
    ]
    assert "the cluster counts" in request_warnings({"cluster": "a", **request_})[0]["message"]
    assert request_warnings(pool("first")) == request_warnings({}) == []


# What is applied to a job, and in which order


def test_labels_and_environment_are_laid_over_each_other_most_specific_last() -> None:
    config = {"labels": {"values": {"row": "row", "own": "row", "plan": "row"}}}
    made = run_plan(
        {("WORKFLOW_EXECUTION_CONFIG", Scope(project="p")): config},
        project_labels={"project": "project", "row": "project", "own": "project"},
        job={"command": ["x"], "labels": {"own": "job", "plan": "job", "request": "job"}},
        definition={"labels": {"values": {"plan": "plan", "request": "plan"}}},
        request={"labels": {"values": {"request": "request"}}},
    )
    assert made.job["labels"] == {
        "project": "project",
        "row": "row",
        "own": "job",
        "plan": "plan",
        "request": "request",
    }


def test_environment_variables_too_and_project_labels_are_no_environment() -> None:
    envs = {"envs": {"values": [{"key": "A", "value": "row"}, {"key": "B", "value": "row"}]}}
    made = run_plan(
        {("WORKFLOW_EXECUTION_CONFIG", SCOPE): envs},
        project_labels={"A": "project"},
        job={"command": ["x"], "environment": {"B": "job", "C": "job"}},
        request={"envs": {"values": [{"key": "C", "value": "request"}]}},
    )
    assert made.job["environment"] == {"A": "row", "B": "job", "C": "request"}


def test_an_identity_is_one_leaf_and_the_request_goes_before_the_row() -> None:
    row = {"security_context": {"run_as": {"iam_role": "row", "k8s_service_account": "row"}}}
    said = {("WORKFLOW_EXECUTION_CONFIG", SCOPE): row}
    assert run_plan(said).job["identity"] == {"iam_role": "row", "k8s_service_account": "row"}
    asked = {"security_context": {"run_as": {"iam_role": "mine"}}}
    made = run_plan(said, request=asked)
    assert made.job["identity"] == {"iam_role": "mine"}
    config = made.effective.settings["WORKFLOW_EXECUTION_CONFIG"]
    assert config.origins["security_context", "run_as"].layer == "request"
    assert [(step.layer, step.used, step.overridden) for step in config.trail if step.payload] == [
        ("", (), (("security_context", "run_as"),)),
        ("request", (("security_context", "run_as"),), ()),
    ]


def test_the_older_way_to_name_an_identity_gives_way_to_the_newer() -> None:
    spec = {"job": {"command": ["x"]}, "auth_role": {"assumable_iam_role": "old", "kubernetes_service_account": "sa"}}
    assert read_spec(spec, ("spec",))["security_context"] == {
        "run_as": {"iam_role": "old", "k8s_service_account": "sa"}
    }
    newer = {**spec, "security_context": {"run_as": {"iam_role": "new"}}}
    assert read_spec(newer, ("spec",))["security_context"] == {"run_as": {"iam_role": "new"}}


def test_the_first_tag_that_a_queue_serves_counts_and_none_is_refused_by_scope() -> None:
    key = ("EXECUTION_QUEUE", Scope(domain="d"))
    assert run_plan({}).queue is None
    assert run_plan({key: {"tags": ["nothing", "batch", "critical"]}}).queue == "slow"
    with pytest.raises(Refused) as caught:
        run_plan({key: {"tags": ["critcal"]}})
    [problem] = caught.value.problems
    assert (caught.value.error, problem.closest[0]) == ("unknown_queue_tag", "critical")
    assert "domain d" in problem.reason


def test_queues_of_one_tag_share_the_work_by_name() -> None:
    queues = tuple(Queue(name=name, tags=("t",)) for name in "xyz")
    under = Rules(kinds=kinds(), platform=PlatformValues(), queues=queues)
    said = rows({("EXECUTION_QUEUE", SCOPE): {"tags": ["t"]}})
    launch = Launch(scope=SCOPE, job={"command": ["run"]})
    chosen = [
        build_run_plan(launch, f"e{number}", resolve_settings(launch, said, under), under).queue for number in range(60)
    ]
    assert set(chosen) == {"x", "y", "z"}
    assert chosen == [
        build_run_plan(launch, f"e{number}", resolve_settings(launch, said, under), under).queue for number in range(60)
    ]


def test_a_tier_means_the_configured_budget_and_a_spec_its_own() -> None:
    key = ("QUALITY_OF_SERVICE_SPECIFICATION", SCOPE)
    assert run_plan({}).quality_of_service == {}
    assert run_plan({key: {"tier": "HIGH"}}).quality_of_service == {"tier": "HIGH", "queueing_budget": "60s"}
    assert run_plan({key: {"tier": "LOW"}}).quality_of_service == {"tier": "LOW"}
    asked = {"quality_of_service": {"spec": {"queueing_budget": "5m"}}}
    assert run_plan({key: {"tier": "HIGH"}}, request=asked).quality_of_service == {"queueing_budget": "5m"}


def test_plugins_are_demanded_of_a_cluster_unless_the_default_will_do() -> None:
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


def test_declared_kinds_travel_with_the_execution_defaults_included() -> None:
    assert run_plan({}).attributes == {"WORKFLOW_PRIORITY": {"priority": 50}}
    said = {("WORKFLOW_PRIORITY", SCOPE): {"priority": 90}}
    assert run_plan(said).attributes == {"WORKFLOW_PRIORITY": {"priority": 90}}


# Requests


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
