"""When open pages are told to ask again: at changes, after a while without any, and later where there is no time left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from flask.testing import FlaskClient

from admin.core.live_subjects import Subject, Topic
from admin.services.context import Context
from admin.services.live_streams import LiveStreams, Stream
from tests.support.placing import created
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

    def open(self) -> Page:
        page = Page()
        stream = Stream(
            page="/", subject=_SUBJECT, version=self.streams.version(_SUBJECT), admit=lambda: None, sink=page
        )
        self.streams.open(stream)
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
    second = opened.open()
    for _ in range(60):
        opened.streams.note_cost(1.0)  # showing a page takes a second of the two percent
    created(api, "e")
    wait_until(lambda: first.events == ["live", "changed"], explain=lambda: str(first.events))
    wait_until(lambda: len(second.events) == 2, explain=lambda: str(second.events))
    word, _, seconds = second.events[1].partition(" ")
    assert (word, 50 < int(seconds) < 110) == ("behind", True)
    opened.seconds += 60
    wait_until(lambda: second.events[-1] == "changed", explain=lambda: str(second.events))
