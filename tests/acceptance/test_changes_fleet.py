"""Clusters, pools and labels in one change with settings: applied, exported, rolled back, explained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_changes_apply import head
from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import Shell

FLEET = """\
kind: cluster
name: east
capacity: {cpu: 64, gpu: 8}
cost: 1.5
---
kind: pool
name: gpu
members: {east: 6, west: 1}
strategy: spill
---
kind: label
name: cheap
members:
- {id: west, weight: 99}
---
kind: cluster-pool-attribute
project: flytesnacks
clusterPoolName: gpu
---
kind: project
id: search
"""


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


@pytest.fixture
def other_shell(tmp_path: Path) -> Iterator[Shell]:
    directory = tmp_path / "other"
    directory.mkdir()
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


def test_the_fleet_is_applied_with_settings_as_one_revision_and_undone(shell: Shell, other_shell: Shell) -> None:
    shell.file("fleet.yaml", FLEET)
    empty = shell.ok("rainbowctl export")
    assert shell.run("rainbowctl diff -f fleet.yaml").status == 1
    done = shell.run("rainbowctl plan -f fleet.yaml")
    assert (done.status, head(shell)) == (0, 0)
    assert "create     cluster east\n" in done.out
    assert "create     pool gpu\n" in done.out
    assert "5 to create.\n" in done.out
    assert "label cheap: " in done.err  # a warning: west is expected

    done = shell.run("rainbowctl apply -f fleet.yaml -m 'a fleet'")
    assert (done.status, head(shell)) == (0, 1), done.err
    assert "Applied as revision 1: 5 created.\n" in done.err
    # The pool is of the same change, so nothing warns of its name.
    assert "No pool is called" not in done.err
    again = shell.run("rainbowctl apply -f fleet.yaml")
    assert (again.out, head(shell)) == ("", 1)

    shown = shell.ok("rainbowctl history 1")
    assert shown.startswith("5 rows were changed by revision 1, anonymous")
    assert " ago, 'a fleet'.\nrevision 1\n" in shown
    assert "create     pool gpu\n" in shown
    assert "+strategy: spill\n" in shown
    assert "create cluster east: " in shell.ok("rainbowctl history")  # each of the five rows has a line
    full = shell.ok("rainbowctl export")
    assert (
        "kind: pool\nname: gpu\nmembers:\n- id: east\n  weight: 6\n- id: west\n  weight: 1\nstrategy: spill\n" in full
    )
    assert "name: local" not in full
    assert shell.run("rainbowctl diff -f -", stdin=full).status == 0
    other_shell.ok("rainbowctl apply -f -", stdin=full)
    assert other_shell.ok("rainbowctl export") == full
    shell.ok("rainbowctl export --dir exported")
    assert {str(path.relative_to(shell.cwd)) for path in (shell.cwd / "exported").rglob("*.yaml")} >= {
        "exported/clusters/east.yaml",
        "exported/pools/gpu.yaml",
        "exported/labels/cheap.yaml",
    }
    assert shell.run("rainbowctl diff -f exported").status == 0

    assert "use --force" in shell.run("rainbowctl rollback 1").err
    shell.ok("rainbowctl rollback 1 --force")
    assert (shell.ok("rainbowctl export"), head(shell)) == (empty, 2)
    shell.ok("rainbowctl rollback --to 1 --everything --force")
    assert (shell.ok("rainbowctl export"), head(shell)) == (full, 3)


def test_history_finds_changes_of_the_fleet(shell: Shell) -> None:
    shell.ok("rainbowctl create pool gpu --member local -m first")
    shell.ok("rainbowctl create label fast --member local")
    shell.ok("rainbowctl update pool gpu --strategy spill -m second")
    rows = shell.ok("rainbowctl history pool").splitlines()
    assert ["update pool gpu" in rows[1], "create pool gpu" in rows[2], len(rows)] == [True, True, 3]
    assert "second" in rows[1]
    assert "create label fast" in shell.ok("rainbowctl history labels")
    shell.ok("rainbowctl create pool std --member local")
    named = json.loads(shell.ok("rainbowctl history pool gpu -o json"))
    assert named == shell.rest("GET", "timeline?resource_type=pool&name=gpu")["entries"]
    assert [entry["revision"] for entry in named] == [3, 1]
    assert "Did you mean 'std'?" in shell.refused(3, "rainbowctl history pool sdt")
    unknown = shell.run("rainbowctl history --author anonymos").err
    assert "is by 'anonymos'. Did you mean 'anonymous'?" in unknown
    shell.ok("rainbowctl delete pool std")
    assert "delete pool std" in shell.ok("rainbowctl history pool std")
    assert "-strategy" not in shell.ok("rainbowctl history 3")
    assert shell.ok("rainbowctl history 1..3").count("pool gpu") == 1
    message = shell.refused(5, "rainbowctl rollback 1")
    assert "pool gpu: changed again by revision 3" in message
    shell.ok("rainbowctl rollback 3")
    assert shell.rest("GET", "pools/gpu")["strategy"] == "weighted"


def test_a_plan_is_refused_once_the_pool_has_moved(shell: Shell) -> None:
    shell.ok("rainbowctl create pool gpu --member local")
    shell.file("pool.yaml", "kind: pool\nname: gpu\nmembers: {local: 7}\n")
    shell.ok("rainbowctl plan -f pool.yaml --out a.plan")
    shell.ok("rainbowctl update pool gpu --strategy spill")
    message = shell.refused(5, "rainbowctl apply a.plan")
    assert "pool gpu: expected at version 1, now at version 2" in message
    shell.file("pool.yaml", "kind: pool\nname: gpu\nversion: 1\nmembers: {local: 7}\n")
    message = shell.refused(5, "rainbowctl apply -f pool.yaml")
    assert "pool.yaml:1:1: pool gpu: expected at version 1, now at version 2" in message
    shell.ok("rainbowctl apply -f pool.yaml --force")
    assert (
        shell.ok("rainbowctl apply -f - -o name", stdin="kind: pool\nname: gpu\nmembers: {local: 8}\n") == "pool/gpu\n"
    )


def test_what_the_admin_refuses_is_found_in_its_file(shell: Shell) -> None:
    shell.file(
        "a.yaml", "kind: label\nname: ok\nmembers: {local: 1}\n---\nkind: pool\nname: a b\nmembers: {local: 1}\n"
    )
    message = shell.refused(2, "rainbowctl apply -f a.yaml")
    assert "  a.yaml:6:7: " in message
    shell.file("a.yaml", "kind: cluster\nname: c\ncapacity:\n  memory: much\n")
    assert "  a.yaml:4:11: capacity.memory: " in shell.refused(2, "rainbowctl apply -f a.yaml")
    assert head(shell) == 0
    shell.file("a.yaml", "kind: cluster\nname: local\ncost: 1\n")
    assert "configuration" in shell.run("rainbowctl apply -f a.yaml").err
    assert shell.run("rainbowctl apply -f a.yaml").status != 0


def test_pruning_leaves_the_fleet_alone(shell: Shell) -> None:
    shell.ok("rainbowctl create pool gpu --member local")
    shell.ok("rainbowctl update workflow-priority -d staging --priority 1")
    shell.ok("rainbowctl apply --prune -A --force -f -", stdin="kind: project\nid: search\n")
    assert shell.rest("GET", "pools/gpu")["version"] == 1


def test_explain_with_takes_the_fleet_too(shell: Shell) -> None:
    pool = "kind: pool\nname: gpu\nmembers: {local: 1}\n"
    text = f"{pool}---\nkind: cluster-pool-attribute\ndomain: staging\ncluster_pool_name: gpu\n"
    out = shell.ok("rainbowctl explain cluster-pool-attribute -d staging --with -", stdin=text)
    assert "gpu" in out
    assert head(shell) == 0


def test_warnings_about_the_fleet_are_listed_by_name(shell: Shell) -> None:
    shell.ok("rainbowctl create pool gpu --member nowhere --member local")
    _header, *rows = shell.ok("rainbowctl get warnings -o wide").splitlines()
    assert [row.split()[:3] for row in rows] == [["pool", "platform", "gpu"]]
    assert "nowhere" in rows[0]
    assert rows[0].endswith("expected_cluster")
    assert shell.ok("rainbowctl get warnings -o name") == "pool/gpu\n"
    assert json.loads(shell.ok("rainbowctl get warnings -o json")) == shell.rest("GET", "warnings")["warnings"]
    shell.ok("rainbowctl create cluster nowhere")
    shell.ok("rainbowctl get warnings --strict")


def test_an_export_of_a_scope_or_of_the_past_holds_no_fleet(shell: Shell) -> None:
    shell.ok("rainbowctl create pool gpu --member local")
    assert "kind: pool" not in shell.ok("rainbowctl export -p flytesnacks")
    assert "kind: pool" not in shell.ok("rainbowctl export --at 1")
    assert shell.ok("rainbowctl export pools").count("kind: ") == 1
    assert "cannot be filtered by scope" in shell.refused(2, "rainbowctl export pool -p flytesnacks")
