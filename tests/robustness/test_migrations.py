"""Migrations of databases with data in them, up and back, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import JSON, Column, Engine, Table, create_engine, insert, inspect, select, update

from admin.core.audit import AuditEvent
from admin.core.clock_checks import ClockCheck
from admin.core.cluster_resources.states import NamespaceReport, ObjectReport, ObjectState
from admin.core.retention import Cutoffs
from admin.core.settings.scopes import Scope
from admin.store import (
    attributes,
    audit_events,
    bid_tables,
    clock_checks,
    cluster_events,
    cluster_resources,
    decisions,
    execution_tables,
    fleet,
    fleet_tables,
    pruned_executions,
    registration_tables,
    retention,
    revision_tables,
    revisions,
    row_changes,
    sessions,
    user_tokens,
    users,
)
from admin.store.cluster_events import ClusterEventFilter
from admin.store.database import Database, UtcDateTime
from admin.store.dialects import is_postgresql
from admin.store.revisions import RevisionFilter
from admin.store.schema import known_revisions, migrate
from admin.store.sessions import Session
from admin.store.token_grants import books
from admin.store.token_sums import rebuild
from admin.store.token_tables import TOKEN_POOLS, token_grants, token_pool_heads, token_sums, token_waiters
from tests.integration.test_schema import indexes


@pytest.fixture
def engine(database_url: str) -> Any:
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


def test_going_back_gives_each_revision_the_indexes_it_had(engine: Engine) -> None:
    upgraded = {}
    for revision in known_revisions():
        migrate(engine, revision)
        upgraded[revision] = indexes(engine)
    for revision in reversed(known_revisions()):
        migrate(engine, revision)
        assert indexes(engine) == upgraded[revision], revision


def test_going_back_works_after_a_trail_was_deleted(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    with engine.begin() as connection:
        for table in (execution_tables.executions, decisions.decisions):
            values = {column.name: _anything(column, now) for column in table.columns if not column.nullable}
            connection.execute(insert(table).values(**values))
    migrate(engine, "0004")
    with engine.connect() as connection:
        rows = connection.execute(select(decisions.trails)).all()
    assert [tuple(row) for row in rows] == [("1", {})]


def _anything(column: Column[Any], now: datetime) -> Any:
    if isinstance(column.type, UtcDateTime):
        return now
    if isinstance(column.type, JSON):
        return {}
    return column.type.python_type(1)


def store_anything(engine: Engine, tables: Iterable[Table]) -> None:
    """Insert a row into each table, with something in each column that needs a value."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    with engine.begin() as connection:
        for table in tables:
            columns = [column for column in table.columns if not column.nullable and column.server_default is None]
            connection.execute(insert(table).values({column.name: _anything(column, now) for column in columns}))


def test_executions_and_clusters_from_before_random_ids_have_empty_ones(engine: Engine) -> None:
    migrate(engine)
    tables = (execution_tables.executions, fleet_tables.cluster_states)
    store_anything(engine, tables)
    migrate(engine, "0009")
    migrate(engine)
    with engine.connect() as connection:
        [execution], [cluster] = (connection.execute(select(table)).all() for table in tables)
    assert (execution.uid, execution.lease_instance, execution.silent_since, execution.unstarted) == ("", "", None, 0)
    assert (execution.phase_since, execution.last_failure) == (None, None)
    assert (cluster.agent_instance, cluster.agent_host, cluster.agent_since, cluster.syncs) == ("", "", None, 0)


def test_how_far_the_clock_was_trusted_survives_its_new_name(engine: Engine) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    migrate(engine)
    check = ClockCheck(trusted_at=noon, seen_at=noon, accepted_at=noon, accepted_by="ops", accepted_reason="x")
    with engine.begin() as connection:
        clock_checks.save(connection, check)
    migrate(engine, "0012")
    with engine.connect() as connection:
        [row] = connection.exec_driver_sql("SELECT * FROM clock_checks").mappings()
    assert set(row) == {"id", "believed_at", "seen_at", "steady_seconds"}
    migrate(engine)
    with engine.connect() as connection:
        assert clock_checks.get(connection, noon) == ClockCheck(trusted_at=noon, seen_at=noon)


def test_executions_from_before_creators_were_kept_have_the_labels_and_principal_of_their_request(
    engine: Engine,
) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    table = execution_tables.executions
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    values = {column.name: _anything(column, now) for column in columns if column.name != "id"}
    stored: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("a", {"spec": {"metadata": {"principal": "ann"}}}, {"job": {"labels": {"team": "ml"}}}),
        ("b", {"spec": {"metadata": {"principal": ""}}}, {"job": {"labels": {"x": "y"}}}),
        ("c", {"spec": {}}, {"job": {}}),
        ("d", {"spec": {}}, {"job": {"labels": {"x": "y"}, "requires": ["\0"]}}),
    )
    with engine.begin() as connection:
        for name, request, content in stored:
            connection.execute(insert(table).values({**values, "name": name, "request": request, "content": content}))
    migrate(engine, "0014")
    migrate(engine)
    with engine.connect() as connection:
        rows = connection.execute(select(table).order_by(table.c.name)).all()
    assert [(row.created_by, row.principal, row.labels) for row in rows] == [
        ("", "ann", {"team": "ml"}),
        ("", None, {"x": "y"}),
        ("", None, None),
        ("", None, None if engine.dialect.name == "postgresql" else {"x": "y"}),  # which reads nothing beside a NUL
    ]


