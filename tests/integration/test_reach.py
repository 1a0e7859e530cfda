"""The reach of a row, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.services.context import Context
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    get,
    new_project,
    ok,
    put_attribute,
    refused,
    register_plan,
    register_workflow,
)
from tests.support.statements import transactions

SLOW_ON = ("postgresql",)

LABEL = "execution_cluster_label"


def reach(api: FlaskClient, query: str, **keys: str) -> Any:
    scope = "&".join(f"{key}={name}" for key, name in keys.items())
    return get(api, f"effective_attributes/reach?resource_type=EXECUTION_CLUSTER_LABEL&{scope}{query}")


@pytest.fixture
def labelled(api: FlaskClient) -> FlaskClient:
    """A label of a domain, which a workflow repeats, another one contradicts, and a third inherits."""
    put_attribute(api, "domain", LABEL, {"value": "a"})
    put_attribute(api, "workflow", LABEL, {"value": "a"}, workflow="same")
    put_attribute(api, "workflow", LABEL, {"value": "b"}, workflow="other")
    for name in ("free", "other"):
        ok(register_workflow(api, name))
        ok(register_plan(api, f"{name}-nightly", name))
    return api


def relations(answer: Any) -> dict[str, str]:
    keys = ("project", "workflow", "launch_plan")
    return {"/".join(place[key] for key in keys if key in place): place["relation"] for place in answer["scopes"]}


BELOW = {
    PROJECT: "follows",
    f"{PROJECT}/free": "follows",
    f"{PROJECT}/free/free-nightly": "follows",
    f"{PROJECT}/other": "says_otherwise",
    f"{PROJECT}/other/other-nightly": "follows_another",
    f"{PROJECT}/same": "says_the_same",
}


def test_scopes_below_a_domain_follow_it_say_otherwise_or_the_same(labelled: FlaskClient) -> None:
    answer = reach(labelled, "", domain=DOMAIN)
    assert {scope: word for scope, word in relations(answer).items() if scope.startswith(PROJECT)} == BELOW
    assert answer["row"]["attributes"] == {LABEL: {"value": "a"}}
    assert (answer["row"]["version"], answer["revision"]) == (1, 3)
    counts = answer["counts"]
    others = len(answer["scopes"]) - len(BELOW)
    assert counts == {
        "follows": 3 + others,
        "says_otherwise": 1,
        "says_the_same": 1,
        "follows_another": 1,
        "differs_by_field": 0,
        "outranked": 0,
        "not_followed": 0,
    }
    assert "token" not in answer
    assert {place["fields"]["value"] for place in answer["scopes"]} == set(BELOW.values())


def test_scopes_that_follow_a_row_with_some_fields_only_are_counted_apart(api: FlaskClient) -> None:
    resources = "task_resource_attributes"
    put_attribute(api, "project-domain", resources, {"limits": {"cpu": "2", "memory": "1Gi"}})
    put_attribute(api, "workflow", resources, {"limits": {"memory": "2Gi"}}, workflow="fit")
    ok(register_workflow(api, "fit"))
    ok(register_plan(api, "nightly", "fit"))
    query = f"resource_type=TASK_RESOURCE&project={PROJECT}&domain={DOMAIN}"
    answer = get(api, f"effective_attributes/reach?{query}")
    assert [place["fields"] for place in answer["scopes"]] == [
        {"limits.cpu": "follows", "limits.memory": "says_otherwise"},
        {"limits.cpu": "follows", "limits.memory": "follows_another"},
    ]
    assert {key: number for key, number in answer["counts"].items() if number} == {"differs_by_field": 2}


def test_what_scopes_follow_instead_has_the_revision_that_set_the_field_and_its_scope(api: FlaskClient) -> None:
    resources = "task_resource_attributes"
    put_attribute(api, "domain", resources, {"limits": {"memory": "1Gi"}})
    own = {"project": PROJECT, "domain": DOMAIN}
    memory = put_attribute(api, "project-domain", resources, {"limits": {"memory": "2Gi"}})["revision"]
    limits = {"limits": {"memory": "2Gi", "cpu": "2"}}
    cpu = put_attribute(api, "project-domain", resources, limits)["revision"]
    put_attribute(api, "workflow", resources, {"limits": {"cpu": "1"}}, workflow="fit")
    ok(register_workflow(api, "fit"))
    ok(register_plan(api, "nightly", "fit"))
    answer = get(api, f"effective_attributes/reach?resource_type=TASK_RESOURCE&domain={DOMAIN}")
    here = {
        place.get("launch_plan") or place.get("workflow", ""): place
        for place in answer["scopes"]
        if place["project"] == PROJECT
    }
    origin = {**own, "level": "project-domain", "version": cpu, "revision": memory}
    assert {name: (place["relation"], place["origins"]) for name, place in here.items()} == {
        "": ("says_otherwise", {"limits.memory": origin}),
        "fit": ("follows_another", {"limits.memory": origin}),
        "nightly": ("follows_another", {"limits.memory": origin}),
    }
    assert str(memory) in answer["revisions"]
    elsewhere = next(place for place in answer["scopes"] if place["project"] != PROJECT)
    assert (elsewhere["relation"], "origins" in elsewhere) == ("follows", False)


def test_the_row_and_those_below_are_shown_with_who_set_them(labelled: FlaskClient, context: Context) -> None:
    with transactions(context) as begun:
        answer = reach(labelled, "", domain=DOMAIN)
    assert len(begun) == 1
    own = {place["workflow"]: place["version"] for place in answer["scopes"] if "version" in place}
    assert own.keys() == {"same", "other"}
    assert answer["revisions"].keys() == {str(version) for version in (answer["row"]["version"], *own.values())}
    assert {entry["author"] for entry in answer["revisions"].values()} == {"anonymous"}


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_hold_the_same_scopes_once(labelled: FlaskClient, limit: int) -> None:
    for number in range(25):
        new_project(labelled, f"team-{number}")
    put_attribute(labelled, "workflow", LABEL, {"value": "c"}, project="team-7", workflow="w")
    complete = reach(labelled, "&limit=1000", domain=DOMAIN)["scopes"]
    assert len(complete) == 25 + 1 + len([place for place in complete if not place["project"].startswith("team-")])
    pages, token = [], ""
    while True:
        answer = reach(labelled, f"&limit={limit}&token={token}" if token else f"&limit={limit}", domain=DOMAIN)
        assert len(answer["scopes"]) <= limit
        pages += answer["scopes"]
        token = answer.get("token", "")
        if not token:
            break
    assert pages == complete


def test_a_project_reaches_its_domains_and_a_workflow_its_launch_plans(labelled: FlaskClient) -> None:
    put_attribute(labelled, "project", LABEL, {"value": "p"})
    answer = reach(labelled, "", project=PROJECT)
    assert {place["domain"] for place in answer["scopes"]} == {"development", "staging", "production"}
    assert relations(reach(labelled, "", project=PROJECT, domain="development", workflow="other")) == {
        f"{PROJECT}/other/other-nightly": "follows"
    }
    by_domain = reach(labelled, "", domain=DOMAIN)
    assert relations(by_domain)[PROJECT] == "follows_another"
    put_attribute(labelled, "project-domain", LABEL, {"value": "q"})
    assert relations(reach(labelled, "", project=PROJECT, domain=DOMAIN)) == {
        scope: word for scope, word in {**BELOW, f"{PROJECT}/same": "says_otherwise"}.items() if "/" in scope
    }
    assert reach(labelled, "", project=PROJECT)["counts"]["follows"] == 2


def test_a_scope_that_has_a_pool_and_goes_by_a_label_says_so(api: FlaskClient) -> None:
    put_attribute(api, "domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    put_attribute(api, "workflow", LABEL, {"value": "spare"}, workflow="train")
    put_attribute(api, "workflow", "cluster_assignment", {"cluster_pool_name": "gpu"}, workflow="both")
    put_attribute(api, "workflow", LABEL, {"value": "spare"}, workflow="both")
    ok(register_workflow(api, "train"))
    ok(register_plan(api, "nightly", "train"))
    ok(register_plan(api, "weekly", "train", cluster_assignment={"cluster_pool_name": "own"}))
    query = f"resource_type=CLUSTER_ASSIGNMENT&domain={DOMAIN}"
    answer = get(api, f"effective_attributes/reach?{query}")
    here = [place for place in answer["scopes"] if place["project"] == PROJECT]
    assert {relation for place, relation in relations({"scopes": here}).items() if "both" not in place} == {"follows"}
    consequences = {place.get("launch_plan") or place.get("workflow", ""): place.get("consequence") for place in here}
    assert (consequences[""], consequences["both"], answer["counts"]["outranked"]) == (None, None, 3)
    label = {
        "domain": DOMAIN,
        "project": PROJECT,
        "workflow": "train",
        "level": "workflow",
        "version": 2,
        "revision": 2,
    }
    for name in ("train", "nightly"):
        consequence = consequences[name]
        assert (consequence["outcome"], consequence["noun"], consequence["name"]) == ("outranked", "label", "spare")
        assert consequence["origin"] == label
        assert f"label 'spare', set at workflow {PROJECT}/{DOMAIN}/train (revision 2, " in consequence["message"]
    assert (consequences["weekly"]["noun"], consequences["weekly"]["name"]) == ("pool", "own")
    assert consequences["weekly"]["origin"] == {"level": "launch-plan-definition"}
    assert "2" in answer["revisions"]
    # The launch plan's own pool outranks the label too.
    label_reach = reach(api, "", project=PROJECT, domain=DOMAIN, workflow="train")
    assert label_reach["counts"]["outranked"] == 1


def test_a_launch_plan_has_nothing_below(labelled: FlaskClient) -> None:
    put_attribute(labelled, "launch-plan", LABEL, {"value": "l"}, workflow="w", launch_plan="l")
    answer = reach(labelled, "", project=PROJECT, domain=DOMAIN, workflow="w", launch_plan="l")
    assert (answer["scopes"], answer["counts"]["follows"]) == ([], 0)


@pytest.mark.parametrize(
    ("query", "status", "error", "field"),
    [
        (f"domain={DOMAIN}", 400, "invalid_request", "resource_type"),
        (f"domain={DOMAIN}&resource_type=EXECUTION_CLUSTER_LABL", 400, "invalid_request", "resource_type"),
        ("domain=staging&resource_type=3", 404, "attribute_not_found", None),
        ("domain=stagin&resource_type=3", 400, "unknown_domain", None),
        ("project=nobody&resource_type=3", 400, "unknown_project", None),
        ("resource_type=3", 400, "invalid_request", "resource_type"),
        (f"domain={DOMAIN}&resource_type=3&token=x", 400, "invalid_request", "token"),
        (f"domain={DOMAIN}&resource_type=3&limit=1001", 400, "invalid_request", "limit"),
    ],
)
def test_bad_input_is_refused_by_name(
    labelled: FlaskClient, query: str, status: int, error: str, field: str | None
) -> None:
    refused(labelled.get(f"{API}/effective_attributes/reach?{query}"), status, error, field)
