from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.engines.base import EngineUnavailable
from agent.engines.kubernetes import watches
from agent.engines.kubernetes.api import Api
from agent.engines.kubernetes.options import read_options
from agent.engines.kubernetes.watches import Loop, Watch
from agent.engines.kubernetes.watching import Watching
from tests.support.ports import free_port


class Listing(threading.Event):
    """Never ends, and notes how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return False


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """Of a server that does not answer."""
    document = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "test", "user": {"token": "x"}}],
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    api = Api(str(kubeconfig))
    yield api
    api.close()


def test_an_api_server_that_does_not_answer_is_waited_for_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(watches, "monotonic", lambda: now)
    loop = Loop(api)
    watch = Watch(loop, "/api/v1/pods")
    watch._listed = listing = Listing()
    for now in (100.0, 106.0, 500.0):  # noqa: B007 - the clock
        with pytest.raises(EngineUnavailable, match="does not answer"):
            watch.wait(10)
    assert listing.waits == [10.0, 4.0, 0.0]
    loop.close()


def job(version: int) -> dict[str, Any]:
    metadata = {"namespace": "p-d", "name": "rb-1", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {}, "status": {}}


def test_a_change_is_counted_only_when_it_can_be_seen(api: Api, tmp_path: Path) -> None:
    watching = Watching(api, tmp_path, read_options({}))
    counted: list[int] = []

    def keep(item: dict[str, Any]) -> dict[str, Any]:
        counted.append(watching.jobs.changes)
        watching.job("rb-1")  # the agent's own thread may look at any moment
        return item

    try:
        watching.jobs._keep = keep
        for version, kind in enumerate(("ADDED", "MODIFIED"), start=1):
            watching.jobs._take({"type": kind, "object": job(version)})
            assert watching.job("rb-1") == job(version)
        watching.jobs.put(job(3))
        assert watching.job("rb-1") == job(3)
        watching.jobs._take({"type": "DELETED", "object": job(4)})
        assert watching.job("rb-1") is None
        assert counted == [0, 1, 2, 3]
    finally:
        watching.loop.close()
