"""Tokens held by programs and commands at a real admin: waiting, ends, lost leases, and holders that are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from admin.store.token_backends.redis import TAG
from admin.store.token_backends.redis_client import RedisSettings, connect
from ctl.client import Client, HeldTokens
from ctl.client.answers import Document
from ctl.client.errors import InvalidRequest, TokensExhausted, TokensLost
from tests.acceptance.test_client import run_script
from tests.support.admins import RunningAdmin, running_admin
from tests.support.redis import redis_server, running_redis
from tests.support.shells import Shell
from tests.support.token_backends import open_redis
from tests.support.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs/token-pools.md"
HERE = {"project": "flytesnacks", "domain": "development"}
RUN = "rainbowctl run-with-token hive -p flytesnacks -d development"


on_every_backend = pytest.mark.parametrize("admin", ["sqlite", "postgresql", "redis"], indirect=True)


@pytest.fixture
def admin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningAdmin]:
    """A real admin that keeps grants in its SQLite, unless a test names another backend."""
    kind, database, environment = getattr(request, "param", "sqlite"), None, {}
    with ExitStack() as stack:
        if kind == "postgresql":
            database = stack.enter_context(request.getfixturevalue("postgresql_databases").borrowed())
        if kind == "redis":
            pytest.importorskip("redis")
            if redis_server() is None:
                pytest.skip("neither Redis nor Valkey is installed")
            address = stack.enter_context(running_redis()).address
            open_redis(connect(RedisSettings(host_paths=(address,))), TAG)
            variable = "RAINBOW_RESOURCEMANAGER"
            environment = {f"{variable}_TYPE": "redis", f"{variable}_REDIS_HOST_PATH": address}
        yield stack.enter_context(running_admin(tmp_path, database=database, environment=environment))


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    shell = Shell(admin, tmp_path)
    shell.rest("POST", "token_pools", {"token_pool": {"name": "hive", "capacity": 1, "caps": {"namespace": 1}}})
    return shell


def tokens_of(
    client: Client, *, timeout: float | None = None, lease: float = 60.0, execution: str | None = None
) -> HeldTokens:
    return client.tokens(
        "hive", project="flytesnacks", domain="development", timeout=timeout, lease=lease, execution=execution
    )


def pool(shell: Shell) -> Document:
    answer: Document = shell.rest("GET", "token_pools/hive")
    return answer


def take_away(shell: Shell) -> None:
    """Give back what somebody else holds, as an operator may."""
    [holder] = pool(shell)["holders"]
    release = {"token": holder["token"], "pools": {"hive": 1}, **HERE, "force": True}
    shell.rest("POST", "token_releases", {"release": release})


def test_the_example_of_the_documentation_runs_as_it_is(admin: RunningAdmin, tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    for _ in range(2):
        done = run_script(example, admin.url, tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == ["of 10", "holds {'hive': 2} until the end"]


def test_a_resource_is_registered_once(admin: RunningAdmin) -> None:
    with Client(admin.url) as client:
        made = client.register_resource("hive", 3, caps={"project": 2}, description="Connections")
        assert (made["capacity"], made["caps"], made["description"]) == (3, {"project": 2}, "Connections")
        client.put_definition("token-pool", "hive", {"capacity": 1})
        assert client.register_resource("hive", 3)["capacity"] == 1
        with pytest.raises(InvalidRequest, match="is not a token pool's name"):
            client.register_resource("py/r", 3)


@on_every_backend
def test_programs_share_a_pool_and_the_next_in_line_is_told_why_it_waits(shell: Shell) -> None:
    with Client(shell.admin.url) as client:
        with tokens_of(client) as first:
            with pytest.raises(TokensExhausted, match="by the caps of token pool 'hive'") as error:
                tokens_of(client, timeout=0).acquire()
            assert {entry["level"] for entry in error.value.full} == {"pool", "namespace"}
            waiting = tokens_of(client, timeout=60)
            thread = threading.Thread(target=waiting.acquire)
            thread.start()
            wait_until(lambda: pool(shell)["waiting"] == 1)
        thread.join()
        assert first.number is not None
        assert waiting.number is not None
        assert waiting.number > first.number
        waiting.release()
    assert (pool(shell)["used"], pool(shell)["waiting"]) == (0, 0)


@on_every_backend
def test_an_old_holder_that_comes_back_is_refused(shell: Shell) -> None:
    with Client(shell.admin.url) as client:
        old = tokens_of(client, lease=1)
        old.acquire()  # and never renewed, as by a program that was stopped
        with tokens_of(client, timeout=60, lease=60) as new:
            assert old.number is not None
            assert new.number is not None
            assert new.number > old.number
            with pytest.raises(TokensLost):
                old.check()
            assert pool(shell)["used"] == 1
            assert not new.lost.is_set()


def test_a_command_has_its_own_statuses(shell: Shell) -> None:
    done = shell.run(f"{RUN} -- sh -c 'echo \"$RAINBOW_GRANT_NUMBER\"; exit 7'")
    assert (done.status, done.out.strip().isdigit(), done.err) == (7, True, "")
    assert shell.run(f"{RUN} -- sh -c 'kill -9 $$'").status == 137
    assert "nosuch: No such file or directory" in shell.refused(127, f"{RUN} -- nosuch")
    assert "Permission denied" in shell.refused(126, f"{RUN} -- /etc/passwd")
    assert "No token-pool is called 'hivee'" in shell.refused(125, "rainbowctl run-with-token hivee -- true")
    assert "There is no command" in shell.refused(125, RUN)
    assert "can never fit" in shell.refused(125, f"{RUN} --amount 2 -- true")
    assert "--timeout must be a duration" in shell.refused(125, f"{RUN} --timeout soon -- true")
    assert pool(shell)["used"] == 0


def test_a_command_is_not_run_without_tokens(shell: Shell) -> None:
    with Client(shell.admin.url) as client, tokens_of(client):
        done = shell.run(f"{RUN} --timeout 0 -- touch ran")
        assert (done.status, done.out) == (124, "")
        assert "1 of hive not granted: hive: 1 of 1 are held" in done.err
        done = shell.run(f"{RUN} --timeout 0.2s -- touch ran")
        assert (done.status, "Waiting for hive, place 1 of 1 in line: 1 of 1 are held" in done.err) == (124, True)
        with shell.running(f"{RUN} -- touch ran") as waiting:
            wait_until(lambda: pool(shell)["waiting"] == 1)
            waiting.send_signal(signal.SIGTERM)
            assert waiting.wait(60) == 143
        wait_until(lambda: pool(shell)["waiting"] == 0)  # what it had asked last may still be under way
    assert list(shell.cwd.iterdir()) == []


def started(shell: Shell, process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    assert process.stdout.readline() == b"runs\n"
    [holder] = pool(shell)["holders"]
    return str(holder["until"])


def test_signals_are_passed_on(shell: Shell) -> None:
    script = "trap 'echo asked; exit 5' USR1; echo runs; while :; do sleep 0.02; done"
    with shell.running(f'{RUN} -- sh -c "{script}"') as process:
        started(shell, process)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(60) == 5
    assert pool(shell)["used"] == 0
    with shell.running(f'{RUN} -- sh -c "echo runs; exec sleep 60"') as process:
        started(shell, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@on_every_backend
def test_a_lost_lease_ends_the_command_and_says_why(shell: Shell) -> None:
    script = "trap 'echo asked; exit 3' TERM; echo runs; while :; do sleep 0.02; done"
    with shell.running(f'{RUN} --lease 1s -- sh -c "{script}"') as process:
        started(shell, process)
        take_away(shell)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (125, b"asked\n")
    assert b"The lease of 1 of hive was lost" in err
    assert b"The command is ended." in err
    assert b"The lease was lost; the command ended with status 3." in err


@pytest.mark.slow
@on_every_backend
def test_the_tokens_of_a_killed_holder_are_free_after_the_lease_and_not_before(shell: Shell) -> None:
    with shell.running(f'{RUN} --lease 1s -- sh -c "echo runs; exec sleep 60"') as process:
        until = datetime.fromisoformat(started(shell, process))
        process.kill()
        with Client(shell.admin.url) as client, tokens_of(client, timeout=60):
            assert datetime.now(UTC) >= until
    assert process.returncode == -signal.SIGKILL


#: Read by Python at its start: the clock by which the admin counts is minutes away from that of everybody else.
SHIFTED_CLOCK = """
from datetime import timedelta
from admin.store.database import Database

