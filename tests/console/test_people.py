"""The console as users see it: a viewer, an editor and an operator, the end of a session, and without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from playwright.sync_api import Browser, Route

from tests.console.test_pages import plan_pool
from tests.support.browsers import ELSEWHERE, HIDE, sign_in, visiting
from tests.support.http_agents import Document
from tests.support.small_console import DOMAIN, PROJECT, SmallConsole, fill, hold_licences, running_small_console

_RUNS = f"/console/executions/{PROJECT}/{DOMAIN}"
_SCOPE = f"project={PROJECT}&domain={DOMAIN}"
_ROLES = {"vera": "viewer", "ed": "editor", "otto": "operator"}
_SHARED_TOKEN = "the-token-that-operators-share"
#: What a viewer may look at, with something that is on it.
_SEEN = {
    "/console/": "Why work waits",
    "/console/executions": "train",
    f"{_RUNS}/train": "outranks pool 'gpu'",
    f"{_RUNS}/train/log": "epoch 2",
    f"/console/settings?{_SCOPE}": "cluster_pool_name",
    "/console/history/1": "Training needs GPUs.",
    "/console/fleet/clusters/west": "A disk is replaced.",
    "/console/token-pools/licences": "Holders",
    "/console/users/vera": "viewer",
    "/console/what-if": "Settings to assume",
}


#: Clicks a button twice, and asks for an address once progress is shown, which says whether the button is disabled.
_CLICK_TWICE = """
const button = document.querySelector("button.danger");
new MutationObserver(() => { if (document.querySelector("progress")) fetch(`/shown?${button.disabled}`); })
  .observe(document.body, { childList: true, subtree: true });
