"""Cluster groups and use grants on the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from tests.acceptance.test_rainbowctl_access import cells
from tests.acceptance.test_rainbowctl_users import token_of
from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import Shell


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_a_cluster_group_is_created_changed_shown_and_deleted(shell: Shell) -> None:
    assert (
        "Created cluster-group racks: version 1." in shell.run("rainbowctl create cluster-group racks --cluster b").err
    )
    done = shell.run("rainbowctl update cluster-group racks --addCluster a --removeCluster b")
    assert done.status == 0, done.err
    rows = cells(shell.ok("rainbowctl get cluster-groups"))
    assert [row[:-1] for row in rows] == [["NAME", "CLUSTERS"], ["racks", "a"]]
    shown = json.loads(shell.ok("rainbowctl get cluster-group racks -o json"))
    assert shown == shell.rest("GET", "cluster_groups/racks")
    shell.ok("rainbowctl create use-grant --clusterGroup racks --user ada")
    assert "in use in 1 place" in shell.refused(5, "rainbowctl delete cluster-group racks")
    assert "Deleted cluster-group racks." in shell.run("rainbowctl delete cluster-group racks --force").err


def test_a_use_grant_is_given_shown_and_taken(shell: Shell) -> None:
    create = "rainbowctl create use-grant --pool gpu --group ml"
    assert "nothing was changed" in shell.run(f"{create} --dryRun").err
    assert "No use grants yet" in shell.run("rainbowctl get use-grant").err
    done = shell.run(create)
    assert "Now group ml may use pool gpu: version 1." in done.err
    assert "use grants have no effect" in done.err
    assert "exists already" in shell.refused(5, create)
    shell.ok("rainbowctl create use-grant --cluster east -p flytesnacks")
    assert [row[:-1] for row in cells(shell.ok("rainbowctl get use-grants"))] == [
        ["MAY USE", "WHO"],
        ["cluster east", "project flytesnacks"],
        ["pool gpu", "group ml"],
    ]
    assert shell.ok("rainbowctl get use-grant --group ml -o name") == "use-grant/pool:gpu:group:ml\n"
    shown = json.loads(shell.ok("rainbowctl get use-grant pool:gpu:group:ml -o json"))
    assert shown == shell.rest("GET", "use_grants/pool:gpu:group:ml")
    assert "What may be used?" in shell.refused(2, "rainbowctl create use-grant --user ada")
    assert "Who may use it?" in shell.refused(2, "rainbowctl create use-grant --pool gpu")
    assert "are several" in shell.refused(2, "rainbowctl create use-grant --pool gpu --label gpu --user ada")
    assert "was not taken away" in shell.run("rainbowctl delete use-grant pool:gpu:group:ml --dryRun").err
    assert (
        "Took away the use of pool gpu by group ml."
        in shell.run("rainbowctl delete use-grant --pool gpu --group ml").err
    )
    assert "there is nothing to delete" in shell.run("rainbowctl delete use-grant pool:gpu:group:ml").err
    assert "use-grant" in shell.ok("rainbowctl history use-grant") + shell.run("rainbowctl history use-grant").err


def test_cluster_groups_and_use_grants_as_documents(shell: Shell) -> None:
    documents = [
        {"kind": "cluster-group", "name": "racks", "clusters": ["a", "b"]},
        {"kind": "use-grant", "cluster_group": "racks", "user": "ada"},
        {"kind": "use-grant", "pool": "gpu", "project": "flytesnacks"},
    ]
    (shell.cwd / "use.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))
    assert "create" in shell.run("rainbowctl plan -f use.yaml").out
    shell.ok("rainbowctl apply -f use.yaml --force -m 'who may use'")
    exported = shell.ok("rainbowctl export cluster-group use-grant")
    assert list(yaml.safe_load_all(exported)) == documents
    shell.ok("rainbowctl export cluster-group use-grant --dir out")
    files = sorted(str(path.relative_to(shell.cwd / "out")) for path in (shell.cwd / "out").rglob("*.yaml"))
    assert files == ["cluster-groups/racks.yaml", "use-grants/project-flytesnacks.yaml", "use-grants/user-ada.yaml"]
    (shell.cwd / "bad.yaml").write_text("kind: use-grant\npool: gpu\nuser: ada\nrole: x\n")
    assert "bad.yaml:4:1" in shell.refused(2, "rainbowctl apply -f bad.yaml --force")


@pytest.mark.slow
def test_what_is_told_to_those_who_may_not_use_a_cluster_and_what_a_dry_run_tells(tmp_path: Path) -> None:
    (tmp_path / "closed.yaml").write_text("placement: {clusterUse: closed}\n")
    with running_admin(tmp_path, "--config", str(tmp_path / "closed.yaml")) as admin:
        shell = Shell(admin, tmp_path)
        shell.environment["RAINBOW_TOKEN"] = token_of(tmp_path, "root", "--create")
        for user, role in (("ada", "submitter"), ("bob", "editor")):
            shell.ok(f"rainbowctl create user {user}")
            shell.ok(f"rainbowctl create grant {role} --user {user}")
        ada, bob = (token_of(tmp_path, user) for user in ("ada", "bob"))
        shell.ok("rainbowctl create pool gpu --member secret --member other")
        for cluster in ("secret", "other"):
            shell.ok(f"rainbowctl create use-grant --cluster {cluster} --user ada")
        time.sleep(1.1)  # every worker knows of a grant within a second
        job = "-p flytesnacks -d development --clusterPool gpu -- true"
        shell.ok(f"rainbowctl create execution waits {job}", RAINBOW_TOKEN=ada)
        taken = shell.run("rainbowctl delete use-grant cluster:secret:user:ada cluster:other:user:ada --dryRun")
        assert "Executions: 1 would wait" in taken.out + taken.err
        assert "waits" in taken.out
        shell.ok("rainbowctl create cluster-group racks --cluster secret")
        for command, end in (
            ("delete grant submitter --user ada", "was not taken away."),
            ("delete user ada", "would be deleted."),
            ("create grant viewer --user bob -d production", "was not given."),
            ("create user eve", "would be created."),
            ("create cluster-group spare --cluster other", "would be created."),
            ("update cluster-group racks --addCluster other", "nothing was written."),
            ("delete cluster-group racks", "would be deleted."),
        ):
            tried = shell.run(f"rainbowctl {command} --dryRun")
            planned = json.loads(shell.ok(f"rainbowctl {command} --dryRun -o json"))["executions"]
            waits = command.endswith("ada")
            assert (tried.status, len(planned["effects"])) == (0, int(waits)), command
            told = "1 would wait." if waits else "no execution would move or be ended."
            assert f"Executions: {told}" in tried.out, command
            assert ("waits" in tried.out, end in tried.err) == (waits, True), command
        shell.ok("rainbowctl cordon secret other")
        where = "-p flytesnacks -d development"
        shell.ok(f"rainbowctl create execution second {job}", RAINBOW_TOKEN=ada)
        asked = f"rainbowctl explain execution second {where}"
        assert "'secret'" in " ".join(shell.ok(asked, RAINBOW_TOKEN=ada).split())
        told = " ".join(shell.ok(asked, RAINBOW_TOKEN=bob).split())
        assert "2 clusters you may not use" in told
        assert "secret" not in told
        assert "secret" not in shell.ok(f"rainbowctl get execution second {where} -o json", RAINBOW_TOKEN=bob)
        shell.ok("rainbowctl disable secret other")
        (shell.cwd / "label.yaml").write_text(
            "kind: execution-cluster-label\nproject: flytesnacks\ndomain: development\nvalue: mycluster\n"
        )
        simulated = " ".join(shell.ok("rainbowctl simulate --with label.yaml --since 1h", RAINBOW_TOKEN=bob).split())
        assert "2 clusters you may not use" in simulated
