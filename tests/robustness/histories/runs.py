"""One run: clients, faults, and at the end a reading of everything, checked against the model."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.robustness.histories.checker import FINAL, find_violations
from tests.robustness.histories.clients import Client, Load
from tests.robustness.histories.faults import CLOCKS, Fault, under_faults
from tests.robustness.histories.jobs import prepare_jobs
from tests.robustness.histories.records import History, Recorder, now, read_history
from tests.robustness.histories.systems import POOL, System, running_system
from tests.support.waiting import wait_until

_SETTLING_SECONDS = 180.0
#: How long clients go on after the last fault, and meet what it has left.
_CALM_SECONDS = 2.0
_UNFINISHED = "value_in(phase,QUEUED;RUNNING;ABORTING)"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run is made from; the same again is the same faults and operations, in an order that may differ."""

    seed: str
    seconds: float  #: under faults
    clusters: int = 3
    clients: int = 3
    faults: tuple[Fault, ...]

    def record(self, directory: Path, database: str) -> History:
        """Run, and return what was recorded."""
        has_clocks = not set(self.faults).isdisjoint(CLOCKS)
        with recorded_system(directory, database, clusters=self.clusters, has_clocks=has_clocks) as system:
            clients = Load(
                seed=self.seed,
                url=lambda: system.url,
                recorder=system.recorder,
                directory=directory,
                clusters=tuple(cluster.name for cluster in system.clusters),
                pool=POOL,
                generation=lambda: system.generation,
                kept_until=lambda: system.kept_until,
                long_until=now() + self.seconds * 2 / 3,
            )
            clients.start(self.clients)
            try:
                with under_faults(system, self.seed, self.faults):
                    time.sleep(self.seconds)
                time.sleep(_CALM_SECONDS)
            finally:
                clients.stop()
            conclude(system, clients.created)
        return read_history(directory)


@contextmanager
def recorded_system(
    directory: Path, database: str, *, clusters: int, has_clocks: bool = False, slots: int = 24
) -> Iterator[System]:
    """A system whose history is recorded in a directory."""
    prepare_jobs(directory)
    with (
        closing(Recorder(directory)) as recorder,
        running_system(directory, database, recorder, clusters, has_clocks=has_clocks, slots=slots) as system,
    ):
        yield system


def conclude(system: System, names: Collection[str]) -> None:
    """Make everything run again, wait until no execution is unfinished, and read each of them and every revision."""
    system.heal()
    deadline = now() + _SETTLING_SECONDS

    def is_settled() -> bool:
        answer = requests.get(
            f"{system.url}/api/v1/executions", params={"filters": _UNFINISHED, "limit": "1"}, timeout=20
        )
        # What never ends is for the model to complain about.
        return (answer.status_code == 200 and not answer.json()["executions"]) or now() > deadline

    wait_until(is_settled, 2 * _SETTLING_SECONDS, 0.1)
    client = Client(name=FINAL, url=lambda: system.url, recorder=system.recorder, timeout=(10, 60))
    for name in names:
        read = client.get(name)
        if read.is_done:
            client.events(name, read.answer["token"])
            client.log(name, read.answer["token"])
    for cluster in system.clusters:
        client.cluster_events(cluster.name)
    head = client.watch(0, 0).answer["revision"]
    for number in range(1, head + 1):
        client.revision(number)


def check(history: History, title: str) -> None:
    """Fail with what the model finds impossible."""
    violations = find_violations(history)
    assert not violations, "\n".join([f"{title}: {len(violations)} violations", *violations[:20]])
