"""Resources: amounts, rounded to whole units."""

from __future__ import annotations

import pytest

from admin.core.quantities import parse_quantity
from admin.core.resources import format_amount, parse_capacity


def test_amounts_are_rounded_so_that_no_cluster_is_promised_more_than_it_has() -> None:
    assert parse_capacity({"cpu": "1.0009", "memory": "1.5", "gpu": None}) == {"cpu": 1000, "memory": 1}


@pytest.mark.parametrize(
    "shown", ["16Gi", "1536Mi", "24105Mi", "1023Ki", "1000Ki", "1000", "17G", "32G", "1500M", "2T", "16000001", "0"]
)
def test_memory_is_shown_in_the_larger_of_the_units_in_which_it_is_a_whole_number(shown: str) -> None:
    """Powers of two or of ten: 32G were shown as 31250000Ki."""
    assert format_amount("memory", int(parse_quantity(shown))) == shown
