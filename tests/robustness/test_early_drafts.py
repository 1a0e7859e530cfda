"""Changes that are drafted before their turn, at the length and with all the interferences that take long."""

from __future__ import annotations

import pytest
from flask import Flask

from admin.services.context import Context
from tests.integration.test_change_commits import (
    INTERFERENCES,
    QUICK,
    compare_dry_runs_with_changes,
    compare_early_drafts_with_dry_runs,
    interfere_with_early_draft,
    prepared,
)
from tests.support.agents import Clock, set_clock

SLOW = [(name, by_another) for name in INTERFERENCES for by_another in (False, True) if (name, by_another) not in QUICK]


@pytest.fixture
def context(app: Flask) -> Context:
    return set_clock(app, Clock())


@pytest.mark.parametrize(("interference", "by_another_admin"), SLOW)
def test_an_early_draft_is_made_again_after_what_it_depends_on_has_changed(
    context: Context, interference: str, by_another_admin: bool
) -> None:
    interfere_with_early_draft(prepared(context), interference, by_another_admin)


def test_early_drafts_and_the_database_judge_alike(context: Context) -> None:
    compare_early_drafts_with_dry_runs(prepared(context), 120, 10)


def test_memory_and_the_database_judge_alike(app: Flask, context: Context) -> None:
    compare_dry_runs_with_changes(app, context, 150)
