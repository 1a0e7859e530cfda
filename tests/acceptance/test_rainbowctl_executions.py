"""`create execution` and what is read of it: every way to say what runs, where it goes, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.fleets import register, shell_with_fleet
from tests.support.shells import Shell

HERE = "-p runs -d development"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with shell_with_fleet(tmp_path_factory.mktemp("executions")) as shell:
        shell.project("runs")
        shell.project("elsewhere")
        register(shell, "runs", "development", "train", plan="nightly")
        register(shell, "runs", "development", "alone")
        yield shell


def created(shell: Shell, command: str, stdin: str = "") -> dict[str, Any]:
    """The execution that a command creates."""
    answer = json.loads(shell.ok(f"rainbowctl create execution -o json {command}", stdin))
    assert answer["created"]
    id = answer["id"]
    execution: dict[str, Any] = shell.rest("GET", f"executions/{id['project']}/{id['domain']}/{id['name']}")
    return execution


def test_a_command_runs_as_a_job_of_its_own_word_for_word(shell: Shell) -> None:
    execution = created(
        shell,
        f"{HERE} --image busybox --cpu 1 --memory 100Mi --nodes 2 --tasks 4 --duration 1h --env A=b --label team=ml "
        "-- sh -c 'echo \"$A\" -p x' --flag",
    )
    job = execution["job"]
    assert job["command"] == ["sh", "-c", 'echo "$A" -p x', "--flag"]
    assert (job["image"], job["resources"]["nodes"], job["resources"]["tasks"]) == ("busybox", 2, 4)
    assert job["resources"]["requests"]["memory"] == "100Mi"
    assert job["environment"]["A"] == "b"
    assert execution["config"]["labels"]["values"]["team"] == "ml"
    assert execution["closure"]["phase"] == "QUEUED"


def test_what_was_created_is_shown_with_where_it_goes_and_what_to_try_next(shell: Shell) -> None:
    done = shell.run(f"rainbowctl create execution shown {HERE} --clusterPool first -- true")
    assert done.status == 0, done.err
    header, row = done.out.splitlines()
    columns = ["NAME", "LAUNCH", "PLAN", "VERSION", "PHASE", "REASON", "CLUSTER", "POOL", "LABEL", "CREATED", "ELAPSED"]
    assert header.split() == columns
    assert row.split()[:7] == ["shown", "-", "-", "QUEUED", "CLUSTER_EXPECTED", "east", "first"]
    message = "Created execution runs/development/shown."
    warning, rest = done.err.split("\n", 1)
    assert "No agent of cluster 'east' has ever been seen." in warning
    assert rest == f"{message} Why there: rainbowctl explain execution shown {HERE}\n"
    explained = shell.ok(done.err.partition("Why there: ")[2])
    assert "cluster east (pool first, strategy spill)" in explained
    assert shell.ok(f"rainbowctl create execution named {HERE} -o name -- true") == "execution/runs/development/named\n"


def test_the_same_execution_twice_starts_nothing_and_has_an_exit_status_of_its_own(shell: Shell) -> None:
    create = f"rainbowctl create execution twice {HERE}"
    shell.ok(f"{create} -- true")
    done = shell.run(f"{create} -- true")
    assert done.status == 8
    expected = (
        r"error: Execution runs/development/twice exists already: it is QUEUED, created \d+ s ago by the same request"
    )
    assert re.search(expected, done.err)
    assert "Nothing was started." in done.err
    done = shell.run(f"{create} -o json -- true")
    assert (done.status, json.loads(done.out)["created"]) == (8, False)
    assert json.loads(done.err)["error"]["name"] == "already_created"
    message = shell.refused(5, f"{create} -- false")
    assert "'twice' exists in runs/development since" in message
    events = shell.rest("GET", "executions/runs/development/twice/events")["events"]
    assert len(events) == 1


def test_a_launch_plan_a_workflow_and_a_task_are_launched_by_name_with_inputs(shell: Shell) -> None:
    execution = created(shell, f"{HERE} --launchplan nightly --input epochs=5")
    assert execution["launch_plan"]["name"] == "nightly"
    assert execution["workflow"]["name"] == "train"
    assert execution["inputs"] == {"epochs": 5, "rate": 0.5}
    assert execution["job"]["command"] == ["train", "5", "0.5"]
    for flag in ("--workflow", "--task"):
        execution = created(shell, f"{HERE} {flag} train --version v1 --input epochs=1 --input rate=2.5")
        assert "launch_plan" not in execution
        assert execution["job"]["command"] == ["train", "1", "2.5"]


def test_inputs_are_checked_and_an_unknown_one_is_named(shell: Shell) -> None:
    create = f"rainbowctl create execution {HERE} --launchplan nightly"
    assert "epochs" in shell.refused(2, create)
    assert "epochs" in shell.refused(2, f"{create} --input epochs='\"5\"'")
    assert "epoch" in shell.refused(2, f"{create} --input epochs=5 --input epoch=3")
    assert "nightli" in shell.refused(3, f"rainbowctl create execution {HERE} --launchplan nightli --input epochs=5")


def test_a_file_of_flytectls_is_taken_as_it_is_and_flags_go_before_it(shell: Shell) -> None:
    shell.file(
        "exec.yaml",
        'iamRoleARN: ""\ninputs:\n    epochs: 2\nenvs: {}\nkubeServiceAcct: robot\ntargetDomain: production\n'
        'targetProject: ""\nversion: v1\nworkflow: nightly\nclusterPool: second\n',
    )
    message = shell.refused(2, f"rainbowctl create execution {HERE} --execFile exec.yaml")
    assert "exec.yaml says targetDomain production, the command line says -d development." in message
    execution = created(shell, f"{HERE} --execFile exec.yaml --targetDomain production")
    assert execution["id"]["domain"] == "production"
    assert (execution["launch_plan"]["name"], execution["pool"], execution["cluster"]) == ("nightly", "second", "north")
    assert execution["launch_plan"]["domain"] == "development"
    assert execution["config"]["security_context"]["run_as"]["k8s_service_account"] == "robot"
    flags = "--targetDomain staging --targetProject elsewhere --clusterPool first --input epochs=7 --iamRoleARN arn:x"
    execution = created(shell, f"{HERE} --execFile - {flags}", stdin=(shell.cwd / "exec.yaml").read_text())
    assert (execution["id"]["project"], execution["id"]["domain"]) == ("elsewhere", "staging")
    assert (execution["pool"], execution["inputs"]["epochs"]) == ("first", 7)
    identity = execution["config"]["security_context"]["run_as"]
    assert identity == {"k8s_service_account": "robot", "iam_role": "arn:x"}


def test_a_files_workflow_is_the_launch_plan_or_else_the_workflow_itself(shell: Shell) -> None:
    shell.file("alone.yaml", "workflow: alone\nversion: v1\ninputs: {epochs: 1}\n")
    done = shell.run(f"rainbowctl create execution {HERE} --execFile alone.yaml -o json")
    assert done.status == 0, done.err
    assert "There is no launch plan alone: the workflow alone is used instead." in done.err
    assert "launch_plan" not in json.loads(done.out)["execution"]
    # A launch plan of that name in another version is no reason to go around it.
    shell.file("older.yaml", "workflow: nightly\nversion: v0\ninputs: {epochs: 1}\n")
    assert "nightly" in shell.refused(3, f"rainbowctl create execution {HERE} --execFile older.yaml")
    shell.file("none.yaml", "workflow: nothing\ninputs: {epochs: 1}\n")
    message = shell.refused(3, f"rainbowctl create execution {HERE} --execFile none.yaml")
    assert "There is neither a launch plan 'nothing' nor a workflow." in message


def test_keys_of_a_file_that_are_flags_or_unknown_are_refused_with_their_place(shell: Shell) -> None:
    shell.file("wrong.yaml", "workflow: nightly\ndryRun: true\nclusterPol: gpu\n")
    message = shell.refused(2, f"rainbowctl create execution {HERE} --execFile wrong.yaml")
    assert "wrong.yaml:2:1: dryRun: belongs on the command line: use --dryRun" in message
    assert "wrong.yaml:3:1: clusterPol: unknown key. Did you mean clusterPool?" in message


def test_a_refusal_of_the_admin_names_the_line_of_the_file(shell: Shell) -> None:
    shell.file("input.yaml", "launchplan: nightly\ninputs:\n  epochs: many\n")
    assert "input.yaml:3:11: inputs.epochs: " in shell.refused(
        2, f"rainbowctl create execution {HERE} --execFile input.yaml"
    )
    shell.file("job.yaml", "job:\n  command: [x]\n  resources: {requests: {cpu: lots}}\n")
    assert "job.yaml:3:" in shell.refused(2, f"rainbowctl create execution {HERE} --execFile job.yaml")


def test_a_jobspec_is_run(shell: Shell) -> None:
    flux = {
        "version": 1,
        "resources": [
            {
                "type": "node",
                "count": 2,
                "with": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
            }
        ],
        "tasks": [{"command": ["hostname"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60}},
    }
    shell.file("flux.json", json.dumps(flux))
    execution = created(shell, f"{HERE} --jobspec flux.json")
    assert execution["job"]["command"] == ["hostname"]
    assert execution["job"]["resources"]["nodes"] == 2


@pytest.mark.parametrize(
    ("flags", "cluster", "pool", "label"),
    [
        ("--clusterPool second", "north", "second", None),
        ("--executionClusterLabel sunny", "east", None, "sunny"),
        ("--targetExecutionCluster arctic", "north", None, "arctic"),
        ("--cluster west", "west", None, None),
        ("--cluster-pool first", "east", "first", None),
    ],
)
def test_a_pool_a_label_or_a_cluster_is_asked_for(
    shell: Shell, flags: str, cluster: str, pool: str | None, label: str | None
) -> None:
    execution = created(shell, f"{HERE} {flags} -- true")
    assert (execution.get("cluster"), execution.get("pool"), execution.get("label")) == (cluster, pool, label)


def test_a_pool_goes_before_a_label_and_the_warning_of_the_admin_is_shown(shell: Shell) -> None:
    done = shell.run(
        f"rainbowctl create execution {HERE} --clusterPool second --executionClusterLabel sunny -o json -- x"
    )
    assert done.status == 0
    assert json.loads(done.out)["execution"]["pool"] == "second"
    assert done.err.startswith("warning: ")


@pytest.mark.parametrize(
    ("flags", "name", "near"),
    [
        ("--clusterPool second1", "unknown_pool", "second"),
        ("--executionClusterLabel arcti", "unknown_label", "arctic"),
        ("--cluster nort", "unknown_cluster", "north"),
    ],
)
def test_an_unknown_pool_label_or_cluster_is_refused_with_the_nearest(
    shell: Shell, flags: str, name: str, near: str
) -> None:
    assert near in shell.refused(2, f"rainbowctl create execution {HERE} {flags} -- true")
    error = json.loads(shell.run(f"rainbowctl create execution {HERE} {flags} -o json -- true").err)["error"]
    assert error["name"] == name


def test_a_dry_run_decides_everything_and_creates_nothing(shell: Shell) -> None:
    done = shell.run(f"rainbowctl create execution dry {HERE} --clusterPool second --dryRun -- true")
    assert done.status == 0, done.err
    assert done.out.splitlines()[1].split()[:7] == ["dry", "-", "-", "QUEUED", "CLUSTER_EXPECTED", "north", "second"]
    assert "Dry run: nothing was created. This is what it would be." in done.err
    assert "'dry'" in shell.refused(3, f"rainbowctl get execution dry {HERE}")
    assert "unknown" in shell.run(f"rainbowctl create execution {HERE} --clusterPool x --dryRun -o json -- x").err


def test_an_execution_is_relaunched_as_it_was_and_in_another_pool(shell: Shell) -> None:
    shell.ok(f"rainbowctl create execution origin {HERE} --launchplan nightly --input epochs=5 --clusterPool first -q")
    again = created(shell, f"{HERE} --relaunch origin")
    assert (again["mode"], again["reference_execution"]["name"]) == ("RELAUNCH", "origin")
    assert (again["inputs"], again["pool"]) == ({"epochs": 5, "rate": 0.5}, "first")
    other = created(shell, f"other {HERE} --relaunch origin --clusterPool second --input epochs=6")
    assert (other["id"]["name"], other["pool"], other["inputs"]["epochs"]) == ("other", "second", 6)
    labelled = created(shell, f"{HERE} --relaunch runs/development/origin --overwriteCache")
    assert labelled["config"]["overwrite_cache"] is True
    message = shell.refused(2, f"rainbowctl create execution {HERE} --relaunch origin --execFile exec.yaml")
    assert "--relaunch runs again what origin ran: leave out --execFile." in message
    shell.refused(3, f"rainbowctl create execution {HERE} --relaunch nobody")


def test_only_what_did_not_succeed_is_recovered(shell: Shell) -> None:
    shell.ok(f"rainbowctl create execution failing {HERE} -q -- true")
    message = shell.refused(5, f"rainbowctl create execution {HERE} --recover failing")
    assert "QUEUED" in message
    shell.ok(f"rainbowctl delete execution failing {HERE} -q")
    again = created(shell, f"{HERE} --recover failing")
    assert (again["mode"], again["reference_execution"]["name"]) == ("RECOVERED", "failing")


def test_a_job_of_ones_own_takes_its_place_from_the_context(shell: Shell) -> None:
    shell.ok(f"rainbowctl config set-context here --endpoint {shell.admin.url} --project runs --domain staging")
    done = shell.run("rainbowctl create execution -o name --context here -- true")
    assert done.out.startswith("execution/runs/staging/")
    got = shell.ok(f"rainbowctl get {done.out.strip().replace('/', ' ', 1)} -o yaml")
    assert yaml.safe_load(got)["id"]["domain"] == "staging"
