"""A week of a team that keeps its settings in a repository."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.test_changes_apply import head
from tests.support.admins import RunningAdmin
from tests.support.shells import Shell


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    shell = Shell(admin, tmp_path)
    shell.environment |= {
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "ann@example.org",
    }
    return shell


def test_a_teams_week(shell: Shell) -> None:
    # Monday: what the platform holds already becomes a repository.
    shell.ok("rainbowctl update task-resource-attribute -d development --limits.cpu 4 --limits.memory 2Gi")
    shell.ok("rainbowctl update execution-cluster-label -p flytesnacks -d production --value mycluster")
    shell.ok("git init -q settings && rainbowctl export --dir settings")
    shell.ok("cd settings && git add . && git commit -qm 'As it is'")
    assert shell.run("rainbowctl diff -f settings").status == 0

    # Tuesday: a change is made in a file; the check of the merge request sees it, and a plan is reviewed.
    limits = shell.cwd / "settings/domains/development.yaml"
    limits.write_text(limits.read_text().replace("memory: 2Gi", "memory: 4Gi"))
    differs = shell.run("rainbowctl diff -f settings")
    assert differs.status == 1
    assert "-  memory: 2Gi\n+  memory: 4Gi\n" in differs.out
    shell.ok("rainbowctl plan -f settings --out tuesday.plan")
    shell.ok("cd settings && git commit -qam 'More memory for development'")
    shell.ok("rainbowctl apply tuesday.plan -m 'More memory for development'")
    assert shell.run("rainbowctl diff -f settings").status == 0

    # Wednesday: someone is in a hurry, and types a wrong limit past the repository.
    shell.ok("rainbowctl update task-resource-attribute -d development --limits.memory 4Mi -m 'quick fix'", USER="bob")
    assert shell.run("rainbowctl diff -f settings").status == 1

    # Thursday: executions fail. Who changed the memory of development?
    revisions = json.loads(shell.ok("rainbowctl history task-resource-attribute -d development --since 24h -o json"))
    assert [revision.get("message") for revision in revisions] == ["quick fix", "More memory for development", None]
    bad = revisions[0]["number"]
    table = shell.ok("rainbowctl history --since 24h")
    assert re.search(rf"^{bad} .* update task-resource-attribute at domain development: .* +quick fix$", table, re.M)
    output = shell.ok(f"rainbowctl history {bad}")
    assert "-  memory: 4Gi\n+  memory: 4Mi\n" in output
    shell.ok(f"rainbowctl rollback {bad} -m 'Executions ran out of memory'")

    # Friday: the repository and the platform agree, and an export changes no file.
    assert shell.run("rainbowctl diff -f settings --prune -A").status == 0
    shell.ok("rainbowctl export --dir settings --force")
    assert shell.ok("cd settings && git status --porcelain") == ""
    assert head(shell) == 5
