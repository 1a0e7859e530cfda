"""Real Slurm clusters of one node each, on loopback, for the time of the tests.

They run beside each other and without munge: each has its own configuration file, ports and directories.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.ports import free_port
from tests.support.servers import ended_with_us, owned_directory
from tests.support.waiting import wait_until

#: The daemons live in directories that are not on every PATH.
_PLACES = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"

CPUS = 4
MEMORY_MB = 2048
PARTITIONS = ("batch", "short")

_CONFIGURATION = """\
ClusterName={name}
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
JobCompType=jobcomp/filetxt
JobCompLoc={directory}/completed
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
MinJobAge={remembered}
DefMemPerCPU=100
NodeName={name}-node NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs={cpus} RealMemory={memory}
PartitionName=batch Nodes={name}-node Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes={name}-node MaxTime=60 State=UP
"""


def missing_programs() -> list[str]:
    """The programs of Slurm that are not installed."""
    needed = ("slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel", "sinfo")
    return [program for program in needed if shutil.which(program, path=_PLACES) is None]


@dataclass
class SlurmCluster:
    """A cluster whose daemons can be stopped and started again."""

    name: str
    directory: Path
    controller_port: int
    node_port: int
    #: Seconds for which the controller remembers a finished job; 0 would be forever.
    remembered: int = 300
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """The file that SLURM_CONF names."""
        return self.directory / "slurm.conf"

    @property
    def node(self) -> str:
        return f"{self.name}-node"

    @property
    def completed(self) -> Path:
        """The completion log."""
        return self.directory / "completed"

    def is_idle(self) -> bool:
        """Whether the controller answers, and its node is up without work."""
        return self.run("sinfo", "-h", "-p", "batch", "-o", "%T", check=False) == "idle"

    def start(self) -> None:
        """Write the configuration, start both daemons, and wait until the node is idle."""
        for folder in ("state", "spool"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        text = _CONFIGURATION.format(
            name=self.name,
            host=socket.gethostname().split(".")[0],
            user=getpass.getuser(),
            controller_port=self.controller_port,
            node_port=self.node_port,
            directory=self.directory,
            remembered=self.remembered,
            cpus=CPUS,
            memory=MEMORY_MB,
        )
        self.configuration.write_text(text, encoding="utf-8")
        self.start_controller()
        self._start("slurmd", "-D", "-N", self.node)
        self._wait_until_idle()

    def start_controller(self) -> None:
        """Start the controller; the one before must have ended."""
        self._start("slurmctld", "-D", "-i")

    def stop_controller(self) -> None:
        """Stop the controller alone: jobs keep running, and commands get no answer."""
        self._stop("slurmctld")

    def stop(self) -> None:
        """End all jobs, then both daemons."""
        if self._lives("slurmctld"):
            self.run("scancel", "--user", getpass.getuser(), check=False)
            with suppress(AssertionError):
                wait_until(lambda: not self.run("squeue", "-h", check=False), 20)
        for program in ("slurmd", "slurmctld"):
            self._stop(program)
        self._kill_leftovers()

    def run(self, *command: str, check: bool = True) -> str:
        """The output of one of Slurm's commands on this cluster."""
        done = subprocess.run(
            command, env=self.environment(), check=check, capture_output=True, text=True, timeout=30, cwd=self.directory
        )
        return done.stdout.strip()

    def environment(self) -> dict[str, str]:
        """An environment in which Slurm's commands mean this cluster."""
        return {**os.environ, "PATH": _PLACES, "SLURM_CONF": str(self.configuration)}

    def _start(self, program: str, *arguments: str) -> None:
        path = shutil.which(program, path=_PLACES)
        assert path is not None
        with (self.directory / f"{program}.out").open("ab") as output:
            self._daemons[program] = subprocess.Popen(
                [path, *arguments],
                env=self.environment(),
                cwd=self.directory,
                stdout=output,
                stderr=output,
                preexec_fn=ended_with_us(signal.SIGTERM),
            )

    def _lives(self, program: str) -> bool:
        return program in self._daemons and self._daemons[program].poll() is None

    def _stop(self, program: str) -> None:
        if not self._lives(program):
            return
        daemon = self._daemons.pop(program)
        daemon.terminate()
        try:
            daemon.wait(timeout=15)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def _kill_leftovers(self) -> None:
        """Kill processes that a job left behind while the controller was stopped; all name our configuration file."""
        mark = f"SLURM_CONF={self.configuration}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)

    def _wait_until_idle(self) -> None:
        def logs() -> str:
            tails = [path.read_text(errors="replace")[-2000:] for path in sorted(self.directory.glob("slurm*.log"))]
            return "Slurm did not start:\n" + "\n".join(tails)

        wait_until(self.is_idle, explain=logs)


@contextmanager
def running_slurm(name: str, remembered: int = 300) -> Iterator[SlurmCluster]:
    """A cluster that takes jobs."""
    controller_port, node_port = free_port(), free_port()
    with owned_directory("rainbow-slurm") as directory:
        cluster = SlurmCluster(name, directory, controller_port, node_port, remembered)
        with ExitStack() as stack:
            stack.callback(cluster.stop)
            cluster.start()
            yield cluster
