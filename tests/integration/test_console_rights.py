"""What viewers, editors and operators find on pages: every action that they may do, and none that they may not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from flask import Flask

from admin.console.front import all_pages
from tests.integration.test_console import send, signed_in
from tests.support.apps import context_of, opened_app
from tests.support.people import Person, made_user
from tests.support.placing import DOMAIN, PROJECT, asked, pool, stored

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
_RUNS = f"/console/executions/{PROJECT}/{DOMAIN}"
_ROW = f"project={PROJECT}&domain={DOMAIN}&resource_type=CLUSTER_ASSIGNMENT"
ROLES = ("viewer", "submitter", "editor", "operator")
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
    "/users/<name>/tokens/<prefix>/revoke": (
        "/console/users/ada/tokens/{prefix}/revoke",
        {"confirmation": "{prefix}"},
        (),
    ),
    "/users/<name>/sessions/<id>/end": (
        "/console/users/ada/sessions/{session}/end",
        {"confirmation": "{session}"},
        (),
    ),
    "/define/token-pool": (
        "/console/define/token-pool",
        {"name": "p-{role}", "capacity": "3", "action": "apply"},
        ("operator",),
    ),
    "/define/token-pool/delete": (
        "/console/define/token-pool/delete?name=spare",
        {"confirmation": "spare"},
        ("operator",),
    ),
    "/define/group": ("/console/define/group", {"name": "g-{role}", "users": "ada", "action": "apply"}, ()),
    "/define/group/delete": ("/console/define/group/delete?name=ml", {"confirmation": "ml"}, ()),
    "/define/grant": ("/console/define/grant", {"role": "viewer", "user": "{role}", "action": "apply"}, ()),
    "/define/grant/delete": ("/console/define/grant/delete?name={grant}", {"confirmation": "{grant}"}, ()),
}
#: Forms that everybody may send: they read, or are about the sender's own session.
HARMLESS = {"/console/sign-in", "/console/sign-out", "/console/what-if"}


class World:
    """An admin with something for every form, and a browser for each role."""

    def __init__(self, app: Flask) -> None:
        self.app = app
        self.ada = made_user(app)
        self.browsers = {role: signed_in(app, made_user(app, role, role=role))[0] for role in ROLES}
        fill(self.ada)
        [token] = self.ada.get("users/ada/tokens")["tokens"]
        self.prefix: str = token["prefix"]
        signed_in(app, self.ada)
        [session] = self.ada.get("sessions?user=ada")["sessions"]
        self.session: str = session["id"]

    @property
    def head(self) -> str:
        """The number of the last revision."""
        return str(self.ada.get("revisions?limit=1")["head"])

    def prepare(self, role: str) -> dict[str, str]:
        """What a role's forms are about, and the words of it that stand in them."""
        self.ada.do("POST", "executions", asked(role, cluster="east"))
        row = {"attributes": {"matching_attributes": pool(f"before-{role}")}}
        written = self.ada.do("PUT", f"project_domain_attributes/{PROJECT}/{DOMAIN}", row)
        number = str(written["revision"])
        grant = self.ada.get(f"grants?user={role}")["grants"][0]["name"]
        return {
            "role": role,
            "grant": grant,
            "version": number,
            "revision": number,
            "prefix": self.prefix,
            "session": self.session,
        }


def fill(ada: Person) -> None:
    """A cluster, executions that wait and one that ended, a setting and held tokens."""
    ada.do("PUT", "clusters/east", {"cluster": {}})
    for name in ("gpu", *(f"{word}-{role}" for word in ("before", "pool") for role in ROLES)):
        ada.do("PUT", f"pools/{name}", {"pool": {"members": [{"id": "east"}]}})
    ada.do("POST", "executions", asked("waits"))
    ada.do("POST", "executions", asked("ended"))
    ada.do("DELETE", f"executions/{PROJECT}/{DOMAIN}/ended", {"cause": "It was wrong."})
    ada.do("POST", "token_pools", {"token_pool": {"name": "hive", "capacity": 9}})
    ada.do("POST", "token_pools", {"token_pool": {"name": "spare", "capacity": 9}})
    ada.do("POST", "groups", {"group": {"name": "ml", "users": ["ada"]}})
    for role in ROLES:
        place = {"project": PROJECT, "domain": DOMAIN}
        claim = {"token": f"etl-{role}", "pools": {"hive": 1}, "lease_seconds": 600, **place}
        ada.do("POST", "token_allocations", {"claim": claim})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened_app(f"sqlite:///{tmp_path_factory.mktemp('rights') / 'rainbow.db'}") as app:
        yield World(app)


def test_every_form_is_in_the_table() -> None:
    sent = {page.path for page in all_pages() if page.method == "POST"}
    assert sent == {f"/console{path}" for path in FORMS} | HARMLESS


@pytest.mark.parametrize("role", ROLES)
def test_a_form_does_what_its_sender_may_and_is_refused_to_others(world: World, role: str) -> None:
    browser = world.browsers[role]
    words = world.prepare(role)
    before = unnoted(stored(context_of(world.app)))
    for form, (path, fields, roles) in FORMS.items():
        if role not in roles:
            given = {name: value.format(**words) for name, value in fields.items()}
            refused = send(browser, path.format(**words), "/console/", **given)
            assert (refused.status_code, "permission_denied" in refused.text) == (403, True), form
            assert re.search(r"You lack|lacks? ", refused.text), form
    assert unnoted(stored(context_of(world.app))) == before
    for form, (path, fields, roles) in FORMS.items():
        if role in roles:
            words |= {"version": world.head, "revision": world.head}
            given = {name: value.format(**words) for name, value in fields.items()}
            answer = send(browser, path.format(**words), "/console/", **given)
            assert answer.status_code in (200, 303), (form, answer.text)


def unnoted(rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """All rows but those that note who asked."""
    return {table: found for table, found in rows.items() if table not in ("audit_events", "user_tokens", "sessions")}
