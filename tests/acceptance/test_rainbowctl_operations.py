"""What operators do about a restored database, a clock that has jumped and a silent cluster; tests play the agents."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.test_rainbowctl_fleet import cells
from tests.support.admins import running_admin
from tests.support.http_agents import HttpAgent, write_configuration
from tests.support.shells import Shell
from tests.support.waiting import wait_until

HERE = "-p flytesnacks -d development"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with running_admin(tmp_path, "--config", str(write_configuration(tmp_path))) as admin:
        yield Shell(admin, tmp_path)


def played_agent(shell: Shell, cluster: str, **fields: Any) -> HttpAgent:
    agent = HttpAgent(url=shell.admin.url, cluster=cluster)
    agent.register()
    agent.sync(**fields)
    return agent


def change_database(directory: Path, statement: str) -> None:
    """Do to the admin's database what would take days."""
    with closing(sqlite3.connect(directory / "rainbow.db", timeout=60)) as database, database:
        database.execute(statement)


def unknown(name: str) -> dict[str, Any]:
    return {"id": {"project": "flytesnacks", "domain": "development", "name": name}, "attempt": 2}


def test_the_clusters_of_a_restored_database_are_shown_and_released(shell: Shell) -> None:
    assert shell.run("rainbowctl get reconciliation").err.startswith("Nothing to reconcile")
    played_agent(shell, "missing")
    agent = played_agent(shell, "back")
    # It has seen more of the admin than is stored, and holds what nobody knows.
    agent.sync(seen=1000, holding=[unknown("e"), unknown("f")])
    [header, *rows] = cells(shell.ok("rainbowctl get reconciliations"))
    assert header == ["CLUSTER", "STATE", "SINCE", "SYNCED", "UNKNOWN", "WHY"]
    assert [(row[0], row[1], row[4]) for row in rows] == [("back", "unknown_work", "2"), ("missing", "waiting", "0")]
    assert "flytesnacks/development/e" in shell.ok("rainbowctl get reconciliation -o wide")
    detail = cells(shell.ok("rainbowctl get reconciliation back"))
    assert ["flytesnacks", "development", "f", "2", "-"] in detail
    assert json.loads(shell.ok("rainbowctl get reconciliation back -o json")) == shell.rest(
        "GET", "reconciliations/back"
    )
    listed = shell.rest("GET", "reconciliations")["reconciliations"]
    assert yaml.safe_load(shell.ok("rainbowctl get reconciliation -o yaml")) == listed
    assert shell.ok("rainbowctl get reconciliation -o name") == "reconciliation/back\nreconciliation/missing\n"
    chosen = "rainbowctl get reconciliation --filter.fieldSelector 'unknown>1,began_at>1h' -o json"
    assert json.loads(shell.ok(chosen)) == listed[:1]
    assert "back names one, and --filter.asc" in shell.refused(2, "rainbowctl get reconciliation back --filter.asc")
    assert "`rainbowctl delete reconciliation missing`" in shell.ok("rainbowctl get warnings")
    assert "nothing to reconcile with cluster 'other'" in shell.refused(3, "rainbowctl get reconciliation other")

    for words in ("", "back --all"):
        assert "give one of the two" in shell.refused(2, f"rainbowctl delete reconciliation {words}")
    assert "use --force. Nothing was changed" in shell.refused(2, "rainbowctl delete reconciliation --all")
    with shell.at_terminal("rainbowctl delete reconciliation --all") as terminal:
        terminal.wait_for("Count clusters back and missing as reconciled?")
        terminal.type("n\n")
        assert terminal.finish().status != 0
    assert "nothing to reconcile with cluster 'other'" in shell.refused(
        3, "rainbowctl delete reconciliation missing other"
    )
    assert shell.rest("GET", "reconciliations")["reconciliations"] == listed

    done = shell.run("rainbowctl delete reconciliation missing --reason 'the rack burnt down'")
    assert (done.status, done.out) == (0, "")
    assert done.err == "Reconciled cluster missing: its agent is not waited for any longer.\n"
    events = json.loads(shell.ok("rainbowctl get cluster-event missing -o json"))
    [event] = [event for event in events if event.get("claimed_by")]
    assert event["type"] == "RECONCILED"
    assert event["reason"] == "An operator waits for its agent no longer. Reason: the rack burnt down"
    assert json.loads(shell.ok("rainbowctl delete reconciliation --all --force -o json")) == [
        {**{key: listed[0][key] for key in ("cluster", "state", "unknown")}, "changed": True}
    ]
    assert [held["id"]["name"] for held in agent.sync(holding=[unknown("e")])["lost"]] == ["e"]
    assert shell.run("rainbowctl delete reconciliation --all").err == "Nothing to reconcile.\n"
    assert shell.run("rainbowctl get warnings").err == "No warnings.\n"


