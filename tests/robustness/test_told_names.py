"""What callers are told who may not read the fleet, and of projects that they may not know of."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.core.identities import Identity, Proof
from admin.core.permissions import ROLES
from admin.core.settings.scopes import Scope
from admin.services import redecisions, row_warnings, warnings
from admin.services.context import Context
from admin.services.no_effect import NoEffectPage, list_no_effect
from admin.services.visibility import access_of
from admin.store.attributes import Filter
from tests.conftest import MakeApp
from tests.integration.test_permissions import OPERATIONS, ROWS
from tests.robustness.test_nul import BODIES, path_of
from tests.support import people
from tests.support.apps import context_of
from tests.support.people import Person
from tests.support.placing import (
    API,
    DOMAIN,
    JOB,
    PROJECT,
    asked,
    create,
    get,
    label,
    new_project,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    register_plan,
    register_workflow,
    report,
    switch,
)

LOCAL = sorted(ROLES["editor"].permissions - {"fleet.read"})
SECTIONS: dict[str, Any] = {"roles": {"local": {"permissions": LOCAL}}}
#: Names that the caller may not know, of which none is in a word of an answer.
CLUSTERS = ("quokka", "wombat", "numbat")
POOLS, LABELS = ("zephyr", "zephyrs"), ("sirocco", "siroccos")
ELSEWHERE, FLOW, PLAN, AUTHOR, WHY = "kumquat", "tamarind", "rambutan", "hedwig", "persimmon"
PROPERTY = "durian"
SECRET = (*CLUSTERS, *POOLS, *LABELS, ELSEWHERE, FLOW, PLAN, AUTHOR, WHY, PROPERTY)
#: What settings that the caller may read say, and a pool that an execution of the caller asks for.
OWN_POOL, RULED_POOL = "mistral", "levante"
#: Stands in a question for where the execution `one` of the caller is.
OWN_CLUSTER = "OWN-CLUSTER"
WHERE = f"project={PROJECT}&domain={DOMAIN}"


def secrets_in(answer: TestResponse) -> list[str]:
    """The words that an answer should not have; tokens of pages are read too."""
    text = answer.get_data(as_text=True)
    document = answer.get_json(silent=True)
    token = document.get("token") if isinstance(document, dict) else None
    if token:
        text += base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    return [word for word in SECRET if word in text]


def made_user(app: Flask, name: str, role: str, scope: Scope) -> Person:
    """A new user with a role at a scope, whose client sends the token with whatever it is used for."""
    person = people.made_user(app, name, role=role, scope=scope)
    person.client.environ_base["HTTP_AUTHORIZATION"] = person.headers["Authorization"]
    return person


def by_rules(*rules: dict[str, str]) -> dict[str, Any]:
    return {"strategy": "constraint", "rules": list(rules)}


def settle(api: FlaskClient) -> None:
    """A fleet, another project, and settings of which the caller may read some."""
    for name in CLUSTERS:
        put_cluster(api, name, capacity={"cpu": "4", "gpu": "0"}, properties={PROPERTY: 5})
    for name in POOLS:
        put_pool(api, name, CLUSTERS)
    put_pool(api, OWN_POOL, CLUSTERS, **by_rules({"filter": f"{PROPERTY} < 9"}, {"sort": PROPERTY}))
    put_pool(api, RULED_POOL, CLUSTERS[:1], **by_rules({"filter": f"min(9, {PROPERTY}) > 9"}))
    for name in LABELS:
        put_label(api, name, CLUSTERS[:2])
    new_project(api, ELSEWHERE)
    for project in (PROJECT, ELSEWHERE):
        ok(register_workflow(api, "flow" if project == PROJECT else FLOW, project=project))
        ok(register_plan(api, "plan" if project == PROJECT else PLAN, "flow" if project == PROJECT else FLOW,
                         project=project))  # fmt: skip
    ok(create(api, "one"))
    ok(create(api, "elsewhere", project=ELSEWHERE))
    by = {"claimed_by": AUTHOR, "message": WHY}
    row = {"matching_attributes": {"cluster_assignment": {"cluster_pool_name": OWN_POOL}}}
    ok(api.put(f"{API}/domain_attributes/{DOMAIN}", json={"attributes": row, **by}))
    put_attribute(api, "project-domain", "execution_cluster_label", {"value": LABELS[0]}, project=ELSEWHERE)
    put_attribute(api, "workflow", "cluster_assignment", {"cluster_pool_name": POOLS[0]}, project=ELSEWHERE,
                  workflow=FLOW)  # fmt: skip
    limits = {"limits": {"cpu": "1"}}
    put_attribute(api, "project-domain", "task_resource_attributes", limits)
    ok(create(api, "sorted"))
    ok(create(api, "ruled-out", **pool(RULED_POOL)))
    for name in CLUSTERS:
        switch(api, name, "cordon", reason=WHY, claimed_by=AUTHOR)
    ok(create(api, "waits"))


@pytest.fixture(scope="module")
def admin(shared_app: Flask) -> Person:
    settle(shared_app.test_client())
    return made_user(shared_app, "root", "admin", Scope())


@pytest.fixture(scope="module")
def caller(shared_app: Flask, admin: Person) -> Person:
    """A user of one project who may not read the fleet."""
    return made_user(shared_app, "local", "local", Scope(project=PROJECT))


@pytest.fixture(scope="module")
def viewer(shared_app: Flask, admin: Person) -> Person:
    """A user of one project who may read the fleet."""
    return made_user(shared_app, "viewer", "editor", Scope(project=PROJECT))


def own_cluster(admin: Person, name: str = "one") -> str:
    """Where an execution of the caller is."""
    return str(admin.get(f"executions/{PROJECT}/{DOMAIN}/{name}").get("cluster"))


def assert_tells_only(answer: TestResponse, typed: set[str], admin: Person) -> None:
    """Fail unless every secret word of an answer was typed by the caller, or is where the caller's executions are."""
    told = set(secrets_in(answer)) - typed
    if told:  # most answers tell none, and need no look at the executions
        clusters = {own_cluster(admin, name) for name in ("one", "sorted", "waits")}
        assert told <= clusters, answer.get_data(as_text=True)


