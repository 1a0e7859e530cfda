"""Clusters, pools and labels on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.admins import RunningAdmin, running_admin
from tests.support.ages import AGE
from tests.support.shells import Shell


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("fleet")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


@pytest.fixture
def new_shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def cells(text: str) -> list[list[str]]:
    """The cells of a plain table, whose columns are two spaces apart."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def test_a_pool_is_created_shown_changed_and_deleted(new_shell: Shell) -> None:
    create = "rainbowctl create pool gpu --member east=6 --member west --strategy spill -m 'gpus for all'"
    done = new_shell.run(f"{create} --dryRun")
    assert (done.status, done.out) == (0, "Executions: no execution would move or be ended.\n")
    assert "Dry run: pool gpu would be created.\n" in done.err
    new_shell.refused(3, "rainbowctl get pool gpu")

    done = new_shell.run(create)
    assert (done.status, done.out) == (0, "")
    assert "Created pool gpu: version 1.\n" in done.err
    assert "warning: " in done.err
    assert "'east'" in done.err
    assert "exists already" in new_shell.refused(5, create)
    assert new_shell.rest("GET", "revisions/1")["message"] == "gpus for all"

    assert [row[:-1] for row in cells(new_shell.ok("rainbowctl get pools"))] == [
        ["NAME", "STRATEGY", "MEMBERS", "ABLE", "FREE", "SOURCE"],
        ["gpu", "spill", "east:6, west:1", "0 of 2", "-", "managed"],
    ]
    assert cells(new_shell.ok("rainbowctl get pool gpu -o wide"))[-1][7:9] == ["east, west", "1"]
    assert new_shell.ok("rainbowctl get pool -o name") == "pool/gpu\n"
    assert json.loads(new_shell.ok("rainbowctl get pool gpu -o json")) == new_shell.rest("GET", "pools/gpu")
    assert yaml.safe_load(new_shell.ok("rainbowctl get pool -o yaml")) == new_shell.rest("GET", "pools")["pools"]

    done = new_shell.run("rainbowctl update pool gpu --addMember north=2 --removeMember west --description fast")
    assert done.status == 0
    assert done.out == (
        "pool gpu\n--- version 1\n+++ after this update\n@@ -1,6 +1,7 @@\n members:\n - id: east\n   weight: 6\n"
        "-- id: west\n-  weight: 1\n+- id: north\n+  weight: 2\n strategy: spill\n+description: fast\n"
    )
    assert "Updated pool gpu: version 2.\n" in done.err
    done = new_shell.run("rainbowctl update pool gpu --strategy spill")
    assert (done.status, done.out) == (0, "")
    assert "No changes: pool gpu is already as requested.\n" in done.err
    new_shell.ok("rainbowctl update pool gpu --member north --description '' --dryRun")
    assert "keep one way" in new_shell.refused(2, "rainbowctl update pool gpu --member a --addMember b")
    message = new_shell.refused(2, "rainbowctl update pool gpu --removeMember nort")
    assert "there is no such member. Did you mean north?" in message
    assert new_shell.rest("GET", "pools/gpu")["version"] == 2
    new_shell.ok("rainbowctl update pool gpu --member north=0.5 --description '' -m smaller")
    pool = new_shell.rest("GET", "pools/gpu")
    assert pool["members"] == [{"id": "north", "weight": 0.5, "expected": True}]
    assert "description" not in pool

    done = new_shell.run("rainbowctl delete pool gpu no-such --dryRun")
    assert (done.status, done.out) == (0, "Executions: no execution would move or be ended.\n")
    assert done.err == ("There is no pool no-such: there is nothing to delete.\nDry run: pool gpu would be deleted.\n")
    done = new_shell.run("rainbowctl delete cluster north --force --dryRun")
    assert (done.status, done.err) == (
        0,
        "Cluster north is not defined, only named by pool gpu: there is nothing to delete. Take it out of the members "
        "there, and it is gone.\n",
    )
    done = new_shell.run("rainbowctl delete pool gpu -m 'sold'")
    assert (done.status, done.out, done.err) == (0, "", "Deleted pool gpu.\n")
    number = new_shell.rest("GET", "revisions")["head"]
    message = new_shell.refused(3, "rainbowctl get pool gpu")
    assert message.startswith(f"error: The pool 'gpu' was deleted by revision {number}, anonymous (says ")
    error = json.loads(new_shell.run("rainbowctl get pool gpu -o json").err)["error"]
    assert error["details"][0]["provenance"]["message"] == "sold"
    assert new_shell.run("rainbowctl get pool").err == "No pools yet: `rainbowctl create pool NAME` creates one.\n"