def test_work_that_shows_up_while_an_operator_decides_is_not_ended(shell: Shell) -> None:
    late = played_agent(shell, "late")
    played_agent(shell, "back").sync(seen=1000)
    with shell.at_terminal("rainbowctl delete reconciliation late") as terminal:
        terminal.wait_for("Count cluster late as reconciled?")
        late.sync(holding=[unknown("e")])
        terminal.type("y\n")
        done = terminal.finish()
    assert done.status == 5
    assert "state is unknown_work, not waiting" in done.out + done.err
    assert late.sync(holding=[unknown("e")])["lost"] == []
    done = shell.run("rainbowctl delete reconciliation late --force")
    assert done.err == "Reconciled cluster late: its agent ends 1 unknown execution.\n"


def test_a_clock_that_has_jumped_is_shown_and_accepted(shell: Shell, tmp_path: Path) -> None:
    assert cells(shell.ok("rainbowctl get clock"))[1][1] == "ok"
    done = shell.run("rainbowctl accept clock")
    assert (done.status, done.err.startswith("No changes: the clock was trusted already.")) == (0, True)
    long_ago = "2020-01-01 00:00:00.000000"
    change_database(tmp_path, "DELETE FROM clock_checks")
    columns = "id, trusted_at, seen_at, steady_seconds"
    change_database(tmp_path, f"INSERT INTO clock_checks ({columns}) VALUES (1, '{long_ago}', '{long_ago}', 0)")
    [_, row] = cells(shell.ok("rainbowctl get clock"))
    assert (row[1], row[2]) == ("jumped", "2020-01-01 00:00:00Z")
    assert "`rainbowctl accept clock`" in row[3]
    clock = json.loads(shell.ok("rainbowctl get clock -o json"))
    assert (clock["suspended"], clock["trusted_at"]) == (True, "2020-01-01T00:00:00Z")
    with shell.at_terminal("rainbowctl accept clock") as terminal:
        terminal.wait_for("is that right? [y/N]")
        terminal.type("n\n")
        assert terminal.finish().status != 0
    assert shell.rest("GET", "clock")["suspended"] is True
    done = shell.run("rainbowctl accept clock --reason 'a long weekend'")
    assert (done.status, done.err.startswith("The clock is trusted: it is ")) == (0, True)
    assert shell.rest("GET", "clock")["suspended"] is False
    assert "a long weekend" in shell.admin.log.read_text()
    [header, row] = cells(shell.ok("rainbowctl get clock -o wide"))
    assert header[-3:] == ["ACCEPTED AT", "ACCEPTED BY", "REASON"]
    assert row[-1] == "a long weekend"


