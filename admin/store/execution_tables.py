"""The tables of executions and their events, and the indexes that queries follow."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

from admin.store.database import RowId, UtcDateTime, metadata
from admin.store.sql_types import AnyColumn

#: The resources that an execution demands, each a column of its own.
DEMANDS = ("cpu", "memory", "gpu", "ephemeral_storage", "nodes")

executions = Table(
    "executions",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("project", Text, nullable=False),
    Column("domain", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("uid", Text, nullable=False, server_default=""),  # random; a name may be used again, "" before it existed
    Column("created_by", Text, nullable=False, server_default=""),  # as the gate knew its caller, "" before it was kept
    Column("claimed_by", Text),  # the name that the caller gave, unverified
    Column("created_use", Text),  # JSON: the clusters that its creator's token was for; NULL for all
    Column("created_proof", Text),  # how the creator was proven; NULL where nobody asked, and of agents
    Column("principal", Text),  # for whom, as the request says
    Column("digest", Text, nullable=False),  # of the request: the same request again creates no second execution
    Column("request", JSON, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("launch_plan", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("launched", JSON, nullable=False),  # the identifiers of workflow and launch plan
    Column("mode", Text, nullable=False),
    Column("reference", JSON(none_as_null=True)),
    Column("phase", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("reason_message", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("route_kind", Text, nullable=False),
    Column("route_name", Text, nullable=False),
    Column("cluster", Text),
    Column("pool", Text),
    Column("label", Text),
    Column("labels", JSON(none_as_null=True)),  # those of its job, by which it is selected
    Column("content", JSON, nullable=False),  # the concrete job and what travels with it to the agent
    Column("required_plugins", JSON, nullable=False),
    *(Column(f"demand_{resource}", BigInteger, nullable=False) for resource in DEMANDS),
    Column("exclusive", Boolean, nullable=False, server_default=false()),  # whether it has its nodes to itself
    Column("asks", Text),  # what it asks of a cluster's graph; NULL of before that was kept
    Column("revision", BigInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("decisions", Integer, nullable=False),
    Column("events", Integer, nullable=False),
    Column("abort_cause", Text),
    Column("abort_principal", Text),  # the claimed name, or the author where none was claimed
    Column("abort_author", Text),  # proven; NULL for nobody known
    Column("abort_proof", Text),  # how the author was proven
    Column("given_up_principal", Text),  # the same of who gave it up, whoever had ended it before
    Column("given_up_author", Text),
    Column("given_up_proof", Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("duration", Float),
    Column("queue_deadline", UtcDateTime),
    Column("tier", Integer, nullable=False, server_default="3"),  # lower first
    Column("priority", Integer, nullable=False, server_default="50"),  # higher first
    Column("not_before", UtcDateTime),  # the back-off of the next attempt
    Column("lease_expires_at", UtcDateTime),  # None where no agent has a lease
    Column("confirmed", Boolean, nullable=False, server_default=false()),  # by its agent, which may have started it
    Column("lease_instance", Text, nullable=False, server_default=""),  # of the agent that holds the lease
    Column("silent_since", UtcDateTime),  # the last sync of its cluster, once that is silent and the lease over
    Column("unstarted", Integer, nullable=False, server_default="0"),  # attempts that never started
    Column("native_id", Text),
    Column("nodes", JSON(none_as_null=True)),
    Column("exit_code", Integer),
    Column("avoid", JSON, nullable=False, server_default="[]"),  # clusters that declined it
    Column("last_failure", JSON(none_as_null=True)),  # the record of the attempt that another one follows
    Column("phase_since", UtcDateTime),  # None while it has the phase that it was created in
    Column("limit_scope", Text),  # the scope whose limit ended it; None where none did or that is not known
    Column("unconfirmed", Boolean, nullable=False, server_default=false()),  # it was ended without its agent
    Column("token_pools", Text),  # JSON: how many tokens of which pools it needs while it runs; NULL for none
    Column("token_number", BigInteger),  # of the grant that its attempt holds
    UniqueConstraint("project", "domain", "name"),
)
_columns = executions.c


def _index(name: str, *columns: AnyColumn, where: str | None = None) -> None:
    condition = None if where is None else text(where)
    Index(f"ix_executions_{name}", *columns, postgresql_where=condition, sqlite_where=condition)


#: Lists follow one of these in the order of creation, each page from where the last one ended. No index covers all
#: rows: PostgreSQL would scan it for values that its statistics call frequent, and might not meet one for long.
_created = (_columns.created_at, _columns.id)
_index("active", *_created, where="state = 'ACTIVE'")
_index("archived", *_created, where="state = 'ARCHIVED'")
_index("scope", _columns.project, _columns.domain, *_created)
_index("phase", _columns.phase, *_created)
_index("cluster", _columns.cluster, *_created)
_index("pool", _columns.pool, *_created, where="pool IS NOT NULL")
_index("label", _columns.label, *_created, where="label IS NOT NULL")
_index("workflow", _columns.workflow, *_created, where="workflow <> ''")
_index("launch_plan", _columns.launch_plan, *_created, where="launch_plan <> ''")
_index("limit_scope", _columns.limit_scope, *_created, where="limit_scope <> ''")
#: The timeline follows this one in the order of the ends; creations do not change it.
_index("finished", _columns.finished_at, _columns.id, where="finished_at IS NOT NULL")

#: Waiting and leased executions are found by these partial indexes, which hold no finished ones. A query must repeat
#: their conditions literally, without parameters, for the planner to use them, and its conditions must fit no other
#: index: statistics are too old to say how many executions wait. So the frequent queries test the phase in a form that
#: the index of phases does not match.
IN_QUEUE = "(phase = 'QUEUED') IS TRUE"
_queue = (_columns.cluster, _columns.tier, _columns.priority.desc(), _columns.id)
_index("offered", *_queue, where=f"{IN_QUEUE} AND lease_expires_at IS NULL")
#: How many wait at and below a scope is counted by the places of those that wait alone. The condition has a form of
#: its own, so that no other query is led to this index.
WAITS = "(phase = 'QUEUED' AND lease_expires_at IS NULL) IS TRUE"
_index("waiting", _columns.project, _columns.domain, _columns.workflow, _columns.launch_plan, where=WAITS)
_index("held", _columns.cluster, _columns.id, where="lease_expires_at IS NOT NULL")
_index("unfinished", _columns.phase, _columns.id, where="finished_at IS NULL")
_index("unplaced", _columns.phase, _columns.reason, _columns.id, where="phase = 'QUEUED' AND cluster IS NULL")
_index("deadline", _columns.queue_deadline, where=f"{IN_QUEUE} AND queue_deadline IS NOT NULL")
_index("silent", _columns.silent_since, where="silent_since IS NOT NULL")
_index("needing_tokens", _columns.cluster, _columns.id, where="token_pools IS NOT NULL AND finished_at IS NULL")
_index("backing_off", _columns.cluster, _columns.not_before, where=f"{IN_QUEUE} AND not_before IS NOT NULL")

#: No foreign key, as in decisions: it would look every execution up once more. A transaction that adds an event holds
#: the execution's row, and retention deletes an execution together with its events.
execution_events = Table(
    "execution_events",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("execution_id", RowId, nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("type", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("reason", Text),
    Column("message", Text),
    Column("cluster", Text),
    Column("by", Text),  # the claimed name, or the author where none was claimed
    Column("proven_author", Text),  # NULL for nobody known
    Column("proof", Text),  # how the author was proven
    Column("attempt", JSON(none_as_null=True)),  # the record of the attempt that is over with it
    UniqueConstraint("execution_id", "number"),
)
