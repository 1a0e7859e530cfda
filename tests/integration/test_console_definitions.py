"""Forms of what has a definition: token pools, groups of users and grants; planned first, then stored."""

from __future__ import annotations

import re

from flask import Flask

from tests.integration.test_console import send, signed_in
from tests.integration.test_console_fleet import shown, words_of
from tests.support.people import made_user
from tests.support.placing import DOMAIN, PROJECT

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
POOL = "/console/define/token-pool"


def test_a_token_pool_is_planned_stored_changed_and_deleted(app: Flask) -> None:
    ada = made_user(app)
    browser, _ = signed_in(app, ada)
    assert f'href="{POOL}"' in shown(browser, "/console/token-pools")
    fields = {"name": "hive", "capacity": "100", "caps.project": "20", "message": "A new warehouse."}
    planned = send(browser, POOL, POOL, action="plan", **fields)
    assert planned.status_code == 200
    assert "rainbowctl create token-pool hive --capacity 100 --projectCap 20 --dryRun" in words_of(planned.text)
    assert ada.get("token_pools")["token_pools"] == []
    stored = send(browser, POOL, POOL, action="apply", **fields)
    assert stored.location == "/console/token-pools/hive"
    pool = ada.get("token_pools/hive")
    assert (pool["capacity"], pool["caps"]) == (100, {"project": 20})
    assert pool["provenance"]["definition"]["message"] == "A new warehouse."
    change = f"{POOL}?name=hive"
    form = shown(browser, change)
    [version] = re.findall(r'name="version" value="(\d+)"', form)
    assert 'name="capacity" aria-required="true" value="100"' in re.sub(r" aria-describedby=\"[^\"]*\"", "", form)
    changed = {**fields, "capacity": "50", "version": version, "of": "hive", "action": "apply"}
    assert send(browser, POOL, change, **changed).status_code == 303
    stale = send(browser, POOL, change, **changed)
    assert stale.status_code == 409
    assert "version_conflict" in stale.text
    pool = ada.get("token_pools/hive")
    assert (pool["capacity"], pool["caps"]) == (50, {"project": 20})
    renamed = send(browser, POOL, change, **{**changed, "name": "spark", "version": str(pool["version"]), "of": "hive"})
    assert renamed.status_code == 400
    assert 'id="f-name-problem"' in renamed.text
    assert [pool["name"] for pool in ada.get("token_pools")["token_pools"]] == ["hive"]
    wrong = send(browser, POOL, POOL, name="other", capacity="many", action="apply")
    assert wrong.status_code == 400
    assert 'id="f-capacity-problem"' in wrong.text
    delete = f"{POOL}/delete?name=hive"
    assert send(browser, delete, delete, confirmation="other").status_code == 400
    assert send(browser, delete, delete, confirmation="hive", message="It is gone.").location == "/console/token-pools"
    assert ada.get("token_pools")["token_pools"] == []


def test_a_group_gets_members_and_a_role_which_is_taken_away_again(app: Flask) -> None:
    ada = made_user(app)
    made_user(app, "bea", role="viewer")
    browser, _ = signed_in(app, ada)
    group, grant = "/console/define/group", "/console/define/grant"
    assert send(browser, group, group, name="ml", users="ada bea", action="apply").status_code == 303
    assert ada.get("groups/ml")["users"] == ["ada", "bea"]
    assert "ada bea" in shown(browser, f"{group}?name=ml")
    role = {"role": "editor", "group": "ml", "project": PROJECT, "domain": DOMAIN}
    planned = send(browser, grant, grant, **role)
    assert f"rainbowctl create grant editor --group ml -p {PROJECT} -d {DOMAIN} --dryRun" in words_of(planned.text)
    assert ada.get("grants?group=ml")["grants"] == []
    assert send(browser, grant, grant, **role, action="apply").location == "/console/access/grants"
    [given] = ada.get("grants?group=ml")["grants"]
    delete = f"{grant}/delete?name={given['name']}"
    assert f"Take away… {given['name']}" in words_of(shown(browser, "/console/access/grants"))
    assert send(browser, delete, delete, confirmation=given["name"]).location == "/console/access/grants"
    assert ada.get("grants?group=ml")["grants"] == []


def test_whoever_may_not_define_finds_no_form(app: Flask) -> None:
    made_user(app)
    browser, _ = signed_in(app, made_user(app, "eve", role="viewer"))
    assert "/console/define/" not in shown(browser, "/console/token-pools")
    for word in ("token-pool", "group", "grant"):
        assert browser.get(f"/console/define/{word}").status_code == 403
