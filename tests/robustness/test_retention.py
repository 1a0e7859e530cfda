"""Retention: what is over for long enough goes, a little at a time, and nothing else; on both databases."""

from __future__ import annotations

import base64
import logging
import re
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count, islice
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Table, event, func, insert, select, update

from admin.core.changes import Authorship
from admin.core.fleet.definitions import FleetKind
from admin.core.grants import Grant, Grantee
from admin.core.retention import Retention
from admin.core.times import show_time
from admin.loops.retention import RetentionLoop
from admin.metrics import pruned_total
from admin.services import grants, user_tokens, users
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.registry import NOUNS
from admin.services.context import Context
from admin.services.evictions import judge_health
from admin.services.retention import PruningSizes, prune
from admin.store import pruned_authors
from admin.store import retention as stocks
from admin.store.bid_tables import bid_rounds
from admin.store.database import metadata
from admin.store.decisions import decisions, trails
from admin.store.execution_tables import execution_events, executions
from admin.store.fleet_tables import cluster_events
from admin.store.pruned_executions import pruned_executions
from admin.store.revision_tables import pruned_authors as pruned_authors_table
from tests.conftest import MakeApp
from tests.support.agents import Clock, PlayedAgent, WatchedClock, played_agent, set_clock
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    create,
    created,
    execution,
    explanation,
    get,
    ok,
    put_attribute,
    put_cluster,
    put_pool,
    refused,
    row_counts,
    switch,
)
from tests.support.statements import statements

DAY = 86400.0
#: So small that a few rows fill several pages and batches.
SMALL = PruningSizes(page=3, window=2, batch=4, trails=2)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def context(app: Flask, clock: Clock) -> Context:
    return set_clock(app, clock)


@pytest.fixture
def agent(api: FlaskClient, context: Context) -> PlayedAgent:
    return played_agent(api, context, "here")


def pruned(context: Context, *, dry_run: bool = False, **ages: str) -> dict[str, int]:
    """What one run deletes, by tables, in many small steps."""
    return total(prune(context, Retention(**ages), dry_run=dry_run, sizes=SMALL))


def total(steps: Iterator[dict[str, int]]) -> dict[str, int]:
    """What steps delete together, by tables."""
    deleted: Counter[str] = Counter()
    for counts in steps:
        deleted.update(counts)
    return {table: count for table, count in deleted.items() if count}


def steps_up_to_trails(context: Context, kept: Retention, sizes: PruningSizes) -> Iterator[dict[str, int]]:
    """A run of which the next step deletes the first trails: it has found them unused, as a dry run has by then."""
    is_of_trails = ["trails" in counts for counts in prune(context, kept, dry_run=True, sizes=sizes)]
    steps = prune(context, kept, sizes=sizes)
    for counts in islice(steps, is_of_trails.index(True)):
        assert "trails" not in counts
    return steps


def path(name: str, what: str) -> str:
    return f"executions/{PROJECT}/{DOMAIN}/{name}/{what}"


