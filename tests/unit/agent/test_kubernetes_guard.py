"""The names of Leases, which are stricter than those of clusters."""

from __future__ import annotations

import re

import pytest

from agent.engines.kubernetes.guard import lease_name


@pytest.mark.parametrize(
    ("cluster", "name"),
    [
        ("alpha", "rainbow-agent-alpha"),
        ("gke_Project.zone_1", "rainbow-agent-gke-project.zone-1"),
        ("a..b", r"rainbow-agent-[0-9a-f]{20}"),
        ("a._b", r"rainbow-agent-[0-9a-f]{20}"),
        ("x" * 255, r"rainbow-agent-[0-9a-f]{20}"),
        (".", r"rainbow-agent-[0-9a-f]{20}"),
    ],
)
def test_every_cluster_has_a_lease_of_a_name_that_kubernetes_takes(cluster: str, name: str) -> None:
    assert re.fullmatch(name, lease_name("agent", cluster))
