"""Descriptions of clusters through rainbowctl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.admins import RunningAdmin, running_admin
from tests.support.descriptions import BAD, DATA, example, pooled
from tests.support.shells import Shell

GRAPHS = DATA / "graphs"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("descriptions")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


@pytest.fixture
def new_shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_a_description_is_set_drawn_printed_and_removed(new_shell: Shell) -> None:
    shell = new_shell
    shell.ok("rainbowctl create cluster east")
    graph, io = GRAPHS / "cluster-nodes.json", GRAPHS / "cluster-io-subsystem.json"
    done = shell.run(f"rainbowctl update cluster-description east --file {graph} -m 'first racks'")
    assert (done.status, done.out) == (0, "")
    assert done.err == "The description of cluster east is at revision 1: first description.\n"
    done = shell.run(f"rainbowctl update cluster-description east --subsystem io={io}")
    assert done.err == "The description of cluster east is at revision 2: subsystem io: added.\n"
    drawn = shell.ok("rainbowctl get cluster east --graph").splitlines()
    assert drawn[0].endswith(": 1 cluster, 1 rack, 3 nodes, 3 sockets, 36 cores")
    assert drawn[1] == "differs from the revision before: subsystem io: added"
    assert drawn[-1] == "cluster: rack: node ×3 (io ×5): socket: core ×12"
    tree = json.loads(shell.ok("rainbowctl get cluster east --graph -o json"))
    assert tree["tree"]["contains"][0]["contains"][0]["linked"] == {"io": 5}
    document = json.loads(shell.ok("rainbowctl get cluster east --description -o json"))
    assert document == {**example("cluster-nodes.json"), "subsystems": {"io": example("cluster-io-subsystem.json")}}
    assert json.loads(shell.ok("rainbowctl get cluster east --description --revision 1")) == example(
        "cluster-nodes.json"
    )
    shell.file("graph.json", json.dumps(pooled(2, 8, gpu=4)))
    shell.ok("rainbowctl update cluster-description east --file graph.json --dryRun")
    done = shell.run("rainbowctl update cluster-description east --file graph.json")
    assert "nodes: 3 → 2, cores: 36 → 16, gpus: 0 → 8" in done.err
    details = " ".join(shell.ok("rainbowctl get cluster east").split())
    assert "graph revision 3 by anonymous" in details
    assert "nodes: 3 → 2, cores: 36 → 16, gpus: 0 → 8" in details
    assert json.loads(shell.ok("rainbowctl get cluster east -o json"))["described"]["revision"] == 3
    described = " ".join(shell.ok("rainbowctl describe cluster east").split())
    assert described.startswith("cluster east, description 3 by anonymous")
    assert "differs from the revision before: nodes: 3 → 2, cores: 36 → 16, gpus: 0 → 8" in described
    assert json.loads(shell.ok("rainbowctl describe cluster east --revision 1 -o json"))["revision"] == 1
    assert "`rainbowctl describe cluster NAME`" in shell.refused(2, "rainbowctl show cluster east")
    drawn = shell.ok("rainbowctl get cluster east --graph").splitlines()
    assert drawn[-3:] == ["cluster: node ×2", "├─ core 8", "└─ gpu 4"]
    done = shell.run("rainbowctl update cluster-description east --file graph.json")
    assert done.err == "No changes: the description of cluster east is already so.\n"
    revisions = json.loads(shell.ok("rainbowctl get cluster-description east -o json"))
    assert [(revision["revision"], revision.get("message")) for revision in revisions] == [
        (3, None),
        (2, None),
        (1, "first racks"),
    ]
    assert "first racks" in shell.ok("rainbowctl get cluster-descriptions east")
    assert "DESCRIBED" in shell.ok("rainbowctl get cluster-event east")
    assert "cores: 36 → 16" in shell.ok("rainbowctl history --cluster east")
    shell.ok("rainbowctl delete cluster-description east")
    assert "has no description" in shell.refused(3, "rainbowctl get cluster east --graph")


def test_a_wrong_description_is_refused_with_the_vertex_that_is_wrong(new_shell: Shell) -> None:
    shell = new_shell
    shell.ok("rainbowctl create cluster east")
    shell.file("cycle.json", '{"graph": {"nodes": {"a": {"metadata": {"type": "node", "size": -1}}}}}')
    message = shell.refused(2, "rainbowctl update cluster-description east --file cycle.json")
    assert "graph.nodes.a.metadata.size" in message
    assert "is below zero" in message
    shell.file("list.json", "[1]")
    assert "must hold `graph`" in shell.refused(2, "rainbowctl update cluster-description east --file list.json")
    assert "Nothing to change" in shell.refused(2, "rainbowctl update cluster-description east")
    wrong = shell.refused(2, "rainbowctl update cluster-description east --subsystem io")
    assert "write NAME=FILE" in wrong
    assert "Which cluster?" in shell.refused(2, "rainbowctl get cluster --graph")
    assert "is for --graph" in shell.refused(2, "rainbowctl get cluster east --revision 1")


@pytest.mark.parametrize("case", [case for case in BAD if case != "a long message"])
def test_the_admin_refuses_a_file_by_the_vertex_or_field_that_is_wrong(shell: Shell, case: str) -> None:
    document, field, reason = BAD[case]
    shell.file("bad.json", json.dumps(document))
    message = shell.refused(2, "rainbowctl update cluster-description local --file bad.json")
    assert reason in message
    assert field in message
    error = json.loads(shell.run("rainbowctl update cluster-description local --file bad.json -o json").err)["error"]
    assert field in [detail["field"] for detail in error["details"]]
    assert "has no description" in shell.refused(3, "rainbowctl get cluster local --graph")


def test_a_job_that_fits_no_machine_is_refused_with_what_is_missing(new_shell: Shell) -> None:
    shell = new_shell
    shell.ok("rainbowctl create cluster east")
    shell.ok("rainbowctl create pool three --member east")
    shell.ok(f"rainbowctl update cluster-description east --file {GRAPHS / 'cluster-nodes.json'}")
    shell.ok("rainbowctl update task-resource-attribute -p flytesnacks -d development --limits.cpu 64")
    where = "-p flytesnacks -d development --clusterPool three"
    reason = "cores: needs 13 on one node, largest node has 12"
    assert reason in shell.refused(2, f"rainbowctl create execution {where} --cpu 13 -- true")
    assert reason in shell.refused(2, f"rainbowctl place {where} --cpu 13 -- true")
    assert reason in shell.refused(2, f"rainbowctl place {where} --nodes 1 --tasks 13 --cpu 1 -- true")
    assert "needs 37" in shell.refused(2, f"rainbowctl create execution {where} --tasks 37 --cpu 1 -- true")
    placed = json.loads(shell.ok(f"rainbowctl place {where} --nodes 2 --tasks 24 --cpu 1 -o json -- true"))
    assert placed["cluster"] == "east"
    shell.ok(f"rainbowctl create execution fits {where} --tasks 36 --cpu 1 -- true")
    # Where another one has a place for it, the decision says why this one has none.
    shell.ok("rainbowctl create cluster flat --capacity cpu=64")
    shell.ok("rainbowctl update pool three --addMember flat --force")
    shell.ok(f"rainbowctl create execution large {where} --cpu 13 -- true")
    told = shell.ok("rainbowctl explain execution large -p flytesnacks -d development")
    assert reason in " ".join(told.split())
    explained = json.loads(shell.ok("rainbowctl explain execution large -p flytesnacks -d development -o json"))
    why = {candidate["cluster"]: candidate.get("why_not") for candidate in explained["candidates"]}
    assert why["east"] == f"has no place for it: {reason}"