def bodies_of(id: str) -> Iterator[Any]:
    """Bodies for a route: the usual one, and one that names what is like a secret."""
    operation = OPERATIONS[id]
    body = BODIES.get(operation.body.__name__) if operation.body is not None else None
    yield body
    if body is not None:
        text = json.dumps(body)
        yield json.loads(text.replace("mycluster", "siroco"))
        yield json.loads(text.replace("mycluster", LABELS[0]))


ROUTES = [id for id in ROWS if OPERATIONS[id].permission != "own-agent" and id not in ("openapi", "register_cluster")]


@pytest.mark.parametrize("id", ROUTES)
def test_no_route_tells_what_the_caller_may_not_know(admin: Person, caller: Person, id: str) -> None:
    operation, (_place, query) = OPERATIONS[id], ROWS[id]
    asked_query = [query] if query else []
    if operation.query is not None and "dry_run" in operation.query().fields:
        asked_query.append("dry_run=true")
    elif operation.method != "GET" and id not in ("place", "simulate", "propose_effective_attributes"):
        return  # what cannot be tried is called below
    path = path_of(operation)
    if asked_query:
        path += ("&" if "?" in path else "?") + "&".join(asked_query)
    for body in bodies_of(id):
        answer = caller.client.open(path, method=operation.method, json=body)
        assert answer.status_code < 500
        typed = {word for word in SECRET if body is not None and word in json.dumps(body)}
        assert_tells_only(answer, typed, admin)


