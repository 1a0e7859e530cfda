"""An admin that is away for longer than every lease: what runs goes on, and ends as its processes did."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.conftest import Scale
from tests.robustness.histories.clients import Client
from tests.robustness.histories.jobs import Job
from tests.robustness.histories.records import PROCESSES, read_history
from tests.robustness.histories.runs import check, conclude, recorded_system
from tests.robustness.histories.silences import LOST_SECONDS
from tests.robustness.histories.systems import POOL
from tests.support.waiting import wait_until

CLUSTERS = 2


def test_what_runs_outlives_an_admin_that_is_away(tmp_path: Path, scale: Scale) -> None:
    number, away = scale(8, full=200), scale(LOST_SECONDS + 1, full=600)
    rng, started, pool = random.Random(number), tmp_path / PROCESSES, {"cluster_pool_name": POOL}
    url = f"sqlite:///{tmp_path / 'rainbow.db'}"
    with recorded_system(tmp_path, url, clusters=CLUSTERS, slots=number) as system:
        client = Client(name="client", url=lambda: system.url, recorder=system.recorder)
        names = [f"x{place}" for place in range(number)]
        for name in names:
            # Some end while the admin is away, others later.
            job = Job(token=name, seconds=rng.uniform(0.6, 1.2) * away + number * 0.2, code=rng.choice((0, 0, 3)))
            assert client.create(name, job, tmp_path, "wait", 1, cluster_assignment=pool).is_done
        wait_until(lambda: started.exists() and len(started.read_text().splitlines()) >= number, 300)
        system.kill_admin()
        time.sleep(away)
        system.start_admin()
        conclude(system, names)
    history = read_history(tmp_path)
    check(history, str(tmp_path))
    phases = [read.answer["phase"] for read in history.named("get")]
    assert len(phases) == number
    assert set(phases) == {"SUCCEEDED", "FAILED"}
