"""Tokens in Redis or Valkey, with the rules of the core: one atomic script does an operation, or all that came at once.

All keys have one hash tag, so that a cluster keeps them together. Deadlines go by the server's clock.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from admin.core.token_pools.answers import (
    Allocation,
    Conflict,
    Exhausted,
    Granted,
    NeverFits,
    NotHeld,
    Released,
    Renewed,
    UnknownPools,
)
from admin.core.token_pools.claims import EXECUTION_PREFIX, RUNS_ALREADY, Claim
from admin.core.token_pools.definitions import token_pool_of
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.ledger import Book, retry_seconds
from admin.core.token_pools.limits import WHOLE_POOL, Terms, never_fits
from admin.store import revisions, token_grants, token_waits
from admin.store.database import Database
from admin.store.group_commit import GroupCommit
from admin.store.token_backends.base import (
    MOST_SHOWN,
    NOBODY,
    Observer,
    PoolTotals,
    PoolUsage,
    TokensUnavailable,
    own_sums,
    shown_usage,
)
from admin.store.token_backends.redis_calls import RedisCalls
from admin.store.token_backends.redis_documents import (
    Document,
    claim_document,
    read_exhausted,
    read_grant,
    read_grants,
    read_not_held,
    read_waiter,
    renewal_document,
)
from admin.store.token_backends.redis_session import RedisSession
from admin.store.token_backends.redis_terms import CurrentTerms
from admin.store.token_pools import KeptBounds
from admin.store.token_sums import Sum
from admin.store.token_tables import TOKEN_POOLS

if TYPE_CHECKING:
    from admin.store.token_backends.redis_client import Client

_log = logging.getLogger("rainbow.tokens")
#: The hash tag of all keys.
TAG = "rainbow-tokens"
#: Why nothing is granted for one lease.
_CLOSED = "Redis was restarted or flushed, or has lost grants: nothing is granted until all holders could renew."
#: Releases that are kept until Redis answers again.
_MOST_UNRETURNED = 10_000


class RedisTokens:
    """The backend `redis`. Definitions and quotas are read from the database, as everywhere."""

    def __init__(
        self,
        client: Callable[[], Client],
        database: Database,
        *,
        brief_client: Callable[[], Client] | None = None,
        longest_lease_seconds: float = 60.0,
        tag: str = TAG,
        monotonic: Callable[[], float] = time.monotonic,
        observer: Observer = NOBODY,
    ) -> None:
        self._database = database
        self._longest_lease_seconds = longest_lease_seconds  #: for which nothing is granted after a restart
        self._observer = observer
        self._calls = RedisCalls(
            client, brief_client or client, tag, longest_lease_seconds, monotonic, observer.reclaimed
        )
        self._kept = KeptBounds()
        self._heads: GroupCommit[None, int] = GroupCommit(self._read_head)
        #: Given back once Redis answers, by token and number.
        self._unreturned: dict[tuple[str, int | None], Release] = {}
        self._taken_back: deque[str] = deque()  #: pools of grants that were taken back, for which nobody was woken yet

    @property
    def failure(self) -> TokensUnavailable | None:
        """That of the last call."""
        return self._calls.failure

    def allocate(self, claim: Claim) -> Allocation:
        answer = self._allocate(claim)
        self._observer.answered(claim.amounts, answer)
        return answer

    def _allocate(self, claim: Claim) -> Allocation:
        self._await_probe()
        try:
            return self.allocate_within(claim, self._current_terms(claim))
        finally:
            self._wake_for_taken_back()

    def _current_terms(self, claim: Claim) -> CurrentTerms:
        return CurrentTerms([claim], self._kept, self._database.reading, lambda: self._heads.submit([None])[0])

    def allocate_within(self, claim: Claim, terms: CurrentTerms, *, brief: bool = False) -> Allocation:
        """Grant a claim within what bounds it, or say what is full; briefly where a transaction waits for it.

        That may have been lowered before Redis has granted, so it is compared, and such a grant is taken back.
        """
        # A grant that was not to be would be taken for one that the token holds.
        for release in [*self._unreturned.values()]:
            if release.token == claim.token:
                self._take_back(release, brief)
        since: int | None = None
        while True:
            own = terms.of(claim)
            if unknown := tuple(sorted(claim.amounts.keys() - own.keys())):
                return UnknownPools(pools=unknown)
            document = self._ask(claim, own, since, brief)
            if document["status"] != "granted" or not terms.have_changed(claim):
                return _allocation(claim, own, document)
            number = int(next(iter(document["grants"].values()))["number"])
            self._take_back(Release(token=claim.token, pools=tuple(claim.amounts), number=number), brief)
            since = document["since"]  # it stands in line where it stood

    def _ask(self, claim: Claim, terms: Mapping[str, Terms], since: int | None, brief: bool) -> Document:
        request = {**claim_document(claim, terms), "lease": self._milliseconds(claim.lease_seconds)}
        if since is not None:
            request["since"] = since
        if _never_fits(claim, terms):
            request["never"] = True
        return self._calls.call("allocate", claim.amounts, request, brief=brief)

    def _take_back(self, release: Release, brief: bool) -> None:
        """Give back what was granted and is not to be held, now or when Redis answers again."""
        try:
            self.release(release, brief=brief)
        except TokensUnavailable:
            self._keep(release)
            raise
        self._unreturned.pop((release.token, release.number), None)
        self._taken_back.extend(release.pools)

    def _wake_for_taken_back(self) -> None:
        """Wake agents that wait for what was taken back; never within a transaction, which would wait for another."""
        pools = {self._taken_back.popleft() for _ in range(len(self._taken_back))}
        if pools:
            self._note_releases(pools)

    def renew(self, renewal: Renewal, *, brief: bool = False) -> Renewed | NotHeld:
        if not brief:
            self._await_probe()
        lease = {"lease": self._milliseconds(renewal.lease_seconds)}
        request = {**renewal_document(renewal), **lease}
        document = self._calls.call("renew", renewal.amounts, request, brief=brief)
        if document["status"] == "capacities":  # asked for only where a grant was lost
            capacities = self._capacities(renewal.amounts)
            if unknown := tuple(sorted(renewal.amounts.keys() - capacities.keys())):
                return NotHeld(pools=unknown)
            document = self._calls.call("renew", renewal.amounts, {**request, "capacities": capacities}, brief=brief)
        if document["status"] == "missing":
            return read_not_held(document)
        return Renewed(grants=read_grants(document["grants"]))

    def release(self, release: Release, *, brief: bool = False) -> Released | NotHeld:
        if not brief:
            self._await_probe()
        request: Document = {"token": release.token}
        if release.number is not None:
            request["number"] = str(release.number)
        if release.place is not None:
            request["place"] = list(release.place)
        document = self._calls.call("release", release.pools, request, brief=brief)
        if document["status"] == "missing":
            return read_not_held(document)
        return Released(amounts={pool: grant.amount for pool, grant in read_grants(document["grants"]).items()})

    def usage(self, pools: Iterable[str], buckets: Iterable[str] = ()) -> Mapping[str, PoolUsage]:
        names = sorted(pools)
        document = self._usage(names, {"most": MOST_SHOWN, "buckets": [bucket for bucket in buckets if "#" in bucket]})
        sums = {name: _sums(document["usage"][name]["sums"]) for name in names}
        reason = _CLOSED if document["closed"] else ""
        return shown_usage(_books(names, document["usage"]), sums, self._capacities(names), reason)

    def usage_of_token(self, pools: Iterable[str], token: str) -> Mapping[str, PoolUsage]:
        names = sorted(pools)
        books = _books(names, self._usage(names, {"token": token})["usage"])
        return shown_usage(books, {name: own_sums(book) for name, book in books.items()}, {})

    def _usage(self, names: Sequence[str], request: Document) -> Document:
        if not names:
            return {"usage": {}, "closed": 0}
        self._await_probe()
        return self._calls.call(
            "usage", names, request, brief=True
        )  # a transaction may wait for what is only looked at

    def totals(self, pools: Iterable[str]) -> Mapping[str, PoolTotals]:
        names = sorted(pools)
        if not names:
            return {}
        self._await_probe()
        request: Document = {"buckets": [WHOLE_POOL], "prefix": EXECUTION_PREFIX, "runs_already": RUNS_ALREADY}
        document = self._calls.call("used", names, request, brief=True)
        reason = _CLOSED if document["closed"] else ""
        return {
            name: PoolTotals(used=document["used"][name][WHOLE_POOL], asking=document["asking"][name], reason=reason)
            for name in names
        }

    def wake(self, pools: Iterable[str]) -> None:
        with suppress(SQLAlchemyError):  # they ask again a moment later
            with self._database.reading() as connection:
                is_awaited = not token_waits.count(connection).keys().isdisjoint(pools)
            if is_awaited:
                self._note_releases(pools)

    def used(self, pools: Iterable[str], buckets: Iterable[str]) -> dict[str, Counter[str]]:
        """How many tokens of pools count in some buckets; a transaction waits for it."""
        names, request = sorted(pools), {"buckets": sorted(buckets)}
        used = self._calls.call("used", names, request, brief=True)["used"] if names else {}
        return {pool: Counter(amounts) for pool, amounts in used.items()}

    def session(
        self, connection: Connection, pools: Iterable[str], claims: Sequence[Claim], tokens: Iterable[str]
    ) -> RedisSession:
        releases = token_grants.releases(connection) if claims else {}
        return RedisSession(self, claims, CurrentTerms.within(connection, claims, self._kept), releases, self._observer)

    def lock(self, connection: Connection, pools: Iterable[str]) -> None:
        """Nothing: no pool is locked."""

    def finish(self, releases: Sequence[Release]) -> None:
        self._return(releases)
        self._wake_for_taken_back()

    def _return(self, releases: Sequence[Release]) -> None:
        """Give tokens back, and wake agents that wait for some."""
        if not releases:
            return
        self._give_back(releases)
        self._note_releases({pool for release in releases for pool in release.pools})

    def _note_releases(self, pools: Iterable[str]) -> None:
        """Wake agents that wait for tokens of pools; without a database they ask again a moment later."""
        with suppress(SQLAlchemyError), self._database.writing() as connection:
            token_grants.note_releases(connection, set(pools))

    def _give_back(self, releases: Iterable[Release]) -> None:
        """Give tokens back, now or when Redis answers again; else they come back when their leases are over.

        Later only by their number: a token without one may name another grant by then.
        """
        for release in releases:
            try:
                if (failure := self.failure) is not None:  # read once: another thread may end it meanwhile
                    raise failure
                self.release(release, brief=True)
                self._unreturned.pop((release.token, release.number), None)
            except TokensUnavailable:
                self._keep(release)

    def _keep(self, release: Release) -> None:
        """Keep what is to be given back until Redis answers again."""
        if not self._unreturned:
            _log.warning("tokens are given back later, since Redis does not answer")
        if release.number is not None and len(self._unreturned) < _MOST_UNRETURNED:
            self._unreturned[release.token, release.number] = release

    def probe(self) -> None:
        self._calls.probe(self._return_all, is_owed=bool(self._unreturned))

    def _await_probe(self) -> None:
        self._calls.await_probe(self._return_all)

    def _return_all(self) -> None:
        self._return([*self._unreturned.values()])

    def _capacities(self, pools: Iterable[str]) -> dict[str, int]:
        with self._database.reading() as connection:
            stored = TOKEN_POOLS.some(connection, pools)
        return {name: token_pool_of(name, pool.payload).capacity for name, pool in stored.items()}

    def _milliseconds(self, lease_seconds: float) -> int:
        """A lease, no longer than what a restarted server waits for."""
        return int(min(lease_seconds, self._longest_lease_seconds) * 1000)

    def _read_head(self, asking: Sequence[None]) -> list[int]:
        """The number of the last revision, for all who ask at the same time."""
        with self._database.autocommit() as connection:
            return [revisions.head(connection)] * len(asking)


def _books(names: Iterable[str], usage: Document) -> dict[str, Book]:
    return {
        name: Book(
            grants=(read_grant(name, grant) for grant in usage[name]["grants"]),
            waiters=map(read_waiter, usage[name]["waiters"]),
        )
        for name in names
    }


def _sums(document: Document) -> dict[str, Sum]:
    """Amounts and numbers by bucket; JSON of the scripts has a list for a map without entries."""
    return {bucket: Sum(*own) for bucket, own in document.items()} if document else {}


def _allocation(claim: Claim, terms: Mapping[str, Terms], document: Document) -> Allocation:
    match document["status"]:
        case "granted" | "held":
            return Granted(grants=read_grants(document["grants"]), is_new=document["status"] == "granted")
        case "conflict":
            return Conflict(held=read_grants(document["grants"]))
        case "never":
            too_small = _never_fits(claim, terms)
            assert too_small is not None
            return too_small
        case "closed":
            seconds = retry_seconds(document["closed"] / 1000)
            return Exhausted(full=(), retry_seconds=seconds, reason=_CLOSED, is_repeated=claim.is_repeated)
    return read_exhausted(claim, terms, document)


def _never_fits(claim: Claim, terms: Mapping[str, Terms]) -> NeverFits | None:
    for pool, amount in sorted(claim.amounts.items()):
        if limit := never_fits(pool, amount, terms[pool]):
            return NeverFits(pool=pool, amount=amount, limit=limit)
    return None