def test_a_label_comes_from_a_file_and_is_changed_by_one(shell: Shell) -> None:
    shell.file("cheap.yaml", "kind: label\nname: cheap\nmembers:\n- {id: local, weight: 1}\n- {id: spot, weight: 99}\n")
    shell.ok("rainbowctl create label --file cheap.yaml")
    rows = cells(shell.ok("rainbowctl get labels"))
    assert ["cheap", "local:1, spot:99", "0 of 2", "-", "managed"] in [row[:-1] for row in rows]
    done = shell.run("rainbowctl update label --file cheap.yaml")
    assert "No changes: label cheap is already as requested.\n" in done.err
    # What a file leaves out stays.
    shell.ok("rainbowctl update label cheap --file -", stdin="description: for tests\n")
    label = shell.rest("GET", "labels/cheap")
    assert (label["description"], len(label["members"])) == ("for tests", 2)
    message = shell.refused(5, "rainbowctl update label cheap --file -", stdin="version: 99\ndescription: x\n")
    assert "was made from version 99, but version" in message
    shell.ok("rainbowctl export label > labels.yaml")
    assert shell.run("rainbowctl diff -f labels.yaml").status == 0


def test_of_several_names_only_those_of_what_was_deleted_are_printed(new_shell: Shell) -> None:
    new_shell.ok("rainbowctl create pool here --member local")
    for flags in (" --dryRun", ""):
        document = json.loads(new_shell.ok(f"rainbowctl delete pool here nope -o json{flags}"))
        assert [row["name"] for row in document["rows"] if row["action"] == "delete"] == ["here"]
        assert document["changed"] is True
        new_shell.run("rainbowctl create pool here --member local")
    assert new_shell.ok("rainbowctl delete pool here nope -o name --dryRun") == "pool/here\n"
    assert new_shell.ok("rainbowctl delete pool nope here -o name") == "pool/here\n"
    assert new_shell.ok("rainbowctl delete pool nope here -o name") == ""
    assert new_shell.ok("rainbowctl delete pool nope -o name") == ""


def test_what_is_in_use_is_deleted_only_by_force(new_shell: Shell) -> None:
    new_shell.ok("rainbowctl create pool gpu --member local")
    new_shell.ok("rainbowctl create pool idle --member local")
    new_shell.ok("rainbowctl update cluster-pool-attribute -p flytesnacks --clusterPoolName gpu")
    message = new_shell.refused(5, "rainbowctl delete pool idle gpu")
    assert message.startswith("error: pool gpu is in use in 1 place: nothing was deleted.\n  used by: attributes: ")
    assert re.search(r"project flytesnacks names it \(revision [0-9]+, anonymous \(says ", message)
    assert message.endswith("delete it anyway with --force.\n")
    place = {"resource_type": "CLUSTER_ASSIGNMENT", "project": "flytesnacks", "domain": "development"}
    rows = [{**place, "workflow": f"w{number}", "payload": {"cluster_pool_name": "idle"}} for number in range(60)]
    new_shell.rest("POST", "attribute_changes?force=true", {"changes": rows})
    message = new_shell.refused(5, "rainbowctl delete pool idle gpu")
    assert message.startswith("error: pool idle and gpu are in use in 61 places: nothing was deleted.\n")
    assert [pool["name"] for pool in new_shell.rest("GET", "pools")["pools"]] == ["gpu", "idle"]
    error = json.loads(new_shell.run("rainbowctl delete pool gpu -o json").err)["error"]
    assert (error["name"], error["exit_code"], error["details"][0]["field"]) == ("in_use", 5, "attributes")
    new_shell.ok("rainbowctl delete pool idle gpu --force")
    assert new_shell.rest("GET", "pools")["pools"] == []
    for command in ("get warnings", "get no-effect"):
        assert "The pool 'gpu' was deleted by revision " in new_shell.ok(f"rainbowctl {command}"), command


