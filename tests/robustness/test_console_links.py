"""Links of the console: whoever looks, no page leads to one that is refused, and viewers find no action."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from admin.core.settings.scopes import Scope
from tests.integration.test_console import signed_in
from tests.integration.test_console_rights import HARMLESS, ROLES, World
from tests.support.apps import opened_app
from tests.support.console_walks import walked
from tests.support.people import made_user
from tests.support.placing import PROJECT


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened_app(f"sqlite:///{tmp_path_factory.mktemp('links') / 'rainbow.db'}") as app:
        world = World(app)
        for role in ROLES:
            world.prepare(role)
        yield world


@pytest.mark.parametrize("role", [*ROLES, "admin"])
def test_no_page_leads_to_one_that_is_refused(world: World, role: str) -> None:
    texts = walked(signed_in(world.app, world.ada)[0] if role == "admin" else world.browsers[role])
    assert len(texts) > 20
    actions = {action for text in texts.values() for action in re.findall(r'method="post" action="([^"]+)"', text)}
    assert "/console/sign-out" in actions
    if role == "viewer":
        assert actions <= HARMLESS | {action for action in actions if "/users/viewer/" in action}


def test_no_page_leads_somebody_with_one_project_to_one_that_is_refused(world: World) -> None:
    eve = made_user(world.app, "eve", role="editor", scope=Scope(project=PROJECT))
    assert len(walked(signed_in(world.app, eve)[0])) > 10
