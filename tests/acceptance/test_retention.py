"""Pruning with the real rainbow-admin: by hand while an admin works, and by configuration."""

from __future__ import annotations

import getpass
import json
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import requests

from tests.support.admins import RunningAdmin, running_admin
from tests.support.programs import run
from tests.support.waiting import wait_until

EXECUTIONS = "/api/v1/executions"
HERE = f"{EXECUTIONS}/flytesnacks/development"


def create(admin: RunningAdmin, *names: str) -> None:
    for name in names:
        body = {"project": "flytesnacks", "domain": "development", "name": name, "spec": {"job": {"command": ["true"]}}}
        assert requests.post(admin.url + EXECUTIONS, json=body, timeout=60).status_code == 200


def end(admin: RunningAdmin, *names: str) -> None:
    for name in names:
        assert requests.delete(f"{admin.url}{HERE}/{name}", timeout=60).status_code == 200


def names(admin: RunningAdmin) -> set[str]:
    return {execution["id"]["name"] for execution in admin.get(HERE).json()["executions"]}


def prune(directory: Path, *arguments: str, database: str = "rainbow.db") -> subprocess.CompletedProcess[bytes]:
    return run("rainbow-admin", "prune", "--database", f"sqlite:///{directory / database}", *arguments, cwd=directory)


def counts(done: subprocess.CompletedProcess[bytes]) -> dict[str, int]:
    """What was printed, as numbers by their words."""
    assert done.returncode == 0, done.stderr
    rows = (line.rsplit(maxsplit=1) for line in done.stdout.decode().splitlines())
    return {word.strip(): int(number) for word, number in rows}


def test_finished_executions_are_pruned_while_the_admin_works(admin: RunningAdmin, tmp_path: Path) -> None:
    create(admin, "waits", "a", "b", "c", "last")
    end(admin, "a", "b", "c")
    would = counts(prune(tmp_path, "--executions", "1ms", "--dryRun"))
    assert would == {"executions": 2, "decisions": 2, "execution_events": 5, "would be deleted": 9}
    assert names(admin) == {"waits", "a", "b", "c", "last"}
    done = counts(prune(tmp_path, "--executions", "1ms"))
    assert done.pop("deleted") == would.pop("would be deleted")
    assert done == would
    assert names(admin) == {"waits", "c", "last"}  # of c is the last event
    [pruning] = admin.get("/api/v1/timeline?source=pruning").json()["entries"]
    assert (pruning["author"], pruning["claimed_by"]) == ("anonymous", getpass.getuser())
    counted = run("rainbowctl", "get", "execution", "-A", "--by", "phase", "--endpoint", admin.url)
    assert b" are pruned, so they are not counted." in counted.stderr
    document = run("rainbowctl", "get", "execution", "-A", "--by", "phase", "--endpoint", admin.url, "-o", "json")
    assert json.loads(document.stdout)["not_counted"].endswith("Z are pruned, so they are not counted.")
    (tmp_path / "pool.yaml").write_text("kind: pool\nname: p\nmembers: [{id: a}]\n")
    for words, verb in (
        (["get", "execution", "-A", "--since", "24h"], "listed"),
        (["get", "execution", "-A", "-o", "json"], "listed"),
        (["get", "placement-counts", "-A", "--since", "24h"], "counted"),
        (["simulate", "--with", str(tmp_path / "pool.yaml"), "-A", "--since", "24h"], "compared"),
    ):
        shown = run("rainbowctl", *words, "--endpoint", admin.url)
        assert f" are pruned, so they are not {verb}." in " ".join((shown.stdout + shown.stderr).decode().split()), (
            words
        )
    newest = run("rainbowctl", "get", "execution", "-A", "--filter.limit", "1", "--endpoint", admin.url)
    assert b"are pruned" not in newest.stderr, "there are more that are kept"
    answer = admin.get(f"{HERE}/waits/explanation")
    assert (answer.status_code, answer.json()["reason"]["code"]) == (200, "CLUSTER_EXPECTED")
    assert admin.get(f"{HERE}/a").status_code == 404
    create(admin, "a")
    assert counts(prune(tmp_path, "--executions", "1h", "--events", "1h", "--logs", "1h", "--revisions", "1h")) == {
        "deleted": 0
    }


