"""Every route asks for its permission: each role, at a scope of its own and at another, on every route."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.api.operations import Operation
from admin.app import all_operations
from admin.core.grants import Grant, Grantee
from admin.core.permissions import OF_EACH_ROW, OPEN, OWN_AGENT, PERMISSIONS, ROLES
from admin.core.settings.scopes import Scope
from admin.services import grants, user_tokens, users
from admin.services.changeable.base import ChangeOptions
from tests.robustness.pictures import shared_sqlite_only
from tests.robustness.test_nul import BODIES, ENTRY, path_of
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, create, ok, register_plan, register_workflow

SLOW_ON = ("postgresql",)

FOREIGN, ABSENT = "flyteexamples", "flyteexamplex"
WHERE = f"project={PROJECT}&domain={DOMAIN}"
#: Of each route: whether a grant on a project is enough for what is of that project (with the query that names it where
#: its path and body do not), or for a list of what may be seen, or at any scope, or only one on the platform; or which
#: other requirement it has.
OWN, SOME, ANYWHERE, PLATFORM, OTHER = "own", "some", "anywhere", "platform", "other"
_LEVELS = ("project", "project_domain", "workflow", "launch_plan")
_FLEET = ("cluster", "pool", "label", "cluster_group")
ROWS: dict[str, tuple[str, str]] = {
    **{f"get_{level}_attribute": (OWN, "resource_type=3") for level in _LEVELS},
    **{f"{verb}_{level}_attribute": (OWN, "") for verb in ("put", "patch", "delete") for level in _LEVELS},
    "get_domain_attribute": (PLATFORM, "resource_type=3"),
    **{f"{verb}_domain_attribute": (PLATFORM, "") for verb in ("put", "patch", "delete")},
    "list_attributes": (OWN, f"resource_type=3&{WHERE}"),
    "list_no_effect": (OWN, WHERE),
    "get_effective_attributes": (OWN, WHERE),
    "propose_effective_attributes": (OWN, ""),
    "compare_effective_attributes": (OWN, f"{WHERE}&other_project={PROJECT}"),
    "get_reach": (OWN, f"resource_type=3&{WHERE}"),
    "get_uses": (SOME, "pool=gpu"),
    "get_warnings": (SOME, ""),
    "list_revisions": (OWN, WHERE),
    "list_timeline": (OWN, WHERE),
    "get_revision": (SOME, ""),
    "diff_revisions": (SOME, "from=0&to=1"),
    "change_attributes": (OTHER, ""),
    "roll_back": (OTHER, ""),
    **dict.fromkeys(
        (
            *("create_execution", "relaunch_execution", "recover_execution", "get_execution", "list_executions"),
            *("list_execution_events", "get_execution_logs", "list_execution_outputs", "explain_execution"),
            *("compare_execution_settings", "set_execution_state", "terminate_execution", "terminate_executions"),
            *("redecide_executions", "place", "simulate"),
        ),
        (OWN, ""),
    ),
    "list_quota_usage": (OWN, WHERE),
    "render_cluster_resources": (OWN, WHERE),
    "list_cluster_resources": (OWN, WHERE),
    "list_token_pools": (ANYWHERE, ""),
    "get_token_pool": (ANYWHERE, ""),
    "explain_token_pool": (ANYWHERE, ""),
    **{f"{verb}_token_pool": (PLATFORM, "") for verb in ("create", "put", "delete")},
    **{f"{verb}_tokens": (OWN, "") for verb in ("allocate", "renew", "release")},
    "get_execution_output": (OWN, "path=x"),
    "list_executions_everywhere": (OWN, WHERE),
    "count_executions": (OWN, f"by=phase&{WHERE}"),
    "count_placements": (OWN, f"by=cluster&{WHERE}"),
    "list_projects": (SOME, ""),
    **{f"{verb}_project": (OWN, "") for verb in ("get", "put", "patch")},
    "create_project": (PLATFORM, ""),
    **dict.fromkeys(
        (
            *("register_workflow", "register_launch_plan", "get_workflow", "get_launch_plan", "set_launch_plan_state"),
            *("get_active_launch_plan", "list_workflows", "list_workflow_versions", "list_launch_plans"),
            *("list_launch_plan_versions", "list_active_launch_plans"),
        ),
        (OWN, ""),
    ),
    **{f"list_{noun}s": (ANYWHERE, "") for noun in _FLEET},
    **{f"get_{noun}": (ANYWHERE, "") for noun in _FLEET},
    "list_definitions": (ANYWHERE, "resource_type=POOL&at=1"),
    "get_pool_shares": (ANYWHERE, ""),
    "compare_two_clusters": (ANYWHERE, "other=x"),
    "list_cluster_events": (ANYWHERE, ""),
    **dict.fromkeys(("get_description", "get_description_tree", "list_descriptions"), (ANYWHERE, "")),
    **{f"{verb}_description": (PLATFORM, "") for verb in ("put", "patch", "delete")},
    **{f"{verb}_{noun}": (PLATFORM, "") for verb in ("create", "put", "delete") for noun in _FLEET},
    **{
        f"{word}_cluster": (PLATFORM, "")
        for word in ("enable", "disable", "cordon", "uncordon", "drain", "undrain", "admit")
    },
    "switch_several_clusters": (PLATFORM, ""),
    "report_cluster_state": (PLATFORM, ""),
    **{f"{verb}_cluster_token": (PLATFORM, "") for verb in ("rotate", "revoke")},
    "list_cluster_tokens": (PLATFORM, ""),
    **dict.fromkeys(("list_reconciliations", "get_reconciliation", "end_reconciliation"), (PLATFORM, "")),
    **dict.fromkeys(("get_clock", "accept_clock", "get_configuration", "list_audit_events"), (PLATFORM, "")),
    **{f"{verb}_{noun}": (PLATFORM, "") for verb in ("get", "create", "put", "delete") for noun in ("group", "user")},
    **dict.fromkeys(("list_groups", "list_users", "list_user_tokens"), (PLATFORM, "")),
    **dict.fromkeys(("create_user_token", "revoke_user_token"), (PLATFORM, "")),
    **{f"{verb}_use_grant": (PLATFORM, "") for verb in ("get", "create", "delete")},
    "list_use_grants": (PLATFORM, ""),
    **dict.fromkeys(("get_grant", "delete_grant"), (SOME, "")),
    "create_grant": (OWN, ""),
    "list_grants": (OWN, WHERE),
    "get_access": (OWN, WHERE),
    "get_held_access": (OWN, f"user=ada&{WHERE}"),
    "list_scopes": (ANYWHERE, ""),
    "list_all_definitions": (OTHER, ""),
    "explain_access": (OWN, f"user=ada&permission=logs.read&{WHERE}"),
    **dict.fromkeys(("list_roles", "list_kinds", "list_domains", "whoami", "list_all_user_tokens"), (OTHER, "")),
    "list_sessions": (OTHER, ""),
    "end_session": (PLATFORM, ""),
    **dict.fromkeys(("register_cluster", "sync_cluster", "exchange_cluster_resources"), (OTHER, "")),
    **dict.fromkeys(("index", "healthz", "readyz", "version", "openapi", "get_provider"), (OTHER, "")),
    **dict.fromkeys(("metrics", "get_health"), (PLATFORM, "")),
}
OPERATIONS = {operation.id: operation for operation in all_operations()}


def test_every_route_has_a_row() -> None:
    assert sorted(ROWS) == sorted(OPERATIONS)


Callers = Mapping[str, FlaskClient]


@pytest.fixture(scope="module")
def callers(shared_app: Flask) -> Callers:
    """A user for each role on the project alone (`viewer-here`) and on the platform; and one without any.

    The administrator has a token for each of these roles and places too (`viewer-here-token`).
    """
    api, context, options = shared_app.test_client(), context_of(shared_app), ChangeOptions()
    ok(api.post(f"{API}/attribute_changes", json={"changes": [ENTRY, {**ENTRY, "project": FOREIGN}]}))
    for project in (PROJECT, FOREIGN):
        ok(register_workflow(api, "flow", project=project))
        ok(register_plan(api, "plan", "flow", project=project))
        ok(create(api, "one", project=project))
    clients = {"": shared_app.test_client()}
    for role in ROLES:
        here = Grant(role=role, grantee=Grantee("user", f"{role}-here"), scope=Scope(project=PROJECT))
        for grant in (here, Grant(role=role, grantee=Grantee("user", role))):
            grants.create_grant(context, grant, options)
            clients[grant.grantee.name] = shared_app.test_client()
    for name in ("nobody", *filter(None, clients)):
        users.create_user(context, name, {}, options)
        client = clients[name] = shared_app.test_client()
        token = user_tokens.create_token(context, name, "laptop").token
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    for role in ROLES:
        for place, keys in (("", {}), ("-here", {"project": PROJECT})):
            client = clients[f"{role}{place}-token"] = shared_app.test_client()
            token = user_tokens.create_token(context, "admin", f"{role}{place}", None, {"role": role, **keys}).token
            client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return clients


Request = tuple[str, Any]  # an address and a body


def request_of(operation: Operation, query: str, project: str) -> Request:
    """What asks a route about a project; without changing anything where it can be tried."""
    names = {"name": f"viewer:user:x:{project}"} if "/grants/" in operation.path else {}
    path = path_of(operation, **names).replace(PROJECT, project)
    asked = [query.replace(PROJECT, project)] if query else []
    if operation.query is not None and "dry_run" in operation.query().fields:
        asked.append("dry_run=true")
    if asked:
        path += ("&" if "?" in path else "?") + "&".join(asked)
    body: Any = BODIES.get(operation.body.__name__) if operation.body is not None else None
    if body is not None:
        about = {key: part for key, part in body.items() if key != "changes"}
        body = {**body, **json.loads(json.dumps(about).replace(PROJECT, project))}
    return path, body


def send(callers: Callers, user: str, operation: Operation, request: Request) -> TestResponse:
    path, body = request
    return callers[user].open(path, method=operation.method, json=body, headers={"X-Request-Id": "same"})


def call(callers: Callers, user: str, operation: Operation, query: str, project: str = PROJECT) -> TestResponse:
    """Call a route as a user, about a project."""
    return send(callers, user, operation, request_of(operation, query, project))


def fields(response: TestResponse) -> dict[str, Any]:
    """The answer, or the error, of a response."""
    answer: dict[str, Any] = response.json or {}
    return answer


def is_denied(response: TestResponse) -> bool:
    """Whether a request was refused for want of a permission; with what is missing, and what explains it."""
    answer = response.get_data(as_text=True)
    assert response.status_code < 500, answer
    if response.status_code != 403:
        return False
    assert fields(response)["error"] == "permission_denied", answer
    assert "rainbowctl explain access" in fields(response)["message"]
    return True


def is_hidden(response: TestResponse, project: str) -> bool:
    """Whether a request was answered as one about a project that does not exist."""
    return f"No project is called '{project}'" in fields(response).get("message", "")


Answers = Mapping[str, TestResponse]  # by the project that a route was asked about


def ask(callers: Callers, user: str, operation: Operation, query: str) -> Answers:
    """What a user is answered about each project; once where a request names none."""
    requests = {project: request_of(operation, query, project) for project in (PROJECT, FOREIGN, ABSENT)}
    own = send(callers, user, operation, requests[PROJECT])
    return {
        project: own if request == requests[PROJECT] else send(callers, user, operation, request)
        for project, request in requests.items()
    }


@shared_sqlite_only
@pytest.mark.parametrize("id", ROWS)
def test_each_role_at_its_own_scope_and_at_another(callers: Callers, id: str) -> None:
    check_each_role(callers, id)


def check_each_role(callers: Callers, id: str) -> None:
    """At its own scope and at another; and a token of an administrator's for a role is as good as a user who has it."""
    operation, (place, query) = OPERATIONS[id], ROWS[id]
    if operation.permission == OF_EACH_ROW:  # which depends on what is written
        return
    known = call(callers, "admin", operation, query, ABSENT)
    for role in [ROLES["viewer"]] if operation.permission == OPEN else ROLES.values():  # what is open asks nobody
        may = operation.permission in role.permissions or place == OTHER
        here = ask(callers, f"{role.name}-here", operation, query)
        own = here[PROJECT]
        assert own.status_code != 401 or place == OTHER
        assert is_denied(own) == (not may or place == PLATFORM), (role.name, own.get_data(as_text=True))
        assert not is_hidden(own, PROJECT), role.name
        check_foreign(here, known, place)
        everywhere = ask(callers, role.name, operation, query)
        foreign = everywhere[FOREIGN]
        assert is_denied(foreign) == (not may), (role.name, foreign.get_data(as_text=True))
        assert not is_hidden(foreign, FOREIGN), role.name
        for user, answers in ((f"{role.name}-here", here), (role.name, everywhere)):
            for project, by_token in ask(callers, f"{user}-token", operation, query).items():
                assert is_denied(by_token) == is_denied(answers[project]), (user, by_token.get_data(as_text=True))
                assert is_hidden(by_token, project) == is_hidden(answers[project], project), (user, project)
    nobody = ask(callers, "nobody", operation, query)
    if place == OWN:
        assert is_hidden(nobody[PROJECT], PROJECT), nobody[PROJECT].get_data(as_text=True)
        check_foreign(nobody, known, place)
    else:
        assert is_denied(nobody[PROJECT]) == (place != OTHER), nobody[PROJECT].get_data(as_text=True)


