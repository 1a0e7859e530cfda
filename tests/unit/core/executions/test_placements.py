"""Placements: where a run plan goes, and which requests are refused for where they ask to go."""

from __future__ import annotations

from typing import Any

import pytest

from admin.core.executions.placements import able_elsewhere, check_feasible, check_route
from admin.core.executions.plans import RunPlan
from admin.core.fleet.fleet import Fleet
from admin.core.placement.decisions import Decision, choose, evaluate
from admin.core.problems import Refused
from admin.core.settings.platform import PlatformLeaf, PlatformLeaves, PlatformValues
from admin.core.settings.scopes import Scope
from admin.core.use_grants import EVERYTHING, Usable
from tests.support.run_plans import SCOPE, label, pool, rules, run_plan
from tests.support.small_fleets import group, small_fleet

FLEET = small_fleet(
    clusters={name: {} for name in "abcd"},
    pools={"first": group(["a", "b"]), "second": group(["c"])},
    labels={"sunny": group(["d"])},
)
POOL_ROW = {("CLUSTER_ASSIGNMENT", SCOPE): {"cluster_pool_name": "first"}}
LABEL_ROW = {("EXECUTION_CLUSTER_LABEL", Scope(domain="d")): {"value": "sunny"}}


def place(plan: RunPlan, fleet: Fleet = FLEET, *, sees_fleet: bool = True) -> Decision:
    """Where a run plan goes, by the rules of a creation in their order."""
    check_route(plan.effective, fleet, sees_fleet=lambda: sees_fleet)
    evaluation = evaluate(plan.route, fleet, plan.workload, {})
    check_feasible(evaluation, plan.route, lambda: sees_fleet)
    return choose(evaluation, plan.workload.key)


def refused(plan: RunPlan, fleet: Fleet = FLEET, *, sees_fleet: bool = True) -> tuple[str, str, str]:
    with pytest.raises(Refused) as caught:
        place(plan, fleet, sees_fleet=sees_fleet)
    [problem] = caught.value.problems
    return caught.value.error, problem.field, problem.reason


# The fence


@pytest.mark.parametrize(
    "request_", [{}, pool("first"), {"cluster": "a"}, {"cluster": "b"}, {"interruptible": True}], ids=str
)
def test_behind_a_fence_a_request_may_repeat_the_settings_or_name_a_cluster_they_lead_to(request_: Any) -> None:
    decision = place(run_plan(POOL_ROW, rules("d"), request=request_))
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
    assert place(run_plan(POOL_ROW, rules("other"), request=pool("second"))).cluster == "c"


def test_a_fence_without_settings_lets_every_request_through() -> None:
    assert place(run_plan({}, rules("d"), request={"cluster": "c"})).cluster == "c"
    assert place(run_plan({}, rules("d"), request=label("sunny"))).cluster == "d"


def test_a_fence_names_the_definition_or_the_configuration_that_set_the_route() -> None:
    plan = run_plan({}, rules("d"), definition=pool("first"), request=pool("second"))
    assert "the launch plan's definition says pool 'first'" in refused(plan)[2]
    leaf: PlatformLeaves = {("value",): PlatformLeaf(value="sunny", key="clusters.defaultExecutionLabel")}
    configured = PlatformValues(everywhere={"EXECUTION_CLUSTER_LABEL": leaf})
    plan = run_plan({}, rules("d", platform=configured), request=pool("second"))
    assert "configuration (clusters.defaultExecutionLabel) says label 'sunny'" in refused(plan)[2]


def test_a_fence_does_not_stop_a_launch_plans_definition() -> None:
    assert place(run_plan(LABEL_ROW, rules("d"), definition=pool("second"))).cluster == "c"


# Unknown and disabled places


