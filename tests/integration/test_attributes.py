"""Attributes over the API, on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.core.settings.builtin_kinds import BUILTIN_KINDS
from admin.core.settings.kinds import Kind
from admin.core.settings.scopes import Level, Scope
from admin.store import attributes
from tests.conftest import MakeApp
from tests.support.apps import context_of

API = "/api/v1"
PATHS = {
    "domain": "domain_attributes/development",
    "project": "project_attributes/flytesnacks",
    "project-domain": "project_domain_attributes/flytesnacks/development",
    "workflow": "workflow_attributes/flytesnacks/development/wf",
    "launch-plan": "launch_plan_attributes/flytesnacks/development/wf/lp",
}
SCOPE = "project=flytesnacks&domain=development&workflow=wf&launch_plan=lp"


def put(api: FlaskClient, path: str, matching: dict[str, Any], **kwargs: Any) -> Any:
    body = {"attributes": {"matching_attributes": matching}, **kwargs.pop("more", {})}
    return api.put(f"{API}/{path}", json=body, **kwargs)


def put_label(api: FlaskClient, path: str, value: str | None, **kwargs: Any) -> Any:
    return put(api, path, {"execution_cluster_label": {"value": value}}, **kwargs)


def effective(api: FlaskClient, scope: str = SCOPE, kind: str = "3") -> Any:
    answer = api.get(f"{API}/effective_attributes?{scope}&resource_type={kind}")
    assert answer.status_code == 200, answer.get_json()
    return answer.get_json()["values"][0]


def test_a_label_at_each_level_gives_way_to_the_next_as_they_are_deleted(api: FlaskClient) -> None:
    for level, path in PATHS.items():
        assert put_label(api, path, f"at-{level}").status_code == 200
    for level in reversed(PATHS):
        resolved = effective(api)
        assert resolved["value"] == {"value": f"at-{level}"}
        assert resolved["origins"]["value"]["level"] == level
        assert [step["level"] for step in resolved["trail"]] == ["platform", *PATHS]
        assert api.delete(f"{API}/{PATHS[level]}?resource_type=3").get_json()["deleted"] is True
    assert effective(api)["value"] == {}


def test_deleting_a_projects_row_leaves_what_is_below(api: FlaskClient) -> None:
    for level, path in PATHS.items():
        put_label(api, path, f"at-{level}")
    api.delete(f"{API}/{PATHS['project']}?resource_type=EXECUTION_CLUSTER_LABEL")
    listed = api.get(f"{API}/matchable_attributes?resource_type=3").get_json()["configurations"]
    assert sorted(row["level"] for row in listed) == ["domain", "launch-plan", "project-domain", "workflow"]


def test_task_resources_are_merged_leaf_by_leaf(api: FlaskClient) -> None:
    put(api, PATHS["domain"], {"task_resource_attributes": {"limits": {"memory": "4Gi"}}})
    put(api, PATHS["project-domain"], {"task_resource_attributes": {"defaults": {"cpu": "1"}}})
    put(api, PATHS["workflow"], {"task_resource_attributes": {"limits": {"cpu": None}}})
    resolved = effective(api, kind="0")
    assert resolved["value"] == {
        "defaults": {"cpu": "1", "memory": "200Mi"},
        "limits": {"gpu": "1", "memory": "4Gi"},
    }
    assert {path: origin["level"] for path, origin in resolved["origins"].items()} == {
        "defaults.cpu": "project-domain",
        "defaults.memory": "platform",
        "limits.gpu": "platform",
        "limits.memory": "domain",
    }
    assert resolved["unset"]["limits.cpu"]["level"] == "workflow"
    assert resolved["origins"]["limits.gpu"]["key"] == "task_resources.limits.gpu"


@pytest.mark.parametrize("kind", BUILTIN_KINDS, ids=lambda kind: kind.noun)
def test_every_kind_is_written_read_listed_and_deleted_at_each_of_its_levels(api: FlaskClient, kind: Kind) -> None:
    for level in Level:
        if level is Level.PLATFORM:
            continue
        path = PATHS[level.value]
        written = put(api, path, {kind.payload_key: kind.example})
        if level not in kind.levels:
            assert (written.status_code, written.get_json()["details"][0]["field"]) == (400, "resource_type")
            continue
        assert written.status_code == 200, written.get_json()
        read = api.get(f"{API}/{path}?resource_type={kind.number}")
        assert read.get_json()["attributes"]["matching_attributes"] == {kind.payload_key: kind.example}
        assert read.get_json()["version"] == written.get_json()["version"] == written.get_json()["revision"]
        assert read.headers["ETag"] == f'"{written.get_json()["version"]}"'
    listed = api.get(f"{API}/matchable_attributes?resource_type={kind.name}").get_json()["configurations"]
    by_scope = ["domain", "project", "project-domain", "workflow", "launch-plan"]  # empty keys come first
    levels = {level.value for level in kind.levels}
    assert [row["level"] for row in listed] == [level for level in by_scope if level in levels]
    for level in kind.levels:
        assert api.delete(f"{API}/{PATHS[level.value]}?resource_type={kind.noun}").get_json()["deleted"] is True
    assert api.get(f"{API}/matchable_attributes?resource_type={kind.number}").get_json() == {"configurations": []}


def test_reading_where_nothing_is_set_gives_what_is_inherited_and_says_from_where(api: FlaskClient) -> None:
    put_label(api, PATHS["domain"], "mycluster")
    read = api.get(f"{API}/{PATHS['workflow']}?resource_type=3").get_json()
    assert read["attributes"]["matching_attributes"] == {"execution_cluster_label": {"value": "mycluster"}}
    assert read["inherited_from"] == {"level": "domain", "domain": "development", "version": 1}
    assert "version" not in read
    exact = api.get(f"{API}/{PATHS['workflow']}?resource_type=3&exact=true")
    assert (exact.status_code, exact.get_json()["error"]) == (404, "attribute_not_found")
    put_label(api, PATHS["project"], None)
    unset = api.get(f"{API}/{PATHS['workflow']}?resource_type=3")
    assert unset.status_code == 404


def test_an_unchanged_write_makes_no_revision(api: FlaskClient) -> None:
    first = put_label(api, PATHS["domain"], "mycluster").get_json()
    second = put_label(api, PATHS["domain"], "mycluster").get_json()
    assert (first["changed"], second["changed"]) == (True, False)
    assert (first["revision"], second["revision"], second["version"]) == (1, 1, 1)
    assert api.get(f"{API}/effective_attributes?{SCOPE}").get_json()["revision"] == 1


def test_a_write_may_say_which_version_it_expects(api: FlaskClient) -> None:
    path = PATHS["domain"]
    assert put_label(api, path, "a", headers={"If-Match": '"1"'}).get_json()["error"] == "version_conflict"
    assert put_label(api, path, "a", headers={"If-None-Match": "*"}).status_code == 200
    clash = put_label(api, path, "b", headers={"If-None-Match": "*"})
    assert (clash.status_code, clash.get_json()["details"][0]["current_version"]) == (409, 1)
    assert put_label(api, path, "b", headers={"If-Match": '"1"'}).get_json()["version"] == 2
    assert put_label(api, path, "c", headers={"If-Match": "1"}).get_json()["details"][0]["current_version"] == 2
    stale = api.delete(f"{API}/{path}?resource_type=3", headers={"If-Match": '"1"'})
    assert stale.status_code == 409
    assert api.delete(f"{API}/{path}?resource_type=3", headers={"If-Match": '"2"'}).get_json()["revision"] == 3


def test_a_dry_run_checks_everything_and_changes_nothing(api: FlaskClient) -> None:
    path = PATHS["domain"]
    dry = put_label(api, f"{path}?dry_run=true", "elsewhere").get_json()
    assert (dry["changed"], dry["dry_run"], [warning["code"] for warning in dry["warnings"]]) == (
        True,
        True,
        ["unknown_label"],
    )
    assert "version" not in dry
    put_label(api, path, "mycluster")
    deletion = api.delete(f"{API}/{path}?resource_type=3&dryRun=true").get_json()
    assert deletion.pop("afterwards")["values"][0]["value"] == {}
    assert [route["noun"] for route in deletion.pop("routes")] == ["any"]
    assert deletion.pop("changed_below")["count"] == 2
    assert deletion == {
        "deleted": False,
        "dry_run": True,
        "before": {"value": "mycluster"},
        "warnings": [],
        "executions": {"effects": [], "counts": {}, "complete": True},
    }
    patch = api.patch(f"{API}/{path}?resource_type=3&dry_run=true", json={"unset": ["value"]}).get_json()
    assert (patch["changed"], patch["version"]) == (True, 1)
    assert effective(api)["value"] == {"value": "mycluster"}
    assert put(api, f"{path}?dry_run=true", {"execution_cluster_label": {"value": 7}}).status_code == 400


def test_a_patch_changes_leaves_and_an_empty_row_is_removed(api: FlaskClient) -> None:
    path = f"{API}/{PATHS['domain']}?resource_type=TASK_RESOURCE"
    assert api.patch(path, json={"set": {"limits": {"cpu": "1", "memory": "1Gi"}}}).get_json()["version"] == 1
    patched = api.patch(path, json={"unset": ["limits.cpu"], "inherit": ["limits.memory"]}).get_json()
    assert patched["attributes"]["matching_attributes"] == {"task_resource_attributes": {"limits": {"cpu": None}}}
    emptied = api.patch(path, json={"inherit": ["limits.cpu"]}).get_json()
    assert ("version" in emptied, emptied["revision"]) == (False, 3)
    assert api.get(f"{API}/{PATHS['domain']}?resource_type=0&exact=true").status_code == 404


def test_deleting_what_is_absent_is_fine_and_makes_no_revision(api: FlaskClient) -> None:
    answer = api.delete(f"{API}/{PATHS['domain']}", json={"resource_type": "TASK_RESOURCE"})
    deletion = answer.get_json()
    assert deletion.pop("afterwards")["values"][0]["resource_type"] == "TASK_RESOURCE"
    assert (answer.status_code, deletion) == (200, {"deleted": False, "dry_run": False, "warnings": []})
    missing = api.delete(f"{API}/{PATHS['domain']}")
    assert (missing.status_code, missing.get_json()["details"][0]["field"]) == (400, "resource_type")


def test_messages_as_flytes_clients_send_them(api: FlaskClient) -> None:
    label = {"execution_cluster_label": {"value": "mycluster"}}
    scope = {"project": "flytesnacks", "domain": "development"}
    body = {"attributes": {**scope, "org": "", "matchingAttributes": label}, **scope, "org": ""}
    path = f"{API}/{PATHS['project-domain']}"
    assert api.put(path, json=body).status_code == 200
    other = api.put(path, json={**body, "domain": "staging"})
    assert (other.status_code, other.get_json()["details"][0]["field"]) == (400, "domain")
    read = api.get(f"{path}?resourceType=EXECUTION_CLUSTER_LABEL").get_json()
    assert api.put(path, json={"attributes": read["attributes"]}).get_json()["changed"] is False
    assert api.delete(path, json={**scope, "resource_type": "EXECUTION_CLUSTER_LABEL"}).get_json()["deleted"] is True


def test_a_filter_by_an_unknown_name_is_refused_rather_than_empty(api: FlaskClient) -> None:
    for query in ("project=flytesnack", "domain=prod"):
        for path in ("matchable_attributes?resource_type=all&", "revisions?"):
            assert api.get(f"{API}/{path}{query}").status_code == 400


def test_a_limit_of_zero_is_warned_of(api: FlaskClient) -> None:
    written = put(api, PATHS["domain"], {"task_resource_attributes": {"limits": {"cpu": 0, "gpu": 0}}}).get_json()
    assert [(warning["code"], warning["field"]) for warning in written["warnings"]] == [
        ("default_capped", "defaults.cpu"),
        ("zero_limit", "limits.cpu"),
    ]


def test_lists_are_filtered_and_paged(api: FlaskClient) -> None:
    for number in range(5):
        put_label(api, f"workflow_attributes/flytesnacks/development/wf{number}", "mycluster")
    put_label(api, "workflow_attributes/flytesnacks/staging/wf0", "mycluster")
    seen: list[str] = []
    token = ""
    while True:
        url = f"{API}/matchable_attributes?resource_type=3&domain=development&limit=2"
        page = api.get(url + (f"&token={token}" if token else "")).get_json()
        seen += [row["workflow"] for row in page["configurations"]]
        if "token" not in page:
            break
        token = page["token"]
    assert seen == [f"wf{number}" for number in range(5)]
    every_kind = api.get(f"{API}/matchable_attributes?resource_type=all&level=workflow").get_json()
    assert len(every_kind["configurations"]) == 6
    assert api.get(f"{API}/matchable_attributes?resource_type=3&level=project").get_json()["configurations"] == []
    assert api.get(f"{API}/matchable_attributes").status_code == 400


def test_rows_are_listed_with_the_revisions_that_changed_them_last(api: FlaskClient) -> None:
    put_label(api, PATHS["domain"], "mycluster", more={"message": "near the data", "claimed_by": "ana"})
    put_label(api, PATHS["project"], "local", more={"message": "for tests"})
    put_label(api, PATHS["domain"], "other", more={"message": "moved"})
    for query, versions in (("", {"domain": 3, "project": 2}), ("&at=2", {"domain": 1, "project": 2})):
        listed = api.get(f"{API}/matchable_attributes?resource_type=3{query}").get_json()["configurations"]
        assert {row["level"]: row["version"] for row in listed} == versions
        revisions = {row["version"]: row["provenance"] for row in listed}
        assert all(revision["revision"] == number for number, revision in revisions.items())
        assert revisions[2]["message"] == "for tests"
        assert all(revision["author"] == "anonymous" and revision["at"] for revision in revisions.values())
    assert (revisions[1]["message"], revisions[1]["claimed_by"]) == ("near the data", "ana")


def test_one_attribute_is_read_with_the_revisions_that_set_its_fields_if_asked(api: FlaskClient) -> None:
    path, key = PATHS["project-domain"], "task_resource_attributes"
    put(api, path, {key: {"defaults": {"cpu": "1"}}}, more={"message": "first"})
    put(api, path, {key: {"defaults": {"cpu": "1"}, "limits": {"cpu": "2"}}}, more={"message": "second"})
    plain = api.get(f"{API}/{path}?resource_type=0").get_json()
    assert not plain.keys() & {"provenance", "origins", "revisions"}
    row = api.get(f"{API}/{path}?resource_type=0&provenance=true").get_json()
    assert {name: row[name] for name in plain} == plain
    assert (row["provenance"]["revision"], row["provenance"]["message"]) == (2, "second")
    set_by = {field: row["revisions"][str(origin["revision"])]["message"] for field, origin in row["origins"].items()}
    assert set_by == {"defaults.cpu": "first", "limits.cpu": "second"}
    assert row["origins"]["defaults.cpu"]["version"] == 2

    inherited = api.get(f"{API}/{PATHS['workflow']}?resource_type=0&provenance=true").get_json()
    assert "provenance" not in inherited
    assert inherited["origins"]["defaults.cpu"]["revision"] == 1
    assert inherited["origins"]["defaults.memory"]["level"] == "platform"
    assert inherited["revisions"] == row["revisions"]
    assert api.get(f"{API}/{path}?resource_type=0&provenance=perhaps").status_code == 400


def test_warnings_are_listed_for_as_long_as_they_are_true(api: FlaskClient) -> None:
    put_label(api, PATHS["domain"], "mycluster")
    written = put_label(api, PATHS["project"], "myclustre").get_json()
    assert [warning["code"] for warning in written["warnings"]] == ["unknown_label", "overrides_domain"]
    assert written["warnings"][0]["closest"] == ["mycluster"]
    listed = api.get(f"{API}/warnings").get_json()["warnings"]
    assert [warning.pop("set_by")["revision"] for warning in listed] == [written["revision"]] * 2
    assert listed == written["warnings"]
    assert 'rainbow_warnings{code="unknown_label"} 1.0' in api.get("/metrics").text
    put_label(api, PATHS["project"], "local")
    assert [warning["code"] for warning in api.get(f"{API}/warnings").get_json()["warnings"]] == ["overrides_domain"]
    api.delete(f"{API}/{PATHS['domain']}?resource_type=3")
    assert api.get(f"{API}/warnings").get_json()["warnings"] == []
    assert "unknown_label" not in api.get("/metrics").text.split("rainbow_warnings")[-1]


def test_unknown_names_can_be_refused(make_app: MakeApp) -> None:
    api = make_app(attributes={"unknownNames": "refuse"}).test_client()
    refused = put_label(api, PATHS["domain"], "myclustre")
    assert (refused.status_code, refused.get_json()["details"][0]["closest"]) == (400, ["mycluster"])
    assert effective(api)["value"] == {}


def test_a_declared_kind_is_set_inherited_explained_and_refused_with_no_code(make_app: MakeApp) -> None:
    kinds = {
        "GPU_POLICY": {
            "number": 42,
            "merge": "leaf",
            "fields": {
                "share": {"type": "float", "minimum": 0, "maximum": 1, "default": 0.5},
                "model": {"type": "string", "enum": ["a100", "h100"]},
                "most": {"type": "int", "maximum": 8},
            },
        }
    }
    app = make_app(kinds=kinds)
    api = app.test_client()
    assert put(api, PATHS["domain"], {"gpu_policy": {"model": "a100"}}).status_code == 200
    assert put(api, PATHS["workflow"], {"gpuPolicy": {"most": 4}}).status_code == 200
    resolved = effective(api, kind="gpu-policy")
    assert resolved["value"] == {"share": 0.5, "model": "a100", "most": 4}
    assert {path: origin["level"] for path, origin in resolved["origins"].items()} == {
        "share": "platform",
        "model": "domain",
        "most": "workflow",
    }
    refused = put(api, PATHS["project"], {"gpu_policy": {"most": 9, "model": "v100"}})
    assert [detail["field"] for detail in refused.get_json()["details"]] == ["model", "most"]
    listed = {kind["name"]: kind for kind in api.get(f"{API}/kinds").get_json()["kinds"]}
    assert listed["GPU_POLICY"]["declared"] is True
    document = api.get(f"{API}/openapi.json").get_json()
    assert "gpu_policy" in document["components"]["schemas"]["MatchingAttributes"]["properties"]


def test_rows_of_a_kind_that_is_no_longer_declared_are_kept_and_warned_of(make_app: MakeApp) -> None:
    api = make_app().test_client()
    put(api, PATHS["domain"], {"workflow_priority": {"priority": 80}})
    without = make_app(kinds={"OTHER": {"number": 10, "fields": {"a": "int"}}}).test_client()
    assert [warning["code"] for warning in without.get(f"{API}/warnings").get_json()["warnings"]] == ["undeclared_kind"]
    assert without.get(f"{API}/matchable_attributes?resource_type=all").get_json() == {"configurations": []}
    assert effective(make_app().test_client(), kind="10")["value"] == {"priority": 80}


def test_whole_row_override_as_flyte_has_it(make_app: MakeApp) -> None:
    api = make_app(kinds={"TASK_RESOURCE": {"merge": "replace"}}).test_client()
    put(api, PATHS["domain"], {"task_resource_attributes": {"defaults": {"cpu": "1"}}})
    assert effective(api, kind="0")["value"] == {"defaults": {"cpu": "1"}}


def test_every_change_is_remembered_with_who_why_before_and_after(api: FlaskClient, context: Any) -> None:
    from sqlalchemy import select

    from admin.store import revision_tables

    more = {"message": "because", "claimed_by": "ann"}
    put_label(api, PATHS["domain"], "mycluster", more=more, headers={"X-Request-Id": "req-1"})
    api.delete(f"{API}/{PATHS['domain']}?resource_type=3&message=why%20not")
    with context.database.reading() as connection:
        noted = connection.execute(select(revision_tables.revisions).order_by(revision_tables.revisions.c.number)).all()
        changed = connection.execute(select(revision_tables.revision_changes)).all()
    assert [(row.number, row.author, row.claimed_by, row.message) for row in noted] == [
        (1, "anonymous", "ann", "because"),
        (2, "anonymous", None, "why not"),
    ]
    assert noted[0].request_id == "req-1"
    assert [(row.kind, row.domain, row.before, row.after) for row in changed] == [
        ("EXECUTION_CLUSTER_LABEL", "development", None, {"value": "mycluster"}),
        ("EXECUTION_CLUSTER_LABEL", "development", {"value": "mycluster"}, None),
    ]


@pytest.mark.parametrize("others", [0, 1000])
def test_rows_are_found_by_few_keys_and_by_many(api: FlaskClient, app: Flask, others: int) -> None:
    put_label(api, PATHS["workflow"], "mycluster")
    own = Scope("development", "flytesnacks", "wf")
    missing = [Scope("development", "flytesnacks", f"w{number}") for number in range(others)]
    keys = [(kind, scope) for kind in ("EXECUTION_CLUSTER_LABEL", "TASK_RESOURCE") for scope in [own, *missing]]
    with context_of(app).database.reading() as connection:
        [row] = attributes.exactly(connection, keys)
    assert (row.kind, row.scope, row.payload) == ("EXECUTION_CLUSTER_LABEL", own, {"value": "mycluster"})