def end(api: FlaskClient, *names: str) -> None:
    for name in names:
        ok(api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/{name}"))


def run(agent: PlayedAgent, *names: str) -> None:
    """Executions that print something, leave a file, and succeed."""
    for name in names:
        created(agent.client, name, cluster=agent.cluster)
    assert sorted(agent.start(len(names))) == sorted(names)
    agent.sync(logs=[agent.log(name, 0, b"hello ") for name in names])
    agent.sync(logs=[agent.log(name, 6, b"world") for name in names])
    file = {"path": "result", "content_base64": base64.b64encode(b"42").decode(), "size": 2}
    agent.finish(names, outputs=[file])


def stored_names(context: Context) -> list[str]:
    with context.database.reading() as connection:
        return list(connection.execute(select(executions.c.name).order_by(executions.c.id)).scalars())


def check_whole(context: Context) -> None:
    """Nothing refers to anything that is gone, and no trail is left over."""
    with context.database.reading() as connection:
        ids = set(connection.execute(select(executions.c.id)).scalars())
        for table in belonging_tables():
            assert set(connection.execute(select(table.c.execution_id)).scalars()) <= ids
        pairs = connection.execute(select(decisions.c.settings_trail, decisions.c.placement_trail))
        used = {digest for pair in pairs for digest in pair}
        assert set(connection.execute(select(trails.c.digest)).scalars()) == used


def belonging_tables() -> list[Table]:
    """Every table whose rows belong to executions."""
    return [table for table in metadata.tables.values() if "execution_id" in table.c]


def test_finished_executions_go_with_all_that_is_theirs_and_no_others(
    api: FlaskClient, context: Context, clock: Clock, agent: PlayedAgent
) -> None:
    run(agent, *(f"old-{number}" for number in range(5)))
    created(api, "waits", cluster="here")
    created(api, "runs", cluster="here")
    created(api, "late", cluster="here")
    agent.start(3)
    end(api, "waits")  # its agent has not ended it yet
    clock.advance(2 * DAY)
    agent.finish(["late"])
    created(api, "new")
    end(api, "new")
    clock.advance(DAY / 2)
    would = pruned(context, executions="1d", dry_run=True)
    assert stored_names(context)[:5] == [f"old-{number}" for number in range(5)]
    assert pruned(context, executions="1d") == would
    assert stored_names(context) == ["waits", "runs", "late", "new"]
    assert would["executions"] == would["decisions"] == would["execution_outputs"] == 5
    assert (would["execution_logs"], would["execution_events"]) == (10, 15)
    assert execution(api, "waits")["closure"]["phase"] == "ABORTING"
    check_whole(context)
    for name in ("waits", "runs", "late", "new"):
        assert explanation(api, name)["candidates"]
    assert pruned(context, executions="1d") == {}
    agent.finish(["runs"])
    assert execution(api, "runs")["closure"]["phase"] == "SUCCEEDED"


def test_an_execution_that_is_gone_is_unknown_and_its_name_is_free(
    api: FlaskClient, make_app: MakeApp, clock: Clock
) -> None:
    app = make_app(retention={"executions": "1d"})
    context, api = set_clock(app, clock), app.test_client()
    for name in ("gone", "last"):
        created(api, name)
        end(api, name)
    clock.advance(2 * DAY)
    ended = datetime.fromisoformat(execution(api, "last")["closure"]["finished_at"])
    kept = explanation(api, "last")["status"]["kept_until"]
    assert {name: datetime.fromisoformat(time) for name, time in kept.items()} == dict.fromkeys(
        ("execution", "log", "events"), ended + timedelta(days=1)
    )
    answer = refused(api.get(f"{API}/{path('unknown', 'logs')}"), 404, "execution_not_found", "name")
    assert "kept for 1d after their end" in answer["message"]
    pruned(context, executions="1d")
    for what in ("events", "logs", "outputs", "explanation"):
        answer = refused(api.get(f"{API}/{path('gone', what)}"), 404, "execution_not_found", "name")
        limit = show_time(clock() - timedelta(days=1))
        assert f" Executions that ended before {limit} were pruned (retention.executions: 1d)." in answer["message"]
    created(api, "gone")


def test_executions_that_were_pruned_by_hand_are_said_to_be(api: FlaskClient, context: Context, clock: Clock) -> None:
    for name in ("gone", "last"):
        created(api, name)
        end(api, name)
    message = refused(api.get(f"{API}/{path('unknown', 'logs')}"), 404, "execution_not_found")["message"]
    assert "None was pruned so far: there never was one of that name." in message
    clock.advance(2 * DAY)
    pruned(context, executions="1d")
    message = refused(api.get(f"{API}/{path('gone', 'logs')}"), 404, "execution_not_found")["message"]
    limit = show_time(clock() - timedelta(days=1))
    assert f"/{DOMAIN}. Executions that ended before {limit} were pruned by `rainbow-admin prune`." in message


def test_who_may_not_see_a_project_is_not_told_that_executions_of_it_were_pruned(
    api: FlaskClient, app: Flask, context: Context, clock: Clock
) -> None:
    for name in ("gone", "last"):
        created(api, name)
        end(api, name)
    clock.advance(2 * DAY)
    pruned(context, executions="1d")
    ok(api.post(f"{API}/grants", json={"grant": {"role": "viewer", "user": "eve", "project": "flyteexamples"}}))
    ok(api.post(f"{API}/users", json={"user": {"name": "eve"}}))
    eve = app.test_client()
    eve.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {user_tokens.create_token(context_of(app), 'eve', 'x').token}"
    answers = [eve.get(f"{API}/executions/{project}/{DOMAIN}/gone") for project in (PROJECT, "flytesnakcs")]
    hidden, unknown = (answer.get_data(as_text=True) for answer in answers)
    assert [answer.status_code for answer in answers] == [400, 400]
    assert "pruned" not in hidden
    assert without_ids(hidden) == without_ids(unknown).replace("flytesnakcs", PROJECT)
    seen = refused(eve.get(f"{API}/executions/flyteexamples/{DOMAIN}/gone"), 404, "execution_not_found")
    assert "one of them, though none that was counted is of flyteexamples/development." in seen["message"]


def without_ids(answer: str) -> str:
    """An answer without the id of its request."""
    return re.sub(r'"request_id": ?"[^"]*"', "", answer)


def test_a_pruning_by_hand_is_not_said_to_follow_from_the_configuration(make_app: MakeApp, clock: Clock) -> None:
    app = make_app(retention={"executions": "365d"})
    context, api = set_clock(app, clock), app.test_client()
    created(api, "wait-1")
    for name in ("fail-1", "last"):
        created(api, name)
        end(api, name)
    ended = show_time(clock())
    clock.advance(2 * DAY)
    pruned(context, executions="1d")
    message = refused(api.get(f"{API}/{path('fail-1', 'logs')}"), 404, "execution_not_found")["message"]
    horizon = (
        f"Executions that ended before {show_time(clock() - timedelta(days=1))} were pruned by `rainbow-admin prune`. "
        f"It may be one of them: 1 of {PROJECT}/{DOMAIN}, which ended between {ended} and {ended}. "
        "Others are kept for 365d after their end."
    )
    assert horizon in message
    assert "retention.executions" not in message
    assert "Did you mean" not in message.partition(horizon)[0]


def test_an_unknown_execution_is_said_to_be_pruned_where_others_of_its_project_were(
    api: FlaskClient, context: Context, clock: Clock
) -> None:
    def told(name: str, project: str = PROJECT, domain: str = DOMAIN) -> tuple[str, bool]:
        answer = refused(api.get(f"{API}/executions/{project}/{domain}/{name}"), 404, "execution_not_found")
        [detail] = answer["details"]
        return answer["message"], detail.get("may_be_pruned", False)

    ends = []
    for round_ in range(2):
        for name in ("a", "b"):
            created(api, f"{name}-{round_}")
            end(api, f"{name}-{round_}")
        other = {"project": "flyteexamples", "domain": ("staging", "production")[round_]}
        created(api, "c", **other)
        ok(api.delete(f"{API}/executions/{'/'.join(other.values())}/c"))
        ends.append(show_time(clock()))
        clock.advance(2 * DAY)
        created(api, f"newest-{round_}")
        dry = pruned(context, executions="1d", dry_run=True)["executions"]
        assert pruned(context, executions="1d")["executions"] == dry
    ended = f"between {ends[0]} and {ends[1]}"
    message, may_be_pruned = told("a-1")
    assert (f"It may be one of them: 4 of {PROJECT}/{DOMAIN}, which ended {ended}. " in message, may_be_pruned) == (
        True,
        True,
    )
    message, may_be_pruned = told("c", "flyteexamples", "staging")
    assert (": 1 of flyteexamples/staging, which ended" in message, may_be_pruned) == (True, True)
    message, may_be_pruned = told("a-1", domain="production")
    uncounted = f"It may be one of them, though none that was counted is of {PROJECT}/production."
    assert (uncounted in message, may_be_pruned) == (True, True), "an older admin may have pruned beside this one"
    with context.database.writing() as connection:  # as a migration leaves it where some were pruned before
        connection.execute(insert(pruned_executions).values(project="", domain="", total=0))
    assert f"It may be one of them: at least 4 of {PROJECT}/{DOMAIN}, " in told("a-1")[0]
    message, may_be_pruned = told("a-1", domain="production")
    assert (message.count("It may be one of them."), may_be_pruned) == (1, True)


def test_counts_say_which_executions_were_pruned(api: FlaskClient, context: Context, clock: Clock) -> None:
    for name in ("gone", "last"):
        created(api, name)
        end(api, name)
    clock.advance(2 * DAY)
    assert pruned(context, executions="1d", dry_run=True)
    assert "not_counted" not in get(api, "execution_counts?by=phase")
    pruned(context, executions="1d")
    limit = show_time(clock() - timedelta(days=1))
    sentence = f"Executions that ended before {limit} are pruned, so they are not counted."
    for query in ("", "&created_after=3d", "&phase=ABORTED,QUEUED", "&created_by=anonymous"):
        assert get(api, f"execution_counts?by=phase{query}")["not_counted"] == sentence, query
    for query in ("&created_after=12h", "&phase=QUEUED,RUNNING", "&filters=gte(finished_at,12h)"):
        assert "not_counted" not in get(api, f"execution_counts?by=phase{query}"), query
    pruned(context, executions="3d")
    assert get(api, "execution_counts?by=phase")["not_counted"] == sentence, "the latest time counts"


def test_lists_and_simulations_say_which_executions_were_pruned(
    api: FlaskClient, context: Context, clock: Clock
) -> None:
    def answers(since: str) -> list[Any]:
        body = {"changes": [{"pool_definition": {"name": "p", "members": [{"id": "a"}]}}], "since": since}
        return [
            get(api, f"executions?created_after={since}"),
            ok(api.post(f"{API}/simulations", json=body)),
            get(api, f"placement_counts?by=cluster&since={since}"),
        ]

    for name in ("gone", "last"):
        created(api, name)
        end(api, name)
    clock.advance(2 * DAY)
    assert not any("not_counted" in answer for answer in answers("3d"))
    pruned(context, executions="1d")
    for name in ("new", "newer"):
        created(api, name)
    start = f"Executions that ended before {show_time(clock() - timedelta(days=1))} are pruned, so they are not "
    assert [answer["not_counted"] for answer in answers("3d")] == [
        f"{start}{verb}." for verb in ("listed", "compared", "counted")
    ]
    assert not any("not_counted" in answer for answer in answers("12h"))
    assert "not_counted" not in get(api, "executions?limit=1"), "more may follow"
    assert "not_counted" not in get(api, "executions?phase=QUEUED")


def test_every_table_that_belongs_to_executions_is_emptied_with_them() -> None:
    emptied = {stocks.LOGS.table, stocks.OUTPUTS.table, stocks.EVENTS.table, decisions, bid_rounds}
    assert set(belonging_tables()) == emptied


def test_logs_and_outputs_may_go_before_their_execution(make_app: MakeApp, clock: Clock) -> None:
    app = make_app(retention={"logs": "1d"})
    context, api = set_clock(app, clock), app.test_client()
    agent = played_agent(api, context, "here")
    run(agent, "old")
    created(api, "silent", cluster="here")
    created(api, "runs", cluster="here")
    agent.start(2)
    agent.sync(logs=[agent.log("runs", 0, b"still here")])
    agent.finish(["silent"])
    clock.advance(2 * DAY)
    run(agent, "new")
    assert pruned(context, logs="1d", dry_run=True) == {"execution_logs": 2, "execution_outputs": 1}
    assert get(api, path("old", "logs"))["data"] == "hello world"
    assert pruned(context, logs="1d") == {"execution_logs": 2, "execution_outputs": 1}
    answer = get(api, path("old", "logs?wait_seconds=5"))
    assert {name: answer[name] for name in ("data", "complete", "truncated", "pruned")} == {
        "data": "",
        "complete": True,
        "truncated": False,
        "pruned": True,
    }
    assert get(api, path("old", "outputs")) == {"outputs": [], "pruned": True}
    assert get(api, path("runs", "logs"))["data"] == "still here"
    new = get(api, path("new", "logs"))
    assert (new["data"], "pruned" in new) == ("hello world", False)
    assert "pruned" not in get(api, path("new", "outputs"))
    assert execution(api, "old")["closure"]["phase"] == "SUCCEEDED"
    assert len(get(api, path("old", "events"))["events"]) == 3


def test_a_log_of_which_the_start_is_gone_is_not_shown_from_its_middle(
    api: FlaskClient, context: Context, clock: Clock, agent: PlayedAgent
) -> None:
    run(agent, "old")
    clock.advance(2 * DAY)
    next(prune(context, Retention(logs="1d"), sizes=PruningSizes(batch=1)))  # and is killed
    answer = get(api, path("old", "logs?wait_seconds=5"))
    assert (answer["data"], answer["complete"], answer["pruned"]) == ("", True, True)


def test_a_log_that_goes_while_it_is_read_is_shown_whole_and_then_said_to_be_gone(
    make_app: MakeApp, clock: Clock
) -> None:
    app = make_app(retention={"logs": "1d"})
    context, api = set_clock(app, clock), app.test_client()
    run(played_agent(api, context, "here"), "old")
    clock.advance(2 * DAY)

    deleted: list[dict[str, int]] = []

    def prune_once(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "execution_logs" in statement and not deleted:
            deleted.append({})
            deleted[0] = pruned(context, logs="1d")

    event.listen(context.database.engine, "after_cursor_execute", prune_once)
    answer = get(api, path("old", "logs?limit=6&tail=1"))
    assert (answer["data"], answer["next_offset"], "pruned" in answer) == ("hello ", 6, False)
    assert deleted == [{"execution_logs": 2, "execution_outputs": 1}]
    for offset in (6, 0):
        answer = get(api, path("old", f"logs?offset={offset}"))
        assert (answer["data"], answer["complete"], answer["pruned"]) == ("", True, True)


def test_events_may_go_before_their_execution_and_it_is_said(
    api: FlaskClient, context: Context, clock: Clock, agent: PlayedAgent
) -> None:
    run(agent, "old")
    created(api, "runs", cluster="here")
    agent.start()
    switch(api, "here", "cordon")
    switch(api, "here", "uncordon")
    clock.advance(2 * DAY)
    created(api, "new")
    with context.database.reading() as connection:
        of_clusters = connection.execute(select(func.count()).select_from(cluster_events)).scalar_one()
    assert of_clusters > 1
    switch(api, "here", "cordon")
    assert pruned(context, events="1d") == {"execution_events": 3, "cluster_events": of_clusters - 1}
    assert get(api, path("old", "events")) == {"events": [], "pruned": True}
    assert execution(api, "old")["events"] == 3
    assert [event["type"] for event in get(api, path("runs", "events"))["events"]] == ["CREATED", "RUNNING"]
    assert [event["type"] for event in get(api, "clusters/here/events")["events"]] == ["CORDONED", "READY"]
    ok(api.put(f"{API}/executions/{PROJECT}/{DOMAIN}/old", json={"state": "ARCHIVED"}))
    later = get(api, path("old", "events"))
    assert ([event["number"] for event in later["events"]], later["pruned"]) == ([4], True)
    assert "pruned" not in get(api, path("runs", "events"))


def test_the_events_that_explain_states_and_healths_that_hold_are_kept(
    api: FlaskClient, context: Context, clock: Clock, agent: PlayedAgent
) -> None:
    def kept(cluster: str) -> list[str]:
        return [event["type"] for event in get(api, f"clusters/{cluster}/events")["events"]]

    agent.sync()
    for name in ("off", "full", "back"):
        put_cluster(api, name)
    put_pool(api, "gpu", ["full", "off"])
    for turn in range(3):  # what began again, or is over, explains nothing
        switch(api, "off", "disable", reason=f"hall {turn}", claimed_by="ben")
        switch(api, "off", "enable")
        switch(api, "back", "drain", reason=f"fans {turn}", claimed_by="cleo")
        switch(api, "back", "undrain")
    switch(api, "off", "disable", reason="moves", claimed_by="ben")
    switch(api, "full", "cordon", reason="new disks", claimed_by="otto")
    switch(api, "full", "drain", reason="fans", claimed_by="cleo")
    created(api, "waits", cluster_assignment={"cluster_pool_name": "gpu"})
    before = [get(api, f"clusters/{name}")["provenance"] for name in ("off", "full")]
    reasons = [candidate["why_not"] for candidate in explanation(api, "waits")["candidates"]]
    clock.advance(2 * DAY)
    would = pruned(context, events="1d", dry_run=True)
    assert pruned(context, events="1d") == would
    assert [get(api, f"clusters/{name}")["provenance"] for name in ("off", "full")] == before
    assert [candidate["why_not"] for candidate in explanation(api, "waits")["candidates"]] == reasons
    assert (kept("off"), kept("full"), kept("back")) == (["DISABLED"], ["DRAINING", "CORDONED"], [])
    assert kept(agent.cluster) == ["READY"]
    assert "cluster_events" not in pruned(context, events="1d", dry_run=True)
    switch(api, "full", "undrain")
    switch(api, "off", "enable")
    switch(api, "back", "cordon")
    clock.advance(2 * DAY)
    pruned(context, events="1d")
    assert (kept("off"), kept("full"), kept("back")) == ([], [], ["CORDONED"])


def test_the_event_of_a_silence_that_goes_on_is_kept(app: Flask) -> None:
    clock = WatchedClock(app)
    context = context_of(app)
    agent = played_agent(app.test_client(), context, "here")
    agent.sync()
    clock.advance(1800)
    judge_health(context)
    assert get(agent.client, "clusters/here")["state"] == "lost"
    switch(agent.client, "local", "cordon")  # the newest event is kept in any case
    clock.step(2 * DAY)
    pruned(context, events="1d")
    [silence] = get(agent.client, "clusters/here/events")["events"]
    assert silence["type"] == "LOST"


def test_numbers_are_never_given_twice(api: FlaskClient, context: Context, clock: Clock) -> None:
    def newest() -> tuple[Any, ...]:
        columns = (executions.c.id, execution_events.c.id, cluster_events.c.number)
        with context.database.reading() as connection:
            return tuple(connection.execute(select(func.max(column))).scalar() for column in columns)

    for name in ("a", "b", "c"):
        created(api, name)
        switch(api, "local", "cordon")
        switch(api, "local", "uncordon")
    end(api, "b", "c", "a")
    before = newest()
    clock.advance(2 * DAY)
    pruned(context, executions="1d", events="1d")
    assert newest() == (*before[:2], before[2] + 1)  # the event of the pruning itself
    assert stored_names(context) == ["a", "c"]  # of a is the last event, c has the last number
    created(api, "d")
    switch(api, "local", "cordon")
    assert all(now > then for now, then in zip(newest(), before, strict=True))


def test_a_row_whose_clock_was_wrong_does_not_keep_the_others(api: FlaskClient, context: Context, clock: Clock) -> None:
    for name in ("a", "odd", "b", "last"):
        created(api, name)
        end(api, name)
    with context.database.writing() as connection:
        ahead = clock().replace(year=2100)
        connection.execute(update(executions).where(executions.c.name == "odd").values(created_at=ahead))
    clock.advance(2 * DAY)
    assert pruned(context, executions="1d")["executions"] == 3
    assert stored_names(context) == ["last"]


def test_a_dry_run_changes_nothing(api: FlaskClient, context: Context, clock: Clock, agent: PlayedAgent) -> None:
    run(agent, *(f"old-{number}" for number in range(4)))
    for number in range(3):
        put_pool(api, "gpu", [f"c{number}"])
    created(api, "new")
    clock.advance(2 * DAY)
    before = row_counts(context)
    ages: dict[str, Any] = {"executions": "1d", "events": "12h", "logs": "6h", "revisions": "1d"}
    would = pruned(context, dry_run=True, **ages)
    assert row_counts(context) == before
    assert pruned(context, **ages) == would
    after = row_counts(context)
    after["cluster_events"] -= 1  # the event of the pruning itself
    assert {table: before[table] - count for table, count in would.items()} == {table: after[table] for table in would}
    changed = {table for table in before if before[table] != after[table]}
    assert changed == {*would, stocks.retention_cutoffs.name, pruned_executions.name}  # where it says what is gone


def test_a_dry_run_knows_what_the_newest_execution_keeps(
    api: FlaskClient, context: Context, clock: Clock, agent: PlayedAgent
) -> None:
    run(agent, "old")
    put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 7})
    run(agent, "newest")
    clock.advance(2 * DAY)
    would = pruned(context, executions="1d", dry_run=True)
    assert pruned(context, executions="1d") == would
    assert stored_names(context) == ["newest"]
    check_whole(context)


