"""Files with the state of a cluster, nested as agents report it or flat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctl.client.errors import InvalidInput
from ctl.client.facts import SCHEMAS
from ctl.files.cluster_states import read_state


def read(tmp_path: Path, text: str) -> dict[str, Any]:
    file = tmp_path / "state.yaml"
    file.write_text(text)
    return read_state(str(file), SCHEMAS["cluster_state"])[1]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (
            '{"cost_per_node_hour": 3, "nodes_free": 20, "memory_per_node": 200}',
            {"free": {"nodes": 20}, "properties": {"cost_per_node_hour": 3, "memory_per_node": 200}},
        ),
        (
            "free: {cpu: 1}\ngpu-free: 2\nproperties: {zone: eu}\nspot: true\nengine: slurm\n",
            {"engine": "slurm", "free": {"cpu": "1", "gpu": "2"}, "properties": {"zone": "eu", "spot": True}},
        ),
    ],
)
def test_what_is_flat_is_free_or_a_property(tmp_path: Path, text: str, state: dict[str, Any]) -> None:
    assert read(tmp_path, text) == state


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("engin: slurm", "engine"),
        ("racks: [1, 2]", "racks"),
        ("racks: [1, 2]", "there is capacity, free, eta"),
        ("racks: [1, 2]", "nodes_free"),
        ("nodes_fre: 4", "unknown key. Did you mean nodes_free?"),
        ("memry-free: [4]", "unknown key. Did you mean memory_free?"),
        ("nodes_free: [4]", "free.nodes"),
        ("limits: {cpu: 4}", "limits"),
        ("nodes_free: many", "nodes"),
        ("nodes_free: 1\nfree: {nodes: 2}", "nodes"),
    ],
)
def test_what_has_no_place_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(tmp_path, text)
    assert reason in str(refusal.value.details)
