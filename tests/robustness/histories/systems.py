"""The system under test: an admin on a database, and clusters with real agents, each behind a proxy."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import sqlalchemy
import yaml

from agent.engines.local import processes
from agent.engines.local.job_files import ENDED, STARTED, TASK
from agent.files import read_json
from tests.robustness.histories.proxies import Proxy
from tests.robustness.histories.records import Recorder, now
from tests.robustness.histories.silences import LEASE_SECONDS, LOST_SECONDS, UNREACHABLE_SECONDS
from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import Site, write_admin_configuration
from tests.support.programs import Process

POOL = "all"  #: of every cluster
_AGENTS = {
    "leaseSeconds": LEASE_SECONDS,
    "waitSeconds": 2,
    "unreachableSeconds": UNREACHABLE_SECONDS,
    "lostSeconds": LOST_SECONDS,
}
#: Nothing of a run is so old.
_RETENTION = {"executions": "1d", "events": "1d", "logs": "1d", "revisions": "1d", "interval": "1s"}

#: Read by Python when it starts. It steps the clock of the named modules; libfaketime would step that of the whole
#: process, but with it Python's time.sleep fails after a step.
_SITE = """
import datetime, importlib, os
class Stepped(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        with open(os.environ["HISTORY_CLOCK"]) as file:
            return datetime.datetime.now(tz) + datetime.timedelta(seconds=int(file.read()))
for name in os.environ["HISTORY_CLOCK_OF"].split():
    importlib.import_module(name).datetime = Stepped
"""


class Clock:
    """The wall clock of processes, which can be set; monotonic clocks go on."""

    def __init__(self, directory: Path, *modules: str) -> None:
        directory.mkdir()
        (directory / "sitecustomize.py").write_text(_SITE)
        self._file = directory / "offset"
        self.variables = {
            "PYTHONPATH": f"{directory}:{os.environ.get('PYTHONPATH', '')}",
            "HISTORY_CLOCK": str(self._file),
            "HISTORY_CLOCK_OF": " ".join(modules),
        }
        self.set(0)

    def set(self, seconds: int) -> None:
        """Set it ahead of the right time, or behind."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)


@dataclass(kw_only=True)
class Cluster:
    """A cluster: its site, and the proxy between its agent and the admin."""

    site: Site
    proxy: Proxy
    clock: Clock
    recorder: Recorder
    seconds: list[Site] = field(default_factory=list)  #: further agents that claim to be its agent

    @property
    def name(self) -> str:
        return self.site.cluster

    @property
    def agent(self) -> Process:
        """The last process of its agent."""
        return self.site.agents[-1]

    def running_jobs(self) -> list[tuple[str, list[int]]]:
        """The names of the executions that its engine runs, with the processes that watch each."""
        jobs = []
        for directory in sorted((self.site.state / "jobs").glob("*")):
            task, started = (read_json(directory / name) or {} for name in (TASK, STARTED))
            if started and not (directory / ENDED).exists():
                watchers = [pid for pid, ticks in started["watchers"] if processes.start_ticks(pid) == ticks]
                if watchers:
                    jobs.append((task["environment"]["RAINBOW_EXECUTION"], watchers))
        return jobs

    def start(self) -> None:
        """Start its agent, if none runs."""
        if not self.site.agents or self.agent.poll() is not None:
            self.site.start("--quiet")

    def start_second(self) -> Process:
        """Start another agent of the cluster, with its token and a state directory of its own."""
        directory = self.site.directory / f"second-{len(self.seconds) + 1}"
        second = replace(self.site, directory=directory, agents=[])
        second.configure()
        second.state.mkdir(mode=0o700)
        shutil.copy(self.site.state / "token", second.state / "token")
        self.seconds.append(second)
        return second.start("--quiet")

    def kill(self) -> None:
        """Kill its agent; its jobs go on."""
        self.signal(signal.SIGKILL)
        self.agent.wait()

    def signal(self, number: signal.Signals) -> None:
        self.agent.send_signal(number)


@dataclass(kw_only=True)
class System:
    """An admin and its clusters; each part can be made to fail."""

    directory: Path
    database: str
    recorder: Recorder
    has_clocks: bool = False  #: whether the admin and each agent have clocks of their own
    generation: int = 0  #: raised by each restore
    kept_until: float = 0.0  #: when the backup that was restored last was made
    clusters: list[Cluster] = field(default_factory=list)
    _admins: ExitStack = field(default_factory=ExitStack)
    _admin: RunningAdmin | None = None

    def __post_init__(self) -> None:
        self.admin_clock = Clock(self.directory / "admin-clock", "admin.store.database")

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
            running_admin(
                *(self.directory, "--config", configuration),
                database=self.database,
                environment=self.admin_clock.variables if self.has_clocks else {},
            )
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

    def add_cluster(self, name: str, slots: int) -> None:
        """Register a cluster and start its agent."""
        proxy = Proxy(lambda: self.url, name, self.recorder, f"{name} {self.directory.name}")
        options = {"graceSeconds": 1, "memoryLimit": "none"}
        clock = Clock(self.directory / f"{name}-clock", "agent.clocks", "agent.engines.local.supervisor")
        site = Site(
            *(self.admin, self.directory / name),
            environment=clock.variables if self.has_clocks else {},
            engine_options=options,
            endpoint=proxy.url,
            cluster=name,
            slots=slots,
        )
        cluster = Cluster(site=site, proxy=proxy, clock=clock, recorder=self.recorder)
        self.clusters.append(cluster)
        site.register()
        cluster.start()

    def back_up(self) -> tuple[float, str]:
        """Copy the database; when that began, and the copy's URL."""
        begun = now()
        copy = self.directory / f"backup-{begun:.0f}.db"
        if self.database.startswith("sqlite:"):
            return begun, copy_database(self.database, copy)
        self.kill_admin()  # PostgreSQL copies only what nobody uses
        url = copy_database(self.database, copy)
        self.start_admin()
        return begun, url

    def restore(self, begun: float, backup: str) -> None:
        """Make a backup the database, while no admin runs."""
        with self.recorder.fault("restore", "database", backup=begun):
            self.kill_admin()
            self.database = copy_database(backup, self.directory / f"restored-{now():.0f}.db")
            self.kept_until = begun
            self.generation += 1
            self.start_admin()

    def heal(self) -> None:
        """Make everything run again."""
        for cluster in self.clusters:
            cluster.proxy.manner = "pass"
            cluster.start()

    def close(self) -> None:
        for cluster in self.clusters:
            cluster.proxy.manner = "pass"
            for agent in cluster.site.agents[-1:]:
                agent.send_signal(signal.SIGCONT)
            for site in (cluster.site, *cluster.seconds):
                site.stop()
            cluster.proxy.close()
        self._admins.close()


def copy_database(url: str, file: Path) -> str:
    """Copy a database at one moment; the URL of the copy."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as source, closing(sqlite3.connect(file)) as copy:
            source.backup(copy)
        return f"sqlite:///{file}"
    server, _, name = url.rpartition("/")
    new_name = f"{name}_{file.stem.replace('-', '_')}"
    engine = sqlalchemy.create_engine(f"{server}/postgres", isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"
        connection.execute(sqlalchemy.text(others), {"name": name})
        connection.exec_driver_sql(f"CREATE DATABASE {new_name} TEMPLATE {name}")
    return f"{server}/{new_name}"


@contextmanager
def running_system(
    directory: Path, database: str, recorder: Recorder, clusters: int, *, has_clocks: bool, slots: int
) -> Iterator[System]:
    """A system that is taken down at the end."""
    path = write_admin_configuration(directory, **_AGENTS)
    configuration = yaml.safe_load(path.read_text())
    names = [f"c{number + 1}" for number in range(clusters)]
    configuration["clusters"]["poolNameClusterMap"] = {POOL: [{"id": name} for name in names]}
    configuration["retention"] = _RETENTION
    path.write_text(yaml.safe_dump(configuration))
    system = System(directory=directory, database=database, recorder=recorder, has_clocks=has_clocks)
    try:
        system.start_admin()
        for name in names:
            system.add_cluster(name, slots)
        yield system
    finally:
        system.close()
