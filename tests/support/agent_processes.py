"""Real agents for tests: processes that register with a real admin, run executions, and can be killed."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from agent.engines.local import processes
from agent.tasks import key_of
from tests.support import programs
from tests.support.admins import RunningAdmin, running_admin
from tests.support.programs import Process, clean_environment
from tests.support.slurm import SlurmCluster
from tests.support.waiting import wait_until

PROJECT, DOMAIN = "flytesnacks", "development"
SECRET = "open-sesame"
FINISHED = ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED")


def write_admin_configuration(directory: Path, **agents: Any) -> Path:
    """Write an admin's configuration in which any name may register with SECRET."""
    (directory / "registration.secret").write_text(SECRET)
    path = directory / "rainbow.yaml"
    clusters = {"registrationSecretFile": str(directory / "registration.secret")}
    path.write_text(yaml.safe_dump({"clusters": clusters, "agents": agents}))
    return path


@contextmanager
def admin_of_agents(directory: Path, **agents: Any) -> Iterator[RunningAdmin]:
    """A real admin that any agent can register with; the keywords are keys of its section `agents`."""
    configuration = write_admin_configuration(directory, **agents)
    with running_admin(directory, "--config", str(configuration)) as admin:
        yield admin


@dataclass
class Site:
    """One cluster: its agent's configuration and state, and the admin it talks to."""

    admin: RunningAdmin
    directory: Path
    engine: str = "local"
    engine_options: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    endpoint: str = ""
    slots: int = 10
    cluster: str = field(default_factory=lambda: f"c-{secrets.token_hex(4)}")
    agents: list[Process] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def log(self) -> str:
        """What its agents have printed."""
        path = self.directory / "agent.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def configure(self) -> None:
        """Write the agent's configuration file."""
        document = {
            "endpoint": self.endpoint or self.admin.url,
            "cluster": self.cluster,
            "engine": self.engine,
            "engineOptions": dict(self.engine_options),
            "stateDirectory": str(self.state),
            "slots": self.slots,
            "pollSeconds": 0.1,
            # Tests may run as root, and their jobs then as well.
            **({"runAs": "root"} if os.geteuid() == 0 and self.engine != "kubernetes" else {}),
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "agent.yaml").write_text(yaml.safe_dump(document))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "agent.main", *arguments]

    def call(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the agent and wait for it."""
        done = programs.run(
            "rainbow-agent",
            *arguments,
            "--config",
            str(self.directory / "agent.yaml"),
            env=self.variables(**environment),
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def variables(self, **more: str) -> dict[str, str]:
        return clean_environment(**{**self.environment, **more})

    def register(self) -> None:
        """Get the cluster's token."""
        self.configure()
        done = self.call("register", RAINBOW_REGISTRATION_SECRET=SECRET)
        assert done.returncode == 0, done.stderr

    def start(self, *arguments: str, **environment: str) -> Process:
        """Start an agent."""
        with (self.directory / "agent.log").open("ab") as log:
            agent = programs.start(
                "rainbow-agent",
                "run",
                *arguments,
                "--config",
                str(self.directory / "agent.yaml"),
                env=self.variables(**environment),
                stdout=log,
                stderr=log,
            )
        self.agents.append(agent)
        return agent

    def stop(self) -> None:
        """Kill every agent that runs, and every process of its executions."""
        for agent in self.agents:
            if agent.poll() is None:
                agent.kill()
            agent.wait()
        for directory in self.state.glob("jobs/*"):
            processes.signal_all(processes.marked(directory.name), signal.SIGKILL)

    # The admin's side

    def create(self, name: str, *command: str, spec: Mapping[str, Any] | None = None, **job: Any) -> None:
        """Create an execution on this cluster."""
        body = {
            "project": PROJECT,
            "domain": DOMAIN,
            "name": name,
            "spec": {"cluster": self.cluster, "job": {"command": list(command), **job}, **(spec or {})},
        }
        answer = requests.post(f"{self.admin.url}/api/v1/executions", json=body, timeout=60)
        assert answer.status_code == 200, answer.text

    def get(self, name: str, part: str = "", **query: Any) -> dict[str, Any]:
        """An execution, or a part of it such as /logs."""
        path = f"{self.admin.url}/api/v1/executions/{PROJECT}/{DOMAIN}/{name}{part}"
        answer = requests.get(path, params=query, timeout=60)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def key(self, name: str, attempt: int = 1) -> str:
        """The name of an execution's native job."""
        id = {"project": PROJECT, "domain": DOMAIN, "name": name}
        return key_of({"id": id, "attempt": attempt, "uid": self.get(name).get("uid")})

    def phase(self, name: str) -> str:
        return str(self.get(name)["closure"]["phase"])

    def ended(self, name: str) -> dict[str, Any]:
        """An execution once it has ended."""
        wait_until(lambda: self.phase(name) in FINISHED, 120, explain=lambda: f"{name} did not end:\n{self.log}")
        return self.get(name)

    def running(self, name: str) -> dict[str, Any]:
        """An execution once it runs."""
        wait_until(lambda: self.phase(name) == "RUNNING", explain=lambda: f"{name} does not run:\n{self.log}")
        return self.get(name)

    def cancel(self, name: str, **more: Any) -> None:
        path = f"{self.admin.url}/api/v1/executions/{PROJECT}/{DOMAIN}/{name}"
        assert requests.delete(path, json={"cause": "enough", **more}, timeout=60).status_code == 200

    def printed(self, name: str, stream: str = "stdout") -> dict[str, Any]:
        return self.get(name, "/logs", stream=stream, limit=2**20)

    def wait_for_log(self, text: str) -> None:
        """Wait until an agent has logged a text."""
        wait_until(lambda: text in self.log, explain=lambda: f"the agent did not log {text!r}:\n{self.log}")

    def intents(self) -> list[str]:
        """The keys of the intents that the agent has stored."""
        return sorted(path.stem for path in (self.state / "intents").glob("*.json"))


def waiting_for(file: Path, script: str = "true") -> tuple[str, str, str]:
    """A command that runs a script once a file exists."""
    return "sh", "-c", f"until [ -e {file} ]; do sleep 0.05; done; {script}"


def engine_settings(engine: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of a site of that engine; a Slurm cluster is started for it."""
    if engine != "slurm":
        return {"engine": engine}
    cluster: SlurmCluster = request.getfixturevalue("slurm_clusters")[0]
    return {
        "engine": engine,
        "engine_options": {"configuration": str(cluster.configuration)},
        "environment": {"PATH": cluster.environment()["PATH"]},
    }


@contextmanager
def running_site(admin: RunningAdmin, directory: Path, **settings: Any) -> Iterator[Site]:
    """A registered cluster; its agents and their executions are killed at the end."""
    site = Site(admin, directory, **settings)
    site.register()
    with ExitStack() as stack:
        stack.callback(site.stop)
        yield site


class Wire:
    """A connection between two programs that can be cut: nothing passes, and neither side notices; or broken off."""

    def __init__(self, url: str, address: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self.connect_to(url)
        self._listener = socket.create_server(address)
        self.url = "http://{}:{}".format(*self._listener.getsockname())
        #: How many times data has passed, or been held back by a cut, in either direction.
        self.passed = self.held_back = 0
        self.bytes = 0  #: that have passed
        self._whole = threading.Event()
        self._whole.set()
        self._closed = self._broken = False
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def connect_to(self, url: str) -> None:
        """Lead new connections to another admin."""
        host, _, port = url.removeprefix("http://").partition(":")
        self._target = (host, int(port))

    def cut(self) -> None:
        """Hold everything back from now on."""
        self._whole.clear()

    def break_off(self) -> None:
        """End all connections, and each that is opened from now on."""
        self._broken = True
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let everything pass again, including what was held back."""
        self._broken = False
        self._whole.set()

    def close(self) -> None:
        self._closed = True
        self._whole.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._sockets:
            connection.close()
        for thread in self._threads:
            thread.join(timeout=60)

    def _accept(self) -> None:
        while not self._closed:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            if self._broken:
                inner.close()
                continue
            try:
                outer = socket.create_connection(self._target)
            except OSError:
                inner.close()
                continue
            self._sockets += [inner, outer]
            for pair in ((inner, outer), (outer, inner)):
                thread = threading.Thread(target=self._pass_on, args=pair)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            source.settimeout(0.2)
            while not self._closed:
                try:
                    data = source.recv(65536)
                except TimeoutError:
                    continue
                if not self._whole.is_set():
                    self.held_back += 1
                self._whole.wait()
                if not data:
                    break
                self.passed += 1
                self.bytes += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for connection in (source, sink):
            connection.close()


@contextmanager
def wire_to(server: RunningAdmin | str, address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[Wire]:
    """A wire to an admin, or to an address, that is closed at the end."""
    wire = Wire(server if isinstance(server, str) else server.url, address)
    try:
        yield wire
    finally:
        wire.close()
