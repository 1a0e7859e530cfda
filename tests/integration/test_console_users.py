"""The console's pages of users, of who may do what, and of the audit, without a browser."""

from __future__ import annotations

from flask import Flask

from admin.services import user_tokens
from tests.integration.test_console import send, signed_in
from tests.integration.test_console_fleet import shown, words_of
from tests.support.apps import context_of
from tests.support.people import Person, made_user
from tests.support.placing import DOMAIN, PROJECT

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)


def test_users_their_grants_and_what_they_may_do_are_shown(app: Flask) -> None:
    ada = made_user(app, description="<b>Counts</b>.")
    made_user(app, "nightly", role="viewer", service_account=True)
    ada.do("POST", "groups", {"group": {"name": "ml", "users": ["ada", "nightly"]}})
    ada.do("POST", "grants", {"grant": {"role": "editor", "group": "ml", "project": PROJECT, "domain": DOMAIN}})
    browser, _ = signed_in(app, ada)
    listed = shown(browser, "/console/users")
    assert "&lt;b&gt;Counts&lt;/b&gt;" in listed
    assert "service account" in listed
    assert ">ada<" not in shown(browser, "/console/users?service_account=true").split("<main")[1].split("<details")[0]
    assert "through ml" in words_of(shown(browser, "/console/users/nightly"))
    assert "editor" in words_of(shown(browser, "/console/access/groups/ml"))
    assert "ml" in shown(browser, "/console/access/groups")
    assert "admin" not in words_of(shown(browser, "/console/access/grants?role=editor").split("<tbody>")[1])
    assert "token_pools.allocate" in shown(browser, "/console/access/roles")
    scope = f"project={PROJECT}&domain={DOMAIN}"
    allowed = words_of(shown(browser, f"/console/access?user=nightly&permission=attributes.write&{scope}"))
    assert "allowed" in allowed
    assert "through ml" in allowed
    missing = shown(browser, "/console/access?user=nightly&permission=attributes.write")
    assert "not allowed" in missing
    wrong = browser.get("/console/access?user=nightly&permission=attributes.wriet")
    assert (wrong.status_code, "attributes.write" in wrong.text) == (200, True)
    assert 'aria-invalid="true"' in wrong.text


def test_a_token_is_revoked_after_its_prefix_was_typed(app: Flask) -> None:
    context = context_of(app)
    browser, _ = signed_in(app, made_user(app))
    spare = user_tokens.create_token(context, "ada", "spare")
    path = f"/console/users/ada/tokens/{spare.prefix}/revoke"
    assert spare.prefix in shown(browser, "/console/users/ada")
    assert spare.token not in shown(browser, "/console/users/ada")
    assert send(browser, path, path, confirmation="spare").status_code == 400
    assert send(browser, path, path, confirmation=spare.prefix).location == "/console/users/ada"
    states = {token.name: token.revoked_at is not None for token in user_tokens.list_tokens(context, "ada")}
    assert states == {"laptop": False, "spare": True}
    assert "TOKEN_REVOKED".replace("_", " ").lower() in shown(browser, "/console/audit?event=TOKEN_REVOKED")


def test_a_viewer_sees_the_own_user_and_no_other(app: Flask) -> None:
    made_user(app)
    eve = made_user(app, "eve", role="viewer")
    browser, _ = signed_in(app, eve)
    own = shown(browser, "/console/users/eve")
    assert "Revoke…" in own
    assert 'href="/console/users"' not in own.split("<main")[0]
    for path in ("users", "users/ada", "access", "access/groups", "audit", "users/ada/tokens/0/revoke"):
        assert browser.get(f"/console/{path}").status_code == 403, path
    assert browser.get("/console/access/roles").status_code == 200


def test_without_users_the_page_says_how_the_first_is_made(app: Flask) -> None:
    assert "rainbow-admin create-token USER --create" in shown(Person(app.test_client(), None).client, "/console/users")
