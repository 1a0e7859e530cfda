"""The index: settings in memory are what the database has, after every write, on this replica and on others."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy import Connection, delete

from admin.core.settings.scopes import Scope
from admin.services.context import Context
from admin.services.effective import effective_attributes, effective_text
from admin.store import attributes, revision_tables, revisions
from admin.store.cache.index import STALE_SECONDS, AttributeRow, Index, read_attributes
from admin.store.cache.shared_counter import SharedCounter
from tests.conftest import MakeApp
from tests.support.placing import API, DOMAIN, PROJECT, delete_attribute, ok, put_attribute
from tests.support.waiting import wait_until

SLOW_ON = ("postgresql",)

SCOPE = f"project={PROJECT}&domain={DOMAIN}&workflow=wf"


def effective(api: FlaskClient) -> dict[str, Any]:
    answer: dict[str, Any] = ok(api.get(f"{API}/effective_attributes?{SCOPE}&resource_type=3"))
    return answer


def set_label(api: FlaskClient, value: str, level: str = "workflow") -> int:
    places = {"workflow": f"workflow_attributes/{PROJECT}/{DOMAIN}/wf", "domain": f"domain_attributes/{DOMAIN}"}
    body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": value}}}}
    revision: int = ok(api.put(f"{API}/{places[level]}", json=body))["revision"]
    return revision


def test_a_read_after_a_write_sees_it_every_time(api: FlaskClient, context: Context) -> None:
    for number in range(30):
        revision = set_label(api, f"l{number}", "workflow" if number % 2 else "domain")
        answer = effective(api)
        assert answer["revision"] == revision
        expected = f"l{number}" if number % 2 or number == 0 else f"l{number - 1}"
        assert answer["values"][0]["value"] == {"value": expected}
    assert context.index.revision == 30  # it was the index that answered
    ok(api.delete(f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/wf?resource_type=3"))
    assert effective(api)["values"][0]["value"] == {"value": "l28"}


def test_another_replica_sees_it_within_the_stated_time(api: FlaskClient, context: Context) -> None:
    now = [100.0]
    elsewhere = Index(context.database, SharedCounter(), context.settings.kinds, monotonic=lambda: now[0])
    before = elsewhere.current()
    for number in range(5):
        revision = set_label(api, f"l{number}")
        assert elsewhere.current() == before
        now[0] += STALE_SECONDS * 1.01
        assert elsewhere.current() == revision
        before = revision


def test_the_index_says_what_the_database_says_whatever_was_changed(api: FlaskClient, context: Context) -> None:
    for number in range(40):
        if number % 3:
            payload: dict[str, Any] = {"attributes": {"k": str(number)}}
            put_attribute(api, "project-domain", "cluster_resource_attributes", payload)
        else:
            config = {"max_parallelism": number + 1, "envs": {"values": [{"key": "N", "value": str(number)}]}}
            put_attribute(api, "workflow", "workflow_execution_config", config, workflow=f"wf{number % 7}")
        if number % 5 == 4:
            delete_attribute(api, "workflow", 6, workflow=f"wf{number % 7}")
        for workflow in ("wf0", "wf3", "wf6", ""):
            path = f"{API}/effective_attributes?project={PROJECT}&domain={DOMAIN}"
            path += f"&workflow={workflow}" if workflow else ""
            remembered = ok(api.get(path))
            assert remembered == ok(api.get(f"{path}&at={remembered['revision']}"))  # which the database answers


def test_a_row_tells_when_and_by_whom_it_was_changed_as_the_database_does(api: FlaskClient, context: Context) -> None:
    place = Scope(project=PROJECT, domain=DOMAIN, workflow="wf")
    for claimed_by in ("ops", None, "me"):
        body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": f"of-{claimed_by}"}}}}
        who = {"claimed_by": claimed_by} if claimed_by else {}
        ok(api.put(f"{API}/workflow_attributes/{PROJECT}/{DOMAIN}/wf", json={**body, **who}))
        with context.database.reading() as connection:
            stored = attributes.exactly(connection, [("EXECUTION_CLUSTER_LABEL", place)])
        loaded = Index(context.database, SharedCounter(), context.settings.kinds)
        assert loaded.current() == context.index.revision
        kind = context.settings.kinds["EXECUTION_CLUSTER_LABEL"]
        for index in (context.index, loaded):
            applied = index.applying(place)
            assert applied is not None
            assert list(applied.rows([kind])[kind.name].values()) == stored


def test_what_is_not_kept_any_more_is_read_anew(api: FlaskClient, context: Context) -> None:
    set_label(api, "first")
    assert effective(api)["values"][0]["value"] == {"value": "first"}
    with context.database.writing() as connection:  # as if another replica had written, and pruned soon after
        revisions.lock_head(connection)
        connection.execute(delete(revision_tables.revision_changes))
        connection.execute(delete(revision_tables.revisions))
        connection.execute(revision_tables.revision_head.update().values(number=9))
    context.index.catch_up()
    assert context.index.revision == 9
    assert effective(api)["values"][0]["value"] == {"value": "first"}


def test_while_a_large_index_loads_the_database_answers(make_app: MakeApp) -> None:
    app = make_app()
    api, context = app.test_client(), app.extensions["rainbow"]
    may_load, loads = threading.Event(), 0

    def read_slowly(connection: Connection) -> Iterable[AttributeRow]:
        nonlocal loads
        loads += 1
        assert may_load.wait(30)
        return read_attributes(connection)

    index = Index(context.database, SharedCounter(), context.settings.kinds, few_rows=0, read_rows=read_slowly)
    set_label(api, "stored")
    loading, scope = replace(context, index=index), Scope(project=PROJECT, domain=DOMAIN, workflow="wf")
    for _ in range(3):
        assert effective_text(loading, scope) is None  # nothing is answered from a half-loaded index
        assert index.revision == -1
        values = effective_attributes(loading, scope, context.settings.kinds).values
        assert {"value": "stored"} in [resolved.value for resolved in values]
    may_load.set()
    wait_until(lambda: index.revision >= 0)
    assert loads == 1
    assert b'"stored"' in (effective_text(loading, scope) or b"")
    applying = index.applying(scope)
    assert applying is not None
    assert applying.rows(context.settings.kinds)["EXECUTION_CLUSTER_LABEL"]


def test_projects_are_known_as_they_are_now(api: FlaskClient) -> None:
    effective(api)
    ok(api.post(f"{API}/projects", json={"project": {"id": "fresh", "name": "Fresh"}}))
    put_attribute(api, "project", "execution_cluster_label", {"value": "one"}, project="fresh")
    path = f"{API}/effective_attributes?project=fresh&domain={DOMAIN}&resource_type=3"
    assert ok(api.get(path))["values"][0]["value"] == {"value": "one"}
    assert api.get(f"{API}/effective_attributes?project=frech&domain={DOMAIN}").status_code == 400
