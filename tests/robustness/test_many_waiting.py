"""Many waiting executions on a hundred clusters: decided again in batches, while creations go on."""

from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from flask import Flask
from sqlalchemy import select

from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from admin.store.execution_tables import executions
from tests.conftest import Scale
from tests.support.copies import copy_execution
from tests.support.placing import API, DOMAIN, PROJECT, create, created, execution, ok, pool, put_pool, switch
from tests.support.small_fleets import group
from tests.support.waiting import wait_until

POOLS = 10
CREATORS = 3


def pool_of(number: int) -> str:
    return f"pool{number}"


def clusters_of(number: int) -> list[str]:
    return [f"c{number}-{index}" for index in range(10)]


def drawn(key: str, clusters: list[str]) -> str:
    """The choice among clusters of equal weight, by the documented hash."""
    return max(clusters, key=lambda name: hashlib.blake2b(f"{key}\0{name}".encode(), digest_size=8).digest())


def fill(app: Flask, context: Context, per_pool: int) -> None:
    """Pools of one cordoned cluster each, with executions that wait for it."""
    api = app.test_client()
    put_pool(api, "gates", [f"gate{number}" for number in range(POOLS)])
    for number in range(POOLS):
        switch(api, f"gate{number}", "cordon")
        put_pool(api, pool_of(number), [f"gate{number}"])
        assert "cluster" not in created(api, f"t{number}", **pool(pool_of(number)))
        copy_execution(context, f"t{number}", [f"e{number}-{index}" for index in range(per_pool - 1)])


def open_up(app: Flask) -> None:
    """One change of the fleet that gives every pool ten clusters."""
    changes: list[dict[str, Any]] = []
    for number in range(POOLS):
        changes += [{"cluster_definition": {"name": name}} for name in clusters_of(number)]
        changes.append({"pool_definition": {"name": pool_of(number), **group(clusters_of(number))}})
    ok(app.test_client().post(f"{API}/attribute_changes", json={"changes": changes}))


def test_one_change_of_the_fleet_places_all_that_wait_while_creations_go_on(
    app: Flask, context: Context, scale: Scale
) -> None:
    per_pool = scale(100, full=1000)
    fill(app, context, per_pool)
    stop = Event()
    new: list[list[str]] = [[] for _ in range(CREATORS)]

    def creator(number: int) -> None:
        client = app.test_client()
        while not stop.is_set():
            name = f"n{number}-{len(new[number])}"
            ok(create(client, name, **pool(pool_of(number))))
            new[number].append(name)
            stop.wait(0.02)  # leave the deciding thread its share of the processor

    with ThreadPoolExecutor(CREATORS) as threads:
        creators = [threads.submit(creator, number) for number in range(CREATORS)]
        try:
            wait_until(lambda: all(new))
            open_up(app)
            before = sum(map(len, new))
            changed = decide_waiting(context)
            meanwhile = sum(map(len, new)) - before
        finally:
            stop.set()
        for future in creators:
            future.result()
    assert len(changed) >= POOLS * per_pool
    assert meanwhile > 0
    with context.database.reading() as connection:
        rows = connection.execute(
            select(
                executions.c.name, executions.c.pool, executions.c.cluster, executions.c.reason, executions.c.decisions
            )
        ).all()
    assert len(rows) == POOLS * per_pool + sum(map(len, new))
    for row in rows:
        expected = drawn(f"{PROJECT}/{DOMAIN}/{row.name}", clusters_of(int(row.pool.removeprefix("pool"))))
        assert (row.cluster, row.reason) == (expected, "CLUSTER_EXPECTED"), row
        assert row.decisions == 2 or row.name.startswith("n")
    assert len({row.cluster for row in rows}) == 100

    assert decide_waiting(context) == []
    leaving = Counter(row.cluster for row in rows)["c3-3"]
    switch(app.test_client(), "c3-3", "cordon")
    moved = decide_waiting(context)
    assert {redecision.previous_cluster for redecision in moved} == {"c3-3"}
    assert len(moved) == leaving
    assert {redecision.cluster for redecision in moved} <= set(clusters_of(3)) - {"c3-3"}
    assert execution(app.test_client(), "t0")["decisions"] == 2
