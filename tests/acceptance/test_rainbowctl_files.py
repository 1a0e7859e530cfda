"""Attribute files: those of the documentation byte for byte, what is read as written, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import CONFIG, Shell

NOUNS = {
    "ec": "execution-cluster-label",
    "tra": "task-resource-attribute",
    "cra": "cluster-resource-attribute",
    "eqa": "execution-queue-attribute",
    "po": "plugin-override",
    "qos": "quality-of-service",
    "wec": "workflow-execution-config",
    "cpa": "cluster-pool-attribute",
    "tpq": "token-pool-quota",
    "eq": "execution-quota",
    "wp": "workflow-priority",
}
HERE = "-p flyteexamples -d development"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("files")
    with running_admin(directory) as admin:
        yield Shell(admin, directory)


@pytest.fixture
def new_shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    """A shell beside config/, and an admin that nobody has used."""
    shell = Shell(admin, tmp_path)
    shutil.copytree(CONFIG, shell.cwd / "config")
    return shell


EC = "value: mycluster\ndomain: development\nproject: flyteexamples\n"
TRA = """\
project: flyteexamples
domain: development
defaults:
    cpu: "1"
    memory: 150Mi
limits:
    cpu: "2"
    memory: 450Mi
"""
CRA = """\
domain: development
project: flyteexamples
attributes:
    projectQuotaCpu: "1000"
    projectQuotaMemory: 5Ti
