"""History, rollback, the past, editing and watching, on a real admin."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.acceptance.test_changes_apply import head
from tests.support.admins import RunningAdmin, running_admin
from tests.support.shells import Shell

PRIORITY = "rainbowctl update workflow-priority"


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def numbers(shell: Shell, flags: str) -> list[int]:
    return [revision["number"] for revision in json.loads(shell.ok(f"rainbowctl history {flags} -o json"))]


def test_history_says_who_changed_what_when_and_why(shell: Shell) -> None:
    shell.ok(f"{PRIORITY} -d staging --priority 1 -m first", LOGNAME="ann")
    shell.ok("rainbowctl create project --id search", LOGNAME="bob")
    shell.ok("rainbowctl apply -f -", stdin="kind: project\nid: a\n---\nkind: project\nid: b\n", LOGNAME="bob")
    when = r"\d[a-z0-9 ]* ago"
    lines = shell.ok("rainbowctl history").splitlines()
    assert lines[0].split() == ["REVISION", "WHEN", "WHO", "WHAT", "WHY"]
    assert re.fullmatch(rf"3 +{when}  anonymous \(says bob\)  create project a: name: - → a.* +-", lines[1])
    assert re.fullmatch(r"3 +- +- +create project b: name: - → b.* +-", lines[2])
    assert re.fullmatch(rf"2 +{when}  anonymous .*create project search: .* +-", lines[3])
    what = "create workflow-priority at domain staging: priority: - → 1"
    assert re.fullmatch(rf"1 +{when}  anonymous \(says ann\)  {what} +first", lines[4])
    summary = rf"^3 revisions, the oldest {when}, newest first\.$"
    assert re.search(summary, shell.run("rainbowctl history").err, re.MULTILINE)
    for flags, start in (
        ("--limit 2", "The newest 2 of more: 2 revisions"),
        ("--limit 2 --filter.page 2", "3 to 3, which are the last: 1 revision"),
        ("--limit 1 --filter.page 2", "2 to 2, of more: 1 revision"),
        ("--limit 2 --filter.asc", "The first 2 of more: 2 revisions"),
    ):
        assert f"{start}, the oldest " in shell.run(f"rainbowctl history {flags}").err.splitlines()[0]
    assert numbers(shell, "") == [3, 2, 1]
    assert numbers(shell, "--limit 2") == [3, 2]
    assert numbers(shell, "--filter.limit 2 --filter.page 2") == [1]
    assert numbers(shell, "--filter.fieldSelector claimed_by=bob --filter.asc") == [2, 3]
    assert numbers(shell, "--author anonymous --filter.sortBy change_count --filter.limit 1") == [3]
    assert "1 is one revision: leave out the filters." in shell.refused(2, "rainbowctl history 1 --filter.asc")
    assert numbers(shell, "workflow-priority") == [1]
    assert numbers(shell, "project") == [3, 2]
    assert numbers(shell, "-p search") == [2]
    assert numbers(shell, "-d staging") == [1]
    assert numbers(shell, "--author ann") == [1]
    assert numbers(shell, "--author anonymous") == [3, 2, 1]
    assert numbers(shell, "--since 1h") == [3, 2, 1]
    assert numbers(shell, "--until 1h") == []
    reversed_window = shell.refused(2, "rainbowctl history --since 1h --until 2h")
    assert reversed_window == "error: --since: is not before the end of the window: give an earlier time.\n"
    assert shell.ok("rainbowctl history -o name").split() == ["revision/3", "revision/2", "revision/1"]
    many = "".join(f"kind: project\nid: many-{number}\n---\n" for number in range(7))
    shell.ok("rainbowctl apply -f -", stdin=many, LOGNAME="bob")
    assert re.fullmatch(r"4 +- +- +and 2 more rows +-", shell.ok("rainbowctl history").splitlines()[6])


def test_history_of_everything_shows_clusters_too_and_values_before_and_after(shell: Shell) -> None:
    shell.ok("rainbowctl create cluster eager --capacity cpu=8")
    shell.ok("rainbowctl cordon eager --reason 'new disks'")
    shell.ok("rainbowctl update cluster eager --capacity cpu=16")
    text = shell.ok("rainbowctl history --cluster eager --no-headers").splitlines()
    listed = json.loads(shell.ok("rainbowctl history --cluster eager -o json"))
    assert listed == shell.rest("GET", "timeline?cluster=eager")["entries"]
    assert "update cluster eager: capacity.cpu: 8 → 16" in text[0]
    assert "cluster eager: cordoned" in text[1]
    assert "new disks" in text[1]
    assert "create cluster eager: " in text[2]
    assert len(text) == len(listed) == 3
    shell.ok("rainbowctl create pool gpu --member eager -m 'all of them'")
    with_pool = shell.ok("rainbowctl history --cluster eager --no-headers").splitlines()
    assert re.search("create pool gpu: .* all of them", with_pool[0])
    assert with_pool[0].startswith("3 ")
    assert len(with_pool) == 4
    assert json.loads(shell.ok("rainbowctl history cluster eager -o json")) == json.loads(
        shell.ok("rainbowctl history --cluster eager -o json")
    )
    for everything in (shell.ok("rainbowctl history --all"), shell.ok("rainbowctl history")):
        assert "update cluster eager: capacity.cpu: 8 → 16" in everything
        assert "cluster eager: cordoned" in everything
    assert "cordoned" not in shell.ok("rainbowctl history --source revision")
    assert "eager" in shell.refused(3, "rainbowctl history --cluster eagre")
    assert "leave out the filters" in shell.refused(2, "rainbowctl history 1 --all")
    shell.ok("rainbowctl delete cluster eager --force -m sold")
    assert re.search("delete cluster eager: .* sold", shell.ok("rainbowctl history --cluster eager"))


def test_a_rollback_says_what_it_rolled_back_everywhere(shell: Shell) -> None:
    shell.ok("rainbowctl create pool gpu --member eager")
    number = shell.rest("GET", "revisions")["head"]
    shell.ok(f"rainbowctl rollback {number} --force")
    [entry] = json.loads(shell.ok("rainbowctl history --source revision --limit 1 -o json"))
    assert entry == shell.rest("GET", "timeline?source=revision&limit=1")["entries"][0]
    assert entry["undone"] == number
    rollback = f"rollback of revision {number}: "
    assert f"{rollback}delete pool gpu" in shell.ok("rainbowctl history --all --limit 1")
    assert f"{rollback}delete pool gpu" in shell.ok("rainbowctl history --limit 1")
    assert f"what  {rollback}1 row" in shell.ok(f"rainbowctl history {number + 1}")
    shell.ok(f"rainbowctl rollback --to {number} --everything --force")
    assert f"rollback to revision {number}: create pool gpu" in shell.ok("rainbowctl history --limit 1")
    message = shell.refused(5, f"rainbowctl rollback {number + 1}")
    assert re.search(rf"pool gpu: changed again by revision {number + 2} \(rollback to {number}\), anonymous", message)


def test_a_value_that_a_rollback_set_back_says_so_everywhere(shell: Shell) -> None:
    shell.ok("rainbowctl create pool night --member eager")
    for pool in ("night", "day"):
        shell.ok(f"rainbowctl update cluster-pool-attribute -d staging --clusterPoolName {pool}")
    number = shell.rest("GET", "revisions")["head"]
    shell.ok(f"rainbowctl rollback {number} --force -m 'breaks the nightly'", LOGNAME="olga")
    rollback = f"revision {number + 1} (rollback of {number}), anonymous (says olga), "
    for command in (
        "rainbowctl explain cluster-pool-attribute -d staging",
        "rainbowctl get cluster-pool-attribute -d staging",
        "rainbowctl get cluster-pool-attribute -A",
        "rainbowctl where-used pool night",
        f"rainbowctl history {number}",
    ):
        assert rollback in " ".join(shell.ok(command).split()), command
    revision = json.loads(shell.ok(f"rainbowctl history {number} -o json"))
    assert revision == shell.rest("GET", f"revisions/{number}")
    [rolled_back_by] = revision["rolled_back_by"]
    read = json.loads(shell.ok("rainbowctl get cluster-pool-attribute -d staging -o json"))
    assert read["provenance"] == rolled_back_by
    assert (rolled_back_by["undone"], rolled_back_by["message"]) == (number, "breaks the nightly")


def test_any_two_revisions_are_compared_in_either_order(shell: Shell) -> None:
    for priority in (1, 2, 3):
        shell.ok(f"{PRIORITY} -d staging --priority {priority}")
    shell.ok("rainbowctl delete workflow-priority -d staging")
    assert "-priority: 1\n+priority: 3\n" in shell.ok("rainbowctl history 1..3")
    assert "-priority: 3\n+priority: 1\n" in shell.ok("rainbowctl history 3..1")
    assert json.loads(shell.ok("rainbowctl history 0..4 -o json")) == []
    assert "no revision 9" in shell.refused(3, "rainbowctl history 1..9")


def test_a_scope_and_a_kind_go_back_to_what_they_were(shell: Shell) -> None:
    for priority in (1, 2, 3):
        shell.ok(f"{PRIORITY} -d staging --priority {priority}")
    shell.ok("rainbowctl update execution-cluster-label -d staging --value mycluster")
    shell.ok("rainbowctl rollback --to 1 workflow-priority -d staging")
    assert shell.values("WORKFLOW_PRIORITY") == [{"priority": 1}]
    assert shell.values("EXECUTION_CLUSTER_LABEL") == [{"value": "mycluster"}]
    shell.ok("rainbowctl rollback --to 2 -d staging")
    assert shell.values("WORKFLOW_PRIORITY") == [{"priority": 2}]
    assert shell.values("EXECUTION_CLUSTER_LABEL") == []
    again = shell.run("rainbowctl rollback --to 2 -d staging")
    assert (again.status, again.out, head(shell)) == (0, "", 6)
    assert again.err == "No changes: everything is as it was then.\n"
    assert "Dry run: nothing was written." in shell.run("rainbowctl rollback --to 0 --everything --dryRun").err
    assert head(shell) == 6


def test_a_revision_whose_rows_changed_again_is_not_undone(shell: Shell) -> None:
    shell.ok(f"{PRIORITY} -d staging --priority 1")
    shell.ok(f"{PRIORITY} -d staging --priority 2")
    message = shell.refused(5, "rainbowctl rollback 1")
    assert "1 row of revision 1 changed again since: nothing was written." in message
    assert "workflow-priority at domain staging: changed again by revision 2" in message
    shell.ok(f"{PRIORITY} -d staging --priority 3 -m 'more of it'", LOGNAME="ann")
    message = shell.refused(5, "rainbowctl rollback 1")
    last = r"changed again by revision 3, anonymous \(says ann\), [^;]*, 'more of it'; by revision 2, anonymous"
    assert re.search(rf"workflow-priority at domain staging: {last}", message)
    shell.ok("rainbowctl rollback 3 -m 'not so much'", LOGNAME="bob")
    message = shell.refused(5, "rainbowctl rollback 3")
    by = r"revision 4, anonymous \(says bob\), [^:]* ago, 'not so much'"
    assert re.search(rf"^error: Revision 3 was rolled back already, by {by}: nothing was written\.", message)
    assert "To make its change again, `rainbowctl rollback 4`." in message
    assert re.search(rf"workflow-priority at domain staging: rolled back already by {by}", message)
    assert "For example: rainbowctl rollback --to 2 -p flyteexamples -d development" in shell.refused(
        2, "rainbowctl rollback --to 2"
    )


def test_what_can_be_restored_of_a_revision_is_undone_and_the_rest_is_named(shell: Shell) -> None:
    rows = "".join(
        f"kind: workflow-priority\ndomain: {domain}\npriority: 1\n---\n" for domain in ("staging", "production")
    )
    shell.ok("rainbowctl apply -f -", stdin=rows)
    first = shell.rest("GET", "revisions")["head"]
    shell.ok(f"{PRIORITY} -d staging --priority 2 -m 'more of it'", LOGNAME="ann")
    refusal = shell.refused(5, f"rainbowctl rollback {first}")
    assert "undone by --restorable: workflow-priority at domain production." in refusal
    left = (
        "Left as it is: workflow-priority at domain staging: changed again by "
        f"revision {first + 1}, anonymous (says ann), "
    )
    trial = shell.run(f"rainbowctl rollback {first} --restorable --dryRun")
    assert left in trial.err
    assert "delete     workflow-priority at domain production" in trial.out
    document = json.loads(shell.ok(f"rainbowctl rollback {first} --restorable --dryRun -o json"))
    body = {"revision": first, "restorable": True}
    assert document["left"] == shell.rest("POST", "rollbacks?dry_run=true", body)["left"]
    done = shell.run(f"rainbowctl rollback {first} --restorable")
    assert left in done.err
    assert "--restorable is for" in shell.refused(2, "rainbowctl rollback --to 1 --everything --restorable")


def test_the_past_can_be_read(shell: Shell) -> None:
    shell.ok(f"{PRIORITY} -d staging --priority 1")
    shell.ok(f"{PRIORITY} -d staging --priority 2")
    assert "priority=1" in shell.ok("rainbowctl get workflow-priority -A --at 1")
    assert "priority: 1\nversion: 1\n" in shell.ok("rainbowctl get workflow-priority -d staging --at 1 -o yaml")
    assert "here (revision 1, anonymous" in shell.ok("rainbowctl get workflow-priority -d staging --at 1")
    inherited = json.loads(shell.ok("rainbowctl get workflow-priority -p flytesnacks -d staging --at 1 -o json"))
    assert (inherited["priority"], inherited["inherited_from"]["domain"]) == (1, "staging")
    assert shell.run("rainbowctl get workflow-priority -d staging --at 0").status in {0, 3}
    assert shell.run("rainbowctl get workflow-priority -d staging --at 0 --exact").status == 3
    assert '"priority": 1' in shell.ok("rainbowctl explain workflow-priority -d staging --at 1 -o json")


# Editing


def editor(shell: Shell, *steps: str) -> str:
    """An editor that does one step each time it is called, and keeps what it was shown."""
    path = shell.cwd / "editor"
    cases = "\n".join(f"{index}) {step};;" for index, step in enumerate(steps))
    path.write_text(f'#!/bin/bash\nn=$(ls shown* 2>/dev/null | wc -l)\ncp "$1" shown$n\ncase $n in\n{cases}\nesac\n')
    path.chmod(0o755)
    return str(path)


EDIT = "rainbowctl edit task-resource-attribute -p flytesnacks -d staging"


def test_a_row_is_edited_and_written_with_the_version_that_was_read(shell: Shell) -> None:
    shell.ok("rainbowctl update task-resource-attribute -d staging --limits.cpu 3")
    visual = editor(shell, 'echo "limits: {cpu: 2}" >> "$1"', "sed -i s/2/1/ $1", "")
    seen = shell.ok(f"{EDIT} -m why", VISUAL=visual)
    assert "+  cpu: '2'\n" in seen
    assert "limits.cpu: 3    inherited from domain staging" in (shell.cwd / "shown0").read_text()
    assert "#   memory: 450Mi" in (shell.cwd / "shown0").read_text()
    shell.ok(EDIT, EDITOR=visual)
    assert "limits:\n  cpu: '2'\n" in (shell.cwd / "shown1").read_text()
    done = shell.run(EDIT, EDITOR=visual)
    assert (done.status, done.err, head(shell)) == (0, "Cancelled: nothing was changed.\n", 3)


def test_what_cannot_be_accepted_is_opened_again_with_the_problems_on_top(shell: Shell) -> None:
    steps = ('echo "limitz: {cpu: 3}" > "$1"', 'sed -i "s/limitz: .*/limits: {cpu: much}/" $1', "sed -i s/much/2/ $1")
    shell.ok(EDIT, VISUAL=editor(shell, *steps))
    assert "#! line 3:1: limitz: unknown key. Did you mean limits?\n" in (shell.cwd / "shown1").read_text()
    assert "#! line 3:15: limits.cpu: 'much' is not a quantity" in (shell.cwd / "shown2").read_text()
    assert shell.values("TASK_RESOURCE") == [{"limits": {"cpu": "2"}}]


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        (('echo "limitz: {cpu: 3}" > "$1"', ""), 2),
        (('echo "limits: {cpu: 3}" > "$1"; exit 4',), 1),
        (
            (
                'echo "limits: {cpu: 2}" > "$1"; rainbowctl update task-resource-attribute -p flytesnacks -d staging '
                "--limits.cpu 1 -q",
            ),
            5,
        ),
    ],
)
def test_what_was_written_is_never_lost(shell: Shell, steps: tuple[str, ...], status: int) -> None:
    message = shell.refused(status, EDIT, VISUAL=editor(shell, *steps), TMPDIR=str(shell.cwd))
    match = re.search(r"What you wrote is kept in (\S+)\.\n", message)
    assert match, message
    assert "cpu: " in Path(match[1]).read_text()
    assert Path(match[1]).stat().st_mode & 0o777 == 0o600


def test_an_empty_file_changes_nothing_and_leaves_nothing_behind(shell: Shell) -> None:
    done = shell.run(EDIT, VISUAL=editor(shell, 'echo "# no" > "$1"'), TMPDIR=str(shell.cwd))
    assert (done.status, done.err, head(shell)) == (0, "Cancelled: nothing was changed.\n", 0)
    assert not list(shell.cwd.glob("rainbowctl-*"))


# Watching


class Watch:
    """A command that goes on printing."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.seen += line.decode()
                self._changed.notify_all()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 60
        with self._changed:
            while text not in self.seen:
                assert self._changed.wait(deadline - time.monotonic()), f"{text!r} did not come: {self.seen}"

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=30)
        self._reader.join(timeout=30)
        return status


