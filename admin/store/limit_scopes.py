"""Limit scopes: which scope set the limit that ended an execution, stored when it ends."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from admin.core.executions.deciding_scopes import limit_scope
from admin.store import decisions, executions
from admin.store.execution_tables import executions as table
from admin.store.given_jobs import given_jobs

_columns = table.c


def store(connection: Connection, ids: Collection[int]) -> None:
    """Store the scopes whose limits ended some executions, whose rows this transaction has locked and written."""
    if not ids:
        return
    columns = (_columns.id, _columns.reason, _columns.content, _columns.request, _columns.launched, _columns.decisions)
    query = select(*columns)
    rows = connection.execute(query.where(_columns.id.in_(ids))).all()
    digests = decisions.settings_trails(connection, [(row.id, row.decisions) for row in rows])
    settings = decisions.settings(connection, digests.values())
    jobs = given_jobs(connection, rows)
    scopes = [
        {
            "id": row.id,
            "limit_scope": limit_scope(row.reason, row.content["job"], jobs.get(row.id), settings[digests[row.id]]),
        }
        for row in rows
        if digests.get(row.id) in settings
    ]
    executions.change_many(connection, [scope for scope in scopes if scope["limit_scope"]])
