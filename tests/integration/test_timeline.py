"""The timeline: revisions and events of clusters in one list; on both databases."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.retention import Retention
from admin.services.redecisions import decide_waiting
from admin.services.retention import prune
from admin.store import cluster_events, decisions
from tests.support.agents import Clock
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    asked,
    created,
    get,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
    report,
    switch,
)


@pytest.fixture
def eventful(api: FlaskClient, app_clock: Clock) -> FlaskClient:
    """An admin to which five things happened, a minute apart."""
    put_cluster(api, "east")
    app_clock.advance(60)
    switch(api, "east", "cordon", reason="new disks", claimed_by="otto")
    app_clock.advance(60)
    put_pool(api, "gpu", ["east"])
    app_clock.advance(60)
    switch(api, "east", "uncordon", claimed_by="otto")
    app_clock.advance(60)
    body = {"attributes": {"matching_attributes": {"workflow_priority": {"priority": 7}}}, "claimed_by": "ana"}
    ok(api.put(f"{API}/domain_attributes/staging", json={**body, "message": "urgent"}))
    return api


def entries(api: FlaskClient, query: str = "") -> list[Any]:
    listed: list[Any] = get(api, f"timeline?limit=100{query}")["entries"]
    return listed


def described(listed: list[Any]) -> list[str]:
    """Each entry by its cluster and type, or by the noun of its only change."""
    return [entry.get("type") or entry["changes"][0]["resource_type"] for entry in listed]


def test_revisions_and_events_come_in_one_list_newest_first(eventful: FlaskClient) -> None:
    listed = entries(eventful)
    assert described(listed) == ["WORKFLOW_PRIORITY", "UNCORDONED", "POOL", "CORDONED", "CLUSTER"]
    assert [entry["at"] for entry in listed] == sorted((entry["at"] for entry in listed), reverse=True)
    newest, _, _, cordoned, _ = listed
    assert (newest["source"], newest["claimed_by"], newest["message"]) == ("revision", "ana", "urgent")
    assert newest["changes"][0]["after"] == {"priority": 7}
    assert (cordoned["source"], cordoned["cluster"], cordoned["claimed_by"], cordoned["message"]) == (
        "cluster-event",
        "east",
        "otto",
        "new disks",
    )


def test_reports_of_load_are_left_out(eventful: FlaskClient) -> None:
    before = entries(eventful)
    report(eventful, "east", free={"cpu": "1"})
    assert entries(eventful) == before


def test_pages_join_without_gaps_whatever_their_size(eventful: FlaskClient) -> None:
    complete = entries(eventful)
    for size in (1, 2, 3, 4):
        paged, token = [], ""
        while True:
            answer = get(eventful, f"timeline?limit={size}{token}")
            paged += answer["entries"]
            if "token" not in answer:
                break
            token = f"&token={answer['token']}"
        assert paged == complete


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("&cluster=east", ["UNCORDONED", "CORDONED", "CLUSTER"]),
        ("&actor=otto", ["UNCORDONED", "CORDONED"]),
        ("&actor=ana", ["WORKFLOW_PRIORITY"]),
        ("&actor=anonymous", ["WORKFLOW_PRIORITY", "UNCORDONED", "POOL", "CORDONED", "CLUSTER"]),
        ("&domain=staging", ["WORKFLOW_PRIORITY"]),
        ("&resource_type=pool", ["POOL"]),
        ("&resource_type=cluster", ["UNCORDONED", "CORDONED", "CLUSTER"]),
        ("&cluster=nobody", []),
        ("&source=revision", ["WORKFLOW_PRIORITY", "POOL", "CLUSTER"]),
        ("&source=cluster-event", ["UNCORDONED", "CORDONED"]),
        ("&source=redecision", []),
    ],
)
def test_entries_are_selected(eventful: FlaskClient, query: str, expected: list[str]) -> None:
    assert described(entries(eventful, query)) == expected


def test_entries_are_selected_by_time(eventful: FlaskClient) -> None:
    listed = entries(eventful)
    after, before = listed[3]["at"].replace("+", "%2B"), listed[1]["at"].replace("+", "%2B")
    assert described(entries(eventful, f"&after={after}&before={before}")) == ["POOL", "CORDONED"]


def test_a_revision_of_many_rows_has_the_first_and_their_number(api: FlaskClient) -> None:
    changes = [
        {"resource_type": "WORKFLOW_PRIORITY", "domain": domain, "project": project, "payload": {"priority": 3}}
        for domain in ("development", "staging", "production")
        for project in ("flytesnacks", "flyteexamples")
    ]
    ok(api.post(f"{API}/attribute_changes", json={"changes": changes}))
    entry = entries(api)[0]
    assert (entry["change_count"], len(entry["changes"])) == (6, 5)
    assert all(change["after"] == {"priority": 3} for change in entry["changes"])


def test_an_attribute_shows_its_value_before_and_after(api: FlaskClient) -> None:
    for priority in (3, 5):
        put_attribute(api, "domain", "workflow_priority", {"priority": priority}, domain="staging")
    [change] = entries(api)[0]["changes"]
    assert (change["before"], change["after"]) == ({"priority": 3}, {"priority": 5})


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("token=x", "token"),
        ("after=soon", "after"),
        ("who=me", "who"),
        ("cluster=east&project=flytesnacks", "cluster"),
        ("cluster=east&resource_type=pool", "cluster"),
        ("cluster=east&resource_type=cluster&domain=staging", "cluster"),
    ],
)
def test_what_cannot_be_read_is_refused(api: FlaskClient, query: str, field: str) -> None:
    refused(api.get(f"{API}/timeline?{query}"), 400, "invalid_request", field)


def test_a_round_of_new_decisions_is_one_entry_with_counts(app: Flask, api: FlaskClient) -> None:
    put_pool(api, "both", ["east", "west"], strategy="spill")
    for cluster in ("east", "west"):
        report(api, cluster, capacity={"executions": 100})
    for number in range(7):
        created(api, f"e{number}", **pool("both"))
    decide_waiting(context_of(app))
    switch(api, "east", "cordon", reason="new disks", claimed_by="otto")
    decide_waiting(context_of(app))
    decide_waiting(context_of(app))
    [entry] = entries(api, "&source=redecision")
    assert entry["type"] == "REDECIDED"
    names = ", ".join(f"flytesnacks/development/e{number}" for number in range(5))
    assert entry["message"].startswith(f"7 decided again: east -> west: 7 ({names} and 2 more). After event ")
    assert entry["message"].endswith(", cluster 'east' CORDONED by anonymous (says otto), 'new disks'.")
    assert entry["cluster"] == ""  # always there, because older clients read it
    assert not {"author", "claimed_by"} & entry.keys()
    assert entry in entries(api)
    assert entry not in entries(api, "&resource_type=cluster")
    switch(api, "west", "cordon")
    decide_waiting(context_of(app))
    assert entries(api, "&source=redecision")[0]["message"].startswith(
        "7 decided again: west -> none (CLUSTERS_CORDONED): 7 ("
    )
    switch(api, "east", "uncordon")
    selector = {"selector": {"phase": "QUEUED"}, "claimed_by": "ada", "cause": "The disks are new."}
    ok(api.post(f"{API}/executions/redecide", json=selector))
    newest = entries(api, "&actor=ada")[0]
    assert newest["message"].startswith("7 decided again: none -> east: 7 (")
    assert newest["message"].endswith("). The disks are new.")
    assert (newest["author"], newest["claimed_by"]) == ("anonymous", "ada")


def test_the_event_of_a_request_to_decide_again_comes_before_its_decisions(
    app: Flask, api: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pool(api, "both", ["east", "west"], strategy="spill")
    for cluster in ("east", "west"):
        report(api, cluster, capacity={"executions": 100})
    for number in range(2):
        created(api, f"e{number}", **pool("both"))
    put_pool(api, "both", ["west"])
    order: list[str] = []

    def note(module: Any, name: str) -> None:
        make = getattr(module, name)

        def noted(*arguments: Any) -> Any:
            order.append(name)
            return make(*arguments)

        monkeypatch.setattr(module, name, noted)

    note(cluster_events, "add_numbered_event")
    note(decisions, "add")
    note(cluster_events, "complete_event")
    ok(api.post(f"{API}/executions/redecide", json={"selector": {"phase": "QUEUED"}, "claimed_by": "ada"}))
    assert order == ["add_numbered_event", "add", "add", "complete_event"]
    [entry] = entries(api, "&source=redecision")
    assert entry["message"].startswith("2 decided again: east -> west: 2 (")


def test_a_round_of_pruning_is_one_entry_with_counts(app: Flask, api: FlaskClient, app_clock: Clock) -> None:
    put_pool(api, "both", ["east"])
    created(api, "old", **pool("both"))
    ok(api.delete(f"{API}/executions/flytesnacks/development/old"))
    created(api, "newest", **pool("both"))
    context = context_of(app)
    kept = Retention(executions="1d")
    list(prune(context, kept, dry_run=True, now=app_clock()))
    assert entries(api, "&source=pruning") == []
    app_clock.advance(2 * 86400)
    list(prune(context, kept))
    list(prune(context, kept))
    [entry] = entries(api, "&source=pruning")
    assert entry["type"] == "PRUNED"
    assert entry["message"].startswith("rows deleted: ")
    assert "executions: 1" in entry["message"]


def test_a_rollback_says_what_it_rolled_back(api: FlaskClient) -> None:
    number = put_attribute(api, "domain", "workflow_priority", {"priority": 7}, domain="staging")["revision"]
    undoing = ok(api.post(f"{API}/rollbacks", json={"revision": number, "message": "no"}))["revision"]
    restoring = ok(api.post(f"{API}/rollbacks", json={"to": number, "everything": True}))["revision"]
    by_number = {entry["revision"]: entry for entry in entries(api)}
    assert (by_number[undoing]["undone"], by_number[restoring]["restored"]) == (number, number)
    assert not {"undone", "restored"} & by_number[number].keys()
    assert get(api, f"revisions/{undoing}")["undone"] == number
    [newest, _, *_] = get(api, "revisions")["revisions"]
    assert newest["restored"] == number


def test_a_deleted_cluster_takes_the_reason_of_its_state_along(api: FlaskClient) -> None:
    put_cluster(api, "east")
    switch(api, "east", "disable", reason="broken", claimed_by="otto")
    ok(api.delete(f"{API}/clusters/east"))
    put_cluster(api, "east", enabled=False)
    put_pool(api, "one", ["east", "local"])
    placed = ok(api.post(f"{API}/placements", json=asked("next", **pool("one"))))
    [verdict] = [
        verdict
        for candidate in placed["candidates"]
        for verdict in candidate["verdicts"]
        if candidate["cluster"] == "east" and verdict["filter"] == "enabled"
    ]
    assert "provenance" not in verdict
    switch(api, "east", "enable")
    switch(api, "east", "disable", reason="again")
    assert get(api, "clusters/east")["provenance"]["disabled"]["message"] == "again"


def test_a_round_after_a_revision_names_it(app: Flask, api: FlaskClient) -> None:
    put_pool(api, "both", ["east"])
    put_pool(api, "other", ["west"])
    for cluster in ("east", "west"):
        report(api, cluster, capacity={"executions": 100})
    created(api, "first", **pool("both"))
    decide_waiting(context_of(app))
    body = {"pool": {"members": [{"id": "west"}]}, "claimed_by": "ana", "message": "east is sold"}
    number = ok(api.put(f"{API}/pools/both", json=body))["revision"]
    decide_waiting(context_of(app))
    [entry] = entries(api, "&source=redecision")
    assert entry["message"].endswith(f" After revision {number} by anonymous (says ana), 'east is sold'.")


def test_the_event_of_a_round_is_stored_with_its_decisions_or_not_at_all(
    app: Flask, api: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_pool(api, "both", ["east", "west"], strategy="spill")
    for cluster in ("east", "west"):
        report(api, cluster, capacity={"executions": 100})
    created(api, "first", **pool("both"))
    switch(api, "east", "cordon")

    def fail(*_: object) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("admin.store.cluster_events.add_event", fail)
    with pytest.raises(RuntimeError):
        decide_waiting(context_of(app))
    assert get(api, "executions/flytesnacks/development/first")["cluster"] == "east"
    monkeypatch.undo()
    decide_waiting(context_of(app))
    assert get(api, "executions/flytesnacks/development/first")["cluster"] == "west"
    assert len(entries(api, "&source=redecision")) == 1


def test_a_message_that_names_other_amounts_is_no_round(app: Flask, api: FlaskClient) -> None:
    put_pool(api, "small", ["east"], strategy="spill")
    report(api, "east", capacity={"executions": 9, "cpu": "4"}, free={"executions": 9, "cpu": "0"})
    created(api, "large", job={"command": ["true"], "resources": {"requests": {"cpu": "2"}}}, **pool("small"))
    report(api, "east", capacity={"executions": 9, "cpu": "4"}, free={"executions": 9, "cpu": "1"})
    assert len(decide_waiting(context_of(app))) == 1  # its message is another one
    assert entries(api, "&source=redecision") == []


def test_a_round_that_nothing_new_explains_names_no_older_event(app: Flask, api: FlaskClient) -> None:
    put_pool(api, "small", ["east"], strategy="spill")
    report(api, "east", capacity={"executions": 1}, free={"executions": 0})
    created(api, "first", **pool("small"))
    switch(api, "local", "cordon", claimed_by="otto")
    decide_waiting(context_of(app))
    assert entries(api, "&source=redecision") == []
    report(api, "east", capacity={"executions": 1}, free={"executions": 1})
    decide_waiting(context_of(app))
    [entry] = entries(api, "&source=redecision")
    assert entry["message"] == (
        "1 decided again: none -> east: 1 (flytesnacks/development/first). "
        "Room was left, or an agent reported a change."
    )


def test_a_process_that_has_just_begun_names_no_cause(app: Flask, api: FlaskClient) -> None:
    put_pool(api, "both", ["east", "west"])
    created(api, "waits", cluster="east")
    switch(api, "east", "cordon", claimed_by="otto")
    created(api, "moves", **pool("both"))
    switch(api, "east", "uncordon")
    switch(api, "west", "cordon")
    context_of(app).seen_changes.event = None
    decide_waiting(context_of(app))
    causes = [entry["message"] for entry in entries(api, "&source=redecision")]
    assert len(causes) == 1
    assert causes[0].endswith("The fleet had changed, or had room again, when this admin began to decide.")


def test_the_changes_of_one_definition_are_selected_by_its_name(eventful: FlaskClient) -> None:
    put_pool(eventful, "cpu", ["east"])
    assert [entry["changes"][0]["name"] for entry in entries(eventful, "&resource_type=pool&name=cpu")] == ["cpu"]
    of_cluster = entries(eventful, "&resource_type=cluster&name=east")
    assert of_cluster == entries(eventful, "&cluster=east")
    for query in ("name=gpu", "name=gpu&resource_type=project", "name=gpu&resource_type=pool&domain=staging"):
        refused(eventful.get(f"{API}/timeline?{query}"), 400, "invalid_request", "name")


def test_an_empty_timeline_names_what_is_close_to_an_unknown_name(eventful: FlaskClient) -> None:
    def unknown(query: str) -> list[tuple[str, str, list[str]]]:
        names = get(eventful, f"timeline?{query}").get("unknown_names", [])
        return [(name["field"], name["message"], name["closest"]) for name in names]

    start = "None of the newest 1,000 revisions and events is by"
    assert unknown("actor=anna") == [("actor", f"{start} 'anna'. Did you mean 'ana'?", ["ana"])]
    assert unknown("actor=oto") == [("actor", f"{start} 'oto'. Did you mean 'otto'?", ["otto"])]
    assert unknown("actor=ana&domain=production") == [], "she did something else"
    message = "No pool is called 'gpus'. Did you mean 'gpu'?"
    assert unknown("resource_type=pool&name=gpus") == [("name", message, ["gpu"])]
    assert unknown("cluster=eats") == [("cluster", "No cluster is called 'eats'. Did you mean 'east'?", ["east"])]
    ok(eventful.delete(f"{API}/pools/gpu"))
    assert unknown("resource_type=pool&name=gpu&before=2000-01-01") == [], "it was deleted"
    assert unknown("actor=ana") == []


def test_the_deadline_of_a_drain_stands_beside_its_event_while_it_goes_on(eventful: FlaskClient) -> None:
    switch(eventful, "east", "drain", deadline="10m")
    switch(eventful, "east", "drain", deadline="20m")
    deadline = get(eventful, "clusters/east")["drain_deadline"]
    events = get(eventful, "clusters/east/events")["events"]
    assert [event.get("deadline") for event in events][:2] == [deadline, None], "the first is no longer in force"
    assert [entry.get("deadline") for entry in entries(eventful, "&source=cluster-event")][:2] == [deadline, None]
    switch(eventful, "east", "undrain")
    assert not any(entry.get("deadline") for entry in entries(eventful))


def test_a_window_of_time_has_what_was_made_before_the_clock_was_set_back(api: FlaskClient, app_clock: Clock) -> None:
    begin = app_clock()
    for minutes in (0, 10, -5, 10):
        app_clock.advance(60 * minutes)
        put_pool(api, f"p{minutes}-{int((app_clock() - begin).total_seconds())}", ["east"])

    def listed(**window: datetime) -> list[str]:
        query = "".join(f"&{name}={quote(time.isoformat())}" for name, time in window.items())
        return [entry["changes"][0]["name"] for entry in entries(api, f"&source=revision{query}")]

    minute = timedelta(minutes=1)
    assert listed() == ["p10-900", "p-5-300", "p10-600", "p0-0"]
    assert listed(after=begin + 6 * minute) == ["p10-900", "p10-600"]
    assert listed(before=begin + 6 * minute) == ["p-5-300", "p0-0"]
    assert listed(after=begin + 1 * minute, before=begin + 11 * minute) == ["p-5-300", "p10-600"]
    assert listed(after=begin + 20 * minute) == []
