"""What changes would do, on the command line: as text, as JSON and over REST with the same facts; nothing changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fleets import shell_with_fleet
from tests.support.shells import Shell
from tests.support.waiting import wait_until

HERE = "-p flytesnacks -d development"
MEMBERS = {"members": [{"id": "west"}], "strategy": "spill"}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A fleet, of which pool first has an execution that waits at east, and pool second one at north."""
    with shell_with_fleet(tmp_path_factory.mktemp("previews")) as shell:
        for name, pool in (("one", "first"), ("two", "second")):
            shell.ok(f"rainbowctl create execution {name} {HERE} --clusterPool {pool} -q -- true")
        yield shell


def facts(preview: dict[str, Any]) -> list[list[str]]:
    """What a preview says of each execution, as the cells of a table."""
    return [
        [
            *(effect["id"][key] for key in ("project", "domain", "name")),
            effect["phase"],
            " -> ".join(dict.fromkeys([effect["from"], effect.get("cluster", "none")])),
            effect["message"],
        ]
        for effect in preview["effects"]
    ]


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def state(shell: Shell) -> Any:
    """What a preview must leave as it is."""
    paths = ("revisions", "clusters", "pools", "labels", "executions/flytesnacks/development", "timeline")
    return [shell.rest("GET", path) for path in paths]


def test_the_update_of_a_pool_shows_what_would_move(shell: Shell) -> None:
    before, update = state(shell), "rainbowctl update pool first --member west --dryRun"
    posted = shell.rest("PUT", "pools/first?dry_run=true", {"pool": MEMBERS})
    answer = json.loads(shell.ok(f"{update} -o json"))
    assert answer["executions"] == posted["executions"]
    row = ["flytesnacks", "development", "one", "QUEUED", "east -> west", "Moves to west."]
    assert facts(answer["executions"]) == [row]
    done = shell.run(update)
    assert row in cells(done.out)
    assert "Executions: 1 would move.\n" in done.out
    assert state(shell) == before


def test_several_clusters_are_tried_together(shell: Shell) -> None:
    before, body = state(shell), {"switch": "cordon", "clusters": ["east", "west"]}
    posted = shell.rest("POST", "cluster_switches?dry_run=true", body)
    answer = json.loads(shell.ok("rainbowctl cordon east west --dryRun -o json"))
    assert (
        (answer["effects"], answer["counts"])
        == (posted["effects"], posted["counts"])
        == (answer["effects"], {"WAITS": 1})
    )
    done = shell.run("rainbowctl cordon east west --dryRun")
    assert facts(answer)[0] in cells(done.out)
    assert done.err == "Would cordon clusters east and west: 1 would wait. Dry run: nothing was changed.\n"
    deleted = shell.run("rainbowctl delete pool first second --force --dryRun")
    assert "Executions: 2 would wait.\n" in deleted.out
    assert deleted.err.startswith("Dry run: pools first and second would be deleted.\n")
    assert state(shell) == before


def test_the_delete_of_a_pool_that_is_in_use_shows_its_users_and_what_would_wait(shell: Shell) -> None:
    before, delete = state(shell), "rainbowctl delete pool second --dryRun"
    message = shell.refused(5, delete)
    assert "1 unfinished execution was placed by it: flytesnacks/development/" in message
    assert "see with --force --dryRun what would become of executions" in message
    deleted = shell.rest("DELETE", "pools/second?dry_run=true&force=true")
    answer = json.loads(shell.ok(f"{delete} --force -o json"))
    assert (answer["executions"], answer["users"]) == (deleted["executions"], deleted["users"])
    done = shell.run(f"{delete} --force")
    assert facts(answer["executions"]) == [cells(done.out)[2]]
    assert cells(done.out)[2][5] == "The pool 'second' is gone from the fleet."
    assert f"Left without it: {answer['users'][0]['reason']}\n" in done.err
    assert done.err.startswith("Dry run: pool second would be deleted.\n")
    assert state(shell) == before


