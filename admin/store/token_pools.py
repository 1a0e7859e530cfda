"""Token pools: their definitions, and what bounds claims on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from admin.core.changes import RowChange
from admin.core.settings.resolution import Row
from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import TokenPool, token_pool_of
from admin.core.token_pools.limits import TOKEN_POOL_QUOTA, Terms, terms_of, weight_at
from admin.store import attributes, registrations, revisions
from admin.store.database import insert_new
from admin.store.token_grants import note_releases
from admin.store.token_tables import TOKEN_POOLS, token_pool_heads

#: Pools and places whose bounds are kept in memory.
_MOST_KEPT = 10_000
_heads = token_pool_heads.c
_LOCK = (
    select(_heads.name, _heads.number, _heads.releases)
    .where(_heads.name.in_(bindparam("names", expanding=True)))
    .order_by(_heads.name)
    .with_for_update()
)


def lock(connection: Connection, pools: Iterable[str]) -> dict[str, int]:
    """Lock pools by name until the transaction ends; returns the last number of each that ever was one."""
    return {name: head.number for name, head in lock_heads(connection, pools).items()}


class Head(NamedTuple):
    """The last number that a pool gave, and how often its tokens may have come free."""

    number: int
    releases: int


def lock_heads(connection: Connection, pools: Iterable[str]) -> dict[str, Head]:
    """The same with both numbers of each pool."""
    return {
        row.name: Head(row.number, row.releases) for row in connection.execute(_LOCK, {"names": sorted(pools)}).all()
    }


def write(connection: Connection, changes: Sequence[RowChange], version: int) -> None:
    """Store changed pools, and delete removed ones, whose numbers stay."""
    names = sorted(change.name for change in changes)
    insert_new(connection, token_pool_heads, [{"name": name, "number": 0} for name in names])
    lock(connection, names)
    note_releases(connection, names)
    TOKEN_POOLS.write(connection, changes, version)
    if any((change.before is None) is not (change.after is None) for change in changes):
        registrations.bump_number(connection)  # the names that workers know depend on it


class KnownPools(NamedTuple):
    """The names of all token pools, and what bounds a claim in those of its own."""

    names: list[str]
    terms: Mapping[str, Terms]


def known_pools(connection: Connection, claim: Claim) -> KnownPools:
    """The token pools that there are, for a claim; all their names only where it names an unknown one."""
    [own] = terms(connection, [claim])
    is_known = claim.amounts.keys() <= own.keys()
    return KnownPools(names=list(own) if is_known else TOKEN_POOLS.names(connection), terms=own)


@dataclass(frozen=True, kw_only=True)
class KnownBounds:
    """What bounds claims, as far as it was looked up at some number of changes."""

    head: int  #: the last revision then
    pools: dict[str, TokenPool | None] = field(default_factory=dict)  #: None where there is none
    quotas: dict[Scope, Mapping[Scope, Row]] = field(default_factory=dict)  #: by the places where they apply

    def know(self, claims: Sequence[Claim]) -> bool:
        """Whether nothing need be looked up for some claims."""
        return all(claim.amounts.keys() <= self.pools.keys() and claim.place in self.quotas for claim in claims)

    def look_up(self, connection: Connection, claims: Sequence[Claim]) -> None:
        """Look up what is not known of some claims."""
        if names := {pool for claim in claims for pool in claim.amounts} - self.pools.keys():
            stored = TOKEN_POOLS.some(connection, names)
            for name in names:
                self.pools[name] = token_pool_of(name, stored[name].payload) if name in stored else None
        if places := {claim.place for claim in claims} - self.quotas.keys():
            rows = _quota_rows(connection, places)
            for place in places:
                self.quotas[place] = {scope: rows[scope] for scope in place.chain() if scope in rows}

    def terms(self, claim: Claim) -> dict[str, Terms]:
        """What bounds a claim, in those of its pools that are defined."""
        pools = [(name, self.pools[name]) for name in claim.amounts]
        return {
            name: terms_of(pool, claim.place, claim.execution, self.quotas[claim.place], claim.constraints)
            for name, pool in pools
            if pool is not None
        }


class KeptBounds:
    """What bounds claims, kept for as long as nothing is changed."""

    def __init__(self) -> None:
        self._known = KnownBounds(head=-1)

    def at(self, head: int) -> KnownBounds:
        """What is known at some number of changes; another number has others."""
        known = self._known
        if known.head != head or len(known.pools) + len(known.quotas) > _MOST_KEPT:
            known = self._known = KnownBounds(head=head)
        return known


def terms(connection: Connection, claims: Sequence[Claim], kept: KeptBounds | None = None) -> list[Mapping[str, Terms]]:
    """What bounds each claim now, in those of its pools that are defined; what is kept is read again after a change."""
    if not claims:
        return []
    known = KnownBounds(head=0) if kept is None else kept.at(revisions.head(connection))
    if not known.know(claims):
        known.look_up(connection, claims)
    return [known.terms(claim) for claim in claims]


def weights(connection: Connection, places: Set[Scope]) -> dict[Scope, float]:
    """How much the share of the project counts at each of some places."""
    by_scope = _quota_rows(connection, places)
    return {place: weight_at(place, by_scope) for place in places}


def _quota_rows(connection: Connection, places: Set[Scope]) -> dict[Scope, Row]:
    """The quotas of tokens that apply at some places."""
    bounded = set(places) - {PLATFORM}
    rows = attributes.applying_to(connection, [TOKEN_POOL_QUOTA], bounded) if bounded else []
    return {row.scope: row for row in rows}
