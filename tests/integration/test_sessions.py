"""Sessions of the console: who sees and ends them, over REST and on their pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from flask import Flask

from admin.core.identities import Identity, Proof
from admin.services.sessions import start_session
from tests.integration.test_console import send, signed_in
from tests.integration.test_console_fleet import shown, words_of
from tests.support.agents import Clock
from tests.support.apps import context_of
from tests.support.people import Person, made_user
from tests.support.placing import refused


def sessions_of(person: Person, query: str = "") -> list[tuple[str, str]]:
    """The users and tokens of the sessions that somebody sees."""
    return [(session["user"], session["token"]) for session in person.get(f"sessions{query}")["sessions"]]


def test_sessions_are_listed_with_where_they_began_and_when_they_were_used(app: Flask, app_clock: Clock) -> None:
    ada = made_user(app)
    browser, _ = signed_in(app, ada)
    [session] = ada.get("sessions")["sessions"]
    assert (session["user"], session["proof"], session["token"]) == ("ada", "token", (ada.token or "")[4:12])
    assert session["address"] == "127.0.0.1"
    assert session["browser"].startswith("Werkzeug/")
    assert session["created_at"] == session["last_used_at"] < session["expires_at"]
    app_clock.advance(59)
    shown(browser, "/console/")
    assert ada.get("sessions")["sessions"] == [session]
    app_clock.advance(2)
    shown(browser, "/console/")
    [used] = ada.get("sessions")["sessions"]
    assert {**used, "last_used_at": ""} == {**session, "last_used_at": ""}
    assert used["last_used_at"] > session["last_used_at"]
    app_clock.advance(timedelta(hours=12).total_seconds())
    assert ada.get("sessions") == {"sessions": []}


def test_whoever_may_not_see_tokens_of_others_sees_and_ends_sessions_of_their_own(app: Flask) -> None:
    ada, bea = made_user(app), made_user(app, "bea", role="viewer")
    signed_in(app, ada)
    signed_in(app, bea)
    first, _ = signed_in(app, bea)
    assert [user for user, _ in sessions_of(ada)] == ["ada", "bea", "bea"]
    assert [user for user, _ in sessions_of(ada, "?user=bea")] == ["bea", "bea"]
    page = ada.get("sessions?limit=2")
    assert [session["user"] for session in ada.get(f"sessions?limit=2&token={page['token']}")["sessions"]] == ["bea"]
    assert [user for user, _ in sessions_of(bea)] == ["bea", "bea"]
    assert bea.get("sessions")["partial"] is True
    assert bea.get("sessions?user=ada") == {"sessions": [], "partial": True}
    [own, other] = bea.get("sessions?user=bea")["sessions"]
    of_ada = ada.get("sessions?user=ada")["sessions"][0]["id"]
    refused(bea.call("DELETE", f"users/ada/sessions/{of_ada}"), 403, "permission_denied")
    refused(bea.call("DELETE", f"users/bea/sessions/{of_ada}"), 404, "session_not_found")
    for wrong in ("%25", "_" * 12, own["id"][:6], own["id"].upper() + "a"):
        refused(bea.call("DELETE", f"users/bea/sessions/{wrong}"), 404, "session_not_found")
    for session in (own, other):
        assert bea.do("DELETE", f"users/bea/sessions/{session['id']}")["session"]["id"] == session["id"]
    assert first.get("/console/").status_code == 302
    refused(bea.call("DELETE", f"users/bea/sessions/{own['id']}"), 404, "session_not_found")
    events = ada.get("audit?event=SESSION_ENDED")["events"]
    assert {event["target"] for event in events} == {f"session/bea/{each['id']}" for each in (own, other)}
    assert {(event["user"], event["proof"]) for event in events} == {("bea", "token")}


def test_signing_in_and_out_is_audited(app: Flask) -> None:
    ada = made_user(app)
    browser, _ = signed_in(app, ada)
    [session] = ada.get("sessions")["sessions"]
    assert send(browser, "/console/sign-out", "/console/").status_code == 303
    [ended] = ada.get("audit?event=SESSION_ENDED")["events"]
    [started] = ada.get("audit?event=SESSION_STARTED")["events"]
    target = f"session/ada/{session['id']}"
    for event, word in ((started, "SESSION_STARTED"), (ended, "SESSION_ENDED")):
        assert (event["event"], event["target"], event["proof"]) == (word, target, "token")
    assert (started["route"], ended["route"]) == ("/console/sign-in", "/console/sign-out")
    assert ended["reason"] == "signed out"


@pytest.mark.parametrize("by_themselves", [True, False])
def test_a_session_is_ended_on_its_page_after_its_id_was_typed(app: Flask, by_themselves: bool) -> None:
    ada, bea = made_user(app), made_user(app, "bea", role="viewer")
    browser, _ = signed_in(app, bea)
    [session] = bea.get("sessions")["sessions"]
    acting = browser if by_themselves else signed_in(app, ada)[0]
    text = shown(acting, "/console/users/bea")
    assert session["id"] in text
    assert ("this one" in words_of(text)) == by_themselves
    assert ("bea" in words_of(shown(acting, "/console/sessions"))) is True
    path = f"/console/users/bea/sessions/{session['id']}/end"
    assert ("have to sign in again" in words_of(shown(acting, path))) == by_themselves
    assert send(acting, path, path, confirmation="bea").status_code == 400
    led = send(acting, path, path, confirmation=session["id"]).location
    assert led == ("/console/sign-in" if by_themselves else "/console/sessions?user=bea")
    assert browser.get("/console/").status_code == 302


def test_a_login_sees_its_sessions_without_a_user_of_that_name(app: Flask) -> None:
    ada, context = made_user(app), context_of(app)
    login = Identity(user="ana@example.org", proof=Proof.OPENID, token="login", groups=frozenset({"ml"}))
    start_session(context, login, "", address="192.0.2.9", browser="<script>" + "x" * 300)
    browser, _ = signed_in(app, ada)
    text = shown(browser, "/console/sessions?user=ana@example.org")
    assert "OpenID" in words_of(text)
    assert "<script>x" not in text
    assert len(ada.get("sessions?user=ana@example.org")["sessions"][0]["browser"]) == 200
