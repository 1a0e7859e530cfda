"""A real Flux instance of two brokers on this machine, on local sockets, for the time of the tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import ended_with_us, owned_directory
from tests.support.waiting import wait_until

NODES = 2
#: What Flux has on both nodes, and what its second node is said to have.
_CORES = min(4, os.cpu_count() or 1)
PROPERTY = "fast"


@dataclass
class FluxInstance:
    """An instance that can be ended and started again, with its jobs and without them."""

    directory: Path
    #: The module that schedules; without one it is the default of the site's Flux.
    scheduler: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def is_fluxion(self) -> bool:
        """Whether Fluxion schedules."""
        return self.scheduler.startswith("sched-fluxion")

    @property
    def uri(self) -> str:
        return f"local://{self.directory}/run/local-0"

    def start(self) -> None:
        """Start the brokers, with what an earlier instance here has left of its jobs."""
        for name in ("run", "state"):
            (self.directory / name).mkdir(exist_ok=True)
        configuration = self._write_configuration()
        options = f"--test-rundir={self.directory}/run", f"-Sstatedir={self.directory}/state"
        with (self.directory / "flux.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["flux", "start", f"--test-size={NODES}", f"--config-path={configuration}", *options, "sleep", "3600"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=ended_with_us(signal.SIGTERM),
            )
        log_path = self.directory / "flux.log"
        wait_until(self.answers, 120, explain=lambda: f"Flux does not answer:\n{log_path.read_text()}")

    def _write_configuration(self) -> Path:
        """A configuration in which the nodes differ by a property."""
        host = socket.gethostname()
        words = ["-r", f"0-{NODES - 1}", "-c", f"0-{_CORES - 1}", "-H", f"{host},{host}", "-p", f"{PROPERTY}:1"]
        done = subprocess.run(["flux", "R", "encode", *words], check=True, capture_output=True, timeout=60)
        if self.is_fluxion:
            # With a graph, as a site makes it for Fluxion.
            encode = ["flux", "ion-R", "encode"]
            done = subprocess.run(encode, input=done.stdout, check=True, capture_output=True, timeout=60)
        (self.directory / "R").write_bytes(done.stdout)
        path = self.directory / "flux.toml"
        text = f'[resource]\npath = "{self.directory}/R"\nnoverify = true\n'
        if self.scheduler:
            text += f'[modules.alternatives]\nsched = "{self.scheduler}"\n'
        # Fluxion's own default makes no estimates; others do not read this.
        path.write_text(f'{text}[sched-fluxion-qmanager]\nqueue-policy = "easy"\n')
        return path

    def answers(self) -> bool:
        """Whether all nodes are up."""
        done = subprocess.run(
            ["flux", "resource", "list", "-s", "free,allocated", "-no", "{nnodes}"],
            env={**os.environ, "FLUX_URI": self.uri},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode == 0 and sum(int(count) for count in done.stdout.split()) == NODES

    def run(self, *command: str) -> str:
        """The output of one of Flux's commands."""
        environment = {**os.environ, "FLUX_URI": self.uri}
        done = subprocess.run(
            ["flux", *command], env=environment, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def stop(self) -> None:
        """End it and its jobs in order, keeping what it knows of them; what hangs is killed."""
        if self.process is None:
            return
        with suppress(subprocess.SubprocessError):
            self.run("shutdown", "--quiet", "--background")
            self.process.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(60)
        self.process = None


def is_installed() -> bool:
    return shutil.which("flux") is not None


@contextmanager
def running_flux(scheduler: str = "") -> Iterator[FluxInstance]:
    """An instance that takes jobs."""
    with owned_directory("rainbow-flux") as directory:
        instance = FluxInstance(directory, scheduler)
        try:
            instance.start()
            yield instance
        finally:
            instance.stop()