button.click();
button.click();
"""


@dataclass(frozen=True, kw_only=True)
class Staffed:
    """A console with users, by their tokens."""

    console: SmallConsole
    tokens: Mapping[str, str]


@pytest.fixture(scope="module")
def staffed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staffed]:
    """An admin with a viewer, an editor and an operator."""
    with running_small_console(tmp_path_factory.mktemp("people"), token=_SHARED_TOKEN) as console:
        fill(console)
        hold_licences(console)
        tokens = {}
        for name, role in _ROLES.items():
            console.call("POST", "users", {"user": {"name": name}})
            console.call("POST", "grants", {"grant": {"role": role, "user": name}})
            tokens[name] = token_of(console, name, "laptop")
        yield Staffed(console=console, tokens=tokens)


def token_of(console: SmallConsole, user: str, name: str) -> str:
    """A new token of a user."""
    return str(console.call("POST", f"users/{user}/tokens", {"name": name})["token"])


def take(console: SmallConsole, name: str) -> Document:
    """The lease of an execution at east, with which its agent takes all that waits there."""
    agent = console.agents["east"]
    while True:
        for lease in agent.take():
            if lease["id"]["name"] == name:
                return lease


def test_a_viewer_signs_in_and_finds_no_action(browser: Browser, staffed: Staffed) -> None:
    with visiting(browser, staffed.console.url) as visitor:
        page = visitor.visit("/console/executions?phase=QUEUED")
        assert page.inner_text("h2") == "Sign in"
        visitor.refused |= {401, 403}
        sign_in(visitor, "wrong")
        assert page.locator("[role=alert]").count() == 1
        visitor.check()
        sign_in(visitor, staffed.tokens["vera"])
        assert page.url == f"{staffed.console.url}/console/executions?phase=QUEUED"
        for address, text in _SEEN.items():
            assert text in visitor.visit(address).inner_text("main"), address
        for address in (_RUNS + "/report-0", f"/console/settings?{_SCOPE}", "/console/fleet/clusters/east"):
            visitor.visit(address)
            assert page.locator("main a:text-matches('(Cancel|Edit|Relaunch|Cordon|Drain|Decide again)')").count() == 0
        assert page.locator("nav a:text-is('Create')").count() == 0
        refused = visitor.visit(f"{_RUNS}/report-0/cancel", status=403)
        assert "executions.end" in refused.inner_text("main")
        page.click("text=Sign out")
        assert visitor.visit("/console/").inner_text("h2") == "Sign in"


def test_a_form_that_no_page_of_ours_had_is_refused(browser: Browser, staffed: Staffed) -> None:
    staffed.console.create("stays")
    with visiting(browser, staffed.console.url) as visitor:
        page = visitor.visit(f"{_RUNS}/stays/cancel")
        sign_in(visitor, staffed.tokens["ed"])
        page.fill("[name=confirmation]", "stays")
        page.evaluate("for (const field of document.getElementsByName('form_token')) field.value = '0.0'")
        visitor.refused |= {400, 403}
        page.click("button.danger")
        assert "form_expired" in page.inner_text("main")
        visitor.check()
    assert staffed.console.call("GET", f"executions/{PROJECT}/{DOMAIN}/stays")["closure"]["phase"] == "QUEUED"


@pytest.mark.slow
def test_a_session_that_ends_leaves_open_pages_as_they_are(browser: Browser, staffed: Staffed) -> None:
    """Over plain HTTP at a name that browsers do not trust, where they tell less about what asks."""
    console = staffed.console
    console.call("POST", "users", {"user": {"name": "tim"}})
    console.call("POST", "grants", {"grant": {"role": "viewer", "user": "tim"}})
    token = token_of(console, "tim", "short")
    url = console.url.replace("127.0.0.1", ELSEWHERE)
    with visiting(browser, url) as visitor:
        visitor.visit(f"{_RUNS}/train/log")
        log = sign_in(visitor, token)
        overview = visitor.context.new_page()
        overview.goto(f"{url}/console/executions")
        assert not overview.evaluate("isSecureContext")
        [stored] = console.call("GET", "users/tim/tokens")["tokens"]
        console.call("DELETE", f"users/tim/tokens/{stored['prefix']}")
        visitor.refused |= {401}
        log.wait_for_selector("#log-state:has-text('You are signed out.')")
        assert "epoch 2" in log.inner_text("#log")
        for is_hidden in (True, False):  # so that it connects again
            overview.evaluate(HIDE, is_hidden)
        overview.wait_for_selector("#live-state:has-text('You are signed out')")
        assert "train" in overview.inner_text("[data-live]")


@pytest.mark.slow
def test_over_plain_http_times_go_on_and_commands_are_copied(browser: Browser, staffed: Staffed) -> None:
    url = staffed.console.url.replace("127.0.0.1", ELSEWHERE)
    with visiting(browser, url) as visitor:
        page = visitor.visit("/console/executions")
        sign_in(visitor, staffed.tokens["vera"])
        page.evaluate("document.querySelector('time').dateTime = new Date(Date.now() - 7.5e6).toISOString()")
        page.wait_for_selector("time:text-is('2 h ago')")
        page.click("details.same summary")
        page.locator("[data-copy]").first.click()
        page.wait_for_selector("[data-copy]:text-is('Copied')")
        visitor.check()


def test_a_form_is_sent_once_and_shows_that_it_goes_on(browser: Browser, staffed: Staffed) -> None:
    staffed.console.create("slow")
    sent: list[Route] = []
    with visiting(browser, staffed.console.url) as visitor:
        page = visitor.visit(f"{_RUNS}/slow/cancel")
        sign_in(visitor, staffed.tokens["ed"])
        page.fill("[name=confirmation]", "slow")

        def keep(route: Route) -> None:
            sent.append(route)

        def take(route: Route) -> None:
            route.fulfill(status=204)

        page.route("**/slow/cancel", keep)  # answered at the end of the test
        page.route("**/shown?*", take)
        with page.expect_request("**/shown?*") as shown:  # the page answers no other question while its form is sent
            page.evaluate(_CLICK_TWICE)
        assert shown.value.url.endswith("?true")
        [route] = sent
        route.abort()


def test_an_editor_changes_a_setting_and_rolls_it_back(browser: Browser, staffed: Staffed) -> None:
    with visiting(browser, staffed.console.url) as visitor:
        page = visitor.visit(f"/console/settings?{_SCOPE}")
        sign_in(visitor, staffed.tokens["ed"])
        page.click("#cluster-pool-attribute a:has-text('Edit')")
        plan_pool(visitor, "spare", "GPUs are short.")
        assert "spare" in page.inner_text("main")
        visitor.check()
        page.click("button:text-is('Apply')")
        assert "Applied as revision" in visitor.status
        page.click("text=Decide them again")
        assert "moved to another cluster" in visitor.status
        visitor.visit(f"/console/settings?{_SCOPE}")
        page.click("#cluster-pool-attribute a:has-text('revision')")
        assert "GPUs are short." in page.inner_text("main")
        page.click("text=Roll back…")
        number = page.url.split("/")[-2]
        visitor.check()
        visitor.confirm(number)
        assert "Rolled back by revision" in visitor.status
        visitor.check()
    row = staffed.console.call("GET", f"project_domain_attributes/{PROJECT}/{DOMAIN}?resource_type=CLUSTER_ASSIGNMENT")
    assert row["attributes"]["matching_attributes"]["cluster_assignment"]["cluster_pool_name"] == "gpu"


@pytest.mark.slow
def test_an_editor_creates_follows_cancels_and_repeats_an_execution(browser: Browser, staffed: Staffed) -> None:
    console = staffed.console
    with visiting(browser, console.url) as visitor:
        page = visitor.visit(f"/console/create?{_SCOPE}")
        sign_in(visitor, staffed.tokens["ed"])
        page.fill("[name=name]", "mine")
        page.fill("[name='spec.cluster']", "east")
        page.fill("[name='spec.job.command']", "sleep 600")
        page.click("button.primary:text-is('Create')")
        assert "mine was created." in visitor.status
        lease = take(console, "mine")
        console.agents["east"].report(lease, "RUNNING")
        page.click("text='Log'")
        console.agents["east"].prints(lease, "first line\n")
        page.wait_for_selector("#log:has-text('first line')")
        for _ in range(4):  # a line of more than a megabyte
            console.agents["east"].prints(lease, "\x1b[31m" + "w" * 300_000)
        console.agents["east"].prints(lease, "\nlast line\n")
        page.wait_for_selector("#log:has-text('last line')")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(
            "({ scrollTop, clientHeight, scrollHeight }) => scrollTop + clientHeight >= scrollHeight - 40",
            page.query_selector("#log"),
        )
        page.click("text=Cancel…")
        visitor.confirm("mine")
        assert "The end of mine was asked for." in visitor.status
        console.agents["east"].report(lease, "ABORTED")
        assert "ABORTED" in visitor.visit(f"{_RUNS}/mine").inner_text("main")
        for word, name in (("Relaunch", "mine-2"), ("Recover", "mine-3")):
            visitor.visit(f"{_RUNS}/mine")
            page.click(f"text={word}…")
            page.fill("[name=name]", name)
            page.click("button:text-is('Preview')")
            visitor.check()
            page.click("button.primary")
            assert f"{name} was created." in visitor.status


def test_an_operator_cordons_drains_and_releases_tokens(browser: Browser, staffed: Staffed) -> None:
    with visiting(browser, staffed.console.url) as visitor:
        page = visitor.visit("/console/fleet/clusters/east")
        sign_in(visitor, staffed.tokens["otto"])
        for word, done, back in (("Cordon", "is cordoned", "Uncordon"), ("Drain", "drains", "Undrain")):
            page.click(f"text={word}…")
            page.fill("[name=confirmation]", "east")
            page.fill("[name=reason]", "A fan is loud.")
            visitor.check()
            page.click("button.danger")
            assert f"east {done}." in visitor.status
            page.click(f"text={back}…")
            page.click("button.primary")
            assert "any more" in visitor.status
        visitor.visit("/console/token-pools/licences")
        page.click("text=Release…")
        visitor.confirm("etl-1")
        assert "is released" in visitor.status
        visitor.check()


@pytest.mark.slow
def test_a_list_is_cancelled_a_launch_plan_run_a_token_revoked_and_a_session_ended(
    browser: Browser, staffed: Staffed
) -> None:
    console = staffed.console
    for name in ("batch-1", "batch-2"):
        console.create(name, domain="staging")
    console.call("POST", "users", {"user": {"name": "ina"}})
    token = token_of(console, "ina", "lost-laptop")
    with visiting(browser, console.url) as other:
        other.visit("/console/")
        sign_in(other, token)
        other.page.wait_for_selector("h1:text-is('Overview')")
        other.refused |= {401, 403}  # its page is live, and told that the session is over
        with visiting(browser, console.url) as visitor:
            page = visitor.visit("/console/executions?domain=staging&phase=QUEUED")
            sign_in(visitor, _SHARED_TOKEN)
            page.click("text=Cancel all that fit these filters…")
            visitor.check()
            visitor.confirm("2 executions", why="They were a mistake.")
            assert "2 of 2 are being ended." in visitor.status
            visitor.visit(f"/console/create?{_SCOPE}&launch_plan=nightly")
            assert "Fill in what is required" in page.inner_text("#where")
            page.fill("[name='inputs.data']", "s3://examples")
            page.wait_for_selector("#where strong")
            page.click("button.primary:text-is('Create')")
            assert "was created." in visitor.status
            visitor.visit("/console/sessions?user=ina")
            page.click("text=End…")
            visitor.check()
            visitor.confirm(page.url.split("/")[-2])
            assert "is ended." in visitor.status
            visitor.visit("/console/users/ina")
            page.click("text=Revoke…")
            visitor.check()
            visitor.confirm(page.inner_text("h1 .mono"))
            assert "is revoked." in visitor.status
        assert other.visit("/console/").inner_text("h2") == "Sign in"


def test_everything_is_read_and_done_without_scripts(browser: Browser, staffed: Staffed) -> None:
    console = staffed.console
    console.create("unscripted")
    with visiting(browser, console.url, has_scripts=False) as visitor:
        page = visitor.page
        page.goto(f"{console.url}/console/")
        sign_in(visitor, staffed.tokens["ed"])
        for path, text in _SEEN.items():
            if path != "/console/users/vera":  # whose page is hers
                page.goto(console.url + path)
                assert text in page.inner_text("main"), path
        page.goto(f"{console.url}{_RUNS}/train/log")
        assert page.locator("text=Only lines with").is_hidden()
        page.click("text=Its end")
        assert "epoch 2" in page.inner_text("#log")
        page.goto(f"{console.url}/console/create?{_SCOPE}")
        page.fill("[name='spec.job.command']", "true")
        page.click("text=Where would it run? >> visible=true")
        page.goto(f"{console.url}{_RUNS}/unscripted")
        page.click("text=Cancel…")
        visitor.confirm("unscripted")
        assert "The end of unscripted was asked for." in visitor.status
        assert visitor.wrong == []
    assert console.call("GET", f"executions/{PROJECT}/{DOMAIN}/unscripted")["closure"]["phase"] == "ABORTED"