def check_foreign(answers: Answers, known: TestResponse, place: str) -> None:
    """What is foreign is answered as what does not exist, byte for byte, and as the admin answers others."""
    foreign = answers[FOREIGN]
    if place in (OWN, SOME):
        texts = [
            (answers[project].status_code, answers[project].get_data(as_text=True).replace(project, "X"))
            for project in (FOREIGN, ABSENT)
        ]
        assert texts[0] == texts[1]
    if place == OWN:
        assert is_hidden(foreign, FOREIGN), foreign.get_data(as_text=True)
        assert (foreign.status_code, fields(foreign)["error"]) == (known.status_code, fields(known)["error"])


@pytest.mark.parametrize("id", ROWS)
def test_without_a_token_only_what_is_open_is_answered(callers: Callers, id: str) -> None:
    operation, (_place, query) = OPERATIONS[id], ROWS[id]
    answer = call(callers, "", operation, query)
    is_closed = operation.permission not in (OPEN,)
    assert (answer.status_code == 401 and fields(answer)["error"] == "unauthenticated") == is_closed


def test_every_permission_is_asked_for_by_a_route() -> None:
    declared = {name for operation in OPERATIONS.values() for name in (operation.permission, operation.also)}
    # The others are asked for by a header of any request, and by what a request says.
    assert PERMISSIONS.keys() - declared == {"users.impersonate", "executions.override"}
    assert OWN_AGENT in declared


