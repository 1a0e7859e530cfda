"""
Takes the pictures of the console that the documentation shows, at three widths.

    python -m tests.console.screenshots
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.support.browsers import chromium, running_browser, visiting
from tests.support.small_console import DOMAIN, PROJECT, SmallConsole, describe, fill, running_small_console

_DOCS = Path(__file__).parents[2] / "docs"
#: The widths at which each page is taken, with the colours: a phone's, a desk's and a wall's.
_WIDTHS = ((390, "dark"), (1280, "light"), (1920, "light"))
_SCOPE = f"project={PROJECT}&domain={DOMAIN}"
#: The pages, by what the pictures are called.
_PAGES = {
    "overview": "/console/",
    "executions": "/console/executions",
    "execution": f"/console/executions/{PROJECT}/{DOMAIN}/train",
    "create": f"/console/create?{_SCOPE}&launch_plan=nightly",
    "settings": f"/console/settings?{_SCOPE}",
    "history": "/console/history",
    "cluster": "/console/fleet/clusters/east?search=gpu",
    "topology": "/console/fleet/topology",
    "token-pool": "/console/token-pools/licences",
}
#: What of a long page is to be seen.
_PARTS = {"cluster": ".icicle"}
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
                    is_wide = width == _WIDTHS[-1][0]
                    for page, path in _PAGES.items():
                        name = f"console-{page}-{width}.{'jpeg' if is_wide else 'png'}"
                        shown = visitor.visit(path)
                        if page in _PARTS:
                            shown.evaluate(_SCROLL, _PARTS[page])
                        if is_wide:  # as a PNG one would have over 200 kB
                            shown.screenshot(path=_DOCS / name, type="jpeg", quality=70)
                        else:
                            shown.screenshot(path=_DOCS / name)
                        print(f"docs/{name}, {(_DOCS / name).stat().st_size // 1000} kB")


def _add_more(console: SmallConsole) -> None:
    """A description of a cluster, and a token pool with holders and somebody in line."""
    describe(console, "east")
    console.call("PUT", "token_pools/licences", {"token_pool": {"capacity": 4, "description": "Of the solver."}})
    for name, tokens in (("etl-1", 1), ("etl-2", 3), ("etl-3", 2)):
        claim = {"token": name, "pools": {"licences": tokens}, "project": PROJECT, "domain": DOMAIN}
        console.call("POST", "token_allocations", {"claim": {**claim, "lease_seconds": 3600}})


if __name__ == "__main__":
    main()
