"""The timeline: revisions and events of clusters in one list; on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, update

from admin.core.changes import UNKNOWN
from admin.core.retention import Retention
from admin.core.times import show_time
from admin.messages.pages import token_of
from admin.services.context import Context
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.services.retention import prune
from admin.store import cluster_events, decisions, revisions, row_changes
from admin.store.cluster_events import ClusterEvent
from admin.store.execution_lists import ListLimits
from admin.store.registration_tables import workflows
from admin.store.revisions import Revision, RevisionFilter
from tests.robustness.pictures import shared_sqlite_only
from tests.support.agents import Clock, played_agent, set_clock
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    JOB,
    PROJECT,
    asked,
    created,
    get,
    identifier,
    ok,
    pages,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    report,
    switch,
)

SLOW_ON = ("postgresql",)


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
        ("&cluster=east", ["UNCORDONED", "POOL", "CORDONED", "CLUSTER"]),
        ("&actor=otto", ["UNCORDONED", "CORDONED"]),
        ("&actor=ana", ["WORKFLOW_PRIORITY"]),
        ("&actor=anonymous (says otto)", ["UNCORDONED", "CORDONED"]),
        ("&actor=anonymous (says ana)", ["WORKFLOW_PRIORITY"]),
        ("&actor=ana (says anonymous)", []),
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


def pages_of(connection: Connection, filters: RevisionFilter, size: int) -> list[Revision]:
    """Every revision that a filter selects, so many a page."""
    found: list[Revision] = []
    while page := revisions.page(connection, filters, found[-1].number if found else None, size):
        found += page
    return found


@pytest.mark.parametrize(
    "wanted",
    [
        *({"kind": kind} for kind in ("TASK_RESOURCE", "WORKFLOW_PRIORITY", "POOL", "CLUSTER_RESOURCE")),
        *({"actor": actor} for actor in ("ana", "anonymous", "anonymous (says otto)", "otto (says ana)", "nobody")),
        {"kind": "TASK_RESOURCE", "actor": "ana"},
        {"actor": "otto", "author": "anonymous"},
        {"actor": "otto", "claimed_by": "ana"},
    ],
    ids=str,
)
def test_the_first_revisions_that_are_found_along_an_index_are_those_among_all(
    eventful: FlaskClient, context: Context, wanted: dict[str, Any]
) -> None:
    limits = {"resource_type": "TASK_RESOURCE", "domain": "staging"}
    priorities = [
        {"resource_type": "WORKFLOW_PRIORITY", "project": PROJECT, "domain": domain}
        for domain in ("development", "staging")
    ]
    for by, changes in (
        ("ana", [{**row, "payload": {"priority": 5}} for row in priorities]),
        ("otto", [{**limits, "payload": {"limits": {"cpu": "4"}}}]),
        ("ana", [{**row, "delete": True} for row in (limits, *priorities)]),
    ):
        ok(eventful.post(f"{API}/attribute_changes", json={"changes": changes, "claimed_by": by}))

    def is_wanted(revision: Revision) -> bool:
        by = revision.authorship
        says = f"{by.author} (says {by.claimed_by})"
        kinds = {change.kind for change in row_changes.changes_of(connection, revision.number)}
        return (
            wanted.get("kind") in (None, *kinds)
            and wanted.get("actor") in (None, by.author, by.claimed_by, says)
            and wanted.get("author") in (None, by.author)
            and wanted.get("claimed_by") in (None, by.claimed_by)
        )

    with context.database.reading() as connection:
        everything = pages_of(connection, RevisionFilter(), 100)
        expected = list(filter(is_wanted, everything))
        oldest = everything[-1]
        for size in (1, 2, 100):
            assert pages_of(connection, RevisionFilter(**wanted), size) == expected
            rising = pages_of(connection, RevisionFilter(**wanted, above=oldest.number), size)
            assert rising == [revision for revision in reversed(expected) if revision != oldest]


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
        ("after=1h&before=2h", "after"),
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
    assert entry["message"].endswith(", cluster 'east' was cordoned by anonymous (says otto), 'new disks'.")
    assert entry["cluster"] == ""  # always there, because older clients read it
    assert not {"author", "claimed_by"} & entry.keys()
    assert entry in entries(api)
    assert entry not in entries(api, "&resource_type=cluster")
    cause = entry["message"].partition("). After ")[2]
    of_e3 = "executions/flytesnacks/development/e3"
    explained = get(api, f"{of_e3}/explanation")
    assert explained["because"] == f"from east: after {cause[:-1]}"
    assert [decision["because"] for decision in explained["history"]] == ["created", explained["because"]]
    event = get(api, f"{of_e3}/events")["events"][-1]
    assert event["reason"]["message"] == f"{explained['reason']['message']} Decided again, from east: after {cause}"
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


@pytest.mark.parametrize(("before", "after"), [("cordon", "uncordon"), ("drain", "undrain")])
def test_a_round_names_the_events_of_the_clusters_that_executions_went_to(
    app: Flask, api: FlaskClient, before: str, after: str
) -> None:
    for cluster in ("birch", "alder"):
        put_pool(api, f"only-{cluster}", [cluster])
        report(api, cluster, capacity={"executions": 100})
        switch(api, cluster, before)
    created(api, "e", **pool("only-birch"))
    decide_waiting(context_of(app))
    switches = {"switch": after, "clusters": ["birch", "alder"], "claimed_by": "otto"}
    ok(api.post(f"{API}/cluster_switches", json=switches))
    decide_waiting(context_of(app))
    event = get(api, "clusters/birch/events")["events"][0]
    [entry, *_] = entries(api, "&source=redecision")
    cause = f"After event {event['number']}, cluster 'birch' was {after}ed by anonymous (says otto)."
    assert entry["message"].endswith(cause)


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
    assert entry["message"].startswith("deleted ")
    assert "1 execution," in entry["message"] + ","
    assert "_" not in entry["message"]


def test_pruning_by_hand_names_who_asked_for_it(app: Flask, api: FlaskClient, app_clock: Clock) -> None:
    for name in ("old", "newest"):
        created(api, name)
        ok(api.delete(f"{API}/executions/flytesnacks/development/{name}"))
    app_clock.advance(2 * 86400)
    list(prune(context_of(app), Retention(executions="1d"), claimed_by="otto"))
    [entry] = entries(api, "&source=pruning&actor=otto")
    assert (entry["author"], entry["claimed_by"]) == ("anonymous", "otto")


def test_a_timeline_says_which_revisions_and_events_were_pruned(app: Flask, api: FlaskClient, app_clock: Clock) -> None:
    for name in ("east", "west"):
        put_cluster(api, name)
        switch(api, name, "cordon", claimed_by="otto")
        switch(api, name, "disable", claimed_by="otto")
        switch(api, name, "enable", claimed_by="otto")
    assert "not_listed" not in get(api, "timeline?actor=otto")
    begin = app_clock()
    app_clock.advance(2 * 86400)
    put_cluster(api, "north")
    list(prune(context_of(app), Retention(revisions="1d", events="1h")))
    revisions, events = (show_time(app_clock() - timedelta(hours=hours)) for hours in (24, 1))
    kept = "Events of states that still hold are kept."
    sentence = f"Revisions made before {revisions} and events from before {events} are pruned, so they are not listed."
    sentence = f"{sentence} {kept}"
    for query in ("", "?actor=otto", "?actor=nobody", "?cluster=east", f"?after={quote(begin.isoformat())}"):
        assert get(api, f"timeline{query}")["not_listed"] == sentence, query
    alone = f"Revisions made before {revisions} are pruned, so they are not listed."
    assert get(api, "timeline?domain=staging")["not_listed"] == alone, "events belong to no scope"
    alone = f"Events from before {events} are pruned, so they are not listed. {kept}"
    assert get(api, "timeline?after=2h")["not_listed"] == alone
    for query in ("?after=30m", "?source=registration", "?limit=1"):
        assert "not_listed" not in get(api, f"timeline{query}"), query


def register(api: FlaskClient, path: str, name: str, project: str = "flytesnacks", **more: Any) -> None:
    id = {"project": project, "domain": "development", "name": name, "version": "v1"}
    spec = (
        {"job": {"command": ["true"]}} if path == "workflows" else {"workflow_id": {"name": "train", "version": "v1"}}
    )
    ok(api.post(f"{API}/{path}", json={"id": id, "spec": spec, **more}))


@pytest.fixture
def registered(eventful: FlaskClient, app_clock: Clock) -> FlaskClient:
    """The same, and then four registrations a minute apart."""
    for path, name, more in (
        ("workflows", "train", {"claimed_by": "rita", "message": "a first version"}),
        ("launch_plans", "nightly", {"claimed_by": "otto", "state": "ACTIVE"}),
        ("workflows", "nightly", {}),
        ("workflows", "train", {"project": "flyteexamples", "claimed_by": "rita"}),
    ):
        app_clock.advance(60)
        register(eventful, path, name, **more)
    return eventful


def test_registrations_stand_in_the_timeline_with_who_made_them_and_why(registered: FlaskClient) -> None:
    newest, _, plan, workflow, *others = entries(registered)
    assert [entry["source"] for entry in (newest, plan, workflow)] == ["registration"] * 3
    assert [entry["source"] for entry in others] == ["revision", "cluster-event"] * 2 + ["revision"]
    assert workflow == {
        "at": workflow["at"],
        "source": "registration",
        "type": "WORKFLOW_REGISTERED",
        "number": 1,
        "id": identifier("train"),
        "author": "anonymous",
        "claimed_by": "rita",
        "message": "a first version",
        "request_id": workflow["request_id"],
    }
    assert (plan["type"], plan["id"]["name"], plan["workflow"]) == ("LAUNCH_PLAN_REGISTERED", "nightly", "train")
    register(registered, "workflows", "train", claimed_by="otto")
    assert entries(registered)[0] == newest, "the same again is no registration"
    stored = get(registered, "workflows/flytesnacks/development/train/v1")
    assert stored["created_at"] == workflow["at"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("&source=registration", ["train", "nightly", "nightly", "train"]),
        ("&project=flyteexamples", ["train"]),
        ("&domain=development", ["train", "nightly", "nightly", "train"]),
        ("&domain=staging&source=registration", []),
        ("&project=flytesnacks&domain=development&workflow=train", ["nightly", "train"]),
        ("&project=flytesnacks&domain=development&workflow=train&launch_plan=nightly", ["nightly"]),
        ("&launch_plan=train", []),
        ("&actor=rita", ["train", "train"]),
        ("&source=registration&actor=otto", ["nightly"]),
        ("&source=registration&actor=anonymous", ["train", "nightly", "nightly", "train"]),
        ("&source=registration&actor=unknown", []),
        ("&resource_type=pool&source=registration", []),
        ("&cluster=east&source=registration", []),
        ("&source=registration&after=90s", ["train", "nightly"]),
        ("&source=registration&before=90s", ["nightly", "train"]),
    ],
)
def test_registrations_are_selected(registered: FlaskClient, app_clock: Clock, query: str, expected: list[str]) -> None:
    if "before=90s" in query:
        query = query.replace("90s", quote((app_clock() - timedelta(seconds=90)).isoformat()))
    assert [entry["id"]["name"] for entry in entries(registered, query)] == expected


def test_pages_of_every_source_join_without_gaps(registered: FlaskClient) -> None:
    complete = entries(registered)
    assert len(complete) == 9
    for size in (1, 2, 4):
        paged, token = [], ""
        while True:
            answer = get(registered, f"timeline?limit={size}{token}")
            paged += answer["entries"]
            if "token" not in answer:
                break
            token = f"&token={answer['token']}"
        assert paged == complete
    last_event = next(entry for entry in complete if entry["source"] == "cluster-event")
    older = token_of([complete[4]["number"], last_event["number"]])
    below = get(registered, f"timeline?source=revision&token={older}")["entries"]
    assert below == [entry for entry in complete[5:] if entry["source"] == "revision"], "a token of an earlier version"


def test_activations_stand_in_the_timeline_with_who_made_them_and_why(
    registered: FlaskClient, app_clock: Clock
) -> None:
    path, before = f"{API}/launch_plans/flytesnacks/development/nightly/v1", entries(registered)
    for state, more in (("INACTIVE", {"claimed_by": "olga", "message": "wrong"}), ("INACTIVE", {}), ("ACTIVE", {})):
        app_clock.advance(60)
        ok(registered.put(path, json={"state": state, **more}))
    activated, deactivated, *others = entries(registered)
    assert others == before, "the same again is no change"
    assert deactivated == {
        "at": deactivated["at"],
        "source": "registration",
        "type": "LAUNCH_PLAN_DEACTIVATED",
        "number": 1,
        "id": identifier("nightly"),
        "workflow": "train",
        "author": "anonymous",
        "claimed_by": "olga",
        "message": "wrong",
        "request_id": deactivated["request_id"],
    }
    assert (activated["type"], "claimed_by" in activated) == ("LAUNCH_PLAN_ACTIVATED", False)
    assert entries(registered, "&actor=olga") == [deactivated]
    assert entries(registered, "&project=flytesnacks&domain=development&launch_plan=nightly")[:2] == [
        activated,
        deactivated,
    ]
    page = get(registered, "timeline?limit=1")
    assert get(registered, f"timeline?limit=1&token={page['token']}")["entries"] == [deactivated]
    plan = get(registered, "launch_plans/flytesnacks/development/nightly/v1")
    assert plan["state_set_by"] == {"author": "anonymous", "at": activated["at"]}
    # A version that is registered as active makes the other one inactive.
    app_clock.advance(60)
    body = {"spec": {"workflow_id": {"name": "train", "version": "v1"}}, "claimed_by": "rita", "state": "ACTIVE"}
    ok(registered.post(f"{API}/launch_plans", json={"id": {**identifier("nightly"), "version": "v2"}, **body}))
    newest = {entry["type"]: entry for entry in entries(registered)[:2]}
    assert newest["LAUNCH_PLAN_REGISTERED"]["id"]["version"] == "v2"
    replaced = newest["LAUNCH_PLAN_DEACTIVATED"]
    assert (replaced["id"]["version"], replaced["replaced_by"], replaced["claimed_by"]) == ("v1", "v2", "rita")
    v2, v1 = get(registered, "launch_plans/flytesnacks/development/nightly")["launch_plans"]
    assert (v1["state"], v1["state_set_by"]["claimed_by"], "state_set_by" in v2) == ("INACTIVE", "rita", False)
    for field, value in (("claimed_by", "a\0b"), ("message", "x" * 1001), ("by", "rita")):
        refused(registered.put(path, json={"state": "ACTIVE", field: value}), 400, "invalid_request", field)
    assert entries(registered)[0]["at"] == replaced["at"], "nothing is changed by what is refused"


def test_a_registration_before_authors_were_recorded_says_that_its_author_is_unknown(
    app: Flask, registered: FlaskClient
) -> None:
    with context_of(app).database.writing() as connection:
        connection.execute(update(workflows).where(workflows.c.name == "nightly").values(author=UNKNOWN))
    [entry] = entries(registered, "&source=registration&actor=unknown")
    assert (entry["id"]["name"], entry["author"]) == ("nightly", "unknown")
    assert get(registered, "workflows/flytesnacks/development/nightly/v1")["author"] == "unknown"


def test_the_history_of_a_cluster_has_what_moved_from_and_to_it(app: Flask, api: FlaskClient) -> None:
    put_pool(api, "both", ["east", "west"], strategy="spill")
    put_pool(api, "other", ["north"])
    for cluster in ("east", "west", "north"):
        report(api, cluster, capacity={"executions": 100})
    created(api, "first", **pool("both"))
    switch(api, "east", "cordon")
    decide_waiting(context_of(app))
    [moved] = entries(api, "&source=redecision")
    for query in ("", "&source=redecision"):
        assert moved in entries(api, f"&cluster=east{query}")
        assert moved in entries(api, f"&cluster=west{query}")
        assert moved not in entries(api, f"&cluster=north{query}")
    assert moved not in entries(api, "&cluster=west&source=cluster-event")
    switch(api, "west", "cordon")
    switch(api, "east", "uncordon")
    ok(api.post(f"{API}/executions/redecide", json={"selector": {"phase": "QUEUED"}, "claimed_by": "ada"}))
    [requested, first] = entries(api, "&cluster=east&source=redecision")
    assert (requested["claimed_by"], first) == ("ada", moved)
    assert entries(api, "&cluster=west&actor=ada") == [requested]
    complete = entries(api, "&cluster=west")
    paged, token = [], ""
    for _ in complete:
        answer = get(api, f"timeline?cluster=west&limit=1{token}")
        paged += answer["entries"]
        token = f"&token={answer.get('token')}"
    assert paged == complete
    assert "token" not in answer


def test_what_a_cluster_gave_back_is_in_its_history(app: Flask, api: FlaskClient, context: Context) -> None:
    agent = played_agent(api, context, "east")
    put_pool(api, "both", ["east", "west"], strategy="spill")
    report(api, "west", capacity={"executions": 100})
    created(api, "first", **pool("both"))
    assert agent.take() == ["first"]
    agent.report("first", "DECLINED", message="no gpu")
    decide_undecided(context)
    assert get(api, "executions/flytesnacks/development/first")["cluster"] == "west"
    [round_] = entries(api, "&source=redecision")
    assert round_["message"].startswith("1 decided again: east -> west: 1 (")
    assert entries(api, "&source=redecision&cluster=east") == [round_]


def test_the_history_of_a_cluster_has_the_pools_and_labels_whose_members_changed(api: FlaskClient) -> None:
    put_cluster(api, "id")
    first = put_pool(api, "gpu", ["east", "west"])["revision"]
    put_pool(api, "gpu", ["east", "west"], description="no change of members")
    weights = put_pool(api, "gpu", {"east": 3, "west": 1}, description="no change of members")["revision"]
    left = put_pool(api, "gpu", ["west"])["revision"]
    without = put_pool(api, "gpu", ["west", "north-east"])["revision"]
    labelled = put_label(api, "near", ["east"])["revision"]
    gone = ok(api.delete(f"{API}/labels/near"))["revision"]

    def numbers(query: str) -> list[int]:
        return [entry["revision"] for entry in entries(api, f"&source=revision&{query}")]

    assert numbers("cluster=east") == [gone, labelled, left, weights, first]
    assert numbers("cluster=west") == [without, left, weights, first]
    assert numbers("cluster=north-east") == [without]
    assert numbers("cluster=id") == [1], "each member has a key of this name"
    assert numbers("cluster=weight") == numbers("cluster=north") == []
    both = [{"pool_definition": {"name": name, "members": [{"id": "south"}]}} for name in ("one", "two")]
    number = ok(api.post(f"{API}/attribute_changes", json={"changes": both}))["revision"]
    assert numbers("cluster=south") == [number]
    page = get(api, "timeline?cluster=east&limit=2")
    rest = get(api, f"timeline?cluster=east&token={page['token']}")
    assert [entry["revision"] for entry in page["entries"] + rest["entries"]] == numbers("cluster=east")


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


def test_a_revision_says_by_which_later_ones_it_was_rolled_back(api: FlaskClient) -> None:
    numbers = [
        put_attribute(api, "domain", "workflow_priority", {"priority": priority}, domain=domain)["revision"]
        for priority, domain in ((7, "staging"), (8, "staging"), (9, "production"))
    ]
    first, second, elsewhere = numbers
    body = {"revision": second, "message": "too high", "claimed_by": "olga"}
    undoing = ok(api.post(f"{API}/rollbacks", json=body))["revision"]
    redoing = ok(api.post(f"{API}/rollbacks", json={"revision": undoing}))["revision"]
    restoring = ok(api.post(f"{API}/rollbacks", json={"to": first, "domain": "staging"}))["revision"]

    def rolled_back_by(number: int) -> list[int]:
        return [entry["revision"] for entry in get(api, f"revisions/{number}").get("rolled_back_by", [])]

    assert rolled_back_by(second) == [restoring, undoing]
    assert (rolled_back_by(undoing), rolled_back_by(redoing)) == ([restoring, redoing], [restoring])
    assert rolled_back_by(first) == rolled_back_by(elsewhere) == rolled_back_by(restoring) == []
    entry = get(api, f"revisions/{second}")["rolled_back_by"][1]
    assert {key: entry[key] for key in ("undone", "author", "claimed_by", "message")} == {
        "undone": second,
        "author": "anonymous",
        "claimed_by": "olga",
        "message": "too high",
    }


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
    because = get(api, "executions/flytesnacks/development/first/explanation")["because"]
    assert because == f"from east: after revision {number} by anonymous (says ana), 'east is sold'"


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

    monkeypatch.setattr("admin.store.cluster_events.add_numbered_event", fail)
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
    assert causes[0].endswith(
        "The fleet, the configuration or which clusters creators may use had changed, or there was room again, when "
        "this admin started."
    )


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

    start = "None of the newest 1,000 revisions, events and registrations is by"
    assert unknown("actor=anna") == [("actor", f"{start} 'anna'. Did you mean 'ana'?", ["ana"])]
    assert unknown("actor=oto") == [("actor", f"{start} 'oto'. Did you mean 'otto'?", ["otto"])]
    assert unknown("actor=ana&domain=production") == [], "she did something else"
    message = "No pool is called 'gpus'. Did you mean 'gpu'?"
    assert unknown("resource_type=pool&name=gpus") == [("name", message, ["gpu"])]
    assert unknown("cluster=eats") == [("cluster", "No cluster is called 'eats'. Did you mean 'east'?", ["east"])]
    ok(eventful.delete(f"{API}/pools/gpu"))
    assert unknown("resource_type=pool&name=gpu&before=2000-01-01") == [], "it was deleted"
    assert unknown("actor=ana") == []
    assert unknown("actor=anonymous (says ana)&domain=production") == []


def test_what_one_command_did_in_several_requests_is_shown_together(api: FlaskClient, app_clock: Clock) -> None:
    for cluster in ("east", "west"):
        put_cluster(api, cluster)
    command = {"X-Request-Id": "release-7"}

    def cordon(cluster: str, by: str, **headers: str) -> None:
        app_clock.advance(1)
        ok(api.post(f"{API}/clusters/{cluster}/cordon", json={"claimed_by": by, "reason": "move"}, headers=headers))

    cordon("east", "otto", **command)
    plan = {"id": identifier("nightly"), "state": "ACTIVE", "spec": {"workflow_id": {"name": "fit", "version": "v1"}}}
    for path, body in (("workflows", {"id": identifier("fit"), "spec": {"job": JOB}}), ("launch_plans", plan)):
        app_clock.advance(1)
        ok(api.post(f"{API}/{path}", json={**body, "claimed_by": "otto", "message": "move"}, headers=command))
    switch(api, "east", "uncordon")
    change = {
        "changes": [{"pool_definition": {"name": "gpu", "members": [{"id": "east"}]}}],
        "claimed_by": "otto",
        "message": "move",
    }
    ok(api.post(f"{API}/attribute_changes", json=change, headers=command))
    cordon("west", "eve", **command)
    eve, otto, *others = get(api, "timeline?by=request")["groups"]
    assert [(group["request_id"], group["claimed_by"], group["message"]) for group in (eve, otto)] == [
        ("release-7", "eve", "move"),
        ("release-7", "otto", "move"),
    ]
    assert otto["counts"] == {"cluster-event": 1, "registration": 2, "revision": 1}
    assert described(otto["entries"]) == ["POOL", "LAUNCH_PLAN_REGISTERED", "WORKFLOW_REGISTERED", "CORDONED"]
    assert (otto["at"], otto["since"]) == (otto["entries"][0]["at"], otto["entries"][-1]["at"])
    assert [described(group["entries"]) for group in others] == [["UNCORDONED"], ["CLUSTER"], ["CLUSTER"]]
    own = entries(api, "&request_id=release-7")
    assert own == [*eve["entries"], *otto["entries"]]
    assert entries(api, "&request_id=release-7&actor=eve") == eve["entries"]
    assert entries(api, "&request_id=release-7&executions=true&creations=true") == own
    first, second, third = pages(api, "timeline?by=request&request_id=release-7&limit=2", "groups")
    assert [group["claimed_by"] for group in (*first, *second, *third)] == ["eve", "otto", "otto", "otto"]
    [unknown] = get(api, "timeline?request_id=release-8")["unknown_names"]
    assert (unknown["field"], unknown["message"]) == (
        "request_id",
        "Nothing that is kept and matches is of request 'release-8'; executions keep none.",
    )
    refused(api.get(f"{API}/timeline?by=author"), 400, "invalid_request", "by")


def test_the_deadline_of_a_drain_stays_beside_its_event_with_what_ended_it(eventful: FlaskClient) -> None:
    for deadline in ("10m", "20m"):
        switch(eventful, "east", "drain", deadline=deadline)
    last = get(eventful, "clusters/east")["drain_deadline"]

    def drains() -> list[Any]:
        listed = get(eventful, "clusters/east/events")["events"]
        by_timeline = entries(eventful, "&source=cluster-event")
        for event, entry in zip(listed, by_timeline, strict=True):
            for key in ("deadline", "ended_by", "number", "author"):
                assert event.get(key) == entry.get(key), key
        return [event for event in listed if event["type"] == "DRAINING"]

    newer, older = drains()
    assert (newer["deadline"], "ended_by" in newer) == (last, False)
    assert (older["deadline"] < last, older["ended_by"]["event"]) == (True, newer["number"])
    switch(eventful, "east", "undrain", reason="done", claimed_by="ana")
    newer, _ = drains()
    assert newer["deadline"] == last
    undrained = get(eventful, "clusters/east/events")["events"][0]
    ended_by = newer["ended_by"]
    assert (ended_by["event"], ended_by["claimed_by"], ended_by["message"]) == (undrained["number"], "ana", "done")
    switch(eventful, "east", "drain", deadline="5m")
    switch(eventful, "east", "cordon", reason="more disks")
    cordoned = get(eventful, "clusters/east/events")["events"][0]
    assert (cordoned["type"], "deadline" in cordoned) == ("CORDONED", False)


def test_the_event_of_a_deleted_cluster_names_the_revision_and_who_made_it(eventful: FlaskClient) -> None:
    put_cluster(eventful, "brief")
    body = {"claimed_by": "ana", "message": "sold"}
    revision = ok(eventful.delete(f"{API}/clusters/brief", json=body))["revision"]
    [deleted] = [entry for entry in entries(eventful, "&cluster=brief") if entry.get("type") == "DELETED"]
    assert (deleted["author"], deleted["claimed_by"], deleted["message"]) == ("anonymous", "ana", "sold")
    assert deleted["revision"] == revision
    for actor in ("ana", "anonymous", "anonymous (says ana)"):
        assert "DELETED" in described(entries(eventful, f"&actor={actor}&source=cluster-event"))
    assert "DELETED" not in described(entries(eventful, "&actor=otto&source=cluster-event"))


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


def test_each_drain_has_its_own_end_however_many_lie_between(context: Context, app_clock: Clock) -> None:
    with context.database.writing() as connection:

        def add(type_: str) -> ClusterEvent:
            event = ClusterEvent(cluster="east", at=app_clock(), type=type_)
            return replace(event, number=cluster_events.add_numbered_event(connection, event))

        first, first_end = add("DRAINING"), add("UNDRAINED")
        cluster_events.add_events(
            connection,
            (ClusterEvent(cluster="east", at=app_clock(), type=("DRAINING", "UNDRAINED")[n % 2]) for n in range(1200)),
        )
        second, second_end, last = add("DRAINING"), add("UNDRAINED"), add("DRAINING")
    with context.database.reading() as connection:
        ends = cluster_events.ends_of_drains(connection, [first, second, last])
    assert {number: end.event for number, end in ends.items()} == {
        first.number: first_end.number,
        second.number: second_end.number,
    }


@pytest.fixture
def ended(api: FlaskClient, app: Flask, app_clock: Clock) -> FlaskClient:
    return end_executions(api, app, app_clock)


@pytest.fixture(scope="module")
def ended_once(shared_app: Flask) -> FlaskClient:
    """The same for tests that only read."""
    clock = Clock()
    set_clock(shared_app, clock)
    return end_executions(shared_app.test_client(), shared_app, clock)


def end_executions(api: FlaskClient, app: Flask, clock: Clock) -> FlaskClient:
    """Let four executions end, a minute apart, with a revision and a cordon in between."""
    agent = played_agent(api, context_of(app), "oak")
    reported: list[tuple[str, str, dict[str, Any]]] = [
        ("ok", "SUCCEEDED", {}),
        ("bad", "FAILED", {"exit_code": 3, "reason": "FAILED", "message": "Exit code 3."}),
    ]
    for name, phase, more in reported:
        created(api, name)
        agent.take()
        agent.sync(agent.event(name, "RUNNING"))
        agent.sync(agent.event(name, phase, **more))
        clock.advance(60)
    put_attribute(api, "domain", "workflow_priority", {"priority": 7}, domain="staging")
    clock.advance(60)
    switch(api, "oak", "cordon", claimed_by="otto")
    for name, place in (("stopped", "development"), ("elsewhere", "staging")):
        created(api, name, domain=place)
        path = f"executions/{PROJECT}/{place}/{name}"
        ok(api.delete(f"{API}/{path}", json={"cause": "wrong data", "claimed_by": "ana"}))
        clock.advance(60)
    created(api, "waits")
    return api


def names_of(listed: list[Any]) -> list[str]:
    return [entry["execution"]["name"] for entry in listed if entry["source"] == "execution"]


def test_ends_of_executions_are_listed_where_they_are_asked_for(ended: FlaskClient) -> None:
    assert names_of(entries(ended)) == []
    alone = entries(ended, "&source=execution")
    assert names_of(alone) == ["elsewhere", "stopped", "bad", "ok"]
    joined = entries(ended, "&executions=true")
    assert [entry for entry in joined if entry["source"] == "execution"] == alone
    assert [entry for entry in joined if entry["source"] != "execution"] == entries(ended)
    assert [entry["at"] for entry in joined] == sorted((entry["at"] for entry in joined), reverse=True)
    elsewhere, stopped, bad, fine = alone
    assert (stopped["type"], stopped["cause"], stopped["author"], stopped["claimed_by"], stopped["message"]) == (
        *("ABORTED", "CANCELLED", "anonymous", "ana", "wrong data"),
    )
    assert (bad["type"], bad["cause"], bad["reason"], bad["exit_code"], bad["cluster"]) == (
        *("FAILED", "EXIT_CODE", "FAILED", 3, "oak"),
    )
    assert ("author" in bad, bad["message"]) == (False, "Exit code 3.")
    assert (fine["type"], "cause" in fine, elsewhere["execution"]["domain"]) == ("SUCCEEDED", False, "staging")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("&cluster=oak", ["bad", "ok"]),
        (f"&project={PROJECT}", ["elsewhere", "stopped", "bad", "ok"]),
        (f"&project={PROJECT}&domain=staging", ["elsewhere"]),
        ("&domain=staging", ["elsewhere"]),
        ("&actor=ana", ["elsewhere", "stopped"]),
        ("&actor=anonymous (says ana)", ["elsewhere", "stopped"]),
        ("&actor=otto", []),
        ("&workflow=none", []),
        ("&resource_type=cluster", []),
        (f"&project={PROJECT}&domain=development&cluster=oak", ["bad", "ok"]),
    ],
)
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(ListLimits(), id="few"),
        pytest.param(ListLimits(sorted=0), id="too many to sort"),
        pytest.param(ListLimits(sorted_first=0), id="many"),
    ],
)
def test_ends_of_executions_are_selected(
    ended_once: FlaskClient,
    shared_app: Flask,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    expected: Any,
    limits: ListLimits,
) -> None:
    monkeypatch.setitem(shared_app.extensions, "rainbow", replace(context_of(shared_app), list_limits=limits))
    assert names_of(entries(ended_once, f"&source=execution{query}")) == expected


def test_ends_of_executions_are_selected_by_time(ended_once: FlaskClient) -> None:
    listed = entries(ended_once, "&source=execution")
    after, before = (quote(listed[number]["at"]) for number in (2, 0))
    assert names_of(entries(ended_once, f"&source=execution&after={after}&before={before}")) == ["stopped", "bad"]


def test_creations_of_executions_are_listed_with_all_that_somebody_did(ended: FlaskClient, app_clock: Clock) -> None:
    id = {"project": PROJECT, "domain": "development", "name": "ok"}
    ok(ended.post(f"{API}/executions/relaunch", json={"id": id, "name": "again", "claimed_by": "ana"}))
    alone = entries(ended, "&source=creation")
    assert {entry["source"] for entry in alone} == {"creation"}
    assert [entry["execution"]["name"] for entry in alone] == ["again", "waits", "elsewhere", "stopped", "bad", "ok"]
    assert [entry["type"] for entry in alone[:2]] == ["RELAUNCHED", "CREATED"]
    assert names_of(entries(ended, "&creations=true")) == []
    by_ana = entries(ended, "&actor=ana&executions=true&creations=true")
    done = [(entry["source"], entry["execution"]["name"]) for entry in by_ana]
    assert done == [("creation", "again"), ("execution", "elsewhere"), ("execution", "stopped")]
    assert [entry["execution"]["name"] for entry in entries(ended, "&source=creation&domain=staging")] == ["elsewhere"]


@shared_sqlite_only
@pytest.mark.parametrize("most_sorted", [0, 100])
@pytest.mark.parametrize("examined", [1, 2, 100])
def test_pages_with_ends_of_executions_join_without_gaps(
    ended_once: FlaskClient, monkeypatch: pytest.MonkeyPatch, examined: int, most_sorted: int
) -> None:
    check_pages_with_ends(ended_once, monkeypatch, examined, most_sorted)


@pytest.mark.parametrize("shared_app", ["postgresql"], indirect=True)
def test_pages_with_ends_of_executions_join_without_gaps_on_postgresql(
    ended_once: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every bound is tried among the slower tests."""
    check_pages_with_ends(ended_once, monkeypatch, 2, 0)


