"""What `where-used` prints."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from admin.services import uses
from admin.testing import running_admin
from ctl.main import run
from tests.support.ages import without_ages

SLOW_ON = ("postgresql",)


def test_where_used_tells_names_from_groups_and_what_was_deleted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out + printed.err

    pool = tmp_path / "pool.yaml"
    pool.write_text("kind: pool\nname: old\nmembers: {oak: 1}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "eve")
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        rainbowctl(f"apply -f {pool}")
        nothing = "no setting, active launch plan, configuration or unfinished execution, as of revision"
        shown = " ".join(rainbowctl("where-used cluster oak").split())
        assert shown == f"Nothing uses cluster 'oak' but the pools old that it is in: {nothing} 1."
        rainbowctl("create cluster elm")
        shown = " ".join(rainbowctl("where-used cluster elm").split())
        assert shown == f"Nothing uses cluster 'elm': {nothing} 2."
        answer = json.loads(rainbowctl("where-used cluster elm -o json"))
        assert (answer["uses"], answer["executions"]["phases"], answer["reach"]["scopes"]) == ([], {}, 0)
        shown = rainbowctl("get cluster elm")
        summary = "Nothing runs or waits there, and no pool or label has it."
        assert summary in " ".join(shown.split())
        assert "runs          nothing, and nothing waits\n" in shown
        assert json.loads(rainbowctl("get cluster elm -o json"))["summary"].endswith(summary)
        assert "Nothing runs" not in rainbowctl("get cluster oak")
        rainbowctl("create use-grant --cluster elm --group ml")
        shown = rainbowctl("where-used cluster elm")
        assert "1 use grant lets it be used:" in shown
        assert "cluster elm  group ml" in shown
        rainbowctl("delete use-grant cluster:elm:group:ml")
        rainbowctl("delete cluster elm --force")
        here = "-p flytesnacks -d development"
        message = "a-reason-with-sixty-characters-or-more-for-which-nobody-has-room"
        rainbowctl(f"update cluster-pool-attribute {here} --clusterPoolName old --message {message}")
        shown = rainbowctl("where-used cluster oak")
        opening = " ".join(shown.split())
        assert "is set 0 times by its name and 1 time by a pool or label that it is in; 1 scope has it" in opening
        assert "without it executions would be refused at 0 scopes and wait at 1 scope; as of" in opening
        assert "waits" in rainbowctl("where-used cluster oak --reach")
        [row] = [line for line in shown.splitlines() if "cluster_pool_name=old" in line]
        assert "(revision 6)" in row
        assert len(row) <= 100
        assert f"revision 6, anonymous (says eve), 0 s ago, '{message}'" in opening
        assert message in rainbowctl("where-used cluster oak -o wide")
        rainbowctl("delete pool old --force")
        shown = " ".join(rainbowctl("where-used pool old").split())
        assert "executions are refused at 1 scope; as of revision 7." in shown
        assert "The pool 'old' was deleted by revision 7, anonymous (says eve), " in shown


def test_what_waits_for_a_cluster_by_name_and_what_its_delete_would_do_are_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> tuple[str, str]:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out, printed.err

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    here = "-p flytesnacks -d development"
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for line in (
            "create cluster cedar",
            "cordon cedar",
            f"create execution named {here} --cluster cedar -- true",
            "create pool fast --member oak",
            f"update cluster-pool-attribute {here} --clusterPoolName fast",
        ):
            rainbowctl(line)
        shown, _ = rainbowctl("where-used cluster cedar")
        assert "Executions that have not ended: 1 QUEUED; 1 of them waits for it without a cluster." in shown
        [row] = [line for line in shown.splitlines() if line.startswith("flytesnacks/development/named")]
        assert row.split()[1:] == ["QUEUED", "waits", "for", "it"]
        out, err = rainbowctl("delete cluster cedar --force --dryRun")
        assert "Executions: 1 would wait." in out
        assert "Still waits, for another reason: The cluster 'cedar' is gone from the fleet." in " ".join(out.split())
        assert "1 execution waits for it by name: flytesnacks/development/named." in " ".join(err.split())
        out, err = rainbowctl("delete pool fast --force --dryRun")
        assert err.splitlines()[:2] == [
            "Dry run: pool fast would be deleted.",
            "Pool fast would be missed at 1 scope.",
        ]
        refused = "With this, new executions are refused at 1 scope: project flytesnacks, domain development: "
        assert f"{refused}No pool is called 'fast'" in " ".join(out.split())
        answer = json.loads(rainbowctl("delete pool fast --force --dryRun -o json")[0])
        [reach] = answer["reach"]
        assert (reach["noun"], reach["name"], reach["refused"], reach["complete"]) == ("pool", "fast", 1, True)
        selected, _ = rainbowctl(f"get execution {here} --filter.fieldSelector requested_cluster=cedar -o name")
        assert "named" in selected


def test_the_dry_run_of_a_setting_says_where_new_executions_would_be_refused_and_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(line.split()) == status, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out if line.endswith("-o json") else " ".join(f"{printed.out} {printed.err}".split())

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "eve")
    here = "-p flytesnacks -d production"
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for line in (
            "create cluster oak",
            "create cluster elm",
            "create pool std --member oak",
            "create pool off --member elm",
            "cordon elm",
            "update execution-cluster-label -d production --value nite --force",
            "update cluster-pool-attribute -d production --clusterPoolName std",
        ):
            rainbowctl(line)
        delete = "delete cluster-pool-attribute -d production --dryRun"
        answer = json.loads(rainbowctl(f"{delete} -o json"))["new_executions"]
        projects = len(json.loads(rainbowctl("get project -o json")))
        assert (answer["refused"], answer["waiting"], answer["complete"]) == (projects, 0, True)
        [reason] = answer["reasons"]
        assert (reason["outcome"], reason["scopes"], reason["domain"]) == ("refuses", projects, "production")
        assert "No label is called 'nite', set by domain production." in reason["message"]
        shown = rainbowctl(delete)
        assert f"With this, new executions are refused at {projects} scopes: project " in shown
        said = "and 1 other: No label is called 'nite', set by domain production. `rainbowctl get label`"
        assert said in shown
        assert "That was set by revision 5, anonymous (says eve), " in shown
        update = "update cluster-pool-attribute -d production --clusterPoolName"
        shown = rainbowctl(f"{update} off --dryRun")
        assert f"With this, new executions wait at {projects} scopes: project " in shown
        assert "No cluster of pool 'off' is able: 'elm' is cordoned, event " in shown
        shown = rainbowctl("cordon oak --dryRun")
        assert f"With this, new executions wait at {projects} scopes: project " in shown
        assert "No cluster of pool 'std' is able: 'oak' is cordoned." in shown
        assert "new executions" not in rainbowctl(f"update execution-cluster-label {here} --value oak --dryRun")
        nearest = rainbowctl("explain execution-cluster-label -p flytesnacks -d staging")
        assert "Nearest: " in nearest
        assert "nearest value: No label is called 'nite' yet." in nearest
        assert "To set the same" not in nearest
        update_label = "update execution-cluster-label -d development --force --value"
        for value in ("oak", "elm", "oak"):
            rainbowctl(f"{update_label} {value}")
        shown = rainbowctl("rollback 7 --dryRun")
        by = "changed and changed back by revision 9, anonymous (says eve), "
        assert f"Since then execution-cluster-label at domain development: {by}" in shown
        assert "; by revision 8, anonymous (says eve), " in shown
        plan = tmp_path / "plan.yaml"
        plan.write_text("kind: cluster-pool-attribute\ndomain: production\ncluster_pool_name: stt\n")
        shown = rainbowctl(f"apply -f {plan} --dryRun")
        assert f"With this, new executions are refused at {projects} scopes: project " in shown
        assert "No pool is called 'stt', set by domain production. Did you mean 'std'?" in shown
        rainbowctl("delete cluster-pool-attribute -d production --force")
        refused = rainbowctl(f"create execution x-1 {here} -- true", status=2)
        assert "No label is called 'nite'" in refused


def test_the_dry_run_of_a_pool_says_where_new_executions_would_wait_and_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out if line.endswith("-o json") else " ".join(f"{printed.out} {printed.err}".split())

    pool = tmp_path / "pool.yaml"
    pool.write_text("kind: pool\nname: std\nmembers: {elm: 2}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for line in (
            "create cluster oak",
            "create cluster elm",
            "create pool std --member oak --member elm",
            "cordon elm",
            "update cluster-pool-attribute -p flytesnacks -d production --clusterPoolName std",
        ):
            rainbowctl(line)
        kept = "With this, new executions wait at 1 scope: project flytesnacks, domain production: No cluster of pool"
        for line in ("--addMember oak=0", "--removeMember oak"):
            shown = rainbowctl(f"update pool std {line} --dryRun")
            assert kept in shown
            assert "'elm' is cordoned, event " in shown
            answer = json.loads(without_ages(rainbowctl(f"update pool std {line} --dryRun -o json")))["new_executions"]
            assert (answer["refused"], answer["waiting"]) == (0, 1)
        for line in (f"plan -f {pool}", f"apply -f {pool} --dryRun"):
            assert kept in rainbowctl(line)
            assert json.loads(without_ages(rainbowctl(f"{line} -o json")))["new_executions"] == answer
        assert "new executions" not in rainbowctl("update pool std --removeMember elm --dryRun")


def test_the_dry_run_of_a_delete_says_which_label_decides_then(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out if line.endswith("-o json") else " ".join(f"{printed.out} {printed.err}".split())

    here = "-p flytesnacks -d production"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "eve")
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for line in (
            "create cluster oak",
            "create pool std --member oak",
            f"update execution-cluster-label {here} --value oak",
            f"update cluster-pool-attribute {here} --clusterPoolName std",
        ):
            rainbowctl(line)
        told = "New executions at project-domain flytesnacks/production would go by label 'oak', set at project-domain "
        by = "flytesnacks/production (revision 3, anonymous (says eve), "
        for line in (f"delete cluster-pool-attribute {here} --dryRun", "rollback 4 --dryRun"):
            shown = rainbowctl(line)
            assert f"{told}{by}" in shown
            assert "Nothing would apply" not in shown
            [route] = json.loads(rainbowctl(f"{line} -o json"))["routes"]
            assert (route["noun"], route["name"], route["origin"]["revision"]) == ("label", "oak", 3)
        shown = rainbowctl(f"delete execution-cluster-label {here} --dryRun")
        assert "would go by" not in shown
        outranks = "Executions do not go by it: pool 'std', set at project-domain flytesnacks/production (revision 4, "
        for line in (f"get execution-cluster-label {here}", f"get execution-cluster-label {here} --exact"):
            assert outranks in rainbowctl(line)
            assert outranks in json.loads(rainbowctl(f"{line} -o json"))["consequence"]["message"]
        shown = rainbowctl(f"compare {here} --otherDomain staging")
        assert "first: pool 'std' outranks it" in shown


def test_a_value_inside_a_map_is_found_and_shown_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "kind: workflow-execution-config\nproject: flytesnacks\ndomain: development\n"
        "envs: {values: {LOG_LEVEL: debug}}\nsecurity_context: {run_as: {iam_role: batch}}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        rainbowctl(f"apply -f {settings}")
        for name, field in (
            ("envs.values.LOG_LEVEL=debug", "envs.values.LOG_LEVEL=debug"),
            ("envs.values.LOG_LEVEL", "envs.values.LOG_LEVEL=debug"),
            ("security_context.run_as=batch", "security_context.run_as.iam_role=batch"),
        ):
            shown = rainbowctl(f"where-used workflow-execution-config {name}")
            assert f"workflow-execution-config {name} is set 1 time;" in shown
            assert f" {field}\n" in shown
        answer = json.loads(rainbowctl("where-used workflow-execution-config envs.values.LOG_LEVEL=debug -o json"))
        assert [use["fields"] for use in answer["uses"]] == [{"envs.values.LOG_LEVEL": {"value": "debug"}}]
        shown = " ".join(rainbowctl("where-used workflow-execution-config envs.values.LOG_LEVL=1").split())
        assert shown.startswith("Nothing uses workflow-execution-config 'envs.values.LOG_LEVL=1': no setting, ")
        assert shown.endswith(". Did you mean envs.values.LOG_LEVEL?")
        rainbowctl("create execution follows -p flytesnacks -d development -- true")
        rainbowctl("create execution asks -p flytesnacks -d development --env LOG_LEVEL=info -- true")
        shown = rainbowctl("where-used workflow-execution-config envs.values.LOG_LEVEL=debug")
        assert "Executions that have not ended: 1 QUEUED.\n" in shown
        assert "flytesnacks/development/follows" in shown
        shown = rainbowctl("compare -p flytesnacks -d development --otherDomain staging")
        assert "  envs.values.LOG_LEVEL  " in shown


def test_the_previews_of_new_work_are_said_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str, status: int = 0) -> str:
        capsys.readouterr()
        assert run(line.split()) == status, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out if line.endswith("-o json") else " ".join(f"{printed.out} {printed.err}".split())

    state, bigger = tmp_path / "state.yaml", tmp_path / "bigger.yaml"
    state.write_text("capacity: {cpu: 1, executions: 3}\nfree: {cpu: 1, executions: 0}\n")
    bigger.write_text("kind: cluster\nname: birch\ncapacity: {cpu: 64}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    here = "-p flytesnacks -d development"
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        for line in (
            "create cluster aspen",
            "create cluster birch",
            "create cluster dogwood",
            "create cluster elm",
            f"update cluster-state aspen --file {state}",
            f"update cluster-state birch --file {state}",
            "create pool main --member aspen --member birch",
            "create pool full --member birch",
            "create pool gpu --member dogwood",
            "update cluster-pool-attribute -d development --clusterPoolName main",
        ):
            rainbowctl(line)
        projects = len(json.loads(rainbowctl("get project -o json")))
        shown = rainbowctl("delete cluster aspen birch --force --dryRun")
        assert f"With this, new executions wait at {projects} scopes: project " in shown
        assert "No cluster of pool 'main' is able: 'aspen' was deleted, 'birch' was deleted." in shown
        assert f"Cluster aspen would be missed at {projects} scopes. Cluster birch would be" in shown
        answer = json.loads(rainbowctl("delete cluster aspen birch --force --dryRun -o json"))
        assert answer["new_executions"]["waiting"] == projects
        shown = rainbowctl("delete cluster-pool-attribute -d development --dryRun")
        assert (
            "at domain development would go to any enabled cluster ('aspen', 'birch', 'dogwood', 'elm', 'local')"
            in shown
        )
        assert f"Effective values change at {projects} scopes below: project " in shown
        assert "Nothing would apply there" not in shown
        shown = rainbowctl("update cluster-pool-attribute -d development --clusterPoolName gpu --dryRun")
        assert f"With this, new executions wait at {projects} scopes: project " in shown
        assert "By pool 'gpu' executions wait at 'dogwood': no agent of it has ever been seen." in shown
        shown = rainbowctl(f"place new {here} --clusterPool full --cpu 1 -- true")
        assert (
            "flytesnacks/development/new would wait at birch, next: birch is full (3 of 3 executions taken); " in shown
        )
        assert "start Nothing is ahead of it at birch: its agent takes it as soon as it has room for it." in shown
        rainbowctl(f"create execution first {here} --clusterPool full --cpu 1 -- true")
        place = f"place new {here} --clusterPool full --cpu"
        assert "would wait at birch, number 2 in line: " in (shown := rainbowctl(f"{place} 1 -- true"))
        assert "ahead flytesnacks/development/first, QUEUED: no time limit" in shown
        told = json.loads(rainbowctl(f"{place} 1 -o json -- true"))
        assert told["wait"]["start"]["position"] == 2
        shown = rainbowctl(f"place new {here} --cluster dogwood -- true")
        assert "would wait at dogwood: no agent of it has ever been seen; as of revision " in shown
        shown = rainbowctl(f"{place} 1 --with {bigger} -- true")
        assert "Cluster 'birch' has 1 cpu, not 64: the report of its agent outranks its definition." in shown
        shown = rainbowctl(f"{place} 2 --with {bigger} -- true", status=2)
        assert "is too small: 1 cpu in all as its agent reports, not 64 as defined, 2 wanted" in shown
        assert rainbowctl("get pool --unused -o name").split() == ["pool/gpu"]
        assert rainbowctl("get cluster --unused -o name").split() == ["cluster/elm"]
        assert "No labels match." in rainbowctl("get label --unused")
        wrong = rainbowctl("get pool gpu --unused", status=2)
        assert "gpu names one, and --unused filters the list: leave out one of the two." in wrong


def test_what_the_caller_may_not_see_is_said_to_be_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> str:
        capsys.readouterr()
        assert run(line.split()) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return " ".join((printed.out + printed.err).split())

    shared, token = tmp_path / "shared", tmp_path / "token"
    shared.write_text("s" * 40)
    shared.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("RAINBOW_TOKEN", "s" * 40)
    with running_admin({"server": {"apiTokenFile": str(shared)}}) as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        rainbowctl("create user ada")
        rainbowctl("create grant viewer --user ada -p flytesnacks")
        rainbowctl(f"create user-token ada laptop --newTokenFile {token}")
        assert rainbowctl("get execution -A") == "No executions match."
        assert rainbowctl("get warnings") == "No warnings."
        monkeypatch.setenv("RAINBOW_TOKEN", token.read_text().strip())
        assert rainbowctl("get execution -A") == "No executions match that you may see."
        assert rainbowctl("get execution -p flytesnacks -d development") == "No executions yet."
        assert rainbowctl("get warnings") == "No warnings that you may see."
        shown = rainbowctl("where-used execution-queue-attribute")
        assert "or unfinished execution that you may see, as of revision" in shown


def test_executions_that_are_not_listed_are_counted_and_the_command_lists_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rainbowctl(line: str) -> tuple[str, str]:
        capsys.readouterr()
        assert run(shlex.split(line)) == 0, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out, printed.err

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(uses, "NAMED", 25)
    with running_admin() as url:
        monkeypatch.setenv("RAINBOW_ENDPOINT", url)
        rainbowctl("create pool gpu --member oak")
        rainbowctl("update cluster-pool-attribute -p flytesnacks --clusterPoolName gpu")
        for number in range(30):
            rainbowctl(f"create execution e{number} -p flytesnacks -d development -- true")
        shown, notes = rainbowctl("where-used pool gpu")
        assert "Executions that have not ended: 30 QUEUED." in shown
        assert len([line for line in shown.splitlines() if line.startswith("flytesnacks/development/e")]) == 20
        [command] = re.findall("Beyond the newest 25, 5 more: `(.+)` lists all", " ".join(notes.split()))
        assert "5 more: -o wide shows them." in notes
        listed, _ = rainbowctl(f"{command.removeprefix('rainbowctl ')} -o name")
        assert len(listed.split()) == 30
        wide, notes = rainbowctl("where-used pool gpu -o wide")
        assert len([line for line in wide.splitlines() if line.startswith("flytesnacks/development/e")]) == 25
        assert "Beyond the newest 25, 5 more" in " ".join(notes.split())