@pytest.mark.parametrize(
    ("attributes", "launch", "error", "words"),
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
def test_an_unknown_target_is_refused_naming_its_origin_and_close_names(
    attributes: Any, launch: dict[str, Any], error: str, words: list[str]
) -> None:
    refusal, _, reason = refused(run_plan(attributes, **launch))
    assert refusal == error
    assert all(word in reason for word in words), reason


def test_an_unknown_target_of_configuration_is_refused_naming_its_key() -> None:
    leaf: PlatformLeaves = {("cluster_pool_name",): PlatformLeaf(value="gone", key="clusters.defaultClusterPool")}
    plan = run_plan({}, rules(platform=PlatformValues(everywhere={"CLUSTER_ASSIGNMENT": leaf})))
    error, _, reason = refused(plan)
    assert (error, "configuration (clusters.defaultClusterPool)" in reason) == ("unknown_pool", True)


def test_an_unknown_target_that_is_overridden_is_not_refused() -> None:
    plan = run_plan(
        {("CLUSTER_ASSIGNMENT", Scope(project="p")): {"cluster_pool_name": "frist"}}, request=pool("second")
    )
    assert place(plan).cluster == "c"


def test_a_named_cluster_that_is_disabled_is_refused_and_one_that_is_cordoned_is_waited_for() -> None:
    fleet = small_fleet(clusters={"a": {}, "b": {}}, states={"a": {"enabled": False}, "b": {"cordoned": True}})
    error, field, reason = refused(run_plan(request={"cluster": "a"}), fleet)
    assert (error, field, "disabled" in reason) == ("cluster_disabled", "spec.cluster", True)
    decision = place(run_plan(request={"cluster": "b"}), fleet)
    assert (decision.cluster, decision.code) == (None, "CLUSTERS_CORDONED")


def test_a_job_that_no_cluster_could_ever_run_is_refused_with_what_is_missing() -> None:
    fleet = small_fleet(clusters={"a": {"capacity": {"cpu": "4", "gpu": "0"}}})
    plan = run_plan(job={"command": ["x"], "resources": {"requests": {"gpu": "1"}}})
    error, field, reason = refused(plan, fleet)
    assert (error, field) == ("no_cluster_large_enough", "spec.job.resources")
    assert "0 gpu in all, 1 wanted" in reason
    assert reason.endswith(". Ask for less.")


# What is told to who may not read the fleet


def test_a_refusal_suggests_only_names_that_settings_say_to_who_may_not_read_the_fleet() -> None:
    _, _, reason = refused(run_plan(request=pool("frist")), sees_fleet=False)
    assert reason == "No pool is called 'frist', set by the request."
    _, _, reason = refused(run_plan(POOL_ROW, request=pool("frist")), sees_fleet=False)
    assert reason == "No pool is called 'frist', set by the request. Did you mean 'first'?"
    unknown = {("CLUSTER_ASSIGNMENT", SCOPE): {"cluster_pool_name": "frist"}}
    _, _, reason = refused(run_plan(unknown, request=pool("firts")), sees_fleet=False)
    assert "Did you mean" not in reason


def test_a_job_that_no_cluster_could_ever_run_is_refused_without_the_names_of_clusters() -> None:
    fleet = small_fleet(clusters={name: {"capacity": {"cpu": "4", "gpu": "0"}} for name in "ab"})
    job = {"command": ["x"], "resources": {"requests": {"gpu": "1"}}}
    _, _, reason = refused(run_plan(job=job), fleet, sees_fleet=False)
    assert reason == "No cluster of the fleet is able: 2 clusters you may not see. Ask for less."
    _, _, reason = refused(run_plan(job=job, request={"cluster": "a"}), fleet, sees_fleet=False)
    assert reason.startswith("Cluster 'a' ")


# Another place


SIZED = {"capacity": {"cpu": "8"}}
SIZED_FLEET = small_fleet(
    clusters={"little": SIZED, "wide": SIZED, "lone": SIZED},
    pools={"first": group(["little"]), "second": group(["wide"]), "third": group({"lone": 0, "wide": 1})},
    states={name: {"health": "ready"} for name in ("little", "wide", "lone")},
)


@pytest.mark.parametrize(
    ("usable", "place"),
    [
        (None, "pool 'first'"),
        (EVERYTHING, "pool 'first'"),
        (Usable(frozenset()), ""),
        (Usable(frozenset(), frozenset({"second"})), "pool 'second'"),
        (Usable(frozenset({"wide"})), "pool 'second'"),
        (Usable(frozenset({"lone"})), "cluster 'lone'"),
        (Usable(frozenset(), frozenset({"second"}), within=frozenset({"lone"})), ""),
        (Usable(frozenset(), is_everything=True, within=frozenset({"lone"})), "cluster 'lone'"),
    ],
    ids=str,
)
def test_another_place_is_one_that_the_creator_may_use(usable: Usable | None, place: str) -> None:
    plan = run_plan()
    assert able_elsewhere(plan.effective, SIZED_FLEET, plan.workload, usable) == place