def test_a_history_of_which_a_part_was_pruned_says_so(admin: RunningAdmin, tmp_path: Path) -> None:
    for name in ("first", "second"):
        body = {"project": {"id": name}, "claimed_by": "ana"}
        assert requests.post(f"{admin.url}/api/v1/projects", json=body, timeout=60).status_code == 200
    counts(prune(tmp_path, "--revisions", "1ms"))
    for words in (["--author", "ana"], ["--author", "ana", "-o", "json"], ["--author", "nobody"]):
        history = run("rainbowctl", "history", *words, "--endpoint", admin.url)
        made = b"Revisions made before " if "json" in words else b"Revisions made more than "
        assert made in history.stderr
        assert b" are pruned, so they are not listed." in history.stderr
    newest = run("rainbowctl", "history", "--limit", "1", "--endpoint", admin.url)
    assert b"pruned," not in newest.stderr, "there are more that are kept"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "kept for ever. Set how long to keep it with options such as --executions 90d"),
        (["--dryRun"], 2, "or under retention in the configuration"),
        (["--executions", "90"], 2, "retention.executions: '90' is not an age above zero, such as 90d"),
        (["--revisions", "0d"], 2, "retention.revisions"),
        (["--logs", "1d", "--config", "none.yaml"], 2, "none.yaml"),
        (["--logs", "1d"], 1, "The database is empty"),
    ],
)
def test_what_cannot_be_pruned_is_said(tmp_path: Path, arguments: list[str], status: int, message: str) -> None:
    done = prune(tmp_path, *arguments, database="other.db")
    assert (done.returncode, done.stdout) == (status, b"")
    assert message in " ".join(done.stderr.decode().split())
    assert "Traceback" not in done.stderr.decode()


def test_an_admin_prunes_by_itself_if_it_is_told_to(tmp_path: Path) -> None:
    retention = "retention: {executions: 1s, interval: 100ms}\n"
    (tmp_path / "kept.yaml").write_text(f"{retention}agents: {{leaseSeconds: 1, waitSeconds: 0}}\n")
    with running_admin(tmp_path, "--config", "kept.yaml") as admin:
        create(admin, "waits", "a", "b", "last")
        end(admin, "a", "b")
        wait_until(lambda: names(admin) == {"waits", "b", "last"})
        assert 'rainbow_pruned_rows_total{table="executions"} 1.0' in admin.get("/metrics").text
        wait_until(lambda: "were pruned (retention.executions: 1s)" in admin.get(f"{HERE}/a").json()["message"])
        last = ("flytesnacks/development/b", "--endpoint", admin.url)
        wait_until(lambda: b"its stdout was deleted" in run("rainbowctl", "logs", *last).stderr)
        wait_until(lambda: b"are no longer kept" in run("rainbowctl", "get", "execution-event", *last).stderr)
        wait_until(lambda: '"message": "pruned"' in admin.log.read_text())  # at the end of a round


def test_a_clock_that_has_jumped_is_not_trusted_until_somebody_says_so(admin: RunningAdmin, tmp_path: Path) -> None:
    create(admin, "a", "last")
    end(admin, "a")
    create(admin, "newest")
    with closing(sqlite3.connect(tmp_path / "rainbow.db")) as database, database:
        long_ago = "2020-01-01 00:00:00.000000"
        database.execute("DELETE FROM clock_checks")
        columns = "id, trusted_at, seen_at, steady_seconds"
        database.execute(f"INSERT INTO clock_checks ({columns}) VALUES (1, ?, ?, 0)", (long_ago, long_ago))
    refused = prune(tmp_path, "--executions", "1ms")
    assert refused.returncode == 1
    assert b"but was last trusted at 2020-01-01T00:00:00+00:00: nothing is pruned or given up until" in refused.stderr
    assert b"If it is right, run `rainbowctl accept clock` or `rainbow-admin prune --acceptClock`" in refused.stderr
    assert names(admin) == {"a", "last", "newest"}
    assert counts(prune(tmp_path, "--executions", "1ms", "--dryRun"))["would be deleted"] > 0
    accepted = prune(tmp_path, "--acceptClock")
    assert (accepted.returncode, b"the clock is trusted" in accepted.stdout) == (0, True), accepted.stderr
    assert names(admin) == {"a", "last", "newest"}
    assert counts(prune(tmp_path, "--executions", "1ms"))["executions"] == 1
