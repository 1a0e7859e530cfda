"""The console's pages of executions without a browser: why, logs, actions and creation; on both databases."""

from __future__ import annotations

import base64
import html
import re
from datetime import date, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.console.logs import visible
from admin.services.context import Context
from tests.integration.test_console import send, signed_in
from tests.support.agents import PlayedAgent, played_agent
from tests.support.people import made_user
from tests.support.placing import (
    API,
    DOMAIN,
    created,
    execution,
    get,
    ok,
    put_attribute,
    put_cluster,
    put_pool,
    register_plan,
    register_workflow,
    report,
)

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
INPUTS = {
    "data": {"type": "string"},
    "epochs": {"type": "integer", "default": 3},
    "rates": {"type": "list", "of": "float", "default": [0.1]},
    "shuffle": {"type": "boolean", "default": True},
    "team": {"type": "string"},
}
HOSTILE_LOG = "\x1b[31mred\x1b[0m \x00 \u202eright to left\n<b>bold</b>\n" + "w" * 300_000 + "\nlast\n"


def address(project: str, name: str, *more: str) -> str:
    return "/".join(["/console/executions", project, DOMAIN, name, *more])


def main(answer: TestResponse) -> str:
    """What a page shows beside its frame, as text."""
    body = answer.text.partition("<main")[2].partition("</main>")[0]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body)))


def problem(answer: TestResponse, field: str) -> str:
    """What stands at a field of a form that was refused."""
    found = re.search(rf'id="f-{re.escape(field.replace(".", "-"))}-problem">([^<]+)<', answer.text)
    assert found is not None, main(answer)
    return html.unescape(found[1])


@pytest.fixture
def agent(shared: FlaskClient, shared_context: Context, project: str) -> PlayedAgent:
    """An agent that runs an execution called e."""
    agent = played_agent(shared, shared_context, f"a-{project}", project=project)
    created(shared, "e", project=project, cluster=agent.cluster)
    agent.start()
    return agent


@pytest.fixture
def plan(shared: FlaskClient, project: str) -> str:
    """An active launch plan that fixes one of its inputs."""
    job = {"command": ["echo", "{{ inputs.data }}"]}
    ok(register_workflow(shared, "train", project=project, inputs=INPUTS, job=job))
    ok(register_plan(shared, "Nightly", "train", project=project, state="ACTIVE", fixed_inputs={"team": "search"}))
    return "Nightly"


def test_silent_rungs_are_folded_and_each_loser_has_its_reason(shared: FlaskClient, project: str) -> None:
    for name in ("one", "two"):
        put_cluster(shared, f"{name}-{project}", cost=len(name) + (name == "two"))
    put_pool(shared, f"p-{project}", [f"one-{project}", f"two-{project}"], strategy="cheapest")
    put_cluster(shared, f"other-{project}")
    created(shared, "e", project=project, cluster_assignment={"cluster_pool_name": f"p-{project}"})
    page = shared.get(f"{address(project, 'e')}?why_not=other-{project}")
    assert re.search(r"\d+ other places where a cluster could be named say nothing", page.text)
    chosen, loser = re.findall(r"<tr(?: class=\"chosen\")?><th scope=\"row\"><a [^>]*><bdi>(\w+-\w+)", page.text)[:2]
    assert (chosen, loser) == (f"one-{project}", f"two-{project}")
    assert "able; costs 4, against 3 at" in page.text
    assert page.text.count('<svg class="share') == 2
    assert f"cluster 'other-{project}' was not a candidate" in main(page)
    unknown = shared.get(f"{address(project, 'e')}?why_not=nowhere-{project}")
    assert unknown.status_code == 200
    assert re.search(rf'id="why-not">[^<]*nowhere-{project}', unknown.text)
    counts = shared.get(f"/console/executions?project={project}&by=day").text
    [(day, next_day)] = re.findall(r"created_after=([\d-]+)&amp;created_before=([\d-]+)", counts)
    assert date.fromisoformat(next_day) - date.fromisoformat(day) == timedelta(days=1)
    listed = f"/console/executions?project={project}&phase="
    assert "Cancel all that fit" in shared.get(f"{listed}queued").text
    assert "Cancel all that fit" not in shared.get(f"{listed}SUCCEEDED").text


