"""Where something is used, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.services import use_search
from admin.services.context import Context
from tests.conftest import MakeApp
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    create,
    created,
    get,
    label,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    register_plan,
    register_workflow,
    switch,
)
from tests.support.statements import transactions

SLOW_ON = ("postgresql",)

LABEL, POOL = "execution_cluster_label", "cluster_assignment"
HERE = {"project": PROJECT, "domain": DOMAIN}
NIGHTLY = {"name": "nightly"}


def used(api: FlaskClient, query: str) -> Any:
    return get(api, f"uses?{query}")


def places(entries: Any) -> list[str]:
    keys = ("domain", "project", "workflow", "launch_plan")
    return ["/".join(entry[key] for key in keys if key in entry) for entry in entries]


@pytest.fixture
def pooled(api: FlaskClient) -> FlaskClient:
    """A pool of a project, which one workflow follows, one replaces by a label, and a launch plan says again."""
    put_pool(api, "gpu", ["east"])
    put_label(api, "near", ["east"])
    put_attribute(api, "project-domain", POOL, {"cluster_pool_name": "gpu"})
    put_attribute(api, "workflow", LABEL, {"value": "near"}, workflow="fit")
    for name in ("fit", "free"):
        ok(register_workflow(api, name))
    ok(register_plan(api, "nightly", "fit", **pool("gpu")))
    ok(register_plan(api, "other", "free", **label("near")))
    return api


P = f"{DOMAIN}/{PROJECT}"


def test_a_pool_is_said_by_a_row_and_a_definition_and_reaches_what_follows(pooled: FlaskClient) -> None:
    created(pooled, "waits", **pool("gpu"))
    created(pooled, "elsewhere", **label("near"))
    answer = used(pooled, "pool=gpu&reach=true")
    assert [(use["level"], use["fields"]) for use in answer["uses"]] == [
        ("project-domain", {"cluster_pool_name": "gpu"}),
        ("launch-plan-definition", {"cluster_pool_name": "gpu"}),
    ]
    assert places(answer["uses"]) == [P, f"{P}/fit/nightly"]
    assert answer["uses"][0]["version"] == 3
    assert answer["uses"][1]["version"] == "v1"
    without = {place: entry["refused"] for place, entry in zip(places(answer["scopes"]), answer["scopes"], strict=True)}
    # A label of a workflow wins over the pool of its project, and a definition over both.
    assert without == {
        P: True,
        f"{P}/fit": False,
        f"{P}/free": True,
        f"{P}/free/other": False,
        f"{P}/fit/nightly": True,
    }
    assert answer["reach"] == {"scopes": 5, "launch_plans": 2, "refused": 3}
    assert answer["executions"] == {
        "phases": {"QUEUED": 1},
        "executions": [{"id": {**HERE, "name": "waits"}, "phase": "QUEUED"}],
        "complete": True,
    }
    assert (answer["known"], answer["revision"]) == (True, get(pooled, "revisions")["head"])
    assert "scopes" not in used(pooled, "pool=gpu")


def test_a_label_and_a_cluster(pooled: FlaskClient) -> None:
    assert places(used(pooled, "label=near")["uses"]) == [f"{P}/fit", f"{P}/free/other"]
    answer = used(pooled, "cluster=east&reach=true")
    assert (answer["pools"], answer["labels"]) == (["gpu"], ["near"])
    assert places(answer["uses"]) == [P, f"{P}/fit", f"{P}/fit/nightly", f"{P}/free/other"]
    # Each scope is reached by what wins there.
    reached = dict(zip(places(answer["scopes"]), (entry["resource_type"] for entry in answer["scopes"]), strict=True))
    assert len(reached) == len(answer["scopes"]) == 5
    assert reached[f"{P}/fit"] == "EXECUTION_CLUSTER_LABEL"
    assert reached[f"{P}/free"] == "CLUSTER_ASSIGNMENT"
    # The pool and the label keep it as an expected one, and have no other.
    assert (answer["reach"]["refused"], answer["reach"]["waiting"]) == (0, 5)
    assert all(entry["waiting"] for entry in answer["scopes"])
    put_pool(pooled, "gpu", ["east", "west"])
    assert used(pooled, "cluster=east")["reach"]["waiting"] == 2
    put_attribute(pooled, "workflow", LABEL, {"value": "east"}, workflow="fit")
    assert used(pooled, "cluster=east")["reach"]["refused"] == 1
    unknown = used(pooled, "pool=gpuu")
    assert (unknown["known"], unknown["closest"], unknown["uses"]) == (False, ["gpu"], [])
    assert "deleted_by" not in unknown


@pytest.mark.parametrize(
    ("noun", "name", "settings", "definition", "is_refused"),
    [
        ("pool", "gpu", pool("gpu"), {}, True),
        ("pool", "gpu", pool("gpu"), label("near"), False),
        ("pool", "gpu", {}, pool("gpu"), True),
        ("label", "near", label("near"), {}, True),
        ("label", "near", label("near") | pool("gpu"), {}, False),
        ("label", "west", label("west"), {}, False),  # the cluster's own name remains
        ("cluster", "east", label("east"), {}, True),
        ("cluster", "east", label("near"), {}, False),
        ("cluster", "west", label("west"), {}, False),  # the label of that name remains
    ],
)
def test_what_leads_to_it_would_be_refused_without_it(
    api: FlaskClient, noun: str, name: str, settings: Any, definition: Any, is_refused: bool
) -> None:
    for cluster in ("east", "west"):
        put_cluster(api, cluster)
    put_pool(api, "gpu", ["east"])
    put_label(api, "near", ["east"])
    put_label(api, "west", ["east"])
    ok(register_workflow(api, "fit"))
    ok(register_plan(api, "nightly", "fit", **definition))
    for kind, payload in settings.items():
        put_attribute(api, "project-domain", kind, payload)
    place = f"{P}/fit/nightly"
    scopes = used(api, f"{noun}={name}&reach=true")["scopes"]
    at_plan = [entry["refused"] for entry in scopes if places([entry]) == [place]]
    assert at_plan in ([[True]] if is_refused else ([], [False]))
    assert created(api, "before", launch_plan=NIGHTLY)["cluster"]
    ok(api.delete(f"{API}/{noun}s/{name}?force=true"))
    assert (create(api, "after", launch_plan=NIGHTLY).status_code == 400) is is_refused


def test_executions_would_wait_where_the_other_clusters_take_none(pooled: FlaskClient) -> None:
    put_pool(pooled, "gpu", ["east", "west"])
    for cluster in ("east", "west"):
        put_cluster(pooled, cluster)
    waiting = used(pooled, "cluster=east")["reach"]["waiting"]
    switch(pooled, "west", "cordon")
    assert used(pooled, "cluster=east")["reach"]["waiting"] > waiting
    switch(pooled, "east", "cordon")  # then they wait already
    assert used(pooled, "cluster=east")["reach"]["waiting"] == 0


def test_nothing_is_missed_in_an_archived_project(pooled: FlaskClient) -> None:
    ok(pooled.put(f"{API}/projects/{PROJECT}", json={"state": "ARCHIVED"}))
    answer = used(pooled, "pool=gpu&reach=true")
    assert (len(answer["scopes"]), answer["reach"]["refused"]) == (5, 0)
    removed = ok(pooled.delete(f"{API}/pools/gpu?force=true&dry_run=true"))
    assert [reach["refused"] for reach in removed["reach"]] == [0]
    assert used(pooled, "cluster=east")["reach"]["waiting"] == 0
    assert "new_executions" not in ok(pooled.post(f"{API}/clusters/east/cordon?dry_run=true", json={}))


def test_an_amount_is_sought_however_it_is_written(pooled: FlaskClient) -> None:
    put_attribute(pooled, "domain", "task_resource_attributes", {"limits": {"memory": "1.5Gi"}})
    put_attribute(pooled, "project", "task_resource_attributes", {"limits": {"memory": "1536Mi"}})
    for value in ("1.5Gi", "1536Mi", "1610612736"):
        uses = used(pooled, f"resource_type=TASK_RESOURCE&field=limits.memory&value={value}")["uses"]
        assert [use["level"] for use in uses] == ["domain", "project"]
    assert used(pooled, "resource_type=TASK_RESOURCE&field=limits.memory&value=2Gi")["uses"] == []


def test_amounts_are_compared_with_a_value(pooled: FlaskClient) -> None:
    put_attribute(pooled, "domain", "task_resource_attributes", {"limits": {"memory": "1.5Gi", "cpu": "500m"}})
    put_attribute(pooled, "project", "task_resource_attributes", {"limits": {"memory": "3000M", "cpu": None}})
    put_attribute(pooled, "domain", "workflow_execution_config", {"max_parallelism": 5})
    ok(register_plan(pooled, "wide", "free", max_parallelism=40))
    created(pooled, "waits")

    def compared(kind: str, field: str, comparison: str, value: str) -> list[str]:
        answer = used(pooled, f"resource_type={kind}&field={field}&comparison={comparison}&value={value}")
        return [use["level"] for use in answer["uses"]]

    memory, parallel = ("TASK_RESOURCE", "limits.memory"), ("WORKFLOW_EXECUTION_CONFIG", "max_parallelism")
    assert compared(*memory, "gt", "1.5Gi") == compared(*memory, "gte", "1537Mi") == ["project"]
    assert compared(*memory, "gte", "1536Mi") == ["domain", "project"]
    assert compared(*memory, "lt", "3000M") == ["platform", "domain"]
    assert compared(*memory, "lt", "1000") == []
    assert compared("TASK_RESOURCE", "limits.cpu", "lte", "0.5") == ["domain"]  # one that is unset is no amount
    assert compared(*parallel, "lte", "5") == ["domain"]
    assert compared(*parallel, "gt", "30") == ["launch-plan-definition"]
    query = "resource_type=TASK_RESOURCE&field=limits.memory&comparison"
    answer = used(pooled, f"{query}=gt&value=2Gi&reach=true")
    assert answer["name"] == "limits.memory>2Gi"
    assert {entry["project"] for entry in answer["scopes"]} == {PROJECT}
    assert answer["executions"]["phases"] == {"QUEUED": 1}
    assert used(pooled, f"{query}=lt&value=2Gi")["executions"]["phases"] == {}


def test_of_what_was_deleted_it_is_known_by_which_revision(pooled: FlaskClient) -> None:
    number = ok(pooled.delete(f"{API}/pools/gpu?force=true"))["revision"]
    answer = used(pooled, "pool=gpu")
    assert (answer["known"], answer["deleted_by"]["revision"], answer["deleted_by"]["author"]) == (
        False,
        number,
        "anonymous",
    )
    assert answer["reach"]["refused"] == 3


def test_queues_and_their_tags(make_app: MakeApp) -> None:
    queues = [
        {"dynamic": "urgent", "attributes": ["critical", "gpu"]},
        {"dynamic": "usual", "attributes": ["default", "gpu"]},
    ]
    api = make_app(queues={"executionQueues": queues}).test_client()
    put_attribute(api, "project-domain", "execution_queue_attributes", {"tags": ["critical"]})
    put_attribute(api, "workflow", "execution_queue_attributes", {"tags": ["critical", "gpu"]}, workflow="fit")
    created(api, "waits")
    tag = used(api, "queue_tag=critical&reach=true")
    assert places(tag["uses"]) == [P, f"{P}/fit"]
    assert [(place, entry["refused"]) for place, entry in zip(places(tag["scopes"]), tag["scopes"], strict=True)] == [
        (P, True),
        (f"{P}/fit", False),
    ]
    assert [entry["id"]["name"] for entry in tag["executions"]["executions"]] == ["waits"]
    queue = used(api, "queue=urgent")
    assert (queue["uses"], queue["reach"]) == (tag["uses"], tag["reach"])
    assert used(api, "queue=usual")["reach"] == {"scopes": 1, "launch_plans": 0, "refused": 0}
    assert used(api, "queue=usul")["closest"] == ["usual"]


def test_executions_are_selected_and_counted_by_the_queue_that_they_were_given(make_app: MakeApp) -> None:
    api = make_app(queues={"executionQueues": [{"dynamic": "urgent", "attributes": ["critical"]}]}).test_client()
    created(api, "before")
    put_attribute(api, "project-domain", "execution_queue_attributes", {"tags": ["critical"]})
    created(api, "after")

    def listed(query: str) -> list[tuple[str, str | None]]:
        rows = get(api, f"executions?{query}")["executions"]
        return [(row["id"]["name"], row.get("queue")) for row in rows]

    assert listed("queue=urgent") == listed("filters=eq(queue,urgent)") == [("after", "urgent")]
    assert listed("filters=contains(queue,rg)") == [("after", "urgent")]
    assert listed("filters=ne(queue,urgent)") == listed("filters=eq(queue,)") == [("before", None)]
    counts = get(api, "execution_counts?by=queue")["counts"]
    assert {group["value"]: group["count"] for group in counts} == {"urgent": 1, "": 1}
    assert get(api, f"executions/{PROJECT}/{DOMAIN}/after")["queue"] == "urgent"


def test_a_kind_a_field_and_a_value(pooled: FlaskClient) -> None:
    put_attribute(pooled, "domain", "task_resource_attributes", {"limits": {"cpu": "5", "memory": "1Gi"}})
    put_attribute(pooled, "project", "task_resource_attributes", {"limits": {"cpu": "3"}})
    created(pooled, "waits")
    kind = "resource_type=TASK_RESOURCE"
    stored = [use for use in used(pooled, kind)["uses"] if use["level"] != "platform"]
    assert places(stored) == [DOMAIN, PROJECT]
    answer = used(pooled, f"{kind}&field=limits.cpu&value=3&reach=true")
    assert places(answer["uses"]) == [PROJECT]
    assert {entry["project"] for entry in answer["scopes"]} == {PROJECT}
    assert answer["executions"]["phases"] == {"QUEUED": 1}
    other = used(pooled, f"{kind}&field=limits.cpu&value=5&reach=true")
    assert places(other["uses"]) == [DOMAIN]
    assert PROJECT not in {entry["project"] for entry in other["scopes"]}
    assert other["executions"]["phases"] == {}
    assert other["reach"]["refused"] == 0


def test_a_value_is_shown_with_the_revision_that_set_it_and_not_the_last_one_of_its_row(pooled: FlaskClient) -> None:
    for limits in ({"cpu": "5", "memory": "1Gi"}, {"cpu": "5", "memory": "2Gi"}):
        put_attribute(pooled, "domain", "task_resource_attributes", {"limits": limits})
    [cpu] = used(pooled, "resource_type=TASK_RESOURCE&field=limits.cpu&value=5")["uses"]
    memory = used(pooled, "resource_type=TASK_RESOURCE&field=limits.memory&value=2Gi")
    assert memory["uses"][0]["revision"] == memory["uses"][0]["version"] == cpu["version"]
    assert cpu["revision"] == cpu["version"] - 1
    assert str(cpu["revision"]) in used(pooled, "resource_type=TASK_RESOURCE&field=limits.cpu&value=5")["revisions"]


def test_a_value_inside_a_map_or_a_list_is_found(pooled: FlaskClient) -> None:
    config = "workflow_execution_config"
    put_attribute(pooled, "project-domain", config, {"envs": {"values": {"MODE": "night"}}})
    put_attribute(pooled, "workflow", config, {"security_context": {"run_as": {"iam_role": "batch"}}}, workflow="fit")
    overrides = [{"task_type": "python", "plugin_id": ["a", "night"]}]
    put_attribute(pooled, "project", "plugin_overrides", {"overrides": overrides})
    created(pooled, "waits")
    kind = "resource_type=WORKFLOW_EXECUTION_CONFIG"
    answer = used(pooled, f"{kind}&field=envs.values.MODE&value=night&reach=true")
    assert [(use["level"], use["fields"]) for use in answer["uses"]] == [
        ("project-domain", {"envs.values.MODE": {"value": "night"}})
    ]
    assert places(answer["scopes"])[0] == P
    assert answer["executions"]["phases"] == {"QUEUED": 1}
    other = used(pooled, f"{kind}&field=envs.values.MODE&value=day")
    assert (other["uses"], other["executions"]["phases"]) == ([], {})
    role = used(pooled, f"{kind}&field=security_context.run_as&value=batch")
    assert [use["fields"] for use in role["uses"]] == [{"security_context.run_as": {"iam_role": "batch"}}]
    plugin = used(pooled, "resource_type=PLUGIN_OVERRIDE&field=overrides.python&value=night")
    assert [use["level"] for use in plugin["uses"]] == ["project"]


def test_of_a_key_that_nothing_sets_the_nearest_ones_are_named(pooled: FlaskClient) -> None:
    put_attribute(pooled, "domain", "workflow_execution_config", {"envs": {"values": {"LOG_LEVEL": "debug"}}})
    kind = "resource_type=WORKFLOW_EXECUTION_CONFIG"
    answer = used(pooled, f"{kind}&field=envs.values.LOG_LEVL&value=debug")
    assert (answer["known"], answer["uses"], answer["closest"]) == (True, [], ["envs.values.LOG_LEVEL"])
    assert "closest" not in used(pooled, f"{kind}&field=envs.values.LOG_LEVEL&value=info")
    assert "closest" not in used(pooled, f"{kind}&field=max_parallelism")


def test_executions_whose_jobs_say_it_themselves_are_not_counted(pooled: FlaskClient) -> None:
    resources = {"defaults": {"memory": "300Mi"}, "limits": {"memory": "1Gi"}}
    put_attribute(pooled, "project-domain", "task_resource_attributes", resources)
    put_attribute(pooled, "project-domain", "workflow_execution_config", {"envs": {"values": {"MODE": "night"}}})
    own = {"command": ["true"], "resources": {"requests": {"memory": "50Mi"}}, "environment": {"MODE": "day"}}
    ok(register_workflow(pooled, "own", job=own))
    ok(register_plan(pooled, "of-own", "own"))
    night = {"values": [{"key": "MODE", "value": "night"}]}
    ok(register_plan(pooled, "over-own", "own", envs=night))
    created(pooled, "follows")
    created(pooled, "asks", job=own)
    created(pooled, "registered", launch_plan={"name": "of-own"})
    created(pooled, "launched", launch_plan={"name": "over-own"})
    expected = {
        "TASK_RESOURCE&field=defaults.memory&value=300Mi": {"follows"},
        "TASK_RESOURCE&field=limits.memory": {"follows", "asks", "registered", "launched"},
        "WORKFLOW_EXECUTION_CONFIG&field=envs.values.MODE&value=night": {"follows", "launched"},
    }
    for query, names in expected.items():
        executions = used(pooled, f"resource_type={query}")["executions"]
        assert {entry["id"]["name"] for entry in executions["executions"]} == names
        assert executions["phases"] == {"QUEUED": len(names)}


def test_a_key_of_the_configuration_says_it_too(pooled: FlaskClient) -> None:
    platform = [use for use in used(pooled, "resource_type=TASK_RESOURCE")["uses"] if use["level"] == "platform"]
    assert platform
    for use in platform:
        [(field, value)] = use["fields"].items()
        answer = used(pooled, f"resource_type=TASK_RESOURCE&field={field}&value={value}")
        assert [entry["key"] for entry in answer["uses"]] == [use["key"]]
        assert answer["reach"]["scopes"] > 0


def test_a_default_of_a_declared_kind_says_it_too(make_app: MakeApp) -> None:
    fields = {"a": {"type": "int", "default": 7}}
    api = make_app(kinds={"OTHER": {"number": 10, "fields": fields}}).test_client()
    [use] = used(api, "resource_type=OTHER&field=a&value=7")["uses"]
    assert (use["level"], use["key"], use["fields"]) == ("platform", "kinds.OTHER.fields.a.default", {"a": 7})
    put_attribute(api, "domain", "other", {"a": 8})
    reached = used(api, "resource_type=OTHER&field=a&value=7&reach=true")["scopes"]
    assert reached
    assert DOMAIN not in {entry["domain"] for entry in reached}


def test_a_definition_with_two_uses_has_both_on_whatever_page(pooled: FlaskClient) -> None:
    """The pool and the label of one launch plan lead to the same cluster; the page break is between the two."""
    ok(register_plan(pooled, "both", "free", **pool("gpu"), **label("near")))
    resource_types, token = [], ""
    while True:
        answer = used(pooled, "cluster=east&limit=1" + (f"&token={token}" if token else ""))
        resource_types += [use["resource_type"] for use in answer["uses"] if use.get("launch_plan") == "both"]
        token = answer.get("token", "")
        if not token:
            break
    assert resource_types == ["CLUSTER_ASSIGNMENT", "EXECUTION_CLUSTER_LABEL"]


def test_each_row_that_says_it_is_shown_with_who_set_it_and_all_is_of_one_snapshot(
    pooled: FlaskClient, context: Context
) -> None:
    with transactions(context) as begun:
        answer = used(pooled, "pool=gpu")
    assert len(begun) == 1
    versions = {str(use["version"]) for use in answer["uses"] if use["level"] == "project-domain"}
    assert answer["revisions"].keys() == versions
    assert {entry["author"] for entry in answer["revisions"].values()} == {"anonymous"}
    assert answer["revision"] == get(pooled, "revisions")["head"]


@pytest.mark.parametrize(("limit", "scopes", "rows"), [(1, 2, 1), (2, 3, 2), (1, 100, 100_000), (100, 1, 1)])
def test_pages_hold_the_same_uses_and_scopes_once(
    pooled: FlaskClient, monkeypatch: pytest.MonkeyPatch, limit: int, scopes: int, rows: int
) -> None:
    complete = used(pooled, "cluster=east&reach=true")
    monkeypatch.setattr(use_search, "SCOPES", scopes)
    monkeypatch.setattr(use_search, "ROWS", rows)
    listed: list[Any] = []
    reached: list[Any] = []
    token, refusals = "", 0
    while True:
        answer = used(pooled, f"cluster=east&reach=true&limit={limit}" + (f"&token={token}" if token else ""))
        listed += answer["uses"]
        reached += answer["scopes"]
        refusals += answer["reach"]["refused"]
        assert ("executions" in answer) == (not token)
        token = answer.get("token", "")
        if not token:
            break
    assert listed == complete["uses"]
    assert reached == complete["scopes"]
    assert refusals == complete["reach"]["refused"]


def test_nothing_is_written(pooled: FlaskClient) -> None:
    before = get(pooled, "revisions")
    used(pooled, "pool=gpu&reach=true")
    assert get(pooled, "revisions") == before


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "resource_type"),
        ("pool=a&label=b", "label"),
        ("pool=a&resource_type=3", "pool"),
        ("pool=", "pool"),
        ("resource_type=NONE", "resource_type"),
        ("resource_type=0&field=limits.cpus", None),
        ("resource_type=0&value=2", "field"),
        ("resource_type=0&field=limits.cpu&comparison=gt", "value"),
        ("resource_type=0&field=limits.cpu&comparison=gt&value=many", "value"),
        ("resource_type=0&field=limits.cpu&comparison=gt&value=nan", "value"),
        ("resource_type=0&field=limits.cpu&comparison=lt&value=inf", "value"),
        ("resource_type=0&field=limits.cpu&comparison=greater&value=2", "comparison"),
        ("pool=a&comparison=gt", "pool"),
        ("pool=a&token=x", "token"),
        ("pol=a", "pol"),
    ],
)
def test_bad_input_is_refused_by_name(shared: FlaskClient, query: str, field: str | None) -> None:
    refused(shared.get(f"{API}/uses?{query}"), 400, "invalid_request", field)


def test_what_waits_for_a_cluster_by_name_is_counted_and_listed(pooled: FlaskClient) -> None:
    put_cluster(pooled, "cedar")
    switch(pooled, "cedar", "cordon")
    created(pooled, "named", cluster="cedar")
    created(pooled, "elsewhere", **pool("gpu"))
    answer = used(pooled, "cluster=cedar")["executions"]
    waits = {"id": {**HERE, "name": "named"}, "phase": "QUEUED", "waits_for_it": True}
    assert answer == {"phases": {"QUEUED": 1}, "executions": [waits], "complete": True, "waiting_for_it": 1}
    at_it = used(pooled, "cluster=east")["executions"]
    assert [entry.get("waits_for_it") for entry in at_it["executions"]] == [None]
    assert at_it["waiting_for_it"] == 0
    switch(pooled, "cedar", "uncordon")
    created(pooled, "there", cluster="cedar")
    both = used(pooled, "cluster=cedar")["executions"]
    assert [(entry["id"]["name"], "waits_for_it" in entry) for entry in both["executions"]] == [
        ("there", False),
        ("named", True),
    ]
    assert (both["phases"], both["waiting_for_it"]) == ({"QUEUED": 2}, 1)