def test_a_cluster_is_defined_by_flags_and_changed_field_by_field(shell: Shell) -> None:
    shell.ok(
        "rainbowctl create cluster east --capacity cpu=64,memory=256Gi,gpu=8 --cost 1.5 --description 'the east' "
        "--cluster-endpoint https://east.example.com --authType file_path --tokenPath /t --certPath /c"
    )
    cluster = shell.rest("GET", "clusters/east")
    assert cluster["auth"] == {"type": "file_path", "token_path": "/t", "cert_path": "/c"}
    assert (cluster["endpoint"], cluster["cost"], cluster["enabled"]) == ("https://east.example.com", 1.5, True)
    assert cluster["capacity"] == {"cpu": "64", "memory": "256Gi", "gpu": "8"}

    shell.ok("rainbowctl update cluster east --cost 2 --authType ''")
    changed = shell.rest("GET", "clusters/east")
    assert changed["auth"] == {"token_path": "/t", "cert_path": "/c"}
    assert (changed["cost"], changed["capacity"]) == (2, cluster["capacity"])

    rows = cells(shell.ok("rainbowctl get clusters"))
    header = ["NAME", "STATE", "LAST SYNC", "POOLS", "CAPACITY", "FREE", "LEASES", "WAITING", "ENGINE", "SOURCE"]
    assert rows[0] == [*header, "SWITCHED BY"]
    [east] = [row for row in rows if row[0] == "east"]
    amounts = "cpu=64,memory=256Gi,gpu=8"
    nothing = "cpu=0,memory=0,gpu=0"  # no agent has been seen
    assert east == ["east", "expected", "-", "-", amounts, nothing, "0", "0", "-", "managed", "-"]
    assert "the east" in shell.ok("rainbowctl get cluster east -o wide")


def test_what_was_reported_or_switched_does_not_get_into_the_definition(shell: Shell) -> None:
    shell.ok("rainbowctl create cluster live --capacity cpu=4 --description one")
    shell.file("state.yaml", "capacity: {cpu: 8, memory: 1Gi}\nfree: {cpu: 6}\neta: 30s\nengine: slurm\nplugins: [a]\n")
    done = shell.run("rainbowctl update cluster-state live --file state.yaml")
    assert (done.status, done.out, done.err) == (0, "", "Reported the state of cluster live.\n")
    shell.ok("rainbowctl disable live")
    [row] = [row for row in cells(shell.ok("rainbowctl get cluster")) if row[0] == "live"]
    assert row[:2] == ["live", "ready,disabled"]
    assert "cpu=8,memory=1Gi" in row
    done = shell.run("rainbowctl update cluster live --description two")
    assert done.out == (
        "cluster live\n--- version "
        + done.out.partition("--- version ")[2].partition("\n")[0]
        + "\n+++ after this update\n@@ -1,3 +1,3 @@\n capacity:\n   cpu: '4'\n-description: one\n+description: two\n"
    )
    assert "kind: cluster\nname: live\ncapacity:\n  cpu: '4'\ndescription: two\n" in shell.ok(
        "rainbowctl export cluster"
    )
    cluster = shell.rest("GET", "clusters/live")
    assert (cluster["enabled"], cluster["engine"]) == (False, "slurm")
    message = shell.refused(2, "rainbowctl update cluster-state live --file -", stdin="free: {cpu: much}\n")
    assert "stdin:1:13" in message


