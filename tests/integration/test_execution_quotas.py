"""Quotas of executions: those that wait are refused at creation, those that run wait for room; on both databases."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.evictions import evict_from_lost, judge_health
from tests.conftest import MakeApp
from tests.support.agents import PlayedAgent, WatchedClock, add, closure, event_types, played_agent
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, JOB, PROJECT, asked, create, created, get, ok, put_attribute, refused
from tests.support.statements import statements
from tests.support.threads import all_at_once, at_once

OTHER = "flyteexamples"
SCOPES: dict[str, dict[str, str]] = {
    "domain": {"domain": DOMAIN},
    "project": {"project": PROJECT},
    "project-domain": {"project": PROJECT, "domain": DOMAIN},
}


def quota(api: FlaskClient, level: str, **fields: Any) -> Any:
    return put_attribute(api, level, "execution_quota", fields, **SCOPES[level])


def job(cpu: str) -> dict[str, Any]:
    return {**JOB, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}


@pytest.fixture
def agent(api: FlaskClient, context: Context) -> PlayedAgent:
    return played_agent(api, context, "east")


def test_more_than_may_wait_are_refused_with_the_row(api: FlaskClient, agent: PlayedAgent) -> None:
    row = quota(api, "project", waiting=2)
    add(agent, "a", "b")
    answer = refused(create(api, "c", cluster="east"), 429, "quota_exceeded", "waiting")
    assert "2 of 2 executions wait, by waiting of the execution-quota at project flytesnacks" in answer["message"]
    [detail] = answer["details"]
    assert (detail["level"], detail["used"], detail["limit"], detail["version"]) == ("project", 2, 2, row["version"])
    assert detail["provenance"]["revision"] == row["revision"]
    refused(api.get(f"{API}/executions/{PROJECT}/{DOMAIN}/c"), 404, "execution_not_found")
    # The same request again is answered as before, and one that runs makes room.
    assert ok(create(api, "a", cluster="east"))["created"] is False
    agent.start()
    created(api, "c", cluster="east")


def test_a_quota_below_what_a_task_gets_by_default_is_warned_of(api: FlaskClient) -> None:
    defaults = {"defaults": {"cpu": "2", "memory": "1Gi"}}
    put_attribute(api, "domain", "task_resource_attributes", defaults, domain=DOMAIN)
    limits = {"limits": {"memory": "512Mi"}}  # to which the default is capped
    put_attribute(api, "project-domain", "task_resource_attributes", limits, **SCOPES["project-domain"])
    [warning] = quota(api, "project-domain", cpu="500m", memory="512Mi", running=1)["warnings"]
    assert (warning["code"], warning["field"]) == ("below_default", "cpu")
    assert warning["message"] == (
        "A task that asks for nothing gets 2 cpu by the defaults set at domain development, which is more than this "
        "quota: such jobs are refused (quota_too_small)."
    )
    listed = [(entry["code"], entry.get("project")) for entry in get(api, "warnings")["warnings"]]
    assert ("below_default", PROJECT) in listed
    assert quota(api, "project-domain", cpu="2")["warnings"] == []


def test_a_dry_run_and_a_batch_are_refused_too(api: FlaskClient, agent: PlayedAgent) -> None:
    quota(api, "project-domain", waiting=3)
    add(agent, "a")
    requests = [asked(f"b{number}", cluster="east") for number in range(5)]
    for query, stored in (("?dry_run=true", 1), ("", 3)):
        results = ok(api.post(f"{API}/executions{query}", json={"executions": requests}))["results"]
        assert [result.get("error", {}).get("error") for result in results] == [None, None, *["quota_exceeded"] * 3]
        assert len(get(api, f"executions?project={PROJECT}&domain={DOMAIN}")["executions"]) == stored
    refused(api.post(f"{API}/executions?dry_run=true", json=asked("c")), 429, "quota_exceeded")


@pytest.mark.parametrize(("domain", "project"), [(4, 10), (10, 4)])
def test_all_rows_hold_together(api: FlaskClient, agent: PlayedAgent, domain: int, project: int) -> None:
    quota(api, "domain", waiting=domain)
    quota(api, "project", waiting=project)
    outcomes = [create(api, f"n{number}", cluster="east").status_code for number in range(6)]
    assert outcomes == [200] * 4 + [429] * 2
    # What another project has counts for the domain alone.
    other = create(api, "other", project=OTHER, cluster="east").status_code
    assert other == (429 if domain == 4 else 200)


def test_what_can_never_fit_is_refused_with_the_row(api: FlaskClient, agent: PlayedAgent) -> None:
    quota(api, "domain", cpu="8")
    quota(api, "project", cpu="1500m")
    answer = refused(create(api, "big", cluster="east", job=job("2")), 400, "quota_too_small", "spec.job.resources")
    assert (
        "2 cpu, which can never fit: the most is 1500m, by cpu of the execution-quota at project" in answer["message"]
    )
    assert "That was set by revision" in answer["message"]
    created(api, "small", cluster="east", job=job("1"))


def test_no_more_run_than_the_quota_says_and_others_pass(api: FlaskClient, agent: PlayedAgent) -> None:
    row = quota(api, "project", running=2)
    add(agent, *(f"n{number}" for number in range(8)))
    for number in range(2):
        created(api, f"other{number}", project=OTHER, cluster="east")
    leases = agent.sync(want=6)["leases"]
    assert sorted(lease["id"]["name"] for lease in leases) == ["n0", "n1", "other0", "other1"]
    for number in range(2, 8):
        assert closure(api, f"n{number}") == ("QUEUED", "QUOTA_FULL")
    message = get(api, f"executions/{PROJECT}/{DOMAIN}/n7")["closure"]["reason"]["message"]
    revision = row["revision"]
    wanted = f"2 of 2 executions run, by running of the execution-quota at project flytesnacks (revision {revision})."
    assert message == wanted
    assert event_types(api, "n7").count("WAITING") == 1
    agent.sync(want=4)
    assert event_types(api, "n7").count("WAITING") == 1  # it is told once


def test_room_that_comes_free_is_given_on(api: FlaskClient, agent: PlayedAgent) -> None:
    quota(api, "project-domain", running=1)
    add(agent, "a", "b")
    assert agent.start(2) == ["a"]
    assert agent.offered(2) == {}
    agent.finish(["a"])
    assert agent.start(2) == ["b"]
    assert closure(api, "b")[0] == "RUNNING"


def test_a_larger_quota_a_deleted_one_and_a_smaller_one_count_at_once(api: FlaskClient, agent: PlayedAgent) -> None:
    quota(api, "project", running=1)
    add(agent, *(f"n{number}" for number in range(6)))
    assert agent.start(6) == ["n0"]
    quota(api, "project", running=3)
    assert agent.start(6) == ["n1", "n2"]
    quota(api, "project", running=1)
    assert agent.offered(6) == {}
    agent.finish(["n0", "n1"])
    assert agent.offered(6) == {}
    ok(api.delete(f"{API}/project_attributes/{PROJECT}?resource_type=9"))
    assert agent.start(6) == ["n3", "n4", "n5"]


@pytest.mark.parametrize(("field", "amount"), [("cpu", "3"), ("memory", "600Mi"), ("gpu", "3")])
def test_resources_of_all_clusters_count(api: FlaskClient, context: Context, field: str, amount: str) -> None:
    agents = [played_agent(api, context, cluster) for cluster in ("east", "west")]
    quota(api, "project", **{field: amount})
    amount_each = {"cpu": "1", "memory": "200Mi", "gpu": "1"}[field]
    resources = {"requests": {field: amount_each}, "limits": {field: amount_each}}
    for agent in agents:
        add(agent, *(f"{agent.cluster}{number}" for number in range(3)), job={**JOB, "resources": resources})
    assert len(agents[0].start(2)) == 2
    assert len(agents[1].start(3)) == 1
    code, message = closure(api, "west1"), get(api, f"executions/{PROJECT}/{DOMAIN}/west1")["closure"]["reason"]
    assert code == ("QUEUED", "QUOTA_FULL")
    assert f"and less is free of {amount}, by {field} of the execution-quota" in message["message"]


def test_a_large_one_does_not_keep_small_ones_waiting(api: FlaskClient, agent: PlayedAgent) -> None:
    quota(api, "project", cpu="4")
    add(agent, "first", job=job("2"))
    add(agent, "large", job=job("2"))
    agent.start(1)
    quota(api, "project", cpu="3")
    add(agent, "small", job=job("1"))
    assert agent.start(2) == ["small"]


def test_a_retry_counts_again_and_a_silent_cluster_still_counts(api: FlaskClient, context: Context) -> None:
    east, west = (played_agent(api, context, cluster) for cluster in ("east", "west"))
    quota(api, "project", running=1)
    add(east, "a", retry={"attempts": 2})
    assert east.start() == ["a"]
    add(west, "b")
    assert west.offered() == {}  # east may have gone silent: its lease counts all the same
    east.finish(["a"], "FAILED")
    assert west.start() == ["b"]
    assert east.offered() == {}  # its next attempt has to wait for room as well
    west.finish(["b"])


@pytest.mark.parametrize(("on_lost", "is_free"), [("wait", False), ("fail", True), ("retry", True)])
def test_a_run_on_a_lost_cluster_counts_until_its_policy_or_an_operator_ends_it(
    make_app: MakeApp, on_lost: str, is_free: bool
) -> None:
    app = make_app(agents={"leaseSeconds": 60, "unreachableSeconds": 30, "lostSeconds": 90, "waitSeconds": 10})
    clock, context, client = WatchedClock(app), context_of(app), app.test_client()
    gone, here = played_agent(client, context, "gone"), played_agent(client, context, "here")
    quota(client, "project", running=1)
    add(gone, "a", retry={"on_lost": on_lost})
    assert gone.start() == ["a"]
    add(here, "b")
    assert here.offered() == {}
    clock.advance(100)
    judge_health(context)
    evict_from_lost(context, 100)
    if not is_free:
        assert here.offered() == {}
        ok(client.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/a", json={"give_up": True}))
    assert here.start() == ["b"]
    gone.sync()  # what is heard of again counts no more
    [use] = get(client, f"quota_usage?project={PROJECT}")["quotas"]
    assert (use["field"], use["used"]) == ("running", "1")


def test_the_platform_has_a_quota_of_its_own(make_app: MakeApp) -> None:
    app = make_app(execution_quota={"running": 1, "waiting": 3, "cpu": "2500m"})
    api, context = app.test_client(), app.extensions["rainbow"]
    agent = played_agent(api, context, "east")
    created(api, "a", cluster="east")
    created(api, "b", project=OTHER, cluster="east")
    assert len(agent.start(2)) == 1
    tasks = {**JOB, "resources": {"tasks": 3, "requests": {"cpu": "1"}}}
    answer = refused(create(api, "big", cluster="east", job=tasks), 400, "quota_too_small")
    assert "in configuration (execution_quota.cpu)" in answer["message"]
    created(api, "c", cluster="east")
    created(api, "d", cluster="east")
    assert "execution_quota.waiting" in refused(create(api, "e"), 429, "quota_exceeded")["message"]


def test_nothing_more_is_asked_of_the_database_where_no_quota_applies(api: FlaskClient, context: Context) -> None:
    agent = played_agent(api, context, "east")

    put_attribute(api, "project", "execution_quota", {"running": 1, "waiting": 1}, project=OTHER)
    add(agent, "warm")
    agent.sync(want=1)
    with statements(context) as made:
        add(agent, "second")
        agent.sync(want=1)
    # Whether one applies is asked with the executions themselves.
    others = [statement for statement in made if "attributes" in statement and "FROM executions" not in statement]
    assert [statement for statement in others if "WITH fleet_lock" not in statement] == []
    assert not any("GROUP BY executions.domain" in statement or "sum(" in statement for statement in made)


def test_creations_at_once_never_exceed_what_may_wait(app: Flask, context: Context) -> None:
    api = app.test_client()
    played_agent(api, context, "east")
    quota(api, "domain", waiting=25)
    quota(api, "project", waiting=10)
    requests = [
        [asked(f"n{thread}-{number}", project=(PROJECT, OTHER)[number % 2], cluster="east") for number in range(8)]
        for thread in range(8)
    ]

    def send(bodies: list[dict[str, Any]]) -> list[int]:
        client = app.test_client()
        codes = [client.post(f"{API}/executions", json=body).status_code for body in bodies[:4]]
        results = client.post(f"{API}/executions", json={"executions": bodies[4:]}).json["results"]  # type: ignore[index]
        return [*codes, *(429 if "error" in result else 200 for result in results)]

    codes = Counter(code for own in all_at_once([partial(send, own) for own in requests]) for code in own)
    assert codes == {200: 25, 429: 39}
    waiting = [len(get(api, f"executions?project={project}&limit=100")["executions"]) for project in (PROJECT, OTHER)]
    assert waiting == [10, 15]


def test_agents_at_once_never_exceed_what_may_run(app: Flask, context: Context) -> None:
    api = app.test_client()
    agents = [played_agent(app.test_client(), context, f"c{number}") for number in range(4)]
    quota(api, "project", running=7)
    for agent in agents:
        add(agent, *(f"{agent.cluster}-{number}" for number in range(6)))
    taken = all_at_once([partial(agent.offered, 6) for agent in agents])
    assert sum(map(len, taken)) == 7


def test_a_quota_that_is_lowered_meanwhile_is_kept(app: Flask, context: Context) -> None:
    """Whichever comes first, no more run than the larger one says, and none is leased once the smaller one is told."""
    api = app.test_client()
    agent = played_agent(app.test_client(), context, "east")
    quota(api, "project", running=6)
    add(agent, *(f"n{number}" for number in range(6)))
    body = {"attributes": {"matching_attributes": {"execution_quota": {"running": 2}}}}
    responses = at_once(
        app,
        [
            lambda client: client.put(f"{API}/project_attributes/{PROJECT}", json=body),
            lambda client: PlayedAgent(client=client, cluster="east", token=agent.token, sequence=5).post(want=6),
        ],
    )
    leases = ok(responses[1])["leases"]
    assert len(leases) in (2, 6)


def test_usage_is_told_beside_the_limits(api: FlaskClient, agent: PlayedAgent) -> None:
    quota(api, "domain", running=5, cpu="4")
    quota(api, "project", waiting=3)
    add(agent, "a", job=job("1500m"))
    add(agent, "b")
    agent.start()
    uses = get(api, f"quota_usage?project={PROJECT}&domain={DOMAIN}")["quotas"]
    assert [(use["level"], use["field"], use["used"], use["limit"], use["is_full"]) for use in uses] == [
        ("domain", "running", "1", "5", False),
        ("domain", "cpu", "1500m", "4", False),
        ("project", "waiting", "1", "3", False),
    ]
    assert uses[0]["provenance"]["revision"] == uses[0]["version"]
    by_user = [([(user["user"], user["used"]) for user in use["used_by"]], use["users"]) for use in uses]
    assert by_user == [([("anonymous", "1")], 1), ([("anonymous", "1500m")], 1), ([("anonymous", "1")], 1)]
    lines = api.get("/metrics").get_data(as_text=True).splitlines()
    of_cpu = [line for line in lines if line.startswith("rainbow_execution_quota") and 'field="cpu"' in line]
    assert [line.rsplit(" ", 1)[1] for line in of_cpu] == ["1.5", "4.0"]


def test_the_usage_of_a_quota_names_who_uses_it(api: FlaskClient, agent: PlayedAgent) -> None:
    quota(api, "domain", running=5, waiting=9, memory="1Ti")
    for name, project, by in (("a", PROJECT, "ana"), ("b", PROJECT, "otto"), ("c", "flyteexamples", "ana")):
        ok(api.post(f"{API}/executions", json={**asked(name, project=project), "claimed_by": by}))
    query = f"quota_usage?project={PROJECT}&domain={DOMAIN}"
    for by, users in (
        ("user", [("anonymous (says ana)", "2"), ("anonymous (says otto)", "1")]),
        ("project", [(PROJECT, "2"), ("flyteexamples", "1")]),
    ):
        running, memory, waiting = get(api, f"{query}&by={by}")["quotas"]
        assert [(user[by], user["used"]) for user in waiting["used_by"]] == users
        assert waiting["users"] == 2
        assert running["used_by"] == memory["used_by"] == [], "nobody has any"
    refused(api.get(f"{API}/{query}&by=cluster"), 400, "invalid_request", "by")


def test_an_explanation_says_what_is_full_and_who_has_it(api: FlaskClient, agent: PlayedAgent) -> None:
    row = quota(api, "project", running=1)
    add(agent, "a", "b")
    agent.start(2)
    status = get(api, f"executions/{PROJECT}/{DOMAIN}/b/explanation")["status"]
    assert "1 of 1 executions run, by running of the execution-quota at project flytesnacks" in status["message"]
    assert f"(revision {row['revision']}, " in status["message"]
    assert status["message"].endswith("Held by a.")
    quota(api, "domain", running=1)  # that is full too
    created(api, "c", project="flyteexamples", cluster=agent.cluster)
    agent.start()
    told = get(api, f"executions/flyteexamples/{DOMAIN}/c/explanation")["status"]["message"]
    assert told.endswith(f"Held by {PROJECT}/{DOMAIN}/a.")
    both = get(api, f"executions/{PROJECT}/{DOMAIN}/b/explanation")["status"]["message"]
    assert [level in both for level in (f"at domain {DOMAIN}", f"at project {PROJECT}")] == [True, True]
    assert "when both it and the quota have room" in status["next"]


def test_a_quota_below_what_is_used_is_warned_of(api: FlaskClient, agent: PlayedAgent) -> None:
    add(agent, "a", "b", "c")
    agent.start(2)
    for query in ("?dry_run=true", ""):
        payload = {"running": 1, "waiting": 0, "cpu": "100"}
        body = {"attributes": {"matching_attributes": {"execution_quota": payload}}}
        warnings = ok(api.put(f"{API}/project_attributes/{PROJECT}{query}", json=body))["warnings"]
        told = [(warning["code"], warning["field"]) for warning in warnings]
        assert told == [("quota_full", "running"), ("quota_full", "waiting")]
        assert "2 of 1 running is used at project flytesnacks already" in warnings[0]["message"]


def test_a_placement_foresees_what_quotas_refuse_and_hold_back(api: FlaskClient, agent: PlayedAgent) -> None:
    add(agent, "a", "b")
    agent.start()
    changes = [{"resource_type": "EXECUTION_QUOTA", "project": PROJECT, "payload": {"running": 1, "waiting": 1}}]
    for body in ({"changes": changes}, {}):
        placement = ok(api.post(f"{API}/placements", json={**asked("c", cluster="east"), **body}))
        told = [warning["message"] for warning in placement["warnings"] if warning["code"] == "quota_full"]
        assert told[0].startswith("It is refused now: 1 of 1 executions wait, by waiting of the execution-quota at")
        assert told[1].startswith("It waits now: 1 of 1 executions run, by running of the execution-quota at project")
        quota(api, "project", running=1, waiting=1)


@pytest.mark.parametrize(
    "payload", [{"running": -1}, {"running": 0.5}, {"memory": "10 GB"}, {"cores": 1}, {"cpu": 10**100}]
)
def test_bad_payloads_change_nothing(api: FlaskClient, payload: Any) -> None:
    body = {"attributes": {"matching_attributes": {"execution_quota": payload}}}
    answer = refused(api.put(f"{API}/project_attributes/{PROJECT}", json=body), 400, "invalid_request")
    assert answer["details"][0]["field"] in ("running", "memory", "cores", "cpu")
    assert get(api, "matchable_attributes?resource_type=9")["configurations"] == []


def test_quotas_are_planned_rolled_back_and_have_a_history(api: FlaskClient) -> None:
    row = {"resource_type": "EXECUTION_QUOTA", "project": PROJECT, "payload": {"running": 3}}
    plan = ok(api.post(f"{API}/attribute_changes?dry_run=true", json={"changes": [row]}))
    assert plan["changed"]
    assert get(api, "matchable_attributes?resource_type=9")["configurations"] == []
    first = ok(api.post(f"{API}/attribute_changes", json={"changes": [row]}))["revision"]
    quota(api, "project", running=9)
    assert len(get(api, "revisions?resource_type=9")["revisions"]) == 2
    ok(api.post(f"{API}/rollbacks", json={"revision": first + 1}))
    [stored] = get(api, "matchable_attributes?resource_type=9")["configurations"]
    assert stored["attributes"] == {"execution_quota": {"running": 3}}