# Many rows


def changed(api: FlaskClient, *documents: dict[str, Any], query: str = "") -> TestResponse:
    return api.post(f"{API}/attribute_changes{query}", json={"changes": list(documents)})


def test_each_row_of_a_change_needs_its_permission(callers: Callers) -> None:
    row = {"resource_type": "EXECUTION_CLUSTER_LABEL", "payload": {"value": "other"}}
    own = {**row, "project": PROJECT, "domain": "staging"}
    editor = callers["editor-here"]
    assert changed(editor, own, query="?dry_run=true").status_code == 200
    assert is_denied(changed(callers["viewer-here"], own))
    foreign = changed(editor, own, {**row, "project": FOREIGN, "domain": DOMAIN})
    absent = changed(editor, own, {**row, "project": ABSENT, "domain": DOMAIN})
    assert (foreign.status_code, fields(foreign)["error"]) == (400, "invalid_request")
    assert (
        foreign.get_data(as_text=True).replace(FOREIGN, "X").partition("request_id")[0]
        == (absent.get_data(as_text=True).replace(ABSENT, "X").partition("request_id")[0])
    )
    assert is_denied(changed(editor, own, {**row, "domain": DOMAIN}))
    for definition in (
        {"pool_definition": {"name": "p", "members": [{"id": "c"}]}},
        {"user_definition": {"name": "new"}},
        {"group_definition": {"name": "g"}},
        {"grant_definition": {"role": "viewer", "user": "eve", "project": PROJECT}},
        {"cluster_group_definition": {"name": "racks"}},
        {"use_grant_definition": {"pool": "gpu", "user": "eve"}},
        {"use_grant_definition": {"pool": "gpu", "project": PROJECT}},
        {"project_definition": {"id": FOREIGN}},
        {"project_definition": {"id": ABSENT}},
    ):
        assert is_denied(changed(editor, own, definition)), definition


