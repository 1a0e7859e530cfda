"""Every page in a real browser: it loads, nothing is wrong on it, and it fits a phone."""

from __future__ import annotations

from playwright.sync_api import Browser, Page

from tests.support.browsers import Visitor, visiting
from tests.support.small_console import DOMAIN, PROJECT, SmallConsole

_POOL = f"project={PROJECT}&domain={DOMAIN}&resource_type=CLUSTER_ASSIGNMENT"
#: Each page, and something that is on it.
PAGES = {
    "/console/": "Why work waits",
    "/console/executions": "train",
    "/console/executions?by=phase": "RUNNING",
    f"/console/executions/{PROJECT}/{DOMAIN}/train": "outranks pool 'gpu'",
    f"/console/executions/{PROJECT}/{DOMAIN}/waits-for-west": "A disk is replaced.",
    f"/console/executions/{PROJECT}/{DOMAIN}/train/cancel": "Type train to confirm",
    f"/console/executions/{PROJECT}/{DOMAIN}/train/log": "epoch 2",
    f"/console/executions/{PROJECT}/{DOMAIN}/train/outputs": "It has left no files.",
    f"/console/executions/{PROJECT}/{DOMAIN}/train/relaunch": "What is to differ",
    f"/console/executions/{PROJECT}/{DOMAIN}/report-1/redecide": "Nothing would change.",
    "/console/executions/waiting": "CLUSTERS_CORDONED",
    "/console/executions/cancel?cluster=west": "There is nothing to do.",
    "/console/create": "Where would it run?",
    f"/console/create?project={PROJECT}&domain={DOMAIN}&launch_plan=nightly": "Trains on what came in overnight.",
    f"/console/create/launch-plans?project={PROJECT}&domain={DOMAIN}": "training v1",
    "/console/settings": "Domains and projects",
    f"/console/settings?project={PROJECT}&domain={DOMAIN}": "Training needs GPUs.",
    f"/console/settings/edit?{_POOL}": "Plan the change",
    f"/console/settings/edit?{_POOL}&form=raw": "The whole row",
    f"/console/settings/delete?{_POOL}": "Type cluster-pool-attribute to confirm",
    f"/console/settings/changed?{_POOL}": "wait here",
    f"/console/settings/compare?project={PROJECT}&domain={DOMAIN}&other_domain=staging": "differ",
    "/console/settings/no-effect": "looked at, as of revision",
    "/console/settings/uses?pool=gpu": "cluster_pool_name",
    "/console/history": "revision 1",
    "/console/history/1": "Training needs GPUs.",
    "/console/history/1/roll-back": "Type 1 to confirm",
    "/console/history/compare?from=0&to=1": "cluster_pool_name",
    "/console/define/token-pool": "Look at what it would do",
    "/console/define/grant": "Give a role",
    "/console/sign-in": "nobody needs to sign in",
}


def plan_pool(visitor: Visitor, pool: str, why: str) -> None:
    """Name another pool in the form of the setting, and look at what that would do."""
    visitor.page.fill("[name='value.0']", pool)
    visitor.page.fill("[name=message]", why)
    visitor.page.click("text=Plan the change")


def test_every_page_is_accessible_in_both_schemes_and_asks_no_other_host(visitor: Visitor) -> None:
    visitor.visit_pages(PAGES)


def test_a_wrong_address_is_answered_with_a_page_that_says_so(visitor: Visitor) -> None:
    page = visitor.visit("/console/nothing", status=404)
    assert "path_not_found" in page.inner_text("main")


def test_filters_are_folded_on_a_phone(browser: Browser, console: SmallConsole) -> None:
    with visiting(browser, console.url, width=390) as visitor:
        page = visitor.visit("/console/executions?cluster=east")
        assert not page.is_visible("[name=cluster]")
        assert page.evaluate("document.querySelector('table a').getBoundingClientRect().top < 500")
        page.click("summary:has-text('Filters, 1 set')")
        assert page.input_value("[name=cluster]") == "east"
        visitor.check()


#: What has the focus: what it is called, and whether that is seen.
_FOCUSED = """() => {
  const focused = document.activeElement;
  return [focused.name || focused.textContent.trim(), getComputedStyle(focused).outlineStyle !== "none"];
}"""


def tab_to(page: Page, wanted: str) -> None:
    """Go on by the keyboard until something has the focus, which is seen at every step."""
    for _ in range(60):
        page.keyboard.press("Tab")
        name, is_seen = page.evaluate(_FOCUSED)
        assert is_seen, name
        if name == wanted:
            return
    raise AssertionError(f"{wanted} is not reached by the keyboard")


def test_an_execution_is_cancelled_by_the_keyboard_alone(visitor: Visitor, console: SmallConsole) -> None:
    console.create("to-be-cancelled")
    page = visitor.visit(f"/console/executions/{PROJECT}/{DOMAIN}/to-be-cancelled")
    tab_to(page, "Skip to content")
    page.keyboard.press("Enter")
    tab_to(page, "Cancel…")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.name === 'cause'")  # the form is ready to be typed into
    page.keyboard.type("It is no longer needed.")
    tab_to(page, "confirmation")
    page.keyboard.type("to-be-cancelled")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]:has-text('The end of to-be-cancelled was asked for.')")
    visitor.check()
    ended = console.call("GET", f"executions/{PROJECT}/{DOMAIN}/to-be-cancelled")
    assert ended["closure"]["abort_metadata"]["cause"] == "It is no longer needed."


def test_why_a_run_waits_is_found_the_setting_changed_and_the_run_moves(
    visitor: Visitor, console: SmallConsole
) -> None:
    place = f"{PROJECT}/staging"
    pool = {"attributes": {"matching_attributes": {"cluster_assignment": {"cluster_pool_name": "spare"}}}}
    console.call("PUT", f"project_domain_attributes/{place}", pool)
    console.create("goes-nowhere", domain="staging")
    page = visitor.visit("/console/")  # from here by what pages say alone
    page.click("a:text-is('CLUSTER_EXPECTED')")
    page.click("a:text-is('goes-nowhere')")
    page.click(f"a:has-text('Change the pool at {place}')")
    plan_pool(visitor, "gpu", "North is not there yet.")
    assert "goes-nowhere" in page.inner_text("main")
    visitor.check()
    page.click("button:text-is('Apply')")
    page.click("text=Decide them again")
    assert "1 moved to another cluster." in visitor.status
    assert page.inner_text("h1") == "goes-nowhere"
    assert "east" in page.inner_text("main")
    visitor.check()


def test_the_colours_stay_as_they_were_chosen(visitor: Visitor) -> None:
    page = visitor.visit("/console/")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    visitor.visit("/console/executions")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
