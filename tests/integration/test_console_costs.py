"""What pages ask for over large fleets and much that waits: few statements, and no more rows than they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.core.executions import consequences
from admin.core.placement.routes import Route
from admin.core.settings.scopes import Scope
from admin.services.definitions import current_fleet
from admin.store import execution_queue, token_requests
from tests.conftest import MakeApp
from tests.support.apps import context_of
from tests.support.http_agents import write_configuration
from tests.support.placing import DOMAIN, PROJECT, created, get, ok, put_attribute, put_cluster, put_label
from tests.support.statements import statements

#: What pages ask for is the same on each kind of database.
DATABASES = ("sqlite",)
CLUSTERS = 120


def large(make_app: MakeApp, directory: Path) -> FlaskClient:
    """An admin whose label has many clusters."""
    members = [{"id": f"c{number}"} for number in range(CLUSTERS)]
    clusters = {"clusterConfigs": [{"name": member["id"]} for member in members], "labelClusterMap": {"all": members}}
    return make_app(config_file=str(write_configuration(directory, clusters=clusters))).test_client()


def test_the_overview_counts_what_waits_once(make_app: MakeApp, tmp_path: Path) -> None:
    api = large(make_app, tmp_path)
    created(api, "e")
    api.get("/console/")
    with statements(context_of(api.application)) as asked:
        page = api.get("/console/").text
    assert re.search(r"<strong>1</strong>\s*<span[^>]*>QUEUED", page), page
    counts = [statement for statement in asked if "AS value_0" in statement and "value_1" not in statement]
    assert len([statement for statement in counts if "phase = ?" in statement]) == 3  # each phase before the end
    assert len(asked) < 60, len(asked)


def test_the_page_of_a_label_shows_its_first_members(make_app: MakeApp, tmp_path: Path) -> None:
    api = large(make_app, tmp_path)
    page = api.get("/console/fleet/labels/all").text
    assert page.partition('data-live="members"')[2].partition("</table>")[0].count("<tr>") == 101
    assert 'The first 100 of 120: <a href="/console/fleet?label=all">' in page


def test_the_form_of_a_creation_suggests_names_without_what_they_have(make_app: MakeApp, tmp_path: Path) -> None:
    api = large(make_app, tmp_path)
    api.get("/console/create")
    with statements(context_of(api.application)) as asked:
        page = api.get("/console/create").text
    assert '<datalist id="labels"><option value="all"></datalist>' in page
    assert page.partition('<datalist id="clusters">')[2].partition("</datalist>")[0].count("<option") == 100
    assert len(asked) < 12, asked


def test_scopes_that_name_the_same_label_are_looked_at_once(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    api = make_app().test_client()
    put_cluster(api, "east")
    put_label(api, "near", ["east"])
    for number in range(9):
        put_attribute(api, "workflow", "execution_cluster_label", {"value": "near"}, workflow=f"w{number}")
    looked = []
    route_at = consequences.route_at

    def note(scope: Scope, *others: Any) -> Route:
        looked.append(scope)
        return route_at(scope, *others)

    monkeypatch.setattr(consequences, "route_at", note)
    drained = ok(api.post("/api/v1/clusters/east/drain?dry_run=true", json={}))
    assert drained["new_executions"]["waiting"] == 9
    assert len(looked) == 3  # by the fleet as it is, without the cluster, and to say why they wait


def test_executions_that_need_tokens_are_not_looked_for_among_all(make_app: MakeApp) -> None:
    context = context_of(make_app())
    with statements(context) as asked, context.database.reading() as connection:
        token_requests.unfinished(connection, "licences", None, 10)
        [query] = [statement for statement in asked if "token_pools IS NOT NULL" in statement]
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", (1,) * query.count("?"))
        steps = [row[-1] for row in plan]
    assert "USING INDEX" in steps[0], steps
    assert "USE TEMP B-TREE FOR ORDER BY" in steps  # of the few that were found


def test_a_short_page_of_uses_looks_at_few_scopes(make_app: MakeApp) -> None:
    api = make_app().test_client()
    for number in range(30):
        row = {"project": PROJECT, "domain": DOMAIN, "workflow": f"w{number}"}
        body = {"attributes": {**row, "matching_attributes": {"execution_cluster_label": {"value": f"l{number}"}}}}
        assert api.put(f"/api/v1/workflow_attributes/{PROJECT}/{DOMAIN}/w{number}", json=body).status_code == 200
    domain = {"attributes": {"domain": DOMAIN, "matching_attributes": {"execution_cluster_label": {"value": "all"}}}}
    assert api.put(f"/api/v1/domain_attributes/{DOMAIN}", json=domain).status_code == 200
    first = get(api, "uses?label=all&limit=1&reach=true")
    assert (len(first["uses"]), len(first["scopes"]) <= 10, "token" in first) == (1, True, True)
    reached, page = list(first["scopes"]), first
    while "token" in page:
        page = get(api, f"uses?label=all&limit=1&reach=true&token={page['token']}")
        reached += page["scopes"]
    assert reached == get(api, "uses?label=all&limit=100&reach=true")["scopes"]


def test_what_waits_is_told_of_many_clusters_as_of_each(make_app: MakeApp, tmp_path: Path) -> None:
    api = large(make_app, tmp_path)
    created(api, "e", cluster="c7")
    context = context_of(api.application)
    with context.database.reading() as connection:
        clusters, now = current_fleet(context, connection).clusters, context.clock()
        taken = execution_queue.taken_by_waiting(connection, clusters, now)
        assert taken == execution_queue.taken_by_waiting(connection, {"c7": clusters["c7"]}, now)
    assert taken["c7"]["executions"] == 1