@pytest.mark.parametrize(
    ("command", "opening"),
    [
        (f"get execution {HERE} --by phase", "2 executions."),
        (f"get placement-counts {HERE}", "2 executions since "),
        (f"delete execution one {HERE} --dryRun", "Dry run: nothing was ended."),
        (f"delete execution {HERE} --selector phase=QUEUED --dryRun", "2 unfinished executions match. Dry run: "),
        (f"create execution --execFile runs.yaml {HERE} --dryRun", "Dry run: nothing was created. 2 executions: "),
        ("diff -f label.yaml", "1 to create."),
        ("plan -f label.yaml", "1 to create."),
        ("apply -f label.yaml --dryRun", "Dry run: nothing was written."),
        ("update execution-cluster-label -d staging --value sunny --dryRun", "Dry run: nothing was written."),
        ("update execution-cluster-label -d staging --value nowhere --dryRun", "Dry run: nothing was written."),
        ("update pool first --member west --dryRun", "Dry run: nothing was written."),
        ("create pool third --member nowhere --dryRun", "Dry run: pool third would be created."),
        ("delete pool first --force --dryRun", "Dry run: pool first would be deleted."),
        ("cordon east --dryRun", "Would cordon cluster east: 1 would "),
        ("update project flytesnacks --description x --dryRun", "Dry run: nothing was written."),
        ("get task-resource-attribute -d production", "Nothing is set at domain production itself: "),
        ("history 0..1", "1 row differs between revisions 0 and 1."),
    ],
)
def test_lists_counts_and_dry_runs_begin_with_the_sentence_that_sums_them_up(
    shell: Shell, command: str, opening: str
) -> None:
    shell.file("runs.yaml", "job: {command: ['true']}\nname: a\n---\njob: {command: ['true']}\nname: b\n")
    shell.file("label.yaml", "kind: execution-cluster-label\ndomain: staging\nvalue: sunny\n")
    lines = shell.run(f"PYTHONUNBUFFERED=1 rainbowctl {command} 2>&1").out.splitlines()
    assert lines[0].startswith(opening)
    assert len(lines) > 1


def test_a_plan_and_a_dry_run_of_apply_show_what_would_move(shell: Shell) -> None:
    before, document = state(shell), "kind: pool\nname: first\nstrategy: spill\nmembers: {west: 1}\n"
    changes = [{"pool_definition": {"name": "first", "strategy": "spill", "members": [{"id": "west", "weight": 1}]}}]
    posted = shell.rest("POST", "attribute_changes?dry_run=true", {"changes": changes})
    for command in ("rainbowctl plan -f -", "rainbowctl apply -f - --dryRun"):
        answer = json.loads(shell.ok(f"{command} -o json", stdin=document))
        assert answer["executions"] == posted["executions"]
        text = shell.ok(command, stdin=document)
        assert facts(answer["executions"])[0] in cells(text)
        assert "Executions: 1 would move.\n" in text
    assert state(shell) == before


def test_a_dry_run_that_changes_or_moves_nothing_says_so(shell: Shell) -> None:
    document = "kind: execution-cluster-label\ndomain: production\nvalue: sunny\n"
    none = "Executions: no execution would move or be ended.\n"
    update = "rainbowctl update execution-cluster-label -d production"
    for command in ("rainbowctl plan -f -", "rainbowctl apply -f - --dryRun"):
        assert none in shell.ok(command, stdin=document)
    assert none in shell.ok(f"{update} --value sunny --dryRun")
    assert none not in shell.ok(f"{update} --value sunny")
    assert none in shell.ok("rainbowctl delete execution-cluster-label -d production --dryRun")
    assert none in shell.ok("rainbowctl update pool first --description idle --dryRun")
    shell.ok("rainbowctl create label idle --member west -q")
    assert none in shell.ok("rainbowctl delete label idle --dryRun")
    shell.ok("rainbowctl delete label idle -q --force")
    assert "Nothing would change, and no execution would move or be ended.\n" in shell.ok(
        "rainbowctl plan -f -", stdin=document
    )
    assert "No changes: " in shell.run("rainbowctl apply -f - --dryRun", stdin=document).err
    assert "No changes: " in shell.run(f"{update} --value sunny --dryRun").err
    shell.ok("rainbowctl delete execution-cluster-label -d production -q --force")


def test_a_pool_whose_file_leaves_the_default_strategy_out_does_not_differ(shell: Shell) -> None:
    shell.ok("rainbowctl create pool plain --member west=1 --strategy weighted -q")
    document = "kind: pool\nname: plain\nmembers: {west: 1}\n"
    assert "No differences." in shell.run("rainbowctl diff -f -", stdin=document).err
    done = shell.run("rainbowctl diff -f -", stdin=document.replace("1}", "2}"))
    assert done.status == 1
    assert "strategy" not in done.out.partition("@@")[0]
    shell.ok("rainbowctl delete pool plain -q --force")


def test_new_settings_say_what_redecide_would_move(shell: Shell) -> None:
    put = f"rainbowctl update execution-cluster-label {HERE} --value"
    shell.ok(f"{put} sunny -q")
    shell.ok(f"rainbowctl create execution set {HERE} -q -- true")
    before = state(shell)
    body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "arctic"}}}}
    path = "project_domain_attributes/flytesnacks/development?dry_run=true"
    posted = shell.rest("PUT", path, body)
    answer = json.loads(shell.ok(f"{put} arctic --dryRun -o json"))
    assert answer["executions"] == posted["executions"]
    [effect] = answer["executions"]["effects"]
    assert (effect["id"]["name"], effect["cluster"], effect["redecided_cluster"]) == ("set", "east", "north")
    text = " ".join(shell.ok(f"{put} arctic --dryRun").split())
    assert "Waits at east until it is decided again, which would move it to north." in text
    assert "Executions: 1 would stay until `rainbowctl redecide`. " in text
    assert state(shell) == before