def test_rows_that_stay_as_they_are_tell_nothing_of_what_is_hidden(callers: Callers) -> None:
    unchanged = {**ENTRY, "project": FOREIGN}
    assert fields(changed(callers["viewer"], unchanged))["changed"] is False
    assert changed(callers["editor-here"], unchanged).status_code == 400


def test_a_rollback_needs_the_permission_for_each_row(callers: Callers) -> None:
    both = {"revision": 1}  # which set rows of two projects
    here = callers["editor-here"].post(f"{API}/rollbacks?dry_run=true", json=both)
    assert here.status_code == 403
    assert FOREIGN not in here.get_data(as_text=True)
    everything = callers["editor-here"].post(f"{API}/rollbacks?dry_run=true", json={"to": 0, "everything": True})
    assert is_denied(everything)
    # Revisions of users and grants are among what the editor of everything may not undo.
    assert (
        callers["editor"].post(f"{API}/rollbacks?dry_run=true", json={"to": 0, "everything": True}).status_code == 403
    )
    scope = {"to": 0, "project": PROJECT, "domain": DOMAIN}
    assert callers["editor-here"].post(f"{API}/rollbacks?dry_run=true", json=scope).status_code == 200
    hidden = callers["editor-here"].post(f"{API}/rollbacks?dry_run=true", json={**scope, "project": FOREIGN})
    assert is_hidden(hidden, FOREIGN)


