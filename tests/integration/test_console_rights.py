"""What viewers, editors and operators find on pages: every action that they may do, and none that they may not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.console.front import all_pages
from admin.core.settings.scopes import Scope
from tests.integration.test_console import send, signed_in
from tests.integration.test_users import Person, made_user
from tests.support.apps import context_of, opened_app
from tests.support.placing import DOMAIN, PROJECT, asked, pool, stored

_RUNS = f"/console/executions/{PROJECT}/{DOMAIN}"
_ROW = f"project={PROJECT}&domain={DOMAIN}&resource_type=CLUSTER_ASSIGNMENT"
_ROLES = ("viewer", "submitter", "editor", "operator")
#: Every form that changes something: where it is sent, what is sent, and the roles below admin that may send it. Those
#: who may get the page after it, or what it previews.
_RUNNING, _ALL_BUT_OPERATORS = ("submitter", "editor", "operator"), ("submitter", "editor")
FORMS: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "/executions/<project>/<domain>/<name>/cancel": (f"{_RUNS}/{{role}}/cancel", {"confirmation": "{role}"}, _RUNNING),
    "/executions/<project>/<domain>/<name>/give-up": (
        f"{_RUNS}/{{role}}/give-up",
        {"confirmation": "{role}"},
        _RUNNING,
    ),
    "/executions/cancel": (
        "/console/executions/cancel",
        {"cluster": "nowhere", "confirmation": "0 executions"},
        _RUNNING,
    ),
    "/executions/<project>/<domain>/<name>/redecide": (f"{_RUNS}/waits/redecide", {}, _RUNNING),
    "/executions/<project>/<domain>/<name>/relaunch": (
        f"{_RUNS}/waits/relaunch",
        {"name": "again-{role}"},
        _ALL_BUT_OPERATORS,
    ),
    "/executions/<project>/<domain>/<name>/recover": (
        f"{_RUNS}/ended/recover",
        {"name": "recovered-{role}"},
        _ALL_BUT_OPERATORS,
    ),
    "/create": (
        "/console/create",
        {"project": PROJECT, "domain": DOMAIN, "name": "made-{role}", "spec.job.command": "true"},
        _ALL_BUT_OPERATORS,
    ),
    "/create/place": (
        "/console/create/place",
        {"project": PROJECT, "domain": DOMAIN, "spec.job.command": "true"},
        _ALL_BUT_OPERATORS,
    ),
    "/settings/edit": (
        f"/console/settings/edit?{_ROW}",
        {"version": "{version}", "payload": "cluster_pool_name: pool-{role}"},
        ("editor",),
    ),
    "/settings/apply": (
        f"/console/settings/apply?{_ROW}",
        {"version": "{version}", "change": '{{"payload": {{"cluster_pool_name": "pool-{role}"}}}}'},
        ("editor",),
    ),
    "/settings/delete": (
        f"/console/settings/delete?{_ROW}",
        {"version": "{version}", "confirmation": "cluster-pool-attribute"},
        ("editor",),
    ),
    "/settings/redecide": (f"/console/settings/redecide?{_ROW}", {}, _RUNNING),
    "/history/<number>/roll-back": (
        "/console/history/{revision}/roll-back",
        {"head": "{revision}", "confirmation": "{revision}"},
        ("editor",),
    ),
    "/fleet/clusters/<name>/<switch>": (
        "/console/fleet/clusters/east/cordon",
        {"confirmation": "east", "reason": "by {role}"},
        ("operator",),
    ),
    "/token-pools/<name>/release": (
        "/console/token-pools/hive/release",
        {"token": "etl-{role}", "confirmation": "etl-{role}"},
        ("operator",),
    ),
    "/users/<name>/tokens/<prefix>/revoke": ("/console/users/ada/tokens/{prefix}/revoke", {"confirmation": "{prefix}"}, ()),
}
#: Forms that everybody may send: they read, or are about the sender's own session.
_HARMLESS = {"/console/sign-in", "/console/sign-out", "/console/what-if"}


class _World:
    """An admin with something for every form, and a browser for each role."""

    def __init__(self, app: Flask) -> None:
        self.app = app
        self.ada = made_user(app)
        self.browsers = {role: signed_in(app, made_user(app, role, role=role))[0] for role in _ROLES}
        fill(self.ada)
        [token] = self.ada.get("users/ada/tokens")["tokens"]
        self.prefix: str = token["prefix"]

    def prepare(self, role: str) -> dict[str, str]:
        """What a role's forms are about, and the words of it that stand in them."""
        self.ada.do("POST", "executions", asked(role, cluster="east"))
        row = {"attributes": {"matching_attributes": pool(f"before-{role}")}}
        written = self.ada.do("PUT", f"project_domain_attributes/{PROJECT}/{DOMAIN}", row)
        number = str(written["revision"])
        return {"role": role, "version": number, "revision": number, "prefix": self.prefix}