def test_the_agent_of_a_cluster_and_what_its_silence_means_are_shown(shell: Shell, tmp_path: Path) -> None:
    agent = played_agent(
        shell, "local", instance="state-1", host="login-1", report={"properties": {"agent_version": "0.9"}}
    )
    cluster = shell.rest("GET", "clusters/local")
    assert (cluster["agent"], cluster["agent_instance"], cluster["agent_host"]) == (agent.agent, "state-1", "login-1")
    assert (cluster["agent_since"], cluster["agent_version"]) == (cluster["last_sync_at"], "0.9")
    [header, row] = cells(shell.ok("rainbowctl get cluster -o wide"))
    shown = dict(zip(header, row, strict=True))
    assert (shown["AGENT"], shown["AGENT HOST"], shown["AGENT VERSION"]) == (agent.agent, "login-1", "0.9")
    assert re.fullmatch("20[0-9 :-]+Z", shown["AGENT SINCE"])
    assert "AGENT HOST" not in shell.ok("rainbowctl get cluster")
    assert "agent         on login-1, version 0.9, since " in shell.ok("rainbowctl get cluster local")

    shell.ok(f"rainbowctl create execution e {HERE} --cluster local -- work")
    [lease] = agent.take()
    agent.report(lease, "RUNNING")
    assert "silent since" not in shell.ok(f"rainbowctl explain execution e {HERE}")
    change_database(tmp_path, "UPDATE cluster_states SET health = 'unreachable'")
    cluster = shell.rest("GET", "clusters/local")
    assert json.loads(shell.ok("rainbowctl get cluster local -o json"))["when_lost"] == cluster["when_lost"]
    shown_times = re.sub(r"(?<=[0-9])T(?=[0-9]{2}:)", " ", cluster["when_lost"])
    assert shown_times in " ".join(shell.ok("rainbowctl get cluster local -o wide").split())
    folded = shell.ok(f"rainbowctl explain execution e {HERE}")
    assert all(len(line) <= 100 for line in folded.partition("\n\n")[0].splitlines())
    assert "Cluster 'local' has been silent for " in folded
    wide = shell.ok(f"rainbowctl explain execution e {HERE} -o wide")
    sentence, *_ = wide.partition("\nexecution flytesnacks/development/e\n")
    sentence = sentence.replace("\n", " ")
    assert "`rainbowctl delete execution flytesnacks/development/e --giveUp` ends it without the agent" in sentence
    silence = json.loads(shell.ok(f"rainbowctl explain execution e {HERE} -o json"))["silence"]
    assert silence["on_lost"] == "wait"
    message = re.sub(r"(?<=\d)T(?=\d\d:)", " ", silence["message"])
    assert re.fullmatch(rf"RUNNING on local for \d+ s \(since 20[0-9 :-]+Z\): {re.escape(message)}", sentence)
    planned = shell.run("rainbowctl drain local --deadline 1h --dryRun -o wide")
    assert "Would drain cluster local: 1 would be ended." in planned.err
    assert ", but its agent is silent since " in planned.out
    done = shell.run("rainbowctl drain local --deadline 1h")
    assert re.match(
        r"Draining cluster local: 1 execution may finish there, and what is left is ended when its agent is heard "
        r"again, in 59 min \d+ s at the earliest\.\n.*Cluster 'local' is unreachable: its agent has been silent for ",
        done.err,
    )


def test_an_abort_at_a_silent_cluster_says_that_nobody_has_confirmed_it(shell: Shell, tmp_path: Path) -> None:
    agent = played_agent(shell, "local")
    shell.ok(f"rainbowctl create execution e {HERE} --cluster local -- work")
    [lease] = agent.take()
    agent.report(lease, "RUNNING", native_id="n1")
    shell.ok(f"rainbowctl create execution later {HERE} --cluster local -- work")
    [later] = agent.take()
    agent.report(later, "RUNNING", native_id="n2")
    assert "it is ABORTING until that confirms.\n" in shell.run(f"rainbowctl delete execution e {HERE}").err
    change_database(tmp_path, "UPDATE cluster_states SET health = 'unreachable'")
    unconfirmed = "Nobody has confirmed that its job has ended. Cluster 'local' has been silent "
    told = " is ABORTING: its agent is silent, and will be told to end it when it is heard again. "
    assert f"{told}{unconfirmed}" in shell.run(f"rainbowctl delete execution later {HERE}").err
    assert (
        f"is ABORTING already: nothing was done. {unconfirmed}for "
        in shell.run(f"rainbowctl delete execution e {HERE}").err
    )
    [answer] = json.loads(shell.ok(f"rainbowctl delete execution e {HERE} -o json"))
    assert answer["message"].startswith(f"{unconfirmed}since ")
    both = f"rainbowctl delete execution {HERE} --selector cluster=local"
    planned = shell.run(f"{both} --dryRun")
    assert "2 unfinished executions match. Dry run: nothing was ended." in planned.err
    assert planned.out.count("Cluster 'local' has been silent for ") == 2
    dry = shell.run(f"rainbowctl delete execution e {HERE} --dryRun -o json")
    [answer] = json.loads(dry.out)
    assert shell.rest("DELETE", "executions/flytesnacks/development/e?dry_run=true") == answer
    assert answer["silent_since"] == shell.rest("GET", "clusters/local")["last_sync_at"]
    remedy = "`rainbowctl delete execution flytesnacks/development/e --giveUp` ends it without the agent"
    assert remedy in answer["message"]
    dry = shell.run(f"rainbowctl delete execution e {HERE} --dryRun")
    assert f"it is being ended already. {unconfirmed}" in dry.err
    assert f" s. Wait, or give it up: {remedy}" in dry.err
    message = shell.ok(f"rainbowctl get execution {HERE} -o wide")
    assert message.count(unconfirmed) == 2  # once for each of the two
    assert f". {unconfirmed}" in message
    change_database(tmp_path, "UPDATE executions SET lease_expires_at = '2026-01-01 00:00:00.000000'")
    dry = shell.run(f"rainbowctl delete execution e {HERE} --giveUp --dryRun")
    assert "it would be given up, and ABORTED" in dry.err
    assert dry.err.lower().count("nobody has confirmed that its job has ended") == 1, dry.err
    done = shell.run(f"rainbowctl delete execution e {HERE} --giveUp --cause 'the rack burnt down'")
    given_up = "Gave up execution flytesnacks/development/e: it is ABORTED, though nobody has confirmed that its job"
    assert done.err == f"{given_up} has ended.\n"
    shown = re.sub(r"\n {10}", " ", shell.ok(f"rainbowctl explain execution e {HERE}"))
    given_up = "Nobody has confirmed that its job has ended. Given up by anonymous (says "
    assert given_up in shown.partition("\nexecution ")[0].replace("\n", " ")
    assert given_up in shell.ok(f"rainbowctl get execution {HERE} -o wide")
    assert re.search(
        r"\nattempt 1 ABORTED on local: given up by .*; native id n1, started .* ago, end not confirmed\n", shown
    )


