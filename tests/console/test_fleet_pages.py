"""The fleet, token pools, users and what if in a real browser: each page is accessible, and one story through them."""

from __future__ import annotations

import pytest

from tests.support.browsers import Visitor
from tests.support.small_console import DOMAIN, PROJECT, SmallConsole, describe, hold_licences

#: Each page, and something that is on it.
_PAGES = {
    "/console/fleet": "A disk is replaced.",
    "/console/fleet/clusters/west": "Its agent synced for the first time.",
    "/console/fleet/clusters/east?search=gpu": "8 of its parts have",
    "/console/fleet/clusters/east/drain": "Type east to confirm",
    "/console/fleet/pools": "weighted",
    "/console/fleet/pools/gpu": "Promised",
    "/console/fleet/topology": "pool gpu",
    "/console/fleet/namespaces": "none makes it yet",
    "/console/fleet/warnings": "north",
    "/console/token-pools/licences": "etl-1",
    "/console/token-pools/licences/release?token=etl-1": "Type etl-1 to confirm",
    "/console/users": "create-token",
    "/console/access?user=ada&permission=logs.read": "lacks logs.read",
    "/console/access/roles": "token_pools.allocate",
    "/console/sessions": "Signed in",
    "/console/audit": "token created",
    "/console/what-if": "Settings to assume",
}


@pytest.fixture(scope="module")
def filled(console: SmallConsole) -> SmallConsole:
    """A console that also has a token pool of which somebody holds tokens, and a description of a cluster."""
    describe(console, "east")
    hold_licences(console)
    return console


@pytest.mark.slow
@pytest.mark.usefixtures("filled")
def test_pages_of_the_fleet_and_of_users_are_accessible(visitor: Visitor) -> None:
    visitor.visit_pages(_PAGES)


@pytest.mark.usefixtures("filled")
def test_a_cluster_is_drained_and_a_file_is_simulated(visitor: Visitor) -> None:
    page = visitor.visit("/console/fleet")
    page.click("th >> text=west")
    page.click("text=Disable…")
    visitor.confirm("west", reason="It is sold.")
    assert "west is disabled." in visitor.status
    page.click("text=Enable…")
    page.click("button.primary")
    assert "west is enabled." in visitor.status
    visitor.visit("/console/what-if")
    pool = f"kind: cluster-pool-attribute\nproject: {PROJECT}\ndomain: {DOMAIN}\ncluster_pool_name: spare\n"
    page.fill("[name=documents]", pool)
    page.click("button.primary")
    assert "would go elsewhere" in visitor.status
    visitor.check()
