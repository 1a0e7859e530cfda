"""The console's page that simulates a file of settings, without a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from io import BytesIO

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.console.documents import read_changes
from admin.store.execution_lists import ListLimits
from tests.integration.test_console import send, signed_in
from tests.integration.test_console_fleet import words_of
from tests.support.apps import context_of
from tests.support.people import made_user
from tests.support.placing import DOMAIN, PROJECT, created, nothing_stored, put_cluster, put_pool, report

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
PAGE = "/console/what-if"
DOCUMENTS = """kind: pool
name: gpu
members: {west: 1}
---
kind: task-resource-attribute
domain: development
limits: {cpu: 2}
"""


@pytest.fixture
def placed(api: FlaskClient) -> FlaskClient:
    """An execution that a pool placed."""
    for name in ("east", "west"):
        put_cluster(api, name)
        report(api, name, capacity={"cpu": "8"}, free={"cpu": "8"})
    put_pool(api, "gpu", {"east": 1})
    created(api, "train", cluster_assignment={"cluster_pool_name": "gpu"})
    return api


def test_executions_that_would_move_are_told_and_nothing_is_written(app: Flask, placed: FlaskClient) -> None:
    with nothing_stored(context_of(app)):
        answer = send(placed, PAGE, PAGE, documents=DOCUMENTS, since="1h")
    assert answer.status_code == 200
    page = words_of(answer.text)
    assert "1 executions since" in page
    assert "tried with 2 documents: 1 would go elsewhere" in page
    assert f"train {PROJECT}/{DOMAIN} east pool gpu west pool gpu" in page
    assert "Assumed the fleet as it is now" in page
    assert f'href="/console/executions/{PROJECT}/{DOMAIN}/train"' in answer.text


def test_a_file_is_taken_in_place_of_what_was_pasted(placed: FlaskClient) -> None:
    form = placed.get(PAGE).text
    token = re.search(r'name="form_token" value="([^"]+)"', form)
    assert token is not None
    fields = {"form_token": token[1], "documents": "", "since": "1h", "file": (BytesIO(DOCUMENTS.encode()), "a.yaml")}
    origin = {"Origin": "http://localhost"}
    answer = placed.post(PAGE, data=fields, content_type="multipart/form-data", headers=origin)
    assert (answer.status_code, "1</strong> would go elsewhere" in answer.text) == (200, True)
    binary = {**fields, "file": (BytesIO(b"\xff\xfe"), "a.yaml")}
    refused = placed.post(PAGE, data=binary, content_type="multipart/form-data", headers=origin)
    assert (refused.status_code, "UTF-8" in refused.text) == (400, True)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"documents": ""}, "is empty: paste or choose a file"),
        ({"documents": "a: ["}, "is neither YAML nor JSON in line 1, column 5"),
        ({"documents": "- 1"}, "number 1 is not a mapping"),
        ({"documents": f"[{'a,' * 40_000}]"}, "has 80,002 characters, more than 65,536: use rainbowctl"),
        ({"documents": "name: x"}, "document 1 lacks kind"),
        ({"documents": "kind: pool\nmembers: {}"}, "document 1, pool: pool_definition.name is missing."),
        ({"documents": "kind: bogus\nproject: x"}, "document 1, bogus at x: resource_type unknown kind"),
        ({"documents": DOCUMENTS, "since": "soon"}, "Since: is neither a time"),
        ({"documents": DOCUMENTS, "fleet": "old"}, "Fleet"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_is_kept(
    placed: FlaskClient, fields: dict[str, str], reason: str
) -> None:
    answer = send(placed, PAGE, PAGE, **fields)
    assert answer.status_code == 400
    assert reason in words_of(answer.text)
    assert fields["documents"].replace("<", "&lt;") in answer.text


def test_documents_become_changes_as_rest_takes_them() -> None:
    text = """[{"changes": [{"resource_type": "X"}]},
      {"kind": "cluster-pool-attribute", "version": 3, "project": "p", "launchPlan": "l", "cluster_pool_name": "a"},
      {"kind": "label", "name": "l", "members": {"east": 2, "west": null}}]"""
    assert [entry.change for entry in read_changes(text)] == [
        {"resource_type": "X"},
        {
            "resource_type": "cluster-pool-attribute",
            "project": "p",
            "launch_plan": "l",
            "payload": {"cluster_pool_name": "a"},
        },
        {"label_definition": {"name": "l", "members": [{"id": "east", "weight": 2}, {"id": "west", "weight": 1}]}},
    ]


def test_a_viewer_may_not_simulate_a_change_of_users(app: Flask) -> None:
    made_user(app)
    nobody = made_user(app, "eve", role="viewer")
    browser, _ = signed_in(app, nobody)
    assert browser.get(PAGE).status_code == 200
    assert send(browser, PAGE, PAGE, documents="kind: user\nname: x", since="1h").status_code == 403


def test_what_one_page_does_not_compare_is_compared_by_going_on(app: Flask, placed: FlaskClient) -> None:
    app.extensions["rainbow"] = replace(context_of(app), list_limits=ListLimits(simulated=1))
    created(placed, "older", cluster_assignment={"cluster_pool_name": "gpu"})
    first = send(placed, PAGE, PAGE, documents=DOCUMENTS, since="1h")
    assert "1 executions since" in words_of(first.text)
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', first.text.partition("<main")[2]))
    assert "Go on with older ones" in first.text
    fields = {name: unescape(value) for name, value in fields.items()}
    assert fields["documents"] == DOCUMENTS
    second = placed.post(PAGE, data=fields, headers={"Origin": "http://localhost"})
    assert second.status_code == 200
    assert "1 further executions since" in words_of(second.text)
    assert "Go on with older ones" not in second.text