def test_a_cluster_is_shown_with_the_same_facts_as_text_as_json_and_by_rest(shell: Shell, tmp_path: Path) -> None:
    report = {"capacity": {"cpu": "8"}, "free": {"cpu": "6"}, "properties": {"agent_version": "0.9"}}
    agent = played_agent(shell, "local", report=report)
    shell.ok("rainbowctl create pool gpu --member local")
    for name in ("runs", "waits"):
        shell.ok(f"rainbowctl create execution {name} {HERE} --cluster local --cpu 1 -- work")
    [lease] = agent.take()
    agent.report(lease, "RUNNING")
    change_database(tmp_path, "UPDATE cluster_states SET health = 'unreachable'")
    stored = shell.rest("GET", "clusters/local")
    assert json.loads(shell.ok("rainbowctl get cluster local -o json")) == stored
    lines = shell.ok("rainbowctl get cluster local -o wide").splitlines()
    [outlook] = [line for line in lines if line.startswith("runs: ")]
    fate = stored["leased_executions"][0]["outlook"].split(" at 20")[0]
    assert outlook.startswith(f"runs: {fate}")
    [when_lost] = [line for line in lines if line.lstrip().startswith("It counts as lost ")]
    assert max(len(line) for line in lines if line not in (outlook, when_lost)) <= 100
    assert f"              {stored['unreachable_reason']}" in lines
    shown = dict(re.split(r"  +", line, maxsplit=1) for line in lines[1 : lines.index("")])
    seconds = {
        key: stored[key][:19].replace("T", " ") + "Z" for key in ("last_sync_at", "unreachable_since", "agent_since")
    }
    assert shown["state"] == stored["state"] == "unreachable"
    assert shown["heard from"] == seconds["last_sync_at"]
    assert shown["silent"] == f"since {seconds['unreachable_since']}"
    assert shown["agent"] == f"version {stored['agent_version']}, since {seconds['agent_since']}"
    assert (shown["runs"], shown["waits"]) == ("1, leases 1", "1")
    assert (stored["running"], stored["leases"], stored["waiting"]) == (1, 1, 1)
    rows = cells("\n".join(lines[lines.index("") :]))
    amounts = [stored[key].get("cpu") for key in ("capacity", "reported_free", "assigned", "free")]
    assert ["cpu", *amounts] in rows
    assert amounts == ["8", "6", "1", "0"]
    pool = stored["by_pool"]["gpu"]
    assert ["gpu", f"{pool['able']} of {pool['members']}", "cpu=8", "-"] in rows
    assert (pool, pool["able"]) == (shell.rest("GET", "pools/gpu")["total"], 0)
    executions = [*stored["leased_executions"], *stored["next_executions"]]
    assert [(row[0], row[1]) for row in rows[-2:]] == [
        (f"flytesnacks/development/{execution['id']['name']}", execution["phase"]) for execution in executions
    ]
    assert [execution["id"]["name"] for execution in executions] == ["runs", "waits"]


