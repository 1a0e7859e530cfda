from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ctl.client.answers import Attribute, RowChange
from ctl.client.errors import InvalidInput
from ctl.client.kinds import built_in
from ctl.client.scopes import Scope
from ctl.client.yaml_files import Source
from ctl.files.document_sets import KindWords, document_reader
from ctl.files.exports import (
    MARK,
    as_files,
    as_stream,
    exported_definitions,
    exported_project,
    exported_rows,
    file_name,
    write_directory,
)
from tests.unit.ctl.kinds import PRIORITY

KINDS = {kind.name: kind for kind in (*built_in(), PRIORITY)}


def row(kind: str, payload: dict[str, Any], **scope: str) -> Attribute:
    return Attribute(scope=Scope(**scope), payload=payload, kind=kind, version=7, updated_at="2026-03-01T00:00:00Z")


ROWS = [
    row("WORKFLOW_PRIORITY", {"priority": 5}, project="a"),
    row("EXECUTION_CLUSTER_LABEL", {"value": "no"}, project="b", domain="d"),
    row("EXECUTION_CLUSTER_LABEL", {"value": None}, project="a", domain="d", workflow="w"),
    row("EXECUTION_CLUSTER_LABEL", {"value": "x"}, domain="d"),
    row("TASK_RESOURCE", {"limits": {"memory": "1Gi", "cpu": "2"}, "defaults": {"cpu": "1"}}, project="a"),
    row("WORKFLOW_EXECUTION_CONFIG", {"labels": {"values": {"b": "1", "a": "2"}}, "max_parallelism": 3}, domain="e"),
]
PROJECT = {
    "id": "a",
    "name": "A",
    "labels": {"values": {"z": "1", "b": "2"}},
    "state": "ACTIVE",
    "version": 3,
    "created_at": "x",
}

STREAM = f"""{MARK}
---
kind: project
id: a
name: A
description: ''
labels:
  b: '2'
  z: '1'
state: ACTIVE
---
kind: task-resource-attribute
project: a
defaults:
  cpu: '1'
limits:
  cpu: '2'
  memory: 1Gi
---
kind: execution-cluster-label
domain: d
value: x
---
kind: execution-cluster-label
project: b
domain: d
value: 'no'
---
kind: execution-cluster-label
project: a
domain: d
workflow: w
value: null
---
kind: workflow-execution-config
domain: e
max_parallelism: 3
labels:
  values:
    a: '2'
    b: '1'
---
kind: workflow-priority
project: a
priority: 5
"""


def test_an_export_is_sorted_and_holds_neither_versions_nor_times() -> None:
    assert as_stream([exported_project(PROJECT), *exported_rows(ROWS, KINDS)]) == STREAM


def test_the_order_in_which_rows_come_and_keys_stand_plays_no_part() -> None:
    turned = [
        Attribute(scope=row.scope, payload=dict(reversed(row.payload.items())), kind=row.kind) for row in reversed(ROWS)
    ]
    assert as_stream(exported_rows(turned, KINDS)) == as_stream(exported_rows(ROWS, KINDS))


def test_the_order_of_a_list_is_kept() -> None:
    payload = {"overrides": [{"plugin_id": ["x"], "task_type": "z"}, {"task_type": "a", "plugin_id": ["y"]}]}
    [exported] = exported_rows([row("PLUGIN_OVERRIDE", payload, domain="d")], KINDS)
    assert [next(iter(override.items())) for override in exported.document["overrides"]] == [
        ("task_type", "z"),
        ("task_type", "a"),
    ]


def test_an_export_reads_back_as_what_it_was() -> None:
    declarations = document_reader(KindWords(lambda: KINDS.values())).parse(Source(name="e.yaml", text=STREAM))
    assert declarations[0].change() == {
        "project_definition": {
            "id": "a",
            "name": "A",
            "description": "",
            "labels": {"values": {"b": "2", "z": "1"}},
            "state": "ACTIVE",
        }
    }
    assert {(declaration.identity, str(declaration.file.payload)) for declaration in declarations[1:]} == {
        ((str(row.kind), row.scope), str(dict(_ordered(row)))) for row in ROWS
    }


def _ordered(each: Attribute) -> dict[str, Any]:
    [exported] = exported_rows([each], KINDS)
    return {key: value for key, value in exported.document.items() if key in each.payload}


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        (Scope(domain="d"), "domains/d.yaml"),
        (Scope(project="p"), "projects/p.yaml"),
        (Scope(project="p", domain="d"), "projects/p/d.yaml"),
        (Scope(project="p", domain="d", workflow="a.b"), "projects/p/d/a.b.yaml"),
        (Scope(project="p", domain="d", workflow="w", launch_plan="l"), "projects/p/d/w/l.yaml"),
        (Scope(project="p", domain="d", workflow=".w"), "projects/p/d/%2Ew.yaml"),
        (Scope(project="p", domain="d", workflow="w.yaml", launch_plan="l"), "projects/p/d/w%2Eyaml/l.yaml"),
        (Scope(project="p", domain="d", workflow="a/b"), "projects/p/d/a%2Fb.yaml"),
    ],
)
def test_every_scope_has_a_file_of_its_own(scope: Scope, name: str) -> None:
    assert file_name(scope) == name


