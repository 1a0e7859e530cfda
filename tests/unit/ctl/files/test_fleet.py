"""Clusters, pools and labels as files, documents and flags write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admin.messages.clusters import ClusterAnswer
from ctl.client.errors import InvalidFile, InvalidInput
from ctl.client.kinds import built_in
from ctl.client.yaml_files import Source
from ctl.files.document_sets import Declaration, KindWords, document_reader
from ctl.files.fleet import (
    FIELDS,
    changed_members,
    parse_amounts,
    parse_cost,
    parse_members,
    read_definition,
    show_amounts,
    show_members,
)

KINDS = KindWords(built_in)


def parse(text: str) -> list[Declaration]:
    return document_reader(KINDS).parse(Source(name="f.yaml", text=text))


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        parse(text)
    return [line.strip() for line in caught.value.lines()[1:]]


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (
            "kind: pool\nname: gpu\nmembers: [{id: a, weight: 6}, {id: b}]\nstrategy: Least_Loaded",
            {
                "pool_definition": {
                    "name": "gpu",
                    "members": [{"id": "a", "weight": 6}, {"id": "b", "weight": 1}],
                    "strategy": "least-loaded",
                }
            },
        ),
        (
            "kind: Labels\nname: '1'\nmembers: {a: 1, b: 0.5}\ndescription: ''",
            {
                "label_definition": {
                    "name": "1",
                    "members": [{"id": "a", "weight": 1}, {"id": "b", "weight": 0.5}],
                    "description": "",
                }
            },
        ),
        ("kind: cluster\nname: a", {"cluster_definition": {"name": "a"}}),
        (
            "kind: CLUSTER\nname: a\nendpoint: https://a\nauth: {type: file, tokenPath: /t, certPath: /c}\n"
            "enabled: false\ncost: 1.5\ncapacity: {cpu: 64, memory: 256Gi, nodes: 4}\nproperties: {zone: [1, x]}",
            {
                "cluster_definition": {
                    "name": "a",
                    "endpoint": "https://a",
                    "auth": {"type": "file", "token_path": "/t", "cert_path": "/c"},
                    "enabled": False,
                    "cost": 1.5,
                    "capacity": {"cpu": "64", "memory": "256Gi", "nodes": 4},
                    "properties": {"zone": [1, "x"]},
                }
            },
        ),
    ],
)
def test_a_document_is_a_change(text: str, change: dict[str, Any]) -> None:
    assert [declaration.change() for declaration in parse(text)] == [change]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: pool\nmembers: {a: 1}", "f.yaml:1:1: lacks name: which pool?"),
        ("kind: pool\nname: ''\nmembers: {a: 1}", "f.yaml:2:7: name: The pool is empty"),
        ("kind: pool\nname: x\nmember: {a: 1}", "f.yaml:3:1: member: unknown key. Did you mean members?"),
        ("kind: pool\nname: x\nstrategy: spil", "f.yaml:3:11: strategy: must be weighted, spill, "),
        ("kind: pool\nname: x\nmembers: [{id: a}, {id: a}]", "f.yaml:3:20: members: id a is given twice"),
        ("kind: pool\nname: x\nmembers: {a: -1}", "f.yaml:3:14: members.a: must be 0 or more, got -1"),
        ("kind: label\nname: x\nstrategy: spill", "f.yaml:3:1: strategy: unknown key"),
        ("kind: cluster\nname: x\ncapacity: {cpus: 1}", "f.yaml:3:12: capacity.cpus: unknown key. Did you mean cpu?"),
        ("kind: cluster\nname: x\nwaiting: 3", "f.yaml:3:1: waiting: not part of the definition"),
        ("kind: pool\nname: x\nsource: managed", "f.yaml:3:1: source: not part of the definition"),
        ("kind: pol\nname: x", "f.yaml:1:7: kind: there is no kind 'pol'. Did you mean pool?"),
        (
            "kind: pool\nname: x\nmembers: {a: 1}\n---\nkind: pools\nname: x\nmembers: {b: 1}",
            "f.yaml:5:1: pool x is given twice: first at f.yaml:1:1. Keep one of the two",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, message: str) -> None:
    [line] = problems(text)
    assert line.startswith(message)


def test_a_pool_and_a_label_may_have_the_same_name() -> None:
    assert len(parse("kind: pool\nname: x\nmembers: {a: 1}\n---\nkind: label\nname: x\nmembers: {a: 1}")) == 2


def test_a_file_of_one_noun_needs_no_kind_but_may_have_no_other(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("name: gpu\nversion: 7\nmembers: {a: 6}\n")
    name, file = read_definition(str(path), "pool")
    assert (name, file.version, file.payload) == ("gpu", 7, {"members": [{"id": "a", "weight": 6}]})
    path.write_text("kind: label\nname: gpu\nmembers: {a: 6}\n")
    with pytest.raises(InvalidFile) as caught:
        read_definition(str(path), "pool")
    assert caught.value.lines()[1].endswith("p.yaml:1:7: kind: this is for label, not for pool")


def test_members_are_typed_in_their_order_with_a_weight_of_1_unless_said() -> None:
    assert parse_members(["b=6", "a", "c=0.5", "d=0"], "--member") == [
        {"id": "b", "weight": 6},
        {"id": "a", "weight": 1},
        {"id": "c", "weight": 0.5},
        {"id": "d", "weight": 0},
    ]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["a="], "--member a: the weight must be a number, got ''."),
        (["a=-1"], "--member a: the weight must be 0 or more, got -1."),
        (["a=nan"], "--member a: the weight must be a number, got 'nan'."),
        (["=1"], "--member '=1': The cluster is empty"),
        (["a=1", "a=2"], "--member a is given twice: keep one of the two."),
    ],
)
def test_a_wrong_member_is_named(texts: list[str], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_members(texts, "--member")
    assert caught.value.message.startswith(message)


def test_members_are_added_at_the_end_given_another_weight_in_place_and_removed() -> None:
    members = [{"id": "a", "weight": 1}, {"id": "b", "weight": 2}, {"id": "c", "weight": 3}]
    added = [{"id": "d", "weight": 4}, {"id": "a", "weight": 9}]
    assert changed_members(members, added, ["b"]) == [
        {"id": "a", "weight": 9},
        {"id": "c", "weight": 3},
        {"id": "d", "weight": 4},
    ]
    with pytest.raises(InvalidInput, match="--removeMember bb: there is no such member"):
        changed_members(members, [], ["bb"])
    with pytest.raises(InvalidInput, match="a is both added and removed"):
        changed_members(members, added, ["a"])


def test_amounts_are_typed_by_resource_in_any_spelling() -> None:
    amounts = parse_amounts("cpu=64,memory=256Gi,ephemeralStorage=1Ti,nodes=4", "--capacity")
    assert amounts == {"cpu": "64", "memory": "256Gi", "ephemeral_storage": "1Ti", "nodes": 4}
    assert show_amounts(amounts) == "cpu=64,memory=256Gi,ephemeral_storage=1Ti,nodes=4"
    assert parse_amounts("", "--capacity") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu", "--capacity must be KEY=VALUE, got 'cpu'."),
        ("cpuu=1", "--capacity: there is no resource 'cpuu'. Did you mean cpu?"),
        ("cpu=1,cpu=2", "--capacity: cpu is given twice"),
        ("nodes=1.5", "--capacity: nodes must be a whole number, got '1.5'."),
    ],
)
def test_a_wrong_amount_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_amounts(text, "--capacity")
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(("text", "cost"), [("3", 3), ("1.5", 1.5), ("0", 0)])
def test_a_cost_stays_as_it_was_typed(text: str, cost: float) -> None:
    assert repr(parse_cost(text, "--cost")) == repr(cost)
    with pytest.raises(InvalidInput, match="--cost must be a number, got 'much'"):
        parse_cost("much", "--cost")


def test_members_in_a_table() -> None:
    members = [{"id": "a", "weight": 1.0, "expected": True}, {"id": "b", "weight": 0.5}, {"id": "c", "weight": 99}]
    assert show_members(members) == "a:1, b:0.5, c:99"


def test_what_a_cluster_shows_and_its_definition_lacks_is_refused_by_name() -> None:
    shown = {*ClusterAnswer.__struct_fields__} - {*FIELDS["cluster"], "name", "version"}
    lines = problems("\n".join(["kind: cluster", "name: a", *(f"{key}: x" for key in sorted(shown))]))
    assert len(lines) == len(shown)
    assert [line for line in lines if "not part of the definition: remove it" not in line] == []
