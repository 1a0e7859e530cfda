"""Two teams on one admin, as five users with different roles meet it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.test_rainbowctl_users import token_of
from tests.support.admins import RunningAdmin
from tests.support.shells import Done, Shell
from tests.support.waiting import wait_until

BLUE, RED = "flytesnacks", "flyteexamples"
#: A project that does not exist, and that no known one is called like.
ABSENT = "aurora"
#: Who has which role, where.
ROLES = {
    "bea": f"editor -p {BLUE}",
    "vic": f"viewer -p {BLUE}",
    "rex": f"submitter -p {RED} -d development",
    "olga": "operator",
}


@dataclass(frozen=True)
class Person:
    """A user at a terminal."""

    shell: Shell
    token: str

    def run(self, command: str) -> Done:
        return self.shell.run(f"rainbowctl {command}", RAINBOW_TOKEN=self.token)

    def ok(self, command: str) -> str:
        return self.shell.ok(f"rainbowctl {command}", RAINBOW_TOKEN=self.token)

    def refused(self, status: int, command: str) -> str:
        return " ".join(self.shell.refused(status, f"rainbowctl {command}", RAINBOW_TOKEN=self.token).split())


People = dict[str, Person]


@pytest.fixture
def people(admin: RunningAdmin, tmp_path: Path) -> People:
    """Root, and everybody whom root has given a role; with two clusters, oak for everybody and elm."""
    shell = Shell(admin, tmp_path)
    root = Person(shell, token_of(tmp_path, "root", "--create"))
    for cluster in ("oak", "elm"):
        root.ok(f"create cluster {cluster}")
    people = {"root": root}
    for name, grant in ROLES.items():
        root.ok(f"create user {name}")
        role, _, where = grant.partition(" ")
        root.ok(f"create grant {role} --user {name} {where}")
        people[name] = Person(shell, json.loads(root.ok(f"create user-token {name} laptop -o json"))["token"])
    time.sleep(1.1)  # every worker knows of a grant within a second
    for project in (BLUE, RED):
        setting = f"domain: development\nproject: {project}\nvalue: label-of-{project}\n"
        (shell.cwd / f"{project}.yaml").write_text(setting)
    return people


def names(text: str) -> set[str]:
    """The names of what is listed, without its noun."""
    return {line.rpartition("/")[2] for line in text.split()}


@pytest.mark.slow
def test_nobody_sees_or_changes_what_is_of_the_other_team(people: People) -> None:
    root, bea, vic, rex = (people[name] for name in ("root", "bea", "vic", "rex"))
    update = "update execution-cluster-label --force --attrFile"
    bea.ok(f"{update} {BLUE}.yaml")
    root.ok(f"{update} {RED}.yaml")
    for person, own, foreign in ((bea, BLUE, RED), (vic, BLUE, RED), (rex, RED, BLUE)):
        assert names(person.ok("get project -o name")) == {own}
        assert f"label-of-{own}" in person.ok(f"get execution-cluster-label -p {own} -d development")
        for command in (
            "get execution-cluster-label -p {} -d development",
            "explain execution-cluster-label -p {} -d development",
            "get execution -p {} -d development",
            "history -p {} -d development",
            "create execution -p {} -d development -- sleep 60",
            "get access -p {} -d development",
        ):
            refusal = person.refused(2, command.format(foreign))
            assert refusal == person.refused(2, command.format(ABSENT)).replace(ABSENT, foreign), command
        assert foreign not in person.ok("history")
        assert f"label-of-{foreign}" not in person.ok("history -o json")
    # Of their own they may do what their roles say.
    for command in (f"{update} {BLUE}.yaml", f"create execution -p {BLUE} -d development -- sleep 60"):
        refusal = vic.refused(4, command)
        assert "User vic lacks the permission" in refusal
        assert "rainbowctl explain access vic" in refusal
    assert "lacks the permission attributes.write" in rex.refused(4, f"{update} {RED}.yaml")
    for person in (bea, vic, rex, people["olga"]):
        assert "grants.write" in person.refused(4, "create grant viewer --user vic")
    exported = bea.run("export")
    assert f"label-of-{BLUE}" in exported.out
    assert f"label-of-{RED}" not in exported.out
    assert "Users left out: User bea lacks the permission users.read" in " ".join(exported.err.split())
    [revision] = json.loads(bea.ok(f"history execution-cluster-label -p {BLUE} -o json"))
    assert (revision["author"], revision["proof"]) == ("bea", "token")


@pytest.mark.slow
def test_nobody_ends_or_reads_executions_of_the_other_team(people: People) -> None:
    bea, vic, rex, olga = (people[name] for name in ("bea", "vic", "rex", "olga"))
    bea.ok(f"create execution blue -p {BLUE} -d development --cluster oak -- sleep 60")
    rex.ok(f"create execution red -p {RED} -d development --cluster oak -- sleep 60")
    assert names(bea.ok("get execution -A -o name")) == names(vic.ok("get execution -A -o name")) == {"blue"}
    assert names(rex.ok("get execution -A -o name")) == {"red"}
    assert names(olga.ok("get execution -A -o name")) == {"red", "blue"}
    for command in ("get", "explain", "delete", "get logs"):
        verb, _, noun = command.partition(" ")
        asked = f"{verb} {noun or 'execution'} {{}} -p {{}} -d development"
        refusal = rex.refused(2, asked.format("blue", BLUE))
        assert refusal == rex.refused(2, asked.format("blue", ABSENT)).replace(ABSENT, BLUE)
    assert "lacks the permission executions.end" in vic.refused(4, f"delete execution blue -p {BLUE} -d development")
    text = bea.ok("get execution -A --by creator")
    assert "bea" in text
    assert "rex" not in text
    rex.ok(f"delete execution red -p {RED} -d development")
    assert json.loads(olga.ok(f"get execution red -p {RED} -d development -o json"))["closure"]["phase"] == "ABORTED"
    assert json.loads(olga.ok(f"get execution blue -p {BLUE} -d development -o json"))["closure"]["phase"] == "QUEUED"


@pytest.mark.slow
def test_the_operator_runs_the_clusters_and_nobody_else_does(people: People) -> None:
    bea, rex, olga = (people[name] for name in ("bea", "rex", "olga"))
    rex.ok(f"create execution red -p {RED} -d development -- sleep 60")
    [cluster] = {execution["cluster"] for execution in json.loads(olga.ok("get execution -A -o json"))}
    for person in (bea, rex):
        assert "lacks the permission clusters.switch on platform" in person.refused(4, f"drain cluster {cluster}")
    assert "lacks the permission attributes.write" in olga.refused(
        4, f"update execution-cluster-label --attrFile {BLUE}.yaml"
    )
    olga.ok(f"drain cluster {cluster} --reason 'new disks'")

    def is_elsewhere() -> bool:
        red = json.loads(rex.ok(f"get execution red -p {RED} -d development -o json"))
        return red["cluster"] not in (cluster, None)

    wait_until(is_elsewhere, 30)
    assert "olga" in rex.ok(f"get cluster {cluster} -o yaml")