def test_a_pool_that_asks_is_created_shown_and_changed(shell: Shell) -> None:
    flags = "--askDeadline 5s --chooseBy mix --costWeight 2.5 --rebalance 'better-by 5m'"
    shell.ok(f"rainbowctl create pool asks --member one --member two --strategy ask {flags}")
    fields = {"ask_deadline": "5s", "choose_by": "mix", "cost_weight": 2.5, "rebalance": "better-by 5m"}
    pool = shell.rest("GET", "pools/asks")
    assert {name: pool.get(name) for name in fields} == fields
    assert cells(shell.ok("rainbowctl get pool asks -o wide"))[-1][-4:-1] == ["mix, cost 2.5", "5s", "better-by 5m"]
    documents = yaml.safe_load_all(shell.ok("rainbowctl export pool"))
    [exported] = [document for document in documents if document and document.get("name") == "asks"]
    assert {name: exported.get(name) for name in fields} == fields
    assert "--costWeight" in shell.refused(2, "rainbowctl update pool asks --costWeight much --force")
    shell.ok("rainbowctl update pool asks --rebalance never --costWeight '' --chooseBy cheapest --force")
    changed = shell.rest("GET", "pools/asks")
    assert (changed["rebalance"], changed["choose_by"], "cost_weight" in changed) == ("never", "cheapest", False)
    message = shell.refused(2, "rainbowctl update pool asks --strategy weighted --askDeadline 5s --force")
    assert "ask_deadline: is for the strategy ask alone" in message
    shell.ok("rainbowctl update pool asks --rule 'sort: name' --force")
    shell.ok("rainbowctl update pool asks --strategy weighted --force")
    assert not shell.rest("GET", "pools/asks").keys() & fields.keys()


def test_clusters_are_chosen_by_pool_and_label(shell: Shell) -> None:
    shell.ok("rainbowctl create pool pair --member one --member two")
    shell.ok("rainbowctl create label solo --member two")
    assert shell.ok("rainbowctl get cluster --pool pair -o name") == "cluster/one\ncluster/two\n"
    assert shell.ok("rainbowctl get cluster --label solo -o name") == "cluster/two\n"
    chosen = shell.ok("rainbowctl get cluster --filter.fieldSelector 'pools=pair,labels!=solo' -o name")
    assert chosen == "cluster/one\n"
    pool = shell.rest("GET", "pools/pair")
    assert pool["summary"].startswith("Pool 'pair' (weighted): no member takes work now")
    shown = shell.run("rainbowctl get pool pair")
    assert (" ".join(shown.out.split()).startswith(pool["summary"]), shown.err) == (True, "")
    assert "No pool is called 'pears'" in shell.refused(3, "rainbowctl get cluster --pool pears")
    assert "leave out one of the two" in shell.refused(2, "rainbowctl get cluster one --pool pair")
    message = shell.refused(3, "rainbowctl update cluster one --cost 1")
    assert "`rainbowctl create cluster one` does" in message
    shell.ok("rainbowctl create cluster one --disabled")
    assert shell.rest("GET", "clusters/one")["enabled"] is False


@pytest.mark.parametrize(
    ("create", "get", "path"),
    [
        ("pool named --member one --strategy spill", "pool named", "pools/named"),
        ("label named --member one", "label named", "labels/named"),
        ("group named --user ada", "group named", "groups/named"),
        ("project --id named", "project named", "projects/named?provenance=true"),
        ("grant viewer --user named", "grant viewer:user:named", "grants/viewer:user:named"),
        ("use-grant --pool gpu --user named", "use-grant pool:gpu:user:named", "use_grants/pool:gpu:user:named"),
    ],
)
def test_one_of_a_name_and_lists_say_who_defined_it(new_shell: Shell, create: str, get: str, path: str) -> None:
    new_shell.ok(f"rainbowctl create {create} -m 'for the tests'", LOGNAME="ana")
    definition = new_shell.rest("GET", path)["provenance"]["definition"]
    assert (definition["claimed_by"], definition["message"]) == ("ana", "for the tests")
    by = rf"revision {definition['revision']}, anonymous \(says ana\), {AGE}, 'for the tests'"
    shown = new_shell.ok(f"rainbowctl get {get}")
    assert re.search(by, " ".join(shown.split()))
    assert max(map(len, shown.splitlines())) <= 100
    assert re.search(rf"{by}$", new_shell.ok(f"rainbowctl get {get.partition(' ')[0]}"), re.MULTILINE)
    assert json.loads(new_shell.ok(f"rainbowctl get {get} -o json"))["provenance"]["definition"] == definition


