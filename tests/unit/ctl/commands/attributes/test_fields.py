from __future__ import annotations

from typing import Any

import pytest

from ctl.client.errors import InvalidInput
from ctl.client.kinds import Kind
from ctl.commands.attributes.fields import Edit, edit_from_flags, leaf_options
from tests.unit.ctl.kinds import PRIORITY, declared, kind

CONFIG = kind("workflow-execution-config")
RESOURCES = kind("task-resource-attribute")


def spellings(of: Kind) -> dict[str, list[str]]:
    return {option.name or "": option.opts for option in leaf_options(of, set())}


def edit(of: Kind, **typed: Any) -> Edit:
    return edit_from_flags(of, typed)


@pytest.mark.parametrize(
    ("noun", "flags"),
    [
        ("execution-cluster-label", [["--value"]]),
        ("cluster-pool-attribute", [["--cluster_pool_name", "--cluster-pool-name", "--clusterPoolName"]]),
        ("execution-queue-attribute", [["--tags"]]),
        ("cluster-resource-attribute", [["--attributes"]]),
    ],
)
def test_every_field_has_a_flag_in_three_spellings(noun: str, flags: list[list[str]]) -> None:
    assert list(spellings(kind(noun)).values()) == flags


def test_nested_fields_have_dotted_flags() -> None:
    assert spellings(RESOURCES)["leaf_limits__ephemeral_storage"] == [
        "--limits.ephemeral_storage",
        "--limits.ephemeral-storage",
        "--limits.ephemeralStorage",
    ]


def test_a_field_called_like_a_flag_of_the_command_is_left_to_set() -> None:
    clash = declared({"message": {"type": "string"}, "force_it": {"type": "string"}})
    options = leaf_options(clash, {"--message", "--force-it"})
    assert [option.opts for option in options] == [["--force_it", "--forceIt"]]
    assert edit(clash, set_path=["message=hello"]).set == {"message": "hello"}


@pytest.mark.parametrize(
    ("of", "typed", "changes"),
    [
        (
            RESOURCES,
            {"leaf_defaults__cpu": "1", "leaf_limits__cpu": "2"},
            {"defaults": {"cpu": "1"}, "limits": {"cpu": "2"}},
        ),
        (PRIORITY, {"leaf_priority": "50"}, {"priority": 50}),
        (declared({"note": {"type": ["string", "null"], "minLength": 0}}), {"leaf_note": ""}, {"note": ""}),
        (kind("quality-of-service"), {"leaf_tier": "high"}, {"tier": "HIGH"}),
        (kind("execution-queue-attribute"), {"leaf_tags": ("a", "b,c")}, {"tags": ["a", "b,c"]}),
        (
            kind("cluster-resource-attribute"),
            {"leaf_attributes": ("a=1", "b=x=y", "c=")},
            {"attributes": {"a": "1", "b": "x=y", "c": ""}},
        ),
        (CONFIG, {"leaf_labels__values": ("app/name=x",)}, {"labels": {"values": {"app/name": "x"}}}),
        (CONFIG, {"leaf_envs__values": ("A=1",)}, {"envs": {"values": [{"key": "A", "value": "1"}]}}),
        (CONFIG, {"leaf_interruptible": "true"}, {"interruptible": True}),
        (
            CONFIG,
            {"leaf_security_context__run_as__iam_role": "r"},
            {"security_context": {"run_as": {"iam_role": "r"}}},
        ),
        (
            CONFIG,
            {"leaf_security_context__run_as": "{iamRole: r}"},
            {"security_context": {"run_as": {"iam_role": "r"}}},
        ),
        (
            kind("plugin-override"),
            {"leaf_overrides": ("{task_type: a, plugin_id: [p], missing_plugin_behavior: 0}",)},
            {"overrides": [{"task_type": "a", "plugin_id": ["p"], "missing_plugin_behavior": "FAIL"}]},
        ),
    ],
)
def test_flags_make_a_partial_payload(of: Kind, typed: dict[str, Any], changes: dict[str, Any]) -> None:
    assert edit(of, **typed) == Edit(set=changes)


