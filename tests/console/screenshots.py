"""
Takes the pictures of the console that the documentation shows, at three widths.

    python -m tests.console.screenshots
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.support.browsers import Visitor, chromium, running_browser, sign_in, visiting
from tests.support.http_agents import HttpAgent
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
#: Those of an admin that has users and a cluster whose agent makes namespaces.
_PAGES_WITH_USERS = {"namespaces": "/console/fleet/namespaces", "sessions": "/console/sessions"}
_SHARED_TOKEN = "of-the-operators"
_QUOTAS = {"templateData": {"projectQuotaCpu": "64", "projectQuotaMemory": "256Gi"}}
#: What is filled in on a page, and what is there once that is answered.
_FILLED = {"create": ({"inputs.data": "s3://examples/overnight"}, "#where strong")}
#: What of a long page is to be seen.
_PARTS = {"cluster": ".icicle", "work": ".charts"}
_SCROLL = "(selector) => document.querySelector(selector).scrollIntoView({ block: 'center' })"


def main() -> None:
    """Take all of them."""
    if chromium() is None:
        sys.exit("Chromium is not installed: tests/install-servers gets it as root.")
    with tempfile.TemporaryDirectory() as directory, running_browser() as browser:
        with running_small_console(Path(directory)) as console:
            fill(console)
            _add_more(console)
            _take(browser, console, _PAGES)
        with running_small_console(Path(directory), token=_SHARED_TOKEN, cluster_resources=_QUOTAS) as console:
            _report_namespaces(console)
            tokens = [_token_of(console, user) for user in ("ada", "grace")]
            with visiting(browser, console.url) as visitor:
                _sign_in(visitor, tokens[1])
            _take(browser, console, _PAGES_WITH_USERS, tokens[0])


def _take(browser: Browser, console: SmallConsole, pages: Mapping[str, str], token: str | None = None) -> None:
    """Take the pictures of some pages, signed in by a token if there is one."""
    for width, scheme in _WIDTHS:
        with visiting(browser, console.url, width=width, scheme=scheme) as visitor:
            if token is not None:
                _sign_in(visitor, token)
            for page, path in pages.items():
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


def _sign_in(visitor: Visitor, token: str) -> None:
    visitor.visit("/console/sign-in")
    sign_in(visitor, token).wait_for_selector("button:text-is('Sign out')")


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


def _token_of(console: SmallConsole, user: str) -> str:
    """The token of a new user who may do everything."""
    console.call("POST", "users", {"user": {"name": user}})
    console.call("POST", "grants", {"grant": {"role": "admin", "user": user}})
    return str(console.call("POST", f"users/{user}/tokens", {"name": "laptop"})["token"])


def _report_namespaces(console: SmallConsole) -> None:
    """A cluster whose agent has made the namespaces, but for an object of one of them."""
    console.call("PUT", "clusters/lab", {"cluster": {"cluster_resources": True}})
    agent = HttpAgent(url=console.url, cluster="lab")
    agent.register(engine="kubernetes")
    agent.sync()
    made = agent.post("cluster_resources", {"known": {}}).json()["namespaces"]
    reports = []
    for place, namespace in enumerate(made):
        failed = {"state": "failed", "message": "exceeded quota: cluster-wide, requested: 64, limited: 32"}
        objects = [
            {"object": f"{document['kind']}/{document['metadata']['name']}", "state": "applied"}
            for document in namespace["objects"]
        ]
        objects[-1] |= failed if place == 0 else {}
        keys = {key: namespace[key] for key in ("namespace", "project", "domain", "digest")}
        reports.append({**keys, "exists": True, "objects": objects})
    agent.post("cluster_resources", {"reports": reports}).raise_for_status()


if __name__ == "__main__":
    main()
