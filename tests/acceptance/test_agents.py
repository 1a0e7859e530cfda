"""Agents as processes beside a real admin: registration, executions on the local engine, stops."""

from __future__ import annotations

import base64
import os
import platform
import pty
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from agent.engines.local import processes
from agent.engines.local.job_files import ENDED
from tests.support.admins import RunningAdmin
from tests.support.agent_processes import (
    SECRET,
    Site,
    admin_of_agents,
    running_site,
    waiting_for,
)
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    """An admin that soon gives up clusters that do not sync."""
    silence = {"unreachableSeconds": 6, "lostSeconds": 12}
    with admin_of_agents(tmp_path_factory.mktemp("admin"), leaseSeconds=10, waitSeconds=2, **silence) as admin:
        yield admin


@pytest.fixture
def new_site(admin: RunningAdmin, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """A function that registers clusters."""
    with ExitStack() as stack:
        yield lambda name="site", **settings: stack.enter_context(running_site(admin, tmp_path / name, **settings))


@pytest.fixture
def site(new_site: Callable[..., Site]) -> Site:
    return new_site()


# Registration


def test_a_token_is_printed_once_and_only_its_owner_can_read_it(admin: RunningAdmin, tmp_path: Path) -> None:
    site = Site(admin, tmp_path)
    site.configure()
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    done = site.call("register", "--secret-file", str(tmp_path / "secret"))
    assert done.returncode == 0, done.stderr
    token = site.state / "token"
    assert done.stdout == token.read_text()
    assert done.stdout.startswith("rbc-")
    assert token.stat().st_mode & 0o777 == 0o600
    again = site.call("register", RAINBOW_REGISTRATION_SECRET=SECRET)
    assert (again.returncode, "exists already" in again.stderr) == (1, True)
    token.unlink()
    refused = site.call("register", RAINBOW_REGISTRATION_SECRET=SECRET)
    assert (refused.returncode, "live token" in refused.stderr) == (1, True)
    assert not token.exists()


def test_a_wrong_secret(admin: RunningAdmin, tmp_path: Path) -> None:
    site = Site(admin, tmp_path)
    site.configure()
    done = site.call("register", RAINBOW_REGISTRATION_SECRET="friend")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "friend" not in done.stderr


def test_a_missing_secret(admin: RunningAdmin, tmp_path: Path) -> None:
    site = Site(admin, tmp_path)
    site.configure()
    done = site.call("register")
    assert (done.returncode, "--secret-file" in done.stderr) == (1, True)


def test_a_token_is_rotated_while_the_agent_runs(site: Site) -> None:
    agent = site.start()
    before = (site.state / "token").read_text()
    done = site.call("rotate", "--overlap", "0s")
    assert done.returncode == 0, done.stderr
    assert (site.state / "token").read_text() == done.stdout != before
    site.create(f"{site.cluster}-1", "true")
    assert site.ended(f"{site.cluster}-1")["closure"]["phase"] == "SUCCEEDED"
    assert agent.poll() is None


def test_an_agent_without_a_token_says_what_to_do(admin: RunningAdmin, tmp_path: Path) -> None:
    site = Site(admin, tmp_path)
    site.configure()
    done = site.call("run")
    assert (done.returncode, "rainbow-agent register" in done.stderr) == (1, True)


def test_an_agent_whose_token_is_revoked_ends_with_the_reason(site: Site) -> None:
    token = (site.state / "token").read_text().strip()
    prefix = token.split("-")[1]
    url = f"{site.admin.url}/api/v1/clusters/{site.cluster}/tokens/{prefix}"
    assert requests.delete(url, timeout=60).json()["changed"] is True
    done = site.call("run")
    assert (done.returncode, "token" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr


def test_the_connection_to_the_admin_can_be_checked_with_the_clusters_token(site: Site) -> None:
    command = site.command("check", "--endpoint", site.admin.url, "--token-file", str(site.state / "token"))
    done = subprocess.run(command, env=site.variables(), capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, "is ready" in done.stdout) == (0, True), done.stderr


# Work


def test_the_outcome_logs_and_outputs_of_an_execution_are_reported(site: Site) -> None:
    name = f"{site.cluster}-whole"
    script = "echo out $RAINBOW_EXECUTION $COLOUR; echo err >&2; printf 12 > result; exit 3"
    site.create(name, "sh", "-c", script, environment={"COLOUR": "blue"}, outputs=["result"])
    site.start()
    execution = site.ended(name)
    assert (execution["closure"]["phase"], execution["exit_code"], execution["attempt"]) == ("FAILED", 3, 1)
    assert "exit code 3" in execution["closure"]["reason"]["message"]
    assert execution["native_id"].isdigit()
    assert len(execution["nodes"]) == 1
    assert execution["closure"]["started_at"] <= execution["closure"]["finished_at"]
    assert site.printed(name)["data"] == f"out {name} blue\n"
    assert site.printed(name, "stderr")["data"] == "err\n"
    outputs = site.get(name, "/outputs")["outputs"]
    assert [(file["path"], base64.b64decode(file["content_base64"])) for file in outputs] == [("result", b"12")]


def test_a_large_output_arrives_whole_and_the_end_of_a_long_log_too(site: Site) -> None:
    name = f"{site.cluster}-large"
    script = "head -c 900000 /dev/zero | tr '\\0' x > model; seq 300000; echo done"
    site.create(name, "sh", "-c", script, outputs=["model"])
    site.start()
    assert site.ended(name)["closure"]["phase"] == "SUCCEEDED"
    [model] = site.get(name, "/outputs")["outputs"]
    assert (model["size"], model["kept"]) == (900_000, 900_000)
    piece = site.get(name, "/outputs/content", path="model", limit=2**20)
    assert base64.b64decode(piece["content_base64"]) == b"x" * 900_000
    assert site.get(name, "/logs", tail=2)["data"] == "300000\ndone\n"
    first = site.printed(name)
    rest = site.get(name, "/logs", offset=first["next_offset"])
    printed = "".join(f"{number}\n" for number in range(1, 300_001)) + "done\n"
    assert first["data"] == printed[: 256 * 1024]
    assert f"rainbow: {len(printed) - 2**20} bytes are missing here" in rest["data"]


def test_a_command_that_does_not_exist(site: Site) -> None:
    name = f"{site.cluster}-none"
    site.create(name, "no-such-command")
    site.start()
    closure = site.ended(name)["closure"]
    assert (closure["phase"], closure["reason"]["code"]) == ("FAILED", "COMMAND_NOT_FOUND")
    assert "no-such-command" in closure["reason"]["message"]


def test_ten_megabytes_of_log(site: Site) -> None:
    loud, quiet = f"{site.cluster}-loud", f"{site.cluster}-quiet"
    site.create(loud, "sh", "-c", "head -c 10485760 /dev/zero | tr '\\0' 'x'")
    site.create(quiet, "echo", "hello")
    site.start()
    assert site.ended(loud)["closure"]["phase"] == "SUCCEEDED"
    log = site.printed(loud)
    assert (log["data"], log["truncated"], log["complete"]) == ("x" * 2**18, True, False)
    rest = site.get(loud, "/logs", offset=2**18, limit=2**20)
    assert (rest["next_offset"], rest["complete"]) == (10 * 2**20, True)
    assert rest["data"].endswith("x" * (3 * 2**18))
    assert site.ended(quiet)["closure"]["phase"] == "SUCCEEDED"
    assert site.printed(quiet)["data"] == "hello\n"


def test_a_log_can_be_read_while_it_is_written(site: Site) -> None:
    name = f"{site.cluster}-log"
    site.create(name, "sh", "-c", "echo first; sleep 600")
    site.start()
    wait_until(lambda: site.printed(name)["data"] == "first\n")
    assert site.phase(name) == "RUNNING"
    site.cancel(name)
    site.ended(name)


def test_a_cancel_leaves_nothing_behind(site: Site) -> None:
    name = f"{site.cluster}-cancel"
    site.create(name, "sh", "-c", "trap '' TERM; setsid sleep 600 & (sleep 600 &) ; while :; do sleep 1; done")
    site.start()
    site.running(name)
    wait_until(lambda: len(processes.marked(site.key(name))) >= 3)
    site.cancel(name)
    assert site.ended(name)["closure"]["phase"] == "ABORTED"
    assert processes.marked(site.key(name)) == set()


def test_a_time_limit(site: Site) -> None:
    name = f"{site.cluster}-limit"
    site.create(name, "sleep", "600", resources={"duration": "1s"})
    site.start()
    closure = site.ended(name)["closure"]
    assert (closure["phase"], closure["reason"]["code"]) == ("TIMED_OUT", "TIME_LIMIT")
    assert processes.marked(site.key(name)) == set()


def test_an_image_is_declined_with_the_reason(site: Site) -> None:
    name = f"{site.cluster}-image"
    site.create(name, "true", image="busybox")
    site.start()
    declined = wait_until(
        lambda: [event for event in site.get(name, "/events")["events"] if event["type"] == "DECLINED"],
        explain=lambda: site.log,
    )
    assert "not images" in declined[0]["reason"]["message"]


def test_no_more_than_the_slots_at_once(new_site: Callable[..., Site], tmp_path: Path) -> None:
    site = new_site(slots=2)
    names = [f"{site.cluster}-{number}" for number in range(6)]
    marks, go = tmp_path / "marks", tmp_path / "go"
    marks.mkdir()
    for name in names:
        wait = waiting_for(go)[-1]
        site.create(name, "sh", "-c", f"touch {marks}/$$; ls {marks} | wc -l; {wait}; rm {marks}/$$")
    site.start()
    wait_until(lambda: len(list(marks.iterdir())) == 2)
    go.touch()
    for name in names:
        assert site.ended(name)["closure"]["phase"] == "SUCCEEDED"
        assert int(site.printed(name)["data"]) <= 2


def test_a_retry_is_another_attempt(site: Site, tmp_path: Path) -> None:
    name, ran = f"{site.cluster}-retry", tmp_path / "ran"
    spec = {"retry": {"attempts": 3, "backoff": "100ms"}}
    site.create(name, "sh", "-c", f"echo $RAINBOW_ATTEMPT | tee -a {ran}; [ $RAINBOW_ATTEMPT = 3 ]", spec=spec)
    site.start()
    execution = site.ended(name)
    assert (execution["closure"]["phase"], execution["attempt"], ran.read_text()) == ("SUCCEEDED", 3, "1\n2\n3\n")
    for attempt in (1, 2, 3):
        assert site.get(name, "/logs", attempt=attempt, stream="stdout")["data"] == f"{attempt}\n"


# Stops and starts


def test_a_stop_leaves_what_runs_and_the_next_start_adopts_it(site: Site, tmp_path: Path) -> None:
    name, go = f"{site.cluster}-stop", tmp_path / "go"
    site.create(name, *waiting_for(go))
    agent = site.start()
    native = site.running(name)["native_id"]
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=60) == 0
    # An execution runs from when its supervisor is about to start it.
    wait_until(lambda: processes.marked(site.key(name)), explain=lambda: f"it was ended:\n{site.log}")
    site.start()
    go.touch()
    execution = site.ended(name)
    assert (execution["closure"]["phase"], execution["attempt"]) == ("SUCCEEDED", 1)
    assert execution["native_id"] == native


def test_a_stop_with_drain_waits_for_what_runs(site: Site, tmp_path: Path) -> None:
    name, later, go = f"{site.cluster}-drain", f"{site.cluster}-later", tmp_path / "go"
    site.create(name, *waiting_for(go))
    agent = site.start("--drain")
    site.running(name)
    agent.send_signal(signal.SIGINT)
    site.wait_for_log("stopping")
    site.create(later, "true")
    go.touch()
    assert agent.wait(timeout=60) == 0
    assert site.phase(name) == "SUCCEEDED"
    assert (site.phase(later), site.intents()) == ("QUEUED", [])


def test_a_stop_hands_back_what_has_not_started(new_site: Callable[..., Site]) -> None:
    site = new_site(slots=1)
    first, second = f"{site.cluster}-first", f"{site.cluster}-second"
    site.create(first, "sleep", "600")
    site.create(second, "true")
    agent = site.start()
    site.running(first)
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=60) == 0
    assert site.intents() == [site.key(first)]
    assert site.phase(second) == "QUEUED"


