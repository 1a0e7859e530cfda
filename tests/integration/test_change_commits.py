"""Changes that share a transaction: each is its own revision, checked against memory as against the database."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, event, select, text
from sqlalchemy.exc import IntegrityError, OperationalError
from werkzeug.test import TestResponse

from admin.core.changes import ANYTHING, Authorship, Expectation, RowWrite
from admin.core.fleet.definitions import FleetKind
from admin.core.memos import Memo
from admin.core.problems import Invalid
from admin.core.projects import ProjectState
from admin.core.settings.kinds import Payload
from admin.core.settings.scopes import Scope
from admin.errors import RainbowError, UnknownProject, VersionConflict
from admin.services.change_commits import MOST_ROWS, commit_changes
from admin.services.change_drafts import Writes
from admin.services.changeable.attributes import attribute_write
from admin.services.changeable.base import ChangeOptions, Mode
from admin.services.changeable.fleet import definition_write
from admin.services.changeable.projects import project_write
from admin.services.changes import (
    Changed,
    ChangeOutcome,
    ChangeRequest,
    changed_by,
    draft_early,
    make_change,
    with_late_warnings,
)
from admin.services.context import Context
from admin.services.registrations import register_workflow
from admin.store import attributes
from admin.store import revisions as revisions_store
from admin.store.cache.index import AttributeRow, Index
from admin.store.cache.recent_changes import MOST_RECENT
from admin.store.cache.shared_counter import SharedCounter
from admin.store.database import is_writing
from admin.store.group_commit import GroupCommit
from admin.store.revision_tables import revision_changes, revision_head, revisions
from tests.conftest import MakeApp
from tests.support.agents import Clock, set_clock
from tests.support.placing import API, DOMAIN, JOB, PROJECT, ok
from tests.support.small_fleets import group
from tests.support.statements import statements
from tests.support.threads import at_once
from tests.support.waiting import wait_until

DOMAIN_SCOPE, PROJECT_SCOPE = Scope(domain=DOMAIN), Scope(project=PROJECT)
BELOW = Scope(domain=DOMAIN, project=PROJECT, workflow="wf")


def label_write(
    context: Context, scope: Scope, value: str | None, expectation: Expectation = ANYTHING, project: str = PROJECT
) -> RowWrite:
    payload: Payload | None = None if value is None else {"value": value}
    kind = context.settings.kinds["EXECUTION_CLUSTER_LABEL"]
    place = scope._replace(project=project) if scope.project else scope
    return attribute_write(kind, place, lambda _before: payload, expectation)


def commit(context: Context, *writes: RowWrite) -> list[ChangeOutcome]:
    """Make changes of one row each, together."""
    return commit_changes([ChangeRequest(context=context, writes=[write], options=ChangeOptions()) for write in writes])


def state(context: Context) -> tuple[dict[Scope, tuple[Payload, int]], list[tuple[Any, ...]], list[int]]:
    """The labels with their versions, the changes of all revisions, and the numbers of these with the head."""
    changes = revision_changes.c
    with context.database.reading() as connection:
        rows = {
            row.scope: (row.payload, row.version) for row in attributes.every(connection, "EXECUTION_CLUSTER_LABEL")
        }
        query = select(changes.revision, changes.before, changes.after, changes.before_version)
        history = [tuple(row) for row in connection.execute(query.order_by(changes.revision, changes.ordinal))]
        numbers = list(connection.execute(select(revisions.c.number).order_by(revisions.c.number)).scalars())
        return rows, history, [*numbers, connection.execute(select(revision_head.c.number)).scalar_one()]


@pytest.fixture
def context(app: Flask, app_clock: Clock) -> Context:
    """An admin whose clock stands still: answers say how long ago revisions were made, and are compared."""
    return set_clock(app, app_clock)


@pytest.fixture(params=["memory", "database"])
def either(request: pytest.FixtureRequest, context: Context) -> Context:
    """An admin that drafts changes from memory, and one whose index is not loaded."""
    if request.param == "memory":
        assert context.index.current() == 0
    else:
        index = Index(context.database, SharedCounter(), context.settings.kinds, read_rows=refuse_to_read)
        return replace(context, index=index)
    return context


def refuse_to_read(_connection: Connection) -> Iterable[AttributeRow]:
    raise OperationalError("SELECT", {}, Exception("not now"))


def test_each_of_a_batch_sees_those_before_it(either: Context) -> None:
    first, second, deletion, again, last = commit(
        either,
        label_write(either, BELOW, "a"),
        label_write(either, BELOW, "b"),
        label_write(either, BELOW, None),
        label_write(either, BELOW, "c", Expectation(absent=True)),
        label_write(either, DOMAIN_SCOPE, "d"),
    )
    made = [outcome for outcome in (first, second, deletion, again, last) if isinstance(outcome, Changed)]
    assert [(changed.revision, changed.rows[0].version) for changed in made] == [
        (1, 1),
        (2, 2),
        (3, None),
        (4, 4),
        (5, 5),
    ]
    rows, history, numbers = state(either)
    assert rows == {BELOW: ({"value": "c"}, 4), DOMAIN_SCOPE: ({"value": "d"}, 5)}
    assert history == [
        (1, None, {"value": "a"}, None),
        (2, {"value": "a"}, {"value": "b"}, 1),
        (3, {"value": "b"}, None, 2),
        (4, None, {"value": "c"}, None),
        (5, None, {"value": "d"}, None),
    ]
    assert numbers == [1, 2, 3, 4, 5, 5]


def test_a_refusal_disturbs_nobody_else(either: Context) -> None:
    unknown = label_write(either, BELOW, "x", project="nobody")
    outcomes = commit(
        either,
        label_write(either, BELOW, "a"),
        unknown,
        label_write(either, BELOW, "b", Expectation(version=1)),
        label_write(either, BELOW, "c", Expectation(version=1)),
        label_write(either, BELOW, "b"),
        label_write(either, PROJECT_SCOPE, "p"),
    )
    assert [type(outcome) for outcome in outcomes] == [
        Changed,
        UnknownProject,
        Changed,
        VersionConflict,
        Changed,
        Changed,
    ]
    conflict, unchanged, last = outcomes[3:]
    assert isinstance(conflict, VersionConflict)
    assert conflict.details[0]["current_version"] == 2
    assert isinstance(unchanged, Changed)
    assert (unchanged.is_change, unchanged.rows[0].version) == (False, 2)
    assert isinstance(last, Changed)
    assert last.revision == 3
    assert state(either)[2] == [1, 2, 3, 3]


def test_what_follows_the_creation_of_a_project_sees_it(either: Context) -> None:
    outcomes = commit(
        either,
        label_write(either, DOMAIN_SCOPE, "d"),
        label_write(either, BELOW, "early", project="fresh"),
        project_write("fresh", {"name": "Fresh"}),
        label_write(either, PROJECT_SCOPE, "p", project="fresh"),
        label_write(either, BELOW, "late", project="fresh"),
    )
    assert [type(outcome) for outcome in outcomes] == [Changed, UnknownProject, Changed, Changed, Changed]
    assert isinstance(outcomes[3], Changed)
    assert [warning.code.value for warning in outcomes[3].warnings] == ["unknown_label", "overrides_domain"]
    assert state(either)[2] == [1, 2, 3, 4, 4]
    applied = either.index.applying(BELOW._replace(project="fresh"))
    if applied is not None:
        assert (applied.revision, applied.project is not None) == (4, True)


def test_the_second_of_a_batch_is_warned_of_the_first(either: Context) -> None:
    _, outcome = commit(either, label_write(either, DOMAIN_SCOPE, "d"), label_write(either, PROJECT_SCOPE, "p"))
    assert isinstance(outcome, Changed)
    assert [warning.code.value for warning in outcome.warnings] == ["unknown_label", "overrides_domain"]


def test_an_invalid_row_is_refused_alone(either: Context) -> None:
    kind = either.settings.kinds["TASK_RESOURCE"]

    def resources(scope: Scope, payload: Payload) -> RowWrite:
        return attribute_write(kind, scope, lambda _before: kind.read(payload))

    outcomes = commit(
        either,
        resources(PROJECT_SCOPE, {"limits": {"cpu": "2"}}),
        resources(BELOW, {"defaults": {"cpu": "3"}}),
        resources(BELOW, {"defaults": {"cpu": "1"}}),
    )
    assert [type(outcome) for outcome in outcomes] == [Changed, Invalid, Changed]
    assert "above the limit of 2 set at project flytesnacks" in str(outcomes[1])


PAYLOADS: dict[str, list[Payload]] = {
    "task_resource_attributes": [
        {"limits": {"cpu": "2"}},
        {"defaults": {"cpu": "1"}},
        {"defaults": {"cpu": "4"}},
        {"limits": {"cpu": "0"}},
    ],
    "execution_cluster_label": [{"value": "mycluster"}, {"value": "nothing"}],
    "workflow_execution_config": [{"max_parallelism": 3}, {"labels": {"values": {"a": "b"}}}],
}
PATHS = [
    f"domain_attributes/{DOMAIN}",
    "domain_attributes/staging",
    f"project_attributes/{PROJECT}",
    f"project_domain_attributes/{PROJECT}/{DOMAIN}",
    f"workflow_attributes/{PROJECT}/{DOMAIN}/wf",
    f"workflow_attributes/nobody/{DOMAIN}/wf",
    f"launch_plan_attributes/{PROJECT}/{DOMAIN}/wf/lp",
]


def test_memory_and_the_database_judge_alike(app: Flask, context: Context) -> None:
    compare_dry_runs_with_changes(app, context, 40)


def compare_dry_runs_with_changes(app: Flask, context: Context, changes: int) -> None:
    """A dry run asks the database, and the change itself memory."""
    draw = random.Random(16)
    api = app.test_client()
    assert context.index.current() == 0
    seen = set()
    for _ in range(changes):
        path = f"{API}/{draw.choice(PATHS)}"
        key = draw.choice(list(PAYLOADS))
        headers = {"If-Match": str(draw.randrange(1, 40))} if draw.random() < 0.2 else {}
        if draw.random() < 0.2:
            numbers = {"task_resource_attributes": 0, "execution_cluster_label": 3, "workflow_execution_config": 6}
            send, query, body = api.delete, f"?resource_type={numbers[key]}", None
        else:
            send, query, body = api.put, "?", {"attributes": {"matching_attributes": {key: draw.choice(PAYLOADS[key])}}}
        dry = send(f"{path}{query}&dry_run=true", json=body, headers=headers)
        real = send(f"{path}{query}", json=body, headers=headers)
        seen.add(real.status_code)
        assert _judgement(dry) == _judgement(real)
    assert seen == {200, 400, 409}


def _judgement(response: TestResponse) -> tuple[Any, ...]:
    answer = response.get_json()
    keys = ("attributes", "before", "warnings", "error", "details", "message")
    return response.status_code, *(answer.get(key) for key in keys)


def test_a_write_from_memory_asks_little_of_the_database(api: FlaskClient, context: Context) -> None:
    def put(priority: int) -> None:
        body = {"attributes": {"matching_attributes": {"workflow_priority": {"priority": priority}}}}
        ok(api.put(f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/wf", json=body))

    put(1)
    with statements(context) as seen:
        put(2)
    verbs = [statement.split()[0] for statement in seen]
    assert verbs.count("SELECT") == 1  # the head, when it was made, and what decisions are based on
    is_one_statement = context.database.engine.dialect.name == "postgresql"
    assert [word for word in verbs if word in ("INSERT", "UPDATE", "DELETE", "WITH")] == (
        ["WITH"] if is_one_statement else ["INSERT"] * 4
    )


def test_two_admins_that_write_in_turn_see_each_other(make_app: MakeApp) -> None:
    admins = [make_app().test_client(), make_app().test_client()]
    path = f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/wf"
    before = None
    for number in range(1, 9):
        payload = {"value": f"label{number}"}
        body = {"attributes": {"matching_attributes": {"execution_cluster_label": payload}}}
        headers = {"If-Match": str(number - 1)} if number > 1 else {}
        answer = ok(admins[number % 2].put(path, json=body, headers=headers))
        assert (answer["revision"], answer.get("before")) == (number, before)
        before = payload


def test_writers_at_two_admins_leave_one_order_without_gaps(make_app: MakeApp) -> None:
    apps = [make_app(), make_app()]
    writers = 12

    def put(number: int) -> Callable[[FlaskClient], TestResponse]:
        body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": f"label{number}"}}}}
        path = f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/wf"
        return lambda client: apps[number % 2].test_client().put(path, json=body)

    answers = [answer.get_json() for answer in at_once(apps[0], [put(number) for number in range(writers)])]
    in_order = sorted(answers, key=lambda answer: answer["revision"])
    assert [answer["revision"] for answer in in_order] == list(range(1, writers + 1))
    values = [answer["attributes"]["matching_attributes"]["execution_cluster_label"] for answer in in_order]
    assert [answer.get("before") for answer in in_order] == [None, *values[:-1]]
    context: Context = apps[0].extensions["rainbow"]
    rows, history, numbers = state(context)
    assert rows == {BELOW: (values[-1], writers)}
    assert [after for _, _, after, _ in history] == values
    assert numbers == [*range(1, writers + 1), writers]


def test_a_commit_that_fails_is_told_to_all_and_repeated_for_none(either: Context) -> None:
    failure, commits = OperationalError("COMMIT", {}, Exception("gone")), 0

    def fail(connection: Connection) -> None:
        nonlocal commits
        if is_writing(connection):
            commits += 1
            raise failure

    writes = [label_write(either, BELOW, "a"), label_write(either, DOMAIN_SCOPE, "b")]
    event.listen(either.database.engine, "commit", fail)
    try:
        outcomes = commit(either, *writes)
    finally:
        event.remove(either.database.engine, "commit", fail)
    assert (outcomes, commits) == ([failure, failure], 1)
    assert state(either) == ({}, [], [0])
    commit(either, *writes)
    assert state(either)[2] == [1, 2, 2]


def test_changes_that_arrive_while_the_head_is_waited_for_share_the_transaction(context: Context) -> None:
    scopes = [Scope(domain=DOMAIN, project=PROJECT, workflow=f"w{number}") for number in range(5)]
    is_taken_out = context.database.engine.dialect.name == "postgresql"  # the first, which waits for the head itself
    with statements(context) as seen, ThreadPoolExecutor(5) as pool:
        with context.database.writing() as connection:
            revisions_store.lock_head(connection)
            submitted = [
                pool.submit(make_change, context, [label_write(context, scope, "a")], ChangeOptions())
                for scope in scopes
            ]
            wait_until(lambda: context.changes.queued == 5 - is_taken_out)
        assert {future.result(60).revision for future in submitted} == {1, 2, 3, 4, 5}
    assert sum("INSERT INTO revision_head" in statement for statement in seen) == 1


def test_an_error_of_the_database_fails_one_change_and_no_other(either: Context) -> None:
    def break_a_rule(connection: Connection) -> list[RowWrite]:
        connection.execute(text("INSERT INTO revisions (number) VALUES (99)"))
        return []

    options, lock = ChangeOptions(), threading.Lock()
    changes: list[Writes] = [[label_write(either, BELOW, "a")], break_a_rule, [label_write(either, DOMAIN_SCOPE, "b")]]
    requests = [ChangeRequest(context=either, writes=writes, options=options) for writes in changes]
    group: GroupCommit[ChangeRequest, ChangeOutcome] = GroupCommit(commit_changes, lock=lock)
    with ThreadPoolExecutor(3) as pool:
        with lock:
            submitted = []
            for request in requests:
                submitted.append(pool.submit(group.submit, [request]))
                wait_until(lambda: group.queued == len(submitted))
        errors = [future.exception(60) for future in submitted]
    assert [type(error) for error in errors] == [type(None), IntegrityError, type(None)]
    rows, _, numbers = state(either)
    assert rows == {BELOW: ({"value": "a"}, 1), DOMAIN_SCOPE: ({"value": "b"}, 2)}
    assert numbers == [1, 2, 2]


def test_a_batch_that_is_stored_in_parts_is_one_transaction(either: Context) -> None:
    scopes = [BELOW._replace(workflow=f"wf{number}") for number in range(MOST_ROWS + 1)]
    changes = [
        [label_write(either, scope, "a") for scope in scopes],
        [label_write(either, scopes[0], "b"), label_write(either, scopes[1], None)],
        [label_write(either, scopes[1], "c", Expectation(absent=True))],
    ]
    with statements(either) as seen:
        commit_changes([ChangeRequest(context=either, writes=writes, options=ChangeOptions()) for writes in changes])
    assert sum("INSERT INTO revision_head" in statement for statement in seen) > 1
    rows, history, numbers = state(either)
    assert (len(rows), rows[scopes[0]], rows[scopes[1]]) == (
        len(scopes),
        ({"value": "b"}, 2),
        ({"value": "c"}, 3),
    )
    assert history[-3:] == [
        (2, {"value": "a"}, {"value": "b"}, 1),
        (2, {"value": "a"}, None, 1),
        (3, None, {"value": "c"}, None),
    ]
    assert numbers == [1, 2, 3, 3]


def test_the_revision_that_is_expected_may_be_made_by_the_same_batch(either: Context) -> None:
    outcomes = commit_changes(
        [
            ChangeRequest(
                context=either,
                writes=[label_write(either, BELOW, value)],
                options=ChangeOptions(expected_head=head),
            )
            for value, head in (("a", 0), ("b", 0), ("c", 1), ("c", 2))
        ]
    )
    assert [type(outcome) for outcome in outcomes] == [Changed, VersionConflict, Changed, Changed]
    assert state(either)[0] == {BELOW: ({"value": "c"}, 2)}


def test_what_was_checked_against_the_database_does_not_keep_the_rest_from_memory(context: Context) -> None:
    assert context.index.current() == 0
    taken = project_write(PROJECT, {"name": "other"}, Expectation(absent=True))

    def roll_back(_connection: Connection) -> list[RowWrite]:
        return [label_write(context, BELOW, "b", Expectation(version=1))]

    changes: list[Writes] = [
        [taken],
        [label_write(context, BELOW, "a")],
        roll_back,
        [taken],
        [label_write(context, BELOW, "c", Expectation(version=2))],
    ]
    requests = [ChangeRequest(context=context, writes=writes, options=ChangeOptions()) for writes in changes]
    outcomes = commit_changes(requests)
    assert [isinstance(outcome, Changed) for outcome in outcomes] == [False, True, True, False, True]
    assert context.index.revision == 3  # without another look at the database
    [row] = context.index.rows("EXECUTION_CLUSTER_LABEL", [BELOW])
    assert (row.payload, row.version) == ({"value": "c"}, 3)
    assert state(context)[0] == {BELOW: ({"value": "c"}, 3)}


def test_a_change_does_not_wait_for_a_reader_that_keeps_memory_busy(context: Context) -> None:
    is_reading, may_go_on = threading.Event(), threading.Event()
    calls = 0

    def stop_the_reader() -> float:
        nonlocal calls
        if threading.current_thread() is not threading.main_thread():
            calls += 1
            if calls == 3:  # within what only one thread does at a time
                is_reading.set()
                assert may_go_on.wait(60)
        return 100.0 + calls

    index = Index(context.database, SharedCounter(), context.settings.kinds, monotonic=stop_the_reader)
    busy = replace(context, index=index)
    assert index.current() == 0
    reader = threading.Thread(target=index.catch_up)
    reader.start()
    assert is_reading.wait(60)
    first, second = commit(busy, label_write(busy, BELOW, "a"), label_write(busy, BELOW, "b", Expectation(version=1)))
    assert isinstance(first, Changed)
    assert isinstance(second, Changed)
    assert index.revision == 0
    may_go_on.set()
    reader.join(60)
    index.catch_up()
    assert index.revision == 2
    assert [row.payload for row in index.rows("EXECUTION_CLUSTER_LABEL", [BELOW])] == [{"value": "b"}]


def test_a_change_after_revisions_that_are_not_kept_goes_by_the_database(context: Context) -> None:
    commit(context, label_write(context, BELOW, "a"))
    assert context.index.current() == 1
    with context.database.writing() as connection:  # as if another admin had written, and pruned soon after
        connection.execute(revision_head.update().values(number=2))
        connection.execute(text("UPDATE attributes SET version = 2"))
    (outcome,) = commit(context, label_write(context, BELOW, "b", Expectation(version=2)))
    assert isinstance(outcome, Changed)
    assert (outcome.revision, state(context)[0]) == (3, {BELOW: ({"value": "b"}, 3)})
    assert context.index.current() == 3


def lose_last_revision(context: Context) -> None:
    """Take the last revision back, as a failover to a server that had not received it does."""
    with context.database.writing() as connection:
        for statement in (
            "DELETE FROM revision_changes WHERE revision = (SELECT number FROM revision_head)",
            "DELETE FROM revisions WHERE number = (SELECT number FROM revision_head)",
            "DELETE FROM attributes WHERE version = (SELECT number FROM revision_head)",
            "UPDATE revision_head SET number = number - 1",
        ):
            connection.execute(text(statement))
    assert isinstance(context.clock, Clock)
    context.clock.advance(0.001)  # another revision of that number is told from the lost one by its time


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_memory_is_not_believed_after_the_database_has_lost_a_revision(context: Context, is_overtaken: bool) -> None:
    commit(context, label_write(context, DOMAIN_SCOPE, "a"))
    commit(context, label_write(context, BELOW, "lost"))
    assert context.index.current() == 2
    lose_last_revision(context)
    if is_overtaken:
        with context.database.writing() as connection:  # as another admin does
            revision = revisions_store.NewRevision(
                number=2, created_at=context.clock(), authorship=Authorship(), changes=[]
            )
            attributes.store_revisions(connection, [revision])
    (again,) = commit(context, label_write(context, BELOW, "lost"))
    assert isinstance(again, Changed)
    assert again.is_change
    rows, _, _ = state(context)
    assert rows[BELOW][0] == {"value": "lost"}


def test_a_failure_after_the_commit_repeats_nothing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(context, label_write(context, DOMAIN_SCOPE, "a"))
    assert context.index.current() == 1
    monkeypatch.setattr(type(context.index), "_apply", lambda *_: 1 / 0)
    outcomes = commit(context, label_write(context, BELOW, "b"), label_write(context, BELOW, "c"))
    assert [isinstance(outcome, Changed) for outcome in outcomes] == [True, True]
    monkeypatch.undo()
    rows, _, numbers = state(context)
    assert rows[BELOW] == ({"value": "c"}, 3)
    assert numbers == [1, 2, 3, 3]
    assert context.index.current() == 3


def resource_write(context: Context, scope: Scope, **payload: Payload) -> RowWrite:
    return attribute_write(context.settings.kinds["TASK_RESOURCE"], scope, lambda _before: payload)


def pool_write(context: Context, scope: Scope, pool: str) -> RowWrite:
    payload = {"cluster_pool_name": pool}
    return attribute_write(context.settings.kinds["CLUSTER_ASSIGNMENT"], scope, lambda _before: payload)


def early_request(context: Context, *writes: RowWrite) -> ChangeRequest:
    """A request that is drafted now, whenever it is committed."""
    options = ChangeOptions()
    early = draft_early(context, writes, options)
    return ChangeRequest(context=context, writes=writes, options=options, early=early)


def is_early(outcome: ChangeOutcome, request: ChangeRequest) -> bool:
    """Whether the outcome is that of the early draft."""
    if request.early is None or not isinstance(outcome, Changed):
        return False
    return outcome.rows[0].change is request.early.drafted.draft.rows[0][1]


def judge(outcome: ChangeOutcome) -> tuple[object, ...]:
    """What was decided of a change: each row with the version before it, and the warnings; or the error."""
    if isinstance(outcome, Exception):
        return type(outcome), str(outcome)
    return [row.change for row in outcome.rows], outcome.warnings


def judge_by_database(context: Context, writes: Writes) -> tuple[object, ...]:
    try:
        return judge(make_change(context, writes, ChangeOptions(mode=Mode.DRY_RUN)))
    except (Invalid, RainbowError) as refusal:
        return judge(refusal)


@pytest.fixture
def ready(context: Context) -> Context:
    return prepared(context)


def prepared(context: Context) -> Context:
    """An admin that has all in memory that an early draft needs; its last revision is that of a label."""
    assert context.index.current() == 0
    commit(context, label_write(context, DOMAIN_SCOPE, "d"), label_write(context, BELOW, "old"))
    return context


def another_admin(context: Context) -> Context:
    """An admin of the same database that shares no memory."""
    index = Index(context.database, SharedCounter(), context.settings.kinds)
    return replace(context, index=index, known_names=Memo())


def test_a_change_is_drafted_before_the_head_is_locked(ready: Context) -> None:
    pairs: list[tuple[ChangeRequest, ChangeOutcome]] = []

    def commit_and_keep(requests: list[ChangeRequest]) -> list[ChangeOutcome]:
        outcomes = commit_changes(requests)
        pairs.extend(zip(requests, outcomes, strict=True))
        return outcomes

    admin = replace(ready, changes=GroupCommit(commit_and_keep, lock=ready.database.write_lock))
    elsewhere = another_admin(ready)
    for number in range(3):
        changed = make_change(admin, [label_write(admin, BELOW, f"v{number}")], ChangeOptions())
        assert changed.rows[0].version == changed.revision == state(ready)[0][BELOW][1]
        make_change(elsewhere, [label_write(elsewhere, BELOW._replace(workflow="x"), f"v{number}")], ChangeOptions())
    assert [is_early(outcome, request) for request, outcome in pairs] == [True] * 3
    assert [row.change.before for _, outcome in pairs if isinstance(outcome, Changed) for row in outcome.rows] == [
        {"value": "old"},
        {"value": "v0"},
        {"value": "v1"},
    ]


def test_what_needs_the_head_or_the_database_is_not_drafted_early(ready: Context) -> None:
    write, options = label_write(ready, BELOW, "a"), ChangeOptions()
    many = [label_write(ready, BELOW._replace(workflow=f"w{number}"), "a") for number in range(101)]
    assert draft_early(ready, [write], options) is not None
    assert draft_early(ready, many[:100], options) is not None
    assert draft_early(ready, many, options) is None
    assert draft_early(ready, lambda _connection: [write], options) is None
    assert draft_early(ready, [write], replace(options, expected_head=2)) is None
    assert draft_early(ready, [write, project_write("fresh", {"name": "Fresh"})], options) is None
    assert draft_early(ready, [label_write(ready, BELOW, "a", project="nobody")], options) is None
    assert draft_early(ready, [label_write(ready, BELOW, "a", Expectation(version=1))], options) is None
    assert draft_early(another_admin(ready), [write], options) is None
    assert draft_early(replace(ready, known_names=Memo()), [write], options) is None


def make(*writes: Callable[[Context], RowWrite]) -> Callable[[Context], None]:
    def interfere(context: Context) -> None:
        make_change(context, [write(context) for write in writes], ChangeOptions())

    return interfere


def register(context: Context) -> None:
    place = {"project": PROJECT, "domain": DOMAIN, "name": "wf", "version": "v1"}
    register_workflow(context, place, {"job": JOB}, authorship=Authorship(), dry_run=False)


def lose_and_reload(context: Context) -> None:
    lose_last_revision(context)
    context.index.catch_up()


def lose_and_overtake(context: Context) -> None:
    """Another revision has the number of the lost one, and memory is loaded again with it."""
    lose_and_reload(context)
    make_change(context, [label_write(context, BELOW._replace(workflow="x"), "a")], ChangeOptions())


def define(kind: FleetKind, name: str) -> Callable[[Context], None]:
    return make(lambda context: definition_write(context, kind, name, group(["somewhere"])))


MANY_CHANGES = "more than is remembered"
INTERFERENCES = {
    "same row": make(lambda context: label_write(context, BELOW, "between")),
    "same row removed": make(lambda context: label_write(context, BELOW, None)),
    "same row as it will be": make(lambda context: label_write(context, BELOW, "new")),
    "broader row": make(lambda context: resource_write(context, PROJECT_SCOPE, limits={"cpu": "1"})),
    "domain's row": make(lambda context: resource_write(context, DOMAIN_SCOPE, limits={"cpu": "1"})),
    "another domain's row": make(lambda context: label_write(context, Scope(domain="staging"), "s")),
    "domain's row removed": make(lambda context: label_write(context, DOMAIN_SCOPE, None)),
    "project archived": make(lambda _: project_write(PROJECT, {"state": ProjectState.ARCHIVED})),
    "label defined": define(FleetKind.LABEL, "new"),
    "pool defined": define(FleetKind.POOL, "pool"),
    "workflow registered": register,
    "revision lost": lose_last_revision,
    "revision lost and memory loaded again": lose_and_reload,
    "revision lost and overtaken": lose_and_overtake,
    MANY_CHANGES: make(
        lambda context: label_write(context, BELOW, "between"),
        *(
            lambda context, number=number: label_write(context, BELOW._replace(workflow=f"w{number}"), "a")
            for number in range(MOST_RECENT)
        ),
    ),
}


def writes_of_many_kinds(context: Context) -> list[RowWrite]:
    return [
        label_write(context, BELOW, "new"),
        label_write(context, PROJECT_SCOPE, "p"),
        resource_write(context, BELOW, defaults={"cpu": "2"}),
        pool_write(context, BELOW, "pool"),
    ]


#: Changes of the same admin, and one of another; tests/robustness has all others by another admin.
QUICK = [*((name, False) for name in INTERFERENCES if name != MANY_CHANGES), ("same row", True)]


@pytest.mark.parametrize(("interference", "by_another_admin"), QUICK)
def test_an_early_draft_is_made_again_after_what_it_depends_on_has_changed(
    ready: Context, interference: str, by_another_admin: bool
) -> None:
    interfere_with_early_draft(ready, interference, by_another_admin)


def interfere_with_early_draft(ready: Context, interference: str, by_another_admin: bool) -> None:
    writes = writes_of_many_kinds(ready)
    request, judgement = early_request(ready, *writes), judge_by_database(ready, writes)
    assert request.early is not None
    assert judge(changed_by(request.early.drafted, 2)) == judgement
    INTERFERENCES[interference](another_admin(ready) if by_another_admin else ready)
    expected = judge_by_database(ready, writes)
    assert expected != judgement
    (outcome,) = commit_changes([request])
    assert judge(outcome) == expected
    if isinstance(outcome, Changed):
        assert {row.version for row in outcome.rows if row.change.is_real} == {outcome.revision}
        assert state(ready)[2][-1] == outcome.revision


def test_a_project_that_is_created_after_the_draft_is_known(ready: Context) -> None:
    write = label_write(ready, BELOW, "a", project="fresh")
    request = early_request(ready, write)
    other = early_request(ready, label_write(ready, BELOW, "b"))
    elsewhere = another_admin(ready)
    make_change(elsewhere, [project_write("fresh", {"name": "Fresh"})], ChangeOptions())
    expected = judge_by_database(ready, [write])
    outcomes = commit_changes([request, other])
    assert judge(outcomes[0]) == expected
    assert [isinstance(outcome, Changed) for outcome in outcomes] == [True, True]
    assert not is_early(outcomes[1], other)


@pytest.mark.parametrize(
    ("first", "outcome_type", "codes"),
    [
        (lambda context: label_write(context, BELOW._replace(workflow="x"), "a"), Changed, ["overrides_domain"]),
        (lambda context: pool_write(context, DOMAIN_SCOPE, "pool"), Changed, ["overrides_domain"]),
        (
            lambda context: label_write(context, Scope(domain="staging"), "a"),
            Changed,
            ["overrides_domain", "overrides_domain"],
        ),
        (lambda context: label_write(context, DOMAIN_SCOPE, None), Changed, []),
        (lambda context: resource_write(context, PROJECT_SCOPE, limits={"cpu": "1"}), Invalid, None),
        (lambda context: resource_write(context, DOMAIN_SCOPE, limits={"cpu": "1"}), Invalid, None),
    ],
    ids=["another row", "another kind", "another domain", "domain", "project", "limits of the domain"],
)
def test_an_early_draft_sees_what_its_batch_has_made(
    ready: Context, first: Callable[[Context], RowWrite], outcome_type: type, codes: list[str] | None
) -> None:
    request = early_request(ready, *writes_of_many_kinds(ready)[1:3])
    _, outcome = commit_changes([early_request(ready, first(ready)), request])
    assert type(outcome) is outcome_type
    if isinstance(outcome, Changed):
        warned = [warning.code.value for warning in outcome.warnings]
        assert [code for code in warned if code == "overrides_domain"] == codes
        assert is_early(outcome, request) == (codes == ["overrides_domain"])


def test_early_drafts_of_one_row_in_a_batch_follow_each_other(ready: Context) -> None:
    requests = [early_request(ready, label_write(ready, BELOW, f"v{number}")) for number in range(3)]
    requests.append(early_request(ready, label_write(ready, BELOW, "late", Expectation(version=2))))
    *outcomes, conflict = commit_changes(requests)
    made = [outcome for outcome in outcomes if isinstance(outcome, Changed)]
    assert [(changed.revision, changed.rows[0].change.before) for changed in made] == [
        (3, {"value": "old"}),
        (4, {"value": "v0"}),
        (5, {"value": "v1"}),
    ]
    assert [changed.rows[0].change.before_version for changed in made] == [2, 3, 4]
    assert isinstance(conflict, VersionConflict)


def test_early_drafts_and_the_database_judge_alike(ready: Context) -> None:
    compare_early_drafts_with_dry_runs(ready, 50, 5)


def compare_early_drafts_with_dry_runs(ready: Context, changes: int, least_of_each: int) -> None:
    """Drafts wait while this admin and another one write; then a dry run says what must become of each."""
    draw, elsewhere = random.Random(17), another_admin(ready)
    scopes = [DOMAIN_SCOPE, PROJECT_SCOPE, Scope(domain=DOMAIN, project=PROJECT), Scope(domain="staging")]
    scopes += [BELOW, *(BELOW._replace(workflow=f"w{number}") for number in range(6))]

    def random_write(context: Context) -> RowWrite:
        scope = draw.choice(scopes)
        expectation = Expectation(version=draw.randrange(1, 60)) if draw.random() < 0.1 else ANYTHING
        return draw.choice(
            [
                label_write(context, scope, draw.choice(["a", "b", None]), expectation),
                resource_write(context, scope, limits={"cpu": draw.choice(["500m", "1", "1500m", "2"])}),
                resource_write(context, scope, defaults={"cpu": draw.choice(["500m", "1", "1500m", "2"])}),
            ]
        )

    waiting: list[ChangeRequest] = []
    used = []
    for _ in range(changes):
        waiting.append(early_request(ready, random_write(ready)))
        if draw.random() < 0.3:
            make_or_refuse(elsewhere, [random_write(elsewhere)])
        if len(waiting) > 3:
            request = waiting.pop(draw.randrange(len(waiting)))
            expected = judge_by_database(ready, request.writes)
            (outcome,) = commit_changes([request])
            completed = with_late_warnings(ready, outcome) if isinstance(outcome, Changed) else outcome
            assert judge(completed) == expected
            if request.early is not None:
                used.append(is_early(outcome, request))
    assert used.count(True) > least_of_each
    assert used.count(False) > least_of_each


def make_or_refuse(context: Context, writes: Sequence[RowWrite]) -> None:
    with suppress(Invalid, RainbowError):
        make_change(context, writes, ChangeOptions())


def test_writers_of_one_row_follow_each_other_and_one_of_those_that_expect_a_version_wins(app: Flask) -> None:
    path, writers = f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/wf", 10

    def put(value: str, headers: dict[str, str]) -> Callable[[FlaskClient], TestResponse]:
        body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": value}}}}
        return lambda client: client.put(path, json=body, headers=headers)

    ok(put("first", {})(app.test_client()))
    answers = [ok(answer) for answer in at_once(app, [put(f"v{number}", {}) for number in range(writers)])]
    answers.sort(key=lambda answer: answer["revision"])
    assert [answer["revision"] for answer in answers] == list(range(2, writers + 2))
    values = [answer["attributes"]["matching_attributes"]["execution_cluster_label"] for answer in answers]
    assert [answer["before"] for answer in answers] == [{"value": "first"}, *values[:-1]]
    head = {"If-Match": str(writers + 1)}
    statuses = [answer.status_code for answer in at_once(app, [put(f"w{number}", head) for number in range(writers)])]
    assert sorted(statuses) == [200, *[409] * (writers - 1)]


def test_the_index_knows_which_rows_have_changed_since_a_mark(ready: Context) -> None:
    index, scopes = ready.index, [BELOW._replace(workflow=f"w{number}") for number in range(MOST_RECENT)]
    first = index.mark()
    assert first is not None
    assert index.changed_since(first) == []
    archive = project_write(PROJECT, {"state": ProjectState.ARCHIVED})
    make_change(another_admin(ready), [archive], ChangeOptions())
    index.catch_up()
    second = index.mark()
    assert second is not None
    assert index.changed_since(first) == [archive.key]
    make_change(ready, [project_write(PROJECT, {"state": ProjectState.ACTIVE})], ChangeOptions())
    label = label_write(ready, BELOW, "a")
    commit(ready, label)
    assert index.changed_since(second) == [label.key, archive.key]
    make_change(ready, [label_write(ready, scope, "a") for scope in scopes[1:]], ChangeOptions())
    changed = index.changed_since(second + 1)
    assert changed is not None
    assert (len(changed), changed[-1]) == (MOST_RECENT, label.key)
    assert index.changed_since(second) is None


def test_no_mark_is_known_once_memory_is_loaded_again(ready: Context) -> None:
    mark = ready.index.mark()
    assert mark is not None
    lose_last_revision(ready)
    ready.index.catch_up()
    assert ready.index.changed_since(mark) is None
    commit(ready, label_write(ready, BELOW, "a"))
    assert ready.index.changed_since(mark) is None
    assert another_admin(ready).index.mark() is None