def test_clusters_are_cordoned_and_disabled_with_a_reason(shell: Shell) -> None:
    shell.ok("rainbowctl create cluster alpha")
    shell.ok("rainbowctl create cluster beta")
    done = shell.run("rainbowctl cordon cluster alpha beta --reason 'new disks'")
    assert (done.status, done.out) == (0, "")
    assert done.err == "Cordoned cluster alpha.\nCordoned cluster beta.\n"
    assert "new disks" in shell.ok("rainbowctl get cluster alpha -o wide")
    by = rf"anonymous \(says \S+\), {AGE}"
    lines = shell.ok("rainbowctl get cluster alpha")
    summary = shell.rest("GET", "clusters/alpha")["summary"]
    assert summary.startswith("Cluster 'alpha' takes no work: it is cordoned (event ")
    assert lines.startswith(summary.partition(" ago")[0].rpartition(", ")[0])
    assert "; alpha (cordoned)" in shell.run("rainbowctl get cluster --filter.fieldSelector name=alpha").err
    assert re.search(rf"^switched by   cordoned: event [0-9]+, {by}, 'new disks'$", lines, re.MULTILINE)
    [header, row] = [row for row in cells(shell.ok("rainbowctl get cluster -o wide")) if row[0] in ("NAME", "alpha")]
    assert header[-1] == "DEFINED BY"
    assert re.fullmatch(r"cordoned: event [0-9]+, .*Z, 'new disks'", row[header.index("SWITCHED BY")])
    assert row[-1].startswith("revision ")
    assert row[-1].endswith("Z")
    done = shell.run("rainbowctl cordon alpha")
    assert done.status == 0
    already = rf"No changes: cluster alpha is cordoned already \(event [0-9]+, {by}, 'new disks'\)\.\n"
    assert re.fullmatch(already, done.err)
    shell.ok("rainbowctl uncordon clusters alpha beta")
    shell.ok("rainbowctl disable cluster alpha --reason broken")
    answer = json.loads(shell.ok("rainbowctl enable alpha -o json"))
    assert (answer["changed"], answer["cluster"]["enabled"]) == (True, True)

    rows = cells(shell.ok("rainbowctl get cluster-event alpha"))
    assert rows[0] == ["AT", "EVENT", "REASON", "BY", "NUMBER"]
    assert [row[1] for row in rows[1:]] == ["ENABLED", "DISABLED", "UNCORDONED", "CORDONED"]
    assert rows[2][2] == "broken"
    assert all(row[3].startswith("anonymous (says ") for row in rows[1:])
    assert len(shell.ok("rainbowctl get cluster-events alpha --limit 2 --no-headers").splitlines()) == 2
    chosen = shell.ok(
        "rainbowctl get cluster-event alpha --filter.fieldSelector 'type contains ABLED,at>1h' --filter.asc"
    )
    assert [row[1] for row in cells(chosen)[1:]] == ["DISABLED", "ENABLED"]
    events = json.loads(shell.ok("rainbowctl get cluster-event alpha -o json"))
    assert events == shell.rest("GET", "clusters/alpha/events")["events"]
    assert [row[4] for row in rows[1:]] == [str(event["number"]) for event in events]
    listed = shell.ok("rainbowctl history --cluster alpha")
    assert f"cluster alpha: enabled (event {events[0]['number']})" in listed
    shell.ok("rainbowctl drain alpha --deadline 7d")
    for command in ("get cluster-event alpha", "get cluster", "history --limit 1"):
        assert re.search(r"\b6 d 23 h\b", shell.ok(f"rainbowctl {command}")), command
    shell.ok("rainbowctl cordon beta --reason 'new disks'")
    shell.ok("rainbowctl drain beta")
    done = shell.run("rainbowctl undrain beta --dryRun")
    assert "Cluster 'beta' is cordoned apart from the drain (event " in done.err
    assert "that would be over too. `rainbowctl cordon beta` would cordon it again." in done.err
    done = shell.run("rainbowctl undrain beta")
    assert "Cluster 'beta' had been cordoned apart from the drain (event " in done.err
    assert "that is over too. `rainbowctl cordon beta` cordons it again." in done.err
    shell.ok("rainbowctl undrain alpha")
    [undrained, drained] = json.loads(shell.ok("rainbowctl get cluster-event alpha --limit 2 -o json"))
    assert drained["ended_by"]["event"] == undrained["number"]
    over = rf"event {undrained['number']}, anonymous \(says [^)]+\), \d+ m?s ago"
    listed = shell.ok("rainbowctl get cluster-event alpha")
    assert re.search(rf"\b6 d 23 h +{over}", listed), "the deadline stays beside the event"
    history = shell.ok("rainbowctl history --cluster alpha --source cluster-event")
    assert re.search(rf"cluster alpha: draining, deadline in 6 d 23 h; ended by {over} \(event ", history)
    shell.ok("rainbowctl create cluster brief")
    shell.ok("rainbowctl delete cluster brief -m 'sold' --force", LOGNAME="ana")
    [deleted] = json.loads(shell.ok("rainbowctl history --cluster brief --source cluster-event -o json"))
    assert (deleted["type"], deleted["claimed_by"], deleted["message"]) == ("DELETED", "ana", "sold")
    assert shell.rest("GET", "timeline?cluster=brief&source=cluster-event")["entries"] == [deleted]
    row = cells(shell.ok("rainbowctl history --cluster brief --source cluster-event"))[1]
    assert (row[0], row[2], row[-1]) == (str(deleted["revision"]), "anonymous (says ana)", "sold")

    # A wrong name among several stops all of them.
    message = shell.refused(3, "rainbowctl cordon beta bta")
    assert "Did you mean" in message
    assert shell.rest("GET", "clusters/beta")["cordoned"] is False
    assert "Which cluster?" in shell.refused(2, "rainbowctl cordon cluster")