def test_a_second_signal_ends_an_agent_at_once(site: Site) -> None:
    name = f"{site.cluster}-twice"
    site.create(name, "sleep", "600")
    agent = site.start("--drain")
    site.running(name)
    agent.send_signal(signal.SIGTERM)
    site.wait_for_log("stopping")
    assert agent.poll() is None
    agent.send_signal(signal.SIGTERM)
    agent.wait(timeout=60)
    assert site.intents() == [site.key(name)]


def test_a_second_agent_cannot_use_the_same_state_directory(site: Site) -> None:
    site.start()
    site.wait_for_log("answers")
    done = site.call("run")
    assert (done.returncode, "another agent uses" in done.stderr) == (1, True)


@pytest.fixture
def other(site: Site) -> Iterator[Site]:
    """A replacement of an agent's host: the same cluster and token, and an empty state directory."""
    other = Site(site.admin, site.directory.parent / "other", cluster=site.cluster)
    other.configure()
    other.state.mkdir(parents=True)
    (other.state / "token").write_text((site.state / "token").read_text())
    yield other
    other.stop()


@pytest.mark.slow
def test_a_second_agent_of_the_same_cluster_is_refused_while_the_first_is_there(site: Site, other: Site) -> None:
    name, go = f"{site.cluster}-refused", site.directory / "go"
    site.create(name, *waiting_for(go))
    first = site.start()
    site.running(name)
    done = other.call("run", "--once")
    assert done.returncode == 1
    for words in (f"on host '{platform.node()}' since ", "last heard at ", "--take-over"):
        assert words in done.stderr
    other.start()
    other.wait_for_log("--take-over")
    go.touch()
    execution = site.ended(name)
    assert (execution["closure"]["phase"], execution["attempt"]) == ("SUCCEEDED", 1)
    # The first one is gone for good: the second one, which waited, serves the cluster.
    first.kill()
    first.wait()
    site.create(f"{site.cluster}-next", "true")
    assert site.ended(f"{site.cluster}-next")["closure"]["phase"] == "SUCCEEDED"