def test_a_long_name_fits_and_stays_its_own() -> None:
    names = {file_name(Scope(project="p", domain="d", workflow="w" * 254 + end)) for end in "ab"}
    assert len(names) == 2
    assert all(len(Path(name).name) < 255 for name in names)


def test_documents_of_one_scope_share_a_file() -> None:
    documents = [exported_project(PROJECT), *exported_rows(ROWS, KINDS)]
    files = as_files(documents)
    assert sorted(files) == [
        "domains/d.yaml",
        "domains/e.yaml",
        "projects/a.yaml",
        "projects/a/d/w.yaml",
        "projects/b/d.yaml",
    ]
    assert all(text.startswith(f"{MARK}\n---\n") for text in files.values())
    assert files["projects/a.yaml"].count("---\n") == 3


def defined(noun: str, name: str, payload: dict[str, Any]) -> RowChange:
    row = {"resource_type": noun.upper(), "name": name, "before": payload, "version": 4}
    return RowChange.from_document(row)


def test_the_fleet_is_sorted_by_name_and_each_part_has_a_file_of_its_own() -> None:
    members = [{"weight": 6, "id": "b"}, {"weight": 1, "id": "a"}]
    pools = [
        defined("pool", "cpu", {"members": members[:1]}),
        defined("pool", ".gpu", {"strategy": "spill", "members": members}),
    ]
    cluster = defined("cluster", "b", {"properties": {"z": 1, "a": 2}, "cost": 1.5})
    documents = exported_definitions("pool", pools) + exported_definitions("cluster", [cluster])
    assert as_stream(documents) == (
        f"{MARK}\n---\nkind: pool\nname: .gpu\nmembers:\n- id: b\n  weight: 6\n- id: a\n  weight: 1\n"
        "strategy: spill\n---\nkind: pool\nname: cpu\nmembers:\n- id: b\n  weight: 6\n"
        "---\nkind: cluster\nname: b\ncost: 1.5\nproperties:\n  a: 2\n  z: 1\n"
    )
    assert list(as_files(documents)) == ["pools/%2Egpu.yaml", "pools/cpu.yaml", "clusters/b.yaml"]
    declarations = document_reader(KindWords(built_in)).parse(Source(name="e.yaml", text=as_stream(documents)))
    assert [declaration.title for declaration in declarations] == ["pool .gpu", "pool cpu", "cluster b"]


# Directories


FILES = {"domains/d.yaml": f"{MARK}\n---\nx\n", "projects/p/d.yaml": f"{MARK}\n---\ny\n"}


def content(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_files_are_written_below_a_new_directory(tmp_path: Path) -> None:
    assert write_directory(tmp_path / "new", FILES, is_forced=False) == 0
    assert content(tmp_path / "new") == FILES


def test_a_directory_with_hidden_files_counts_as_empty(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write_directory(tmp_path, FILES, is_forced=False)
    assert content(tmp_path) == FILES


def test_a_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="is not empty: use --force"):
        write_directory(tmp_path, FILES, is_forced=False)
    assert content(tmp_path) == {"mine.txt": "mine"}


def test_forced_only_files_of_an_earlier_export_are_removed(tmp_path: Path) -> None:
    stale = {"projects/old/d.yaml": f"{MARK}\n---\nold\n", "domains/d.yaml": f"{MARK}\n---\nold\n"}
    write_directory(tmp_path, stale, is_forced=False)
    (tmp_path / "projects/mine.yaml").write_text("kind: project\n")
    (tmp_path / ".kept.yaml").write_text(f"{MARK}\n")
    assert write_directory(tmp_path, FILES, is_forced=True) == 1
    assert content(tmp_path) == {**FILES, "projects/mine.yaml": "kind: project\n", ".kept.yaml": f"{MARK}\n"}
    assert not (tmp_path / "projects/old").exists()


def test_a_file_that_no_export_wrote_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "domains").mkdir()
    (tmp_path / "domains/d.yaml").write_text("mine")
    with pytest.raises(InvalidInput, match="exists and no export wrote it"):
        write_directory(tmp_path, FILES, is_forced=True)
    assert content(tmp_path) == {"domains/d.yaml": "mine"}


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
@example(text="null")
@example(text="1e3")
@example(text=" a: b # c\n\n  d\t\n")
@example(text="\x00\x07\x85\u2028\ufeff\U0001f600\ud7ff")
@example(text="word " * 2000)
@example(text="---\nkind: project\n")
def test_any_text_survives(text: str) -> None:
    stream = as_stream([exported_project({**PROJECT, "description": text, "labels": {"values": {text or "x": text}}})])
    [declaration] = document_reader(KindWords(lambda: KINDS.values())).parse(Source(name="e.yaml", text=stream))
    definition = declaration.change()["project_definition"]
    assert (definition["description"], definition["labels"]) == (text, {"values": {text or "x": text}})