def test_a_run_that_is_killed_at_any_step_is_made_good_by_the_next(
    api: FlaskClient, context: Context, clock: Clock, agent: PlayedAgent
) -> None:
    ages: dict[str, Any] = {"executions": "1d", "revisions": "1d"}
    for turn in range(12):
        run(agent, *(f"old-{turn}-{number}" for number in range(3)))
        put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": turn + 1})
        clock.advance(2 * DAY)
        steps = prune(context, Retention(**ages), sizes=SMALL)
        for _ in islice(steps, 3 * turn):
            pass
        assert isinstance(steps, Generator)
        steps.close()
        for name in stored_names(context):
            assert explanation(api, name)["candidates"]
    pruned(context, **ages)
    assert stored_names(context) == ["old-11-2"]
    check_whole(context)


def test_creations_lose_nothing_while_others_prune(app: Flask, context: Context, clock: Clock) -> None:
    is_over = threading.Event()
    creations = threading.Semaphore(0)

    def sweep() -> None:
        while not is_over.is_set():
            creations.acquire()
            pruned(context, executions="1s", events="1s")

    def create(who: int) -> list[str]:
        client = app.test_client()
        kept = []
        for turn in range(8):
            put_attribute(client, "domain", "workflow_execution_config", {"max_parallelism": turn + 1})
            for number in range(4):
                name = f"e-{who}-{turn}-{number}"
                created(client, name)
                creations.release()
                if number % 2:
                    end(client, name)
                else:
                    kept.append(name)
            clock.advance(2)
        return kept

    with ThreadPoolExecutor(4) as threads:
        pruners = [threads.submit(sweep) for _ in range(2)]
        kept = [name for names in threads.map(create, range(2)) for name in names]
        is_over.set()
        creations.release(len(pruners))
        for pruner in pruners:
            pruner.result(timeout=30)
    client = app.test_client()
    for name in kept:
        assert execution(client, name)["closure"]["phase"] == "QUEUED"
        assert explanation(client, name)["candidates"]
    clock.advance(2)
    pruned(context, executions="1s")
    assert set(kept) <= set(stored_names(context))
    check_whole(context)


