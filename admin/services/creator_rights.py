"""Rights of creators: what those may use now who created executions, and what callers may be told of."""

from __future__ import annotations

from sqlalchemy import Connection

from admin.core.creators import OVERRIDING, UNLIMITED, Creator, CreatorRights, Rights
from admin.core.fleet.fleet import Fleet
from admin.core.identities import Identity, Proof
from admin.core.placement.routes import RouteKind
from admin.core.placement.usable_clusters import usable_anywhere
from admin.core.settings.scopes import Scope
from admin.core.use_grants import Named, Usable, UsableClusters
from admin.services.access import Access
from admin.services.context import Context
from admin.services.run_requests import CreationRequest
from admin.store import use_grants
from admin.store.executions import Execution, WaitingExecution
from admin.store.leases import LeasedExecution
from admin.store.use_grants import ProvenGroups

#: Who says which clusters others may use.
_GIVING = "use_grants.write"
#: Users whose groups are remembered as stored.
_MOST_NOTED = 16_384


def current_rights(context: Context, connection: Connection, *, is_kept: bool = True) -> CreatorRights:
    """What creators may use, by the grants that a transaction sees.

    They are not kept for others where the transaction may have changed them, which it may still take back.
    """
    settings = context.settings
    return context.known_rights.at(
        connection,
        context.known_grants,
        settings.roles,
        is_closed=settings.is_cluster_use_closed,
        has_provider=settings.openid is not None,
        is_kept=is_kept,
    )


def asks_for_rights(context: Context, creator: Creator) -> bool:
    """Whether what is created depends on more rights of its creator than to create it."""
    settings = context.settings
    return settings.is_cluster_use_closed or bool(settings.rules.fenced) or creator.use is not None


def rights_at_creation(context: Context, request: CreationRequest, rights: CreatorRights | None) -> Rights:
    """What the creator of a request may, who may create it; `rights` are None where no more is asked for."""
    if rights is None:
        return UNLIMITED
    usable = rights.granted(request.creator, request.run.project)
    may_override = _may_override(context, request.creator, request.run.scope, rights)
    # The caller's token may be good for less than its user.
    return Rights(usable, may_override and context.access.allows(OVERRIDING, request.run.scope))


def rights_of(context: Context, execution: Execution, rights: CreatorRights) -> Rights:
    """What the creator of an execution may now."""
    may_override = _may_override(context, creator_of(execution), _scope_of(execution), rights)
    return Rights(usable_of(execution, rights), may_override)


def _may_override(context: Context, creator: Creator, scope: Scope, rights: CreatorRights) -> bool:
    """Whether a request may say otherwise than settings in a domain whose requests may not."""
    return scope.domain in context.settings.rules.fenced and rights.may(creator, OVERRIDING, scope)


def usable_of(execution: Execution | WaitingExecution | LeasedExecution, rights: CreatorRights) -> Usable | None:
    """What the creator of an execution may use now, if it may still create it; None for everything."""
    return rights.usable(creator_of(execution), _scope_of(execution))


def usable_by(
    execution: Execution | WaitingExecution | LeasedExecution, rights: CreatorRights | None
) -> UsableClusters | None:
    """The clusters that an execution's creator may use; None for all of its route."""
    usable = None if rights is None else usable_of(execution, rights)
    return None if usable is None else usable.by_name(RouteKind(execution.route_kind), execution.route_name)


def creator_of(execution: Execution | WaitingExecution | LeasedExecution) -> Creator:
    """Who created an execution."""
    return Creator(execution.created_by, execution.created_proof, execution.created_use)


def _scope_of(execution: Execution | WaitingExecution | LeasedExecution) -> Scope:
    """Where its creator must be allowed to create it."""
    return Scope(project=execution.project, domain=execution.domain)


def told_clusters(context: Context, connection: Connection, asker: Identity, fleet: Fleet) -> frozenset[str] | None:
    """The clusters that a caller may be told of: those that it may use in some way; None for every cluster.

    What a project may use, whoever may know of the project may be told of. While clusters are open, none is told to who
    may not read the fleet.
    """
    if not context.settings.is_cluster_use_closed:
        return None if context.access.sees_fleet() else frozenset([asker.cluster] if asker.cluster else ())
    rights = current_rights(context, connection)
    access = Access(asker, rights.grants)
    usable = rights.granted_anywhere(Creator.of(asker), access.projects)
    if usable is None or access.runs_fleet():
        return None
    return usable_anywhere(usable, fleet).union([asker.cluster] if asker.cluster else ())


def check_giving_use(
    context: Context, connection: Connection, access: Access, grantee: Named, *, is_kept: bool = True
) -> None:
    """Refuse what would let somebody use what a user or group may use, where the caller may not give nor use it."""
    if access.allows(_GIVING):
        return
    missing = current_rights(context, connection, is_kept=is_kept).missing_to_own(access.identity, grantee)
    if missing:
        raise access.lacking_to_give(_GIVING, f"{grantee.noun.capitalize()} {grantee.name} may use {min(missing)}")


def note_proven_groups(context: Context, identity: Identity) -> None:
    """Store the groups that a caller's proof names, for decisions that are made without it."""
    if identity.proof is not Proof.OPENID or identity.administrator is not None:
        return
    # Another replica may have noted others since, which counts as a change.
    number, proven = context.known_grants.number, ProvenGroups(identity.groups, identity.issued_at)
    noted = context.noted_groups.get(identity.user)
    if noted is not None and noted[0] == number and not noted[1].is_outdated_by(proven):
        return
    with context.database.writing() as connection:
        counting = use_grants.note_groups(connection, identity.user, proven)
    if len(context.noted_groups) >= _MOST_NOTED:
        context.noted_groups.clear()
    context.noted_groups[identity.user] = number, counting
