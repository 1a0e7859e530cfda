"""The Leases by which Jobs end without their agent.

An agent that has guarded Jobs renews one Lease for all of them, for as long as the shortest of their own leases. A
janitor, which is another process, ends the guarded Jobs of a Lease that was not renewed for its duration, by its own
clock and by how often it has seen the Lease change. It renews a Lease of its own, without which an agent takes no Job
that must be guarded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent.clocks import Clock
from agent.engines.base import EngineUnavailable, NothingDone
from agent.engines.kubernetes import names
from agent.engines.kubernetes.api import Api, Refusal

#: How long a janitor may be silent.
JANITOR_SECONDS = 15
_FRESH_SECONDS = 5.0
#: How long an agent that was just started waits for a janitor.
_NEW_SECONDS = 30.0
#: What Kubernetes takes in the name of a Lease.
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def lease_name(role: str, cluster: str) -> str:
    """The name of the Lease of an agent or a janitor."""
    label = names.cluster_label(cluster).lower().replace("_", "-")
    return f"rainbow-{role}-{label if _SUBDOMAIN.fullmatch(label) else names.digest(cluster)}"


class LeaseObject:
    """A Lease of ours."""

    def __init__(self, api: Api, namespace: str, role: str, cluster: str, holder: str) -> None:
        self._api = api
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self.name = lease_name(role, cluster)
        self._holder = holder
        self._labels = {names.MANAGED_BY: names.AGENT, names.CLUSTER: names.cluster_label(cluster)}
        self._is_checked = False  #: whether it is there, and this cluster's

    def read(self) -> dict[str, Any] | None:
        """The Lease; None where there is none."""
        try:
            return self._api.get(f"{self._path}/{self.name}")
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise EngineUnavailable(f"the Lease {self.name} cannot be read: {refusal}") from refusal

    def read_own(self) -> dict[str, Any] | None:
        """The Lease; None where there is none, or another cluster's."""
        lease = self.read()
        return lease if lease is not None and self._is_ours(lease) else None

    def seconds_since_renewal(self) -> float | None:
        """How long ago it was written last, both times by the API server's clock; None where there is none of ours."""
        try:
            lease, now = self._api.get_with_time(f"{self._path}/{self.name}")
        except Refusal as refusal:
            if refusal.status == 404:
                return None
            raise EngineUnavailable(f"the Lease {self.name} cannot be read: {refusal}") from refusal
        if not self._is_ours(lease):
            return None
        # The API server notes when a manager has last changed a field.
        times = [entry["time"] for entry in lease["metadata"].get("managedFields", ()) if "time" in entry]
        written = max(times, default=lease["metadata"]["creationTimestamp"])
        return (now - datetime.fromisoformat(written)).total_seconds()

    def renew(self, seconds: float) -> None:
        """Let it last for so many seconds from now."""
        if not self._is_checked and (lease := self.read()) is not None and not self._is_ours(lease):
            raise NothingDone(
                f"the Lease {self.name} belongs to another cluster ({names.CLUSTER}="
                f"{names.label(lease, names.CLUSTER)}): set engineOptions.leaseNamespace of one of them"
            )
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = {"holderIdentity": self._holder, "leaseDurationSeconds": max(1, math.ceil(seconds)), "renewTime": now}
        try:
            self._api.patch(f"{self._path}/{self.name}", {"spec": spec})
        except Refusal as refusal:
            if refusal.status != 404:
                raise EngineUnavailable(f"the Lease {self.name} cannot be renewed: {refusal}") from refusal
            self._create(spec)
        self._is_checked = True

    def _is_ours(self, lease: Mapping[str, Any]) -> bool:
        """Whether a Lease is this cluster's: names of Leases have no capitals and no '_', which clusters may have."""
        return names.label(lease, names.CLUSTER) == self._labels[names.CLUSTER]

    def _create(self, spec: Mapping[str, Any]) -> None:
        metadata = {"name": self.name, "namespace": self._namespace, "labels": self._labels}
        document = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        try:
            self._api.create(self._path, document)
        except Refusal as refusal:
            raise EngineUnavailable(f"the Lease {self.name} cannot be created: {refusal}") from refusal


class Observer:
    """Tells whether a Lease is renewed, without comparing the clocks of two machines."""

    def __init__(self, lease: LeaseObject, clock: Clock) -> None:
        self._lease = lease
        self._clock = clock
        self._seen: tuple[Any, float] | None = None

    def is_over(self) -> bool:
        """Whether it was seen unchanged for as long as it lasts; one that is not there was never renewed."""
        document = self._lease.read_own()
        spec = (document or {}).get("spec", {})
        version, now = (spec.get("holderIdentity"), spec.get("renewTime")), self._clock.steady()
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
        seconds = spec.get("leaseDurationSeconds", JANITOR_SECONDS)
        return now - self._seen[1] > float(seconds)


class AgentLease:
    """The Lease of an agent, and until when each of its guarded Jobs may go on."""

    def __init__(self, lease: LeaseObject, janitor: LeaseObject, clock: Clock) -> None:
        self._lease = lease
        self._janitor = janitor
        self._clock = clock
        self._until: dict[str, float] = {}
        self._renewed_at = -math.inf
        self._lasts = 0.0
        self._janitor_seen: tuple[float, bool] | None = None
        self._begun_at = clock.steady()

    @property
    def is_new(self) -> bool:
        """Whether this agent has run for less time than a janitor takes to be noticed."""
        return self._clock.steady() - self._begun_at < _NEW_SECONDS

    def guard(self, key: str, seconds: float) -> None:
        """Let a Job go on for so many seconds, and the Lease with it."""
        self._until[key] = self._clock.steady() + seconds
        self._renew()

    def set(self, key: str, seconds: float) -> None:
        """Let a guarded Job go on for so many seconds; the Lease is renewed when that is due."""
        self._until[key] = self._clock.steady() + seconds

    def renew_if_due(self) -> None:
        """Renew the Lease when a third of it is over."""
        if self._until and self._clock.steady() - self._renewed_at > self._lasts / 3:
            self._renew()

    def _renew(self) -> None:
        now = self._clock.steady()
        left = [until - now for until in self._until.values() if until > now]
        if left:
            self._lease.renew(min(left))
            self._renewed_at, self._lasts = now, min(left)

    def forget(self, key: str) -> None:
        """Note that a Job needs no guard any more."""
        self._until.pop(key, None)

    def expired(self) -> list[str]:
        """The guarded Jobs whose own lease is over."""
        now = self._clock.steady()
        return [key for key, until in self._until.items() if until <= now]

    def has_janitor(self) -> bool:
        """Whether a janitor has renewed its Lease of late, by the clock of the API server."""
        now = self._clock.steady()
        if self._janitor_seen is None or now - self._janitor_seen[0] > _FRESH_SECONDS:
            age = self._janitor.seconds_since_renewal()
            self._janitor_seen = (now, age is not None and age < 4 * JANITOR_SECONDS)
        return self._janitor_seen[1]
