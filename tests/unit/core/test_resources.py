"""Resources: amounts, rounded to whole units."""

from __future__ import annotations

from admin.core.resources import parse_capacity


def test_amounts_are_rounded_so_that_no_cluster_is_promised_more_than_it_has() -> None:
    assert parse_capacity({"cpu": "1.0009", "memory": "1.5", "gpu": None}) == {"cpu": 1000, "memory": 1}