def test_shares_of_a_pool_are_the_same_as_text_as_json_and_by_rest(shell: Shell) -> None:
    shell.ok("rainbowctl create pool both --member east=3 --member local")
    for cluster in ("east", "local"):
        shell.file("state.yaml", "capacity: {executions: 100}\n")
        shell.ok(f"rainbowctl update cluster-state {cluster} --file state.yaml")
    shell.ok("rainbowctl cordon east")
    for number in range(6):
        shell.ok(f"rainbowctl create execution e{number} {HERE} --clusterPool both -- work")
    shell.ok(f"rainbowctl create execution named {HERE} --cluster local -- work")
    until = "2100-01-01T00:00:00Z"
    shares = json.loads(shell.ok(f"rainbowctl get pool both --shares --since 100d --until {until} -o json"))
    stored = shell.rest("GET", f"pools/both/shares?after={shares['after']}&before={until}")
    assert shares == stored
    for window in ("--since 1h --until 2h", "--since 2999-01-01"):
        message = shell.refused(2, f"rainbowctl get pool both --shares {window}")
        assert message == "error: --since: is not before the end of the window: give an earlier time.\n"
    text = shell.ok(f"rainbowctl get pool both --shares --since 36500d --until {until}")
    assert text.startswith("Pool 'both' (weighted) placed 6 executions; ")
    assert "placed    6\n" in text
    opening, table = text.split("\n\n")
    header, *rows = cells(table)
    assert header == [
        *("CLUSTER", "WEIGHT", "PROMISED", "PLACED", "EXPECTED", "SHARE", "BY STRATEGY", "INSTEAD OF"),
        "BESIDE THE POOL",
    ]
    [instead] = shares["clusters"][1]["instead_of"]
    [cordon] = instead.pop("switched_by")
    assert instead == {"cluster": "east", "reason": "cordoned", "count": 6 - shares["clusters"][1]["by_strategy"]}
    assert rows == [
        ["east", "3", "75.0%", "0", "2 to 6", "0.0%", "0", "-", "-"],
        [
            *("local", "1", "25.0%", "6", "0 to 4", "100.0%", str(6 - instead["count"])),
            f"east cordoned: {instead['count']}",
            "named: 1",
        ],
    ]
    opened = " ".join(opening.split())
    assert ("; east got 0: " in opened, "; local got 6: " in opened) == (True, True)
    by = rf"\(event {cordon['event']}, anonymous[^,]*, \d+ m?s ago\)"
    assert re.search(rf"{instead['count']} of them went elsewhere since it was cordoned {by}", opened)
    shell.ok("rainbowctl update pool both --addMember new --removeMember east -m 'east is sold'", LOGNAME="ana")
    changed = json.loads(shell.ok("rainbowctl get pool both --shares -o json"))
    assert [(cluster["cluster"], "joined" in cluster, "left" in cluster) for cluster in changed["clusters"]] == [
        ("local", False, False),
        ("new", True, False),
        ("east", False, True),
    ]
    text = " ".join(shell.ok("rainbowctl get pool both --shares").split())
    assert " Since the window began, new joined it and east left it. Shares are promised by the members " in text
    [change] = changed["changes"]
    assert change["change"] == "weight of east 3 -> none; weight of new none -> 1"
    assert f"'east is sold' ({change['change']}). created " in text
    revision = changed["clusters"][1]["joined"]["revision"]
    for verb in ("joined", "left"):
        assert re.search(
            rf"{verb} the pool by revision {revision}, anonymous \(says ana\), \d+ m?s ago, 'east is sold'\.", text
        )
    assert "'both'" in shell.refused(3, "rainbowctl get pool boht --shares")
    assert "Which pool?" in shell.refused(2, "rainbowctl get pool --shares")
    assert "add it" in shell.refused(2, "rainbowctl get pool both --since 1h")
    assert "too long ago" in shell.refused(2, "rainbowctl get pool both --shares --since 999999w")


def test_text_json_and_rest_tell_the_same_of_the_health_of_the_admin(shell: Shell) -> None:
    wait_until(lambda: shell.rest("GET", "health").get("leader"))
    health = shell.rest("GET", "health")
    assert (health["healthy"], health["problems"], health["clock"]["suspended"]) == (True, [], False)
    told = json.loads(shell.ok("rainbowctl get health -o json"))
    assert [{**answer, "clock": None} for answer in (told, health)] == [{**health, "clock": None}] * 2
    first, *lines = shell.ok("rainbowctl get health -o wide").splitlines()
    assert first.startswith("The admin is well: its database answers, and the background work is done since ")
    facts = {line[:12].strip(): line[12:] for line in lines}
    assert facts["version"] == health["version"]
    assert facts["database"] == f"{health['database']}, ready; schema {health['schema']}"
    assert facts["background"].startswith(f"{health['leader']['process']}, since 20")
    assert facts["clock"] == "trusted"
