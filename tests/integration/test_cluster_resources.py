"""Cluster resources: what templates make of projects and domains; on both databases."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from admin.core.retention import Retention
from admin.core.settings.scopes import Scope
from admin.services.renderings import render_namespaces
from admin.services.retention import prune
from tests.conftest import MakeApp
from tests.integration.test_grants import give, signed_in
from tests.support.agents import Clock, PlayedAgent, phase, played_agent, set_clock, shown
from tests.support.people import made_user
from tests.support.placing import created, get, ok, put_attribute, put_cluster, refused

SLOW_ON = ("postgresql",)

EXAMPLES = {"project": "flyteexamples", "domain": "development"}
CRA = {"attributes": {"projectQuotaCpu": "1000", "projectQuotaMemory": "5Ti"}}
DEFAULTS = {"templateData": {"projectQuotaCpu": "4", "projectQuotaMemory": "3000Mi"}}


def rendering(api: FlaskClient, project: str = "flyteexamples", domain: str = "development", **query: str) -> Any:
    parts = {"project": project, "domain": domain, **query}
    return get(api, f"cluster_resources/rendering?{urlencode(parts)}")


def quota(api: FlaskClient, project: str = "flyteexamples", domain: str = "development") -> Any:
    objects = {entry["object"]: entry["document"] for entry in rendering(api, project, domain)["objects"]}
    return objects["ResourceQuota/project-quota"]["spec"]["hard"]


def test_a_cluster_resource_attribute_becomes_the_quota_of_its_namespace(make_app: MakeApp) -> None:
    api = make_app(cluster_resources=DEFAULTS).test_client()
    put_attribute(api, "project-domain", "cluster_resource_attributes", CRA, **EXAMPLES)
    assert quota(api) == {"limits.cpu": "1000", "limits.memory": "5Ti"}
    assert quota(api, domain="staging") == {"limits.cpu": "4", "limits.memory": "3000Mi"}
    shown = rendering(api)
    assert shown["namespace"] == "flyteexamples-development"
    variables = {variable["name"]: variable for variable in shown["variables"]}
    assert variables["projectQuotaCpu"]["origin"] == {**EXAMPLES, "level": "project-domain", "version": 1}
    assert variables["namespace"] == {"name": "namespace", "value": shown["namespace"], "text": "the platform"}
    staging = {variable["name"]: variable for variable in rendering(api, domain="staging")["variables"]}
    assert staging["projectQuotaCpu"]["origin"]["key"] == "cluster_resources.templateData.projectQuotaCpu"
    ok(api.delete("/api/v1/project_domain_attributes/flyteexamples/development?resource_type=CLUSTER_RESOURCE"))
    assert quota(api) == {"limits.cpu": "4", "limits.memory": "3000Mi"}


def test_a_variable_without_a_value_fails_its_namespace_alone(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  team: {{ team }}\n  password: {{ password }}\n"
    )
    (tmp_path / "secret").write_text("s3cret: |\n---\n")
    sections = {
        "templatePath": str(tmp_path),
        "templateData": {"password": {"valueFrom": {"filePath": str(tmp_path / "secret")}}},
    }
    api = make_app(cluster_resources=sections).test_client()
    put_attribute(api, "domain", "cluster_resource_attributes", {"attributes": {"team": "a"}}, domain="staging")
    failed = rendering(api)
    assert failed["objects"] == []
    assert failed["problems"][0].startswith("a.yaml:5: the variable 'team' has no value: ")
    assert "digest" not in failed
    made = rendering(api, domain="staging")
    assert made["objects"][0]["document"]["data"] == {"team": "a", "password": "(hidden)"}
    assert "s3cret" not in str(made)
    query = urlencode({"resource_type": "CLUSTER_RESOURCE", **EXAMPLES})
    assert get(api, f"effective_attributes?{query}")["values"][0]["value"] == {
        "attributes": {"password": f"(file {tmp_path / 'secret'})"}
    }
    digest = made["digest"]
    (tmp_path / "secret").write_text("other")
    (tmp_path / "b.yaml").write_text("{% for x in y %}")
    for _ in range(50):
        if rendering(api, domain="staging")["problems"]:
            break
        time.sleep(0.1)
    assert rendering(api, domain="staging")["problems"] == [
        "b.yaml:1: '{% for x in y %}' is not a variable: only {{ name }} is filled in; loops, conditions, filters and "
        "comments of template engines are not known."
    ]
    (tmp_path / "b.yaml").unlink()
    time.sleep(1.1)
    assert rendering(api, domain="staging")["digest"] != digest


def test_stored_keys_never_override_the_platforms_own(make_app: MakeApp) -> None:
    api = make_app().test_client()
    for name in ("namespace", "project", "domain"):
        body = {"attributes": {"matching_attributes": {"cluster_resource_attributes": {"attributes": {name: "x"}}}}}
        answer = api.put("/api/v1/project_domain_attributes/flyteexamples/development", json=body)
        assert answer.status_code == 400
    big = {"attributes": {"matching_attributes": {"cluster_resource_attributes": {"attributes": {"a": "x" * 100_000}}}}}
    answer = api.put("/api/v1/project_domain_attributes/flyteexamples/development", json=big)
    assert "100000 characters; the most is 16384" in answer.get_data(as_text=True)
    put_attribute(
        api,
        "project-domain",
        "cluster_resource_attributes",
        {"attributes": {"projectQuotaCpu": "1\n---\nkind: Secret", "taskLimitCpu": "7"}},
        **EXAMPLES,
    )
    shown = rendering(api)
    assert quota(api) == {"limits.cpu": "1\n---\nkind: Secret"}
    assert {entry["document"]["kind"] for entry in shown["objects"]} == {"Namespace", "ResourceQuota", "LimitRange"}
    limits = next(entry["document"] for entry in shown["objects"] if entry["document"]["kind"] == "LimitRange")
    assert limits["spec"]["limits"][0]["max"]["cpu"] == "2"


def test_clusters_that_make_namespaces_are_named(make_app: MakeApp) -> None:
    fleet = {"clusterConfigs": [{"name": "k8s", "clusterResources": True}, {"name": "other"}]}
    api = make_app(clusters=fleet).test_client()
    assert rendering(api)["clusters"] == ["k8s"]
    assert rendering(api, cluster="k8s")["clusters"] == ["k8s"]
    answer = api.get("/api/v1/cluster_resources/rendering?project=flyteexamples&domain=development&cluster=other")
    assert "makes no namespaces" in str(refused(answer, 400, "invalid_request"))
    assert get(api, "clusters/k8s")["cluster_resources"] is True


def test_two_scopes_of_one_namespace_and_names_too_long_are_refused(make_app: MakeApp) -> None:
    settings = {"domains": ["c", "b-c"], "projects": ["a", "a-b", "p" * 62]}
    api = make_app(**settings).test_client()
    assert "is also that of a/b-c" in rendering(api, "a-b", "c")["problems"][0]
    assert rendering(api, "a", "c")["problems"] == []
    assert "has 64 characters, and Kubernetes takes 63" in rendering(api, "p" * 62, "c")["problems"][0]


def test_nothing_is_told_of_projects_and_namespaces_that_one_may_not_see(make_app: MakeApp) -> None:
    app = make_app(domains=["c", "b-c"], projects=["a", "a-b"])
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "k8s", project="a")
    put_cluster(api, "k8s", cluster_resources=True)
    broken = {**report("failed", "no"), "namespace": "a-b-c", "project": "a-b", "domain": "c"}
    ok(exchanged(agent, {"reports": [broken]}))
    eve = made_user(app, "eve", role="viewer", scope=Scope("", "a-b"))
    shown = eve.get("cluster_resources/rendering?project=a-b&domain=c")
    assert "'a-b-c' is also that of another project: " in shown["problems"][0]
    listed = eve.get("cluster_resources?project=a-b&domain=c")
    assert "is also that of another project" in listed["namespaces"][0]["problems"][0]
    assert [event["message"] for event in listed["events"]] == ["no"]
    # Who may read the settings of one workflow alone is told nothing of the namespace.
    mallory = made_user(app, "mallory", role="viewer", scope=Scope("c", "a-b", "train"))
    listed = mallory.get("cluster_resources?project=a-b&domain=c")
    assert (listed["namespaces"], listed["events"]) == ([], [])


HERE = "flyteexamples-development"


def report(state: str, message: str = "", digest: str = "") -> dict[str, Any]:
    entry = {"object": "ResourceQuota/project-quota", "state": state, "message": message}
    return {**EXAMPLES, "namespace": HERE, "digest": digest, "exists": True, "objects": [entry]}


def exchanged(agent: PlayedAgent, body: dict[str, Any]) -> TestResponse:
    headers = {"Authorization": f"Bearer {agent.token}"}
    return agent.client.post(f"/api/v1/clusters/{agent.cluster}/cluster_resources", json=body, headers=headers)


def test_an_agent_fetches_what_changed_and_reports_what_became_of_it(make_app: MakeApp) -> None:
    app = make_app(cluster_resources=DEFAULTS)
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "k8s")
    put_cluster(api, "k8s", cluster_resources=True)

    def exchange(**body: Any) -> Any:
        return ok(exchanged(agent, body))

    first = exchange()
    assert first["enabled"]
    assert (first["namespaces"], first["more"], first["may_prune"]) == ([], False, True)
    everything = exchange(known={"other-development": "x"})
    assert everything["gone"] == ["other-development"]
    known = {entry["namespace"]: entry["digest"] for entry in everything["namespaces"]}
    assert HERE in known
    assert exchange(known=known)["namespaces"] == []
    put_attribute(api, "project-domain", "cluster_resource_attributes", CRA, **EXAMPLES)
    changed = exchange(digest=everything["digest"], known=known)
    (entry,) = changed["namespaces"]
    quota = next(document for document in entry["objects"] if document["kind"] == "ResourceQuota")
    assert quota["spec"]["hard"] == {"limits.cpu": "1000", "limits.memory": "5Ti"}
    assert changed["installation"] == first["installation"] != ""

    (listed,) = get(api, f"cluster_resources?{urlencode(EXAMPLES)}")["namespaces"]
    assert listed["clusters"] == [{"cluster": "k8s", "state": "pending", "exists": False, "objects": []}]
    exchange(reports=[report("failed", "exceeded quota", entry["digest"])])
    exchange(reports=[report("failed", "exceeded quota", entry["digest"])])
    exchange(reports=[report("applied", "", entry["digest"])])
    exchange(reports=[report("repaired", "others had changed it", entry["digest"])])
    exchange(reports=[report("applied", "", entry["digest"])])
    shown = get(api, f"cluster_resources?{urlencode(EXAMPLES)}")
    (found,) = shown["namespaces"][0]["clusters"]
    assert (found["state"], found["exists"]) == ("applied", True)
    assert [event["state"] for event in shown["events"]] == ["repaired", "applied", "failed"]
    assert HERE not in [entry["namespace"] for entry in get(api, "cluster_resources?failing=true")["namespaces"]]
    assert get(api, "cluster_resources?project=flyteexamples")["count"] == 3


def test_namespaces_are_listed_page_by_page_with_what_is_left_of_others(make_app: MakeApp) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "k8s")
    put_cluster(api, "k8s", cluster_resources=True)
    left = {**report("orphaned"), "namespace": "gone-development", "project": "gone"}
    ok(exchanged(agent, {"reports": [left]}))
    whole = get(api, "cluster_resources")
    names = [entry["namespace"] for entry in whole["namespaces"]]
    assert (len(names), "token" in whole) == (whole["count"], False)
    assert "gone-development" in names
    paged: list[str] = []
    page = get(api, "cluster_resources?limit=2")
    while True:
        assert page["count"] == whole["count"]
        paged += [entry["namespace"] for entry in page["namespaces"]]
        if "token" not in page:
            break
        page = get(api, f"cluster_resources?limit=2&token={page['token']}")
    assert paged == names
    wrong = api.get("/api/v1/cluster_resources?token=x")
    assert "is not a token that a list gave" in str(refused(wrong, 400, "invalid_request"))


def test_an_agent_is_told_what_its_cluster_had_when_that_was_last_reported(make_app: MakeApp) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "k8s", project="flyteexamples")
    put_cluster(api, "k8s", cluster_resources=True)

    def made() -> dict[str, list[str]]:
        answer = ok(exchanged(agent, {"known": {}}))
        return {entry["namespace"]: entry["made"] for entry in answer["namespaces"]}

    assert made()[HERE] == []
    ok(exchanged(agent, {"reports": [report("repaired")]}))
    there = made()[HERE]
    assert there == [entry["object"] for entry in report("repaired")["objects"]]
    ok(exchanged(agent, {"reports": [report("failed", "forbidden")]}))
    assert made()[HERE] == []


def test_an_agent_of_a_cluster_without_namespaces_is_told_so(make_app: MakeApp) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    plain = played_agent(api, context, "plain")
    assert ok(exchanged(plain, {}))["enabled"] is False
    wrong = exchanged(plain, {"reports": [report("broken")]})
    assert "is not one of applied" in str(refused(wrong, 400, "invalid_request"))


def test_a_run_waits_until_its_namespace_is_there(make_app: MakeApp) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "k8s", project="flyteexamples")
    plain = played_agent(api, context, "plain", project="flyteexamples")
    put_cluster(api, "k8s", cluster_resources=True)
    names = [f"e{number}" for number in range(7)]
    for name in names:
        created(api, name, cluster="k8s", project="flyteexamples")
    created(api, "other", cluster="plain", project="flyteexamples")
    assert agent.take(want=2) == []
    assert plain.take() == ["other"]
    assert {phase(agent, name) for name in names} == {("QUEUED", "NAMESPACE_NOT_READY")}
    reason = shown(agent, "e0")["closure"]["reason"]["message"]
    assert reason.startswith(f"Its namespace {HERE} is not on cluster 'k8s' yet: `rainbowctl get cluster-resources")
    status = get(api, "executions/flyteexamples/development/e0/explanation")["status"]
    assert reason in str(status), status
    missing = {**report("failed", "forbidden"), "exists": False}
    ok(exchanged(agent, {"reports": [missing]}))
    assert agent.take() == []
    ok(exchanged(agent, {"reports": [report("applied")]}))
    assert agent.take(want=7) == names
    assert phase(agent, "e0")[1] == "ASSIGNED"


def test_no_run_starts_in_the_namespace_of_another_project(make_app: MakeApp) -> None:
    app = make_app(domains=["c", "b-c"], projects=["a", "a-b"])
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "k8s", project="a")
    put_cluster(api, "k8s", cluster_resources=True)
    places = {"mine": ("a", "b-c"), "theirs": ("a-b", "c")}
    for name, (project, domain) in places.items():
        created(api, name, project=project, domain=domain, cluster="k8s")
    ok(exchanged(agent, {"reports": [{**report("applied"), "namespace": "a-b-c", "project": "a", "domain": "b-c"}]}))
    assert set(agent.offered(5)) == {"mine"}
    waiting = get(api, "executions/a-b/c/theirs")["closure"]["reason"]
    assert waiting["code"] == "NAMESPACE_NOT_READY"


def test_what_is_left_of_a_namespace_is_shown_until_it_is_gone(make_app: MakeApp) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "k8s")
    put_cluster(api, "k8s", cluster_resources=True)
    clock = Clock()
    context = set_clock(app, clock)

    def listed() -> Any:
        shown = get(api, f"cluster_resources?{urlencode(EXAMPLES)}")
        return {entry["namespace"]: entry["clusters"][0]["state"] for entry in shown["namespaces"]}

    old = {**report("orphaned"), "namespace": "of-before"}
    ok(exchanged(agent, {"reports": [report("applied"), old]}))
    assert listed() == {HERE: "pending", "of-before": "orphaned"}
    ok(exchanged(agent, {"reports": [{**report("pruned"), "namespace": "of-before"}]}))
    assert listed() == {HERE: "pending"}
    clock.advance(3600)
    ok(exchanged(agent, {"reports": [report("failed", "no")]}))
    assert len(get(api, f"cluster_resources?{urlencode(EXAMPLES)}")["events"]) == 4
    deleted = sum((Counter(counts) for counts in prune(context, Retention(namespaces="30m"))), Counter[str]())
    assert deleted["namespace_events"] == 3
    assert [entry["state"] for entry in get(api, f"cluster_resources?{urlencode(EXAMPLES)}")["events"]] == ["failed"]
    put_cluster(api, "k8s")
    ok(exchanged(agent, {}))
    put_cluster(api, "k8s", cluster_resources=True)
    (entry,) = get(api, f"cluster_resources?{urlencode(EXAMPLES)}")["namespaces"]
    assert entry["clusters"] == [{"cluster": "k8s", "state": "pending", "exists": False, "objects": []}]


def test_a_key_that_no_template_has_is_a_lasting_warning(make_app: MakeApp) -> None:
    api = make_app(cluster_resources=DEFAULTS).test_client()
    put_cluster(api, "k8s", cluster_resources=True)
    payload = {"attributes": {"projectQuotaCpus": "1", "projectQuotaMemory": "5Ti"}}
    written = put_attribute(api, "project-domain", "cluster_resource_attributes", payload, **EXAMPLES)
    (warning,) = written["warnings"]
    assert warning["code"] == "unused_key"
    assert warning["message"].startswith(
        "No template has the variable 'projectQuotaCpus'. Did you mean 'projectQuotaCpu"
    )
    assert warning["message"].endswith("It has no effect until one has it.")
    (listed,) = get(api, "warnings")["warnings"]
    assert (listed["code"], listed["field"]) == ("unused_key", "attributes.projectQuotaCpus")
    put_attribute(api, "project-domain", "cluster_resource_attributes", CRA, **EXAMPLES)
    assert get(api, "warnings")["warnings"] == []


def test_resources_that_no_cluster_takes_are_a_warning_which_names_the_quota_that_binds(make_app: MakeApp) -> None:
    api = make_app(cluster_resources=DEFAULTS).test_client()
    change = {"changes": [{"resource_type": "CLUSTER_RESOURCE", **EXAMPLES, "payload": CRA}]}
    (planned,) = ok(api.post("/api/v1/attribute_changes?dry_run=true", json=change))["warnings"]
    written = put_attribute(api, "project-domain", "cluster_resource_attributes", CRA, **EXAMPLES)
    (warning,) = written["warnings"]
    assert (planned["code"], planned["message"]) == (warning["code"], warning["message"])
    assert (warning["code"], warning["field"]) == ("no_namespaces", "attributes.projectQuotaCpu")
    assert warning["message"] == (
        "No cluster takes it, for none says `clusterResources: true`, so that it has no effect. An execution-quota "
        "bounds cpu, memory on all clusters: `rainbowctl update execution-quota -p flyteexamples -d development "
        "--set cpu=1000 --set memory=5Ti`."
    )
    (lasting,) = get(api, "warnings")["warnings"]
    assert (lasting["code"], lasting["message"]) == (warning["code"], warning["message"])
    (idle,) = get(api, "matchable_attributes/no_effect")["warnings"]
    assert (idle["code"], idle["message"]) == (warning["code"], warning["message"])
    assert idle["fields"] == ["attributes.projectQuotaCpu", "attributes.projectQuotaMemory"]
    put_cluster(api, "k8s", cluster_resources=True)
    assert get(api, "warnings")["warnings"] == get(api, "matchable_attributes/no_effect")["warnings"] == []
    more = {"attributes": {**CRA["attributes"], "projectQuotaGpu": "4"}}
    assert put_attribute(api, "project-domain", "cluster_resource_attributes", more, **EXAMPLES)["warnings"] == []


def test_whether_a_cluster_takes_resources_is_told_to_those_alone_who_may_read_the_fleet(make_app: MakeApp) -> None:
    roles = {"tuner": {"permissions": ["attributes.read", "attributes.write"]}}
    app = make_app(cluster_resources=DEFAULTS, roles=roles)
    for user, role in (("root", "admin"), ("tina", "tuner")):
        give(app.test_client(), role=role, user=user)
    root, tina = signed_in(app, "root"), signed_in(app, "tina")
    change = {"changes": [{"resource_type": "CLUSTER_RESOURCE", **EXAMPLES, "payload": CRA}]}
    for query in ("?dry_run=true", ""):
        assert ok(tina.post(f"/api/v1/attribute_changes{query}", json=change))["warnings"] == []
    other = {"changes": [{**change["changes"][0], "domain": "staging"}]}
    (warning,) = ok(root.post("/api/v1/attribute_changes", json=other))["warnings"]
    assert warning["code"] == "no_namespaces"
    for path in ("warnings", "matchable_attributes/no_effect"):
        assert [warning["code"] for warning in get(root, path)["warnings"]] == ["no_namespaces"] * 2
        assert get(tina, path)["warnings"] == []


def test_a_key_that_no_template_has_is_refused_where_unknown_names_are(make_app: MakeApp) -> None:
    api = make_app(attributes={"unknownNames": "refuse"}).test_client()
    body = {"attributes": {"matching_attributes": {"cluster_resource_attributes": {"attributes": {"quota": "1"}}}}}
    answer = api.put("/api/v1/project_domain_attributes/flyteexamples/development", json=body)
    assert "No template has the variable 'quota'" in str(refused(answer, 400, "invalid_request"))


def planned(api: FlaskClient, *changes: dict[str, Any]) -> Any:
    """What a plan of changes says of namespaces."""
    answer = ok(api.post("/api/v1/attribute_changes?dry_run=true", json={"changes": list(changes)}))
    return answer.get("namespaces")


def test_a_plan_shows_which_namespaces_on_which_clusters_would_change(make_app: MakeApp) -> None:
    fleet = {"clusterConfigs": [{"name": "east", "clusterResources": True}, {"name": "west"}]}
    api = make_app(cluster_resources=DEFAULTS, clusters=fleet).test_client()
    cra = {"resource_type": "CLUSTER_RESOURCE", **EXAMPLES, "payload": CRA}
    named = {**EXAMPLES, "namespace": "flyteexamples-development"}
    assert planned(api, cra) == {
        "count": 1,
        "changes": [
            {**named, "action": "update", "clusters": ["east"], "objects": ["ResourceQuota/project-quota"]},
        ],
    }
    same = {"attributes": {"projectQuotaCpu": "4", "projectQuotaMemory": "3000Mi"}}
    assert planned(api, {**cra, "payload": same}) is None
    label = {"resource_type": "EXECUTION_CLUSTER_LABEL", **EXAMPLES, "payload": {"value": "west"}}
    assert planned(api, label) is None
    attributes = {"attributes": {"projectQuotaCpu": "5"}}
    of_domain = planned(api, {"resource_type": "CLUSTER_RESOURCE", "domain": "development", "payload": attributes})
    projects = get(api, "projects")["projects"]
    assert {entry["namespace"] for entry in of_domain["changes"]} == {
        f"{project['id']}-development" for project in projects
    }
    new = planned(api, {"project_definition": {"id": "new"}})
    assert [(entry["namespace"], entry["action"]) for entry in new["changes"]] == [
        ("new-development", "create"),
        ("new-production", "create"),
        ("new-staging", "create"),
    ]
    archived = planned(api, {"project_definition": {"id": "flyteexamples", "state": "ARCHIVED"}})
    assert {entry["action"] for entry in archived["changes"]} == {"remove"}
    by_itself = ok(api.post("/api/v1/projects?dry_run=true", json={"project": {"id": "new"}}))
    assert by_itself["namespaces"] == new
    by_itself = ok(api.patch("/api/v1/projects/flyteexamples?dry_run=true", json={"state": "ARCHIVED"}))
    assert by_itself["namespaces"] == archived
    assert "namespaces" not in ok(api.patch("/api/v1/projects/flyteexamples", json={"state": "ARCHIVED"}))
    ok(api.patch("/api/v1/projects/flyteexamples", json={"state": "ACTIVE"}))
    west = planned(api, {"cluster_definition": {"name": "other", "cluster_resources": True}})
    assert {(entry["action"], *entry["clusters"]) for entry in west["changes"]} == {("create", "other")}
    assert west["count"] == 3 * len(projects)


def test_a_plan_names_what_could_not_be_rendered(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {team: {{ team }}}\n")
    fleet = {"clusterConfigs": [{"name": "east", "clusterResources": True}]}
    sections = {"templatePath": str(tmp_path), "customData": {"development": {"team": "a"}}}
    api = make_app(cluster_resources=sections, clusters=fleet).test_client()
    unset = {"resource_type": "CLUSTER_RESOURCE", **EXAMPLES, "payload": {"attributes": {"team": None}}}
    (change,) = planned(api, unset)["changes"]
    assert (change["action"], change["namespace"]) == ("fail", "flyteexamples-development")
    assert change["message"].startswith("a.yaml:4: the variable 'team' has no value")


def test_a_project_that_would_share_a_namespace_is_refused(make_app: MakeApp) -> None:
    settings = {"domains": ["c", "b-c"], "projects": ["a"]}
    api = make_app(**settings).test_client()
    ok(api.post("/api/v1/projects", json={"project": {"id": "d-b"}}))  # no cluster makes namespaces
    put_cluster(api, "k8s", cluster_resources=True)
    answer = api.post("/api/v1/projects", json={"project": {"id": "a-b"}})
    assert "'a-b-c' is also that of a/b-c" in str(refused(answer, 400, "invalid_request"))
    answer = api.post("/api/v1/projects", json={"project": {"id": "d"}})
    assert "also that of d-b/c" in str(refused(answer, 400, "invalid_request"))
    ok(api.post("/api/v1/projects", json={"project": {"id": "e"}}))


def test_a_project_whose_namespaces_would_have_too_long_a_name_is_refused(make_app: MakeApp) -> None:
    longest, longer = "p" * 61, "p" * 62
    api = make_app(domains=["c"], projects=["a"]).test_client()
    archived = "q" * 62
    ok(api.post("/api/v1/projects", json={"project": {"id": archived, "state": "ACTIVE"}}))  # no cluster makes any
    ok(api.put(f"/api/v1/projects/{archived}", json={"state": "ARCHIVED"}))
    put_cluster(api, "k8s", cluster_resources=True)
    ok(api.post("/api/v1/projects", json={"project": {"id": longest}}))
    ok(api.put(f"/api/v1/projects/{archived}", json={"name": "still archived"}))
    for answer in (
        api.post("/api/v1/projects", json={"project": {"id": longer}}),
        api.put(f"/api/v1/projects/{archived}", json={"state": "ACTIVE"}),
    ):
        assert "has 64 characters, and Kubernetes takes 63" in str(refused(answer, 400, "invalid_request"))
    assert api.get(f"/api/v1/projects/{longer}").status_code == 404


def test_only_what_a_change_concerns_is_rendered_again(make_app: MakeApp) -> None:
    app = make_app(cluster_resources=DEFAULTS)
    api, context = app.test_client(), app.extensions["rainbow"]

    def renderings() -> Any:
        with context.database.reading() as connection:
            return dict(render_namespaces(context, connection))

    before = renderings()
    put_attribute(api, "project-domain", "cluster_resource_attributes", CRA, **EXAMPLES)
    after = renderings()
    assert [scope for scope in after if after[scope] is not before[scope]] == [Scope("development", "flyteexamples")]
    put_attribute(api, "domain", "cluster_resource_attributes", CRA, domain="staging")
    assert {scope.domain for scope, one in renderings().items() if one is not after[scope]} == {"staging"}
