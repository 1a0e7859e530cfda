"""Histories of random operations under random faults, each of which the model must find possible.

A failure names the seed of its run: `HISTORY_SEED=<seed> pytest tests/robustness/test_histories.py` runs it again.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from tests.conftest import Scale
from tests.robustness.histories import faults
from tests.robustness.histories.runs import Run, check

#: Those that let a run of seconds see much else; the large one has them all.
SHORT = (
    *faults.CRASHES,
    *faults.NETWORK,
    *faults.SECOND_AGENT,
    *faults.DISK,
    *faults.SUPERVISOR,
    *faults.SILENT_AGENTS,
)


def faults_of(scale: Scale) -> tuple[faults.Fault, ...]:
    """The faults of a run; HISTORY_FAULTS names others."""
    if "HISTORY_FAULTS" in os.environ:
        return tuple(getattr(faults, name) for name in os.environ["HISTORY_FAULTS"].split(","))
    return faults.ALL if scale(0, full=1) else SHORT


SEEDS = {"sqlite": "1", "postgresql": "2"}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_history_under_faults_is_possible(
    database: str, tmp_path: Path, scale: Scale, request: pytest.FixtureRequest
) -> None:
    deadline, executions = time.monotonic() + scale(0, full=1800), 0
    seed = os.environ.get("HISTORY_SEED", SEEDS[database])
    while True:
        directory = tmp_path / seed
        directory.mkdir()
        if database == "sqlite":
            url = f"sqlite:///{directory / 'rainbow.db'}"
        else:
            url = request.getfixturevalue("postgresql_databases").empty()
        run = Run(seed=seed, seconds=scale(9, full=60), clients=scale(3, full=12), faults=faults_of(scale))
        history = run.record(directory, url)
        check(history, f"HISTORY_SEED={seed}, recorded in {directory}")
        executions += len({operation.request["token"] for operation in history.named("create")})
        counts = f"{len(history.operations)} operations, {len(history.steps)} steps of processes"
        print(f"seed {seed}: {counts}, {executions} executions so far", flush=True)
        if time.monotonic() >= deadline and executions >= scale(0, full=10_000):
            return
        shutil.rmtree(directory)
        seed = str(random.randrange(10**9))
