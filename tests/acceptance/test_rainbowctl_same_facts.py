"""Comparisons, uses, counts and what-ifs tell the same facts as text, as JSON and over REST."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ctl.client.times import format_duration
from tests.support.admins import running_admin
from tests.support.http_agents import HttpAgent, write_configuration
from tests.support.shells import Shell

PLACE = "flytesnacks/development"
HERE = "-p flytesnacks -d development"
QUEUES = {"executionQueues": [{"dynamic": "urgent", "attributes": ["critical"]}]}
#: What differs between two answers because time passes.
_PASSING = re.compile(r'\b[0-9]+ (s|min|h|d)\b|"(heard_at|expires_at|at)": "[^"]*"|"[a-z_]+_seconds": [0-9.]+')


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Settings and executions of one project; an agent that the test plays runs one of them."""
    directory = tmp_path_factory.mktemp("facts")
    configuration = write_configuration(directory, queues=QUEUES)
    with running_admin(directory, "--config", str(configuration)) as admin:
        shell = Shell(admin, directory)
        for line in (
            "create pool gpu --member local",
            "create pool base --member other",
            "create label near --member local",
            "create token-pool hive --capacity 1",
            f"update cluster-pool-attribute {HERE} --clusterPoolName gpu",
            f"update task-resource-attribute {HERE} --set defaults.memory=512Mi",
            "update execution-cluster-label -p flyteexamples --value near",
            "update execution-queue-attribute -p flytesnacks --tags critical",
            f"create execution holds {HERE} --tokenPool hive=1 -- true",
            f"create execution wants {HERE} --tokenPool hive=1 -- true",
            f"create execution plain {HERE} -- true",
            f"update task-resource-attribute {HERE} --set defaults.memory=1Gi --force",
        ):
            shell.ok(f"rainbowctl {line} -q")
        yield shell


@pytest.fixture(scope="module")
def agent(shell: Shell) -> HttpAgent:
    played = HttpAgent(url=shell.admin.url, cluster="local")
    played.register()
    played.sync(report={"engine": "played", "capacity": {"cpu": "8"}, "free": {"cpu": "8"}})
    return played


def same(shell: Shell, command: str, answer: Any) -> str:
    """The text of a command, unfolded, whose JSON is an answer over REST."""
    printed = json.loads(shell.ok(f"rainbowctl {command} -o json"))
    assert _PASSING.sub("", json.dumps(printed)) == _PASSING.sub("", json.dumps(answer))
    return " ".join(shell.ok(f"rainbowctl {command}").split())


def test_an_execution_and_what_it_would_get_today(shell: Shell) -> None:
    answer = shell.rest("GET", f"executions/{PLACE}/plain/comparison")
    text = same(shell, f"compare execution plain {HERE}", answer)
    [difference] = answer["differences"]
    assert (difference["field"], difference["first"]["value"], difference["second"]["value"]) == (
        "defaults.memory",
        "512Mi",
        "1Gi",
    )
    assert f"1 field differs, {answer['equal']} equal: first is execution {PLACE}/plain at " in text
    wide = " ".join(shell.ok(f"rainbowctl compare execution plain {HERE} -o wide").split())
    [row] = re.findall(r"task-resource-attribute defaults\.memory 512Mi (.+?) 1Gi (.+?)$", wide)
    for side, shown in zip(("first", "second"), row, strict=True):
        origin = difference[side]["origin"]
        assert f"revision {origin.get('revision') or origin['version']}" in shown


def test_a_scope_as_of_two_revisions(shell: Shell) -> None:
    [row] = shell.rest("GET", "matchable_attributes?resource_type=0&project=flytesnacks")["configurations"]
    last = row["version"]
    first = last - 1
    query = "project=flytesnacks&domain=development&other_project=flytesnacks&other_domain=development"
    answer = shell.rest("GET", f"effective_attributes/comparison?{query}&at={first}&other_at={last}")
    text = same(shell, f"compare {HERE} --at {first} --otherAt {last}", answer)
    assert f"1 field differs, {answer['equal']} equal: " in text
    assert f"as of revision {first}; second is " in text
    assert f"as of revision {last}." in text
    [difference] = answer["differences"]
    assert (difference["first"]["value"], difference["second"]["value"]) == ("512Mi", "1Gi")
    assert re.search(r"defaults\.memory 512Mi 1Gi FIRST SET BY: .+ SECOND SET BY: ", text)


@pytest.mark.parametrize(
    ("words", "query", "fields"),
    [
        ("label near", "label=near", "value=near"),
        ("queue urgent", "queue=urgent", "tags=critical"),
        ("task-resource-attribute", "resource_type=TASK_RESOURCE", "defaults.memory=1Gi"),
        (
            "task-resource-attribute defaults.memory=1Gi",
            "resource_type=TASK_RESOURCE&field=defaults.memory&value=1Gi",
            "defaults.memory=1Gi",
        ),
        (
            "task-resource-attribute 'defaults.memory>900Mi'",
            "resource_type=TASK_RESOURCE&field=defaults.memory&value=900Mi&comparison=gt",
            "defaults.memory=1Gi",
        ),
    ],
)
def test_where_something_is_used(shell: Shell, words: str, query: str, fields: str) -> None:
    answer = shell.rest("GET", f"uses?{query}")
    text = same(shell, f"where-used {words}", answer)
    uses, reach = answer["uses"], answer["reach"]
    settings = [use for use in uses if use["level"] != "platform"]
    assert len(settings) == 1
    assert f" is set {len(uses)} time" in text
    assert f"; {reach['scopes']} scope" in text
    assert fields in text.replace("[", "").replace("]", "")
    revision = settings[0].get("revision") or settings[0]["version"]
    assert f"(revision {revision})" in text
    phases = ", ".join(f"{number} {phase}" for phase, number in sorted(answer["executions"]["phases"].items()))
    assert f"Executions that have not ended: {phases or 'none'}." in text


