"""What an attacker may try at the console: forms of other sites, other people's sessions, addresses and cookies."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import insert, select, update

from admin.core.identities import Identity, Proof
from admin.errors import Unauthenticated
from admin.services import user_tokens
from admin.services.context import Context
from admin.services.sessions import identify_session, remove_expired_sessions, start_session
from admin.store.sessions import sessions
from tests.conftest import MakeApp
from tests.integration.test_console import SIGN_IN, send, signed_in
from tests.integration.test_users import SHARED_TOKEN
from tests.support.agents import Clock
from tests.support.apps import context_of
from tests.support.people import Person, made_user
from tests.support.placing import DOMAIN, PROJECT, created, execution
from tests.support.waiting import wait_until

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
_OWN = {"Origin": "http://localhost"}
_PAGE = f"/console/executions/{PROJECT}/{DOMAIN}/kept"
_CANCEL = f"{_PAGE}/cancel"


def form_token(browser: FlaskClient, page: str) -> str:
    """The token of the first form on a page."""
    token = re.search(r'name="form_token" value="([^"]+)"', browser.get(page).text)
    assert token is not None
    return token[1]


def cookie(browser: FlaskClient, name: str) -> str:
    """The value of a cookie that a browser has."""
    kept = browser.get_cookie(name, path="/console")
    assert kept is not None
    return kept.value


def make_execution(app: Flask) -> Person:
    ada = made_user(app)
    body = {"project": PROJECT, "domain": DOMAIN, "name": "kept", "spec": {"job": {"command": ["true"]}}}
    ada.do("POST", "executions", body)
    return ada


def test_the_form_token_of_another_session_is_refused(app: Flask) -> None:
    ada = make_execution(app)
    browser, _ = signed_in(app, ada)
    mallory, _ = signed_in(app, made_user(app, "mallory"))
    form = {"confirmation": "kept"}
    stolen = {**form, "form_token": form_token(mallory, _CANCEL)}
    assert browser.post(_CANCEL, data=stolen, headers=_OWN).status_code == 403
    # Not even where the other one's cookie of forms was planted.
    browser.set_cookie("rainbow-form", cookie(mallory, "rainbow-form"), path="/console")
    assert browser.post(_CANCEL, data=stolen, headers=_OWN).status_code == 403
    own = {**form, "form_token": form_token(browser, _CANCEL)}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:8080"},
        {**_OWN, "Sec-Fetch-Site": "cross-site"},
        {},
    ):
        assert browser.post(_CANCEL, data=own, headers=headers).status_code in (403, 415), headers
    for type_ in ("text/plain", "multipart/form-data; boundary=x", "application/json"):
        refused = browser.post(_CANCEL, data="confirmation=kept", content_type=type_, headers=_OWN)
        assert refused.status_code in (403, 415), type_
    assert browser.post(_CANCEL, data=own, headers=_OWN).status_code == 303


def test_no_other_method_is_read_from_a_request(app: Flask) -> None:
    browser, _ = signed_in(app, make_execution(app))
    form = {"confirmation": "kept", "_method": "POST", "form_token": form_token(browser, _CANCEL)}
    override = {"X-HTTP-Method-Override": "POST", "X-HTTP-Method": "POST", **_OWN}
    assert browser.get(_CANCEL, query_string=form, headers=override).status_code == 400
    assert browser.get(_CANCEL, headers=override).status_code == 200
    assert browser.get("/console/sign-out", headers=override).status_code == 405
    assert browser.get(_PAGE).status_code == 200
    assert "QUEUED" in browser.get(_PAGE).text


def test_signing_in_gives_a_session_that_nobody_knew_and_ends_the_one_before(app: Flask) -> None:
    ada = made_user(app)
    browser = app.test_client()
    browser.set_cookie("rainbow-session", "planted", path="/console")
    send(browser, SIGN_IN, SIGN_IN, token=ada.token or "")
    first = cookie(browser, "rainbow-session")
    assert first != "planted"
    send(browser, SIGN_IN, SIGN_IN, token=ada.token or "")
    second = cookie(browser, "rainbow-session")
    assert second != first
    browser.set_cookie("rainbow-session", first, path="/console")
    assert browser.get("/console/").status_code == 302
    # Another site cannot sign its visitors in, for it has no form of ours.
    assert app.test_client().post(SIGN_IN, data={"token": ada.token}, headers=_OWN).status_code == 403


@pytest.mark.parametrize(
    "address",
    [
        "/\\evil.example",
        "/console/\\evil.example",
        "/console/%2f%2fevil.example/..//x",
        "\thttps://evil.example",
        "javascript:alert(1)",
        "/console/\r\nSet-Cookie: a=b",
        "/consolex/",
        "/console/" + "x" * 3000,
    ],
)
def test_no_address_leads_elsewhere_after_signing_in(app: Flask, address: str) -> None:
    ada = made_user(app)
    page = app.test_client().get(f"{SIGN_IN}?next={quote(address)}")
    assert page.status_code == 200
    assert 'name="next" value="/console/"' in page.text
    sent = signed_in(app, ada, address)[1]
    assert (sent.status_code, sent.location) == (303, "/console/")
    assert "a=b" not in str(sent.headers)


def test_one_is_led_back_to_a_page_whose_address_needs_escapes(app: Flask) -> None:
    ada = made_user(app)
    asked = app.test_client().get("/console/executions/a b/ü?why_not=%C3%BC")
    assert asked.location == f"{SIGN_IN}?next={quote('/console/executions/a%20b/%C3%BC?why_not=%C3%BC', safe='')}"
    assert signed_in(app, ada, "/console/executions/a%20b")[1].location == "/console/executions/a%20b"


@pytest.mark.parametrize(
    "path",
    [
        "/console/",
        "/console/none",
        "/console/executions?none=1",
        "/console/static/0/x.css",
        "/console/sign-out",
        "/console",
    ],
)
def test_every_answer_keeps_frames_scripts_and_caches_out(api: FlaskClient, path: str) -> None:
    for answer in (api.get(path), api.head(path), api.get(path, headers={"Host": "evil.example"})):
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert api.get(path, headers={"Host": "evil.example"}).status_code == 421


def test_forms_have_bounds(api: FlaskClient) -> None:
    many = "&".join(f"f{number}=" for number in range(5001))
    created(api, "kept")
    token = form_token(api, _CANCEL)
    refused = api.post(_CANCEL, data=many, content_type="application/x-www-form-urlencoded", headers=_OWN)
    assert (refused.status_code, "more than 5000 fields" in refused.text) == (400, True)
    large = api.post(SIGN_IN, data={"form_token": token, "token": "x" * 70_000}, headers=_OWN)
    assert (large.status_code, "larger than 65536 bytes" in large.text) == (413, True)
    cause = {"form_token": token, "confirmation": "kept", "cause": "x" * 600_000}
    assert api.post(_CANCEL, data=cause, headers=_OWN).status_code == 400  # by the rule of causes
    assert api.post(_CANCEL, data={**cause, "cause": "x" * 2_000_000}, headers=_OWN).status_code == 413
    assert execution(api, "kept")["closure"]["phase"] == "QUEUED"


def test_cookies_are_sent_over_tls_alone_and_hold_no_headers(api: FlaskClient) -> None:
    created(api, "kept")
    tls = {"base_url": "https://localhost", "headers": {"Origin": "https://localhost"}}
    token = re.search(r'name="form_token" value="([^"]+)"', api.get(_CANCEL, base_url="https://localhost").text)
    assert token is not None
    ended = api.post(_CANCEL, data={"form_token": token[1], "confirmation": "kept"}, **tls)
    [notice] = [line for line in ended.headers.getlist("Set-Cookie") if line.startswith("rainbow-notice=")]
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/console"} <= set(notice.split("; "))


def test_a_session_over_tls_is_secure_also_behind_proxies(app: Flask) -> None:
    ada = made_user(app)
    browser = app.test_client()
    fields = {"form_token": form_token(browser, SIGN_IN), "token": ada.token}
    answer = browser.post(SIGN_IN, data=fields, headers={**_OWN, "X-Forwarded-Proto": "https, http"})
    [line] = [line for line in answer.headers.getlist("Set-Cookie") if line.startswith("rainbow-session=")]
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/console"} <= set(line.split("; "))


@pytest.mark.parametrize("value", ["\xff\xfe", "x" * 5000, '"\\000\\377"', ""])
def test_cookies_of_any_kind_are_no_error_of_the_admin(app: Flask, value: str) -> None:
    made_user(app)
    header = "; ".join(f"rainbow-{name}={value}" for name in ("session", "form", "notice", "login"))
    browser = app.test_client(use_cookies=False)
    assert browser.get("/console/", headers={"Cookie": header}).status_code == 302
    assert browser.get(SIGN_IN, headers={"Cookie": header}).status_code == 200


def test_wrong_tokens_are_limited_and_audited_and_a_right_one_is_not(make_app: MakeApp) -> None:
    app = make_app(limits={"wrongTokensPerMinute": 2})
    ada = made_user(app)
    wrong = Person(ada.client, "rbu-00000000-wrong")
    assert [signed_in(app, wrong)[1].status_code for _ in range(3)] == [401, 401, 429]
    limited = signed_in(app, wrong)[1]
    assert int(limited.headers["Retry-After"]) > 0
    assert signed_in(app, ada)[1].status_code == 303
    # Wrong sessions are looked up by their hash, one row each, and keep nobody out.
    for number in range(5):
        browser = app.test_client()
        browser.set_cookie("rainbow-session", f"wrong-{number}", path="/console")
        assert browser.get("/console/").status_code == 302
    events = ada.get("audit")["events"]
    assert "/console/sign-in" in {event.get("route") for event in events}


def test_sessions_of_a_deleted_user_end_at_once(app: Flask) -> None:
    ada = made_user(app)
    browser, _ = signed_in(app, made_user(app, "bob", role="viewer"))
    assert browser.get("/console/").status_code == 200
    ada.do("DELETE", "users/bob")
    assert browser.get("/console/").status_code == 302


def test_a_session_ends_when_its_token_expires(app: Flask, app_clock: Clock) -> None:
    ada = made_user(app)
    context = context_of(app)
    token = user_tokens.create_token(context, "ada", "short", timedelta(minutes=5)).token
    browser, _ = signed_in(app, Person(ada.client, token))
    app_clock.advance(299)
    assert browser.get("/console/").status_code == 200
    app_clock.advance(2)
    assert browser.get("/console/").status_code == 302


def test_one_signs_in_with_the_shared_token_while_it_is_shared(make_app: MakeApp, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(SHARED_TOKEN)
    file.chmod(0o600)
    app = make_app(server={"apiTokenFile": str(file)})
    operator = Person(app.test_client(), SHARED_TOKEN)
    browser, answer = signed_in(app, operator)
    assert answer.status_code == 303
    assert browser.get("/console/").status_code == 200
    with context_of(app).database.reading() as connection:
        [row] = connection.execute(select(sessions)).all()
    assert SHARED_TOKEN not in str(row)
    assert cookie(browser, "rainbow-session") not in str(row)
    assert signed_in(app, Person(operator.client, "another"))[1].status_code == 401
    file.write_text(f"another {SHARED_TOKEN}".replace(" ", "-"))
    wait_until(lambda: browser.get("/console/").status_code == 302)


@pytest.mark.parametrize(
    "changes",
    [
        *({"token": None, "token_hash": None}, {"token_hash": None}, {"proof": "none"}, {"proof": "agent"}),
        {"proof": "openid", "issuer_hash": None},
    ],
)
def test_a_session_without_what_proves_it_is_nobodys(app: Flask, changes: dict[str, str | None]) -> None:
    browser, _ = signed_in(app, made_user(app))
    with context_of(app).database.writing() as connection:
        connection.execute(update(sessions).values(changes))
    assert browser.get("/console/").status_code == 302


def test_sessions_that_are_over_are_deleted_without_a_sign_in(app: Flask, app_clock: Clock) -> None:
    context = context_of(app)
    signed_in(app, made_user(app))
    app_clock.advance(timedelta(hours=13).total_seconds())
    signed_in(app, made_user(app, "bob"))  # deletes the first
    with context.database.writing() as connection:
        [row] = connection.execute(select(sessions)).all()
        over = row._asdict() | {"hash": "over", "expires_at": context.clock()}
        connection.execute(insert(sessions).values(over))
    remove_expired_sessions(context, context.clock())
    with context.database.reading() as connection:
        assert connection.execute(select(sessions.c.hash)).scalars().all() == [row.hash]


_PROVIDER = {"issuer": "https://id.example", "audience": "rainbow", "clientId": "console"}


def trusting(app: Flask, issuer: str) -> Context:
    """What the services of an app work with where it trusts another provider."""
    context = context_of(app)
    assert context.settings.openid is not None
    openid = replace(context.settings.openid, issuer=issuer)
    return replace(context, settings=replace(context.settings, openid=openid))


def test_a_session_of_a_login_ends_when_another_provider_is_trusted(make_app: MakeApp) -> None:
    app = make_app(openid=_PROVIDER)
    context = context_of(app)
    login = Identity(user="ana", proof=Proof.OPENID, groups=frozenset({"ml"}))
    session = start_session(context, login, "the-access-token")
    assert identify_session(context, session.id, None).groups == {"ml"}
    other = trusting(app, "https://other.example")
    with pytest.raises(Unauthenticated):
        identify_session(other, session.id, None)
    assert identify_session(context, session.id, None).user == "ana"


@pytest.mark.parametrize(
    ("answered", "why"),
    [
        ("state=ours&error=access_denied", "The OpenID provider refused the login."),
        ("state=ours&code=c&iss=https://other.example", "This answers no login that this browser began."),
        ("state=another&code=c", "This answers no login that this browser began."),
    ],
)
def test_a_login_that_was_refused_or_is_not_ours_is_over(make_app: MakeApp, answered: str, why: str) -> None:
    browser = make_app(openid=_PROVIDER).test_client()
    finish = f"{SIGN_IN}/openid/finish"
    browser.set_cookie("rainbow-login", "ours verifier /console/", path="/console")
    refused = browser.get(f"{finish}?{answered}")
    assert (refused.status_code, why in refused.text) == (401, True)
    assert browser.get_cookie("rainbow-session", path="/console") is None
    again = browser.get(f"{finish}?state=ours&code=c")  # its cookie is gone, so that nothing answers it twice
    assert (again.status_code, "no login that this browser began" in again.text) == (401, True)


def test_an_admin_that_nobody_can_sign_in_at_says_why_it_refuses(api: FlaskClient) -> None:
    refused = api.get("/console/", headers={"X-Forwarded-For": "192.0.2.1"})
    assert refused.status_code == 401
    assert "came through a proxy" in refused.text