"""


def listed(number: int, key: str, payload: dict[str, Any]) -> dict[str, Any]:
    names = {0: "TASK_RESOURCE", 1: "CLUSTER_RESOURCE", 3: "EXECUTION_CLUSTER_LABEL"}
    return {
        "attributes": {key: payload},
        "resource_type": names[number],
        "level": "project-domain",
        "project": "flyteexamples",
        "domain": "development",
        "version": 1,
    }


@pytest.mark.parametrize(
    ("name", "text", "number", "key", "diff", "table", "document"),
    [
        (
            "ec",
            EC,
            3,
            "execution_cluster_label",
            "@@ -0,0 +1 @@\n+value: mycluster\n",
            "FIELD  VALUE      ORIGIN\nvalue  mycluster  here (revision 1, anonymous (says USER), … ago)\n",
            "value: mycluster\n",
        ),
        (
            "tra",
            TRA,
            0,
            "task_resource_attributes",
            "@@ -0,0 +1,6 @@\n+defaults:\n+  cpu: '1'\n+  memory: 150Mi\n+limits:\n+  cpu: '2'\n+  memory: 450Mi\n",
            "FIELD            VALUE  ORIGIN\n"
            "defaults.cpu     1      here (revision 1, anonymous (says USER), … ago)\n"
            "defaults.memory  150Mi  here (revision 1, anonymous (says USER), … ago)\n"
            "limits.cpu       2      here (revision 1, anonymous (says USER), … ago)\n"
            "limits.gpu       1      configuration (task_resources.limits.gpu)\n"
            "limits.memory    450Mi  here (revision 1, anonymous (says USER), … ago)\n",
            "defaults:\n  cpu: '1'\n  memory: 150Mi\nlimits:\n  cpu: '2'\n  memory: 450Mi\n",
        ),
        (
            "cra",
            CRA,
            1,
            "cluster_resource_attributes",
            "@@ -0,0 +1,3 @@\n+attributes:\n+  projectQuotaCpu: '1000'\n+  projectQuotaMemory: 5Ti\n",
            "FIELD                          VALUE  ORIGIN\n"
            "attributes.projectQuotaCpu     1000   here (revision 1, anonymous (says USER), … ago)\n"
            "attributes.projectQuotaMemory  5Ti    here (revision 1, anonymous (says USER), … ago)\n",
            "attributes:\n  projectQuotaCpu: '1000'\n  projectQuotaMemory: 5Ti\n",
        ),
    ],
)
def test_a_file_of_the_documentation_is_stored_read_back_listed_and_deleted(
    new_shell: Shell, name: str, text: str, number: int, key: str, diff: str, table: str, document: str
) -> None:
    noun, place = NOUNS[name], "project flyteexamples, domain development"
    assert (new_shell.cwd / f"config/{name}.yaml").read_text() == text

    done = new_shell.run(f"rainbowctl update {noun} --attrFile config/{name}.yaml")
    assert done.status == 0
    assert done.out == f"{noun} at {place} (level project-domain)\n--- not set\n+++ after this update\n{diff}"
    *warnings, told = done.err.splitlines()
    assert told == f"Updated {noun} at {place}: version 1."
    assert [warning[:28] for warning in warnings] == (["warning: No cluster takes it"] if name == "cra" else [])

    shown = re.sub(r"says [^)]+\), [0-9]+ s ago", "says USER), … ago", new_shell.ok(f"rainbowctl get {noun} {HERE}"))
    assert shown == table
    payload = yaml.safe_load(document)
    scope = {"project": "flyteexamples", "domain": "development"}
    shown = json.loads(new_shell.ok(f"rainbowctl get {noun} {HERE} -o json"))
    provenance = {key: shown.pop(key) for key in ("provenance", "origins", "revisions")}
    assert shown.pop("consequence", {}).get("outcome") == ("waits" if name == "ec" else None)  # no agent was seen
    assert json.dumps(shown) == json.dumps({**scope, **payload, "version": 1})
    assert provenance["provenance"] == provenance["revisions"]["1"]
    assert new_shell.ok(f"rainbowctl get {noun} {HERE} -o yaml") == (
        f"project: flyteexamples\ndomain: development\n{document}version: 1\n"
    )

    [row] = new_shell.rest("GET", f"matchable_attributes?resource_type={number}")["configurations"]
    assert listed(number, key, payload).items() <= row.items()

    done = new_shell.run(f"rainbowctl delete {noun} --attrFile config/{name}.yaml")
    assert done.status == 0
    assert done.err == f"Deleted {noun} at {place}.\n"
    assert new_shell.rest("GET", f"matchable_attributes?resource_type={number}") == {"configurations": []}


def test_every_example_file_is_stored_and_what_is_read_back_changes_nothing(new_shell: Shell) -> None:
    files = {path.stem for path in CONFIG.glob("*.yaml")} - {
        "rainbow",
        "workflow",
        "launchplan",
        "pool",
        "pool-by-rules",
        "exec",
    }
    assert files == set(NOUNS)
    for version, name in enumerate(sorted(files), start=1):
        noun = NOUNS[name]
        new_shell.ok(f"rainbowctl update {noun} --attrFile config/{name}.yaml")
        written = yaml.safe_load((CONFIG / f"{name}.yaml").read_text())
        scope = {key: written[key] for key in ("project", "domain", "workflow", "launch_plan") if key in written}
        [row] = new_shell.rest("GET", f"matchable_attributes?resource_type={noun}")["configurations"]
        assert {**scope, **next(iter(row["attributes"].values()))} == written
        again = new_shell.run(f"rainbowctl update {noun} --attrFile config/{name}.yaml")
        assert (again.status, again.out) == (0, "")
        assert "No changes: " in again.err
        assert row["version"] == version
    assert new_shell.rest("GET", "effective_attributes?domain=staging")["revision"] == len(NOUNS)


@pytest.mark.parametrize(
    ("noun", "text", "payload"),
    [
        ("task-resource-attribute", "defaults: {cpu: 1}", {"defaults": {"cpu": "1"}}),
        ("task-resource-attribute", "defaults:\n  cpu: 010\nlimits:\n  cpu: 0x1F", None),
        ("task-resource-attribute", "limits: {cpu: 010}", {"limits": {"cpu": "010"}}),
        ("task-resource-attribute", "limits: {cpu: null}", {"limits": {"cpu": None}}),
        ("execution-cluster-label", "value: no", {"value": "no"}),
        ("execution-cluster-label", "Value: 1e3", {"value": "1e3"}),
        ("execution-cluster-label", '{"value": "json"}', {"value": "json"}),
        (
            "cluster-resource-attribute",
            "attributes: {a: yes, B_c: 1_000}",
            {"attributes": {"a": "yes", "B_c": "1_000"}},
        ),
        ("execution-queue-attribute", "tags: [on, 2024-01-01]", {"tags": ["on", "2024-01-01"]}),
        (
            "plugin-override",
            "overrides: [{taskType: a, pluginId: [b], missingPluginBehavior: 1}]",
            {"overrides": [{"task_type": "a", "plugin_id": ["b"], "missing_plugin_behavior": "USE_DEFAULT"}]},
        ),
        ("workflow-execution-config", "interruptible: {value: true}", {"interruptible": True}),
        ("workflow-execution-config", "maxParallelism: 7", {"max_parallelism": 7}),
        ("workflow-priority", "priority: 7", {"priority": 7}),
    ],
)
def test_values_are_taken_as_they_are_written(
    shell: Shell, noun: str, text: str, payload: dict[str, Any] | None
) -> None:
    name = f"written-{zlib.crc32(f'{noun} {text}'.encode())}"
    shell.project(name)
    command = f"rainbowctl update {noun} -p {name} --attrFile - -q"
    if payload is None:
        assert "stdin:4:8: limits.cpu: '0x1F' is not a quantity" in shell.refused(2, command, stdin=text)
        return
    shell.ok(command, stdin=text)
    assert shell.values(noun, f"project={name}") == [payload]


REFUSED = {
    "a second document": (
        "execution-cluster-label",
        "value: a\n---\nvalue: b\n",
        [":4:1: a second document starts here: one file sets one attribute; `rainbowctl apply -f` takes many"],
    ),
    "unknown keys": (
        "task-resource-attribute",
        "limitz:\n  cpu: 1\nlimits:\n  memoryy: 1Gi\n",
        [":3:1: limitz: unknown key. Did you mean limits?", ":6:3: limits.memoryy: unknown key. Did you mean memory?"],
    ),
    "a key given twice": (
        "task-resource-attribute",
        "limits:\n  memory: 1Gi\n  memory: 2Gi\n",
        [":5:3: limits.memory: given twice: keep one of the two"],
    ),
    "a tab": ("task-resource-attribute", "limits:\n\tcpu: 1\n", [":4:1: a tab: YAML is indented with spaces"]),
    "an anchor": (
        "task-resource-attribute",
        "defaults: &a {cpu: 1}\nlimits: *a\n",
        [":3:11: anchors are not read: remove &a", ":4:9: aliases are not read: write the value of *a here"],
    ),
    "a tag": (
        "execution-cluster-label",
        "value: !!python/name:os x\n",
        [":3:8: tags are not read: remove !!python/name:os"],
    ),
    "an empty branch": (
        "task-resource-attribute",
        "limits:\n",
        [":3:8: limits: is empty: write a leaf below it, or remove the line"],
    ),
    "a wrong level": (
        "cluster-resource-attribute",
        "workflow: my.wf\nattributes: {a: b}\n",
        [
            ":3:11: workflow: cluster-resource-attribute cannot be set at workflow level: "
            "its levels are domain, project and project-domain"
        ],
    ),
    "a launch plan without its workflow": (
        "execution-cluster-label",
        "launch_plan: nightly\nvalue: a\n",
        [":3:14: launch_plan: launch plan nightly needs its workflow beside it"],
    ),
    "deep nesting": (
        "task-resource-attribute",
        f"limits: {'{a: ' * 5000}1{'}' * 5000}\n",
        [":3:85: nested deeper than 20 levels"],
    ),
    "a wrong type": (
        "workflow-execution-config",
        "max_parallelism: many\ninterruptible: maybe\nlabels: [a]\n",
        [
            ":3:18: max_parallelism: must be a whole number, got 'many'",
            ":4:16: interruptible: must be true or false, got 'maybe'",
            ":5:9: labels: must hold keys and values",
        ],
    ),
    "a wrong word of a list": (
        "quality-of-service",
        "tier: HIHG\n",
        [":3:7: tier: must be UNDEFINED (0), HIGH (1), MEDIUM (2) or LOW (3), got 'HIHG'. Did you mean HIGH?"],
    ),
    "a version that is none": (
        "execution-cluster-label",
        "value: a\nversion: new\n",
        [":4:10: version: must be a whole number, got 'new'"],
    ),
    "another kind": (
        "execution-cluster-label",
        "kind: plugin-override\nvalue: a\n",
        [":3:7: kind: this file is for plugin-override, the command is for execution-cluster-label"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_with_its_line_and_nothing_is_stored(shell: Shell, case: str) -> None:
    noun, text, message = REFUSED[case]
    name = shell.project(case.replace(" ", "-"))
    file = shell.file(f"{name}.yaml", f"project: {name}\ndomain: staging\n{text}")
    problems = "1 problem" if len(message) == 1 else f"{len(message)} problems"
    expected = f"error: {file.name} cannot be used: {problems}.\n" + "".join(
        f"  {file.name}{line}\n" for line in message
    )
    assert shell.refused(2, f"rainbowctl update {noun} --attrFile {file.name}") == expected
    assert shell.rows("all", f"project={name}") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"#" * 2 * 1024 * 1024, "stdin is larger than 1 MiB.\n"),
        (b"project: flytesnacks\nvalue: m\xe9\n", "stdin:2:9: not UTF-8 text: save the file as UTF-8\n"),
        (b"value: a\x01b\n", "stdin:1:9: a control character that YAML does not allow\n"),
        (b"", "stdin:1:1: the file is empty\n"),
        (b"- a\n", "stdin:1:1: the file must hold keys and values, such as `project: flyteexamples`\n"),
        (b"value: [a\n", "stdin:2:1: not valid YAML: "),
        (b"project: flytesnacks\n", "stdin sets nothing: give at least one of value; to remove a row, use delete.\n"),
        (b"value: a\n", "execution-cluster-label needs a scope: "),
    ],
)
def test_a_file_that_is_no_attribute_is_refused(shell: Shell, content: bytes, message: str) -> None:
    assert message in shell.refused(2, "rainbowctl update execution-cluster-label --attrFile -", stdin=content)


def test_a_file_that_cannot_be_read_says_why(shell: Shell) -> None:
    command = "rainbowctl update execution-cluster-label --attrFile"
    assert shell.refused(2, f"{command} none.yaml") == "error: none.yaml cannot be read: No such file or directory.\n"
    assert shell.refused(2, f"{command} .") == "error: . cannot be read: Is a directory.\n"


def test_refusals_of_the_admin_point_into_the_file(shell: Shell) -> None:
    shell.project("pointed")
    shell.file("bad.yaml", "project: pointed\ndefaults:\n  cpu: 1x\nlimits:\n  memory: abc\n  cpu: 1\n")
    quantity = "is not a quantity of zero or more, such as 500m, 2, 1.5Gi or 2e3."
    assert shell.refused(2, "rainbowctl update task-resource-attribute --attrFile bad.yaml") == (
        "error: The admin refused bad.yaml: 2 problems.\n"
        f"  bad.yaml:3:8: defaults.cpu: '1x' {quantity}\n"
        f"  bad.yaml:5:11: limits.memory: 'abc' {quantity}\n"
    )
    done = shell.run("rainbowctl update task-resource-attribute --attrFile bad.yaml -o json")
    details = json.loads(done.err)["error"]["details"]
    assert [detail["position"] for detail in details] == ["bad.yaml:3:8", "bad.yaml:5:11"]
    shell.file("high.yaml", "project: pointed\ndefaults: {memory: 5Gi}\n")
    assert "  high.yaml:2:20: defaults.memory: " in shell.refused(
        2, "rainbowctl update task-resource-attribute --attrFile high.yaml"
    )
    shell.file("env.yaml", "project: pointed\nenvs:\n  values:\n    A: b\n    1 2: c\n")
    assert "  env.yaml:5:" in shell.refused(2, "rainbowctl update workflow-execution-config --attrFile env.yaml")
    assert shell.rows("all", "project=pointed") == []


@pytest.mark.parametrize("verb", ["update", "delete"])
def test_an_unknown_project_or_domain_of_a_file_is_pointed_at_with_the_nearest(shell: Shell, verb: str) -> None:
    shell.file("where.yaml", "domain: staging\nproject: flytesnaks\nvalue: a\n")
    message = shell.refused(2, f"rainbowctl {verb} execution-cluster-label --attrFile where.yaml")
    assert "\n  where.yaml:2:10: project: No project is called 'flytesnaks'. Did you mean 'flytesnacks'" in message
    shell.file("where.yaml", "domain: stagin\nproject: flytesnacks\nvalue: a\n")
    message = shell.refused(2, f"rainbowctl {verb} execution-cluster-label --attrFile where.yaml")
    assert "\n  where.yaml:1:9: domain: No domain is called 'stagin'. Did you mean 'staging'?" in message


def test_flags_may_repeat_the_scope_of_a_file_but_not_change_it(shell: Shell) -> None:
    shell.project("repeated")
    shell.file("scope.yaml", "project: repeated\ndomain: staging\nvalue: mycluster\n")
    command = "rainbowctl update execution-cluster-label --attrFile scope.yaml"
    assert shell.refused(2, f"{command} -p flytesnacks") == (
        "error: scope.yaml says project repeated, the command line says flytesnacks.\n"
    )
    assert "would make it another scope" in shell.refused(2, f"{command} my.wf")
    assert shell.rows("3", "project=repeated") == []
    shell.ok(f"{command} -p repeated -d staging")
    assert shell.values("3", "project=repeated") == [{"value": "mycluster"}]


def test_a_file_made_from_an_older_version_is_refused_unless_forced(shell: Shell) -> None:
    path = f"project_attributes/{shell.project('older')}"
    first = shell.put(path, execution_cluster_label={"value": "a"})
    second = shell.put(path, execution_cluster_label={"value": "b"})
    shell.ok("rainbowctl update execution-cluster-label -p older --value c -m 'on to c'", LOGNAME="ann")
    third = shell.rest("GET", f"{path}?resource_type=3")["version"]
    shell.file("older.yaml", f"project: older\nvalue: d\nversion: {first}\n")
    for command in ("update", "delete"):
        message = shell.refused(5, f"rainbowctl {command} execution-cluster-label --attrFile older.yaml")
        assert f"older.yaml was made from version {first}, but version {third} is stored (changed since by " in message
        assert f" by revision {third}, anonymous (says ann), " in message
        assert f", 'on to c'; by revision {second}, anonymous" in message
        error = shell.run(f"rainbowctl {command} execution-cluster-label --attrFile older.yaml -o json").err
        [detail] = json.loads(error[error.index("{") :])["error"]["details"]
        assert [entry["revision"] for entry in detail["later"]] == [third, second]
    document = f"kind: execution-cluster-label\nproject: older\nvalue: d\nversion: {first}\n"
    for command in ("plan", "apply"):
        message = shell.refused(5, f"rainbowctl {command} -f -", stdin=document)
        assert f"now at version {third} (revision {third}, anonymous (says ann), " in message
    assert shell.values("3", "project=older") == [{"value": "c"}]
    shell.ok("rainbowctl update execution-cluster-label --attrFile older.yaml --force")
    assert shell.values("3", "project=older") == [{"value": "d"}]


def test_each_stale_document_of_several_nouns_names_its_own_author(shell: Shell) -> None:
    path = f"project_attributes/{shell.project('mixed')}"
    first = shell.put(path, execution_cluster_label={"value": "a"})
    shell.ok("rainbowctl create pool mixed-pool --member mycluster")
    pool = shell.rest("GET", "pools/mixed-pool")["version"]
    shell.ok("rainbowctl update execution-cluster-label -p mixed --value b", LOGNAME="labeller")
    shell.ok("rainbowctl update pool mixed-pool --member mycluster --strategy spill", LOGNAME="pooler")
    documents = (
        f"kind: execution-cluster-label\nproject: mixed\nvalue: d\nversion: {first}\n---\n"
        f"kind: pool\nname: mixed-pool\nmembers: [{{id: mycluster}}]\nversion: {pool}\n"
    )
    for command in ("plan", "apply"):
        lines = shell.refused(5, f"rainbowctl {command} -f -", stdin=documents).splitlines()
        authors = {word for line in lines for word in ("labeller", "pooler") if "label at" in line and word in line}
        assert authors == {"labeller"}, lines
        authors = {word for line in lines for word in ("labeller", "pooler") if "mixed-pool" in line and word in line}
        assert authors == {"pooler"}, lines
