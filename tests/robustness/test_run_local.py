"""`make run` beside contexts that somebody has, and what happens when one of its programs ends."""

from __future__ import annotations

import re
from pathlib import Path

import requests
import yaml

from tests.support.local_runs import SECONDS, eventually, is_free, running
from tests.support.ports import free_port


def test_the_contexts_that_somebody_has_are_kept(tmp_path: Path) -> None:
    contexts = tmp_path / ".config/rainbow/config.yaml"
    contexts.parent.mkdir(parents=True)
    contexts.write_text("current_context: work\ncontexts: {work: {endpoint: https://rainbow.example.org}}\n")
    port = free_port()
    with running(tmp_path, port) as local:
        document = yaml.safe_load(contexts.read_text())
        assert document["current_context"] == "work"
        assert document["contexts"]["work"] == {"endpoint": "https://rainbow.example.org"}
        assert document["contexts"][f"make-run-{port}"]["endpoint"] == local.url
        assert f"export RAINBOW_CONTEXT=make-run-{port}" in local.log.read_text()
        assert local.run(f"RAINBOW_CONTEXT=make-run-{port} rainbowctl get cluster local").returncode == 0

    # Contexts that cannot be read do not keep it from running.
    contexts.write_text("contexts: [\n")
    with running(tmp_path, port) as local:
        welcome = local.log.read_text()
        assert "warning: rainbowctl cannot be told of this admin" in welcome
        [export] = re.findall(r"^  (export RAINBOW_ENDPOINT=.*)$", welcome, flags=re.MULTILINE)
        contexts.unlink()
        assert local.run(f"{export}; rainbowctl get cluster local").returncode == 0


def test_neither_goes_on_without_the_other(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port) as local:
        local.process.kill()
        local.process.wait()
        eventually(lambda: is_free(port), local.log)
    with running(tmp_path, port) as local:
        # Another agent takes over: the one here ends, and the admin with it.
        token = (tmp_path / "run/local.token").read_text().strip()
        requests.post(
            f"{local.url}/api/v1/clusters/local/sync",
            json={"agent": "another", "instance": "0123456789abcdef", "sequence": 1, "take_over": True},
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        ).raise_for_status()
        assert local.process.wait(timeout=SECONDS) == 1
        assert "error: rainbow-agent has ended with status 1. The end of" in local.log.read_text()
        assert "Running a first job" not in local.log.read_text(), "it is run where there is none yet"
        assert is_free(port)
