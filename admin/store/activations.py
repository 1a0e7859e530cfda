"""Activations of launch plans: which version is active, and who made it so."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from admin.core.changes import Authorship
from admin.core.provenance import Provenance, acting_proof
from admin.core.registrations import ACTIVE, INACTIVE, Identifier
from admin.store.keys import KeyedQuery
from admin.store.registration_tables import KEY, is_named, keys_of, launch_plan_activations, launch_plans
from admin.store.registrations import bump_number
from admin.store.sql_types import build

_KEY_COLUMNS = [launch_plan_activations.c[name] for name in KEY]
_LAST_OF = KeyedQuery(select(func.max(launch_plan_activations.c.id)).group_by(*_KEY_COLUMNS), _KEY_COLUMNS)


def set_state(
    connection: Connection, identifier: Identifier, state: str, now: datetime, authorship: Authorship
) -> None:
    """Activate or deactivate a launch plan's version; at most one version of a name is active."""
    named = is_named(launch_plans, identifier)
    is_this = launch_plans.c.version == identifier.version
    if state == ACTIVE:
        others = (*named, launch_plans.c.state == ACTIVE, ~is_this)
        _record(connection, others, INACTIVE, now, authorship, replaced_by=identifier.version)
        connection.execute(update(launch_plans).where(*others).values(state=INACTIVE, updated_at=now))
    # A version that was registered as active has its author already.
    _record(connection, (*named, is_this, launch_plans.c.state != state), state, now, authorship)
    connection.execute(update(launch_plans).where(*named, is_this).values(state=state, updated_at=now))
    bump_number(connection)


def _record(
    connection: Connection,
    conditions: Iterable[ColumnElement[bool]],
    state: str,
    now: datetime,
    authorship: Authorship,
    replaced_by: str | None = None,
) -> None:
    """Record who gives some versions of launch plans a state."""
    values = {
        "state": state,
        "replaced_by": replaced_by,
        "created_at": now,
        "author": authorship.author,
        "claimed_by": authorship.claimed_by,
        "proof": authorship.proof,
        "message": authorship.message,
        "request_id": authorship.request_id,
    }
    versions = connection.execute(select(*(launch_plans.c[name] for name in (*KEY, "workflow"))).where(*conditions))
    rows = [{**row._asdict(), **values} for row in versions]
    if rows:
        connection.execute(insert(launch_plan_activations), rows)


def last(connection: Connection, identifiers: Iterable[Identifier]) -> dict[Identifier, Provenance]:
    """Who gave some versions of launch plans their state, as far as that was recorded."""
    keys = keys_of(identifiers)
    ids = [row[0] for row in _LAST_OF.execute(connection, keys)] if keys else []
    rows = (
        connection.execute(select(launch_plan_activations).where(launch_plan_activations.c.id.in_(ids))) if ids else ()
    )
    return {
        build(Identifier, row): build(Provenance, row, at=row.created_at, proof=acting_proof(row.author, row.proof))
        for row in rows
    }
