"""Workflows and launch plans on the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.acceptance.test_rainbowctl_fleet import cells
from tests.support.admins import running_admin
from tests.support.shells import Shell

TRAIN = """\
kind: workflow
name: train
description: Learns something
inputs:
  epochs: {type: integer, default: 3, description: How often}
  rate: {type: float, description: How fast}
  mode: {type: enum, values: [quick, thorough]}
job:
  command: [python, train.py, --epochs, "{{ inputs.epochs }}"]
  resources: {requests: {cpu: 1}}
  outputs: [model.bin]
"""
NIGHTLY = """\
kind: launchplan
name: nightly
workflow: train
defaultInputs: {rate: 0.5}
fixedInputs: {mode: thorough}
clusterPool: gpu
labels: {team: ml}
"""


@pytest.fixture(scope="module")
def admin_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("registration")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


@pytest.fixture
def shell(admin_shell: Shell, request: pytest.FixtureRequest) -> Shell:
    """A shell whose project is new, so that tests do not see each other's registrations."""
    project = f"p{abs(hash(request.node.nodeid)) % 10**12}"
    admin_shell.project(project)
    admin_shell.environment |= {"RAINBOW_PROJECT": project, "RAINBOW_DOMAIN": "development"}
    for name in ("train.yaml", "nightly.yaml", "run.yaml"):
        (admin_shell.cwd / name).unlink(missing_ok=True)
    return admin_shell


def path(shell: Shell, *parts: str) -> str:
    return "/".join([shell.environment["RAINBOW_PROJECT"], "development", *parts])


def test_files_are_registered_workflows_first_and_again_without_harm(shell: Shell) -> None:
    shell.file("a.yaml", f"{NIGHTLY}active: true\n---\n{TRAIN}")
    register = "rainbowctl register files a.yaml --version v1"
    assert cells(shell.ok(f"{register} --dryRun")) == [
        ["NAME", "STATUS", "ADDITIONAL INFO"],
        ["workflow train version v1", "Success", "would be registered"],
        [
            "launch plan nightly version v1",
            "Success",
            "not checked further: its workflow would be registered with it",
        ],
    ]
    assert shell.rest("GET", f"workflows/{path(shell)}")["workflows"] == []
    assert cells(shell.ok(register))[1:] == [
        ["workflow train version v1", "Success", "registered"],
        ["launch plan nightly version v1", "Success", "registered, activated"],
    ]
    plan = shell.rest("GET", f"launch_plans/{path(shell, 'nightly', 'v1')}")
    assert plan["state"] == "ACTIVE"
    assert plan["spec"]["workflow_id"]["version"] == "v1"
    assert plan["spec"]["cluster_assignment"] == {"cluster_pool_name": "gpu"}
    assert [row[2] for row in cells(shell.ok(register))[1:]] == [
        "registered already with the same content",
        "registered already with the same content",
    ]
    shell.ok("rainbowctl update launchplan nightly --version v1 --deactivate")
    assert cells(shell.ok(register))[2][2] == "registered already with the same content, activated"
    results = json.loads(shell.ok(f"{register} -o json"))
    assert [(result["kind"], result["status"], result["created"]) for result in results] == [
        ("workflow", "Success", False),
        ("launch_plan", "Success", False),
    ]
    assert (
        shell.ok(f"{register} -o name")
        == f"workflow/{path(shell, 'train', 'v1')}\nlaunchplan/{path(shell, 'nightly', 'v1')}\n"
    )


