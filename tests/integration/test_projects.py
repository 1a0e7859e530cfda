"""Projects and domains over the API, on SQLite and on PostgreSQL."""

from __future__ import annotations

from flask.testing import FlaskClient

from tests.conftest import MakeApp
from tests.support.placing import create, created

SLOW_ON = ("postgresql",)

API = "/api/v1"


def test_the_configured_projects_and_domains_are_there_from_the_start(api: FlaskClient) -> None:
    assert [project["id"] for project in api.get(f"{API}/projects").get_json()["projects"]] == [
        "flyteexamples",
        "flytesnacks",
    ]
    domains = api.get(f"{API}/domains").get_json()["domains"]
    assert [domain["id"] for domain in domains] == ["development", "staging", "production"]


def test_a_project_is_created_read_and_updated_one_field_at_a_time(api: FlaskClient) -> None:
    body = {"project": {"id": "search", "name": "Search", "labels": {"values": {"team": "x"}}}}
    created = api.post(f"{API}/projects", json=body)
    assert created.status_code == 200, created.get_json()
    updated = api.put(f"{API}/projects/search", json={"description": "Finds things."}).get_json()
    assert (updated["name"], updated["description"], updated["labels"], updated["state"]) == (
        "Search",
        "Finds things.",
        {"values": {"team": "x"}},
        "ACTIVE",
    )
    assert updated["created_at"] == created.get_json()["created_at"]
    cleared = api.patch(f"{API}/projects/search", json={"description": "", "labels": {"values": {}}}).get_json()
    assert (cleared["name"], cleared["description"], cleared["labels"]) == ("Search", "", {"values": {}})
    assert api.get(f"{API}/projects/search").get_json() == cleared
    taken = api.post(f"{API}/projects", json={"project": {"id": "search"}})
    assert (taken.status_code, taken.get_json()["error"]) == (409, "project_exists")


def test_an_archived_projects_attributes_can_be_read_not_written(api: FlaskClient) -> None:
    path = f"{API}/project_domain_attributes/flytesnacks/development"
    body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "mycluster"}}}}
    api.put(path, json=body)
    assert api.put(f"{API}/projects/flytesnacks", json={"state": "ARCHIVED"}).get_json()["state"] == "ARCHIVED"
    assert api.put(f"{API}/projects/flytesnacks", json={"description": "x"}).get_json()["state"] == "ARCHIVED"
    assert api.get(f"{path}?resource_type=3").get_json()["version"] == 1
    assert api.get(f"{API}/effective_attributes?project=flytesnacks&domain=development").status_code == 200
    for refused in (
        api.put(path, json=body),
        api.patch(f"{path}?resource_type=3", json={"unset": ["value"]}),
        api.delete(f"{path}?resource_type=3"),
    ):
        problem = refused.get_json()
        assert (refused.status_code, problem["error"], problem["code"]) == (400, "project_archived", 9)
        assert "--activate" in problem["message"]
    assert [project["id"] for project in api.get(f"{API}/projects").get_json()["projects"]] == ["flyteexamples"]
    assert len(api.get(f"{API}/projects?state=ALL").get_json()["projects"]) == 2
    assert api.put(f"{API}/projects/flytesnacks", json={"state": 0}).get_json()["state"] == "ACTIVE"
    assert api.delete(f"{path}?resource_type=3").status_code == 200


def test_a_dry_run_of_archiving_lists_what_waits_and_would_still_start(api: FlaskClient) -> None:
    for name in ("first", "second"):
        created(api, name)
    path = f"{API}/projects/flytesnacks"
    answer = api.patch(f"{path}?dry_run=true", json={"state": "ARCHIVED"}).get_json()
    assert answer["state"] == "ARCHIVED"
    archiving = answer["archiving"]
    names = ["flytesnacks/development/first", "flytesnacks/development/second"]
    assert (archiving["waiting"], archiving["running"], archiving["first_waiting"]) == (2, 0, names)
    assert f"2 waiting ({', '.join(names)}), 0 running. Those that wait still start" in archiving["message"]
    assert api.get(path).get_json()["state"] == "ACTIVE"
    assert "archiving" not in api.patch(f"{path}?dry_run=true", json={"description": "x"}).get_json()
    idle = api.patch(f"{API}/projects/flyteexamples?dry_run=true", json={"state": "ARCHIVED"}).get_json()
    assert idle["archiving"]["message"].startswith("Nothing waits or runs in the project.")
    assert "archiving" not in api.patch(path, json={"state": "ARCHIVED"}).get_json()
    refusal = create(api, "third")
    assert refusal.status_code == 400
    assert "nothing can be set, registered or created there" in refusal.get_json()["message"]


