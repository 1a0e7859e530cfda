"""The console's pages of settings and history, without a browser."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.console import setting_edits, suggestions
from admin.console.front import all_pages
from admin.console.setting_forms import fields_of, patch_of, sent_fields
from admin.core.settings.builtin_kinds import TASK_RESOURCE
from admin.core.settings.scopes import Scope
from tests.integration.test_console import send, signed_in
from tests.support.apps import opened_app
from tests.support.people import made_user
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    created,
    execution,
    get,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    register_workflow,
)
from tests.support.small_console import HOSTILE

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
WHERE = f"project={PROJECT}&domain={DOMAIN}"
SETTINGS = f"/console/settings?{WHERE}"


def edit_path(kind: str, where: str = WHERE, form: str = "") -> str:
    return f"/console/settings/edit?{where}&resource_type={kind}{form}"


def fields(page: str) -> dict[str, str]:
    """What a browser would send of the forms on a page, as they stand."""
    sent = {}
    for tag in re.findall(r"<input [^>]*>", page):
        attributes = dict(re.findall(r'(name|value)="([^"]*)"', tag))
        sent[attributes["name"]] = html.unescape(attributes.get("value", ""))
    for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', page, re.S):
        chosen = re.search(r"<option selected>([^<]*)", options)
        first = re.search(r"<option(?: value=\"\")?>([^<]*)", options)
        sent[name] = chosen[1] if chosen else first[1] if first else ""
    texts = re.findall(r'<textarea name="([^"]+)"[^>]*>(.*?)</textarea>', page, re.S)
    return sent | {name: html.unescape(value) for name, value in texts}


def number_of(page: str, path: str) -> str:
    """The number of the field of a path in a form."""
    found = re.search(rf'name="path\.(\d+)" value="{re.escape(path)}"', page)
    assert found is not None, page
    return found[1]


def plan(api: FlaskClient, path: str, changes: dict[str, tuple[str, str]], **more: str) -> TestResponse:
    """Send the form of a page with some fields in another state and with another value."""
    page = api.get(path).text
    sent = fields(page)
    for leaf, (state, value) in changes.items():
        number = number_of(page, leaf)
        sent |= {f"state.{number}": state, f"value.{number}": value}
    sent.pop("form_token", None)
    return send(api, path, path, **{**sent, **more})


def apply(api: FlaskClient, planned: TestResponse, path: str) -> TestResponse:
    """Apply what was planned."""
    assert planned.status_code == 200, planned.text
    sent = fields(planned.text)
    sent.pop("form_token")
    return send(api, path.replace("/edit?", "/apply?"), path, **sent)


def exact(api: FlaskClient, payload_key: str, kind: str) -> Any:
    path = f"project_domain_attributes/{PROJECT}/{DOMAIN}?resource_type={kind}&exact=true"
    return get(api, path)["attributes"]["matching_attributes"][payload_key]


def test_the_scopes_right_below_one_are_listed_with_what_is_set_there(shared: FlaskClient, project: str) -> None:
    put_attribute(shared, "project", "execution_queue_attributes", {"tags": ["a"]}, project=project)
    put_attribute(shared, "project-domain", "execution_queue_attributes", {"tags": ["a"]}, project=project)
    for name in ("flow-a", "flow-b"):
        put_attribute(shared, "workflow", "quality_of_service", {"tier": "LOW"}, project=project, workflow=name)
    ok(register_workflow(shared, "flow-c", project=project))
    listed = get(shared, f"scopes?search={project}")
    [entry] = [scope for scope in listed["scopes"] if scope.get("project") == project]
    assert entry == {"project": project, "level": "project", "kinds": ["EXECUTION_QUEUE"], "rows_below": 3}
    by_domain = {scope["domain"]: scope for scope in get(shared, f"scopes?project={project}")["scopes"]}
    assert (by_domain[DOMAIN]["kinds"], by_domain[DOMAIN]["rows_below"]) == (["EXECUTION_QUEUE"], 2)
    below_domain = get(shared, f"scopes?domain={DOMAIN}&search={project}")["scopes"]
    assert [(scope["level"], scope["rows_below"]) for scope in below_domain] == [("project-domain", 2)]
    first = get(shared, f"scopes?project={project}&domain={DOMAIN}&limit=2")
    second = get(shared, f"scopes?project={project}&domain={DOMAIN}&limit=2&token={first['token']}")
    names = [(scope["workflow"], scope["kinds"]) for page in (first, second) for scope in page["scopes"]]
    kind = ["QUALITY_OF_SERVICE_SPECIFICATION"]
    assert names == [("flow-a", kind), ("flow-b", kind), ("flow-c", [])]
    workflow = f"project={project}&domain={DOMAIN}&workflow=flow-a"
    assert get(shared, f"scopes?{workflow}")["scopes"] == []
    keys = {"project": project, "workflow": "flow-a", "launch_plan": "nightly"}
    put_attribute(shared, "launch-plan", "quality_of_service", {"tier": "HIGH"}, **keys)
    [plan] = get(shared, f"scopes?{workflow}&search=NIGHT")["scopes"]
    assert (plan["launch_plan"], plan["kinds"], plan["rows_below"]) == ("nightly", kind, 0)
    assert "nightly" in shared.get(f"/console/settings?{workflow}").text


def test_no_page_of_scopes_tells_names_that_one_may_not_see(app: Flask) -> None:
    ada = made_user(app)
    row = {"attributes": {"matching_attributes": {"quality_of_service": {"tier": "LOW"}}}}
    for name in ("seen-1", "hidden-1", "hidden-2", "hidden-3", "seen-2"):
        ada.do("PUT", f"workflow_attributes/{PROJECT}/{DOMAIN}/{name}", row)
    eve = made_user(app, "eve", role="viewer", scope=Scope(DOMAIN, PROJECT, "seen-1"))
    query = f"scopes?project={PROJECT}&domain={DOMAIN}&limit=1"
    listed = eve.get(query)
    assert [scope["workflow"] for scope in listed["scopes"]] == ["seen-1"]
    assert "token" not in listed
    assert len(ada.get(query)["scopes"]) == 1
    assert "token" in ada.get(query)


def test_warnings_and_rows_without_effect_of_exactly_one_scope(shared: FlaskClient, project: str) -> None:
    for level in ("project-domain", "workflow"):
        put_attribute(shared, level, "execution_cluster_label", {"value": "nowhere"}, project=project, workflow="flow")
    put_attribute(shared, "project-domain", "workflow_execution_config", {"max_parallelism": 3}, project=project)
    where = f"project={project}&domain={DOMAIN}"
    assert {entry["level"] for entry in get(shared, f"warnings?{where}")["warnings"]} == {"project-domain", "workflow"}
    own = get(shared, f"warnings?{where}&level=project-domain&limit=10")["warnings"]
    assert {(entry["level"], entry["code"]) for entry in own} == {
        ("project-domain", "unknown_label"),
        ("project-domain", "unread_field"),
    }
    reasons = get(shared, f"matchable_attributes/no_effect?{where}&level=project-domain")["warnings"]
    assert {entry["level"] for entry in reasons} == {"project-domain"}
    assert "max_parallelism" in [entry["field"] for entry in reasons]


def test_a_scope_shows_what_applies_where_from_and_which_levels_were_silent(api: FlaskClient) -> None:
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"memory": "8Gi"}})
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "nowhere"})
    put_attribute(
        api, "project-domain", "workflow_execution_config", {"envs": {"values": [{"key": "A", "value": HOSTILE}]}}
    )
    page = api.get(SETTINGS).text
    assert "8Gi" in page
    assert f'href="/console/settings?domain={DOMAIN}"' in page
    assert '<a href="/console/history/1">revision 1</a>' in page
    assert "set here, version 2" in page
    bar = re.findall(r'<ol class="levels">(.*?)</ol>', page, re.S)[0]  # of the first kind, task resources
    levels = ["platform: says", "domain: says", "project: silent", "project-domain: silent"]
    assert re.sub(r"<[^>]*>", "", bar).split("\n") == ["", *(f"  {level}" for level in levels), ""]
    assert 'href="/console/settings/uses?pool=nowhere"' in page
    assert "nowhere" in re.findall(r'<div class="notice wait"><p>(.*?)</p>', page, re.S)[0]
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    uses = api.get("/console/settings/uses?pool=nowhere").text
    assert "There is no pool of that name." in uses
    row = f'<a href="/console/settings?project={PROJECT}&amp;domain={DOMAIN}"><bdi>{PROJECT}/{DOMAIN}</bdi></a>'
    assert row in uses


def test_a_long_value_is_folded_and_has_all_of_it(api: FlaskClient) -> None:
    envs = {"envs": {"values": [{"key": "SHORT", "value": "s" * 400}, {"key": "LONG", "value": "w" * 401}]}}
    put_attribute(api, "project-domain", "workflow_execution_config", envs)
    page = api.get(SETTINGS).text
    [folded] = re.findall(r"<details><summary>(.*?)</details>", page, re.S)
    assert "401 characters" in folded
    assert folded.count("w" * 401) == 1
    assert page.count("s" * 400) == 1


def test_a_level_whose_field_only_agents_read_says_something_that_counts(api: FlaskClient) -> None:
    card = api.get(SETTINGS).text.partition('id="workflow-execution-config"')[2]
    assert "passed to agents; no engine of Rainbow reads it" in card
    assert re.findall(r'<li class="(\w+)"', card.partition("</ol>")[0]) == ["says", "silent", "silent", "silent"]


def test_a_change_is_planned_applied_and_rolled_back(api: FlaskClient) -> None:
    for name in ("east", "west"):
        put_cluster(api, name)
    put_pool(api, "first", {"east": 1})
    put_pool(api, "second", {"west": 1})
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "first"})
    created(api, "waits")
    assert f'href="{SETTINGS.replace("&", "&amp;")}"' in api.get(f"/console/executions/{PROJECT}/{DOMAIN}/waits").text
    path = edit_path("CLUSTER_ASSIGNMENT")
    waiting = api.get(f"/console/executions/{PROJECT}/{DOMAIN}/waits").text
    assert f'href="{html.escape(path)}">Change the pool at {PROJECT}/{DOMAIN}' in waiting
    assert 'href="/console/fleet/pools/first">The clusters of pool first' in waiting
    form = api.get(path).text
    assert re.search(r'<datalist id="pools"><option value="first"><option value="second"></datalist>', form)
    assert re.search(r'<input name="value.0" value="first" list="pools"', form)
    assert "/pools?limit" not in form  # what is suggested is not what the page is about
    planned = plan(api, path, {"cluster_pool_name": ("set", "second")}, message="East is full.")
    stays = re.search(r"<p>(1 waits there now and stays .*?)</p>", planned.text, re.S)
    assert stays is not None
    assert " ".join(re.sub(r"<[^>]*>", "", stays[1]).split()) == (
        "1 waits there now and stays until it is decided again: after applying, “Decide them again” does it; "
        "that would move it to west."
    )
    assert "Waits at east until it is decided again, which would move it to west." in planned.text
    command = f"rainbowctl update cluster-pool-attribute -p {PROJECT} -d {DOMAIN}"
    for end in (" --dryRun", ""):
        said = f"{command} --set 'cluster_pool_name=\"second\"' --message 'East is full.'{end}</code>"
        assert said in html.unescape(planned.text)
    assert re.search(r"<del[^>]*>first</del>.*<ins[^>]*>second</ins>", planned.text, re.S)
    assert exact(api, "cluster_assignment", "7") == {"cluster_pool_name": "first"}
    applied = apply(api, planned, path)
    assert (applied.status_code, applied.location) == (
        303,
        f"/console/settings/changed?{WHERE}&resource_type=CLUSTER_ASSIGNMENT",
    )
    assert exact(api, "cluster_assignment", "7") == {"cluster_pool_name": "second"}
    changed = api.get(applied.location).text
    assert "1 waits here." in changed
    assert "1 another cluster" in changed
    assert execution(api, "waits")["cluster"] == "east"
    decided = send(api, applied.location.replace("/changed?", "/redecide?"), applied.location)
    assert decided.location == f"/console/executions/{PROJECT}/{DOMAIN}/waits"
    assert execution(api, "waits")["cluster"] == "west"
    [round_] = get(api, "timeline?source=redecision")["entries"]
    assert round_["executions"] == [{"project": PROJECT, "domain": DOMAIN, "name": "waits"}]
    assert f'href="{decided.location}"' in api.get("/console/history?source=redecision").text
    [entry] = get(api, "revisions?limit=1")["revisions"]
    assert entry["message"] == "East is full."
    number = entry["number"]
    preview = f"/console/history/{number}/roll-back"
    assert "until it is decided again: that would move" in " ".join(api.get(preview).text.split())
    assert re.search(r"<del[^>]*>second</del>.*<ins[^>]*>first</ins>", api.get(preview).text, re.S)
    head = fields(api.get(preview).text)["head"]
    assert send(api, preview, preview, head=head, confirmation="wrong").status_code == 400
    rolled = send(api, preview, preview, head=head, confirmation=str(number), message="A mistake.")
    assert rolled.location == applied.location  # what waits may be decided again there, as after the edit
    assert "1 another cluster" in api.get(rolled.location).text
    undone = api.get(f"/console/history/{number}").text
    assert "Rolled back: " in undone
    assert f"/console/history/{number}/roll-back" in undone  # which says why not, or undoes it once more
    assert f'href="/console/history/{number + 1}">Newer</a>' in undone
    assert exact(api, "cluster_assignment", "7") == {"cluster_pool_name": "first"}
    again = send(api, preview, f"/console/history/{number + 1}/roll-back", head=head, confirmation=str(number))
    assert again.status_code == 409  # another revision was made since that preview


def test_what_a_project_was_is_rolled_back_to_a_page_that_is_there(api: FlaskClient) -> None:
    ok(api.patch(f"{API}/projects/{PROJECT}", json={"description": "Of the search team."}))
    number = get(api, "revisions?limit=1")["head"]
    preview = f"/console/history/{number}/roll-back"
    head = fields(api.get(preview).text)["head"]
    rolled = send(api, preview, preview, head=head, confirmation=str(number))
    assert (rolled.status_code, api.get(rolled.location).status_code) == (303, 200)


def test_the_command_for_one_kind_of_a_scope_rolls_back_no_other(shared: FlaskClient, project: str) -> None:
    put_attribute(shared, "project-domain", "quality_of_service", {"tier": "LOW"}, project=project)
    number = get(shared, "revisions?limit=1")["head"]
    put_attribute(shared, "project-domain", "quality_of_service", {"tier": "HIGH"}, project=project)
    where = f"project={project}&domain={DOMAIN}&resource_type=QUALITY_OF_SERVICE_SPECIFICATION"
    page = shared.get(f"/console/history/{number}/roll-back?{where}").text
    assert f"rainbowctl rollback --to {number} quality-of-service -p {project} -d {DOMAIN}</code>" in page


def test_executions_that_were_decided_again_are_shown_also_when_they_wait_no_more(api: FlaskClient) -> None:
    put_cluster(api, "east")
    for name in ("first", "second"):
        put_pool(api, name, {"east": 1})
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "first"})
    for name in ("one", "two"):
        created(api, name)
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "second"})
    created(api, "unchanged")
    address = f"/console/settings/redecide?{WHERE}&resource_type=CLUSTER_ASSIGNMENT"
    decided = send(api, address, address.replace("/redecide?", "/changed?"))
    for name in ("one", "two"):
        ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/{name}"))
    shown = api.get(decided.location).text
    assert [name for name in ("one", "two", "unchanged") if f'/{name}">' in shown] == ["one", "two"]


def test_one_form_decides_so_many_again_and_the_next_goes_on_with_the_others(
    api: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setting_edits, "_MOST_DECIDED", 1)
    monkeypatch.setattr(setting_edits, "_MOST_FORESEEN", 1)
    for name in ("east", "west"):
        put_cluster(api, name)
    put_pool(api, "first", {"east": 1})
    put_pool(api, "second", {"west": 1})
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "first"})
    for name in ("one", "two"):
        created(api, name)
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "second"})
    address = f"/console/settings/changed?{WHERE}&resource_type=CLUSTER_ASSIGNMENT"
    foreseen = " ".join(api.get(address).text.split())
    assert "At least 2 wait here." in foreseen
    assert "then of the first 1, 1 would have another decision" in foreseen
    decided = send(api, address.replace("/changed?", "/redecide?"), address)
    assert [execution(api, name)["cluster"] for name in ("one", "two")] == ["west", "east"]
    shown = api.get(decided.location).text
    assert "Go on with the others" in shown
    [after] = re.findall(r'name="after" value="([^"]+)"', shown)
    last = send(api, address.replace("/changed?", "/redecide?"), decided.location, after=after)
    assert [execution(api, name)["cluster"] for name in ("one", "two")] == ["west", "west"]
    assert last.location == f"/console/executions/{PROJECT}/{DOMAIN}/two"


def test_leaves_are_set_unset_and_inherited_one_by_one(api: FlaskClient) -> None:
    payload = {"max_parallelism": 3, "labels": {"values": {"team": "ml", "old": "yes"}}, "interruptible": True}
    put_attribute(api, "project-domain", "workflow_execution_config", payload)
    path = edit_path("WORKFLOW_EXECUTION_CONFIG")
    changes = {
        "max_parallelism": ("inherit", ""),
        "interruptible": ("unset", ""),
        "labels.values.team": ("set", "search"),
        "security_context.run_as": ("set", "k8s_service_account: robot"),
    }
    numbers = re.findall(r'name="under\.(\d+)" value="envs.values"', api.get(path).text)
    more = {f"key.{numbers[0]}": "PYTHONPATH", f"value.{numbers[0]}": "/srv = 1"}
    apply(api, plan(api, path, changes, **more), path)
    assert exact(api, "workflow_execution_config", "6") == {
        "security_context": {"run_as": {"k8s_service_account": "robot"}},
        "labels": {"values": {"team": "search", "old": "yes"}},
        "interruptible": None,
        "envs": {"values": [{"key": "PYTHONPATH", "value": "/srv = 1"}]},
    }


def test_a_form_that_suggests_no_cluster_reads_no_fleet(
    shared: FlaskClient, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(suggestions, "names_in_fleet")
    assert shared.get(edit_path("TASK_RESOURCE", f"project={project}&domain={DOMAIN}")).status_code == 200


def test_a_wrong_value_keeps_the_form_and_says_why_at_its_field(api: FlaskClient) -> None:
    path = edit_path("TASK_RESOURCE")
    refused = plan(api, path, {"limits.cpu": ("set", "many"), "limits.memory": ("set", "4Gi")}, message="Why not.")
    assert refused.status_code == 400
    wrong = re.search(r'<fieldset class="leaf wrong.*?</fieldset>', refused.text, re.S)
    assert wrong is not None
    assert "limits.cpu" in wrong[0]
    assert 'value="many"' in wrong[0]
    assert 'class="problem"' in wrong[0]
    assert 'value="4Gi"' in refused.text
    assert 'value="Why not."' in refused.text
    stands = plan(api, path, {"limits.cpu": ("inherit", "2")})
    assert stands.status_code == 400
    assert "stands on &#39;inherit&#39;" in stands.text
    inherited = re.findall(r'<p class="inherits">', api.get(path).text)
    assert len(re.findall(r'<p class="inherits">', stands.text)) == len(inherited) > 0
    nothing = plan(api, path, {})
    assert "stays as it is" in nothing.text
    assert get(api, "revisions")["revisions"] == []


def test_a_row_that_was_changed_meanwhile_is_shown_beside_what_was_wanted(api: FlaskClient) -> None:
    put_attribute(api, "project-domain", "quality_of_service", {"tier": "LOW"})
    path = edit_path("QUALITY_OF_SERVICE_SPECIFICATION")
    planned = plan(api, path, {"tier": ("set", "HIGH")})
    put_attribute(api, "project-domain", "quality_of_service", {"tier": "MEDIUM"})
    stale = apply(api, planned, path)
    assert stale.status_code == 409
    assert "It was changed meanwhile." in stale.text
    assert '<a href="/console/history/2">revision 2</a>' in stale.text
    assert exact(api, "quality_of_service", "4") == {"tier": "MEDIUM"}
    sent = fields(stale.text)
    assert sent["version"] == "2"
    assert "HIGH" in sent.values()
    sent.pop("form_token")
    apply(api, send(api, path, path, **sent), path)
    assert exact(api, "quality_of_service", "4") == {"tier": "HIGH"}


def test_a_row_is_written_as_yaml_where_a_form_would_not_do(api: FlaskClient) -> None:
    path = edit_path("PLUGIN_OVERRIDE", form="&form=raw")
    text = "overrides:\n- task_type: python\n  plugin_id: [ray, local]\n"
    refused = send(api, path, path, version="0", payload="overrides: [")
    assert refused.status_code == 400
    assert "neither YAML nor JSON" in refused.text
    aliases = send(api, path, path, version="0", payload="overrides: &a []\nother: *a\n")
    assert "aliases are not allowed" in aliases.text
    apply(api, send(api, path, path, version="0", payload=text), path)
    row = {"overrides": [{"task_type": "python", "plugin_id": ["ray", "local"]}]}
    assert exact(api, "plugin_overrides", "5") == row
    as_form = api.get(edit_path("PLUGIN_OVERRIDE")).text
    assert 'value="overrides.python"' in as_form
    taken = send(api, path, path, version="0", payload=text)
    assert taken.status_code == 409  # it was new when this form was loaded


def test_a_row_is_deleted_after_a_preview(api: FlaskClient) -> None:
    put_attribute(api, "domain", "quality_of_service", {"tier": "LOW"})
    put_attribute(api, "project-domain", "quality_of_service", {"tier": "HIGH"})
    path = edit_path("QUALITY_OF_SERVICE_SPECIFICATION").replace("/edit?", "/delete?")
    preview = api.get(path).text
    assert "LOW" in preview
    unnamed = send(api, path, path, version="2", confirmation="it")
    assert unnamed.status_code == 400
    stale = send(api, path, path, version="1", confirmation="quality-of-service")
    assert (stale.status_code, "version_conflict" in stale.text) == (409, True)
    done = send(api, path, path, version="2", confirmation="quality-of-service", message="No longer urgent.")
    assert done.status_code == 303
    assert "There is none any more." in api.get(done.location).text
    assert api.get(path).status_code == 404


def test_history_and_comparisons(api: FlaskClient) -> None:
    put_attribute(api, "domain", "quality_of_service", {"tier": "LOW"})
    put_attribute(api, "project-domain", "quality_of_service", {"tier": "HIGH"})
    listed = api.get(f"/console/history?resource_type=4&{WHERE}").text
    assert "revision 2" in listed
    assert "revision 1<" not in listed
    assert "revision 1<" in api.get("/console/history?source=revision&limit=1").text + api.get("/console/history").text
    assert "HIGH" in api.get("/console/history/compare?from=1&to=2").text
    compared = api.get(f"/console/settings/compare?{WHERE}&other_domain=staging").text
    assert re.search(r"HIGH.*nothing", compared, re.S)
    older = api.get(f"/console/settings/compare?{WHERE}&at=1&other_at=2").text
    assert re.search(r"LOW.*HIGH", older, re.S)
    assert api.get("/console/history/9").status_code == 404
    assert "does not take it" in api.get("/console/history?phase=QUEUED").text


def test_a_declared_kind_has_a_card_and_a_form(tmp_path: Path) -> None:
    declared = {
        "number": 10,
        "fields": {
            "priority": {"type": "int", "minimum": 0, "maximum": 100},
            "mode": {"enum": ["slow", "fast"]},
            "hosts": {"type": "list"},
            "notes": {"type": "map"},
        },
    }
    with opened_app(f"sqlite:///{tmp_path}/rainbow.db", kinds={"WORKFLOW_PRIORITY": declared}) as app:
        api = app.test_client()
        path = edit_path("WORKFLOW_PRIORITY")
        assert "Set<span" in api.get(SETTINGS).text
        too_much = plan(api, path, {"priority": ("set", "101")})
        assert (too_much.status_code, "leaf wrong" in too_much.text) == (400, True)
        [note, _] = re.findall(r'name="under\.(\d+)" value="notes"', api.get(path).text)
        changes = {"priority": ("set", "7"), "mode": ("set", "fast"), "hosts": ("set", "a\nb")}
        apply(api, plan(api, path, changes, **{f"key.{note}": "why", f"value.{note}": "yes"}), path)
        row = {"priority": 7, "mode": "fast", "hosts": ["a", "b"], "notes": {"why": "yes"}}
        assert exact(api, "workflow_priority", "10") == row


def test_viewers_read_settings_and_change_none(app: Flask) -> None:
    ada = made_user(app)
    row = {"attributes": {"matching_attributes": pool("gpu")}}
    number = ada.do("PUT", f"project_domain_attributes/{PROJECT}/{DOMAIN}", row)["revision"]
    browser, _ = signed_in(app, made_user(app, "eve", role="viewer"))
    page = browser.get(SETTINGS).text
    assert "gpu" in page
    assert "/console/settings/edit" not in page
    path = edit_path("CLUSTER_ASSIGNMENT")
    for answer in (browser.get(path), send(browser, path, SETTINGS, version="0", payload="{}")):
        assert (answer.status_code, "attributes.write" in answer.text) == (403, True)
    shown = browser.get(f"/console/history/{number}").text
    assert ("gpu" in shown, "roll-back" in shown) == (True, False)
    preview = f"/console/history/{number}/roll-back"
    assert browser.get(preview).status_code == 403
    head = ada.get("revisions?limit=1")["head"]
    rolled = send(browser, preview, SETTINGS, head=str(head), confirmation=str(number))
    assert (rolled.status_code, ada.get("revisions?limit=1")["head"]) == (403, head)


def test_writes_of_settings_are_forms_that_are_checked(api: FlaskClient) -> None:
    path = edit_path("CLUSTER_ASSIGNMENT")
    answer = api.post(path, data={"version": "0", "form_token": "0.0"}, headers={"Origin": "http://localhost"})
    assert answer.status_code == 403
    writes = [page for page in all_pages() if page.method == "POST" and "/settings" in page.path]
    assert len(writes) == 4
    assert api.get("/console/settings/edit?resource_type=4").status_code == 400  # the platform is configured
    for change in ('"payload"', "[]", "7", '{"set":5,"unset":[],"inherit":[]}', '{"set":{}}', "[" * 100_000):
        refused = send(api, path.replace("/edit?", "/apply?"), path, version="0", change=change)
        assert (refused.status_code, "fill in the form again" in refused.text) == (400, True), change[:40]
    unknown = api.get(edit_path("NOTHING"))
    assert (unknown.status_code, "NOTHING" in unknown.text) == (400, True)


@pytest.mark.parametrize(
    ("path", "state", "text", "patch"),
    [
        ("limits.cpu", "set", "2", {"set": {"limits.cpu": "2"}, "unset": [], "inherit": []}),
        ("limits.cpu", "unset", "", {"set": {}, "unset": ["limits.cpu"], "inherit": []}),
        ("defaults.cpu", "inherit", "", {"set": {}, "unset": [], "inherit": ["defaults.cpu"]}),
        ("defaults.cpu", "set", "1", {"set": {}, "unset": [], "inherit": []}),
    ],
)
def test_only_what_differs_is_sent(path: str, state: str, text: str, patch: dict[str, Any]) -> None:
    schema, row = TASK_RESOURCE.payload.schema(), {"defaults": {"cpu": "1"}}
    sent = sent_fields({"path.0": path, "state.0": state, "value.0": text}, schema)
    assert patch_of(sent, fields_of(schema, row, {})) == patch


def test_settings_without_effect_are_listed_with_the_reason(shared: FlaskClient, project: str) -> None:
    address = f"/console/settings/no-effect?project={project}"
    assert "None of these settings is without effect." in shared.get(address).text
    pool = {"attributes": {"matching_attributes": {"cluster_assignment": {"cluster_pool_name": "nowhere"}}}}
    shared.put(f"/api/v1/project_domain_attributes/{project}/{DOMAIN}", json={**pool, "message": "It is to come."})
    page = shared.get(f"{address}&resource_type=CLUSTER_ASSIGNMENT").text
    assert "cluster_pool_name" in page
    assert "It is to come." in page
    assert f"rainbowctl get no-effect cluster-pool-attribute -p {project}" in page
    assert "No effect" in shared.get("/console/fleet/warnings").text