@pytest.mark.parametrize(
    ("of", "text", "changes"),
    [
        (RESOURCES, "limits.cpu=2", {"limits": {"cpu": "2"}}),
        (RESOURCES, "Limits.ephemeralStorage=2Gi", {"limits": {"ephemeral_storage": "2Gi"}}),
        (CONFIG, "labels.values.app.kubernetes.io/name=x", {"labels": {"values": {"app.kubernetes.io/name": "x"}}}),
        (CONFIG, "envs.values.A=b=c", {"envs": {"values": [{"key": "A", "value": "b=c"}]}}),
        (kind("execution-queue-attribute"), "tags=[a, b]", {"tags": ["a", "b"]}),
        (
            kind("plugin-override"),
            "overrides.a={plugin_id: [p]}",
            {"overrides": [{"task_type": "a", "plugin_id": ["p"]}]},
        ),
    ],
)
def test_set_takes_any_leaf_by_its_path(of: Kind, text: str, changes: dict[str, Any]) -> None:
    assert edit(of, set_path=[text]) == Edit(set=changes)


def test_unset_and_inherit_take_paths_in_any_spelling() -> None:
    parsed = edit(CONFIG, unset=["envs.values.HOME", "securityContext.runAs"], inherit=["maxParallelism"])
    assert parsed == Edit(unset=("envs.values.HOME", "security_context.run_as"), inherit=("max_parallelism",))


@pytest.mark.parametrize(
    ("of", "typed", "message"),
    [
        (RESOURCES, {"unset": ["limits"]}, "--unset: limits is no leaf: name one of limits.cpu,"),
        (RESOURCES, {"unset": ["limits.cpus"]}, "no field 'limits.cpus'. Did you mean limits.cpu"),
        (RESOURCES, {"inherit": ["limits.cpu.x"]}, "limits.cpu is one leaf"),
        (CONFIG, {"inherit": ["labels.values"]}, "labels.values holds entries: name one of them"),
        (CONFIG, {"unset": ["security_context.run_as.iam_role"]}, "security_context.run_as is one leaf"),
        (RESOURCES, {"unset": ["limits.cpu"], "inherit": ["limits.cpu"]}, "cannot be unset and inherited at once"),
        (PRIORITY, {"leaf_priority": "many"}, "--priority must be a whole number, got 'many'."),
        (PRIORITY, {"leaf_priority": "101"}, "--priority must be between 0 and 100, got 101."),
        (CONFIG, {"leaf_labels__values": ("x",)}, "--labels.values must be KEY=VALUE, got 'x'."),
        (CONFIG, {"set_path": ["max_parallelism"]}, "--set must be KEY=VALUE"),
        (
            kind("execution-cluster-label"),
            {"leaf_value": "null"},
            "--value null is no value: give one, or --unset value to unset it, or --inherit value to inherit it. "
            "A file takes 'null' in quotes as text.",
        ),
        (kind("cluster-pool-attribute"), {"leaf_cluster_pool_name": ""}, "--cluster_pool_name is empty: give one, or"),
        (PRIORITY, {"set_path": ["priority=null"]}, "--set priority null is no value: give one, or --unset priority"),
        (PRIORITY, {"set_path": ["priority=101"]}, "--set priority must be between 0 and 100, got 101."),
        (kind("token-pool-quota"), {"set_path": ["pools.hive=-1"]}, "--set pools.hive must be between 0 and"),
        (kind("token-pool-quota"), {"leaf_pools": ("hive=-1",)}, "--pools must be between 0 and"),
        (RESOURCES, {"leaf_limits__cpu": "~"}, "--limits.cpu ~ is no value"),
        (kind("plugin-override"), {"leaf_overrides": ("{task: a}",)}, "--overrides: task: unknown key."),
    ],
)
def test_wrong_flags_are_refused(of: Kind, typed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        edit(of, **typed)
    assert message in caught.value.message
