"""Groups, grants, roles and access on the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from tests.acceptance.test_rainbowctl_users import token_of
from tests.support.admins import RunningAdmin
from tests.support.shells import Shell


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def cells(text: str) -> list[list[str]]:
    """The cells of a plain table, whose columns are two spaces apart."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_a_group_is_created_changed_shown_and_deleted(shell: Shell) -> None:
    done = shell.run("rainbowctl create group ml --user otto --user ada --description Learning --dryRun")
    assert (done.status, done.out) == (0, "Executions: no execution would move or be ended.\n")
    assert "Dry run: group ml would be created.\n" in done.err
    shell.refused(3, "rainbowctl get group ml")
    assert "Created group ml: version 1." in shell.run("rainbowctl create group ml --user otto --user ada").err
    assert "exists already" in shell.refused(5, "rainbowctl create group ml")
    done = shell.run("rainbowctl update group ml --addUser mia --removeUser otto --addGroup ops --description d")
    assert done.status == 0, done.err
    assert "+- mia" in done.out
    assert "-- otto" in done.out
    assert "No group is called 'ops'" in done.err
    assert [row[:-1] for row in cells(shell.ok("rainbowctl get groups"))] == [
        ["NAME", "USERS", "GROUPS"],
        ["ml", "ada, mia", "ops"],
    ]
    assert json.loads(shell.ok("rainbowctl get group ml -o json")) == shell.rest("GET", "groups/ml")
    assert shell.ok("rainbowctl get group -o name") == "group/ml\n"
    assert "there is no such member. Did you mean mia?" in shell.refused(
        2, "rainbowctl update group ml --removeUser mi"
    )
    assert "keep one way" in shell.refused(2, "rainbowctl update group ml --user a --addUser b")
    shell.ok("rainbowctl create grant viewer --group ml")
    assert "in use in 1 place" in shell.refused(5, "rainbowctl delete group ml")
    assert "Deleted group ml." in shell.run("rainbowctl delete group ml --force").err
    assert "there is nothing to delete" in shell.run("rainbowctl delete group ml").err


def test_a_group_from_a_file(shell: Shell) -> None:
    (shell.cwd / "group.yaml").write_text("name: ml\nusers: [ada]\n")
    shell.ok("rainbowctl create group --file group.yaml")
    (shell.cwd / "bad.yaml").write_text("name: ml\nusers: [ada]\nmembers: [x]\n")
    assert "bad.yaml:3:1" in shell.refused(2, "rainbowctl create group --file bad.yaml")
    assert shell.rest("GET", "groups/ml")["users"] == ["ada"]


def test_a_grant_is_given_shown_and_taken(shell: Shell) -> None:
    create = "rainbowctl create grant editor --group ml -p flytesnacks -d development"
    done = shell.run(f"{create} --dryRun")
    assert "Dry run: editor to group ml on project flytesnacks, domain development was not given." in done.err
    assert shell.rest("GET", "grants") == {"grants": []}
    assert "Gave editor to group ml on project flytesnacks, domain development: version 1." in shell.run(create).err
    assert "exists already" in shell.refused(5, create)
    shell.ok("rainbowctl create grant viewer --user ada -d production -m 'she asked'")
    shell.ok("rainbowctl create grant admin --user root")
    assert [row[:-1] for row in cells(shell.ok("rainbowctl get grant -A"))] == [
        ["ROLE", "GRANTEE", "ON"],
        ["admin", "user root", "the platform"],
        ["editor", "group ml", "project flytesnacks, domain development"],
        ["viewer", "user ada", "domain production"],
    ]
    wide = shell.ok("rainbowctl get grants --user ada -o wide")
    assert "viewer:user:ada::production" in wide
    assert "'she asked'" in wide
    assert shell.ok("rainbowctl get grant -p flytesnacks -o name") == "grant/editor:group:ml:flytesnacks:development\n"
    grant = json.loads(shell.ok("rainbowctl get grant viewer:user:ada::production -o json"))
    assert grant == shell.rest("GET", "grants/viewer:user:ada::production")
    assert "Who has the role?" in shell.refused(2, "rainbowctl create grant editor")
    assert "unknown role 'editr'" in shell.refused(2, "rainbowctl create grant editr --user ada")
    assert "No project is called" in shell.refused(2, "rainbowctl create grant viewer --user ada -p nope")
    done = shell.run("rainbowctl delete grant viewer --user ada -d production --dryRun")
    assert "Dry run: viewer of user ada on domain production was not taken away." in done.err
    done = shell.run("rainbowctl delete grant viewer --user ada -d production")
    assert "Took away viewer of user ada on domain production." in done.err
    done = shell.run("rainbowctl delete grant viewer:user:ada::production")
    assert done.status == 0
    assert "There is no grant viewer:user:ada::production" in done.err
    assert "go with --user or --group" in shell.refused(2, "rainbowctl delete grant editor -p flytesnacks")


