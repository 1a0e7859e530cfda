"""Pages of the timeline on PostgreSQL with each bound on what is looked at; a quicker test has SQLite."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.integration.test_timeline import check_pages_with_ends, ended_once

__all__ = ["ended_once"]  # the fixture


@pytest.mark.parametrize("shared_app", ["postgresql"], indirect=True)
@pytest.mark.parametrize("most_sorted", [0, 100])
@pytest.mark.parametrize("examined", [1, 2, 100])
def test_pages_with_ends_of_executions_join_without_gaps(
    ended_once: FlaskClient, monkeypatch: pytest.MonkeyPatch, examined: int, most_sorted: int
) -> None:
    check_pages_with_ends(ended_once, monkeypatch, examined, most_sorted)
