"""Which clusters of the whole fleet could run a job, and why it is not at one of them; on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection

from admin.core.fleet.clusters import Cluster
from admin.services.context import Context
from admin.store import execution_queue
from tests.support.placing import (
    API,
    asked,
    created,
    explanation,
    get,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
    report,
    switch,
)
from tests.support.small_fleets import group

SLOW_ON = ("postgresql",)

SIZE = {"cpu": "8", "memory": "32Gi"}


@pytest.fixture
def fleet(api: FlaskClient) -> FlaskClient:
    """A pool of one small cluster, and around it: a large one, one that is full, a cordoned and an expected one."""
    for name in ("small", "large", "busy", "shut"):
        size = {**SIZE, "cpu": "2"} if name == "small" else SIZE
        put_cluster(api, name, capacity=size)
        report(api, name, capacity=size, free={**size, "cpu": "0"} if name == "busy" else size)
    put_cluster(api, "unseen", capacity=SIZE)
    switch(api, "shut", "cordon", reason="new disks", claimed_by="otto")
    put_pool(api, "gpu", ["small"])
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"cpu": "64", "memory": "64Gi"}})
    return api


def body(cpu: str = "1", **fields: Any) -> dict[str, Any]:
    job = {"command": ["true"], "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {**asked("e", job=job, **pool("gpu")), **fields}


def place(api: FlaskClient, cpu: str = "1", **fields: Any) -> Any:
    return ok(api.post(f"{API}/placements", json=body(cpu, **fields)))


def others_of(answer: Any) -> dict[str, Any]:
    return {entry["cluster"]: entry for entry in answer["not_candidates"]}


def test_every_cluster_of_the_fleet_says_when_it_could_run_it(fleet: FlaskClient, context: Context) -> None:
    names = {cluster["name"] for cluster in get(fleet, "clusters")["clusters"]}
    with nothing_stored(context):
        answer = place(fleet, fleet=True)
    [small] = answer["candidates"]
    assert (small["cluster"], small["could_run"], small["chosen"]) == ("small", "now", True)
    others = others_of(answer)
    assert others.keys() == names - {"small"}
    assert {name: others[name]["could_run"] for name in ("large", "busy", "shut", "unseen")} == {
        "large": "now",
        "busy": "later",
        "shut": "later",
        "unseen": "later",
    }
    assert "obstacles" not in others["large"]
    assert others["busy"]["obstacles"] == [{"filter": "room", "reason": "is full (8 of 8 cpu taken)"}]
    assert others["large"]["why_not"].startswith("is not in pool 'gpu' as defined, revision ")
    assert others["shut"]["provenance"]["claimed_by"] == "otto"
    counts = answer["fleet"]
    assert counts["candidates"] == {"clusters": 1, "now": 1, "later": 0, "unknown": 0, "never": 0}
    assert counts["all"]["clusters"] == len(names)
    assert sum(counts["all"].values()) == 2 * len(names)


def test_a_job_that_no_candidate_could_ever_run_is_answered_and_not_refused(fleet: FlaskClient) -> None:
    refused(fleet.post(f"{API}/placements", json=body("4")), 400, "no_cluster_large_enough")
    answer = place(fleet, "4", fleet=True)
    assert (answer["refused"], answer["reason"]["code"]) == (True, "CLUSTERS_TOO_SMALL")
    assert answer["reason"]["message"] == (
        "No cluster of pool 'gpu' is able: 'small' is too small: 2 cpu in all, 4 wanted."
    )
    assert answer["candidates"][0]["could_run"] == "never"
    assert others_of(answer)["large"]["could_run"] == "now"
    assert "refused" not in place(fleet, fleet=True)


def test_those_that_could_run_it_come_first_and_a_limit_leaves_out_the_others(fleet: FlaskClient) -> None:
    every = place(fleet, "4", fleet=True)
    order = [entry["could_run"] for entry in every["not_candidates"]]
    assert order == sorted(order, key=["now", "later", "unknown", "never"].index)
    answer = place(fleet, "4", fleet=True, limit=2)
    assert answer["not_candidates"] == every["not_candidates"][:2]
    assert answer["left_out"] == len(order) - 2
    assert answer["fleet"] == every["fleet"]
    assert "left_out" not in every


@pytest.mark.parametrize(("field", "value"), [("limit", 0), ("limit", 10_001), ("fleet", "yes"), ("why_not", 3)])
def test_a_wrong_field_is_refused_by_name(fleet: FlaskClient, field: str, value: object) -> None:
    refused(fleet.post(f"{API}/placements", json={**body(), field: value}), 400, "invalid_request", field)


def test_without_asking_nothing_is_told_of_fits(fleet: FlaskClient) -> None:
    answer = place(fleet)
    assert answer.keys().isdisjoint({"fleet", "left_out", "why_not", "refused"})
    assert "could_run" not in answer["candidates"][0]
    assert "could_run" not in others_of(answer)["large"]


def test_changes_that_are_assumed_count(fleet: FlaskClient) -> None:
    larger = {"cluster_definition": {"name": "unseen", "capacity": {**SIZE, "cpu": "64"}}}
    wider = {"pool_definition": {"name": "gpu", **group(["small", "large"])}}
    answer = place(fleet, "16", fleet=True, changes=[larger, wider])
    assert others_of(answer)["unseen"]["could_run"] == "later"
    assert [entry["cluster"] for entry in answer["candidates"]] == ["small", "large"]
    assert others_of(answer)["busy"]["could_run"] == "never"


def test_an_expected_cluster_that_is_no_candidate_says_that_it_is_expected(fleet: FlaskClient) -> None:
    created(fleet, "placed", **pool("gpu"))
    for answer in (place(fleet), explanation(fleet, "placed")):
        others = others_of(answer)
        assert others["unseen"]["expected"] is True
        why_not = others["unseen"]["why_not"]
        assert why_not.startswith("is not in pool 'gpu' as defined, revision ")
        assert why_not.endswith("; is expected: no agent of it has ever been seen")
        assert "expected" not in others["large"]


def test_why_not_one_cluster_is_answered_of_a_request_and_of_an_execution(fleet: FlaskClient) -> None:
    created(fleet, "placed", **pool("gpu"))
    asked_now, decided = place(fleet, why_not="large"), explanation(fleet, "placed", "?why_not=large")
    framed = "was not a candidate. As the fleet is now: is not in pool 'gpu' "
    for answer, verdict in ((asked_now, "is not a candidate: is not in pool 'gpu' "), (decided, framed)):
        question = answer["why_not"]
        assert (question["cluster"], question["candidate"], question["chosen"]) == ("large", False, False)
        assert f"luster 'large' {verdict}" in question["message"]
        assert question["message"].endswith(". It could run it now if it were a candidate.")
    question = place(fleet, why_not="unseen")["why_not"]
    assert question["message"].startswith("Cluster 'unseen' is not a candidate: is not in pool 'gpu' as defined, ")
    assert question["message"].endswith(
        "; is expected: no agent of it has ever been seen. It could run it, though not now."
    )
    assert place(fleet, why_not="small")["why_not"] == {
        "cluster": "small",
        "candidate": True,
        "chosen": True,
        "message": "Cluster 'small' is chosen.",
    }
    question = place(fleet, "4", why_not="small")["why_not"]  # which is refused otherwise
    assert question["message"].startswith("Cluster 'small' is a candidate, and is not chosen: is too small: 2 cpu")


def test_why_not_a_candidate_tells_of_the_decision_and_of_now(fleet: FlaskClient) -> None:
    ok(fleet.put(f"{API}/pools/gpu", json={"pool": {"members": [{"id": "small"}, {"id": "large"}]}}))
    ok(fleet.post(f"{API}/clusters/large/cordon", json={}))
    created(fleet, "placed", **pool("gpu"))
    decided = explanation(fleet, "placed", "?why_not=large")["why_not"]
    assert decided["then"].startswith("cluster 'large' was a candidate, and was not chosen: is cordoned, event ")
    assert decided["now"].startswith("It could run it, though not now: is cordoned")
    ok(fleet.post(f"{API}/clusters/large/uncordon", json={}))
    since = explanation(fleet, "placed", "?why_not=large")
    assert since["why_not"]["now"] == "It could run it now."
    assert since["why_not"]["then"] == decided["then"]
    assert since["why_not"]["message"].startswith("As of decision 1, made at ")
    assert since["why_not"]["message"].endswith(f": {decided['then']} It could run it now.")


def test_for_one_cluster_only_that_and_the_candidates_are_read(
    fleet: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(fleet, "placed", **pool("gpu"))
    read: list[set[str]] = []
    taken_by_waiting = execution_queue.taken_by_waiting

    def watched(connection: Connection, clusters: Mapping[str, Cluster], now: datetime) -> dict[str, dict[str, int]]:
        read.append(set(clusters))
        return taken_by_waiting(connection, clusters, now)

    monkeypatch.setattr("admin.services.fits.execution_queue.taken_by_waiting", watched)
    for answer in (explanation(fleet, "placed", "?why_not=busy"), place(fleet, why_not="busy")):
        assert "could_run" in answer["candidates"][0]
        assert others_of(answer)["busy"]["could_run"] == "later"
        assert "could_run" not in others_of(answer)["large"]
        assert answer["not_candidates"][0]["cluster"] == "busy"
    assert set[str]().union(*read) == {"small", "busy"}
    both = place(fleet, why_not="busy", fleet=True)
    assert others_of(both)["large"]["could_run"] == "now"
    assert {"large", "shut"} < set[str]().union(*read)


def test_a_cluster_that_there_is_not_is_named_with_the_closest(fleet: FlaskClient) -> None:
    created(fleet, "placed", **pool("gpu"))
    path = "executions/flytesnacks/development/placed/explanation?why_not=larg"
    for response in (fleet.get(f"{API}/{path}"), fleet.post(f"{API}/placements", json=body(why_not="larg"))):
        answer = refused(response, 404, "cluster_not_found")
        assert answer["details"][0]["closest"] == ["large"]
        assert "Did you mean 'large'?" in answer["message"]


def test_of_a_deleted_pool_the_clusters_still_say_whether_they_could_run_it(fleet: FlaskClient) -> None:
    created(fleet, "placed", **pool("gpu"))
    ok(fleet.delete(f"{API}/pools/gpu?force=true"))
    message = explanation(fleet, "placed", "?why_not=large")["why_not"]["message"]
    assert message.startswith("As of decision 1, made at ")
    gone = "cluster 'large' was not a candidate. As the fleet is now: pool 'gpu' is gone from the fleet, revision "
    assert gone in message
    assert message.endswith(". It could run it now if it were a candidate.")