def test_nobody_gives_what_they_lack(callers: Callers) -> None:
    api = callers["admin-here"]

    def give(**grant: str) -> TestResponse:
        return api.post(f"{API}/grants?dry_run=true", json={"grant": {"user": "eve", **grant}})

    assert give(role="editor", project=PROJECT, domain=DOMAIN).status_code == 200
    assert is_denied(give(role="viewer"))
    assert is_hidden(give(role="viewer", project=FOREIGN), FOREIGN)


# Lists


def listed(callers: Callers, user: str, path: str, key: str) -> list[Any]:
    rows: list[Any] = ok(callers[user].get(f"{API}/{path}"))[key]
    return rows


def test_lists_and_counts_have_what_the_caller_may_see(callers: Callers) -> None:
    def projects_of(rows: list[Any]) -> set[str]:
        return {row.get("project") or row["id"]["project"] for row in rows}

    for project in (PROJECT, FOREIGN):
        ok(create(callers["admin"], "listed", project=project))
    for user, seen in (("viewer-here", {PROJECT}), ("viewer", {PROJECT, FOREIGN}), ("admin", {PROJECT, FOREIGN})):
        assert {row["id"] for row in listed(callers, user, "projects", "projects")} == seen
        assert projects_of(listed(callers, user, "executions", "executions")) == seen
        path = "matchable_attributes?resource_type=3"
        assert projects_of(listed(callers, user, path, "configurations")) == seen
        counted = listed(callers, user, "execution_counts?by=project", "counts")
        assert {group["value"] for group in counted} == seen
        for at in ("", "&at=1"):
            assert projects_of(listed(callers, user, path + at, "configurations")) == seen
        diff = listed(callers, user, "revision_diff?from=0&to=1", "rows")
        assert projects_of(diff) == seen
        revision = ok(callers[user].get(f"{API}/revisions/1"))
        assert projects_of(revision["changes"]) == seen
        assert revision["change_count"] == len(seen)
    history = listed(callers, "viewer-here", "revisions", "revisions")
    assert [(revision["number"], revision["change_count"]) for revision in history] == [(1, 1)]
    entries = listed(callers, "viewer-here", "timeline", "entries")
    assert FOREIGN not in json.dumps(entries)
    assert {entry["source"] for entry in entries} >= {"revision", "registration"}
    assert FOREIGN in json.dumps(listed(callers, "viewer", "timeline", "entries"))
    refused = callers["viewer-here"].get(f"{API}/revisions/2")
    assert (refused.status_code, fields(refused)["error"]) == (404, "revision_not_found")
    uses = callers["viewer-here"].get(f"{API}/uses?label=mycluster")
    assert FOREIGN not in uses.get_data(as_text=True)
    assert PROJECT in uses.get_data(as_text=True)
    mine = listed(callers, "admin-here", "grants", "grants")
    assert {grant.get("project") for grant in mine} == {PROJECT}
    for user in ("viewer-here", "nobody"):
        near = callers[user].get(f"{API}/project_attributes/flyteexample?resource_type=3").json
        assert FOREIGN not in json.dumps(near)