def test_a_trail_that_is_gone_is_stored_again_when_it_is_needed(
    api: FlaskClient, context: Context, clock: Clock
) -> None:
    created(api, "old")
    created(api, "last", cluster="local")
    end(api, "old", "last")
    clock.advance(2 * DAY)
    assert pruned(context, executions="1d")["trails"] > 0
    created(api, "again")
    assert explanation(api, "again")["candidates"]
    check_whole(context)


def test_a_trail_that_is_decided_by_while_it_is_swept_stays(api: FlaskClient, context: Context, clock: Clock) -> None:
    created(api, "waits", cluster="local")
    created(api, "old")
    created(api, "last", cluster="local")
    end(api, "old")
    end(api, "last")
    clock.advance(2 * DAY)
    steps = steps_up_to_trails(context, Retention(executions="1d"), PruningSizes())
    created(api, "new")
    assert "trails" not in total(steps)
    assert stored_names(context) == ["waits", "last", "new"]
    check_whole(context)


@pytest.mark.parametrize("batch", [1, 1000])
def test_so_does_one_that_something_waiting_is_decided_by_again(
    api: FlaskClient, context: Context, clock: Clock, batch: int
) -> None:
    put_pool(api, "gpu", ["a", "b"], strategy="spill")
    pool = {"cluster_assignment": {"cluster_pool_name": "gpu"}}
    switch(api, "a", "cordon")
    created(api, "old", **pool)
    created(api, "last", cluster="local")
    end(api, "old", "last")
    switch(api, "a", "uncordon")
    created(api, "waits", **pool)
    clock.advance(2 * DAY)
    steps = steps_up_to_trails(context, Retention(executions="1d"), PruningSizes(batch=batch))
    switch(api, "a", "cordon")
    assert ok(api.post(f"{API}/executions/redecide", json={"selector": {"pool": "gpu"}}))["changed"] == 1
    for number in range(3):
        created(api, f"more-{number}", cluster="local")
    total(steps)
    assert (execution(api, "waits")["cluster"], execution(api, "waits")["decisions"]) == ("b", 2)
    assert explanation(api, "waits", "?decision=1")["cluster"] == "a"
    assert explanation(api, "waits", "?decision=2")["cluster"] == "b"
    check_whole(context)


