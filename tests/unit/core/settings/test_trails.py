"""Where a value was set, in words."""

from __future__ import annotations

from datetime import UTC, datetime

from admin.core.settings.trails import describe_origin

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
ORIGIN = {"level": "domain", "domain": "production", "version": 14}


def test_a_field_whose_revision_is_not_known_was_set_by_the_last_one_of_its_row_or_an_earlier_one() -> None:
    shown = describe_origin({**ORIGIN, "set_before": 15}, {}, NOW)
    assert shown == "at domain production (revision 14, which is no longer kept, or an earlier one)"
    shown = describe_origin({**ORIGIN, "set_before": 9}, {}, NOW)
    assert shown.startswith("at domain production (before revision 9; its row was changed last by revision 14")
