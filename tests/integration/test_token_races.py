"""Many calls of threads and processes at the same pools: no bound is exceeded, and nothing is left in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Scale
from tests.support.token_races import contested_place, race


@pytest.mark.parametrize(("kind", "calls"), [("sqlite", 20_000), ("redis", 20_000), ("postgresql", 5_000)])
def test_threads_and_processes_never_exceed_a_bound_and_leave_nothing(
    kind: str, calls: int, request: pytest.FixtureRequest, tmp_path: Path, scale: Scale
) -> None:
    """On PostgreSQL a call takes twice the processor; as many as elsewhere are among the slower tests."""
    race(contested_place(kind, request, tmp_path), tmp_path, scale(calls, full=1_000_000))