@contextmanager
def watching(shell: Shell, command: str) -> Iterator[Watch]:
    with shell.running(command, stderr=subprocess.STDOUT) as process:
        yield Watch(process)


def test_a_value_is_shown_again_whenever_it_changes(shell: Shell) -> None:
    with watching(shell, "rainbowctl get workflow-priority -p flytesnacks -d staging --watch -o yaml") as watch:
        watch.wait_for("---\n")
        shell.ok(f"{PRIORITY} -d staging --priority 1")
        watch.wait_for("priority: 1\n")
        # Another scope's row is no news here.
        shell.ok(f"{PRIORITY} -d production --priority 77")
        shell.ok(f"{PRIORITY} -p flytesnacks -d staging --priority 2")
        watch.wait_for("priority: 2\nversion: 3\n")
        assert watch.interrupt() == 130
        assert "77" not in watch.seen


def test_changed_rows_are_shown_as_they_change(shell: Shell) -> None:
    shell.ok(f"{PRIORITY} -d staging --priority 1")
    with watching(shell, "rainbowctl get workflow-priority -A --watch") as watch:
        watch.wait_for("priority=1")
        shell.ok(f"{PRIORITY} -d production --priority 2")
        watch.wait_for("priority=2")
        shell.ok("rainbowctl delete workflow-priority -d staging")
        watch.wait_for("(deleted)")
        assert watch.interrupt() == 130
        assert watch.seen.count("priority=1") == 1
        assert watch.seen.count("LEVEL") == 1


def test_watching_goes_on_when_the_admin_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_admin(tmp_path) as first:
        shell = Shell(first, tmp_path)
        port = int(first.url.rsplit(":", 1)[1])
        monkeypatch.setattr("tests.support.admins.free_port", lambda: port)
        shell.ok(f"{PRIORITY} -d staging --priority 1")
        with watching(shell, "rainbowctl get workflow-priority -d staging --watch -o json") as watch:
            watch.wait_for('"priority": 1')
            first.stop()
            watch.wait_for("Trying again until it answers.")
            with running_admin(tmp_path):
                watch.wait_for("The admin answers again.")
                shell.ok(f"{PRIORITY} -d staging --priority 2")
                watch.wait_for('"priority": 2')
                assert watch.interrupt() == 130
            assert watch.seen.count('"priority": 1') == 1
