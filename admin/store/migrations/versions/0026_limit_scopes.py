"""The scope whose limit ended an execution, filled in for those that have ended, and an index to find them by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

_INDEX = "ix_executions_limit_scope"
#: Executions whose settings are read at once.
_BATCH = 500
#: The levels of scopes by the keys that these have.
_LEVELS = {
    ("domain",): "domain",
    ("project",): "project",
    ("project", "domain"): "project-domain",
    ("project", "domain", "workflow"): "workflow",
    ("project", "domain", "workflow", "launch_plan"): "launch-plan",
}

_executions = sa.table(
    "executions",
    *(sa.column(name) for name in ("id", "phase", "reason", "decisions", "limit_scope")),
    *(sa.column(name, sa.JSON) for name in ("content", "request")),
)
_decisions = sa.table("decisions", *(sa.column(name) for name in ("execution_id", "number", "settings_trail")))
_trails = sa.table("trails", sa.column("digest"), sa.column("body", sa.JSON))


def upgrade() -> None:
    op.add_column("executions", sa.Column("limit_scope", sa.Text))
    connection = op.get_bind()
    columns = _executions.c
    by_job = columns.phase.in_(("FAILED", "TIMED_OUT")) & columns.reason.in_(("TIME_LIMIT", "DEADLINE"))
    connection.execute(sa.update(_executions).where(by_job).values(limit_scope="job"))
    update = sa.update(_executions).where(columns.id == sa.bindparam("row")).values(limit_scope=sa.bindparam("scope"))
    for rows in _limited(connection):
        if scopes := _scopes(connection, rows):
            connection.execute(update, [{"row": id, "scope": scope} for id, scope in scopes.items()])
    condition = sa.text("limit_scope <> ''")
    op.create_index(
        _INDEX,
        "executions",
        ["limit_scope", "created_at", "id"],
        postgresql_where=condition,
        sqlite_where=condition,
    )


def _limited(connection: sa.Connection) -> Iterator[list[Any]]:
    """The executions that a limit of memory or of waiting ended, some at a time."""
    columns = _executions.c
    is_limited = sa.or_(
        (columns.phase == "FAILED") & (columns.reason == "OUT_OF_MEMORY"),
        (columns.phase == "TIMED_OUT") & columns.limit_scope.is_(None),
    )
    is_last = (_decisions.c.execution_id == columns.id) & (_decisions.c.number == columns.decisions)
    trail = _decisions.c.settings_trail
    query = sa.select(columns.id, columns.reason, columns.content, columns.request, trail).join(_decisions, is_last)
    last = 0
    while rows := connection.execute(
        query.where(is_limited, columns.id > last).order_by(columns.id).limit(_BATCH)
    ).all():
        yield list(rows)
        last = rows[-1].id


def _scopes(connection: sa.Connection, rows: list[Any]) -> dict[int, str]:
    """The scopes of those whose trails are kept, by their ids."""
    digests = {row.settings_trail for row in rows}
    query = sa.select(_trails.c.digest, _trails.c.body).where(_trails.c.digest.in_(digests))
    bodies = {row.digest: row.body for row in connection.execute(query)}
    scopes = {
        row.id: _scope(row, {setting["resource_type"]: setting for setting in bodies[row.settings_trail]["settings"]})
        for row in rows
        if row.settings_trail in bodies
    }
    return {id: scope for id, scope in scopes.items() if scope}


def _scope(row: Any, settings: Mapping[str, Mapping[str, Any]]) -> str:
    """The scope that set the limit which ended an execution, as it was told when this was written; "" for none."""
    if row.reason == "QUEUEING_BUDGET_EXCEEDED":
        origin = settings["QUALITY_OF_SERVICE_SPECIFICATION"]["origins"].get("spec.queueing_budget")
        return "platform" if origin is None else _name_of(origin)
    limit = row.content["job"].get("resources", {}).get("limits", {}).get("memory")
    requested = row.request["spec"].get("job")
    if row.reason != "OUT_OF_MEMORY" or limit is None or requested is None:
        return ""
    if any("memory" in requested.get("resources", {}).get(part, {}) for part in ("requests", "limits")):
        return "job"
    amounts, origins = settings["TASK_RESOURCE"]["value"], settings["TASK_RESOURCE"]["origins"]
    default, most = (amounts.get(part, {}).get("memory") for part in ("defaults", "limits"))
    if default is None or limit not in (default, most):
        return "job"
    return _name_of(origins["defaults.memory" if limit == default else "limits.memory"])


def _name_of(origin: Mapping[str, Any]) -> str:
    keys = tuple(key for key in ("project", "domain", "workflow", "launch_plan") if origin.get(key))
    return f"{_LEVELS[keys]} {'/'.join(origin[key] for key in keys)}" if keys else str(origin["level"])


def downgrade() -> None:
    op.drop_index(_INDEX, "executions")
    op.drop_column("executions", "limit_scope")
