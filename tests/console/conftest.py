"""One browser and one admin for all tests of the console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browsers import Visitor, visiting
from tests.support.small_console import SmallConsole, fill, running_small_console


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallConsole]:
    """An admin without users, with something on every page; tests that change it make names of their own."""
    with running_small_console(tmp_path_factory.mktemp("console")) as running:
        fill(running)
        yield running


@pytest.fixture
def visitor(browser: Browser, console: SmallConsole) -> Iterator[Visitor]:
    """Somebody who looks at the console."""
    with visiting(browser, console.url) as somebody:
        yield somebody