def test_executions_that_a_limit_ended_before_its_scope_was_kept_have_it(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    table = execution_tables.executions
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    values = {column.name: _anything(column, now) for column in columns if column.name != "id"}
    job = {"command": ["true"], "resources": {"limits": {"memory": "64Mi"}}}
    origin = {"level": "project", "project": "p", "version": 7}
    amounts = {"defaults": {"memory": "64Mi"}}
    settings: list[dict[str, Any]] = [
        {"resource_type": "TASK_RESOURCE", "value": amounts, "origins": {"defaults.memory": origin}},
        {"resource_type": "QUALITY_OF_SERVICE_SPECIFICATION", "value": {}, "origins": {}},
    ]
    of_domain = {"level": "domain", "domain": "d"}
    of_workflow = {"level": "workflow", "project": "p", "domain": "d", "workflow": "w"}
    narrower: list[dict[str, Any]] = [
        {
            "resource_type": "TASK_RESOURCE",
            "value": {"defaults": {"memory": "1Gi"}, "limits": {"memory": "64Mi"}},
            "origins": {"defaults.memory": origin, "limits.memory": of_domain},
        },
        {
            "resource_type": "QUALITY_OF_SERVICE_SPECIFICATION",
            "value": {},
            "origins": {"spec.queueing_budget": of_workflow},
        },
    ]
    decision: dict[str, Any] = {"number": 2, "decided_at": now, "revision": 1}
    decision |= dict.fromkeys(("reason", "reason_message", "because", "placement_trail"), "x")
    with engine.begin() as connection:
        for digest, body in (("t", settings), ("narrower", narrower)):
            connection.execute(insert(decisions.trails).values(digest=digest, body={"settings": body, "rungs": []}))
        for id, (phase, reason, requested, digest) in enumerate(
            (
                ("FAILED", "OUT_OF_MEMORY", {"command": ["true"]}, "t"),
                ("FAILED", "OUT_OF_MEMORY", job, "t"),
                ("FAILED", "OUT_OF_MEMORY", {"command": ["true"]}, "gone"),
                ("TIMED_OUT", "TIME_LIMIT", {"command": ["true"]}, "t"),
                ("TIMED_OUT", "QUEUEING_BUDGET_EXCEEDED", {"command": ["true"]}, "t"),
                ("TIMED_OUT", "OF_AN_ENGINE", {"command": ["true"]}, "t"),
                ("QUEUED", "OUT_OF_MEMORY", {"command": ["true"]}, "t"),
                ("FAILED", "OUT_OF_MEMORY", {"command": ["true"]}, "narrower"),
                ("TIMED_OUT", "QUEUEING_BUDGET_EXCEEDED", {"command": ["true"]}, "narrower"),
                ("FAILED", "OUT_OF_MEMORY", None, "t"),
            ),
            start=1,
        ):
            row = {"id": id, "name": f"e{id}", "phase": phase, "reason": reason, "decisions": 2}
            row |= {"content": {"job": job}, "request": {"spec": {"job": requested}}}
            connection.execute(insert(table).values({**values, **row}))
            connection.execute(insert(decisions.decisions).values(execution_id=id, settings_trail=digest, **decision))
    migrate(engine, "0023")
    migrate(engine)
    with engine.connect() as connection:
        scopes = connection.execute(select(table.c.limit_scope).order_by(table.c.id)).scalars().all()
    assert scopes == [
        *("project p", "job", None, "job", "platform", None, None),
        *("domain d", "workflow p/d/w", None),
    ]


def test_attempts_from_before_they_were_recorded_have_no_records(engine: Engine) -> None:
    migrate(engine)
    tables = (execution_tables.executions, execution_tables.execution_events)
    store_anything(engine, tables)
    migrate(engine, "0017")
    migrate(engine)
    with engine.connect() as connection:
        [execution], [event_row] = (connection.execute(select(table)).all() for table in tables)
    assert (execution.last_failure, execution.project, event_row.attempt, event_row.number) == (None, "1", None, 1)


def test_executions_from_before_creators_gave_names_have_none(engine: Engine) -> None:
    migrate(engine)
    table = execution_tables.executions
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    values = {column.name: _anything(column, datetime(2026, 3, 1, tzinfo=UTC)) for column in columns}
    with engine.begin() as connection:
        connection.execute(insert(table).values({**values, "created_by": "anonymous", "claimed_by": "otto"}))
    migrate(engine, "0019")
    migrate(engine)
    with engine.connect() as connection:
        [execution] = connection.execute(select(table)).all()
    assert (execution.created_by, execution.claimed_by) == ("anonymous", None)


def test_clusters_of_before_have_no_description_and_going_back_takes_descriptions_away(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    tables = (execution_tables.executions, fleet_tables.cluster_states, fleet_tables.cluster_descriptions)
    store_anything(engine, tables)
    with engine.begin() as connection:
        connection.execute(fleet_tables.cluster_states.update().values(description="digest"))
        connection.execute(execution_tables.executions.update().values(asks="{}"))
        for kind in ("DESCRIBED", "READY"):
            connection.execute(insert(fleet_tables.cluster_events).values(cluster="1", at=now, type=kind))
        retention.record_cutoff(connection, "descriptions", now)
    migrate(engine, "0035")
    migrate(engine)
    with engine.connect() as connection:
        [execution], [state], described = (connection.execute(select(table)).all() for table in tables)
        events = connection.execute(select(fleet_tables.cluster_events.c.type)).scalars().all()
        assert retention.cutoffs(connection) == Cutoffs()
    assert (execution.asks, state.description, described, events) == (None, None, [], ["READY"])


def test_unfinished_executions_of_before_have_their_phase_since_the_event_that_brought_it(engine: Engine) -> None:
    migrate(engine)
    tables = (execution_tables.executions, execution_tables.execution_events)
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    execution, event_row = (
        {
            column.name: _anything(column, noon)
            for column in table.columns
            if not column.nullable and column.server_default is None and column.name != "id"
        }
        for table in tables
    )
    migrate(engine, "0023")
    with engine.begin() as connection:
        for id, phases in ((1, ["QUEUED", "RUNNING", "RUNNING"]), (2, ["QUEUED", "QUEUED"])):
            connection.execute(insert(tables[0]).values({**execution, "id": id, "name": f"e{id}", "phase": phases[-1]}))
            for number, phase in enumerate(phases, 1):
                values = {"execution_id": id, "number": number, "phase": phase, "at": noon + timedelta(minutes=number)}
                connection.execute(insert(tables[1]).values({**event_row, **values}))
    migrate(engine)
    with engine.connect() as connection:
        since = connection.execute(select(tables[0].c.phase_since).order_by(tables[0].c.id)).scalars().all()
    assert since == [noon + timedelta(minutes=2), None]


def test_the_changes_of_rows_from_before_their_index_had_revisions_are_kept(engine: Engine) -> None:
    migrate(engine)
    now, scope = datetime(2026, 3, 1, tzinfo=UTC), Scope(domain="staging")
    with engine.begin() as connection:
        for number in (1, 2):
            connection.execute(insert(revision_tables.revisions).values(number=number, created_at=now, author="ann"))
            change = {"revision": number, "ordinal": 0, "kind": "TASK_RESOURCE", "after": {"n": number}}
            connection.execute(insert(revision_tables.revision_changes).values({**change, **scope._asdict()}))

    def changes() -> list[tuple[int, Any]]:
        with engine.connect() as connection:
            rows = row_changes.changes_of_row(connection, "TASK_RESOURCE", scope, 2, 10)
            return [(change.revision, change.after) for change in rows]

    before = changes()
    migrate(engine, "0023")
    assert changes() == before == [(2, {"n": 2}), (1, {"n": 1})]
    migrate(engine)
    assert changes() == before
    assert any("launch_plan, kind, revision)" in definition for definition in indexes(engine))


def test_executions_that_ended_without_their_agent_are_marked_by_their_messages(engine: Engine) -> None:
    migrate(engine)
    table = execution_tables.executions
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    now = datetime(2026, 3, 1, tzinfo=UTC)
    values = {column.name: _anything(column, now) for column in columns if column.name != "id"}
    unconfirmed = "Nobody has confirmed that its job has ended."
    stored = {
        "lost": ("FAILED", "CLUSTER_LOST", f"Cluster 'a' has been silent for too long. {unconfirmed}"),
        "aborted": ("ABORTED", "TERMINATED", f"enough. {unconfirmed} Given up by anonymous: no cause was given"),
        "confirmed": (
            "FAILED",
            "CLUSTER_LOST",
            "Cluster 'a' confirmed at 2026-03-01T12:00:00Z that its job has ended.",
        ),
        "printed": ("FAILED", "FAILED", unconfirmed),  # an agent's own words
    }
    migrate(engine, "0023")
    with engine.begin() as connection:
        for name, (phase, reason, message) in stored.items():
            row = {**values, "name": name, "phase": phase, "reason": reason, "reason_message": message}
            connection.execute(insert(table).values(row))
        connection.exec_driver_sql("INSERT INTO cluster_states (name, cordoned, report) VALUES ('a', false, '{}')")
    migrate(engine)
    with engine.connect() as connection:
        rows = connection.execute(select(table.c.name, table.c.unconfirmed).order_by(table.c.id)).all()
        state = fleet.states(connection)["a"]
        assert (state.ending, state.asked) == ([], {})
    assert {row.name: row.unconfirmed for row in rows} == {
        "lost": True,
        "aborted": True,
        "confirmed": False,
        "printed": False,
    }


def test_registrations_from_before_authors_were_recorded_have_an_unknown_one(engine: Engine) -> None:
    migrate(engine, "0027")
    now = datetime(2026, 3, 1, tzinfo=UTC)
    values: dict[str, Any] = {"project": "p", "domain": "d", "name": "n", "version": "v", "spec": {}, "digest": ""}
    values["created_at"] = now
    more: dict[str, Any] = {"workflow": "w", "state": "ACTIVE", "updated_at": now}
    before = {
        registration_tables.workflows: values,
        registration_tables.launch_plans: {**values, **more},
    }
    with engine.begin() as connection:
        for table, row in before.items():
            connection.execute(insert(table).values(row))
    migrate(engine)
    with engine.begin() as connection:
        for table in before:
            [stored] = connection.execute(select(table)).all()
            assert (stored.author, stored.claimed_by, stored.message, stored.name) == ("unknown", None, None, "n")
            new = {**before[table], "version": "v2", "author": "anonymous", "claimed_by": "ana"}
            connection.execute(insert(table).values(new))
    migrate(engine, "0027")
    migrate(engine)
    with engine.connect() as connection:
        for table in before:
            rows = connection.execute(select(table.c.version, table.c.author).order_by(table.c.id)).all()
            assert [tuple(row) for row in rows] == [("v", "unknown"), ("v2", "unknown")]


def test_definitions_of_before_have_the_authors_of_the_revisions_that_are_kept(engine: Engine) -> None:
    migrate(engine, "0035")
    now, table = datetime(2026, 3, 1, tzinfo=UTC), fleet_tables.fleet_definitions
    definition: dict[str, Any] = {"kind": "CLUSTER", "payload": {}}
    made: dict[str, Any] = {"number": 7, "created_at": now, "author": "ada", "claimed_by": "ana"}
    with engine.begin() as connection:
        connection.execute(insert(revision_tables.revisions).values(made))
        for name, version in (("kept", 7), ("pruned", 3)):
            connection.execute(insert(table).values({**definition, "name": name, "version": version}))
    for _ in range(2):
        migrate(engine)
        with engine.connect() as connection:
            rows = connection.execute(select(table).order_by(table.c.name)).all()
            [stored] = connection.execute(select(revision_tables.revisions)).all()
        authors = [(row.name, row.version, row.updated_at, row.updated_by, row.claimed_by) for row in rows]
        assert authors == [("kept", 7, now, "ada", "ana"), ("pruned", 3, None, None, None)]
        assert (stored.number, stored.also_undone) == (7, None)
        migrate(engine, "0035")


def test_rounds_of_before_belong_to_the_clusters_that_they_name(engine: Engine) -> None:
    migrate(engine, "0027")
    now = datetime(2026, 3, 1, tzinfo=UTC)
    reasons = (
        "3 decided again: east -> west: 2, north -> none (CLUSTERS_FULL): 1 (p/d/a, p/d/b and 1 more). It -> said: so.",
        "1 decided again: stays without a cluster (CLUSTERS_FULL): 1 (p/d/c). After revision 4 by ana.",
    )
    event: dict[str, Any] = {"cluster": "", "at": now, "type": "REDECIDED"}
    with engine.begin() as connection:
        for number, reason in enumerate(reasons, 1):
            connection.execute(
                insert(fleet_tables.cluster_events).values({**event, "number": number, "reason": reason})
            )
    migrate(engine)
    table = fleet_tables.moved_clusters
    with engine.connect() as connection:
        rows = connection.execute(select(table).order_by(table.c.event, table.c.cluster)).all()
        assert retention.cutoffs(connection) == Cutoffs(), "nothing was pruned"
    assert [tuple(row) for row in rows] == [(1, "east"), (1, "north"), (1, "west")]


def test_events_and_registrations_of_before_are_of_no_known_request(engine: Engine) -> None:
    migrate(engine, "0053")
    now = datetime(2026, 3, 1, tzinfo=UTC)
    registered: dict[str, Any] = {"project": "p", "domain": "d", "name": "n", "version": "v", "created_at": now}
    registered |= {"author": "ana"}
    plan = {"workflow": "w", "state": "ACTIVE"}
    rows: dict[Table, dict[str, Any]] = {
        fleet_tables.cluster_events: {"cluster": "c", "at": now, "type": "CORDONED"},
        registration_tables.workflows: {**registered, "spec": {}, "digest": ""},
        registration_tables.launch_plans: {**registered, "spec": {}, "digest": "", **plan, "updated_at": now},
        registration_tables.launch_plan_activations: {**registered, **plan},
    }
    with engine.begin() as connection:
        for table, row in rows.items():
            connection.execute(insert(table).values(row))
    for kept in (1, 2):
        migrate(engine)
        with engine.begin() as connection:
            for table, row in rows.items():
                assert connection.execute(select(table.c.request_id)).scalars().all() == [None] * kept
                new = {**row, "version": f"v{kept}"} if "version" in row else row
                connection.execute(insert(table).values({**new, "request_id": "r"}))
        migrate(engine, "0053")
        with engine.begin() as connection:
            for table in rows:
                names = [column for column in table.columns if column.name != "request_id"]
                assert len(connection.execute(select(*names)).all()) == kept + 1


def test_what_requests_of_before_did_is_in_the_indexes_of_requests(engine: Engine) -> None:
    migrate(engine, "0062")
    now = datetime(2026, 3, 1, tzinfo=UTC)
    requests = [None, "r", "r", "s"]
    with engine.begin() as connection:
        for number, request in enumerate(requests, 1):
            revision = {"number": number, "created_at": now, "author": "ann", "request_id": request}
            connection.execute(insert(revision_tables.revisions).values(revision))
            event: dict[str, Any] = {"cluster": "c", "at": now, "type": "CORDONED", "request_id": request}
            connection.execute(insert(fleet_tables.cluster_events).values(event))
    for _ in range(2):
        migrate(engine)
        with engine.connect() as connection:
            made = revisions.page(connection, RevisionFilter(request_id="r"), None, 10)
            done = cluster_events.events(connection, ClusterEventFilter(request_id="r"), None, 10)
        assert [revision.number for revision in made] == [event.number for event in done] == [3, 2]
        migrate(engine, "0062")


def test_executions_that_were_pruned_before_they_were_counted_are_known_to_be_missing(engine: Engine) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    for cutoff, are_all_counted in (("logs", True), ("executions", False)):
        migrate(engine, "0055")
        with engine.begin() as connection:
            retention.record_cutoff(connection, cutoff, now)
        migrate(engine)
        with engine.connect() as connection:
            assert pruned_executions.are_all_counted(connection) is are_all_counted
            assert pruned_executions.of(connection, "p", "d") is None


def test_changes_of_members_of_before_belong_to_their_clusters(engine: Engine) -> None:
    migrate(engine, "0027")
    now, keys = datetime(2026, 3, 1, tzinfo=UTC), dict.fromkeys(Scope._fields, "")
    pools: list[Any] = [None, {"members": [{"id": "a"}]}, {"members": [{"id": "a"}, {"id": "b"}]}]
    pools += [{**pools[-1], "description": "d"}, None]
    with engine.begin() as connection:
        for number, (before, after) in enumerate(pairwise(pools), 1):
            connection.execute(insert(revision_tables.revisions).values(number=number, created_at=now, author="ann"))
            change = {"revision": number, "kind": "POOL", "before": before, "after": after, **keys}
            connection.execute(insert(revision_tables.revision_changes).values(ordinal=0, name="p", **change))
            connection.execute(insert(revision_tables.revision_changes).values(ordinal=1, name="q", **change))
    migrate(engine)
    table = revision_tables.member_changes
    with engine.connect() as connection:
        rows = connection.execute(select(table).order_by(table.c.revision, table.c.cluster)).all()
    assert [tuple(row) for row in rows] == [(1, "a"), (2, "a"), (2, "b"), (4, "a"), (4, "b")]


def test_what_was_pruned_before_that_was_recorded_is_older_than_the_oldest_that_is_kept(engine: Engine) -> None:
    migrate(engine, "0027")
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    table = execution_tables.executions
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    values = {column.name: _anything(column, noon) for column in columns if column.name != "id"}
    event: dict[str, Any] = {"number": 7, "cluster": "", "at": noon + timedelta(hours=1), "type": "PRUNED"}
    with engine.begin() as connection:
        connection.execute(insert(revision_tables.revisions).values(number=4, created_at=noon, author="ann"))
        event["reason"] = "rows deleted: execution_events: 3, executions: 1"
        connection.execute(insert(fleet_tables.cluster_events).values(event))
        for hours in (3, 2):
            row = {**values, "name": f"e{hours}", "finished_at": noon + timedelta(hours=hours)}
            connection.execute(insert(table).values(row))
    migrate(engine)
    with engine.connect() as connection:
        assert retention.cutoffs(connection) == Cutoffs(
            revisions=noon, cluster_events=noon + timedelta(hours=1), executions=noon + timedelta(hours=2)
        )


def test_events_of_before_get_the_deadline_of_a_drain_that_goes_on_and_the_revision_that_deleted(
    engine: Engine,
) -> None:
    migrate(engine, "0029")
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    deadline, keys = noon + timedelta(hours=1), dict.fromkeys(Scope._fields, "")
    drains = [("east", "DRAINING"), ("east", "DRAINING"), ("west", "DRAINING"), ("west", "UNDRAINED")]
    with engine.begin() as connection:
        for number, (cluster, type_) in enumerate([*drains, ("gone", "DELETED"), ("pruned", "DELETED")], 1):
            event = {"number": number, "cluster": cluster, "type": type_, "at": noon}
            connection.execute(insert(fleet_tables.cluster_events).values(event))
        for name, is_draining in (("east", True), ("west", False)):
            state = {"name": name, "cordoned": is_draining, "report": {}, "draining": is_draining}
            connection.execute(
                insert(fleet_tables.cluster_states).values(
                    {**state, "drain_deadline": deadline if is_draining else None}
                )
            )
        for number, (name, at) in enumerate((("gone", noon), ("gone", deadline), ("pruned", deadline)), 7):
            made = {"number": number, "created_at": at, "author": "anonymous", "claimed_by": "ana", "message": "sold"}
            connection.execute(insert(revision_tables.revisions).values(made))
            change = {"revision": number, "ordinal": 0, "kind": "CLUSTER", "name": name, "before": {}, "after": None}
            connection.execute(insert(revision_tables.revision_changes).values({**change, **keys}))
    migrate(engine)
    with engine.connect() as connection:
        events = cluster_events.events(connection, cluster_events.ClusterEventFilter(), None, 10)
    assert [event.deadline for event in reversed(events)] == [None, deadline, None, None, None, None]
    deleted = [(event.revision, event.claimed_by, event.reason) for event in reversed(events)]
    assert deleted == [*[(None, None, None)] * 4, (7, "ana", "sold"), (None, None, None)]
    migrate(engine, "0029")
    migrate(engine)
    with engine.connect() as connection:
        assert cluster_events.events(connection, cluster_events.ClusterEventFilter(), None, 10) == events


def test_going_back_takes_audit_events_away_and_keeps_tokens(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    token = {"prefix": "0b0b0b0b", "user_name": "ada", "name": "laptop", "hash": "x", "created_at": now}
    with engine.begin() as connection:
        connection.execute(insert(user_tokens.user_tokens).values(**token, addresses=["::1"]))
        event = AuditEvent(at=now, event="WRONG_TOKEN", address="::1")
        audit_events.add(connection, [event, event])
        [stored] = audit_events.page(connection, audit_events.AuditFilter(), None, 10)
        assert (stored.count, stored.last_at) == (2, now)
    migrate(engine, "0031")
    migrate(engine)
    with engine.begin() as connection:
        assert audit_events.page(connection, audit_events.AuditFilter(), None, 10) == []
        assert user_tokens.add_addresses(connection, {"0b0b0b0b": ["::1"]}) == {("0b0b0b0b", "::1")}


def test_going_back_takes_bids_away_and_leaves_pools_and_decisions_that_an_older_admin_can_read(
    engine: Engine,
) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    tables = (execution_tables.executions, bid_tables.bid_rounds, bid_tables.bids)
    asks = {"members": [{"id": "a", "weight": 1}], "strategy": "ask", "rebalance": "never"}
    verdicts = [{"filter": name, "passed": True} for name in ("weight", "bid")]
    trail = {"strategy": "ask", "candidates": [{"cluster": "a", "verdicts": verdicts}]}
    with engine.begin() as connection:
        for table in tables:
            columns = [column for column in table.columns if not column.nullable and column.server_default is None]
            values = {column.name: _anything(column, now) for column in columns}
            if table is execution_tables.executions:
                values |= {"phase": "QUEUED", "reason": "ASKING"}
            connection.execute(insert(table).values(values))
        pool = {"kind": "POOL", "name": "p", "payload": asks, "version": 1}
        connection.execute(insert(fleet_tables.fleet_definitions).values(pool))
        connection.execute(insert(decisions.trails).values(digest="d", body=trail))
    migrate(engine, "0035")
    with engine.connect() as connection:
        assert connection.execute(select(execution_tables.executions.c.reason)).scalar_one() == "UNDECIDED"
        payload = connection.execute(select(fleet_tables.fleet_definitions.c.payload)).scalar_one()
        body = connection.execute(select(decisions.trails.c.body)).scalar_one()
    assert payload == {"members": asks["members"], "strategy": "soonest"}
    assert body == {"strategy": "soonest", "candidates": [{"cluster": "a", "verdicts": verdicts[:1]}]}
    migrate(engine)
    with engine.connect() as connection:
        assert connection.execute(select(bid_tables.bids)).all() == []


def test_going_back_takes_users_and_their_history_away_and_keeps_all_others(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    changed = {"ordinal": 0, "after": {}, **Scope()._asdict()}
    with engine.begin() as connection:
        for number, (kind, name) in enumerate([("USER", "ada"), ("USER", ""), ("POOL", "p")], 1):
            made = {"number": number, "created_at": now, "author": "ada", "proof": "token"}
            connection.execute(insert(revision_tables.revisions).values(made))
            change = {"revision": number, "kind": kind, "name": name, **changed}
            connection.execute(insert(revision_tables.revision_changes).values(change))
        connection.execute(
            insert(users.users).values(name="ada", service_account=False, created_at=now, updated_at=now, version=1)
        )
    migrate(engine, "0030")
    migrate(engine)
    with engine.connect() as connection:
        assert users.names(connection) == []
        kinds = connection.execute(select(revision_tables.revision_changes.c.kind)).scalars().all()
        [proof] = set(connection.execute(select(revision_tables.revisions.c.proof)).scalars())
    assert (sorted(kinds), proof) == (
        ["POOL", "USER"],
        None,
    )  # a declared kind may be called USER; its rows have no name


def test_going_back_before_token_pools_leaves_nothing_that_an_older_admin_does_not_know(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    tables = (TOKEN_POOLS.table, token_pool_heads, token_grants, token_sums, token_waiters)
    with engine.begin() as connection:
        for table in tables:
            connection.execute(insert(table).values({column.name: _anything(column, now) for column in table.columns}))
        revisions = revision_tables.revisions
        columns = [column for column in revisions.columns if not column.nullable]
        connection.execute(insert(revisions).values({column.name: _anything(column, now) for column in columns}))
        change = {"revision": 1, "ordinal": 0, "kind": "TOKEN_POOL", "name": "hive", "before": None, "after": {}}
        keys = dict.fromkeys(("project", "domain", "workflow", "launch_plan"), "")
        connection.execute(insert(revision_tables.revision_changes).values({**change, **keys}))
    migrate(engine, "0035")
    with engine.connect() as connection:
        assert connection.execute(select(revision_tables.revision_changes.c.kind)).all() == []
    migrate(engine)
    with engine.connect() as connection:
        assert [connection.execute(select(table)).all() for table in tables] == [[], [], [], [], []]


def test_executions_of_before_tokens_need_none_and_going_back_leaves_what_an_older_admin_knows(engine: Engine) -> None:
    migrate(engine, "0039")
    now = datetime(2026, 3, 1, tzinfo=UTC)
    table = execution_tables.executions
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    values = {column.name: _anything(column, now) for column in columns} | {"phase": "QUEUED", "reason": "ASSIGNED"}
    names = {column["name"] for column in inspect(engine).get_columns(table.name)}
    kept = select(*(column for column in table.columns if column.name in names))
    tokens = select(table.c.token_pools, table.c.token_number)
    row = {"payload": {}, "version": 1, "updated_at": now, "updated_by": "ann", **Scope("dev", "ads")._asdict()}
    with engine.begin() as connection:
        connection.execute(insert(table), [values | {"id": id_, "name": f"r{id_}"} for id_ in (1, 2)])
        connection.exec_driver_sql("INSERT INTO token_pool_heads (name, number) VALUES ('hive', 7)")
        before = connection.execute(kept.order_by(table.c.id)).all()
    migrate(engine, "0040")
    with engine.begin() as connection:
        assert connection.execute(kept.order_by(table.c.id)).all() == before
        assert connection.execute(tokens).all() == [(None, None), (None, None)]
        assert connection.execute(select(token_pool_heads)).all() == [("hive", 7, 0)]
        waits = {"token_pools": '{"hive":1}', "token_number": 8, "reason": "WAITING_FOR_TOKENS"}
        connection.execute(update(table).where(table.c.id == 1).values(waits))
        kinds = ("EXECUTION_QUEUE", "EXECUTION_QUOTA")
        connection.execute(insert(attributes.attributes), [row | {"kind": kind} for kind in kinds])
    migrate(engine, "0039")
    with engine.connect() as connection:
        assert connection.execute(select(table.c.reason)).scalars().all() == ["ASSIGNED", "ASSIGNED"]
        assert connection.execute(kept.where(table.c.id == 2)).all() == before[1:]
        assert connection.execute(select(attributes.attributes.c.kind)).scalars().all() == ["EXECUTION_QUEUE"]
        assert connection.execute(select(token_pool_heads.c.name, token_pool_heads.c.number)).all() == [("hive", 7)]
    migrate(engine)
    with engine.connect() as connection:
        assert connection.execute(tokens).all() == [(None, None), (None, None)]


def test_grants_of_before_their_sums_are_summed_at_every_scope(engine: Engine) -> None:
    migrate(engine, "0041")
    now = datetime(2026, 3, 1, tzinfo=UTC)
    places = [("ads", "prod", "etl", "nightly"), ("ads", "dev", "", ""), ("", "prod", "", ""), ("", "", "", "")]
    keys = ("project", "domain", "workflow", "launch_plan")
    with engine.begin() as connection:
        for number, place in enumerate(places):
            values = {column.name: _anything(column, now) for column in token_grants.columns}
            own = {"pool": "hive", "token": f"t{number}", "amount": 10**number, **dict(zip(keys, place, strict=True))}
            connection.execute(insert(token_grants).values({**values, **own}))
    migrate(engine)
    database = Database(engine)
    with database.writing() as connection:
        sums = select(token_sums).order_by(token_sums.c.bucket.collate("C" if is_postgresql(connection) else "BINARY"))
        migrated = connection.execute(sums).all()
        [book] = books(connection, {"hive": 0}).values()
        rebuild(connection, {"hive": book.grants.values()})
        assert connection.execute(sums).all() == migrated
    assert [(row.bucket, row.amount, row.number) for row in migrated] == [
        ("", 1100, 2),
        ("///", 1111, 4),
        ("/dev//", 10, 1),
        ("/prod//", 101, 2),
        ("ads///", 11, 2),
        ("ads/dev//", 10, 1),
        ("ads/prod//", 1, 1),
        ("ads/prod/etl/", 1, 1),
        ("ads/prod/etl/nightly", 1, 1),
    ]


def test_going_back_takes_reports_of_namespaces_away_and_leaves_reasons_that_an_older_admin_knows(
    engine: Engine,
) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    made = NamespaceReport(
        namespace="p-d",
        project="p",
        domain="d",
        digest="x",
        exists=True,
        objects=(ObjectReport(object="Namespace/p-d", state=ObjectState.APPLIED),),
    )
    executions = execution_tables.executions
    with engine.begin() as connection:
        before = cluster_resources.installation(connection, now)
        assert cluster_resources.store_reports(connection, "c", [made], {"p-d"}, now) == ["applied"]
        columns = [column for column in executions.columns if not column.nullable and column.server_default is None]
        values = {column.name: _anything(column, now) for column in columns}
        waits = {"phase": "QUEUED", "reason": "NAMESPACE_NOT_READY", "cluster": "c"}
        connection.execute(insert(executions).values({**values, **waits}))
        payload = {"cluster_resources": True, "cost": 1}
        cluster = {"kind": "CLUSTER", "name": "c", "payload": payload, "version": 1}
        connection.execute(insert(fleet_tables.fleet_definitions).values(cluster))
        retention.record_cutoff(connection, "namespace_events", now)
    migrate(engine, "0043")
    with engine.connect() as connection:
        assert connection.execute(select(fleet_tables.fleet_definitions.c.payload)).scalar_one() == {"cost": 1}
        assert retention.cutoffs(connection) == Cutoffs()
        assert connection.execute(select(executions.c.reason)).scalar_one() == "ASSIGNED"
    migrate(engine)
    with engine.begin() as connection:
        assert cluster_resources.reports(connection) == []
        assert cluster_resources.events(connection, "p", "d", ["c"], 10) == []
        assert cluster_resources.installation(connection, now) != before


def test_sessions_are_forgotten_by_an_admin_that_has_none_and_nothing_else_is(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    session = Session("hash", "ada", "openid", "login", None, "issuer", ["ml"], 1.5, now, now, now, "192.0.2.7", "B")
    user = {"kind": "USER", "name": "ada", "payload": {}, "version": 1}
    with engine.begin() as connection:
        sessions.add(connection, session)
        connection.execute(insert(fleet_tables.fleet_definitions).values(user))
        assert sessions.get(connection, "hash") == session
    migrate(engine, "0044")
    assert "sessions" not in inspect(engine).get_table_names()
    with engine.connect() as connection:
        assert connection.execute(select(fleet_tables.fleet_definitions.c.name)).scalars().all() == ["ada"]
    migrate(engine)
    with engine.connect() as connection:
        assert sessions.get(connection, "hash") is None


def test_sessions_of_before_go_on_and_those_of_logins_know_their_provider(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    login = Session("a1", "ana", "openid", "login", None, "of the issuer", ["ml"], 1.5, now, now)
    by_token = Session("b2", "ada", "token", "1f2e3d4c", "of the token", None, [], None, now, now)
    with engine.begin() as connection:
        for session in (login, by_token):
            sessions.add(connection, session)
    for _ in range(2):
        migrate(engine, "0052")
        with engine.connect() as connection:
            rows = connection.exec_driver_sql("SELECT hash, token_hash FROM sessions ORDER BY hash").all()
        assert [tuple(row) for row in rows] == [("a1", "of the issuer"), ("b2", "of the token")]
        migrate(engine)
        with engine.connect() as connection:
            assert [sessions.get(connection, hashed) for hashed in ("a1", "b2")] == [login, by_token]


def test_ends_and_registrations_of_before_have_the_proofs_that_events_kept(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    table, events = execution_tables.executions, execution_tables.execution_events
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    values = {column.name: _anything(column, now) for column in columns if column.name != "id"}
    names = ("abort_cause", "abort_principal", "abort_author")
    stored = {
        "cancelled": ("ABORTED", "TERMINATED", ("enough", "bea", "bea"), ("ABORTING", "bea", "bea", "token of ada")),
        "by-nobody": ("ABORTED", "TERMINATED", ("enough", "ann", None), ("ABORTED", "ann", None, None)),
        "given-up": ("FAILED", "CLUSTER_LOST", (None,) * 3, ("GIVEN_UP", "otto", "otto", "token")),
        "lost": ("FAILED", "CLUSTER_LOST", (None,) * 3, ("FAILED", None, None, None)),
    }
    registered: dict[str, Any] = {"project": "p", "domain": "d", "name": "n", "version": "v", "spec": {}, "digest": ""}
    migrate(engine, "0046")
    with engine.begin() as connection:
        for number, (name, (phase, reason, aborted, event)) in enumerate(stored.items(), 1):
            row = {**values, "id": number, "name": name, "phase": phase, "reason": reason}
            connection.execute(insert(table).values({**row, **dict(zip(names, aborted, strict=True))}))
            about = dict(zip(("type", "by", "proven_author", "proof"), event, strict=True))
            happened = {"execution_id": number, "number": 2, "at": now, "phase": phase, "message": f"{name} it"}
            connection.execute(insert(events).values({**happened, **about}))
        connection.execute(
            insert(registration_tables.workflows).values({**registered, "created_at": now, "author": "ada"})
        )
    for _ in range(2):
        migrate(engine)
        with engine.connect() as connection:
            rows = connection.execute(select(table).order_by(table.c.id)).all()
            [workflow] = connection.execute(select(registration_tables.workflows)).all()
        assert [(row.name, *(getattr(row, name) for name in (*names, "abort_proof"))) for row in rows] == [
            ("cancelled", "enough", "bea", "bea", "token of ada"),
            ("by-nobody", "enough", "ann", None, None),
            ("given-up", "given-up it", "otto", "otto", "token"),
            ("lost", None, None, None, None),
        ]
        assert (workflow.author, workflow.proof) == ("ada", None)
        migrate(engine, "0046")
        with engine.connect() as connection:
            ended_by = connection.exec_driver_sql("SELECT abort_principal FROM executions ORDER BY id").scalars().all()
        assert ended_by == ["bea", "ann", None, None]


def test_who_gave_executions_up_before_is_known_by_their_events(engine: Engine) -> None:
    migrate(engine)
    now = datetime(2026, 3, 1, tzinfo=UTC)
    table, events = execution_tables.executions, execution_tables.execution_events
    columns = [column for column in table.columns if not column.nullable and column.server_default is None]
    values = {column.name: _anything(column, now) for column in columns if column.name != "id"}
    names = ("given_up_principal", "given_up_author", "given_up_proof")
    stored: dict[str, list[tuple[str, str, str | None, str | None]]] = {
        "cancelled": [("ABORTING", "ana", "ana", "token")],
        "both": [("ABORTING", "ana", "ana", "token"), ("GIVEN_UP", "otto", "otto", "openid")],
        "claimed": [("GIVEN_UP", "otto", None, None)],
    }
    migrate(engine, "0047")
    with engine.begin() as connection:
        for id, (name, happened) in enumerate(stored.items(), 1):
            connection.execute(insert(table).values({**values, "id": id, "name": name, "phase": "ABORTED"}))
            for number, event in enumerate(happened, 2):
                about = dict(zip(("type", "by", "proven_author", "proof"), event, strict=True))
                of = {"execution_id": id, "number": number, "at": now, "phase": "ABORTED"}
                connection.execute(insert(events).values({**of, **about}))
    for _ in range(2):
        migrate(engine)
        with engine.connect() as connection:
            rows = connection.execute(select(*(table.c[name] for name in names)).order_by(table.c.id)).all()
        assert [tuple(row) for row in rows] == [(None,) * 3, ("otto", "otto", "openid"), ("otto", None, None)]
        migrate(engine, "0047")
