"""Revisions as flags take them."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest

from ctl.cli.options import at_option
from ctl.cli.revisions import RevisionTime, revision_or_time
from ctl.client.errors import InvalidInput


def read(text: str) -> int | RevisionTime | None:
    return revision_or_time(click.Context(click.Command("explain")), at_option("As of this revision."), text)


def test_a_revision_is_a_number_or_a_time_until_now() -> None:
    assert read("12") == 12
    assert read("2026-03-01T12:00") == RevisionTime("--at", "2026-03-01T12:00:00Z")
    assert isinstance(read(datetime.now(UTC).strftime("%Y-%m-%d")), RevisionTime)  # today


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("9000-01-01", "--at 9000-01-01 lies in the future"),
        ("9000-01-01T12:00", "--at 9000-01-01T12:00 lies in the future"),
        ("9999999999y", "--at 9999999999y is too long ago"),
    ],
)
def test_a_time_that_cannot_be_is_refused_and_says_why(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read(text)


def test_anything_else_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="is neither the number of a revision"):
        read("yesterday")
