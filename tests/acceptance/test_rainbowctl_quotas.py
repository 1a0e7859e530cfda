"""Quotas on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.test_rainbowctl_access import cells
from tests.support.admins import RunningAdmin
from tests.support.shells import Shell

HERE = "-p flytesnacks -d development"


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_quotas_are_set_shown_explained_and_deleted(shell: Shell) -> None:
    (shell.cwd / "f.yaml").write_text("domain: development\nwaiting: 2\nrunning: 9\n")
    shell.ok("rainbowctl update execution-quota --attrFile f.yaml --force -m shared")
    shell.ok(f"rainbowctl update execution-quota {HERE} --running 3 --force")
    usage = f"rainbowctl get execution-quota {HERE} --usage"
    assert [row[2:5] for row in cells(shell.ok(usage))] == [
        ["FIELD", "USED", "LIMIT"],
        ["running", "0", "9"],
        ["waiting", "0", "2"],
        ["running", "0", "3"],
    ]
    rest = shell.rest("GET", "quota_usage?project=flytesnacks&domain=development")
    assert json.loads(shell.ok(f"{usage} -o json")) == rest
    explained = shell.ok(f"rainbowctl explain execution-quota {HERE}")
    assert "Every row holds, for the sum of everything at and below its scope; the tightest is shown" in explained
    for name in ("a", "b"):
        shell.ok(f"rainbowctl create execution {HERE} {name} -- true")
    users = [row[7] for row in cells(shell.ok(usage))]
    assert users[0] == "USED BY"
    assert (users[2][:9], users[2][-2:]) == ("anonymous", " 2")
    assert cells(shell.ok(f"{usage} --by project"))[2][7] == "flytesnacks 2"
    assert "give --usage too" in shell.refused(2, f"rainbowctl get execution-quota {HERE} --by user")
    refused = shell.run(f"rainbowctl create execution {HERE} c -- true")
    assert refused.status != 0
    assert "2 of 2 executions wait, by waiting of the execution-quota at domain development" in refused.err
    shell.ok("rainbowctl delete execution-quota -d development --force")
    shell.ok(f"rainbowctl create execution {HERE} c -- true")


def test_a_quota_of_tokens_is_written_by_a_file_and_warns_of_an_unknown_pool(shell: Shell) -> None:
    (shell.cwd / "f.yaml").write_text("project: flytesnacks\npools:\n  hive: 5\n")
    written = shell.run("rainbowctl update token-pool-quota --attrFile f.yaml --force")
    assert "No token pool is called 'hive' yet." in written.err
    assert "pools.hive" in shell.ok("rainbowctl get no-effect")
    assert "5" in shell.ok("rainbowctl get token-pool-quota -p flytesnacks")
    assert "--usage is for execution-quota only" in shell.refused(
        2, "rainbowctl get token-pool-quota -p flytesnacks --usage"
    )
