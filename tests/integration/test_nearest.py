"""The nearest row where nothing is set, on both databases."""

from __future__ import annotations

from flask.testing import FlaskClient

from admin.services.context import Context
from tests.support.placing import API, DOMAIN, PROJECT, delete_attribute, get, ok, put_attribute, put_label, refused
from tests.support.statements import transactions

SLOW_ON = ("postgresql",)

HERE = f"project={PROJECT}&domain={DOMAIN}&workflow=fit&launch_plan=nightly"
LABEL = "EXECUTION_CLUSTER_LABEL"


def test_a_nearest_row_that_names_what_is_unknown_has_a_warning(api: FlaskClient) -> None:
    put_attribute(api, "domain", "execution_cluster_label", {"value": "nite"}, domain="staging")
    row = get(api, f"effective_attributes?{HERE}&resource_type={LABEL}&nearest=true")["nearest"][LABEL]
    assert "'nite'" in row["warning"]
    put_label(api, "nite", ["c1"])
    row = get(api, f"effective_attributes?{HERE}&resource_type={LABEL}&nearest=true")["nearest"][LABEL]
    assert "warning" not in row
    ok(api.delete(f"{API}/labels/nite?force=true"))
    row = get(api, f"effective_attributes?{HERE}&resource_type={LABEL}&nearest=true")["nearest"][LABEL]
    assert "The label 'nite' was deleted by revision " in row["warning"]


def nearest(api: FlaskClient, scope: str = HERE, kind: str = LABEL) -> object:
    return get(api, f"effective_attributes?{scope}&resource_type={kind}&nearest=true")["nearest"].get(kind)


def test_the_nearest_row_is_found_level_by_level(api: FlaskClient) -> None:
    rows = [
        ("domain", {"domain": "staging"}),
        ("project-domain", {"domain": "staging"}),
        ("workflow", {"workflow": "fitness"}),
        ("launch-plan", {"workflow": "fit", "launch_plan": "weekly"}),
    ]
    assert nearest(api) is None
    for number, (level, scope) in enumerate(rows, 1):
        put_attribute(api, level, "execution_cluster_label", {"value": f"label-{number}"}, **scope)
        keys = {} if level == "domain" else {"project": PROJECT, "domain": DOMAIN}
        flags = f"-p {PROJECT} -d {DOMAIN} -w fit --launchplan nightly --set value=label-{number}"
        row = nearest(api)
        assert isinstance(row, dict)
        assert row.pop("warning").startswith(f"No label is called 'label-{number}'")
        assert row == {
            **keys,
            **scope,
            "level": level,
            "version": number,
            "value": {"value": f"label-{number}"},
            "command": f"rainbowctl update execution-cluster-label {flags}",
        }


def test_the_same_workflow_and_launch_plan_are_found_in_another_project_and_domain(api: FlaskClient) -> None:
    here = f"project={PROJECT}&domain={DOMAIN}&workflow=fit"

    def value(scope: str) -> object:
        row = nearest(api, scope)
        return row["value"]["value"] if isinstance(row, dict) else row

    put_attribute(api, "workflow", "execution_cluster_label", {"value": "a"}, project="flyteexamples", workflow="fit")
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "b"}, domain="staging", workflow="other")
    assert value(here) == "a"
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "c"}, domain="staging", workflow="fit")
    assert value(here) == "c"
    assert value(HERE) == "c"
    plan = {"workflow": "fit", "launch_plan": "nightly"}
    put_attribute(api, "launch-plan", "execution_cluster_label", {"value": "d"}, project="flyteexamples", **plan)
    assert value(HERE) == "d"
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "e"}, workflow="fitness")
    assert value(here) == "e"


def test_what_has_a_value_has_no_nearest_row(api: FlaskClient) -> None:
    put_attribute(api, "domain", "execution_cluster_label", {"value": "a"}, domain="staging")
    put_attribute(api, "domain", "execution_cluster_label", {"value": "b"})
    assert nearest(api) is None
    delete_attribute(api, "domain", LABEL)
    assert nearest(api) is not None
    every = get(api, f"effective_attributes?{HERE}&nearest=true")["nearest"]
    assert list(every) == [LABEL]
    assert "nearest" not in get(api, f"effective_attributes?{HERE}&provenance=true")


def test_a_kind_is_not_suggested_at_a_level_that_it_does_not_have(api: FlaskClient) -> None:
    put_attribute(api, "domain", "cluster_resource_attributes", {"attributes": {"a": "b"}}, domain="staging")
    assert nearest(api, kind="CLUSTER_RESOURCE") is None
    assert nearest(api, f"domain={DOMAIN}", "CLUSTER_RESOURCE") is not None


def test_the_past_has_no_nearest_row(api: FlaskClient) -> None:
    refused(api.get(f"{API}/effective_attributes?{HERE}&nearest=true&at=0"), 400, "invalid_request", "nearest")


def test_the_answer_is_of_one_snapshot_and_says_who_set_the_nearest_row(api: FlaskClient, context: Context) -> None:
    put_attribute(api, "workflow", "execution_cluster_label", {"value": "near"}, workflow="there")
    query = f"effective_attributes?project={PROJECT}&domain={DOMAIN}&workflow=w&resource_type=3"
    with transactions(context) as begun:
        answer = get(api, f"{query}&nearest=true&provenance=true")
    assert len(begun) == 1
    [nearest] = answer["nearest"].values()
    assert answer["revisions"][str(nearest["version"])]["author"] == "anonymous"
    body = {"project": PROJECT, "domain": DOMAIN, "workflow": "there", "resource_type": "3", "changes": []}
    change = {"resource_type": "EXECUTION_CLUSTER_LABEL", "domain": DOMAIN, "payload": {"value": "far"}}
    with transactions(context) as begun:
        assumed = ok(api.post(f"{API}/effective_attributes", json={**body, "changes": [change]}))
    assert len(begun) == 1
    assert assumed["revisions"].keys() == {str(nearest["version"])}


def test_the_nearest_row_is_found_where_only_the_configuration_has_a_value(api: FlaskClient) -> None:
    here = f"project={PROJECT}&domain={DOMAIN}"
    put_attribute(api, "project-domain", "task_resource_attributes", {"limits": {"cpu": "3"}}, domain="staging")
    [value] = get(api, f"effective_attributes?{here}&resource_type=TASK_RESOURCE")["values"]
    assert {origin["level"] for origin in value["origins"].values()} == {"platform"}
    row = nearest(api, here, "TASK_RESOURCE")
    assert isinstance(row, dict)
    assert (row["domain"], row["value"]) == ("staging", {"limits": {"cpu": "3"}})
    assert row["command"].endswith(f"-p {PROJECT} -d {DOMAIN} --set limits.cpu=3")
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"memory": "1Gi"}})
    assert nearest(api, here, "TASK_RESOURCE") is None
