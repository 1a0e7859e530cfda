"""Ten thousand waiting executions on a hundred clusters: decided again in batches, while creations go on."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

from flask import Flask
from sqlalchemy import func, insert, select

from admin.core.placement.choice import draw
from admin.services.context import Context
from admin.services.redecisions import decide_waiting
from admin.store.decisions import decisions
from admin.store.executions import execution_events, executions
from tests.support.placing import API, DOMAIN, PROJECT, create, created, execution, ok, pool, put_pool, switch
from tests.support.small_fleets import group

POOLS = 10
PER_POOL = 1000
CREATORS = 3


def pool_of(number: int) -> str:
    return f"pool{number}"


def clusters_of(number: int) -> list[str]:
    return [f"c{number}-{index}" for index in range(10)]


def copied(context: Context, template: str, names: list[str]) -> None:
    """Executions like one that is there already, with its decision and its event, under other names."""
    with context.database.writing() as connection:
        row = connection.execute(select(executions).where(executions.c.name == template)).one()
        decision = connection.execute(select(decisions).where(decisions.c.execution_id == row.id)).one()
        event = connection.execute(select(execution_events).where(execution_events.c.execution_id == row.id)).one()
        first = connection.execute(select(func.max(executions.c.id))).scalar_one() + 1
        values = {key: value for key, value in row._mapping.items() if key not in ("id", "name")}
        connection.execute(insert(executions), [{**values, "name": name} for name in names])
        ids = list(connection.execute(select(executions.c.id).where(executions.c.id >= first)).scalars())
        made, happened = dict(decision._mapping), dict(event._mapping)
        happened.pop("id")
        connection.execute(insert(decisions), [{**made, "execution_id": id} for id in ids])
        connection.execute(insert(execution_events), [{**happened, "execution_id": id} for id in ids])


def fill(app: Flask, context: Context) -> None:
    """Ten pools behind a cordoned gate, and a thousand executions that wait at each."""
    api = app.test_client()
    put_pool(api, "gates", [f"gate{number}" for number in range(POOLS)])
    for number in range(POOLS):
        switch(api, f"gate{number}", "cordon")
        put_pool(api, pool_of(number), [f"gate{number}"])
        assert "cluster" not in created(api, f"t{number}", **pool(pool_of(number)))
        copied(context, f"t{number}", [f"e{number}-{index}" for index in range(PER_POOL - 1)])


def open_up(app: Flask) -> None:
    """One change of the fleet: every pool gets ten clusters."""
    changes: list[dict[str, Any]] = []
    for number in range(POOLS):
        changes += [{"cluster_definition": {"name": name}} for name in clusters_of(number)]
        changes.append({"pool_definition": {"name": pool_of(number), **group(clusters_of(number))}})
    ok(app.test_client().post(f"{API}/attribute_changes", json={"changes": changes}))


def test_one_change_of_the_fleet_places_ten_thousand_while_creations_go_on(app: Flask, context: Context) -> None:
    fill(app, context)
    stop = Event()

    def creator(number: int) -> list[float]:
        client = app.test_client()
        took: list[float] = []
        while not stop.is_set():
            started = time.monotonic()
            answer = create(client, f"n{number}-{len(took)}", **pool(pool_of(number)))
            took.append(time.monotonic() - started)
            assert answer.status_code == 200, answer.json
            time.sleep(0.05)  # others come and go between
        return took

    with ThreadPoolExecutor(CREATORS) as threads:
        creators = [threads.submit(creator, number) for number in range(CREATORS)]
        try:
            time.sleep(0.2)
            started = time.monotonic()
            open_up(app)
            changing = time.monotonic() - started
            changed = decide_waiting(context)
            deciding = time.monotonic() - started - changing
            while time.monotonic() - started < 0.5:
                time.sleep(0.05)
        finally:
            stop.set()
        latencies = sorted(latency for one in creators for latency in one.result())
    print(
        f"\n{len(changed)} decided again in {deciding:.1f} s, the change took {changing:.2f} s; "
        f"{len(latencies)} creations meanwhile, the slowest in {latencies[-1]:.2f} s"
    )
    assert len(changed) >= POOLS * PER_POOL
    assert deciding < 60
    assert len(latencies) >= CREATORS * 3
    assert latencies[-1] < 10
    with context.database.reading() as connection:
        rows = connection.execute(
            select(
                executions.c.name, executions.c.pool, executions.c.cluster, executions.c.reason, executions.c.decisions
            )
        ).all()
    assert len(rows) == POOLS * PER_POOL + len(latencies)
    for row in rows:
        members = clusters_of(int(row.pool.removeprefix("pool")))
        key = f"{PROJECT}/{DOMAIN}/{row.name}"
        best = max(members, key=lambda name, key=key: draw(key, name, 1))  # type: ignore[misc]
        assert (row.cluster, row.reason) == (best, "ASSIGNED"), row
        assert row.decisions == 2 or row.name.startswith("n")
    assert len({row.cluster for row in rows}) == 100

    assert decide_waiting(context) == []
    leaving = Counter(row.cluster for row in rows)["c3-3"]
    switch(app.test_client(), "c3-3", "cordon")
    moved = decide_waiting(context)
    assert {one.execution.cluster for one in moved} == {"c3-3"}
    assert len(moved) == leaving
    assert {one.cluster for one in moved} == set(clusters_of(3)) - {"c3-3"}
    assert execution(app.test_client(), "t0")["decisions"] == 2
