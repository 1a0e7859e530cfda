"""The fleet, workflows and launch plans, and executions with their decisions, trails and events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TIME = sa.DateTime(timezone=True)
_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _identifier() -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in ("project", "domain", "name", "version")]


def upgrade() -> None:
    with op.batch_alter_table("revision_changes") as changes:
        changes.add_column(sa.Column("name", sa.Text, nullable=False, server_default=""))
    _fleet()
    _registrations()
    _executions()
    op.create_table(
        "loop_leases",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
    )


def _fleet() -> None:
    op.create_table(
        "fleet_head",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.execute(sa.text("INSERT INTO fleet_head (id, number) VALUES (1, 0)"))
    op.create_table(
        "fleet_definitions",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("payload", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "cluster_states",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("enabled", sa.Boolean),
        sa.Column("cordoned", sa.Boolean, nullable=False),
        sa.Column("cordon_reason", sa.Text),
        sa.Column("report", sa.JSON, nullable=False),
        sa.Column("reported_at", _TIME),
    )
    op.create_table(
        "cluster_events",
        sa.Column("number", _ID, primary_key=True, autoincrement=True),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("claimed_by", sa.Text),
    )
    op.create_index("ix_cluster_events_cluster_number", "cluster_events", ["cluster", "number"])


def _registrations() -> None:
    op.create_table(
        "workflows",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        *_identifier(),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.UniqueConstraint("project", "domain", "name", "version", name="uq_workflows_project_domain_name_version"),
    )
    op.create_table(
        "launch_plans",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        *_identifier(),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.UniqueConstraint("project", "domain", "name", "version", name="uq_launch_plans_project_domain_name_version"),
    )


def _executions() -> None:
    op.create_table(
        "trails",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("body", sa.JSON, nullable=False),
    )
    op.create_table(
        "executions",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("launch_plan", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("launched", sa.JSON, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("reference", sa.JSON),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("reason_message", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("route_kind", sa.Text, nullable=False),
        sa.Column("route_name", sa.Text, nullable=False),
        sa.Column("cluster", sa.Text),
        sa.Column("pool", sa.Text),
        sa.Column("label", sa.Text),
        sa.Column("content", sa.JSON, nullable=False),
        sa.Column("required_plugins", sa.JSON, nullable=False),
        *(sa.Column(f"demand_{resource}", sa.BigInteger, nullable=False) for resource in _DEMANDS),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("decisions", sa.Integer, nullable=False),
        sa.Column("events", sa.Integer, nullable=False),
        sa.Column("abort_cause", sa.Text),
        sa.Column("abort_principal", sa.Text),
        sa.Column("created_at", _TIME, nullable=False),
        sa.Column("updated_at", _TIME, nullable=False),
        sa.Column("started_at", _TIME),
        sa.Column("finished_at", _TIME),
        sa.Column("duration", sa.Float),
        sa.Column("queue_deadline", _TIME),
        sa.UniqueConstraint("project", "domain", "name", name="uq_executions_project_domain_name"),
    )
    op.create_index("ix_executions_phase_cluster_id", "executions", ["phase", "cluster", "id"])
    op.create_index("ix_executions_phase_queue_deadline", "executions", ["phase", "queue_deadline"])
    op.create_index("ix_executions_created_at_id", "executions", ["created_at", "id"])
    op.create_table(
        "decisions",
        sa.Column("execution_id", _ID, sa.ForeignKey("executions.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("decided_at", _TIME, nullable=False),
        sa.Column("cluster", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("reason_message", sa.Text, nullable=False),
        sa.Column("because", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("settings_trail", sa.Text, sa.ForeignKey("trails.digest"), nullable=False),
        sa.Column("placement_trail", sa.Text, sa.ForeignKey("trails.digest"), nullable=False),
        sa.Column("scores", sa.JSON),
    )
    op.create_table(
        "execution_events",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("execution_id", _ID, sa.ForeignKey("executions.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("at", _TIME, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("cluster", sa.Text),
        sa.Column("by", sa.Text),
        sa.UniqueConstraint("execution_id", "number", name="uq_execution_events_execution_id_number"),
    )


_DEMANDS = ("cpu", "memory", "gpu", "ephemeral_storage", "nodes")


def downgrade() -> None:
    for table in (
        "loop_leases",
        "execution_events",
        "decisions",
        "executions",
        "trails",
        "launch_plans",
        "workflows",
        "cluster_events",
        "cluster_states",
        "fleet_definitions",
        "fleet_head",
    ):
        op.drop_table(table)
    op.execute(sa.text("DELETE FROM revision_changes WHERE kind IN ('CLUSTER', 'POOL', 'LABEL')"))
    with op.batch_alter_table("revision_changes") as changes:
        changes.drop_column("name")
