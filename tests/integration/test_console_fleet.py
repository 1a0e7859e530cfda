"""The console's pages of clusters, pools, labels and their switches, without a browser."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.console import cluster_groups
from admin.console.fleet import amounts_of
from admin.console.icicles import draw_tree
from admin.console.topology import draw_topology
from admin.console.trees import search_tree
from admin.core.fleet.clusters import DESCRIBED, REGISTERED
from admin.services.redecisions import decide_waiting
from admin.store.cluster_events import ClusterEvent, add_events
from tests.integration.test_console import send, signed_in
from tests.support.apps import context_of
from tests.support.people import made_user
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    created,
    execution,
    get,
    ok,
    pool,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    report,
    switch,
)
from tests.support.small_console import HOSTILE

#: What pages say is the same on each kind of database.
DATABASES = ("sqlite",)
FLEET = "/console/fleet"


@pytest.fixture
def fleet(api: FlaskClient) -> FlaskClient:
    """Two clusters in a pool, of which one has work that waits."""
    for name in ("east", "west"):
        put_cluster(api, name, description=HOSTILE)
        report(api, name, capacity={"cpu": "64", "memory": "256Gi"}, free={"cpu": "40", "memory": "256Gi"})
    put_pool(api, "gpu", {"east": 3, "west": 1})
    put_label(api, "training", {"east": 1})
    put_attribute(api, "project-domain", "cluster_assignment", {"cluster_pool_name": "gpu"})
    switch(api, "west", "cordon", reason=HOSTILE)
    created(api, "waits", job={"command": ["true"], "resources": {"requests": {"cpu": "2"}}}, **pool("gpu"))
    return api


def shown(api: FlaskClient, path: str) -> str:
    page = api.get(path)
    assert page.status_code == 200, page.text
    assert "<script>alert" not in page.text
    return page.text


def words_of(page: str) -> str:
    """What a page says, without its markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_clusters_are_listed_with_what_is_free_and_why_they_take_none(fleet: FlaskClient) -> None:
    page = words_of(shown(fleet, FLEET))
    assert "38 of 64 cpu" in page
    assert "cordoned: &lt;script&gt;" in page
    assert "west" not in words_of(shown(fleet, f"{FLEET}?label=training"))
    assert fleet.get(f"{FLEET}?pool=nothing").status_code == 404


def test_clusters_are_searched_and_filtered_by_what_their_numbers_lead_to(fleet: FlaskClient) -> None:
    page = shown(fleet, f"{FLEET}?search=ST")
    numbers = re.findall(r'<li><a href="([^"]+)"[^>]*><strong>(\d+)</strong>', page)
    assert [(address.removeprefix(FLEET), number) for address, number in numbers] == [
        ("?search=ST", "2"),
        ("?takes_work=true&amp;search=ST", "1"),
        ("?takes_work=false&amp;search=ST", "1"),
        ("?state=cordoned&amp;search=ST", "1"),
    ]
    cordoned = shown(fleet, f"{FLEET}?search=ST&state=cordoned")
    assert [name for name in ("east", "west") if f'href="/console/fleet/clusters/{name}"' in cordoned] == ["west"]
    assert "--filter.fieldSelector &#39;name contains ST,cordoned=true&#39;" in cordoned


def test_pages_of_clusters_are_kept_up_to_date(fleet: FlaskClient) -> None:
    for path in (FLEET, f"{FLEET}/clusters/west"):
        versions = []
        for word in ("uncordon", "cordon"):
            page = shown(fleet, path)
            versions += re.findall(r'data-live-version="([^"]+)" data-live-events="/console/events"', page)
            switch(fleet, "west", word)
        assert len(set(versions)) == 2, path


def test_of_a_large_fleet_the_overview_lists_clusters_that_take_no_work(fleet: FlaskClient) -> None:
    assert "Of those that take no work" not in shown(fleet, "/console/")
    for number in range(12):
        put_cluster(fleet, f"a{number}")
        report(fleet, f"a{number}", capacity={"cpu": "4"})
    page = shown(fleet, "/console/")
    assert "Of those that take no work" in page
    listed = re.findall(r'<th scope="row"><a href="/console/fleet/clusters/([^"]+)"', page)
    assert listed == ["local", "west"]
    assert "15 clusters 13 take work 2 take none 1 cordoned 1 expected" in words_of(page)


