"""Many threads and processes at the same pools: no bound is exceeded, and nothing is left in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.token_races import contested_place, race


@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "redis"])
def test_threads_and_processes_never_exceed_a_bound_and_leave_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Ten times as many calls are among the slower tests."""
    race(contested_place(kind, request, tmp_path), tmp_path, 20_000)
