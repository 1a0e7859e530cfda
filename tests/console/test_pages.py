"""Every page in a real browser: it loads, nothing is wrong on it, and it fits a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.support.browsers import Visitor, visiting
from tests.support.small_console import DOMAIN, PROJECT, SmallConsole

#: Each page, and something that is on it.
PAGES = {
    "/console/": "Why work waits",
    "/console/executions": "train",
    "/console/executions?by=phase": "RUNNING",
    f"/console/executions/{PROJECT}/{DOMAIN}/train": "outranks pool 'gpu'",
    f"/console/executions/{PROJECT}/{DOMAIN}/waits-for-west": "A disk is replaced.",
    f"/console/executions/{PROJECT}/{DOMAIN}/train/cancel": "Type train to confirm",
    "/console/sign-in": "nobody needs to sign in",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible_and_asks_no_other_host(browser: Browser, console: SmallConsole, scheme: str) -> None:
    width = 390 if scheme == "dark" else 1280
    with visiting(browser, console.url, width=width, scheme=scheme) as visitor:
        for path, text in PAGES.items():
            page = visitor.visit(path)
            assert text in page.inner_text("main"), path
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_a_wrong_address_is_answered_with_a_page_that_says_so(visitor: Visitor) -> None:
    page = visitor.visit("/console/nothing", status=404)
    assert "path_not_found" in page.inner_text("main")


def test_an_execution_is_cancelled_after_its_name_was_typed(visitor: Visitor, console: SmallConsole) -> None:
    console.create("to-be-cancelled")
    page = visitor.visit(f"/console/executions/{PROJECT}/{DOMAIN}/to-be-cancelled")
    page.click("text=Cancel…")
    page.fill("[name=cause]", "It is no longer needed.")
    page.fill("[name=confirmation]", "to-be-cancelled")
    page.click("button.danger")
    assert "to-be-cancelled is being ended." in page.inner_text("[role=status]")
    visitor.check()
    ended = console.call("GET", f"executions/{PROJECT}/{DOMAIN}/to-be-cancelled")
    assert ended["closure"]["abort_metadata"]["cause"] == "It is no longer needed."


def test_the_colours_stay_as_they_were_chosen(visitor: Visitor) -> None:
    page = visitor.visit("/console/")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    visitor.visit("/console/executions")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
