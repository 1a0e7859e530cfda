"""Growth: lists and the queue go by the indexes that are meant for them, so that what has ended costs nothing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Table, create_engine, event, insert, text, update

from admin.core.changes import RowKey
from admin.core.executions.selectors import Condition, equals, parse_filters
from admin.core.fleet.clusters import Cluster
from admin.core.placement.decisions import WAITS_FOR_ROOM, WAITS_FOR_RULES
from admin.core.registrations import Identifier
from admin.core.settings.scopes import PLATFORM, Scope
from admin.services.context import Context
from admin.store import (
    activations,
    active_plans,
    attributes,
    bid_rounds,
    cluster_events,
    decisions,
    derived_fields,
    execution_counts,
    execution_events,
    execution_lists,
    execution_queue,
    execution_quotas,
    executions,
    leases,
    lines,
    offers,
    registration_history,
    registrations,
    revision_tables,
    revisions,
    row_changes,
    scopes,
    shares,
    statistics,
    unfinished,
)
from admin.store.attributes import Filter
from admin.store.cluster_events import ClusterEvent, ClusterEventFilter
from admin.store.database import Database
from admin.store.dialects.postgresql import unlimited
from admin.store.execution_lists import ListLimits, Order
from admin.store.execution_tables import executions as execution_table
from admin.store.executions import ExecutionId, ListedExecution
from admin.store.fleet_tables import cluster_states, moved_clusters
from admin.store.leases import SilentClusters
from admin.store.registration_history import RegistrationFilter
from admin.store.registration_tables import launch_plan_activations, launch_plans, workflows
from admin.store.revisions import RevisionFilter
from admin.store.shares import Window
from bench.finished import add_finished
from tests.support.databases import PostgresqlDatabases, SqliteDatabases
from tests.support.small_fleets import small_fleet

FINISHED, REVISIONS, ATTRIBUTES = 20_000, 5000, 10_000
NOW = datetime.now(UTC)
SILENT = SilentClusters(clusters=["cluster-1"], lost=["cluster-1"], given_up=[], given_up_before=NOW)
ACTIVE = equals("state", "ACTIVE")
PLACE = Scope(project="team-1", domain="staging", workflow="w", launch_plan="l")
SOME = [ExecutionId(project="team-1", domain="staging", name=f"e{number}") for number in range(50)]
SCOPE = (equals("project", "team-1"), equals("domain", "staging"))


def clusters(*numbers: int) -> Mapping[str, Cluster]:
    names = [f"cluster-{number}" for number in numbers]
    return small_fleet(clusters={name: {} for name in names}).clusters


#: What reads everything there is, and what sorts it. An incremental sort of what comes in order is none, and
#: of trails there is one here, of rounds none.
READS_ALL = re.compile(
    r"SCAN executions(?! USING (COVERING )?INDEX ix_executions_(active|archived|held|offered|unf|wai))"
    r"|Seq Scan(?! on (trails|bid_rounds))"
)
SORTS = re.compile(r"TEMP B-TREE|(^|-> +)Sort  \(", re.MULTILINE)

Call = Callable[[Connection], Any]


@dataclass
class Plans:
    """Tells how a database does what a function asks of it."""

    database: Database

    def of(self, call: Call, *, without: str | None = None) -> str:
        """The plans of all queries of a call; perhaps of a database that has got one index less."""
        statements: list[tuple[str, Any]] = []

        def note(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
            statements.append((statement, parameters))

        engine = self.database.engine
        event.listen(engine, "before_cursor_execute", note)
        try:
            with self.database.reading() as connection:
                call(connection)
        finally:
            event.remove(engine, "before_cursor_execute", note)
        queries = [(text, parameters) for text, parameters in statements if text.startswith(("SELECT", "WITH"))]
        assert queries
        with self.database.engine.connect() as connection:
            if without is not None:
                connection.exec_driver_sql(f"DROP INDEX ix_executions_{without}")
            plan = "\n".join(line for query in queries for line in self._explained(connection, *query))
            connection.rollback()
        return plan

    def _explained(self, connection: Connection, statement: str, parameters: Any) -> Iterator[str]:
        is_sqlite = self.database.engine.dialect.name == "sqlite"
        word = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
        for row in connection.exec_driver_sql(f"{word} {statement}", parameters):
            yield row[3] if is_sqlite else row[0]


DATABASES = ["sqlite", "sqlite, analyzed", "postgresql", "postgresql, analyzed"]


def _fill(url: str) -> None:
    """Let much have ended, and many places have settings."""
    add_finished(url, FINISHED)
    engine = create_engine(url)
    with Database(engine).writing() as connection:
        settings = {"payload": {}, "version": 1, "updated_at": NOW, "updated_by": "ann", "domain": "staging"}
        kinds = ("EXECUTION_QUEUE", "EXECUTION_QUOTA")
        rows = [
            {**settings, "kind": kinds[number % 2], "project": f"p{number // 2}", "workflow": "", "launch_plan": ""}
            for number in range(ATTRIBUTES)
        ]
        connection.execute(insert(attributes.attributes), rows)
    engine.dispose()


@pytest.fixture(scope="session")
def filled_sqlite(sqlite_databases: SqliteDatabases, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in which much has ended."""
    directory = tmp_path_factory.mktemp("filled")
    _fill(sqlite_databases.set_up(directory))
    return directory / "rainbow.db"