def test_the_last_administrator_stays(shell: Shell, tmp_path: Path) -> None:
    shell.environment["RAINBOW_TOKEN"] = token_of(tmp_path, "root", "--create")
    message = shell.refused(5, "rainbowctl delete grant admin:user:root")
    assert "Nobody would be left who may do everything" in message
    assert "Nobody would be left" in shell.refused(5, "rainbowctl rollback 2 --force --dryRun")
    shell.ok("rainbowctl create user eve")
    shell.ok("rainbowctl create grant admin --user eve")
    message = shell.refused(5, "rainbowctl delete grant admin:user:root")
    assert "`rainbowctl create user-token eve NAME`" in " ".join(message.split())
    shell.ok("rainbowctl create user-token eve laptop")
    shell.ok("rainbowctl delete grant admin:user:root")


def test_the_administrator_of_a_project_has_the_history_of_its_grants(shell: Shell, tmp_path: Path) -> None:
    root = token_of(tmp_path, "root", "--create")
    shell.environment["RAINBOW_TOKEN"] = root
    shell.ok("rainbowctl create user mia")
    shell.ok("rainbowctl create grant admin --user mia -p flytesnacks")
    shell.ok("rainbowctl create grant viewer --user otto -d production")
    shell.ok("rainbowctl create pool gpu --member east --strategy spill")
    shell.environment["RAINBOW_TOKEN"] = token_of(tmp_path, "mia")
    time.sleep(1.1)  # every worker knows of a grant within a second
    shell.ok("rainbowctl create grant viewer --user otto -p flytesnacks -m 'for the summer'")
    text = shell.ok("rainbowctl history grant")
    assert "for the summer" in text
    assert "production" not in text
    [last, first] = json.loads(shell.ok("rainbowctl history grant -o json"))
    assert (last["author"], first["author"]) == ("mia", "root")
    exported = list(yaml.safe_load_all(shell.ok("rainbowctl export grant")))
    assert exported == [
        {"kind": "grant", "role": "admin", "user": "mia", "project": "flytesnacks"},
        {"kind": "grant", "role": "viewer", "user": "otto", "project": "flytesnacks"},
    ]
    whole = shell.run("rainbowctl export")
    kinds = [document["kind"] for document in yaml.safe_load_all(whole.out)]
    assert kinds == ["project", "pool", "grant", "grant"]
    assert "Users left out: User mia lacks the permission users.read" in " ".join(whole.err.split())
    exported_pool = shell.ok("rainbowctl export pool")
    assert exported_pool == shell.ok("rainbowctl export pool", RAINBOW_TOKEN=root)
    assert "strategy: spill" in exported_pool
    shell.ok(f"rainbowctl rollback {last['number']} --force")
    assert [grant["user"] for grant in json.loads(shell.ok("rainbowctl get grant -o json"))] == ["mia"]
    [undone, *_] = json.loads(shell.ok("rainbowctl history grant -o json"))
    assert (undone["author"], undone["undone"]) == ("mia", last["number"])


def test_the_project_of_the_context_plays_no_part_in_a_grant(shell: Shell) -> None:
    shell.ok("rainbowctl create grant viewer --user ada", RAINBOW_PROJECT="flytesnacks")
    assert [grant["name"] for grant in shell.rest("GET", "grants")["grants"]] == ["viewer:user:ada"]


def test_roles_and_their_permissions(shell: Shell) -> None:
    rows = cells(shell.ok("rainbowctl get role"))
    assert [row[0] for row in rows] == ["NAME", "viewer", "submitter", "editor", "operator", "admin"]
    text = shell.ok("rainbowctl get role operator")
    assert (
        "Role operator: a viewer who also runs the clusters and token pools, sets quotas and ends executions." in text
    )
    assert "clusters.switch" in text
    assert json.loads(shell.ok("rainbowctl get role viewer -o json")) == shell.rest("GET", "roles")["roles"][0]
    assert "Did you mean viewer?" in shell.refused(3, "rainbowctl get role view")


