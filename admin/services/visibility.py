"""Visibility: what a caller may do, and which rows, executions and warnings they may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from sqlalchemy import Connection

from admin.core.changes import PROJECT, RowChange, RowKey
from admin.core.executions.selectors import Condition, within
from admin.core.grants import GRANT
from admin.core.identities import Identity, Proof
from admin.core.permissions import reading
from admin.core.provenance import Provenance
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.settings.warnings import Warning
from admin.services.access import UNRESTRICTED, Access
from admin.services.changeable.registry import NOUNS
from admin.services.context import Context
from admin.services.run_requests import RunRequest
from admin.store import revisions
from admin.store.registrations import Registered
from admin.store.revisions import SeenRows

Key = TypeVar("Key")


def access_of(context: Context, identity: Identity) -> Access:
    """What a caller may do: users, and agents of an admin that has users, what grants say; all others everything.

    Who acts as a user may do what that user may, however they were proven.
    """
    is_user = identity.proof in (Proof.TOKEN, Proof.OPENID) or identity.administrator is not None
    if not is_user and not (identity.proof is Proof.AGENT and _knows_users(context)):
        return UNRESTRICTED
    return Access(identity, context.known_grants.current(context.database, context.settings.roles))


def _knows_users(context: Context) -> bool:
    """Whether callers are users, of this admin or of an OpenID provider."""
    return context.settings.openid is not None or context.user_presence.is_any(context.database)


def seen_executions(context: Context) -> list[Condition]:
    """The conditions on executions that the caller may read; none where these are all."""
    scopes = context.access.scopes("executions.read")
    return [] if scopes is None else within(scopes)


def seen_rows(access: Access) -> SeenRows | None:
    """The rows of revisions that the caller may see; None for all."""
    if not access.is_restricted:
        return None
    named = ((kind, reading(noun.permission)) for noun in NOUNS for kind in noun.kinds if kind not in (PROJECT, GRANT))
    return SeenRows(
        attributes=access.scopes("attributes.read"),
        projects=access.projects,
        kinds=frozenset(kind for kind, permission in named if access.allows(permission, PLATFORM)),
        grants=access.scopes("grants.read"),
    )


def seen_changes(access: Access, changes: Iterable[RowChange]) -> list[RowChange]:
    """Those of some changes whose rows the caller may see."""
    rows = seen_rows(access)
    return [change for change in changes if rows is None or rows.has(change.key)]


def told_provenance(
    access: Access, connection: Connection, provenance: Mapping[int, Provenance]
) -> dict[int, Provenance]:
    """Revisions by number; of those of which the caller may see nothing, not by whom and why they were made."""
    rows = seen_rows(access)
    if rows is None:
        return dict(provenance)
    seen = revisions.seen_among(connection, provenance, rows)
    return {number: made_by if number in seen else made_by.without_author() for number, made_by in provenance.items()}


def told_events(access: Access, events: Mapping[Key, Provenance]) -> dict[Key, Provenance]:
    """Events of clusters; to who may not read the fleet, not by whom and why."""
    is_told = access.sees_fleet()
    return {key: event if is_told else event.without_author() for key, event in events.items()}


def told_registration(access: Access, registered: Registered) -> Provenance:
    """Who registered something; not by whom and why for a caller who may not read it."""
    place = Scope(project=registered.id.project, domain=registered.id.domain)
    made_by = registered.registered_by
    return made_by if access.allows("workflows.read", place) else made_by.without_author()


def seen_warnings(access: Access, warnings: Iterable[Warning]) -> list[Warning]:
    """Those of some warnings that are about what the caller may see."""
    rows = seen_rows(access)
    if rows is None:
        return list(warnings)
    return [warning for warning in warnings if rows.has(RowKey(warning.kind, warning.name, warning.scope))]


def check_launch(access: Access, run: RunRequest) -> None:
    """Refuse to launch what is registered where the caller may not read it."""
    target = run.spec.get("launch_plan")
    if access.is_restricted and isinstance(target, dict):
        place = Scope(project=target.get("project", run.project), domain=target.get("domain", run.domain))
        access.check("workflows.read", place)