def test_controls_of_a_log_are_shown_and_do_nothing() -> None:
    assert visible("a \x1b[1;31mred\x1b[0m b") == "a red b"
    assert visible("\x1b[1A\x00\r\n\ta\rb\x7f\x9b\u202e") == "␛[1A␀\n\ta␍b␡⟨U+009B⟩⟨U+202E⟩"


def test_a_log_is_shown_by_pieces_followed_and_downloaded(agent: PlayedAgent) -> None:
    api, page = agent.client, address(agent.project, "e", "log")
    assert "It has printed nothing yet." in main(api.get(page))
    agent.sync(logs=[agent.log("e", 0, HOSTILE_LOG.encode())])
    shown = api.get(f"{page}?offset=0")
    assert "red ␀ ⟨U+202E⟩right to left\n&lt;b&gt;bold&lt;/b&gt;\nwww" in shown.text
    assert len(shown.text) < 150_000
    text, offset = "", 0
    while piece := ok(api.get(f"{page}/piece?offset={offset}&stream=stdout&attempt=1")):
        text, offset = text + piece["text"], piece["next_offset"]
        if not piece["text"]:
            break
    assert text == visible(HOSTILE_LOG)
    assert not piece["complete"]
    download = api.get(f"{page}/download?stream=stdout")
    assert download.get_data() == HOSTILE_LOG.encode()
    assert download.headers["Content-Disposition"].startswith("attachment; filename*=UTF-8''e-1-stdout.txt")
    assert api.get(f"{page}?attempt=7").status_code == 400


def test_a_log_of_long_lines_is_shown_from_its_end(agent: PlayedAgent) -> None:
    api, page = agent.client, address(agent.project, "e", "log")
    lines = "".join(f"{number} {'w' * 1000}\n" for number in range(300))
    agent.sync(logs=[agent.log("e", 0, lines.encode())])
    shown = api.get(page).text
    assert f"299 {'w' * 1000}" in shown
    assert "\n1 w" not in shown
    assert "From its beginning" in shown
    assert "Next piece" not in shown  # this is the end of what there is
    assert "Next piece" in api.get(f"{page}?offset=0").text


def test_a_log_that_is_no_text_is_downloaded_as_it_is(agent: PlayedAgent) -> None:
    content = bytes(range(256)) * 3 + b"\xc3"
    agent.sync(logs=[agent.log("e", 0, content)])
    agent.report("e", "SUCCEEDED")
    download = agent.client.get(f"{address(agent.project, 'e', 'log')}/download")
    assert download.get_data() == content


def test_outputs_are_listed_and_downloaded(agent: PlayedAgent) -> None:
    content = bytes(range(256)) * 10
    outputs = [("result.json", b'{"loss": "<b>"}'), ("weights/last.bin", content)]
    sent = [
        {"path": path, "size": len(data), "content_base64": base64.b64encode(data).decode()} for path, data in outputs
    ]
    agent.sync(agent.event("e", "SUCCEEDED", outputs=sent))
    page = agent.client.get(address(agent.project, "e", "outputs"))
    assert "{&#34;loss&#34;: &#34;&lt;b&gt;&#34;}" in page.text
    assert "no text" in main(page)
    answer = agent.client.get(address(agent.project, "e", "outputs", "download?path=weights/last.bin"))
    assert answer.get_data() == content
    assert answer.headers["Content-Disposition"] == "attachment; filename*=UTF-8''last.bin"
    assert agent.client.get(address(agent.project, "e", "outputs", "download?path=no")).status_code == 404


def test_actions_are_those_of_the_phase(agent: PlayedAgent) -> None:
    def actions() -> set[str]:
        page = agent.client.get(address(agent.project, "e")).text
        return set(re.findall(r'<a class="button[^>]*>([^<]+)…</a>', page))

    assert actions() == {"Relaunch", "Cancel"}
    agent.sync(agent.event("e", "FAILED", exit_code=1))
    assert actions() == {"Relaunch", "Recover"}


def test_a_job_that_an_agent_can_end_is_not_given_up(agent: PlayedAgent) -> None:
    refused = agent.client.get(address(agent.project, "e", "give-up"))
    assert refused.status_code == 409
    assert "not_silent" in refused.text


