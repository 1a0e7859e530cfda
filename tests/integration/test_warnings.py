"""Warnings, page by page, on both databases."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import delete

from admin.core.settings.field_revisions import RowVersion
from admin.services import field_provenance
from admin.services.field_provenance import FieldProvenance, find_field_provenance
from admin.services.warning_provenance import with_setters
from admin.services.warnings import list_warnings
from admin.store import attributes
from admin.store.revision_tables import revision_changes
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, put_attribute, put_label, refused
from tests.support.statements import statements

SLOW_ON = ("postgresql",)

WORKFLOWS = 1100
FLEET = {("LABEL", "platform")}


@pytest.fixture
def set_up(api: FlaskClient) -> FlaskClient:
    """A label with two clusters that nobody has declared, and rows with several, one and no warnings."""
    put_label(api, "spare", ["east", "west"])
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"cpu": "4"}})
    put_attribute(api, "project", "task_resource_attributes", {"defaults": {"cpu": "2"}, "limits": {"cpu": "3"}})
    put_attribute(api, "workflow", "task_resource_attributes", {"limits": {"cpu": "1"}}, workflow="fit")
    put_attribute(api, "domain", "execution_cluster_label", {"value": "nosuch"})
    return api


def pages(api: FlaskClient, limit: int) -> list[list[Any]]:
    """The warnings of each page."""
    answers = [get(api, f"warnings?limit={limit}")]
    while "token" in answers[-1]:
        answers.append(get(api, f"warnings?limit={limit}&token={answers[-1]['token']}"))
    return [answer["warnings"] for answer in answers]


def test_pages_have_together_what_one_answer_without_a_limit_has(set_up: FlaskClient) -> None:
    answer = get(set_up, "warnings")
    assert "token" not in answer
    codes = [warning["code"] for warning in answer["warnings"]]
    assert codes[:3] == ["expected_cluster", "expected_cluster", "unknown_label"]
    assert {"overrides_domain", "unknown_workflow"} <= set(codes[3:])
    for limit in (1, 2, 3, 100):
        read = pages(set_up, limit)
        assert [warning for page in read for warning in page] == answer["warnings"]
        assert len(read[0]) == min(limit, len(codes))
        about_rows = [{(warning["resource_type"], warning["level"]) for warning in page} - FLEET for page in read]
        assert not any(first & second for first, second in pairwise(about_rows))  # those of a row stay together


def test_each_warning_says_who_set_what_it_is_about(api: FlaskClient) -> None:
    row = {"defaults": {"cpu": "2"}, "limits": {"cpu": "3", "memory": "0"}}
    put_attribute(api, "project", "task_resource_attributes", {"limits": {"memory": "0"}})
    put_attribute(api, "project", "task_resource_attributes", row)
    pool = put_label(api, "spare", ["east"])["revision"]
    put_attribute(api, "workflow", "task_resource_attributes", {"limits": {"cpu": "1"}}, workflow="fit")
    set_by = {(warning["code"], warning["field"]): warning["set_by"] for warning in get(api, "warnings")["warnings"]}
    expected = {
        ("zero_limit", "limits.memory"): 1,  # which revision 2 did not change
        ("unknown_workflow", "workflow"): pool + 1,
    }
    for key, revision in expected.items():
        assert (set_by[key]["revision"], set_by[key]["author"]) == (revision, "anonymous")
        assert set_by[key]["at"]
    [of_label] = [entry for (code, _field), entry in set_by.items() if code == "expected_cluster"]
    assert of_label["revision"] == pool


def test_a_capped_default_names_who_set_the_default_or_else_the_limit(api: FlaskClient) -> None:
    def put(level: str, **payload: object) -> int:
        return int(put_attribute(api, level, "task_resource_attributes", payload)["revision"])

    default = put("project", defaults={"memory": "400Mi"})
    limit = put("domain", limits={"memory": "300Mi", "cpu": "500m"})
    put("project-domain", limits={"gpu": "1"})  # which sets neither
    capped = [warning for warning in get(api, "warnings")["warnings"] if warning["code"] == "default_capped"]
    set_by = {(warning["level"], warning["field"]): warning["set_by"]["revision"] for warning in capped}
    assert set_by["project-domain", "defaults.memory"] == default
    assert {set_by[key] for key in set_by if key[1] == "defaults.cpu"} == {limit}  # the default is configured


def test_a_token_that_no_page_gave_is_refused(set_up: FlaskClient) -> None:
    token = get(set_up, "warnings?limit=1")["token"]
    refused(set_up.get(f"{API}/warnings?limit=1&token=nosuch"), 400, "invalid_request", "token")
    refused(set_up.get(f"{API}/warnings?token={token}"), 400, "invalid_request", "token")
    refused(set_up.get(f"{API}/warnings?limit=0"), 400, "invalid_request", "limit")


def test_a_page_looks_at_a_limited_number_of_rows(app: Flask, api: FlaskClient) -> None:
    changes = [
        {
            "resource_type": "TASK_RESOURCE",
            "project": PROJECT,
            "domain": DOMAIN,
            "workflow": f"w{number:04}",
            "payload": {"limits": {"cpu": "0" if number == WORKFLOWS - 1 else "1"}},
        }
        for number in range(WORKFLOWS)
    ]
    ok(api.post(f"{API}/attribute_changes", json={"changes": changes}))
    first = list_warnings(context_of(app), None, limit=10_000, examined=500)
    second = list_warnings(context_of(app), first.next_key, limit=10_000)
    assert first.next_key is not None
    assert second.next_key is None
    codes = [Counter(warning.code.value for warning in page.warnings) for page in (first, second)]
    assert [counts["unknown_workflow"] for counts in codes] == [500, WORKFLOWS - 500]
    assert [counts["zero_limit"] for counts in codes] == [0, 1]


def test_a_row_that_is_not_looked_at_field_by_field_names_no_revision_as_the_one_that_set_it(
    app: Flask, api: FlaskClient
) -> None:
    def write(limits: dict[str, str]) -> int:
        rows = [
            {"resource_type": "TASK_RESOURCE", "project": PROJECT, "domain": domain, "payload": {"limits": limits}}
            for domain in ("development", "staging")
        ]
        return int(ok(api.post(f"{API}/attribute_changes", json={"changes": rows}))["revision"])

    zero, last = write({"cpu": "0"}), write({"cpu": "0", "memory": "64Gi"})
    context = context_of(app)
    warnings = [warning for warning in list_warnings(context).warnings if warning.code.value == "zero_limit"]
    with context.database.reading() as connection:
        explained = with_setters(context, connection, warnings, limit=1)
    setters = [(warning.set_by and warning.set_by.revision, warning.set_before) for warning in explained]
    assert setters == [(zero, None), (last, last + 1)]


def test_the_changes_of_many_rows_are_read_together(
    api: FlaskClient, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 30
    for number in range(rows):
        scope = {"workflow": f"w{number}"}
        put_attribute(api, "workflow", "task_resource_attributes", {"limits": {"cpu": "1"}}, **scope)
        if number % 3:
            both = {"cpu": "1", "memory": "1Gi"}
            put_attribute(api, "workflow", "task_resource_attributes", {"limits": both}, **scope)
        if number % 3 == 2:
            put_attribute(api, "workflow", "task_resource_attributes", {"limits": {"cpu": "1"}}, **scope)
    context = context_of(app)
    with context.database.writing() as connection:  # as if they had been pruned
        for number in (2, 6):
            connection.execute(delete(revision_changes).where(revision_changes.c.revision == number))

    def explained() -> tuple[FieldProvenance, int]:
        with context.database.reading() as connection, statements(context) as asked:
            stored = attributes.every(connection, "TASK_RESOURCE")
            versions = [RowVersion(row.kind, row.scope, row.version) for row in stored]
            return find_field_provenance(context, connection, versions), len(asked)

    together, asked = explained()
    monkeypatch.setattr(field_provenance, "_FEW_ROWS", rows)
    one_by_one, asked_one_by_one = explained()
    assert together == one_by_one
    assert {len(fields.revisions) for fields in together.fields.values()} == {0, 1, 2}
    assert asked < rows // 2 < rows < asked_one_by_one  # the last ten are read one by one


def test_the_page_of_the_console_has_those_of_a_scope(set_up: FlaskClient) -> None:
    page = set_up.get(f"/console/fleet/warnings?project={PROJECT}")
    assert page.status_code == 200
    assert "fit" in page.text
    assert f"rainbowctl get warnings -p {PROJECT}" in page.text
    nothing = set_up.get(f"/console/fleet/warnings?project={PROJECT}&domain=staging")
    assert "Nothing is questionable at these scopes." in nothing.text
    wrong = set_up.get("/console/fleet/warnings?workflow=fit&nothing=1")
    assert wrong.status_code == 400
