"""Descriptions of clusters as the command line shows them."""

from __future__ import annotations

from admin.core.graph.units import plural
from ctl.files.descriptions import show_types


def test_types_are_counted_in_words_and_memory_in_a_unit_that_people_read() -> None:
    types = {
        "node": {"vertices": 3, "amount": "3"},
        "gpu": {"vertices": 1, "amount": "1"},
        "core": {"vertices": 1, "amount": "500m"},
        "memory": {"vertices": 3, "amount": "74921364Ki"},
        "storage": {"vertices": 1, "amount": "137G"},
    }
    assert show_types(types) == "3 nodes, 1 gpu, 500m cores, 71.5Gi memory, 137G storage"
    assert show_types({"memory": {"vertices": 1, "amount": "64Gi"}}) == "64Gi memory"
    assert show_types(None) == ""


def test_plurals_are_those_of_the_admin() -> None:
    words = ("core", "chassis", "fpga", "switch", "matrix", "mesh", "battery", "tray", "memory")
    several = {word: {"vertices": 2, "amount": "2"} for word in words}
    assert show_types(several) == ", ".join(f"2 {plural(word)}" for word in words)
    assert [plural(word) for word in ("chassis", "switch", "battery", "tray")] == [
        *("chassis", "switches", "batteries", "trays")
    ]
