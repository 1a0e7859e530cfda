"""What is read: one value, every row page by page, files to edit, and the explanation of a value."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import yaml

from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import Shell

ROWS = 503  #: more than one page, whose size is 500


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("reads")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


@pytest.fixture
def new_shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_a_mistyped_workflow_is_noted_with_the_closest_known_one(new_shell: Shell) -> None:
    new_shell.project("typed")
    update = "rainbowctl update execution-cluster-label -p typed -d staging --set value=mycluster"
    new_shell.ok(f"{update} fitted")
    answer = new_shell.run("rainbowctl explain execution-cluster-label -p typed -d staging fited")
    assert answer.status == 0
    assert "No workflow 'fited' is registered, and nothing is set for one. Did you mean 'fitted'?" in answer.err
    document = json.loads(new_shell.ok("rainbowctl explain execution-cluster-label -p typed -d staging fited -o json"))
    assert document["unknown_names"][0]["closest"] == ["fitted"]
    future = new_shell.refused(2, "rainbowctl explain all -p typed -d staging --at 9000-01-01")
    assert future == "error: --at 9000-01-01 lies in the future: give a time until now, or leave it out.\n"


@pytest.mark.slow
def test_all_rows_are_listed_across_pages_and_names_lead_back_to_them(shell: Shell) -> None:
    shell.project("many")
    names = [f"wf{number:04}" for number in range(ROWS)]
    with requests.Session() as session:
        for name in names:
            body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "mycluster"}}}}
            url = f"{shell.admin.url}/api/v1/workflow_attributes/many/staging/{name}"
            assert session.put(url, json=body, timeout=60).status_code == 200
    get = "rainbowctl get execution-cluster-label -A -p many"
    expected = [f"execution-cluster-label/many/staging/{name}" for name in names]
    assert shell.ok(f"{get} -o name").splitlines() == expected
    assert len(shell.ok(f"{get} --no-headers").splitlines()) == ROWS
    assert shell.ok(f"{get} -o name -w wf0502") == "execution-cluster-label/many/staging/wf0502\n"

    pipe = "set -o pipefail; " + f"{get} -o name | tail -2 | while IFS=/ read kind project domain workflow; do "
    pipe += "rainbowctl delete $kind -p $project -d $domain $workflow -q; done"
    shell.ok(pipe)
    rest = shell.rest("GET", "matchable_attributes?resource_type=3&project=many&limit=1000")["configurations"]
    assert [row["workflow"] for row in rest] == names[:-2]


def test_rows_are_listed_with_who_and_when_and_filtered_by_scope(shell: Shell) -> None:
    shell.project("filtered")
    for domain in ("staging", "production"):
        shell.ok(f"rainbowctl update workflow-priority -p filtered -d {domain} --priority 9 -q -m 'before {domain}'")
    get = "rainbowctl get workflow-priority -A -p filtered"
    header, *rows = shell.ok(f"{get} -o wide").splitlines()
    assert " ".join(header.split()) == "LEVEL PROJECT DOMAIN WORKFLOW LAUNCH PLAN VALUE VERSION UPDATED BY WHY"
    assert [row.split()[2] for row in rows] == ["production", "staging"]
    assert all("anonymous (says " in row for row in rows)
    assert [row.rpartition("  ")[2] for row in rows] == ["before production", "before staging"]
    header, *rows = shell.ok(get).splitlines()
    assert " ".join(header.split()) == "LEVEL PROJECT DOMAIN WORKFLOW LAUNCH PLAN VALUE VERSION SET BY"
    [row] = json.loads(shell.ok(f"{get} -d staging -o json"))
    provenance = row.pop("provenance")
    assert (provenance["revision"], provenance["message"]) == (row["version"], "before staging")
    assert f"revision {row['version']}, anonymous (says " in rows[1]
    assert rows[1].endswith(" ago, 'before staging'")
    query = "resource_type=10&project=filtered&domain=staging"
    [rest] = shell.rest("GET", f"matchable_attributes?{query}")["configurations"]
    assert rest["provenance"] == provenance
    # A file needs no provenance, and one that has it is read as if it had none.
    assert list(yaml.safe_load_all(shell.ok(f"{get} -d staging -o yaml"))) == [row]
    for form in ("yaml", "json"):
        assert "No changes" in shell.run(f"{get} -o {form} > rows.{form}; rainbowctl apply -f rows.{form}").err
    assert {
        "kind": "workflow-priority",
        "project": "filtered",
        "domain": "staging",
        "priority": 9,
    }.items() <= row.items()
    done = shell.run(f"{get} -d development")
    assert (done.status, done.out) == (0, "")
    assert done.err == "No workflow-priority is set at the selected scopes.\n"


def test_what_is_not_set_exits_with_3_and_says_so(shell: Shell) -> None:
    shell.project("unset")
    for form in ("table", "json"):
        done = shell.run(f"rainbowctl get execution-cluster-label -p unset -d staging -o {form}")
        assert (done.status, done.out) == (3, "")
        assert (
            "No execution-cluster-label is set at project unset, domain staging, nor at any level above it." in done.err
        )


def test_what_does_not_exist_is_told_apart_from_what_is_not_set(shell: Shell) -> None:
    message = shell.refused(2, "rainbowctl get execution-cluster-label -p flytesnaks -d staging")
    assert message.startswith("error: No project is called 'flytesnaks'. Did you mean 'flytesnacks'")
    message = shell.refused(2, "rainbowctl get execution-cluster-label -p flytesnacks -d stagin")
    assert message.startswith("error: No domain is called 'stagin'. Did you mean 'staging'?")


def test_a_value_written_to_a_file_changes_nothing_when_it_is_written_back(shell: Shell) -> None:
    name = shell.project("roundtrip")
    payload = {
        "max_parallelism": 4,
        "labels": {"values": {"app.kubernetes.io/name": "no"}},
        "envs": {"values": [{"key": "A", "value": "010"}]},
        "interruptible": None,
        "security_context": {"run_as": {"k8s_service_account": "robot"}},
    }
    version = shell.put(f"project_attributes/{name}", workflow_execution_config=payload)
    get = f"rainbowctl get workflow-execution-config -p {name} --attrFile round.yaml"
    done = shell.run(get)
    assert (done.status, done.out) == (0, "")
    assert done.err == "Wrote workflow-execution-config at project roundtrip to round.yaml.\n"
    file = shell.cwd / "round.yaml"
    assert yaml.safe_load(file.read_text()) == {"project": name, **payload, "version": version}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    done = shell.run("rainbowctl update workflow-execution-config --attrFile round.yaml")
    assert (done.status, done.out) == (0, "")
    assert done.err == (
        "No changes: workflow-execution-config at project roundtrip is already as requested.\n"
        "warning: max_parallelism is passed to agents, but no engine of Rainbow reads it; one of your own may.\n"
    )
    pipe = f"rainbowctl get workflow-execution-config -p {name} -o yaml"
    assert "No changes" in shell.run(f"{pipe} | rainbowctl update workflow-execution-config --attrFile -").err
    assert shell.ok(f"rainbowctl get workflow-execution-config -p {name} --attrFile -") == file.read_text()
    pipe = f"rainbowctl get workflow-execution-config -p {name} -o json"
    assert "No changes" in shell.run(f"{pipe} | rainbowctl update workflow-execution-config --attrFile -").err


def test_one_value_has_the_revisions_of_its_fields_in_text_and_json(new_shell: Shell) -> None:
    update = "rainbowctl update task-resource-attribute -d staging -q"
    new_shell.ok(f"{update} --defaults.cpu 1 -m 'small nodes'")
    new_shell.ok(f"{update} --limits.cpu 2 -m 'fewer jobs'")
    why = {"defaults.cpu": "small nodes", "limits.cpu": "fewer jobs"}
    get = "rainbowctl get task-resource-attribute -d staging"
    head = new_shell.rest("GET", "revisions?limit=1")["head"]
    for flags in ("", f" --at {head}"):
        row = json.loads(new_shell.ok(f"{get} -o json{flags}"))
        assert (row["provenance"]["revision"], row["provenance"]["message"]) == (row["version"], "fewer jobs")
        origins = row["origins"].items()
        assert {path: row["revisions"][str(origin["revision"])]["message"] for path, origin in origins} == why
        lines = new_shell.ok(f"{get} --exact{flags}").splitlines()[1:]
        assert {line.split()[0]: line.rpartition(", ")[2] for line in lines} == {
            path: f"'{message}')" for path, message in why.items()
        }
    inherited = json.loads(new_shell.ok(f"{get} -p flytesnacks -o json"))
    assert "provenance" not in inherited
    number = inherited["origins"]["defaults.cpu"]["revision"]
    assert inherited["revisions"][str(number)]["message"] == "small nodes"
    assert "origins" not in yaml.safe_load(new_shell.ok(f"{get} -o yaml"))


def test_a_file_that_exists_is_overwritten_only_when_told(shell: Shell) -> None:
    file = shell.file("kept.yaml", "mine\n")
    get = "rainbowctl get workflow-execution-config -d staging --attrFile kept.yaml"
    assert shell.refused(2, get) == "error: kept.yaml exists: use --force to overwrite it.\n"
    with shell.at_terminal(get) as terminal:
        terminal.wait_for("kept.yaml exists. Overwrite it? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1
    assert file.read_text() == "mine\n"
    shell.ok(f"{get} --force")
    assert "max_parallelism: 25" in file.read_text()
    assert shell.refused(2, f"{get} -o yaml") == "error: --attrFile writes YAML to a file; leave out -o.\n"
    assert "cannot be written" in shell.refused(2, get.replace("kept.yaml", "none/kept.yaml"))
    assert list(shell.cwd.glob(".*")) == []


def test_where_nothing_is_set_a_sample_is_written_that_can_be_used_as_it_is(shell: Shell) -> None:
    name = shell.project("sampled")
    done = shell.run(f"rainbowctl get execution-cluster-label -p {name} -d staging --attrFile sample.yaml")
    assert done.status == 0
    assert done.err == (
        "No execution-cluster-label is set at project sampled, domain staging, nor at any level above it. "
        "Wrote a sample to sample.yaml.\n"
    )
    assert (shell.cwd / "sample.yaml").read_text() == (
        "# A sample: no execution-cluster-label is set at project sampled, domain staging, and none is inherited.\n"
        "# Change the values below, remove what you do not need, then run\n"
        "#   rainbowctl update execution-cluster-label --attrFile sample.yaml\n"
        "project: sampled\ndomain: staging\n"
        "# Name of a label, or of a single cluster.\nvalue: mycluster\n"
    )
    shell.ok("rainbowctl update execution-cluster-label --attrFile sample.yaml")
    assert shell.values("3", f"project={name}") == [{"value": "mycluster"}]


def test_an_explanation_shows_all_six_levels_broadest_first_and_the_silent_ones(new_shell: Shell) -> None:
    limits = {"matching_attributes": {"task_resource_attributes": {"limits": {"memory": "4Gi"}}}}
    body = {"attributes": limits, "claimed_by": "ana", "message": "cap memory"}
    new_shell.rest("PUT", "domain_attributes/staging", body)
    new_shell.put(
        "project_domain_attributes/flytesnacks/staging",
        task_resource_attributes={"limits": {"memory": "3Gi"}, "defaults": {"cpu": "1"}},
    )
    new_shell.put("workflow_attributes/flytesnacks/staging/my.wf", task_resource_attributes={"limits": {"cpu": None}})
    explain = "rainbowctl explain task-resource-attribute -p flytesnacks -d staging my.wf --launchplan nightly"
    out = re.sub(r"20[0-9-]+ [0-9:]+Z", "… ago", new_shell.ok(f"{explain} -o wide"))
    title, trail, leaves = out.split("\n\n")
    assert title == (
        "task-resource-attribute at project flytesnacks, domain staging, workflow my.wf, launch plan nightly is "
        "defaults.cpu=1, defaults.memory=200Mi, limits.gpu=1, limits.memory=3Gi, set by configuration and project "
        "flytesnacks, domain staging (revision 2, anonymous, … ago); as of revision 3."
    )
    cells = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in trail.splitlines()]
    assert cells == [
        ["LEVEL", "SCOPE", "VALUE", "EFFECT", "SET BY"],
        [
            "platform",
            "configuration (task_resources)",
            "defaults.cpu=2, defaults.memory=200Mi, limits.cpu=2, limits.gpu=1, limits.memory=1Gi",
            "used: defaults.memory, limits.gpu; overridden: defaults.cpu, limits.cpu, limits.memory",
            "-",
        ],
        [
            "domain",
            "domain staging",
            "limits.memory=4Gi",
            "overridden",
            "revision 1, anonymous (says ana), … ago, 'cap memory'",
        ],
        ["project", "project flytesnacks", "-", "silent", "-"],
        [
            "project-domain",
            "project flytesnacks, domain staging",
            "defaults.cpu=1, limits.memory=3Gi",
            "used",
            "revision 2, anonymous, … ago",
        ],
        [
            "workflow",
            "project flytesnacks, domain staging, workflow my.wf",
            "limits.cpu=(unset)",
            "used",
            "revision 3, anonymous, … ago",
        ],
        [
            "launch-plan",
            "project flytesnacks, domain staging, workflow my.wf, launch plan nightly",
            "-",
            "silent",
            "-",
        ],
    ]
    above = "inherited from project flytesnacks, domain staging"
    assert [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in leaves.splitlines()] == [
        ["FIELD", "VALUE", "ORIGIN"],
        ["defaults.cpu", "1", f"{above} (revision 2, anonymous, … ago)"],
        ["defaults.memory", "200Mi", "configuration (task_resources.defaults.memory)"],
        ["limits.gpu", "1", "configuration (task_resources.limits.gpu)"],
        ["limits.memory", "3Gi", f"{above} (revision 2, anonymous, … ago)"],
        ["limits.cpu", "(unset)", f"{above}, workflow my.wf (revision 3, anonymous, … ago)"],
    ]
    path = "effective_attributes?project=flytesnacks&domain=staging&workflow=my.wf&launch_plan=nightly"
    answer = new_shell.rest("GET", f"{path}&resource_type=0&provenance=true&nearest=true")
    assert json.loads(new_shell.ok(f"{explain} -o json")) == answer
    assert yaml.safe_load(new_shell.ok(f"{explain} -o yaml")) == answer
    first = answer["revisions"]["1"]
    header, *rows = new_shell.ok(
        "rainbowctl get task-resource-attribute -p flyteexamples -d staging -o wide"
    ).splitlines()
    assert re.split(" {2,}", header)[-5:] == ["VERSION", "REVISION", "UPDATED", "BY", "WHY"]
    [memory] = [re.split(" {2,}", row) for row in rows if row.startswith("limits.memory")]
    at = f"{first['at'][:19].replace('T', ' ')}Z"
    origin = ["inherited from domain staging", "1", "1", at, "anonymous (says ana)", "cap memory"]
    assert memory == ["limits.memory", "4Gi", *origin]
    assert f"revision 1, anonymous (says ana), {at}, 'cap memory'" in new_shell.ok(f"{explain} -o wide")


def test_every_kind_is_explained_at_once_by_noun_name_or_number(shell: Shell) -> None:
    kinds = [kind["noun"] for kind in shell.rest("GET", "kinds")["kinds"]]
    names = shell.ok("rainbowctl explain -d production -o name").splitlines()
    assert names == [f"{noun}/-/production" for noun in kinds]
    answer = json.loads(shell.ok("rainbowctl explain all -d production -o json"))
    assert answer == shell.rest("GET", "effective_attributes?domain=production&provenance=true&nearest=true")
    titles = [
        line
        for line in shell.ok("rainbowctl explain -d production").splitlines()
        if line.endswith("at domain production")
    ]
    assert titles == [f"{noun} at domain production" for noun in kinds]
    forms = {
        shell.ok(f"rainbowctl explain {word}") for word in ("3", "EXECUTION_CLUSTER_LABEL", "execution-cluster-labels")
    }
    [out] = forms
    assert out.startswith("execution-cluster-label has no value at the platform: no level sets one; as of revision ")
    assert out.count("no level sets one") == 1


def test_a_kind_may_be_typed_by_its_name_or_number_too(shell: Shell) -> None:
    by_noun = shell.ok("rainbowctl get workflow-priority -d production -o json")
    assert shell.ok("rainbowctl get WORKFLOW_PRIORITY -d production -o json") == by_noun
    assert shell.ok("rainbowctl get 10 -d production -o json") == by_noun


def test_two_scopes_are_compared_in_text_json_and_over_http_with_the_same_facts(new_shell: Shell) -> None:
    project = new_shell.project("compared")
    new_shell.ok(f"rainbowctl update task-resource-attribute -p {project} -d staging --set limits.cpu=2 -q")
    new_shell.ok(f"rainbowctl update task-resource-attribute -p {project} -d production --set limits.cpu=8 -q")
    compare = f"rainbowctl compare task-resource-attribute -p {project} -d staging --otherDomain production"
    done = new_shell.run(f"{compare} -o wide")
    assert done.status == 0
    assert f"first is project {project}, domain staging, as of revision " in done.out
    header = next(line for line in done.out.splitlines() if line.startswith("KIND "))
    assert header.split()[2:] == ["FIRST", "FIRST", "SET", "BY", "SECOND", "SECOND", "SET", "BY"]
    row = next(line for line in done.out.splitlines() if "limits.cpu" in line)
    *cells, second = [cell.strip() for cell in row.split("  ") if cell.strip()]
    assert cells[:3] == ["task-resource-attribute", "limits.cpu", "2"]
    assert cells[3].startswith(f"project {project}, domain staging (revision ")
    assert cells[4] == "8"
    assert second.startswith(f"project {project}, domain production (revision ")
    assert done.out.startswith("1 field differs, ")
    query = f"project={project}&domain=staging&other_domain=production&resource_type=TASK_RESOURCE"
    answer = new_shell.rest("GET", f"effective_attributes/comparison?{query}")
    assert json.loads(new_shell.ok(f"{compare} -o json")) == answer
    assert new_shell.ok(f"{compare} --at 1 --otherAt 1").startswith("No fields differ, ")
    assert "stagin" in new_shell.refused(2, f"{compare.replace('production', 'stagin')}")


def test_a_table_opens_with_a_sentence_and_other_formats_do_not(shell: Shell) -> None:
    name = shell.project("opened")
    at = f"-p {name} -d staging"
    shell.put(f"project_attributes/{name}", execution_cluster_label={"value": "a"})
    shell.put(f"project_domain_attributes/{name}/staging", execution_cluster_label={"value": "b"})
    resources = {"limits": {"cpu": "3", "memory": "2Gi"}}
    shell.put(f"workflow_attributes/{name}/staging/fit", task_resource_attributes=resources)
    for workflow in ("fit", "score"):
        id = {"project": name, "domain": "staging", "name": workflow, "version": "v1"}
        shell.rest("POST", "workflows", {"id": id, "spec": {"job": {"command": ["true"]}}})
    shell.rest("POST", "launch_plans", {"id": id, "state": "ACTIVE", "spec": {"workflow_id": id}})
    sentences = {
        f"execution-cluster-label -A -p {name}": (
            f"2 execution-cluster-label rows of project {name}: 1 at project level, 1 at project-domain level."
        ),
        f"execution-cluster-label {at}": (
            f"1 field of execution-cluster-label is set at project {name}, domain staging."
        ),
        f"task-resource-attribute {at} fit --exact": (
            f"2 fields of task-resource-attribute are set at project {name}, domain staging, workflow fit."
        ),
        f"workflow {at}": f"2 workflows in project {name}, domain staging.",
        f"workflow {at} --filter.limit 1": f"The first workflow in project {name}, domain staging.",
        f"workflow {at} --filter.limit 1 --filter.page 2": f"Workflow 2 in project {name}, domain staging.",
        f"workflow fit {at}": "1 version of workflow fit.",
        f"launchplan {at}": f"1 launch plan in project {name}, domain staging: 1 ACTIVE.",
        f"project --selector id={name}": "1 project: 1 ACTIVE.",
        "domain": "3 domains.",
    }
    for words, sentence in sentences.items():
        done = shell.run(f"rainbowctl get {words}")
        assert (done.status, done.err.splitlines()[0]) == (0, sentence)
        for form in ("json", "yaml", "name"):
            assert sentence not in shell.run(f"rainbowctl get {words} -o {form}").err
        assert shell.run(f"rainbowctl get {words} -q").err == ""
    some = shell.run(f"rainbowctl get task-resource-attribute {at} fit").err
    assert some.startswith("2 fields of task-resource-attribute are set at ")
    assert " are inherited." in some
