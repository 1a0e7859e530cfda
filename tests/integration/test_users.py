"""Users, their tokens, and who did what, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from admin.core.changes import ANYTHING
from admin.core.permissions import ROLES
from admin.core.settings.scopes import Scope
from admin.errors import Unauthenticated
from admin.services import tokens, user_tokens, users
from admin.services.changeable.base import ChangeOptions
from admin.services.context import Context
from admin.services.grants import make_first_administrator
from admin.services.redecisions import decide_waiting
from admin.store.cache.known_grants import KnownGrants
from admin.store.tokens import CACHE_SECONDS, TokenCache, number_of_changes
from admin.store.user_tokens import USER_TOKENS
from admin.store.user_tokens import user_tokens as token_table
from admin.store.users import UserPresence
from tests.conftest import MakeApp
from tests.support.agents import Clock, played_agent, set_clock
from tests.support.apps import context_of
from tests.support.people import Person, made_user
from tests.support.placing import DOMAIN, JOB, PROJECT, asked, ok, refused
from tests.support.statements import statements

SLOW_ON = ("postgresql",)

SHARED_TOKEN = "operators-token-1234567890"
LABEL = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "mycluster"}}}}


@pytest.fixture
def ada(app: Flask) -> Person:
    return made_user(app)


# As a changeable noun


def test_a_user_is_created_read_updated_and_deleted_by_revisions(app: Flask) -> None:
    nobody = Person(app.test_client(), None)
    planned = nobody.do("POST", "users?dry_run=true", {"user": {"name": "ada", "description": "Counts."}})
    assert (planned["user"], planned["dry_run"]) == ({"name": "ada", "description": "Counts."}, True)
    assert nobody.get("users") == {"users": []}
    made = nobody.do("POST", "users", {"user": {"name": "ada", "description": "Counts."}, "message": "the first"})
    assert (made["revision"], made["version"], made["changed"]) == (1, 1, True)
    assert (made["user"]["name"], made["user"]["service_account"], made["user"]["version"]) == ("ada", False, 1)
    refused(nobody.call("GET", "users"), 401, "unauthenticated")
    assert make_first_administrator(context_of(app), "ada", ChangeOptions())
    ada = Person(app.test_client(), user_tokens.create_token(context_of(app), "ada", "laptop").token)
    taken = refused(ada.call("POST", "users", {"user": {"name": "ada"}}), 409, "already_exists", "user.name")
    assert "revision 1, anonymous" in taken["message"]
    stale = ada.call("PUT", "users/ada", {"user": {"description": "x"}}, **{"If-Match": '"7"'})
    refused(stale, 409, "version_conflict")
    assert ada.do("PUT", "users/ada", {"user": {"description": "Counts."}})["changed"] is False
    assert ada.do("PUT", "users/ada", {"user": {"description": "Computes."}})["user"]["description"] == "Computes."
    ada.do("POST", "users", {"user": {"name": "ci", "service_account": True}})
    assert [user["name"] for user in ada.get("users")["users"]] == ["ada", "ci"]
    assert [user["name"] for user in ada.get("users?service_account=true")["users"]] == ["ci"]
    assert [user["name"] for user in ada.get("users?service_account=false")["users"]] == ["ada"]
    page = ada.get("users?limit=1")
    assert [user["name"] for user in ada.get(f"users?limit=1&token={page['token']}")["users"]] == ["ci"]
    assert ada.do("DELETE", "users/ci")["changed"] is True
    assert ada.do("DELETE", "users/ci")["changed"] is False
    gone = refused(ada.call("GET", "users/ci"), 404, "user_not_found")
    assert "was deleted by revision 5, ada" in gone["message"]
    assert "Did you mean 'ada'?" in refused(ada.call("GET", "users/adda"), 404, "user_not_found")["message"]
    history = ada.get("revisions?resource_type=user&name=ci")["revisions"]
    assert [(revision["number"], revision["author"], revision["proof"]) for revision in history] == [
        (5, "ada", "token"),
        (4, "ada", "token"),
    ]
    assert [entry["revision"] for entry in ada.get("timeline?resource_type=user&name=ada")["entries"]] == [3, 1]
    [unknown] = ada.get("timeline?resource_type=user&name=adda")["unknown_names"]
    assert unknown["closest"] == ["ada"]


def test_users_are_planned_applied_and_rolled_back_with_other_rows(app: Flask, ada: Person) -> None:
    changes = [
        {"user_definition": {"name": "bea", "description": "Builds."}},
        {"user_definition": {"name": "ci", "serviceAccount": True}},
        {"resource_type": "EXECUTION_CLUSTER_LABEL", "project": PROJECT, "payload": {"value": "mycluster"}},
    ]
    plan = ada.do("POST", "attribute_changes?dry_run=true", {"changes": changes})
    assert [(row["action"], row.get("name")) for row in plan["rows"]] == [
        ("create", "bea"),
        ("create", "ci"),
        ("create", None),
    ]
    assert ada.do("POST", "attribute_changes", {"changes": changes})["revision"] == 2
    again = ada.do("POST", "attribute_changes", {"changes": changes})
    assert (again["changed"], again["counts"]["unchanged"]) == (False, 3)
    bea = Person(app.test_client(), user_tokens.create_token(context_of(app), "bea", "laptop").token)
    assert bea.get("whoami")["user"] == "bea"
    ada.do("POST", "rollbacks", {"revision": 2})
    assert [user["name"] for user in ada.get("users")["users"]] == ["ada"]
    refused(bea.call("GET", "whoami"), 401, "unauthenticated")
    ada.do("POST", "rollbacks", {"revision": 3})
    assert ada.get("users/ci")["service_account"] is True
    refused(bea.call("GET", "whoami"), 401, "unauthenticated")  # a user may come back, its tokens do not
    assert [token["state"] for token in ada.get("users/bea/tokens")["tokens"]] == ["revoked"]


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ({"name": "a b"}, "user_definition.name"),
        ({"name": "anonymous"}, "user_definition.name"),
        ({"name": "x" * 129}, "user_definition.name"),
        ({}, "user_definition.name"),
        ({"name": "bea", "groups": []}, "user_definition.groups"),
        ({"name": "bea", "service_account": "no"}, "user_definition.service_account"),
        ("bea", "user_definition"),
    ],
)
def test_a_wrong_definition_is_refused_by_its_field(ada: Person, definition: Any, field: str) -> None:
    changes = {"changes": [{"user_definition": definition}]}
    answer = refused(ada.call("POST", "attribute_changes", changes), 400, "invalid_request", field)
    assert answer["details"][0]["index"] == 0
    deleting = {"changes": [{"user_definition": {"name": "ada", "description": "x"}, "delete": True}]}
    refused(ada.call("POST", "attribute_changes", deleting), 400, "invalid_request", "user_definition")
    refused(ada.call("PUT", "users/ada", {"user": {"name": "bea"}}), 400, "invalid_request", "user.name")


# Who may come in


def test_without_users_nobody_is_asked_and_nothing_is_recorded_of_proofs(api: FlaskClient) -> None:
    nobody = Person(api, None)
    assert nobody.get("whoami") == {"user": "anonymous", "groups": [], "proof": "none"}
    assert Person(api, "whatever").get("whoami")["user"] == "anonymous"
    nobody.do("PUT", f"project_attributes/{PROJECT}", LABEL | {"claimed_by": "otto"})
    [revision] = nobody.get("revisions")["revisions"]
    assert (revision["author"], revision["claimed_by"], "proof" in revision) == ("anonymous", "otto", False)
    execution = nobody.do("POST", "executions", asked("e") | {"claimed_by": "otto"})["execution"]
    assert (execution["created_by"], execution["claimed_by"]) == ("anonymous", "otto")
    assert "created_proof" not in execution


def test_as_soon_as_a_user_exists_every_request_needs_a_token(app: Flask) -> None:
    agent = played_agent(app.test_client(), context_of(app), "east")
    ada = made_user(app)
    nobody = Person(app.test_client(), None)
    for method, path in (("GET", "projects"), ("GET", "effective_attributes"), ("GET", "nowhere"), ("POST", "users")):
        answer = refused(nobody.call(method, path), 401, "unauthenticated")
        assert "`rainbow-admin create-token USER`" in answer["message"]
    for token in ("whatever", "rbu-", "rbu-00000000-x", f"rbu-{'x' * 100_000}", "rbu-ää"):
        refused(Person(app.test_client(), token).call("GET", "projects"), 401, "unauthenticated")
    assert app.test_client().get("/healthz").status_code == 200
    assert ada.get("whoami") == {"user": "ada", "groups": [], "proof": "token"}
    assert Person(app.test_client(), agent.token).get("whoami") == {
        "user": "cluster/east",
        "groups": [],
        "proof": "agent",
        "cluster": "east",
    }
    refused(ada.call("DELETE", "users/ada"), 409, "last_administrator")


def test_after_the_last_user_nobody_needs_a_token_again(app: Flask) -> None:
    nobody, context = Person(app.test_client(), None), context_of(app)
    users.create_user(context, "ada", {}, ChangeOptions())
    refused(nobody.call("GET", "whoami"), 401, "unauthenticated")
    users.put_user(context, "ada", None, ANYTHING, ChangeOptions())
    assert nobody.get("whoami")["user"] == "anonymous"


def test_the_shared_token_goes_on_working_as_a_service_account(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SHARED_TOKEN)
    app = make_app(server={"apiTokenFile": str(tmp_path / "token")})
    operator = Person(app.test_client(), SHARED_TOKEN)
    assert operator.get("whoami") == {"user": "anonymous", "groups": [], "proof": "shared-token"}
    operator.do("POST", "users", {"user": {"name": "ada"}})
    assert operator.get("whoami")["user"] == "shared-token"
    operator.do("PUT", f"project_attributes/{PROJECT}", LABEL | {"claimed_by": "otto"})
    first = operator.get("revisions")["revisions"][0]
    assert (first["author"], first["claimed_by"], first["proof"]) == ("shared-token", "otto", "shared-token")
    refused(Person(app.test_client(), None).call("GET", "users"), 401, "unauthenticated")


def test_an_admin_beyond_loopback_needs_a_token_also_without_users(make_app: MakeApp) -> None:
    app = make_app(server={"host": "192.0.2.1"})
    refused(Person(app.test_client(), None).call("GET", "projects"), 401, "unauthenticated")
    assert made_user(app).get("whoami")["user"] == "ada"


# Tokens


def test_a_token_is_shown_once_and_kept_as_a_hash(app: Flask, ada: Person, app_clock: Clock) -> None:
    answer = ada.call("POST", "users/ada/tokens", {"name": "desk", "expires": "1d"})
    assert answer.headers["Cache-Control"] == "no-store"
    issued = ok(answer)
    assert issued["token"].startswith(f"rbu-{issued['prefix']}-")
    assert (issued["user"], issued["name"], len(issued["token"]) > 50) == ("ada", "desk", True)
    with context_of(app).database.reading() as connection:
        rows = connection.execute(select(token_table)).all()
    assert not any(issued["token"][12:] in str(row) for row in rows)
    listed = {token["name"]: token for token in ada.get("users/ada/tokens")["tokens"]}
    assert (listed["desk"]["state"], listed["laptop"]["state"]) == ("expiring", "live")
    assert ("last_used_at" in listed["desk"], "last_used_at" in listed["laptop"]) == (False, True)
    assert not any("token" in token or "hash" in token for token in listed.values())
    desk = Person(app.test_client(), issued["token"])
    assert desk.get("whoami")["user"] == "ada"
    app_clock.advance(24 * 3600)
    refused(desk.call("GET", "whoami"), 401, "unauthenticated")
    states = {token["name"]: token["state"] for token in ada.get("users/ada/tokens")["tokens"]}
    assert states == {"desk": "expired", "laptop": "live"}


def test_names_of_good_tokens_are_unique(ada: Person) -> None:
    taken = refused(ada.call("POST", "users/ada/tokens", {"name": "laptop"}), 409, "already_exists", "name")
    assert "rainbowctl delete user-token ada" in taken["message"]
    for body in ({}, {"name": "a b"}, {"name": ".."}):
        refused(ada.call("POST", "users/ada/tokens", body), 400, "invalid_request", "name")
    for expires in ("0", "soon", 7, "2y"):
        lasting = {"name": "desk", "expires": expires}
        refused(ada.call("POST", "users/ada/tokens", lasting), 400, "invalid_request", "expires")
    refused(ada.call("POST", "users/nobody/tokens", {"name": "desk"}), 404, "user_not_found")
    refused(ada.call("GET", "users/nobody/tokens"), 404, "user_not_found")
    assert len(ada.get("users/ada/tokens")["tokens"]) == 1


def test_a_revoked_token_stops_counting_at_once(app: Flask, ada: Person) -> None:
    desk = ada.do("POST", "users/ada/tokens", {"name": "desk"})
    person = Person(app.test_client(), desk["token"])
    assert person.get("whoami")["user"] == "ada"
    refused(ada.call("DELETE", f"users/bea/tokens/{desk['prefix']}"), 404, "user_token_not_found")
    refused(ada.call("DELETE", "users/ada/tokens/00000000"), 404, "user_token_not_found")
    assert ada.do("DELETE", f"users/ada/tokens/{desk['prefix']}") == {"prefix": desk["prefix"], "changed": True}
    assert ada.do("DELETE", f"users/ada/tokens/{desk['prefix']}")["changed"] is False
    refused(person.call("GET", "whoami"), 401, "unauthenticated")
    assert ada.do("POST", "users/ada/tokens", {"name": "desk"})["name"] == "desk"  # the name is free again


def test_what_another_replica_does_counts_within_a_second(make_app: MakeApp) -> None:
    here, elsewhere = make_app(), make_app()
    now = [100.0]
    cache, presence = TokenCache(lambda: now[0]), UserPresence(lambda: now[0])
    here.extensions["rainbow"] = replace(context_of(here), token_cache=cache, user_presence=presence)
    nobody = Person(here.test_client(), None)
    nobody.get("users")
    ada = made_user(elsewhere)
    nobody.get("users")
    now[0] += CACHE_SECONDS
    refused(nobody.call("GET", "users"), 401, "unauthenticated")
    same = Person(here.test_client(), ada.headers["Authorization"].split()[1])
    for _ in range(3):
        same.get("users")
    [token] = same.get("users/ada/tokens")["tokens"]
    assert user_tokens.revoke(context_of(elsewhere), "ada", token["prefix"])
    same.get("users")
    now[0] += CACHE_SECONDS
    refused(same.call("GET", "users"), 401, "unauthenticated")


class Elsewhere:
    """An admin on the same database whose caches are as old as a test wants."""

    def __init__(self, app: Flask) -> None:
        self.app = app
        self.seconds = 100.0
        cache, known = TokenCache(lambda: self.seconds), KnownGrants(lambda: self.seconds)
        self.context = replace(context_of(app), token_cache=cache, known_grants=known)
        app.extensions["rainbow"] = self.context

    def as_of(self, person: Person) -> Person:
        """The same person, who calls this admin."""
        return Person(self.app.test_client(), person.headers["Authorization"].split()[1])

    def token_statements(self, people: list[Person]) -> list[str]:
        """What is asked of the database for the tokens of people who call."""
        with statements(self.context) as seen:
            for person in people:
                person.get("whoami")
        return [statement for statement in seen if "user_tokens" in statement]


def test_many_tokens_in_turn_cost_no_statement_once_they_are_known(make_app: MakeApp) -> None:
    here, elsewhere = make_app(), Elsewhere(make_app())
    ada = made_user(here)
    issued = [ada.do("POST", "users/ada/tokens", {"name": f"t{number}"}) for number in range(20)]
    people = [Person(elsewhere.app.test_client(), token["token"]) for token in issued]
    assert len(elsewhere.token_statements(people[:1])) == 1  # by which all are read
    assert elsewhere.token_statements(people) == []
    later = ada.do("POST", "users/ada/tokens", {"name": "later"})
    newcomer = [Person(elsewhere.app.test_client(), later["token"])]
    assert len(elsewhere.token_statements(newcomer)) == 1
    assert elsewhere.token_statements(newcomer) == []
    elsewhere.context.token_uses.write(elsewhere.context.database)
    for _ in range(3):
        elsewhere.seconds += CACHE_SECONDS
        assert elsewhere.token_statements(people) == []
    ada.do("DELETE", f"users/ada/tokens/{issued[0]['prefix']}")
    elsewhere.seconds += CACHE_SECONDS
    assert len(elsewhere.token_statements(people[1:])) == 1  # for all that are known
    assert elsewhere.token_statements(people[1:]) == []
    refused(people[0].call("GET", "whoami"), 401, "unauthenticated")
    elsewhere.seconds += 61
    assert len(elsewhere.token_statements(people[1:])) == 1  # a restored database may have come to the same number


def test_what_a_token_is_good_for_is_known_with_it(make_app: MakeApp) -> None:
    here, elsewhere = make_app(), Elsewhere(make_app())
    ada = made_user(here)
    issued = ada.do("POST", "users/ada/tokens", {"name": "ci", "narrowed": {"role": "viewer"}})
    other = ada.do("POST", "users/ada/tokens", {"name": "other"})
    narrowed = Person(elsewhere.app.test_client(), issued["token"])
    narrowed.get("whoami")
    assert elsewhere.token_statements([narrowed]) == []
    ada.do("DELETE", f"users/ada/tokens/{other['prefix']}")
    elsewhere.seconds += CACHE_SECONDS
    assert len(elsewhere.token_statements([narrowed])) == 1  # by which it is compared
    refused(narrowed.call("POST", "users", {"user": {"name": "bea"}}), 403, "permission_denied")


def test_a_worker_keeps_the_tokens_that_it_read_last(app: Flask, ada: Person) -> None:
    cache = TokenCache(most=2)
    app.extensions["rainbow"] = context = replace(context_of(app), token_cache=cache)
    people = [ada] + [
        Person(app.test_client(), user_tokens.create_token(context, "ada", f"t{number}").token) for number in range(2)
    ]
    for person in people * 2:
        person.get("whoami")
    hashes = [tokens.hash_of(person.headers["Authorization"].split()[1]) for person in people]
    tables, now = (USER_TOKENS,), context.clock()
    kept = [cache.get(hashed, context.database, tables, now) is not None for hashed in hashes]
    assert kept == [False, True, True]


def test_what_is_taken_from_a_user_elsewhere_counts_within_a_second(make_app: MakeApp) -> None:
    here, elsewhere = make_app(), Elsewhere(make_app())
    ada, bea, cid = (made_user(here, name) for name in ("ada", "bea", "cid"))
    bea, cid = elsewhere.as_of(bea), elsewhere.as_of(cid)
    for person in (bea, cid):
        person.get("users")
    ada.do("DELETE", "users/bea")
    ada.do("DELETE", "grants/admin:user:cid")
    elsewhere.seconds += CACHE_SECONDS
    refused(bea.call("GET", "users"), 401, "unauthenticated")
    refused(cid.call("GET", "users"), 403, "permission_denied")
    ada.do("PUT", "groups/all", {"group": {"users": ["cid"]}})
    ada.do("POST", "grants", {"grant": {"role": "admin", "group": "all"}})
    elsewhere.seconds += CACHE_SECONDS
    cid.get("users")
    ada.do("PUT", "groups/all", {"group": {"users": []}})
    elsewhere.seconds += CACHE_SECONDS
    refused(cid.call("GET", "users"), 403, "permission_denied")


def test_a_token_that_is_read_while_it_is_revoked_is_not_kept(make_app: MakeApp) -> None:
    here, elsewhere = make_app(), Elsewhere(make_app())
    ada = made_user(here)
    same = elsewhere.as_of(ada)
    same.get("whoami")
    [listed] = ada.get("users/ada/tokens")["tokens"]
    with context_of(here).database.reading() as connection:
        stored, number = USER_TOKENS.get(connection, listed["prefix"]), number_of_changes(connection)
    assert stored is not None
    assert user_tokens.revoke(context_of(here), "ada", listed["prefix"])
    elsewhere.seconds += CACHE_SECONDS
    refused(same.call("GET", "whoami"), 401, "unauthenticated")
    elsewhere.context.token_cache.keep(USER_TOKENS, stored, number)  # read before the revocation, kept after it
    refused(same.call("GET", "whoami"), 401, "unauthenticated")


def test_last_uses_are_written_together_and_each_once_a_minute(make_app: MakeApp, app_clock: Clock) -> None:
    app = make_app()
    context = set_clock(app, app_clock)
    ada = made_user(app)
    issued = [user_tokens.create_token(context, "ada", f"t{number}") for number in range(10)]
    people = [Person(app.test_client(), each.token) for each in issued]

    def written() -> list[str]:
        with statements(context) as seen:
            for person in people * 2:
                person.get("whoami")
            context.token_uses.write(context.database)
        return [statement for statement in seen if statement.startswith("UPDATE user_tokens")]

    assert len(written()) == 1
    assert written() == []
    app_clock.advance(61)
    assert len(written()) == 1
    times = {token["name"]: token["last_used_at"] for token in ada.get("users/ada/tokens")["tokens"]}
    assert len({times[each.name or ""] for each in issued}) == 1


def test_idle_users_and_unused_tokens_are_found(app: Flask, ada: Person, app_clock: Clock) -> None:
    context = context_of(app)
    for name in ("idle", "new", "used"):
        if name == "new":
            app_clock.advance(91 * 24 * 3600)
        made_user(app, name, role="viewer")
    used = Person(app.test_client(), user_tokens.create_token(context, "used", "phone").token)
    used.get("whoami")
    assert [user["name"] for user in ada.get("users?idle=90d")["users"]] == ["idle"]
    listed = {user["name"]: user for user in ada.get("users")["users"]}
    assert [name for name, user in listed.items() if "last_seen_at" in user] == ["ada", "used"]
    assert ada.get("users/used")["last_seen_at"] == listed["used"]["last_seen_at"]
    first = ada.get("user_tokens?limit=2")
    rest = ada.get(f"user_tokens?limit=10&token={first['token']}")
    names = [(token["user"], token["name"]) for token in [*first["tokens"], *rest["tokens"]]]
    assert sorted(names) == [
        ("ada", "laptop"),
        ("idle", "laptop"),
        ("new", "laptop"),
        ("used", "laptop"),
        ("used", "phone"),
    ]
    [unused] = ada.get("user_tokens?unused=90d")["tokens"]
    assert (unused["user"], "last_used_at" in unused) == ("idle", False)
    ada.do("DELETE", f"users/idle/tokens/{unused['prefix']}")
    assert ada.get("user_tokens?unused=90d")["tokens"] == []
    # Who may not list the tokens of others sees their own, and not who is idle.
    own = used.get("user_tokens")
    assert ({token["user"] for token in own["tokens"]}, own["partial"]) == ({"used"}, True)
    refused(used.call("GET", "users?idle=90d"), 403, "permission_denied")
    refused(ada.call("GET", "users?idle=soon"), 400, "invalid_request", "idle")


@pytest.mark.parametrize(
    "secret", ["0" * 1_000_000, "\0" * 40, "é" * 40, "\x85\xa0" * 20, "%00" * 20, " ", "-", "'; DROP TABLE users; --"]
)
@pytest.mark.parametrize("mark", ["rbu-", "rbc-", ""])
def test_a_token_that_no_admin_makes_is_refused_without_a_statement_for_it(
    app: Flask, ada: Person, mark: str, secret: str
) -> None:
    ada.get("whoami")
    with statements(context_of(app)) as seen:
        answer = Person(app.test_client(), f"{mark}{secret}").call("GET", "users")
    refused(answer, 401, "unauthenticated")
    assert len(secret) < 8 or secret[:8] not in answer.text
    if len(secret) > 128 or not secret[:8].isalnum():
        assert not [statement for statement in seen if "_tokens" in statement]


def test_deleting_a_user_revokes_its_tokens(app: Flask, ada: Person) -> None:
    bea = made_user(app, "bea")
    ada.do("DELETE", "users/bea")
    refused(bea.call("GET", "whoami"), 401, "unauthenticated")
    again = made_user(app, "bea")
    refused(bea.call("GET", "whoami"), 401, "unauthenticated")
    assert again.get("whoami")["user"] == "bea"


def test_a_token_of_another_admin_and_of_another_kind_is_none(app: Flask, context: Context) -> None:
    agent = played_agent(app.test_client(), context, "east")
    ada = made_user(app)
    for token in (agent.token.replace("rbc-", "rbu-"), ada.headers["Authorization"].split()[1].replace("rbu-", "rbc-")):
        refused(Person(app.test_client(), token).call("GET", "executions"), 401, "unauthenticated")
    with pytest.raises(Unauthenticated):
        user_tokens.user_of(context, "rbu-" + "0" * 1_000_000)


def test_whether_there_are_users_stays_known_while_the_database_cannot_be_read(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    known, unknown = UserPresence(lambda: now[0]), UserPresence(lambda: now[0])
    assert known.is_any(context.database) is False

    def fail() -> Any:
        raise OperationalError("", {}, Exception("gone"))

    monkeypatch.setattr(context.database, "reading", fail)
    now[0] += CACHE_SECONDS
    assert known.is_any(context.database) is False
    with pytest.raises(OperationalError):
        unknown.is_any(context.database)


# Who did it


def test_what_a_user_does_has_their_name_and_how_it_was_proven(ada: Person) -> None:
    claimed = {"claimed_by": "somebody else"}
    ada.do("PUT", f"project_attributes/{PROJECT}", LABEL | claimed)
    ada.do("PUT", f"domain_attributes/{DOMAIN}?dry_run=false", LABEL | claimed)  # past the fast lane
    revisions = ada.get("revisions?limit=2")["revisions"]
    facts = [(revision["author"], revision["proof"], revision.get("claimed_by")) for revision in revisions]
    assert facts == [("ada", "token", None)] * 2
    attribute = ada.get(f"domain_attributes/{DOMAIN}?resource_type=3")
    assert attribute["updated_by"] == "ada"
    entry = ada.get("timeline?limit=1&actor=ada")["entries"][0]
    assert (entry["author"], entry["proof"]) == ("ada", "token")


def test_executions_have_their_creator_and_who_ended_them(ada: Person) -> None:
    claimed = {"claimed_by": "somebody else"}
    execution = ada.do("POST", "executions", asked("e") | claimed)["execution"]
    assert (execution["created_by"], execution["created_proof"]) == ("ada", "token")
    assert "claimed_by" not in execution
    path = f"executions/{PROJECT}/{DOMAIN}/e"
    ada.do("DELETE", path, {"cause": "enough", **claimed})
    abort = ada.get(path)["closure"]["abort_metadata"]
    assert (abort["principal"], abort["author"], "claimed_by" in abort) == ("ada", "ada", False)
    events = ada.get(f"{path}/events")["events"]
    assert [(event["type"], event["author"], event["proof"], event["by"]) for event in events] == [
        ("CREATED", "ada", "token", "ada"),
        ("ABORTED", "ada", "token", "ada"),
    ]
    for selector in ("abort_principal=ada", "created_by=ada"):
        assert [item["id"]["name"] for item in ada.get(f"executions?{selector}")["executions"]] == ["e"]
    assert ada.get("executions?abort_principal=anonymous")["executions"] == []


def test_switches_and_what_they_lead_to_name_the_user(ada: Person) -> None:
    claimed = {"claimed_by": "somebody else"}
    ada.do("POST", "clusters/local/cordon", {"reason": "disks", **claimed})
    event = ada.get("clusters/local/events")["events"][0]
    assert (event["type"], event["author"], event["proof"], "claimed_by" in event) == (
        "CORDONED",
        "ada",
        "token",
        False,
    )
    assert ada.get("clusters/local")["provenance"]["cordoned"]["author"] == "ada"
    for actor, count in (("ada", 1), ("anonymous", 0), ("somebody else", 0)):
        assert len(ada.get(f"timeline?actor={actor}&source=cluster-event")["entries"]) == count


def test_registrations_clocks_and_reconciliations_name_the_user(ada: Person) -> None:
    claimed = {"claimed_by": "somebody else"}
    id = {"project": PROJECT, "domain": DOMAIN, "name": "flow", "version": "v1"}
    flow = ada.do("POST", "workflows", {"id": id, "spec": {"job": JOB}, **claimed})["workflow"]
    assert (flow["author"], "claimed_by" in flow) == ("ada", False)
    assert ada.do("POST", "clock/accept", claimed)["changed"] is False
    refused(ada.call("DELETE", "reconciliations/local", claimed), 404, "reconciliation_not_found")
    ada.do("POST", "executions", asked("waits"))
    ada.do("POST", "pools", {"pool": {"name": "p", "members": [{"id": "local"}]}, **claimed})
    assert ada.get("pools/p")["provenance"]["definition"]["author"] == "ada"
    ada.do("POST", "executions/redecide", {"selector": {"project": PROJECT}, **claimed})


def test_an_agent_creates_as_its_cluster(app: Flask) -> None:
    agent = played_agent(app.test_client(), context_of(app), "east")
    ada = made_user(app)
    ada.do("POST", "grants", {"grant": {"role": "submitter", "user": "cluster/east", "project": PROJECT}})
    created = Person(app.test_client(), agent.token).do("POST", "executions", asked("e"))["execution"]
    assert (created["created_by"], "created_proof" in created) == ("cluster/east", False)
    assert ada.get(f"executions/{PROJECT}/{DOMAIN}/e")["created_by"] == "cluster/east"


# As somebody else


def test_what_is_done_as_somebody_has_both_names_everywhere(app: Flask, ada: Person) -> None:
    made_user(app, "bea")
    as_bea = {"Rainbow-As": "bea"}
    assert ok(ada.call("GET", "whoami", **as_bea)) == {
        "user": "bea",
        "groups": [],
        "proof": "token",
        "administrator": "ada",
    }
    ok(ada.call("PUT", f"project_attributes/{PROJECT}", LABEL, **as_bea))
    ok(ada.call("PUT", "pools/gpu", {"pool": {"members": [{"id": "mycluster"}]}}, **as_bea))
    pool, label = ada.get("revisions?limit=2")["revisions"]
    assert [(entry["author"], entry["proof"]) for entry in (pool, label)] == [("bea", "token of ada")] * 2
    entry = ada.get("timeline?limit=1")["entries"][0]
    assert (entry["author"], entry["proof"]) == ("bea", "token of ada")
    assert ada.get("pools/gpu")["provenance"]["definition"]["proof"] == "token of ada"
    taken = refused(
        ada.call("POST", "pools", {"pool": {"name": "gpu", "members": [{"id": "x"}]}}), 409, "already_exists"
    )
    assert "bea (by ada)" in taken["message"]
    ok(ada.call("POST", "users/bea/tokens", {"name": "second"}, **as_bea))
    created = ada.get("audit?event=TOKEN_CREATED")["events"][0]
    assert (created["user"], created["proof"]) == ("bea", "token of ada")
    assert {event["user"] for event in ada.get("audit?event=NEW_ADDRESS")["events"]} == {"ada"}


def test_an_execution_and_its_end_have_both_names(app: Flask, ada: Person) -> None:
    made_user(app, "bea")
    as_bea = {"Rainbow-As": "bea"}
    body = {"project": PROJECT, "domain": DOMAIN, "name": "mine", "spec": {"job": JOB}}
    ok(ada.call("POST", "executions", body, **as_bea))
    execution = ada.get(f"executions/{PROJECT}/{DOMAIN}/mine")
    assert (execution["created_by"], execution["created_proof"]) == ("bea", "token of ada")
    ok(ada.call("DELETE", f"executions/{PROJECT}/{DOMAIN}/mine", {"cause": "enough"}, **as_bea))
    events = ada.get(f"executions/{PROJECT}/{DOMAIN}/mine/events")["events"]
    assert {(event["author"], event["proof"]) for event in events if event.get("author")} == {("bea", "token of ada")}
    abort = ada.get(f"executions/{PROJECT}/{DOMAIN}/mine")["closure"]["abort_metadata"]
    assert (abort["author"], abort["proof"]) == ("bea", "token of ada")
    for condition in ("executions", "creations"):
        [entry] = ada.get(f"timeline?{condition}=true&project={PROJECT}")["entries"]
        assert (entry["author"], entry["proof"]) == ("bea", "token of ada")
    explained = ada.get(f"executions/{PROJECT}/{DOMAIN}/mine/explanation")
    assert explained["status"]["message"].startswith("ABORTED 0 s ago, by bea (by ada): enough")


def test_registrations_and_activations_have_both_names(app: Flask, ada: Person) -> None:
    made_user(app, "bea")
    as_bea = {"Rainbow-As": "bea"}
    id = {"project": PROJECT, "domain": DOMAIN, "name": "train", "version": "v1"}
    ok(ada.call("POST", "workflows", {"id": id, "spec": {"job": JOB}}, **as_bea))
    ok(ada.call("POST", "launch_plans", {"id": id, "spec": {"workflow_id": id}}, **as_bea))
    path = f"launch_plans/{PROJECT}/{DOMAIN}/train/v1"
    ok(ada.call("PUT", path, {"state": "ACTIVE"}, **as_bea))
    for registered in (ada.get(f"workflows/{PROJECT}/{DOMAIN}/train/v1"), ada.get(path)):
        assert (registered["author"], registered["proof"]) == ("bea", "token of ada")
    set_by = ada.get(path)["state_set_by"]
    assert (set_by["author"], set_by["proof"]) == ("bea", "token of ada")
    entries = ada.get("timeline?source=registration")["entries"]
    assert [(entry["author"], entry["proof"]) for entry in entries] == [("bea", "token of ada")] * 3


def test_acting_as_somebody_is_refused_by_name(app: Flask) -> None:
    nobody = Person(app.test_client(), None)
    agent = Person(app.test_client(), played_agent(app.test_client(), context_of(app), "beta").token)
    refused(nobody.call("GET", "whoami", **{"Rainbow-As": "bea"}), 400, "invalid_request", "Rainbow-As")
    ada = made_user(app)
    assert ok(ada.call("GET", "whoami", **{"Rainbow-As": "ada"})) == ada.get("whoami")
    refused(ada.call("GET", "whoami", **{"Rainbow-As": "adda"}), 404, "user_not_found")
    for wrong in ("", "a b", "anonymous/x", "x" * 200):
        refused(ada.call("GET", "whoami", **{"Rainbow-As": wrong}), 400, "invalid_request", "Rainbow-As")
    refused(agent.call("GET", "whoami", **{"Rainbow-As": "ada"}), 403, "forbidden")
    refused(nobody.call("GET", "whoami", **{"Rainbow-As": "ada"}), 401, "unauthenticated")


def test_who_acts_as_somebody_may_do_what_that_user_may(make_app: MakeApp, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SHARED_TOKEN)
    app = make_app(server={"apiTokenFile": str(file)})
    ada, shared = made_user(app), Person(app.test_client(), SHARED_TOKEN)
    made_user(app, "bea", role="viewer", scope=Scope(project=PROJECT))
    for administrator, by in ((ada, "token of ada"), (shared, "shared-token")):
        ok(administrator.call("GET", f"projects/{PROJECT}", **{"Rainbow-As": "bea"}))
        written = administrator.call("PUT", f"project_attributes/{PROJECT}", LABEL, **{"Rainbow-As": "bea"})
        assert "User bea lacks the permission attributes.write" in refused(written, 403, "permission_denied")["message"]
        foreign = administrator.call("GET", "projects/flyteexamples", **{"Rainbow-As": "bea"})
        refused(foreign, 404, "project_not_found")
        denied = ada.get("audit?event=FORBIDDEN&user=bea")["events"]
        assert by in [event["proof"] for event in denied]


def test_nobody_acts_as_a_user_who_may_do_more(make_app: MakeApp) -> None:
    app = make_app(roles={"helper": {"permissions": ["users.impersonate", *ROLES["viewer"].permissions]}})
    made_user(app)
    helper = made_user(app, "otto", role="helper")
    made_user(app, "bea", role="viewer")
    assert ok(helper.call("GET", "whoami", **{"Rainbow-As": "bea"}))["administrator"] == "otto"
    more = refused(helper.call("GET", "whoami", **{"Rainbow-As": "ada"}), 403, "permission_denied")
    assert more["message"].startswith("User ada has admin for user ada on platform. Nobody gives what they lack.")


# Narrower than the user


def narrowed_token(app: Flask, owner: Person, user: str = "ada", **narrowed: Any) -> Person:
    made = owner.do("POST", f"users/{user}/tokens", {"name": secrets.token_hex(4), "narrowed": narrowed})
    return Person(app.test_client(), made["token"])


def test_a_token_may_be_narrower_than_its_user_and_says_so(app: Flask, ada: Person) -> None:
    narrowed = {"role": "viewer", "permissions": ["logs.read"], "project": PROJECT, "domain": DOMAIN}
    narrowed = {**narrowed, "clusters": ["local"]}
    made = ada.do("POST", "users/ada/tokens", {"name": "report", "narrowed": narrowed})
    assert made["narrowed"] == narrowed
    report, laptop = sorted(ada.get("users/ada/tokens")["tokens"], key=lambda token: token["name"] != "report")
    assert (report["narrowed"], "narrowed" in laptop) == (narrowed, False)
    narrow = Person(app.test_client(), made["token"])
    assert narrow.get("whoami")["narrowed"] == narrowed
    assert "narrowed" not in ada.get("whoami")
    identity = user_tokens.user_of(context_of(app), made["token"])
    assert (identity.narrowed and identity.narrowed.payload) == narrowed
    assert "narrowed" not in ada.do("POST", "users/ada/tokens", {"name": "whole", "narrowed": {}})
    reason = ada.get("audit?event=TOKEN_CREATED")["events"][1]["reason"]
    assert "narrowed to role viewer, permission logs.read, " in reason


def test_a_narrowed_token_is_refused_what_its_user_may(app: Flask, ada: Person) -> None:
    viewer = narrowed_token(app, ada, role="viewer", project=PROJECT)
    viewer.get(f"projects/{PROJECT}")
    denied = refused(viewer.call("PUT", f"project_attributes/{PROJECT}", LABEL), 403, "permission_denied")
    assert denied["message"] == (
        f"The token of user ada, which is good for role viewer, project {PROJECT} alone, lacks the permission "
        f"attributes.write on project {PROJECT}. `rainbowctl explain access ada attributes.write -p {PROJECT}` says "
        "whether the user has it."
    )
    explained = viewer.get(f"access/explanation?user=ada&permission=attributes.write&project={PROJECT}")
    assert (explained["allowed"], explained["token_allowed"]) == (True, False)
    assert explained["narrowed"] == {"role": "viewer", "project": PROJECT}
    assert explained["message"].endswith(
        f" The token of this request is narrower: it is good for role viewer, project {PROJECT} alone, which excludes "
        "this."
    )
    reading = viewer.get(f"access/explanation?user=ada&permission=attributes.read&project={PROJECT}")
    assert (reading["token_allowed"], reading["message"][-14:]) == (True, "includes this.")
    whole = ada.get(f"access/explanation?user=ada&permission=attributes.write&project={PROJECT}")
    assert {"narrowed", "token_allowed"}.isdisjoint(whole)
    refused(viewer.call("GET", "projects/flyteexamples"), 404, "project_not_found")
    assert [project["id"] for project in viewer.get("projects")["projects"]] == [PROJECT]
    refused(viewer.call("GET", "users"), 403, "permission_denied")
    ok(ada.call("PUT", f"project_attributes/{PROJECT}", LABEL))


def test_a_narrowed_token_gives_nobody_more_than_it_has(app: Flask, ada: Person) -> None:
    bea = made_user(app, "bea", role="viewer")
    keeper = narrowed_token(app, ada, permissions=["tokens.write", "users.write", "grants.write", "groups.write"])
    for narrowed in (None, {}, {"role": "viewer"}, {"project": PROJECT}):
        body = {"name": "wider", **({} if narrowed is None else {"narrowed": narrowed})}
        wider = refused(keeper.call("POST", "users/ada/tokens", body), 403, "permission_denied", "narrowed")
        assert "makes none that is good for more" in wider["message"]
    within = {"name": "within", "narrowed": {"permissions": ["users.write"]}}
    assert keeper.do("POST", "users/ada/tokens", within)["narrowed"] == within["narrowed"]
    refused(keeper.call("POST", "users/bea/tokens", within), 403, "permission_denied")
    grant = {"grant": {"role": "editor", "user": "bea"}}
    refused(keeper.call("POST", "grants", grant), 403, "permission_denied")
    applied = {"changes": [{"grant_definition": grant["grant"]}]}
    refused(keeper.call("POST", "attribute_changes", applied), 403, "permission_denied")
    keeper.do("POST", "users", {"user": {"name": "new"}})
    refused(bea.call("GET", "users"), 403, "permission_denied")
    refused(keeper.call("GET", "whoami", **{"Rainbow-As": "bea"}), 403, "permission_denied")


def test_a_narrowed_token_changes_nothing_of_its_user_beyond_it(app: Flask, ada: Person) -> None:
    laptop = ada.get("users/ada/tokens")["tokens"][0]["prefix"]
    viewer = narrowed_token(app, ada, role="viewer")
    assert len(viewer.get("users/ada/tokens")["tokens"]) == 2
    assert viewer.get("users/ada")["name"] == "ada"
    refused(
        viewer.call("POST", "users/ada/tokens", {"name": "x", "narrowed": {"role": "viewer"}}), 403, "permission_denied"
    )
    refused(viewer.call("DELETE", f"users/ada/tokens/{laptop}"), 403, "permission_denied")


def test_a_token_for_roles_of_configuration_follows_them(make_app: MakeApp) -> None:
    app = make_app(roles={"clerk": {"permissions": ["executions.read", "projects.read"]}})
    ada = made_user(app)
    clerk = narrowed_token(app, ada, role="clerk")
    clerk.get("executions")
    refused(clerk.call("GET", "pools"), 403, "permission_denied")
    later = make_app()  # where the role is no longer declared
    refused(Person(later.test_client(), clerk.token or "").call("GET", "executions"), 403, "permission_denied")


@pytest.fixture
def clusters(ada: Person) -> list[str]:
    """Three clusters in a pool of all, of which two are a group."""
    names = ["east", "west", "north"]
    for cluster in names:
        ada.do("PUT", f"clusters/{cluster}", {"cluster": {}})
    ada.do("PUT", "pools/all", {"pool": {"members": [{"id": name} for name in names]}})
    ada.do("POST", "cluster_groups", {"cluster_group": {"name": "racks", "clusters": ["west", "north"]}})
    return names


def asked_for(name: str | None = None, **where: Any) -> dict[str, Any]:
    spec = {"job": JOB, **where} if where else {"job": JOB, "cluster_assignment": {"cluster_pool_name": "all"}}
    return {"project": PROJECT, "domain": DOMAIN, "spec": spec, **({"name": name} if name else {})}


def places(person: Person, **headers: str) -> set[str]:
    """Where executions of a pool of three clusters go, the first by the database, the others from memory."""
    answers = [ok(person.call("POST", "executions", asked_for(), **headers)) for _ in range(30)]
    return {answer["execution"].get("cluster") for answer in answers}


def test_the_executions_of_a_token_for_clusters_use_these_alone(app: Flask, ada: Person, clusters: list[str]) -> None:
    east, racks = narrowed_token(app, ada, clusters=["east"]), narrowed_token(app, ada, cluster_groups=["racks"])
    assert racks.get("whoami")["narrowed"] == {"cluster_groups": ["racks"]}
    assert places(ada) == set(clusters), "what one token may is not remembered for another"
    assert (places(east), places(racks)) == ({"east"}, {"west", "north"})
    assert places(ada) == set(clusters)
    denied = refused(east.call("POST", "executions", asked_for(cluster="west")), 403, "permission_denied", "cluster")
    assert "is for east alone, and cluster 'west' leads to none of them" in denied["message"]
    refused(east.call("POST", "placements", asked_for("x", cluster="west")), 403, "permission_denied", "cluster")
    several = {"executions": [asked_for(cluster="west"), asked_for()]}
    first, second = ok(east.call("POST", "executions", several))["results"]
    assert (first["error"]["error"], "error" in second) == ("permission_denied", False)


def test_nothing_of_a_token_for_clusters_moves_to_others(app: Flask, ada: Person, clusters: list[str]) -> None:
    racks = narrowed_token(app, ada, cluster_groups=["racks"])
    for number in range(10):
        ok(racks.call("POST", "executions", asked_for(f"e{number}")))
    context = context_of(app)

    def states() -> set[tuple[str | None, str]]:
        listed = ada.get(f"executions/{PROJECT}/{DOMAIN}")["executions"]
        return {(execution.get("cluster"), execution["closure"]["reason"]["code"]) for execution in listed}

    ada.do("POST", "clusters/west/disable")
    decide_waiting(context)
    assert {cluster for cluster, _ in states()} == {"north"}
    ada.do("PUT", "cluster_groups/racks", {"cluster_group": {"clusters": ["west"]}})
    decide_waiting(context)
    assert {cluster for cluster, _ in states()} == {None}
    explained = ada.get(f"executions/{PROJECT}/{DOMAIN}/e0/explanation")
    assert "may not be used by the token that created it" in json.dumps(explained)
    ada.do("POST", "executions/redecide", {"selector": {"project": PROJECT, "domain": DOMAIN}})
    assert {cluster for cluster, _ in states()} == {None}
    ada.do("POST", "clusters/west/enable")
    decide_waiting(context)
    assert {cluster for cluster, _ in states()} == {"west"}


def test_tokens_for_clusters_add_up_in_one_request(app: Flask, ada: Person, clusters: list[str]) -> None:
    east, racks = narrowed_token(app, ada, clusters=["east"]), narrowed_token(app, ada, cluster_groups=["racks"])
    north = narrowed_token(app, ada, clusters=["north"])
    added = {"Rainbow-Tokens": f"{north.token}"}
    assert places(east, **added) == {"east", "north"}
    assert ok(east.call("GET", "whoami", **added))["narrowed"] == {"clusters": ["east", "north"]}
    every = {"Rainbow-Tokens": f"{north.token}, {racks.token}"}
    assert places(east, **every) == set(clusters)
    whole = {"Rainbow-Tokens": f"{ada.token}"}
    assert "narrowed" not in ok(east.call("GET", "whoami", **whole))
    # They add up of one user, and where they are else alike; each must be good.
    bea = made_user(app, "bea")
    viewer = narrowed_token(app, ada, role="viewer", clusters=["north"])
    for token, status, error in (
        (bea.token, 403, "forbidden"),
        (viewer.token, 403, "forbidden"),
        (f"{north.token}x", 401, "unauthenticated"),
        ("no-token-of-a-user", 401, "unauthenticated"),
        ("", 401, "unauthenticated"),
        (",".join([str(north.token)] * 33), 400, "invalid_request"),
    ):
        more = {"Rainbow-Tokens": f"{racks.token},{token}"}
        refused(east.call("POST", "executions", asked_for(), **more), status, error)
    ada.do("DELETE", f"users/ada/tokens/{str(north.token).split('-')[1]}")
    refused(east.call("GET", "whoami", **added), 401, "unauthenticated")


@pytest.mark.parametrize("narrowed", [{"clusters": ["east"]}, {"cluster_groups": ["racks"]}])
def test_a_token_for_clusters_reads_and_runs_executions_and_does_nothing_else(
    app: Flask, ada: Person, clusters: list[str], narrowed: dict[str, Any]
) -> None:
    narrow = narrowed_token(app, ada, **narrowed)
    assert narrow.get("clusters/east")["name"] == "east"
    for method, path, body in (
        ("POST", "users/ada/tokens", {"name": "wide"}),
        ("POST", "users/ada/tokens", {"name": "wide", "narrowed": narrowed}),
        ("POST", "grants", {"grant": {"role": "admin", "user": "otto"}}),
        ("POST", "use_grants", {"use_grant": {"cluster": "west", "user": "ada"}}),
        ("PUT", "cluster_groups/racks", {"cluster_group": {"clusters": ["east", "west"]}}),
        ("POST", "clusters/west/tokens", {}),
        ("PUT", f"project_attributes/{PROJECT}", LABEL),
    ):
        refused(narrow.call(method, path, body), 403, "permission_denied")
    refused(narrow.call("GET", "whoami", **{"Rainbow-As": "ada2"}), 403, "permission_denied")


def test_who_may_not_know_of_a_project_or_cluster_learns_nothing_by_narrowing(app: Flask, ada: Person) -> None:
    made_user(app, "bea", role="viewer", scope=Scope(project="flyteexamples"))
    nobody = made_user(app, "none", role="auditor-of-nothing", scope=Scope(project=PROJECT))
    bea = Person(app.test_client(), user_tokens.create_token(context_of(app), "bea", "desk").token)
    foreign, absent = (
        refused(
            bea.call("POST", "users/bea/tokens", {"name": "t", "narrowed": {"project": project}}),
            400,
            "unknown_project",
        )
        for project in (PROJECT, "nowhere")
    )
    assert foreign["message"] == absent["message"].replace("nowhere", PROJECT)
    for clusters in (["local"], ["nowhere"]):
        body = {"name": "t", "narrowed": {"clusters": clusters}}
        refused(nobody.call("POST", "users/none/tokens", body), 403, "permission_denied")


def test_no_message_has_the_secret_of_a_token_that_was_sent_in_a_path(app: Flask, ada: Person) -> None:
    secret = str(ada.token).split("-", 2)[2]
    viewer = made_user(app, "bea", role="viewer", scope=Scope(project=PROJECT))
    for person, path in (
        (ada, f"users/{ada.token}"),
        (viewer, f"projects/{ada.token}"),
        (viewer, f"users/{ada.token}"),
    ):
        answer = person.call("GET", path)
        assert answer.status_code in (403, 404), answer.json
        assert secret not in answer.get_data(as_text=True)
    assert secret not in json.dumps(ada.get("audit"))


@pytest.mark.parametrize("is_token_revoked", [True, False])
def test_a_request_that_waits_is_not_answered_once_its_caller_may_not(
    app: Flask, ada: Person, is_token_revoked: bool
) -> None:
    ada.do("POST", "executions", asked("e"))
    bea = made_user(app, "bea", role="viewer")
    path = f"executions/{PROJECT}/{DOMAIN}/e?after_event=1000&wait_seconds=2"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bea.call, "GET", path)
        time.sleep(0.5)
        if is_token_revoked:
            ada.do("DELETE", f"users/bea/tokens/{str(bea.token).split('-')[1]}")
        else:
            ada.do("DELETE", "grants/viewer:user:bea")
        answer = waiting.result()
    if is_token_revoked:
        refused(answer, 401, "unauthenticated")
    else:
        refused(answer, 400, "unknown_project")


def test_acting_as_somebody_needs_the_use_of_their_clusters(make_app: MakeApp) -> None:
    helper = {"description": "d", "permissions": [*ROLES["submitter"].permissions, "users.impersonate"]}
    app = make_app(roles={"helper": helper}, placement={"clusterUse": "closed"})
    root = made_user(app, "root")
    otto = made_user(app, "otto", role="helper")
    made_user(app, "bob", role="submitter")
    as_bob = {"Rainbow-As": "bob"}
    ok(otto.call("GET", "whoami", **as_bob))
    root.do("POST", "use_grants", {"use_grant": {"cluster": "local", "user": "bob"}})
    denied = refused(otto.call("GET", "whoami", **as_bob), 403, "permission_denied")
    assert "User bob may use cluster local. Nobody gives what they lack." in denied["message"]


def test_an_operator_makes_no_token_of_a_cluster_that_may_do_more(app: Flask, ada: Person) -> None:
    ada.do("PUT", "clusters/east", {"cluster": {}})
    operator = made_user(app, "olga", role="operator")
    operator.do("POST", "clusters/east/tokens", {})
    ada.do("POST", "grants", {"grant": {"role": "submitter", "user": "cluster/east", "project": PROJECT}})
    denied = refused(operator.call("POST", "clusters/east/tokens", {}), 403, "permission_denied")
    assert "User cluster/east has submitter for user cluster/east" in denied["message"]
    agent = Person(app.test_client(), ada.do("POST", "clusters/east/tokens", {})["token"])
    agent.do("POST", "clusters/east/tokens", {})  # its own agent may


def test_what_an_administrator_creates_as_somebody_has_the_rights_of_that_user(app: Flask, ada: Person) -> None:
    made_user(app, "bea", role="submitter")
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {ada.token}"
    agent = played_agent(client, context_of(app), "east")
    ok(ada.call("POST", "executions", asked_for("e", cluster="east"), **{"Rainbow-As": "bea"}))
    ada.do("DELETE", "users/bea")
    assert agent.offered(1) == {}
    reason = ada.get(f"executions/{PROJECT}/{DOMAIN}/e")["closure"]["reason"]
    assert "its creator was deleted" in reason["message"]


@pytest.mark.parametrize(
    ("narrowed", "error", "field"),
    [
        ({"role": "viewers"}, "invalid_request", "narrowed.role"),
        ({"permissions": ["logs.reads"]}, "invalid_request", "narrowed.permissions"),
        ({"permissions": []}, "invalid_request", "narrowed.permissions"),
        ({"project": "nowhere"}, "unknown_project", "project"),
        ({"domain": "nowhere"}, "unknown_domain", "domain"),
        ({"workflow": "w"}, "invalid_request", None),
        ({"clusters": ["nowhere"]}, "invalid_request", "narrowed.clusters"),
        ({"clusters": []}, "invalid_request", "narrowed.clusters"),
        ({"cluster_groups": ["nowhere"]}, "invalid_request", "narrowed.cluster_groups"),
        ({"pool": "gpu"}, "invalid_request", "narrowed.pool"),
        ("viewer", "invalid_request", "narrowed"),
    ],
)
def test_a_wrong_narrowing_is_refused_and_makes_no_token(
    ada: Person, narrowed: Any, error: str, field: str | None
) -> None:
    fields = () if field is None else (field,)
    refused(ada.call("POST", "users/ada/tokens", {"name": "report", "narrowed": narrowed}), 400, error, *fields)
    assert [token["name"] for token in ada.get("users/ada/tokens")["tokens"]] == ["laptop"]
