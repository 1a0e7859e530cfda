"""Several writers at once, on both databases: changes have one order without gaps, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from werkzeug.test import TestResponse

from admin.services.context import Context
from admin.store.revision_tables import revision_changes, revisions
from tests.robustness.pictures import BASE, PROJECT_DOMAIN, WORKFLOW, put_body, stored
from tests.support.threads import at_once

WRITERS = 10


def put(path: str, value: str, **headers: str) -> Callable[[FlaskClient], TestResponse]:
    body = put_body("execution_cluster_label", {"value": value})
    return lambda client: client.put(path, json=body, headers=headers)


def history(context: Context) -> list[tuple[int, object, object]]:
    """Every change of the system: revision, before, after."""
    query = select(revision_changes.c.revision, revision_changes.c.before, revision_changes.c.after)
    with context.database.reading() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(revision_changes.c.revision))]


def numbers(context: Context) -> list[int]:
    with context.database.reading() as connection:
        return list(connection.execute(select(revisions.c.number).order_by(revisions.c.number)).scalars())


def test_writers_of_one_new_scope_all_succeed_one_after_the_other(app: Flask, context: Context) -> None:
    answers = at_once(app, [put(PROJECT_DOMAIN, f"label{number}") for number in range(WRITERS)])
    assert [answer.status_code for answer in answers] == [200] * WRITERS
    in_order = sorted(answers, key=lambda answer: answer.get_json()["revision"])
    assert [answer.get_json()["revision"] for answer in in_order] == list(range(1, WRITERS + 1))
    values = [answer.get_json()["attributes"]["matching_attributes"]["execution_cluster_label"] for answer in in_order]
    earlier = [answer.get_json().get("before") for answer in in_order]
    assert earlier == [None, *values[:-1]]
    expected = list(zip(range(1, WRITERS + 1), earlier, values, strict=True))
    assert history(context) == expected
    [row] = stored(app.test_client())["rows"]
    assert (row["version"], row["attributes"]["execution_cluster_label"]) == (WRITERS, values[-1])


def test_of_writers_who_want_a_row_to_be_new_one_succeeds(app: Flask, context: Context) -> None:
    requests = [put(WORKFLOW, f"label{number}", **{"If-None-Match": "*"}) for number in range(WRITERS)]
    answers = at_once(app, requests)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * (WRITERS - 1)
    refusals = [answer.get_json() for answer in answers if answer.status_code == 409]
    assert {(refusal["error"], refusal["code"]) for refusal in refusals} == {("version_conflict", 10)}
    assert all(refusal["details"][0]["current_version"] == 1 for refusal in refusals)
    assert numbers(context) == [1]


def test_of_writers_who_expect_one_version_one_succeeds(app: Flask, context: Context) -> None:
    assert put(WORKFLOW, "mycluster")(app.test_client()).get_json()["version"] == 1
    requests = [put(WORKFLOW, f"label{number}", **{"If-Match": '"1"'}) for number in range(WRITERS)]
    answers = at_once(app, requests)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * (WRITERS - 1)
    assert all(a.get_json()["details"][0]["current_version"] == 2 for a in answers if a.status_code == 409)
    assert numbers(context) == [1, 2]


def test_writers_of_the_same_value_make_one_revision(app: Flask, context: Context) -> None:
    answers = at_once(app, [put(PROJECT_DOMAIN, "mycluster") for _ in range(WRITERS)])
    assert sorted((answer.status_code, answer.get_json()["changed"]) for answer in answers) == [(200, False)] * 9 + [
        (200, True)
    ]
    assert {answer.get_json()["version"] for answer in answers} == {1}
    assert numbers(context) == [1]


def test_patches_of_different_fields_are_all_kept(app: Flask, context: Context) -> None:
    def patch(number: int) -> Callable[[FlaskClient], TestResponse]:
        body = {"set": {f"labels.values.k{number}": f"v{number}"}}
        return lambda client: client.patch(f"{WORKFLOW}?resource_type=6", json=body)

    answers = at_once(app, [patch(number) for number in range(WRITERS)])
    assert [answer.status_code for answer in answers] == [200] * WRITERS
    [row] = stored(app.test_client())["rows"]
    labels = row["attributes"]["workflow_execution_config"]["labels"]["values"]
    assert labels == {f"k{number}": f"v{number}" for number in range(WRITERS)}
    assert numbers(context) == list(range(1, WRITERS + 1))


def test_writers_and_deleters_of_one_row_leave_a_history_without_a_break(app: Flask, context: Context) -> None:
    def delete(client: FlaskClient) -> TestResponse:
        return client.delete(f"{PROJECT_DOMAIN}?resource_type=3")

    requests = [request for number in range(6) for request in (put(PROJECT_DOMAIN, f"label{number}"), delete)]
    answers = at_once(app, requests)
    assert [answer.status_code for answer in answers] == [200] * 12
    changes = history(context)
    assert [number for number, _, _ in changes] == list(range(1, len(changes) + 1))
    assert [before for _, before, _ in changes] == [None, *(after for _, _, after in changes[:-1])]
    rows = [row["attributes"]["execution_cluster_label"] for row in stored(app.test_client())["rows"]]
    assert rows == [after for _, _, after in changes[-1:] if after is not None]


def test_writers_of_many_scopes_leave_no_gap(app: Flask, context: Context) -> None:
    paths = [f"{BASE}/workflow_attributes/flyteexamples/development/w{number}" for number in range(WRITERS)]
    bad = [lambda client: client.put(PROJECT_DOMAIN, json=put_body("execution_cluster_label", {"value": "a b"}))] * 3
    dry = [
        lambda client: client.put(
            f"{PROJECT_DOMAIN}?dry_run=true", json=put_body("execution_queue_attributes", {"tags": ["a"]})
        )
    ] * 3
    answers = at_once(app, [*(put(path, "mycluster") for path in paths), *bad, *dry])
    assert [answer.status_code for answer in answers] == [200] * WRITERS + [400] * 3 + [200] * 3
    assert numbers(context) == list(range(1, WRITERS + 1))
    assert sorted(row["version"] for row in stored(app.test_client())["rows"]) == list(range(1, WRITERS + 1))


@pytest.mark.parametrize("rounds", [5])
def test_nothing_is_written_after_its_project_is_archived(app: Flask, context: Context, rounds: int) -> None:
    client = app.test_client()
    project = f"{BASE}/projects/flyteexamples"
    for turn in range(rounds):
        head = len(numbers(context))
        writers = [put(WORKFLOW, f"label{turn}-{number}") for number in range(WRITERS)]
        *answers, archived = at_once(app, [*writers, lambda client: client.patch(project, json={"state": "ARCHIVED"})])
        assert archived.get_json()["state"] == "ARCHIVED"
        written = [answer.get_json()["revision"] for answer in answers if answer.status_code == 200]
        refusals = [answer.get_json()["error"] for answer in answers if answer.status_code != 200]
        assert refusals == ["project_archived"] * (WRITERS - len(written))
        assert sorted(written) == list(range(head + 1, head + 1 + len(written)))
        with context.database.reading() as connection:
            query = select(revisions.c.created_at).order_by(revisions.c.number.desc()).limit(1)
            last = connection.execute(query).scalar_one_or_none()
        if written:
            assert last is not None
            assert last.isoformat().replace("+00:00", "Z") <= archived.get_json()["updated_at"]
        assert client.patch(project, json={"state": "ACTIVE"}).get_json()["state"] == "ACTIVE"


def test_one_project_is_created_once(app: Flask) -> None:
    def create(number: int) -> Callable[[FlaskClient], TestResponse]:
        return lambda client: client.post(f"{BASE}/projects", json={"project": {"id": "search", "name": f"n{number}"}})

    answers = at_once(app, [create(number) for number in range(WRITERS)])
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * (WRITERS - 1)
    assert {answer.get_json()["error"] for answer in answers if answer.status_code == 409} == {"project_exists"}
    [created] = [answer.get_json() for answer in answers if answer.status_code == 200]
    assert app.test_client().get(f"{BASE}/projects/search").get_json() == created


def test_updates_of_different_fields_of_a_project_are_all_kept(app: Flask) -> None:
    changes: list[dict[str, Any]] = [{"name": "n"}, {"description": "d"}, {"labels": {"values": {"a": "b"}}}]
    path = f"{BASE}/projects/flytesnacks"

    def update(change: dict[str, Any]) -> Callable[[FlaskClient], TestResponse]:
        return lambda client: client.patch(path, json=change)

    answers = at_once(app, [update(change) for change in changes])
    assert [answer.status_code for answer in answers] == [200] * 3
    project = app.test_client().get(path).get_json()
    assert (project["name"], project["description"], project["labels"]) == ("n", "d", {"values": {"a": "b"}})


def test_readers_see_whole_changes(app: Flask) -> None:
    """A row and the revision it came with are seen together, or not at all."""

    def read(client: FlaskClient) -> TestResponse:
        return client.get(f"{BASE}/effective_attributes?project=flyteexamples&domain=development&resource_type=3")

    writers = [put(PROJECT_DOMAIN, f"label{number}") for number in range(WRITERS)]
    answers = at_once(app, [*writers, *[read] * WRITERS])
    by_revision = {
        answer.get_json()["revision"]: answer.get_json()["attributes"]["matching_attributes"]["execution_cluster_label"]
        for answer in answers[:WRITERS]
    }
    for answer in answers[WRITERS:]:
        [value] = answer.get_json()["values"]
        assert value["value"] == by_revision.get(answer.get_json()["revision"], {})
