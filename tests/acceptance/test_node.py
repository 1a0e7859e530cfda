"""An agent and its jobs on one node: what a job can reach of the agent, and what an agent of root's refuses."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import yaml

from tests.support.admins import RunningAdmin
from tests.support.agent_processes import DOMAIN, PROJECT, Site, admin_of_agents, running_site

#: A user of its own could not use the interpreter of some machines: this is root without any of root's rights.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAdmin]:
    with admin_of_agents(tmp_path_factory.mktemp("admin"), waitSeconds=2) as admin:
        yield admin


@pytest.fixture
def site(admin: RunningAdmin, tmp_path: Path) -> Iterator[Site]:
    with running_site(admin, tmp_path / "site") as site:
        yield site


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must say as whom jobs run")
def test_an_agent_of_roots_must_be_told_as_whom_jobs_run(site: Site) -> None:
    file = site.directory / "agent.yaml"
    document = yaml.safe_load(file.read_text())
    del document["runAs"]
    file.write_text(yaml.safe_dump(document))
    done = site.call("run", "--once")
    assert done.returncode == 1
    assert "runAs: the agent runs as root, and so would every job" in done.stderr
    assert "--run-as USER" in done.stderr
    assert site.call("run", "--once", "--run-as", "root").returncode == 0
    done = site.call("run", "--once", "--run-as", "no-such-user")
    assert (done.returncode, "runAs: there is no user 'no-such-user'" in done.stderr) == (1, True)


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="needs setpriv")
def test_a_job_of_the_same_user_reads_neither_memory_nor_environment_of_what_watches_it(site: Site) -> None:
    prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
    command = [*prefix, *site.command("run", "--config", str(site.directory / "agent.yaml"))]
    environment = site.variables(RAINBOW_REGISTRATION_SECRET="hush")
    with (site.directory / "agent.log").open("ab") as log:
        agent = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        script = f"""
        keeper=$(cut -d' ' -f4 /proc/$PPID/stat)
        for pid in $$ $PPID $keeper {agent.pid}; do
          for file in environ maps; do cat /proc/$pid/$file > /dev/null 2>&1 && echo read $file of $pid; done
        done
        echo $$
        """
        name = f"{site.cluster}-peek"
        site.create(name, "sh", "-c", script)
        assert site.ended(name)["closure"]["phase"] == "SUCCEEDED"
        *lines, own = site.printed(name)["data"].splitlines()
        assert lines == [f"read environ of {own}", f"read maps of {own}"]
    finally:
        agent.terminate()
        agent.wait()


def test_the_token_can_come_from_a_pipe_so_that_no_file_holds_it(site: Site) -> None:
    token = (site.state / "token").read_text()
    (site.state / "token").unlink()
    command = [
        *site.command("run", "--once", "--token-file", "/dev/stdin"),
        "--config",
        str(site.directory / "agent.yaml"),
    ]
    done = subprocess.run(command, env=site.variables(), input=token, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_job_that_prints_without_end_does_not_delay_its_neighbour_and_can_be_cancelled(
    admin: RunningAdmin, tmp_path: Path
) -> None:
    with running_site(admin, tmp_path / "loud", engine_options={"logLimitBytes": 200_000}) as site:
        site.start()
        loud, neighbour = f"{site.cluster}-loud", f"{site.cluster}-neighbour"
        site.create(loud, "sh", "-c", "yes & exec yes >&2")
        site.running(loud)
        site.create(neighbour, "echo", "hello")
        assert site.ended(neighbour)["closure"]["phase"] == "SUCCEEDED"
        assert site.printed(neighbour)["data"] == "hello\n"
        site.cancel(loud)
        assert site.ended(loud)["closure"]["phase"] == "ABORTED"
        first = site.printed(loud)
        assert first["data"] == "y\n" * 25_000
        rest = site.get(loud, "/logs", offset=first["next_offset"], limit=2**20)
        assert "bytes are missing here" in rest["data"]
        assert rest["data"].endswith("y\ny\n")
        assert sum(file.stat().st_size for file in site.state.glob("jobs/*/std*")) < 500_000


def test_a_cause_with_line_breaks_forges_no_line_of_an_agents_log(site: Site) -> None:
    name = f"{site.cluster}-forger"
    site.start()
    site.create(name, "sleep", "600")
    site.running(name)
    path = f"{site.admin.url}/api/v1/executions/{PROJECT}/{DOMAIN}/{name}"
    assert requests.delete(path, json={"cause": "enough\n12:00:00 ERROR   forged"}, timeout=60).status_code == 200
    assert site.ended(name)["closure"]["phase"] == "ABORTED"
    assert "enough\\n12:00:00 ERROR   forged" in site.log
    assert not any(line.startswith("12:00:00 ERROR   forged") for line in site.log.splitlines())
