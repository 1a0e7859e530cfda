"""The system under test: an admin on a database, and clusters with real agents, each behind a proxy."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from agent.engines.local import processes
from tests.robustness.histories.proxies import Proxy
from tests.robustness.histories.records import Recorder
from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import Site, write_admin_configuration

LEASE_SECONDS = 6
POOL = "all"  #: of every cluster
_AGENTS = {"leaseSeconds": LEASE_SECONDS, "waitSeconds": 2, "unreachableSeconds": 8, "lostSeconds": 10}


@dataclass(kw_only=True)
class Cluster:
    """A cluster: its site, and the proxy between its agent and the admin."""

    site: Site
    proxy: Proxy

    @property
    def name(self) -> str:
        return self.site.cluster

    def start(self) -> None:
        """Start its agent, if none runs."""
        if not self.site.agents or self.site.agents[-1].poll() is not None:
            self.site.start("--quiet")

    def kill(self) -> None:
        """Kill its agent; its jobs go on."""
        self.signal(signal.SIGKILL)
        self.site.agents[-1].wait()

    def signal(self, number: signal.Signals) -> None:
        self.site.agents[-1].send_signal(number)


@dataclass(kw_only=True)
class System:
    """An admin and its clusters; each part can be made to fail."""

    directory: Path
    database: str
    recorder: Recorder
    clusters: list[Cluster] = field(default_factory=list)
    _admins: ExitStack = field(default_factory=ExitStack)
    _admin: RunningAdmin | None = None
    _restarts: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        """Where the present admin is, or was."""
        assert self._admin is not None
        return self._admin.url

    @property
    def admin(self) -> RunningAdmin:
        assert self._admin is not None
        return self._admin

    def start_admin(self) -> None:
        """Start an admin, beside what is left of the one before."""
        configuration = str(self.directory / "rainbow.yaml")
        self._admin = self._admins.enter_context(
            running_admin(self.directory, "--config", configuration, database=self.database)
        )

    def admin_processes(self) -> list[int]:
        """The admin's main process and its workers."""
        main = self.admin.process.pid
        return [main, *processes.children_of(main)]

    def kill_admin(self, *, with_workers: bool = True) -> None:
        """Kill the admin; without its workers, they are left to end themselves."""
        pids = self.admin_processes()
        for pid in pids if with_workers else pids[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.admin.process.wait(timeout=30)

    def add_cluster(self, name: str) -> None:
        """Register a cluster and start its agent."""
        proxy = Proxy(lambda: self.url, f"{name} {self.directory}")
        options = {"graceSeconds": 1, "memoryLimit": "none"}
        site = Site(
            *(self.admin, self.directory / name),
            engine_options=options,
            endpoint=proxy.url,
            cluster=name,
            slots=6,
        )
        cluster = Cluster(site=site, proxy=proxy)
        self.clusters.append(cluster)
        site.register()
        cluster.start()

    def heal(self) -> None:
        """Make everything run again."""
        for cluster in self.clusters:
            cluster.proxy.manner = "pass"
            cluster.start()

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.proxy.manner = "pass"
            with suppress(ProcessLookupError):
                cluster.signal(signal.SIGCONT)
            cluster.site.stop()
            cluster.proxy.close()
        self._admins.close()


@contextmanager
def running_system(directory: Path, database: str, recorder: Recorder, clusters: int) -> Iterator[System]:
    """A system that is taken down at the end."""
    path = write_admin_configuration(directory, **_AGENTS)
    configuration = yaml.safe_load(path.read_text())
    names = [f"c{number + 1}" for number in range(clusters)]
    configuration["clusters"]["poolNameClusterMap"] = {POOL: [{"id": name} for name in names]}
    path.write_text(yaml.safe_dump(configuration))
    system = System(directory=directory, database=database, recorder=recorder)
    try:
        system.start_admin()
        for name in names:
            system.add_cluster(name)
        yield system
    finally:
        system.close()