def test_a_person_is_asked_before_the_fleet_changes(shell: Shell) -> None:
    shell.ok("rainbowctl create pool calm --member local")
    with shell.at_terminal("rainbowctl update pool calm --strategy cheapest") as terminal:
        terminal.wait_for("Write this? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1
    with shell.at_terminal("rainbowctl delete pool calm") as terminal:
        terminal.wait_for("Delete pool calm? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1
    assert shell.rest("GET", "pools/calm")["version"] is not None
    with shell.at_terminal("rainbowctl delete pool calm --force") as terminal:
        assert terminal.finish().status == 0


def test_someone_elses_change_in_between_is_kept(shell: Shell) -> None:
    shell.ok("rainbowctl create pool busy --member local")
    with shell.at_terminal("rainbowctl update pool busy --strategy cheapest") as terminal:
        terminal.wait_for("Write this? [y/N] ")
        shell.ok("rainbowctl update pool busy --strategy soonest --force")
        terminal.type("y\n")
        assert terminal.finish().status == 5
    assert shell.rest("GET", "pools/busy")["strategy"] == "soonest"


def test_what_configuration_declares_is_shown_but_not_changed(shell: Shell) -> None:
    assert shell.rest("GET", "clusters/local")["source"] == "configuration"
    for command in (
        "update cluster local --cost 1",
        "update label mycluster --addMember x",
        "delete label mycluster --force",
        "create cluster local",
    ):
        message = shell.refused(5, f"rainbowctl {command}")
        assert "configuration" in message


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("get pool gpuu", 3, "No pool is called 'gpuu'."),
        ("create pool", 2, "Which pool? Give its name."),
        ("create pool x", 2, "members"),
        ("create pool 'a b' --member local", 2, "name"),
        ("create pool x --member a=b", 2, "--member a: the weight must be a number, got 'b'."),
        ("create pool x --member a=0", 2, "every weight is 0"),
        ("create pool x --strategy quick --member a", 2, "'quick' is not one of 'weighted', 'spill'"),
        ("update pool x", 2, "--costWeight, --rebalance or --description, or --file FILE."),
        ("update label x --member a --addMember b", 3, "No label is called 'x'."),
        ("create cluster x --capacity cpus=1", 2, "--capacity: there is no resource 'cpus'. Did you mean cpu?"),
        ("create cluster x --cost -1", 2, "--cost must be 0 or more, got -1."),
        ("get cluster-event nowhere", 3, "No cluster is called 'nowhere'."),
        ("create pool x --file p.yaml --member a", 2, "leave out the flags for fields, or the file"),
        ("get pool -p flytesnacks", 2, "No such option '-p'"),
    ],
)
def test_what_is_missing_or_wrong_is_named(shell: Shell, command: str, status: int, message: str) -> None:
    assert message in shell.refused(status, f"rainbowctl {command}")


