"""Token pools: define, list and delete them, and hold their tokens."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from admin.core.changes import Expectation
from admin.core.problems import Problem, invalid, raise_problems, shorten
from admin.core.provenance import Provenance
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.answers import (
    Conflict,
    Exhausted,
    Granted,
    NeverFits,
    NotHeld,
    Released,
    Renewed,
    UnknownPools,
)
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import TOKEN_POOL
from admin.core.token_pools.explanations import LimitUse, limit_uses
from admin.core.token_pools.grants import Grant, Release, Renewal
from admin.core.token_pools.limits import (
    EXECUTION,
    NO_PROJECT,
    Limit,
    counted_at,
    describe_too_small,
    execution_bucket,
)
from admin.core.token_pools.lines import MOST_WAITERS, Waiter
from admin.core.token_pools.releases import check_release
from admin.errors import (
    TokenConflict,
    TokenLineFull,
    TokenPoolNotFound,
    TokensNotHeld,
    TokensUnreachable,
    UnknownDomain,
    UnknownProject,
)
from admin.metrics import token_refusals
from admin.services.changeable.base import ChangeOptions, read_under
from admin.services.changeable.token_pools import token_pool_write
from admin.services.changes import Changed, make_change
from admin.services.context import Context
from admin.services.named_rows import create_row, row_not_found
from admin.services.scopes import check_readable
from admin.services.token_lines import count_waiting, with_executions
from admin.services.visibility import told_provenance
from admin.store import revisions, token_pools, token_waits
from admin.store.named_payloads import StoredPayload
from admin.store.token_backends.base import MOST_SHOWN, PoolTotals, PoolUsage, TokensUnavailable
from admin.store.token_tables import TOKEN_POOLS

_log = logging.getLogger("rainbow.tokens")


@dataclass(frozen=True, kw_only=True)
class TokenPoolView:
    """A token pool, who holds its tokens and who waits, and the revision that defined it."""

    pool: StoredPayload
    totals: PoolTotals | None  #: None while the backend does not answer
    waiting: int  #: how many claims and executions wait
    usage: PoolUsage | None  #: of one pool; None in lists, and while the backend does not answer
    reason: str  #: why nothing is granted to anyone now, everything is, or nothing is known of it
    provenance: Provenance | None  #: None where that revision is no longer kept
    refusals: dict[str, int]  #: by the level that was full, since the admin started


@dataclass(frozen=True, kw_only=True)
class TokenPoolExplanation:
    """A token pool, what bounds its tokens, and the revisions that set that."""

    view: TokenPoolView
    limits: list[LimitUse]
    provenance: dict[int, Provenance]  #: by revision


def list_token_pools(context: Context, after: str | None, limit: int) -> tuple[list[TokenPoolView], str | None]:
    """A page of pools by name, and the name after which the next page starts, if there is one."""
    with context.database.reading() as connection:
        pools = TOKEN_POOLS.page(connection, after=after, limit=limit + 1)
        provenance = _provenance(connection, pools[:limit])
    return [*_views(context, pools[:limit], provenance)], pools[limit - 1].name if len(pools) > limit else None


def get_token_pool(context: Context, name: str) -> TokenPoolView:
    """One pool; TokenPoolNotFound with the closest names where there is none."""
    with context.database.reading() as connection:
        pools = TOKEN_POOLS.some(connection, [name])
        if name not in pools:
            raise _not_found(context, connection, name)
        provenance = _provenance(connection, [pools[name]])
    [view] = _views(context, [pools[name]], provenance)
    if view.totals is None:
        return view
    try:
        usage = {name: _usage(context, name)}
    except TokensUnreachable as error:
        return replace(view, totals=None, reason=str(error))
    with context.database.reading() as connection:
        usage = with_executions(connection, usage, {name: view.pool.payload["capacity"]})
    waiters = usage[name].waiters
    return replace(view, usage=usage[name], waiting=view.waiting if len(waiters) >= token_waits.MOST else len(waiters))


def explain_token_pool(context: Context, name: str, place: Scope | None, execution: str) -> TokenPoolExplanation:
    """What bounds the tokens of a pool at a place; without one, where the caller sees somebody hold or want some."""
    access = context.access
    if place is not None:
        access.check("executions.read", place)
        _check_place(context, place)
    view = get_token_pool(context, name)
    if view.usage is None:
        raise TokensUnreachable(view.reason)
    entries: list[Grant | Waiter] = [*view.usage.grants, *view.usage.waiters[:MOST_SHOWN]]
    places = {(entry.place, entry.execution) for entry in entries}
    places |= {(counted_at(bucket)[0], "") for bucket in view.usage.sums if bucket != NO_PROJECT}
    places = {(scope, run) for scope, run in places if access.allows("executions.read", scope)}
    if place is not None:
        places = {(place, execution)}
    claims = [
        Claim(token="", amounts={name: 1}, place=scope, execution=run)
        for scope, run in sorted(places or {(PLATFORM, "")})
    ]
    used = view.usage.amounts
    executions = {execution_bucket(scope, run) for scope, run in places if run}
    if executions and EXECUTION in view.pool.payload.get("caps", {}):
        used = _usage(context, name, executions).amounts
    with context.database.reading() as connection:
        terms = [own[name] for own in token_pools.terms(connection, claims) if name in own]
        limits = limit_uses(name, terms, used)
        versions = {use.limit.version or view.pool.version for use in limits}
        made_by = revisions.provenance_of(connection, versions)
        provenance = told_provenance(access, connection, made_by)
    return TokenPoolExplanation(view=view, limits=limits, provenance=provenance)


def _usage(context: Context, name: str, buckets: Iterable[str] = ()) -> PoolUsage:
    try:
        return context.tokens.usage([name], buckets)[name]
    except TokensUnavailable as error:
        raise TokensUnreachable(_unknown(error)) from error


def create_token_pool(context: Context, name: str, payload: Payload, options: ChangeOptions) -> Changed:
    """Define a pool; AlreadyExists where the name is taken."""
    return create_row(context, "token-pool", token_pool_write(name, payload, Expectation(absent=True)), options)


def put_token_pool(
    context: Context, name: str, payload: Payload | None, expectation: Expectation, options: ChangeOptions
) -> Changed:
    """Define a pool anew, or remove it; InUse where somebody holds tokens of it and force is not set."""
    return make_change(context, [token_pool_write(name, payload, expectation)], options)


def allocate(context: Context, claim: Claim) -> Granted | Exhausted:
    """Grant a claim, or say what is full; an error where no waiting would help."""
    _check_place(context, claim.place, "claim")
    holder = context.access.identity.user or ""
    try:
        answer = context.tokens.allocate(replace(claim, holder=holder))
    except TokensUnavailable as error:
        raise TokensUnreachable(f"{error}. Nothing is granted until it does: ask again.") from error
    if isinstance(answer, Granted) and any(grant.holder != holder for grant in answer.grants.values()):
        answer = Conflict(held=answer.grants)  # another user's, whose number only that user is told
    if isinstance(answer, NeverFits):
        [limit] = _with_origins(context, [answer.limit])
        answer = replace(answer, limit=limit)
    elif isinstance(answer, Exhausted):
        if answer.is_line_full:
            raise TokenLineFull(
                f"{answer.waiting} claims stand in line for {', '.join(sorted(claim.amounts))} already, and a pool "
                f"lets {MOST_WAITERS} wait: this one does not. Ask again in a moment."
            )
        limits = _with_origins(context, [full.limit for full in answer.full])
        full = tuple(replace(full, limit=limit) for full, limit in zip(answer.full, limits, strict=True))
        answer = replace(answer, full=full)
    match answer:
        case UnknownPools():
            with context.database.reading() as connection:
                pool = answer.pools[0]
                raise _not_found(context, connection, pool, f"claim.pools.{shorten(pool)}")
        case NeverFits():
            raise invalid(f"claim.pools.{answer.pool}", describe_too_small(answer.limit, answer.amount))
        case Conflict():
            pools = ", ".join(f"{grant.amount} of {pool}" for pool, grant in answer.held.items())
            raise TokenConflict(
                f"The token '{claim.token}' holds {pools} already. Release that first, or choose another token."
            )
    return answer


def renew(context: Context, renewal: Renewal) -> Renewed:
    """Hold tokens for another lease; TokensNotHeld where the lease is over or the number old."""
    _check_place(context, renewal.place, "renewal")
    try:
        answer = context.tokens.renew(replace(renewal, holder=context.access.identity.user or ""))
    except TokensUnavailable as error:
        raise TokensUnreachable(f"{error}. Renew again before the lease is over.") from error
    if isinstance(answer, NotHeld):
        raise_problems(
            [
                Problem(
                    field=f"renewal.pools.{pool}",
                    reason=f"{renewal.amounts[pool]} is not what is held: renew all {amount}.",
                )
                for pool, amount in answer.amounts.items()
            ]
        )
        remedy = "Stop what needs them, and allocate again."
        if renewal.expires_at is None and context.settings.resource_manager.type == "redis":
            remedy = f"If Redis has lost it, only a renewal with lease_seconds and expires_at is taken. {remedy}"
        raise _not_held(renewal.token, renewal.place, answer, remedy)
    return answer


def release(context: Context, release: Release) -> Released:
    """Give tokens back, or leave the line; TokensNotHeld where neither is so."""
    if release.force:
        context.access.check("token_pools.write")
    if release.place is not None:
        _check_place(context, release.place, "release")
    try:
        checked = _checked(context, release)
        answer = checked if isinstance(checked, NotHeld) else context.tokens.release(checked)
    except TokensUnavailable as error:
        raise TokensUnreachable(f"{error}. Release again, or let the lease run out.") from error
    if isinstance(answer, NotHeld):
        raise _not_held(release.token, release.place, answer, "Nothing was released.")
    context.tokens.wake(answer.amounts)
    if release.force:
        user = context.access.identity.user or "somebody"
        _log.warning("%s released %s of token '%s' by force", user, dict(answer.amounts), release.token)
    return answer


def _checked(context: Context, release: Release) -> Release | NotHeld:
    """What the caller may give back."""
    used = context.tokens.usage_of_token(release.pools, release.token).values()
    grants = [grant for usage in used for grant in usage.grants if _is_about(release, grant)]
    waiters = [waiter for usage in used for waiter in usage.waiters if _is_about(release, waiter)]
    user = context.access.identity.user or ""
    return read_under("release", lambda: check_release(release, user, grants, waiters))


def _is_about(release: Release, entry: Grant | Waiter) -> bool:
    return entry.token == release.token and (release.place is None or entry.place[:2] == release.place[:2])


def _with_origins(context: Context, limits: Sequence[Limit]) -> list[Limit]:
    """Limits that say by which revision their rows were changed last, by whom, when and why."""
    versions = {limit.version for limit in limits if limit.version is not None}
    if not versions:
        return list(limits)
    with context.database.reading() as connection:
        set_by = told_provenance(context.access, connection, dict(revisions.provenance_of(connection, versions)))
    now = context.clock()
    return [
        limit._replace(origin=f"{limit.origin.rpartition(',')[0]} ({set_by[limit.version].describe(now)})")
        if limit.version in set_by
        else limit
        for limit in limits
    ]


def _check_place(context: Context, place: Scope, within: str = "") -> None:
    """Refuse an unknown project or domain; `within` is the field of the request that has them."""
    if not place.project:
        return
    try:
        with context.database.reading() as connection:
            check_readable(context, connection, place)
    except (UnknownProject, UnknownDomain) as error:
        if within:
            error.details = [{**detail, "field": f"{within}.{detail['field']}"} for detail in error.details]
        raise


def _not_held(token: str, place: Scope | None, answer: NotHeld, remedy: str) -> TokensNotHeld:
    pools = ", ".join(answer.pools)
    where = f"for {Scope(*place[:2])}" if place and place.project else "without a project"
    if answer.current is not None:
        reason = f"holds {pools} by the number {answer.current} now; the one that was given is old."
    else:
        reason = f"holds nothing of {pools} {where}: it was never granted, was given back, or its lease is over."
    return TokensNotHeld(f"The token '{token}' {reason} {remedy}")


def _not_found(context: Context, connection: Connection, name: str, field: str = "name") -> Exception:
    names = TOKEN_POOLS.names(connection)
    return row_not_found(context, connection, TokenPoolNotFound, TOKEN_POOL, name, names, field=field)


def _provenance(connection: Connection, pools: Sequence[StoredPayload]) -> dict[int, Provenance]:
    return dict(revisions.provenance_of(connection, (pool.version for pool in pools)))


def _views(
    context: Context, pools: Sequence[StoredPayload], provenance: dict[int, Provenance]
) -> Iterator[TokenPoolView]:
    """Pools without those who hold and wait."""
    totals: Mapping[str, PoolTotals] = {}
    reason = ""
    try:
        totals = context.tokens.totals(pool.name for pool in pools)
    except TokensUnavailable as error:  # what is defined is known, and may be changed
        reason = _unknown(error)
    with context.database.reading() as connection:
        waiting = count_waiting(connection, totals) if pools else Counter[str]()
    refusals = token_refusals()
    for pool in pools:
        own = totals.get(pool.name)
        yield TokenPoolView(
            pool=pool,
            totals=own,
            waiting=waiting[pool.name],
            usage=None,
            reason=reason if own is None else own.reason,
            provenance=provenance.get(pool.version),
            refusals=refusals.get(pool.name, {}),
        )


def _unknown(error: TokensUnavailable) -> str:
    return f"{error}. Nothing is granted until it does, and what is held is not known."
