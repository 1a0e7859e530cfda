from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctl.client.errors import InvalidFile, InvalidInput, InvalidRequest
from ctl.client.kinds import Kind
from ctl.client.scopes import Scope
from ctl.client.yaml_files import Source
from ctl.files.attributes import AttributeFile, parse_attribute_file, read_attribute_file
from tests.unit.ctl.kinds import PRIORITY, declared, kind

LABEL = kind("execution-cluster-label")
RESOURCES = kind("task-resource-attribute")
CONFIG = kind("workflow-execution-config")
OVERRIDE = kind("plugin-override")
SERVICE = kind("quality-of-service")
QUEUE = kind("execution-queue-attribute")
CLUSTER = kind("cluster-resource-attribute")
WEIGHT = declared({"weight": {"type": "number"}, "on": {"type": "boolean"}}, "weights")


def parse(text: str, of: Kind) -> AttributeFile:
    return parse_attribute_file(Source(name="f.yaml", text=text), of)


def problems(text: str, of: Kind) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        parse(text, of)
    return [line.strip() for line in caught.value.lines()[1:]]


@pytest.mark.parametrize(
    ("text", "of", "payload"),
    [
        ("value: no", LABEL, {"value": "no"}),
        ("value: 'no'", LABEL, {"value": "no"}),
        ("value: 0x10", LABEL, {"value": "0x10"}),
        ("value: 2001-01-01", LABEL, {"value": "2001-01-01"}),
        ("value: .nan", LABEL, {"value": ".nan"}),
        ('value: "null"', LABEL, {"value": "null"}),
        ("value: null", LABEL, {"value": None}),
        ("value: ~", LABEL, {"value": None}),
        ("value:", LABEL, {"value": None}),
        ("{value: ~}", LABEL, {"value": None}),
        ("limits: {cpu: 010, memory: 1}", RESOURCES, {"limits": {"cpu": "010", "memory": "1"}}),
        ("limits: {ephemeralStorage: 1Gi}", RESOURCES, {"limits": {"ephemeral_storage": "1Gi"}}),
        ("Limits: {EPHEMERAL-STORAGE: 1Gi}", RESOURCES, {"limits": {"ephemeral_storage": "1Gi"}}),
        ('{"limits": {"cpu": "1"}}', RESOURCES, {"limits": {"cpu": "1"}}),
        ("max_parallelism: 5", CONFIG, {"max_parallelism": 5}),
        ("maxParallelism: '5'", CONFIG, {"max_parallelism": 5}),
        ("interruptible: true", CONFIG, {"interruptible": True}),
        ("interruptible: {value: False}", CONFIG, {"interruptible": False}),
        ("interruptible: ~", CONFIG, {"interruptible": None}),
        ("overwrite-cache: TRUE", CONFIG, {"overwrite_cache": True}),
        ("envs: {values: {HOME: /x}}", CONFIG, {"envs": {"values": [{"key": "HOME", "value": "/x"}]}}),
        ("envs: {values: {HOME: ~}}", CONFIG, {"envs": {"values": [{"key": "HOME", "value": None}]}}),
        (
            "envs: {values: [{key: N, value: 010}]}",
            CONFIG,
            {"envs": {"values": [{"key": "N", "value": "010"}]}},
        ),
        (
            "labels: {values: {camelKey: a, camel_key: yes, <: b}}",
            CONFIG,
            {"labels": {"values": {"camelKey": "a", "camel_key": "yes", "<": "b"}}},
        ),
        ("attributes: {projectQuotaCpu: 10}", CLUSTER, {"attributes": {"projectQuotaCpu": "10"}}),
        ("securityContext: {runAs: ~}", CONFIG, {"security_context": {"run_as": None}}),
        ("tags: [a, 1]", QUEUE, {"tags": ["a", "1"]}),
        ("tier: HIGH", SERVICE, {"tier": "HIGH"}),
        ("tier: 1", SERVICE, {"tier": "HIGH"}),
        ("tier: medium", SERVICE, {"tier": "MEDIUM"}),
        (
            "overrides: [{taskType: a, pluginId: [p], missingPluginBehavior: 1}]",
            OVERRIDE,
            {"overrides": [{"task_type": "a", "plugin_id": ["p"], "missing_plugin_behavior": "USE_DEFAULT"}]},
        ),
        (
            "overrides: {a: {plugin_id: [p]}}",
            OVERRIDE,
            {"overrides": [{"task_type": "a", "plugin_id": ["p"]}]},
        ),
        ("priority: 50", PRIORITY, {"priority": 50}),
        ("weight: 1.5", WEIGHT, {"weight": 1.5}),
        ("weight: 2", WEIGHT, {"weight": 2}),
    ],
)
def test_the_schema_decides_what_a_scalar_is(text: str, of: Kind, payload: dict[str, Any]) -> None:
    assert parse(text, of).payload == payload


