"""Token pools on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.acceptance.test_rainbowctl_access import cells
from tests.support.admins import RunningAdmin
from tests.support.shells import Shell

CREATE = "rainbowctl create token-pool hive --capacity 2 --projectCap 1"


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def claim(shell: Shell, token: str) -> None:
    place = {"project": "flytesnacks", "domain": "development"}
    body = {"claim": {"token": token, "pools": {"hive": 1}, **place, "execution": "run1", "wait_seconds": 60}}
    shell.rest("POST", "token_allocations", body)


def test_a_token_pool_is_created_changed_shown_and_deleted(shell: Shell) -> None:
    assert "Created token-pool hive: version 1." in shell.run(CREATE).err
    assert "exists already" in shell.refused(5, CREATE)
    shell.ok("rainbowctl update token-pool hive --capacity 3 --executionCap 1 --description Connections")
    assert cells(shell.ok("rainbowctl get token-pools")) == [
        ["NAME", "CAPACITY", "USED", "FREE", "WAITING"],
        ["hive", "3", "0", "3", "0"],
    ]
    shown = json.loads(shell.ok("rainbowctl get token-pool hive -o json"))
    assert shown == shell.rest("GET", "token_pools/hive")
    assert (shown["caps"], shown["description"]) == ({"project": 1, "execution": 1}, "Connections")
    for token in ("etl-1", "etl-2"):
        claim(shell, token)
    text = shell.ok("rainbowctl get token-pool hive")
    assert "token pool hive: 1 of 3 tokens are held, 2 are free; 1 in line" in text
    assert "project 1, execution 1" in text
    assert "flytesnacks/development/run1" in text
    assert text.index("etl-1") < text.index("PLACE") < text.index("etl-2")
    assert "holds 1 of it" in shell.refused(5, "rainbowctl delete token-pool hive")
    assert "Deleted token-pool hive." in shell.run("rainbowctl delete token-pool hive --force").err


def test_bad_flags_change_nothing(shell: Shell) -> None:
    assert "-1" in shell.refused(2, "rainbowctl create token-pool hive --capacity -1")
    assert "'2.5' is not a valid whole number." in shell.refused(2, "rainbowctl create token-pool hive --capacity 2.5")
    assert "capacity: is missing" in shell.refused(2, "rainbowctl create token-pool hive")
    assert "is not a token pool's name" in shell.refused(2, f"rainbowctl create token-pool {'x' * 300} --capacity 1")
    assert shell.rest("GET", "token_pools")["token_pools"] == []


def test_a_token_pool_is_a_document(shell: Shell) -> None:
    document = {"kind": "token-pool", "name": "hive", "capacity": 0, "caps": {"namespace": 2}}
    (shell.cwd / "pool.yaml").write_text(yaml.safe_dump(document))
    assert "hive" in shell.ok("rainbowctl plan -f pool.yaml")
    shell.ok("rainbowctl apply -f pool.yaml")
    assert yaml.safe_load(shell.ok("rainbowctl export token-pool")) == document
    shell.ok("rainbowctl create token-pool spark -f -", stdin="name: spark\ncapacity: 4\n")
    assert "token-pool hive" in shell.ok("rainbowctl history token-pool hive")
    shell.ok("rainbowctl rollback 1")
    assert [pool["name"] for pool in shell.rest("GET", "token_pools")["token_pools"]] == ["spark"]


def test_where_a_token_pool_is_used(shell: Shell) -> None:
    assert "No token-pool is called 'hive'." in shell.refused(3, "rainbowctl where-used token-pool hive")
    shell.ok(CREATE)
    assert "Nothing uses token-pool 'hive'" in shell.ok("rainbowctl where-used token-pool hive")
    here = {"project": "flytesnacks", "domain": "development"}
    workflow = {**here, "name": "etl", "version": "v1"}
    spec = {"job": {"command": ["true"], "token_pools": {"hive": 1}}}
    shell.rest("POST", "workflows", {"id": workflow, "spec": spec})
    plan = {"id": {**here, "name": "nightly", "version": "v2"}, "spec": {"workflow_id": workflow}, "state": "ACTIVE"}
    shell.rest("POST", "launch_plans", plan)
    shell.ok("rainbowctl update token-pool-quota -p flytesnacks --set pools.hive=1")
    shell.ok("rainbowctl create execution e -p flytesnacks -d development --tokenPool hive=1 -- true")
    text = " ".join(shell.ok("rainbowctl where-used token-pool hive").split())
    assert "token-pool hive is set 1 time;" in text
    assert "1 launch plan and 1 workflow ask for it; without it executions would be refused of 2;" in text
    assert "pools.hive=1" in text
    wide = " ".join(shell.ok("rainbowctl where-used token-pool hive -o wide").split())
    assert "(version v2) 1 workflow version v1 refused" in wide
    assert "(version v1) 1 its definition refused" in wide
    assert "Executions that have not ended: 1 QUEUED." in text
    assert json.loads(shell.ok("rainbowctl where-used token-pool hive -o json")) == shell.rest(
        "GET", "uses?token_pool=hive"
    )
    assert "Which token-pool?" in shell.refused(2, "rainbowctl where-used token-pool")


def test_the_tokens_that_an_execution_needs_are_the_same_as_text_as_json_and_by_rest(shell: Shell) -> None:
    shell.ok(CREATE)
    shell.ok("rainbowctl create execution e -p flytesnacks -d development --tokenPool hive=1 -q -- true")
    explain = "rainbowctl explain execution e -p flytesnacks -d development"
    explanation = shell.rest("GET", "executions/flytesnacks/development/e/explanation")
    status = explanation["status"]
    assert (status["token_pools"], status["holds_tokens"]) == ({"hive": 1}, False)
    told = json.loads(shell.ok(f"{explain} -o json"))["status"]
    assert (told["token_pools"], told["holds_tokens"]) == (status["token_pools"], status["holds_tokens"])
    assert "tokens    needs 1 of hive\n" in shell.ok(explain)
