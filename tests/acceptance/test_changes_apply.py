"""Many documents as one change: applied, refused, exported, rolled back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Scale
from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import Shell

DOMAINS = ("development", "staging", "production")


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


@pytest.fixture
def other_shell(tmp_path: Path) -> Iterator[Callable[[], Shell]]:
    """Makes shells, each with an admin that holds nothing yet."""
    with ExitStack() as stack:

        def make() -> Shell:
            directory = tmp_path / f"other-{len(list(tmp_path.iterdir()))}"
            directory.mkdir()
            return Shell(stack.enter_context(running_admin(directory)), directory)

        yield make


def mixed_documents(number: int) -> list[tuple[str, str]]:
    """Names of files and their documents: projects, every level, several kinds, a declared one among them."""
    documents = [
        (f"domains/{domain}", f"kind: workflow-priority\ndomain: {domain}\npriority: 7\n") for domain in DOMAINS
    ]
    index = 0
    while len(documents) < number:
        project, scope = f"team-{index}", f"project: team-{index}\ndomain: {DOMAINS[index % 3]}\n"
        documents += [
            (f"{project}/project", f"kind: project\nid: {project}\nlabels: {{number: {index}}}\n"),
            (f"{project}/label", f"kind: execution-cluster-label\n{scope}value: mycluster\n"),
            (f"{project}/limits", f"kind: TASK_RESOURCE\n{scope}limits: {{cpu: {index % 7 + 2}, memory: 2Gi}}\n"),
            (
                f"{project}/labels",
                f"kind: workflow-execution-config\nproject: {project}\nlabels: {{values: {{a: b}}}}\n",
            ),
            (
                f"{project}/flow",
                f"kind: workflow-priority\n{scope}workflow: my.flow\nlaunch_plan: nightly\npriority: 9\n",
            ),
            (f"{project}/plugin", f"kind: plugin-override\n{scope}overrides: {{z: {{plugin_id: [b, a]}}}}\n"),
        ]
        index += 1
    return documents[:number]


def write_documents(directory: Path, documents: list[tuple[str, str]]) -> None:
    for name, text in documents:
        path = directory / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def head(shell: Shell) -> int:
    number: int = shell.admin.get("/api/v1/revisions?limit=1").json()["head"]
    return number


def revision(shell: Shell, number: int) -> dict[str, Any]:
    revision: dict[str, Any] = json.loads(shell.ok(f"rainbowctl history {number} -o json"))
    return revision


@pytest.mark.slow
def test_many_mixed_documents_are_one_revision_that_can_be_moved_and_undone(
    shell: Shell, other_shell: Callable[[], Shell], scale: Scale
) -> None:
    number = scale(100, full=500)
    write_documents(shell.cwd / "settings", mixed_documents(number))
    empty = shell.ok("rainbowctl export")

    done = shell.run("rainbowctl apply -f settings -m 'all at once'")
    assert (done.status, head(shell)) == (0, 1), done.err
    assert [line for line in done.err.splitlines() if not line.startswith("warning:")] == [
        f"Read {number} documents from {number} files.",
        f"Planning {number} changes…",
        f"Writing {number} changes…",
        f"Applied as revision 1: {number} created.",
    ]
    assert done.out.count("\ncreate ") + done.out.startswith("create ") == number
    assert f"{number} to create.\n" in done.out
    assert "effective values at" in done.out
    assert len(revision(shell, 1)["changes"]) == number
    assert revision(shell, 1)["message"] == "all at once"

    again = shell.run("rainbowctl apply -f settings")
    assert (again.status, again.out, head(shell)) == (0, "", 1)
    unchanged = f"No changes: everything is already as requested ({number} rows)."
    assert [line for line in again.err.splitlines() if not line.startswith("warning:")][-1] == unchanged
    assert "warning:" not in again.err.partition(unchanged)[0]

    full = shell.ok("rainbowctl export")
    assert shell.run("rainbowctl diff -f -", stdin=full).status == 0
    moved = other_shell()
    moved.ok("rainbowctl apply -f -", stdin=full)
    assert (moved.ok("rainbowctl export"), head(moved)) == (full, 1)
    shell.ok("rainbowctl export --dir exported")
    by_file = other_shell()
    by_file.ok(f"rainbowctl apply -f {shell.cwd}/exported")
    assert by_file.ok("rainbowctl export") == full

    assert "use --force" in shell.run("rainbowctl rollback 1").err
    assert head(shell) == 1
    shell.ok("rainbowctl rollback 1 --force -m 'not yet'")
    assert (shell.ok("rainbowctl export"), head(shell)) == (empty, 2)
    shell.ok("rainbowctl rollback 2 --force")
    assert (shell.ok("rainbowctl export"), head(shell)) == (full, 3)
    shell.ok("rainbowctl rollback --to 0 --everything --force")
    assert (shell.ok("rainbowctl export"), head(shell)) == (empty, 4)


def test_one_bad_document_among_500_stops_all_of_them(shell: Shell) -> None:
    documents = mixed_documents(500)
    name, text = documents[321]
    documents[321] = (name, f"{text}# a remark\nnonsense: x\n")
    write_documents(shell.cwd / "settings", documents)
    message = shell.refused(2, "rainbowctl apply -f settings")
    line = text.count("\n") + 2
    assert f"settings/{name}.yaml cannot be used: 1 problem. Nothing was sent.\n" in message
    assert f"  settings/{name}.yaml:{line}:1: nonsense: unknown key" in message
    assert head(shell) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# remark\nkind: TASK_RESOURCE\ndomain: staging\nlimits:\n  cpu: much\n",
            "  settings/z.yaml:5:8: limits.cpu: 'much' is not a quantity",
        ),
        (
            "kind: execution-cluster-label\nproject: flytesnack\nvalue: mycluster\n",
            "  settings/z.yaml:2:10: project: No project is called 'flytesnack'. Did you mean 'flytesnacks'",
        ),
        ("kind: project\nid: new\nlabels:\n  team: a b\n", "  settings/z.yaml:4:9: labels"),
    ],
)
def test_what_only_the_admin_can_refuse_is_found_in_its_file_too(shell: Shell, text: str, expected: str) -> None:
    write_documents(shell.cwd / "settings", [*mixed_documents(40), ("z", text)])
    message = shell.refused(2, "rainbowctl apply -f settings")
    assert "error: The admin refused the change: 1 problem. Nothing was written.\n" in message
    assert expected in message
    assert head(shell) == 0


def test_a_limit_and_a_default_that_needs_it_go_together(shell: Shell) -> None:
    limits = "kind: TASK_RESOURCE\ndomain: staging\nlimits: {cpu: 8}\n"
    default = "kind: TASK_RESOURCE\ndomain: staging\nproject: flytesnacks\ndefaults: {cpu: 6}\n"
    assert shell.run("rainbowctl apply -f -", stdin=default).status == 2
    shell.ok("rainbowctl apply -f -", stdin=f"{default}---\n{limits}")
    assert head(shell) == 1


def test_prune_deletes_what_is_in_no_document_of_the_stated_scope(shell: Shell) -> None:
    shell.ok("rainbowctl update workflow-priority -p flytesnacks -d staging --priority 1")
    shell.ok("rainbowctl update workflow-priority -p flytesnacks --priority 2")
    shell.ok("rainbowctl update workflow-priority -p flyteexamples -d staging --priority 3")
    document = "kind: workflow-priority\nproject: flytesnacks\npriority: 2\n"
    command = "rainbowctl apply -f - --prune -p flytesnacks"
    planned = shell.run(f"{command} --dryRun", stdin=document).out
    assert planned.startswith("1 to delete, 1 unchanged.\n1 effective value at 1 scope changes: workflow-priority 1.\n")
    assert "\nunchanged  workflow-priority at project flytesnacks\n" in planned
    done = shell.run(command, stdin=document)
    assert done.status == 2
    assert "--prune would delete 1 row, and there is no terminal to ask at: use --force." in done.err
    assert head(shell) == 3
    assert shell.run("rainbowctl diff -f - --prune -p flytesnacks", stdin=document).status == 1
    shell.ok(f"{command} --force", stdin=document)
    assert shell.ok("rainbowctl get workflow-priority -A -o name").split() == [
        "workflow-priority/flyteexamples/staging",
        "workflow-priority/flytesnacks",
    ]
    shell.ok("rainbowctl apply -f - --prune -A --force", stdin=document)
    assert shell.ok("rainbowctl get workflow-priority -A -o name") == "workflow-priority/flytesnacks\n"


def test_a_document_with_the_version_of_another_row_is_refused(shell: Shell) -> None:
    shell.ok("rainbowctl update workflow-priority -d staging --priority 1")
    old = shell.ok("rainbowctl get workflow-priority -A -o yaml")
    shell.ok("rainbowctl update workflow-priority -d staging --priority 2")
    message = shell.refused(5, "rainbowctl apply -f -", stdin=old)
    assert "1 row changed in the meantime: nothing was written." in message
    assert (
        "stdin:2:1: workflow-priority at domain staging: expected at version 1, now at version 2 (revision 2, "
        in message
    )
    assert shell.run("rainbowctl apply -f -", stdin=old.replace("priority: 1", "priority: 2")).status == 0
    shell.ok("rainbowctl apply -f - --force", stdin=old)
    assert head(shell) == 3


def test_at_a_terminal_the_plan_is_shown_and_a_question_asked(shell: Shell) -> None:
    write_documents(shell.cwd / "settings", mixed_documents(5))
    status, seen = shell.on_screen("rainbowctl apply -f settings", keys="n\n")
    assert status == 1
    assert "5 to create." in seen
    assert "Write this? [y/N]" in seen
    assert "Not confirmed: nothing was written." in seen
    status, seen = shell.on_screen("rainbowctl apply -f settings", keys="y\n")
    assert (status, head(shell)) == (0, 1)
    assert "Applied as revision 1: 5 created." in seen


def test_answers_for_programs_are_on_stdout_alone(shell: Shell) -> None:
    document = "kind: workflow-priority\ndomain: staging\npriority: 2\n"
    planned = shell.run("rainbowctl plan -f - -o json", stdin=document)
    assert json.loads(planned.out)["counts"] == {"create": 1, "update": 0, "delete": 0, "unchanged": 0}
    assert "create     workflow-priority at domain staging" in planned.err
    assert shell.ok("rainbowctl apply -f - -o name", stdin=document) == "workflow-priority/-/staging\n"
    differs = shell.run("rainbowctl diff -f - -o json", stdin=document)
    assert (differs.status, json.loads(differs.out)["changed"]) == (0, False)


def test_a_wide_plan_lists_the_effective_values_that_change(shell: Shell) -> None:
    seen = shell.ok("rainbowctl plan -f - -o wide", stdin="kind: TASK_RESOURCE\ndomain: staging\nlimits: {cpu: 9}\n")
    assert "3 effective values at 3 scopes change: task-resource-attribute 3.\n" in seen
    assert "task-resource-attribute  project flytesnacks, domain staging    limits.cpu  2       9\n" in seen


def test_warnings_name_their_row_and_strict_fails_on_them(shell: Shell) -> None:
    document = "kind: execution-cluster-label\ndomain: staging\nvalue: mycluste\n"
    done = shell.run("rainbowctl apply -f - --strict", stdin=document)
    assert (done.status, head(shell)) == (7, 1)
    row = "execution-cluster-label at domain staging: No label is called 'mycluste'"
    assert f"warning: stdin:3:8: {row}" in done.err


def test_differences_come_before_warnings_and_both_with_file_and_line(shell: Shell) -> None:
    shell.ok("rainbowctl update execution-cluster-label -d staging --value first")
    path = shell.cwd / "labels.yaml"
    path.write_text("# labels\nkind: execution-cluster-label\ndomain: staging\nvalue: mycluste\n")
    for command in ("plan", "apply --dryRun", "diff"):
        both = shell.run(f"rainbowctl {command} -f labels.yaml 2>&1").out
        difference = both.index("labels.yaml:4:8: value: first → mycluste")
        warning = both.index("warning: labels.yaml:4:8: execution-cluster-label at domain staging: No label is called")
        assert difference < warning
        answer = json.loads(shell.run(f"rainbowctl {command} -f labels.yaml -o json").out)
        [row], [warned] = answer["rows"], answer["warnings"]
        assert row["differences"][0]["position"] == warned["position"] == "labels.yaml:4:8"
    done = shell.run("rainbowctl apply -f labels.yaml")
    assert "labels.yaml:4:8: value: first → mycluste" in done.out
    assert done.err.count("warning: labels.yaml:4:8: ") == 1


def test_documents_are_tried_out_without_being_applied(shell: Shell) -> None:
    documents = "kind: project\nid: new\n---\nkind: workflow-priority\nproject: new\npriority: 11\n"
    (shell.cwd / "new.yaml").write_text(documents)
    seen = shell.ok("rainbowctl explain workflow-priority -p new -d staging --with new.yaml -o json")
    assert json.loads(seen)["values"][0]["value"] == {"priority": 11}
    assert shell.run("rainbowctl explain workflow-priority -p new -d staging").status == 2
    assert "priority: must be" in shell.refused(
        2, "rainbowctl explain -d staging --with -", stdin="kind: workflow-priority\ndomain: staging\npriority: x\n"
    )
    assert head(shell) == 0


def test_an_export_holds_what_filters_leave_and_the_projects_it_needs(shell: Shell) -> None:
    write_documents(shell.cwd / "settings", mixed_documents(30))
    shell.ok("rainbowctl apply -f settings")
    some = shell.ok("rainbowctl export -p team-1")
    assert some.count("kind: project\n") == 1
    assert some.count("project: team-1\n") == some.count("kind: ") - 1
    exported = shell.ok("rainbowctl export workflow-priority -d development --no-projects")
    assert {line for line in exported.splitlines() if line.startswith("kind")} == {"kind: workflow-priority"}
    assert shell.ok("rainbowctl export --at 0").splitlines()[1:] == []
    before = shell.ok("rainbowctl export --no-projects")
    shell.ok("rainbowctl delete workflow-priority -d staging")
    assert shell.ok("rainbowctl export --at 1") == before
    shell.ok("rainbowctl export -f out.yaml")
    assert "exists: use --force" in shell.refused(2, "rainbowctl export -f out.yaml")
    shell.ok("rainbowctl export --dir tree")
    assert "is not empty" in shell.refused(2, "rainbowctl export --dir tree")
    shell.ok("rainbowctl delete workflow-priority -d production")
    assert not (shell.cwd / "tree/domains/staging.yaml").exists()
    shell.ok("rainbowctl export --dir tree --force")
    assert sorted(path.name for path in (shell.cwd / "tree/domains").iterdir()) == ["development.yaml"]
