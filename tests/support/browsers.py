"""A real browser: Debian's Chromium, driven by Playwright, and what every page must keep to in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

#: What axe is to look for, WCAG 2.1 AA, and nothing that takes it long and nobody reads: where else a rule holds.
_OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "resultTypes": ["violations"],
    "selectors": False,
    "preload": False,
}
HEIGHT = 900
#: A name of this machine that browsers do not take for it, so that its plain HTTP is as little trusted as another's.
ELSEWHERE = "console.test"
#: Lets a page believe that its tab is hidden, or is not.
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
_HAS_AXE = "typeof axe !== 'undefined'"
_RUN_AXE = """options => axe.run(options).then(results => results.violations.flatMap(
    rule => rule.nodes.map(node => `axe: ${rule.id}: ${node.html.slice(0, 200)}`)))"""
#: Widths and colours in which each page is looked at: a desk's and a phone's.
_LOOKS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (390, "dark"))


def chromium() -> str | None:
    """The program, if it is installed."""
    return shutil.which("chromium")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser, which is closed in any case."""
    with sync_playwright() as playwright:
        # Without its sandbox, which root cannot have; pages are those of the admin under test alone.
        names = f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu", names])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visitor:
    """Somebody with a browser at one admin; what its pages do wrong is kept until `check`."""

    url: str
    context: BrowserContext
    wrong: list[str] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)  #: statuses that the pages of a test are to answer with

    def __post_init__(self) -> None:
        self.context.set_default_timeout(60_000)
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.wrong.append(f"script: {error}"))
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("request", lambda request: self._check_host(request.url))

    def _note(self, type: str, text: str) -> None:
        if type == "error" and not any(f"status of {status}" in text for status in self.refused):
            self.wrong.append(f"console: {text}")

    def _check_host(self, url: str) -> None:
        if not url.startswith("data:") and urlsplit(url).netloc != urlsplit(self.url).netloc:
            self.wrong.append(f"off host: {url}")

    def visit(self, path: str, status: int = 200) -> Page:
        """Load a page of the console, on which nothing may go wrong; axe looks at each page once, in `visit_pages`."""
        if status != 200:
            self.refused.add(status)
        response = self.page.goto(self.url + path)
        assert response is not None
        assert response.status == status, self.page.inner_text("main")
        assert self.wrong == []
        return self.page

    def check(self) -> None:
        """Nothing in the console's log, no other host was asked, and axe finds no violation on the page."""
        if not self.page.evaluate(_HAS_AXE):
            self.page.evaluate(Axe().axe_script)
        assert self.wrong + self.page.evaluate(_RUN_AXE, _OPTIONS) == []

    def confirm(self, name: str, **fields: str) -> None:
        """Name the thing on a page that asks for it, and do what cannot be taken back."""
        for filled, value in {**fields, "confirmation": name}.items():
            self.page.fill(f"[name={filled}]", value)
        self.page.click("button.danger")

    @property
    def status(self) -> str:
        """What a page says was done."""
        return self.page.inner_text("[role=status]")

    def visit_pages(self, pages: Mapping[str, str]) -> None:
        """Load each page, which has a text, and check it at each width, which it fits, and in each colour scheme."""
        for path, text in pages.items():
            for width, scheme in _LOOKS:
                self.page.set_viewport_size({"width": width, "height": HEIGHT})
                self.page.emulate_media(color_scheme=scheme)
                if (width, scheme) == _LOOKS[0]:
                    self.visit(path)
                self.check()
                assert text in self.page.inner_text("main"), path
                assert self.page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)


def sign_in(visitor: Visitor, token: str) -> Page:
    """Sign in with a token at the page that asks for it."""
    page = visitor.page
    page.fill("[name=token]", token)
    page.click("button:text-is('Sign in')")
    return page


@contextmanager
def visiting(
    browser: Browser, url: str, *, width: int = 1280, scheme: str = "light", has_scripts: bool = True
) -> Iterator[Visitor]:
    """A visitor with no cookies yet."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT},
        color_scheme="dark" if scheme == "dark" else "light",
        java_script_enabled=has_scripts,
    )
    try:
        yield Visitor(url, context)
    finally:
        context.close()