def test_the_warnings_of_a_registration_are_told(shell: Shell) -> None:
    shell.file("train.yaml", TRAIN)
    shell.file("nightly.yaml", NIGHTLY)
    done = shell.run("rainbowctl register files train.yaml nightly.yaml --version v1 -o json")
    message = "warning: launch plan nightly version v1: No pool is called 'gpu' yet."
    assert (done.status, done.err.count(message), done.err.count("warning:")) == (0, 1, 1), done.err
    workflow, plan = json.loads(done.out)
    assert ("warnings" in workflow, [warning["code"] for warning in plan["warnings"]]) == (False, ["unknown_pool"])
    shell.ok("rainbowctl update task-resource-attribute --set limits.cpu=4")
    done = shell.run(
        "rainbowctl create workflow --file - --version v3",
        stdin=TRAIN.replace("requests: {cpu: 1}", "limits: {cpu: 1000000}"),
    )
    assert "job.resources.limits.cpu: 1000000 is above the limit of 4 set at project-domain" in done.err, done.err
    done = shell.run("rainbowctl create launchplan --file nightly.yaml --version v2")
    assert (done.status, done.err.count("version v2: No pool is called 'gpu' yet.")) == (0, 1), done.err


def test_a_launch_plan_without_a_version_of_its_workflow_takes_the_newest(shell: Shell) -> None:
    for version in ("v1", "v2"):
        shell.ok(f"rainbowctl create workflow --file - --version {version}", stdin=TRAIN.replace("3", version[1]))
    poolless = NIGHTLY.replace("clusterPool: gpu\n", "")
    done = shell.run("rainbowctl create launchplan --file - --version x --activate", stdin=poolless)
    assert (done.status, done.out, done.err) == (
        0,
        "",
        "Registered launch plan nightly version x and activated it.\n",
    )
    plan = shell.rest("GET", f"launch_plans/{path(shell, 'nightly', 'x')}")
    assert (plan["spec"]["workflow_id"]["version"], plan["state"]) == ("v2", "ACTIVE")


def test_one_that_is_refused_stops_the_others_unless_told_otherwise(shell: Shell) -> None:
    shell.ok("rainbowctl create workflow --file - --version v1", stdin=TRAIN)
    other = TRAIN.replace("train.py", "other.py")
    fine = TRAIN.replace("name: train", "name: fine")
    shell.file("a.yaml", f"{other}---\n{fine}---\n{NIGHTLY}")
    done = shell.run("rainbowctl register files a.yaml --version v1")
    assert (done.status, done.err) == (2, "error: 1 of 3 could not be registered.\n")
    rows = cells(done.out)[1:]
    assert [row[1] for row in rows] == ["Failed", "Skipped", "Skipped"]
    assert "a.yaml:1:1" in rows[0][2]
    assert "'v1' is registered with another body. Choose another version" in rows[0][2]
    assert "job.command: is [" in rows[0][2]
    message = shell.refused(2, "rainbowctl create workflow --file - --version v1", stdin=other)
    assert re.search(r"job\.command: is .*other\.py.*, registered is .*train\.py", message), message
    done = shell.run("rainbowctl register files a.yaml --version v1 --continueOnError -o json")
    assert done.status == 2
    assert [result["status"] for result in json.loads(done.out)] == ["Failed", "Success", "Success"]


def test_what_is_wrong_is_found_in_the_file_before_or_by_the_admin(shell: Shell) -> None:
    shell.file("a.yaml", f"{TRAIN.replace('command', 'comand')}---\n{NIGHTLY}clusterPol: x\n")
    message = shell.refused(2, "rainbowctl register files a.yaml --version v1")
    assert message == (
        "error: a.yaml cannot be used: 2 problems. Nothing was sent.\n"
        "  a.yaml:9:3: job.comand: unknown key. Did you mean command?\n"
        "  a.yaml:20:1: clusterPol: unknown key. Did you mean cluster_pool?\n"
    )
    message = shell.refused(
        2, "rainbowctl create workflow --file - --version v1", stdin=TRAIN.replace("inputs.epochs", "inputs.epoks")
    )
    assert "  stdin:9:" in message
    assert "epoks" in message
    shell.ok("rainbowctl create workflow --file - --version v1", stdin=TRAIN)
    message = shell.refused(
        2, "rainbowctl create launchplan --file - --version v1", stdin=NIGHTLY.replace("rate: 0.5", "rate: fast")
    )
    assert "  stdin:4:23: default_inputs.rate: " in message
    message = shell.refused(
        3, "rainbowctl create launchplan --file - --version v1", stdin=NIGHTLY.replace("train", "trian")
    )
    assert "Did you mean 'train'" in message
    assert "  stdin:3:11: launch plan nightly version v1\n" in message