#: Questions about settings, placements and names, and what they name themselves.
QUESTIONS = [
    ("GET", f"effective_attributes?{WHERE}&provenance=true&nearest=true", None),
    ("GET", f"effective_attributes?{WHERE}&workflow=flo&provenance=true", None),
    ("GET", f"effective_attributes?{WHERE}&workflow=tamarin&provenance=true", None),
    ("GET", f"project_domain_attributes/{PROJECT}/{DOMAIN}?resource_type=7&provenance=true", None),
    ("GET", f"effective_attributes/reach?resource_type=7&{WHERE}", None),
    ("GET", "warnings", None),
    ("GET", "warnings?limit=1", None),
    ("GET", f"matchable_attributes/no_effect?{WHERE}", None),
    ("GET", "matchable_attributes?resource_type=7", None),
    *(("GET", f"uses?{noun}={name}&reach=true", None) for noun, name in (
        *(("pool", name) for name in ("zephy", "mistral")), ("label", "siroc"), ("cluster", "quoka"))),
    ("GET", "uses?resource_type=7&reach=true&limit=1", None),
    ("GET", "uses?resource_type=6&field=envs.kumqua", None),
    ("GET", "projects", None),
    ("GET", "projects/kumqua", None),
    ("GET", "executions?limit=1", None),
    ("GET", "execution_counts?by=cluster,project", None),
    ("GET", "executions?filters=eq(cluster,quoka)", None),
    ("GET", "placement_counts?by=project", None),
    ("GET", "revisions", None),
    ("GET", "timeline", None),
    ("GET", "timeline?actor=hedwi", None),
    ("GET", "all_definitions?limit=1000", None),
    ("GET", "all_definitions?project=kumqua", None),
    ("GET", "all_definitions?noun=workflow", None),
    ("GET", "access/held?user=local", None),
    ("GET", "access/held?user=hedwi", None),
    ("GET", f"access/held?user=local&{WHERE}", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/waits?with_status=true", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/waits/explanation", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/one/explanation", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/one/explanation?why_not={OWN_CLUSTER}", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/waits/events", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/waits/comparison?other_name=one", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/waits/comparison?to={PROJECT}/{DOMAIN}/one", None),
    ("POST", "executions?dry_run=true", asked("n", **pool("zephy"))),
    ("POST", "executions?dry_run=true", asked("n", **label("siroc"))),
    ("POST", "executions?dry_run=true", asked("n", cluster="quoka")),
    ("POST", "executions?dry_run=true", asked("n", launch_plan={"name": "rambuta"})),
    ("POST", "executions?dry_run=true", asked("n", project="kumqua")),
    ("POST", "executions?dry_run=true", asked("n", domain="developmen")),
    ("POST", "executions?dry_run=true", asked("n", job={**JOB, "resources": {"requests": {"gpu": "1"}}})),
    ("POST", "executions?dry_run=true", asked("n", job={**JOB, "resources": {"requests": {"cpu": "9"}}})),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/sorted/explanation", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/ruled-out/explanation", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}/ruled-out?with_status=true", None),
    ("GET", f"executions/{PROJECT}/{DOMAIN}", None),
    ("POST", "executions?dry_run=true", asked("n", **by_rules({"sort": "duria"}))),
    ("POST", "placements", asked("n", **by_rules({"sort": "duria"}))),
    ("POST", "placements", asked("n", **pool(RULED_POOL))),
    ("POST", "placements", asked("n", **pool("zephy"))),
    ("POST", "placements", asked("n")),
    ("POST", "placements", {**asked("n"), "fleet": True}),
    ("POST", "simulations", {"changes": [], "since": "1d", "project": PROJECT, "domain": DOMAIN}),
    ("GET", "executions/flytesnacks/development/on", None),
    ("GET", f"workflows/{PROJECT}/{DOMAIN}/tamarin/v1", None),
    ("GET", f"launch_plans/{PROJECT}/{DOMAIN}/rambuta/v1", None),
    *(("PUT", f"workflow_attributes/{PROJECT}/{DOMAIN}/{workflow}{query}",
       {"attributes": {"matching_attributes": matching}})
      for query in ("?dry_run=true", "")
      for workflow in ("flow", "tamarin")
      for matching in (pool("zephy"), label("siroc"))),
    *(("DELETE", f"workflow_attributes/{PROJECT}/{DOMAIN}/{workflow}?resource_type={kind}", None)
      for workflow in ("flow", "tamarin") for kind in (3, 7)),
    ("POST", "attribute_changes?dry_run=true&plan=true", {"changes": [
        {"resource_type": "CLUSTER_ASSIGNMENT", "project": PROJECT, "domain": DOMAIN,
         "payload": {"cluster_pool_name": "zephy"}}]}),
    ("POST", "launch_plans", {"id": {"project": PROJECT, "domain": DOMAIN, "name": "plan", "version": "v2"},
                              "spec": {"workflow_id": {"name": "flow", "version": "v1"}, **pool("zephy")},
                              "state": "INACTIVE"}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body"), QUESTIONS, ids=lambda part: str(part)[:80])
def test_no_answer_about_settings_and_placements_tells_what_the_caller_may_not_know(
    admin: Person, caller: Person, method: str, path: str, body: Any
) -> None:
    if OWN_CLUSTER in path:
        path = path.replace(OWN_CLUSTER, own_cluster(admin))
    answer = caller.call(method, path, body)
    assert answer.status_code < 500, answer.get_data(as_text=True)
    assert_tells_only(answer, set(), admin)


def test_the_same_questions_tell_the_names_to_an_administrator(admin: Person) -> None:
    questions = [(method, path.replace(OWN_CLUSTER, own_cluster(admin)), body) for method, path, body in QUESTIONS]
    answers = [admin.call(method, path, body) for method, path, body in questions if method == "GET"]
    told = {word for answer in answers for word in secrets_in(answer)}
    assert told >= {*CLUSTERS, POOLS[0], LABELS[0], ELSEWHERE, FLOW, PLAN, AUTHOR, WHY, PROPERTY}


# Equal answers


def text_of(answer: TestResponse, name: str) -> str:
    """An answer without the name in question, the number of the revision and what is random."""
    text = answer.get_data(as_text=True).replace(name, "X")
    return re.sub(r'"(request_id|revision|version|before|changed)":("[^"]*"|\d+|true|false|{[^}]*}),?', "", text)


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
@pytest.mark.parametrize(
    ("matching", "hidden", "absent"),
    [(pool, POOLS[0], "zebra"), (label, LABELS[0], "sahara"), (label, "quokka", "steppe")],
)
def test_a_setting_that_names_what_is_hidden_is_answered_as_one_that_names_nothing(
    caller: Person, viewer: Person, matching: Any, hidden: str, absent: str, query: str
) -> None:
    def put(user: Person, name: str) -> Any:
        body = {"attributes": {"matching_attributes": matching(name)}}
        return user.call("PUT", f"project_domain_attributes/{PROJECT}/staging{query}", body)

    answers = [put(caller, name) for name in (hidden, absent)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert text_of(answers[0], hidden) == text_of(answers[1], absent)
    assert "No " in put(viewer, absent).get_data(as_text=True)
    assert "No " not in put(viewer, hidden).get_data(as_text=True).replace("No cluster", "")
    caller.call("DELETE", f"project_domain_attributes/{PROJECT}/staging?resource_type={3 if matching is label else 7}")


@pytest.mark.parametrize(("noun", "hidden"), [("pool", POOLS[0]), ("label", LABELS[0]), ("cluster", "numbat")])
def test_where_something_hidden_is_used_is_answered_as_for_what_there_is_not(
    caller: Person, noun: str, hidden: str
) -> None:
    answers = [caller.call("GET", f"uses?{noun}={name}&reach=true") for name in (hidden, "absent")]
    assert text_of(answers[0], hidden) == text_of(answers[1], "absent")
    assert ok(answers[0])["partial"] is True


def test_the_timeline_of_a_hidden_cluster_is_that_of_one_that_there_is_not(
    admin: Person, caller: Person, viewer: Person
) -> None:
    path = f"timeline?cluster={CLUSTERS[0]}&source=revision"
    assert caller.get(path) == caller.get("timeline?cluster=absent&source=revision")
    assert caller.get(path)["entries"] == []
    # With the pools and labels that it is a member of.
    assert viewer.get(path)["entries"] == admin.get(path)["entries"]
    assert len(viewer.get(path)["entries"]) > 1


def no_effect_page(context: Context) -> NoEffectPage:
    return list_no_effect(context, Filter(kinds=("EXECUTION_CLUSTER_LABEL", "TASK_RESOURCE")), None, 10, examined=1)


def test_pages_of_warnings_count_and_name_no_rows_that_are_hidden(
    shared_app: Flask, admin: Person, caller: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_warnings, "_CHUNK", 1)
    context = context_of(shared_app)
    own = context.seen_by(access_of(context, Identity(user="local", proof=Proof.TOKEN)))
    for page in (warnings.list_warnings(own, limit=10, examined=1), no_effect_page(own)):
        assert page.next_key is None or PROJECT in page.next_key
    assert no_effect_page(context).next_key is not None
    assert caller.get("matchable_attributes/no_effect?resource_type=3")["examined"] == 0
    assert admin.get("matchable_attributes/no_effect?resource_type=3")["examined"] == 1


def test_a_workflow_of_a_hidden_project_is_answered_as_one_that_is_not_registered(caller: Person) -> None:
    body = {"attributes": {"matching_attributes": pool(OWN_POOL)}}
    answers = [
        caller.call("PUT", f"workflow_attributes/{PROJECT}/staging/{name}?dry_run=true", body)
        for name in (FLOW, "unregistered")
    ]
    assert text_of(answers[0], FLOW) == text_of(answers[1], "unregistered")
    assert "unknown_workflow" in answers[0].get_data(as_text=True)


# Suggestions


def test_a_refused_creation_suggests_only_what_the_settings_of_the_caller_say(caller: Person, viewer: Person) -> None:
    path = "executions?dry_run=true"
    answer = refused(caller.call("POST", path, asked("n", **pool("mistrl"))), 400, "unknown_pool")
    assert answer["details"][0]["closest"] == [OWN_POOL]
    answer = refused(caller.call("POST", path, asked("n", **pool("zephy"))), 400, "unknown_pool")
    assert "closest" not in answer["details"][0]
    assert "Did you mean" not in answer["message"]
    answer = refused(viewer.call("POST", path, asked("n", **pool("zephy"))), 400, "unknown_pool")
    assert answer["details"][0]["closest"][0] == "zephyr"


def test_a_refused_rule_suggests_properties_only_to_who_may_read_the_fleet(caller: Person, viewer: Person) -> None:
    body = asked("n", **by_rules({"sort": "duria"}))
    answers = [user.call("POST", "executions?dry_run=true", body) for user in (caller, viewer)]
    [untold], [told] = (refused(answer, 400, "invalid_request")["details"] for answer in answers)
    assert (untold["field"], told["field"]) == ("spec.rules.0.sort", "spec.rules.0.sort")
    assert PROPERTY not in untold.get("closest", [])
    assert told["closest"] == [PROPERTY]


def test_a_rule_does_not_tell_who_may_not_read_the_fleet_whether_a_property_exists(
    caller: Person, viewer: Person
) -> None:
    def answer(user: Person, name: str) -> Any:
        return user.call("POST", "executions?dry_run=true", asked("n", **by_rules({"sort": name})))

    existing, missing = (answer(caller, name) for name in (PROPERTY, "absent"))
    for response in (existing, missing):
        [detail] = refused(response, 400, "invalid_request")["details"]
        assert detail["field"] == "spec.rules.0.sort"
        assert "for a property of clusters" in detail["reason"]
        assert "closest" not in detail
    assert text_of(existing, PROPERTY) == text_of(missing, "absent")
    assert answer(viewer, PROPERTY).status_code == 200
    for name in (PROPERTY, "absent"):
        assert answer(caller, f"properties.{name}").status_code == 200


def test_where_unknown_names_are_refused_the_refusal_suggests_none(make_app: MakeApp) -> None:
    app = make_app(**SECTIONS, attributes={"unknownNames": "refuse"})
    put_pool(app.test_client(), POOLS[0], CLUSTERS)
    caller = made_user(app, "local", "local", Scope(project=PROJECT))

    def put(name: str) -> Any:
        body = {"attributes": {"matching_attributes": pool(name)}}
        return caller.call("PUT", f"project_domain_attributes/{PROJECT}/{DOMAIN}", body)

    answer = put("zephy")
    assert refused(answer, 400, "invalid_request")["details"][0]["field"] == "cluster_pool_name"
    assert secrets_in(answer) == []
    assert put(POOLS[0]).status_code == 200


def test_a_grant_to_a_group_tells_nothing_of_groups_that_the_caller_may_not_read(
    shared_app: Flask, admin: Person
) -> None:
    ok(admin.call("POST", "groups", {"group": {"name": "medlars"}}))
    owner = made_user(shared_app, "owner", "admin", Scope(project=PROJECT))

    def give(user: Person, group: str) -> Any:
        return user.call(
            "POST", "grants?dry_run=true", {"grant": {"role": "viewer", "group": group, "project": PROJECT}}
        )

    assert "medlars" in give(admin, "medlar").get_data(as_text=True)
    answers = [give(owner, group) for group in ("medlars", "medlax")]
    assert text_of(answers[0], "medlars") == text_of(answers[1], "medlax")


# Provenance


def test_who_made_a_revision_is_told_only_to_who_may_read_it(admin: Person, caller: Person, viewer: Person) -> None:
    path = f"effective_attributes?{WHERE}&resource_type=7&provenance=true"
    [told] = admin.get(path)["revisions"].values()
    assert (told["claimed_by"], told["message"]) == (AUTHOR, WHY)
    for user in (caller, viewer):
        answer = user.get(path)
        [untold] = answer["revisions"].values()
        assert untold == {key: told[key] for key in ("revision", "at")}
        assert answer["values"][0]["origins"]["cluster_pool_name"]["revision"] == told["revision"]


def test_who_gave_a_grant_on_the_platform_is_told_only_to_who_may_read_it(shared_app: Flask, admin: Person) -> None:
    ok(admin.call("POST", "grants", {"grant": {"role": "viewer", "user": "guest"}, "message": WHY}))
    keeper = made_user(shared_app, "keeper", "admin", Scope(project=PROJECT))
    path = f"access?project={PROJECT}"

    def given(user: Person) -> Any:
        [grant] = (grant for grant in user.get(path)["grants"] if grant["name"] == "viewer:user:guest")
        return grant["provenance"]["definition"]

    told = given(admin)
    assert (told["author"], told["message"]) == ("root", WHY)
    assert given(keeper) == {key: told[key] for key in ("revision", "at")}
    ok(admin.call("DELETE", "grants/viewer:user:guest"))


# The fleet in explanations, and numbers of other projects


def test_an_explanation_counts_the_clusters_that_the_caller_may_not_see(admin: Person, caller: Person) -> None:
    path = f"executions/{PROJECT}/{DOMAIN}/waits/explanation"
    every, told = admin.get(path), caller.get(path)
    number = len(every["candidates"]) + len(every["not_candidates"])
    assert (told["candidates"], told["not_candidates"], told["unseen_clusters"]) == ([], [], number)
    assert "unseen_clusters" not in every
    assert "clusters you may not see" in told["reason"]["message"]


def test_which_clusters_could_run_it_is_told_of_those_that_the_caller_may_see(admin: Person, caller: Person) -> None:
    path = f"executions/{PROJECT}/{DOMAIN}/waits/explanation"
    [name, *_] = [entry["cluster"] for entry in admin.get(path)["candidates"]]
    body = {**asked("x"), "fleet": True}
    every, told = (ok(person.call("POST", "placements", body)) for person in (admin, caller))
    number = every["fleet"]["all"]["clusters"]
    chosen = [entry["cluster"] for entry in told["candidates"]]
    assert chosen == ([told["cluster"]] if "cluster" in told else [])
    assert told["unseen_clusters"] == number - len(chosen)
    assert told["fleet"]["all"]["clusters"] == len(chosen)
    # One that may not be seen is answered as one that there is not.
    unseen, unknown = (caller.call("GET", f"{path}?why_not={word}") for word in (name, "nobody"))
    assert (unseen.status_code, unknown.status_code) == (404, 404)
    messages = [(answer.json or {})["message"] for answer in (unseen, unknown)]
    assert messages[0].replace(name, "nobody") == messages[1]


def test_why_a_cluster_could_not_run_it_now_is_told_to_who_may_read_the_fleet(make_app: MakeApp) -> None:
    app = make_app(**SECTIONS, placement={"clusterUse": "closed"})
    api, size = app.test_client(), {"cpu": "8", "memory": "8Gi"}
    for name, free in (("busy", "0"), ("small", "8"), ("costly", "8"), ("bare", "8")):
        has = {**size, "cpu": "1"} if name == "small" else {} if name == "bare" else size
        put_cluster(api, name, capacity=has, properties={PROPERTY: 9 if name == "costly" else 1})
        report(api, name, capacity=has, free={**has, "cpu": free} if free == "0" else has)
        ok(api.post(f"{API}/use_grants", json={"use_grant": {"cluster": name, "project": PROJECT}}))
    put_pool(api, OWN_POOL, ["busy"], **by_rules({"filter": f"{PROPERTY} < 5"}))
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"cpu": "8", "memory": "8Gi"}})
    body = asked("n", job={**JOB, "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}, **pool(OWN_POOL))
    caller = made_user(app, "local", "local", Scope(project=PROJECT))
    viewer = made_user(app, "viewer", "editor", Scope(project=PROJECT))
    told, untold = (ok(user.call("POST", "placements", {**body, "fleet": True})) for user in (viewer, caller))
    others = {entry["cluster"]: entry for entry in untold["not_candidates"]}
    could_run = {name: entry["could_run"] for name, entry in others.items()}
    assert could_run == {"small": "never", "costly": "later", "bare": "unknown"}
    for answer, is_told in ((told, True), (untold, False)):
        entries = {entry["cluster"]: entry for entry in [*answer["candidates"], *answer["not_candidates"]]}
        assert ["obstacles" in entries[name] for name in ("busy", "small", "costly")] == [is_told] * 3
        assert ("unknown_resources" in entries["bare"]) is is_told
    for name, sentence in (
        ("small", "It could never run it."),
        ("costly", "It could run it, though not now."),
        ("bare", "Whether it could run it is not known."),
    ):
        question = ok(caller.call("POST", "placements", {**body, "why_not": name}))["why_not"]
        assert question["message"].endswith(f". {sentence}")
        question = ok(viewer.call("POST", "placements", {**body, "why_not": name}))["why_not"]
        assert not question["message"].endswith(sentence)


def test_who_deleted_a_cluster_is_told_to_who_may_read_the_fleet(make_app: MakeApp) -> None:
    app = make_app(**SECTIONS, placement={"clusterUse": "closed"})
    api = app.test_client()
    for name in CLUSTERS[:2]:
        put_cluster(api, name)
    for name in (cluster["name"] for cluster in get(api, "clusters")["clusters"]):
        ok(api.post(f"{API}/use_grants", json={"use_grant": {"cluster": name, "project": PROJECT}}))
    ok(api.delete(f"{API}/clusters/{CLUSTERS[0]}?force=true", json={"message": WHY, "claimed_by": AUTHOR}))
    caller = made_user(app, "local", "local", Scope(project=PROJECT))
    viewer = made_user(app, "viewer", "editor", Scope(project=PROJECT))
    answers = [
        user.call("POST", "placements", {**asked("n"), "why_not": name})
        for user, name in ((caller, CLUSTERS[0]), (caller, "nobody"), (viewer, CLUSTERS[0]))
    ]
    untold, unknown, told = (refused(answer, 404, "cluster_not_found")["message"] for answer in answers)
    assert untold.replace(CLUSTERS[0], "nobody") == unknown
    assert (WHY in told, WHY in untold) == (True, False)


@pytest.mark.parametrize("why", [WHY, f"{WHY} (of {AUTHOR}); see there", f"{WHY}) (is {AUTHOR}"])
def test_why_a_cluster_is_switched_off_is_told_to_who_may_read_the_fleet(make_app: MakeApp, why: str) -> None:
    app = make_app(**SECTIONS, placement={"clusterUse": "closed"})
    api = app.test_client()
    put_pool(api, OWN_POOL, ["first", "second"])
    ok(api.post(f"{API}/use_grants", json={"use_grant": {"pool": OWN_POOL, "project": PROJECT}}))
    caller = made_user(app, "local", "local", Scope(project=PROJECT))
    viewer = made_user(app, "viewer", "editor", Scope(project=PROJECT))
    root = made_user(app, "root", "admin", Scope())
    body = asked("n", **pool(OWN_POOL))
    moved = ok(caller.call("POST", "executions", asked("moved", **pool(OWN_POOL))))["execution"]["cluster"]
    redecisions.decide_waiting(context_of(app))
    for name in (moved, "second" if moved == "first" else "first"):
        ok(root.call("POST", f"clusters/{name}/cordon", {"reason": why}))
        redecisions.decide_waiting(context_of(app))
    made = caller.call("POST", "executions", body)
    path = f"executions/{PROJECT}/{DOMAIN}"
    questions = (
        ("GET", f"{path}/n"),
        ("GET", path),
        ("GET", f"{path}/n/explanation"),
        ("GET", f"{path}/moved/explanation"),
        ("GET", f"{path}/moved/events"),
    )
    answers = {
        user: [user.call(method, question) for method, question in questions]
        + [user.call("POST", "placements", {**body, "fleet": True, "why_not": "first"})]
        for user in (caller, viewer)
    }
    message = ok(made)["execution"]["closure"]["reason"]["message"]
    assert re.fullmatch(
        f"No cluster of pool '{OWN_POOL}' is able: 'first' is cordoned[;,] 'second' is cordoned\\.", message
    )
    for answer in (made, *answers[caller]):
        assert answer.status_code == 200
        assert [word for word in (WHY, AUTHOR, "root") if word in answer.get_data(as_text=True)] == []
    assert all(WHY in answer.get_data(as_text=True) for answer in answers[viewer])


def test_an_explanation_tells_the_rules_of_a_pool_to_who_may_read_the_fleet(
    admin: Person, caller: Person, viewer: Person
) -> None:
    path = f"executions/{PROJECT}/{DOMAIN}/sorted/explanation"
    told, untold = viewer.get(path), caller.get(path)
    assert told["rules"] == [{"filter": f"{PROPERTY} < 9"}, {"sort": PROPERTY}]
    assert told["candidates"][0]["values"] == {PROPERTY: 5}
    assert (untold["strategy"], untold.get("rules")) == ("constraint", None)
    assert [entry.get("values") for entry in untold["candidates"]] == [None]
    body = asked("n", **by_rules({"sort": f"properties.{PROPERTY}"}))
    assert ok(caller.call("POST", "placements", body))["rules"] == body["spec"]["rules"]


def test_a_place_in_line_is_told_to_who_may_read_the_fleet(
    shared_app: Flask, admin: Person, caller: Person, viewer: Person
) -> None:
    path = f"executions/{PROJECT}/{DOMAIN}/one?with_status=true"
    switch(admin.client, own_cluster(admin), "uncordon")
    told, untold = viewer.get(path)["status"], caller.get(path)["status"]
    assert ", next at " in told["message"]
    assert "start" not in untold
    assert re.search(r", in line at ", untold["message"])
    switch(admin.client, own_cluster(admin), "cordon", reason=WHY, claimed_by=AUTHOR)


# Lists


@pytest.mark.parametrize(
    ("path", "is_partial"),
    [
        ("executions", True),
        (f"executions/{PROJECT}/{DOMAIN}", False),
        (f"executions?{WHERE}", False),
        ("execution_counts?by=phase", True),
        ("projects", True),
        ("warnings", True),
        ("matchable_attributes?resource_type=3", True),
        (f"matchable_attributes?resource_type=3&{WHERE}", False),
        ("matchable_attributes/no_effect", True),
        ("revisions", True),
        ("timeline", True),
        ("uses?pool=mistral", True),
        ("placement_counts?by=cluster", True),
        ("revision_diff?from=1&to=2", True),
        ("all_definitions", True),
        ("all_definitions?noun=pool", False),
        (f"all_definitions?noun=workflow&{WHERE}", False),
        ("access/held?user=viewer", False),
    ],
)
def test_a_list_says_whether_there_may_be_more_that_the_caller_may_not_see(
    admin: Person, viewer: Person, path: str, is_partial: bool
) -> None:
    assert viewer.get(path).get("partial", False) is is_partial
    assert "partial" not in admin.get(path)


def test_definitions_of_the_platform_are_not_for_who_administers_a_project(shared_app: Flask, admin: Person) -> None:
    steward = made_user(shared_app, "warden", "admin", Scope(project=PROJECT))
    listed = steward.get("all_definitions?limit=1000")["definitions"]
    assert {row["noun"] for row in listed}.isdisjoint({"user", "group", "use-grant"})
    assert not {ELSEWHERE, FLOW, PLAN} & {word for row in listed for word in row["name"].split("/")}
    assert {"user", "workflow"} <= {row["noun"] for row in admin.get("all_definitions?limit=1000")["definitions"]}


def test_a_list_of_grants_says_whether_there_may_be_more(shared_app: Flask, admin: Person) -> None:
    steward = made_user(shared_app, "steward", "admin", Scope(project=PROJECT))
    assert steward.get("grants")["partial"] is True
    assert "partial" not in steward.get(f"grants?project={PROJECT}")
    assert "partial" not in admin.get("grants")


# Metrics


def test_metrics_need_their_permission_once_there_are_users(shared_app: Flask, admin: Person, viewer: Person) -> None:
    for path in ("/metrics", "/metrics/"):
        assert shared_app.test_client().get(path).status_code == 401
        assert shared_app.test_client().head(path).status_code == 401
        refused(viewer.client.get(path), 403, "permission_denied")
    assert CLUSTERS[0] in admin.client.get("/metrics").get_data(as_text=True)
