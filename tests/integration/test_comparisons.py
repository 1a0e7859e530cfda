"""What differs between two scopes, two revisions, and an execution and today, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.services.context import Context
from tests.conftest import MakeApp
from tests.support.agents import played_agent
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    asked,
    created,
    explanation,
    get,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    register_workflow,
    switch,
)
from tests.support.statements import transactions

SLOW_ON = ("postgresql",)

COMPARISON = "effective_attributes/comparison"


@pytest.fixture
def settled(api: FlaskClient) -> FlaskClient:
    """Limits at a domain and at a workflow in it."""
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"cpu": "2", "memory": "1Gi"}})
    put_attribute(api, "workflow", "task_resource_attributes", {"limits": {"memory": "4Gi"}}, workflow="fit")
    return api


def differences(answer: Any) -> dict[str, tuple[Any, Any]]:
    return {
        entry["field"]: (entry["first"].get("value"), entry["second"].get("value")) for entry in answer["differences"]
    }


def test_two_scopes_differ_leaf_by_leaf_with_origins(settled: FlaskClient) -> None:
    query = f"project={PROJECT}&domain={DOMAIN}&other_workflow=fit&resource_type=TASK_RESOURCE"
    answer = get(settled, f"{COMPARISON}?{query}")
    assert differences(answer) == {"limits.memory": ("1Gi", "4Gi")}
    [memory] = answer["differences"]
    assert memory["first"]["origin"] == {"level": "domain", "domain": DOMAIN, "version": 1, "revision": 1}
    workflow = {"project": PROJECT, "domain": DOMAIN, "workflow": "fit"}
    assert memory["second"]["origin"] == {"level": "workflow", **workflow, "version": 2, "revision": 2}
    assert answer["first"] == {"project": PROJECT, "domain": DOMAIN, "revision": 2}
    assert answer["second"] == {**workflow, "revision": 2}
    assert answer["equal"] >= 1
    assert {number: entry["author"] for number, entry in answer["revisions"].items()} == {
        "1": "anonymous",
        "2": "anonymous",
    }


def test_both_sides_are_of_one_snapshot(settled: FlaskClient, context: Context) -> None:
    with transactions(context) as begun:
        get(settled, f"{COMPARISON}?domain={DOMAIN}&other_domain=staging")
    assert len(begun) == 1


def test_another_domain_lacks_what_this_one_sets(settled: FlaskClient) -> None:
    query = f"project={PROJECT}&domain={DOMAIN}&other_domain=production&resource_type=TASK_RESOURCE"
    put_attribute(settled, "domain", "execution_cluster_label", {"value": "here"})
    put_attribute(settled, "domain", "execution_cluster_label", {"value": None}, domain="staging")
    query = query.replace("TASK_RESOURCE", "EXECUTION_CLUSTER_LABEL")
    [label] = get(settled, f"{COMPARISON}?{query}")["differences"]
    assert (label["first"]["value"], label["second"]) == ("here", {"state": "absent"})
    [label] = get(settled, f"{COMPARISON}?{query.replace('production', 'staging')}")["differences"]
    assert (label["second"]["state"], label["second"]["origin"]["domain"]) == ("unset", "staging")


def test_a_label_that_a_pool_outranks_is_marked(settled: FlaskClient) -> None:
    put_label(settled, "near", ["here"])
    put_pool(settled, "both", ["here"])
    put_attribute(settled, "project-domain", "execution_cluster_label", {"value": "near"})
    at = get(settled, "revisions")["head"]
    put_attribute(settled, "project-domain", "cluster_assignment", {"cluster_pool_name": "both"})
    here = f"project={PROJECT}&domain={DOMAIN}&resource_type=EXECUTION_CLUSTER_LABEL"
    compared = get(settled, f"{COMPARISON}?{here}&other_domain=staging")
    [label] = compared["differences"]
    assert label["first"]["effect"]["outcome"] == "outranked"
    assert label["first"]["effect"]["effect"] == "pool 'both' outranks it"
    explained = get(settled, f"effective_attributes?{here}&provenance=true")["consequences"]["EXECUTION_CLUSTER_LABEL"]
    assert label["first"]["effect"]["message"] == explained["message"]
    # Before the pool was set nothing outranked the label.
    [label] = get(settled, f"{COMPARISON}?{here}&at={at}&other_domain=staging")["differences"]
    assert "effect" not in label["first"]
    path = f"project_domain_attributes/{PROJECT}/{DOMAIN}?resource_type="
    assert get(settled, f"{path}EXECUTION_CLUSTER_LABEL&provenance=true")["consequence"] == explained
    assert "consequence" not in get(settled, f"{path}EXECUTION_CLUSTER_LABEL")
    assert get(settled, f"{path}CLUSTER_ASSIGNMENT&provenance=true")["consequence"]["outcome"] == "waits"  # unseen


def test_two_clusters_are_compared_fact_by_fact(api: FlaskClient) -> None:
    put_cluster(api, "east", capacity={"cpu": "8"}, cost=3, properties={"zone": "a"})
    put_cluster(api, "west", capacity={"cpu": "64"}, cost=3, properties={"zone": "a"})
    put_pool(api, "gpu", ["east"])
    switch(api, "west", "cordon", reason="disks")
    answer = get(api, "clusters/east/comparison?other=west")
    facts = {(fact["part"], fact["field"]): (fact.get("first"), fact.get("second")) for fact in answer["facts"]}
    assert facts["capacity", "capacity.cpu"] == ("8", "64")
    assert facts["membership", "pools.gpu"] == (True, None)
    assert facts["state", "cordoned"] == (False, True)
    assert facts["state", "cordon_reason"] == (None, "disks")
    assert facts["definition", "cost"] == (3, 3)
    assert facts["properties", "properties.zone"] == ("a", "a")
    assert [fact["equal"] for fact in answer["facts"] if fact["field"] == "cost"] == [True]
    assert answer["message"].startswith("'east' and 'west' differ in membership (pools.gpu); state (")
    assert (answer["first"]["cluster"], "disks" in answer["second"]["summary"]) == ("east", True)
    refused(api.get(f"{API}/clusters/east/comparison?other=east"), 400, "invalid_request", "other")
    refused(api.get(f"{API}/clusters/east/comparison?other=wset"), 404, "cluster_not_found")
    refused(api.get(f"{API}/clusters/east/comparison"), 400, "invalid_request", "other")


def test_one_scope_at_two_revisions(settled: FlaskClient) -> None:
    put_attribute(settled, "domain", "task_resource_attributes", {"limits": {"cpu": "3", "memory": "1Gi"}})
    answer = get(settled, f"{COMPARISON}?domain={DOMAIN}&at=1")
    assert differences(answer) == {"limits.cpu": ("2", "3")}
    assert (answer["first"]["revision"], answer["second"]["revision"]) == (1, 3)
    assert differences(get(settled, f"{COMPARISON}?domain={DOMAIN}&at=1&other_at=2")) == {}


def test_an_execution_is_compared_with_what_its_request_would_get_now(settled: FlaskClient) -> None:
    created(settled, "early")
    path = f"executions/{PROJECT}/{DOMAIN}/early/comparison"
    assert differences(get(settled, path)) == {}
    put_attribute(settled, "domain", "task_resource_attributes", {"limits": {"cpu": "5", "memory": "1Gi"}})
    answer = get(settled, path)
    assert differences(answer) == {"limits.cpu": ("2", "5")}
    assert answer["first"]["execution"] == {"project": PROJECT, "domain": DOMAIN, "name": "early"}
    assert (answer["first"]["revision"], answer["second"]["revision"]) == (2, 3)
    assert "execution" not in answer["second"]


def test_two_executions_are_compared_as_each_was_decided(settled: FlaskClient, context: Context) -> None:
    put_pool(settled, "gpu", ["a"], strategy="spill")
    put_label(settled, "spare", ["b"])
    put_attribute(settled, "domain", "execution_cluster_label", {"value": "spare"})
    ok(register_workflow(settled, "fit"))
    created(settled, "early")
    put_attribute(settled, "domain", "task_resource_attributes", {"limits": {"cpu": "5", "memory": "1Gi"}})
    launch = {"name": "fit", "resource_type": "WORKFLOW"}
    created(settled, "late", domain="staging", launch_plan={**launch, "domain": DOMAIN}, **pool("gpu"))
    created(settled, "late", launch_plan=launch, **pool("gpu"))
    with transactions(context) as begun:
        answer = get(settled, f"executions/{PROJECT}/{DOMAIN}/early/comparison?other_name=late")
    assert len(begun) == 1
    assert differences(answer) == {
        "limits.cpu": ("2", "5"),
        "limits.memory": ("1Gi", "4Gi"),
        "cluster_pool_name": (None, "gpu"),
    }
    origins = {entry["field"]: entry["second"]["origin"] for entry in answer["differences"]}
    assert origins["cluster_pool_name"] == {"level": "request"}
    assert origins["limits.memory"]["workflow"] == "fit"
    first, second = answer["first"], answer["second"]
    assert first["execution"] == {"project": PROJECT, "domain": DOMAIN, "name": "early"}
    assert (second["execution"]["name"], second["workflow"], "workflow" in first) == ("late", "fit", False)
    assert first["revision"] < second["revision"]
    for side, name in ((first, "early"), (second, "late")):
        explained = explanation(settled, name)
        placed = side["placed"]
        for key in ("cluster", "pool", "label", "strategy", "rule", "decision", "decided_at"):
            assert placed.get(key) == explained.get(key), key
        assert placed["reason"]["code"] == explained["reason"]["code"]
        assert placed["reason"]["message"].startswith(f"Cluster '{placed['cluster']}' was chosen")
    elsewhere = get(settled, f"executions/{PROJECT}/{DOMAIN}/early/comparison?other_name=late&other_domain=staging")
    assert elsewhere["second"]["domain"] == "staging"
    assert differences(elsewhere)["value"] == ("spare", None)


def facts_of(answer: Any, part: str) -> dict[str, tuple[Any, Any]]:
    """The facts of a part that differ between two executions."""
    return {
        fact["field"]: (fact.get("first"), fact.get("second"))
        for fact in answer["facts"]
        if fact["part"] == part and not fact["equal"]
    }


def test_two_executions_are_compared_by_what_they_are_and_how_they_were_placed_and_ended(
    api: FlaskClient, context: Context
) -> None:
    agent = played_agent(api, context, "here")
    put_pool(api, "gpu", ["here"], strategy="spill")
    put_label(api, "spare", ["here"])
    put_attribute(api, "domain", "execution_cluster_label", {"value": "spare"})
    for version in ("v1", "v2"):
        ok(register_workflow(api, "fit", version, inputs={"rate": {"type": "integer"}}))
    launch = {"name": "fit", "resource_type": "WORKFLOW"}
    body = asked("one", launch_plan={**launch, "version": "v1"}, inputs={"rate": 1})
    ok(api.post(f"{API}/executions", json={**body, "claimed_by": "ana"}))
    created(api, "two", launch_plan={**launch, "version": "v2"}, inputs={"rate": 2}, **pool("gpu"))
    agent.start(2)
    agent.finish(["one"], exit_code=0)
    agent.finish(["two"], "FAILED", exit_code=3)
    answer = get(api, f"executions/{PROJECT}/{DOMAIN}/one/comparison?other_name=two")
    assert facts_of(answer, "run") == {
        "workflow_version": ("v1", "v2"),
        "inputs.rate": (1, 2),
        "created_by": ("anonymous (says ana)", "anonymous"),
    }
    placement = facts_of(answer, "placement")
    assert placement["rung"] == ("domain", "request")
    assert placement["source"] == (f"domain {DOMAIN}", "the request")
    assert (placement["pool"], placement["label"]) == ((None, "gpu"), ("spare", None))
    revision = answer["first"]["placed"]["origin"]["version"]
    assert placement["set_by_revision"] == (revision, None)
    assert answer["revisions"][str(revision)]["author"] == "anonymous"
    assert "cluster" not in placement
    outcome = facts_of(answer, "outcome")
    assert outcome["phase"] == ("SUCCEEDED", "FAILED")
    assert outcome["cause"] == (None, "EXIT_CODE")
    assert outcome["ended_by"][1] == "exit 3"
    same = {fact["field"]: fact["first"] for fact in answer["facts"] if fact["equal"]}
    assert (same["workflow"], same["attempts"], same["cluster"]) == ("fit", 1, "here")
    assert "run_time_seconds" in {fact["field"] for fact in answer["facts"]}
    assert answer["message"].startswith("'one' SUCCEEDED on here; 'two' FAILED on here (exit 3). They differ in run (")
    assert answer["message"].endswith("; 1 setting.")


def test_every_field_of_two_jobs_is_compared(settled: FlaskClient) -> None:
    small = {"command": ["train"], "resources": {"requests": {"cpu": "1"}}, "environment": {"THE_SEED": "1"}}
    large = {**small, "resources": {"requests": {"cpu": "2"}, "nodes": 4}, "environment": {"THE_SEED": "2"}}
    created(settled, "one", job=small)
    created(settled, "two", job=large, retry={"attempts": 5})
    answer = get(settled, f"executions/{PROJECT}/{DOMAIN}/one/comparison?other_name=two")
    assert "job.environment.THE_SEED" in answer["message"]
    differing = facts_of(answer, "run")
    assert differing["job.resources.requests.cpu"] == ("1", "2")
    assert differing["job.resources.nodes"] == (1, 4)
    assert differing["job.environment.THE_SEED"] == ("1", "2")
    assert differing["retry.attempts"][1] == 5


def test_why_two_executions_of_one_pool_came_to_different_clusters_is_compared(settled: FlaskClient) -> None:
    for cluster in ("east", "west"):
        put_cluster(settled, cluster)
    put_pool(settled, "both", ["east", "west"], strategy="spill")
    created(settled, "one", **pool("both"))
    switch(settled, "east", "cordon")
    created(settled, "two", **pool("both"))
    answer = get(settled, f"executions/{PROJECT}/{DOMAIN}/one/comparison?other_name=two")
    placement = facts_of(answer, "placement")
    assert placement["cluster"] == ("east", "west")
    chosen, cordoned = placement["candidates.east"]
    assert chosen == "chosen"
    assert cordoned.startswith("is cordoned, event ")
    assert placement["candidates.west"][0] == "able; listed after 'east', which has room"
    assert placement["candidates.west"][1] == "chosen"
    assert "They differ in placement (cluster, candidates)" in answer["message"]
    created(settled, "three", **pool("both"))
    same = get(settled, f"executions/{PROJECT}/{DOMAIN}/two/comparison?other_name=three")
    assert not any(fact["field"].startswith("candidates.") for fact in same["facts"])


def test_two_executions_that_are_alike_differ_in_nothing(settled: FlaskClient) -> None:
    created(settled, "one")
    created(settled, "two")
    answer = get(settled, f"executions/{PROJECT}/{DOMAIN}/one/comparison?other_name=one")
    assert answer["message"] == "'one' is QUEUED; 'one' is QUEUED. Nothing else differs between them."
    assert all(fact["equal"] for fact in answer["facts"])


def test_a_kind_that_is_no_longer_declared_is_compared_on_both_sides(make_app: MakeApp) -> None:
    without = make_app(kinds={"OTHER": {"number": 10, "fields": {"a": "int"}}}).test_client()
    created(without, "early")
    before = make_app().test_client()
    put_attribute(before, "domain", "workflow_priority", {"priority": 80})
    created(before, "late")
    put_attribute(before, "domain", "workflow_priority", {"priority": 90})
    created(before, "last")
    path = f"executions/{PROJECT}/{DOMAIN}"
    assert differences(get(without, f"{path}/late/comparison?other_name=last")) == {"priority": (80, 90)}
    [priority] = get(without, f"{path}/early/comparison?other_name=late")["differences"]
    assert (priority["first"], priority["second"]["value"]) == ({"state": "absent"}, 80)


@pytest.mark.parametrize(
    ("query", "status", "error", "field"),
    [
        ("other_name=none", 404, "execution_not_found", "name"),
        ("other_domain=staging", 400, "invalid_request", "other_domain"),
        ("other_name=", 400, "invalid_request", "other_name"),
        ("other=late", 400, "invalid_request", "other"),
    ],
)
def test_another_execution_that_is_not_named_right_is_refused(
    settled: FlaskClient, query: str, status: int, error: str, field: str
) -> None:
    created(settled, "early")
    path = f"{API}/executions/{PROJECT}/{DOMAIN}/early/comparison"
    refused(settled.get(f"{path}?{query}"), status, error, field)


def test_an_execution_of_an_archived_project_is_compared_too(settled: FlaskClient) -> None:
    created(settled, "early")
    ok(settled.put(f"{API}/projects/{PROJECT}", json={"state": "ARCHIVED"}))
    assert differences(get(settled, f"executions/{PROJECT}/{DOMAIN}/early/comparison")) == {}


def test_a_kind_that_is_no_longer_declared_is_a_difference(make_app: MakeApp) -> None:
    before = make_app().test_client()
    put_attribute(before, "domain", "workflow_priority", {"priority": 80})
    created(before, "early")
    without = make_app(kinds={"OTHER": {"number": 10, "fields": {"a": "int"}}}).test_client()
    [priority] = get(without, f"executions/{PROJECT}/{DOMAIN}/early/comparison")["differences"]
    assert (priority["resource_type"], priority["field"]) == ("WORKFLOW_PRIORITY", "priority")
    assert (priority["first"]["value"], priority["second"]) == (80, {"state": "absent"})


def test_a_field_that_a_declared_kind_no_longer_has_is_a_difference(make_app: MakeApp) -> None:
    def declared(**fields: str) -> FlaskClient:
        return make_app(kinds={"OTHER": {"number": 10, "fields": fields}}).test_client()

    before = declared(a="int", b="str")
    put_attribute(before, "domain", "other", {"a": 1, "b": "x"})
    created(before, "early")
    [lost] = get(declared(a="int"), f"executions/{PROJECT}/{DOMAIN}/early/comparison")["differences"]
    assert (lost["resource_type"], lost["field"], lost["first"]["value"]) == ("OTHER", "b", "x")
    assert lost["first"]["origin"]["domain"] == DOMAIN
    assert lost["second"] == {"state": "absent"}


def test_nothing_is_written(settled: FlaskClient) -> None:
    before = get(settled, "revisions")
    get(settled, f"{COMPARISON}?domain={DOMAIN}&other_domain=staging")
    assert get(settled, "revisions") == before


@pytest.mark.parametrize(
    ("query", "status", "error", "field"),
    [
        ("domain=nowhere&other_domain=staging", 400, "unknown_domain", None),
        (f"domain={DOMAIN}&other_domain=stagin", 400, "unknown_domain", None),
        (f"project=nobody&domain={DOMAIN}&other_domain=staging", 400, "unknown_project", None),
        (f"domain={DOMAIN}&other_workflow=w", 400, "invalid_request", None),
        (f"domain={DOMAIN}&other_at=99", 404, "revision_not_found", None),
        (f"domain={DOMAIN}&other_domain=", 400, "invalid_request", "other_domain"),
        (f"domain={DOMAIN}&other_at=-1", 400, "invalid_request", "other_at"),
        (f"domain={DOMAIN}&resource_type=TASK_RESORCE", 400, "invalid_request", "resource_type"),
        (f"domain={DOMAIN}&others=1", 400, "invalid_request", "others"),
    ],
)
def test_bad_input_is_refused_by_name(
    settled: FlaskClient, query: str, status: int, error: str, field: str | None
) -> None:
    refused(settled.get(f"{API}/{COMPARISON}?{query}"), status, error, field)


def test_an_unknown_execution_is_refused(settled: FlaskClient) -> None:
    refused(settled.get(f"{API}/executions/{PROJECT}/{DOMAIN}/none/comparison"), 404, "execution_not_found", "name")
