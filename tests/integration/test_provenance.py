"""Who set something, when and why stands beside it, wherever it is shown; on both databases."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import delete

from admin.core.times import show_time
from admin.store.revision_tables import revision_changes, revisions
from admin.testing import running_admin
from ctl.main import run
from tests.support.agents import Clock
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    asked,
    created,
    explanation,
    get,
    ok,
    put_pool,
    refused,
    register_workflow,
    report,
    switch,
)

SLOW_ON = ("postgresql",)

EFFECTIVE = f"effective_attributes?project={PROJECT}&domain={DOMAIN}"


def put(api: FlaskClient, path: str, payload_key: str, payload: Any, **authorship: str) -> int:
    """Store a payload, and answer the revision."""
    body = {"attributes": {"matching_attributes": {payload_key: payload}}, **authorship}
    return int(ok(api.put(f"{API}/{path}", json=body))["revision"])


def forget_revision(api: FlaskClient, number: int) -> None:
    """Take a revision away, as retention does."""
    with context_of(api.application).database.writing() as connection:
        connection.execute(delete(revision_changes).where(revision_changes.c.revision == number))
        connection.execute(delete(revisions).where(revisions.c.number == number))


def test_effective_values_come_with_the_revisions_that_set_them_where_asked(api: FlaskClient) -> None:
    first = put(
        api,
        f"domain_attributes/{DOMAIN}",
        "task_resource_attributes",
        {"limits": {"memory": "1Gi"}},
        claimed_by="ana",
        message="cap memory",
    )
    second = put(api, f"project_attributes/{PROJECT}", "execution_cluster_label", {"value": "gpu"})
    put(api, "project_attributes/flyteexamples", "execution_cluster_label", {"value": "elsewhere"})
    answer = get(api, f"{EFFECTIVE}&provenance=true")
    assert list(answer["revisions"]) == [str(first), str(second)]
    at = answer["revisions"][str(first)].pop("at")
    assert at == get(api, f"revisions/{first}")["created_at"]
    assert answer["revisions"][str(first)] == {
        "revision": first,
        "author": "anonymous",
        "claimed_by": "ana",
        "message": "cap memory",
    }
    limits = next(value for value in answer["values"] if value["resource_type"] == "TASK_RESOURCE")
    assert limits["origins"]["limits.memory"]["version"] == first
    assert "revisions" not in get(api, EFFECTIVE)
    for value in answer["values"]:
        for origin in (*value["origins"].values(), *value["unset"].values()):
            origin.pop("revision", None)
        for step in value["trail"]:
            step.pop("revisions", None)
    assert answer.pop("consequences")["EXECUTION_CLUSTER_LABEL"]["outcome"] == "refuses"
    plain = get(api, EFFECTIVE)
    # Nothing reads it, which is told where provenance is asked for.
    config = next(value for value in plain["values"] if value["resource_type"] == "WORKFLOW_EXECUTION_CONFIG")
    platform = config["trail"][0]
    assert (platform["used"], platform["overridden"]) == (["max_parallelism"], [])
    platform |= {"used": [], "overridden": ["max_parallelism"]}
    told = {"revisions", "field_effects"}
    assert plain == {key: value for key, value in answer.items() if key not in told}


def test_one_kind_and_an_older_revision_come_with_their_own(api: FlaskClient) -> None:
    path = f"domain_attributes/{DOMAIN}"
    first = put(api, path, "execution_cluster_label", {"value": "gpu"}, claimed_by="ana")
    second = put(api, path, "execution_cluster_label", {"value": "cpu"}, claimed_by="bob")
    put(api, path, "task_resource_attributes", {"limits": {"memory": "1Gi"}})
    now = get(api, f"{EFFECTIVE}&provenance=true&resource_type=3")["revisions"]
    assert [(number, entry["claimed_by"]) for number, entry in now.items()] == [(str(second), "bob")]
    then = get(api, f"{EFFECTIVE}&provenance=true&resource_type=3&at={first}")["revisions"]
    assert [(number, entry["claimed_by"]) for number, entry in then.items()] == [(str(first), "ana")]


def test_of_a_revision_that_was_pruned_the_row_tells_the_rest(api: FlaskClient) -> None:
    path = f"domain_attributes/{DOMAIN}"
    number = put(api, path, "execution_cluster_label", {"value": "gpu"}, claimed_by="ana", message="more")
    at = get(api, f"revisions/{number}")["created_at"]
    put(api, f"project_attributes/{PROJECT}", "task_resource_attributes", {"limits": {"memory": "1Gi"}})
    forget_revision(api, number)
    answer = get(api, f"{EFFECTIVE}&provenance=true&resource_type=3")
    row = {"revision": number, "author": "anonymous", "claimed_by": "ana", "at": at, "kept": False}
    assert answer["revisions"] == {str(number): row}
    origin = answer["values"][0]["origins"]["value"]
    assert origin["version"] == number
    assert "revision" not in origin


#: ana sets defaults, ben the limit of memory, eve that of cpu: all in one row.
def set_by_three(api: FlaskClient) -> list[int]:
    path, key = f"domain_attributes/{DOMAIN}", "task_resource_attributes"
    defaults, memory = {"defaults": {"memory": "200Mi"}}, {"memory": "600Mi"}
    return [
        put(api, path, key, {**defaults, "limits": {"cpu": "4"}}, claimed_by="ana", message="begin"),
        put(api, path, key, {**defaults, "limits": {"cpu": "4", **memory}}, claimed_by="ben", message="cap memory"),
        put(api, path, key, {**defaults, "limits": {"cpu": "2", **memory}}, claimed_by="eve", message="less cpu"),
    ]


FIELDS = ("defaults.memory", "limits.memory", "limits.cpu")


def test_a_field_is_of_the_revision_that_set_it_not_of_the_last_one_of_its_row(api: FlaskClient) -> None:
    numbers = set_by_three(api)
    answer = get(api, f"{EFFECTIVE}&provenance=true&resource_type=0")
    [value] = answer["values"]
    assert [value["origins"][field]["revision"] for field in FIELDS] == numbers
    assert {value["origins"][field]["version"] for field in FIELDS} == {numbers[-1]}
    assert [entry["claimed_by"] for entry in answer["revisions"].values()] == ["ana", "ben", "eve"]
    [step] = [step for step in value["trail"] if "version" in step]
    assert step["revisions"] == dict(zip(FIELDS, numbers, strict=True))
    then = get(api, f"{EFFECTIVE}&provenance=true&resource_type=0&at={numbers[1]}")["values"][0]["origins"]
    assert [then[field]["revision"] for field in FIELDS] == [numbers[0], numbers[1], numbers[0]]


def test_a_row_that_was_deleted_in_between_begins_anew(api: FlaskClient) -> None:
    set_by_three(api)
    path = f"domain_attributes/{DOMAIN}"
    assert api.delete(f"{API}/{path}?resource_type=0").status_code == 200
    number = put(api, path, "task_resource_attributes", {"limits": {"memory": "600Mi"}}, claimed_by="otto")
    answer = get(api, f"{EFFECTIVE}&provenance=true&resource_type=0")
    assert answer["values"][0]["origins"]["limits.memory"]["revision"] == number


def test_a_field_whose_revision_was_pruned_says_before_which_it_was_set(api: FlaskClient) -> None:
    _, ben, eve = set_by_three(api)
    forget_revision(api, ben)
    origins = get(api, f"{EFFECTIVE}&provenance=true&resource_type=0")["values"][0]["origins"]
    assert origins["limits.cpu"]["revision"] == eve
    assert (origins["limits.memory"].get("revision"), origins["limits.memory"]["set_before"]) == (None, eve)
    body = asked("first", job={"command": ["true"], "resources": {"limits": {"memory": "3Gi"}}})
    answer = refused(api.post(f"{API}/executions", json=body), 400, "above_limit")
    assert f"Its row was changed last by revision {eve}, anonymous (says eve), " in answer["message"]


def test_no_field_is_of_a_revision_that_was_pruned_and_only_changed_its_row_last(api: FlaskClient) -> None:
    eve = set_by_three(api)[2]
    created(api, "first")
    put(api, f"domain_attributes/{DOMAIN}", "task_resource_attributes", {"limits": {"cpu": "1"}})
    forget_revision(api, eve)
    settings = explanation(api, "first")["settings"]
    [origins] = [value["origins"] for value in settings if value["resource_type"] == "TASK_RESOURCE"]
    assert {(origins[field].get("revision"), origins[field]["set_before"]) for field in FIELDS} == {(None, eve + 1)}


def test_what_is_assumed_is_told_apart_from_what_is_stored_in_the_same_row(api: FlaskClient) -> None:
    ana, ben, eve = set_by_three(api)
    payload = {"defaults": {"memory": "200Mi"}, "limits": {"cpu": "8", "memory": "600Mi"}}
    change = {"resource_type": "TASK_RESOURCE", "domain": DOMAIN, "payload": payload}
    scope = {"project": PROJECT, "domain": DOMAIN, "resource_type": "TASK_RESOURCE"}
    proposed = ok(api.post(f"{API}/effective_attributes", json={**scope, "changes": [change]}))
    placed = ok(api.post(f"{API}/placements", json={**asked("first"), "changes": [change]}))
    for answer, values in ((proposed, proposed["values"]), (placed, placed["settings"])):
        [value] = [value for value in values if value["resource_type"] == "TASK_RESOURCE"]
        origins = [value["origins"][field] for field in FIELDS]
        assert [(origin["version"], origin.get("revision"), origin.get("assumed")) for origin in origins] == [
            (eve, ana, None),
            (eve, ben, None),
            (0, None, True),
        ]
        [step] = [step for step in value["trail"] if "revisions" in step]
        assert (step["revisions"], step["assumed"]) == ({FIELDS[0]: ana, FIELDS[1]: ben}, ["limits.cpu"])
        assert {str(ana), str(ben)} <= set(answer["revisions"])


def test_a_refusal_blames_who_set_the_limit(api: FlaskClient) -> None:
    ben = set_by_three(api)[1]
    body = asked("first", job={"command": ["true"], "resources": {"limits": {"memory": "3Gi"}}})
    for path in ("executions", "executions?dry_run=true", "placements"):
        answer = refused(api.post(f"{API}/{path}", json=body), 400, "above_limit")
        assert f"That was set by revision {ben}, anonymous (says ben), " in answer["message"]
        assert answer["details"][0]["provenance"]["revision"] == ben


def test_an_explanation_a_preview_a_comparison_and_a_reach_name_who_set_each_field(api: FlaskClient) -> None:
    numbers = set_by_three(api)
    created(api, "first")
    for answer in (explanation(api, "first"), ok(api.post(f"{API}/placements", json=asked("second")))):
        [value] = [value for value in answer["settings"] if value["resource_type"] == "TASK_RESOURCE"]
        assert [value["origins"][field]["revision"] for field in FIELDS] == numbers
        assert list(answer["revisions"]) == [str(number) for number in numbers]
        gets = {entry["field"]: entry.get("origin", {}).get("revision") for entry in answer["received"]}
        assert gets["resources.limits.memory"] == numbers[0]
    query = f"project={PROJECT}&domain={DOMAIN}&other_domain=production&resource_type=0"
    compared = get(api, f"effective_attributes/comparison?{query}")
    origins = {entry["field"]: entry["first"].get("origin") for entry in compared["differences"]}
    assert origins["limits.memory"]["revision"] == numbers[1]
    assert str(numbers[1]) in compared["revisions"]
    reach = get(api, f"effective_attributes/reach?domain={DOMAIN}&resource_type=0")
    assert reach["row_revisions"] == dict(zip(FIELDS, numbers, strict=True))
    assert {str(number) for number in numbers} <= reach["revisions"].keys()


def test_an_explanation_comes_with_the_revisions_that_decided(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["local"])
    pool = put(
        api,
        f"domain_attributes/{DOMAIN}",
        "cluster_assignment",
        {"cluster_pool_name": "gpu"},
        claimed_by="ana",
        message="we bought some",
    )
    limits = put(api, f"project_attributes/{PROJECT}", "task_resource_attributes", {"limits": {"memory": "1Gi"}})
    created(api, "first")
    put(api, f"domain_attributes/{DOMAIN}", "cluster_assignment", {"cluster_pool_name": None}, claimed_by="bob")
    answer = explanation(api, "first")
    [winner] = [rung for rung in answer["rungs"] if rung["state"] == "wins"]
    assert winner["version"] == pool
    assert list(answer["revisions"]) == [str(pool), str(limits)]
    assert (answer["revisions"][str(pool)]["claimed_by"], answer["revisions"][str(pool)]["message"]) == (
        "ana",
        "we bought some",
    )
    forget_revision(api, pool)
    assert list(explanation(api, "first")["revisions"]) == [str(limits)]


def test_a_preview_comes_with_them_also_where_changes_are_assumed(api: FlaskClient) -> None:
    number = put(api, f"project_attributes/{PROJECT}", "task_resource_attributes", {"limits": {"memory": "1Gi"}})
    body = asked("first")
    assert list(ok(api.post(f"{API}/placements", json=body))["revisions"]) == [str(number)]
    change = {"resource_type": "TASK_RESOURCE", "project": PROJECT, "payload": {"limits": {"memory": "2Gi"}}}
    assumed = ok(api.post(f"{API}/placements", json={**body, "changes": [change]}))
    [value] = [value for value in assumed["settings"] if value["resource_type"] == "TASK_RESOURCE"]
    assert value["origins"]["limits.memory"]["assumed"]
    assert "revision" not in value["origins"]["limits.memory"]


def test_events_of_a_cluster_say_who_is_only_claimed(api: FlaskClient) -> None:
    switch(api, "local", "cordon", reason="new disks", claimed_by="otto")
    switch(api, "local", "uncordon")
    report(api, "local", capacity={"cpu": "4"})
    events = get(api, "clusters/local/events")["events"]
    assert [(event["type"], event.get("author"), event.get("claimed_by")) for event in events] == [
        ("REPORTED", None, None),
        ("UNCORDONED", "anonymous", None),
        ("CORDONED", "anonymous", "otto"),
    ]


def test_a_cluster_says_by_which_events_it_came_to_its_states(api: FlaskClient) -> None:
    def shown() -> dict[str, tuple[str, str | None, str | None]]:
        events = {event["number"]: event["type"] for event in get(api, "clusters/local/events")["events"]}
        provenance = get(api, "clusters/local").get("provenance", {})
        assert [cluster.get("provenance", {}) for cluster in get(api, "clusters")["clusters"]] == [provenance]
        return {
            state: (events[entry["event"]], entry.get("claimed_by"), entry.get("message"))
            for state, entry in provenance.items()
        }

    assert shown() == {}
    switch(api, "local", "cordon", reason="new disks", claimed_by="otto")
    report(api, "local", capacity={"cpu": "4"})
    cordoned = ("CORDONED", "otto", "new disks")
    assert shown() == {"cordoned": cordoned}
    switch(api, "local", "drain", claimed_by="ana")
    drained = ("DRAINING", "ana", None)
    assert shown() == {"cordoned": cordoned, "draining": drained}
    switch(api, "local", "disable", reason="broken")
    assert shown() == {"cordoned": cordoned, "draining": drained, "disabled": ("DISABLED", None, "broken")}
    switch(api, "local", "undrain")
    switch(api, "local", "enable")
    assert shown() == {}
    switch(api, "local", "cordon", claimed_by="otto")
    assert shown() == {"cordoned": ("CORDONED", "otto", None)}
    switched = get(api, "clusters/local")["provenance"]["cordoned"]
    assert (switched["author"], switched["at"]) == ("anonymous", get(api, "clusters/local/events")["events"][0]["at"])


def test_definitions_say_by_which_revision_they_were_made(api: FlaskClient) -> None:
    body = {"cluster": {"enabled": False}, "claimed_by": "ana", "message": "not yet"}
    revision = ok(api.put(f"{API}/clusters/east", json=body))["revision"]
    provenance = get(api, "clusters/east")["provenance"]
    assert provenance["definition"] == provenance["disabled"]
    assert (provenance["definition"]["revision"], provenance["definition"]["message"]) == (revision, "not yet")
    number = put_pool(api, "gpu", ["east"])["revision"]
    [pool] = get(api, "pools")["pools"]
    assert pool == get(api, "pools/gpu")
    assert pool["provenance"]["definition"]["revision"] == number
    forget_revision(api, revision)
    kept = get(api, "clusters/east")["provenance"]["definition"]
    assert (kept["revision"], kept["claimed_by"], "message" in kept) == (revision, "ana", False)


def test_a_candidate_says_by_which_event_it_was_switched_off_when_it_was_decided(
    api: FlaskClient, app_clock: Clock
) -> None:
    put_pool(api, "gpu", ["local"])
    switch(api, "local", "cordon", reason="new disks", claimed_by="otto")
    created(api, "waits", cluster_assignment={"cluster_pool_name": "gpu"})
    app_clock.advance(600)
    switch(api, "local", "uncordon")
    switch(api, "local", "cordon", reason="old disks", claimed_by="ana")
    cordons = [event for event in get(api, "clusters/local/events")["events"] if event["type"] == "CORDONED"]

    def verdict(answer: Any) -> Any:
        [candidate] = answer["candidates"]
        [failed] = [verdict for verdict in candidate["verdicts"] if not verdict["passed"]]
        event = failed["provenance"]
        assert candidate["why_not"].startswith(f"is cordoned, event {event['event']}, anonymous (says ")
        assert candidate["why_not"].endswith(f", '{event['message']}'")
        return event["event"], event["claimed_by"], failed["reason"]

    at = datetime.fromisoformat(cordons[1]["at"])
    first = (cordons[1]["number"], "otto", "is cordoned (new disks)")
    earlier = explanation(api, "waits", "?decision=1")
    assert verdict(earlier) == first
    assert earlier["candidates"][0]["why_not"].endswith(f", at {show_time(at)}, 'new disks'")
    body = asked("next", cluster_assignment={"cluster_pool_name": "gpu"})
    placed = ok(api.post(f"{API}/placements", json=body))
    assert verdict(placed) == (cordons[0]["number"], "ana", "is cordoned (old disks)")


def test_a_pool_that_no_cluster_serves_says_who_switched_them_off(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["local"])
    put(api, f"domain_attributes/{DOMAIN}", "cluster_assignment", {"cluster_pool_name": "gpu"})
    switch(api, "local", "drain", reason="fans", claimed_by="cleo")
    event = get(api, "clusters/local/events")["events"][0]["number"]
    answer = get(api, f"{EFFECTIVE}&resource_type=CLUSTER_ASSIGNMENT&provenance=true")
    consequence = answer["consequences"]["CLUSTER_ASSIGNMENT"]
    assert consequence["outcome"] == "waits"
    start = "Executions that follow it wait. No cluster of pool 'gpu' is able: 'local' is draining, "
    assert consequence["message"].startswith(f"{start}event {event}, anonymous (says cleo), ")
    assert consequence["message"].endswith(" ago, 'fans'.")


def test_a_workflow_that_nothing_is_known_of_is_noted_with_the_closest_name(api: FlaskClient) -> None:
    put(api, f"workflow_attributes/{PROJECT}/{DOMAIN}/fit", "execution_cluster_label", {"value": "gpu"})
    ok(register_workflow(api, "train"))

    def unknown(scope: str) -> Any:
        return get(api, f"{EFFECTIVE}&{scope}&provenance=true").get("unknown_names")

    assert unknown("workflow=fti") == [
        {
            "field": "workflow",
            "value": "fti",
            "message": "No workflow 'fti' is registered, and nothing is set for one. Did you mean 'fit'?",
            "closest": ["fit"],
        }
    ]
    assert unknown("workflow=trian")[0]["closest"] == ["train"]
    assert unknown("workflow=fit&launch_plan=nightly")[0]["field"] == "launch_plan"
    assert (unknown("workflow=fit"), unknown("workflow=train"), unknown("at=1&workflow=fti")) == (None, None, None)


def test_a_refusal_names_the_revision_of_the_setting_that_refuses(api: FlaskClient) -> None:
    number = put(
        api,
        f"domain_attributes/{DOMAIN}",
        "cluster_assignment",
        {"cluster_pool_name": "gpus"},
        claimed_by="ana",
        message="we bought some",
    )
    body = asked("first")
    for path in ("executions", "executions?dry_run=true", "placements"):
        answer = refused(api.post(f"{API}/{path}", json=body), 400, "unknown_pool")
        assert f"That was set by revision {number}, anonymous (says ana), " in answer["message"]
        assert answer["message"].endswith(" ago, 'we bought some'.")
        assert answer["details"][0]["provenance"]["revision"] == number
    forget_revision(api, number)
    answer = refused(api.post(f"{API}/placements", json=body), 400, "unknown_pool")
    assert f"Its row was changed last by revision {number}, which is no longer kept, " in answer["message"]
    change = {"resource_type": "CLUSTER_ASSIGNMENT", "domain": DOMAIN, "payload": {"cluster_pool_name": "other"}}
    answer = refused(api.post(f"{API}/placements", json={**body, "changes": [change]}), 400, "unknown_pool")
    assert "That was set by" not in answer["message"]


def test_a_refusal_by_the_request_itself_names_no_revision(api: FlaskClient) -> None:
    answer = refused(api.post(f"{API}/executions", json=asked("first", cluster="nowhere")), 400, "unknown_cluster")
    assert "provenance" not in answer["details"][0]


BY_ANA = {"claimed_by": "ana", "message": "new racks"}


def test_a_delete_of_what_is_in_use_says_by_whom_it_is_used_and_by_which_executions(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["east"])
    number = put(api, f"domain_attributes/{DOMAIN}", "cluster_assignment", {"cluster_pool_name": "gpu"}, **BY_ANA)
    for name in ("one", "two"):
        created(api, name)
    answer = refused(api.delete(f"{API}/pools/gpu"), 409, "in_use")
    by_noun = {detail["field"]: detail for detail in answer["details"]}
    assert by_noun["attributes"]["provenance"]["revision"] == number
    assert f"names it (revision {number}, anonymous (says ana), " in by_noun["attributes"]["reason"]
    assert by_noun["attributes"]["reason"].endswith(" ago, 'new racks').")
    names = [f"{PROJECT}/{DOMAIN}/one", f"{PROJECT}/{DOMAIN}/two"]
    assert by_noun["executions"]["executions"] == names
    assert f"2 unfinished executions were placed by it: {', '.join(names)}." in answer["message"]
    refusal = refused(api.delete(f"{API}/clusters/local"), 409, "declared_in_configuration")
    assert "local" in refusal["message"]
    body = {"pool": {"members": [{"id": "west"}]}, **BY_ANA}
    number = ok(api.put(f"{API}/pools/other", json={**body, "pool": {"members": [{"id": "made"}]}}))["revision"]
    ok(api.put(f"{API}/clusters/made", json={"cluster": {}}))
    [use] = refused(api.delete(f"{API}/clusters/made"), 409, "in_use")["details"]
    assert (use["field"], use["provenance"]["revision"]) == ("pools", number)


def test_more_executions_than_are_named_are_counted(api: FlaskClient) -> None:
    put_pool(api, "gpu", ["east"])
    for number in range(7):
        created(api, f"e{number}", cluster_assignment={"cluster_pool_name": "gpu"})
    [use] = refused(api.delete(f"{API}/pools/gpu"), 409, "in_use")["details"]
    assert len(use["executions"]) == 5
    assert use["reason"].endswith("/e4 and 2 more.")


def test_a_stale_version_is_refused_with_the_revision_that_made_the_row_so(api: FlaskClient) -> None:
    body = {"pool": {"members": [{"id": "east"}]}}
    first = ok(api.put(f"{API}/pools/gpu", json=body))["version"]
    second = ok(api.put(f"{API}/pools/gpu", json={"pool": {"members": [{"id": "west"}]}, **BY_ANA}))["version"]
    taken = refused(api.post(f"{API}/pools", json={"pool": {"name": "gpu", **body["pool"]}}), 409, "already_exists")
    assert f"exists already (revision {second}, anonymous (says ana), " in taken["message"]
    assert taken["details"][0]["provenance"]["revision"] == second
    stale = api.put(f"{API}/pools/gpu", json=body, headers={"If-Match": f'"{first}"'})
    answer = refused(stale, 409, "version_conflict")
    assert f"is at version {second} (revision {second}, anonymous (says ana), " in answer["message"]
    assert answer["details"][0]["provenance"]["message"] == "new racks"
    gone = ok(api.delete(f"{API}/pools/gpu", json={**BY_ANA, "message": "sold"}))["revision"]
    stale = api.put(f"{API}/pools/gpu", json=body, headers={"If-Match": f'"{second}"'})
    answer = refused(stale, 409, "version_conflict")
    assert f"does not exist (deleted by revision {gone}, anonymous (says ana), " in answer["message"]
    assert answer["details"][0]["provenance"]["revision"] == gone
    path = f"domain_attributes/{DOMAIN}"
    number = put(api, path, "workflow_priority", {"priority": 3}, **BY_ANA)
    attribute = {"attributes": {"matching_attributes": {"workflow_priority": {"priority": 4}}}}
    stale = api.put(f"{API}/{path}", json=attribute, headers={"If-Match": '"1"'})
    assert refused(stale, 409, "version_conflict")["details"][0]["provenance"]["revision"] == number


def test_a_request_for_a_disabled_cluster_is_told_by_whom_it_was_disabled(api: FlaskClient) -> None:
    switch(api, "local", "disable", reason="new disks", claimed_by="otto")
    [event] = [entry for entry in get(api, "clusters/local/events")["events"] if entry["type"] == "DISABLED"]
    for path in ("executions", "executions?dry_run=true", "placements"):
        answer = refused(api.post(f"{API}/{path}", json=asked("first", cluster="local")), 400, "cluster_disabled")
        assert f"It was disabled by event {event['number']}, anonymous (says otto), " in answer["message"]
        assert answer["message"].endswith(" ago, 'new disks'.")
        assert answer["details"][0]["provenance"]["event"] == event["number"]
    number = ok(api.put(f"{API}/clusters/made", json={"cluster": {"enabled": False}, **BY_ANA}))["revision"]
    answer = refused(api.post(f"{API}/executions", json=asked("first", cluster="made")), 400, "cluster_disabled")
    assert f"It was disabled by revision {number}, anonymous (says ana), " in answer["message"]


def test_what_was_deleted_says_by_whom(api: FlaskClient) -> None:
    for noun, definition in (
        ("cluster", {}),
        ("pool", {"members": [{"id": "local"}]}),
        ("label", {"members": [{"id": "local"}]}),
    ):
        ok(api.put(f"{API}/{noun}s/spare", json={noun: definition}))
        number = ok(api.delete(f"{API}/{noun}s/spare", json={"claimed_by": "ana", "message": "sold"}))["revision"]
        answer = refused(api.get(f"{API}/{noun}s/spare"), 404, f"{noun}_not_found", "name")
        assert f"The {noun} 'spare' was deleted by revision {number}, anonymous (says ana), " in answer["message"]
        assert answer["details"][0]["provenance"]["revision"] == number
        spec: Any = {
            "cluster": {"cluster": "spare"},
            "pool": {"cluster_assignment": {"cluster_pool_name": "spare"}},
            "label": {"execution_cluster_label": {"value": "spare"}},
        }[noun]
        answer = refused(api.post(f"{API}/executions", json=asked("first", **spec)), 400, f"unknown_{noun}")
        assert f"It was deleted by revision {number}, anonymous (says ana), " in answer["message"]
    answer = refused(api.get(f"{API}/pools/never"), 404, "pool_not_found", "name")
    assert "deleted" not in answer["message"]


def test_the_command_line_names_who_set_each_field(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(line.split()) == status
        printed = capsys.readouterr()
        return printed.err if status else printed.out

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for user, flags in (("ben", "--limits.memory 600Mi"), ("eve", "--limits.cpu 1")):
            monkeypatch.setenv("LOGNAME", user)
            rainbowctl(f"update task-resource-attribute -d {DOMAIN} {flags} -q")
        here = f"-p {PROJECT} -d {DOMAIN}"
        ben, eve = "revision 1, anonymous (says ben)", "revision 2, anonymous (says eve)"
        message = rainbowctl(f"create execution first {here} --memory 3Gi -- true", status=2)
        assert f"That was set by {ben}, " in message
        for line in (f"get task-resource-attribute {here}", f"explain task-resource-attribute {here} -o wide"):
            fields = dict(row.split(maxsplit=1) for row in rainbowctl(line).splitlines() if row.startswith("limits."))
            assert f"600Mi inherited from domain {DOMAIN} ({ben}, " in " ".join(fields["limits.memory"].split())
            assert eve in fields["limits.cpu"]
        [row] = [
            row
            for row in rainbowctl(f"get task-resource-attribute {here} -o wide").splitlines()
            if row.startswith("limits.memory")
        ]
        version, revision, updated, by = re.split(" {2,}", row)[3:7]
        assert (version, revision, by) == ("2", "1", "anonymous (says ben)")
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", updated)
        exact = rainbowctl(f"get task-resource-attribute -d {DOMAIN} --exact")
        assert f"here ({ben}, " in exact
        assert f"here ({eve}, " in exact
        for line in (f"explain task-resource-attribute -d {DOMAIN} --reach", f"compare 0 {here} --otherDomain staging"):
            shown = " ".join(rainbowctl(line).split())
            assert ben in shown
            assert eve in shown
