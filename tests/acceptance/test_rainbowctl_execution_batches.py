"""`create execution` from a file of many documents, on a real admin and over connections that break."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.test_changes_plans import cutting_proxy
from tests.support.fleets import register, shell_with_fleet
from tests.support.shells import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with shell_with_fleet(tmp_path_factory.mktemp("batches")) as shell:
        yield shell


def create(project: str) -> str:
    return f"rainbowctl create execution -p {project} -d development"


def documents(number: int, *, are_named: bool = False) -> str:
    return "---\n".join(
        (f"name: run-{index}\n" if are_named else "") + f"job: {{command: [echo, '{index}']}}\n"
        for index in range(number)
    )


def stored(shell: Shell, project: str) -> list[str]:
    """The names of all executions of a project."""
    query = f"executions/{project}/development?limit=1000"
    return sorted(result["id"]["name"] for result in shell.rest("GET", query)["executions"])


def names(answer: str) -> list[str]:
    return sorted(result["id"]["name"] for result in json.loads(answer))


def test_many_are_created_from_one_file(shell: Shell) -> None:
    shell.file("many.yaml", documents(120))
    answer = shell.ok(f"{create(shell.project('many'))} --execFile many.yaml --clusterPool second -o json")
    results = json.loads(answer)
    assert {result["result"] for result in results} == {"created"}
    assert {result["cluster"] for result in results} == {"north"}
    assert {result["phase"] for result in results} == {"QUEUED"}
    assert [result["position"] for result in results[:3]] == ["many.yaml:1:1", "many.yaml:3:1", "many.yaml:5:1"]
    assert len(results) == 120
    assert stored(shell, "many") == names(answer)
    for number in (0, 99, 100, 119):
        execution = shell.rest("GET", f"executions/many/development/{results[number]['id']['name']}")
        assert execution["job"]["command"] == ["echo", str(number)]


def test_each_is_answered_for_itself_and_the_same_again_starts_nothing(shell: Shell) -> None:
    shell.project("sweeps")
    register(shell, "sweeps", "development", "train", plan="nightly")
    register(shell, "sweeps", "development", "alone")
    sweep: list[dict[str, Any]] = [
        {"name": "s-1", "workflow": "nightly", "inputs": {"epochs": 1}},
        {"name": "s-2", "workflow": "alone", "inputs": {"epochs": 2}},
        {"name": "s-3", "workflow": "nightly", "inputs": {"epochs": "many"}},
        {"name": "s-4", "job": {"command": ["true"]}, "clusterPool": "secnd"},
        {"name": "s-5", "workflow": "nothing"},
    ]
    shell.file("sweep.json", json.dumps(sweep, indent=1))
    done = shell.run(f"{create('sweeps')} --execFile sweep.json")
    rows = {line.split()[0]: line for line in done.out.splitlines()[1:]}
    assert [re.split(r"  +", rows[name])[3] for name in ("s-1", "s-2")] == ["created", "created"]
    assert re.search(r"failed +sweep\.json:\d+:\d+: .*epochs", rows["s-3"])
    assert re.search(r"failed +sweep\.json:\d+:\d+: .*secnd.*second", rows["s-4"])
    assert "There is neither a launch plan 'nothing' nor a workflow." in rows["s-5"]
    assert "There is no launch plan alone: the workflow alone is used instead." in done.err
    assert "5 executions: 2 created, 3 failed." in done.err
    assert done.status == 1
    for entry in sweep:
        entry.pop("clusterPool", None)
        entry["workflow"] = "nightly" if entry["name"] != "s-2" else "alone"
        entry["inputs"] = {"epochs": int(str(entry["name"])[-1])}
        entry.pop("job", None)
    shell.file("sweep.json", json.dumps(sweep))
    done = shell.run(f"{create('sweeps')} --execFile sweep.json")
    assert "5 executions: 3 created, 2 existed already." in done.err
    assert done.status == 0
    done = shell.run(f"{create('sweeps')} --execFile - -o name", stdin=json.dumps(sweep))
    assert (done.status, done.out.split()) == (
        8,
        [f"execution/sweeps/development/s-{index}" for index in range(1, 6)],
    )


def test_a_dry_run_creates_none_of_them(shell: Shell) -> None:
    done = shell.run(f"{create(shell.project('dry'))} --execFile - --dryRun", stdin=documents(3))
    assert (done.status, done.out.count("would be created")) == (0, 3), done.err
    assert stored(shell, "dry") == []


def test_what_failed_is_corrected_and_sent_again_and_nothing_is_created_twice(shell: Shell) -> None:
    """Also where what failed stands before others, and is no request at all."""
    command = f"{create(shell.project('corrected'))} --execFile -"
    done = shell.run(command, stdin=documents(3).replace("[echo, '0']", "{echo: 0}"))
    assert (done.status, len(stored(shell, "corrected"))) == (2, 2)
    key = done.err.split("--idempotencyKey ")[1].split(":")[0]
    answer = shell.ok(f"{command} --idempotencyKey {key} -o json", stdin=documents(3))
    assert [result["result"] for result in json.loads(answer)] == ["created", "exists", "exists"]
    assert stored(shell, "corrected") == names(answer)


@pytest.mark.parametrize("cuts", ["before", "halfway", "after", "answering"])
@pytest.mark.parametrize("are_named", [False, True], ids=["unnamed", "named"])
def test_a_connection_cut_in_the_middle_loses_and_doubles_nothing(shell: Shell, cuts: str, are_named: bool) -> None:
    project = shell.project(f"{cuts}-{'named' if are_named else 'unnamed'}")
    shell.file("runs.yaml", documents(130, are_named=are_named))
    with cutting_proxy(shell.admin.url, cuts, path="executions", only=2) as proxy:
        done = shell.run(f"{create(project)} --execFile runs.yaml -o json", RAINBOW_ENDPOINT=proxy.url)
        assert proxy.changes_seen == 3, "the second batch was sent again"
    assert done.status == 0, done.err
    assert len(set(names(done.out))) == 130
    assert stored(shell, project) == names(done.out)


def test_whoever_gives_up_goes_on_with_the_key_that_is_told(shell: Shell) -> None:
    command = f"{create(shell.project('given-up'))} --execFile runs.yaml"
    shell.file("runs.yaml", documents(30))
    with cutting_proxy(shell.admin.url, "after", path="executions") as proxy:
        done = shell.run(command, RAINBOW_ENDPOINT=proxy.url)
    assert done.status == 6
    assert done.out.count("unknown") == 30
    assert "Of 30 executions 30 may have been created." in done.err
    key = done.err.split("--idempotencyKey ")[1].split(":")[0]
    done = shell.run(f"{command} --idempotencyKey {key} -o json")
    assert done.status == 8
    assert stored(shell, "given-up") == names(done.out)


def test_a_person_sees_how_far_it_is(shell: Shell) -> None:
    shell.file("runs.yaml", documents(210))
    status, screen = shell.on_screen(f"{create(shell.project('seen'))} --execFile runs.yaml")
    assert status == 0
    assert "Creating 210 executions" in screen
    assert re.search(r"\b\d+/210", screen)
    assert "210 executions: 210 created." in screen
