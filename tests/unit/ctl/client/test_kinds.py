from __future__ import annotations

import pytest

from ctl.client.kinds import built_in, by_word
from ctl.client.schemas import (
    allowed_values,
    fields,
    leaf_parts,
    leaf_values,
    parts_of,
    show,
    summary,
    type_name,
)
from tests.unit.ctl.kinds import PRIORITY, kind


def test_the_built_in_kinds_are_known_without_an_admin() -> None:
    assert [(kind.number, kind.noun) for kind in built_in()] == [
        (0, "task-resource-attribute"),
        (1, "cluster-resource-attribute"),
        (2, "execution-queue-attribute"),
        (3, "execution-cluster-label"),
        (4, "quality-of-service"),
        (5, "plugin-override"),
        (6, "workflow-execution-config"),
        (7, "cluster-pool-attribute"),
        (8, "token-pool-quota"),
        (9, "execution-quota"),
    ]


@pytest.mark.parametrize("word", ["execution-cluster-label", "execution-cluster-labels"])
def test_a_noun_has_a_plural(word: str) -> None:
    assert by_word(built_in(), word) == kind("execution-cluster-label")


def test_a_noun_that_ends_in_y_has_both_plurals() -> None:
    assert by_word([PRIORITY], "workflow-prioritys") == by_word([PRIORITY], "workflow-priorities") == PRIORITY


@pytest.mark.parametrize("word", ["3", "EXECUTION_CLUSTER_LABEL", "execution_cluster_label", "executionClusterLabels"])
def test_a_kind_is_known_by_noun_name_payload_key_and_number(word: str) -> None:
    assert by_word(built_in(), word) == kind("execution-cluster-label")


@pytest.mark.parametrize("word", ["", "33", "label", "-"])
def test_other_words_mean_no_kind(word: str) -> None:
    assert by_word(built_in(), word) is None


def test_leaves_have_the_paths_the_admin_gives_them() -> None:
    payload = {
        "max_parallelism": None,
        "security_context": {"run_as": {"iam_role": "r"}},
        "labels": {"values": {"app.kubernetes.io/name": "x"}},
        "envs": {"values": [{"key": "HOME", "value": "/x"}, {"key": "OLD", "value": None}]},
    }
    assert dict(leaf_values(kind("workflow-execution-config").schema, payload)) == {
        "max_parallelism": None,
        "security_context.run_as": {"iam_role": "r"},
        "labels.values.app.kubernetes.io/name": "x",
        "envs.values.HOME": "/x",
        "envs.values.OLD": None,
    }


def test_entries_of_a_keyed_list_are_leaves_by_their_key() -> None:
    payload = {"overrides": [{"task_type": "a", "plugin_id": ["p"]}, {"task_type": "b", "plugin_id": None}]}
    assert dict(leaf_values(kind("plugin-override").schema, payload)) == {
        "overrides.a": {"plugin_id": ["p"]},
        "overrides.b": None,
    }


def test_a_payload_is_told_in_one_line() -> None:
    payload = {"limits": {"cpu": "1", "gpu": None}}
    assert summary(kind("task-resource-attribute").schema, payload) == "limits.cpu=1, limits.gpu=(unset)"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "(unset)"),
        ("a", "a"),
        (2, "2"),
        (True, "true"),
        ([], "[]"),
        (["a", "b"], "a, b"),
        ([1, 2.5], "1, 2.5"),
        ({"plugin_id": ["a", "b"], "optional": False}, "plugin_id=a, b, optional=false"),
        ([{"id": "east", "weight": 2}, {"id": "west"}], "id=east, weight=2; id=west"),
    ],
)
def test_a_value_is_shown_without_json(value: object, shown: str) -> None:
    assert show(value) == shown


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("a", {"": "a"}),
        (["a", "b"], {"": "a, b"}),
        ({"a": {"b": 1}, "c": []}, {"a.b": "1", "c": "[]"}),
        ({"members": [{"id": "e", "weight": 2}, {"id": "w"}]}, {"members.e.weight": "2", "members.w": "w"}),
        ({"values": [{"key": "MODE", "value": "a"}, {"key": "B", "value": ""}]}, {"values.MODE": "a", "values.B": ""}),
        ({"key": "MODE", "value": "a"}, {"": "a"}),
        ([{"weight": 2}, {"weight": 3}], {"": "weight=2; weight=3"}),
        ([{"id": "e", "weight": 2}, {"id": "e", "weight": 3}], {"": "id=e, weight=2; id=e, weight=3"}),
    ],
)
def test_a_value_is_taken_apart_field_by_field(value: object, parts: dict[str, str]) -> None:
    assert parts_of(value) == parts


@pytest.mark.parametrize(
    ("value", "parts"),
    [("a", {"": "a"}), ({"value": "a"}, {"": "a"}), ({"plugin_id": ["a", "b"]}, {"plugin_id": "a, b"})],
)
def test_a_leaf_is_taken_apart_without_the_word_for_its_value(value: object, parts: dict[str, str]) -> None:
    assert leaf_parts(value) == parts


def test_parts_of_an_object_that_is_one_leaf_belong_to_that_leaf() -> None:
    leaves = {field.path: field.leaf for field in fields(kind("workflow-execution-config").schema)}
    assert leaves["security_context.run_as.iam_role"] == "security_context.run_as"
    assert leaves["security_context.run_as.oauth2_client.client_id"] == "security_context.run_as"


def test_the_entries_of_a_map_have_a_type_and_bounds() -> None:
    pools, labels = (
        next(field for field in fields(kind(noun).schema) if field.path == path)
        for noun, path in (("token-pool-quota", "pools"), ("cluster-resource-attribute", "attributes"))
    )
    assert (type_name(pools), allowed_values(pools.schema)) == ("map of whole numbers", "between 0 and 1000000000")
    assert (type_name(labels), allowed_values(labels.schema)) == ("map of text", "")
