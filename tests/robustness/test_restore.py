"""A real backup, restored while a real agent goes on with jobs that the backup knows and does not know."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.admins import RunningAdmin, running_admin
from tests.support.agent_processes import running_site, wire_to, write_admin_configuration
from tests.support.backups import back_up, restore
from tests.support.programs import run
from tests.support.waiting import wait_until


def warnings(admin: RunningAdmin) -> dict[str, str]:
    listed: list[dict[str, Any]] = admin.get("/api/v1/warnings").json()["warnings"]
    return {warning["code"]: warning["message"] for warning in listed}


def is_alive(pid_file: Path) -> bool:
    return Path("/proc", pid_file.read_text().strip()).exists()


def test_jobs_go_on_when_an_older_database_is_restored(tmp_path: Path) -> None:
    configuration = write_admin_configuration(tmp_path, leaseSeconds=60, waitSeconds=1)
    database = f"sqlite:///{tmp_path / 'rainbow.db'}"
    goes_on = tmp_path / "goes-on"

    def job(pid_file: str) -> tuple[str, str, str]:
        return "sh", "-c", f"echo $$ > {tmp_path / pid_file}; until [ -e {goes_on} ]; do sleep 0.05; done"

    with ExitStack() as stack:
        first = stack.enter_context(running_admin(tmp_path, "--config", str(configuration)))
        wire = stack.enter_context(wire_to(first))
        site = stack.enter_context(running_site(first, tmp_path / "site", endpoint=wire.url, slots=4))
        site.start()
        site.create("known", *job("known.pid"))
        site.running("known")
        backup = back_up(database, tmp_path)
        site.create("unknown", *job("unknown.pid"))
        site.running("unknown")
        assert first.stop() == 0
        restore(database, backup)
        second = stack.enter_context(running_admin(tmp_path, "--config", str(configuration)))
        wire.connect_to(second.url)
        site.admin = second
        wait_until(lambda: "unknown_work" in warnings(second), explain=lambda: second.log.read_text())
        assert "flytesnacks/development/unknown (attempt 1)" in warnings(second)["unknown_work"]
        assert "the database was restored from a backup" in second.log.read_text()
        listed = run("rainbowctl", "get", "warnings", "--endpoint", second.url).stdout
        assert f"rainbowctl delete reconciliation {site.cluster}".encode() in listed
        assert site.phase("known") == "RUNNING"
        assert is_alive(tmp_path / "known.pid")
        assert is_alive(tmp_path / "unknown.pid")
        done = run("rainbow-admin", "reconcile", "--database", database, site.cluster, "other", cwd=tmp_path)
        assert (done.returncode, done.stdout.decode()) == (0, f"reconciled {site.cluster}\n")
        assert done.stderr.decode() == "nothing to reconcile: other\n"
        wait_until(lambda: not is_alive(tmp_path / "unknown.pid"), explain=lambda: site.log)
        assert warnings(second) == {}
        assert is_alive(tmp_path / "known.pid")
        goes_on.touch()
        assert site.ended("known")["closure"]["phase"] == "SUCCEEDED"
        assert site.get("known")["attempt"] == 1


def test_reconcile_wants_names_or_all(tmp_path: Path) -> None:
    for arguments in ((), ("east", "--all")):
        done = run("rainbow-admin", "reconcile", *arguments, cwd=tmp_path, env=dict(os.environ))
        assert done.returncode == 2
        assert b"Name the clusters that count as reconciled, or say --all." in done.stderr