def check_pages_with_ends(
    ended_once: FlaskClient, monkeypatch: pytest.MonkeyPatch, examined: int, most_sorted: int
) -> None:
    app = ended_once.application
    limits = ListLimits(sorted=most_sorted, sorted_first=0, examined_first=1, examined=examined)
    for query in (
        "&executions=true",
        "&source=execution&cluster=oak",
        "&source=execution&actor=ana",
        "&executions=true&creations=true",
        "&executions=true&creations=true&actor=ana",
        "&source=creation&domain=staging",
    ):
        complete = entries(ended_once, query)
        monkeypatch.setitem(app.extensions, "rainbow", replace(context_of(app), list_limits=limits))
        for size in (1, 2, 3):
            paged, token = [], ""
            while True:
                answer = get(ended_once, f"timeline?limit={size}{query}{token}")
                paged += answer["entries"]
                if "token" not in answer:
                    break
                token = f"&token={answer['token']}"
            assert paged == complete


def test_executions_that_retention_deleted_are_said_to_be_missing(
    ended: FlaskClient, app: Flask, app_clock: Clock
) -> None:
    app_clock.advance(86400 * 3)
    list(prune(context_of(app), Retention(executions="1d")))
    answer = get(ended, "timeline?limit=100&source=execution")
    assert answer["entries"] == []
    assert answer["not_listed"].startswith("Executions that ended before ")


@pytest.mark.parametrize(
    "key", [["", "", "", "", "", "never", "1"], ["", "", "", "", "", "2026-03-01T12:00:00+00:00", "x"]]
)
def test_a_place_of_an_execution_that_is_none_is_no_token(api: FlaskClient, key: list[str]) -> None:
    refused(api.get(f"{API}/timeline?source=execution&token={token_of(key)}"), 400, "invalid_request", "token")
