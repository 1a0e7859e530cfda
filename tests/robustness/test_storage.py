"""Storage in trouble: a real admin whose disk is full, whose temporary directory goes, and whose database is away."""

from __future__ import annotations

import json
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import requests
import sqlalchemy

from admin.server.respawning import pause_after
from tests.support.admins import RunningAdmin, running_admin
from tests.support.disks import SmallDisk
from tests.support.programs import run
from tests.support.waiting import wait_until

PATH = "/api/v1/project_domain_attributes/flytesnacks/development"
WRITES = "rainbow_attribute_writes_total"


def write(admin: RunningAdmin, value: str) -> requests.Response:
    label = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": value}}}}
    return requests.put(admin.url + PATH, json=label, timeout=30)


def counted_writes(admin: RunningAdmin) -> float:
    lines = admin.get("/metrics").text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(WRITES) and "changed" in line)


def workers_of(admin: RunningAdmin) -> set[str]:
    pid = admin.process.pid
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def assert_counts(admin: RunningAdmin) -> None:
    """Many kinds of answers, which need new counters, at every worker."""
    before, workers = counted_writes(admin), workers_of(admin)
    for number in range(8):
        assert write(admin, f"label-{number}").status_code == 200
        for path in ("/healthz", f"/api/v1/projects/none{number}", "/api/v1/revisions", "/api/v1/clusters", "/nowhere"):
            assert admin.get(path).status_code in (200, 404)
    assert counted_writes(admin) == before + 8
    assert workers_of(admin) == workers


def test_a_temporary_directory_that_fills_up_fails_nothing(tmp_path: Path, small_disk: SmallDisk) -> None:
    with running_admin(tmp_path, environment={"TMPDIR": str(small_disk.path)}, is_cold=True) as admin:
        small_disk.fill()
        assert_counts(admin)


def test_a_removed_temporary_directory_fails_nothing_and_new_workers_start(tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    with running_admin(tmp_path, environment={"TMPDIR": str(place)}, is_cold=True) as admin:
        assert write(admin, "before").status_code == 200
        shutil.rmtree(place)
        assert_counts(admin)
        killed = workers_of(admin)
        totals = counted_writes(admin)
        for pid in killed:
            os.kill(int(pid), signal.SIGKILL)
        wait_until(lambda: len(workers_of(admin) - killed) == len(killed), explain=lambda: admin.log.read_text())
        wait_until(lambda: answers(admin))
        assert counted_writes(admin) == totals, "totals never go back"
        assert_counts(admin)
        assert admin.stop() == 0


def answers(admin: RunningAdmin) -> bool:
    try:
        return admin.get("/readyz").status_code == 200
    except requests.ConnectionError:
        return False


def without_revisions(output: bytes) -> object:
    """The values of an answer, without the revisions that set them, which only the database knows."""

    def without(document: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in document.items() if key not in ("revision", "revisions")}

    return json.loads(output, object_hook=without)["values"]


def test_rainbowctl_warns_of_values_from_memory(tmp_path: Path) -> None:
    with running_admin(tmp_path, environment={"RAINBOW_SERVER_WORKERS": "1"}) as admin:
        assert write(admin, "known").status_code == 200
        scope = ["-p", "flytesnacks", "-d", "development"]
        command = ["--endpoint", admin.url, "explain", "execution-cluster-label", *scope, "-o", "json"]
        current = run("rainbowctl", *command, cwd=tmp_path)
        assert (current.returncode, current.stderr) == (0, b"")
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'rainbow.db'}", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql("ALTER TABLE revision_head RENAME TO elsewhere")
        engine.dispose()

        def is_warned_of() -> bool:  # what was read a moment ago still counts as current
            stale = run("rainbowctl", *command, cwd=tmp_path)
            assert stale.returncode == 0, stale.stderr
            assert without_revisions(stale.stdout) == without_revisions(current.stdout)
            return b"warning: the admin cannot read its database; this is what applied" in stale.stderr

        wait_until(is_warned_of)


def new_workers(admin: RunningAdmin, before: set[str]) -> set[str]:
    return workers_of(admin) - before


def test_a_worker_that_dies_again_and_again_is_replaced_each_time(tmp_path: Path) -> None:
    with running_admin(tmp_path) as admin:
        before = workers_of(admin)
        victim = min(before)
        for _ in range(3):
            os.kill(int(victim), signal.SIGKILL)
            [victim] = wait_until(partial(new_workers, admin, before), explain=lambda: admin.log.read_text())
            before.add(victim)
        assert len(workers_of(admin)) == 2
        pauses = [line.get("in_seconds") for line in map(json.loads, admin.log.read_text().splitlines())]
        assert [pause for pause in pauses if pause is not None] == [0, 1, 2]
        assert answers(admin)
        assert admin.stop() == 0


def test_the_pauses_before_a_worker_is_started_grow_up_to_half_a_minute() -> None:
    assert [pause_after(deaths) for deaths in (1, 2, 3, 4, 7, 1000)] == [0, 1, 2, 4, 30, 30]
