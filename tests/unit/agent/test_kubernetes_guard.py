"""Names of Lease objects, and clusters whose names give the same one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent.engines.kubernetes import names
from agent.engines.kubernetes.guard import JANITOR_SECONDS, LeaseObject, Observer, lease_name
from agent.testing import FakeClock


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


class RenewedLease:
    """An API server with the Lease of the cluster foo, which is renewed each time that it is read."""

    def __init__(self) -> None:
        self._reads = 0

    def get(self, path: str) -> Any:
        self._reads += 1
        spec = {"holderIdentity": "its-agent", "leaseDurationSeconds": 30, "renewTime": f"time {self._reads}"}
        return {"metadata": {"name": "rainbow-agent-foo", "labels": {names.CLUSTER: "foo"}}, "spec": spec}


@pytest.mark.parametrize(("cluster", "is_over"), [("foo", False), ("Foo", True)])
def test_renewals_by_the_agent_of_another_cluster_do_not_count(cluster: str, is_over: bool) -> None:
    api: Any = RenewedLease()
    clock = FakeClock()
    observer = Observer(LeaseObject(api, "rainbow", "agent", cluster, ""), clock)
    assert not observer.is_over()
    clock.sleep(JANITOR_SECONDS + 1)
    assert observer.is_over() == is_over