def test_what_a_cluster_has_is_named_to_those_who_may_read_it(callers: Callers) -> None:
    label = {"execution_cluster_label": {"value": "mycluster"}}
    for project in (FOREIGN, PROJECT):
        created = ok(create(callers["admin"], "in-line", project=project, **label))["execution"]
    cluster = created["cluster"]
    for user, seen in (("viewer-here", {PROJECT}), ("viewer", {PROJECT, FOREIGN})):
        shown = ok(callers[user].get(f"{API}/clusters/{cluster}"))
        assert {row["id"]["project"] for row in shown["next_executions"]} == seen
    ok(callers["admin"].post(f"{API}/clusters/{cluster}/cordon", json={}))
    for project in (FOREIGN, PROJECT):
        ok(create(callers["admin"], "without", project=project, cluster=cluster))
    for user, seen in (("viewer-here", {PROJECT}), ("viewer", {PROJECT, FOREIGN})):
        shown = ok(callers[user].get(f"{API}/clusters/{cluster}"))
        assert {row["id"]["project"] for row in shown["waiting_for_it"]} == seen


def test_warnings_are_about_what_the_caller_may_see(callers: Callers) -> None:
    row = {"resource_type": "EXECUTION_CLUSTER_LABEL", "domain": "staging", "payload": {"value": "nowhere"}}
    ok(changed(callers["admin"], *({**row, "project": project} for project in (PROJECT, FOREIGN))))
    for user, seen in (("viewer-here", {PROJECT}), ("viewer", {PROJECT, FOREIGN})):
        for path in ("warnings", "warnings?limit=100", "matchable_attributes/no_effect"):
            found = [warning.get("project") for warning in listed(callers, user, path, "warnings")]
            assert set(found) - {None} == seen, path


# What is one's own


def test_a_user_may_always_see_and_change_tokens_of_their_own(callers: Callers) -> None:
    api = callers["nobody"]
    assert ok(api.get(f"{API}/users/nobody"))["name"] == "nobody"
    made = ok(api.post(f"{API}/users/nobody/tokens", json={"name": "second"}))
    assert len(ok(api.get(f"{API}/users/nobody/tokens"))["tokens"]) == 2
    assert ok(api.delete(f"{API}/users/nobody/tokens/{made['prefix']}"))["changed"]
    assert is_denied(api.post(f"{API}/users/admin/tokens", json={"name": "stolen"}))
    explained = ok(api.get(f"{API}/access/explanation?user=nobody&permission=fleet.write"))
    assert (explained["allowed"], explained["could_give"]) == (False, ["user admin"])
    assert is_denied(api.get(f"{API}/access/explanation?user=admin&permission=fleet.write"))


def test_a_user_of_the_fast_lane_reads_and_writes_where_grants_reach(callers: Callers) -> None:
    body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "mycluster"}}}}
    path = f"{API}/project_domain_attributes/{{}}/{DOMAIN}"
    editor, viewer = callers["editor-here"], callers["viewer-here"]
    assert editor.put(path.format(PROJECT), json=body).status_code == 200
    assert is_denied(viewer.put(path.format(PROJECT), json=body))
    for api in (editor, viewer):
        assert is_hidden(api.put(path.format(FOREIGN), json=body), FOREIGN)
        assert api.get(path.format(PROJECT) + "?resource_type=3").status_code == 200
        assert is_hidden(api.get(path.format(FOREIGN) + "?resource_type=3"), FOREIGN)
        assert api.get(f"{API}/effective_attributes?{WHERE}").status_code == 200
        assert is_hidden(api.get(f"{API}/effective_attributes?{WHERE.replace(PROJECT, FOREIGN)}"), FOREIGN)


def test_of_many_creations_each_is_checked_for_itself(callers: Callers) -> None:
    many = {"executions": [dict(BODIES["CreationBody"], name=None), dict(BODIES["CreationBody"], project=FOREIGN)]}
    many["executions"][0].pop("name")
    answer = ok(callers["submitter-here"].post(f"{API}/executions?dry_run=true", json=many))
    results = answer["results"]
    assert "error" not in results[0]
    assert results[1]["error"]["error"] == "unknown_project"


def test_what_is_registered_elsewhere_is_launched_by_those_who_may_read_it(callers: Callers) -> None:
    body = {
        "project": PROJECT,
        "domain": DOMAIN,
        "spec": {"launch_plan": {"project": FOREIGN, "domain": DOMAIN, "name": "plan", "version": "v1"}},
    }
    for path in ("executions?dry_run=true", "placements"):
        assert is_hidden(callers["submitter-here"].post(f"{API}/{path}", json=body), FOREIGN)
        assert callers["submitter"].post(f"{API}/{path}", json=body).status_code == 200
