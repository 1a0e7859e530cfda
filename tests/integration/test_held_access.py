"""What one user or group may do over all scopes and which clusters it may use, on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.identities import Identity, Proof
from admin.core.permissions import PERMISSIONS
from admin.services import user_tokens
from admin.services.creator_rights import note_proven_groups
from tests.conftest import MakeApp
from tests.integration.test_grants import define, give, signed_in
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, put_cluster, put_pool, refused

SLOW_ON = ("postgresql",)

OTHER = "flyteexamples"
CLOSED: dict[str, Any] = {"placement": {"clusterUse": "closed"}}


def let_use(api: FlaskClient, **definition: str) -> None:
    ok(api.post(f"{API}/use_grants", json={"use_grant": definition}))


def settle(api: FlaskClient) -> None:
    """Ana has roles of her own and through groups that contain each other, and uses clusters in four ways."""
    for name in ("east", "west"):
        put_cluster(api, name)
    put_pool(api, "gpu", ("east", "west"))
    racks = {"cluster_group": {"name": "racks", "clusters": ["west"]}}
    ok(api.post(f"{API}/cluster_groups", json=racks))
    define(api, "ml", "ana", "otto")
    define(api, "staff", "mia", groups=["ml"])
    give(api, role="admin", user="root")
    give(api, role="viewer", group="staff", domain="production")
    give(api, role="submitter", group="ml", project=PROJECT, domain=DOMAIN)
    give(api, role="editor", user="ana", project=OTHER)
    give(api, role="editor", user="otto", project=OTHER, domain=DOMAIN)
    let_use(api, pool="gpu", group="ml")
    let_use(api, cluster_group="racks", user="ana")
    let_use(api, cluster="east", project=PROJECT)
    let_use(api, cluster="east", user="otto")


def names(answer: Any, key: str = "grants") -> list[str]:
    return [row["name"] for row in answer[key]]


GRANTS = [
    "viewer:group:staff::production",
    f"editor:user:ana:{OTHER}",
    f"submitter:group:ml:{PROJECT}:{DOMAIN}",
]
USES = [f"cluster:east:project:{PROJECT}", "cluster_group:racks:user:ana", "pool:gpu:group:ml"]


def test_what_a_user_may_do_over_all_scopes(make_app: MakeApp) -> None:
    api = make_app(**CLOSED).test_client()
    settle(api)
    answer = get(api, "access/held?user=ana")
    assert (answer["user"], answer["groups"], answer["cluster_use"]) == ("ana", ["ml", "staff"], "closed")
    assert names(answer) == GRANTS
    assert [grant.get("through") for grant in answer["grants"]] == [["ml", "staff"], None, ["ml"]]
    viewer, editor, submitter = answer["grants"]
    assert "attributes.write" in editor["permissions"]
    assert "attributes.write" not in viewer["permissions"]
    assert "executions.create" in submitter["permissions"]
    assert editor["provenance"]["definition"]["author"] == "anonymous"
    assert {"revision", "at"} <= editor["provenance"]["definition"].keys()
    assert names(answer, "use_grants") == USES
    assert [use["clusters"] for use in answer["use_grants"]] == [["east"], ["west"], ["east", "west"]]
    assert [use.get("through") for use in answer["use_grants"]] == [None, None, ["ml"]]
    assert answer["message"].startswith("User ana has 3 grants, 2 of them through groups ml, staff.")
    assert answer["message"].endswith("Clusters are closed: some may be used by 3 use grants.")
    assert "partial" not in answer


def test_what_a_group_may_do_over_all_scopes(make_app: MakeApp) -> None:
    api = make_app(**CLOSED).test_client()
    settle(api)
    answer = get(api, "access/held?group=ml")
    assert (answer["group"], answer["groups"]) == ("ml", ["staff"])
    assert names(answer) == [GRANTS[0], GRANTS[2]]
    assert [grant.get("through") for grant in answer["grants"]] == [["staff"], None]
    assert names(answer, "use_grants") == [USES[0], USES[2]]
    define(api, "company", groups=["staff"])
    give(api, role="viewer", group="company")
    let_use(api, cluster="west", group="company")
    answer = get(api, "access/held?group=ml")
    assert answer["groups"] == ["company", "staff"]
    assert [grant.get("through") for grant in answer["grants"]] == [["staff", "company"], ["staff"], None]
    through = {use["name"]: use.get("through") for use in answer["use_grants"]}
    assert through["cluster:west:group:company"] == ["staff", "company"]
    assert get(api, "access/held?user=ana")["grants"][0]["through"] == ["ml", "staff", "company"]


def test_with_a_scope_only_what_reaches_it_counts(make_app: MakeApp) -> None:
    api = make_app(**CLOSED).test_client()
    settle(api)
    answer = get(api, f"access/held?user=ana&project={PROJECT}&domain={DOMAIN}")
    assert names(answer) == [GRANTS[2]]
    assert f"that reaches project-domain {PROJECT}/{DOMAIN}" in answer["message"]
    assert names(answer, "use_grants") == USES
    elsewhere = get(api, f"access/held?user=ana&project={PROJECT}&domain=staging")
    assert names(elsewhere, "use_grants") == USES[1:], "the project's is for who may create executions there"
    assert elsewhere["message"].startswith(f"User ana has no grant that reaches project-domain {PROJECT}/staging.")
    root = get(api, f"access/held?user=root&project={PROJECT}")
    assert "users.write" not in root["grants"][0]["permissions"], "which counts on the platform alone"
    assert set(get(api, "access/held?user=root")["grants"][0]["permissions"]) == set(PERMISSIONS)
    refused(api.get(f"{API}/access/held?user=ana&project=nope"), 400, "unknown_project")
    refused(api.get(f"{API}/access/held?user=ana&workflow=w"), 400, "invalid_request", "project")


def test_pages_join_without_gaps(make_app: MakeApp) -> None:
    api = make_app(**CLOSED).test_client()
    settle(api)
    for size in (1, 2, 4):
        pages = [get(api, f"access/held?user=ana&limit={size}")]
        while "token" in pages[-1]:
            pages.append(get(api, f"access/held?user=ana&limit={size}&token={pages[-1]['token']}"))
        assert [name for page in pages for name in names(page)] == GRANTS
        assert [name for page in pages for name in names(page, "use_grants")] == USES
        assert all(len(page["grants"]) + len(page["use_grants"]) <= size for page in pages)
        assert len({page["message"] for page in pages}) == 1
    first = get(api, "access/held?user=ana&limit=2")
    ok(api.delete(f"{API}/grants/{GRANTS[1]}"))  # which the first page ended with
    second = get(api, f"access/held?user=ana&limit=2&token={first['token']}")
    assert names(second) == [GRANTS[2]]
    for token in ("WyJ4IiwgInkiXQ", "WyJncmFudCIsICJ4Il0", "WyJ4Il0"):
        refused(api.get(f"{API}/access/held?user=ana&token={token}"), 400, "invalid_request", "token")


def test_bad_questions_are_refused(api: FlaskClient) -> None:
    refused(api.get(f"{API}/access/held"), 400, "invalid_request", "user")
    refused(api.get(f"{API}/access/held?user=ana&group=ml"), 400, "invalid_request", "user")
    refused(api.get(f"{API}/access/held?usr=ana"), 400, "invalid_request")


def test_somebody_whom_nobody_knows_is_told_with_the_nearest(app: Flask) -> None:
    give(app.test_client(), role="admin", user="root")
    root = signed_in(app, "root")
    define(root, "research", "root")
    answer = get(root, "access/held?user=rot")
    assert answer["message"].startswith("User rot has no grant.")
    assert answer["unknown_names"] == [
        {
            "field": "user",
            "value": "rot",
            "message": "No user is called 'rot'. Did you mean 'root'?",
            "closest": ["root"],
        }
    ]
    assert get(root, "access/held?group=reserch")["unknown_names"][0]["closest"] == ["research"]
    assert "unknown_names" not in get(root, "access/held?user=root")
    assert "unknown_names" not in get(root, "access/held?user=cluster/east")
    assert get(root, "access/held?user=root")["message"].startswith("User root may do everything, by 1 grant.")


def test_an_admin_without_users_says_that_nothing_is_refused(api: FlaskClient) -> None:
    give(api, role="viewer", user="ana")
    message = get(api, "access/held?user=ana")["message"]
    assert "This admin has no users, so that nothing is refused to anybody" in message
    assert message.endswith("Clusters are open: everybody may use every cluster.")


def test_what_the_shared_token_may_do(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("operators-token-1234567890")
    assert "has no shared token" in get(make_app().test_client(), "access/held?user=shared-token")["message"]
    api = make_app(server={"apiTokenFile": str(tmp_path / "token")}).test_client()
    api.environ_base["HTTP_AUTHORIZATION"] = "Bearer operators-token-1234567890"
    assert "may do everything" in get(api, "access/held?user=shared-token")["message"]


# What is told


def test_the_administrator_of_a_project_sees_what_is_held_there(make_app: MakeApp) -> None:
    app = make_app(**CLOSED)
    settle(app.test_client())
    root = signed_in(app, "root")
    give(root, role="admin", user="steward", project=PROJECT)
    steward = signed_in(app, "steward")
    answer = get(steward, "access/held?user=ana")
    assert names(answer) == [GRANTS[2]]
    assert (answer["partial"], answer["groups"], "use_grants" in answer) == (True, ["ml"], False)
    assert "1 grant that you may see" in answer["message"]
    assert all(word not in str(answer) for word in ("staff", OTHER, "production", "racks", "gpu", "east"))
    nothing = get(steward, "access/held?user=nobody-at-all")
    assert (nothing["grants"], nothing["groups"], "unknown_names" in nothing) == ([], [], False)
    hidden, absent = (
        steward.get(f"{API}/access/held?user=ana&project={project}").get_json() for project in (OTHER, "flytefoo")
    )
    assert hidden["error"] == absent["error"] == "unknown_project"


def test_everybody_may_ask_what_they_may_do_themselves(make_app: MakeApp) -> None:
    app = make_app(**CLOSED)
    settle(app.test_client())
    root, ana = signed_in(app, "root"), signed_in(app, "ana")
    own = get(ana, "access/held?user=ana")
    assert names(own) == GRANTS
    assert names(own, "use_grants") == USES
    assert "partial" not in own
    whole = get(root, "access/held?user=ana")
    assert own["message"] == whole["message"]
    assert "author" not in own["use_grants"][0]["provenance"]["definition"], "who may not read use grants"
    refused(ana.get(f"{API}/access/held?user=otto"), 403, "permission_denied")
    refused(ana.get(f"{API}/access/held?group=ml"), 403, "permission_denied")


def test_a_narrowed_token_is_told_of(make_app: MakeApp) -> None:
    app = make_app(**CLOSED)
    settle(app.test_client())
    signed_in(app, "ana")
    token = user_tokens.create_token(context_of(app), "ana", "job", None, {"role": "viewer", "project": OTHER}).token
    narrow = app.test_client()
    narrow.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    answer = get(narrow, "access/held?user=ana")
    assert answer["narrowed"]["role"] == "viewer"
    assert "The token of this request is narrower" in answer["message"]


@pytest.mark.parametrize("is_closed", [True, False])
def test_groups_that_only_a_login_names_count_too(make_app: MakeApp, is_closed: bool) -> None:
    app = make_app(**CLOSED if is_closed else {})
    api = app.test_client()
    give(api, role="viewer", group="research", project=PROJECT)
    note_proven_groups(
        context_of(app), Identity(user="eve", groups=frozenset({"research"}), proof=Proof.OPENID, issued_at=1.0)
    )
    answer = get(api, "access/held?user=eve")
    assert [(grant["role"], grant["through"]) for grant in answer["grants"]] == [("viewer", ["research"])]