def test_workflows_are_listed_and_shown(shell: Shell) -> None:
    done = shell.run("rainbowctl get workflow")
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("No workflow is registered in project ")
    for version in ("v1", "v2"):
        shell.ok(f"rainbowctl create workflow --file - --version {version}", stdin=TRAIN)
    project = shell.environment["RAINBOW_PROJECT"]
    assert cells(shell.ok("rainbowctl get workflows")) == [
        ["PROJECT", "DOMAIN", "NAME", "VERSION", "DESCRIPTION"],
        [project, "development", "train", "v2", "Learns something"],
    ]
    rows = cells(shell.ok("rainbowctl get task train"))
    assert rows[0] == ["VERSION", "NAME", "CREATED AT", "CREATED BY", "WHY"]
    assert [row[0] for row in rows[1:]] == ["v2", "v1"]
    rows = cells(shell.ok("rainbowctl get workflow train --version v1"))
    assert rows[0] == ["VERSION", "NAME", "INPUTS", "OUTPUTS", "CREATED AT", "CREATED BY", "WHY"]
    assert rows[1][:4] == ["v1", "train", "epochs (integer), rate (float), mode (enum)", "model.bin"]
    latest = yaml.safe_load(shell.ok("rainbowctl get workflow train --latest -o yaml"))
    assert latest == shell.rest("GET", f"workflows/{path(shell, 'train', 'latest')}")
    assert shell.ok("rainbowctl get workflow -o name") == f"workflow/{path(shell, 'train', 'v2')}\n"
    assert "Did you mean" in shell.refused(3, "rainbowctl get workflow trian")
    assert "has no version 'v9'" in shell.refused(3, "rainbowctl get workflow train --version v9")


