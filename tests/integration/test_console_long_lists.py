"""Pages over more executions than one page looks at: what they leave out is said, and the way on is a link."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.support.agents import Clock, closure, played_agent, set_clock
from tests.support.apps import context_of, set_limits
from tests.support.placing import API, PROJECT, created, ok, put_cluster

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
DAY = 24 * 3600
LIST = "/console/executions"


def text_of(api: FlaskClient, address: str) -> str:
    """What a page shows beside its frame, as text."""
    answer = api.get(address)
    assert answer.status_code == 200, answer.text
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))


def further(api: FlaskClient, address: str) -> str:
    """Where a page's link goes that leads on."""
    link = re.search(r'href="([^"]+)" rel="next"', api.get(address).text)
    assert link is not None, text_of(api, address)
    return unescape(link[1])


@pytest.fixture
def api(app: Flask) -> FlaskClient:
    """An admin whose pages look at three executions at once."""
    return set_limits(app, examined=3, examined_first=1, sorted=3, counted=3)


def test_a_list_without_matches_so_far_leads_on_until_they_come(api: FlaskClient) -> None:
    for number in range(9):
        created(api, f"e{number}")
    address, pages = f"{LIST}?search=e0&limit=1", 0
    assert "fits these filters among the newest 3 that were looked at." in text_of(api, address)
    while "/e0?" not in api.get(address).text and f"{PROJECT}/development/e0" not in api.get(address).text:
        assert "There are no executions" not in text_of(api, address)
        address, pages = further(api, address), pages + 1
    assert pages > 1
    assert "among the next 3" in text_of(api, further(api, f"{LIST}?search=e0&limit=1"))


def test_counts_without_matches_so_far_lead_on(api: FlaskClient) -> None:
    for number in range(7):
        created(api, f"e{number}")
    address = f"{LIST}?search=e0&by=phase"
    assert "among the newest 3 that were looked at." in text_of(api, address)
    while "QUEUED" not in api.get(address).text.partition("data-live")[2]:
        address = further(api, address)


def test_what_waits_says_that_its_numbers_are_at_least_these(api: FlaskClient, app: Flask) -> None:
    for number in range(5):
        created(api, f"e{number}")
    page = text_of(api, f"{LIST}/waiting")
    assert "Only the newest 3 that wait are counted here" in page
    assert "All 3+" in page
    assert "the oldest created" in page
    assert "All 2+" in text_of(api, further(api, f"{LIST}/waiting"))


def test_reasons_come_by_the_longest_wait(app: Flask) -> None:
    clock = Clock()
    set_clock(app, clock)
    api = app.test_client()
    for name in ("west", "south"):
        put_cluster(api, name)
    ok(api.post(f"{API}/clusters/west/cordon", json={}))
    created(api, "old", cluster="west")
    clock.advance(2 * 3600)
    for number in range(3):
        created(api, f"new-{number}", cluster="south")
    reasons = [closure(api, name)[1] for name in ("old", "new-0")]
    assert reasons[0] != reasons[1]
    for address in ("/console/", f"{LIST}/waiting"):
        page = api.get(address).text
        places = [page.index(f"reason={reason}") for reason in reasons]
        assert places == sorted(places), address


def test_the_overview_counts_each_phase_by_itself(app: Flask) -> None:
    agent = played_agent(app.test_client(), context_of(app), "east")
    created(agent.client, "runs", cluster="east")
    agent.start()
    api = set_limits(app, counted=3)
    for number in range(5):
        created(api, f"waits-{number}")
    page = text_of(api, "/console/")
    assert "3+ QUEUED oldest" in page
    assert "1 RUNNING" in page
    assert "Only the newest 3 that wait are counted" in page


def test_the_overview_draws_days_that_were_not_counted_apart_from_empty_ones(app: Flask) -> None:
    clock = Clock()
    set_clock(app, clock)
    api = set_limits(app, counted=3)
    for _ in range(4):
        created(api, f"e{clock().day}-a")
        created(api, f"e{clock().day}-b")
        clock.advance(DAY)
    page = api.get("/console/").text
    uncounted = re.findall(r'class="unknown".*?<title>(\S+): not counted', page)
    first_counted = (clock() - timedelta(days=2)).date().isoformat()
    assert f'aria-label="Created, {first_counted}: 1 or more"' in page
    last = (clock() - timedelta(days=1)).date().isoformat()
    # Nothing is missing of what was created on it, but what was created earlier may wait too.
    assert f'aria-label="Created, {last}: 2"' in page
    assert f"{last}: 3 or more" in page
    assert uncounted
    assert max(uncounted) < first_counted
    assert "days before them are drawn in grey" in page


def test_recent_failures_are_those_that_ended_last(app: Flask) -> None:
    clock = Clock()
    set_clock(app, clock)
    agent = played_agent(app.test_client(), context_of(app), "east")
    for name in ("ends-last", "ends-first"):
        created(agent.client, name, cluster="east")
        agent.start()
        clock.advance(10)
    for name in ("ends-first", "ends-last"):
        agent.report(name, "FAILED", exit_code=1)
        clock.advance(10)
    failures = agent.client.get("/console/").text.partition("Recent failures")[2]
    assert failures.index("ends-last") < failures.index("ends-first")


def test_a_sort_over_too_many_is_refused_above_a_list_that_is_still_there(api: FlaskClient) -> None:
    for number in range(5):
        created(api, f"e{number}")
    address = f"{LIST}?phase=QUEUED&sort_by.key=duration&limit=2"
    page = text_of(api, address)
    assert "Not sorted: more than 3 executions would have to be sorted by duration" in page
    assert "e4" in page
    assert 'name="phase" value="QUEUED"' in api.get(address).text
    assert "e2" in text_of(api, further(api, address))
    assert api.get(f"{LIST}?sort_by.key=nonsense").status_code == 400