def test_a_bar_tells_what_was_reported_and_what_was_assigned_since(fleet: FlaskClient) -> None:
    cpu, *_others = amounts_of(get(fleet, "clusters/east"))
    assert (cpu["capacity"], cpu["reported_free"], cpu["assigned"], cpu["free"]) == ("64", "40", "2", "38")
    assert (cpu["used_share"], cpu["assigned_share"]) == (37.5, 3.1)
    page = shown(fleet, f"{FLEET}/clusters/east")
    assert '<rect class="used" width="37.5"' in page
    assert f'href="/console/executions/{PROJECT}/{DOMAIN}/waits"' in page


def test_a_description_is_a_tree_that_is_searched() -> None:
    leaf = {"type": "gpu", "count": 4, "contains": []}
    tree = {
        "type": "cluster",
        "count": 1,
        "contains": [{"type": "node", "count": 2, "contains": [leaf]}, {"type": "node", "count": 3}],
    }
    found = search_tree(tree, " GPU")
    assert found.tree == {**tree, "contains": [{"type": "node", "count": 2, "contains": [leaf]}]}
    assert (found.matches, found.is_cut) == (8, False)
    assert search_tree(tree, "rack").tree is None
    wide = {
        "type": "cluster",
        "count": 1,
        "contains": [{"type": "node", "size": str(n), "count": 1} for n in range(600)],
    }
    cut = search_tree(wide, "")
    assert cut.tree is not None
    assert (len(cut.tree["contains"]), cut.is_cut) == (499, True)


def test_the_description_of_a_cluster_is_on_its_page(fleet: FlaskClient) -> None:
    graph = {
        "nodes": {"0": {"metadata": {"type": "cluster"}}, "1": {"metadata": {"type": "node"}}},
        "edges": [{"source": "0", "target": "1", "relation": "contains"}],
    }
    assert "It has no description" in shown(fleet, f"{FLEET}/clusters/east")
    ok(fleet.put(f"{API}/clusters/east/description", json={"graph": graph}))
    page = shown(fleet, f"{FLEET}/clusters/east?search=node")
    assert "1 of its parts have “ node ”" in words_of(page)
    assert page.count('<rect class="match"') == 1


def test_a_switch_shows_first_what_it_would_do_and_asks_for_the_name(app: Flask, fleet: FlaskClient) -> None:
    path = f"{FLEET}/clusters/east/drain"
    page = words_of(shown(fleet, path))
    assert "Waiting, as no cluster takes them: 1" in page
    assert "Type east to confirm" in page
    assert "No cluster takes work then: every new execution waits until one does." in page
    wrong = send(fleet, path, path, confirmation="west", reason="New disks.", deadline="10m")
    assert wrong.status_code == 400
    assert "This does not name it: type east to confirm." in words_of(wrong.text)
    assert 'value="New disks."' in wrong.text
    assert 'id="wrong-deadline"' in send(fleet, path, path, confirmation="east", deadline="soon").text
    assert get(fleet, "clusters/east")["draining"] is False
    assert "New disks." not in shown(fleet, "/console/")
    done = send(fleet, path, path, confirmation="east", reason="New disks.", deadline="10m")
    assert (done.status_code, done.location) == (303, f"{FLEET}/clusters/east")
    assert "New disks." in shown(fleet, "/console/").partition("Recent changes")[2]
    decide_waiting(context_of(app))
    assert execution(fleet, "waits")["closure"]["reason"]["code"] != "ASSIGNED"
    again = f"{FLEET}/clusters/east/undrain"
    assert "Moved to another cluster: 1" in words_of(shown(fleet, again))
    assert send(fleet, again, again).status_code == 303
    assert get(fleet, "clusters/east")["draining"] is False
    assert fleet.get(f"{FLEET}/clusters/east/explode").status_code == 404


def test_what_agents_tell_of_their_clusters_hides_no_change_that_somebody_made(app: Flask, fleet: FlaskClient) -> None:
    ok(fleet.post(f"{API}/clusters/east/drain", json={"reason": "New disks."}))
    context = context_of(app)
    at = context.clock() + timedelta(seconds=1)
    with context.database.writing() as connection:
        for type in (REGISTERED, DESCRIBED, "LOST"):
            add_events(connection, [ClusterEvent(cluster="west", at=at, type=type) for _ in range(12)])
    changes = shown(fleet, "/console/").partition("Recent changes")[2]
    assert "New disks." in changes
    assert not re.search("registered|described|lost", changes.partition("</table>")[0])


