"""Many calls of threads and processes at the same pools, on the database that takes longest for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.token_races import contested_place, race


def test_threads_and_processes_never_exceed_a_bound_on_postgresql(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    race(contested_place("postgresql", request, tmp_path), tmp_path, 20_000)