def fill(ada: Person) -> None:
    """A cluster, executions that wait and one that ended, a setting and held tokens."""
    ada.do("PUT", "clusters/east", {"cluster": {}})
    for name in ("gpu", *(f"{word}-{role}" for word in ("before", "pool") for role in _ROLES)):
        ada.do("PUT", f"pools/{name}", {"pool": {"members": [{"id": "east"}]}})
    ada.do("POST", "executions", asked("waits"))
    ada.do("POST", "executions", asked("ended"))
    ada.do("DELETE", f"executions/{PROJECT}/{DOMAIN}/ended", {"cause": "It was wrong."})
    ada.do("POST", "token_pools", {"token_pool": {"name": "hive", "capacity": 9}})
    for role in _ROLES:
        place = {"project": PROJECT, "domain": DOMAIN}
        claim = {"token": f"etl-{role}", "pools": {"hive": 1}, "lease_seconds": 600, **place}
        ada.do("POST", "token_allocations", {"claim": claim})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_World]:
    with opened_app(f"sqlite:///{tmp_path_factory.mktemp('rights') / 'rainbow.db'}") as app:
        yield _World(app)


def test_every_form_is_in_the_table() -> None:
    sent = {page.path for page in all_pages() if page.method == "POST"}
    assert sent == {f"/console{path}" for path in FORMS} | _HARMLESS


@pytest.mark.parametrize("role", _ROLES)
def test_a_form_does_what_its_sender_may_and_is_refused_to_others(world: _World, role: str) -> None:
    browser = world.browsers[role]
    words = world.prepare(role)
    # What is refused goes first, for what is allowed changes what forms are about.
    for form in sorted(FORMS, key=lambda form: role in FORMS[form][2]):
        path, fields, roles = FORMS[form]
        if role in roles and form in ("/settings/delete", "/history/<number>/roll-back"):
            words |= {"version": _version(world), "revision": _version(world)}
        given = {name: value.format(**words) for name, value in fields.items()}
        before = stored(context_of(world.app))
        answer = send(browser, path.format(**words), "/console/", **given)
        if role in roles:
            assert answer.status_code in (200, 303), (form, answer.text)
        else:
            assert (answer.status_code, "lacks" in answer.text or "permission" in answer.text) == (403, True), form
            assert unnoted(stored(context_of(world.app))) == unnoted(before), form


def _version(world: _World) -> str:
    return str(world.ada.get("revisions?limit=1")["head"])


def unnoted(rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """All rows but those that note who asked."""
    return {table: found for table, found in rows.items() if table not in ("audit_events", "user_tokens")}


def links(page: str) -> set[str]:
    """Where a page leads within the console."""
    return {unescape(address) for address in re.findall(r'href="(/console/[^"#]*)', page) if "/static/" not in address}


def walked(browser: FlaskClient) -> dict[str, str]:
    """Every page that links lead to, each path with one query; each of them must be shown."""
    waiting, seen, texts, refused = [("/console/", "")], {"/console/"}, {}, []
    while waiting:
        address, page = waiting.pop(0)
        answer = browser.get(address)
        is_explained = address.endswith("/roll-back") and answer.status_code == 409  # a later revision stands above it
        if answer.status_code != 200 and not is_explained:
            refused.append(f"{page} leads to {address}, which is answered {answer.status_code}")
        if answer.mimetype != "text/html":
            continue
        texts[address] = answer.text
        for link in sorted(links(answer.text)):
            if link.partition("?")[0] not in seen:
                seen.add(link.partition("?")[0])
                waiting.append((link, address))
    assert refused == [], "\n".join(refused)
    return texts


@pytest.mark.parametrize("role", [*_ROLES, "admin"])
def test_no_page_leads_to_one_that_is_refused(world: _World, role: str) -> None:
    texts = walked(signed_in(world.app, world.ada)[0] if role == "admin" else world.browsers[role])
    assert len(texts) > 20
    actions = {action for text in texts.values() for action in re.findall(r'method="post" action="([^"]+)"', text)}
    assert "/console/sign-out" in actions
    if role == "viewer":
        assert actions <= _HARMLESS | {action for action in actions if "/users/viewer/" in action}


def test_no_page_leads_somebody_with_one_project_to_one_that_is_refused(world: _World) -> None:
    eve = made_user(world.app, "eve", role="editor", scope=Scope(project=PROJECT))
    assert len(walked(signed_in(world.app, eve)[0])) > 10