initialize = Database.__init__

def shifted(self, *arguments, **options):
    initialize(self, *arguments, **options)
    clock = self.clock
    self.clock = lambda: clock() + timedelta(minutes={minutes})

Database.__init__ = shifted
"""


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [-7, 7])
def test_clocks_of_holder_and_admin_may_be_minutes_apart(tmp_path: Path, minutes: int) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SHIFTED_CLOCK.format(minutes=minutes))
    search_path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    with running_admin(tmp_path, environment={"PYTHONPATH": search_path}) as admin, Client(admin.url) as client:
        client.register_resource("hive", 1)
        with tokens_of(client, lease=2) as held:
            assert held.expires_at is not None
            first = datetime.fromisoformat(held.expires_at)
            apart = (first - datetime.now(UTC)).total_seconds() / 60
            assert abs(apart - minutes) < 1
            wait_until(lambda: datetime.fromisoformat(held.expires_at or "") > first + timedelta(seconds=4))
            assert not held.lost.is_set()  # for two leases
            with pytest.raises(TokensExhausted):
                tokens_of(client, timeout=0).acquire()
        silent = tokens_of(client, lease=2)
        begin = time.monotonic()
        silent.acquire()  # and never renewed
        with tokens_of(client, timeout=60):
            assert time.monotonic() >= begin + 2
            with pytest.raises(TokensLost):
                silent.check()


def test_a_pool_is_explained_the_same_as_text_as_json_and_over_rest(shell: Shell) -> None:
    with Client(shell.admin.url) as client, tokens_of(client, execution="run1"):
        shell.run(f"{RUN} --timeout 0 -- true")
        answer = json.loads(shell.ok("rainbowctl explain token-pool hive -o json"))
        assert answer == shell.rest("GET", "token_pools/hive/explanation")
        full = [(limit["level"], limit["full"], limit["cap"], limit["used"]) for limit in answer["limits"]]
        assert full == [("pool", True, 1, 1), ("namespace", True, 1, 1)]
        assert answer["limits"][1]["provenance"]["revision"] == answer["limits"][1]["version"]
        assert answer["refusals"]["pool"] >= 1
        text = shell.ok("rainbowctl explain token-pool hive")
        assert "Full: 1 of 1 tokens are held, by the capacity of token pool 'hive', and one more limit is full." in text
        assert re.search(r"namespace +flytesnacks/development +1 +1 +full +revision \d+, anonymous", text)
        assert "since the admin started, by the level that was full: namespace" in text
        assert max(map(len, text.splitlines())) <= 100
        elsewhere = json.loads(shell.ok("rainbowctl explain token-pool hive -p flyteexamples -d development -o json"))
        assert [(limit.get("project"), limit["used"]) for limit in elsewhere["limits"]] == [
            (None, 1),
            ("flyteexamples", 0),
        ]
    assert "Nothing of token pool 'hive' is full." in shell.ok("rainbowctl explain token-pool hive")
    assert "Which token pool?" in shell.refused(2, "rainbowctl explain token-pool")
    assert "No token-pool is called" in shell.refused(3, "rainbowctl explain token-pool hivee")


def test_a_pool_is_watched(shell: Shell) -> None:
    with shell.running("rainbowctl get token-pool hive --watch") as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[:3] == [b"WHEN", b"NAME", b"CAPACITY"]
        assert process.stdout.readline().split()[2:] == [b"hive", b"1", b"0", b"1", b"0", b"-"]
        claim = {"token": "t", "pools": {"hive": 1}, **HERE}
        number = shell.rest("POST", "token_allocations", {"claim": claim})["number"]
        line = process.stdout.readline().split()
        held = {**claim, "number": number}
        shell.rest("POST", "token_renewals", {"renewal": held})  # which is no change
        time.sleep(1.5)
        shell.rest("POST", "token_releases", {"release": held})
        assert line[2:] == [b"hive", b"1", b"1", b"0", b"0", b"flytesnacks/development"]
        assert process.stdout.readline().split()[2:] == [b"hive", b"1", b"0", b"1", b"0", b"-"]
    assert "leave out" in shell.refused(2, "rainbowctl get token-pool --watch --filter.limit 1")


def test_no_capacity_is_raised_above_what_the_configuration_allows(shell: Shell) -> None:
    refused = shell.refused(2, "rainbowctl create token-pool spark --capacity 1001")
    assert "capacity: 1001 is more than 1000, which resourcemanager.resourceMaxQuota" in refused
    shell.ok("rainbowctl create token-pool spark --capacity 1000")
    assert "1001" in shell.refused(2, "rainbowctl update token-pool spark --capacity 1001 --force")
