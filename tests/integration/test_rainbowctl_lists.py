"""Every list of rainbowctl uses the flags that choose among its rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from admin.testing import running_admin
from ctl.cli.output import Printer
from ctl.cli.session import local_user
from ctl.client.kinds import built_in
from ctl.main import run
from tests.support.lists import LISTS

HERE = "-p flytesnacks -d development"
KINDS = {f"get {kind.noun}" for kind in built_in()}
#: What some of them need.
ARGUMENTS = {
    **dict.fromkeys(KINDS, "-A"),
    **dict.fromkeys(("get execution-event", "get output"), f"some {HERE}"),
    **dict.fromkeys(("get workflow", "get task", "get launchplan"), HERE),
    **dict.fromkeys(("get cluster-event", "get cluster-description", "get token"), "local"),
}


def test_every_list_refuses_a_field_that_it_does_not_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        assert run(f"create execution some {HERE} -q -- true".split()) == 0
        for path in LISTS:
            for flag, text in (("--filter.sortBy", "nosuch"), ("--filter.fieldSelector", "nosuch=1")):
                capsys.readouterr()
                assert run([*path.split(), *ARGUMENTS.get(path, "").split(), flag, text]) == 2, path
                assert f"{flag}: there is no field 'nosuch': choose " in capsys.readouterr().err, path


def test_that_there_are_more_is_said_after_the_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(Printer, "note", lambda self, text: self.line(text))  # so that both are in one stream
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for domain in ("staging", "development"):
            assert run(f"update cluster-assignment -d {domain} --set cluster_pool_name=nosuch -q".split()) == 0
        capsys.readouterr()
        assert run(["get", "no-effect", "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Of ")
    assert "1 has no effect, as a whole or in a field; 1 of them refuses executions" in lines[0]
    assert lines[-1] == "There are more: --filter.page 2 shows the next 1."


def test_flytes_names_of_fields_are_known_wherever_there_is_such_a_field(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    names = {
        "get launchplan": "launch_plan.name launch_plan.state workflow.name workflow.version project.name",
        "get workflow": "workflow.name workflow.version project.identifier",
        "get execution": "workflow.name launch_plan.name project.name",
        "get task-resource-attribute": "workflow.name launch_plan.name project.name",
        "get warning": "workflow.name launch_plan.name project.name",
        "get project": "project.name project.identifier",
    }
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for path, fields in names.items():
            arguments = [*path.split(), *ARGUMENTS.get(path, "").split()]
            for name in fields.split():
                value = "ACTIVE" if name.endswith(".state") else "a"
                assert run([*arguments, "--filter.fieldSelector", f"{name}={value}"]) == 0, (path, name)


Rainbowctl = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def rainbowctl(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Rainbowctl]:
    """Runs commands against an admin of this process: the status, stdout and stderr."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def rainbowctl(command: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = run(command.split())
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        yield rainbowctl


def test_creators_are_shown_the_same_way_everywhere(rainbowctl: Rainbowctl) -> None:
    who = f"anonymous (says {local_user()})"
    assert rainbowctl(f"create execution e {HERE} -q -- true")[0] == 0
    assert who in rainbowctl("get execution -A -o wide")[1]
    assert who in rainbowctl(f"get execution-event e {HERE}")[1]
    explained = rainbowctl(f"explain execution e {HERE}")[1]
    assert re.search(rf"^created   \d+ s ago, by {re.escape(who)}$", explained, re.MULTILINE)
    assert who in rainbowctl("get execution -A --by creator")[1]
    assert rainbowctl(f"get execution -A --createdBy {local_user()} -o name")[1] == (
        "execution/flytesnacks/development/e\n"
    )
    [document] = json.loads(rainbowctl("get execution -A -o json")[1])
    assert (document["created_by"], document["claimed_by"]) == ("anonymous", local_user())