def test_a_relaunch_is_previewed_changed_and_made_once(shared: FlaskClient, project: str, plan: str) -> None:
    launch_plan = {"project": project, "domain": DOMAIN, "name": plan, "version": "v1"}
    created(shared, "first", project=project, launch_plan=launch_plan, inputs={"data": "words", "epochs": 5})
    page = address(project, "first", "relaunch")
    form = shared.get(page).text
    assert '<option value="">as it is: true</option>' in form
    assert 'name="inputs.team"' not in form
    fields = {"inputs.data": "words", "inputs.epochs": "seven", "idempotency_key": "k1"}
    refused = send(shared, page, page, action="preview", **fields)
    assert refused.status_code == 400
    assert "whole number" in problem(refused, "inputs.epochs")
    assert 'value="seven"' in refused.text
    fields["inputs.epochs"] = "7"
    preview = send(shared, page, page, action="preview", **fields)
    assert preview.status_code == 200, main(preview)
    assert len(listed(shared, project)) == 1
    first, second = (send(shared, page, page, action="create", **fields) for _ in range(2))
    assert first.status_code == 303
    assert first.location == second.location
    assert len(listed(shared, project)) == 2
    new = execution(shared, first.location.rpartition("/")[2], project=project)
    assert (new["mode"], new["inputs"]["epochs"], new["inputs"]["data"]) == ("RELAUNCH", 7, "words")


