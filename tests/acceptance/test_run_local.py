"""`make run`: an admin and the agent of this machine, started and ended together."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
import requests

from tests.support.local_runs import ROOT, Local, command, is_free, running
from tests.support.ports import free_port
from tests.support.programs import clean_environment


def operators_token(local: Local) -> dict[str, str]:
    return {"Authorization": f"Bearer {(local.log.parent / 'run/token').read_text().strip()}"}


def tokens(local: Local) -> list[tuple[str, str]]:
    url = f"{local.url}/api/v1/clusters/local/tokens"
    answer = requests.get(url, headers=operators_token(local), timeout=60).json()
    return [(token["prefix"], token["state"]) for token in answer["tokens"]]


@pytest.mark.slow
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
