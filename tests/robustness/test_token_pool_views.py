"""Looks at a token pool that very many hold tokens of: what is read is bounded, what is told is of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import event, insert

from admin.core.settings.scopes import Scope
from admin.core.token_pools.claims import Claim
from admin.store import token_grants, token_sums
from admin.store.token_backends import base
from admin.store.token_tables import token_grants as grants_table
from tests.conftest import MakeApp
from tests.support.apps import context_of
from tests.support.placing import API, create, created, get, ok, refused

HOLDERS = 5000
PLACE = {"domain": "development", "project": "flytesnacks", "workflow": "", "launch_plan": ""}


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    """A full pool, of which the last holder has three tokens and each other one; a fifth is of another project."""
    app = make_app(resourcemanager={"resourceMaxQuota": 2 * HOLDERS})
    hive = {"name": "hive", "capacity": HOLDERS + 2, "caps": {"project": 4002, "execution": 3}}
    ok(app.test_client().post(f"{API}/token_pools", json={"token_pool": hive}))
    now = datetime.now(UTC)
    rows = [
        {
            "pool": "hive",
            "token": f"t{number}",
            "number": number,
            "amount": 3 if number == HOLDERS else 1,
            **PLACE,
            "project": "flyteexamples" if number % 5 == 1 else "flytesnacks",
            "execution": f"run{number}",
            "holder": "maria",
            "lease_seconds": 600.0,
            "granted_at": now,
            "expires_at": now + timedelta(seconds=600),
        }
        for number in range(1, HOLDERS + 1)
    ]
    with context_of(app).database.writing() as connection:
        connection.execute(insert(grants_table), rows)
        token_sums.rebuild(
            connection,
            {name: book.grants.values() for name, book in token_grants.books(connection, {"hive": 0}).items()},
        )
    return app


@contextmanager
def most_rows_read(app: Flask) -> Iterator[list[int]]:
    """How many rows each statement about grants has answered meanwhile."""
    read: list[int] = []

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "FROM token_grants" in statement and statement.startswith("SELECT"):
            rows = connection.engine.raw_connection()
            try:
                counting = rows.cursor()
                counting.execute(f"SELECT count(*) FROM ({statement}) AS counted", parameters)
                read.append(counting.fetchone()[0])
            finally:
                rows.close()

    engine = context_of(app).database.engine
    event.listen(engine, "after_cursor_execute", note)
    try:
        yield read
    finally:
        event.remove(engine, "after_cursor_execute", note)


def test_a_look_at_a_pool_reads_no_more_holders_than_it_names(app: Flask) -> None:
    api = app.test_client()
    created(api, "waits", token_pools={"hive": 1})
    with most_rows_read(app) as read:
        pool = get(api, "token_pools/hive")
        explained = get(api, "token_pools/hive/explanation")
        warned = ok(api.put(f"{API}/token_pools/hive", json={"token_pool": {"capacity": 7, "caps": {"project": 9}}}))
        preview = ok(api.delete(f"{API}/token_pools/hive?force=true&dry_run=true"))
    assert (pool["used"], pool["holder_count"], len(pool["holders"])) == (HOLDERS + 2, HOLDERS, base.MOST_SHOWN)
    assert pool["holders"][-1] == max(pool["holders"], key=lambda holder: holder["amount"])
    full = [(limit["level"], limit.get("project"), limit["used"]) for limit in explained["limits"] if limit["full"]]
    assert full[:2] == [("pool", None, HOLDERS + 2), ("project", "flytesnacks", 4002)]
    assert ("execution", f"run{HOLDERS}") in [(limit["level"], limit.get("execution")) for limit in explained["limits"]]
    messages = [warning["message"] for warning in warned["warnings"] if warning["code"] == "quota_full"]
    assert [message.split(" tokens")[0] for message in messages] == ["5002 of 7", "4002 of 9"]
    assert sum(user.get("count", 1) for user in preview["users"] if "hold" in user["reason"]) == HOLDERS
    assert max(read) <= base.MOST_SHOWN
    refused(create(api, "more", token_pools={"hive": 8}), 400, "invalid_request")


def test_leases_that_are_over_count_no_longer_where_nothing_has_taken_them_back_yet(app: Flask) -> None:
    api, context = app.test_client(), context_of(app)
    assert context.tokens.usage(["hive"], [])["hive"].holder_count == HOLDERS
    now = datetime.now(UTC)
    with context.database.writing() as connection:
        over = {"expires_at": now - timedelta(seconds=5), "lease_seconds": 0.0}
        connection.execute(grants_table.update().where(grants_table.c.number > 10).values(**over))
    usage = context.tokens.usage(["hive"], [f"flytesnacks/development#run{number}" for number in (2, 11)])["hive"]
    assert (usage.used, usage.holder_count, len(usage.grants)) == (10, 10, 10)
    assert usage.amounts["flytesnacks///"] == 8
    assert [usage.amounts[f"flytesnacks/development#run{number}"] for number in (2, 11)] == [1, 0]
    assert get(api, "token_pools/hive")["used"] == 10
    context.tokens.allocate(Claim(token="new", amounts={"hive": 1}, place=Scope("development", "flytesnacks")))
    assert get(api, "token_pools/hive")["used"] == 11
