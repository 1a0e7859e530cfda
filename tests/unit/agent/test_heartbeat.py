from __future__ import annotations

import os
from pathlib import Path

from agent.heartbeat import Heartbeat
from agent.testing import FakeClock


def test_a_file_is_touched_every_few_seconds(tmp_path: Path) -> None:
    path, clock = tmp_path / "heartbeat", FakeClock()
    heartbeat = Heartbeat(str(path), clock)
    heartbeat.beat()
    os.utime(path, (0, 0))
    heartbeat.beat()
    assert path.stat().st_mtime == 0
    clock.advance(5)
    heartbeat.beat()
    assert path.stat().st_mtime > 0


def test_a_directory_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    Heartbeat(str(tmp_path / "gone" / "heartbeat"), FakeClock()).beat()
    Heartbeat(None, FakeClock()).beat()
