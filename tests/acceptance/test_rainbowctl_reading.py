"""Answers about one thing are read without a terminal too: they fit 100 columns, and long lists in them are cut."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.admins import running_admin
from tests.support.shells import Shell

HERE = "-p flytesnacks -d development"
WHY = "a message of so many words that no line of one hundred columns has room for all of them beside a value"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("reading")
    members = " ".join(f"--member c{number:02}" for number in range(25))
    with running_admin(directory) as admin:
        shell = Shell(admin, directory)
        for line in (
            f"create cluster c00 --capacity cpu=4 -m '{WHY}'",
            f"create cluster c01 --capacity cpu=64,memory=256Gi,gpu=8 -m '{WHY}'",
            f"create pool wide {members} -m '{WHY}'",
            f"create label near --member c00 -m '{WHY}'",
            f"create token-pool hive --capacity 2 --description '{WHY}' -m '{WHY}'",
            f"update cluster-pool-attribute {HERE} --clusterPoolName wide -m '{WHY}'",
            f"update task-resource-attribute -d development --set limits.memory=4Gi -m '{WHY}'",
            f"update token-pool-quota -p flytesnacks --set pools.hive=1 -m '{WHY}'",
            f"create execution waits {HERE} --tokenPool hive=1 -- true",
        ):
            shell.ok(f"rainbowctl {line} -q")
        yield shell


@pytest.mark.parametrize(
    "command",
    [
        "get pool wide",
        "get label near",
        "get pool wide --shares",
        "get cluster c00",
        "get token-pool hive",
        "explain token-pool hive",
        "explain token-pool hive -p flytesnacks",
        f"explain {HERE}",
        f"explain task-resource-attribute {HERE}",
        f"explain cluster-pool-attribute {HERE}",
        "explain task-resource-attribute -d development --reach",
        f"explain execution waits {HERE}",
        f"get execution waits {HERE}",
        f"compare {HERE} --otherDomain production",
        f"compare {HERE} --at 5 --otherAt 7",
        f"compare execution waits {HERE}",
        "compare cluster c00 --otherCluster c01",
        "where-used pool wide",
        "where-used cluster c00 --reach",
        "where-used token-pool hive",
        "where-used task-resource-attribute limits.memory=4Gi",
        "history 6",
        "history 5..8",
        "delete pool wide --force --dryRun",
        "delete cluster c00 --force --dryRun",
        f"update cluster-pool-attribute {HERE} --clusterPoolName near --dryRun",
    ],
)
def test_an_answer_about_one_thing_fits_100_columns_in_a_pipe(shell: Shell, command: str) -> None:
    printed = shell.ok(f"rainbowctl {command}")
    assert printed
    assert [line for line in printed.splitlines() if len(line) > 100] == []


def test_an_explanation_shows_the_first_candidates_and_the_chosen_one(shell: Shell) -> None:
    explain = f"rainbowctl explain execution waits {HERE}"
    candidates = json.loads(shell.ok(f"{explain} -o json"))["candidates"]
    [chosen] = [candidate["cluster"] for candidate in candidates if candidate.get("chosen")]
    assert len(candidates) == 25
    text, wide = shell.ok(explain), shell.ok(f"{explain} -o wide")

    def named(printed: str) -> set[str]:
        return {line.split()[0] for line in printed.splitlines() if line.startswith("c") and "expected" in line[:30]}

    shown = {candidate["cluster"] for candidate in candidates[:20]} | {chosen}
    assert named(text) == shown
    assert f"{25 - len(shown)} other candidates not shown; `-o wide` shows all.\n" in text
    assert len(named(wide)) == 25
    assert "not shown" not in wide


def test_all_kinds_of_a_scope_say_what_refuses_executions_and_how_to_set_a_value(shell: Shell) -> None:
    shell.ok("rainbowctl update cluster-pool-attribute -p flyteexamples --clusterPoolName nowhere -q")
    text = " ".join(shell.ok("rainbowctl explain -p flyteexamples -d development").split())
    opening = text.partition(" as of revision ")[0]
    assert opening.endswith("; new executions there are refused because of cluster-pool-attribute;")
    command = "rainbowctl update quality-of-service -p flyteexamples -d development …"
    assert f"No value: no level sets one. To set one at project flyteexamples, domain development: {command}" in text
    waits = " ".join(shell.ok(f"rainbowctl explain {HERE}").split()).partition(" as of revision ")[0]
    assert waits.endswith("; new executions there wait because of cluster-pool-attribute;")
