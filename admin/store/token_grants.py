"""Grants of tokens and those that wait for some, as the database keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import BindParameter, Connection, bindparam, delete, select, update

from admin.core.settings.scopes import SCOPE_KEYS, Scope
from admin.core.token_pools.grants import Grant
from admin.core.token_pools.ledger import Book, Ledger
from admin.core.token_pools.lines import Standing, Status, Waiter
from admin.store.batches import Insertion, update_all, write_together
from admin.store.keys import KeyedQuery, scope_of
from admin.store.sql_types import AnyRow, build
from admin.store.token_tables import token_grants, token_pool_heads, token_waiters

_of_pools: BindParameter[str] = bindparam("pools", expanding=True)
_SELECT_GRANTS = select(token_grants).where(token_grants.c.pool.in_(_of_pools))
_SELECT_WAITERS = select(token_waiters).where(token_waiters.c.pool.in_(_of_pools))
_NOTE_RELEASES = (
    update(token_pool_heads)
    .where(token_pool_heads.c.name.in_(_of_pools))
    .values(releases=token_pool_heads.c.releases + 1)
)
_SELECT_RELEASES = select(token_pool_heads.c.name, token_pool_heads.c.releases)
_DELETE_GRANTS = KeyedQuery(delete(token_grants), (token_grants.c.pool, token_grants.c.token))
_DELETE_WAITERS = KeyedQuery(delete(token_waiters), (token_waiters.c.pool, token_waiters.c.token))


def books(connection: Connection, numbers: Mapping[str, int]) -> dict[str, Book]:
    """The grants and waiters of pools, each with its last number."""
    pools = sorted(numbers)
    grants: dict[str, list[Grant]] = {pool: [] for pool in pools}
    waiters: dict[str, list[Waiter]] = {pool: [] for pool in pools}
    if pools:
        for row in connection.execute(_SELECT_GRANTS, {"pools": pools}):
            grants[row.pool].append(build(Grant, row, place=scope_of(row)))
        for row in connection.execute(_SELECT_WAITERS, {"pools": pools}):
            waiters[row.pool].append(_waiter(row))
    return {pool: Book(numbers[pool], grants[pool], waiters[pool]) for pool in pools}


def save(connection: Connection, ledger: Ledger) -> None:
    """Write what a ledger has changed."""
    books, changes = ledger.books, ledger.changes
    numbers = [{"name": pool, "number": books[pool].number} for pool in sorted(changes.numbers)]
    update_all(connection, token_pool_heads, numbers, key="name")
    note_releases(connection, changes.freed)
    written = [
        Insertion(table=token_grants, rows=[_grant_row(grant) for grant in _present(ledger)], replaces=True),
        Insertion(
            table=token_waiters,
            rows=[
                _waiter_row(pool, books[pool].waiters[token])
                for pool, token in sorted(changes.waiters)
                if token in books[pool].waiters
            ],
            replaces=True,
        ),
    ]
    if removed := [(pool, token) for pool, token in sorted(changes.grants) if token not in books[pool].grants]:
        _DELETE_GRANTS.execute(connection, removed)
    if left := [(pool, token) for pool, token in sorted(changes.waiters) if token not in books[pool].waiters]:
        _DELETE_WAITERS.execute(connection, left)
    write_together(connection, written)


def note_releases(connection: Connection, pools: Iterable[str]) -> None:
    """Note that tokens of pools may have come free, by which agents are woken whose executions wait for some."""
    if freed := sorted(pools):
        connection.execute(_NOTE_RELEASES, {"pools": freed})


def releases(connection: Connection) -> dict[str, int]:
    """How often tokens of each pool may have come free."""
    return {row.name: row.releases for row in connection.execute(_SELECT_RELEASES)}


def _present(ledger: Ledger) -> Iterable[Grant]:
    """The grants that were made or renewed."""
    for pool, token in sorted(ledger.changes.grants):
        grant = ledger.books[pool].grants.get(token)
        if grant is not None:
            yield grant


def _place_columns(place: Scope) -> dict[str, str]:
    return {key: getattr(place, key) for key in SCOPE_KEYS}


def _grant_row(grant: Grant) -> dict[str, object]:
    values = {name: value for name, value in vars(grant).items() if name != "place"}
    return {**values, **_place_columns(grant.place)}


def _waiter_row(pool: str, waiter: Waiter) -> dict[str, object]:
    values = {name: value for name, value in vars(waiter).items() if name not in ("place", "standings")}
    standings = {name: [standing.status.value, standing.share] for name, standing in waiter.standings.items()}
    return {"pool": pool, **values, "standings": standings, **_place_columns(waiter.place)}


def _waiter(row: AnyRow) -> Waiter:
    standings = {pool: Standing(Status(status), share) for pool, (status, share) in row.standings.items()}
    return build(Waiter, row, place=scope_of(row), standings=standings)
