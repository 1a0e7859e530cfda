"""One run: clients, faults, and at the end a reading of everything, checked against the model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.robustness.histories.checker import FINAL, find_violations
from tests.robustness.histories.clients import Client, Load
from tests.robustness.histories.faults import CLOCKS, CRASHES, NETWORK, Fault, under_faults
from tests.robustness.histories.jobs import prepare_jobs
from tests.robustness.histories.records import History, Recorder, now, read_history
from tests.robustness.histories.systems import POOL, System, faketime_library, running_system
from tests.support.waiting import wait_until

_SETTLING_SECONDS = 45.0
_UNFINISHED = "value_in(phase,QUEUED;RUNNING;ABORTING)"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run is made from; the same again is the same faults and operations, in an order that may differ."""

    seed: str
    seconds: float  #: under faults
    clusters: int = 3
    clients: int = 3
    faults: tuple[Fault, ...] = (*CRASHES, *NETWORK)

    def history(self, directory: Path, database: str, **load: Any) -> History:
        """Run, and return what was recorded."""
        recorded = prepare_jobs(directory)
        recorder = Recorder(directory / "calls")
        try:
            library = faketime_library() if set(self.faults) & set(CLOCKS) else None
            with running_system(directory, database, recorder, self.clusters, library) as system:
                names = tuple(cluster.name for cluster in system.clusters)
                clients = Load(
                    seed=self.seed,
                    url=lambda: system.url,
                    recorder=recorder,
                    directory=directory,
                    clusters=names,
                    pool=POOL,
                    generation=lambda: system.generation,
                    long_until=now() + self.seconds / 2,
                    **load,
                )
                clients.start(self.clients)
                try:
                    with under_faults(system, self.seed, self.faults):
                        time.sleep(self.seconds)
                finally:
                    clients.stop()
                system.heal()
                _wait_for_all(system)
                _read_all(system, recorder, clients.created)
        finally:
            recorder.close()
        return read_history(directory / "calls", recorded)

    def check(self, directory: Path, database: str, **load: Any) -> History:
        """Run, and fail with what the model found impossible."""
        history = self.history(directory, database, **load)
        violations = find_violations(history)
        assert not violations, "\n".join(
            [f"seed {self.seed}: {len(violations)} violations; the history is in {directory}", *violations[:20]]
        )
        return history


def _wait_for_all(system: System) -> None:
    """Wait until no execution is left unfinished; what remains is for the model to complain about."""
    deadline = now() + _SETTLING_SECONDS

    def is_settled() -> bool:
        answer = requests.get(
            f"{system.url}/api/v1/executions", params={"filters": _UNFINISHED, "limit": "1"}, timeout=20
        )
        return (answer.status_code == 200 and not answer.json()["executions"]) or now() > deadline

    wait_until(is_settled, 2 * _SETTLING_SECONDS, 0.1)


def _read_all(system: System, recorder: Recorder, created: dict[str, str]) -> None:
    """Read every execution and every revision."""
    client = Client(name=FINAL, url=lambda: system.url, recorder=recorder, timeout=(10, 60))
    for name in created:
        read = client.get(name)
        if read.is_done:
            client.events(name, read.answer["token"])
            client.log(name, read.answer["token"])
    head = client.watch(0, 0).answer["revision"]
    for number in range(1, head + 1):
        client.revision(number)