def test_a_wrong_file_is_refused_with_its_lines(shell: Shell) -> None:
    message = shell.refused(2, "rainbowctl create pool --file -", stdin="name: x\nmembrs: {a: 1}\nsource: managed\n")
    assert "  stdin:2:1: membrs: unknown key. Did you mean members?\n" in message
    assert "  stdin:3:1: source: not part of the definition" in message
    message = shell.refused(2, "rainbowctl create cluster --file -", stdin="name: x\ncapacity:\n  cpu: much\n")
    assert "stdin:3:8" in message


def test_names_are_completed_from_the_fleet(shell: Shell) -> None:
    shell.ok("rainbowctl create pool complete-me --member local")
    words = "rainbowctl get pool complete-"
    done = shell.run("rainbowctl", COMP_WORDS=words, COMP_CWORD="3", _RAINBOWCTL_COMPLETE="bash_complete")
    assert done.out == "plain,complete-me\n"


def test_definitions_are_shown_as_they_were_at_a_revision(new_shell: Shell) -> None:
    new_shell.ok("rainbowctl create pool past --member local", LOGNAME="ann")
    first = new_shell.rest("GET", "revisions")["head"]
    new_shell.ok("rainbowctl update pool past --addMember spot=3 -m 'two of them'", LOGNAME="ben")
    new_shell.ok("rainbowctl delete pool past")
    for number, definition, by in (
        (first, "members.local.weight=1", "(says ann), "),
        (first + 1, "members.local.weight=1, members.spot.weight=3", "(says ben), "),
    ):
        answer = new_shell.rest("GET", f"definitions?resource_type=POOL&at={number}")
        assert json.loads(new_shell.ok(f"rainbowctl get pool --at {number} -o json")) == answer["definitions"]
        assert json.loads(new_shell.ok(f"rainbowctl get pool past --at {number} -o json")) == answer["definitions"][0]
        assert new_shell.ok(f"rainbowctl get pool --at {number} -o name") == "pool/past\n"
        header, row = cells(new_shell.ok(f"rainbowctl get pool past --at {number}"))
        assert (header, row[:2]) == (["NAME", "DEFINITION", "DEFINED BY"], ["past", definition])
        assert row[2].startswith(f"revision {number}, anonymous {by}")
    assert new_shell.run(f"rainbowctl get pools --at {first + 2}").err == (
        f"No pools were defined at revision {first + 2}.\n"
        "No pools of the configuration are among them: those have no revisions.\n"
    )
    message = new_shell.refused(3, f"rainbowctl get pool past --at {first - 1}")
    assert f"No pool called 'past' was defined at revision {first - 1}. It was defined later, by revision " in message
    assert "--shares is about what there is now" in new_shell.refused(2, "rainbowctl get pool past --at 1 --shares")
    assert "--filter.limit is about what" in new_shell.refused(2, "rainbowctl get cluster --at 1 --limit 3")


def test_the_events_of_a_cluster_are_shown_without_its_reports(shell: Shell) -> None:
    shell.ok("rainbowctl create cluster busy --cost 2")
    shell.ok("rainbowctl cordon busy")
    for number in range(3):
        shell.rest("PUT", "clusters/busy/state", {"free": {"executions": number}})
    done = shell.run("rainbowctl get cluster-event busy")
    assert [row[1] for row in cells(done.out)] == ["EVENT", "CORDONED"]
    assert done.err == "1 event of cluster busy.\n3 reports of its agent left out: --all shows them.\n"
    everything = cells(shell.ok("rainbowctl get cluster-event busy --all"))
    assert [row[1] for row in everything[1:]] == ["REPORTED"] * 3 + ["CORDONED"]
    chosen = shell.run("rainbowctl get cluster-event busy --filter.fieldSelector type=REPORTED")
    assert (len(cells(chosen.out)), chosen.err) == (4, "3 events of cluster busy.\n")
    assert re.search("^cost +2", shell.ok("rainbowctl get cluster busy"), re.MULTILINE)
    shell.ok("rainbowctl create cluster free")
    assert re.search("^cost +not set$", shell.ok("rainbowctl get cluster free"), re.MULTILINE)
