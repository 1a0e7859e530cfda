"""Executions that are created in a browser and run by a real agent: followed to the end, and cancelled."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from tests.support.agent_processes import DOMAIN, PROJECT, Site, admin_of_agents
from tests.support.browsers import visiting


def test_an_execution_is_created_followed_to_its_end_and_another_cancelled(browser: Browser, tmp_path: Path) -> None:
    with admin_of_agents(tmp_path) as admin:
        site = Site(admin, tmp_path / "site")
        site.register()
        site.start()
        try:
            _create_follow_and_cancel(browser, site, tmp_path / "go-on")
        finally:
            site.stop()


def _create_follow_and_cancel(browser: Browser, site: Site, go_on: Path) -> None:
    with visiting(browser, site.admin.url) as visitor:
        page = visitor.visit("/console/create")
        page.fill("[name=project]", PROJECT)
        page.fill("[name=domain]", DOMAIN)
        page.fill("[name=name]", "followed")
        page.fill("[name='spec.cluster']", site.cluster)
        script = f"printf 'first \\033[1mline\\n'; until [ -e {go_on} ]; do sleep 0.1; done; echo last line"
        page.fill("[name='spec.job.command']", f'sh -c "{script}"')
        page.wait_for_selector(f"#where strong:text-is('{site.cluster}')")  # told while the form is filled in
        visitor.check()
        page.click("button.primary:text-is('Create')")
        assert "followed was created." in visitor.status
        page.evaluate("window.isLoadedOnce = true")
        page.wait_for_selector("[data-live] :text-is('RUNNING')")
        assert page.evaluate("window.isLoadedOnce")  # it was changed in place
        page.click("text='Log'")
        page.wait_for_selector("#log:has-text('first line')")
        assert "last line" not in page.inner_text("#log")
        go_on.touch()
        page.wait_for_selector("#log:has-text('last line')")
        page.wait_for_selector("#log-state:has-text('This is all of it.')")
        page.fill("#log-search", "last")
        assert page.inner_text("#log").strip() == "last line"
        visitor.check()
        assert "SUCCEEDED" in visitor.visit(f"/console/executions/{PROJECT}/{DOMAIN}/followed").inner_text("main")

        visitor.visit(f"/console/create?like={PROJECT}/{DOMAIN}/followed")
        page.fill("[name=name]", "stopped")
        page.fill("[name='spec.job.command']", "sleep 600")
        page.click("button.primary:text-is('Create')")
        page.wait_for_selector("[data-live] :text-is('RUNNING')")
        page.click("text='Cancel…'")
        visitor.confirm("stopped")
        assert "The end of stopped was asked for." in visitor.status
        page.wait_for_selector("[data-live] :text-is('ABORTED')")
        assert site.ended("stopped")["closure"]["phase"] == "ABORTED"
        visitor.check()
