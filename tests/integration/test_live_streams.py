"""When open pages are told to ask again: at changes, after a while without any, and when there is time for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.live_subjects import Subject, Topic
from admin.services.context import Context
from admin.services.live_streams import LiveStreams, Stream
from tests.support.agents import played_agent
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, PROJECT, created, ok
from tests.support.waiting import wait_until

_SUBJECT = Subject((Topic.EXECUTIONS,))


@dataclass
class Page:
    """A client that keeps what it is sent."""

    events: list[str] = field(default_factory=list)
    is_open: bool = True

    def send(self, text: str) -> None:
        lines = dict(line.partition(": ")[::2] for line in text.splitlines())
        if "event" in lines:
            self.events.append(f"{lines['event']} {lines['data']}" if lines["event"] == "behind" else lines["event"])

    def close(self) -> None:
        self.is_open = False


class Opened:
    """Open pages of an admin, whose clock a test moves."""

    def __init__(self, context: Context) -> None:
        self.seconds = 1000.0
        self.streams = LiveStreams(context.database, 10, clock=lambda: self.seconds)

    def open(self, shown: str = "/") -> Page:
        page = Page()
        version = self.streams.version(_SUBJECT)
        self.streams.open(
            Stream(page="/", shown=shown, subject=_SUBJECT, version=version, admit=lambda: None, sink=page)
        )
        return page


@pytest.fixture
def opened(context: Context) -> Iterator[Opened]:
    pages = Opened(context)
    yield pages
    pages.streams.close()


def test_a_page_that_nothing_has_changed_asks_again_after_a_minute(opened: Opened) -> None:
    page = opened.open()
    opened.seconds += 50
    wait_until(lambda: len(page.events) == 1)
    opened.seconds += 11
    wait_until(lambda: page.events == ["live", "aged"], explain=lambda: str(page.events))


def test_a_page_whose_turn_comes_later_is_told_when(opened: Opened, api: FlaskClient) -> None:
    first = opened.open()
    opened.seconds += 1
    second = opened.open("/?another")
    for _ in range(60):
        opened.streams.note_cost("/", 1.0)  # showing a page takes a second of the two percent
    created(api, "e")
    wait_until(lambda: first.events == ["live", "changed"], explain=lambda: str(first.events))
    wait_until(lambda: len(second.events) == 2, explain=lambda: str(second.events))
    word, _, seconds = second.events[1].partition(" ")
    assert (word, 50 < int(seconds) < 110) == ("behind", True)
    opened.seconds += 60
    wait_until(lambda: second.events[-1] == "changed", explain=lambda: str(second.events))


def test_pages_that_show_the_same_are_told_together(opened: Opened, api: FlaskClient) -> None:
    """For the others get the answer of the first."""
    alike = [opened.open() for _ in range(3)]
    opened.seconds += 1
    another = opened.open("/?another")
    for _ in range(60):
        opened.streams.note_cost("/", 1.0)
        opened.streams.note_cost("/", 0.0, is_shared=True)
    created(api, "e")
    wait_until(lambda: len(another.events) == 2, explain=lambda: str(another.events))
    assert [page.events for page in alike] == [["live", "changed"]] * 3
    assert another.events[1].startswith("behind ")


def test_pages_that_were_told_together_share_one_answer(api: FlaskClient) -> None:
    def version(page: str, **headers: str) -> str:
        text = api.get(page, headers={"Rainbow-Live": "1", **headers}).text
        found = re.search(r'data-live-version="([^"]*)"', text)
        assert found is not None
        return found[1]

    created(api, "first")

    def now() -> str:
        return f"{context_of(api.application).database.clock().timestamp():.6f}"

    told_at = now()
    first = version("/console/executions", **{"Rainbow-Told": told_at})
    created(api, "second")
    assert version("/console/executions", **{"Rainbow-Told": told_at}) == first
    assert version("/console/executions?phase=QUEUED", **{"Rainbow-Told": told_at}) != first  # another address
    for number, later in enumerate((None, now, lambda: "soon", lambda: "nan")):
        before = version("/console/executions", **{"Rainbow-Told": told_at})
        created(api, f"later-{number}")
        told = {} if later is None else {"Rainbow-Told": later()}
        assert version("/console/executions", **told) != before


def test_a_page_that_is_shown_anew_has_nothing_of_its_viewer(api: FlaskClient) -> None:
    """It is shared with others who may see the same."""
    created(api, "e")
    for page in ("/console/", "/console/executions", f"/console/executions/{PROJECT}/{DOMAIN}/e", "/console/history"):
        api.set_cookie("rainbow-notice", "Something was done.", path="/console")
        anew = api.get(page, headers={"Rainbow-Live": "1"})
        assert "data-live=" in anew.text
        assert not [
            word for word in ("form_token", "Something was done", "curl ", 'header class="top"') if word in anew.text
        ]
        assert "Set-Cookie" not in anew.headers


def test_the_version_of_a_page_with_a_log_is_another_after_each_piece(app: Flask) -> None:
    agent = played_agent(app.test_client(), context_of(app), "east")
    for name in ("prints", "silent"):
        created(agent.client, name, cluster="east")
    agent.start(2)
    seen = []
    streams = context_of(app).live_streams
    subjects = [Subject((Topic.LOG,), (PROJECT, DOMAIN, name)) for name in ("prints", "silent")]
    for piece in (None, (0, b"one\n", "stdout"), (4, b"two\n", "stdout"), (0, b"oops\n", "stderr")):
        if piece is not None:
            agent.sync(logs=[agent.log("prints", *piece)])
        seen.append([streams.version(subject) for subject in subjects])
    prints, silent = zip(*seen, strict=True)
    assert (len({*prints}), len({*silent})) == (4, 1)


def test_the_version_of_token_pools_is_another_when_somebody_holds_or_releases(app: Flask) -> None:
    api, streams = app.test_client(), context_of(app).live_streams
    ok(api.put(f"{API}/token_pools/licences", json={"token_pool": {"capacity": 1}}))
    claim = {"pools": {"licences": 1}, "project": PROJECT, "domain": DOMAIN}
    subject = Subject((Topic.TOKENS,))
    seen = [streams.version(subject)]
    held = ok(api.post(f"{API}/token_allocations", json={"claim": {**claim, "token": "first", "lease_seconds": 60}}))
    seen.append(streams.version(subject))
    ok(api.post(f"{API}/token_releases", json={"release": {**claim, "token": "first", "number": held["number"]}}))
    seen.append(streams.version(subject))
    assert len({*seen}) == 3
