"""
An admin, and beside it the agent of a cluster that is this machine: what `make run` starts.

    python -m scripts.run_local --directory .rainbow --port 8088

Everything is kept in the directory: the database, unless --config names another, the registration secret, the agent's
token and what it runs, and the logs of both programs. They end together, the agent first, so that it can still report
on its work.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from ctl.client.client import Client
from ctl.client.contexts import config_path, load_configuration, save_configuration
from ctl.client.errors import ClientError, NotFound, RainbowError, Unauthenticated
from ctl.client.times import parse_timestamp

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
CLUSTER = "local"
_DEFAULT_PORT = 8088
_READY_SECONDS = 60
_LAST_LINES = 10
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG

_FIRST_JOB = (
    *("rainbowctl", "create", "execution", "-p", "flytesnacks", "-d", "development", "--cpu", "1", "--logs"),
    *("--", "echo", "Hello, world"),
)

_WELCOME = """
Rainbow is up at {url}. The cluster '{cluster}' is this machine, and an agent runs there what is
placed on it. In a second shell, in this directory:

  . .venv/bin/activate{lines}
  {first_job}

That runs a command and shows what it prints. More to try:

  rainbowctl get cluster
  rainbowctl update execution-cluster-label --attrFile config/ec.yaml --force
  rainbowctl get execution-cluster-label -p flyteexamples -d development
  rainbowctl explain task-resource-attribute -p flyteexamples -d development

The token of this admin is in {token}; rainbowctl has it from its context '{context}'.
Requests are logged in {admin_log}, the agent's work in {agent_log}.
In a browser {url} is the console. Stop everything with Ctrl-C.
"""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that was started, and the file that has its output."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Stopped(Exception):
    """A signal arrived, or one of the programs has ended."""

    def __init__(self, status: int = 0, reason: str = "") -> None:
        super().__init__(reason)
        self.status = status


def main() -> int:
    """Run both programs until one of them ends, or a signal stops them."""
    options = _options()
    directory = Path(options.directory).absolute()
    running: list[Program] = []
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        _run(directory, options.config, options.port, running)
    except Stopped as end:
        if str(end):
            print(f"error: {end}", file=sys.stderr)
        return end.status
    except (RainbowError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        _end(running)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run an admin and the agent of this machine together.")
    parser.add_argument("--directory", default=".rainbow", metavar="DIR", help="where everything is kept")
    parser.add_argument("--config", default=str(ROOT / "config/rainbow.yaml"), metavar="FILE", help="of the admin")
    parser.add_argument("--port", type=int, default=_DEFAULT_PORT, help="of the admin, on loopback")
    return parser.parse_args()


def _stop(*_signal: object) -> NoReturn:
    raise Stopped


def _run(directory: Path, config: str, port: int, running: list[Program]) -> NoReturn:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    secret, token = directory / "registration.secret", directory / f"{CLUSTER}.token"
    operators_token = directory / "token"
    _make_secret(secret)
    _make_secret(operators_token)
    _check_free(port)
    url = f"http://127.0.0.1:{port}"
    started_at = datetime.now(UTC)
    print("Starting the admin.", flush=True)
    admin = _start(
        directory / "admin.log",
        *("rainbow-admin", "serve", "--config", config, *database_options(Path(config), directory)),
        *("--host", "127.0.0.1", "--port", str(port), "--registration-secret-file", str(secret)),
        *("--api-token-file", str(operators_token), "--log-format", "text"),
    )
    running.append(admin)
    with Client(url, token=operators_token.read_text(encoding="utf-8").split()[0]) as client:
        _wait_until(lambda: _answers(client), running, "the admin does not answer")
        # The configuration of another agent on this machine must not apply; paths are absolute, because relative ones
        # start at the configuration file.
        agent = ["--config", os.devnull, "--endpoint", url, "--cluster", CLUSTER, "--engine", "local"]
        agent += ["--token-file", str(token), "--state-directory", str(directory / "agent")]
        _ensure_token(client, token, url, [*agent, "--secret-file", str(secret)])
        # Jobs run as the user who runs this, even root.
        user = ["--run-as", "root"] if os.geteuid() == 0 else []
        print("Starting the agent of this machine.", flush=True)
        running.append(_start(directory / "agent.log", "rainbow-agent", "run", *agent, *user))
        _wait_until(lambda: _has_synced(client, started_at), running, "the agent does not reach the admin")
        if next(client.executions(limit=1), None) is None:
            _run_first_job(url, operators_token)
    context = "make-run" if port == _DEFAULT_PORT else f"make-run-{port}"
    lines = _shell_lines(context, url, operators_token)
    welcome = _WELCOME.format(
        url=url,
        cluster=CLUSTER,
        lines=lines,
        first_job=shlex.join(_FIRST_JOB),
        context=context,
        token=operators_token,
        admin_log=running[0].log,
        agent_log=running[1].log,
    )
    print(welcome, flush=True)
    while True:
        _check(running)
        time.sleep(0.2)


def database_options(config: Path, directory: Path) -> list[str]:
    """The database in the directory, unless the configuration file names another one."""
    import yaml

    try:
        document = yaml.safe_load(config.read_text(encoding="utf-8"))
        named = (document.get("database") or {}).get("url")
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError):
        named = None  # the admin says what is wrong with the file
    return [] if named else ["--database", f"sqlite:///{directory / 'rainbow.db'}"]


def _run_first_job(url: str, token: Path) -> None:
    """Run a first job, so that a newcomer sees one run and print."""
    print(f"Running a first job:\n\n$ {shlex.join(_FIRST_JOB)}", flush=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAINBOW_")}
    env = {**kept, "RAINBOW_ENDPOINT": url, "RAINBOW_TOKEN_FILE": str(token), "RAINBOW_CONFIG": os.devnull}
    command = [str(BIN / _FIRST_JOB[0]), *_FIRST_JOB[1:]]
    try:
        status = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, start_new_session=True, timeout=_READY_SECONDS
        ).returncode
    except subprocess.TimeoutExpired:
        status = None
    if status != 0:
        print("warning: the first job has not succeeded; the logs below may say why.", file=sys.stderr)


def _save_context(name: str, url: str, token: Path) -> None:
    """Tell rainbowctl of this admin and its token, and use them unless another context is in use."""
    configuration = load_configuration(config_path({}), may_be_missing=True)
    contexts = {**configuration.contexts, name: {"endpoint": url, "token_file": str(token)}}
    changed = replace(configuration, current_context=configuration.current_context or name, contexts=contexts)
    if changed != configuration:
        save_configuration(changed)


def _shell_lines(name: str, url: str, token: Path) -> str:
    """What to type so that rainbowctl uses this admin, whatever the environment holds."""
    try:
        _save_context(name, url, token)
        is_current = load_configuration(config_path({})).current_context == name
    except RainbowError as error:
        print(f"warning: rainbowctl cannot be told of this admin: {error}", file=sys.stderr)
        return f"\n  export RAINBOW_ENDPOINT={url} RAINBOW_TOKEN_FILE={token}"
    in_the_way = [key for key in ("RAINBOW_TOKEN", "RAINBOW_TOKEN_FILE", "RAINBOW_ENDPOINT") if os.environ.get(key)]
    lines = [f"unset {' '.join(in_the_way)}"] if in_the_way else []
    if not is_current or os.environ.get("RAINBOW_CONTEXT", name) != name:
        lines.append(f"export RAINBOW_CONTEXT={name}")
    return "".join(f"\n  {line}" for line in lines)


def _check_free(port: int) -> None:
    """Refuse a port in use: another program there would be taken for the admin."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            reason = f"port {port} cannot be listened on: {error.strerror}"
            raise Stopped(1, f"{reason}. End what has it, or choose another: make run RUN_PORT=9000") from None


