"""Limits: what bounds the tokens that a claim may get, and what each bound counts together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.definitions import NO_CAPS, Caps, TokenPool

#: The kind of the rows that bound tokens at and below their scopes, and the fields of their payload: the quotas, by
#: pool, and how much a project's share counts in the line.
TOKEN_POOL_QUOTA = "TOKEN_POOL_QUOTA"
QUOTAS, WEIGHT = "pools", "weight"
#: The weight of a project for which none is set.
USUAL_WEIGHT = 1.0

#: The levels of a pool's whole capacity, and of the cap of each execution.
POOL, EXECUTION = "pool", "execution"
#: The bucket of everything in a pool.
WHOLE_POOL = PLATFORM.path
#: The bucket of what belongs to no project, by which its share is counted.
NO_PROJECT = ""


class Limit(NamedTuple):
    """The most tokens of a pool that what is counted together may have at once."""

    bucket: str  #: what is counted: everything at and below a scope, or one execution's
    cap: int
    level: str  #: pool, project, namespace or execution; of a quota the level of its row
    origin: str  #: what sets it, for messages
    version: int | None = None  #: of the row that sets it; None where the pool's definition or the request does


class Terms(NamedTuple):
    """What bounds a claim in one pool: the pool's capacity, and the caps that apply to it."""

    capacity: int
    limits: tuple[Limit, ...] = ()
    weight: float = USUAL_WEIGHT  #: of the project, by which its share is compared with those of others


def share_bucket(place: Scope) -> str:
    """The bucket of everything that a project has."""
    return Scope(project=place.project).path if place.project else NO_PROJECT


def execution_bucket(place: Scope, execution: str) -> str:
    """The bucket of one execution."""
    return f"{place.project}/{place.domain}#{execution}"


def buckets_of(place: Scope, execution: str) -> tuple[str, ...]:
    """Every bucket in which tokens count that are held at a place."""
    buckets = (WHOLE_POOL, *place.paths())
    if not place.project:
        buckets = (*buckets, NO_PROJECT)
    return (*buckets, execution_bucket(place, execution)) if execution else buckets


def is_of_execution(bucket: str) -> bool:
    """Whether what counts in a bucket is one execution's."""
    return "#" in bucket


def counted_at(bucket: str) -> tuple[Scope, str]:
    """The scope and the execution of a bucket; names have neither slashes nor hashes."""
    path, _, execution = bucket.partition("#")
    project, domain, workflow, launch_plan = (*path.split("/"), "", "")[:4]
    return Scope(domain, project, workflow, launch_plan), execution


def terms_of(
    pool: TokenPool, place: Scope, execution: str, rows: Mapping[Scope, Row], constraints: Caps = NO_CAPS
) -> Terms:
    """What bounds a claim in a pool: its caps, every quota row on the way to the place, and the claim's constraints."""
    limits = (
        *_caps(pool.caps, place, execution, f"the caps of token pool '{pool.name}'"),
        *_quotas(pool.name, place, rows),
        *_caps(constraints, place, execution, "the constraints of the request"),
    )
    return Terms(pool.capacity, limits, weight_at(place, rows))


def _caps(caps: Caps, place: Scope, execution: str, origin: str) -> Iterator[Limit]:
    """The caps that apply at a place; what has no project, domain or execution is bounded by none of theirs."""
    if caps.project is not None and place.project:
        yield Limit(Scope(project=place.project).path, caps.project, "project", origin)
    if caps.namespace is not None and place.project and place.domain:
        yield Limit(Scope(project=place.project, domain=place.domain).path, caps.namespace, "namespace", origin)
    if caps.execution is not None and execution:
        yield Limit(execution_bucket(place, execution), caps.execution, EXECUTION, origin)


def _quotas(pool: str, place: Scope, rows: Mapping[Scope, Row]) -> Iterator[Limit]:
    """The quotas of a pool at a place: every row holds, whether or not a more specific one names the pool too."""
    for scope in place.chain():
        row = rows.get(scope)
        cap = None if row is None else row.payload.get(QUOTAS, {}).get(pool)
        if row is not None and cap is not None:
            origin = f"{TOKEN_POOL_QUOTA} at {scope}, version {row.version}"
            yield Limit(scope.path, cap, scope.level.value, origin, row.version)


def weight_at(place: Scope, rows: Mapping[Scope, Row]) -> float:
    """How much the share of a place's project counts in the line, by the most specific row that says so."""
    weight: float | None = None
    for scope in place.chain():
        row = rows.get(scope)
        if row is not None and WEIGHT in row.payload:
            weight = row.payload[WEIGHT]  # null unsets what broader rows say
    return USUAL_WEIGHT if weight is None else float(weight)


def weight_of(terms: Mapping[str, Terms]) -> float:
    """The weight of a claim's project, which is the same in each of its pools."""
    return next((own.weight for own in terms.values()), USUAL_WEIGHT)


def all_limits(pool: str, terms: Terms) -> tuple[Limit, ...]:
    """What bounds a claim in a pool, the pool's capacity first."""
    return (Limit(WHOLE_POOL, terms.capacity, POOL, f"the capacity of token pool '{pool}'"), *terms.limits)


def never_fits(pool: str, amount: int, terms: Terms) -> Limit | None:
    """The tightest limit that an amount exceeds even if nobody holds anything."""
    too_small = [limit for limit in all_limits(pool, terms) if amount > limit.cap]
    return min(too_small, key=lambda limit: limit.cap, default=None)


def describe_too_small(limit: Limit, amount: int) -> str:
    """Why an amount is never granted, and what to do."""
    most = f"the most is {limit.cap}, by {limit.origin} ({limit.level})"
    return f"{amount} can never fit: {most}. Ask for fewer, or raise that."


def tightest(limits: Iterable[Limit]) -> dict[str, int]:
    """The smallest cap of each bucket."""
    caps: dict[str, int] = {}
    for limit in limits:
        caps[limit.bucket] = min(limit.cap, caps.get(limit.bucket, limit.cap))
    return caps
