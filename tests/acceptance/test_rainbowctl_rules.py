"""Rules of pools and requests on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.admins import running_admin
from tests.support.shells import Shell

ROOT = Path(__file__).parents[2]
PLACE = "rainbowctl place e -p flytesnacks -d development"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("rules")
    with running_admin(directory) as admin:
        shell = Shell(admin, directory)
        for name, price in (("east", 3.5), ("west", 2)):
            properties = {"cost_per_node_hour": price, "zone": "eu" if name == "east" else "us"}
            shell.rest("PUT", f"clusters/{name}", {"cluster": {"properties": properties}})
            state = {"capacity": {"nodes": 8, "executions": 9}, "free": {"nodes": 8, "executions": 9}}
            shell.rest("PUT", f"clusters/{name}/state", state)
        yield shell


def test_the_example_chooses_and_explains_in_text_and_json(shell: Shell) -> None:
    shell.ok(f"rainbowctl create pool --file {ROOT}/config/pool-by-rules.yaml")
    pool = shell.rest("GET", "pools/by-price")
    assert json.loads(shell.ok("rainbowctl get pool by-price -o json")) == pool
    assert "calculate price = cost_per_node_hour * job.nodes; sort price" in shell.ok("rainbowctl get pool -o wide")
    text = shell.ok(f"{PLACE} --clusterPool by-price --nodes 4 -- true")
    lines = [line.rstrip() for line in text.splitlines()]
    assert "decision  cluster west (pool by-price, strategy constraint)" in lines
    assert "rules     1. filter fits_now" in lines
    assert "          3. sort price" in lines
    assert "able; rule 3: price 14 against 8" in " ".join(text.split())
    assert max(map(len, lines[1:])) <= 100  # the first is one sentence
    answer = json.loads(shell.ok(f"{PLACE} --clusterPool by-price --nodes 4 -o json -- true"))
    assert answer["rules"] == pool["rules"]
    assert [entry["values"]["price"] for entry in answer["candidates"]] == [14, 8]


def test_rules_are_exported_planned_and_changed_by_flags(shell: Shell) -> None:
    shell.ok("rainbowctl create pool p --member east --member west --rule 'sort: cost_per_node_hour'")
    documents = yaml.safe_load_all(shell.ok("rainbowctl export pool"))
    exported = next(document for document in documents if document["name"] == "p")
    assert (exported["strategy"], exported["rules"]) == ("constraint", [{"sort": "cost_per_node_hour"}])
    changed = {**exported, "rules": [{"sort": "cost_per_node_hour", "descending": True}]}
    shell.file("p.yaml", yaml.safe_dump(changed))
    assert "descending" in shell.run("rainbowctl diff --file p.yaml").out
    shell.ok("rainbowctl apply --file p.yaml")
    assert "cluster east" in shell.ok(f"{PLACE} --clusterPool p -- true")
    shell.ok("rainbowctl update pool p --strategy cheapest")
    assert "rules" not in shell.rest("GET", "pools/p")


def test_bad_rules_are_refused_with_their_place(shell: Shell) -> None:
    shell.file(
        "bad.yaml",
        "kind: pool\nname: q\nmembers: {east: 1}\nstrategy: constraint\nrules:\n"
        "- filter: zone == 'eu'\n- sort: zoone\n",
    )
    refusal = shell.refused(2, "rainbowctl create pool --file bad.yaml")
    assert "bad.yaml:7" in refusal
    assert "rule 2: unknown name 'zoone'. Did you mean 'zone'" in refusal
    refusal = shell.refused(2, f"{PLACE} --rule 'filter: nodes_fre > 0' -- true")
    assert "spec.rules.0.filter: rule 1: unknown name 'nodes_fre'. Did you mean 'nodes_free'" in refusal
    shell.refused(2, f"{PLACE} --rule 'fliter: true' -- true")


def test_a_request_has_a_strategy_of_its_own(shell: Shell) -> None:
    text = shell.ok(f"""{PLACE} --rule "filter: zone == 'eu'" -- true""")
    assert "(strategy constraint, as the request asks)" in text
    assert "rule 1: zone == 'eu' is false, where zone is 'us'" in " ".join(text.split())
    shell.ok(
        "rainbowctl create execution own -p flytesnacks -d development "
        "--rule '{sort: cost_per_node_hour, descending: true}' -- true"
    )
    explained = json.loads(shell.ok("rainbowctl explain execution own -p flytesnacks -d development -o json"))
    assert (explained["cluster"], explained["strategy_source"]) == ("east", "request")
    shell.ok("rainbowctl create execution again -p flytesnacks -d development --relaunch own --strategy cheapest")
    shell.file("run.yaml", "job: {command: ['true']}\nstrategy: constraint\nrules:\n- sort: cost_per_node_hour\n")
    shell.ok("rainbowctl create execution file -p flytesnacks -d development --execFile run.yaml")
    assert shell.rest("GET", "executions/flytesnacks/development/file")["cluster"] == "west"