def _make_secret(path: Path) -> None:
    """A secret that only its owner can read, if there is none yet."""
    if path.exists():
        return
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secrets.token_hex(32)}\n")


def _ensure_token(client: Client, file: Path, url: str, arguments: list[str]) -> None:
    """Make sure that the agent has a valid token: the one it has, else a new one."""
    if file.exists():
        if _is_valid(url, file.read_text(encoding="utf-8").strip()):
            return
        print(f"The token in {file} is no longer valid: the agent registers again.", file=sys.stderr)
        file.unlink()
    for token in _tokens(client):
        client.revoke_token(CLUSTER, str(token["prefix"]))
    done = subprocess.run(
        [str(BIN / "rainbow-agent"), "register", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise Stopped(1, f"the agent cannot register: {done.stderr.strip()}")


def _is_valid(url: str, token: str) -> bool:
    with Client(url, token=token) as client:
        try:
            next(client.executions(limit=1), None)
        except Unauthenticated:
            return False
    return True


def _tokens(client: Client) -> list[dict[str, object]]:
    try:
        return [token for token in client.cluster_tokens(CLUSTER) if token["state"] in ("live", "expiring")]
    except NotFound:
        return []


def _answers(client: Client) -> bool:
    try:
        client.version()
    except ClientError:
        return False
    return True


def _has_synced(client: Client, since: datetime) -> bool:
    """Whether the agent has synced since then."""
    synced_at = parse_timestamp(client.definition("cluster", CLUSTER).get("last_sync_at"))
    return synced_at is not None and synced_at >= since


def _start(log: Path, *command: str) -> Program:
    """A program in a session of its own, so that Ctrl-C reaches this one alone, which prints into a new log."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [str(BIN / command[0]), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
    return Program(name=command[0], process=process, log=log)


def _die_with_parent() -> None:
    """End this program when the one that started it is killed."""
    if sys.platform == "linux":
        _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGTERM)


#: Loaded here, because it must not be loaded between fork and exec.
_LIBC = ctypes.CDLL(None)


def _wait_until(condition: Callable[[], bool], running: list[Program], reason: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not condition():
        _check(running)
        if time.monotonic() > deadline:
            raise Stopped(1, f"{reason} within {_READY_SECONDS} s. {_last_lines(running[-1].log)}")
        time.sleep(0.3)


def _check(running: list[Program]) -> None:
    """Stop when one of the programs has ended."""
    for program in running:
        status = program.process.poll()
        if status is not None:
            raise Stopped(status or 1, f"{program.name} has ended with status {status}. {_last_lines(program.log)}")


def _last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join([f"The end of {log}:", *(f"  {line}" for line in lines)])


def _end(running: list[Program]) -> None:
    """End the programs, the agent before the admin; a second signal kills them."""

    def kill(*_signal: object) -> None:
        for program in running:
            program.process.kill()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, kill)
    for program in reversed(running):
        program.process.terminate()
        program.process.wait()


if __name__ == "__main__":
    sys.exit(main())
