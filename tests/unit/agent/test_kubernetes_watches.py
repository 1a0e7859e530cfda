from __future__ import annotations

import threading
from pathlib import Path

import pytest
import yaml

from agent.engines.base import EngineUnavailable
from agent.engines.kubernetes import watches
from agent.engines.kubernetes.api import Api
from agent.engines.kubernetes.watches import Loop, Watch
from tests.support.ports import free_port


class Listing(threading.Event):
    """Never ends, and notes how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return False


def test_an_api_server_that_does_not_answer_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "test", "user": {"token": "x"}}],
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    now = 100.0
    monkeypatch.setattr(watches, "monotonic", lambda: now)
    api = Api(str(kubeconfig))
    loop = Loop(api)
    watch = Watch(loop, "/api/v1/pods")
    watch._listed = listing = Listing()
    for now in (100.0, 106.0, 500.0):  # noqa: B007 - the clock
        with pytest.raises(EngineUnavailable, match="does not answer"):
            watch.wait(10)
    assert listing.waits == [10.0, 4.0, 0.0]
    loop.close()
    api.close()
