"""Changes of many rows, their history and their undoing, on SQLite and on PostgreSQL."""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.later_revisions import later_revisions
from tests.conftest import MakeApp
from tests.support.statements import statements
from tests.support.waiting import wait_until

API = "/api/v1"
SCOPE = "project=flytesnacks&domain=development&workflow=wf&launch_plan=lp"


def label(value: str | None, **keys: Any) -> dict[str, Any]:
    return {"resource_type": "EXECUTION_CLUSTER_LABEL", "payload": {"value": value}, **keys}


def change(api: FlaskClient, *changes: Any, query: str = "", **more: Any) -> Any:
    return api.post(f"{API}/attribute_changes{query}", json={"changes": list(changes), **more})


def rows(api: FlaskClient, query: str = "") -> list[dict[str, Any]]:
    listed = api.get(f"{API}/matchable_attributes?resource_type=all&limit=1000{query}")
    assert listed.status_code == 200, listed.get_json()
    return [{**row, "updated_at": None, "updated_by": None} for row in listed.get_json()["configurations"]]


def bare(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what tells when they were written."""
    return [
        {key: value for key, value in row.items() if key not in ("version", "updated_at", "updated_by", "provenance")}
        for row in listed
    ]


def head(api: FlaskClient) -> int:
    number: int = api.get(f"{API}/revisions?limit=1").get_json()["head"]
    return number


@pytest.fixture(scope="module")
def refusing(shared_app: Flask) -> FlaskClient:
    """An admin of one revision, for changes that are all refused."""
    api = shared_app.test_client()
    assert change(api, label("a", domain="staging")).status_code == 200
    return api


def test_many_rows_are_one_revision(api: FlaskClient) -> None:
    answer = change(
        api,
        {"project_definition": {"id": "search", "labels": {"values": {"team": "x"}}}},
        label("mycluster", project="search", domain="development"),
        {"resource_type": 0, "domain": "development", "payload": {"limits": {"cpu": "4"}}},
        message="set up",
        claimed_by="ann",
    ).get_json()
    assert (answer["revision"], answer["counts"]) == (1, {"create": 3, "update": 0, "delete": 0, "unchanged": 0})
    assert [row["version"] for row in answer["rows"]] == [1, 1, 1]
    revision = api.get(f"{API}/revisions/1").get_json()
    assert (revision["message"], revision["claimed_by"], revision["change_count"]) == ("set up", "ann", 3)
    assert [row["resource_type"] for row in revision["changes"]] == [
        "PROJECT",
        "EXECUTION_CLUSTER_LABEL",
        "TASK_RESOURCE",
    ]
    again = change(
        api,
        {"project_definition": {"id": "search"}},
        label("mycluster", project="search", domain="development", expected_version=1),
    ).get_json()
    assert (again["changed"], again["revision"], again["counts"]["unchanged"]) == (False, 1, 2)


def test_one_bad_row_among_many_and_nothing_is_written(api: FlaskClient) -> None:
    answer = change(
        api,
        {"project_definition": {"id": "search"}},
        label("mycluster", domain="development"),
        {"resource_type": "TASK_RESOURCE", "domain": "development", "payload": {"limits": {"cpu": "1x"}}},
        label("mycluster", project="nobody"),
        label("mycluster", domain="prodution"),
    )
    assert answer.status_code == 400
    assert [(detail["index"], detail["field"]) for detail in answer.get_json()["details"]] == [(2, "limits.cpu")]
    answer = change(
        api, label("mycluster", project="nobody"), label("a", domain="prodution"), label("b", domain="staging")
    )
    details = answer.get_json()["details"]
    assert [(detail["index"], detail["field"]) for detail in details] == [(0, "project"), (1, "domain")]
    assert (rows(api), head(api), len(api.get(f"{API}/projects").get_json()["projects"])) == ([], 0, 2)


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"resource_type": "3", "domain": "development"},
        {"resource_type": "3", "domain": "development", "payload": {"value": "x"}, "delete": True},
        {"resource_type": "3", "payload": {"value": "x"}, "project": "Bad"},
        {
            "resource_type": "1",
            "payload": {"attributes": {"a": "b"}},
            "project": "flytesnacks",
            "domain": "staging",
            "workflow": "w",
        },
        {"resource_type": "77", "payload": {"value": "x"}, "domain": "development"},
        {"project_definition": {"id": "UPPER"}},
        {"project_definition": {"id": "a"}, "payload": {}},
        {"project_definition": "a"},
        {
            "resource_type": "3",
            "payload": {"value": "x"},
            "domain": "staging",
            "expected_version": 1,
            "expected_absent": True,
        },
        {"resource_type": "3", "payload": {"value": "x"}, "domain": "staging", "colour": "red"},
        "text",
        None,
    ],
)
def test_a_change_that_makes_no_sense_is_refused_by_its_position(refusing: FlaskClient, bad: Any) -> None:
    before = rows(refusing)
    changes = [label("mycluster", domain="staging"), bad]
    answer = refusing.post(f"{API}/attribute_changes", json={"changes": changes})
    assert answer.status_code == 400, answer.get_json()
    assert answer.get_json()["details"][0].get("index") == 1
    assert (rows(refusing), head(refusing)) == (before, 1)


def test_the_same_row_twice_is_refused(api: FlaskClient) -> None:
    answer = change(api, label("a", domain="staging"), label("b", domain="production"), label("c", domain="staging"))
    assert (answer.status_code, [detail["index"] for detail in answer.get_json()["details"]]) == (400, [2])
    assert change(api).status_code == 400


def test_rows_are_checked_against_the_state_that_all_of_them_leave(api: FlaskClient) -> None:
    default = {"resource_type": "TASK_RESOURCE", "project": "flytesnacks", "payload": {"defaults": {"memory": "8Gi"}}}
    limit = {
        "resource_type": "TASK_RESOURCE",
        "project": "flytesnacks",
        "domain": "staging",
        "payload": {"limits": {"memory": "9Gi"}},
    }
    assert change(api, default).status_code == 400
    both = {**default, "payload": {"defaults": {"memory": "8Gi"}, "limits": {"memory": "16Gi"}}}
    assert change(api, limit, both).status_code == 200
    lower = {**limit, "payload": {"defaults": {"memory": "10Gi"}, "limits": {"memory": "9Gi"}}}
    assert change(api, lower).get_json()["details"][0] == {
        "field": "defaults.memory",
        "index": 0,
        "reason": "10Gi is above the limit of 9Gi set at project-domain flytesnacks/staging: "
        "lower the default or raise the limit.",
    }


def test_expectations_that_fail_say_what_moved(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    change(api, label("b", domain="staging"))
    stale = change(
        api,
        label("c", domain="staging", expected_version=1),
        label("c", domain="production", expected_version=1),
        label("c", domain="development", expected_absent=True),
    )
    assert (stale.status_code, stale.get_json()["error"]) == (409, "version_conflict")
    details = stale.get_json()["details"]
    assert details[0].pop("provenance")["revision"] == 2
    assert details == [
        {
            "index": 0,
            "resource_type": "EXECUTION_CLUSTER_LABEL",
            "domain": "staging",
            "expected_version": 1,
            "current_version": 2,
        },
        {"index": 1, "resource_type": "EXECUTION_CLUSTER_LABEL", "domain": "production", "expected_version": 1},
    ]
    assert len(rows(api)) == 1


def test_a_plan_says_what_becomes_of_each_row_and_of_effective_values(api: FlaskClient) -> None:
    change(api, label("mycluster", domain="development"), label("local", project="flytesnacks", domain="development"))
    plan = change(
        api,
        label("other", domain="development"),
        {"resource_type": 3, "project": "flytesnacks", "domain": "development", "delete": True},
        label("mycluster", domain="staging"),
        query="?dry_run=true&limit=2",
    ).get_json()
    assert [row["action"] for row in plan["rows"]] == ["update", "delete", "create"]
    assert (plan["revision"], plan["dry_run"], plan["changed"]) == (1, True, True)
    # development itself and both projects in it; staging itself and both projects in it
    assert (plan["effective"]["count"], plan["effective"]["scopes"]) == (6, 6)
    assert plan["effective"]["by_kind"] == {"EXECUTION_CLUSTER_LABEL": 6}
    first = plan["effective"]["changes"]
    assert first[0] == {
        "domain": "development",
        "resource_type": "EXECUTION_CLUSTER_LABEL",
        "level": "domain",
        "field": "value",
        "before": "mycluster",
        "after": "other",
    }
    rest = change(
        api,
        label("other", domain="development"),
        {"resource_type": 3, "project": "flytesnacks", "domain": "development", "delete": True},
        label("mycluster", domain="staging"),
        query=f"?dry_run=true&limit=100&token={plan['effective']['token']}",
    ).get_json()["effective"]
    assert (len(rest["changes"]), "token" in rest) == (4, False)
    assert head(api) == 1


def test_a_revision_is_undone_and_that_undone_again(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"), {"project_definition": {"id": "search", "name": "S"}})
    before = rows(api)
    change(
        api,
        label("b", domain="staging"),
        label("c", project="search"),
        {"project_definition": {"id": "search", "name": "T"}},
    )
    after = rows(api)
    undone = api.post(f"{API}/rollbacks", json={"revision": 2, "message": "oops"}).get_json()
    assert (undone["revision"], undone["counts"]) == (3, {"create": 0, "update": 2, "delete": 1, "unchanged": 0})
    assert bare(rows(api)) == bare(before)
    assert api.get(f"{API}/projects/search").get_json()["name"] == "S"
    api.post(f"{API}/rollbacks", json={"revision": 3})
    assert bare(rows(api)) == bare(after)


@pytest.mark.parametrize(("number", "reason"), [(0, "Must be 1 or more."), (2**63, "Is too large.")])
def test_a_number_that_no_revision_has_is_refused_in_plain_words(api: FlaskClient, number: int, reason: str) -> None:
    answer = api.post(f"{API}/rollbacks", json={"revision": number})
    assert (answer.status_code, answer.get_json()["details"]) == (400, [{"field": "revision", "reason": reason}])


def test_a_revision_whose_rows_have_moved_on_is_not_undone(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    change(api, label("b", domain="staging"))
    refused = api.post(f"{API}/rollbacks", json={"revision": 1})
    (detail,) = refused.get_json()["details"]
    assert detail.pop("provenance")["revision"] == 2
    assert (refused.status_code, detail) == (
        409,
        {"resource_type": "EXECUTION_CLUSTER_LABEL", "domain": "staging", "changed_by_revision": 2},
    )


def test_a_revision_that_was_rolled_back_says_by_which(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    change(api, label("b", domain="staging"))
    api.post(f"{API}/rollbacks", json={"revision": 2, "claimed_by": "ana", "message": "too far"})
    refused = api.post(f"{API}/rollbacks", json={"revision": 2}).get_json()
    assert refused["error"] == "version_conflict"
    assert refused["message"].startswith("Revision 2 was rolled back already, by revision 3, anonymous (says ana), ")
    assert refused["message"].endswith("To make its change again, roll back revision 3.")
    (detail,) = refused["details"]
    assert (detail["rolled_back"], detail["changed_by_revision"], "later" in detail) == (True, 3, False)
    change(api, label("c", domain="staging"))
    refused = api.post(f"{API}/rollbacks", json={"revision": 2}).get_json()
    (detail,) = refused["details"]
    assert "rolled_back" not in detail
    assert [(entry["revision"], entry.get("undone")) for entry in detail["later"]] == [(4, None), (3, 2)]
    assert detail["later_count"] == 2
    assert "revision 3 (rollback of 2), anonymous (says ana), " in refused["message"]
    for number in range(20):
        change(api, label(f"d{number}", domain="staging"))
    (detail,) = api.post(f"{API}/rollbacks", json={"revision": 2}).get_json()["details"]
    assert (len(detail["later"]), detail["later"][0]["revision"], detail["later_count"]) == (10, 24, 22)


def test_the_only_later_revision_of_a_row_says_what_it_rolled_back(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    change(api, label("b", domain="staging"), label("b", domain="production"))
    change(api, label("c", domain="production"))
    api.post(f"{API}/rollbacks", json={"revision": 2, "restorable": True})
    refused = api.post(f"{API}/rollbacks", json={"revision": 2}).get_json()
    staging, production = sorted(refused["details"], key=lambda detail: str(detail["domain"]), reverse=True)
    assert (staging["rolled_back"], staging["undone"], "later" in staging) == (True, 2, False)
    assert ("undone" in production, "restored" in production) == (False, False)
    assert re.search(r"staging by revision 4 \(rollback of 2\), anonymous, [^;(]* ago", refused["message"])
    # Going back to an earlier revision is a rollback too.
    change(api, label("d", domain="staging"))
    api.post(f"{API}/rollbacks", json={"to": 0, "domain": "staging"})
    refused = api.post(f"{API}/rollbacks", json={"revision": 5}).get_json()
    (detail,) = refused["details"]
    assert (detail["changed_by_revision"], detail["restored"], "undone" in detail) == (6, 0, False)
    assert "by revision 6 (rollback to 0), anonymous, " in refused["message"]
    change(api, label("e", domain="staging"))
    (detail,) = api.post(f"{API}/rollbacks", json={"revision": 5}).get_json()["details"]
    assert [(entry["revision"], entry.get("restored")) for entry in detail["later"]] == [(7, None), (6, 0)]


def test_several_revisions_are_undone_as_one(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    before = rows(api)
    change(api, label("b", domain="staging"))
    change(api, label("c", domain="staging"), label("c", domain="production"))
    after = rows(api)
    body = {"revisions": [3, 2, 3]}
    trial = api.post(f"{API}/rollbacks?dry_run=true", json=body).get_json()
    assert (trial["counts"], head(api)) == ({"create": 0, "update": 1, "delete": 1, "unchanged": 0}, 3)
    undone = api.post(f"{API}/rollbacks", json={**body, "message": "too far"}).get_json()
    assert (undone["revision"], undone["counts"], bare(rows(api))) == (4, trial["counts"], bare(before))
    revision = api.get(f"{API}/revisions/4").get_json()
    assert (revision["undone"], revision["also_undone"]) == (3, [2])
    [entry] = api.get(f"{API}/timeline?limit=1").get_json()["entries"]
    assert (entry["undone"], entry["also_undone"]) == (3, [2])
    for number in (2, 3):
        [rolled_back_by] = api.get(f"{API}/revisions/{number}").get_json()["rolled_back_by"]
        assert (rolled_back_by["revision"], rolled_back_by["also_undone"]) == (4, [2])
    assert "rolled_back_by" not in api.get(f"{API}/revisions/1").get_json()
    refused = api.post(f"{API}/rollbacks", json=body).get_json()
    assert refused["message"].startswith("Revisions 2..3 were rolled back already, by revision 4, anonymous, ")
    refused = api.post(f"{API}/rollbacks", json={"revision": 3}).get_json()
    assert refused["message"].startswith("Revision 3 was rolled back already, by revision 4 (rollback of 2..3), ")
    assert refused["message"].endswith("To make all that it undid again, roll back revision 4.")
    assert [detail["rolled_back"] for detail in refused["details"]] == [True, True]
    api.post(f"{API}/rollbacks", json={"revision": 4})
    assert bare(rows(api)) == bare(after)


def test_a_revision_in_between_or_after_keeps_several_from_being_undone(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    change(api, label("a", domain="production"))
    change(api, label("b", domain="staging"), claimed_by="otto")
    change(api, label("c", domain="staging"))
    refused = api.post(f"{API}/rollbacks", json={"revisions": [1, 2, 4]})
    (detail,) = refused.get_json()["details"]
    assert (refused.status_code, detail["domain"], detail["changed_by_revision"]) == (409, "staging", 3)
    assert "Revisions 1..2, 4 cannot be undone alone" in refused.get_json()["message"]
    assert "staging by revision 3, anonymous (says otto), " in refused.get_json()["message"]
    assert [row["domain"] for row in refused.get_json()["restorable"]] == ["production"]
    partly = api.post(f"{API}/rollbacks", json={"revisions": [1, 2, 4], "restorable": True}).get_json()
    assert (partly["counts"]["delete"], [row["domain"] for row in partly["left"]]) == (1, ["staging"])
    # What changed a row before the first of them that did is no matter.
    undone = api.post(f"{API}/rollbacks", json={"revisions": [2, 4], "restorable": True}).get_json()
    assert undone["counts"]["update"] == 1
    assert [row["attributes"] for row in bare(rows(api))] == [{"execution_cluster_label": {"value": "b"}}]


def test_revisions_that_others_changed_and_changed_back_in_between_are_undone(api: FlaskClient) -> None:
    for value in ("a", "b", "a", "c"):
        change(api, label(value, domain="staging"))
    undone = api.post(f"{API}/rollbacks", json={"revisions": [1, 4]}).get_json()
    assert (undone["counts"]["delete"], undone["changed_back"][0]["changed_by_revision"]) == (1, 3)
    assert rows(api) == []


def test_a_rollback_names_the_later_revisions_that_changed_its_row_and_changed_it_back(api: FlaskClient) -> None:
    for value in ("a", "b", "a"):
        change(api, label(value, domain="staging"))
    trial = api.post(f"{API}/rollbacks?dry_run=true", json={"revision": 1}).get_json()
    [row] = trial["changed_back"]
    assert (row["resource_type"], row["domain"], row["changed_by_revision"]) == (
        "EXECUTION_CLUSTER_LABEL",
        "staging",
        3,
    )
    assert [entry["revision"] for entry in row["later"]] == [3, 2]
    assert trial["changed"] is True
    change(api, label("b", domain="staging"))
    assert api.post(f"{API}/rollbacks?dry_run=true", json={"revision": 1}).status_code == 409


def test_a_stale_version_of_a_row_that_was_rolled_back_says_so(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    change(api, label("b", domain="staging"))
    api.post(f"{API}/rollbacks", json={"revision": 2})
    stale = {"changes": [{**label("x", domain="staging"), "expected_version": 2}]}
    refused = api.post(f"{API}/attribute_changes", json=stale).get_json()
    (detail,) = refused["details"]
    assert (detail["undone"], detail["provenance"]["revision"], "later" in detail) == (2, 3, False)
    assert detail["provenance"]["undone"] == 2
    assert " (revision 3 (rollback of 2), anonymous, " in refused["message"]


def test_later_revisions_and_what_they_undid_are_one_read(api: FlaskClient, context: Context) -> None:
    change(api, label("a", domain="staging"))
    api.post(f"{API}/rollbacks", json={"revision": 1})
    with context.database.reading() as connection, statements(context) as seen:
        later = later_revisions(connection, [1, 2, 2])
    assert {number: entry.get("undone") for number, entry in later.items()} == {1: None, 2: 1}
    assert len([statement for statement in seen if "SELECT" in statement]) == 1


def test_a_later_revision_that_is_not_kept_is_known_by_its_number(api: FlaskClient, context: Context) -> None:
    change(api, label("a", domain="staging"))
    with context.database.reading() as connection:
        later = later_revisions(connection, [1, 9])
    assert later[1]["revision"] == 1
    assert later[9] == {"revision": 9}


def test_a_stale_version_is_answered_with_every_revision_since(api: FlaskClient) -> None:
    for value, name in (("a", "ana"), ("b", "ben"), ("c", "cleo")):
        body = {"changes": [label(value, domain="staging")], "claimed_by": name, "message": f"to {value}"}
        assert api.post(f"{API}/attribute_changes", json=body).status_code == 200
    stale = {"changes": [{**label("x", domain="staging"), "expected_version": 1}]}
    refused = api.post(f"{API}/attribute_changes", json=stale).get_json()
    (detail,) = refused["details"]
    assert [(entry["revision"], entry["claimed_by"], entry["message"]) for entry in detail["later"]] == [
        (3, "cleo", "to c"),
        (2, "ben", "to b"),
    ]
    assert (detail["later_count"], detail["current_version"], detail["provenance"]["revision"]) == (2, 3, 3)
    assert "changed since by revision 3, anonymous (says cleo)" in refused["message"]
    assert ", and by revision 2, anonymous (says ben)" in refused["message"]


def test_a_scope_goes_back_alone(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"), label("a", domain="production"))
    task = {"resource_type": 0, "domain": "staging", "payload": {"limits": {"cpu": "4"}}}
    change(api, label("b", domain="staging"), label("b", domain="production"), task)
    only = api.post(f"{API}/rollbacks", json={"to": 1, "domain": "staging", "resource_type": "3"}).get_json()
    assert [(row["action"], row["after"]) for row in only["rows"]] == [("update", {"value": "a"})]
    rest = api.post(f"{API}/rollbacks", json={"to": 1, "domain": "staging"}).get_json()
    assert [(row["action"], row["resource_type"]) for row in rest["rows"]] == [("delete", "TASK_RESOURCE")]
    assert [row["attributes"]["execution_cluster_label"]["value"] for row in rows(api)] == ["b", "a"]


def test_everything_goes_back_to_the_beginning(api: FlaskClient) -> None:
    change(api, {"project_definition": {"id": "search"}}, label("a", project="search"))
    api.put(f"{API}/projects/flytesnacks", json={"state": "ARCHIVED"})
    api.post(f"{API}/rollbacks", json={"to": 0, "everything": True})
    assert (rows(api), head(api)) == ([], 3)
    assert [project["id"] for project in api.get(f"{API}/projects").get_json()["projects"]] == [
        "flyteexamples",
        "flytesnacks",
    ]
    api.post(f"{API}/rollbacks", json={"to": 2, "everything": True})
    assert [project["id"] for project in api.get(f"{API}/projects").get_json()["projects"]] == [
        "flyteexamples",
        "search",
    ]
    assert bare(rows(api))[0]["attributes"] == {"execution_cluster_label": {"value": "a"}}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"revision": 9}, 404),
        ({"to": 9, "everything": True}, 404),
        ({"to": 9, "domain": "staging"}, 404),
        ({}, 400),
        ({"revision": 1, "to": 1}, 400),
        ({"to": 0}, 400),
        ({"to": 0, "everything": True, "domain": "staging"}, 400),
        ({"revision": 1, "domain": "staging"}, 400),
        ({"to": -1, "everything": True}, 400),
        ({"to": "1", "everything": True}, 400),
        ({"to": 0, "domain": "nowhere"}, 400),
        ({"revision": 10**30}, 400),
        ({"revisions": [1, 9]}, 404),
        ({"revisions": []}, 400),
        ({"revisions": [0]}, 400),
        ({"revisions": 1}, 400),
        ({"revisions": list(range(1, 1002))}, 400),
        ({"revisions": [1], "revision": 1}, 400),
        ({"revisions": [1], "to": 0, "everything": True}, 400),
        ({"revisions": [1], "domain": "staging"}, 400),
    ],
)
def test_a_rollback_that_makes_no_sense_is_refused(refusing: FlaskClient, body: dict[str, Any], status: int) -> None:
    assert refusing.post(f"{API}/rollbacks", json=body).status_code == status
    assert head(refusing) == 1


def test_a_rollback_may_say_what_it_was_planned_at(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"))
    plan = api.post(f"{API}/rollbacks?dry_run=true", json={"to": 0, "everything": True}).get_json()
    change(api, label("b", domain="production"))
    body = {"to": 0, "everything": True, "expected_head": plan["revision"]}
    refused = api.post(f"{API}/rollbacks", json=body)
    assert (refused.status_code, refused.get_json()["error"], len(rows(api))) == (409, "version_conflict", 2)
    assert api.post(f"{API}/rollbacks", json={**body, "expected_head": 2}).status_code == 200
    assert rows(api) == []


def test_a_kind_that_is_no_longer_declared_is_not_brought_back(make_app: MakeApp) -> None:
    first = make_app().test_client()
    change(first, {"resource_type": "workflow-priority", "domain": "staging", "payload": {"priority": 9}})
    change(first, {"resource_type": "workflow-priority", "domain": "staging", "delete": True})
    without = make_app(kinds={"OTHER": {"number": 10, "fields": {"a": "int"}}}).test_client()
    refused = without.post(f"{API}/rollbacks", json={"to": 1, "everything": True})
    assert (refused.status_code, refused.get_json()["error"]) == (400, "undeclared_kind")
    assert "WORKFLOW_PRIORITY" in refused.get_json()["message"]


def test_history_is_filtered_and_paged(api: FlaskClient) -> None:
    change(api, label("a", domain="staging"), claimed_by="ann")
    change(api, label("a", project="flytesnacks", domain="staging"), claimed_by="bob")
    change(
        api,
        {
            "resource_type": 0,
            "project": "flytesnacks",
            "payload": {"limits": {"cpu": "1"}},
        },
        claimed_by="bob",
    )
    api.put(f"{API}/projects/flytesnacks", json={"description": "x", "claimed_by": "cy"})

    def numbers(query: str) -> list[int]:
        answer = api.get(f"{API}/revisions?{query}")
        assert answer.status_code == 200, answer.get_json()
        return [revision["number"] for revision in answer.get_json()["revisions"]]

    assert numbers("") == [4, 3, 2, 1]
    assert numbers("claimed_by=bob") == [3, 2]
    assert numbers("domain=staging") == [2, 1]
    assert numbers("project=flytesnacks&resource_type=3") == [2]
    assert numbers("resource_type=PROJECT") == [4]
    assert numbers("since=2") == [3, 4]
    assert numbers("before=2000-01-01T00:00:00Z") == []
    assert numbers("after=2000-01-01T00:00:00Z&author=anonymous") == [4, 3, 2, 1]
    page = api.get(f"{API}/revisions?limit=3").get_json()
    last = api.get(f"{API}/revisions?limit=3&token={page['token']}").get_json()
    assert [revision["number"] for revision in last["revisions"]] == [1]
    difference = api.get(f"{API}/revision_diff?from=0&to=2").get_json()["rows"]
    assert [(row["action"], row["level"]) for row in difference] == [("create", "domain"), ("create", "project-domain")]
    backwards = api.get(f"{API}/revision_diff?from=2&to=0").get_json()["rows"]
    assert [row["action"] for row in backwards] == ["delete", "delete"]
    assert api.get(f"{API}/revision_diff?from=0&to=99").status_code == 404
    assert api.get(f"{API}/revisions/99").status_code == 404
    assert api.get(f"{API}/revisions/x").status_code == 400


def test_what_applied_then_is_what_was_recorded_then(api: FlaskClient) -> None:
    """A random history, recorded as it happens, then asked for again."""
    dice = random.Random(7)
    scopes: list[dict[str, str]] = [
        {"domain": "development"},
        {"project": "flytesnacks"},
        {"project": "flytesnacks", "domain": "development"},
        {"project": "flytesnacks", "domain": "development", "workflow": "wf"},
        {"project": "flytesnacks", "domain": "development", "workflow": "wf", "launch_plan": "lp"},
    ]
    kinds: list[tuple[str, Any]] = [
        ("EXECUTION_CLUSTER_LABEL", lambda: {"value": dice.choice(["a", "b", None])}),
        ("TASK_RESOURCE", lambda: {"limits": {dice.choice(["cpu", "memory"]): dice.choice(["1", "2", None])}}),
    ]

    def effective(query: str) -> Any:
        answer = api.get(f"{API}/effective_attributes?{SCOPE}{query}")
        return [
            (value["resource_type"], value["value"], value["origins"], value["trail"])
            for value in answer.get_json()["values"]
        ]

    recorded = {0: (effective(""), bare(rows(api)))}
    for _ in range(25):
        writes = {}
        for _ in range(dice.randint(1, 3)):
            kind, payload = dice.choice(kinds)
            keys = dice.choice(scopes)
            content = {"delete": True} if dice.random() < 0.3 else {"payload": payload()}
            writes[kind, str(keys)] = {"resource_type": kind, **keys, **content}
        answer = change(api, *writes.values())
        assert answer.status_code == 200, answer.get_json()
        recorded[answer.get_json()["revision"]] = (effective(""), bare(rows(api)))
    assert len(recorded) > 15
    for number, (then, listed) in recorded.items():
        assert effective(f"&at={number}") == then
        assert bare(rows(api, f"&at={number}")) == listed
    assert api.get(f"{API}/effective_attributes?{SCOPE}&at=999").status_code == 404


def test_what_would_apply_is_what_applies_once_it_is_made(api: FlaskClient) -> None:
    change(api, label("a", domain="development"))
    changes = [label("b", project="search", domain="development"), {"project_definition": {"id": "search"}}]
    body = {"project": "search", "domain": "development", "workflow": "w", "resource_type": "3", "changes": changes}
    proposed = api.post(f"{API}/effective_attributes", json=body)
    assert proposed.status_code == 200, proposed.get_json()
    assert head(api) == 1
    change(api, *changes)
    scope = "project=search&domain=development&workflow=w"
    applied = api.get(f"{API}/effective_attributes?{scope}&resource_type=3").get_json()
    assert proposed.get_json()["values"][0]["value"] == applied["values"][0]["value"] == {"value": "b"}


def test_a_waiting_reader_is_answered_as_soon_as_something_changes(app: Flask) -> None:
    watcher = app.extensions["rainbow"].revision_watcher

    def wait() -> list[int]:
        answer = app.test_client().get(f"{API}/revisions?since=0&wait=60").get_json()
        return [revision["number"] for revision in answer["revisions"]]

    with ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(wait) for _ in range(5)]
        wait_until(lambda: watcher.waiters == 5)
        change(app.test_client(), label("a", domain="staging"))
        assert [answer.result(30) for answer in answers] == [[1]] * 5  # long before the 60 seconds are over
    assert app.test_client().get(f"{API}/revisions?since=1&wait=0.05").get_json()["revisions"] == []
    assert app.test_client().get(f"{API}/revisions?wait=5").status_code == 400


def test_an_export_of_an_archived_project_can_be_applied_again(api: FlaskClient) -> None:
    archived = {"project_definition": {"id": "old", "state": "ARCHIVED"}}
    assert change(api, archived, label("a", project="old")).status_code == 200
    assert change(api, archived, label("a", project="old")).get_json()["changed"] is False
    assert change(api, archived, label("b", project="old")).status_code == 400
    active = {"project_definition": {"id": "old", "state": "ACTIVE"}}
    assert change(api, active, label("b", project="old")).status_code == 200
    assert change(api, archived, label("c", project="old")).status_code == 200


def test_a_plan_over_thousands_of_scopes_counts_them_all(api: FlaskClient) -> None:
    definitions = [{"project_definition": {"id": f"p{number}"}} for number in range(300)]
    assert change(api, *definitions).status_code == 200
    plan = change(api, label("mycluster", domain="production"), query="?dry_run=true").get_json()
    assert (plan["effective"]["scopes"], len(plan["effective"]["changes"])) == (303, 100)


def test_a_declared_kind_may_have_the_name_of_another_noun(make_app: MakeApp) -> None:
    """In revisions a kind called POOL has rows at scopes, while pools have names."""
    kinds = {"POOL": {"number": 42, "noun": "my-pool", "fields": {"size": {"type": "int"}}}}
    api = make_app(kinds=kinds).test_client()
    attribute = {"resource_type": "my-pool", "domain": "staging", "payload": {"size": 3}}
    pool = {"pool_definition": {"name": "gpu", "members": [{"id": "a"}]}}
    answer = change(api, attribute, pool).get_json()
    assert [(row["resource_type"], row.get("name"), row["level"]) for row in answer["rows"]] == [
        ("POOL", None, "domain"),
        ("POOL", "gpu", "platform"),
    ]
    assert bare(rows(api))[0]["attributes"] == {"pool": {"size": 3}}
    assert api.post(f"{API}/rollbacks", json={"to": 0, "everything": True}).get_json()["counts"]["delete"] == 2
    assert (rows(api), api.get(f"{API}/pools").get_json()["pools"]) == ([], [])


@pytest.mark.parametrize("key", ["domain", "project", "workflow", "launch_plan"])
def test_an_empty_scope_key_is_refused_and_does_not_mean_a_broader_scope(api: FlaskClient, key: str) -> None:
    complete = {"project": "flytesnacks", "domain": "development", "workflow": "wf", "launch_plan": "lp"}
    keys = list(complete)[: list(complete).index(key) + 1]
    scope = {name: "" if name == key else complete[name] for name in keys}
    assert change(api, label("before", project="flytesnacks"), label("d", domain="development")).status_code == 200
    before, revision = rows(api), head(api)
    query = "&".join(f"{name}={value}" for name, value in scope.items())
    answers = [
        change(api, label("x", **scope)),
        change(api, {"resource_type": "EXECUTION_CLUSTER_LABEL", "delete": True, **scope}),
        api.post(f"{API}/rollbacks", json={"to": 0, **scope}),
        api.get(f"{API}/effective_attributes?{query}"),
        api.post(f"{API}/effective_attributes", json={"changes": [label("x", domain="development")], **scope}),
        api.get(f"{API}/matchable_attributes?resource_type=all&{query}"),
        api.get(f"{API}/revisions?{query}"),
    ]
    for answer in answers:
        assert answer.status_code == 400, answer.get_json()
        details = answer.get_json()["details"]
        assert [(detail["field"], detail["reason"]) for detail in details] == [
            (key, "is empty: name one, or leave it out for any.")
        ]
    assert (rows(api), head(api)) == (before, revision)


def test_refusals_name_the_change_and_what_is_in_its_way(api: FlaskClient) -> None:
    no_mappings: list[Any] = [None, 5, []]
    for document in no_mappings:
        answer = change(api, label("x", domain="development"), document).get_json()
        assert [(detail["field"], detail["reason"]) for detail in answer["details"]] == [
            ("changes.1", "is not a mapping of fields: write { … }.")
        ]
    assert change(api, label("x", domain="development")).status_code == 200
    again = change(api, {**label("y", domain="development"), "expected_absent": True})
    assert again.status_code == 409
    message = again.get_json()["message"]
    assert message.startswith("Exists already: EXECUTION_CLUSTER_LABEL at development is at version 1 ")
    older = change(api, {**label("y", domain="development"), "expected_version": 7}).get_json()["message"]
    assert older.startswith("Not at the expected version: ")
