"""`explain execution` tells the same as text, as JSON and over REST; the tests play the agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ctl.client.times import to_second
from tests.support.admins import running_admin
from tests.support.http_agents import HttpAgent, write_configuration
from tests.support.shells import Shell

HERE = "-p flytesnacks -d development"
#: What differs between two answers because time passes: ages, and when something was heard.
_PASSING = re.compile(r'\b[0-9]+ (s|min|h|d)\b|"(heard_at|expires_at)": "[^"]*"|"[a-z]+_seconds": [0-9.]+')


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("explanations")
    with running_admin(directory, "--config", str(write_configuration(directory))) as admin:
        yield Shell(admin, directory)


@pytest.fixture(scope="module")
def agent(shell: Shell) -> HttpAgent:
    played = HttpAgent(url=shell.admin.url, cluster="local")
    played.register()
    played.sync(report={"engine": "played", "capacity": {"cpu": "8"}, "free": {"cpu": "8"}})
    return played


def explained(shell: Shell, name: str) -> tuple[str, str, Any]:
    """What is printed, unfolded: as text and as wide text; and the answer over REST, which JSON has to equal."""
    explain = f"rainbowctl explain execution {name} {HERE}"
    answer = shell.rest("GET", f"executions/flytesnacks/development/{name}/explanation")
    printed = json.loads(shell.ok(f"{explain} -o json"))
    assert _PASSING.sub("", json.dumps(printed)) == _PASSING.sub("", json.dumps(answer))
    text = shell.ok(explain)
    assert [line for line in text.splitlines() if len(line) > 100] == []
    first, *_ = text.splitlines()
    assert answer["status"]["message"].startswith(first.partition(" ")[0])
    plain, wide = (re.sub(r"\n {10,}", " ", output) for output in (text, shell.ok(f"{explain} -o wide")))
    return plain, wide, answer


def test_text_json_and_rest_tell_the_same_of_a_run_that_failed_and_runs_again(shell: Shell, agent: HttpAgent) -> None:
    shell.rest("PUT", "clusters/spare", {"cluster": {"name": "spare"}})
    shell.rest("POST", "clusters/spare/disable", {"reason": "new disks", "claimed_by": "otto"})
    envs = {"values": [{"key": "MODE", "value": "settings"}, {"key": "LEVEL", "value": "info"}]}
    shell.put("project_domain_attributes/flytesnacks/development", workflow_execution_config={"envs": envs})
    shell.file("own.yaml", "kind: workflow\nname: own\njob: {command: [work], environment: {MODE: own}}\n")
    shell.ok(f"rainbowctl register files own.yaml {HERE} --version v1")
    shell.file("own-run.yaml", "workflow: own\nretry: {attempts: 3, backoff: 1h}\n")
    shell.ok(f"rainbowctl create execution again {HERE} --execFile own-run.yaml --cluster local -q")
    [lease] = agent.take()
    agent.report(lease, "RUNNING", native_id="job-1", nodes=["n1", "n2", "n3", "n4"])
    plain, wide, answer = explained(shell, "again")
    assert "\nattempt 1 RUNNING on local (n1, n2, n3, 1 more); native id job-1, started " in plain
    assert "\nattempt 1 RUNNING on local (n1, n2, n3, n4); native id job-1, started " in wide
    assert re.search(
        r"\nlease     ends in \d+ s, confirmed; its agent was last heard \d+ s ago; the cluster is ready", plain
    )
    assert re.search(r"\nlease     ends 20[0-9 Z:-]+, confirmed; its agent was last heard 20[0-9 Z:-]+; ", wide)
    assert answer["lease"].keys() == {"expires_at", "confirmed", "heard_at", "health"}
    ended = "2026-03-01T12:00:00Z"
    agent.report(lease, "FAILED", native_id="job-1", exit_code=3, started_at="2026-03-01T11:00:00Z", finished_at=ended)
    plain, wide, answer = explained(shell, "again")
    sections = [line.partition(" ")[0] for line in plain.splitlines() if line and line[0] != " "]
    order = ["QUEUED:", "execution", "next", "times", "attempt", "decision", "rule", "reason", "decided", "settings"]
    assert [word for word in sections if word in order] == order
    tables = re.findall(r"\n\n(?:As (?:of decision|the fleet is now)[^\n]+\n)?((?:[A-Z]+ )*[A-Z]+) {2}", plain)
    assert tables == ["RUNG", "CLUSTER", "NOT A CANDIDATE", "JOB GETS", "SETTING"]
    assert "\nworkflow-execution-config" in plain
    status, [attempt] = answer["status"], answer["attempts"]
    assert re.fullmatch(
        r"QUEUED: in back-off after exit 3 \(attempt 1 of 3\), next attempt in [\w ]+\.", status["message"]
    )
    assert re.match(r"QUEUED: in back-off after exit 3 \(attempt 1 of 3\), next attempt in \d+ min( \d+ s)?\.\n", plain)
    assert re.search(r"\nnext      Its next attempt may start in \d+ min( \d+ s)?\.\n", plain)
    assert f"Its next attempt may start at {to_second(status['next_at'])}." in wide
    assert (attempt["native_id"], attempt["exit_code"], attempt["ended_by"], attempt["cause"], attempt["ended_at"]) == (
        "job-1",
        3,
        "exit 3",
        "EXIT_CODE",
        ended,
    )
    assert re.search(
        r"\nattempt 1 FAILED on local \(.*\): exit 3; native id job-1, started [\w ]+ ago, ended [\w ]+ ago\n", plain
    )
    assert "started 2026-03-01 11:00:00Z, ended 2026-03-01 12:00:00Z" in wide
    assert answer["rule"] == "cluster 'local' in the request decides"
    assert f"\nrule      {answer['rule']}\n" in plain
    [spare] = [entry for entry in answer["not_candidates"] if entry["cluster"] == "spare"]
    assert spare["provenance"]["claimed_by"] == "otto"
    assert re.search(
        r"\nspare +is disabled, event \d+, anonymous \(says otto\), .* ago, 'new disks'; is not cluster", plain
    )
    received = {entry["field"]: entry for entry in answer["received"]}
    assert lease["job"]["environment"] == {"MODE": "own", "LEVEL": "info"}
    assert received["environment.MODE"] == {
        "field": "environment.MODE",
        "value": "own",
        "overrides": "envs.values.MODE",
        "source": "workflow own v1",
    }
    assert received["environment.LEVEL"]["origin"]["project"] == "flytesnacks"
    assert re.search(r"\nenvironment.MODE +own +workflow own v1, over envs.values.MODE\n", plain)
    says = "the job of workflow own v1 says own"
    assert re.search(rf"\n  envs.values.MODE +settings +project .*; {says}\n", plain)
    assert re.search(rf"\nenvs.values.MODE +settings +project .*  {says}\n", wide)
    assert re.search(rf"; envs.values.MODE: {says}", wide)
    unread = "passed to agents; no engine of Rainbow reads it"
    assert re.search(rf"\n  max_parallelism +25 +configuration .*; {unread}\n", plain)
    assert re.search(rf"\nmax_parallelism +25 .*  {unread}\n", wide)
    assert not re.search(r"\bhere\b", plain + wide)
    [listed] = shell.rest("GET", "executions/flytesnacks/development?limit=10")["executions"]
    assert listed["last_failure"] == status["last_failure"]
    assert "EXIT_CODE (attempt 1: exit 3)" in shell.ok(f"rainbowctl get execution {HERE} -o wide")


def test_what_a_launch_plan_gives_is_said_with_its_name_and_version(shell: Shell) -> None:
    id = {"project": "flytesnacks", "domain": "development", "name": "given", "version": "v3"}
    shell.rest("POST", "workflows", {"id": id, "spec": {"job": {"command": ["work"], "environment": {"A": "own"}}}})
    plan = {**id, "name": "nightly", "version": "v7"}
    envs = {"values": [{"key": "B", "value": "plan"}]}
    shell.rest("POST", "launch_plans", {"id": plan, "state": "ACTIVE", "spec": {"workflow_id": id, "envs": envs}})
    shell.ok(f"rainbowctl create execution planned {HERE} --launchplan nightly -q")
    plain, wide, answer = explained(shell, "planned")
    assert (answer["launch_plan"], answer["workflow"]) == (plan, id)
    sources = {entry["field"]: entry.get("source") for entry in answer["received"]}
    assert sources["environment.A"] == "workflow given v3"
    assert sources["environment.B"] == "launch plan nightly v7"
    for text in (plain, wide):
        assert re.search(r"\nenvironment.A +own +workflow given v3\n", text)
        assert re.search(r"\nenvironment.B +plan +launch plan nightly v7\n", text)
    assert re.search(r"\n  envs.values.B +plan +launch plan nightly v7\n", plain)
    place = shell.ok(f"rainbowctl place other {HERE} --launchplan nightly -o json")
    assert {entry["field"]: entry.get("source") for entry in json.loads(place)["received"]} == sources
