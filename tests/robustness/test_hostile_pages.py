"""Hostile values and logs in a real browser: nothing runs, every page fits a phone, and a long log is scrolled."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.browsers import visiting
from tests.support.hostile_values import store_hostile_values
from tests.support.small_console import DOMAIN, PROJECT, running_small_console

_ADDRESSES = "[...document.querySelectorAll('a[href^=\"/console/\"]')].map((link) => link.getAttribute('href'))"
#: What stands out of the page to the right, for the message of a failure.
_TOO_WIDE = """(width) => [...document.querySelectorAll("main *")]
  .filter((node) => node.getBoundingClientRect().right > width && !node.closest(".scroll, pre"))
  .map((node) => node.outerHTML.slice(0, 120)).slice(0, 5)"""
#: A log with controls, a line of a megabyte, and lines after it.
_LOG = "\x1b[31mred\x1b[0m \x00\x07 \u202eright to left\n" + "<b>w</b>" * 125_000 + "\n" + "line\n" * 2000 + "the end\n"
_PIECE = 256 * 1024


@pytest.mark.parametrize("width", [390, 1280])
def test_no_value_runs_or_breaks_the_layout_of_a_page(browser: Browser, tmp_path: Path, width: int) -> None:
    with running_small_console(tmp_path) as console, visiting(browser, console.url, width=width) as visitor:
        store_hostile_values(lambda method, path, body: console.call(method, path, body))
        visitor.page.on("dialog", lambda dialog: visitor.wrong.append(f"dialog: {dialog.message}"))
        waiting, seen = ["/console/"], {"/console/"}
        while waiting:
            address = waiting.pop(0)
            if "/download" in address:
                continue
            page = visitor.page
            page.goto(console.url + address)
            is_wide = page.evaluate("document.documentElement.scrollWidth") > width
            if is_wide:
                visitor.wrong.append(f"too wide: {address}: {page.evaluate(_TOO_WIDE, width)}")
            for link in page.evaluate(_ADDRESSES):
                path = link.partition("?")[0].partition("#")[0]
                if path not in seen:
                    seen.add(path)
                    waiting.append(link)
        assert len(seen) > 50
        wrong = [text for text in visitor.wrong if "409 (CONFLICT)" not in text]  # of rollbacks that are refused
        assert wrong == [], "\n".join(wrong)


def test_a_log_with_controls_and_a_line_of_a_megabyte_is_scrolled_and_searched(
    browser: Browser, tmp_path: Path
) -> None:
    with running_small_console(tmp_path) as console, visiting(browser, console.url) as visitor:
        console.create("prints", cluster="east")
        agent = console.agents["east"]
        [lease] = agent.take()
        agent.report(lease, "RUNNING", native_id="1")
        for begin in range(0, len(_LOG), _PIECE):
            agent.prints(lease, _LOG[begin : begin + _PIECE])
        page = visitor.visit(f"/console/executions/{PROJECT}/{DOMAIN}/prints/log?offset=0")
        assert "red ␀␇ ⟨U+202E⟩right to left" in page.inner_text("#log")
        page.click("text=Follow")
        page.wait_for_selector("#log:has-text('the end')")
        page.evaluate("document.getElementById('log').scrollTop = 1e9")
        bottom = page.evaluate("(() => { const log = document.getElementById('log'); return log.scrollTop; })()")
        assert bottom > 1000
        page.fill("#log-search", "the end")
        page.wait_for_selector("#log-state:has-text('1 of 2004 lines')")
        assert page.inner_text("#log").strip() == "the end"
        page = visitor.visit(f"/console/executions/{PROJECT}/{DOMAIN}/prints/log")
        assert "red" not in page.inner_text("#log")  # only its end is loaded
        page.fill("#log-search", "right to left")
        page.click("#log-whole")
        page.wait_for_selector("#log-state:has-text('1 of 2004 lines')")
        assert "red" in page.inner_text("#log")
        assert page.locator("#log-part").is_hidden()
        visitor.check()