def test_viewers_see_no_switch_and_are_refused_it(app: Flask, fleet: FlaskClient) -> None:
    made_user(app)
    viewer, _ = signed_in(app, made_user(app, "eve", role="viewer"))
    page = shown(viewer, f"{FLEET}/clusters/east")
    assert "Drain…" not in page
    assert "New disks" not in page
    assert viewer.get(f"{FLEET}/clusters/east/drain").status_code == 403


def test_a_pool_shows_promised_and_real_shares_and_where_it_is_used(fleet: FlaskClient) -> None:
    page = words_of(shown(fleet, f"{FLEET}/pools/gpu"))
    assert "75.0 % 100.0 % 1" in page
    assert f"{PROJECT}/{DOMAIN} project-domain CLUSTER_ASSIGNMENT cluster_pool_name gpu" in page
    assert "1 QUEUED" in page
    assert fleet.get(f"{FLEET}/pools/gpu?after=x").status_code == 400
    assert "Label training" in words_of(shown(fleet, f"{FLEET}/labels/training"))
    for path in ("pools", "labels", "namespaces", "warnings"):
        shown(fleet, f"{FLEET}/{path}")


def test_of_a_large_pool_the_first_members_and_their_shares_are_shown(
    fleet: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_groups, "_MEMBERS", 1)
    put_pool(fleet, "large", {"east": 1, "west": 1})
    page = shown(fleet, f"{FLEET}/pools/large")
    assert page.count("The first 1 of 2") == 2
    shares = page.partition("Shares of clusters")[2].partition("</table>")[0]
    assert ("clusters/east" in shares, "clusters/west" in shares) == (True, False)


def test_the_topology_leads_from_pools_and_labels_to_clusters(fleet: FlaskClient) -> None:
    page = words_of(shown(fleet, f"{FLEET}/topology"))
    assert "east 3 , west 1, cordoned" in page
    groups = [("pool", get(fleet, "pools/gpu")), ("label", get(fleet, "labels/training"))]
    drawing = draw_topology(groups)
    assert drawing is not None
    assert [box["text"] for box in drawing["boxes"]] == ["pool gpu", "label training", "east", "west"]
    assert [(line["width"], line["is_off"]) for line in drawing["lines"]] == [(4.8, False), (2.2, True), (6, False)]
    assert drawing["boxes"][0]["path"] == ("pools", "gpu")
    assert f'<a href="{FLEET}/clusters/east"><rect' in shown(fleet, f"{FLEET}/topology")


def test_a_topology_of_many_has_one_box_for_the_others() -> None:
    members = [{"id": f"c{number}", "weight": 100 - number, "expected": False} for number in range(30)]
    drawing = draw_topology([("pool", {"name": str(number), "members": members}) for number in range(25)])
    assert drawing is not None
    texts = [box["text"] for box in drawing["boxes"]]
    assert texts[22:25] == ["pool 22", "2 more pools and labels", "c0"]
    assert texts[-1] == "7 more clusters"
    assert len(drawing["lines"]) == 24 * 24
    assert draw_topology([("pool", {"name": "empty", "members": []})]) is None


def test_a_description_is_drawn_with_what_is_searched_marked() -> None:
    gpus = {"type": "gpu", "count": 4, "size": None}
    cores = {"type": "core", "count": 64}
    nodes = [{"type": "node", "count": 1200, "contains": [gpus, cores]}, {"type": "node", "count": 3}]
    drawing = draw_tree({"type": "cluster", "count": 1, "contains": nodes}, lambda branch: branch["type"] == "gpu")
    assert drawing is not None
    boxes = {box["title"]: box for box in drawing["boxes"]}
    assert list(boxes) == ["cluster", "node ×1\u202f200", "gpu ×4", "core ×64", "node ×3"]
    assert (boxes["node ×1\u202f200"]["width"], boxes["node ×3"]["x"]) == (372.3, 373.3)
    assert [title for title, box in boxes.items() if box["is_match"]] == ["gpu ×4"]
    assert draw_tree({"type": "cluster", "count": 1, "contains": nodes * 20}, lambda branch: False) is None