def test_versions_and_the_history_tell_who_registered_them_and_why(shell: Shell) -> None:
    project = shell.environment["RAINBOW_PROJECT"]
    register = "rainbowctl create workflow --file - --version v1 -m 'larger batches'"
    shell.ok(f"{register} --dryRun", stdin=TRAIN, LOGNAME="otto")
    shell.ok(register, stdin=TRAIN, LOGNAME="rita")
    shell.ok("rainbowctl create launchplan --file - --version v1", stdin=NIGHTLY, LOGNAME="otto")
    shell.file("other.yaml", TRAIN.replace("name: train", "name: other"))
    shell.ok("rainbowctl register files other.yaml --version v2 --message 'a second one'", LOGNAME="rita")
    by = ["anonymous (says rita)", "larger batches"]
    assert cells(shell.ok("rainbowctl get workflow train"))[1][3:] == by
    assert cells(shell.ok("rainbowctl get workflow train --latest"))[1][5:] == by
    wide = cells(shell.ok("rainbowctl get workflow -o wide"))
    assert wide[0][5:] == ["CREATED AT", "CREATED BY", "WHY"]
    assert [row[6:] for row in wide[1:]] == [["anonymous (says rita)", "a second one"], by]
    for flags in ("nightly", "-o wide"):
        cells_of_plan = cells(shell.ok(f"rainbowctl get launchplan {flags}"))[1]
        assert cells_of_plan[6:] == ["anonymous (says otto)", *"----"], "nobody has set its state since"
    document = json.loads(shell.ok("rainbowctl get workflow train --latest -o json"))
    assert (document["author"], document["claimed_by"], document["message"]) == ("anonymous", "rita", "larger batches")
    selected = shell.ok(
        "rainbowctl get workflow --filter.fieldSelector 'claimed_by=rita,message contains second' -o name"
    )
    assert selected == f"workflow/{path(shell, 'other', 'v2')}\n"

    history = f"rainbowctl history --source registration -p {project} -d development"
    rows = cells(shell.ok(history))
    assert rows[0] == ["REVISION", "WHEN", "WHO", "WHAT", "WHY"]
    place = f"{project}/development"
    assert [[row[0], *row[2:]] for row in rows[1:]] == [
        ["-", "anonymous (says rita)", f"registered workflow {place}/other version v2", "a second one"],
        ["-", "anonymous (says otto)", f"registered launch plan {place}/nightly version v1 of workflow train", "-"],
        ["-", "anonymous (says rita)", f"registered workflow {place}/train version v1", "larger batches"],
    ]
    assert "3 registrations, the oldest " in shell.run(history).err
    listed = json.loads(shell.ok(f"{history} -o json"))
    assert listed == shell.rest("GET", f"timeline?source=registration&project={project}&domain=development")["entries"]
    assert [entry["id"]["name"] for entry in listed] == ["other", "nightly", "train"]
    assert shell.ok(f"{history} -o name").splitlines() == [
        f"workflow/{path(shell, 'other', 'v2')}",
        f"launchplan/{path(shell, 'nightly', 'v1')}",
        f"workflow/{path(shell, 'train', 'v1')}",
    ]
    of_otto = json.loads(shell.ok(f"rainbowctl history --author otto -p {project} --since 1h -o json"))
    assert of_otto == [listed[1]]
    of_train = json.loads(shell.ok(f"rainbowctl history all train -p {project} -d development -o json"))
    assert of_train == listed[1:]


