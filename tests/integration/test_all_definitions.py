"""What is defined, of all nouns in one list, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.all_definitions import NOUNS
from admin.core.retention import Retention
from admin.services import all_definitions
from admin.services.retention import prune
from tests.conftest import MakeApp
from tests.integration.test_grants import define, give, signed_in
from tests.support.agents import Clock
from tests.support.apps import context_of
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    get,
    new_project,
    ok,
    pages,
    put_attribute,
    put_cluster,
    put_label,
    put_pool,
    refused,
    register_plan,
    register_workflow,
)

SLOW_ON = ("postgresql",)

OTHER = "kumquat"


def settle(api: FlaskClient) -> None:
    """One of each noun at least, of two projects."""
    put_cluster(api, "east")
    put_pool(api, "gpu", ("east", "unseen"))
    put_label(api, "spare", ("east",))
    ok(api.post(f"{API}/cluster_groups", json={"cluster_group": {"name": "racks", "clusters": ["east"]}}))
    ok(api.post(f"{API}/token_pools", json={"token_pool": {"name": "hive", "capacity": 5}}))
    new_project(api, OTHER)
    for project in (PROJECT, OTHER):
        ok(register_workflow(api, "flow", project=project))
        ok(register_workflow(api, "flow", project=project, version="v2"))
        ok(register_plan(api, "plan", "flow", project=project))
    define(api, "ml", "ana")
    give(api, role="admin", user="root")
    give(api, role="viewer", group="ml", project=PROJECT)
    give(api, role="viewer", user="ana", domain="production")
    ok(api.post(f"{API}/use_grants", json={"use_grant": {"pool": "gpu", "project": OTHER}}))


def listed(api: FlaskClient, query: str = "") -> dict[str, list[str]]:
    """The names by noun."""
    by_noun: dict[str, list[str]] = {}
    for row in get(api, f"all_definitions?limit=1000&{query}")["definitions"]:
        by_noun.setdefault(row["noun"], []).append(row["name"])
    return by_noun


def test_everything_is_listed_by_noun_with_who_defined_it(make_app: MakeApp) -> None:
    app = make_app(
        roles={"auditor": {"permissions": ["audit.read"]}},
        queues={"executionQueues": [{"dynamic": "slow", "attributes": ["batch"]}]},
    )
    settle(app.test_client())
    root = signed_in(app, "root")
    ok(root.put(f"{API}/pools/gpu", json={"pool": {"members": [{"id": "east"}]}, "message": "smaller"}))
    names = listed(root)
    assert list(names) == [noun for noun in NOUNS if noun in names], "in one order"
    assert names.keys() >= {*NOUNS} - {"kind", "setting"}
    assert "unseen" not in names["cluster"], "which nothing defines"
    assert {PROJECT, OTHER} <= {*names["project"]}
    assert names["workflow"] == [f"{PROJECT}/{DOMAIN}/flow", f"{OTHER}/{DOMAIN}/flow"]
    assert (names["role"], names["user"], names["group"]) == (["auditor"], ["root"], ["ml"])
    assert names["use-grant"] == [f"pool:gpu:project:{OTHER}"]
    assert names["token-pool"] == ["hive"]
    rows = get(root, "all_definitions?limit=1000")["definitions"]
    [pool] = [row for row in rows if (row["noun"], row["name"]) == ("pool", "gpu")]
    assert pool["source"] == "managed"
    assert pool["revision"] == pool["provenance"]["revision"] == get(root, "revisions")["head"]
    assert (pool["provenance"]["author"], pool["provenance"]["message"]) == ("root", "smaller")
    [flow] = [row for row in rows if row["name"] == f"{OTHER}/{DOMAIN}/flow"]
    assert (flow["source"], flow["version"], "revision" in flow) == ("registered", "v2", False)
    assert flow["provenance"]["at"]
    [seed] = [row for row in rows if (row["noun"], row["name"]) == ("project", PROJECT)]
    assert (seed["source"], "revision" in seed, "provenance" in seed) == ("configuration", False, False)
    assert "partial" not in get(root, "all_definitions")


def test_pages_join_without_gaps(api: FlaskClient) -> None:
    settle(api)
    whole = get(api, "all_definitions?limit=1000")["definitions"]
    for size in (1, 2, 7):
        parts = list(pages(api, f"all_definitions?limit={size}", "definitions"))
        assert all(len(rows) <= size for rows in parts)
        assert [row for rows in parts for row in rows] == whole


def test_settings_of_all_kinds_are_listed_where_they_are_asked_for(make_app: MakeApp) -> None:
    app = make_app()
    api = app.test_client()
    put_attribute(api, "domain", "task_resource_attributes", {"limits": {"cpu": "4"}})
    put_attribute(api, "project", "cluster_assignment", {"cluster_pool_name": "gpu"}, project=PROJECT)
    for workflow in ("flow", "other.flow"):
        put_attribute(api, "workflow", "task_resource_attributes", {"limits": {"cpu": "2"}}, workflow=workflow)
    put_attribute(api, "launch-plan", "quality_of_service", {"tier": "HIGH"}, workflow="flow", launch_plan="plan")
    here = f"{PROJECT}/{DOMAIN}"
    pool, flow = f"cluster-pool-attribute/{PROJECT}", f"task-resource-attribute/{here}/flow"
    others = [f"task-resource-attribute/{here}/other.flow"]
    tier, domain = f"quality-of-service/{here}/flow/plan", f"task-resource-attribute/-/{DOMAIN}"
    assert "setting" not in listed(api)
    assert listed(api, "noun=setting") == {"setting": [pool, tier, domain, flow, *others]}
    assert listed(api, f"noun=setting&project={PROJECT}") == {"setting": [pool, tier, flow, *others]}
    assert listed(api, f"noun=setting&domain={DOMAIN}") == {"setting": [tier, domain, flow, *others]}
    parts = list(pages(api, "all_definitions?noun=setting&limit=1", "definitions"))
    assert [row["name"] for rows in parts for row in rows] == [pool, tier, domain, flow, *others]
    [row] = get(api, f"all_definitions?noun=setting&project={PROJECT}&limit=1")["definitions"]
    assert row["revision"] == row["provenance"]["revision"] == 2
    new_project(api, OTHER)
    give(api, role="admin", user="root")
    give(api, role="viewer", user="eve", project=OTHER)
    assert listed(signed_in(app, "eve"), "noun=setting") == {}
    assert listed(signed_in(app, "root"), "noun=setting") == {"setting": [pool, tier, domain, flow, *others]}


def test_a_noun_a_project_and_a_domain_can_be_asked_for(api: FlaskClient) -> None:
    settle(api)
    assert listed(api, "noun=pool") == {"pool": ["gpu"]}
    assert listed(api, f"project={OTHER}") == {
        "project": [OTHER],
        "workflow": [f"{OTHER}/{DOMAIN}/flow"],
        "launch-plan": [f"{OTHER}/{DOMAIN}/plan"],
        "use-grant": [f"pool:gpu:project:{OTHER}"],
    }
    assert listed(api, f"project={PROJECT}")["grant"] == [f"viewer:group:ml:{PROJECT}"]
    assert listed(api, "domain=production") == {"domain": ["production"], "grant": ["viewer:user:ana::production"]}
    assert listed(api, f"project={PROJECT}&noun=pool") == {}


@pytest.mark.parametrize(
    ("query", "error", "field"),
    [
        ("noun=pol", "invalid_request", "noun"),
        ("noun=", "invalid_request", "noun"),
        ("project=nope", "unknown_project", "project"),
        ("domain=nope", "unknown_domain", "domain"),
        ("limit=0", "invalid_request", "limit"),
        ("token=WyJ4IiwgInkiXQ", "invalid_request", "token"),
        ("token=WyJ3b3JrZmxvdyIsICJ5Il0", "invalid_request", "token"),
        ("workflow=w", "invalid_request", "workflow"),
    ],
)
def test_bad_questions_are_refused(api: FlaskClient, query: str, error: str, field: str) -> None:
    answer = refused(api.get(f"{API}/all_definitions?{query}"), 400, error, field)
    if field == "noun" and query != "noun=":
        assert answer["details"][0]["closest"] == ["pool"]


#: Filters, and what they say of the noun, the name, the source and the provenance of a definition.
SELECTED: dict[str, Callable[[Any, Any], bool]] = {
    "eq(claimed_by,ana)": lambda row, by: by.get("claimed_by") == "ana",
    "ne(claimed_by,ana)": lambda row, by: by.get("claimed_by") != "ana",
    "eq(claimed_by,)": lambda row, by: "claimed_by" not in by,
    "eq(author,)": lambda row, by: "author" not in by,
    "eq(at,)": lambda row, by: "at" not in by,
    "ne(at,)": lambda row, by: "at" in by,
    "eq(revision,)": lambda row, by: "revision" not in row,
    "ne(revision,)": lambda row, by: "revision" in row,
    "value_not_in(claimed_by,)": lambda row, by: True,
    "gt(author,B)": lambda row, by: by.get("author", "") > "B",
    "lt(claimed_by,b)": lambda row, by: "claimed_by" in by and by["claimed_by"] < "b",
    "value_in(claimed_by,ana;otto)": lambda row, by: by.get("claimed_by") in ("ana", "otto"),
    "value_not_in(claimed_by,ana;otto)": lambda row, by: by.get("claimed_by") not in ("ana", "otto"),
    "contains(message,disk)": lambda row, by: "disk" in by.get("message", ""),
    "contains(message,DISK)": lambda row, by: "DISK" in by.get("message", ""),
    "gt(revision,4)": lambda row, by: row.get("revision", 0) > 4,
    "gte(at,1h)": lambda row, by: "at" in by,
    "lt(at,1h)": lambda row, by: False,
    "eq(source,configuration)+contains(name,flyte)": lambda row, by: (
        row["source"] == "configuration" and "flyte" in row["name"]
    ),
    "value_in(noun,pool;setting)": lambda row, by: row["noun"] in ("pool", "setting"),
}


@pytest.mark.parametrize("noun", ["", "&noun=setting"])
@pytest.mark.parametrize("at_once", [10_000, 2])
def test_definitions_are_selected_by_what_is_known_of_them(
    api: FlaskClient, monkeypatch: pytest.MonkeyPatch, noun: str, at_once: int
) -> None:
    monkeypatch.setattr(all_definitions, "_FEW_AT_ONCE", min(all_definitions._FEW_AT_ONCE, at_once))
    monkeypatch.setattr(all_definitions, "_EXAMINED_AT_ONCE", at_once)
    monkeypatch.setattr(all_definitions, "_MOST_EXAMINED", 2 * at_once)
    settle(api)
    for number, (by, message) in enumerate((("ana", "new disks"), ("otto", "DISK"), (None, None), ("ana", None))):
        said = {key: value for key, value in (("claimed_by", by), ("message", message)) if value is not None}
        for domain in ("development", "staging", "production")[: number + 1]:
            value = {"matching_attributes": {"task_resource_attributes": {"limits": {"cpu": str(number + 1)}}}}
            path = f"{API}/project_domain_attributes/{(PROJECT, OTHER)[number % 2]}/{domain}"
            ok(api.put(path, json={"attributes": value, **said}))
    put_attribute(api, "domain", "quality_of_service", {"tier": "HIGH"})
    ok(api.put(f"{API}/pools/gpu", json={"pool": {"members": [{"id": "east"}]}, "claimed_by": "ana"}))
    whole = get(api, f"all_definitions?limit=1000{noun}")["definitions"]
    for filters, is_selected in SELECTED.items():
        expected = [row for row in whole if is_selected(row, row.get("provenance", {}))]
        for limit in (1000, 3):
            parts = list(pages(api, f"all_definitions?limit={limit}{noun}&filters={quote(filters)}", "definitions"))
            assert [row for rows in parts for row in rows] == expected, filters
            assert all(len(rows) <= limit for rows in parts)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ("eq(autor,ana)", "unknown field 'autor'. Did you mean 'author'?"),
        ("eq(noun,pol)", "unknown noun 'pol'. Did you mean 'pool'?"),
        ("gt(revision,99999999999999999999)", "is not a whole number, as revision must be."),
        ("gt(revision,x)", "'x' is not a whole number, as revision must be."),
        ("contains(at,2026)", "'contains' searches for text, but at is a time."),
        ("gt(at,9999999y)", "'9999999y' is not a time, as at must be."),
        ("eq(claimed_by,a%00b)", "contains a NUL character."),
        ("like(name,x)", "unknown filter function 'like'."),
        ("name=x", "'name=x' is not of the form function(field,value)"),
        ("%2B".join(["eq(name,x)"] * 51), "has 51 terms; give 1 to 50."),
        (f"eq(name,{'x' * 4000})", "filters: is longer than 4000 characters: ask for it in parts, or join values"),
    ],
)
def test_a_filter_of_definitions_that_cannot_be_read_is_refused(api: FlaskClient, filters: str, message: str) -> None:
    answer = refused(api.get(f"{API}/all_definitions?filters={filters}"), 400, "invalid_request", "filters")
    assert message in answer["message"]


def test_everybody_sees_what_they_may_see(app: Flask) -> None:
    settle(app.test_client())
    root, nobody = signed_in(app, "root"), signed_in(app, "nobody")
    give(root, role="viewer", user="here", project=PROJECT)
    give(root, role="admin", user="steward", project=PROJECT)
    here, steward = signed_in(app, "here"), signed_in(app, "steward")
    seen: Any = listed(here)
    assert seen["project"] == [PROJECT]
    assert seen["workflow"] == [f"{PROJECT}/{DOMAIN}/flow"]
    assert seen["pool"] == ["gpu"], "the fleet is for all who work somewhere"
    assert seen.keys().isdisjoint({"user", "group", "grant", "use-grant"})
    assert get(here, "all_definitions")["partial"] is True
    assert sorted(listed(steward)["grant"]) == sorted(
        [f"viewer:group:ml:{PROJECT}", f"viewer:user:here:{PROJECT}", f"admin:user:steward:{PROJECT}"]
    )
    assert listed(steward).keys().isdisjoint({"user", "group", "use-grant"}), "which belong to the platform"
    assert listed(nobody).keys() == {"domain", "kind"}, "which configuration declares"
    hidden, absent = (here.get(f"{API}/all_definitions?project={project}").get_json() for project in (OTHER, "kumquax"))
    assert hidden["error"] == absent["error"] == "unknown_project"


def test_what_is_pruned_keeps_its_revision(app: Flask, api: FlaskClient, app_clock: Clock) -> None:
    settle(api)
    app_clock.advance(86400 * 3)
    list(prune(context_of(app), Retention(revisions="1d")))
    rows = {(row["noun"], row["name"]): row for row in get(api, "all_definitions?limit=1000")["definitions"]}
    for row in (rows["pool", "gpu"], rows["group", "ml"], rows["project", OTHER], rows["token-pool", "hive"]):
        made_by = row["provenance"]
        assert (made_by["kept"], made_by["author"]) == (False, "anonymous"), row
        assert made_by["revision"] == row["revision"] > 0
