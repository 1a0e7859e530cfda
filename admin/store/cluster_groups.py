"""Groups of clusters."""

from __future__ import annotations

from sqlalchemy import Connection

from admin.store.named_payloads import NamedPayloads, StoredPayload

#: By name.
CLUSTER_GROUPS = NamedPayloads("cluster_groups", StoredPayload)


def members(connection: Connection) -> dict[str, list[str]]:
    """The clusters of every group."""
    return {stored.name: stored.payload.get("clusters", []) for stored in CLUSTER_GROUPS.every(connection)}
