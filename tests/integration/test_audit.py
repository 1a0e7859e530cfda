"""Audit events: who was denied, and what was done with tokens, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy.exc import OperationalError

from admin.core.audit import AuditEvent, RequestOrigin
from admin.core.identities import Identity, Proof
from admin.core.retention import Retention
from admin.core.settings.scopes import Scope
from admin.services import audit, user_tokens
from admin.services.retention import prune
from admin.store import audit_events
from admin.store.user_tokens import MOST_ADDRESSES, add_addresses
from tests.conftest import MakeApp
from tests.integration.test_users import LABEL, SHARED_TOKEN
from tests.support.agents import own_clock, played_agent
from tests.support.apps import context_of
from tests.support.people import Person, made_user
from tests.support.placing import API, DOMAIN, JOB, PROJECT, ok, refused

SLOW_ON = ("postgresql",)


@pytest.fixture
def ada(app: Flask) -> Person:
    return made_user(app)


def events(person: Person, query: str = "") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = person.get(f"audit{query}")["events"]
    return listed


def types(person: Person, query: str = "") -> list[str]:
    return [event["event"] for event in events(person, query)]


def stranger(app: Flask, token: str | None) -> Person:
    return Person(app.test_client(), token)


def test_an_admin_without_users_denies_nothing_and_notes_nothing(app: Flask) -> None:
    nobody = stranger(app, None)
    nobody.get("users")
    nobody.do("POST", "projects", {"project": {"id": "new", "name": "New"}})
    stranger(app, "any").get("whoami")
    assert nobody.get("audit") == {"events": []}


def test_making_using_and_revoking_a_token_is_noted_and_the_token_is_not(app: Flask, ada: Person) -> None:
    made = ada.do("POST", "users/ada/tokens", {"name": "pipeline", "expires": "1d"})
    ada.do("DELETE", f"users/ada/tokens/{made['prefix']}")
    assert ada.do("DELETE", f"users/ada/tokens/{made['prefix']}")["changed"] is False
    revoked, created, used = events(ada)
    target = f"user-token/ada/{made['prefix']}"
    assert {**created, "number": 0, "at": "", "request_id": ""} == {
        "number": 0,
        "at": "",
        "event": "TOKEN_CREATED",
        "user": "ada",
        "proof": "token",
        "address": "127.0.0.1",
        "method": "POST",
        "route": f"{API}/users/<name>/tokens",
        "request_id": "",
        "target": target,
        "reason": created["reason"],
    }
    assert created["reason"].startswith("called 'pipeline', expires 20")
    assert (revoked["event"], revoked["target"]) == ("TOKEN_REVOKED", target)
    assert (used["event"], used["user"], used["target"][:15]) == ("NEW_ADDRESS", "ada", "user-token/ada/")
    assert made["token"] not in json.dumps(events(ada))
    assert made["token"].rpartition("-")[2] not in json.dumps(events(ada))


def test_deleting_a_user_is_noted_as_the_end_of_its_tokens(app: Flask, ada: Person) -> None:
    made_user(app, "bea")
    ada.do("DELETE", "users/bea")
    ended = events(ada, "?event=TOKEN_REVOKED")
    assert [(event["target"], event["user"], event["proof"]) for event in ended] == [("user/bea", "ada", "token")]
    ada.do("DELETE", "users/bea")
    assert len(events(ada, "?event=TOKEN_REVOKED")) == 1


def test_wrong_tokens_are_counted_by_address_and_user_in_one_event_a_minute(app: Flask, ada: Person) -> None:
    with own_clock(app) as clock:
        gone = user_tokens.create_token(context_of(app), "ada", "gone")
        user_tokens.revoke(context_of(app), "ada", gone.prefix)
        for token in ("wrong", "rbu-00000000-wrong", gone.token, gone.token, gone.token):
            refused(stranger(app, token).call("GET", "projects"), 401, "unauthenticated")
            audit.store_waiting(context_of(app))  # which counts where it is stored already
        refused(stranger(app, None).call("GET", "projects"), 401, "unauthenticated")  # a browser, or a probe
        of_ada, of_nobody = events(ada, "?event=WRONG_TOKEN")
        assert (of_ada["user"], of_ada["count"], of_ada["route"]) == ("ada", 3, f"{API}/projects")
        assert ("user" in of_nobody, of_nobody["count"], of_nobody["method"]) == (False, 2, "GET")
        assert "unknown, revoked or expired" in of_ada["reason"]
        clock.advance(60)
        refused(stranger(app, "wrong").call("GET", "nowhere"), 401, "unauthenticated")
        newest = events(ada, "?event=WRONG_TOKEN")[0]
        assert ("count" in newest, newest["route"]) == (False, "unknown")


def test_an_agent_that_does_more_than_agents_may_is_noted(app: Flask) -> None:
    token = played_agent(app.test_client(), context_of(app), "beta").token
    ada = made_user(app)
    refused(stranger(app, token).call("GET", "users"), 403, "forbidden")
    refused(stranger(app, token).call("POST", "clusters/gamma/sync", {}), 403, "forbidden")
    [denied] = events(ada, "?event=FORBIDDEN")
    assert (denied["user"], denied["count"], denied["route"]) == ("cluster/beta", 2, f"{API}/users")


def test_the_tokens_of_clusters_are_noted(app: Flask, ada: Person) -> None:
    ada.do("PUT", "clusters/beta", {"cluster": {}})
    made = ada.do("POST", "clusters/beta/tokens", {})
    ada.do("DELETE", f"clusters/beta/tokens/{made['prefix']}")
    [revoked] = events(ada, "?event=TOKEN_REVOKED")
    assert (revoked["user"], revoked["target"]) == ("ada", f"token/beta/{made['prefix']}")
    created = events(ada, "?event=TOKEN_CREATED")
    assert (created[0]["user"], created[0]["target"]) == ("ada", f"token/beta/{made['prefix']}")
    assert made["token"] not in json.dumps(created)


def test_what_is_answered_as_unknown_to_who_may_not_know_of_it_is_noted(app: Flask, ada: Person) -> None:
    eve = made_user(app, "eve", role="submitter", scope=Scope(project=PROJECT))
    refused(eve.call("GET", "projects/flyteexamples"), 404, "project_not_found")
    refused(eve.call("PUT", "project_attributes/flyteexamples", LABEL), 400, "unknown_project")
    body = {"project": "flyteexamples", "domain": DOMAIN, "spec": {"job": JOB}}
    many = ok(eve.call("POST", "executions", {"executions": [body, {**body, "project": PROJECT}]}))["results"]
    assert many[0]["error"]["error"] == "unknown_project"
    [event] = events(ada, "?event=FORBIDDEN")
    assert (event["user"], event["proof"], event["count"]) == ("eve", "token", 3)
    refused(ada.call("GET", "projects/absent"), 404, "project_not_found")
    assert len(events(ada, "?event=FORBIDDEN")) == 1, "for who may know of everything was denied nothing"


def test_a_page_of_another_site_is_noted(app: Flask, ada: Person) -> None:
    refused(ada.call("GET", "projects", Origin="https://evil.example"), 403, "foreign_origin")
    assert [event["reason"][:24] for event in events(ada, "?event=FORBIDDEN")] == ["A page of https://evil.e"]


def test_the_shared_token_is_named(make_app: MakeApp, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SHARED_TOKEN)
    app = make_app(server={"apiTokenFile": str(file)})
    shared = stranger(app, SHARED_TOKEN)
    refused(stranger(app, "not-the-shared-token").call("GET", "projects"), 401, "unauthenticated")
    made_user(app)
    shared.do("POST", "users/ada/tokens", {"name": "pipeline"})
    created, wrong = events(shared)
    assert (created["user"], created["proof"]) == ("shared-token", "shared-token")
    assert (wrong["event"], "user" in wrong) == ("WRONG_TOKEN", False)


def test_only_the_first_use_from_an_address_is_noted_on_all_workers(app: Flask, ada: Person, make_app: MakeApp) -> None:
    client = app.test_client()
    for address in ("192.0.2.7", "192.0.2.8", "192.0.2.7"):
        ok(client.get(f"{API}/whoami", headers=ada.headers, environ_base={"REMOTE_ADDR": address}))
    other = make_app()  # another worker, which has seen nothing yet
    ok(other.test_client().get(f"{API}/whoami", headers=ada.headers, environ_base={"REMOTE_ADDR": "192.0.2.7"}))
    audit.store_waiting(context_of(other))
    audit.store_waiting(context_of(app))
    used = [event["address"] for event in events(ada, "?event=NEW_ADDRESS&address=192.0.2.7")]
    assert used == ["192.0.2.7"]
    assert sorted(event["address"] for event in events(ada, "?event=NEW_ADDRESS&user=ada")) == [
        "127.0.0.1",
        "192.0.2.7",
        "192.0.2.8",
    ]


def test_the_addresses_of_a_token_are_bounded(app: Flask, ada: Person) -> None:
    prefix = user_tokens.list_tokens(context_of(app), "ada")[0].prefix
    many = [f"192.0.2.{number}" for number in range(MOST_ADDRESSES + 1)]
    with context_of(app).database.writing() as connection:
        assert len(add_addresses(connection, {prefix: many, "unknown0": many})) == len(many)
    with context_of(app).database.writing() as connection:
        assert add_addresses(connection, {prefix: [many[0], many[1], many[-1]]}) == {(prefix, many[0])}


def test_events_are_listed_by_filters_and_in_pages(app: Flask, ada: Person) -> None:
    for number in range(5):
        ada.do("POST", "users/ada/tokens", {"name": f"token-{number}"})
    page = ada.get("audit?limit=4")
    rest = ada.get(f"audit?limit=4&token={page['token']}")
    listed = page["events"] + rest["events"]
    assert [event["event"] for event in listed] == ["TOKEN_CREATED"] * 5 + ["NEW_ADDRESS"]
    assert (len(page["events"]), "token" in rest) == (4, False)
    assert types(ada, "?event=NEW_ADDRESS") == ["NEW_ADDRESS"]
    assert types(ada, "?user=bea") == types(ada, "?address=192.0.2.1") == types(ada, "?before=1h") == []
    assert len(types(ada, "?after=1h&user=ada&address=127.0.0.1")) == 6
    wrong = refused(ada.call("GET", "audit?event=WRONG_TOKENS"), 400, "invalid_request", "event")
    assert wrong["details"][0]["closest"] == ["WRONG_TOKEN"]
    refused(ada.call("GET", "audit?after=soon"), 400, "invalid_request", "after")


def test_a_login_and_its_addresses_are_noted_once_by_all_workers(app: Flask, ada: Person, make_app: MakeApp) -> None:
    bea = Identity(user="bea", proof=Proof.OPENID, token="5f1b09aa")
    for worker in (app, make_app(), app):
        auditor = audit.Auditor(partial(context_of, worker))
        for address in ("192.0.2.7", "192.0.2.8", "192.0.2.7"):
            origin = RequestOrigin(address=address, method="GET", route=f"{API}/whoami", request_id="r")
            for identity in (bea, replace(bea, user="ada", administrator="bea")):
                auditor.note_use(identity, address, origin._replace)
        audit.store_waiting(context_of(worker))
    [login] = events(ada, "?event=LOGIN")
    assert (login["user"], login["proof"], login["address"]) == ("bea", "openid", "192.0.2.7")
    assert (login["target"], "count" in login) == ("login/bea/5f1b09aa", False)
    used = events(ada, "?event=NEW_ADDRESS&user=bea")
    assert [(event["address"], event["target"]) for event in used] == [
        ("192.0.2.8", "user/bea"),
        ("192.0.2.7", "user/bea"),
    ]


def test_workers_that_note_the_same_login_at_once_store_it_once(app: Flask, ada: Person) -> None:
    login = AuditEvent(at=context_of(app).clock(), event="LOGIN", user="bea", target="login/bea/5f1b09aa")
    for _ in range(2):
        with context_of(app).database.writing() as connection:
            audit_events.add(connection, [login])
    assert ["count" in event for event in events(ada, "?event=LOGIN")] == [False]


def test_wrong_tokens_beyond_the_limit_are_noted_too(make_app: MakeApp) -> None:
    app = make_app(limits={"wrongTokensPerMinute": 2})
    ada = made_user(app)
    with own_clock(app):
        statuses = [stranger(app, "wrong").call("GET", "projects").status_code for _ in range(4)]
        assert statuses == [401, 401, 429, 429]
        assert [event["count"] for event in events(ada, "?event=WRONG_TOKEN")] == [4]


def test_acting_as_somebody_without_the_permission_is_noted(app: Flask, ada: Person) -> None:
    eve = made_user(app, "eve", role="operator")
    denied = refused(eve.call("GET", "projects", **{"Rainbow-As": "ada"}), 403, "permission_denied")
    assert "lacks the permission users.impersonate on platform" in denied["message"]
    unknown = eve.call("GET", "projects", **{"Rainbow-As": "nobody"}).json
    assert {**unknown, "request_id": ""} == {**denied, "request_id": ""}, "which tells nothing of who exists"
    [event] = events(ada, "?event=FORBIDDEN")
    assert (event["user"], event["count"], event["route"]) == ("eve", 2, f"{API}/projects")
    assert "users.impersonate" in event["reason"]


def test_a_permission_that_is_lacking_is_noted_and_only_administrators_read_it(app: Flask, ada: Person) -> None:
    eve = made_user(app, "eve", role="operator")
    refused(eve.call("GET", "audit"), 403, "permission_denied")
    [event] = events(ada, "?event=FORBIDDEN&user=eve")
    assert (event["proof"], event["route"]) == ("token", f"{API}/audit")


@contextmanager
def failing_writes(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(*_: object) -> None:
        raise OperationalError("INSERT", {}, Exception("disk full"))

    with monkeypatch.context() as patched:
        patched.setattr(audit_events, "add", fail)
        yield


def test_a_database_that_takes_nothing_keeps_nobody_waiting_and_loses_nothing(
    app: Flask, ada: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_writes(app, monkeypatch):
        ada.do("POST", "users/ada/tokens", {"name": "pipeline"})
        assert types(ada) == []
    assert types(ada) == ["TOKEN_CREATED", "NEW_ADDRESS"]


def test_lines_of_json_tell_what_the_list_tells(make_app: MakeApp, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    app = make_app(audit={"file": str(file)})
    ada = made_user(app)
    ada.do("POST", "users/ada/tokens", {"name": "pipeline"})
    for _ in range(3):
        refused(stranger(app, "wrong").call("GET", "projects"), 401, "unauthenticated")
    listed = [{name: value for name, value in event.items() if name != "number"} for event in events(ada)]
    written = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(written, key=json.dumps) == sorted(listed, key=json.dumps)


def test_retention_deletes_old_events_and_the_list_says_so(app: Flask, ada: Person) -> None:
    with own_clock(app) as clock:
        for number in range(3):
            ada.do("POST", "users/ada/tokens", {"name": f"token-{number}"})
        audit.store_waiting(context_of(app))
        clock.advance(30 * 86400)
        ada.do("POST", "users/ada/tokens", {"name": "new"})
        assert len(events(ada)) >= 4
        planned = [counts for counts in prune(context_of(app), Retention(audit="7d"), dry_run=True) if counts]
        assert planned[0]["audit_events"] >= 3
        assert len(events(ada)) >= 4
        list(prune(context_of(app), Retention(audit="7d")))
        left = ada.get("audit")
        assert {event["event"] for event in left["events"]} <= {"TOKEN_CREATED", "NEW_ADDRESS"}
        assert len(left["events"]) <= 2
        assert left["not_listed"].startswith("Audit events of before 20")
        assert "not_listed" not in ada.get("audit?after=1h")


def test_deleting_a_cluster_is_noted_as_the_end_of_its_tokens(app: Flask, ada: Person) -> None:
    for name in ("beta", "gamma"):
        ada.do("PUT", f"clusters/{name}", {"cluster": {}})
    ada.do("POST", "clusters/beta/tokens", {})
    for name in ("beta", "gamma"):  # of which the latter has no token
        ada.do("DELETE", f"clusters/{name}")
    [ended] = events(ada, "?event=TOKEN_REVOKED")
    assert (ended["target"], ended["user"], ended["proof"]) == ("cluster/beta", "ada", "token")
    assert ended["reason"] == "all of its tokens: the cluster was deleted"


def test_each_token_of_a_request_is_noted_from_a_new_address(app: Flask, ada: Person) -> None:
    for name in ("beta", "gamma"):
        ada.do("PUT", f"clusters/{name}", {"cluster": {}})
    made = [
        ada.do("POST", "users/ada/tokens", {"name": name, "narrowed": {"clusters": [name]}})
        for name in ("beta", "gamma")
    ]
    both = stranger(app, made[0]["token"])
    for _ in range(2):
        ok(both.call("GET", "whoami", **{"Rainbow-Tokens": made[1]["token"]}))
    targets = [event["target"] for event in events(ada, "?event=NEW_ADDRESS")]
    assert sorted(targets[:2]) == sorted(f"user-token/ada/{token['prefix']}" for token in made)
    assert len(targets) == 3  # with the one that ada reads them by


def test_events_of_a_user_are_those_as_others_and_of_others_as_that_user(app: Flask, ada: Person) -> None:
    bea, eve = made_user(app, "bea", role="viewer"), made_user(app, "eve", role="viewer")
    for person, headers in ((ada, {"Rainbow-As": "bea"}), (bea, {}), (eve, {})):
        refused(person.call("GET", "audit", **headers), 403, "permission_denied")

    def denied(user: str) -> list[tuple[str, str]]:
        return sorted((event["user"], event["proof"]) for event in events(ada, f"?event=FORBIDDEN&user={user}"))

    assert denied("ada") == [("bea", "token of ada")]
    assert denied("bea") == [("bea", "token"), ("bea", "token of ada")]
    assert denied("eve") == [("eve", "token")]


def test_what_the_shared_token_does_as_others_is_its_own(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SHARED_TOKEN)
    app = make_app(server={"apiTokenFile": str(tmp_path / "token")})
    ada = made_user(app)
    made_user(app, "bea", role="viewer")
    refused(stranger(app, SHARED_TOKEN).call("GET", "audit", **{"Rainbow-As": "bea"}), 403, "permission_denied")
    [event] = events(ada, "?event=FORBIDDEN&user=shared-token")
    assert (event["user"], event["proof"]) == ("bea", "shared-token")
