"""Who may write quotas: those with quotas.write at the scope, however it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.core.grants import Grant, Grantee
from admin.core.permissions import ROLES
from admin.core.settings.scopes import Scope
from admin.services import grants, user_tokens, users
from admin.services.changeable.base import ChangeOptions
from tests.support.apps import context_of
from tests.support.placing import API, PROJECT, get, ok, put_attribute, refused

SLOW_ON = ("postgresql",)

PATH = f"{API}/project_attributes/{PROJECT}"
LABEL = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "east"}}}}
PAYLOADS: dict[str, dict[str, Any]] = {"execution_quota": {"running": 1}, "token_pool_quota": {"pools": {"hive": 1}}}
NUMBERS = {"execution_quota": 9, "token_pool_quota": 8}


def body(key: str) -> dict[str, Any]:
    return {"attributes": {"matching_attributes": {key: PAYLOADS[key]}}}


def row(key: str) -> dict[str, Any]:
    return {"resource_type": NUMBERS[key], "project": PROJECT}


WRITES: dict[str, Callable[[FlaskClient, str], TestResponse]] = {
    "put": lambda api, key: api.put(PATH, json=body(key)),
    "put by Flask": lambda api, key: api.put(PATH, json=body(key), headers={"If-None-Match": "*"}),
    "patch": lambda api, key: api.patch(f"{PATH}?resource_type={NUMBERS[key]}", json={"set": PAYLOADS[key]}),
    "change": lambda api, key: api.post(
        f"{API}/attribute_changes", json={"changes": [{**row(key), "payload": PAYLOADS[key]}]}
    ),
}


@pytest.fixture
def callers(app: Flask) -> dict[str, FlaskClient]:
    """A user for each role on the project."""
    context, options, clients = context_of(app), ChangeOptions(), {}
    grants.create_grant(context, Grant(role="admin", grantee=Grantee("user", "root")), options)
    for role in ROLES:
        users.create_user(context, role, {}, options)
        grant = Grant(role=role, grantee=Grantee("user", role), scope=Scope(project=PROJECT))
        grants.create_grant(context, grant, options)
        clients[role] = app.test_client()
        token = user_tokens.create_token(context, role, "laptop").token
        clients[role].environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return clients


@pytest.mark.parametrize("key", PAYLOADS)
@pytest.mark.parametrize("way", WRITES)
def test_only_those_who_may_write_quotas_do(callers: dict[str, FlaskClient], way: str, key: str) -> None:
    for role in ("viewer", "submitter", "editor"):
        answer = refused(WRITES[way](callers[role], key), 403, "permission_denied")
        assert "quotas.write" in answer["message"] or (role != "editor" and way == "change")
    ok(WRITES[way](callers["operator"], key))
    listed = get(callers["editor"], f"matchable_attributes?resource_type={NUMBERS[key]}&project={PROJECT}")
    assert len(listed["configurations"]) == 1
    refused(callers["editor"].delete(f"{PATH}?resource_type={NUMBERS[key]}"), 403, "permission_denied", "quotas.write")
    ok(callers["operator"].delete(f"{PATH}?resource_type={NUMBERS[key]}"))


def test_a_rollback_needs_it_too(callers: dict[str, FlaskClient]) -> None:
    number = ok(WRITES["put"](callers["operator"], "execution_quota"))["revision"]
    refused(callers["editor"].post(f"{API}/rollbacks", json={"revision": number}), 403, "permission_denied")
    assert ok(callers["operator"].post(f"{API}/rollbacks", json={"revision": number}))["changed"]


def test_it_is_no_right_to_write_other_settings(callers: dict[str, FlaskClient]) -> None:
    refused(callers["operator"].put(PATH, json=LABEL), 403, "permission_denied", "attributes.write")
    ok(callers["editor"].put(PATH, json=LABEL))


def test_an_editor_reads_what_binds(callers: dict[str, FlaskClient]) -> None:
    put_attribute(callers["operator"], "project", "execution_quota", {"running": 1}, project=PROJECT)
    assert get(callers["editor"], f"quota_usage?project={PROJECT}")["quotas"][0]["limit"] == "1"