def test_times_are_ages_in_tables_and_in_wide_ones_in_utc(rainbowctl: Rainbowctl) -> None:
    assert rainbowctl(f"create execution e {HERE} -q -- true")[0] == 0
    assert rainbowctl("update workflow-priority -d development --set priority=5 --force")[0] == 0
    today = f"{datetime.now(UTC):%Y-%m-}"
    for command in ("get execution -A", f"get execution-event e {HERE}", "history", "history --all", "history 1"):
        _, plain, _ = rainbowctl(command)
        assert " s ago" in plain, command
        assert today not in plain, command
        _, wide, _ = rainbowctl(f"{command} -o wide")
        assert today in wide, command
        assert " ago" not in wide, command
        assert "T" in json.dumps(json.loads(rainbowctl(f"{command} -o json")[1])), command


def test_an_empty_list_names_what_nothing_has(rainbowctl: Rainbowctl) -> None:
    for command in ("get execution -A --label myclustr", "get execution -A --label myclustr --by phase"):
        status, out, err = rainbowctl(command)
        assert (status, out) == (0, "")
        assert "No executions match.\nNo label is called 'myclustr'. Did you mean 'mycluster'?\n" in err
    status, out, err = rainbowctl("get execution -A --label myclustr -o json")
    assert (status, json.loads(out)) == (0, [])
    assert "Did you mean 'mycluster'?" in err
    answer = json.loads(rainbowctl("get execution -A --label myclustr --by phase -o json")[1])
    assert answer["unknown_names"][0]["closest"] == ["mycluster"]


def test_scopes_and_labels_are_selected_and_counted(rainbowctl: Rainbowctl) -> None:
    assert rainbowctl(f"create execution e {HERE} -q -- true")[0] == 0
    assert rainbowctl("get execution -A --originScope everywhere --since 1y -o name")[1].endswith("/e\n")
    assert rainbowctl("get execution -A --limitScope -/production")[2].startswith("No executions match.")
    for group, header, value in (
        ("origin-scope", "ORIGIN SCOPE", "everywhere"),
        ("labels.team", "labels.team", "(none)"),
        ("aborted-by", "ABORTED BY", "(none)"),
    ):
        out = rainbowctl(f"get execution -A --by {group}")[1]
        assert out.startswith(header), out
        assert f"\n{value} " in out
    status, _, err = rainbowctl("get execution -A --by labels.-")
    assert (status, "labels.KEY" in err, "aborted-by" in err, "aborted_by" in err) == (2, True, True, False)


def test_executions_are_counted_by_two_words(rainbowctl: Rainbowctl) -> None:
    assert rainbowctl(f"create execution e {HERE} -q -- true")[0] == 0
    _, out, _ = rainbowctl("get execution -A --by project,aborted-by")
    assert re.fullmatch(r"PROJECT +ABORTED BY +COUNT .*\nflytesnacks +\(none\) +1 .*\n", out)
    answer = json.loads(rainbowctl("get execution -A --by project,aborted-by -o json")[1])
    assert answer["by"] == "project,aborted_by"
    assert [group["values"] for group in answer["counts"]] == [["flytesnacks", ""]]
    status, _, err = rainbowctl("get execution -A --by project,clusters")
    assert (status, "--by: there is no group 'clusters'" in err) == (2, True)


def test_lists_show_how_long_executions_waited_where_that_is_asked(rainbowctl: Rainbowctl) -> None:
    assert rainbowctl(f"create execution e {HERE} -q -- true")[0] == 0
    for command in ("-o wide", "--filter.sortBy waited", "--selector waited<1h"):
        header, row = rainbowctl(f"get execution -A {command}")[1].splitlines()
        assert " WAITED" in header, command
        assert re.search(r" \d+ s( |$)", row), command
    assert " WAITED" not in rainbowctl("get execution -A")[1]
    assert rainbowctl("get execution -A --selector waited>1h")[1] == ""