class TestRevisions:
    """Old revisions go from the first one on, and later states are not touched by that."""

    @pytest.fixture
    def history(self, api: FlaskClient, context: Context, clock: Clock) -> int:
        """Ten revisions, one a day; answers the number before the first of them."""
        head = int(get(api, "revisions?limit=1")["head"])
        for number in range(1, 11):
            put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": number})
            clock.advance(DAY)
        return head

    def at(self, api: FlaskClient, number: int) -> Any:
        query = f"domain={DOMAIN}&resource_type=WORKFLOW_EXECUTION_CONFIG&at={number}"
        return get(api, f"effective_attributes?{query}")["values"][0]["value"]["max_parallelism"]

    def test_older_ones_go_and_are_named(self, api: FlaskClient, context: Context, history: int) -> None:
        assert "oldest" not in get(api, "revisions")
        would = pruned(context, revisions="5d12h", dry_run=True)
        assert (
            pruned(context, revisions="5d12h") == would == {"revisions": history + 5, "revision_changes": history + 5}
        )
        listed = get(api, "revisions")
        oldest = history + 6
        assert [revision["number"] for revision in listed["revisions"]] == list(range(history + 10, oldest - 1, -1))
        assert (listed["head"], listed["oldest"]) == (history + 10, oldest)
        assert [self.at(api, history + number) for number in range(5, 11)] == [5, 6, 7, 8, 9, 10]
        assert len(get(api, f"revision_diff?from={oldest - 1}&to={oldest}")["rows"]) == 1
        everything = {"to": history + 4, "everything": True}
        for answer in (
            api.get(f"{API}/revisions/{oldest - 1}"),
            api.get(f"{API}/revision_diff?from={history + 8}&to={history + 4}"),
            api.get(f"{API}/revision_diff?from=0&to={history + 8}"),
            api.get(f"{API}/effective_attributes?domain={DOMAIN}&at={history + 4}"),
            api.get(f"{API}/matchable_attributes?resource_type=all&at={history + 4}"),
            api.post(f"{API}/rollbacks", json={"revision": history + 3}),
            api.post(f"{API}/rollbacks", json=everything),
            api.post(f"{API}/rollbacks?dry_run=true", json=everything),
            api.post(f"{API}/rollbacks", json={"to": history + 4, "domain": DOMAIN}),
        ):
            message = refused(answer, 404, "revision_pruned")["message"]
            assert f"the oldest that is kept is {oldest}" in message
            assert "retention.revisions, if that is set" in message
            assert "`rainbow-admin prune --revisions`" in message
        refused(api.get(f"{API}/revisions/{history + 99}"), 404, "revision_not_found")

    def test_a_row_tells_what_it_knows_of_a_revision_that_is_gone(
        self, api: FlaskClient, context: Context, clock: Clock
    ) -> None:
        put_attribute(api, "project", "workflow_execution_config", {"max_parallelism": 1})
        clock.advance(DAY)
        put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 2})
        pruned(context, revisions="12h")
        kind = "resource_type=WORKFLOW_EXECUTION_CONFIG"
        [row] = get(api, f"matchable_attributes?{kind}&level=project")["configurations"]
        assert row["provenance"] == {
            "revision": row["version"],
            "author": "anonymous",
            "at": row["updated_at"],
            "kept": False,
        }
        read = get(api, f"project_attributes/{PROJECT}?{kind}&provenance=true")
        assert read["provenance"] == row["provenance"]
        assert read["origins"]["max_parallelism"]["set_before"] == row["version"] + 1

    def test_a_definition_says_that_its_revision_is_gone(
        self, api: FlaskClient, context: Context, clock: Clock
    ) -> None:
        put_pool(api, "gpu", ["a"])
        ok(api.put(f"{API}/clusters/a", json={"cluster": {"enabled": False}, "claimed_by": "ana"}))
        ok(api.post(f"{API}/projects", json={"project": {"id": "old"}}))
        ok(api.put(f"{API}/projects/old", json={"state": "ARCHIVED"}))
        paths = ("pools/gpu", "clusters/a", "projects/old?provenance=true")
        made_by = {}
        for path in paths:
            answer = get(api, path)
            made_by[path] = answer["provenance"]["definition"]
            assert "version_pruned" not in answer
            assert made_by[path]["revision"] == answer["version"]
        clock.advance(DAY)
        put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 2})
        pruned(context, revisions="12h")
        for path in paths:
            answer = get(api, path)
            by = {**made_by[path], "kept": False}
            assert (answer["version_pruned"], answer["provenance"]["definition"]) == (True, by)
        [row] = get(api, "definitions?resource_type=CLUSTER&name=a")["definitions"]
        assert row["provenance"]["claimed_by"] == "ana"
        refusal = refused(create(api, "never", cluster="a"), 400, "cluster_disabled", "spec.cluster")
        assert "which is no longer kept, anonymous (says ana)" in refusal["message"]
        assert "version_pruned" not in get(api, f"projects/{PROJECT}?provenance=true")  # which configuration brought

    def test_every_noun_keeps_who_made_its_rows(self) -> None:
        in_rows = {kind.value for kind in FleetKind}  # beside attributes, which NOUNS gives no kinds
        assert pruned_authors.TABLES.keys() | in_rows == {kind for noun in NOUNS for kind in noun.kinds}

    def test_who_gave_rights_is_told_for_as_long_as_they_last(
        self, app: Flask, api: FlaskClient, context: Context, clock: Clock
    ) -> None:
        definitions: dict[str, dict[str, Any]] = {
            "group": {"name": "ml", "users": ["eve"]},
            "cluster_group": {"name": "racks", "clusters": ["a"]},
            "token_pool": {"name": "hive", "capacity": 5},
            "use_grant": {"cluster": "a", "group": "ml"},
            "grant": {"role": "admin", "group": "ml", "project": PROJECT},
        }
        for noun, definition in definitions.items():
            ok(api.post(f"{API}/{noun}s", json={noun: definition, "claimed_by": "ana", "message": "asked for"}))
        options = ChangeOptions(authorship=Authorship(claimed_by="ana", message="asked for"))
        for name in ("ada", "eve"):
            users.create_user(context, name, {}, options)
        grants.create_grant(context, Grant(role="admin", grantee=Grantee("user", "ada")), ChangeOptions())
        ada, eve = (
            {"Authorization": f"Bearer {user_tokens.create_token(context, name, 'laptop').token}"}
            for name in ("ada", "eve")
        )
        by = {"author": "anonymous", "claimed_by": "ana", "message": "asked for", "kept": False}
        paths = ("groups/ml", "cluster_groups/racks", "token_pools/hive", "use_grants/cluster:a:group:ml", "users/eve")
        grant = f"grants/admin:group:ml:{PROJECT}"
        clock.advance(DAY)
        users.create_user(context, "later", {}, ChangeOptions())
        assert pruned(context, revisions="12h")["revisions"] == 8
        for path, reader in (*((path, ada) for path in (*paths, grant)), (grant, eve)):
            answer = ok(api.get(f"{API}/{path}", headers=reader))
            definition = answer["provenance"]["definition"]
            assert (answer["version_pruned"], definition) == (True, definition | by), path
            assert definition["revision"] == answer["version"]
        [row] = ok(api.get(f"{API}/all_definitions?noun=grant", headers=eve))["definitions"]
        assert row["provenance"]["claimed_by"] == "ana"
        for path in paths:
            force = "?force=true" if path == "groups/ml" else ""
            ok(api.delete(f"{API}/{path}{force}", headers=ada))
        clock.advance(DAY)
        users.create_user(context, "last", {}, ChangeOptions())
        pruned(context, revisions="12h")
        with context.database.reading() as connection:
            kept = connection.execute(select(pruned_authors_table.c.kind, pruned_authors_table.c.name)).all()
        assert sorted(map(tuple, kept)) == [
            ("GRANT", f"admin:group:ml:{PROJECT}"),
            ("GRANT", "admin:user:ada"),
            ("USER", "ada"),
            ("USER", "later"),
        ]

    def test_what_is_kept_can_be_brought_back(self, api: FlaskClient, context: Context, history: int) -> None:
        pruned(context, revisions="5d12h")
        ok(api.post(f"{API}/rollbacks", json={"to": history + 5, "everything": True}))
        assert self.at(api, history + 11) == 5
        ok(api.post(f"{API}/rollbacks", json={"revision": history + 11}))
        assert self.at(api, history + 12) == 10

    def test_versions_that_name_what_is_gone_still_count(
        self, api: FlaskClient, context: Context, clock: Clock, history: int
    ) -> None:
        pool = put_pool(api, "gpu", ["a"])
        for number in range(3):
            put_attribute(api, "domain", "task_resource_attributes", {"defaults": {"memory": f"{number + 1}Mi"}})
        with_version = {"If-Match": f'"{pool["version"]}"'}
        clock.advance(DAY)
        pruned(context, revisions="1h")
        assert get(api, "pools/gpu")["version"] == pool["version"]
        answer = api.put(f"{API}/pools/gpu", json={"pool": {"members": [{"id": "b"}]}}, headers=with_version)
        assert ok(answer)["revision"] == pool["version"] + 4

    def test_the_last_one_is_always_kept(self, api: FlaskClient, context: Context, history: int) -> None:
        pruned(context, revisions="1s")
        assert [revision["number"] for revision in get(api, "revisions")["revisions"]] == [history + 10]
        assert pruned(context, revisions="1s") == {}
        assert self.at(api, history + 9) == 9
        put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 11})
        assert self.at(api, history + 10) == 10

    def test_a_project_that_is_gone_is_known_for_as_long_as_history_names_it(
        self, api: FlaskClient, context: Context, clock: Clock, history: int
    ) -> None:
        made = ok(api.post(f"{API}/projects", json={"project": {"id": "short"}}))
        assert made
        ok(api.post(f"{API}/rollbacks", json={"revision": history + 11}))
        assert get(api, "revisions?project=short")["revisions"]
        put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 11})
        clock.advance(DAY)
        pruned(context, revisions="1h")
        refused(api.get(f"{API}/revisions?project=short"), 400, "unknown_project")

    def test_one_large_revision_goes_at_once(
        self, api: FlaskClient, context: Context, clock: Clock, history: int
    ) -> None:
        changes = [
            {
                "resource_type": "WORKFLOW_EXECUTION_CONFIG",
                "domain": domain,
                "project": project,
                "payload": {"max_parallelism": 77},
            }
            for domain in ("development", "staging", "production")
            for project in ("flytesnacks", "flyteexamples")
        ]
        ok(api.post(f"{API}/attribute_changes", json={"changes": changes}))
        put_attribute(api, "domain", "workflow_execution_config", {"max_parallelism": 11})
        clock.advance(DAY)
        steps = [counts for counts in prune(context, Retention(revisions="1h"), sizes=SMALL) if counts]
        assert all(counts["revision_changes"] <= 4 or counts["revisions"] == 1 for counts in steps)
        assert sum(counts["revisions"] for counts in steps) == history + 11


