from __future__ import annotations

from typing import Any

import pytest

from admin.core.problems import Invalid
from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.declared_kinds import registry
from admin.core.settings.kinds import Kind, Merge
from admin.core.settings.scopes import STORED_LEVELS, Level

KINDS = registry({})


def problems(kind: str, payload: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        KINDS[kind].read(payload)
    return {problem.field: problem.reason for problem in caught.value.problems}


def test_the_built_in_kinds_are_numbered_named_and_merged_as_designed() -> None:
    every = tuple(level.value for level in STORED_LEVELS)
    assert [
        (kind.number, kind.name, kind.noun, kind.payload_key, kind.merge.value, tuple(lv.value for lv in kind.levels))
        for kind in KINDS
    ] == [
        (0, "TASK_RESOURCE", "task-resource-attribute", "task_resource_attributes", "leaf", every),
        (1, "CLUSTER_RESOURCE", "cluster-resource-attribute", "cluster_resource_attributes", "leaf", every[:3]),
        (2, "EXECUTION_QUEUE", "execution-queue-attribute", "execution_queue_attributes", "replace", every),
        (3, "EXECUTION_CLUSTER_LABEL", "execution-cluster-label", "execution_cluster_label", "replace", every),
        (4, "QUALITY_OF_SERVICE_SPECIFICATION", "quality-of-service", "quality_of_service", "replace", every),
        (5, "PLUGIN_OVERRIDE", "plugin-override", "plugin_overrides", "leaf", every),
        (6, "WORKFLOW_EXECUTION_CONFIG", "workflow-execution-config", "workflow_execution_config", "leaf", every),
        (7, "CLUSTER_ASSIGNMENT", "cluster-pool-attribute", "cluster_assignment", "replace", every),
        (8, "TOKEN_POOL_QUOTA", "token-pool-quota", "token_pool_quota", "tightest", every),
        (9, "EXECUTION_QUOTA", "execution-quota", "execution_quota", "tightest", every),
    ]


@pytest.mark.parametrize("kind", BUILTIN_KINDS, ids=lambda kind: kind.name)
def test_an_example_is_in_normal_form_and_survives_its_own_leaves(kind: Kind) -> None:
    assert kind.read(kind.example) == kind.example
    assert kind.nest(kind.leaves(kind.example)) == kind.example


@pytest.mark.parametrize("word", ["3", "EXECUTION_CLUSTER_LABEL", "execution_cluster_label", "execution-cluster-label"])
def test_a_kind_is_found_by_number_name_and_noun(word: str) -> None:
    assert KINDS.find(word).number == 3


def test_an_unknown_kind_names_the_nearest() -> None:
    with pytest.raises(Invalid) as caught:
        KINDS.find("TASK_RESOURCES")
    assert caught.value.problems[0].closest[0] == "TASK_RESOURCE"


@pytest.mark.parametrize(
    ("kind", "payload", "field"),
    [
        ("TASK_RESOURCE", {"limits": None}, "limits"),
        ("TASK_RESOURCE", {"limits": {"cpu": "1x"}}, "limits.cpu"),
        ("TASK_RESOURCE", {"limits": {"cpu": "-1"}}, "limits.cpu"),
        ("TASK_RESOURCE", {"limits": {"cpu": True}}, "limits.cpu"),
        ("TASK_RESOURCE", {"limits": {"gpu": "500m"}}, "limits.gpu"),
        ("TASK_RESOURCE", {"limits": {"mem": "1"}}, "limits.mem"),
        ("TASK_RESOURCE", {"limits": {}}, "task_resource_attributes"),
        ("TASK_RESOURCE", {}, "task_resource_attributes"),
        ("TASK_RESOURCE", "text", "task_resource_attributes"),
        ("CLUSTER_RESOURCE", {"attributes": {"project": "x"}}, "attributes.project"),
        ("CLUSTER_RESOURCE", {"attributes": {"a b": "x"}}, "attributes.a b"),
        ("CLUSTER_RESOURCE", {"attributes": {"a": 1}}, "attributes.a"),
        ("EXECUTION_QUEUE", {"tags": []}, "tags"),
        ("EXECUTION_QUEUE", {"tags": ["a", "a"]}, "tags"),
        ("EXECUTION_QUEUE", {"tags": "a"}, "tags"),
        ("EXECUTION_CLUSTER_LABEL", {"value": ""}, "value"),
        ("EXECUTION_CLUSTER_LABEL", {"value": "a\x00b"}, "value"),
        ("EXECUTION_CLUSTER_LABEL", {"value": "a" * 300}, "value"),
        ("QUALITY_OF_SERVICE_SPECIFICATION", {"tier": "TOP"}, "tier"),
        ("QUALITY_OF_SERVICE_SPECIFICATION", {"tier": "HIGH", "spec": {"queueing_budget": "1s"}}, "spec"),
        ("QUALITY_OF_SERVICE_SPECIFICATION", {"spec": {"queueing_budget": "soon"}}, "spec.queueing_budget"),
        ("PLUGIN_OVERRIDE", {"overrides": [{"task_type": "a", "plugin_id": []}]}, "overrides.0.plugin_id"),
        ("PLUGIN_OVERRIDE", {"overrides": [{"plugin_id": ["x"]}]}, "overrides.0.task_type"),
        ("WORKFLOW_EXECUTION_CONFIG", {"max_parallelism": -1}, "max_parallelism"),
        ("WORKFLOW_EXECUTION_CONFIG", {"labels": {"values": {"-bad": "x"}}}, "labels.values.-bad"),
        ("WORKFLOW_EXECUTION_CONFIG", {"labels": {"values": {"k": "not a label value"}}}, "labels.values.k"),
        ("WORKFLOW_EXECUTION_CONFIG", {"interruptible": "yes"}, "interruptible"),
        ("WORKFLOW_EXECUTION_CONFIG", {"security_context": {"run_as": {}}}, "security_context.run_as"),
        ("WORKFLOW_EXECUTION_CONFIG", {"envs": {"values": [{"key": "1A", "value": "x"}]}}, "envs.values.0.key"),
        ("CLUSTER_ASSIGNMENT", {"cluster_pool_name": ["gpu"]}, "cluster_pool_name"),
        ("TOKEN_POOL_QUOTA", {"pools": {"hive": -1}}, "pools.hive"),
        ("TOKEN_POOL_QUOTA", {"pools": {"hive": 1.5}}, "pools.hive"),
        ("TOKEN_POOL_QUOTA", {"pools": {"hive": 10**100}}, "pools.hive"),
        ("TOKEN_POOL_QUOTA", {"pools": {"hive": None}}, "pools.hive"),
        ("TOKEN_POOL_QUOTA", {"pools": {"a/b": 1}}, "pools.a/b"),
        ("TOKEN_POOL_QUOTA", {"pool": {"hive": 1}}, "pool"),
        ("TOKEN_POOL_QUOTA", {"weight": 0}, "weight"),
        ("EXECUTION_QUOTA", {"running": -1}, "running"),
        ("EXECUTION_QUOTA", {"waiting": 0.5}, "waiting"),
        ("EXECUTION_QUOTA", {"running": "5"}, "running"),
        ("EXECUTION_QUOTA", {"running": 10**100}, "running"),
        ("EXECUTION_QUOTA", {"running": None}, "running"),
        ("EXECUTION_QUOTA", {"memory": "10 GB"}, "memory"),
        ("EXECUTION_QUOTA", {"cpu": -1}, "cpu"),
        ("EXECUTION_QUOTA", {"cpu": 10**100}, "cpu"),
        ("EXECUTION_QUOTA", {"gpu": "1.5"}, "gpu"),
        ("EXECUTION_QUOTA", {"storage": "1Gi"}, "storage"),
    ],
)
def test_a_bad_payload_names_the_field(kind: str, payload: Any, field: str) -> None:
    assert field in problems(kind, payload)


@pytest.mark.parametrize(
    ("kind", "payload", "normal"),
    [
        (
            "TASK_RESOURCE",
            {"limits": {"cpu": 1, "ephemeralStorage": "1Gi"}},
            {"limits": {"cpu": "1", "ephemeral_storage": "1Gi"}},
        ),
        ("TASK_RESOURCE", {"limits": {"cpu": None}, "defaults": {}}, {"limits": {"cpu": None}}),
        ("QUALITY_OF_SERVICE_SPECIFICATION", {"tier": 1}, {"tier": "HIGH"}),
        ("EXECUTION_CLUSTER_LABEL", {"value": None}, {"value": None}),
        ("WORKFLOW_EXECUTION_CONFIG", {"interruptible": {"value": False}}, {"interruptible": False}),
        (
            "WORKFLOW_EXECUTION_CONFIG",
            {"securityContext": {"runAs": {"k8sServiceAccount": "sa", "iamRole": ""}}},
            {"security_context": {"run_as": {"k8s_service_account": "sa"}}},
        ),
        (
            "WORKFLOW_EXECUTION_CONFIG",
            {"envs": {"values": {"A": "1", "B": None}}},
            {"envs": {"values": [{"key": "A", "value": "1"}, {"key": "B", "value": None}]}},
        ),
        (
            "PLUGIN_OVERRIDE",
            {
                "overrides": [
                    {"taskType": "t", "pluginId": ["a"], "missingPluginBehavior": 1},
                    {"taskType": "u", "pluginId": None},
                ]
            },
            {
                "overrides": [
                    {"task_type": "t", "plugin_id": ["a"], "missing_plugin_behavior": "USE_DEFAULT"},
                    {"task_type": "u", "plugin_id": None},
                ]
            },
        ),
    ],
)
def test_every_accepted_spelling_has_one_normal_form(kind: str, payload: Any, normal: Any) -> None:
    assert KINDS[kind].read(payload) == normal
    assert KINDS[kind].read(normal) == normal


THREE_FIELDS = {
    "number": 11,
    "levels": ["project", "workflow"],
    "merge": "leaf",
    "fields": {
        "size": {"type": "int", "min": 1, "max": 9, "default": 3, "description": "How large."},
        "colour": {"enum": ["red", "green"]},
        "ratio": {"type": "float", "minimum": 0, "maximum": 1},
    },
}


def test_a_declared_kind_is_a_kind_like_any_other() -> None:
    kind = registry({"MY_KIND": THREE_FIELDS}).find("my-kind")
    assert (kind.number, kind.payload_key, kind.merge, kind.levels, kind.declared) == (
        11,
        "my_kind",
        Merge.LEAF,
        (Level.PROJECT, Level.WORKFLOW),
        True,
    )
    assert kind.read({"size": 9, "colour": "red", "ratio": 0.5}) == {"size": 9, "colour": "red", "ratio": 0.5}
    assert kind.read(kind.example) == kind.example
    for bad in ({"size": 10}, {"size": 1.5}, {"colour": "blue"}, {"ratio": 2}, {"other": 1}):
        with pytest.raises(Invalid):
            kind.read(bad)


@pytest.mark.parametrize(
    ("declaration", "field"),
    [
        ({**THREE_FIELDS, "number": 9}, "kinds.MY_KIND.number"),
        ({key: value for key, value in THREE_FIELDS.items() if key != "number"}, "kinds.MY_KIND.number"),
        ({**THREE_FIELDS, "levels": ["galaxy"]}, "kinds.MY_KIND.levels"),
        ({**THREE_FIELDS, "merge": "mix"}, "kinds.MY_KIND.merge"),
        ({**THREE_FIELDS, "noun": "project"}, "kinds.MY_KIND.noun"),
        ({**THREE_FIELDS, "noun": "plugin-override"}, "kinds.MY_KIND.noun"),
        ({**THREE_FIELDS, "colour": "red"}, "kinds.MY_KIND.colour"),
        ({**THREE_FIELDS, "fields": {}}, "kinds.MY_KIND.fields"),
        ({**THREE_FIELDS, "fields": {"a": "complex"}}, "kinds.MY_KIND.fields.a.type"),
        ({**THREE_FIELDS, "fields": {"a": {"type": "int", "default": "x"}}}, "kinds.MY_KIND.fields.a.default"),
        (
            {**THREE_FIELDS, "fields": {"a": {"type": "int", "minimum": 5, "maximum": 1}}},
            "kinds.MY_KIND.fields.a.minimum",
        ),
        ({**THREE_FIELDS, "fields": {"a": {"type": "bool", "maximum": 1}}}, "kinds.MY_KIND.fields.a.maximum"),
        ({**THREE_FIELDS, "fields": {"a": {"type": "string", "pattern": "("}}}, "kinds.MY_KIND.fields.a.pattern"),
        ({**THREE_FIELDS, "fields": {"version": "int"}}, "kinds.MY_KIND.fields.version"),
        ({**THREE_FIELDS, "fields": {"A-b": "int"}}, "kinds.MY_KIND.fields.A-b"),
        ("int", "kinds.MY_KIND"),
    ],
)
def test_a_bad_declaration_names_the_key(declaration: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        registry({"MY_KIND": declaration})
    assert field in [problem.field for problem in caught.value.problems]


def test_only_the_merge_rule_of_a_built_in_kind_can_be_changed() -> None:
    assert registry({"TASK_RESOURCE": {"merge": "replace"}})["TASK_RESOURCE"].merge is Merge.REPLACE
    for bad in ({"number": 20}, {"fields": {"a": "int"}}):
        with pytest.raises(Invalid):
            registry({"TASK_RESOURCE": bad})
    with pytest.raises(Invalid):
        registry({"QUALITY_OF_SERVICE_SPECIFICATION": {"merge": "leaf"}})


def test_every_unknown_field_is_reported_and_the_first_with_suggestions() -> None:
    reasons = problems("TASK_RESOURCE", {f"limit_{number}": 1 for number in range(20_000)})
    assert len(reasons) == 20_000
    assert "Did you mean 'limits'?" in reasons["limit_0"]
    assert reasons["limit_19999"] == "unknown field 'limit_19999'."
