"""The programs that tests start warm are as those that people start."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.programs import BIN, clean_environment, run, start


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["rainbowctl", "--version"], b""),
        (["rainbowctl"], b""),
        (["rainbowctl", "get", "--help"], b""),
        (["rainbowctl", "gett"], b""),
        (["rainbowctl", "completion", "bash"], b""),
        (["rainbowctl", "get", "project", "--endpoint", "http://127.0.0.1:9"], b""),
        (["rainbowctl", "config", "view"], b""),
        (["rainbowctl", "create", "project", "--attrFile", "-"], "näme: [\n".encode()),
        (["rainbow-admin", "config"], b""),
        (["rainbow-admin", "migrate", "--database", "nosuch://x"], b""),
        (["rainbow-agent", "run", "--config", "none.yaml"], b""),
        (["rainbow-agent", "check", "--endpoint", "http://127.0.0.1:9"], b""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_warm_program_says_and_exits_as_a_cold_one(tmp_path: Path, arguments: list[str], stdin: bytes) -> None:
    env = clean_environment(HOME=str(tmp_path), COLUMNS="90")
    command = [str(BIN / arguments[0]), *arguments[1:]]
    cold = subprocess.run(command, cwd=tmp_path, env=env, input=stdin, capture_output=True, timeout=60, check=False)
    warm = run(*arguments, cwd=tmp_path, env=env, stdin=stdin)
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)
    assert cold.stdout or cold.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_warm_program_can_be_waited_for_and_killed(tmp_path: Path, number: signal.Signals) -> None:
    admin = start("rainbow-admin", "serve", "--port", "0", "--database", "sqlite:///x.db", cwd=tmp_path)
    assert admin.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        admin.wait(timeout=0.01)
    admin.send_signal(number)
    assert admin.wait(timeout=30) in (0, -number)
    assert admin.poll() == admin.returncode
    admin.kill()  # which does nothing any more


@pytest.mark.slow
def test_warm_programs_run_beside_each_other(tmp_path: Path) -> None:
    outputs: dict[int, bytes] = {}

    def ask(number: int) -> None:
        home = tmp_path / str(number)
        home.mkdir()
        context = ("config", "set-context", f"c{number}", "--endpoint", f"http://127.0.0.1:{9000 + number}")
        env = clean_environment(HOME=str(home))
        assert run("rainbowctl", *context, cwd=home, env=env).returncode == 0
        outputs[number] = run("rainbowctl", "config", "get-contexts", "-o", "name", cwd=home, env=env).stdout

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outputs) == [0, 1, 2, 3]
    assert all(f"c{number}".encode() in text for number, text in outputs.items())
