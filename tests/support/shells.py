"""A shell in which tests type commands of rainbowctl, as a person or a script does."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.support import programs
from tests.support.admins import RunningAdmin
from tests.support.fork_server import PROGRAMS

CONFIG = programs.ROOT / "config"
_SECONDS = 60
#: What a shell takes as it stands …
_QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
#: … and what it makes something else of.
_OF_SHELL = re.compile(r"[$`\\|&;<>(){}*?\[\]~#\n]")


@dataclass(frozen=True, kw_only=True)
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str


class Terminal:
    """A command that runs with a terminal as its stdin; what it prints goes elsewhere, as `> file` does."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int) -> None:
        self.process = process
        self._keyboard = keyboard
        self._err = b""

    def wait_for(self, text: str) -> None:
        """Read stderr up to a text."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + _SECONDS
        while text.encode() not in self._err:
            readable, _, _ = select.select([self.process.stderr], [], [], max(0.0, deadline - time.monotonic()))
            read = os.read(self.process.stderr.fileno(), 4096) if readable else b""
            assert read, f"{text!r} did not come: {self._err!r}"
            self._err += read

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def finish(self) -> Done:
        out, err = self.process.communicate(timeout=_SECONDS)
        return Done(status=self.process.returncode, out=out.decode(), err=(self._err + err).decode())


class Shell:
    """A shell with rainbowctl on its path, an admin to speak to, and a home of its own.

    A command that needs no shell is started without one, and warm unless the shell is cold.
    """

    def __init__(self, admin: RunningAdmin, directory: Path, is_cold: bool = False) -> None:
        self.admin = admin
        self._is_cold = is_cold
        self.home = directory / "home"
        self.home.mkdir(exist_ok=True)
        self.cwd = directory / "work"
        self.cwd.mkdir(exist_ok=True)
        self.environment = programs.clean_environment(RAINBOW_ENDPOINT=admin.url, HOME=str(self.home), TERM="xterm")
        for name in ("XDG_CONFIG_HOME", "NO_COLOR", "VISUAL", "EDITOR"):
            self.environment.pop(name, None)

    def run(self, command: str, stdin: str | bytes = "", **variables: str) -> Done:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        env = {**self.environment, **variables}
        words = [] if self._is_cold else _words(command)
        if words and words[0] in PROGRAMS:
            done = programs.run(*words, cwd=self.cwd, env=env, stdin=data)
        else:
            done = subprocess.run(
                ["bash", "-c", command], cwd=self.cwd, env=env, input=data, capture_output=True, timeout=_SECONDS
            )
        result = Done(status=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())
        assert "Traceback" not in result.out + result.err
        return result

    def ok(self, command: str, stdin: str | bytes = "", **variables: str) -> str:
        """What a command that succeeds prints."""
        done = self.run(command, stdin, **variables)
        assert done.status == 0, f"{command}: {done.status}\n{done.out}{done.err}"
        return done.out

    def refused(self, status: int, command: str, stdin: str | bytes = "", **variables: str) -> str:
        """What a command that fails says; it prints no data and one error."""
        done = self.run(command, stdin, **variables)
        assert (done.status, done.out) == (status, ""), f"{command}: {done.status}\n{done.out}{done.err}"
        assert done.err.count("error: ") == 1, done.err
        return done.err

    @contextmanager
    def at_terminal(self, command: str) -> Iterator[Terminal]:
        keyboard, stdin = pty.openpty()
        try:
            with self.running(command, stdin=stdin, bufsize=0) as process:
                os.close(stdin)
                yield Terminal(process, keyboard)
        finally:
            os.close(keyboard)

    @contextmanager
    def running(self, command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A command that a test looks at while it runs; it is killed at the end."""
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=self.cwd, env=self.environment, **options)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def on_screen(self, command: str, keys: str = "", **variables: str) -> tuple[int, str]:
        """The status, and what a person sees who runs a command and answers its question with `keys`."""
        master, screen = pty.openpty()
        env = {**self.environment, "COLUMNS": "100", **variables}
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self.cwd, env=env, stdin=screen, stdout=screen, stderr=screen
        )
        os.close(screen)
        seen = b""
        while True:
            try:
                read = os.read(master, 4096)
            except OSError:  # how Linux says that nobody holds the other end any more
                break
            if not read:
                break
            seen += read
            if keys and b"[y/N] " in seen:
                os.write(master, keys.encode())
                keys = ""
        os.close(master)
        return process.wait(timeout=_SECONDS), seen.decode().replace("\r\n", "\n")

    def paste(self, lines: Sequence[str]) -> tuple[list[int], str]:
        """The status of each line where all are pasted at once at a shell's terminal, and what a person sees."""
        master, screen = pty.openpty()
        env = {**self.environment, "COLUMNS": "100", "PROMPT_COMMAND": 'echo "<status $?>"'}
        command = ["setsid", "--ctty", "bash", "--norc", "--noprofile", "-i"]
        with subprocess.Popen(command, cwd=self.cwd, env=env, stdin=screen, stdout=screen, stderr=screen) as process:
            os.close(screen)
            killer = threading.Timer(_SECONDS, process.kill)
            killer.start()
            seen = b""
            is_pasted = False
            try:
                while read := os.read(master, 4096):
                    seen += read
                    if not is_pasted and b"<status 0>" in seen:
                        os.write(master, "".join(f"{line}\n" for line in [*lines, "exit"]).encode())
                        is_pasted = True
            except OSError:  # how Linux says that nobody holds the other end any more
                pass
            finally:
                killer.cancel()
                os.close(master)
        text = seen.decode().replace("\r\n", "\n")
        return [int(status) for status in re.findall(r"<status (\d+)>", text)[1:]], text

    def file(self, name: str, text: str) -> Path:
        path = self.cwd / name
        path.write_text(text)
        return path

    def project(self, id: str) -> str:
        """A new project of that id."""
        self.rest("POST", "projects", {"project": {"id": id}})
        return id

    def rest(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of the API, which must be a good one."""
        answer = requests.request(method, f"{self.admin.url}/api/v1/{path}", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put(self, path: str, **payload: Any) -> int:
        """Store a payload over REST, and answer its version."""
        version: int = self.rest("PUT", path, {"attributes": {"matching_attributes": payload}})["version"]
        return version

    def rows(self, kind: str, query: str = "") -> list[dict[str, Any]]:
        """The stored rows of a kind without what differs from run to run."""
        listed = self.rest("GET", f"matchable_attributes?resource_type={kind}&{query}")["configurations"]
        return [
            {key: value for key, value in row.items() if key not in {"version", "updated_at"}} | {"attributes": inner}
            for row in listed
            for inner in row["attributes"].values()
        ]

    def values(self, kind: str, query: str = "") -> list[dict[str, Any]]:
        """The stored payloads of a kind."""
        return [row["attributes"] for row in self.rows(kind, query)]


def _words(command: str) -> list[str]:
    """The words of a command that needs no shell; none where it needs one."""
    return [] if _OF_SHELL.search(_QUOTED.sub("", command)) else shlex.split(command)
