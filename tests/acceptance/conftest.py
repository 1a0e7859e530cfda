"""What tests of whole programs share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.admins import RunningAdmin
from tests.support.agent_processes import Site, engine_settings, running_site


@pytest.fixture(params=["local", "slurm"])
def site(request: pytest.FixtureRequest, admin: RunningAdmin, tmp_path: Path) -> Iterator[Site]:
    """A cluster of each engine."""
    with running_site(admin, tmp_path, **engine_settings(request.param, request)) as site:
        yield site
