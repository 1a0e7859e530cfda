"""Every route for each role on PostgreSQL; on SQLite it is among the quicker tests."""

from __future__ import annotations

import pytest

from tests.integration.test_permissions import ROWS, Callers, callers, check_each_role

__all__ = ["callers"]  # the fixture


@pytest.mark.parametrize("shared_app", ["postgresql"], indirect=True)
@pytest.mark.parametrize("id", ROWS)
def test_each_role_at_its_own_scope_and_at_another_on_postgresql(callers: Callers, id: str) -> None:
    check_each_role(callers, id)
