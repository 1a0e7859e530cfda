"""Documents: what a set of them says, and what is refused with its place."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctl.client.errors import InvalidFile, InvalidInput
from ctl.client.kinds import built_in
from ctl.client.scopes import Scope
from ctl.client.yaml_files import Source
from ctl.files.document_sets import Declaration, KindWords, document_reader, read_documents
from ctl.files.readings import MAX_DOCUMENTS, find_files
from tests.unit.ctl.kinds import PRIORITY

KINDS = KindWords(lambda: [*built_in(), PRIORITY])


def parse(text: str) -> list[Declaration]:
    return document_reader(KINDS).parse(Source(name="f.yaml", text=text))


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        parse(text)
    return [line.strip() for line in caught.value.lines()[1:]]


def message_of(error: InvalidFile) -> str:
    return "\n".join(error.lines())


LABEL = "kind: execution-cluster-label\nproject: p\ndomain: d\nvalue: gpu\n"


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (
            LABEL,
            {"resource_type": "EXECUTION_CLUSTER_LABEL", "project": "p", "domain": "d", "payload": {"value": "gpu"}},
        ),
        (
            "kind: TASK_RESOURCE\ndomain: d\nlimits: {cpu: 010}",
            {"resource_type": "TASK_RESOURCE", "domain": "d", "payload": {"limits": {"cpu": "010"}}},
        ),
        (
            "kind: workflow-priority\ndomain: d\npriority: 5",
            {"resource_type": "WORKFLOW_PRIORITY", "domain": "d", "payload": {"priority": 5}},
        ),
        ("kind: project\nid: p", {"project_definition": {"id": "p"}}),
        (
            "kind: Project\nid: p\nname: N\ndescription: ''\nstate: archived\nlabels: {team: ml, values: x}",
            {
                "project_definition": {
                    "id": "p",
                    "name": "N",
                    "description": "",
                    "state": "ARCHIVED",
                    "labels": {"values": {"team": "ml", "values": "x"}},
                }
            },
        ),
        (
            "kind: project\nid: p\nlabels: {values: {team: ml}}",
            {"project_definition": {"id": "p", "labels": {"values": {"team": "ml"}}}},
        ),
        ("kind: project\nid: p\nlabels: {}", {"project_definition": {"id": "p", "labels": {"values": {}}}}),
        ('{"kind": "project", "id": "1"}', {"project_definition": {"id": "1"}}),
    ],
)
def test_a_document_is_a_change(text: str, change: dict[str, Any]) -> None:
    assert [declaration.change() for declaration in parse(text)] == [change]


@pytest.mark.parametrize("word", ["execution-cluster-label", "execution-cluster-labels", "ExecutionClusterLabel"])
def test_a_kind_is_known_by_its_noun_and_name_in_any_spelling(word: str) -> None:
    [declaration] = parse(LABEL.replace("execution-cluster-label", word))
    assert declaration.kind is not None
    assert declaration.kind.name == "EXECUTION_CLUSTER_LABEL"


def test_a_file_holds_many_documents_and_empty_ones_are_passed_over() -> None:
    declarations = parse(f"---\n{LABEL}---\n---\n# nothing\n---\nkind: project\nid: p\nversion: 0\n---\n")
    assert [(declaration.title, declaration.place, declaration.file.version) for declaration in declarations] == [
        ("execution-cluster-label at project p, domain d", "f.yaml:2:1", None),
        ("project p", "f.yaml:10:1", 0),
    ]


def test_a_list_in_json_is_that_many_documents() -> None:
    declarations = parse('[{"kind": "project", "id": "a"},\n {"kind": "project", "id": "b"}]')
    assert [declaration.place for declaration in declarations] == ["f.yaml:1:2", "f.yaml:2:2"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("value: x\nproject: p", "f.yaml:1:1: lacks kind: write `kind: project`, or the noun of a kind"),
        ("kind: executon-cluster-label\nvalue: x", "f.yaml:1:7: kind: there is no kind 'executon-cluster-label'."),
        ("kind: executon-cluster-label\nvalue: x", "Did you mean execution-cluster-label?"),
        ("kind: projekt\nid: x", "Did you mean project?"),
        ("kind: [a]\nid: x", "f.yaml:1:7: kind: must be one word"),
        ("kind: execution-cluster-label\nproject: p", "f.yaml:1:1: sets nothing: give at least one of value"),
        ("kind: execution-cluster-label\nvalue: x", "f.yaml:1:1: names no scope: add a domain, a project, or both"),
        (LABEL + "valuee: y", "f.yaml:5:1: valuee: unknown key. Did you mean value?"),
        (LABEL + "version: x", "f.yaml:5:10: version: must be a whole number"),
        ("kind: project", "f.yaml:1:1: lacks id: which project?"),
        ("kind: project\nid: ''", "f.yaml:2:5: id: The project is empty"),
        ("kind: project\nid: ..", "f.yaml:2:5: id: '..' cannot be the name of a project"),
        ("kind: project\nid: p\nstate: ON", "f.yaml:3:8: state: must be ACTIVE (0) or ARCHIVED (1), got 'ON'"),
        ("kind: project\nid: p\ncreated_at: x", "f.yaml:3:1: created_at: set by the admin: remove it"),
        ("kind: project\nid: p\nlabels: [a]", "f.yaml:3:9: labels: must hold keys and values"),
        ("kind: project\nid: p\nnamee: x", "f.yaml:3:1: namee: unknown key. Did you mean name?"),
        ("", "f.yaml:1:1: the file holds no document"),
        ("# only a remark\n---\n", "f.yaml:1:1: the file holds no document"),
        ("kind: project\nid: p\n---\nhello", "f.yaml:4:1: a document must hold keys and values"),
        ('"rainbow_plan": 1', "this is a plan: apply it with `rainbowctl apply f.yaml`"),
        ("kind: project\nid: &a p", "anchors are not read"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(text: str, reason: str) -> None:
    assert any(reason in line for line in problems(text)), problems(text)


def test_every_problem_of_every_document_is_reported() -> None:
    text = f"{LABEL}valuee: 1\n---\nkind: nonsense\n---\nkind: project\nid: p\nstate: x\nnam: y\n"
    assert [line.split(": ")[0] for line in problems(text)] == [
        "f.yaml:5:1",
        "f.yaml:7:7",
        "f.yaml:11:8",
        "f.yaml:12:1",
    ]


def test_the_same_scope_and_kind_twice_is_refused_naming_both_places(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(LABEL)
    (tmp_path / "b.yaml").write_text(f"kind: project\nid: p\n---\n{LABEL}")
    with pytest.raises(InvalidFile) as caught:
        read_documents([str(tmp_path)], KINDS)
    assert caught.value.details == [
        {
            "position": f"{tmp_path}/b.yaml:4:1",
            "reason": "execution-cluster-label at project p, domain d is given twice: first at "
            f"{tmp_path}/a.yaml:1:1. Keep one of the two",
        }
    ]


def test_a_project_and_an_attribute_of_it_are_two_things() -> None:
    assert len(parse("kind: project\nid: p\n---\nkind: execution-cluster-label\nproject: p\nvalue: x")) == 2


def test_problems_are_found_in_every_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: project\nid: p\nnam: x")
    (tmp_path / "b.yaml").write_text("a: [")
    (tmp_path / "c.yaml").write_bytes(b"\xff")
    with pytest.raises(InvalidFile, match="3 files cannot be used: 3 problems") as caught:
        read_documents([str(tmp_path)], KINDS)
    assert [Path(str(detail["position"]).split(":")[0]).name for detail in caught.value.details] == [
        "a.yaml",
        "b.yaml",
        "c.yaml",
    ]


def test_the_admin_is_asked_for_kinds_only_when_a_word_is_not_built_in() -> None:
    calls = []
    kinds = KindWords(lambda: calls.append(1) or [PRIORITY])  # type: ignore[func-returns-value]
    document_reader(kinds).parse(Source(name="f", text=LABEL))
    assert calls == []
    text = "kind: workflow-priority\ndomain: d\npriority: 1\n---\nkind: workflow-priority\ndomain: e\npriority: 1"
    document_reader(kinds).parse(Source(name="f", text=text))
    assert calls == [1]


def test_more_documents_than_one_change_can_hold_are_refused() -> None:
    with pytest.raises(InvalidFile, match="More than 20000 documents"):
        parse("".join(f"---\nkind: project\nid: p{index}\n" for index in range(MAX_DOCUMENTS + 1)))


def test_a_field_that_the_admin_names_is_found_in_the_file() -> None:
    labels = "kind: project\nid: p\nlabels:\n  team: ml\n"
    attribute, project = parse(f"{LABEL}---\n{labels}")
    assert attribute.position("value") == "f.yaml:4:8"
    assert attribute.position("project") == "f.yaml:2:10"
    assert attribute.position("nothing") == "f.yaml:1:1"
    assert project.position("labels.values.team") == "f.yaml:9:9"
    assert project.position("labels") == "f.yaml:9:3"
    assert project.file.scope == Scope(project="p")


# Files


def tree(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LABEL)


def test_a_directory_stands_for_all_documents_below_it(tmp_path: Path) -> None:
    tree(tmp_path, "b/c.yml", "a.yaml", "b/a.JSON", ".git/config", "b/.hidden.txt", ".x.yaml")
    assert [Path(path).relative_to(tmp_path) for path in find_files([str(tmp_path)])] == [
        Path("a.yaml"),
        Path("b/a.JSON"),
        Path("b/c.yml"),
    ]


def test_a_stray_file_is_refused_by_name_with_a_remedy(tmp_path: Path) -> None:
    tree(tmp_path, "a.yaml", "README.md", "b/x.yaml.orig")
    with pytest.raises(InvalidFile) as caught:
        find_files([str(tmp_path)])
    assert [detail["position"] for detail in caught.value.details] == [
        f"{tmp_path}/README.md",
        f"{tmp_path}/b/x.yaml.orig",
    ]
    assert "put a dot before their names" in message_of(caught.value)


def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "a.yaml")
    (tmp_path / "b.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(InvalidFile) as caught:
        find_files([str(tmp_path)])
    assert "a broken link" in message_of(caught.value)


def test_a_link_to_a_directory_above_is_refused(tmp_path: Path) -> None:
    tree(tmp_path, "b/a.yaml")
    (tmp_path / "b/up").symlink_to(tmp_path)
    with pytest.raises(InvalidFile, match="a link to a directory above it"):
        find_files([str(tmp_path)])


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="holds no documents"):
        find_files([str(tmp_path)])


def test_a_file_named_itself_may_be_called_anything(tmp_path: Path) -> None:
    tree(tmp_path, "settings")
    assert find_files([str(tmp_path / "settings")]) == [str(tmp_path / "settings")]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="No such file"):
        read_documents([str(tmp_path / "no.yaml")], KINDS)


def test_stdin_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="stdin can be read once"):
        read_documents(["-", "-"], KINDS)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(LABEL.encode())))
    assert [declaration.place for declaration in read_documents(["-"], KINDS)] == ["stdin:1:1"]


def test_a_file_that_is_too_large_is_refused_by_its_size_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)

    def opened(*_args: object, **_settings: object) -> None:
        raise AssertionError("the file was opened")

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(InvalidFile, match="larger than 32 MiB: it has 50 MiB"):
        read_documents([str(path)], KINDS)