def test_a_rollback_that_is_refused_says_by_whom_and_what_could_be_undone(shell: Shell) -> None:
    label = "kind: execution-cluster-label\ndomain: {}\nvalue: {}\n"
    both = f"{label.format('staging', 'sunny')}---\n{label.format('production', 'sunny')}"
    shell.ok("rainbowctl apply -f - -q", stdin=both)
    first = shell.rest("GET", "revisions?limit=1")["head"]
    shell.ok("rainbowctl update execution-cluster-label -d staging --value arctic -m 'too warm' -q")
    before = state(shell)
    for more in ("", " --dryRun"):
        message = shell.refused(5, f"rainbowctl rollback {first}{more}")
        assert f"execution-cluster-label at domain staging: changed again by revision {first + 1}, anonymous" in message
        assert "'too warm'" in message
        assert "Not changed since, and undone by --restorable: execution-cluster-label at domain production." in message
    error = json.loads(shell.run(f"rainbowctl rollback {first} -o json").err)["error"]
    assert error["restorable"] == [{"resource_type": "EXECUTION_CLUSTER_LABEL", "domain": "production"}]
    assert error["details"][0]["provenance"]["message"] == "too warm"
    assert state(shell) == before


def test_diff_names_the_file_and_line_of_each_difference_before_warnings(shell: Shell) -> None:
    shell.ok("rainbowctl update task-resource-attribute -d staging --limits.cpu 2 --limits.memory 1Gi -q")
    shell.file(
        "limits.yaml",
        "kind: task-resource-attribute\ndomain: staging\nlimits:\n  cpu: '2'\n  memory: 2Gi\n---\n"
        "kind: execution-cluster-label\ndomain: development\nvalue: nowhere\n",
    )
    done = shell.run("rainbowctl diff -f limits.yaml")
    assert done.status == 1
    assert "limits.yaml:5:11: limits.memory: 1Gi → 2Gi\n" in done.out
    assert "limits.yaml:7:1\n" in done.out
    counts, warning = (done.err.index(text) for text in ("1 to create, 1 to update.", "warning: "))
    assert counts < warning
    rows = json.loads(shell.run("rainbowctl diff -f limits.yaml -o json").out)["rows"]
    assert rows[0]["differences"] == [
        {"field": "limits.memory", "position": "limits.yaml:5:11", "before": "1Gi", "after": "2Gi"}
    ]
    assert [row["position"] for row in rows] == ["limits.yaml:1:1", "limits.yaml:7:1"]


def test_simulate_says_which_fleet_it_assumed(shell: Shell) -> None:
    document = "kind: pool\nname: first\nstrategy: spill\nmembers: {north: 1}\n"
    simulate = "rainbowctl simulate --with - --since 24h"
    path = "executions/flytesnacks/development/one"
    shell.ok("rainbowctl disable east -q")
    wait_until(lambda: shell.rest("GET", path)["cluster"] == "west")
    assert "off: east (disabled)." in shell.ok(simulate, stdin=document)
    shell.ok("rainbowctl enable east -q")
    listed = "executions/flytesnacks/development"
    wait_until(lambda: all("cluster" in execution for execution in shell.rest("GET", listed)["executions"]))
    before = state(shell)
    text = shell.ok(simulate, stdin=document)
    assert "Assumed the fleet as it is now (revision " in text
    assert "off: none." in text
    recorded = shell.ok(f"{simulate} --fleet recorded", stdin=document)
    assert (
        "Assumed the states of clusters that each decision recorded, and otherwise the fleet as it is now (revision "
        in recorded
    )
    changes = [{"pool_definition": {"name": "first", "strategy": "spill", "members": [{"id": "north", "weight": 1}]}}]
    for fleet in ("current", "recorded"):
        posted = shell.rest("POST", "simulations", {"changes": changes, "since": "24h", "fleet": fleet})
        answer = json.loads(shell.ok(f"{simulate} --fleet {fleet} -o json", stdin=document))
        posted["fleet"].pop("at")
        answer["fleet"].pop("at")
        assert answer["fleet"] == posted["fleet"]
        moved = {move["id"]["name"]: move["before"].get("cluster") for move in answer["executions"]}
        assert moved["one"] == ("east" if fleet == "current" else "west")
    assert state(shell) == before