@pytest.mark.slow
def test_a_second_agent_that_is_told_to_takes_over(site: Site, other: Site) -> None:
    name = f"{site.cluster}-over"
    site.create(name, "sleep", "600")
    first = site.start()
    site.running(name)
    second = other.start("--take-over")
    assert first.wait(timeout=60) == 1
    assert "taken over" in site.log
    assert processes.marked(site.key(name)) == set()
    closure = site.ended(name)["closure"]
    assert (closure["phase"], closure["reason"]["code"]) == ("FAILED", "CLUSTER_LOST")
    assert second.poll() is None


def test_once_is_for_cron(site: Site, tmp_path: Path) -> None:
    name, go = f"{site.cluster}-once", tmp_path / "go"
    assert site.call("run", "--once").returncode == 0
    site.create(name, *waiting_for(go, "echo done"))
    done = site.call("run", "--once")
    assert done.returncode == 0, done.stderr
    assert site.phase(name) == "RUNNING"
    go.touch()
    wait_until((site.state / "jobs" / site.key(name) / ENDED).exists)
    assert site.call("run", "--once").returncode == 0
    assert (site.phase(name), site.printed(name)["data"], site.intents()) == ("SUCCEEDED", "done\n", [])


def test_a_terminal_has_a_status_line(site: Site) -> None:
    name = f"{site.cluster}-status"
    site.create(name, "sleep", "600")
    inner, outer = pty.openpty()
    command = [*site.command("run"), "--config", str(site.directory / "agent.yaml")]
    agent = subprocess.Popen(command, env=site.variables(), stdin=outer, stdout=outer, stderr=outer)
    site.agents.append(agent)
    os.close(outer)
    seen = b""

    def is_shown() -> bool:
        nonlocal seen
        while select.select([inner], [], [], 0)[0]:
            seen += os.read(inner, 65536)
        return f"{site.cluster} · ready · 1 running".encode() in seen

    try:
        wait_until(is_shown, explain=lambda: f"no status line in {seen!r}")
    finally:
        agent.kill()
        agent.wait()
        os.close(inner)
    assert b"slots" in seen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["register", "run", "rotate", "check"]),
        (["run"], ["--once", "--drain", "SIGTERM", "engineOptions", "ignoreImage", "KillMode", "crontab"]),
        (["register"], ["--secret-file", "RAINBOW_REGISTRATION_SECRET", "0600"]),
        (["rotate"], ["--overlap"]),
    ],
)
def test_help_explains_the_options(admin: RunningAdmin, tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    site: Any = Site(admin, tmp_path)
    done = subprocess.run(
        site.command(*arguments, "--help"), env=site.variables(), capture_output=True, text=True, timeout=30, check=True
    )
    assert [word for word in words if word not in done.stdout] == []


def test_an_agent_describes_its_machine_when_it_registers(admin: RunningAdmin, site: Site) -> None:
    description = requests.get(f"{admin.url}/api/v1/clusters/{site.cluster}/description", timeout=10).json()
    assert (description["revision"], description["by_agent"]) == (1, True)
    assert description["types"]["node"]["vertices"] == 1
    assert int(description["types"]["core"]["amount"]) == len(os.sched_getaffinity(0))