def test_tokens_that_one_execution_holds_and_another_waits_for(shell: Shell, agent: HttpAgent) -> None:
    taken = agent.take(2)
    assert {lease["id"]["name"] for lease in taken} == {"holds", "plain"}
    for name, verb in (("holds", "holds"), ("wants", "needs")):
        answer = shell.rest("GET", f"executions/{PLACE}/{name}/explanation")
        text = same(shell, f"explain execution {name} {HERE}", answer)
        status = answer["status"]
        assert (status["token_pools"], status["holds_tokens"]) == ({"hive": 1}, verb == "holds")
        assert f"tokens {verb} 1 of hive" in text
    assert "hive" in status["message"]
    assert "hive" in text.partition(" execution flytesnacks/development/wants ")[0]


def test_how_long_those_that_started_had_waited(shell: Shell, agent: HttpAgent) -> None:
    for lease in list(agent.held):
        agent.report(lease, "RUNNING", native_id="job")
    answer = shell.rest("GET", "execution_counts?by=pool&state=ACTIVE&project=flytesnacks")
    [group] = answer["counts"]
    assert (group["value"], group["count"], group["started"]["count"]) == ("gpu", 3, 2)
    printed = json.loads(shell.ok("rainbowctl get execution -p flytesnacks --by pool -o json"))
    assert printed["counts"][0]["started"] == group["started"]
    header, row = (
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in shell.ok("rainbowctl get execution -p flytesnacks --by pool -o wide").splitlines()
    )
    cells = dict(zip(header, row, strict=True))
    assert cells["STARTED"] == "2"
    assert cells["LONGEST WAITED"] == format_duration(group["started"]["longest_seconds"])
    assert cells["MEAN WAITED"] == format_duration(group["started"]["mean_seconds"])


def test_a_plan_that_deletes_what_the_files_leave_out(shell: Shell) -> None:
    document = {"project": "flytesnacks", "domain": "development"}
    shell.file(
        "only.yaml",
        "kind: task-resource-attribute\nproject: flytesnacks\ndomain: development\ndefaults: {memory: 1Gi}\n",
    )
    command = f"plan -f only.yaml --prune {HERE}"
    answer = json.loads(shell.ok(f"rainbowctl {command} -o json"))
    deleted = [row for row in answer["rows"] if row["action"] == "delete"]
    assert [row["resource_type"] for row in deleted] == ["CLUSTER_ASSIGNMENT"]
    changes = [
        {**document, "resource_type": "TASK_RESOURCE", "payload": {"defaults": {"memory": "1Gi"}}},
        {**document, "resource_type": "CLUSTER_ASSIGNMENT", "delete": True},
    ]
    posted = shell.rest("POST", "attribute_changes?dry_run=true", {"changes": changes})
    assert sorted(row["action"] for row in posted["rows"]) == sorted(row["action"] for row in answer["rows"])
    assert posted["counts"] == answer["counts"]
    text = " ".join(shell.ok(f"rainbowctl {command}").split())
    assert re.search("delete +cluster-pool-attribute .*flytesnacks", text)


def test_what_redecide_would_move(shell: Shell) -> None:
    shell.ok(f"rainbowctl create execution stays {HERE} --cluster local -q -- true")
    shell.ok(f"rainbowctl update cluster-pool-attribute {HERE} --clusterPoolName base -q --force")
    selector = {"selector": {"project": "flytesnacks", "domain": "development", "phase": "QUEUED"}}
    answer = shell.rest("POST", "executions/redecide?dry_run=true", selector)
    assert (answer["matched"], answer["changed"], answer["moved"], answer["complete"]) == (2, 1, 1, True)
    command = f"redecide --selector phase=QUEUED {HERE} --dryRun"
    assert json.loads(shell.ok(f"rainbowctl {command} -o json")) == answer
    done = shell.run(f"rainbowctl {command}")
    assert done.err == "2 waiting executions match, 1 would move. Dry run: nothing was decided.\n"
    [moved] = [entry for entry in answer["executions"] if entry["changed"]]
    assert (moved["id"]["name"], moved["from"], moved["to"]) == ("wants", "local", "other")
    _header, row = done.out.splitlines()
    assert row.split()[:5] == ["flytesnacks", "development", "wants", "local", "other"]


def test_what_one_command_registered(shell: Shell) -> None:
    job = "job: {command: [echo, hi]}"
    documents = "\n---\n".join(f"kind: workflow\nname: w{number}\n{job}" for number in range(7))
    shell.file("flows.yaml", documents)
    shell.ok(f"rainbowctl register files flows.yaml {HERE} --version v1 -m 'first release' -q")
    newest = "history --source registration --by request"
    [group] = json.loads(shell.ok(f"rainbowctl {newest} -o json"))
    query = f"timeline?request_id={group['request_id']}"
    assert shell.rest("GET", f"{query}&by=request")["groups"] == [group]
    assert (group["counts"], group["message"]) == ({"registration": 7}, "first release")
    text = " ".join(shell.ok(f"rainbowctl {newest}").split())
    assert "7 registrations first release" in text
    assert f"registered workflow {PLACE}/w6 version v1" in text
    assert f"and 2 more: history --request {group['request_id']}" in text
    entries = shell.rest("GET", query)["entries"]
    listed = same(shell, f"history --request {group['request_id']}", entries)
    assert all(f"registered workflow {PLACE}/w{number} version v1" in listed for number in range(7))
