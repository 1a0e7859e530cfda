"""Changes of many rows that are malformed, stale, too many or made at once: all of it or nothing, and by position."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.core.problems import Invalid
from admin.core.settings.scopes import Scope
from admin.errors import MOST_DETAILS
from admin.services.changeable.attributes import attribute_write
from admin.services.changeable.base import ChangeOptions
from admin.services.changes import make_change
from admin.services.context import Context
from tests.conftest import MakeApp
from tests.robustness.pictures import BASE, refused, seeded, sqlite_only, stored

CHANGES = f"{BASE}/attribute_changes"
LABEL = "EXECUTION_CLUSTER_LABEL"
GOOD = {"resource_type": LABEL, "domain": "staging", "payload": {"value": "mycluster"}}


def label(value: str | None, **keys: Any) -> dict[str, Any]:
    return {"resource_type": LABEL, "payload": {"value": value}, **keys}


def project(**fields: Any) -> dict[str, Any]:
    return {"project_definition": fields}


def change(api: FlaskClient, *changes: Any, query: str = "", **more: Any) -> TestResponse:
    return api.post(f"{CHANGES}{query}", json={"changes": list(changes), **more})


def made(api: FlaskClient, *changes: Any, **more: Any) -> dict[str, Any]:
    answer = change(api, *changes, **more)
    assert answer.status_code == 200, answer.get_json()
    body: dict[str, Any] = answer.get_json()
    return body


WHOLE_BODIES: list[tuple[Any, str]] = [
    ({}, "changes"),
    ({"changes": None}, "changes"),
    ({"changes": {}}, "changes"),
    ({"changes": "all"}, "changes"),
    ({"changes": 1}, "changes"),
    ({"changes": []}, "changes"),
    ({"changes": [{}] * 20_001}, "changes"),
    ({"changes": [GOOD], "Changes": [GOOD]}, "Changes"),
    ({"changes": [GOOD], "dry_run": True}, "dry_run"),
    ({"changes": [GOOD], "message": "a\x00b"}, "message"),
    ({"changes": [GOOD], "message": "\x1b[31m"}, "message"),
    ({"changes": [GOOD], "message": "x" * 1001}, "message"),
    ({"changes": [GOOD], "message": 1}, "message"),
    ({"changes": [GOOD], "message": None}, "message"),
    ({"changes": [GOOD], "claimed_by": "ann\n"}, "claimed_by"),
    ({"changes": [GOOD], "claimed_by": "x" * 256}, "claimed_by"),
    ({"changes": [GOOD], "claimed_by": "a", "claimedBy": "b"}, "claimed_by"),
    ([GOOD], ""),
    (None, ""),
    ("changes", ""),
]


@sqlite_only
@pytest.mark.parametrize(("body", "field"), WHOLE_BODIES)
def test_a_body_that_is_no_list_of_changes_is_refused_by_field(api: FlaskClient, body: Any, field: str) -> None:
    seeded(api)
    refused(api, lambda: api.post(CHANGES, json=body), field=field)


ONE_CHANGE: list[tuple[Any, str]] = [
    (None, "changes.2"),
    ([], "changes.2"),
    ([GOOD], "changes.2"),
    ("text", "changes.2"),
    (0, "changes.2"),
    ({}, "resource_type"),
    ({"changes": [GOOD]}, "changes"),
    ({**GOOD, "resource_type": None}, "resource_type"),
    ({**GOOD, "resource_type": True}, "resource_type"),
    ({**GOOD, "resource_type": 2**70}, "resource_type"),
    ({**GOOD, "resource_type": -1}, "resource_type"),
    ({**GOOD, "resource_type": "PROJECT"}, "resource_type"),
    ({**GOOD, "resource_type": ""}, "resource_type"),
    ({**GOOD, "payload": None}, "payload"),
    ({**GOOD, "delete": True}, "payload"),
    ({**GOOD, "delete": "yes"}, "delete"),
    ({"resource_type": 3, "domain": "staging", "delete": False}, "payload"),
    ({**GOOD, "payload": {"value": 7}}, "value"),
    ({**GOOD, "payload": {"worth": "a"}}, "worth"),
    ({**GOOD, "payload": {"value": "a b"}}, "value"),
    ({**GOOD, "payload": {"value": "a\x00b"}}, "value"),
    ({**GOOD, "resource_type": 0, "payload": {"limits": None}}, "limits"),
    ({**GOOD, "resource_type": 0, "payload": {"limits": {"cpu": []}}}, "limits.cpu"),
    ({**GOOD, "resource_type": 10, "payload": {"priority": 2**63}}, "priority"),
    ({**GOOD, "resource_type": 10, "payload": {"priority": 10**400}}, "priority"),
    ({**GOOD, "expected_version": "1"}, "expected_version"),
    ({**GOOD, "expected_version": 1.0}, "expected_version"),
    ({**GOOD, "expected_version": 1.5}, "expected_version"),
    ({**GOOD, "expected_version": True}, "expected_version"),
    ({**GOOD, "expected_version": None}, "expected_version"),
    ({**GOOD, "expected_version": [1]}, "expected_version"),
    ({**GOOD, "expected_version": -1}, "expected_version"),
    ({**GOOD, "expected_absent": None}, "expected_absent"),
    ({**GOOD, "expected_version": 1, "expected_absent": True}, "expected_absent"),
    ({**GOOD, "expected_version": 1, "expectedVersion": 2}, "expected_version"),
    ({**GOOD, "version": 1}, "version"),
    ({**GOOD, "launchplan": "x"}, "launchplan"),
    ({**GOOD, "domain": None}, "domain"),
    ({**GOOD, "domain": 3}, "domain"),
    ({**GOOD, "domain": "prodution"}, "domain"),
    ({**GOOD, "project": "nobody"}, "project"),
    ({**GOOD, "project": "No Body"}, "project"),
    ({**GOOD, "project": "a\x00"}, "project"),
    ({**GOOD, "workflow": "w"}, "project"),
    ({**GOOD, "project": "flytesnacks", "launch_plan": "w"}, "workflow"),
    ({**GOOD, "project": "flytesnacks", "workflow": ".."}, "workflow"),
    ({**GOOD, "project": "flytesnacks", "workflow": "w" * 256}, "workflow"),
    ({"project_definition": None}, "project_definition"),
    ({"project_definition": []}, "project_definition"),
    ({"project_definition": {}}, "project_definition.id"),
    ({"project_definition": {"id": None}}, "project_definition.id"),
    ({"project_definition": {"id": "Search"}}, "project_definition.id"),
    ({"project_definition": {"id": "search\n"}}, "project_definition.id"),
    ({"project_definition": {"id": "search", "colour": "red"}}, "project_definition.colour"),
    ({"project_definition": {"id": "search", "state": "GONE"}}, "project_definition.state"),
    ({"project_definition": {"id": "search", "state": []}}, "project_definition.state"),
    ({"project_definition": {"id": "s", "labels": {"values": {"a b": "c"}}}}, "project_definition.labels.values.a b"),
    ({"project_definition": {"id": "search"}, "delete": True}, "project_definition"),
    ({"project_definition": {"id": "search"}, "domain": "staging"}, "project_definition"),
    ({"project_definition": {"id": "search"}, "expected_absent": True, "expected_version": 0}, "expected_absent"),
]  # fmt: skip


@sqlite_only
@pytest.mark.parametrize(("bad", "field"), ONE_CHANGE)
def test_a_bad_change_among_good_ones_is_named_by_position_and_field(api: FlaskClient, bad: Any, field: str) -> None:
    seeded(api)
    good = [project(id="other"), label("mycluster", project="other")]
    last = {**GOOD, "domain": "production"}
    answer = refused(api, lambda: change(api, *good, bad, last), field=field)
    assert {detail["index"] for detail in answer["details"]} == {2}
    again = change(api, *good, bad, last, query="?dry_run=true")
    assert (again.status_code, again.get_json()["details"]) == (400, answer["details"])


@sqlite_only
def test_a_change_at_no_scope_is_refused_by_position(api: FlaskClient) -> None:
    answer = refused(api, lambda: change(api, GOOD, {"resource_type": 3, "payload": {"value": "a"}}))
    assert [detail["index"] for detail in answer["details"]] == [1]


@sqlite_only
@pytest.mark.parametrize("flag", [{"expected_absent": 1}, {"expected_absent": 0}, {"delete": 0}, {"delete": 0.0}])
def test_a_number_is_not_taken_for_true_or_false(api: FlaskClient, flag: dict[str, Any]) -> None:
    refused(api, lambda: change(api, {**GOOD, **flag}), field=next(iter(flag)))


@sqlite_only
def test_every_problem_of_a_change_is_listed_up_to_a_number(api: FlaskClient) -> None:
    bad = [{**GOOD, "payload": {"value": "a b"}, "workflow": f"w{number}"} for number in range(500)]
    answer = refused(api, lambda: change(api, *bad))
    assert [detail["index"] for detail in answer["details"]] == sorted(detail["index"] for detail in answer["details"])
    assert len(json.dumps(answer)) < 100_000


@sqlite_only
def test_names_in_camel_case_mean_the_same(api: FlaskClient) -> None:
    answer = made(
        api,
        {"projectDefinition": {"id": "search"}, "expectedAbsent": True},
        {"resourceType": 3, "project": "search", "payload": {"value": "a"}, "expectedAbsent": True},
        {
            "resourceType": "TASK_RESOURCE",
            "project": "search",
            "domain": "staging",
            "workflow": "w",
            "launchPlan": "l",
            "payload": {"limits": {"ephemeralStorage": "1Gi"}},
        },
        claimedBy="ann",
    )
    assert [row["action"] for row in answer["rows"]] == ["create"] * 3
    assert answer["rows"][2]["after"] == {"limits": {"ephemeral_storage": "1Gi"}}
    assert api.get(f"{BASE}/revisions/1").get_json()["claimed_by"] == "ann"


@sqlite_only
@pytest.mark.parametrize(
    "text", ["", "ümläut", "日本語 🌈", "a\tb\nc", "\u2028\u202e", "' OR 1=1 --", "x" * 1000, "{{ 7*7 }}", "%s%n"]
)
def test_what_people_write_for_people_comes_back_as_it_was(api: FlaskClient, text: str) -> None:
    name = text.replace("\t", " ").replace("\n", " ")[:255]
    made(api, GOOD, message=text, claimed_by=name)
    stored_revision = api.get(f"{BASE}/revisions/1").get_json()
    assert (stored_revision["message"], stored_revision["claimed_by"]) == (text, name)
    listed = api.get(f"{BASE}/revisions", query_string={"claimed_by": name}).get_json()["revisions"]
    assert [revision["number"] for revision in listed] == [1]


@sqlite_only
@pytest.mark.parametrize(
    "expectation", [{"expected_version": 0}, {"expected_version": 2**63}, {"expected_version": 10**100}]
)
def test_a_version_that_no_row_can_have_is_a_conflict(api: FlaskClient, expectation: dict[str, Any]) -> None:
    seeded(api)
    answer = refused(api, lambda: change(api, {**GOOD, **expectation}), status=409, error="version_conflict")
    assert answer["details"] == [{"index": 0, "resource_type": LABEL, "domain": "staging", **expectation}]


def test_a_refusal_of_any_sort_writes_no_part_of_the_change(api: FlaskClient) -> None:
    seeded(api)
    api.put(f"{BASE}/projects/flytesnacks", json={"state": "ARCHIVED"})
    first = [project(id="search"), project(id="flyteexamples", name="N"), label("a", project="search"), GOOD]
    default = {"resource_type": 0, "project": "search", "payload": {"defaults": {"cpu": "99"}}}
    for last, status, error in [
        (label("a", project="flyteexamples", expected_version=1), 409, "version_conflict"),
        ({**project(id="flytesnacks", name="M"), "expected_version": 0}, 409, "version_conflict"),
        ({**project(id="new"), "expected_version": 0}, 409, "version_conflict"),
        ({**project(id="flytesnacks", name="M"), "expected_absent": True}, 409, "version_conflict"),
        (default, 400, "invalid_request"),
        (GOOD, 400, "invalid_request"),
        (project(id="search", name="Twice"), 400, "invalid_request"),
    ]:
        for query in ("", "?dry_run=true"):
            answer = refused(api, partial(change, api, *first, last, query=query), status=status, error=error)
            assert [detail["index"] for detail in answer["details"]] == [4]
    archived = change(api, *first, label("a", project="flytesnacks"))
    assert (archived.status_code, archived.get_json()["details"][0]["index"]) == (400, 4)
    assert archived.get_json()["details"][0]["field"] == "project"
    assert api.get(f"{BASE}/projects/search").status_code == 404


@sqlite_only
def test_a_row_that_is_gone_has_no_version(api: FlaskClient) -> None:
    made(api, GOOD)
    [row] = made(api, {"resource_type": 3, "domain": "staging", "delete": True})["rows"]
    assert row["action"] == "delete"
    assert "version" not in row


@sqlite_only
def test_suggestions_are_looked_up_only_for_the_problems_that_are_shown(api: FlaskClient, context: Context) -> None:
    """Finding the closest of many names takes long, and every other writer waits meanwhile."""
    made(api, project(id="team-search"))
    kind = context.settings.kinds.find(LABEL)
    writes = [
        replace(attribute_write(kind, Scope(project=f"team-search{index}"), lambda _: {"value": "a"}), index=index)
        for index in range(MOST_DETAILS + 10)
    ]
    with pytest.raises(Invalid) as refusal:
        make_change(context, writes, ChangeOptions())
    suggestions = [(problem.index, problem.closest) for problem in refusal.value.problems]
    assert suggestions[:MOST_DETAILS] == [(index, ("team-search",)) for index in range(MOST_DETAILS)]
    assert suggestions[MOST_DETAILS:] == [(index, ()) for index in range(MOST_DETAILS, len(writes))]


# --- at once


def at_once(apps: list[Flask], requests: list[Callable[[FlaskClient], TestResponse]]) -> list[TestResponse]:
    """The answers to requests that set off together, spread over the apps."""
    barrier = Barrier(len(requests))

    def send(numbered: tuple[int, Callable[[FlaskClient], TestResponse]]) -> TestResponse:
        number, request = numbered
        client = apps[number % len(apps)].test_client()
        barrier.wait()
        return request(client)

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(send, enumerate(requests)))


SCOPES: list[dict[str, str]] = [
    {"domain": "development"},
    {"domain": "staging"},
    {"project": "flytesnacks"},
    {"project": "flytesnacks", "domain": "staging"},
    {"project": "flyteexamples", "domain": "development", "workflow": "w"},
    {"project": "flyteexamples", "domain": "development", "workflow": "w", "launch_plan": "l"},
]


def replayed(api: FlaskClient) -> dict[tuple[str, ...], Any]:
    """Every row as its history leaves it; each change must start where the one before it ended, without a gap."""
    state: dict[tuple[str, ...], Any] = {}
    head = api.get(f"{BASE}/revisions?limit=1").get_json()["head"]
    for number in range(1, head + 1):
        revision = api.get(f"{BASE}/revisions/{number}").get_json()
        assert revision["change_count"] == len(revision["changes"]) > 0
        for row in revision["changes"]:
            key = row_key(row)
            assert number == 1 or row["resource_type"] == "PROJECT" or row.get("before") == state.get(key), row
            state[key] = row.get("after")
    return {key: after for key, after in state.items() if after is not None and key[0] != "PROJECT"}


def row_key(row: dict[str, Any]) -> tuple[str, ...]:
    return (row["resource_type"], *(row.get(key, "") for key in ("project", "domain", "workflow", "launch_plan")))


def stored_rows(api: FlaskClient) -> dict[tuple[str, ...], Any]:
    """Every row as it is stored."""
    return {row_key(row): next(iter(row["attributes"].values())) for row in stored(api)["rows"]}


def test_of_overlapping_changes_at_once_one_whole_one_remains(make_app: MakeApp) -> None:
    apps = [make_app(), make_app()]
    api = apps[0].test_client()
    for turn in range(4):

        def send(value: str) -> Callable[[FlaskClient], TestResponse]:
            scopes = random.Random(value).sample(SCOPES, len(SCOPES))  # no two in the same order
            return lambda client: change(client, *(label(value, **scope) for scope in scopes))

        answers = at_once(apps, [send(f"v{turn}-{number}") for number in range(8)])
        assert [answer.status_code for answer in answers] == [200] * 8
        numbers = sorted(answer.get_json()["revision"] for answer in answers)
        assert numbers == list(range(turn * 8 + 1, turn * 8 + 9))
        rows = stored(api)["rows"]
        assert len({row["attributes"]["execution_cluster_label"]["value"] for row in rows}) == 1
        assert {row["version"] for row in rows} == {numbers[-1]}
    assert replayed(api) == stored_rows(api)


def test_changes_writes_rollbacks_and_archiving_at_once_leave_one_history(make_app: MakeApp) -> None:
    apps = [make_app(), make_app()]
    api = apps[0].test_client()
    made(api, *(label("first", **scope) for scope in SCOPES))
    path = f"{BASE}/project_domain_attributes/flytesnacks/staging"

    def put(value: str) -> Callable[[FlaskClient], TestResponse]:
        body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": value}}}}
        return lambda client: client.put(path, json=body)

    def state(word: str) -> Callable[[FlaskClient], TestResponse]:
        return lambda client: client.put(f"{BASE}/projects/flytesnacks", json={"state": word})

    def rollback(**body: Any) -> Callable[[FlaskClient], TestResponse]:
        return lambda client: client.post(f"{BASE}/rollbacks", json=body)

    def several(value: str) -> Callable[[FlaskClient], TestResponse]:
        return lambda client: change(client, *(label(value, **scope) for scope in SCOPES))

    for turn in range(4):
        head = api.get(f"{BASE}/revisions?limit=1").get_json()["head"]
        answers = at_once(
            apps,
            [
                several(f"a{turn}"),
                several(f"b{turn}"),
                put(f"c{turn}"),
                state("ARCHIVED"),
                rollback(to=1, everything=True),
                rollback(revision=head),
                rollback(to=1, **SCOPES[3]),
                state("ACTIVE"),
                lambda client: client.delete(f"{path}?resource_type=3"),
            ],
        )
        for answer in answers:
            assert answer.status_code in (200, 400, 409), answer.get_json()
            if answer.status_code == 400:
                assert "archived" in answer.get_json()["message"]
        state("ACTIVE")(api)
    assert replayed(api) == stored_rows(api)


# --- plans


KINDS: list[tuple[str, Callable[[random.Random], Any]]] = [
    (LABEL, lambda dice: {"value": dice.choice(["mycluster", "local", "nowhere", None])}),
    (
        "TASK_RESOURCE",
        lambda dice: {
            "limits": {
                name: dice.choice(["3", "4", None]) for name in dice.sample(["cpu", "gpu", "ephemeral_storage"], 2)
            }
        },
    ),
    (
        "WORKFLOW_EXECUTION_CONFIG",
        lambda dice: {"labels": {"values": {dice.choice("ab"): dice.choice("xy")}}, "interruptible": True},
    ),
    ("EXECUTION_QUEUE", lambda dice: {"tags": [dice.choice(["gpu", "cpu"])]}),
    ("WORKFLOW_PRIORITY", lambda dice: {"priority": dice.choice([0, 50, 100, None])}),
]


def random_change(dice: random.Random, scopes: list[dict[str, str]]) -> list[dict[str, Any]]:
    writes: dict[str, dict[str, Any]] = {}
    for _ in range(dice.randint(1, 5)):
        kind, payload = dice.choice(KINDS)
        scope = dice.choice(scopes)
        content = {"delete": True} if dice.random() < 0.3 else {"payload": payload(dice)}
        writes[f"{kind}{scope}"] = {"resource_type": kind, **scope, **content}
    return list(writes.values())


def leaf(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[part]
    return value


Leaves = dict[tuple[str, ...], Any]


def effective(api: FlaskClient, scopes: list[dict[str, str]]) -> Leaves:
    """Every effective leaf at some scopes, one by one."""
    leaves: Leaves = {}
    for scope in scopes:
        answer = api.get(f"{BASE}/effective_attributes", query_string=scope)
        assert answer.status_code == 200, answer.get_json()
        for value in answer.get_json()["values"]:
            for path in value["origins"]:
                leaves[(*row_key({**scope, **value}), path)] = leaf(value["value"], path)
    return leaves


def known_scopes(api: FlaskClient, changes: list[dict[str, Any]]) -> list[dict[str, str]]:
    domains: list[dict[str, str]] = [
        {"domain": domain["id"]} for domain in api.get(f"{BASE}/domains").get_json()["domains"]
    ]
    projects: list[dict[str, str]] = [{"project": project["id"]} for project in stored(api)["projects"]]
    mixed = [{**project, **other} for project in projects for other in domains]
    rows = [
        {key: row[key] for key in ("project", "domain", "workflow", "launch_plan") if key in row}
        for row in [*stored(api)["rows"], *changes]
    ]
    return list({json.dumps(scope, sort_keys=True): scope for scope in domains + projects + mixed + rows}.values())


@sqlite_only
@pytest.mark.parametrize("seed", [1, 2])
def test_a_plan_tells_what_really_becomes_of_rows_and_effective_values(api: FlaskClient, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(10):
        changes = random_change(dice, SCOPES)
        before_all = stored(api)
        plan = made(api, *changes, query="?dry_run=true&limit=1000")
        scopes = known_scopes(api, changes)
        before = effective(api, scopes)
        somewhere = dice.choice(SCOPES)
        proposed = api.post(f"{BASE}/effective_attributes", json={**somewhere, "changes": changes}).get_json()
        assert stored(api) == before_all
        real = made(api, *changes)
        after = effective(api, scopes)

        differing = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        effects = {(*row_key(change), change["field"]): change for change in plan["effective"]["changes"]}
        assert effects.keys() == differing
        for key, effect in effects.items():
            assert (effect.get("before"), effect.get("after")) == (before.get(key), after.get(key))
        assert plan["effective"]["count"] == len(differing)
        assert plan["effective"]["scopes"] == len({key[1:-1] for key in differing})

        keep = ("index", "action", "resource_type", "level", "domain", "project", "workflow", "before", "after")
        assert [{key: row.get(key) for key in keep} for row in plan["rows"]] == [
            {key: row.get(key) for key in keep} for row in real["rows"]
        ]
        assert (plan["counts"], plan["warnings"], plan["changed"]) == (
            real["counts"],
            real["warnings"],
            real["changed"],
        )
        assert plan["revision"] == before_all["revision"]
        assert real["revision"] == plan["revision"] + real["changed"]

        applied = api.get(f"{BASE}/effective_attributes", query_string=somewhere).get_json()
        assert [(value["resource_type"], value["value"], list(value["unset"])) for value in proposed["values"]] == [
            (value["resource_type"], value["value"], list(value["unset"])) for value in applied["values"]
        ]


def pages(api: FlaskClient, changes: list[dict[str, Any]], limit: int) -> Iterator[dict[str, Any]]:
    token = ""
    while True:
        page = made(api, *changes, query=f"?dry_run=true&limit={limit}{token}")["effective"]
        yield page
        if "token" not in page:
            return
        token = f"&token={page['token']}"


@sqlite_only
def test_the_pages_of_a_plan_make_the_whole(api: FlaskClient) -> None:
    changes = [label("mycluster", domain=domain) for domain in ("development", "staging", "production")]
    [complete] = pages(api, changes, 1000)
    assert complete["count"] == len(complete["changes"]) == 9
    for limit in (1, 2, 3, 8, 9):
        parts = list(pages(api, changes, limit))
        assert [change for part in parts for change in part["changes"]] == complete["changes"]
        assert {part["count"] for part in parts} == {9}
        assert all(len(part["changes"]) == limit for part in parts[:-1])
    for bad in ("token=x", "token=WyJhIl0", "token=WyItMSJd", "token=WzFd", "limit=0", "limit=1001", "limit=x"):
        refused(api, partial(change, api, *changes, query=f"?dry_run=true&{bad}"), field=bad.split("=")[0])
    beyond = made(api, *changes, query="?dry_run=true&token=WyI5OTk5OTk5OTk5OTk5OTk5OTk5OSJd")["effective"]
    assert (beyond["changes"], "token" in beyond) == ([], False)


@sqlite_only
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "changes"),
        ({"changes": []}, "changes"),
        ({"changes": None}, "changes"),
        ({"changes": [None]}, "changes.0"),
        ({"changes": [GOOD], "domain": "nowhere"}, "domain"),
        ({"changes": [GOOD], "project": "nobody"}, "project"),
        ({"changes": [GOOD], "workflow": "w"}, "project"),
        ({"changes": [GOOD], "resource_type": "colour"}, "resource_type"),
        ({"changes": [GOOD], "message": "why"}, "message"),
        ({"changes": [label("a", project="nobody")], "domain": "staging"}, "project"),
        ({"changes": [{**GOOD, "payload": {"value": 1}}], "domain": "staging"}, "value"),
        ({"changes": [GOOD, GOOD], "domain": "staging"}, ""),
    ],
)
def test_a_bad_proposal_is_refused_by_field(api: FlaskClient, body: dict[str, Any], field: str) -> None:
    seeded(api)
    before = stored(api)
    answer = api.post(f"{BASE}/effective_attributes", json=body)
    assert answer.status_code == 400, answer.get_json()
    assert field in [detail["field"] for detail in answer.get_json()["details"]]
    assert stored(api) == before