@pytest.fixture(scope="session")
def filled_postgresql(postgresql_databases: PostgresqlDatabases) -> str:
    """The same on a server."""
    url = postgresql_databases.set_up()
    _fill(url)
    return url


@pytest.fixture(scope="module", params=DATABASES)
def plans(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plans]:
    """A database in which much has ended and little waits, of which its statistics may not know."""

    def let_some_wait(connection: Connection) -> None:
        _let_some_wait(connection)
        _add_revisions(connection)

    yield from _planned(request, tmp_path_factory, let_some_wait)


@pytest.fixture(scope="module", params=DATABASES)
def crowded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plans]:
    """A database in which all waits, and that has not looked at its tables yet if it is not analyzed."""

    def let_all_wait(connection: Connection) -> None:
        waits = {"phase": "QUEUED", "reason": "ASSIGNED", "cluster": "cluster-1", "finished_at": None}
        connection.execute(update(execution_table).values(**waits))
        _let_some_wait(connection)
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("CREATE TEMPORARY TABLE kept AS SELECT * FROM executions")
            connection.exec_driver_sql("TRUNCATE executions CASCADE")
            connection.exec_driver_sql("INSERT INTO executions SELECT * FROM kept")
            connection.exec_driver_sql("DELETE FROM pg_statistic WHERE starelid = 'executions'::regclass")

    yield from _planned(request, tmp_path_factory, let_all_wait)


def _planned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, let_wait: Callable[[Connection], None]
) -> Iterator[Plans]:
    if request.param.startswith("postgresql"):
        server: PostgresqlDatabases = request.getfixturevalue("postgresql_databases")
        url = server.copy(request.getfixturevalue("filled_postgresql"))
    else:
        directory = tmp_path_factory.mktemp("growth")
        shutil.copy(request.getfixturevalue("filled_sqlite"), directory)
        url = SqliteDatabases().empty(directory)
    engine = create_engine(url)
    database = Database(engine)
    with database.writing() as connection, unlimited(connection):
        let_wait(connection)
    if request.param.endswith("analyzed"):
        with database.writing() as connection:
            connection.exec_driver_sql("ANALYZE")
    yield Plans(database)
    engine.dispose()


def _let_some_wait(connection: Connection) -> None:
    """The last two hundred have not ended; some of them are leased, without a cluster, late, or back off."""
    row_id = execution_table.c.id
    values: dict[int, dict[str, Any]] = {
        200: {"phase": "QUEUED", "reason": "ASSIGNED", "finished_at": None},
        100: {"phase": "RUNNING", "lease_expires_at": NOW},
        80: {"lease_expires_at": NOW},
        60: {"phase": "QUEUED", "lease_expires_at": None, "cluster": None, "reason": "CLUSTERS_FULL"},
        40: {"cluster": "cluster-1", "reason": "ASSIGNED", "queue_deadline": NOW},
        20: {"queue_deadline": None, "not_before": NOW + timedelta(hours=1)},
        10: {"not_before": None},
    }
    for last, changed in values.items():
        connection.execute(update(execution_table).where(row_id > FINISHED - last).values(**changed))


def _add_revisions(connection: Connection) -> None:
    """Many revisions of attributes, and few of a pool in each hundred."""
    numbers = range(1, REVISIONS + 1)
    made = [
        {
            "number": number,
            "created_at": NOW - timedelta(minutes=REVISIONS - number),
            "author": "ann",
            "request_id": f"r{number // 10}",
        }
        for number in numbers
    ]
    connection.execute(insert(revision_tables.revisions), made)
    keys = dict.fromkeys(Scope._fields, "")
    changes = [
        {"revision": number, "ordinal": 0, "after": {}, "kind": "POOL", "name": f"pool-{number % 7}", **keys}
        if number % 100 == 0
        else {
            "revision": number,
            "ordinal": 0,
            "after": {},
            "kind": "EXECUTION_QUEUE",
            "name": "",
            **keys,
            "project": f"team-{number % 500}",
        }
        for number in numbers
    ]
    connection.execute(insert(revision_tables.revision_changes), changes)


