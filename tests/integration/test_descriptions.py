"""Descriptions of clusters over the API: stored whole, as revisions, and read back; on both databases."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.retention import Retention
from admin.services import description_bodies
from admin.services.context import Context
from admin.services.definitions import current_fleet
from admin.services.retention import prune
from tests.support.agents import Clock, played_agent
from tests.support.apps import opened_app
from tests.support.descriptions import BAD, describe, example, example_description, pooled
from tests.support.placing import (
    API,
    create,
    created,
    get,
    nothing_stored,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
)

SLOW_ON = ("postgresql",)

PATH = f"{API}/clusters/east/description"


def machine_of(context: Context, cluster: str) -> Any:
    with context.database.reading() as connection:
        return current_fleet(context, connection).clusters[cluster].machine


def test_a_description_is_stored_and_read_back_as_it_was_sent(api: FlaskClient) -> None:
    written = describe(api, "east", message="first racks", claimed_by="otto")
    assert (written["changed"], written["description"]["revision"]) == (True, 1)
    description = get(api, "clusters/east/description")
    assert description["document"] == example_description()
    assert (description["author"], description["claimed_by"]) == ("anonymous", "otto")
    assert (description["message"], description["by_agent"]) == ("first racks", False)
    assert description["types"]["core"] == {"vertices": 36, "amount": "36"}
    assert description["subsystem_vertices"] == {"io": 6, "spack": 6}
    assert description["differences"] == ["first description"]


def test_a_description_is_read_back_without_being_parsed(api: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    describe(api, "east")

    def parse(text: bytes) -> Any:
        assert b'"edges"' not in text, "a large one would hold up the other requests of this process"
        return json.loads(text)

    monkeypatch.setattr("admin.core.graph.compiled.json_value", parse)
    assert get(api, "clusters/east/description")["document"] == example_description()


def test_the_same_description_again_is_no_revision(api: FlaskClient) -> None:
    describe(api, "east")
    again = describe(api, "east", message="once more")
    assert (again["changed"], again["description"]["revision"]) == (False, 1)


def test_a_subsystem_among_the_vertices_of_the_graph_is_told_too(api: FlaskClient) -> None:
    plain = pooled(2, 4)
    vertices = [{"id": id_, **vertex} for id_, vertex in plain["graph"]["nodes"].items()]
    network = [{"id": "sw", "metadata": {"type": "switch", "speed": 200}}]
    links = [{"source": node, "target": "sw", "metadata": {"subsystem": "network"}} for node in ("n1", "n2")]
    graph = {"nodes": vertices + network, "edges": plain["graph"]["edges"] + links}
    assert describe(api, "east", {"graph": graph})["description"]["subsystem_vertices"] == {"network": 1}
    removed = describe(api, "east", plain)["description"]
    assert (removed["differences"], "subsystem_vertices" in removed) == (["subsystem network: removed"], False)


def test_a_tree_counts_equal_siblings(api: FlaskClient) -> None:
    describe(api, "east")
    tree = get(api, "clusters/east/description/tree")["tree"]
    [rack] = tree["contains"]
    [nodes] = rack["contains"]
    assert (tree["type"], rack["type"], nodes["type"], nodes["count"]) == ("cluster", "rack", "node", 3)
    assert nodes["linked"] == {"io": 5, "spack": 5}
    [socket] = nodes["contains"]
    assert socket["contains"] == [{"type": "core", "count": 12}]


def test_revisions_tell_in_what_each_differs_and_events_tell_of_them(api: FlaskClient) -> None:
    describe(api, "east", pooled(3, 12))
    describe(api, "east", pooled(4, 12, gpu=2), message="a node more")
    ok(api.delete(PATH, json={"message": "was wrong"}))
    revisions = get(api, "clusters/east/descriptions")["descriptions"]
    assert [revision["revision"] for revision in revisions] == [3, 2, 1]
    assert revisions[0]["differences"] == ["removed"]
    assert revisions[1]["differences"] == ["nodes: 3 → 4", "cores: 36 → 48", "gpus: 0 → 8"]
    events = get(api, "clusters/east/events")["events"]
    assert events[1]["reason"] == "revision 2: nodes: 3 → 4, cores: 36 → 48, gpus: 0 → 8 ('a node more')"
    assert {event["type"] for event in events} == {"DESCRIBED"}
    refused(api.get(PATH), 404, "description_not_found")
    assert get(api, "clusters/east/description?revision=1")["types"]["node"]["vertices"] == 3
    first = get(api, "clusters/east/descriptions?limit=2")
    rest = get(api, f"clusters/east/descriptions?limit=2&token={first['token']}")
    assert [revision["revision"] for revision in rest["descriptions"]] == [1]


def linked_disk(disk: str) -> dict[str, Any]:
    edges = [{"source": f"{disk}-root", "target": disk}, {"source": disk, "target": "n1"}]
    nodes = {f"{disk}-root": {"metadata": {"type": "disks"}}, disk: {"metadata": {"type": "disk"}}}
    return {"graph": {"nodes": nodes, "edges": [{**edge, "relation": "contains"} for edge in edges]}}


def test_of_two_patches_at_once_none_is_lost(api: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    describe(api, "east", pooled(3, 12))
    read, others = description_bodies.read_sent, iter(["tape"])

    def read_while_another_patches(*arguments: Any) -> Any:
        sent = read(*arguments)
        for other in others:
            ok(api.patch(PATH, json={"subsystems": {other: linked_disk(other)}}))
        return sent

    monkeypatch.setattr("admin.api.descriptions.read_sent", read_while_another_patches)
    ok(api.patch(PATH, json={"subsystems": {"flash": linked_disk("flash")}}))
    assert sorted(get(api, "clusters/east/description")["document"]["subsystems"]) == ["flash", "tape"]


def test_a_patch_of_what_others_change_all_the_time_is_refused_in_the_end(
    api: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(api, "east", pooled(3, 12))
    read, cores = description_bodies.read_sent, iter(range(13, 1000))

    def read_while_another_writes(raw: bytes, *arguments: Any) -> Any:
        sent = read(raw, *arguments)
        if b"flash" in raw:
            ok(api.put(PATH, json=pooled(3, next(cores))))
        return sent

    monkeypatch.setattr("admin.api.descriptions.read_sent", read_while_another_writes)
    refused(api.patch(PATH, json={"subsystems": {"flash": linked_disk("flash")}}), 409, "version_conflict")
    assert "subsystems" not in get(api, "clusters/east/description")["document"]


def test_a_patch_replaces_the_graph_or_single_subsystems(api: FlaskClient) -> None:
    describe(api, "east")
    text = json.dumps(example("cluster-io-subsystem.json"))
    disks = json.loads(re.sub(r'"io(\d)"', r'"disk\1"', text))
    ok(api.patch(PATH, json={"subsystems": {"spack": None, "disks": disks}}))
    document = get(api, "clusters/east/description")["document"]
    assert set(document["subsystems"]) == {"io", "disks"}
    assert document["graph"] == example("cluster-nodes.json")["graph"]
    refused(api.patch(PATH, json={"subsystems": {"tape": None}}), 400, "invalid_request", "subsystems.tape")
    refused(api.patch(PATH, json={}), 400, "invalid_request", "")
    # Subsystems must still be linked to vertices that there are.
    refused(api.patch(PATH, json=pooled(1, 1)), 400, "invalid_request", "subsystems.disks.graph.edges.0")


def test_a_version_that_is_expected_must_be_the_current_one(api: FlaskClient) -> None:
    describe(api, "east", pooled(1, 1))
    stale = api.put(PATH, json=pooled(2, 1), headers={"If-Match": '"7"'})
    refused(stale, 409, "version_conflict")
    refused(api.put(PATH, json=pooled(2, 1), headers={"If-None-Match": "*"}), 409, "version_conflict")
    assert ok(api.put(PATH, json=pooled(2, 1), headers={"If-Match": '"1"'}))["description"]["revision"] == 2


def test_a_dry_run_tells_what_would_change_and_stores_nothing(api: FlaskClient, context: Context) -> None:
    describe(api, "east", pooled(1, 1))
    with nothing_stored(context):
        tried = ok(api.put(f"{PATH}?dry_run=true", json=pooled(2, 1)))
    assert (tried["dry_run"], tried["changed"]) == (True, True)
    assert tried["description"]["differences"] == ["nodes: 1 → 2", "cores: 1 → 2"]


@pytest.mark.parametrize(
    ("case", "is_large"), [*((case, False) for case in BAD), ("cycle", True), ("an unknown field", True)]
)
def test_a_wrong_description_is_refused_whole(
    api: FlaskClient, context: Context, case: str, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, field, reason = BAD[case]
    monkeypatch.setattr(description_bodies, "LARGE_BYTES", 0 if is_large else 1 << 20)
    put_cluster(api, "east")
    with nothing_stored(context):
        answer = refused(api.put(PATH, json=body), 400, "invalid_request", field)
    assert any(reason in detail["reason"] for detail in answer["details"]), answer


def test_a_description_over_the_limit_is_refused_by_number(app: Flask, api: FlaskClient, context: Context) -> None:
    put_cluster(api, "east")
    object.__setattr__(context.settings, "max_vertices", 40)
    answer = refused(api.put(PATH, json=example("cluster-nodes.json")), 400, "invalid_request", "graph.nodes")
    assert "44 vertices are more than 40" in answer["message"]


def test_a_large_description_is_read_by_another_process(
    api: FlaskClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(description_bodies, "LARGE_BYTES", 0)
    assert describe(api, "east")["changed"]
    assert get(api, "clusters/east/description")["document"] == example_description()
    ok(api.patch(PATH, json={"subsystems": {"spack": None}}))
    assert set(get(api, "clusters/east/description")["document"]["subsystems"]) == {"io"}


def test_an_unknown_cluster_has_no_description(api: FlaskClient) -> None:
    refused(api.put(f"{API}/clusters/nowhere/description", json=pooled(1, 1)), 404, "cluster_not_found")
    refused(api.get(f"{API}/clusters/nowhere/description"), 404, "cluster_not_found")


def test_a_machine_is_loaded_once_for_each_description_and_forgotten_with_the_cluster(
    api: FlaskClient, context: Context
) -> None:
    describe(api, "east", pooled(2, 4))
    describe(api, "west", pooled(2, 4))
    east, west = machine_of(context, "east"), machine_of(context, "west")
    assert east is west
    describe(api, "east", pooled(3, 4))
    assert machine_of(context, "east").summary.vertices["node"] == 3
    assert machine_of(context, "west") is west
    ok(api.delete(f"{API}/clusters/east"))
    put_cluster(api, "east")
    assert machine_of(context, "east") is None


def test_retention_deletes_descriptions_that_were_replaced(
    app: Flask, api: FlaskClient, context: Context, app_clock: Clock
) -> None:
    describe(api, "east", pooled(1, 1))
    app_clock.advance(timedelta(days=10).total_seconds())
    describe(api, "east", pooled(2, 1))
    now = app_clock()
    kept = Retention(descriptions="5d")
    tried = [step for step in prune(context, kept, now=now, dry_run=True) if step]
    assert tried == [{"cluster_descriptions": 1}]
    assert [step for step in prune(context, kept, now=now + timedelta(days=20)) if step] == [
        {"cluster_descriptions": 1}
    ]
    revisions = get(api, "clusters/east/descriptions")["descriptions"]
    assert [(revision["revision"], revision["differences"]) for revision in revisions] == [(2, [])]
    assert machine_of(context, "east") is not None


def test_an_agent_describes_its_own_cluster_unless_an_operator_has(api: FlaskClient, context: Context) -> None:
    agent, other = played_agent(api, context, "east"), played_agent(api, context, "west")
    headers = {"Authorization": f"Bearer {agent.token}"}
    written = ok(api.put(PATH, json=pooled(1, 4), headers=headers))
    assert (written["changed"], written["description"]["by_agent"]) == (True, True)
    assert api.put(PATH, json=pooled(9, 9), headers={"Authorization": f"Bearer {other.token}"}).status_code in (
        401,
        403,
    )
    assert api.delete(PATH, headers=headers).status_code in (401, 403)
    ok(api.put(PATH, json=pooled(2, 4)))
    kept = ok(api.put(PATH, json=pooled(3, 4), headers=headers))
    assert (kept["changed"], kept["description"]["revision"]) == (False, 2)
    assert "stays" in kept["note"]
    ok(api.delete(PATH))
    assert ok(api.put(PATH, json=pooled(3, 4), headers=headers))["description"]["revision"] == 4


def test_another_worker_goes_by_a_new_description(api: FlaskClient, database_url: str) -> None:
    put_attribute(api, "project-domain", "task_resource_attributes", {"limits": {"cpu": "64"}})
    describe(api, "east", pooled(3, 12))
    put_pool(api, "p", ["east"])
    job = {"job": {"command": ["true"], "resources": {"requests": {"cpu": "10"}}}, **pool("p")}
    with opened_app(database_url) as other:
        assert created(other.test_client(), "fits", **job)["cluster"] == "east"
        describe(api, "east", pooled(3, 8))
        refused(create(other.test_client(), "unfit", **job), 400, "no_cluster_large_enough")


def test_a_sync_tells_the_agent_which_description_is_stored(api: FlaskClient, context: Context) -> None:
    agent = played_agent(api, context, "east")
    headers = {"Authorization": f"Bearer {agent.token}"}
    assert agent.sync()["state"]["description"] == ""
    written = ok(api.put(PATH, json=pooled(1, 4), headers=headers))
    assert agent.sync()["state"]["description"] == written["description"]["digest"]
    ok(api.delete(PATH))
    assert agent.sync()["state"]["description"] == ""


def test_an_operator_who_changes_what_an_agent_sent_is_told_that_it_is_theirs(
    api: FlaskClient, context: Context
) -> None:
    agent = played_agent(api, context, "east")
    ok(api.put(PATH, json=pooled(1, 4), headers={"Authorization": f"Bearer {agent.token}"}))
    disk = {
        "nodes": {"d": {"metadata": {"type": "nvme"}}},
        "edges": [{"source": "n1", "target": "d", "relation": "contains"}],
    }
    patched = ok(api.patch(PATH, json={"subsystems": {"io": {"graph": disk}}}))
    assert patched["changed"]
    assert "is the operators' from now on" in patched["note"]
    assert "note" not in ok(api.patch(PATH, json={"subsystems": {"io": None}}))
