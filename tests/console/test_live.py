"""An open page is kept up to date, in a real browser with a real admin process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests
from playwright.sync_api import Browser, Page

from tests.support.admins import running_admin
from tests.support.browsers import visiting
from tests.support.placing import DOMAIN, JOB, PROJECT

_HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
_STATE = "document.getElementById('live-state').textContent"


def create(url: str, name: str) -> None:
    body: dict[str, Any] = {"project": PROJECT, "domain": DOMAIN, "name": name, "spec": {"job": JOB}}
    requests.post(f"{url}/api/v1/executions", json=body, timeout=60).raise_for_status()


def is_shown(page: Page, name: str) -> bool:
    return page.locator(f"[data-live] a:text-is('{name}')").count() == 1


def shows(page: Page, name: str) -> None:
    page.wait_for_selector(f"[data-live] a:text-is('{name}')")


def test_a_list_follows_what_happens_until_its_tab_is_hidden_and_after_a_restart(
    browser: Browser, tmp_path: Path
) -> None:
    with running_admin(tmp_path) as admin, visiting(browser, admin.url) as visitor:
        create(admin.url, "first")
        page = visitor.visit("/console/executions")
        page.wait_for_function(f"{_STATE} === 'Live'")
        page.focus("text=first")
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

        page.evaluate(_HIDE, True)
        create(admin.url, "fourth")
        page.wait_for_timeout(2500)
        assert not is_shown(page, "fourth")
        page.evaluate(_HIDE, False)
        shows(page, "fourth")
        visitor.check()

        port = admin.url.rsplit(":", 1)[1]
        admin.stop()
        page.wait_for_function(f"{_STATE}.startsWith('The connection was lost.')")
        with running_admin(tmp_path, "--port", port) as restarted:
            create(restarted.url, "fifth")
            shows(page, "fifth")
            page.wait_for_function(f"{_STATE} === 'Live'")