def listed(*conditions: Condition, sort_by: str = "created_at", after: Any = None, descending: bool = True) -> Call:
    """A page of a list as the API asks for it, which shows what is not archived unless a state is named."""
    has_state = any(condition.field == "state" for condition in conditions)
    limits = ListLimits(examined=FINISHED // 20)  # as small a share as the default is of millions

    def call(connection: Connection) -> None:
        execution_lists.page(
            connection,
            conditions if has_state else (*conditions, ACTIVE),
            ListedExecution,
            order=Order(field=sort_by, descending=descending),
            after=after,
            limit=10,
            limits=limits,
        )

    return call


def filtered(text: str) -> list[Condition]:
    return parse_filters(text, NOW)


WINDOW = Window(NOW - timedelta(days=36500), NOW)
LONG_AGO = (NOW - timedelta(seconds=FINISHED / 4), 10)
SINCE = filtered(f"gte(created_at,{(NOW - timedelta(hours=2)).isoformat()})")

LISTS = {
    "everything": (listed(), "active"),
    "everything, oldest first": (listed(descending=False), "active"),
    "everything, a later page": (listed(after=LONG_AGO), "active"),
    "since a time": (listed(*SINCE), "active"),
    "since a time, oldest first, a later page": (listed(*SINCE, descending=False, after=LONG_AGO), "active"),
    "a project and domain": (listed(*SCOPE), "scope"),
    "a project and domain, a later page": (listed(*SCOPE, after=LONG_AGO), "scope"),
    "a project and domain, by name": (listed(*SCOPE, sort_by="name"), "uq_executions_project_domain_name"),
    "a project and domain, by name, a later page": (
        listed(*SCOPE, sort_by="name", after=("a7", 5)),
        "uq_executions_project_domain_name",
    ),
    "a project": (listed(equals("project", "team-1")), "scope"),
    "a project that has none": (listed(equals("project", "nobody")), "scope"),
    "a finished phase": (listed(equals("phase", "FAILED")), "phase"),
    "what has not ended": (listed(equals("phase", "RUNNING", "ABORTING")), "phase"),
    "what runs in a project and domain": (listed(*SCOPE, equals("phase", "RUNNING")), "phase"),
    "a cluster": (listed(equals("cluster", "cluster-7")), "cluster"),
    "a cluster, a later page": (listed(equals("cluster", "cluster-7"), after=LONG_AGO), "cluster"),
    "some clusters": (listed(equals("cluster", "cluster-7", "cluster-8")), "cluster"),
    "a cluster that has none": (listed(equals("cluster", "nobody")), "cluster"),
    "a pool that has none": (listed(equals("pool", "nobody")), "pool"),
    "a label": (listed(equals("label", "nobody")), "label"),
    "a workflow": (listed(equals("workflow", "core.training.flow_3")), "workflow"),
    "a workflow, a later page": (listed(equals("workflow", "core.training.flow_3"), after=LONG_AGO), "workflow"),
    "a launch plan": (listed(equals("launch_plan", "nightly_3")), "launch_plan"),
    "a part of a name, in a project and domain": (listed(*SCOPE, *filtered("contains(name,77)")), "scope"),
    "what is rare": (listed(*filtered("eq(mode,RELAUNCH)")), "active"),
    "what is archived": (listed(equals("state", "ARCHIVED")), "archived"),
    "in any state": (listed(equals("state", "ACTIVE", "ARCHIVED")), "archived"),
    "a frequent phase": (listed(equals("phase", "SUCCEEDED")), "phase"),
    "a frequent pool": (listed(equals("pool", "batch")), "pool"),
    "a cause": (listed(equals("cause", "LIMIT", "CLUSTER_LOST")), "phase"),
    "a cause, a later page": (listed(equals("cause", "LIMIT"), after=LONG_AGO), "phase"),
    "an origin": (listed(equals("origin", "request")), "active"),
    "the scope of an origin": (listed(equals("origin_scope", "request")), "active"),
    "the scope of a limit": (listed(equals("limit_scope", "job")), "limit_scope"),
    "a duration": (listed(*filtered("gt(duration,1h)")), "active"),
    "a policy": (listed(*filtered("eq(on_lost,fail)+gt(gpu,0)")), "active"),
    "a long wait": (listed(*filtered("gt(waited,1h)")), "active"),
    "a time limit": (listed(*filtered("gt(time_limit,1h)")), "active"),
    "ends of a frequent pool": (listed(equals("pool", "batch"), sort_by="finished_at"), "finished"),
    "ends of a frequent phase, a later page": (
        listed(equals("phase", "SUCCEEDED"), sort_by="finished_at", after=LONG_AGO),
        "finished",
    ),
    "what a pool placed": (lambda c: shares.placed_by(c, "batch", WINDOW, 10), "pool"),
}


def counted(by: str, *conditions: Condition, after: Any = None) -> Call:
    """Counts as the API asks for them."""
    limits = ListLimits(counted=FINISHED // 20)
    return lambda connection: execution_counts.count_page(
        connection, (*conditions, ACTIVE), by=by.split(","), now=NOW, after=after, limits=limits
    )


GROUP_COUNTS: dict[str, tuple[Call, str]] = {
    "everything": (counted("cause"), "active"),
    "everything, a later answer": (counted("cause", after=LONG_AGO), "active"),
    "everything by two fields": (counted("project,cluster"), "active"),
    "since a time": (counted("created_by", *SINCE), "active"),
    "a project and domain": (counted("reason", *SCOPE), "scope"),
    "a cause": (counted("project", equals("cause", "LIMIT")), "phase"),
    "what waits": (counted("reason", equals("phase", "QUEUED")), "phase"),
    "a cluster": (counted("reason", equals("cluster", "cluster-7")), "cluster"),
    "by origin": (counted("origin"), "active"),
    "by the scope of a limit": (counted("limit_scope"), "active"),
    "by the day": (counted("day"), "active"),
    "waits of a cluster": (lambda c: executions.newest_waits(c, "cluster-7", 100), "cluster"),
    "beside a pool": (lambda c: shares.placed_otherwise(c, "batch", ["cluster-7"], WINDOW, 10), "cluster"),
    "a pool's executions": (lambda c: shares.count_placed_by(c, "batch", WINDOW, 1000), "pool"),
}
QUEUE: dict[str, tuple[Call, str]] = {
    "waiting": (lambda c: execution_queue.waiting(c, FINISHED - 150, 20), "unfinished"),
    "undecided": (lambda c: execution_queue.undecided(c, 20), "unplaced"),
    "overdue": (lambda c: execution_queue.overdue(c, NOW, 1), "deadline"),
    "offered": (lambda c: offers.offered(c, "cluster-1", NOW, 50), "offered"),
    "leased": (lambda c: leases.leased(c, ["cluster-1"]), "held"),
    "leases at": (lambda c: unfinished.leases_at(c, "cluster-1", 10), "held"),
    "next at": (lambda c: execution_queue.next_at(c, "cluster-1", 10), "offered"),
    "leased at": (lambda c: unfinished.leased_at(c, ["cluster-1"], 50), "held"),
    "leased by": (lambda c: unfinished.leased_by(c, [("pool", "gpu")], 50), "held"),
    "expired": (lambda c: leases.expired(c, "cluster-1", SILENT, NOW, 50), "held"),
    "given up": (lambda c: leases.clusters_with_expired(c, SILENT._replace(clusters=[]), NOW), "silent"),
    "next not before": (lambda c: offers.next_not_before(c, ["cluster-1"], NOW), "backing_off"),
    "names": (lambda c: executions.names_like(c, ExecutionId(project="team-1", domain="staging", name="x")), "scope"),
    "has project": (lambda c: executions.has_project(c, "nobody"), "scope"),
}
BY_NAME: dict[str, Call] = {
    "current attempts": lambda c: leases.current_attempts(c, SOME),
    "reported": lambda c: leases.reported(c, ["cluster-1"], SOME),
    "get": lambda c: executions.get(c, ExecutionId(project="team-1", domain="staging", name="x")),
    "find": lambda c: executions.find(c, [ExecutionId(project="team-1", domain="staging", name="x")]),
    "ids": lambda c: executions.ids(c, [ExecutionId(project="team-1", domain="staging", name="x")]),
}
#: These look at everything that has not ended, and sort or group it.
COUNTS: dict[str, tuple[Call, tuple[str, ...]]] = {
    "full routes": (lambda c: execution_queue.full_routes(c, WAITS_FOR_ROOM), ("unplaced",)),
    "unplaced": (lambda c: execution_queue.unplaced(c, WAITS_FOR_RULES, 100), ("unplaced",)),
    "demand": (lambda c: execution_queue.taken_by_waiting(c, clusters(1), NOW), ("offered",)),
    "leased demand": (lambda c: execution_queue.taken_by_waiting(c, clusters(1), NOW, leased_only=True), ("held",)),
    "lines": (lambda c: lines.waiting(c, clusters(1, 2), NOW, singly=["cluster-1"]), ("offered",)),
    "given since": (lambda c: lines.given_since(c, clusters(1, 2), NOW), ("held",)),
    "demand at 20": (lambda c: execution_queue.taken_by_waiting(c, clusters(*range(20)), NOW), ("offered",)),
    "demand of all": (lambda c: execution_queue.taken_by_waiting(c, clusters(*range(101)), NOW), ("offered",)),
    "unasked": (lambda c: bid_rounds.unasked(c, "batch", NOW, after=0, most=20), ("offered",)),
    "by cluster": (lambda c: unfinished.counts_by_cluster(c), ("offered", "held", "unfinished")),
    "leases": (lambda c: unfinished.leases_by_cluster(c), ("held",)),
    "leased": (lambda c: unfinished.count_leased(c, ["cluster-1"], [("pool", "gpu")]), ("held",)),
    "waiting": (lambda c: execution_queue.count_waiting(c), ("unfinished", "offered", "phase")),
    "naming": (lambda c: execution_queue.count_naming(c, ["cluster-1"]), ("offered",)),
    "of a cluster": (lambda c: unfinished.count(c, cluster="cluster-1"), ("unfinished", "phase")),
    "first of a cluster": (lambda c: unfinished.first(c, 5, cluster="cluster-1"), ("unfinished", "phase")),
    "first of a pool": (
        lambda c: unfinished.first(c, 5, route_kind="pool", route_name="batch"),
        ("unfinished", "phase"),
    ),
    "candidates": (lambda c: offers.candidates(c, "cluster-1", NOW, 20, 500), ("offered",)),
    "not told": (lambda c: offers.not_told(c, "cluster-1", NOW, "QUOTA_FULL", 500), ("offered",)),
    "waiting at a place": (lambda c: execution_quotas.waiting(c, {Scope("staging", "team-1")}), ("waiting",)),
    "waiting in a domain": (lambda c: execution_quotas.waiting(c, {Scope("staging")}), ("waiting",)),
    "running at a place": (lambda c: execution_quotas.running(c, {Scope("staging", "team-1")}), ("held",)),
    "holders at a place": (lambda c: execution_quotas.holders(c, Scope("staging", "team-1"), limit=5), ("held",)),
    "for metrics": (lambda c: list(unfinished.counts(c)), ("unfinished", "phase")),
}


def uses(plan: str, index: str) -> bool:
    name = index if index.startswith("uq") else f"ix_executions_{index}"
    return name in plan or (index.startswith("uq") and "sqlite_autoindex_executions_1" in plan)


@pytest.mark.parametrize("name", LISTS)
def test_every_page_of_a_list_follows_an_index(plans: Plans, name: str) -> None:
    call, index = LISTS[name]
    plan = plans.of(call)
    if index == "phase" and uses(plan, "unfinished"):
        return  # what has not ended may also be sorted
    assert uses(plan, index), plan
    assert not READS_ALL.search(plan), plan
    assert not SORTS.search(plan), plan


@pytest.mark.parametrize("name", GROUP_COUNTS)
def test_counts_follow_an_index_and_read_a_limited_number(plans: Plans, name: str) -> None:
    call, index = GROUP_COUNTS[name]
    plan = plans.of(call)
    if index == "phase" and uses(plan, "unfinished"):
        return
    assert uses(plan, index), plan
    assert not READS_ALL.search(plan), plan


@pytest.mark.parametrize("name", QUEUE)
def test_the_queue_is_found_without_what_has_ended(plans: Plans, name: str) -> None:
    plan = _queue_plan(plans, name)
    if plans.database.engine.dialect.name == "sqlite":  # the other one may find so few quicker to sort
        assert not SORTS.search(plan), plan


@pytest.mark.parametrize("name", QUEUE)
def test_the_queue_is_found_among_all_that_waits(crowded: Plans, name: str) -> None:
    _queue_plan(crowded, name)


@pytest.mark.parametrize("name", ["offered", "next not before", "overdue"])
def test_what_is_asked_all_the_time_fits_no_index_of_all_that_waits(plans: Plans, name: str) -> None:
    """However little PostgreSQL believes that to be: its statistics are as old as they are, and the queue is new."""
    call, index = QUEUE[name]
    plan = plans.of(call, without=index)
    assert not uses(plan, "phase"), plan
    assert not uses(plan, "unfinished"), plan


def _queue_plan(plans: Plans, name: str) -> str:
    call, index = QUEUE[name]
    plan = plans.of(call)
    assert uses(plan, index), plan
    assert not READS_ALL.search(plan), plan
    return plan


def test_candidates_are_numbered_once_however_few_the_database_expects(crowded: Plans) -> None:
    plan = crowded.of(COUNTS["candidates"][0])
    assert not re.search("Join|Nested Loop", plan), plan


@pytest.mark.parametrize("name", BY_NAME)
def test_names_are_found_by_their_key(plans: Plans, name: str) -> None:
    assert uses(plans.of(BY_NAME[name]), "uq_executions_project_domain_name")


@pytest.mark.parametrize("name", BY_NAME)
def test_names_are_found_by_their_key_as_soon_as_the_database_knows_its_tables(crowded: Plans, name: str) -> None:
    with crowded.database.autocommit() as connection:
        for table in statistics.tables_without_statistics(connection):
            statistics.analyze(connection, table)
    assert uses(crowded.of(BY_NAME[name]), "uq_executions_project_domain_name")


EVENTS: dict[str, Call] = {
    "of an execution": lambda c: execution_events.events_of(c, 7, 0, 100),
    "attempts": lambda c: execution_events.attempt_events(c, 7, 100),
    "unconfirmed attempts": lambda c: execution_events.unconfirmed_attempts(c, range(1, 50), "cluster-1"),
    "of a type": lambda c: execution_events.with_event(c, range(1, 50), "CONFIRMED", "cluster-1"),
}


@pytest.mark.parametrize("name", EVENTS)
def test_events_are_read_by_their_executions(plans: Plans, name: str) -> None:
    plan = plans.of(EVENTS[name])
    assert re.search(r"SEARCH execution_events USING INDEX|Index Cond: \(+execution_id = ", plan), plan
    assert not re.search("SCAN execution_events|Seq Scan", plan), plan


DECISIONS: dict[str, Call] = {
    "of an execution": lambda c: decisions.of(c, 7),
    "settings": lambda c: decisions.settings_trails(c, [(number, 1) for number in range(1, 50)]),
    "placements": lambda c: decisions.placement_trails(c, [(number, 1) for number in range(1, 50)]),
    "origins": lambda c: derived_fields.values_of(c, "origin_scope", range(1, 50)),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_are_read_by_their_executions(plans: Plans, name: str) -> None:
    plan = plans.of(DECISIONS[name])
    assert not re.search(r"SCAN (decisions|executions)|Seq Scan on (decisions|executions)", plan), plan


@pytest.mark.parametrize("name", COUNTS)
def test_what_has_not_ended_is_counted_without_what_has(plans: Plans, name: str) -> None:
    call, indexes = COUNTS[name]
    plan = plans.of(call)
    assert any(uses(plan, index) for index in indexes), plan
    assert not uses(plan, "cluster"), plan
    assert not READS_ALL.search(plan), plan


@pytest.mark.parametrize("after", [None, ("EXECUTION_QUEUE", "team-1", "staging", "", "")])
def test_a_list_of_attributes_follows_the_key(plans: Plans, after: tuple[str, ...] | None) -> None:
    kinds = ("CLUSTER_ASSIGNMENT", "EXECUTION_QUEUE", "TASK_RESOURCE")
    plan = plans.of(lambda c: list(attributes.page(c, Filter(kinds=kinds), after, 100)))
    assert not re.search("TEMP B-TREE|SCAN attributes", plan), plan


ANSWERS: dict[str, Call] = {
    "kinds-in-use": attributes.kinds_in_use,
    "examined": lambda c: attributes.examine(c, Filter(kinds=("EXECUTION_QUEUE",), domain="staging"), None, 100),
    "containing": lambda c: attributes.containing(c, "EXECUTION_QUEUE", ["critical"], None, most=100, limit=10),
    "containing-later": lambda c: attributes.containing(c, "EXECUTION_QUEUE", ["critical"], PLACE, most=100, limit=10),
    "known-scopes": lambda c: scopes.below(c, "staging", ["team-1"], 100, after=("w", "l")),
    "known-scopes-of-many": lambda c: scopes.below_all(c, [PLACE._replace(workflow="", launch_plan="")], 100),
    "known-plans-of-many": lambda c: scopes.below_all(c, [PLACE._replace(launch_plan="")], 100),
    "naming": lambda c: attributes.naming(c, "EXECUTION_CLUSTER_LABEL", "value", "near", 100),
    "count-naming": lambda c: attributes.count_naming(c, "EXECUTION_CLUSTER_LABEL", "value", "near"),
    "below-a-project": lambda c: attributes.keys_below(c, "team-1"),
    "plans-of-workflows": lambda c: active_plans.workflows_run(c, [("team-1", "staging", "w")], 100),
    "active-plans": lambda c: active_plans.of_places(c, [("team-1", "staging", "l")]),
    "newest-workflows": lambda c: registrations.newest_workflows(c, [("team-1", "staging", "w")]),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_about_settings_follow_a_key(plans: Plans, name: str) -> None:
    plan = plans.of(ANSWERS[name])
    assert not re.search("SCAN (attributes|workflows|launch_plans)(?! USING)", plan), plan


@pytest.mark.parametrize(
    "call",
    [
        lambda c: attributes.applying(c, ["EXECUTION_QUEUE", "TASK_RESOURCE"], PLACE),
        lambda c: attributes.of_domains(c, "EXECUTION_QUEUE"),
        lambda c: attributes.exactly(c, [("EXECUTION_QUEUE", PLACE), ("TASK_RESOURCE", PLACE)]),
    ],
    ids=["applying", "of-domains", "exactly"],
)
def test_attributes_are_found_by_their_key(plans: Plans, call: Call) -> None:
    plan = plans.of(call)
    assert not re.search("SCAN attributes", plan), plan
    if plans.database.engine.dialect.name == "sqlite":
        assert len(re.findall("project=", plan)) == len(re.findall("SEARCH attributes", plan)), plan


NAMED: dict[str, Call] = {
    "last-change": lambda c: row_changes.last_changes(c, "POOL", "pool-3", 1),
    "page": lambda c: revisions.page(c, RevisionFilter(kind="POOL", name="pool-3"), None, 20),
    "changed-since": lambda c: row_changes.changed_since(c, RowKey("POOL", "pool-3", PLATFORM), 100, 10),
}


@pytest.mark.parametrize("name", NAMED)
def test_changes_of_one_name_are_found_by_it(plans: Plans, name: str) -> None:
    plan = plans.of(NAMED[name])
    assert "ix_revision_changes_name" in plan, plan
    assert not re.search(r"SCAN revision(s|_changes)|Seq Scan on revision", plan), plan


MINUTE = timedelta(minutes=1)
HISTORY: dict[str, tuple[Call, str]] = {
    "of-a-project": (lambda c: revisions.page(c, RevisionFilter(project="team-3"), None, 20), "_changes_scope"),
    "of-a-scope": (
        lambda c: revisions.page(c, RevisionFilter(**PLACE._asdict(), kind="EXECUTION_QUEUE"), None, 20),
        "_changes_scope",
    ),
    "of-a-row": (lambda c: row_changes.changes_of_row(c, "EXECUTION_QUEUE", PLACE, REVISIONS, 10), "_changes_scope"),
    "of-the-fleet": (lambda c: row_changes.last_of_fleet(c, 1000), "_changes_name"),
    "of-a-cluster": (
        lambda c: revisions.page(c, RevisionFilter(kind="CLUSTER", name="c1", member="c1"), None, 20),
        "_changes_name",
    ),
    "of-a-name-since-a-time": (
        lambda c: row_changes.definition_changes_since(c, "POOL", "pool-3", NOW - 5 * MINUTE, 100),
        "_changes_name",
    ),
    "rollbacks": (lambda c: revisions.rollbacks_of(c, 10, 10), "s_rollbacks"),
    "of-a-request": (lambda c: revisions.page(c, RevisionFilter(request_id="r7"), None, 20), "s_request_id"),
    "of-a-request-of-nothing": (lambda c: revisions.page(c, RevisionFilter(request_id="r"), 99, 20), "s_request_id"),
    "since-a-time": (lambda c: revisions.page(c, RevisionFilter(after=NOW - 5 * MINUTE), None, 20), "s_created_at"),
    "before-a-time": (
        lambda c: revisions.page(c, RevisionFilter(before=NOW - (REVISIONS - 5) * MINUTE), None, 20),
        "s_created_at",
    ),
}


@pytest.mark.parametrize("name", HISTORY)
def test_a_part_of_the_history_is_found_by_an_index(plans: Plans, name: str) -> None:
    call, index = HISTORY[name]
    if plans.database.engine.dialect.name == "postgresql":  # which the admin has look at tables as soon as they grow
        with plans.database.autocommit() as connection:
            connection.exec_driver_sql("ANALYZE revisions, revision_changes")
    plan = plans.of(call)
    assert f"ix_revision{index}" in plan, plan
    assert not re.search(r"SCAN revision(s|_changes)(?! USING)|Seq Scan on revision(s|_changes)", plan), plan


def test_the_last_change_of_a_name_is_the_newest(plans: Plans) -> None:
    with plans.database.reading() as connection:
        [newest, older] = row_changes.last_changes(connection, "POOL", "pool-3", 2)
        assert (newest.revision, newest.name, older.revision) == (4700, "pool-3", 4000)
        assert row_changes.last_changes(connection, "POOL", "pool-9", 2) == []


def test_the_last_change_of_an_attribute_is_found_by_its_scope(plans: Plans) -> None:
    plan = plans.of(lambda c: row_changes.deleted_at(c, "EXECUTION_QUEUE", PLACE))
    assert not re.search(r"SCAN revision_changes(?! USING)|Seq Scan on revision", plan), plan


def test_the_first_scopes_below_a_project_are_read_without_sorting_all(plans: Plans) -> None:
    plan = plans.of(lambda c: scopes.below_all(c, [Scope("staging", "team-1")], 100))
    assert not re.search("SCAN (attributes|workflows|launch_plans)(?! USING)", plan), plan
    if plans.database.engine.dialect.name == "sqlite":  # the other one sorts what is as little as here
        assert plan.count("TEMP B-TREE FOR ORDER BY") == 1, plan  # of the first ones of each table


OF_ROW: dict[str, Call] = {
    "deleted-at": lambda c: row_changes.deleted_at(c, "EXECUTION_QUEUE", PLATFORM),
    "changes": lambda c: row_changes.changes_of_row(c, "EXECUTION_QUEUE", PLATFORM, 4990, 10),
    "changes-of-few": lambda c: row_changes.changes_of_row(c, "EXECUTION_QUEUE", PLACE, 4990, 10),
    "changed-since": lambda c: row_changes.changed_since(c, RowKey("EXECUTION_QUEUE", "", PLATFORM), 10, 10),
}


@pytest.mark.parametrize("name", OF_ROW)
def test_the_newest_changes_of_a_row_are_found_without_sorting_all(plans: Plans, name: str) -> None:
    plan = plans.of(OF_ROW[name])
    assert not SORTS.search(plan), plan
    assert not re.search(r"SCAN revision_changes(?! USING)", plan), plan


def test_the_events_of_a_cluster_are_found_without_walking_over_its_reports(context: Context) -> None:
    types = ("CORDONED", "UNCORDONED")
    events = [
        ClusterEvent(cluster=f"c{number % 4}", at=context.clock(), type=types[number % 2] if number < 8 else "REPORTED")
        for number in range(8000)
    ]
    with context.database.writing() as connection:
        cluster_events.add_events(connection, events)
        connection.execute(text("ANALYZE"))
    chosen = ClusterEventFilter(cluster="c1", without_reports=True)
    for below in (None, 6000):
        plan = Plans(context.database).of(partial(cluster_events.events, filters=chosen, below=below, limit=21))
        assert re.search("ix_cluster_events_(no_report|cluster_type_number)", plan), plan
        assert not re.search("ix_cluster_events_cluster_number|SCAN cluster_events|Seq Scan", plan), plan


def test_the_events_of_a_request_are_found_without_other_events(context: Context) -> None:
    events = [
        ClusterEvent(cluster=f"c{number % 40}", at=context.clock(), type="CORDONED", request_id=f"r{number // 10}")
        for number in range(4000)
    ]
    with context.database.writing() as connection:
        cluster_events.add_events(connection, events)
        connection.execute(text("ANALYZE"))
    for below in (None, 3000):
        chosen = ClusterEventFilter(request_id="r7", without_reports=True)
        plan = Plans(context.database).of(partial(cluster_events.events, filters=chosen, below=below, limit=21))
        assert "ix_cluster_events_request_id" in plan, plan


def test_what_retention_keeps_of_states_that_hold_is_found_among_many_reports(context: Context) -> None:
    now = context.clock()
    names = [f"cluster-{number}" for number in range(200)]
    switches = [ClusterEvent(cluster=name, at=now, type=type_) for name in names for type_ in ("READY", "CORDONED")]
    reports = [ClusterEvent(cluster=name, at=now, type="REPORTED") for name in names for _ in range(100)]
    states = [{"name": name, "cordoned": True, "report": {}, "health": "ready"} for name in names]
    with context.database.writing() as connection:
        connection.execute(insert(cluster_states), states)
        cluster_events.add_events(connection, [*switches, *reports])
        connection.execute(text("ANALYZE"))
    numbers = list(range(1, 101))
    plan = Plans(context.database).of(lambda connection: cluster_events.lasting(connection, numbers))
    assert "ix_cluster_events_cluster_type_number" in plan, plan
    assert not re.search("SCAN cluster_events|Seq Scan on cluster_events", plan), plan
    with context.database.reading() as connection:
        assert cluster_events.lasting(connection, numbers) == set(numbers)


def test_what_moved_from_or_to_a_cluster_is_found_without_other_events(context: Context) -> None:
    with context.database.writing() as connection:
        rounds = [ClusterEvent(at=context.clock(), type="REDECIDED") for _ in range(4000)]
        cluster_events.add_events(connection, rounds)
        rows = [{"event": number, "cluster": f"c{number % 400}"} for number in range(1, 4001)]
        connection.execute(insert(moved_clusters), rows)
        connection.execute(text("ANALYZE"))
    for below in (None, 3000):
        filters = ClusterEventFilter(moved="c1")
        plan = Plans(context.database).of(partial(cluster_events.events, filters=filters, below=below, limit=5))
        assert "ix_moved_clusters_cluster" in plan, plan
        assert not re.search("SCAN (cluster_events|moved_clusters)(?! USING)|Seq Scan", plan), plan


REGISTRATIONS = {
    "of-a-name": (
        RegistrationFilter(project="p3", domain="d", workflow="w"),
        "_project_domain_name|autoindex|_activations_version",
    ),
    "of-a-project": (RegistrationFilter(project="p3"), "_project_domain_name|autoindex|_activations_version"),
    "of-a-request": (RegistrationFilter(request_id="r7"), "_request_id"),
    "since-a-time": (RegistrationFilter(after=NOW - 5 * MINUTE), "_created_at"),
    "before-a-time": (RegistrationFilter(before=NOW - 3995 * MINUTE), "_created_at"),
}


@pytest.fixture
def registered(context: Context) -> Context:
    """An admin with many workflows and launch plans, each of a project of its own."""
    with context.database.writing() as connection:
        values = {"domain": "d", "name": "w", "version": "v", "spec": {}, "digest": ""}
        rows: list[dict[str, Any]] = [
            {
                **values,
                "project": f"p{number}",
                "created_at": NOW - (4000 - number) * MINUTE,
                "request_id": f"r{number // 10}",
            }
            for number in range(4000)
        ]
        connection.execute(insert(workflows), rows)
        more = {"workflow": "w", "state": "ACTIVE", "updated_at": NOW}
        connection.execute(insert(launch_plans), [{**row, **more} for row in rows])
        names = ("project", "domain", "name", "version", "created_at", "request_id")
        by = {"workflow": "w", "state": "ACTIVE", "author": "anonymous"}
        connection.execute(
            insert(launch_plan_activations), [{**{name: row[name] for name in names}, **by} for row in rows]
        )
        connection.execute(text("ANALYZE"))
    return context


@pytest.mark.parametrize("table", [workflows, launch_plans, launch_plan_activations], ids=str)
@pytest.mark.parametrize("name", REGISTRATIONS)
def test_registrations_of_a_scope_and_of_a_time_are_found_by_an_index(
    registered: Context, table: Table, name: str
) -> None:
    filters, index = REGISTRATIONS[name]
    plan = Plans(registered.database).of(lambda c: registration_history.page(c, table, filters, None, 20))
    assert re.search(index, plan), plan
    assert not re.search(f"SCAN {table.name}(?! USING)|Seq Scan", plan), plan


def test_who_set_the_state_of_launch_plans_is_found_by_an_index(registered: Context) -> None:
    plans = [Identifier(project=f"p{number}", domain="d", name="w", version="v") for number in (1, 2)]
    plan = Plans(registered.database).of(lambda c: activations.last(c, plans))
    assert "ix_launch_plan_activations_version" in plan, plan
    assert not re.search("SCAN launch_plan_activations(?! USING)|Seq Scan", plan), plan
    with registered.database.reading() as connection:
        assert activations.last(connection, plans).keys() == set(plans)
