"""What messages about obstacles say to those who may not use a cluster."""

from __future__ import annotations

import pytest

from admin.core.placement.obstacles import without_clusters


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Cluster 'known' is cordoned.", "Cluster 'known' is cordoned."),
        ("Cluster 'x' is cordoned.", "A cluster you may not use is cordoned."),
        ("It waits for cluster 'x' or 'known'.", "It waits for a cluster you may not use or 'known'."),
        ("No cluster of pool 'p' is able: 'x' is full.", "No cluster of pool 'p' is able: 1 cluster you may not use."),
        (
            "No cluster of pool 'p' is able: 'x' is full, 'known' is lost, 'y' is full.",
            "No cluster of pool 'p' is able: 'known' is lost, 2 clusters you may not use.",
        ),
        (
            "No cluster of pool 'p' is able: 'x' is lost, since 9:00; 'known' is full.",
            "No cluster of pool 'p' is able: 'known' is full; 1 cluster you may not use.",
        ),
        (
            "No cluster of pool 'p' is able: 'x' rule 1: min(9, price) > 9 is false.",
            "No cluster of pool 'p' is able: 1 cluster you may not use.",
        ),
        (
            "No cluster of pool 'p' is able: 'x' rule 1: zone == 'a; b' is false; 'known' is full.",
            "No cluster of pool 'p' is able: 'known' is full; 1 cluster you may not use.",
        ),
    ],
)
def test_clusters_that_the_reader_may_not_use_are_not_named(message: str, told: str) -> None:
    assert without_clusters(message, ["x", "y"]) == told
