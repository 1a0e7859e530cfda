"""`make run`: an admin and the agent of this machine, started and ended together."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from tests.support.ports import free_port
from tests.support.programs import clean_environment
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
_SECONDS = 90


@dataclass(frozen=True, kw_only=True)
class Local:
    """Both programs, up."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command as a newcomer types it in a second shell."""
        env = clean_environment(HOME=str(self.log.parent))
        return subprocess.run(
            ["bash", "-c", command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=_SECONDS
        )

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=_SECONDS)


def command(directory: Path, port: int) -> list[str]:
    return [
        sys.executable,
        str(ROOT / "scripts/run_local.py"),
        "--directory",
        str(directory / "run"),
        "--port",
        str(port),
    ]


@contextmanager
def running(directory: Path, port: int) -> Iterator[Local]:
    log = directory / "log"
    with log.open("wb") as stream:
        env = clean_environment(HOME=str(directory))
        process = subprocess.Popen(command(directory, port), cwd=directory, env=env, stdout=stream, stderr=stream)
    try:
        eventually(lambda: "Stop everything with Ctrl-C." in log.read_text(), log, process)
        yield Local(process=process, url=f"http://127.0.0.1:{port}", log=log)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=_SECONDS)


def eventually(is_so: Callable[[], bool], log: Path, process: subprocess.Popen[bytes] | None = None) -> None:
    def is_so_or_ended() -> bool:
        assert process is None or process.poll() is None, log.read_text()
        return is_so()

    wait_until(is_so_or_ended, _SECONDS, interval=0.1, explain=log.read_text)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def operators_token(local: Local) -> dict[str, str]:
    return {"Authorization": f"Bearer {(local.log.parent / 'run/token').read_text().strip()}"}


def tokens(local: Local) -> list[tuple[str, str]]:
    url = f"{local.url}/api/v1/clusters/local/tokens"
    answer = requests.get(url, headers=operators_token(local), timeout=60).json()
    return [(token["prefix"], token["state"]) for token in answer["tokens"]]


def test_a_newcomers_first_execution_runs_and_the_agent_is_known_again(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port) as local:
        output = local.log.read_text()
        assert output.index("\nHello, world\n") < output.index("Rainbow is up"), "a first job has run and printed"
        [hello] = re.findall(r"^  (rainbowctl create execution .*)$", output, flags=re.MULTILINE)
        done = local.run(hello)
        assert (done.returncode, done.stdout) == (0, "Hello, world\n"), done.stderr
        for more in re.findall(r"^  (rainbowctl .*)$", output, flags=re.MULTILINE):
            assert local.run(more).returncode == 0, more
        assert local.log.read_text() == output, "the banner stays readable"
        for log in ("admin.log", "agent.log"):
            assert str(tmp_path / "run" / log) in output
        assert "/api/v1/executions" in (tmp_path / "run/admin.log").read_text()
        for name in ("registration.secret", "local.token", "token", "rainbow.db", "rainbow.db-wal"):
            assert stat.S_IMODE((tmp_path / "run" / name).stat().st_mode) == 0o600
        token = (tmp_path / "run/local.token").read_text()
        secret = (tmp_path / "run/registration.secret").read_text()
        assert requests.get(f"{local.url}/api/v1/executions", timeout=60).status_code == 401
        assert (tmp_path / "run/token").read_text().strip() not in output
        assert token.strip() not in output
        assert secret.strip() not in output
        assert local.stop() == 0
    assert is_free(port)

    with running(tmp_path, port) as local:
        assert (tmp_path / "run/local.token").read_text() == token
        [(prefix, _state)] = tokens(local)
        assert local.run("rainbowctl create execution -p flytesnacks -d development --logs -- true").returncode == 0
        assert local.run("rainbowctl create execution -p flytesnacks -d development --logs -- false").returncode == 9
        revoked = f"{local.url}/api/v1/clusters/local/tokens/{prefix}"
        requests.delete(revoked, headers=operators_token(local), timeout=60).raise_for_status()
        local.stop(signal.SIGTERM)

    # A token that was revoked is replaced, and the agent works again.
    with running(tmp_path, port) as local:
        assert "is no longer valid: the agent registers again" in local.log.read_text()
        assert (tmp_path / "run/local.token").read_text() != token
        assert [state for _prefix, state in tokens(local)] == ["live", "revoked"]
        assert local.run("rainbowctl create execution -p flytesnacks -d development --logs -- true").returncode == 0

    # And so is one that got lost.
    (tmp_path / "run/local.token").unlink()
    with running(tmp_path, port) as local:
        assert [state for _prefix, state in tokens(local)] == ["live", "revoked", "revoked"]


