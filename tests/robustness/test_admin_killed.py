"""An admin that is killed under load and started again: nothing that it acknowledged is lost, nothing is doubled."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import requests

from tests.support.admins import running_admin
from tests.support.agent_processes import DOMAIN, PROJECT, running_site, wire_to, write_admin_configuration
from tests.support.waiting import wait_until

_AT_LEAST = 10  #: acknowledged before the first admin dies
_AFTER = 5  #: and of the second one


def test_every_execution_that_was_acknowledged_runs_exactly_once(tmp_path: Path) -> None:
    configuration = write_admin_configuration(tmp_path, leaseSeconds=60, waitSeconds=2)
    acknowledged: list[str] = []
    is_over = threading.Event()
    with ExitStack() as stack:
        first = stack.enter_context(running_admin(tmp_path, "--config", str(configuration)))
        wire = stack.enter_context(wire_to(first))
        site = stack.enter_context(running_site(first, tmp_path / "site", endpoint=wire.url, slots=4))
        ran = tmp_path / "ran"
        ran.mkdir()

        def submit(client_number: int) -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                name = f"{site.cluster}-{client_number}-{number}"
                job = {"command": ["sh", "-c", f"echo {name} >> {ran / name}"], "resources": {"requests": {"cpu": "1"}}}
                body = {"project": PROJECT, "domain": DOMAIN, "name": name}
                spec = {"cluster": site.cluster, "job": job}
                try:
                    answer = requests.post(f"{wire.url}/api/v1/executions", json={**body, "spec": spec}, timeout=(1, 2))
                except requests.RequestException:
                    is_over.wait(0.1)
                    continue
                if answer.status_code == 200:
                    acknowledged.append(name)
                is_over.wait(0.05)

        site.start()
        clients = [threading.Thread(target=submit, args=(client_number,)) for client_number in range(2)]
        for client in clients:
            client.start()
        wait_until(lambda: len(acknowledged) >= _AT_LEAST, explain=lambda: "nothing was acknowledged")
        first.process.kill()
        first.process.wait()
        before = len(acknowledged)
        with running_admin(tmp_path, "--config", str(configuration)) as second:
            wire.connect_to(second.url)
            site.admin = second
            wait_until(
                lambda: len(acknowledged) >= before + _AFTER, explain=lambda: "the second admin acknowledges nothing"
            )
            is_over.set()
            for client in clients:
                client.join()
            for name in acknowledged:
                assert site.ended(name)["closure"]["phase"] == "SUCCEEDED"
            for file in ran.iterdir():
                assert file.read_text() == f"{file.name}\n"
            assert {file.name for file in ran.iterdir()} >= set(acknowledged)