def test_a_relaunch_at_a_full_cluster_says_why_it_would_wait(shared: FlaskClient, project: str) -> None:
    cluster = f"full-{project}"
    put_cluster(shared, cluster)
    report(shared, cluster, capacity={"cpu": "2"}, free={"cpu": "0"})
    job = {"command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    created(shared, "first", project=project, cluster=cluster, job=job)
    text = main(shared.get(address(project, "first", "relaunch")))
    assert f"It would run on {cluster} ." in text
    assert f"{cluster} is full (2 of 2 cpu taken)" in text


def listed(api: FlaskClient, project: str) -> list[Any]:
    executions: list[Any] = get(api, f"executions?project={project}&state=ALL")["executions"]
    return executions


def test_what_waits_is_decided_again_after_a_preview(shared: FlaskClient, project: str) -> None:
    for name in ("old", "new"):
        put_cluster(shared, f"{name}-{project}")
        put_pool(shared, f"{name}-{project}", [f"{name}-{project}"])
    put = f"{API}/project_attributes/{project}"
    for name in ("old", "new"):
        pool = {"cluster_assignment": {"cluster_pool_name": f"{name}-{project}"}}
        ok(shared.put(put, json={"attributes": {"project": project, "matching_attributes": pool}}))
        if name == "old":
            created(shared, "e", project=project)
    page = address(project, "e", "redecide")
    preview = main(shared.get(page))
    assert f"from old-{project} to new-{project}" in preview
    assert "CLUSTER_ASSIGNMENT cluster_pool_name" in preview
    assert execution(shared, "e", project=project)["cluster"] == f"old-{project}"
    assert send(shared, page, page, cause="The pool is another one.").status_code == 303
    assert execution(shared, "e", project=project)["cluster"] == f"new-{project}"


def test_all_that_filters_fit_is_cancelled_if_their_number_is_confirmed(shared: FlaskClient, project: str) -> None:
    for name in ("a", "b"):
        created(shared, name, project=project)
    page = f"/console/executions/cancel?project={project}&phase=QUEUED"
    filters = {"project": project, "phase": "QUEUED"}
    assert "2 unfinished executions fit these filters" in main(shared.get(page))
    terms = rf"project={project},phase=QUEUED,name contains a\,b"
    command = f"rainbowctl delete execution --allProjects --filter.fieldSelector '{terms}' --dryRun"
    assert command in html.unescape(shared.get(f"{page}&search=a,b").text)
    created(shared, "c", project=project)
    refused = send(shared, "/console/executions/cancel", page, confirmation="2 executions", **filters)
    assert refused.status_code == 400
    assert "type 3 executions to confirm" in main(refused)
    done = send(shared, "/console/executions/cancel", page, confirmation="3 executions", why="Enough.", **filters)
    assert done.status_code == 303
    assert {entry["closure"]["phase"] for entry in listed(shared, project)} == {"ABORTED"}


def test_no_more_than_a_limit_are_ended_at_once_the_oldest_first(shared: FlaskClient, project: str) -> None:
    for name in ("a", "b", "c"):
        created(shared, name, project=project)
    body = {"selector": {"project": project, "phase": "QUEUED"}, "limit": 2}
    path = f"{API}/executions/terminate"
    planned = ok(shared.post(f"{path}?dry_run=true", json=body))
    assert (planned["matched"], planned["terminated"], planned["more"]) == (2, 0, True)
    ended = ok(shared.post(path, json=body))
    assert ([entry["id"]["name"] for entry in ended["executions"]], ended["more"]) == (["a", "b"], True)
    rest = ok(shared.post(path, json=body))
    assert (rest["matched"], "more" in rest) == (1, False)
    assert shared.post(path, json={**body, "limit": 0}).status_code == 400


def test_what_waits_is_grouped_by_its_reason(shared: FlaskClient, project: str) -> None:
    created(shared, "e", project=project)
    reason = execution(shared, "e", project=project)["closure"]["reason"]["code"]
    page = shared.get(f"/console/executions/waiting?project={project}&gpu=0&mode=MANUAL")
    assert f"<h2>{reason}</h2>" in page.text
    assert address(project, "e") in page.text
    assert '<input type="hidden" name="mode" value="MANUAL">' in page.text


def test_an_ad_hoc_job_is_placed_refused_at_its_fields_and_created_once(shared: FlaskClient, project: str) -> None:
    cluster = f"c-{project}"
    put_cluster(shared, cluster, capacity={"cpu": 4})
    fields = {
        "project": project,
        "domain": DOMAIN,
        "spec.job.command": "echo 'two words' \"it's\"",
        "spec.job.environment": "LEVEL=high=er\n\nEMPTY=",
        "spec.job.resources.requests.cpu": "1",
        "spec.cluster": cluster,
        "idempotency_key": "only-once",
    }
    page = "/console/create"
    placed = send(shared, f"{page}/place", page, **fields)
    assert placed.status_code == 200
    assert f"On {cluster}" in main(placed)
    part = send(shared, f"{page}/place?part=answer", page, **fields).text
    assert f"On <strong>{cluster}</strong>" in part
    assert "<html" not in part
    wrong = {**fields, "spec.job.resources.requests.cpu": "lots", "spec.job.environment": "LEVEL"}
    refused = send(shared, page, page, **wrong)
    assert refused.status_code == 400
    assert "no '='" in problem(refused, "spec.job.environment")
    refused = send(shared, page, page, **{**wrong, "spec.job.environment": ""})
    assert "quantity" in problem(refused, "spec.job.resources.requests.cpu")
    assert 'value="lots"' in refused.text
    assert listed(shared, project) == []
    first, second = (send(shared, page, page, **fields) for _ in range(2))
    assert first.status_code == 303, main(first)
    assert first.location == second.location
    [made] = listed(shared, project)
    job = execution(shared, made["id"]["name"], project=project)["job"]
    assert job["command"] == ["echo", "two words", "it's"]
    assert job["environment"] == {"LEVEL": "high=er", "EMPTY": ""}
    like = shared.get(f"{page}?like={project}/{DOMAIN}/{made['id']['name']}").text
    assert "echo &#39;two words&#39; &#39;it&#39;&#34;&#39;&#34;&#39;s&#39;" in like


def test_a_job_above_a_limit_is_told_once_with_the_way_to_raise_it(shared: FlaskClient, project: str) -> None:
    put_attribute(shared, "project-domain", "task_resource_attributes", {"limits": {"cpu": "2"}}, project=project)
    asked = {"project": project, "domain": DOMAIN, "spec.job.command": "true", "spec.job.resources.requests.cpu": "64"}
    edit = f'href="/console/settings/edit?project={project}&amp;domain={DOMAIN}&amp;resource_type=TASK_RESOURCE"'
    part = send(shared, "/console/create/place?part=answer", "/console/create", **asked).text
    assert (part.count("64 is above the limit of 2"), part.count(edit)) == (1, 1)
    refused = send(shared, "/console/create", "/console/create", **asked).text
    assert refused.count("64 is above the limit of 2") == 2  # above all of it, and at the field
    assert refused.count(edit) == 1


def test_a_launch_plan_is_found_and_its_inputs_are_typed(shared: FlaskClient, project: str, plan: str) -> None:
    search = f"/console/create/launch-plans?project={project}&domain={DOMAIN}&search="
    assert "No launch plan has that in its name." in shared.get(f"{search}weekly").text
    assert f"launch_plan={plan}" in shared.get(f"{search}night").text
    page = f"/console/create?project={project}&domain={DOMAIN}&launch_plan={plan}"
    form = shared.get(page).text
    assert '<dd class="mono">search</dd>' in form
    fields = {
        **{f"plan_{name}": value for name, value in {"project": project, "domain": DOMAIN, "name": plan}.items()},
        "plan_version": "v1",
        "project": project,
        "domain": DOMAIN,
        "inputs.rates": "[0.5, 1]",
        "inputs.shuffle": "false",
    }
    refused = send(shared, "/console/create", page, **fields)
    assert "is missing" in problem(refused, "inputs.data")
    assert ">[0.5, 1]</textarea>" in refused.text.replace("\n[", "[")
    # What aliases stand for is written out in requests, and they multiply: a few lines would fill the memory.
    for text, reason in {
        "[1": "is neither YAML nor JSON in line 1",
        "[&a [1], *a]": "aliases are not allowed",
        "&a [*a]": "aliases are not allowed",
        "[!!binary aGk=]": "tag:yaml.org,2002:binary is not allowed",
        r'["\ud800"]': "half a character",
        "[2026-01-01]": "is not a number",
        f"[{'1,' * 40_000}]": "more than 65,536: use rainbowctl",
    }.items():
        broken = send(shared, "/console/create", page, **{**fields, "inputs.data": "x", "inputs.rates": text})
        assert reason in problem(broken, "inputs.rates"), text
    made = send(shared, "/console/create", page, **fields, **{"inputs.data": "s3://words"})
    assert made.status_code == 303, main(made)
    inputs = execution(shared, made.location.rpartition("/")[2], project=project)["inputs"]
    assert inputs == {"data": "s3://words", "epochs": 3, "rates": [0.5, 1.0], "shuffle": False, "team": "search"}


def test_a_viewer_creates_nothing(app: Flask) -> None:
    ada = made_user(app)
    job = {"command": ["true"]}
    body = {"project": "flytesnacks", "domain": DOMAIN, "name": "hers", "spec": {"job": job}}
    ada.do("POST", "executions", body)
    browser, _ = signed_in(app, made_user(app, "eve", role="viewer"))
    page = browser.get(address("flytesnacks", "hers")).text
    assert not re.search("Relaunch…|Decide again…|>Create<", page)
    for path in (
        "/console/create",
        address("flytesnacks", "hers", "relaunch"),
        "/console/executions/cancel?phase=QUEUED",
    ):
        assert browser.get(path).status_code == 403, path
    refused = send(browser, "/console/create", "/console/", project="flytesnacks", domain=DOMAIN)
    assert refused.status_code == 403


def test_another_like_it_keeps_what_the_form_has_no_fields_for(agent: PlayedAgent) -> None:
    api, project = agent.client, agent.project
    job = {
        "command": ["true"],
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}, "exclusive": True},
        "working_directory": "/tmp",
    }
    created(api, "first", project=project, job=job, annotations={"values": {"team": "a: b"}}, cluster=agent.cluster)
    form = f"/console/create?like={project}/{DOMAIN}/first"
    fields = filled(api.get(form).text)
    assert "limits" in fields["rest"]
    assert send(api, "/console/create", form, **{**fields, "name": "second"}).status_code == 303
    first, second = (get(api, f"executions/{project}/{DOMAIN}/{name}")["spec"] for name in ("first", "second"))
    assert first == second
    refused = send(api, "/console/create", form, **{**fields, "name": "third", "rest": "[1]"})
    assert (refused.status_code, problem(refused, "rest")) == (400, "It is no map: write {field: value}.")


def filled(page: str) -> dict[str, str]:
    """The fields of the form on a page, as a browser would send them."""
    form = page.partition('id="create"')[2].partition("</form>")[0]
    inputs = re.findall(r'<input [^>]*name="([^"]+)"[^>]* value="([^"]*)"', form)
    areas = re.findall(r'<textarea [^>]*name="([^"]+)"[^>]*>\n?([^<]*)</textarea>', form)
    chosen = re.findall(
        r'<select [^>]*name="([^"]+)"[^>]*>(?:(?!</select>).)*?value="([^"]+)" selected', form, re.DOTALL
    )
    values = {name: html.unescape(value) for name, value in (*inputs, *areas, *chosen)}
    return {name: value for name, value in values.items() if name != "form_token"}