@pytest.mark.parametrize(
    ("text", "of", "message"),
    [
        ("valuee: x", LABEL, "f.yaml:1:1: valuee: unknown key. Did you mean value?"),
        ("limits:\n  cpus: 1", RESOURCES, "f.yaml:2:3: limits.cpus: unknown key. Did you mean cpu?"),
        ("value: x\nvalue: y", LABEL, "f.yaml:2:1: value: given twice: keep one of the two"),
        ("launch_plan: x\nlaunchPlan: y\nworkflow: w\nproject: p\ndomain: d\nvalue: x", LABEL, "given twice"),
        ("labels: {values: {a: 1, a: 2}}", CONFIG, "f.yaml:1:25: labels.values.a: given twice"),
        ("envs: {values: [{key: A, value: 1}, {key: A, value: 2}]}", CONFIG, "key A is given twice"),
        ("value: &a x", LABEL, "f.yaml:1:8: anchors are not read: remove &a"),
        ("<<: {value: x}", LABEL, "f.yaml:1:1: merge keys are not read"),
        ("labels: {values: {<<: {a: b}}}", CONFIG, "f.yaml:1:19: labels.values: merge keys are not read"),
        ("value: !!python/name:os.system x", LABEL, "tags are not read: remove !!python/name:os.system"),
        ("value: !x y", LABEL, "tags are not read: remove !x"),
        ("limits:\n\tcpu: 1", RESOURCES, "a tab: YAML is indented with spaces"),
        ("value: [" + "[" * 25 + "]" * 25 + "]", LABEL, "nested deeper than 20 levels"),
        ("value: x\n---\nvalue: y", LABEL, "f.yaml:2:1: a second document starts here"),
        ("- value", LABEL, "f.yaml:1:1: the file must hold keys and values"),
        ("value", LABEL, "f.yaml:1:1: the file must hold keys and values"),
        ("", LABEL, "f.yaml:1:1: the file is empty"),
        ("# nothing", LABEL, "f.yaml:1:1: the file is empty"),
        ("value: 'x", LABEL, "not valid YAML"),
        ("limits:\ndefaults: {cpu: 1}", RESOURCES, "f.yaml:1:8: limits: is empty: write a leaf below it"),
        ("limits: ~", RESOURCES, "f.yaml:1:9: limits: is empty"),
        ("labels: {values: ~}", CONFIG, "labels.values: is empty"),
        ("value: [x]", LABEL, "f.yaml:1:8: value: must be one value, not a list"),
        ("limits: x", RESOURCES, "f.yaml:1:9: limits: must hold keys and values"),
        ("tags: critical", QUEUE, "tags: must be a list, such as [a, b]"),
        ("max_parallelism: 1.5", CONFIG, "max_parallelism: must be a whole number, got '1.5'"),
        ("max_parallelism: 010", CONFIG, "must be a whole number, got '010'"),
        ("max_parallelism: .inf", CONFIG, "must be a whole number, got '.inf'"),
        ("weight: .nan", WEIGHT, "weight: must be a number, got '.nan'"),
        ("weight: 1e999", WEIGHT, "weight: must be a number, got '1e999'"),
        ("on: yes", WEIGHT, "on: must be true or false, got 'yes'"),
        ("interruptible: 1", CONFIG, "interruptible: must be true or false, got '1'"),
        ("priority: 101", PRIORITY, "priority: must be between 0 and 100, got 101"),
        ("tier: HIHG", SERVICE, "got 'HIHG'. Did you mean HIGH?"),
        ("tier: 9", SERVICE, "must be UNDEFINED (0), HIGH (1), MEDIUM (2) or LOW (3), got '9'"),
        ("overrides: [{plugin_id: [a]}]", OVERRIDE, "overrides.0: lacks task_type"),
        ("inherited_from: {level: domain}\nvalue: x", LABEL, "f.yaml:1:1: inherited_from: this value is inherited"),
        ("kind: plugin-override\nvalue: x", LABEL, "f.yaml:1:7: kind: this file is for plugin-override"),
        ("version: x\nvalue: x", LABEL, "version: must be a whole number"),
        ("project: ..\nvalue: x", LABEL, "project: '..' cannot be the name of a project"),
        ("project: p\nworkflow: w\nvalue: x", LABEL, "f.yaml:2:11: workflow: workflow w needs a project and a domain"),
        (
            "project: p\ndomain: d\nworkflow: w\nattributes: {a: b}",
            CLUSTER,
            "f.yaml:3:11: workflow: cluster-resource-attribute cannot be set at workflow level",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, of: Kind, message: str) -> None:
    assert any(message in line for line in problems(text, of)), problems(text, of)


@pytest.mark.parametrize("nothing", ['""', "", "~"])
def test_an_empty_scope_key_is_as_good_as_none(nothing: str) -> None:
    file = parse(f"project: p\ndomain: {nothing}\nworkflow: {nothing}\nvalue: x", LABEL)
    assert (file.scope, file.payload) == (Scope(project="p"), {"value": "x"})
    assert parse(f"project: {nothing}\nvalue: x", LABEL).scope == Scope()
    [problem] = problems(f"project: p\ndomain: {nothing}\nworkflow: w\nlaunch_plan: {nothing}\nvalue: x", LABEL)
    assert problem == "f.yaml:3:11: workflow: workflow w needs a project and a domain beside it"


def test_aliases_are_refused_even_when_they_are_recursive() -> None:
    assert problems("value: &a [*a]", LABEL) == [
        "f.yaml:1:8: anchors are not read: remove &a",
        "f.yaml:1:12: aliases are not read: write the value of *a here",
    ]


def test_every_problem_is_reported_in_the_order_of_the_file() -> None:
    text = "limit: {}\nlimits:\ndefaults:\n  cpu: [1]\n  mem: 1\n"
    assert problems(text, RESOURCES) == [
        "f.yaml:1:1: limit: unknown key. Did you mean limits?",
        "f.yaml:2:8: limits: is empty: write a leaf below it, or remove the line",
        "f.yaml:4:8: defaults.cpu: must be one value, not a list",
        "f.yaml:5:3: defaults.mem: unknown key. Did you mean memory?",
    ]


def test_a_file_names_its_scope_its_version_and_its_kind() -> None:
    file = parse(
        "kind: ExecutionClusterLabel\nProject: p\ndomain: d\nlaunchPlan: l\nworkflow: w\nvalue: x\nversion: 7", LABEL
    )
    assert (file.scope, file.version, file.payload) == (
        Scope(project="p", domain="d", workflow="w", launch_plan="l"),
        7,
        {"value": "x"},
    )


def test_flags_may_repeat_the_scope_of_a_file() -> None:
    file = parse("project: p\ndomain: d\nvalue: x", LABEL)
    assert file.scope_with({"project": "p", "domain": None}, {"project": "other"}) == Scope(project="p", domain="d")


def test_a_flag_that_contradicts_the_file_is_refused() -> None:
    file = parse("project: p\nvalue: x", LABEL)
    with pytest.raises(InvalidInput, match="says project p, the command line says q"):
        file.scope_with({"project": "q"}, {})


def test_a_flag_that_adds_to_the_scope_of_a_file_is_refused() -> None:
    file = parse("project: p\nvalue: x", LABEL)
    with pytest.raises(InvalidInput, match="would make it another scope"):
        file.scope_with({"domain": "d"}, {})


def test_a_file_without_a_scope_takes_it_from_the_flags_and_then_from_the_defaults() -> None:
    file = parse("value: x", LABEL)
    assert file.scope_with({"workflow": "w"}, {"project": "p", "domain": "d"}) == Scope(
        project="p", domain="d", workflow="w"
    )


def test_refusals_of_the_admin_find_their_line() -> None:
    file = parse("overrides:\n- task_type: a\n  plugin_id: [p]\n- task_type: b\n  plugin_id:\n  - q\n", OVERRIDE)
    error = InvalidRequest(
        "two things",
        details=[
            {"field": "overrides.b.plugin_id", "reason": "is bad"},
            {"field": "matching_attributes.plugin_overrides.overrides[0].task_type", "reason": "is worse"},
        ],
    )
    assert file.locate(error, OVERRIDE).lines() == [
        "The admin refused f.yaml: 2 problems.",
        "  f.yaml:2:14: matching_attributes.plugin_overrides.overrides[0].task_type: is worse",
        "  f.yaml:6:3: overrides.b.plugin_id: is bad",
    ]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("value: " + "x" * 1024 * 1024)
    with pytest.raises(InvalidFile, match="larger than 1 MiB"):
        read_attribute_file(str(path), LABEL)


def test_a_file_that_is_not_utf_8_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"project: p\nvalue: \xff")
    with pytest.raises(InvalidFile) as caught:
        read_attribute_file(str(path), LABEL)
    assert caught.value.lines()[1] == f"  {path}:2:8: not UTF-8 text: save the file as UTF-8"


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfvalue: x")
    assert read_attribute_file(str(path), LABEL).payload == {"value": "x"}


def test_a_file_that_is_missing_says_so() -> None:
    with pytest.raises(InvalidFile, match="cannot be read: No such file or directory"):
        read_attribute_file("/nonexistent/f.yaml", LABEL)
