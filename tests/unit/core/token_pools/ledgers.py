"""Claims and ledgers for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

from admin.core.settings.resolution import Row
from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Allocation, Exhausted, Granted
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import TokenPool
from admin.core.token_pools.grants import Release
from admin.core.token_pools.ledger import Book, Ledger
from admin.core.token_pools.limits import TOKEN_POOL_QUOTA, terms_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def claim(token: str, pools: dict[str, int] | None = None, **fields: Any) -> Claim:
    project, domain = fields.pop("project", "ads"), fields.pop("domain", "prod")
    return Claim(token=token, amounts=pools or {"hive": 1}, place=Scope(domain, project), **fields)


def quota(version: int, scope: Scope, **pools: int) -> Row:
    return Row(kind=TOKEN_POOL_QUOTA, scope=scope, payload={"pools": pools}, version=version)


class Pools:
    """Pools and their books, and a clock."""

    def __init__(self, *pools: TokenPool, rows: tuple[Row, ...] = ()) -> None:
        self.pools = {pool.name: pool for pool in pools}
        self.rows = {row.scope: row for row in rows}
        self.books = {pool.name: Book() for pool in pools}
        self.now = NOON

    def ledger(self, *, steady_seconds: float = inf) -> Ledger:
        return Ledger(self.books, self.now, steady_seconds=steady_seconds)

    def after(self, seconds: float) -> Ledger:
        self.now += timedelta(seconds=seconds)
        return self.ledger()

    def allocate(self, asked: Claim) -> Allocation:
        terms = {
            name: terms_of(self.pools[name], asked.place, asked.execution, self.rows, asked.constraints)
            for name in asked.amounts
            if name in self.pools
        }
        return self.ledger().allocate(asked, terms)

    def granted(self, asked: Claim) -> int:
        answer = self.allocate(asked)
        assert isinstance(answer, Granted), answer
        return next(iter(answer.grants.values())).number

    def refused(self, asked: Claim) -> Exhausted:
        answer = self.allocate(asked)
        assert isinstance(answer, Exhausted), answer
        return answer

    def release(self, token: str, *pools: str) -> None:
        self.ledger().release(Release(token=token, pools=pools or ("hive",)))

    def used(self, pool: str = "hive") -> int:
        return sum(grant.amount for grant in self.books[pool].grants.values())
