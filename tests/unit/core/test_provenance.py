from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from admin.core.provenance import Provenance, show_name, split_name
from admin.core.times import show_age

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "0s ago"),
        (0.9, "0s ago"),
        (1, "1s ago"),
        (119, "1m59s ago"),
        (7200, "2h ago"),
        (3 * 86400 + 5, "3d ago"),
    ],
)
def test_an_age_is_shown_in_its_largest_unit(seconds: float, expected: str) -> None:
    assert show_age(seconds) == expected


def test_a_name_that_is_only_claimed_stands_beside_the_author() -> None:
    assert show_name("anonymous", "otto") == "anonymous (says otto)"
    assert show_name("ana", None) == "ana"
    assert show_name(*split_name("otto")) == "anonymous (says otto)"
    assert show_name(*split_name("anonymous")) == "anonymous"


def test_a_revision_and_an_event_are_described_with_author_time_and_message() -> None:
    set_by = Provenance(revision=41, author="ana", claimed_by=None, at=NOW - timedelta(days=3), message="cap\nmemory")
    assert set_by.describe(NOW) == "revision 41, ana, 3d ago, 'cap memory'"
    cordoned_by = Provenance(event=7, author="anonymous", claimed_by="otto", at=NOW, message=None)
    assert cordoned_by.describe(NOW) == "event 7, anonymous (says otto), 0s ago"