def test_launch_plans_are_listed_shown_and_activated(shell: Shell) -> None:
    shell.ok("rainbowctl create workflow --file - --version w", stdin=TRAIN)
    for version in ("v1", "v2"):
        shell.ok(f"rainbowctl create launchplan --file - --version {version}", stdin=NIGHTLY)
    rows = cells(shell.ok("rainbowctl get launchplan"))
    assert rows[0] == ["VERSION", "NAME", "WORKFLOW", "STATE", "CREATED AT"]
    assert rows[1][:4] == ["v2", "nightly", "train:w", "INACTIVE"]
    assert len(cells(shell.ok("rainbowctl get launchplans --workflow train"))) == 2
    assert shell.run("rainbowctl get launchplan --workflow other").out == ""
    inputs = "epochs=3, rate=0.5, mode=thorough (fixed)"
    assert cells(shell.ok("rainbowctl get launchplan -o wide"))[1][5] == inputs
    assert [row[4] for row in cells(shell.ok("rainbowctl get launchplan nightly"))[1:]] == [inputs, inputs]
    needy = NIGHTLY.replace("nightly", "needy").replace("defaultInputs: {rate: 0.5}\n", "")
    shell.ok("rainbowctl create launchplan --file - --version v1", stdin=needy)
    wide = cells(shell.ok("rainbowctl get launchplan -o wide --filter.fieldSelector 'launch_plan.name=needy'"))
    assert [row[5] for row in wide[1:]] == ["epochs=3, rate (float, required), mode=thorough (fixed)"]
    names = shell.ok("rainbowctl get launchplan --filter.sortBy name --filter.limit 1 -o name")
    assert names == f"launchplan/{path(shell, 'nightly', 'v2')}\n"
    shown = shell.ok("rainbowctl get launchplan nightly --filter.asc --filter.limit 1 -o name")
    assert shown == f"launchplan/{path(shell, 'nightly', 'v1')}\n"
    plan = yaml.safe_load(shell.ok("rainbowctl get launchplan needy --latest -o yaml"))
    assert plan["expected_inputs"]["rate"] == {"type": "float", "description": "How fast", "required": True}
    assert "chooses among many" in shell.refused(2, "rainbowctl get launchplan needy --latest --filter.limit 1")
    assert "No launch plan in project" in shell.run("rainbowctl get launchplan --filter.fieldSelector name=x").err

    update = "rainbowctl update launchplan nightly --version v1"
    done = shell.run(f"{update} --activate --dryRun")
    assert done.out == (
        "launch plan nightly version v1\n--- stored\n+++ after this update\n@@ -1 +1 @@\n"
        "-state: INACTIVE\n+state: ACTIVE\n"
    )
    assert done.err == "Dry run: nothing was written.\n"
    assert shell.run(f"{update} --activate").err == "Activated launch plan nightly version v1.\n"
    done = shell.run(f"{update.replace('v1', 'v2')} --activate --force")
    assert done.err == (
        "Version v1 is active now, and will become inactive.\nActivated launch plan nightly version v2.\n"
    )
    assert [row[3] for row in cells(shell.ok("rainbowctl get launchplan nightly"))[1:]] == ["ACTIVE", "INACTIVE"]
    done = shell.run(f"{update} --deactivate")
    assert done.err == "No changes: launch plan nightly version v1 is INACTIVE already.\n"
    assert "give --activate or --deactivate" in shell.refused(2, update)
    assert "contradict each other" in shell.refused(2, f"{update} --activate --deactivate")
    assert "Missing option '--version'" in shell.refused(2, "rainbowctl update launchplan nightly --activate")
    with shell.at_terminal(f"{update} --activate") as terminal:
        terminal.wait_for("Write this? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1


def test_who_activated_a_launch_plan_and_why_is_kept(shell: Shell) -> None:
    project = shell.environment["RAINBOW_PROJECT"]
    shell.ok("rainbowctl create workflow --file - --version w", stdin=TRAIN)
    for version in ("v1", "v2"):
        shell.ok(f"rainbowctl create launchplan --file - --version {version}", stdin=NIGHTLY, LOGNAME="otto")
    update = "rainbowctl update launchplan nightly --force --version"
    shell.ok(f"{update} v1 --activate", LOGNAME="otto")
    shell.ok(f"{update} v2 --activate -m 'twice as fast'", LOGNAME="olga")
    header, *rows = cells(shell.ok("rainbowctl get launchplan nightly"))
    assert header[-3:] == ["STATE SET", "STATE SET BY", "STATE WHY"]
    by_olga = ["anonymous (says olga)", "twice as fast"]
    assert [[row[0], row[3], *row[-2:]] for row in rows] == [["v2", "ACTIVE", *by_olga], ["v1", "INACTIVE", *by_olga]]
    listed = json.loads(shell.ok("rainbowctl get launchplan nightly -o json"))
    assert listed == shell.rest("GET", f"launch_plans/{project}/development/nightly")["launch_plans"]
    assert listed[0]["state_set_by"]["claimed_by"] == "olga"
    history = f"rainbowctl history --source registration -p {project} -d development --author"
    plan = f"launch plan {project}/development/nightly version"
    assert [row[2:] for row in cells(shell.ok(f"{history} olga"))[1:]] == [
        [by_olga[0], f"activated {plan} v2 of workflow train", by_olga[1]],
        [by_olga[0], f"deactivated {plan} v1 of workflow train, replaced by v2", by_olga[1]],
    ]
    entries = json.loads(shell.ok(f"{history} otto -o json"))
    assert entries == shell.rest("GET", f"timeline?source=registration&project={project}&actor=otto")["entries"]
    assert [(entry["type"], entry["id"]["version"]) for entry in entries] == [
        ("LAUNCH_PLAN_ACTIVATED", "v1"),
        ("LAUNCH_PLAN_REGISTERED", "v2"),
        ("LAUNCH_PLAN_REGISTERED", "v1"),
    ]
    shell.ok(f"{update} v2 --archive -m 'wrong results'", LOGNAME="rita")
    assert cells(shell.ok("rainbowctl get launchplan nightly --version v2"))[1][-1] == "wrong results"
    names = shell.ok(f"{history} rita -o name")
    assert names == f"launchplan/{path(shell, 'nightly', 'v2')}\n"


def test_a_file_for_an_execution_is_written_and_not_overwritten(shell: Shell) -> None:
    shell.ok("rainbowctl create workflow --file - --version w", stdin=TRAIN)
    shell.ok("rainbowctl create launchplan --file - --version v1 --activate", stdin=NIGHTLY)
    shell.ok("rainbowctl create launchplan --file - --version v2", stdin=NIGHTLY)
    project = shell.environment["RAINBOW_PROJECT"]
    done = shell.run("rainbowctl get launchplan nightly --execFile run.yaml")
    assert (done.status, done.out) == (0, "")
    assert f"`rainbowctl create execution -p {project} -d development --execFile run.yaml`" in done.err
    assert (shell.cwd / "run.yaml").read_text() == (
        'iamRoleARN: ""\ninputs:\n    # mode is fixed to thorough\n'
        "    epochs: 3  # How often\n    rate: 0.5  # How fast\n"
        'envs: {}\nkubeServiceAcct: ""\ntargetDomain: ""\ntargetProject: ""\nversion: v1\n'
        "workflow: nightly\n"
    )
    typed = shell.refused(3, f"rainbowctl create execution -p {project} -d production --execFile run.yaml")
    assert f"in {project}/production" in typed
    assert "use --force to overwrite" in shell.refused(2, "rainbowctl get workflow train --execFile run.yaml")
    shell.ok("rainbowctl get workflow train --execFile run.yaml --force")
    text = (shell.cwd / "run.yaml").read_text()
    assert "    mode: quick\n" in text
    assert "\ntask: train\nversion: w\n" in text
    assert shell.ok("rainbowctl get task train --execFile -") == text


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("register files nowhere.yaml", 2, "nowhere.yaml cannot be read"),
        ("register files", 2, "Missing argument"),
        ("register examples", 2, "There is no noun 'examples': write documents of your own"),
        ("register files x.tgz --archive", 2, "--archive of flytectl is not supported: documents are read from files"),
        (
            "register files x.yaml --force",
            2,
            "--force of flytectl is not supported: a registered version is never changed",
        ),
        ("register files x.yaml --destination-directory /x", 2, "--destinationDirectory of flytectl is not supported"),
        ("get workflow --version v1", 2, "--version is about one workflow: give its name."),
        ("get workflow x --version v1 --latest", 2, "contradict each other"),
        ("get launchplan nightly --workflow train", 2, "leave out one of the two"),
        ("get workflow x --execFile f -o yaml", 2, "--execFile writes YAML to a file; leave out -o."),
        ("get workflow x --execFile f", 3, "No workflow is called 'x'"),
        ("create workflow", 2, "Missing option"),
    ],
)
def test_what_is_missing_or_wrong_is_named(shell: Shell, command: str, status: int, message: str) -> None:
    assert message in shell.refused(status, f"rainbowctl {command}")


def test_project_and_domain_are_asked_for(shell: Shell) -> None:
    nothing = {"RAINBOW_PROJECT": "", "RAINBOW_DOMAIN": ""}
    assert "In which project? Give -p PROJECT" in shell.refused(2, "rainbowctl get workflow", **nothing)
    assert "In which domain? Give -d DOMAIN" in shell.refused(2, "rainbowctl get launchplan -p flytesnacks")
    message = shell.refused(2, "rainbowctl register files - --version v1", stdin=TRAIN, **nothing)
    assert message == "error: stdin:1:1: workflow train lacks a project: write it there, or give -p PROJECT.\n"
    assert "lacks a version" in shell.refused(2, "rainbowctl register files -", stdin=TRAIN)
