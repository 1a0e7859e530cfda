"""Groups, grants and access over the API and in services, on SQLite and on PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from flask import Flask
from flask.testing import FlaskClient

from admin.core.changes import ANYTHING
from admin.core.fleet.definitions import FleetKind
from admin.core.grants import Grant, Grantee, Grants
from admin.core.identities import Identity, Proof
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.user_groups import Memberships, UserGroup
from admin.errors import LastAdministrator, PermissionDenied, RevisionNotFound, UnknownProject
from admin.services import grants as grant_services
from admin.services import rollbacks, user_groups, user_tokens, users
from admin.services.access import UNRESTRICTED, Access
from admin.services.administrators import administrators
from admin.services.attributes import write_attribute
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.fleet import definition_write
from admin.services.changeable.projects import project_write
from admin.services.changes import make_change
from admin.services.context import Context
from admin.store.cache import rights_changes
from admin.store.cache.known_grants import CACHE_SECONDS, KnownGrants
from admin.store.grants import grants as grants_table
from admin.store.revision_tables import revision_changes, revisions
from tests.conftest import MakeApp
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, get, ok, refused
from tests.support.statements import statements

SLOW_ON = ("postgresql",)

EDITOR: dict[str, Any] = {"role": "editor", "user": "ada", "project": PROJECT, "domain": DOMAIN}
NAME = f"editor:user:ada:{PROJECT}:{DOMAIN}"


def give(api: FlaskClient, **definition: str) -> Any:
    return ok(api.post(f"{API}/grants", json={"grant": definition}))


def define(api: FlaskClient, name: str, *users: str, groups: list[str] | None = None, **more: Any) -> Any:
    body = {"group": {"name": name, "users": list(users), "groups": groups or [], **more}}
    return ok(api.put(f"{API}/groups/{name}", json=body))


def changes(api: FlaskClient, *documents: object, query: str = "") -> Any:
    return api.post(f"{API}/attribute_changes{query}", json={"changes": list(documents)})


# Groups


def test_a_group_is_created_changed_listed_and_deleted(api: FlaskClient) -> None:
    body = {"group": {"name": "ml", "users": ["otto", "ada"], "description": "Learning."}, "message": "new"}
    tried = ok(api.post(f"{API}/groups?dry_run=true", json=body))
    assert (tried["changed"], tried["dry_run"], tried["group"]["users"]) == (True, True, ["ada", "otto"])
    refused(api.get(f"{API}/groups/ml"), 404, "group_not_found")
    made = ok(api.post(f"{API}/groups", json=body))
    assert (made["version"], made["changed"]) == (1, True)
    assert made["group"] == get(api, "groups/ml")
    assert made["group"]["provenance"]["definition"]["message"] == "new"
    refused(api.post(f"{API}/groups", json=body), 409, "already_exists", "group.name")
    again = ok(api.put(f"{API}/groups/ml", json=body))
    assert (again["changed"], again["version"]) == (False, 1)
    stale = api.put(f"{API}/groups/ml", json={"group": {"users": []}}, headers={"If-Match": '"7"'})
    refused(stale, 409, "version_conflict")
    changed = ok(api.put(f"{API}/groups/ml", json={"group": {"users": ["mia"]}}, headers={"If-Match": '"1"'}))
    assert (changed["version"], changed["group"]["users"]) == (2, ["mia"])
    define(api, "ops")
    page = get(api, "groups?limit=1")
    assert [group["name"] for group in page["groups"]] == ["ml"]
    assert [group["name"] for group in get(api, f"groups?token={page['token']}")["groups"]] == ["ops"]
    assert ok(api.delete(f"{API}/groups/ml"))["changed"]
    assert not ok(api.delete(f"{API}/groups/ml"))["changed"]
    gone = refused(api.get(f"{API}/groups/ml"), 404, "group_not_found")
    assert "was deleted by" in gone["message"]
    assert refused(api.get(f"{API}/groups/op"), 404, "group_not_found")["details"][0]["closest"] == ["ops"]


def test_bad_groups_are_refused_and_nothing_changes(api: FlaskClient) -> None:
    bad: list[tuple[Any, str]] = [
        ({"name": "a b"}, "name"),
        ({"name": "ml", "users": ["a b"]}, "users.0"),
        ({"name": "ml", "users": ["ada", "ada"]}, "users"),
        ({"name": "ml", "groups": ["ml"]}, "groups"),
        ({"name": "ml", "member": ["ada"]}, "member"),
        ({"users": ["ada"]}, "group.name"),
        ([], "group"),
    ]
    for definition, field in bad:
        refused(api.post(f"{API}/groups", json={"group": definition}), 400, "invalid_request", field)
    refused(api.put(f"{API}/groups/ml", json={"group": {"name": "other"}}), 400, "invalid_request", "group.name")
    assert get(api, "groups") == {"groups": []}


def test_a_group_cannot_contain_itself_through_others(api: FlaskClient) -> None:
    define(api, "ml")
    define(api, "staff", groups=["ml"])
    define(api, "all", groups=["staff"])
    answer = refused(api.put(f"{API}/groups/ml", json={"group": {"groups": ["all"]}}), 400, "invalid_request", "groups")
    assert "ml → all → staff → ml" in answer["message"]
    documents = [
        {"group_definition": {"name": "x", "groups": ["y"]}},
        {"group_definition": {"name": "y", "groups": ["x"]}},
    ]
    refused(changes(api, *documents), 400, "invalid_request", "groups")
    assert get(api, "groups/ml")["groups"] == []


def test_a_group_that_nobody_defined_is_warned_of_for_as_long(api: FlaskClient) -> None:
    answer = define(api, "staff", groups=["interns"])
    [warning] = answer["warnings"]
    assert (warning["code"], warning["name"], warning["field"]) == ("unknown_group", "staff", "groups")
    answer = give(api, role="viewer", group="intern")
    [warning] = answer["warnings"]
    assert (warning["code"], warning["name"]) == ("unknown_group", "viewer:group:intern")
    stored = [item for item in get(api, "warnings")["warnings"] if item["code"] == "unknown_group"]
    assert [(item["resource_type"], item["name"]) for item in stored] == [
        ("GROUP", "staff"),
        ("GRANT", "viewer:group:intern"),
    ]
    assert [item["set_by"]["revision"] for item in stored] == [1, 2]
    define(api, "interns")
    define(api, "intern")
    assert [item for item in get(api, "warnings")["warnings"] if item["code"] == "unknown_group"] == []


def test_a_group_in_use_is_deleted_by_force_only(api: FlaskClient) -> None:
    define(api, "ml", "ada")
    define(api, "staff", groups=["ml"])
    give(api, role="viewer", group="ml")
    answer = refused(api.delete(f"{API}/groups/ml"), 409, "in_use")
    assert [detail["field"] for detail in answer["details"]] == ["grant", "group"]
    assert "it has the role viewer on platform" in answer["message"]
    both = [
        {"group_definition": {"name": "ml"}, "delete": True},
        {"grant_definition": {"name": "viewer:group:ml"}, "delete": True},
        {"group_definition": {"name": "staff"}},
    ]
    ok(changes(api, *both, query="?dry_run=true"))
    assert ok(api.delete(f"{API}/groups/ml?force=true"))["changed"]
    assert get(api, "grants/viewer:group:ml")["group"] == "ml"


# Grants


def test_a_grant_is_given_listed_and_taken(api: FlaskClient) -> None:
    tried = ok(api.post(f"{API}/grants?dry_run=true", json={"grant": EDITOR}))
    assert (tried["dry_run"], tried["grant"]) == (True, {"name": NAME, **EDITOR})
    refused(api.get(f"{API}/grants/{NAME}"), 404, "grant_not_found")
    made = ok(api.post(f"{API}/grants", json={"grant": EDITOR, "message": "their own"}))
    assert (made["version"], made["grant"]) == (1, get(api, f"grants/{NAME}"))
    grant = made["grant"]
    assert {key: grant[key] for key in ("name", "role", "user", "project", "domain", "level")} == {
        "name": NAME,
        **EDITOR,
        "level": "project-domain",
    }
    assert grant["provenance"]["definition"]["message"] == "their own"
    taken = refused(api.post(f"{API}/grants", json={"grant": {**EDITOR, "name": NAME}}), 409, "already_exists")
    assert "There is nothing to do." in taken["message"]
    assert ok(api.delete(f"{API}/grants/{NAME}", json={"message": "gone"}))["changed"]
    assert not ok(api.delete(f"{API}/grants/{NAME}"))["changed"]
    assert "was deleted by" in refused(api.get(f"{API}/grants/{NAME}"), 404, "grant_not_found")["message"]
    history = get(api, "revisions?resource_type=grant")["revisions"]
    assert [revision["number"] for revision in history] == [2, 1]
    assert get(api, f"timeline?resource_type=grant&name={NAME}")["entries"][0]["revision"] == 2


def test_grants_are_listed_by_role_grantee_and_scope(api: FlaskClient) -> None:
    give(api, role="viewer", user="ada")
    give(api, role="viewer", group="ml", domain=DOMAIN)
    give(api, role="editor", user="ada", project=PROJECT)
    give(api, role="editor", user="otto", project=PROJECT, domain=DOMAIN, workflow="w", launch_plan="l")

    def names(query: str) -> list[str]:
        return [grant["name"] for grant in get(api, f"grants?{query}")["grants"]]

    last = f"editor:user:otto:{PROJECT}:{DOMAIN}:w:l"
    assert names("") == [f"editor:user:ada:{PROJECT}", last, f"viewer:group:ml::{DOMAIN}", "viewer:user:ada"]
    assert names("user=ada") == [f"editor:user:ada:{PROJECT}", "viewer:user:ada"]
    assert names("group=ml") == [f"viewer:group:ml::{DOMAIN}"]
    assert names("role=editor&user=otto") == [last]
    assert names(f"project={PROJECT}") == [f"editor:user:ada:{PROJECT}", last]
    assert names(f"domain={DOMAIN}") == [last, f"viewer:group:ml::{DOMAIN}"]
    page = get(api, "grants?limit=3")
    assert [grant["name"] for grant in get(api, f"grants?token={page['token']}")["grants"]] == ["viewer:user:ada"]
    refused(api.get(f"{API}/grants?project=nope"), 400, "unknown_project")


def test_bad_grants_are_refused_and_nothing_changes(api: FlaskClient) -> None:
    bad: list[tuple[Any, str]] = [
        ({"role": "editr", "user": "ada"}, "grant.role"),
        ({"role": "editor"}, "grant.user"),
        ({"user": "ada"}, "grant.role"),
        ({"role": "editor", "user": "ada", "group": "ml"}, "grant.group"),
        ({"role": "editor", "user": "a b"}, "grant.user"),
        ({"role": "editor", "user": "ada", "workflow": "w"}, "grant.project"),
        ({"role": "editor", "user": "ada", "name": "x"}, "grant.name"),
        ("editor", "grant"),
    ]
    for definition, field in bad:
        refused(api.post(f"{API}/grants", json={"grant": definition}), 400, "invalid_request", field)
    refused(api.post(f"{API}/grants", json={"grant": {**EDITOR, "project": "nope"}}), 400, "unknown_project")
    refused(api.post(f"{API}/grants", json={"grant": {**EDITOR, "domain": "nope"}}), 400, "unknown_domain")
    assert get(api, "grants") == {"grants": []}


def test_odd_names_of_users_are_kept_as_they_are(api: FlaskClient) -> None:
    for user in ("ada@example.org", "A-b_c.d", "cluster/east", "x" * 128):
        name = give(api, role="viewer", user=user)["grant"]["name"]
        assert get(api, f"grants/{name}")["user"] == user
        assert ok(api.delete(f"{API}/grants/{name}"))["changed"]


def test_many_rows_are_one_revision_and_are_rolled_back(api: FlaskClient) -> None:
    documents = [
        {"project_definition": {"id": "search"}},
        {"group_definition": {"name": "ml", "users": ["ada"]}},
        {"grant_definition": {"role": "editor", "group": "ml", "project": "search"}},
        {"resource_type": "EXECUTION_CLUSTER_LABEL", "project": "search", "payload": {"value": "mycluster"}},
    ]
    planned = ok(changes(api, *documents, query="?dry_run=true"))
    assert planned["counts"]["create"] == 4
    made = ok(changes(api, *documents))
    assert (made["revision"], made["warnings"]) == (1, [])
    assert ok(changes(api, *documents))["changed"] is False
    name = "editor:group:ml:search"
    refused(api.post(f"{API}/rollbacks", json={"to": 0, "everything": False}), 400, "invalid_request")
    undone = ok(api.post(f"{API}/rollbacks", json={"revision": 1}))
    assert undone["counts"]["delete"] == 4
    refused(api.get(f"{API}/grants/{name}"), 404, "grant_not_found")
    ok(api.post(f"{API}/rollbacks", json={"revision": 2}))
    assert get(api, f"grants/{name}")["version"] == 3
    assert get(api, "groups/ml")["users"] == ["ada"]
    one = ok(changes(api, {"grant_definition": {"role": "editor", "group": "ml", "project": "search"}, "delete": True}))
    assert one["counts"]["delete"] == 1


def test_a_project_with_grants_is_not_removed(api: FlaskClient) -> None:
    ok(api.post(f"{API}/projects", json={"project": {"id": "search"}}))
    give(api, role="viewer", user="ada", project="search")
    answer = refused(api.post(f"{API}/rollbacks", json={"revision": 1}), 400, "invalid_request", "project")
    assert "still has grants" in answer["message"]
    ok(api.delete(f"{API}/grants/viewer:user:ada:search"))
    ok(api.post(f"{API}/rollbacks", json={"revision": 1}))


def signed_in(app: Flask, name: str) -> FlaskClient:
    """A client that calls with a token of a new user."""
    context = context_of(app)
    users.create_user(context, name, {}, ChangeOptions())
    token = user_tokens.create_token(context, name, "laptop").token
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return client


def test_the_last_administrator_stays(app: Flask) -> None:
    anybody = app.test_client()
    define(anybody, "root", "ada", "nobody")
    give(anybody, role="admin", group="root")
    give(anybody, role="admin", user="otto", project=PROJECT)
    give(anybody, role="admin", user="ghost")  # who does not exist, and so counts for nothing
    api = signed_in(app, "ada")
    for response in (
        api.delete(f"{API}/grants/admin:group:root"),
        api.delete(f"{API}/groups/root?force=true"),
        api.put(f"{API}/groups/root", json={"group": {"users": []}}),
        api.delete(f"{API}/users/ada"),
        api.post(f"{API}/rollbacks", json={"revision": 2}),
        api.post(f"{API}/rollbacks?force=true", json={"to": 0, "everything": True}),
        changes(api, {"grant_definition": {"name": "admin:group:root"}, "delete": True}),
    ):
        assert "now ada may" in refused(response, 409, "last_administrator")["message"]
    assert get(api, "groups/root")["users"] == ["ada", "nobody"]
    signed_in(app, "mia")
    swap = [
        {"grant_definition": {"name": "admin:group:root"}, "delete": True},
        {"grant_definition": {"role": "admin", "user": "mia"}},
    ]
    ok(changes(api, *swap))
    options = ChangeOptions(access=access(held("admin")))
    with pytest.raises(LastAdministrator):
        grant_services.delete_grant(context_of(app), "admin:user:mia", ANYTHING, options)


def test_the_last_administrator_who_has_a_token_for_it_stays(app: Flask) -> None:
    give(app.test_client(), role="admin", user="ada")
    api, context = signed_in(app, "ada"), context_of(app)
    for name in ("bea", "robot"):
        ok(api.post(f"{API}/users", json={"user": {"name": name}}))
        give(api, role="admin", user=name)
    removal = f"{API}/grants/admin:user:ada"
    message = refused(api.delete(removal), 409, "last_administrator")["message"]
    assert "has a token for it (now: ada; left without one: bea, robot)" in message
    assert "`rainbowctl create user-token bea NAME`" in message
    user_tokens.create_token(context, "robot", "narrow", narrowed={"role": "viewer"})
    gone = user_tokens.create_token(context, "bea", "gone")
    user_tokens.revoke(context, "bea", gone.prefix)
    for response in (api.delete(removal), api.delete(f"{API}/users/ada")):
        refused(response, 409, "last_administrator")
    user_tokens.create_token(context, "bea", "laptop")
    ok(api.delete(removal))


def test_without_anybody_who_has_a_token_the_last_administrator_stays_all_the_same(app: Flask) -> None:
    api, context = app.test_client(), context_of(app)
    give(api, role="admin", user="ada")
    users.create_user(context, "ada", {}, ChangeOptions())
    with pytest.raises(LastAdministrator):
        grant_services.delete_grant(context, "admin:user:ada", ANYTHING, ChangeOptions())
    users.create_user(context, "bea", {}, ChangeOptions())
    bea = Grant(role="admin", grantee=Grantee("user", "bea"))
    grant_services.create_grant(context, bea, ChangeOptions())
    grant_services.delete_grant(context, "admin:user:ada", ANYTHING, ChangeOptions())


def test_where_openid_is_configured_people_need_no_token_to_be_the_last_administrator(make_app: MakeApp) -> None:
    app = make_app(openid={"issuer": "http://127.0.0.1:9/", "audience": "rainbow"})
    context = context_of(app)
    for name, payload in (("ada", {}), ("bea", {}), ("robot", {"service_account": True})):
        users.create_user(context, name, payload, ChangeOptions())
        grant = Grant(role="admin", grantee=Grantee("user", name))
        grant_services.create_grant(context, grant, ChangeOptions())
    user_tokens.create_token(context, "ada", "laptop")
    grant_services.delete_grant(context, "admin:user:ada", ANYTHING, ChangeOptions())
    with pytest.raises(LastAdministrator):
        grant_services.delete_grant(context, "admin:user:bea", ANYTHING, ChangeOptions())


def test_the_administrator_of_a_project_sees_and_rolls_back_what_changes_of_its_grants(app: Flask) -> None:
    give(app.test_client(), role="admin", user="root")
    root = signed_in(app, "root")
    give(root, role="admin", user="mia", project=PROJECT, domain=DOMAIN)
    mia = signed_in(app, "mia")
    give(root, role="viewer", user="otto", project="flyteexamples")
    give(mia, role="viewer", user="otto", project=PROJECT, domain=DOMAIN)
    given = give(mia, role="viewer", user="eve", project=PROJECT, domain=DOMAIN, workflow="w")["revision"]
    both = ok(
        changes(
            root,
            {"grant_definition": {"role": "viewer", "user": "eve", "project": PROJECT}},
            {"grant_definition": {"role": "viewer", "user": "zoe", "project": PROJECT, "domain": DOMAIN}},
        )
    )["revision"]
    ok(mia.delete(f"{API}/grants/viewer:user:otto:{PROJECT}:{DOMAIN}"))

    def names(path: str) -> list[str]:
        return [change["name"] for change in get(mia, path)["changes"]]

    listed = get(mia, "revisions?resource_type=grant")["revisions"]
    assert [revision["change_count"] for revision in listed] == [1, 1, 1, 1, 1]
    assert [revision["number"] for revision in listed][1:3] == [both, given]
    assert names(f"revisions/{both}") == [f"viewer:user:zoe:{PROJECT}:{DOMAIN}"]
    timeline = get(mia, "timeline?resource_type=grant")["entries"]
    assert [entry["number"] for entry in timeline] == [revision["number"] for revision in listed]
    assert all("flyteexamples" not in str(document) for document in (listed, timeline))
    refused(mia.get(f"{API}/revisions/{given - 2}"), 404, "revision_not_found")
    rows = get(mia, f"revision_diff?from={given - 1}&to={both}")["rows"]
    assert [row["name"] for row in rows] == [
        f"viewer:user:eve:{PROJECT}:{DOMAIN}:w",
        f"viewer:user:zoe:{PROJECT}:{DOMAIN}",
    ]
    undone = ok(mia.post(f"{API}/rollbacks", json={"revision": given}))
    assert [row["name"] for row in undone["rows"]] == [f"viewer:user:eve:{PROJECT}:{DOMAIN}:w"]
    refused(mia.post(f"{API}/rollbacks", json={"revision": both}), 403, "permission_denied")
    ok(mia.post(f"{API}/rollbacks", json={"revision": both + 1}))  # which gives otto's back
    assert [grant["user"] for grant in get(mia, "grants")["grants"]] == ["mia", "otto", "zoe"]


def test_what_the_shared_token_may_is_explained(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("operators-token-1234567890")
    question = f"access/explanation?user=shared-token&permission=attributes.write&project={PROJECT}"
    answer = get(make_app().test_client(), question)
    assert (answer["allowed"], answer["roles"], answer["could_give"]) == (False, [], [])
    assert "this admin has no shared token" in answer["message"]
    api = make_app(server={"apiTokenFile": str(tmp_path / "token")}).test_client()
    api.environ_base["HTTP_AUTHORIZATION"] = "Bearer operators-token-1234567890"
    answer = get(api, question)
    assert (answer["allowed"], answer["grants"]) == (True, [])
    assert answer["message"] == (
        f"User shared-token has attributes.write on project {PROJECT}: whoever has the shared token may do everything "
        "without a grant."
    )
    anywhere = get(api, "access/explanation?user=shared-token&permission=fleet.read")
    assert "has fleet.read at any scope:" in anywhere["message"]


def test_the_first_administrator_is_made_where_no_user_is_one(app: Flask, context: Context) -> None:
    users.create_user(context, "ada", {}, ChangeOptions())
    assert grant_services.make_first_administrator(context, "ada", ChangeOptions())
    assert not grant_services.make_first_administrator(context, "ada", ChangeOptions())
    users.create_user(context, "bea", {}, ChangeOptions())
    assert not grant_services.make_first_administrator(context, "bea", ChangeOptions())
    with context.database.reading() as connection:
        assert administrators(context, connection) == {"ada"}


def test_roles_of_configuration(make_app: MakeApp) -> None:
    roles = {"auditor": {"description": "Looks.", "permissions": ["grants.read", "audit.read"]}}
    api = make_app(roles=roles).test_client()
    answer = get(api, "roles")
    assert [role["name"] for role in answer["roles"]] == [
        *("viewer", "submitter", "editor", "operator", "admin"),
        "auditor",
    ]
    assert answer["roles"][-1]["permissions"] == ["audit.read", "grants.read"]
    give(api, role="auditor", user="ada")
    without = make_app().test_client()
    assert get(without, "access/explanation?user=ada&permission=grants.read")["allowed"] is False
    assert get(api, "access/explanation?user=ada&permission=grants.read")["allowed"] is True
    refused(without.post(f"{API}/grants", json={"grant": {"role": "auditor", "user": "x"}}), 400, "invalid_request")


# Access


def test_who_may_do_what_at_a_scope(api: FlaskClient) -> None:
    define(api, "ml", "ada", "otto")
    define(api, "staff", "mia", groups=["ml"])
    give(api, role="admin", user="root")
    give(api, role="viewer", group="staff", domain=DOMAIN)
    give(api, role="editor", group="ml", project=PROJECT, domain=DOMAIN)
    give(api, role="editor", user="eve", project="flyteexamples")
    access = get(api, f"access?project={PROJECT}&domain={DOMAIN}")
    assert access["level"] == "project-domain"
    assert [(grant["role"], grant.get("users")) for grant in access["grants"]] == [
        ("admin", None),
        ("viewer", ["ada", "mia", "otto"]),
        ("editor", ["ada", "otto"]),
    ]
    assert "attributes.write" in access["grants"][2]["permissions"]
    assert "users.write" not in access["grants"][0]["permissions"], "which counts on the platform alone"
    assert [grant["role"] for grant in get(api, f"access?project={PROJECT}")["grants"]] == ["admin"]
    first = get(api, f"access?project={PROJECT}&domain={DOMAIN}&limit=1")
    pages = [first]
    while "token" in pages[-1]:
        pages.append(get(api, f"access?project={PROJECT}&domain={DOMAIN}&limit=1&token={pages[-1]['token']}"))
    assert [grant for page in pages for grant in page["grants"]] == access["grants"]
    assert [len(page["grants"]) for page in pages] == [1, 1, 1]
    refused(api.get(f"{API}/access?token=WyJ4Il0"), 400, "invalid_request")
    refused(api.get(f"{API}/access?token=WyJ4IiwgInkiXQ"), 400, "invalid_request")
    assert "users.write" in get(api, "access")["grants"][0]["permissions"]
    refused(api.get(f"{API}/access?project=nope"), 400, "unknown_project")


def test_why_someone_may_do_something(api: FlaskClient) -> None:
    define(api, "ml", "ada")
    define(api, "staff", groups=["ml"])
    give(api, role="admin", user="root")
    give(api, role="editor", group="staff", project=PROJECT)
    where = f"project={PROJECT}&domain={DOMAIN}"
    answer = get(api, f"access/explanation?user=ada&permission=attributes.write&{where}")
    assert answer["allowed"] is True
    assert [(grant["name"], grant["through"]) for grant in answer["grants"]] == [
        (f"editor:group:staff:{PROJECT}", ["ml", "staff"])
    ]
    assert answer["message"] == (
        f"User ada has attributes.write on project-domain {PROJECT}/{DOMAIN}, by editor for group staff on project "
        f"{PROJECT} (ada → ml → staff)."
    )
    denied = get(api, "access/explanation?user=ada&permission=attributes.write&project=flyteexamples")
    assert (denied["allowed"], denied["grants"], denied["groups"]) == (False, [], ["ml", "staff"])
    assert [grant["name"] for grant in denied["elsewhere"]] == [f"editor:group:staff:{PROJECT}"]
    assert (denied["roles"], denied["could_give"]) == (["editor", "admin"], ["user root"])
    assert denied["message"].startswith("User ada lacks attributes.write on project flyteexamples: no grant gives it.")
    assert denied["message"].endswith("Roles that hold it: editor, admin. Who could give it: user root.")
    anywhere = get(api, "access/explanation?user=ada&permission=fleet.read&project=flyteexamples")
    assert anywhere["allowed"] is True
    of_group = get(api, f"access/explanation?group=ml&permission=logs.read&{where}")
    assert (of_group["allowed"], of_group["group"]) == (True, "ml")
    wrong = refused(
        api.get(f"{API}/access/explanation?user=ada&permission=log.read"), 400, "invalid_request", "permission"
    )
    assert "logs.read" in wrong["details"][0]["closest"]
    refused(api.get(f"{API}/access/explanation?permission=logs.read"), 400, "invalid_request", "user")


def access(*held: Grant, groups: list[UserGroup] | None = None) -> Access:
    """The access of the user ada, by some grants."""
    return Access(Identity(user="ada", proof=Proof.TOKEN), Grants(held, Memberships(groups or [])))


def held(role: str, noun: str = "user", name: str = "ada", **keys: str) -> Grant:
    return Grant(role=role, grantee=Grantee(noun, name), scope=Scope(**keys))


def test_what_a_caller_may_do() -> None:
    ada = access(held("editor", project=PROJECT))
    assert ada.allows("attributes.write", Scope(DOMAIN, PROJECT))
    assert not ada.allows("attributes.write", Scope(DOMAIN))
    assert ada.allows("fleet.read")
    assert not ada.allows("fleet.write")
    with pytest.raises(PermissionDenied) as refusal:
        ada.check("grants.read", Scope(DOMAIN, PROJECT))
    assert refusal.value.status == 403
    assert refusal.value.message == (
        f"User ada lacks the permission grants.read on project-domain {PROJECT}/{DOMAIN}. `rainbowctl explain access "
        f"ada grants.read -d {DOMAIN} -p {PROJECT}` says who could give it."
    )
    for project in ("flyteexamples", "flytesnack"):  # which is not told from one that does not exist
        with pytest.raises(UnknownProject, match=f"No project is called '{project}'"):
            ada.check("attributes.write", Scope(DOMAIN, project))
    assert UNRESTRICTED.allows("users.write", PLATFORM)


def test_every_row_of_a_change_needs_the_permission_to_write_it(context: Context) -> None:
    kind = context.settings.kinds.find("EXECUTION_CLUSTER_LABEL")

    def write(who: Access, scope: Scope) -> None:
        options = ChangeOptions(access=who)
        write_attribute(context, kind, scope, lambda _before: {"value": "mycluster"}, ANYTHING, options)

    ada = access(held("editor", project=PROJECT))
    write(ada, Scope(DOMAIN, PROJECT))
    with pytest.raises(PermissionDenied):
        write(ada, Scope(DOMAIN))
    write(ada, Scope(DOMAIN, PROJECT))  # which changes nothing
    with pytest.raises(PermissionDenied):
        make_change(context, [definition_write(context, FleetKind.POOL, "p", {"members": [{"id": "a"}]})], of(ada))
    with pytest.raises(PermissionDenied):
        make_change(context, [project_write("search", {})], of(ada))
    write(UNRESTRICTED, Scope(DOMAIN))
    with pytest.raises(PermissionDenied):
        rollbacks.roll_back_everything(context, 0, of(ada))


def of(who: Access) -> ChangeOptions:
    return ChangeOptions(access=who)


def test_nobody_gives_what_they_do_not_have(context: Context) -> None:
    ada = access(held("admin", project=PROJECT))
    grant_services.create_grant(context, held("editor", name="otto", project=PROJECT, domain=DOMAIN), of(ada))
    with pytest.raises(PermissionDenied, match="Nobody gives what they lack"):
        grant_services.create_grant(context, held("viewer", name="otto"), of(ada))
    with pytest.raises(UnknownProject):
        grant_services.create_grant(context, held("viewer", name="otto", project="flyteexamples"), of(ada))
    editor = access(held("editor"))
    with pytest.raises(PermissionDenied, match=r"lacks the permission grants.write"):
        grant_services.create_grant(context, held("viewer", name="otto"), of(editor))
    with pytest.raises(PermissionDenied):
        grant_services.delete_grant(context, f"editor:user:otto:{PROJECT}:{DOMAIN}", ANYTHING, of(editor))
    grant_services.delete_grant(context, f"editor:user:otto:{PROJECT}:{DOMAIN}", ANYTHING, of(ada))


def test_no_rollback_revives_a_grant_that_its_maker_may_not_give(context: Context) -> None:
    options = ChangeOptions()
    users.create_user(context, "root", {}, options)
    grant_services.create_grant(context, held("admin", name="root"), options)
    grant_services.create_grant(context, held("admin", name="eve"), options)
    grant_services.delete_grant(context, "admin:user:eve", ANYTHING, options)
    with pytest.raises(RevisionNotFound):
        rollbacks.roll_back_revisions(context, [4], of(access(held("admin", project=PROJECT))))
    rollbacks.roll_back_revisions(context, [4], of(access(held("admin"))))
    with pytest.raises(LastAdministrator):
        rollbacks.roll_back_everything(context, 0, of(access(held("admin"))))


def test_nobody_puts_others_into_a_group_that_may_do_more(context: Context) -> None:
    options = ChangeOptions()
    user_groups.put_group(context, "root", {"users": ["root"]}, ANYTHING, options)
    user_groups.put_group(context, "ml", {"users": ["mia", "otto"]}, ANYTHING, options)
    grant_services.create_grant(context, held("admin", "group", "root"), options)
    stored = [held("admin", "group", "root"), held("groupie")]
    groups = [UserGroup(name="root", users=frozenset({"root"})), UserGroup(name="ml")]
    roles = {**context.settings.roles, "groupie": _groupie(context)}
    ada = Access(Identity(user="ada"), Grants(stored, Memberships(groups), roles))
    user_groups.put_group(context, "ml", {"users": ["ada", "mia"]}, ANYTHING, of(ada))
    for payload in ({"users": ["ada", "root"]}, {"users": ["root"], "groups": ["ml"]}):
        with pytest.raises(PermissionDenied, match="The members of group root have admin"):
            user_groups.put_group(context, "root", payload, ANYTHING, of(ada))
    user_groups.put_group(context, "root", {"users": ["root"], "description": "x"}, ANYTHING, of(ada))
    nobody = access(held("editor"))
    with pytest.raises(PermissionDenied, match=r"groups.write"):
        user_groups.put_group(context, "ml", {}, ANYTHING, of(nobody))


def _groupie(context: Context) -> Any:
    from dataclasses import replace

    return replace(
        context.settings.roles["viewer"], name="groupie", permissions=frozenset({"groups.read", "groups.write"})
    )


def test_grants_are_known_in_memory_and_read_again_when_they_change(context: Context, api: FlaskClient) -> None:
    def may() -> bool:
        known = context.known_grants.current(context.database, context.settings.roles)
        return Access(Identity(user="ada"), known).allows("attributes.write", Scope(DOMAIN, PROJECT))

    assert not may()
    give(api, **EDITOR)
    assert may()
    first = context.known_grants.current(context.database, context.settings.roles)
    assert context.known_grants.current(context.database, context.settings.roles) is first
    ok(api.delete(f"{API}/grants/{NAME}"))
    assert not may()


def test_another_worker_sees_a_grant_taken_within_a_second(make_app: MakeApp) -> None:
    first, second = make_app(), make_app()
    seconds = [0.0]
    known, context = KnownGrants(lambda: seconds[0]), context_of(second)
    give(first.test_client(), **EDITOR)

    def held_by_ada() -> int:
        return len(known.current(context.database, context.settings.roles).of(Identity(user="ada")))

    assert held_by_ada() == 1
    ok(first.test_client().delete(f"{API}/grants/{NAME}"))
    assert held_by_ada() == 1
    seconds[0] += CACHE_SECONDS
    assert held_by_ada() == 0


class OtherWorker:
    """What another worker knows of grants, a second after it last looked."""

    def __init__(self, app: Flask) -> None:
        self.context = context_of(app)
        self._seconds = 0.0
        self._known = KnownGrants(lambda: self._seconds)

    def look(self) -> Grants:
        self._seconds += CACHE_SECONDS
        return self._known.current(self.context.database, self.context.settings.roles)

    def roles_of(self, user: str) -> set[str]:
        return {grant.role for grant in self.look().of(Identity(user=user))}

    def reads_everything(self) -> bool:
        with statements(self.context) as seen:
            self.look()
        return any("grants.role" in statement and "WHERE" not in statement for statement in seen)


def test_another_worker_reads_of_many_grants_only_those_that_change(make_app: MakeApp) -> None:
    app = make_app()
    api, other = app.test_client(), OtherWorker(app)
    give(api, **EDITOR)
    assert other.reads_everything()
    give(api, role="viewer", user="bea")
    define(api, "ops", "ada")
    give(api, role="operator", group="ops")
    assert not other.reads_everything()
    assert (other.roles_of("ada"), other.roles_of("bea")) == ({"editor", "operator"}, {"viewer"})
    ok(api.delete(f"{API}/grants/{NAME}"))
    ok(api.put(f"{API}/groups/ops", json={"group": {"users": ["bea"]}}))
    assert not other.reads_everything()
    assert (other.roles_of("ada"), other.roles_of("bea")) == (set(), {"viewer", "operator"})
    with statements(other.context) as seen:
        for _ in range(3):
            other.look()
    assert not [statement for statement in seen if "revision_changes" in statement or "user_groups" in statement]


def test_another_worker_reads_all_grants_where_the_changes_are_too_many_or_pruned(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    api, other = app.test_client(), OtherWorker(app)
    other.look()
    monkeypatch.setattr(rights_changes, "MOST_CHANGES", 2)
    for name in ("ada", "bea"):
        give(api, role="viewer", user=name)
    assert not other.reads_everything()
    for name in ("cid", "dan", "eve"):
        give(api, role="viewer", user=name)
    assert other.reads_everything()
    assert other.roles_of("eve") == {"viewer"}
    give(api, role="editor", user="eve")
    with other.context.database.writing() as connection:
        for table in (revision_changes, revisions):
            connection.execute(sqlalchemy.delete(table))
    give(api, role="operator", user="eve")
    assert other.reads_everything()
    assert other.roles_of("eve") == {"viewer", "editor", "operator"}


def test_another_worker_reads_all_grants_of_a_database_that_was_restored(make_app: MakeApp) -> None:
    app = make_app()
    api, other = app.test_client(), OtherWorker(app)
    give(api, **EDITOR)
    give(api, role="viewer", user="ada")
    assert other.roles_of("ada") == {"editor", "viewer"}
    with other.context.database.writing() as connection:  # as it was before the first of them, and others since
        connection.execute(sqlalchemy.update(revisions).values(created_at=datetime(2026, 1, 1, tzinfo=UTC)))
        connection.execute(sqlalchemy.delete(grants_table).where(grants_table.c.role == "viewer"))
    assert other.roles_of("ada") == {"editor"}


def test_an_explanation_reads_only_the_grants_that_it_needs(make_app: MakeApp) -> None:
    app = make_app()
    api, other = app.test_client(), context_of(app)
    define(api, "ops", "ada")
    give(api, role="operator", group="ops")
    give(api, role="admin", user="root")
    give(api, **EDITOR)
    with statements(other) as seen:
        explained = get(api, "access/explanation?user=ada&permission=clusters.switch")
    assert (explained["allowed"], explained["could_give"]) == (True, ["user root"])
    assert all("WHERE" in statement for statement in seen if "grants.role" in statement)


def test_a_dry_run_tells_what_leaves_with_a_group(app: Flask) -> None:
    anybody = app.test_client()
    define(anybody, "ml", "ana", "otto")
    define(anybody, "staff", groups=["ml"])
    give(anybody, role="admin", user="root")
    give(anybody, role="editor", group="ml", project=PROJECT)
    give(anybody, role="viewer", group="staff", domain="production")
    give(anybody, role="viewer", user="ana", project=PROJECT)
    root = signed_in(app, "root")
    without_ana = {"group": {"users": ["otto"]}}
    planned = ok(root.put(f"{API}/groups/ml?dry_run=true", json=without_ana))["lost_rights"]
    assert [(right["user"], right["role"], right["through"]) for right in planned] == [
        ("ana", "viewer", ["ml", "staff"]),
        ("ana", "editor", ["ml"]),
    ]
    viewer, editor = planned
    assert (viewer["domain"], editor["project"]) == ("production", PROJECT)
    assert "attributes.write" in editor["permissions"]
    assert "attributes.read" not in editor["permissions"], "which she keeps by a grant of her own"
    assert editor["message"].startswith(f"User ana loses editor on project {PROJECT} (ana → ml): attributes.write, ")
    document = {"group_definition": {"name": "ml", "users": ["otto"]}}
    assert ok(changes(root, document, query="?dry_run=true"))["lost_rights"] == planned
    everyone = ok(root.delete(f"{API}/groups/ml?dry_run=true&force=true"))["lost_rights"]
    assert {right["user"] for right in everyone} == {"ana", "otto"}
    assert "lost_rights" not in ok(root.put(f"{API}/groups/ml", json=without_ana))
