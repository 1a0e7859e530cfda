"""Pages that are told of changes: by a real admin process, whose answers stay open."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient

from admin.core.settings.scopes import Scope
from admin.services import user_tokens
from admin.testing import admin_app
from tests.integration.test_console import signed_in
from tests.support.admins import RunningAdmin, running_admin
from tests.support.apps import context_of
from tests.support.databases import SqliteDatabases
from tests.support.people import made_user
from tests.support.placing import DOMAIN, JOB, PROJECT
from tests.support.waiting import wait_until

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
EVENTS = "/console/events"
LIST = "/console/executions"
_ONE_WORKER = {"RAINBOW_SERVER_WORKERS": "1", "RAINBOW_CONSOLE_LIVE_STREAMS": "2"}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    """An admin with one worker, which keeps two pages up to date."""
    with running_admin(tmp_path_factory.mktemp("live"), environment=_ONE_WORKER) as running:
        yield running


@contextmanager
def stream(admin: RunningAdmin, page: str, seen: str = "", token: str | None = None) -> Iterator[Iterator[str]]:
    """The events of a page, by name."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    query = {"page": page, "seen": seen}
    with requests.get(admin.url + EVENTS, params=query, headers=headers, stream=True, timeout=60) as answer:
        assert answer.ok, answer.text
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = answer.iter_lines(chunk_size=1, decode_unicode=True)
        yield (line.removeprefix("event: ") for line in lines if line.startswith("event: "))


def seen_by(admin: RunningAdmin, page: str) -> str:
    """The version that a page has now."""
    return admin.get(page).text.partition('data-live-version="')[2].partition('"')[0]


def post(admin: RunningAdmin, path: str, body: Any, method: str = "POST", token: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = requests.request(method, f"{admin.url}/api/v1/{path}", json=body, headers=headers, timeout=60)
    assert answer.ok, answer.text
    return answer.json()


def create(admin: RunningAdmin, name: str) -> None:
    post(admin, "executions", {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": {"job": JOB}})


def test_a_page_is_told_when_the_phase_of_its_execution_changes(admin: RunningAdmin) -> None:
    create(admin, "watched")
    page = f"{LIST}/{PROJECT}/{DOMAIN}/watched"
    with stream(admin, page, seen_by(admin, page)) as events:
        assert next(events) == "live"
        create(admin, "another")  # which the page does not show
        post(admin, f"executions/{PROJECT}/{DOMAIN}/watched", {"cause": "no longer needed"}, "DELETE")
        assert next(events) == "changed"
    assert "ABORTED" in admin.get(page).text


def test_what_changed_before_the_stream_began_is_told(admin: RunningAdmin) -> None:
    seen = seen_by(admin, LIST)
    create(admin, "meanwhile")
    with stream(admin, LIST, seen) as events:
        assert [next(events), next(events)] == ["live", "changed"]


def is_live(opened: ExitStack, admin: RunningAdmin) -> bool:
    """Whether a page got a stream, which is kept open."""
    return next(opened.enter_context(stream(admin, LIST))) == "live"


@pytest.mark.slow
def test_a_page_that_is_one_too_many_is_told_to_come_back(admin: RunningAdmin) -> None:
    with ExitStack() as opened:
        for _ in range(2):
            wait_until(
                lambda: is_live(opened, admin), seconds=60, interval=1
            )  # streams of other tests may count for some seconds
        refused = admin.get(f"{EVENTS}?page={LIST}&seen=0")
    assert (refused.status_code, refused.headers["Retry-After"]) == (200, "15")
    version = seen_by(admin, LIST)
    told, _, at = refused.text.rstrip("\n").rpartition(" ")
    assert told == f"retry: 15000\nid: {version}\nevent: full\ndata: {version}"
    assert time.time() - 60 < float(at) < time.time() + 1


def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    database = {"url": SqliteDatabases().set_up(tmp_path)}
    with (
        running_admin(tmp_path, database=database["url"]) as admin,
        admin_app({"database": database}) as app,
        stream(admin, LIST, token=made_user(app).token) as events,
    ):
        assert next(events) == "live"
        [token] = user_tokens.list_tokens(context_of(app), "ada")
        user_tokens.revoke(context_of(app), "ada", token.prefix)
        assert list(events)[-1] == "end"


def test_only_pages_that_are_kept_up_to_date_have_events(api: FlaskClient) -> None:
    for address in ("", "/console/sign-in", "/console/nothing", "https://elsewhere.example/"):
        answer = api.get(EVENTS, query_string={"page": address})
        assert answer.status_code == 400
        assert "page that is kept up to date" in answer.text


def test_events_need_the_permission_of_their_page(app: Flask) -> None:
    eve = made_user(app, "eve", role="viewer", scope=Scope(project="flyteexamples"))
    browser, _ = signed_in(app, eve)
    allowed = browser.get(EVENTS, query_string={"page": f"{LIST}?project=flyteexamples"})
    assert (allowed.status_code, allowed.mimetype) == (200, "text/event-stream")
    page = f"{LIST}/{PROJECT}/{DOMAIN}/hers"
    for refused in (browser.get(page), browser.get(EVENTS, query_string={"page": page})):
        assert refused.status_code == 400  # as if there were no such project
        assert "unknown_project" in refused.text
