"""How agents get in: registration, tokens, and what a cluster's token opens; on both databases."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select, update
from werkzeug.test import TestResponse

from admin.core.grants import Grant, Grantee
from admin.core.hosts import source_of
from admin.core.settings.scopes import Scope
from admin.errors import TooManyAttempts
from admin.services import grants, users
from admin.services.agents import MOST_WRONG_SECRETS
from admin.services.changeable.base import ChangeOptions
from admin.services.context import Context
from admin.services.wrong_attempts import FailureLimiter
from admin.store.database import metadata
from admin.store.tokens import cluster_tokens
from tests.conftest import MakeApp
from tests.support.agents import Clock, PlayedAgent, names, played_agent
from tests.support.apps import context_of
from tests.support.descriptions import pooled
from tests.support.placing import (
    API,
    DOMAIN,
    JOB,
    PROJECT,
    asked,
    create,
    created,
    execution,
    get,
    ok,
    put_pool,
    refused,
)

SECRET_FILE = Path(__file__).parents[1] / "data" / "registration-secret"
SECRET = SECRET_FILE.read_text().strip()
OPERATOR = "operators-token-1234567890"
SECTIONS = {"clusters": {"registrationSecretFile": str(SECRET_FILE)}}


def sections(registration: str, **more: Any) -> dict[str, Any]:
    """Configuration under which agents register in some way."""
    return {"clusters": {**SECTIONS["clusters"], "registration": registration, **more}}


@pytest.fixture
def api(shared_app: Flask) -> FlaskClient:
    """An admin that any agent can register with; tests keep to clusters of their own."""
    shared_app.extensions["rainbow-registration-limiter"] = FailureLimiter(MOST_WRONG_SECRETS)
    return shared_app.test_client()


@pytest.fixture
def a() -> str:
    """A name that no cluster has."""
    return f"a-{secrets.token_hex(4)}"


def register(
    api: FlaskClient, name: str, secret: str = SECRET, address: str = "127.0.0.1", **more: Any
) -> TestResponse:
    source = {"REMOTE_ADDR": address}
    return api.post(f"{API}/clusters/{name}/register", json={"secret": secret, **more}, environ_base=source)


def registered(api: FlaskClient, name: str, **more: Any) -> PlayedAgent:
    answer = ok(register(api, name, **more))
    return PlayedAgent(client=api, cluster=name, token=answer["token"])


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def shown_tokens(api: FlaskClient, cluster: str) -> dict[str, str]:
    return {token["prefix"]: token["state"] for token in get(api, f"clusters/{cluster}/tokens")["tokens"]}


# Registration


def test_an_agent_registers_and_its_cluster_is_part_of_the_fleet(api: FlaskClient, a: str) -> None:
    description = {"engine": "slurm", "engine_version": "24.05", "plugins": ["mpi"], "capacity": {"cpu": "8"}}
    answer = register(api, a, description=description)
    assert answer.headers["Cache-Control"] == "no-store"
    issued = ok(answer)
    assert issued["token"].startswith(f"rbc-{issued['prefix']}-")
    assert (issued["cluster"], len(issued["prefix"]), len(issued["token"]) > 50) == (a, 8, True)
    cluster = get(api, f"clusters/{a}")
    assert (cluster["state"], cluster["engine"], cluster["plugins"], cluster["source"]) == (
        "expected",
        "slurm",
        ["mpi"],
        "managed",
    )
    assert cluster["capacity"]["cpu"] == "8"
    assert get(api, "revisions?limit=1")["revisions"][0]["author"] == "registration"
    agent = PlayedAgent(client=api, cluster=a, token=issued["token"])
    assert agent.sync()["state"] == {
        "enabled": True,
        "cordoned": False,
        "draining": False,
        "admitted": True,
        "description": "",
    }
    cluster = get(api, f"clusters/{a}")
    assert (cluster["state"], cluster["agent"], cluster["leases"]) == ("ready", "agent-1", 0)
    created(api, a, cluster=a)
    assert agent.take() == [a]


def test_a_graph_is_stored_with_the_registration_and_a_wrong_one_registers_nothing(api: FlaskClient, a: str) -> None:
    report, graph = {"engine": "slurm", "capacity": {"cpu": "24"}}, pooled(2, 12)
    for description, field in (
        ({"graph": {"nodes": {"0": {}}, "edges": []}}, "description.graph.nodes.0.metadata.type"),
        ({**graph, "engine": "slurm"}, "description.engine"),
        ({**graph, "scheduling": {}}, "description.scheduling"),
        ({**graph, "subsystems": []}, "description.subsystems"),
        ({"subsystems": {}}, "description.graph"),
        ({"engine": "slurm"}, "description"),
    ):
        refused(register(api, a, report=report, description=description), 400, "invalid_request", field)
    refused(register(api, a, report={"engin": "x"}, description=graph), 400, "invalid_request", "engin")
    assert api.get(f"{API}/clusters/{a}").status_code == 404
    token = ok(register(api, a, report=report, description=graph))["token"]
    cluster = get(api, f"clusters/{a}")
    assert (cluster["engine"], cluster["capacity"]["cpu"]) == ("slurm", "24")
    described = get(api, f"clusters/{a}/description")
    assert (described["revision"], described["author"], described["by_agent"]) == (1, f"cluster/{a}", True)
    assert described["document"] == graph
    agent = PlayedAgent(client=api, cluster=a, token=token)
    assert agent.sync()["state"]["description"] == described["digest"]
    job = {"command": ["true"], "resources": {"requests": {"cpu": "2"}, "tasks": 13}}
    refused(create(api, a, cluster=a, job=job), 400, "no_cluster_large_enough")


def test_a_clusters_token_creates_and_reads_within_the_grants_of_its_cluster(app: Flask) -> None:
    context, api = context_of(app), app.test_client()
    agent = played_agent(api, context, "alpha")
    as_agent = app.test_client()
    as_agent.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {agent.token}"
    created(as_agent, "own", cluster="alpha")  # without users nobody is refused
    created(api, "before", cluster="alpha")
    users.create_user(context, "ada", {}, ChangeOptions())

    refused(create(as_agent, "late", cluster="alpha"), 400, "unknown_project")
    refused(as_agent.get(f"{API}/executions"), 403, "permission_denied")
    assert agent.take(2) == ["before"]  # what an agent does needs no grant, but what it created does
    assert ok(as_agent.post(f"{API}/clusters/alpha/tokens", json={}))["cluster"] == "alpha"

    here = Scope(project=PROJECT, domain=DOMAIN)
    submitter = Grant(role="submitter", grantee=Grantee("user", "cluster/alpha"), scope=here)
    grants.create_grant(context, submitter, ChangeOptions())
    created(as_agent, "second", cluster="alpha")
    assert names(get(as_agent, "executions")["executions"]) == ["second", "before", "own"]
    assert execution(as_agent, "second")["created_by"] == "cluster/alpha"
    denied = refused(create(as_agent, "third", domain="production"), 403, "permission_denied")
    assert "rainbowctl explain access cluster/alpha executions.create" in denied["message"]
    # The role may do more than the token: the gate keeps agents to what is for them.
    ended = as_agent.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/second")
    refused(ended, 403, "forbidden")


def test_every_refusal_looks_the_same_and_guessing_is_stopped(make_app: MakeApp) -> None:
    api = make_app(**sections("declared", clusterConfigs=[{"name": "declared"}])).test_client()
    answers = [
        register(api, "declared", "wrong-secret"),  # a name that might
        register(api, "another", SECRET),  # the right secret, but a name that may not
        register(api, "another", "wrong-secret"),
        register(api, "declared", SECRET + "\n"),
        register(api, "declared", "\N{SNOWMAN}"),
        register(api, "x" * 300, SECRET),
        register(api, "a%20b", SECRET),
    ]
    for answer in answers:
        refused(answer, 401, "registration_refused")
    bodies = [{**answer.json, "request_id": ""} for answer in answers if answer.json]
    assert all(body == bodies[0] for body in bodies)
    assert {tuple(sorted(dict(answer.headers))) for answer in answers} == {tuple(sorted(dict(answers[0].headers)))}
    assert [cluster["name"] for cluster in get(api, "clusters")["clusters"]] == ["declared"]
    ok(register(api, "declared"))
    assert get(api, "revisions")["revisions"] == []  # what configuration declares is not defined once more
    for _ in range(3):
        refused(register(api, "declared", "wrong-secret"), 401, "registration_refused")
    stopped = register(api, "declared", SECRET)
    refused(stopped, 429, "too_many_attempts")
    assert int(stopped.headers["Retry-After"]) > 0
    refused(register(api, "declared", address="192.0.2.7"), 409, "already_registered")  # another source is not affected


def test_one_machine_is_one_source_whatever_its_addresses() -> None:
    assert source_of("2001:db8::1") == source_of("2001:db8::ffff") != source_of("2001:db8:0:1::1")
    assert source_of("198.51.100.1") == source_of("::ffff:198.51.100.1") != source_of("198.51.100.2")
    assert source_of("") == ""


def test_a_source_is_refused_until_its_failures_are_a_minute_old() -> None:
    now = [0.0]
    limiter = FailureLimiter(10, lambda: now[0])
    for _ in range(10):
        limiter.check("a")
        limiter.add_failure("a")
    now[0] = 20.0
    with pytest.raises(TooManyAttempts) as refusal:
        limiter.check("a")
    assert refusal.value.retry_after == 40
    limiter.check("b")
    now[0] = 60.0
    limiter.check("a")


def test_sources_of_wrong_secrets_do_not_fill_the_memory() -> None:
    limiter = FailureLimiter(10, lambda: 0.0)
    for _ in range(10):
        limiter.add_failure("198.51.100.1")
    for number in range(4096):
        with pytest.raises(TooManyAttempts):
            limiter.check("198.51.100.1")
        limiter.add_failure(f"10.0.{number // 256}.{number % 256}")
    limiter.check("198.51.100.1")  # forgotten in favour of 4096 others


def test_an_agent_that_registers_is_the_author_of_the_event(api: FlaskClient, a: str) -> None:
    ok(register(api, a))
    [event] = ok(api.get(f"{API}/clusters/{a}/events"))["events"]
    assert (event["type"], event["author"]) == ("REGISTERED", "its agent")
    for query in (f"cluster={a}&source=cluster-event", "actor=its agent&source=cluster-event"):
        entries = ok(api.get(f"{API}/timeline?{query}"))["entries"]
        assert (a, "REGISTERED", "its agent") in [
            (entry["cluster"], entry["type"], entry.get("author")) for entry in entries
        ]


def test_a_description_that_makes_no_sense_registers_nothing(api: FlaskClient, a: str) -> None:
    refused(register(api, a, description={"capacity": {"cpu": "many"}}), 400, "invalid_request", "capacity.cpu")
    refused(register(api, a, description={"colour": "red"}), 400, "invalid_request", "colour")
    wrong: list[Any] = [[], "", 0, False]
    for nothing in wrong:
        refused(register(api, a, description=nothing), 400, "invalid_request", "description")
        refused(register(api, a, report=nothing), 400, "invalid_request", "report")
        refused(register(api, a, report=nothing, description=pooled(1, 1)), 400, "invalid_request", "report")
    refused(register(api, a, report={"nodes": {"n0": None}}), 400, "invalid_request", "nodes.n0")
    refused(api.post(f"{API}/clusters/{a}/register", json={}), 400, "invalid_request", "secret")
    refused(api.get(f"{API}/clusters/{a}"), 404, "cluster_not_found")
    ok(register(api, a))


def test_a_registration_that_is_too_large_is_told_how_to_send_the_graph(api: FlaskClient, a: str) -> None:
    described = pooled(1, 1)
    answer = register(api, a, description={**described, "subsystems": {"io": "x" * 2**16}})
    message = refused(answer, 413, "body_too_large")["message"]
    assert message == (
        "The request body is larger than 65536 bytes. Register without `description`, and send it with the token that "
        "you get: PUT /api/v1/clusters/{name}/description takes up to 256 MiB."
    )
    agent = registered(api, a)
    assert ok(api.put(f"{API}/clusters/{a}/description", json=described, headers=bearer(agent.token)))["changed"]


def test_without_a_secret_nobody_registers_and_a_new_secret_counts_at_once(make_app: MakeApp, tmp_path: Path) -> None:
    api = make_app(clusters={"registrationSecretFile": str(tmp_path / "secret")}).test_client()
    (tmp_path / "secret").write_text("")
    refused(register(api, "a", ""), 400, "invalid_request", "secret")
    refused(register(api, "a"), 401, "registration_refused")
    (tmp_path / "secret").unlink()
    refused(register(api, "a"), 401, "registration_refused")
    (tmp_path / "secret").write_text("another-secret")
    ok(register(api, "a", "another-secret"))


def test_a_live_token_refuses_a_second_registration(api: FlaskClient, a: str, clock: Clock) -> None:
    first = ok(register(api, a))
    answer = refused(register(api, a), 409, "already_registered")
    assert "rotate" in answer["message"]
    assert "revoke" in answer["message"]
    refused(register(api, a, "wrong-secret"), 401, "registration_refused")  # who does not know it learns nothing
    assert ok(api.delete(f"{API}/clusters/{a}/tokens/{first['prefix']}"))["changed"] is True
    second = ok(register(api, a))
    ok(api.post(f"{API}/clusters/{a}/tokens", json={"overlap": "1m"}, headers=bearer(second["token"])))
    refused(register(api, a), 409, "already_registered")


def test_of_registrations_at_once_one_gets_the_token(make_app: MakeApp) -> None:
    app = make_app(**sections("approve"))
    barrier = Barrier(6)

    def attempt(_: int) -> TestResponse:
        client = app.test_client()
        barrier.wait()
        return register(client, "a")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(attempt, range(6)))
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 5]
    api = app.test_client()
    assert len(shown_tokens(api, "a")) == 1
    assert get(api, "clusters/a")["state"] == "pending"  # however they came about each other


def test_a_name_that_must_be_approved_gets_nothing_until_it_is(make_app: MakeApp) -> None:
    api = make_app(**sections("approve", clusterConfigs=[{"name": "known"}])).test_client()
    assert registered(api, "known").sync()["state"]["admitted"] is True
    put_pool(api, "gpu", ["known"])
    agent = registered(api, "new")
    put_pool(api, "gpu", {"known": 0.001, "new": 1e9})
    assert agent.sync(want=5)["state"]["admitted"] is False
    assert get(api, "clusters/new")["state"] == "pending"
    assert created(api, "e", cluster_assignment={"cluster_pool_name": "gpu"})["cluster"] == "known"
    execution = created(api, "only", cluster="new")
    assert (execution.get("cluster"), execution["closure"]["reason"]["code"]) == (None, "CLUSTERS_UNREACHABLE")
    assert "waits to be admitted" in execution["closure"]["reason"]["message"]
    assert agent.sync(want=5)["leases"] == []
    admitted = ok(api.post(f"{API}/clusters/new/admit", json={"reason": "checked"}))
    assert (admitted["cluster"]["state"], admitted["changed"]) == ("ready", True)
    assert ok(api.post(f"{API}/clusters/new/admit"))["changed"] is False
    created(api, "late", cluster="new")
    assert agent.take(5) == ["late"]
    assert get(api, "clusters/new/events")["events"][0]["type"] == "ADMITTED"


def test_a_cluster_that_is_deleted_takes_its_tokens_along(api: FlaskClient, a: str) -> None:
    agent = registered(api, a)
    agent.sync()
    ok(api.delete(f"{API}/clusters/{a}"))
    refused(agent.post(), 401, "unauthenticated")
    refused(api.get(f"{API}/clusters/{a}"), 404, "cluster_not_found")
    assert registered(api, a).sync()["state"]["enabled"] is True


# Tokens


def test_only_a_hash_is_stored_and_tokens_are_listed_by_prefix(
    api: FlaskClient, a: str, shared_context: Context
) -> None:
    issued = ok(register(api, a))
    agent = PlayedAgent(client=api, cluster=a, token=issued["token"])
    agent.sync()
    secret = issued["token"].removeprefix(f"rbc-{issued['prefix']}-")
    with shared_context.database.reading() as connection:
        everything = [str(row) for table in metadata.tables.values() for row in connection.execute(select(table))]
    assert any(issued["prefix"] in row for row in everything)
    assert not any(secret in row or SECRET in row for row in everything)
    [listed] = get(api, f"clusters/{a}/tokens")["tokens"]
    assert (listed["prefix"], listed["state"]) == (issued["prefix"], "live")
    assert listed["created_at"] == issued["created_at"]
    assert listed["last_used_at"] >= listed["created_at"]
    assert listed.keys() == {"prefix", "state", "created_at", "last_used_at"}
    refused(api.get(f"{API}/clusters/nowhere/tokens"), 404, "cluster_not_found")


def test_rotated_tokens_both_count_for_a_while_and_then_only_the_new_one(
    api: FlaskClient, a: str, clock: Clock
) -> None:
    old = registered(api, a)
    answer = ok(api.post(f"{API}/clusters/{a}/tokens", json={"overlap": "5m"}, headers=bearer(old.token)))
    new = PlayedAgent(client=api, cluster=a, token=answer["token"])
    clock.advance(299)
    old.sync()
    new.sync()
    first = old.token[4:12]
    assert shown_tokens(api, a) == {first: "expiring", answer["prefix"]: "live"}
    clock.advance(2)
    refused(old.post(), 401, "unauthenticated")
    new.sync()
    assert shown_tokens(api, a) == {first: "expired", answer["prefix"]: "live"}
    assert ok(api.delete(f"{API}/clusters/{a}/tokens/{first}"))["changed"] is False
    by_operator = ok(api.post(f"{API}/clusters/{a}/tokens", json={"overlap": "0s"}))
    refused(new.post(), 401, "unauthenticated")
    third = ok(api.post(f"{API}/clusters/{a}/tokens"))  # ten minutes, unless another time is said
    newest = PlayedAgent(client=api, cluster=a, token=third["token"])
    newest.sync()
    PlayedAgent(client=api, cluster=a, token=by_operator["token"]).sync()
    assert ok(api.delete(f"{API}/clusters/{a}/tokens/{third['prefix']}")) == {
        "prefix": third["prefix"],
        "changed": True,
    }
    assert ok(api.delete(f"{API}/clusters/{a}/tokens/{third['prefix']}"))["changed"] is False
    refused(newest.post(), 401, "unauthenticated")
    assert shown_tokens(api, a)[third["prefix"]] == "revoked"
    for overlap in ("-1s", "soon", "99999999999h", ""):
        refused(api.post(f"{API}/clusters/{a}/tokens", json={"overlap": overlap}), 400, "invalid_request", "overlap")
    refused(api.post(f"{API}/clusters/nowhere/tokens"), 404, "cluster_not_found")


def test_a_rotation_does_not_prolong_what_ends_sooner(api: FlaskClient, a: str, clock: Clock) -> None:
    old = registered(api, a)
    ok(api.post(f"{API}/clusters/{a}/tokens", json={"overlap": "1m"}))
    ok(api.post(f"{API}/clusters/{a}/tokens", json={"overlap": "1h"}))
    clock.advance(61)
    refused(old.post(), 401, "unauthenticated")


def test_tokens_that_do_not_count_are_all_refused_alike(api: FlaskClient, a: str) -> None:
    agent, other = registered(api, a), registered(api, f"{a}-b")
    good = agent.token
    wrong = [
        good[:-1],
        good + "x",
        good[:13],
        "rbc-",
        "rbc-" + "0" * 60,
        "rbc-\N{LATIN SMALL LETTER E WITH ACUTE}" * 4,
        good[:12] + other.token[12:],  # one's prefix with another's secret
        good.replace("rbc-", "rbc-%"),
        "rbc-' or 1=1 --",
    ]
    bodies = set()
    for token in wrong:
        agent.token = token
        answer = agent.post()
        refused(answer, 401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        bodies.add((answer.json or {})["message"])
    assert len(bodies) == 1
    agent.token = good
    agent.sync()
    for headers in ({}, {"Authorization": good}, {"Authorization": f"Basic {good}"}, bearer("")):
        answer = api.post(f"{API}/clusters/{a}/sync", json={"agent": "x", "sequence": 1}, headers=headers)
        refused(answer, 401, "unauthenticated")
    refused(api.delete(f"{API}/clusters/{a}-b/tokens/{good[4:12]}"), 404, "token_not_found")
    refused(api.delete(f"{API}/clusters/{a}/tokens/nothing"), 404, "token_not_found")
    agent.sync()


def test_a_cluster_token_opens_its_own_syncs_and_executions_and_nothing_else(make_app: MakeApp, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(OPERATOR)
    app = make_app(**sections("open"), server={"apiTokenFile": str(tmp_path / "token")})
    anyone = app.test_client()
    token = ok(register(anyone, "a"))["token"]
    registered(anyone, "b")
    mine, operator = bearer(token), bearer(OPERATOR)
    ok(anyone.post(f"{API}/projects", json={"project": {"id": "clusters"}}, headers=operator))

    def call(method: str, path: str, body: Any = None, headers: dict[str, str] = mine) -> TestResponse:
        return anyone.open(f"{API}/{path}", method=method, json=body, headers=headers)

    assert ok(call("POST", "executions", asked("e", cluster="a")))["execution"]["created_by"] == "cluster/a"
    ok(call("POST", "executions", asked("e", project="clusters", cluster="b")))
    ok(call("POST", "placements", {"project": PROJECT, "domain": DOMAIN, "spec": {"job": JOB}}))
    for path in (
        "executions",
        f"executions/{PROJECT}/{DOMAIN}/e",
        f"executions/clusters/{DOMAIN}/e",  # a project may be called so
        f"executions/{PROJECT}/{DOMAIN}/e/events",
        f"executions/{PROJECT}/{DOMAIN}/e/explanation",
        f"executions/{PROJECT}/{DOMAIN}/e/logs",
        f"executions/{PROJECT}/{DOMAIN}/e/outputs",
    ):
        ok(call("GET", path))
    ok(call("POST", "clusters/a/sync", {"agent": "x", "sequence": 1}))
    ok(call("POST", "clusters/a/tokens", {"overlap": "1h"}))
    label = {"attributes": {"matching_attributes": {"execution_cluster_label": {"value": "a"}}}}
    forbidden: list[tuple[str, str, Any]] = [
        ("POST", "clusters/b/sync", {"agent": "x", "sequence": 1}),
        ("POST", "clusters/b/tokens", {}),
        ("GET", "clusters/b/tokens", None),
        ("GET", "clusters/a/tokens", None),
        ("DELETE", f"clusters/a/tokens/{token[4:12]}", None),
        ("POST", "clusters/a/admit", {}),
        ("POST", "clusters/a/drain", {}),
        ("POST", "clusters/b/cordon", {}),
        ("PUT", "clusters/a", {"cluster": {}}),
        ("PUT", "clusters/b", {"cluster": {}}),
        ("PUT", "clusters/b/state", {}),
        ("DELETE", "clusters/b", None),
        ("PUT", "pools/gpu", {"pool": {"members": [{"id": "a"}]}}),
        ("PUT", f"project_domain_attributes/{PROJECT}/{DOMAIN}", label),
        ("PUT", f"domain_attributes/{DOMAIN}", label),
        ("DELETE", f"executions/{PROJECT}/{DOMAIN}/e", {}),
        ("POST", "executions/terminate", {"selector": {"project": PROJECT}}),
        ("POST", "projects", {"project": {"id": "mine"}}),
        ("GET", "revisions", None),
        ("GET", "reconciliations", None),
        ("DELETE", "reconciliations/a", {}),
        ("POST", "clock/accept", {}),
    ]
    for method, path, body in forbidden:
        refused(call(method, path, body), 403, "forbidden")
        refused(call(method, path, body, {}), 401, "unauthenticated")
    refused(call("POST", "clusters/a/sync", {"agent": "x", "sequence": 2}, operator), 401, "unauthenticated")
    refused(call("GET", "executions", headers=bearer("nobody")), 401, "unauthenticated")
    refused(call("GET", "executions", headers={}), 401, "unauthenticated")
    assert ok(call("GET", f"executions/{PROJECT}/{DOMAIN}/e", headers=operator))["closure"]["phase"] == "QUEUED"


def test_a_token_whose_hash_was_tampered_with_is_no_key(api: FlaskClient, a: str, shared_context: Context) -> None:
    agent = registered(api, a)
    _set_hash(shared_context, agent.token[4:12], "")
    refused(agent.post(), 401, "unauthenticated")


def _set_hash(context: Context, prefix: str, value: str) -> None:
    with context.database.writing() as connection:
        connection.execute(update(cluster_tokens).where(cluster_tokens.c.prefix == prefix).values(hash=value))