def test_what_a_list_cannot_have_is_said(rainbowctl: Rainbowctl) -> None:
    assert rainbowctl(f"create execution e {HERE} -q -- true")[0] == 0
    assert rainbowctl("get execution -A --filter.page 999") == (0, "", "There is no page 999.\n")
    for command in ("get execution -A", "history", "get placement-counts", "simulate --with none.yaml"):
        status, out, err = rainbowctl(f"{command} --since 2999-01-01")
        assert (status, out) == (2, ""), command
        assert "--since 2999-01-01 is still to come" in err, command
    assert "leave out --by, which is for lists" in rainbowctl(f"get execution e {HERE} --by phase")[2]
    _, details, _ = rainbowctl(f"get execution e {HERE} --details")
    document = details.partition("\n\n")[0]
    assert max(map(len, document.splitlines())) <= 100
    [listed] = json.loads(rainbowctl("get execution -A -o json")[1])
    assert yaml.safe_load(document)["closure"]["reason"] == listed["closure"]["reason"]


def test_what_is_no_setting_is_not_explained_but_shown(rainbowctl: Rainbowctl) -> None:
    for noun in ("cluster", "pool", "labels"):
        status, _, err = rainbowctl(f"explain {noun} main")
        assert status == 2
        assert f"`rainbowctl get {noun.removesuffix('s')} NAME`" in err
        assert "`rainbowctl explain execution NAME`" in err


def test_a_mistyped_reason_or_ender_has_the_closest_that_there_are(rainbowctl: Rainbowctl) -> None:
    assert rainbowctl(f"create execution e {HERE} -q -- true")[0] == 0
    assert rainbowctl(f"delete execution e {HERE} -q")[0] == 0
    near = "has the reason 'OUT_OF_MEMRY'. Did you mean 'OUT_OF_MEMORY'?"
    for command in ("--reason OUT_OF_MEMRY", "--filter.fieldSelector reason=OUT_OF_MEMRY"):
        assert near in rainbowctl(f"get execution -A {command}")[2]
    _, _, err = rainbowctl(f"get execution -A --filter.fieldSelector abort_principal={local_user()}x")
    assert f"was ended by '{local_user()}x'. Did you mean '{local_user()}'?" in err
    assert "Did you mean" not in rainbowctl("get execution -A --reason OUT_OF_MEMORY")[2]


def test_a_revision_may_be_named_by_a_time(rainbowctl: Rainbowctl) -> None:
    assert rainbowctl("update workflow-priority -d development --set priority=5 --force")[0] == 0
    explain = "explain workflow-priority -d development"
    status, out, err = rainbowctl(f"{explain} --at {datetime.now(UTC).isoformat().replace('+00:00', 'Z')} -o json")
    assert status == 0, err
    assert json.loads(out)["values"][0]["value"] == {"priority": 5}
    assert "--at: revision 1 was in force " in err
    out = rainbowctl(f"{explain} --at 1h -o json")[1]
    assert json.loads(out) == json.loads(rainbowctl(f"{explain} --at 0 -o json")[1])
    assert rainbowctl("compare workflow-priority -d development --at 0 --otherAt 0d")[0] == 0
    status, _, err = rainbowctl(f"{explain} --at yesterday")
    assert status == 2
    assert "`rainbowctl history --until TIME`" in err


def test_the_configuration_in_force_is_shown(rainbowctl: Rainbowctl) -> None:
    out = rainbowctl("get admin-config")[1]
    assert "server.port" in out
    rows = {row["key"]: row for row in json.loads(rainbowctl("get admin-config -o json")[1])["values"]}
    assert rows["agents.leaseSeconds"] == {"key": "agents.leaseSeconds", "value": 60, "source": "default"}
    assert rows["database.url"]["source"] == "command line"
    chosen = rainbowctl("get admin-config --filter.fieldSelector source!=default -o name")[1]
    assert "admin-config/database.url\n" in chosen
    assert "leaseSeconds" not in chosen