def test_a_rollback_that_would_remove_a_project_names_what_it_still_has(api: FlaskClient) -> None:
    revision = api.post(f"{API}/projects", json={"project": {"id": "search"}}).get_json()["version"]
    body = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "a"}}}, "claimed_by": "ana"}
    for place in ("development", "staging", "production"):
        api.put(f"{API}/project_domain_attributes/search/{place}", json={**body, "message": "near"})
    api.put(f"{API}/project_attributes/search", json=body)
    refused = api.post(f"{API}/rollbacks?dry_run=true", json={"revision": revision})
    assert (refused.status_code, refused.get_json()["error"]) == (400, "invalid_request")
    [detail] = refused.get_json()["details"]
    first = f"execution-cluster-label at project search (revision {revision + 4}, anonymous (says ana), "
    assert detail["reason"].startswith(f"project 'search' still has attributes: {first}")
    assert f"project-domain search/development (revision {revision + 1}, anonymous (says ana), " in detail["reason"]
    assert detail["reason"].endswith(", 'near') and 1 more. Delete them first.")


def test_a_project_can_be_put_back_as_it_was_read(api: FlaskClient) -> None:
    read = api.get(f"{API}/projects/flytesnacks").get_json()
    updated = api.put(f"{API}/projects/flytesnacks", json={**read, "description": "New."}).get_json()
    assert updated["description"] == "New."
    refused = api.put(f"{API}/projects/flytesnacks", json={"id": "flyteexamples"})
    assert (refused.status_code, refused.get_json()["details"][0]["field"]) == (400, "id")
    dry = api.put(f"{API}/projects/flytesnacks?dry_run=true", json={"name": "X"}).get_json()
    assert (dry["name"], api.get(f"{API}/projects/flytesnacks").get_json()["name"]) == ("X", "flytesnacks")
    stale = api.put(f"{API}/projects/flytesnacks", json={"name": "X"}, headers={"If-Match": '"0"'})
    assert stale.status_code == 409


def test_a_stale_version_of_a_project_of_configuration_says_at_which_it_is(api: FlaskClient) -> None:
    stale = api.put(f"{API}/projects/flytesnacks", json={"name": "X"}, headers={"If-Match": '"5"'})
    assert stale.status_code == 409
    assert "flytesnacks is at version 0" in stale.get_json()["message"]


def test_projects_are_paged(api: FlaskClient) -> None:
    first = api.get(f"{API}/projects?limit=1").get_json()
    second = api.get(f"{API}/projects?limit=1&token={first['token']}").get_json()
    assert [project["id"] for project in first["projects"] + second["projects"]] == ["flyteexamples", "flytesnacks"]
    assert "token" not in second


def test_an_unknown_project_or_domain_names_the_nearest(api: FlaskClient) -> None:
    missing = api.get(f"{API}/projects/flytesnack")
    assert (missing.status_code, missing.get_json()["details"][0]["closest"][0]) == (404, "flytesnacks")
    read = api.get(f"{API}/project_domain_attributes/flytesnack/development?resource_type=3")
    assert (read.status_code, read.get_json()["error"], read.get_json()["details"][0]["closest"][0]) == (
        400,
        "unknown_project",
        "flytesnacks",
    )
    domain = api.get(f"{API}/effective_attributes?domain=prodution")
    assert (domain.status_code, domain.get_json()["details"][0]["closest"]) == (400, ["production"])


def test_a_seeded_project_that_was_changed_is_left_alone_at_the_next_start(make_app: MakeApp) -> None:
    api = make_app().test_client()
    api.put(f"{API}/projects/flytesnacks", json={"state": "ARCHIVED", "name": "Old"})
    again = make_app(projects=[{"id": "flytesnacks"}, {"id": "fresh", "labels": {"team": "x"}}]).test_client()
    assert again.get(f"{API}/projects/flytesnacks").get_json()["state"] == "ARCHIVED"
    assert again.get(f"{API}/projects/flytesnacks").get_json()["name"] == "Old"
    assert again.get(f"{API}/projects/fresh").get_json()["labels"] == {"values": {"team": "x"}}
