"""Who may use which clusters: cluster groups, use grants, and what they do to placement; on both databases."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy
from flask import Flask

from admin.core.creators import Creator
from admin.core.grants import Grant, Grantee, Grants
from admin.core.identities import Identity, Proof
from admin.core.permissions import Role
from admin.core.settings.scopes import Scope
from admin.core.use_grants import CREATOR_DELETED, MAY_NOT_CREATE, NOT_GRANTED, Named, UseGrant
from admin.core.user_groups import Memberships
from admin.loops.waiting import WaitingLoop
from admin.services import grants, user_tokens, users
from admin.services.access import Access
from admin.services.change_commits import commit_changes
from admin.services.changeable.base import ChangeOptions
from admin.services.changeable.use_grants import use_grant_write
from admin.services.changeable.user_groups import group_write
from admin.services.changes import ChangeRequest
from admin.services.context import Context
from admin.services.creation_results import Created
from admin.services.creations import create_execution, create_executions
from admin.services.creator_rights import current_rights, note_proven_groups
from admin.services.evictions import evict_from_lost, judge_health
from admin.services.redecision_rounds import Redecided
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.services.run_requests import read_request
from admin.store import attributes, executions, revisions, unfinished
from admin.store import grants as stored_grants
from admin.store.cache.known_grants import KnownGrants
from admin.store.cache.known_rights import KnownRights
from admin.store.executions import Execution
from admin.store.revision_tables import revisions as revisions_table
from admin.store.use_grants import groups_of_proofs
from admin.store.use_grants import use_grants as use_grants_table
from tests.conftest import MakeApp, Scale
from tests.support import people
from tests.support.agents import PlayedAgent, WatchedClock, played_agent
from tests.support.apps import context_of
from tests.support.placing import API, DOMAIN, JOB, PROJECT, asked, ok, refused
from tests.support.statements import statements

CLOSED: dict[str, Any] = {"placement": {"clusterUse": "closed"}}
OPTIONS = ChangeOptions()


class Person(people.Person):
    """Somebody who uses clusters, and may grant that."""

    def allow(self, **definition: str) -> Any:
        return self.do("POST", "use_grants", {"use_grant": definition})

    def forbid(self, name: str) -> Any:
        return self.do("DELETE", f"use_grants/{name}")

    def pool(self, name: str, *clusters: str, **more: Any) -> None:
        members = [{"id": cluster} for cluster in clusters]
        self.do("PUT", f"pools/{name}", {"pool": {"members": members, **more}})

    def create(self, name: str, **spec: Any) -> Any:
        return self.do("POST", "executions", asked(name, **spec))["execution"]

    def state(self, name: str) -> tuple[str | None, str]:
        """Where an execution is, and why."""
        answer = self.get(f"executions/{PROJECT}/{DOMAIN}/{name}")
        return answer.get("cluster"), answer["closure"]["reason"]["code"]

    def explain(self, name: str) -> Any:
        return self.get(f"executions/{PROJECT}/{DOMAIN}/{name}/explanation")


def in_pool(name: str) -> dict[str, Any]:
    return {"cluster_assignment": {"cluster_pool_name": name}}


def made_user(app: Flask, name: str, role: str = "submitter") -> Person:
    """A new user with a token and a role."""
    return Person(app.test_client(), people.made_user(app, name, role=role).token)


@pytest.fixture
def app(make_app: MakeApp) -> Flask:
    return make_app(**CLOSED)


@pytest.fixture
def context(app: Flask) -> Context:
    return context_of(app)


@pytest.fixture
def root(app: Flask) -> Person:
    """An administrator."""
    return made_user(app, "root", "admin")


@pytest.fixture
def ada(app: Flask, root: Person) -> Person:
    return made_user(app, "ada")


# The nouns


def test_a_cluster_group_is_created_changed_listed_and_deleted(app: Flask) -> None:
    caller = Person(app.test_client())
    body = {"cluster_group": {"name": "racks", "clusters": ["b", "a"], "description": "New."}, "message": "why"}
    tried = caller.do("POST", "cluster_groups?dry_run=true", body)
    assert (tried["dry_run"], tried["cluster_group"]["clusters"]) == (True, ["a", "b"])
    refused(caller.call("GET", "cluster_groups/racks"), 404, "cluster_group_not_found")
    made = caller.do("POST", "cluster_groups", body)
    assert made["cluster_group"] == caller.get("cluster_groups/racks")
    assert [warning["code"] for warning in made["warnings"]] == ["unknown_cluster", "unknown_cluster"]
    refused(caller.call("POST", "cluster_groups", body), 409, "already_exists", "cluster_group.name")
    assert caller.do("PUT", "cluster_groups/racks", {"cluster_group": {"clusters": ["a"]}})["changed"] is True
    assert caller.get("cluster_groups")["cluster_groups"][0]["clusters"] == ["a"]
    caller.allow(cluster_group="racks", user="ada")
    in_use = refused(caller.call("DELETE", "cluster_groups/racks"), 409, "in_use")
    assert "user ada may use it" in str(in_use)
    assert caller.do("DELETE", "cluster_groups/racks?force=true")["changed"] is True
    history = caller.get("revisions?resource_type=cluster_group&name=racks")["revisions"]
    assert len(history) == 3
    assert caller.do("POST", "rollbacks", {"revision": history[0]["number"]})["revision"]
    assert caller.get("cluster_groups/racks")["clusters"] == ["a"]


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        ({"name": "x y"}, "name"),
        ({"name": "x", "clusters": ["a", "a"]}, "clusters"),
        ({"name": "x", "clusters": "a"}, "clusters"),
        ({"name": "x", "members": []}, "members"),
    ],
)
def test_a_bad_cluster_group_is_refused_by_its_field(app: Flask, definition: dict[str, Any], field: str) -> None:
    answer = app.test_client().post(f"{API}/cluster_groups", json={"cluster_group": definition})
    refused(answer, 400, "invalid_request", field)


def test_a_use_grant_is_given_listed_and_taken(app: Flask) -> None:
    caller = Person(app.test_client())
    caller.pool("gpu", "a")
    made = caller.allow(pool="gpu", user="ada")
    assert (made["use_grant"]["name"], made["warnings"]) == ("pool:gpu:user:ada", [])
    refused(caller.call("POST", "use_grants", {"use_grant": {"pool": "gpu", "user": "ada"}}), 409, "already_exists")
    caller.allow(cluster="a", project=PROJECT)
    unknown = caller.allow(label="nowhere", group="nobody")["warnings"]
    assert [warning["code"] for warning in unknown] == ["unknown_label", "unknown_group"]
    assert [row["name"] for row in caller.get("use_grants?user=ada")["use_grants"]] == ["pool:gpu:user:ada"]
    assert len(caller.get("use_grants")["use_grants"]) == 3
    refused(
        caller.call("POST", "use_grants", {"use_grant": {"pool": "gpu", "project": "none"}}), 400, "unknown_project"
    )
    refused(caller.call("GET", "use_grants/pool:gpu:user:eve"), 404, "use_grant_not_found")
    assert caller.forbid("pool:gpu:user:ada")["changed"] is True
    assert caller.forbid("pool:gpu:user:ada")["changed"] is False
    documents = [{"use_grant_definition": {"pool": "gpu", "user": "ada"}}]
    assert caller.do("POST", "attribute_changes", {"changes": documents})["rows"][0]["action"] == "create"


@pytest.mark.parametrize(("noun", "path"), [("pool", "pools"), ("label", "labels"), ("cluster", "clusters")])
def test_what_a_use_grant_names_is_in_use(app: Flask, noun: str, path: str) -> None:
    caller = Person(app.test_client())
    caller.do("PUT", f"{path}/gpu", {noun: {} if noun == "cluster" else {"members": [{"id": "a"}]}})
    caller.do("POST", "use_grants", {"use_grant": {noun: "gpu", "group": "ml"}, "message": "theirs"})
    assert "gpu" not in [row["name"] for row in caller.get(f"{path}?unused=true")[path]]
    used = caller.get(f"uses?{noun}=gpu")
    assert ([grant["name"] for grant in used["use_grants"]], used["use_grant_count"]) == ([f"{noun}:gpu:group:ml"], 1)
    answer = refused(caller.call("DELETE", f"{path}/gpu"), 409, "in_use", "use-grant")
    [detail] = [detail for detail in answer["details"] if detail["field"] == "use-grant"]
    assert detail["reason"].startswith(f"{noun} 'gpu': group ml may use it (revision ")
    assert (detail["name"], detail["provenance"]["message"]) == ("gpu", "theirs")
    tried = caller.do("DELETE", f"{path}/gpu?force=true&dry_run=true")
    assert [user["field"] for user in tried["users"]] == ["use-grant"]
    both = [
        {f"{noun}_definition": {"name": "gpu"}, "delete": True},
        {"use_grant_definition": {"name": f"{noun}:gpu:group:ml"}, "delete": True},
    ]
    ok(caller.call("POST", "attribute_changes", {"changes": both}))


def test_use_grants_beyond_those_that_an_answer_has_are_counted(app: Flask) -> None:
    caller = Person(app.test_client())
    caller.pool("gpu", "a")
    given = [{"use_grant_definition": {"pool": "gpu", "user": f"user-{number:03}"}} for number in range(503)]
    ok(caller.call("POST", "attribute_changes", {"changes": given}))
    taken = [
        {"use_grant_definition": {"name": "pool:gpu:user:user-000"}, "delete": True},
        {"pool_definition": {"name": "gpu"}, "delete": True},
    ]
    answer = caller.do("POST", "attribute_changes?force=true&dry_run=true", {"changes": taken})
    assert sum(user.get("count", 1) for user in answer["users"]) == 502
    used = caller.get("uses?pool=gpu")
    assert (len(used["use_grants"]), used["use_grant_count"]) == (100, 503)


def test_use_grants_of_a_cluster_are_also_those_of_its_groups_and_told_to_who_may_read_them(
    app: Flask, root: Person, ada: Person
) -> None:
    root.do("PUT", "cluster_groups/racks", {"cluster_group": {"clusters": ["a", "b"]}})
    root.allow(cluster_group="racks", user="ada")
    root.allow(cluster="a", group="ml")
    root.allow(cluster="b", group="ml")
    names = [grant["name"] for grant in root.get("uses?cluster=a")["use_grants"]]
    assert names == ["cluster:a:group:ml", "cluster_group:racks:user:ada"]
    assert "use_grants" not in ada.get("uses?cluster=a")
    assert "use_grants" not in root.get("uses?queue=gpu")


def test_use_grants_of_an_admin_whose_clusters_are_open_get_a_warning_and_do_nothing(make_app: MakeApp) -> None:
    app = make_app()
    root, ada = made_user(app, "root", "admin"), made_user(app, "ada")
    root.pool("gpu", "a")
    assert [item["code"] for item in root.allow(pool="gpu", user="eve")["warnings"]] == ["use_is_open"]
    assert "use_is_open" in [item["code"] for item in root.get("warnings")["warnings"]]
    assert ada.create("e", **in_pool("gpu"))["cluster"] == "a"


# Placement


def test_nothing_may_be_used_that_is_not_granted_and_what_is_granted_is_used(
    root: Person, ada: Person, context: Context
) -> None:
    root.pool("gpu", "a", "b", "c")
    waits = ada.create("waits", **in_pool("gpu"))
    reason = waits["closure"]["reason"]
    assert ("cluster" in waits, reason["code"]) == (False, "CREATOR_MAY_NOT")
    assert reason["message"] == "No cluster of pool 'gpu' is able: 3 clusters may not be used by its creator."
    root.allow(cluster="b", user="ada")
    WaitingLoop(context)()
    assert ada.state("waits")[0] == "b"
    assert {ada.create(f"e{number}", **in_pool("gpu"))["cluster"] for number in range(20)} == {"b"}
    assert root.create("by-root", **in_pool("gpu"))["closure"]["reason"]["code"] == "CREATOR_MAY_NOT"


def test_a_pool_that_is_granted_covers_its_members_where_they_are_reached_through_it(root: Person, ada: Person) -> None:
    root.pool("gpu", "a", "b")
    root.pool("other", "a", "b")
    root.allow(pool="gpu", project=PROJECT)
    assert {ada.create(f"e{number}", **in_pool("gpu"))["cluster"] for number in range(20)} == {"a", "b"}
    assert "cluster" not in ada.create("other", **in_pool("other"))
    named = ada.create("named", cluster="a")
    assert named["closure"]["reason"] == {
        "code": "CREATOR_MAY_NOT",
        "message": "Cluster 'a' may not be used by its creator.",
    }


def test_rights_that_are_taken_move_what_waits_and_keep_the_rest_waiting(
    root: Person, ada: Person, context: Context
) -> None:
    root.pool("gpu", "a", "b")
    for cluster in ("a", "b"):
        root.allow(cluster=cluster, user="ada")
    loop = WaitingLoop(context)
    loop()
    placed = {f"e{number}": ada.create(f"e{number}", **in_pool("gpu"))["cluster"] for number in range(20)}
    assert set(placed.values()) == {"a", "b"}
    root.forbid("cluster:a:user:ada")
    loop()
    assert {ada.state(name)[0] for name in placed} == {"b"}
    root.forbid("cluster:b:user:ada")
    loop()
    assert {ada.state(name) for name in placed} == {(None, "CREATOR_MAY_NOT")}
    root.allow(pool="gpu", user="ada")
    loop()
    assert {ada.state(name)[0] for name in placed} == {"a", "b"}


def test_a_process_that_has_just_begun_tells_that_rights_had_changed(
    root: Person, ada: Person, context: Context
) -> None:
    root.pool("gpu", "a")
    root.allow(cluster="a", user="ada")
    ada.create("e", **in_pool("gpu"))
    root.forbid("cluster:a:user:ada")
    context.seen_changes.event = None  # as after a start, with another configuration or not
    decide_waiting(context)
    cause = "hich clusters creators may use had changed, by grants or the configuration, when this admin started"
    [entry] = root.get("timeline?source=redecision")["entries"]
    assert entry["message"].endswith(f". W{cause}.")
    assert root.explain("e")["because"] == f"from a: w{cause}"


def test_rights_that_are_taken_between_a_question_and_the_decision_count(
    app: Flask, root: Person, ada: Person, context: Context
) -> None:
    agents = {name: played(app, root, name) for name in ("a", "b")}
    for name, agent in agents.items():
        agent.sync(can_bid=True)
        root.allow(cluster=name, user="ada")
    root.pool("gpu", "a", "b", strategy="ask")

    def bid(name: str, start: int) -> None:
        asked = agents[name].sync(can_bid=True)["bid_requests"]
        bids = [{"question": each["question"], "uid": each["uid"], "answer": "yes"} for each in asked]
        agents[name].sync(can_bid=True, bids=[{**given, "start_seconds": start} for given in bids])

    assert ada.create("e", **in_pool("gpu"))["closure"]["reason"]["code"] == "ASKING"
    bid("a", 0)
    root.forbid("cluster:a:user:ada")
    bid("b", 600)
    assert ada.state("e")[0] == "b"
    told = ada.explain("e")
    assert "a" not in [candidate["cluster"] for candidate in told["candidates"]]
    assert [bid["cluster"] for bid in told["rounds"][0]["bids"]] == ["b"]
    assert {bid["cluster"] for bid in root.explain("e")["rounds"][0]["bids"]} == {"a", "b"}
    assert ada.create("f", **in_pool("gpu"))["closure"]["reason"]["code"] == "ASKING"
    root.forbid("cluster:b:user:ada")
    bid("b", 0)
    WaitingLoop(context)()
    assert ada.state("f") == (None, "CREATOR_MAY_NOT")


def test_an_agent_is_offered_nothing_that_its_creator_may_not_use_any_more(
    app: Flask, root: Person, ada: Person, context: Context
) -> None:
    agent = played(app, root, "a")
    root.allow(cluster="a", user="ada")
    root.pool("gpu", "a")
    for name in ("first", "second"):
        ada.create(name, **in_pool("gpu"))
    root.forbid("cluster:a:user:ada")
    root.do("POST", "use_grants", {"use_grant": {"cluster": "a", "user": "root"}})
    root.create("own", **in_pool("gpu"))
    assert list(agent.offered(1)) == ["own"]
    assert ada.state("first") == (None, "UNDECIDED")
    decide_undecided(context)
    assert ada.state("first") == ada.state("second") == (None, "CREATOR_MAY_NOT")


@pytest.mark.parametrize("use", ["open", "closed"])
@pytest.mark.parametrize("loss", ["deleted", "role"])
def test_what_a_creator_left_waits_once_the_creator_is_gone_or_may_not_create(
    make_app: MakeApp, use: str, loss: str
) -> None:
    app = make_app(placement={"clusterUse": use})
    context, root, ada = context_of(app), made_user(app, "root", "admin"), made_user(app, "ada")
    root.pool("gpu", "a")
    root.allow(pool="gpu", project=PROJECT)
    agent = played(app, root, "a")
    for name in ("running", "waiting"):
        ada.create(name, **in_pool("gpu"))
    assert agent.take(1) == ["running"]
    path = "users/ada" if loss == "deleted" else "grants/submitter:user:ada"
    root.do("DELETE", path)
    assert agent.offered(5) == {}
    WaitingLoop(context)()
    why = "its creator was deleted" if loss == "deleted" else "its creator may not create executions there"
    waiting = root.get(f"executions/{PROJECT}/{DOMAIN}/waiting")
    assert waiting["closure"]["reason"]["code"] == "CREATOR_MAY_NOT"
    assert why in waiting["closure"]["reason"]["message"]
    assert root.state("running")[0] == "a"


def test_redeciding_on_request_goes_by_the_rights_of_the_creator(root: Person, ada: Person) -> None:
    root.pool("gpu", "a", "b")
    root.allow(cluster="a", user="ada")
    ada.create("e", **in_pool("gpu"))
    root.forbid("cluster:a:user:ada")
    root.allow(cluster="b", user="root")
    answer = root.do("POST", "executions/redecide", {"selector": {"project": PROJECT}})
    assert answer["executions"][0]["reason"]["code"] == "CREATOR_MAY_NOT"
    assert ada.state("e") == (None, "CREATOR_MAY_NOT")


def test_groups_that_openid_named_last_count_where_no_request_is_there(root: Person, context: Context) -> None:
    root.pool("gpu", "a")
    root.allow(pool="gpu", group="ml")
    grants.create_grant(context, Grant(role="submitter", grantee=Grantee("group", "ml")), OPTIONS)

    def create_as(name: str, *groups: str) -> str | None:
        caller = Identity(user="kim", groups=frozenset(groups), proof=Proof.OPENID)
        spec = {"job": JOB, **in_pool("gpu")}
        request = read_request(project=PROJECT, domain=DOMAIN, name=name, spec=spec, inputs=None)
        return create_execution(context, request, creator=caller).execution.cluster

    assert create_as("first", "ml") == "a"
    decide_waiting(context)
    assert root.state("first")[0] == "a"
    assert create_as("second") is None
    WaitingLoop(context)()
    assert root.state("first") == (None, "CREATOR_MAY_NOT")


def test_creators_of_equal_rights_share_what_creation_has_in_memory(app: Flask, root: Person, context: Context) -> None:
    root.pool("gpu", "a", "b")
    root.allow(cluster="a", project=PROJECT)
    creators = [made_user(app, f"u{number}") for number in range(8)]
    root.allow(cluster="b", user="u0")
    for number, person in enumerate(creators):
        person.create(f"e{number}", **in_pool("gpu"))
    _, prepared = context.creation_cache.preparations._current
    assert len(prepared) == 2


def test_creation_asks_for_no_rights_while_clusters_are_open(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    root, ada = made_user(app, "root", "admin"), made_user(app, "ada")
    root.pool("gpu", "a")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr("admin.store.cache.known_rights.KnownRights.at", fail)
    assert ada.create("e", **in_pool("gpu"))["cluster"] == "a"


# What is told


def test_an_explanation_counts_the_clusters_that_its_asker_may_not_use(root: Person, ada: Person) -> None:
    root.pool("gpu", "a", "b", "c")
    root.do("POST", "clusters", {"cluster": {"name": "d"}})
    root.allow(cluster="b", user="ada")
    ada.create("e", **in_pool("gpu"))
    every_name = {cluster["name"] for cluster in root.get("clusters")["clusters"]}
    told = ada.explain("e")
    assert [entry["cluster"] for entry in told["candidates"]] == ["b"]
    assert (told["not_candidates"], told["untold_clusters"]) == ([], len(every_name) - 1)
    assert not {"'a'", "'c'", "'d'"} & set(str(told).split())
    every = root.explain("e")
    assert [entry["cluster"] for entry in every["candidates"]] == ["a", "b", "c"]
    assert "untold_clusters" not in every
    assert every["candidates"][0]["why_not"] == "may not be used by its creator"
    fits = ada.do("POST", "placements", {**asked("x", **in_pool("gpu")), "fleet": True})
    assert (fits["fleet"]["all"]["clusters"], fits["not_candidates"]) == (1, [])
    placed = ada.do("POST", "placements", asked("x", **in_pool("gpu")))
    assert ([entry["cluster"] for entry in placed["candidates"]], placed["untold_clusters"]) == (
        ["b"],
        len(every_name) - 1,
    )


def test_why_not_a_cluster_that_the_asker_may_not_use_does_not_say_that_there_is_none(
    make_app: MakeApp,
) -> None:
    app = make_app(**CLOSED, roles={"unseeing": {"permissions": ["executions.read", "projects.read"]}})
    root, ada = made_user(app, "root", "admin"), made_user(app, "ada")
    eve = made_user(app, "eve", "unseeing")
    root.pool("gpu", "a", "b")
    root.allow(cluster="b", user="ada")
    ada.create("e", **in_pool("gpu"))
    path = f"executions/{PROJECT}/{DOMAIN}/e/explanation?why_not="
    assert ada.get(f"{path}a")["why_not"] == {
        "cluster": "a",
        "chosen": False,
        "message": "Cluster 'a' is one that you may not use, and no more is told of it here.",
    }
    placed = ada.do("POST", "placements", {**asked("x", **in_pool("gpu")), "why_not": "a"})
    assert "is one that you may not use" in placed["why_not"]["message"]
    refused(ada.call("GET", f"{path}nowhere"), 404, "cluster_not_found")
    refused(eve.call("GET", f"{path}a"), 404, "cluster_not_found")


def test_clusters_that_the_creator_may_not_use_say_so_where_they_are_no_candidates(root: Person, ada: Person) -> None:
    root.pool("gpu", "a")
    root.pool("other", "d")
    for name in ("c", "d"):
        root.do("PUT", f"clusters/{name}", {"cluster": {}})
    root.allow(pool="gpu", user="ada")
    root.allow(pool="other", user="ada")
    ada.create("e", **in_pool("gpu"))
    explanation = root.get(f"executions/{PROJECT}/{DOMAIN}/e/explanation?why_not=c")
    others = {entry["cluster"]: entry for entry in explanation["not_candidates"]}
    assert {"reason": NOT_GRANTED} in others["c"]["reasons"]
    assert NOT_GRANTED in others["c"]["why_not"]
    assert NOT_GRANTED not in str(others["d"])  # which ada may use, though not by this pool
    assert explanation["why_not"]["message"].count(NOT_GRANTED) == 1
    assert "It could run it now" not in explanation["why_not"]["message"]
    listed = {entry["cluster"]: entry["why_not"] for entry in root.explain("e")["not_candidates"]}
    assert NOT_GRANTED in listed["c"]


def test_a_refusal_and_a_wait_name_no_cluster_that_the_creator_may_not_use(root: Person, ada: Person) -> None:
    for name in ("small", "secret"):
        root.do("POST", "clusters", {"cluster": {"name": name, "capacity": {"cpu": "1"}}})
    root.pool("gpu", "small", "secret")
    root.allow(cluster="small", user="ada")
    large = {**JOB, "resources": {"requests": {"cpu": "2"}}}
    answer = ada.call("POST", "executions", {**asked("e"), "spec": {"job": large, **in_pool("gpu")}})
    message = refused(answer, 400, "no_cluster_large_enough")["message"]
    assert "'small' is too small" in message
    assert "secret" not in message
    root.do("PUT", "clusters/small", {"cluster": {}})
    root.do("POST", "clusters/small/cordon", {})
    waits = ada.create("waits", **in_pool("gpu"))["closure"]["reason"]
    assert waits["code"] == "CLUSTERS_CORDONED"
    assert waits["message"].endswith("'small' is cordoned, 1 cluster may not be used by its creator.")
    status = ada.get(f"executions/{PROJECT}/{DOMAIN}/waits?with_status=true")
    assert "secret" not in str(status)
    assert "secret" not in str(ada.explain("waits"))


def test_a_refusal_names_another_place_only_if_the_creator_may_use_it(app: Flask, root: Person, ada: Person) -> None:
    for name, cpu in (("little", "1"), ("wide", "8")):
        played(app, root, name)
        root.do("PUT", f"clusters/{name}", {"cluster": {"capacity": {"cpu": cpu}}})
    root.pool("small", "little")
    root.pool("large", "wide")
    root.allow(pool="small", user="ada")
    job = {**JOB, "resources": {"requests": {"cpu": "2"}}}

    def remedy() -> str:
        answer = ada.call("POST", "executions?dry_run=true", {**asked("e"), "spec": {"job": job, **in_pool("small")}})
        message: str = refused(answer, 400, "no_cluster_large_enough")["message"]
        return message.rpartition(" wanted. ")[2]

    assert remedy() == "Ask for less."
    root.allow(cluster="wide", user="ada")
    assert remedy() == "Ask for less, or for pool 'large', which is able."
    root.forbid("cluster:wide:user:ada")
    root.allow(pool="large", user="ada")
    assert remedy() == "Ask for less, or for pool 'large', which is able."


@pytest.fixture
def bob(app: Flask, root: Person) -> Person:
    """A viewer, who may use nothing."""
    return made_user(app, "bob", "viewer")


def test_sentences_count_the_clusters_that_their_reader_may_not_use(root: Person, ada: Person, bob: Person) -> None:
    root.pool("gpu", "secret1", "secret2", "secret3", "known")
    root.allow(cluster="known", user="bob")
    for cluster in ("secret1", "secret2", "known"):
        root.allow(cluster=cluster, user="ada")
        root.do("POST", f"clusters/{cluster}/cordon", {})
    ada.create("e", **in_pool("gpu"))
    path = f"executions/{PROJECT}/{DOMAIN}/e"
    expected = (
        "No cluster of pool 'gpu' is able: 'known' is cordoned, 1 cluster may not be used by its creator, "
        "2 clusters you may not use."
    )
    assert bob.get(path)["closure"]["reason"]["message"] == expected
    assert bob.explain("e")["reason"]["message"] == expected
    assert bob.explain("e")["untold_clusters"] == len(root.get("clusters")["clusters"]) - 1
    many = ("executions", f"{path}/events", f"{path}?with_status=true", f"{path}/explanation")
    for asked_for in many:
        assert "secret" not in str(bob.get(asked_for)), asked_for
        assert "secret1" in str(ada.get(asked_for)), asked_for
        assert "secret1" in str(root.get(asked_for)), asked_for


def test_where_an_execution_is_is_told_to_whoever_may_read_it(root: Person, ada: Person, bob: Person) -> None:
    root.pool("gpu", "secret")
    root.allow(pool="gpu", user="ada")
    ada.create("e", **in_pool("gpu"))
    told = bob.explain("e")
    assert told["cluster"] == "secret"
    assert "'secret'" in told["reason"]["message"]
    assert bob.state("e")[0] == "secret"


def test_what_a_caller_wrote_is_told_as_it_was_written(root: Person, ada: Person, bob: Person) -> None:
    root.pool("gpu", "secret")
    root.allow(pool="gpu", user="ada")
    root.do("POST", "clusters/secret/cordon", {})
    job = {**JOB, "command": ["echo", "'secret'"], "environment": {"message": "'secret'"}}
    ada.do("POST", "executions", {**asked("e"), "spec": {"job": job, **in_pool("gpu")}})
    told = bob.explain("e")
    assert told["job"].items() >= job.items()
    assert "'secret'" not in str(told["reason"])


def test_a_simulation_counts_the_clusters_without_work_that_its_asker_may_not_use(
    root: Person, ada: Person, bob: Person
) -> None:
    root.pool("gpu", "a", "b")
    root.allow(cluster="a", user="bob")
    for cluster in ("a", "b"):
        root.do("POST", f"clusters/{cluster}/disable", {})
    change = {"resource_type": "EXECUTION_CLUSTER_LABEL", "project": PROJECT, "payload": {"value": "mycluster"}}
    body = {"changes": [change], "since": "1h"}
    root_off = root.do("POST", "simulations", body)["fleet"]["off"]
    assert {"a", "b"} <= root_off.keys()
    editor_of_nothing = bob.call("POST", "simulations", body)
    assert editor_of_nothing.status_code == 403
    root.do("POST", "grants", {"grant": {"role": "editor", "user": "bob"}})
    told = bob.do("POST", "simulations", body)["fleet"]
    assert (list(told["off"]), told["untold_clusters"]) == (["a"], len(root_off) - 1)


def test_whoever_operates_clusters_is_told_of_all(app: Flask, root: Person, ada: Person) -> None:
    operator = made_user(app, "otto", "operator")
    root.pool("gpu", "a", "b")
    ada.create("e", **in_pool("gpu"))
    assert "untold_clusters" not in operator.explain("e")
    assert [entry["cluster"] for entry in operator.explain("e")["candidates"]] == ["a", "b"]


def test_what_a_project_may_use_is_told_to_those_who_know_the_project(app: Flask, root: Person) -> None:
    root.pool("gpu", "a", "b")
    root.allow(cluster="a", project=PROJECT)
    root.allow(cluster="b", project="flyteexamples")
    context = context_of(app)
    users.create_user(context, "here", {}, OPTIONS)
    here = Grant(role="submitter", grantee=Grantee("user", "here"), scope=Scope(project=PROJECT))
    grants.create_grant(context, here, OPTIONS)
    person = Person(app.test_client(), user_tokens.create_token(context, "here", "laptop").token)
    person.create("e", **in_pool("gpu"))
    assert [entry["cluster"] for entry in person.explain("e")["candidates"]] == ["a"]
    assert [entry["cluster"] for entry in made_user(app, "all").explain("e")["candidates"]] == ["a", "b"]


# Plans


def effects(answer: Any) -> dict[str, tuple[str, str | None]]:
    """What becomes of executions: the outcome, and where each would be."""
    told = answer["executions"]["effects"]
    return {effect["id"]["name"]: (effect["outcome"], effect.get("cluster")) for effect in told}


def planned(person: Person, *changes: dict[str, Any]) -> Any:
    return person.do("POST", "attribute_changes?dry_run=true", {"changes": list(changes)})


def test_a_plan_of_use_says_which_executions_would_move_or_wait(
    root: Person, ada: Person, app: Flask, context: Context
) -> None:
    eve = made_user(app, "eve")
    root.pool("gpu", "a", "b")
    root.do("PUT", "cluster_groups/some", {"cluster_group": {"clusters": ["a"]}})
    root.allow(cluster_group="some", user="ada")
    root.allow(cluster_group="some", user="eve")
    root.allow(cluster="b", user="eve")
    ada.create("of-ada", **in_pool("gpu"))
    ada.create("also-of-ada", **in_pool("gpu"))
    for number in range(9):
        eve.create(f"e{number}", **in_pool("gpu"))
    WaitingLoop(context)()
    at_a = {f"e{number}" for number in range(9) if eve.state(f"e{number}")[0] == "a"}
    assert at_a
    removal = {"use_grant_definition": {"cluster_group": "some", "user": "ada"}, "delete": True}
    waits = {"of-ada": ("WAITS", None), "also-of-ada": ("WAITS", None)}
    assert effects(planned(root, removal)) == waits
    tried = root.do("DELETE", "use_grants/cluster_group:some:user:ada?dry_run=true")
    assert effects(tried) == waits
    moved = planned(root, {"cluster_group_definition": {"name": "some", "clusters": ["b"]}})
    to_b = ("MOVES", "b")
    assert effects(moved) == dict.fromkeys(["of-ada", "also-of-ada", *at_a], to_b)
    replaced = planned(root, removal, {"use_grant_definition": {"cluster": "b", "user": "ada"}})
    assert effects(replaced) == {"of-ada": to_b, "also-of-ada": to_b}
    left = planned(root, {"user_definition": {"name": "ada"}, "delete": True})
    assert effects(left) == waits
    lost = root.do("DELETE", "grants/submitter:user:ada?dry_run=true")
    assert effects(lost) == waits
    for name in ("of-ada", "also-of-ada"):
        assert ada.state(name)[0] == "a"
    root.forbid("cluster_group:some:user:ada")
    WaitingLoop(context)()
    assert ada.state("of-ada") == (None, "CREATOR_MAY_NOT")
    assert effects(planned(root, {"use_grant_definition": {"cluster": "b", "user": "ada"}}))["of-ada"][1] == "b"


def test_where_something_would_run_after_a_use_was_granted(root: Person, ada: Person) -> None:
    root.pool("gpu", "a")
    change = {"use_grant_definition": {"pool": "gpu", "user": "root"}}
    body = asked("x", **in_pool("gpu"))
    assert "cluster" not in root.do("POST", "placements", body)
    assert root.do("POST", "placements", {**body, "changes": [change]})["cluster"] == "a"
    assert ada.call("POST", "placements", {**body, "changes": [change]}).status_code == 403


def test_a_plan_of_use_has_no_effect_while_clusters_are_open(make_app: MakeApp) -> None:
    app = make_app()
    root, ada = made_user(app, "root", "admin"), made_user(app, "ada")
    root.pool("gpu", "a")
    root.allow(pool="gpu", user="ada")
    ada.create("e", **in_pool("gpu"))
    assert effects(root.do("DELETE", "use_grants/pool:gpu:user:ada?dry_run=true")) == {}


# Who may give it


GROUPERS = {"roles": {"grouper": {"permissions": ["groups.read", "groups.write", "tokens.write", "use_grants.read"]}}}


def test_nobody_gives_the_use_that_they_lack(make_app: MakeApp) -> None:
    app = make_app(**CLOSED, **GROUPERS)
    root, mallory = made_user(app, "root", "admin"), made_user(app, "mallory", "grouper")
    users.create_user(context_of(app), "gpu-bot", {}, OPTIONS)
    root.do("PUT", "groups/ml", {"group": {}})
    root.do("PUT", "groups/above", {"group": {"groups": ["ml"]}})
    members = {"group": {"users": ["mallory"]}}
    assert mallory.call("PUT", "groups/ml?dry_run=true", members).status_code == 200
    assert mallory.call("POST", "users/gpu-bot/tokens", {"name": "first"}).status_code == 200
    root.pool("gpu", "a")
    root.allow(pool="gpu", group="above")
    root.allow(pool="gpu", user="gpu-bot")
    denied = refused(mallory.call("PUT", "groups/ml", members), 403, "permission_denied")["message"]
    assert denied.startswith("Group ml may use pool gpu. Nobody gives what they lack. User mallory lacks")
    assert "use_grants.write" in denied
    change = {"group_definition": {"name": "ml", "users": ["mallory"]}}
    refused(mallory.call("POST", "attribute_changes", {"changes": [change]}), 403, "permission_denied")
    refused(mallory.call("POST", "users/gpu-bot/tokens", {"name": "second"}), 403, "permission_denied")
    root.allow(pool="gpu", user="mallory")
    assert mallory.do("PUT", "groups/ml", members)["changed"] is True


def test_no_rollback_or_file_brings_a_use_back_without_the_permission(app: Flask, root: Person) -> None:
    root.pool("gpu", "a")
    given = root.allow(pool="gpu", user="eve")["revision"]
    taken = root.forbid("pool:gpu:user:eve")["revision"]
    editor, operator = made_user(app, "edit", "editor"), made_user(app, "otto", "operator")
    document = {"use_grant_definition": {"pool": "gpu", "user": "eve"}}
    for query in ("", "?dry_run=true"):
        refused(editor.call("POST", f"attribute_changes{query}", {"changes": [document]}), 403, "permission_denied")
        refused(editor.call("POST", f"rollbacks{query}", {"revision": taken}), 404, "revision_not_found")
        refused(editor.call("POST", f"rollbacks{query}", {"to": given, "everything": True}), 403, "permission_denied")
    assert root.get("use_grants")["use_grants"] == []
    assert operator.do("POST", "rollbacks", {"revision": taken})["changed"] is True


# Who is asked


def test_without_users_everything_may_be_used(app: Flask) -> None:
    caller = Person(app.test_client())
    caller.pool("gpu", "a")
    assert caller.create("e", **in_pool("gpu"))["cluster"] == "a"
    assert "untold_clusters" not in caller.explain("e")


def test_a_user_whom_only_openid_knows_may_use_what_is_granted(root: Person, context: Context) -> None:
    root.pool("gpu", "a")

    def create_as(name: str, identity: Identity) -> str | None:
        spec = {"job": JOB, **in_pool("gpu")}
        request = read_request(project=PROJECT, domain=DOMAIN, name=name, spec=spec, inputs=None)
        return create_execution(context, request, creator=identity).execution.cluster

    kim = Identity(user="kim", proof=Proof.OPENID)
    agent = Identity(user="cluster/b", proof=Proof.AGENT, cluster="b")
    assert [create_as("e1", kim), create_as("e2", agent)] == [None, None]
    root.allow(pool="gpu", user="kim")
    root.allow(cluster="a", user="cluster/b")
    assert [create_as("e3", kim), create_as("e4", agent)] == ["a", "a"]


def test_groups_are_noted_again_after_another_replica_noted_others(
    root: Person, context: Context, make_app: MakeApp
) -> None:
    def note(replica: Context, *groups: str) -> None:
        replica.known_grants.forget()
        replica.known_grants.current(replica.database, replica.settings.roles)
        note_proven_groups(replica, Identity(user="kim", groups=frozenset(groups), proof=Proof.OPENID))

    other = replace(context, known_grants=KnownGrants(), noted_groups={})
    note(context, "ml")
    note(other)
    note(context, "ml")
    with context.database.reading() as connection:
        assert groups_of_proofs(connection) == {"kim": frozenset({"ml"})}


def test_of_the_groups_of_two_tokens_those_of_the_later_one_count_whichever_is_used_last(
    root: Person, context: Context
) -> None:
    other = replace(context, known_grants=KnownGrants(), noted_groups={})

    def note(replica: Context, issued_at: float | None, *groups: str) -> tuple[set[str], int]:
        """The groups that count then, and the number of changes of rights."""
        replica.known_grants.forget()
        replica.known_grants.current(replica.database, replica.settings.roles)
        identity = Identity(user="kim", groups=frozenset(groups), proof=Proof.OPENID, issued_at=issued_at)
        note_proven_groups(replica, identity)
        with context.database.reading() as connection:
            return set(groups_of_proofs(connection)["kim"]), stored_grants.number(connection)

    assert note(context, 100.0, "ops")[0] == {"ops"}
    counting = note(context, 200.0, "ml")
    assert counting[0] == {"ml"}
    for replica in (context, other, context, other):  # each of which has one of the tokens
        assert note(replica, 100.0, "ops") == counting
        assert note(replica, 200.0, "ops") == counting  # issued in the same second
        assert note(replica, 200.0, "ml") == counting
    with statements(context) as sent:
        note_proven_groups(
            context, Identity(user="kim", groups=frozenset({"ops"}), proof=Proof.OPENID, issued_at=100.0)
        )
    assert sent == []
    assert note(context, 201.0)[0] == set()
    assert note(context, None, "any")[0] == {"any"}  # which no time is known of


def test_rights_that_a_transaction_takes_back_are_not_remembered(
    root: Person, ada: Person, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usable() -> frozenset[str]:
        with context.database.reading() as connection:
            creator = Creator("ada", Proof.TOKEN.value)
            rights = current_rights(context, connection).usable(creator, Scope(DOMAIN, PROJECT))
        assert rights is not None
        return rights.clusters

    assert usable() == frozenset()
    store, stored = attributes.store_revisions, []

    def fail_at_the_end(connection: sqlalchemy.Connection, drafted: Any) -> None:
        stored.append(drafted)
        if len(stored) == 2:
            raise RuntimeError("the batch fails")
        store(connection, drafted)

    monkeypatch.setattr(attributes, "store_revisions", fail_at_the_end)
    role = Role(name="grouper", description="Changes groups.", permissions=frozenset({"groups.write"}))
    grouper = Grants([Grant(role="grouper", grantee=Grantee("user", "eve"))], Memberships([]), {"grouper": role})
    eve = Access(Identity(user="eve", proof=Proof.TOKEN), grouper)
    use = UseGrant(target=Named("cluster", "a"), grantee=Named("user", "ada"))
    batch = [
        ChangeRequest(context=context, writes=[use_grant_write(use)], options=OPTIONS),
        ChangeRequest(
            context=context, writes=[group_write("ml", {"users": ["eve"]})], options=replace(OPTIONS, access=eve)
        ),
    ]
    with pytest.raises(RuntimeError):
        commit_changes(batch)
    assert len(stored) == 2
    assert usable() == frozenset()


def test_a_transaction_that_began_before_a_change_does_not_bring_back_what_was_taken(
    root: Person, ada: Person, context: Context
) -> None:
    roles = context.settings.roles
    with context.database.reading() as connection:
        number = stored_grants.number(connection)
        context.known_grants.forget()
        context.known_grants.at(connection, number, roles)
    assert context.known_grants.number is None


# Known in memory


class Replica:
    """Another admin on the same database, and what it decides by."""

    def __init__(self, app: Flask) -> None:
        self.context = context_of(app)

    def usable(self, user: str, proof: Proof = Proof.TOKEN) -> tuple[set[str], str] | None:
        """The clusters that a user may use at the next decision, and why not the others."""
        fresh = replace(self.context, known_grants=KnownGrants(), known_rights=KnownRights())
        scope, creator = Scope(DOMAIN, PROJECT), Creator(user, proof.value)
        with self.context.database.writing() as connection:
            usable, expected = (
                current_rights(replica, connection).usable(creator, scope) for replica in (self.context, fresh)
            )
        assert usable == expected
        return None if usable is None else (set(usable.clusters), usable.reason)

    def read_again(self) -> set[str]:
        """The tables that the next decision reads for rights."""
        with statements(self.context) as seen:
            decide_waiting(self.context)
        return {table for table in _RIGHTS_TABLES if any(re.search(rf"FROM {table}\b", query) for query in seen)}


_RIGHTS_TABLES = ("grants", "use_grants", "user_groups", "cluster_groups", "users", "proven_groups")


@pytest.fixture
def replica(make_app: MakeApp, root: Person, ada: Person) -> Replica:
    """Another admin that knows all rights, and has an execution to decide."""
    root.pool("gpu", "a", "b")
    ada.create("waits", **in_pool("gpu"))
    replica = Replica(make_app(**CLOSED))
    assert replica.read_again() == set(_RIGHTS_TABLES)
    assert replica.read_again() == set()
    return replica


def test_the_next_decision_anywhere_sees_every_change_of_rights(root: Person, replica: Replica) -> None:
    assert replica.usable("ada") == (set(), NOT_GRANTED)
    root.allow(cluster="a", user="ada")
    assert replica.usable("ada") == ({"a"}, NOT_GRANTED)
    root.do("PUT", "cluster_groups/racks", {"cluster_group": {"clusters": ["b"]}})
    root.allow(cluster_group="racks", group="ml")
    assert replica.usable("ada") == ({"a"}, NOT_GRANTED)
    root.do("PUT", "groups/ml", {"group": {"users": ["ada"]}})
    assert replica.usable("ada") == ({"a", "b"}, NOT_GRANTED)
    root.do("PUT", "cluster_groups/racks", {"cluster_group": {"clusters": ["b", "c"]}})
    assert replica.usable("ada") == ({"a", "b", "c"}, NOT_GRANTED)
    root.do("DELETE", "grants/submitter:user:ada")
    assert replica.usable("ada") == (set(), MAY_NOT_CREATE)
    root.do("POST", "grants", {"grant": {"role": "editor", "user": "ada"}})
    root.forbid("cluster:a:user:ada")
    assert replica.usable("ada") == ({"b", "c"}, NOT_GRANTED)
    root.do("DELETE", "users/ada")
    assert replica.usable("ada") == (set(), CREATOR_DELETED)


def test_the_next_decision_anywhere_sees_the_groups_that_a_proof_names(
    root: Person, replica: Replica, context: Context
) -> None:
    root.do("POST", "grants", {"grant": {"role": "submitter", "user": "kim"}})
    root.allow(cluster="a", group="ml")
    assert replica.usable("kim", Proof.OPENID) == (set(), NOT_GRANTED)
    for groups, clusters in (({"ml"}, {"a"}), ({"ops"}, set()), ({"ml", "ops"}, {"a"})):
        note_proven_groups(context, Identity(user="kim", groups=frozenset(groups), proof=Proof.OPENID))
        assert replica.usable("kim", Proof.OPENID) == (clusters, NOT_GRANTED)


def test_a_decision_reads_of_rights_only_what_has_changed(root: Person, replica: Replica) -> None:
    root.do("POST", "grants", {"grant": {"role": "viewer", "user": "bea"}})
    assert replica.read_again() == {"proven_groups"}
    root.allow(cluster="a", user="bea")
    assert replica.read_again() == {"proven_groups", "use_grants", "cluster_groups"}
    root.do("POST", "users", {"user": {"name": "bea"}})
    assert replica.read_again() == {"proven_groups", "users"}
    root.do("PUT", "groups/ml", {"group": {"users": ["bea"]}})
    assert replica.read_again() == {"proven_groups", "user_groups"}
    settings = {"cluster_assignment": {"cluster_pool_name": "gpu"}}
    root.do("PUT", f"project_attributes/{PROJECT}", {"attributes": {"matching_attributes": settings}})
    assert replica.read_again() == set()


def test_no_decision_reads_rights_for_a_token_that_is_revoked_or_used(
    ada: Person, context: Context, replica: Replica
) -> None:
    decided: list[Context] = []

    def decide(context: Context) -> list[Redecided]:
        decided.append(context)
        return []

    loop = WaitingLoop(replica.context, interval=3600, decide=decide)
    loop()
    token = user_tokens.create_token(context, "ada", "desk")
    Person(ada.client, token.token).get("whoami")
    context.token_uses.write(context.database)
    assert user_tokens.revoke(context, "ada", token.prefix)
    assert replica.read_again() == set()
    loop()
    assert len(decided) == 1


def test_a_transaction_that_began_before_a_change_decides_by_what_is_known_since(
    root: Person, replica: Replica
) -> None:
    context = replica.context
    with context.database.reading() as earlier:
        revisions.head(earlier)  # from here on it sees no more changes
        root.do("POST", "grants", {"grant": {"role": "viewer", "user": "bea"}})
        root.allow(cluster="a", user="ada")
        assert replica.usable("ada") == ({"a"}, NOT_GRANTED)
        with statements(context) as seen:
            usable = current_rights(context, earlier).usable(Creator("ada", "token"), Scope(DOMAIN, PROJECT))
        assert usable is not None
        assert (set(usable.clusters), len(seen)) == ({"a"}, 1)
    assert replica.read_again() == set()


def test_decisions_after_a_restore_go_by_the_rights_of_the_backup(root: Person, replica: Replica) -> None:
    root.allow(cluster="a", user="ada")
    assert replica.usable("ada") == ({"a"}, NOT_GRANTED)
    with replica.context.database.writing() as connection:  # as many changes, but others
        connection.execute(sqlalchemy.update(revisions_table).values(created_at=datetime(2026, 1, 1, tzinfo=UTC)))
        for table in (stored_grants.grants, use_grants_table):
            connection.execute(sqlalchemy.delete(table).where(table.c.grantee == "ada"))
    assert replica.usable("ada") == (set(), MAY_NOT_CREATE)


# Never


def played(app: Flask, root: Person, cluster: str) -> PlayedAgent:
    """A played agent, whose client calls as the administrator where it has no token of its own."""
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = root.headers["Authorization"]
    return played_agent(client, context_of(app), cluster)


#: How soon a cluster is lost, and its leases are over.
QUICK = {"agents": {"unreachableSeconds": 2, "lostSeconds": 4, "leaseSeconds": 2, "waitSeconds": 0}}
CLUSTERS = ("a", "b", "c", "forbidden")
#: What may be granted to ada, and the clusters that each covers.
USES = {
    "cluster:a:user:ada": ({"cluster": "a", "user": "ada"}, {"a"}),
    "cluster_group:some:group:ml": ({"cluster_group": "some", "group": "ml"}, {"b", "c"}),
}


class Story:
    """Random events on a fleet, after each of which everything of ada's must be where ada may be."""

    def __init__(self, app: Flask, root: Person) -> None:
        self.chance = random.Random(18)
        self.root = root
        self.clock = WatchedClock(app)
        self.context = context_of(app)
        self.agents = {name: played(app, root, name) for name in CLUSTERS}
        root.pool("gpu", *CLUSTERS)
        root.pool("spill", *CLUSTERS, strategy="spill")
        root.pool("open", "a", "b")
        root.do("PUT", "groups/ml", {"group": {"users": ["ada"]}})
        root.do("PUT", "cluster_groups/some", {"cluster_group": {"clusters": ["b", "c"]}})
        root.allow(pool="open", project=PROJECT)
        self.given: set[str] = set()
        self.loop = WaitingLoop(self.context, interval=0)
        self.created = self.placed = self.leased = self.moved = 0

    @property
    def happened(self) -> int:
        """Placements, leases, and new decisions."""
        return self.placed + self.leased + self.moved

    def go_on(self) -> None:
        steps = (self.create, self.create, self.lease, self.grant, self.switch, self.lose, self.redecide)
        self.chance.choice(steps)()

    def create(self) -> None:
        requests = []
        for _ in range(25):
            self.created += 1
            spec = {"job": JOB, "retry": {"attempts": 5, "on_lost": "retry", "backoff": "1s"}}
            spec |= in_pool(self.chance.choice(["gpu", "spill", "open"]))
            name = f"e{self.created}"
            requests.append(read_request(project=PROJECT, domain=DOMAIN, name=name, spec=spec, inputs=None))
        for result in create_executions(self.context, requests, creator=Identity(user="ada", proof=Proof.TOKEN)):
            assert isinstance(result, Created), result
            self.check(result.execution.cluster, result.execution.route_name)
        self.placed += len(requests)

    def lease(self) -> None:
        name = self.chance.choice(CLUSTERS)
        agent = self.agents[name]
        taken = agent.take(8)
        for execution in self.stored():
            if execution.name in taken:
                self.check(execution.cluster, execution.route_name)
                assert execution.cluster == name
        self.leased += len(taken)
        if self.chance.random() < 0.7:
            agent.finish(list(agent.holding))

    def grant(self) -> None:
        name = self.chance.choice(list(USES))
        if name in self.given:
            self.root.forbid(name)
        else:
            self.root.allow(**USES[name][0])
        self.given ^= {name}
        if self.chance.random() < 0.7:
            self.decide()

    def switch(self) -> None:
        word = self.chance.choice(["cordon", "uncordon", "uncordon", "disable", "enable", "enable"])
        self.root.do("POST", f"clusters/{self.chance.choice(CLUSTERS)}/{word}", {})
        self.decide()

    def lose(self) -> None:
        """One cluster falls silent until what it had is given away; then its agent is back."""
        lost = self.chance.choice(CLUSTERS)
        for _ in range(7):
            self.clock.advance(1)
            for name, agent in self.agents.items():
                if name != lost:
                    agent.sync()
        judge_health(self.context)
        self.moved += len(evict_from_lost(self.context, 1000))
        decide_undecided(self.context)
        self.decide()
        self.agents[lost].holding.clear()
        self.agents[lost].sync()

    def redecide(self) -> None:
        answer = self.root.do("POST", "executions/redecide", {"selector": {"project": PROJECT, "pool": "open"}})
        self.moved += answer["changed"]
        self.decide()

    def decide(self) -> None:
        self.moved += len(decide_waiting(self.context))
        while decide_undecided(self.context):
            pass
        self.loop()
        for execution in self.stored():
            if execution.phase == "QUEUED" and execution.lease_expires_at is None:
                self.check(execution.cluster, execution.route_name)

    def stored(self) -> Iterable[Execution]:
        """What is not over."""
        with self.context.database.reading() as connection:
            listed = unfinished.first(connection, 100_000)
            return [execution for id in listed if (execution := executions.get(connection, id)) is not None]

    def check(self, cluster: str | None, route: str) -> None:
        allowed = set[str]().union(*(USES[name][1] for name in self.given), {"a", "b"} if route == "open" else set())
        assert cluster is None or cluster in allowed, (cluster, route, self.given)


def test_nothing_lands_on_a_cluster_that_its_creator_may_not_use_whatever_happens(
    make_app: MakeApp, scale: Scale
) -> None:
    app = make_app(**CLOSED, **QUICK)
    root = made_user(app, "root", "admin")
    made_user(app, "ada")
    story = Story(app, root)
    while story.happened < scale(600, full=10_000) or not story.leased:
        story.go_on()
    assert min(story.placed, story.leased, story.moved) > 0
    events = root.get("clusters/forbidden/events?limit=1000")["events"]
    assert events
    counted = root.get("placement_counts?by=cluster")
    assert "forbidden" not in str(counted)
