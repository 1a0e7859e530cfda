"""The tables of the fleet: definitions, states and events of clusters, and the generation."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Index, LargeBinary, Table, Text, false, text, true

from admin.core.fleet.clusters import REPORTED
from admin.store.database import RowId, UtcDateTime, head_table, metadata
from admin.store.keys import index_requests

#: The fleet's generation. A decision locks its row shared, so that the fleet stays the same.
fleet_head = head_table("fleet_head")


fleet_definitions = Table(
    "fleet_definitions",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("payload", JSON, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", UtcDateTime),  # NULL, as the author, where its revision was pruned before these were kept
    Column("updated_by", Text),
    Column("claimed_by", Text),
)


cluster_states = Table(
    "cluster_states",
    metadata,
    Column("name", Text, primary_key=True),
    Column("enabled", Boolean),
    Column("cordoned", Boolean, nullable=False),
    Column("cordon_reason", Text),
    Column("report", JSON, nullable=False),
    Column("reported_at", UtcDateTime),
    Column("health", Text, nullable=False, server_default="expected"),
    Column("admitted", Boolean, nullable=False, server_default=true()),
    Column("draining", Boolean, nullable=False, server_default=false()),
    Column("drain_deadline", UtcDateTime),
    Column("last_sync_at", UtcDateTime),
    Column("agent", Text),
    Column("agent_instance", Text, nullable=False, server_default=""),
    Column("agent_host", Text, nullable=False, server_default=""),
    Column("agent_since", UtcDateTime),
    Column("can_bid", Boolean, nullable=False, server_default=false()),  # its agent answers questions for bids
    Column("syncs", BigInteger, nullable=False, server_default="0"),
    Column("ending", JSON, nullable=False, server_default="[]"),  # what the agent was told to end, and still has
    Column("asked", JSON, nullable=False, server_default="{}"),  # the open questions for bids that its agent was told
    Column("description", Text),  # the digest of the description in force
)


#: The revisions of each cluster's description; one without a document says that it was removed.
cluster_descriptions = Table(
    "cluster_descriptions",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3 … for each cluster
    Column("at", UtcDateTime, nullable=False),
    Column("author", Text, nullable=False),
    Column("claimed_by", Text),
    Column("proof", Text),  # how the author was proven
    Column("message", Text),
    Column("by_agent", Boolean, nullable=False),  # an agent replaces only what an agent sent
    Column("digest", Text),
    Column("inventory", JSON(none_as_null=True)),  # how much there is of each type
    Column("document", LargeBinary),  # as it was sent, compressed
    Column("folded", LargeBinary),  # each different part once, compressed
    Index("ix_cluster_descriptions_digest", "digest"),
)


cluster_events = Table(
    "cluster_events",
    metadata,
    Column("number", RowId, primary_key=True, autoincrement=True),
    Column("cluster", Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("type", Text, nullable=False),
    Column("reason", Text),
    Column("claimed_by", Text),
    Column("proven_author", Text),  # NULL for nobody known
    Column("proof", Text),  # how the author was proven
    Column("deadline", UtcDateTime),  # of a drain
    Column("revision", BigInteger),  # that deleted it
    Column("request_id", Text),  # of an operator
    Column("moves", JSON(none_as_null=True)),  # of a round that somebody asked for: what its next step adds to
    Index("ix_cluster_events_cluster_number", "cluster", "number"),
    Index("ix_cluster_events_cluster_type_number", "cluster", "type", "number"),
)
index_requests(cluster_events, cluster_events.c.number)


#: The clusters that executions left or came to in a round of new decisions, by the event that tells of it.
moved_clusters = Table(
    "moved_clusters",
    metadata,
    Column("event", RowId, primary_key=True, autoincrement=False),
    Column("cluster", Text, primary_key=True),
    Index("ix_moved_clusters_cluster", "cluster", "event"),
)


#: What the timeline shows is found among the many reports by this index.
NO_REPORT = f"type <> '{REPORTED}'"


Index(
    "ix_cluster_events_no_report",
    cluster_events.c.number,
    postgresql_where=text(NO_REPORT),
    sqlite_where=text(NO_REPORT),
)
