"""rainbowctl with clusters that have agents: logs, outputs, states, tokens; the tests play the agents."""

from __future__ import annotations

import base64
import json
import re
import select
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from ctl.client.times import to_second
from tests.acceptance.test_rainbowctl_fleet import cells
from tests.support.admins import running_admin
from tests.support.http_agents import HttpAgent, output, write_configuration
from tests.support.shells import Shell
from tests.support.waiting import wait_until

HERE = "-p flytesnacks -d development"
#: Far longer than anything takes on a busy machine.
_SECONDS = 120.0


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    directory = tmp_path_factory.mktemp("agents")
    with running_admin(directory, "--config", str(write_configuration(directory))) as admin:
        yield Shell(admin, directory)


@pytest.fixture(scope="module")
def agent(shell: Shell) -> HttpAgent:
    """The agent of the cluster `local`, where everything goes that names no other."""
    played = HttpAgent(url=shell.admin.url, cluster="local")
    played.register()
    played.sync(report={"engine": "played", "engine_version": "1.0", "capacity": {"cpu": "8"}, "free": {"cpu": "8"}})
    return played


class Following:
    """A command that runs, and what it has printed by now."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen = {"out": "", "err": ""}

    def wait_for(self, text: str, where: str = "out") -> None:
        stream: IO[bytes] | None = self.process.stdout if where == "out" else self.process.stderr
        assert stream is not None
        while text not in self.seen[where]:
            readable, _, _ = select.select([stream], [], [], _SECONDS)
            read = stream.read1(4096) if readable else b""  # type: ignore[attr-defined]
            assert read, f"{text!r} did not come: {self.seen}"
            self.seen[where] += read.decode()

    def finish(self) -> tuple[int, str, str]:
        """The status, and all that it printed."""
        out, err = self.process.communicate(timeout=_SECONDS)
        return self.process.returncode, self.seen["out"] + out.decode(), self.seen["err"] + err.decode()


@contextmanager
def following(shell: Shell, command: str) -> Iterator[Following]:
    with shell.running(command) as process:
        yield Following(process)


def started(shell: Shell, agent: HttpAgent, name: str, flags: str = "") -> dict[str, Any]:
    """The lease of a new execution that runs."""
    shell.ok(f"rainbowctl create execution {name} {HERE} {flags} -- work")
    [lease] = agent.take()
    assert lease["id"]["name"] == name
    agent.report(lease, "RUNNING", native_id=f"job-{name}", nodes=["n1", "n2", "n3", "n4", "n5"])
    return lease


# Logs


def test_each_stream_is_printed_to_its_own_and_tail_shows_the_last_lines(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "printed")
    done = shell.run(f"rainbowctl logs printed {HERE}")
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("Execution flytesnacks/development/printed has printed nothing yet: it is RUNNING on")
    agent.prints(lease, "one\ntwo\nthrée")
    agent.prints(lease, "oops\n", "stderr")
    done = shell.run(f"rainbowctl logs printed {HERE}")
    assert (done.status, done.out, done.err) == (0, "one\ntwo\nthrée", "oops\n")
    assert shell.run("rainbowctl logs flytesnacks/development/printed --stream stderr").out == ""
    done = shell.run(f"rainbowctl logs printed {HERE} --stream stdout --tail 2")
    assert (done.out, done.err) == ("two\nthrée", "")
    assert shell.run(f"rainbowctl logs printed {HERE} --tail 0").out == ""
    agent.report(lease, "SUCCEEDED", exit_code=0)
    assert shell.run(f"rainbowctl logs printed {HERE} -f --tail 1").out == "thrée"


def test_logs_are_followed_until_the_execution_is_finished(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "live")
    with following(shell, f"rainbowctl logs live {HERE} --follow") as logs:
        agent.prints(lease, "first\n")
        logs.wait_for("first\n")
        agent.prints(lease, "a complaint\n", "stderr")
        logs.wait_for("a complaint\n", "err")
        # Half a character is left until the other half is there.
        agent.prints(lease, "caf\xc3".encode("latin-1"))
        logs.wait_for("caf")
        agent.prints(lease, b"\xa9\n")
        logs.wait_for("café\n")
        agent.report(lease, "FAILED", exit_code=3, reason="EXITED", message="It exited with 3.")
        assert logs.finish() == (0, "first\ncafé\n", "a complaint\n")


def test_the_beginning_and_the_end_of_a_large_log_are_printed(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "large")
    text = "".join(f"{number:07}\n" for number in range(200_000))
    for start in range(0, len(text), 500_000):
        agent.prints(lease, text[start : start + 500_000])
    agent.report(lease, "SUCCEEDED", exit_code=0)
    done = shell.run(f"rainbowctl logs large {HERE}")
    assert done.status == 0
    head, tail = 256 * 1024, 768 * 1024
    assert done.out.startswith(f"{text[:head]}\nrainbow: {len(text) - head - tail} bytes are missing here: ")
    assert done.out.endswith(f"\n{text[-tail:]}")
    assert done.err == (
        "warning: The output is longer than is kept: the middle of its stdout is missing. "
        "More is kept with a larger agents.logLimitBytes of the admin.\n"
    )
    followed = shell.run(f"rainbowctl logs large {HERE} -f")
    assert followed == done


def test_the_lines_of_several_executions_begin_with_their_names(shell: Shell, agent: HttpAgent) -> None:
    first, second = started(shell, agent, "one"), started(shell, agent, "two")
    agent.prints(first, "a\nb\n")
    agent.prints(first, "oops\n", "stderr")
    agent.prints(second, "c\nnot ended")
    done = shell.run(f"rainbowctl logs one two {HERE}")
    assert (done.status, done.out, done.err) == (0, "[one] a\n[one] b\n[two] c\n[two] not ended\n", "[one] oops\n")
    assert shell.ok(f"rainbowctl logs one two {HERE} --tail 1 --stream stdout") == "[one] b\n[two] not ended\n"
    with following(shell, f"rainbowctl logs one two {HERE} --follow --tail 1") as logs:
        logs.wait_for("[one] b\n")
        agent.prints(second, " before\n")
        logs.wait_for("[two] not ended before\n")
        agent.report(first, "SUCCEEDED", exit_code=0)
        agent.prints(second, "last")
        agent.report(second, "SUCCEEDED", exit_code=0)
        status, out, err = logs.finish()
    assert (status, err) == (0, "[one] oops\n")
    assert sorted(out.splitlines()) == ["[one] b", "[two] last", "[two] not ended before"]
    done = shell.run(f"rainbowctl logs one three two {HERE} --tail 1 --stream stdout")
    assert (done.status, done.out) == (3, "[one] b\n[two] last\n")
    assert "1 of 3 executions could not be shown: " in done.err
    assert "called 'three'" in done.err
    done = shell.run(f"rainbowctl logs one three two {HERE} --tail 1 --stream stdout --follow")
    assert (done.status, sorted(done.out.splitlines())) == (3, ["[one] b", "[two] last"])
    assert "1 of 3 executions could not be followed: " in done.err
    assert "called 'three'" in shell.refused(3, f"rainbowctl logs three {HERE}")
    many = " ".join(f"n{number}" for number in range(9))
    assert "follows at most 8 executions" in shell.refused(2, f"rainbowctl logs {many} {HERE} -f")


def test_logs_since_a_time(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "timed")
    agent.prints(lease, "a\n")
    assert shell.ok(f"rainbowctl logs timed {HERE} --since 1h30m") == "a\n"
    assert shell.ok(f"rainbowctl logs timed {HERE} --since 2020-01-01") == "a\n"
    done = shell.run(f"rainbowctl logs timed {HERE} --since 2120-01-01")
    assert (done.status, done.out) == (0, "")
    assert "has printed nothing since 2120-01-01T00:00:00Z: it is RUNNING" in done.err
    assert "--since must be a span" in shell.refused(2, f"rainbowctl logs timed {HERE} --since recently")
    agent.report(lease, "SUCCEEDED", exit_code=0)


def test_later_attempts_are_followed_too_and_each_can_be_read(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "again", "--retries 1 --backoff 1ms")
    with following(shell, f"rainbowctl logs again {HERE} -f") as logs:
        agent.prints(lease, "try 1\n")
        logs.wait_for("try 1\n")
        agent.report(lease, "FAILED", exit_code=1)
        [second] = agent.take()
        assert second["attempt"] == 2
        agent.report(second, "RUNNING")
        agent.prints(second, "try 2\n")
        logs.wait_for("try 2\n")
        agent.report(second, "SUCCEEDED", exit_code=0)
        assert logs.finish() == (0, "try 1\ntry 2\n", "Attempt 2:\n")
    assert shell.ok(f"rainbowctl logs again {HERE}") == "try 2\n"
    assert shell.ok(f"rainbowctl logs again {HERE} --attempt 1") == "try 1\n"
    assert "has 2 attempts" in shell.refused(2, f"rainbowctl logs again {HERE} --attempt 3")
    [row] = cells(shell.ok(f"rainbowctl get execution again {HERE} -o wide --no-headers"))
    assert "2" in row


def test_create_shows_what_is_printed_and_exits_with_the_outcome(shell: Shell, agent: HttpAgent) -> None:
    create = f"rainbowctl create execution {HERE} --logs"
    with following(shell, f"{create} hello -- echo hello") as logs:
        logs.wait_for("Created execution flytesnacks/development/hello.\n", "err")
        [lease] = agent.take()
        agent.report(lease, "RUNNING")
        agent.prints(lease, "hello\n")
        logs.wait_for("hello\n")
        agent.report(lease, "SUCCEEDED", exit_code=0)
        status, out, _err = logs.finish()
        assert (status, out) == (0, "hello\n")
    with following(shell, f"{create} -- false") as logs:
        [lease] = agent.take()
        agent.report(lease, "FAILED", exit_code=1, reason="EXITED", message="It exited with 1.")
        status, out, err = logs.finish()
        assert (status, out) == (9, "")
        assert "ended FAILED (EXITED: It exited with 1.)" in err
    assert shell.run(f"{create} hello -- echo hello").status == 8
    assert "keep one of the two" in shell.refused(2, f"{create} --watch -- true")
    assert "leave out -o" in shell.refused(2, f"{create} -o yaml -- true")


def test_following_continues_after_the_admin_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = write_configuration(tmp_path, server={"workers": 1})
    with running_admin(tmp_path, "--config", str(configuration)) as admin:
        shell = Shell(admin, tmp_path)
        agent = HttpAgent(url=admin.url, cluster="local")
        agent.register()
        lease = started(shell, agent, "survivor")
        with following(shell, f"rainbowctl logs survivor {HERE} -f") as logs:
            agent.prints(lease, "before\n")
            logs.wait_for("before\n")
            port = int(admin.url.rpartition(":")[2])
            monkeypatch.setattr("tests.support.admins.free_port", lambda: port)
            admin.stop()
            logs.wait_for("Trying again until it answers.", "err")
            with running_admin(tmp_path, "--config", str(configuration)):
                agent.prints(lease, "after\n")
                agent.report(lease, "SUCCEEDED", exit_code=0)
                status, out, err = logs.finish()
                assert (status, out) == (0, "before\nafter\n")
                assert "The admin answers again." in err


# Retries


def test_retries_are_set_by_flags_files_and_launch_plans(shell: Shell, agent: HttpAgent) -> None:
    def retry_of(flags: str, stdin: str = "") -> Any:
        answer = json.loads(shell.ok(f"rainbowctl create execution {HERE} --dryRun -o json {flags}", stdin))
        return answer["execution"]["spec"].get("retry")

    assert retry_of("-- true") is None
    assert retry_of("--retries 2 --backoff 30s --onLost retry -- true") == {
        "attempts": 3,
        "backoff": "30s",
        "on_lost": "retry",
    }
    text = "job: {command: [x]}\nretry: {attempts: 5, retryOn: [timed-out], onLost: fail}\n"
    in_file = {"attempts": 5, "retry_on": ["TIMED_OUT"], "on_lost": "fail"}
    assert retry_of("--execFile -", text) == in_file
    assert retry_of("--execFile - --on-lost retry", text) == {**in_file, "on_lost": "retry"}
    error = shell.refused(
        2, f"rainbowctl create execution {HERE} --execFile -", stdin="job: {command: [x]}\nretry: {backoff: long}\n"
    )
    assert "stdin:2:18: spec.retry.backoff: " in error
    shell.file(
        "plan.yaml",
        "kind: workflow\nname: flaky\nversion: v1\njob: {command: [work]}\n---\n"
        "kind: launchplan\nname: stubborn\nversion: v1\nworkflow: flaky\nretry: {attempts: 3, backoff: 1ms}\n"
        "active: true\n",
    )
    shell.ok(f"rainbowctl register files plan.yaml {HERE}")
    plan = json.loads(shell.ok(f"rainbowctl get launchplan stubborn {HERE} --latest -o json"))
    assert plan["spec"]["retry"] == {"attempts": 3, "backoff": "1ms"}
    shell.ok(f"rainbowctl create execution stubborn-1 {HERE} --launchplan stubborn")
    for attempt in (1, 2, 3):
        [lease] = agent.take()
        assert lease["attempt"] == attempt
        agent.report(lease, "FAILED", exit_code=1)
    assert shell.rest("GET", "executions/flytesnacks/development/stubborn-1")["closure"]["phase"] == "FAILED"


# Outcomes and outputs


def test_wide_and_details_show_where_and_how_it_ran(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "where")
    agent.report(lease, "SUCCEEDED", exit_code=0)
    *_, header, row = shell.ok(f"rainbowctl get execution where {HERE} -o wide").splitlines()
    for column, value in (("ATTEMPT", "1"), ("NATIVE ID", "job-where"), ("NODES", "n1,n2,n3,+2"), ("EXIT CODE", "0")):
        start = header.index(column)
        assert row[start:].startswith(value), (column, row)
    details = shell.ok(f"rainbowctl get execution where {HERE} --details")
    for line in ("attempt: 1", "native_id: job-where", "exit_code: 0", "- n5"):
        assert f"{line}\n" in details


def without_waits(answer: Any) -> Any:
    """Counts, without for how long something has waited by now."""
    for group in answer["counts"]:
        group.get("waiting", {}).update(longest_seconds=0, median_seconds=0)
    return answer


def test_counts_are_the_same_in_text_json_and_over_rest(shell: Shell, agent: HttpAgent) -> None:
    shell.project("counted")
    run = "rainbowctl create execution -p counted -d development -q"
    retried = "name: again\njob: {command: [work]}\nretry: {attempts: 2, backoff: 1h}\n"
    ends: list[tuple[str, dict[str, Any]]] = [
        (f"{run} exits -- work", {"exit_code": 3}),
        (f"{run} swells -- work", {"reason": "OUT_OF_MEMORY"}),
        (f"{run} --execFile -", {"exit_code": 1}),
    ]
    for command, details in ends:
        shell.ok(command, stdin=retried if "execFile" in command else "")
        [lease] = agent.take()
        agent.report(lease, "FAILED", **details)
    shell.ok(f"{run} waits --image tool:1 -- work")
    get = "rainbowctl get execution -p counted"
    for by, flags, query in (
        ("cause", "", ""),
        ("reason", "--phase QUEUED", "&phase=QUEUED"),
        ("creator", "--createdBy anonymous --cause exit-code,limit", "&created_by=anonymous&cause=EXIT_CODE,LIMIT"),
        ("phase", "--filter.fieldSelector 'attempt>=1'", "&filters=gte(attempt,1)"),
        ("on-lost", "--phase QUEUED", "&phase=QUEUED"),
        ("image", "", ""),
    ):
        answer = shell.rest("GET", f"execution_counts?by={by.replace('-', '_')}&project=counted{query}")
        assert without_waits(json.loads(shell.ok(f"{get} --by {by} {flags} -o json"))) == without_waits(answer)
        header, *rows = cells(shell.ok(f"{get} --by {by} {flags} -o wide"))
        waits = (
            ["WAITING", "LONGEST WAIT", "MEDIAN WAIT"] if any("waiting" in group for group in answer["counts"]) else []
        )
        columns = [by.upper().replace("-", " "), "COUNT", "CPU", "MEMORY", "GPU"]
        assert header == [*columns, *waits, "NEXT ATTEMPT"]
        assert [row[: len(columns)] + row[-1:] for row in rows] == [
            [
                group["value"] or "(none)",
                str(group["count"]),
                f"{group['requested']['cpu']:g}",
                f"{group['requested']['memory'] // 2**20}Mi",
                "0",
                to_second(group["not_before"]) if "not_before" in group else "-",
            ]
            for group in answer["counts"]
        ]
    assert shell.ok(f"{get} --by cause -o name").splitlines() == ["cause/EXIT_CODE", "cause/", "cause/LIMIT"]
    headings, row = shell.ok(f"{get} --cause limit -o wide").splitlines()
    for column, value in (("ORIGIN", "everywhere"), ("CAUSE", "LIMIT"), ("ABORTED BY", "-")):
        assert row[headings.index(column) :].startswith(value), (column, row)
    assert "4 executions." in shell.run(f"{get} --by cluster").err
    assert shell.run(f"{get} --by pool --cluster none").err == ("No executions match.\nNo cluster is called 'none'.\n")
    assert "Did you mean cluster?" in shell.refused(2, f"{get} --by clusters")
    assert "Did you mean LIMIT?" in shell.refused(2, f"{get} --cause limits")
    assert "leave out --filter.limit" in shell.refused(2, f"{get} --by pool --filter.limit 3")
    assert "leave out --watch" in shell.refused(2, f"{get} --by pool --watch")
    assert "leave out --by" in shell.refused(2, f"{get} exits -d development --by pool")
    shell.ok("rainbowctl delete execution waits again -p counted -d development -q")


def test_outputs_are_listed_printed_and_written(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "left")
    assert "left no outputs." in shell.run(f"rainbowctl get output left {HERE}").err
    raw = bytes(range(256))
    files = [
        output("raw/all.bin", raw),
        output("metrics.json", b'{"loss": 1}\n'),
        {**output("cut.txt", b"start"), "size": 99, "truncated": True},
    ]
    agent.report(lease, "SUCCEEDED", exit_code=0, outputs=files)
    rows = cells(shell.ok(f"rainbowctl get outputs left {HERE}"))
    assert rows[0] == ["PATH", "SIZE", "KEPT", "ATTEMPT"]
    assert ["cut.txt", "99", "5", "1"] in rows
    assert ["raw/all.bin", "256", "256", "1"] in rows
    assert "output/flytesnacks/development/left/metrics.json\n" in shell.ok(
        f"rainbowctl get output left {HERE} -o name"
    )
    chosen = shell.ok(f"rainbowctl get output left {HERE} --filter.fieldSelector 'kept>5' --filter.sortBy size")
    assert [row[0] for row in cells(chosen)[1:]] == ["raw/all.bin", "metrics.json"]
    assert shell.run(f"rainbowctl get output left {HERE} --filter.fieldSelector size=1").err == "No outputs match.\n"
    assert "cut.txt names one" in shell.refused(2, f"rainbowctl get output left cut.txt {HERE} --filter.limit 1")
    shell.ok(f"rainbowctl get output left {HERE} --filter.fieldSelector 'path contains json' --directory chosen")
    assert [path.name for path in (shell.cwd / "chosen").iterdir()] == ["metrics.json"]
    assert shell.ok(f"rainbowctl get output left metrics.json {HERE}") == '{"loss": 1}\n'
    shell.ok(f"rainbowctl get output left raw/all.bin {HERE} > copy.bin")
    assert (shell.cwd / "copy.bin").read_bytes() == raw
    done = shell.run(f"rainbowctl get output left cut.txt {HERE}")
    assert (done.status, done.out) == (1, "start")
    assert (
        "The output cut.txt was cut: it has 99 bytes, and the first 5 are kept. Its agent has sent no more." in done.err
    )
    assert json.loads(shell.ok(f"rainbowctl get output left metrics.json {HERE} -o json"))["size"] == 12
    assert "Did you mean metrics.json?" in shell.refused(3, f"rainbowctl get output left metric.json {HERE}")

    assert "output cut.txt was cut" in shell.refused(1, f"rainbowctl get output left {HERE} --directory results")
    assert not (shell.cwd / "results/cut.txt").exists()
    assert (shell.cwd / "results/raw/all.bin").read_bytes() == raw
    assert (shell.cwd / "results/metrics.json").read_text() == '{"loss": 1}\n'
    again = f"rainbowctl get output left metrics.json {HERE} --directory results"
    assert "use --force to overwrite it" in shell.refused(2, again)
    shell.ok(f"{again} --force")


def test_a_large_output_is_read_in_pieces_and_one_that_was_cut_is_an_error(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "big")
    limit = 1024 * 1024
    complete, longer = bytes(range(256)) * 4096, b"x" * (limit + 5)
    for path, data in (("whole", complete), ("longer", longer)):
        for start in range(0, len(data), 600_000):
            agent.prints(lease, data[start : start + 600_000], f"output:{path}")
    files = [
        {"path": path, "size": len(data), "content_base64": "", "truncated": True}
        for path, data in (("whole", complete), ("longer", longer))
    ]
    agent.report(lease, "SUCCEEDED", exit_code=0, outputs=files)
    shell.ok(f"rainbowctl get output big whole {HERE} > whole.bin")
    assert (shell.cwd / "whole.bin").read_bytes() == complete
    listed = shell.run(f"rainbowctl get output big {HERE} -o json")
    assert (listed.status, "The output longer was cut" in listed.err) == (1, True)
    shown = {file["path"]: file for file in json.loads(listed.out)}
    assert {path: file["truncated"] for path, file in shown.items()} == {"longer": True, "whole": False}
    assert base64.b64decode(shown["whole"]["beginning_base64"]) == complete[:65_536]
    assert "content_base64" not in shown["whole"]
    assert shell.ok(f"rainbowctl get output big {HERE} -o name").count("\n") == 2
    reason = shell.refused(1, f"rainbowctl get output big {HERE} --directory big")
    assert reason.rstrip().endswith(
        f"The output longer was cut: it has {limit + 5} bytes, and the first {limit} are kept. The limit is {limit} "
        "bytes: agents.outputLimitBytes in the admin's configuration."
    )
    assert [path.name for path in (shell.cwd / "big").iterdir()] == ["whole"]
    assert (shell.cwd / "big/whole").read_bytes() == complete
    shell.refused(1, f"rainbowctl get output big longer {HERE} > longer.bin")
    assert (shell.cwd / "longer.bin").read_bytes() == longer[:limit]


def test_an_output_never_leaves_the_directory_it_is_written_to(shell: Shell, agent: HttpAgent) -> None:
    lease = started(shell, agent, "sly")
    agent.report(lease, "SUCCEEDED", exit_code=0, outputs=[output("../../outside", b"x"), output("/etc/inside", b"y")])
    assert "'../../outside' cannot be written" in shell.refused(2, f"rainbowctl get output sly {HERE} --directory deep")
    assert not (shell.cwd / "deep").exists()
    shell.ok(f"rainbowctl get output sly /etc/inside {HERE} --directory deep")
    assert (shell.cwd / "deep/etc/inside").read_text() == "y"


# Clusters


def state(shell: Shell, name: str) -> list[str]:
    """The cells of one cluster."""
    [row] = [row for row in cells(shell.ok("rainbowctl get cluster --no-headers")) if row[0] == name]
    return row


def test_a_cluster_is_shown_with_its_state_agent_and_engine(shell: Shell, agent: HttpAgent) -> None:
    header = ["NAME", "STATE", "LAST SYNC", "POOLS", "CAPACITY", "FREE", "LEASES", "WAITING", "ENGINE", "SOURCE"]
    assert cells(shell.ok("rainbowctl get cluster"))[0] == [*header, "SWITCHED BY"]
    agent.sync()
    row = state(shell, "local")
    assert row[1] == "ready"
    assert row[2].endswith("s ago")
    assert (row[4], row[8]) == ("cpu=8", "played")
    assert "1.0" in shell.ok("rainbowctl get cluster local -o wide")
    lease = started(shell, agent, "leased")
    assert state(shell, "local")[6] == "1"
    agent.report(lease, "SUCCEEDED", exit_code=0)
    shell.ok("rainbowctl create cluster never-seen")
    assert state(shell, "never-seen")[1:3] == ["expected", "-"]
    shell.ok("rainbowctl disable never-seen")
    shell.ok("rainbowctl cordon never-seen")
    assert state(shell, "never-seen")[1] == "expected,disabled,cordoned"


@pytest.mark.slow
def test_a_silent_cluster_is_unreachable_then_lost_then_ready_again(tmp_path: Path) -> None:
    times = {"leaseSeconds": 2, "waitSeconds": 0, "unreachableSeconds": 4, "lostSeconds": 3600}
    with running_admin(tmp_path, "--config", str(write_configuration(tmp_path, agents=times))) as admin:
        shell = Shell(admin, tmp_path)
        agent = HttpAgent(url=admin.url, cluster="local")
        agent.register()
        assert state(shell, "local")[1] == "expected"
        wait_until(lambda: agent.sync() and state(shell, "local")[1] == "ready")
        lease = started(shell, agent, "gone", "--onLost retry --backoff 1ms")
        kept = started(shell, agent, "kept")
        shell.ok(f"rainbowctl create execution waits {HERE} -- true")
        for dry in ("", " --dryRun"):
            assert "no agent has it" in shell.refused(5, f"rainbowctl delete execution waits {HERE} --giveUp{dry}")
        wait_until(lambda: state(shell, "local")[1] == "unreachable")
        wait_until(lambda: "CLUSTER_SILENT" in shell.ok(f"rainbowctl get execution kept {HERE} -o yaml"))
        given_up = shell.run(f"rainbowctl delete execution kept {HERE} --give-up --cause 'on fire'")
        assert "it is FAILED" in given_up.err
        agent.held.remove(kept)
        closure = shell.rest("GET", "executions/flytesnacks/development/kept")["closure"]
        assert closure["reason"]["code"] == "CLUSTER_LOST"
        assert closure["reason"]["message"].endswith(": on fire. Nobody has confirmed that its job has ended.")
    times["lostSeconds"] = 7
    with running_admin(tmp_path, "--config", str(write_configuration(tmp_path, agents=times))) as admin:
        shell = Shell(admin, tmp_path)
        agent.url = admin.url
        wait_until(lambda: state(shell, "local")[1] == "lost")
        wait_until(lambda: shell.rest("GET", "executions/flytesnacks/development/gone")["attempt"] == 2)
        answer = agent.sync()
        assert [reference["id"] for reference in answer["lost"]] == [lease["id"]]
        wait_until(lambda: agent.sync() and state(shell, "local")[1] == "ready")
        types = [row[1] for row in cells(shell.ok("rainbowctl get cluster-event local --no-headers"))]
        lost = types.index("LOST")
        assert types[lost - 1 : lost + 2] == ["READY", "LOST", "UNREACHABLE"]


@pytest.mark.slow
def test_a_cluster_is_drained_with_a_deadline_and_undrained(shell: Shell) -> None:
    agent = HttpAgent(url=shell.admin.url, cluster="quiet")
    agent.register()
    agent.sync()
    lease = started(shell, agent, "last", "--cluster quiet")
    planned = shell.run("rainbowctl drain quiet --deadline 1h --dryRun --noHeaders")
    assert planned.err == (
        "Would drain cluster quiet: 1 would be ended. Dry run: nothing was changed.\n"
        "No cluster takes work then: every new execution waits until one does.\n"
    )
    answer = json.loads(shell.ok("rainbowctl drain quiet --deadline 1h --dryRun -o json"))
    posted = shell.rest("POST", "clusters/quiet/drain?dry_run=true", {"deadline": "1h"})
    assert answer.keys() == posted.keys()
    assert [effect["id"] for effect in answer["effects"]] == [effect["id"] for effect in posted["effects"]]
    assert answer["counts"] == posted["counts"] == {"ENDS": 1}
    [effect] = answer["effects"]
    assert (effect["id"]["name"], effect["phase"], effect["outcome"]) == ("last", "RUNNING", "ENDS")
    row = re.split(" {2,}", planned.out.strip())
    assert row[2:4] == ["last", "RUNNING"]
    end = ", unless it has ended by then; no other attempt follows: no retries were asked for."
    assert row[4] == "quiet"
    assert re.fullmatch(f"Is ended in 59 min [0-9]+ s{end}", row[5])
    assert re.fullmatch(f"Is ended at [^ ]*Z{end}", effect["message"])
    assert state(shell, "quiet")[1] == "ready"
    assert shell.run("rainbowctl uncordon quiet --dryRun").err == (
        "No changes: cluster quiet is not cordoned already.\n"
    )
    done = shell.run("rainbowctl drain cluster quiet --deadline 1h --reason 'new disks'")
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("Draining cluster quiet: 1 execution may finish there, and what is left is ended in ")
    assert state(shell, "quiet")[1].startswith("ready,draining for another 59 min")
    for selector in ("state=draining", "state=READY,draining=true", "state contains drain", "state not in (cordoned)"):
        selected = json.loads(shell.ok(f"rainbowctl get cluster --selector '{selector}' -o json"))
        assert "quiet" in [cluster["name"] for cluster in selected], selector
    for selector in ("state=cordoned", "state!=draining"):
        selected = json.loads(shell.ok(f"rainbowctl get cluster --selector '{selector}' -o json"))
        assert "quiet" not in [cluster["name"] for cluster in selected], selector
    assert "choose pending, expected, ready, unreachable, lost, disabled, draining or cordoned. Did you mean" in (
        shell.refused(2, "rainbowctl get cluster --selector state=drainin")
    )
    assert "new disks" in shell.ok("rainbowctl get cluster quiet -o wide")
    assert agent.sync()["state"]["draining"] is True
    for verb in ("drain", "cordon"):  # a drain is a cordon too
        already = shell.run(f"rainbowctl {verb} quiet").err
        assert already.startswith("No changes: cluster quiet is draining already (event ")
        assert already.endswith(", 'new disks').\n")
    assert "deadline" in shell.refused(2, "rainbowctl drain quiet --deadline soon")
    shell.ok(f"rainbowctl create execution after {HERE} --cluster quiet -- true")
    assert agent.sync(want=1, wait_seconds=0)["leases"] == []
    # At the deadline the admin asks the agent to end what still runs.
    shell.ok("rainbowctl drain quiet --deadline 1s")
    wait_until(lambda: agent.sync()["cancels"])
    agent.report(lease, "ABORTED")
    closure = shell.rest("GET", "executions/flytesnacks/development/last")["closure"]
    assert (closure["phase"], closure["reason"]["code"]) == ("ABORTED", "DRAINED")
    assert shell.run("rainbowctl undrain cluster quiet").err == "Undrained cluster quiet.\n"
    assert shell.run("rainbowctl undrain quiet").err == "No changes: cluster quiet is not draining already.\n"
    [lease] = agent.take()
    assert lease["id"]["name"] == "after"
    agent.report(lease, "SUCCEEDED", exit_code=0)


def test_a_new_cluster_waits_until_it_is_admitted(tmp_path: Path) -> None:
    configuration = write_configuration(tmp_path, clusters={"registration": "approve"})
    with running_admin(tmp_path, "--config", str(configuration)) as admin:
        shell = Shell(admin, tmp_path)
        agent = HttpAgent(url=admin.url, cluster="newcomer")
        agent.register()
        agent.sync()
        assert state(shell, "newcomer")[1] == "pending"
        assert shell.run("rainbowctl admit cluster newcomer").err == "Admitted cluster newcomer.\n"
        assert state(shell, "newcomer")[1] == "ready"
        assert shell.run("rainbowctl admit newcomer").err == "No changes: cluster newcomer is admitted already.\n"


# Tokens


def test_tokens_are_shown_rotated_with_an_overlap_and_revoked(shell: Shell) -> None:
    agent = HttpAgent(url=shell.admin.url, cluster="keyed")
    shell.ok("rainbowctl create cluster keyed")
    assert "has no tokens" in shell.run("rainbowctl get token keyed").err
    first = agent.register()
    agent.sync()
    [row] = cells(shell.ok("rainbowctl get tokens keyed --no-headers"))
    assert row[:2] == [first["prefix"], "live"]
    assert first["token"] not in shell.ok("rainbowctl get token keyed -o json")

    done = shell.run("rainbowctl rotate token keyed --overlap 1h")
    second = done.out.strip()
    assert second.startswith("rbc-")
    assert done.out.count("\n") == 1
    assert second not in done.err
    assert "It is not shown again." in done.err
    agent.sync()  # with the first one, within the overlap
    states = {row[0]: row[1] for row in cells(shell.ok("rainbowctl get token keyed --no-headers"))}
    assert states == {first["prefix"]: "expiring", second.split("-")[1]: "live"}
    third = shell.ok("rainbowctl rotate token keyed --overlap 1s").strip()
    wait_until(lambda: _is_expired(shell, first["prefix"]) and agent.post("tokens", {}).status_code == 401)
    agent.token = third
    agent.sync()

    # An agent rotates its own token, and only the owner can read the file.
    (shell.cwd / "third.token").write_text(third)
    (shell.cwd / "third.token").chmod(0o600)
    rotate = "rainbowctl --token-file third.token rotate token"
    done = shell.run(f"{rotate} keyed --newTokenFile fourth.token")
    assert (done.status, done.out) == (0, ""), done.err
    path = shell.cwd / "fourth.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    fourth = path.read_text().strip()
    assert fourth not in done.err
    agent.token = fourth
    agent.sync()
    assert "is not for this" in shell.refused(4, f"{rotate} local")

    prefix = fourth.split("-")[1]
    assert shell.run(f"rainbowctl delete token keyed {prefix}").err == f"Revoked token {prefix} of cluster keyed.\n"
    again = shell.run(f"rainbowctl delete token keyed {prefix}")
    assert (again.status, again.err) == (
        0,
        f"No changes: token {prefix} of cluster keyed was already expired or revoked.\n",
    )
    # The worker that was told knows it at once, the others within a second.
    wait_until(lambda: agent.post("sync", {"agent": "a", "sequence": 1}).status_code == 401)
    rotate = "rainbowctl --token-file fourth.token rotate token keyed"
    refusal = wait_until(lambda: (done := shell.run(rotate)).status == 4 and done.err)
    assert "revoked or expired" in str(refusal)
    shell.refused(3, "rainbowctl delete token keyed 00000000")
    shell.refused(3, "rainbowctl get token nowhere")


def _is_expired(shell: Shell, prefix: str) -> bool:
    rows = cells(shell.ok("rainbowctl get token keyed --no-headers"))
    return any(row[:2] == [prefix, "expired"] for row in rows)


def test_no_token_is_created_that_could_not_be_stored(shell: Shell) -> None:
    shell.ok("rainbowctl create cluster careful")
    for flags, problem in (
        ("--newTokenFile nowhere/x", "nowhere does not exist. No token was created."),
        ("--newTokenFile .", "is a directory: name a file. No token was created."),
        ("-o name", "-o name would lose the token"),
        ("--overlap soon", "overlap"),
    ):
        assert problem in shell.refused(2, f"rainbowctl rotate token careful {flags}")
    assert shell.rest("GET", "clusters/careful/tokens") == {"tokens": []}


def test_revoking_a_token_asks_for_confirmation(shell: Shell) -> None:
    agent = HttpAgent(url=shell.admin.url, cluster="asked")
    prefix = agent.register()["prefix"]
    with shell.at_terminal(f"rainbowctl delete token asked {prefix}") as terminal:
        terminal.wait_for(f"Revoke token {prefix} of cluster asked? [y/N] ")
        terminal.type("n\n")
        assert terminal.finish().status == 1
    agent.sync()
    with shell.at_terminal(f"rainbowctl delete token asked {prefix} --force") as terminal:
        assert terminal.finish().status == 0
