"""The admin for tests of other people's programs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from admin.core.problems import Invalid
from admin.testing import admin_app, running_admin
from ctl.client import Client, ExecutionId
from tests.support.waiting import wait_until

FLEET = {"clusters": {"poolNameClusterMap": {"gpu": [{"id": "east"}, {"id": "west"}]}}}


def test_a_client_talks_to_an_admin_of_its_own() -> None:
    for _ in range(2):  # each is new
        with running_admin(FLEET) as url, Client(url) as client:
            assert [execution["id"] for execution in client.executions()] == []
            spec = {"job": {"command": ["true"]}, "cluster_assignment": {"cluster_pool_name": "gpu"}}
            body = {"project": "flytesnacks", "domain": "development", "name": "train", "spec": spec}
            assert client.create_execution(body)["created"] is True


def test_its_background_work_goes_on() -> None:
    with running_admin(FLEET) as url, Client(url) as client:
        for cluster in ("east", "west"):
            client.switch_cluster(cluster, "cordon")
        spec = {"job": {"command": ["true"]}, "cluster_assignment": {"cluster_pool_name": "gpu"}}
        body = {"project": "flytesnacks", "domain": "development", "name": "train", "spec": spec}
        created = client.create_execution(body)
        assert "cluster" not in created["execution"]
        client.switch_cluster("west", "uncordon")
        name = ExecutionId.from_document(created["id"])
        wait_until(lambda: client.execution(name).get("cluster") == "west")


def test_an_app_answers_without_a_server(tmp_path: Path) -> None:
    database = {"url": f"sqlite:///{tmp_path / 'kept.db'}"}
    for is_new in (True, False):
        with admin_app({"database": database}) as app:
            answer = app.test_client().post("/api/v1/projects", json={"project": {"id": "search"}})
            assert (answer.status_code == 200) is is_new


@pytest.mark.slow
def test_the_example_of_the_documentation_runs_as_it_is(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs/client.md"
    _, example = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    file = tmp_path / "test_train.py"
    file.write_text(example)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mistake_in_the_configuration_is_named() -> None:
    with pytest.raises(Invalid, match="colour"), admin_app({"server": {"colour": "blue"}}):
        pass
