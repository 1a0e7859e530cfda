"""
Takes the pictures of the console that the documentation shows, at three widths.

    python -m tests.console.screenshots
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

from tests.support.browsers import chromium, running_browser, visiting
from tests.support.small_console import DOMAIN, PROJECT, SmallConsole, describe, fill, running_small_console

_DOCS = Path(__file__).parents[2] / "docs"
#: The widths at which each page is taken, with the colours: a phone's, a desk's and a wall's.
_WIDTHS = ((390, "dark"), (1280, "light"), (1920, "light"))
#: What a picture may have, and the qualities that are tried, the best first.
_MOST_BYTES = 120_000
_QUALITIES = (85, 75, 65, 55, 45, 35, 25)
_SCOPE = f"project={PROJECT}&domain={DOMAIN}"
#: The pages, by what the pictures are called.
_PAGES = {
    "overview": "/console/",
    "work": "/console/",
    "executions": "/console/executions",
    "execution": f"/console/executions/{PROJECT}/{DOMAIN}/train",
    "create": f"/console/create?{_SCOPE}&launch_plan=nightly",
    "settings": f"/console/settings?{_SCOPE}",
    "history": "/console/history",
    "cluster": "/console/fleet/clusters/east?search=gpu",
    "topology": "/console/fleet/topology",
    "token-pool": "/console/token-pools/licences",
}
#: What is filled in on a page, and what is there once that is answered.
_FILLED = {"create": ({"inputs.data": "s3://examples/overnight"}, "#where strong")}
#: What of a long page is to be seen.
_PARTS = {"cluster": ".icicle", "work": ".charts"}
_SCROLL = "(selector) => document.querySelector(selector).scrollIntoView({ block: 'center' })"


def main() -> None:
    """Take all of them."""
    if chromium() is None:
        sys.exit("Chromium is not installed: tests/install-servers gets it as root.")
    with tempfile.TemporaryDirectory() as directory, running_small_console(Path(directory)) as console:
        fill(console)
        _add_more(console)
        with running_browser() as browser:
            for width, scheme in _WIDTHS:
                with visiting(browser, console.url, width=width, scheme=scheme) as visitor:
                    for page, path in _PAGES.items():
                        path_of_picture = _DOCS / f"console-{page}-{width}.jpeg"
                        shown = visitor.visit(path)
                        fields, answered = _FILLED.get(page, ({}, "main"))
                        for name, value in fields.items():
                            shown.fill(f"[name='{name}']", value)
                        shown.wait_for_selector(answered)
                        if page in _PARTS:
                            shown.evaluate(_SCROLL, _PARTS[page])
                        path_of_picture.write_bytes(_picture(shown))
                        print(f"docs/{path_of_picture.name}, {path_of_picture.stat().st_size // 1000} kB")


def _picture(page: Page) -> bytes:
    """A picture of a page in the best quality in which it is not too large; as a PNG some would be."""
    for quality in _QUALITIES:
        picture = page.screenshot(type="jpeg", quality=quality)
        if len(picture) <= _MOST_BYTES:
            return picture
    sys.exit(f"{page.url} has more than {_MOST_BYTES} bytes in every quality that can be read.")


def _add_more(console: SmallConsole) -> None:
    """A description of a cluster, and a token pool with holders and somebody in line."""
    describe(console, "east")
    console.call("PUT", "token_pools/licences", {"token_pool": {"capacity": 4, "description": "Of the solver."}})
    for name, tokens in (("etl-1", 1), ("etl-2", 3), ("etl-3", 2)):
        claim = {"token": name, "pools": {"licences": tokens}, "project": PROJECT, "domain": DOMAIN}
        console.call("POST", "token_allocations", {"claim": {**claim, "lease_seconds": 3600}})


if __name__ == "__main__":
    main()