def test_the_leader_prunes_every_so_often_in_small_slices(make_app: MakeApp, caplog: pytest.LogCaptureFixture) -> None:
    app = make_app(retention={"executions": "5m", "interval": "50ms"})
    clock = WatchedClock(app)
    context, api = app.extensions["rainbow"], app.test_client()
    seconds = count(100)
    small_steps = partial(prune, sizes=SMALL)
    # A step or two in each round.
    loop = RetentionLoop(context, slice_seconds=2, clock=lambda: float(next(seconds)), prune=small_steps)
    for number in range(10):
        created(api, f"old-{number}")
        end(api, f"old-{number}")
    loop()
    clock.advance(600)
    before = pruned_total.labels("executions")._value.get()
    rounds = 0
    with caplog.at_level(logging.INFO, "rainbow.loops"):
        while len(stored_names(context)) > 1 or loop.is_running:
            loop()
            rounds += 1
            assert rounds < 1000
    assert rounds > 3
    assert pruned_total.labels("executions")._value.get() - before == 9
    [record] = [record for record in caplog.records if record.message == "pruned"]
    assert (vars(record)["executions"], vars(record)["execution_events"]) == (9, 19)
    check_whole(context)


def test_the_leader_keeps_everything_unless_it_is_told_otherwise(
    api: FlaskClient, context: Context, clock: Clock
) -> None:
    created(api, "a")
    end(api, "a")
    created(api, "b")
    clock.advance(10_000 * DAY)
    before = row_counts(context)
    RetentionLoop(context)()
    assert row_counts(context) == before


def test_a_round_in_which_nothing_is_due_asks_nothing_of_the_database(app: Flask) -> None:
    clock = WatchedClock(app)
    clock.advance(60)
    context = context_of(app)
    loop = RetentionLoop(context, clock=clock.monotonic)
    with statements(context) as first:
        loop()
    with statements(context) as second:
        loop()
    assert (bool(first), second) == (True, [])


def test_a_round_that_fails_is_begun_again_later(app: Flask) -> None:
    WatchedClock(app).advance(60)
    context = context_of(app)
    kept = replace(context.settings, retention=Retention(executions="1d"), retention_interval_seconds=10)
    now, runs = [100.0], 0

    def mistake() -> dict[str, int]:
        raise ValueError("a mistake")

    def fail_once(*_arguments: Any, **_options: Any) -> Iterator[dict[str, int]]:
        nonlocal runs
        runs += 1
        if runs == 1:
            yield mistake()

    loop = RetentionLoop(replace(context, settings=kept), clock=lambda: now[0], prune=fail_once)
    with pytest.raises(ValueError, match="a mistake"):
        loop()
    now[0] += 9
    loop()
    assert runs == 1
    now[0] += 1
    loop()
    assert (runs, loop.is_running) == (2, False)
