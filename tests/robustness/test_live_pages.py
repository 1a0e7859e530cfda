"""Open pages of the console in a real browser: hidden, too many of them, and while the admin is away."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, Page

from tests.support.admins import RunningAdmin, running_admin
from tests.support.browsers import HIDE, visiting
from tests.support.placing import DOMAIN, JOB, PROJECT
from tests.support.waiting import wait_until

_LIST = "/console/executions"


def create(url: str, name: str) -> None:
    body: dict[str, Any] = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": {"job": JOB}}
    requests.post(f"{url}/api/v1/executions", json=body, timeout=60).raise_for_status()


def is_shown(page: Page, name: str) -> bool:
    return page.locator(f"[data-live] a:text-is('{name}')").count() == 1


def shows(page: Page, name: str) -> None:
    page.wait_for_selector(f"[data-live] a:text-is('{name}')")


def says(page: Page, text: str) -> None:
    """The line below the page tells how it is kept up to date."""
    page.wait_for_selector(f"#live-state:has-text('{text}')")


def is_free(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def open_streams(admin: RunningAdmin) -> int:
    """How many pages are kept up to date, as the admin counts them."""
    counted = re.findall(r"^rainbow_live_streams\{.*\} (.+)$", admin.get("/metrics").text, re.MULTILINE)
    return int(sum(map(float, counted)))


def has_streams(admin: RunningAdmin, count: int) -> None:
    wait_until(lambda: open_streams(admin) == count, explain=lambda: f"{open_streams(admin)} streams are open")


def test_a_list_keeps_what_its_reader_does_and_a_hidden_one_has_no_stream(browser: Browser, tmp_path: Path) -> None:
    with running_admin(tmp_path) as admin, visiting(browser, admin.url) as visitor:
        create(admin.url, "first")
        page = visitor.visit(_LIST)
        says(page, "Live")
        page.fill("[name=cluster]", "not sent yet")
        page.focus("text=first")
        create(admin.url, "second")
        shows(page, "second")
        assert page.evaluate("document.activeElement.textContent") == "first"
        assert page.input_value("[name=cluster]") == "not sent yet"

        page.evaluate("getSelection().selectAllChildren(document.querySelector('[data-live] table'))")
        create(admin.url, "third")
        page.wait_for_timeout(2500)
        assert not is_shown(page, "third")  # what is selected stays
        page.evaluate("getSelection().removeAllRanges()")
        shows(page, "third")

        has_streams(admin, 1)
        page.evaluate(HIDE, True)
        has_streams(admin, 0)
        create(admin.url, "fourth")
        page.wait_for_timeout(2500)
        assert not is_shown(page, "fourth")
        page.evaluate(HIDE, False)
        shows(page, "fourth")
        has_streams(admin, 1)
        visitor.check()


@pytest.mark.parametrize("way", ["stopped", "killed"])
def test_a_page_recovers_after_the_admin_was_away(browser: Browser, tmp_path: Path, way: str) -> None:
    with running_admin(tmp_path) as admin, visiting(browser, admin.url) as visitor:
        create(admin.url, "before")
        page = visitor.visit(_LIST)
        says(page, "Live")
        page.evaluate("window.isLoadedOnce = true")
        began = time.monotonic()
        if way == "stopped":
            assert admin.stop() == 0
            assert time.monotonic() - began < 5  # open pages are not waited for
        else:
            admin.process.kill()
            admin.process.wait()
        says(page, "The connection was lost.")
        with running_admin(tmp_path, port=int(admin.url.rpartition(":")[2])) as restarted:
            create(restarted.url, "after")
            shows(page, "after")
            says(page, "Live")
            assert page.evaluate("window.isLoadedOnce")
            has_streams(restarted, 1)


def test_a_page_that_got_no_place_comes_back_for_what_is_new(browser: Browser, tmp_path: Path) -> None:
    one_place = {"RAINBOW_SERVER_WORKERS": "1", "RAINBOW_CONSOLE_LIVE_STREAMS": "1"}
    with running_admin(tmp_path, environment=one_place) as admin, visiting(browser, admin.url) as visitor:
        says(visitor.visit(_LIST), "Live")
        with visiting(browser, admin.url) as another:
            page = another.visit(_LIST)
            says(page, "Looked at again every 15 seconds")
            create(admin.url, "new")
            shows(visitor.page, "new")  # told at once
            shows(page, "new")
            another.check()
        assert 'rainbow_live_streams_refused_total{page="/console/executions"}' in admin.get("/metrics").text
        has_streams(admin, 1)
