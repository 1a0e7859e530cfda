"""Agents: they register with a secret and then prove themselves by a token."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from admin.core import names
from admin.core.changes import Authorship
from admin.core.fleet.clusters import REGISTERED, read_report
from admin.core.fleet.definitions import FleetKind, Source
from admin.core.graph.compiled import Compiled
from admin.core.graph.described_documents import GRAPH_FIELDS
from admin.core.hosts import source_of
from admin.core.identities import agent_name
from admin.core.problems import invalid, quoted
from admin.core.provenance import Actor
from admin.core.use_grants import USER, Named
from admin.core.users import REGISTRATION
from admin.errors import AlreadyRegistered, ClusterNotFound, RegistrationRefused, TokenNotFound
from admin.services import tokens
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.fleet import definition_write
from admin.services.changes import make_change
from admin.services.context import Context
from admin.services.creator_rights import check_giving_use
from admin.services.definitions import current_fleet
from admin.services.description_bodies import read_within
from admin.services.descriptions import DescriptionWrite, store_description
from admin.services.tokens import CLUSTER, Issued, hash_of
from admin.services.wrong_attempts import FailureLimiter
from admin.store import fleet
from admin.store.cluster_events import ClusterEvent
from admin.store.tokens import CLUSTER_TOKENS, StoredToken

#: Wrong secrets that are allowed within a minute.
MOST_WRONG_SECRETS = 10
_GRAPH_REMEDY = "give graph, and subsystems if there are any, or leave it out."


def register(
    context: Context,
    limiter: FailureLimiter,
    address: str,
    name: str,
    secret: str,
    *,
    report: object = None,
    description: object = None,
) -> Issued:
    """Register a cluster's agent and issue its token; a wrong secret and a forbidden name are refused alike.

    What it reports and describes is read before anything is stored, and only of who has the secret.
    """
    source = source_of(address)
    limiter.check(source)
    is_right = hmac.compare_digest(hash_of(secret), hash_of(_registration_secret(context)))
    with context.database.reading() as connection:
        present = current_fleet(context, connection)
    is_known = present.has_cluster(name)
    is_allowed = names.is_entity_name(name) and (context.settings.agents.registration != "declared" or is_known)
    if not is_right or not is_allowed:
        limiter.add_failure(source)
        raise RegistrationRefused()
    reported, described = _read_sent(context, report, description)
    now = context.clock()
    is_held_back = not is_known and context.settings.agents.registration == "approve"
    if is_held_back:
        with context.database.writing() as connection:
            fleet.hold_back(connection, name)  # before it is defined, so that no decision finds it admitted
    if not is_known or present.clusters[name].definition.source is Source.NAMED:
        _define(context, name)
    with context.database.writing() as connection:
        fleet.lock(connection)
        if CLUSTER_TOKENS.has_live(connection, name, now):
            raise AlreadyRegistered(
                f"Cluster '{name}' has a live token. Use it, rotate it, or revoke it with "
                f"`rainbowctl delete token {name} PREFIX`; then register again."
            )
        state = fleet.hold_state(connection, name)
        is_admitted = state.admitted and not is_held_back
        event = ClusterEvent(cluster=name, at=now, type=REGISTERED)
        # It does not say what is free; an agent that goes on has reported it, and does so again on change.
        known = {**state.report, **reported}
        fleet.save(connection, replace(state, report=known, admitted=is_admitted), event)
        if described is not None:
            write = DescriptionWrite(by=Actor(agent_name(name)), by_agent=True)
            store_description(connection, name, described, write, now)
        return tokens.issue(context, connection, CLUSTER, name)


def _read_sent(context: Context, report: object, description: object) -> tuple[dict[str, Any], Compiled | None]:
    """What an agent reports of its cluster at its registration, and its description if it sends one.

    A description without a graph is a report: agents of earlier versions call it so.
    """
    reported = {} if report is None else report
    if description is None:
        return read_report(reported), None
    if not isinstance(description, Mapping):
        raise invalid("description", f"{quoted(description)} is not a mapping: {_GRAPH_REMEDY}")
    if not description.keys().isdisjoint((*GRAPH_FIELDS, "subsystems")):
        return read_report(reported), read_within(description, "description", context.settings.max_vertices)
    if report is not None:
        raise invalid("description", f"has no graph: {_GRAPH_REMEDY}")
    return read_report(description), None


def _define(context: Context, name: str) -> None:
    """Define a cluster that registers under a name the fleet does not declare."""
    authorship = Authorship(author=REGISTRATION, message=f"cluster {name} registered")
    write = definition_write(context, FleetKind.CLUSTER, name, {})
    make_change(context, [write], ChangeOptions(authorship=authorship))


def _registration_secret(context: Context) -> str:
    """The registration secret, read at each use so that it can be changed; a random one where none is configured."""
    path = context.settings.agents.secret_file
    try:
        secret = Path(path).read_text().strip() if path else ""
    except OSError:
        secret = ""
    return secret or secrets.token_hex(32)


def cluster_of(context: Context, token: str) -> str:
    """The cluster that a token belongs to; Unauthenticated for an unknown, revoked or expired one."""
    return tokens.find_token(context, CLUSTER, token).owner


def list_tokens(context: Context, cluster: str) -> list[StoredToken]:
    """Every token of a cluster, the newest first."""
    context.token_uses.write(context.database)
    with context.database.reading() as connection:
        _check_cluster(context, connection, cluster)
        return CLUSTER_TOKENS.of(connection, cluster)


def rotate(context: Context, cluster: str, overlap_seconds: float) -> Issued:
    """Issue a new token; the older ones expire after the overlap."""
    now, access, account = context.clock(), context.access, agent_name(cluster)
    is_own = access.identity.user == account
    if not is_own:  # whoever has the token may do what the cluster's service account may
        access.check_acting_as(account)
    with context.database.writing() as connection:
        _check_cluster(context, connection, cluster)
        if access.is_restricted and not is_own:
            check_giving_use(context, connection, access, Named(USER, account))
        older = [token.prefix for token in CLUSTER_TOKENS.of(connection, cluster) if token.revoked_at is None]
        CLUSTER_TOKENS.expire(connection, older, now + timedelta(seconds=overlap_seconds))
        issued = tokens.issue(context, connection, CLUSTER, cluster)
    context.token_cache.forget()
    return issued


def revoke(context: Context, cluster: str, prefix: str) -> bool:
    """Revoke a token at once; says whether it was valid until now."""
    is_changed = tokens.revoke(context, CLUSTER, cluster, prefix)
    if is_changed is None:
        raise TokenNotFound()
    return is_changed


def _check_cluster(context: Context, connection: Connection, cluster: str) -> None:
    if not current_fleet(context, connection).has_cluster(cluster):
        raise ClusterNotFound(f"No cluster is called '{cluster[:60]}'. `rainbowctl get cluster` lists them.")
