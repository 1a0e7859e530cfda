"""The console without a browser: headers, forms, sessions and errors."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from werkzeug.test import TestResponse

from admin.console.answers import OPERATIONS
from admin.console.front import all_pages
from admin.console.pages import PREFIX
from admin.services import user_tokens
from admin.store.sessions import sessions
from admin.testing import running_admin
from tests.support.agents import Clock, set_clock
from tests.support.apps import context_of
from tests.support.openid_provider import CLIENT, OpenIdProvider
from tests.support.openid_tokens import AUDIENCE
from tests.support.people import Person, made_user
from tests.support.placing import API, DOMAIN, JOB, PROJECT, created, execution, put_cluster
from tests.support.small_console import HOSTILE

SLOW_ON = ("postgresql",)

ROOT = Path(__file__).parents[2]
SIGN_IN = "/console/sign-in"
_OWN = {"Origin": "http://localhost"}


def send(api: FlaskClient, path: str, page: str, **fields: str) -> TestResponse:
    """Send a form that stands on a page."""
    token = re.search(r'name="form_token" value="([^"]+)"', api.get(page).text)
    return api.post(path, data={"form_token": token[1] if token else "", **fields}, headers=_OWN)


def test_pages_keep_other_sites_and_inline_scripts_out(api: FlaskClient) -> None:
    page = api.get("/console/")
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Cache-Control"] == "no-store"
    assert not re.search(r"<script(?! [^>]*src=)|<style|\sstyle=|\son[a-z]+=", page.text)


def test_files_are_kept_for_ever_by_the_hash_in_their_address(api: FlaskClient) -> None:
    path = re.search(r'href="([^"]+\.css)"', api.get("/console/").text)
    assert path is not None
    sheet = api.get(path[1], headers={"Accept-Encoding": "gzip"})
    assert (sheet.mimetype, sheet.headers["Content-Encoding"]) == ("text/css", "gzip")
    assert "immutable" in sheet.headers["Cache-Control"]
    assert api.get("/console/static/0/console.css").status_code == 404


def test_what_the_overview_counts_leads_to_its_list(api: FlaskClient) -> None:
    created(api, "today")
    created(api, "over")
    assert api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/over").status_code == 200
    page = api.get("/console/").text
    [day] = set(re.findall(r'href="(/console/executions\?created_after=[^"]+created_before=[^"]+)"', page))
    assert "/today" in api.get(unescape(day)).text
    [waiting] = set(re.findall(r'href="(/console/executions\?[^"]*phase=QUEUED[^"]*created_after=[^"]*)"', page))
    assert "/today" in api.get(unescape(waiting)).text
    [finished] = set(re.findall(r'href="(/console/executions\?[^"]*filters=gte[^"]+)"', page))
    ended = api.get(unescape(finished)).text
    assert ("/over" in ended, "/today" in ended) == (True, False)
    put_cluster(api, "east")
    number = re.search(r'href="/console/history/(\d+)"', api.get("/console/").text)
    assert number is not None
    assert "east" in api.get(f"/console/history/{number[1]}").text


def test_days_are_not_counted_when_the_overview_is_shown_anew(api: FlaskClient) -> None:
    created(api, "today")
    live, _, rest = api.get("/console/").text.partition("The last two weeks")
    assert "Waiting when the day was over" in rest
    assert live.rindex("</section>") < live.rindex("</div>") < live.rindex('<div class="grid">')  # of no live region
    anew = api.get("/console/", headers={"Rainbow-Live": "1"}).text
    assert "Waiting longest" in anew
    assert "day_finished" not in anew
    assert "day_finished" in rest


def test_a_refused_form_leads_back_to_its_page(api: FlaskClient) -> None:
    created(api, "goes-on")
    own = f"/console/executions/{PROJECT}/{DOMAIN}/goes-on/cancel"
    token = re.search(r'name="form_token" value="([^"]+)"', api.get(own).text)
    assert token is not None
    form = {"form_token": token[1], "confirmation": "goes-on", "cause": "x" * 5000}
    for page, is_led in (
        (f"http://localhost{own}", True),
        ("http://other.example/console/", False),
        ("http://[", False),
    ):
        refused = api.post(own, data=form, headers={**_OWN, "Referer": page})
        assert (refused.status_code, f'<a href="{own}">Back to the form</a>' in refused.text) == (400, is_led)
        assert "other.example" not in refused.text


def test_values_of_any_kind_are_shown_as_text(api: FlaskClient) -> None:
    created(api, "marked", job={"command": ["echo", HOSTILE]})
    page = api.get("/console/executions/flytesnacks/development/marked").text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page


def test_a_form_without_the_token_of_its_page_is_refused(api: FlaskClient) -> None:
    created(api, "kept")
    path = "/console/executions/flytesnacks/development/kept/cancel"
    form = {"confirmation": "kept"}
    assert api.post(path, data=form).status_code == 415  # nobody says by which page it was sent
    assert api.post(path, data=form, headers={"Origin": "http://evil.example"}).status_code == 403
    refused = api.post(path, data={**form, "form_token": "0.0"}, headers=_OWN)
    assert refused.status_code == 403
    assert "form_expired" in refused.text
    unnamed = send(api, path, path, confirmation="another", cause="It is too slow.")
    assert unnamed.status_code == 400
    assert "This does not name it: type kept to confirm." in unnamed.text
    assert 'name="cause" maxlength="1000" value="It is too slow."' in unnamed.text
    assert execution(api, "kept")["closure"]["phase"] == "QUEUED"
    assert send(api, path, path, confirmation="kept").status_code == 303


def signed_in(app: Flask, person: Person, after: str = "") -> tuple[FlaskClient, TestResponse]:
    """A browser in which somebody signed in with their token."""
    browser = app.test_client()
    return browser, send(browser, SIGN_IN, SIGN_IN, token=person.token or "", next=after)


def test_signing_in_leads_back_to_the_page_that_was_asked_for(app: Flask) -> None:
    ada = made_user(app)
    asked = app.test_client().get("/console/executions?phase=QUEUED")
    assert (asked.status_code, asked.location) == (302, f"{SIGN_IN}?next=%2Fconsole%2Fexecutions%3Fphase%3DQUEUED")
    browser, answer = signed_in(app, ada, "/console/executions?phase=QUEUED")
    assert (answer.status_code, answer.location) == (303, "/console/executions?phase=QUEUED")
    [cookie] = [line for line in answer.headers.getlist("Set-Cookie") if line.startswith("rainbow-session=")]
    assert {"HttpOnly", "SameSite=Lax", "Path=/console"} <= set(cookie.split("; "))
    assert "ada" in browser.get("/console/executions").text
    assert browser.get("/api/v1/executions").status_code == 401  # a session is for pages alone


@pytest.mark.parametrize(
    "address", ["https://evil.example/", "//evil.example", "/console//evil.example", "/api/v1/users"]
)
def test_signing_in_leads_to_no_other_site(app: Flask, address: str) -> None:
    assert signed_in(app, made_user(app), address)[1].location == "/console/"


def test_a_wrong_token_is_said_on_the_page(app: Flask) -> None:
    browser, answer = signed_in(app, Person(made_user(app).client, "rbu-00000000-wrong"))
    assert answer.status_code == 401
    assert "This token is unknown, revoked or expired. Check that all of it was copied" in answer.text
    assert "RAINBOW_TOKEN" not in answer.text
    assert browser.get("/console/").status_code == 302


def test_a_session_ends_with_its_token(app: Flask) -> None:
    context = context_of(app)
    browser, _ = signed_in(app, made_user(app))
    [token] = user_tokens.list_tokens(context, "ada")
    assert browser.get("/console/").status_code == 200
    user_tokens.revoke(context, "ada", token.prefix)
    assert browser.get("/console/").status_code == 302


def test_a_session_ends_when_its_time_is_over(app: Flask) -> None:
    ada = made_user(app)
    clock = Clock()
    set_clock(app, clock)
    browser, _ = signed_in(app, ada)
    clock.advance(timedelta(hours=12).total_seconds() - 1)
    assert browser.get("/console/").status_code == 200
    clock.advance(1)
    assert browser.get("/console/").status_code == 302
    signed_in(app, ada)
    with context_of(app).database.reading() as connection:
        assert len(connection.execute(select(sessions)).all()) == 1  # the one that is over is gone


def test_signing_out_ends_the_session(app: Flask) -> None:
    browser, _ = signed_in(app, made_user(app))
    session = browser.get_cookie("rainbow-session", path="/console")
    assert session is not None
    assert send(browser, "/console/sign-out", "/console/").status_code == 303
    browser.set_cookie("rainbow-session", session.value, path="/console")
    assert browser.get("/console/").status_code == 302


def test_one_signs_in_at_the_openid_provider(openid_provider: OpenIdProvider) -> None:
    with running_admin({"openid": {"issuer": openid_provider.issuer, "audience": AUDIENCE, "clientId": CLIENT}}) as url:
        page = openid_provider.visit(f"{url}/console/sign-in/openid?next=/console/", "ana")
        assert (page.url, page.status_code) == (f"{url}/console/", 200)
        assert '?user=ana">ana</a>' in page.text
        finished = page.history[-1].url
        assert "/sign-in/openid/finish?" in finished
        assert requests.get(finished, timeout=60).status_code == 401  # by another browser, or once more
        cancelled = openid_provider.refuse(f"{url}/console/sign-in/openid")
        assert (cancelled.status_code, "The OpenID provider refused the login." in cancelled.text) == (401, True)
        forged = requests.get(f"{url}/console/sign-in/openid/finish?code=x&state=y", timeout=60)
        assert forged.status_code == 401
        assert "This answers no login that this browser began." in forged.text


def test_viewers_see_no_action_and_are_refused_it(app: Flask) -> None:
    ada = made_user(app)
    ada.do("POST", "executions", {"project": PROJECT, "domain": DOMAIN, "name": "hers", "spec": {"job": JOB}})
    browser, _ = signed_in(app, made_user(app, "eve", role="viewer"))
    path = f"/console/executions/{PROJECT}/{DOMAIN}/hers"
    assert "Cancel…" not in browser.get(path).text
    refused = browser.get(f"{path}/cancel")
    assert refused.status_code == 403
    assert "executions.end" in refused.text


def test_every_page_declares_what_it_needs(api: FlaskClient) -> None:
    assert all(page.path.startswith(PREFIX) and page.permission for page in all_pages())
    open_pages = {page.path for page in all_pages() if page.is_open}
    assert open_pages == {
        "/console/static/<version>/<name>",
        *(f"/console/{name}" for name in ("sign-in", "sign-in/openid", "sign-in/openid/finish", "sign-out")),
    }


def test_pages_ask_for_operations_that_there_are(app: Flask) -> None:
    sources = [path.read_text() for path in (ROOT / "admin/console").glob("*.py")]
    asked = {id for source in sources for id in re.findall(r'ask(?:_if_allowed)?\(\s*"(\w+)"', source)}
    assert asked
    assert asked <= app.extensions[OPERATIONS].keys()


def test_the_parts_of_the_console_fit_on_a_screen() -> None:
    folder = ROOT / "admin/console"
    assert [path.name for path in folder.rglob("*.*") if path.suffix in (".py", ".html") and _lines(path) > 350] == []


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())