def test_who_may_do_what_and_why(shell: Shell) -> None:
    shell.ok("rainbowctl create group ml --user ada --user otto")
    shell.ok("rainbowctl create grant admin --user root")
    shell.ok("rainbowctl create grant editor --group ml -p flytesnacks")
    where = "-p flytesnacks -d development"
    assert cells(shell.ok(f"rainbowctl get access {where}")) == [
        ["ROLE", "GRANTEE", "ON", "USERS"],
        ["admin", "user root", "the platform", "root"],
        ["editor", "group ml", "project flytesnacks", "ada, otto"],
    ]
    answer = json.loads(shell.ok(f"rainbowctl get access {where} -o json"))
    assert answer == shell.rest("GET", "access?project=flytesnacks&domain=development")
    text = shell.ok(f"rainbowctl explain access ada attributes.write {where}")
    assert (
        "User ada has attributes.write on project-domain flytesnacks/development, by editor for group ml"
        in " ".join(text.split())
    )
    document = json.loads(shell.ok(f"rainbowctl explain access ada attributes.write {where} -o json"))
    path = "access/explanation?user=ada&permission=attributes.write&project=flytesnacks&domain=development"
    assert document == shell.rest("GET", path)
    text = " ".join(shell.ok("rainbowctl explain access ada fleet.write").split())
    assert "lacks fleet.write on platform" in text
    assert "Who could give it: user root." in text
    assert "has logs.read" in shell.ok(f"rainbowctl explain access group:ml logs.read {where}")
    assert "Who, and what?" in shell.refused(2, "rainbowctl explain access ada")
    assert "Did you mean 'logs.read'" in shell.refused(2, "rainbowctl explain access ada log.read")
    assert "one word too many" in shell.refused(2, f"rainbowctl explain all w nonsense {where}")
    text = " ".join(shell.ok("rainbowctl explain access shared-token fleet.write").split())
    assert "this admin has no shared token, so nobody calls by that name" in text


def test_groups_and_grants_as_documents(shell: Shell) -> None:
    documents = (
        "kind: group\nname: ml\nusers: [otto, ada]\n---\n"
        "kind: grant\nrole: editor\ngroup: ml\nproject: flytesnacks\ndomain: development\n---\n"
        "kind: grant\nrole: admin\nuser: root\n"
    )
    (shell.cwd / "access.yaml").write_text(documents)
    difference = shell.run("rainbowctl diff -f access.yaml")
    assert difference.status == 1
    assert "grant admin:user:root" in difference.out
    shell.ok("rainbowctl apply -f access.yaml --force -m 'who may'")
    assert shell.rest("GET", "revisions?limit=1")["head"] == 1
    exported = shell.ok("rainbowctl export group grant")
    assert list(yaml.safe_load_all(exported)) == [
        {"kind": "group", "name": "ml", "users": ["ada", "otto"]},
        {"kind": "grant", "role": "admin", "user": "root"},
        {"kind": "grant", "role": "editor", "group": "ml", "project": "flytesnacks", "domain": "development"},
    ]
    (shell.cwd / "again.yaml").write_text(exported)
    shell.ok("rainbowctl apply -f again.yaml --force")
    assert shell.rest("GET", "revisions?limit=1")["head"] == 1
    shell.ok("rainbowctl export --dir out")
    assert {str(path.relative_to(shell.cwd)) for path in (shell.cwd / "out").glob("gr*/*")} == {
        "out/groups/ml.yaml",
        "out/grants/user-root.yaml",
        "out/grants/group-ml.yaml",
    }
    (shell.cwd / "bad.yaml").write_text("kind: grant\nrole: editr\nuser: ada\n---\nkind: group\nusers: [x]\n")
    assert "bad.yaml:5:1: lacks name: which group?" in shell.refused(2, "rainbowctl apply -f bad.yaml")
    (shell.cwd / "bad.yaml").write_text("kind: grant\nrole: editr\nuser: ada\n")
    assert "bad.yaml:2:7" in shell.refused(2, "rainbowctl apply -f bad.yaml")
    (shell.cwd / "twice.yaml").write_text(
        "kind: grant\nrole: viewer\nuser: ada\n---\nkind: grant\nuser: ada\nrole: viewer\n"
    )
    shell.refused(2, "rainbowctl apply -f twice.yaml")
    history = shell.ok("rainbowctl history grant")
    assert "who may" in history
    shell.ok("rainbowctl history group ml")
    shell.ok("rainbowctl rollback 1 --force")
    assert shell.rest("GET", "grants") == {"grants": []}