def test_the_contexts_that_somebody_has_are_kept(tmp_path: Path) -> None:
    contexts = tmp_path / ".config/rainbow/config.yaml"
    contexts.parent.mkdir(parents=True)
    contexts.write_text("current_context: work\ncontexts: {work: {endpoint: https://rainbow.example.org}}\n")
    port = free_port()
    with running(tmp_path, port) as local:
        document = yaml.safe_load(contexts.read_text())
        assert document["current_context"] == "work"
        assert document["contexts"]["work"] == {"endpoint": "https://rainbow.example.org"}
        assert document["contexts"][f"make-run-{port}"]["endpoint"] == local.url
        assert f"export RAINBOW_CONTEXT=make-run-{port}" in local.log.read_text()
        assert local.run(f"RAINBOW_CONTEXT=make-run-{port} rainbowctl get cluster local").returncode == 0

    # Contexts that cannot be read do not keep it from running.
    contexts.write_text("contexts: [\n")
    with running(tmp_path, port) as local:
        welcome = local.log.read_text()
        assert "warning: rainbowctl cannot be told of this admin" in welcome
        [export] = re.findall(r"^  (export RAINBOW_ENDPOINT=.*)$", welcome, flags=re.MULTILINE)
        contexts.unlink()
        assert local.run(f"{export}; rainbowctl get cluster local").returncode == 0


def test_neither_goes_on_without_the_other(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port) as local:
        local.process.kill()
        local.process.wait()
        eventually(lambda: is_free(port), local.log)
    with running(tmp_path, port) as local:
        # Another agent takes over: the one here ends, and the admin with it.
        token = (tmp_path / "run/local.token").read_text().strip()
        requests.post(
            f"{local.url}/api/v1/clusters/local/sync",
            json={"agent": "another", "instance": "0123456789abcdef", "sequence": 1, "take_over": True},
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        ).raise_for_status()
        assert local.process.wait(timeout=_SECONDS) == 1
        assert "error: rainbow-agent has ended with status 1. The end of" in local.log.read_text()
        assert "Running a first job" not in local.log.read_text(), "it is run where there is none yet"
        assert is_free(port)


def test_a_port_that_is_taken_is_not_taken_for_the_admin(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            command(tmp_path, port), cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=60
        )
    assert done.returncode == 1
    assert f"error: port {port} cannot be listened on: Address already in use." in done.stderr


def test_installing_says_what_it_does_line_by_line_without_a_terminal(tmp_path: Path) -> None:
    programs = tmp_path / "venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").touch()
    pip = """#!/bin/sh
case "$*" in *--quiet*) exit 0 ;; esac
echo 'Requirement already satisfied: pip'
echo 'Collecting flask'
read answer < "$0.go"
echo 'Installing collected packages: flask'
"""
    (programs / "pip").write_text(pip)
    (programs / "pip").chmod(0o755)
    os.mkfifo(programs / "pip.go")
    command = ["make", f"VENV={tmp_path / 'venv'}", f"{tmp_path / 'venv'}/.installed"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as make:
        assert make.stdout is not None
        lines = [next(make.stdout), next(make.stdout)]  # while pip still waits
        (programs / "pip.go").write_text("\n")
        lines += make.stdout
    assert make.returncode == 0
    assert lines[0].startswith(f"Installing Rainbow into {tmp_path / 'venv'}")
    assert lines[1:] == ["Collecting flask\n", "Installing collected packages: flask\n"]
