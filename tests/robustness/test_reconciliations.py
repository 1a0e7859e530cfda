"""A restored backup: the admin notices, ends nothing, and learns from the agents what has happened since."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event
from werkzeug.test import TestResponse

from admin.loops.evictions import EvictionLoop
from admin.services import agents
from admin.services.clocks import may_judge
from admin.services.context import Context
from admin.services.reconciliations import end_reconciliations
from admin.services.redecisions import decide_undecided, decide_waiting
from admin.services.state import StateSummary
from tests.conftest import MakeApp
from tests.support.agents import PlayedAgent, WatchedClock, attempts, closure, event_types, names, played_agent
from tests.support.backups import back_up, restore
from tests.support.placing import (
    API,
    DOMAIN,
    PROJECT,
    created,
    execution,
    get,
    ok,
    pool,
    put_cluster,
    put_pool,
    refused,
    switch,
)

RETRY = {"attempts": 3, "backoff": "1s"}
SECTIONS = {"agents": {"leaseSeconds": 60, "unreachableSeconds": 90, "lostSeconds": 300}}


@dataclass(kw_only=True)
class RememberingAgent(PlayedAgent):
    """An agent that remembers how far it has seen the admin, and the ids of executions."""

    seen: int = 0
    uids: dict[str, str] = field(default_factory=dict)

    def post(self, **fields: Any) -> TestResponse:
        held = [
            {"id": self.key(name), "attempt": attempt, "uid": self.uids[name]} for name, attempt in self.holding.items()
        ]
        response = super().post(**{"seen": self.seen, "holding": held, **fields})
        if response.status_code == 200:
            answer = response.get_json()
            self.seen = max(self.seen, answer["position"])
            self.uids |= {lease["id"]["name"]: lease["uid"] for lease in answer["leases"]}
        return response


@dataclass
class Site:
    """An admin whose database is backed up and restored, with the agents of two clusters."""

    make_app: MakeApp
    url: str
    directory: Path

    def __post_init__(self) -> None:
        self._open()
        self.agents = {name: self.agent(name) for name in ("a", "b")}
        put_pool(self.api, "both", ["a", "b"], strategy="spill")

    def _open(self) -> None:
        self.app: Flask = self.make_app(**SECTIONS)
        self.clock = WatchedClock(self.app)
        self.context: Context = self.app.extensions["rainbow"]
        self.api: FlaskClient = self.app.test_client()

    def agent(self, cluster: str) -> RememberingAgent:
        plain = played_agent(self.api, self.context, cluster, instance=f"of-{cluster}")
        agent = RememberingAgent(
            client=self.api, cluster=cluster, token=plain.token, instance=plain.instance, sequence=plain.sequence
        )
        agent.sync()
        return agent

    def back_up(self) -> Path:
        return back_up(self.url, self.directory)

    def restore(self, backup: Path) -> None:
        """Stop the admin, restore its database, and start it again; the agents go on."""
        self.context.close()
        self.context.database.engine.dispose()
        restore(self.url, backup)
        self._open()
        for agent in self.agents.values():
            agent.client = self.api

    def warnings(self) -> dict[str, str]:
        return {warning["code"]: warning["message"] for warning in get(self.api, "warnings")["warnings"]}

    def phases(self) -> dict[str, tuple[str, str | None, int]]:
        listed = get(self.api, f"executions/{PROJECT}/{DOMAIN}")["executions"]
        return {row["id"]["name"]: (row["closure"]["phase"], row.get("cluster"), row["attempt"]) for row in listed}


@pytest.fixture
def site(make_app: MakeApp, database_url: str, tmp_path: Path) -> Site:
    return Site(make_app, database_url, tmp_path)


def test_a_restored_database_learns_what_runs_where_and_ends_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = site.agents["a"], site.agents["b"]
    for name in ("runs", "ends", "moves"):
        created(site.api, name, **pool("both"), retry=RETRY)
    a.start(3)
    created(site.api, "fails", **pool("both"), retry=RETRY)
    a.start()
    created(site.api, "waits", **pool("both"))
    backup = site.back_up()

    # What happens after the backup: one starts, one ends, one is tried again, one moves, one is new.
    a.start()
    a.finish(["ends"])
    a.finish(["fails"], "FAILED")
    site.clock.advance(2)
    assert a.start() == ["fails"]
    switch(site.api, "a", "cordon")
    a.finish(["moves"], "FAILED")
    site.clock.advance(2)
    decide_undecided(site.context)
    decide_waiting(site.context)
    assert b.start() == ["moves"]
    created(site.api, "new", **pool("both"))
    assert b.start() == ["new"]
    assert (a.holding, b.holding) == ({"runs": 1, "waits": 1, "fails": 2}, {"moves": 2, "new": 1})

    site.restore(backup)
    assert "new" not in site.phases()
    assert ok(site.api.get("/readyz")) == {"status": "ready"}
    answer = a.sync(want=10)
    assert [answer[key] for key in ("lost", "cancels", "questions", "leases")] == [[], [], [], []]
    assert attempts(answer["confirmed"]) == a.holding
    assert answer["position"] == a.seen
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert ["restored from a backup" in record.message for record in errors] == [True]
    assert list(site.warnings()) == ["database_restored"]
    assert "have synced: b." in site.warnings()["database_restored"]
    assert "restored from a backup" in ok(site.api.get("/readyz"))["detail"]
    state = StateSummary(site.context)()
    assert state is not None
    assert state.warnings["database_restored"] == 1

    # Nothing is believed, given away or judged before the other agent has spoken.
    unknown = a.event("ends", "UNKNOWN", 1)
    assert a.sync(unknown, want=10)["accepted"] == [unknown["event"]]
    created(site.api, "later", **pool("both"))
    site.clock.advance(120)
    assert not may_judge(site.context)
    assert a.sync(want=10)["leases"] == []
    assert site.phases()["ends"] == ("RUNNING", "a", 1)

    answer = b.sync(want=10)
    assert (answer["lost"], answer["leases"]) == ([], [])
    assert attempts(answer["confirmed"]) == b.holding
    assert site.phases() == {
        "runs": ("RUNNING", "a", 1),
        "ends": ("RUNNING", "a", 1),
        "fails": ("QUEUED", "a", 2),
        "waits": ("QUEUED", "a", 1),
        "moves": ("QUEUED", "b", 2),
        "later": ("QUEUED", "a", 1),
    }
    assert event_types(site.api, "moves")[-1] == "ADOPTED"
    assert execution(site.api, "waits")["closure"]["reason"]["code"] == "ADOPTED"

    # From here on everything goes on; the work that is not known is listed, and goes on too.
    assert list(site.warnings()) == ["unknown_work"]
    assert f"{PROJECT}/{DOMAIN}/new (attempt 1)" in site.warnings()["unknown_work"]
    assert ok(site.api.get("/readyz")) == {"status": "ready"}
    assert may_judge(site.context)
    a.uids["later"] = execution(site.api, "later")["uid"]
    assert a.take() == ["later"]
    answer = b.sync()
    assert (attempts(answer["confirmed"]), answer["lost"]) == (b.holding, [])
    site.clock.advance(61)
    assert names(a.sync()["questions"]) == ["ends"]
    b.finish(["moves"])
    a.finish(["runs", "waits", "fails"])
    assert {name: phase for name, (phase, _, _) in site.phases().items()} == {
        "runs": "SUCCEEDED",
        "waits": "SUCCEEDED",
        "fails": "SUCCEEDED",
        "moves": "SUCCEEDED",
        "ends": "RUNNING",
        "later": "QUEUED",
    }
    del b.holding["new"]  # it has ended
    b.sync()
    assert site.warnings() == {}


@pytest.fixture
def restored(site: Site) -> Site:
    """A site whose agent b has work that the restored database does not know."""
    backup = site.back_up()
    created(site.api, "new", cluster="b")
    site.agents["b"].start()
    site.agents["a"].sync()
    site.restore(backup)
    return site


def test_an_operator_may_let_go_of_what_is_not_known(restored: Site) -> None:
    for agent in restored.agents.values():
        assert agent.sync()["lost"] == []
    assert end_reconciliations(restored.context, ["b", "other"], every=False) == ["b"]
    assert get(restored.api, "clusters/b/events")["events"][0]["type"] == "RECONCILED"
    assert names(restored.agents["b"].sync()["lost"]) == ["new"]
    assert restored.warnings() == {}


def test_reconciliations_are_listed_and_ended_over_http(restored: Site) -> None:
    api = restored.api
    assert get(api, "reconciliations") == {"reconciliations": [], "waiting": False}
    restored.agents["b"].sync()
    listed = get(api, "reconciliations")
    assert listed["waiting"] is True
    a, b = listed["reconciliations"]
    assert (a["cluster"], a["state"], a["unknown"], "synced_at" in a) == ("a", "waiting", [], False)
    assert "has not synced since the database was restored" in a["message"]
    assert (b["cluster"], b["state"], b["synced_at"]) == ("b", "unknown_work", b["began_at"])
    uid = restored.agents["b"].uids["new"]
    assert b["unknown"] == [{"id": restored.agents["b"].key("new"), "attempt": 1, "uid": uid}]
    assert get(api, "reconciliations/b") == b

    body = {"reason": "the rack burnt down", "claimed_by": "ops"}
    refused(api.delete(f"{API}/reconciliations/a", json={"why": "x"}), 400, "invalid_request", "why")
    for cluster, reconciliation in (("a", a), ("b", b)):
        answer = ok(api.delete(f"{API}/reconciliations/{cluster}", json=body))
        assert answer == {**{key: reconciliation[key] for key in ("cluster", "state", "unknown")}, "changed": True}
        # For cluster a, the end of all waiting is an event of its own.
        last = next(e for e in get(api, f"clusters/{cluster}/events")["events"] if "claimed_by" in e)
        assert (last["type"], last["claimed_by"]) == ("RECONCILED", "ops")
        assert last["reason"].endswith("Reason: the rack burnt down")
    assert f"{PROJECT}/{DOMAIN}/new (attempt 1)" in last["reason"]
    for response in (api.get(f"{API}/reconciliations/a"), api.delete(f"{API}/reconciliations/a")):
        message = refused(response, 404, "reconciliation_not_found")["message"]
        assert "`rainbowctl get reconciliation` lists" in message
    assert names(restored.agents["b"].sync()["lost"]) == ["new"]


def test_a_reconciliation_is_ended_only_as_it_was_seen(restored: Site) -> None:
    api, path = restored.api, f"{API}/reconciliations/b"
    restored.agents["a"].sync()
    assert get(api, "reconciliations/b")["state"] == "waiting"
    restored.agents["b"].sync()
    answer = refused(
        api.delete(path, json={"state": "waiting", "unknown_count": 0}), 409, "reconciliation_changed", "state"
    )
    assert answer["details"] == [
        {"field": "state", "reason": "is unknown_work, not waiting."},
        {"field": "unknown_count", "reason": "is 1, not 0 at most."},
    ]
    assert "state is unknown_work, not waiting, and unknown_count is 1, not 0 at most" in answer["message"]
    assert "`rainbowctl get reconciliation b`" in answer["message"]
    assert restored.agents["b"].sync()["lost"] == []
    for body in ({"state": "known"}, {"unknown_count": -1}):
        refused(api.delete(path, json=body), 400, "invalid_request", next(iter(body)))
    # Work that has ended meanwhile is no reason to look again.
    ok(api.delete(path, json={"state": "unknown_work", "unknown_count": 2}))
    assert names(restored.agents["b"].sync()["lost"]) == ["new"]


def test_an_operator_may_declare_the_rest_reconciled(restored: Site) -> None:
    b = restored.agents["b"]
    b.sync()
    created(restored.api, "e", cluster="b")
    assert b.sync(want=5)["leases"] == []
    assert end_reconciliations(restored.context, [], every=True) == ["a", "b"]
    assert names(b.sync(want=5)["leases"]) == ["e"]
    # The agent that was missing comes back, and shows again that the database was restored.
    restored.agents["a"].sync()
    assert "have synced: b." in restored.warnings()["database_restored"]


def test_a_name_that_was_used_again_is_not_taken_for_the_work_of_before(restored: Site) -> None:
    b = restored.agents["b"]
    created(restored.api, "new", cluster="b")
    uid = b.uids["new"]
    assert attempts(b.sync(want=5)["confirmed"]) == {"new": 1}
    assert closure(restored.api, "new")[0] == "QUEUED"
    assert execution(restored.api, "new")["uid"] != uid
    assert list(restored.warnings()) == ["database_restored", "unknown_work"]


def test_what_somebody_aborted_before_the_agents_came_back_is_ended_there(site: Site) -> None:
    a = site.agents["a"]
    created(site.api, "e", cluster="a")
    backup = site.back_up()
    a.start()
    site.restore(backup)
    ok(site.api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/e", json={}))
    assert closure(site.api, "e")[0] == "ABORTED"
    for agent in site.agents.values():
        assert agent.sync()["lost"] == []
    assert names(a.sync()["lost"]) == ["e"]


def test_what_was_being_aborted_goes_on_until_every_agent_has_synced(site: Site) -> None:
    a, b = site.agents.values()
    created(site.api, "e", cluster="a")
    a.start()
    ok(site.api.delete(f"{API}/executions/{PROJECT}/{DOMAIN}/e", json={}))
    backup = site.back_up()
    assert names(a.sync()["cancels"]) == ["e"]
    site.restore(backup)
    answer = a.sync()
    assert (names(answer["cancels"]), names(answer["confirmed"])) == ([], ["e"])
    b.sync()
    assert names(a.sync()["cancels"]) == ["e"]


def test_results_that_arrive_while_a_database_is_reconciled_count(site: Site) -> None:
    a = site.agents["a"]
    created(site.api, "e", cluster="a", retry=RETRY)
    a.start()
    backup = site.back_up()
    a.finish(["e"], "FAILED")
    site.clock.advance(2)
    assert a.start() == ["e"]
    site.restore(backup)
    done = a.event("e", "SUCCEEDED")
    assert a.sync(done, holding=[])["accepted"] == [done["event"]]
    assert site.phases()["e"] == ("SUCCEEDED", "a", 2)


@pytest.mark.parametrize("going_on", [lambda site: None, lambda site: site.agents["a"].sync()])
def test_a_database_that_was_not_restored_is_not_taken_for_one(site: Site, going_on: Callable[[Site], object]) -> None:
    site.restore(site.back_up())
    for _ in range(3):
        going_on(site)
        assert site.warnings() == {}


def test_a_cluster_that_is_deleted_and_made_again_does_not_look_restored(site: Site) -> None:
    agent = site.agent("c")
    assert agent.seen > 1
    ok(site.api.delete(f"{API}/clusters/c"))
    put_cluster(site.api, "c")
    agent.token, agent.id, agent.sequence = agents.rotate(site.context, "c", 0).token, "restarted", 0
    agent.sync()
    assert site.warnings() == {}
    created(site.api, "e", cluster="c")
    assert agent.start() == ["e"]


def test_an_agent_that_was_started_after_the_backup_goes_on(site: Site) -> None:
    agent = site.agents["a"]
    created(site.api, "runs", **pool("both"))
    agent.start()
    backup = site.back_up()
    agent.id, agent.sequence = "restarted", 0
    agent.sync()
    site.restore(backup)
    assert names(agent.sync()["confirmed"]) == ["runs"]


def test_another_agent_that_took_over_after_the_backup_goes_on_when_the_first_is_found_silent(site: Site) -> None:
    agent, other = site.agents["a"], site.agents["b"]
    created(site.api, "runs", **pool("both"))
    agent.start()
    backup = site.back_up()
    agent.id, agent.instance, agent.sequence = "other", "other", 0
    agent.sync(take_over=True)
    other.sync()
    site.restore(backup)
    loop = EvictionLoop(site.context, clock=site.clock.monotonic)
    other.sync()  # by which the admin knows that it was restored
    refused(agent.post(), 409, "agent_present")
    for _ in range(10):
        site.clock.advance(60)
        other.sync()
        loop()
    assert get(site.api, "clusters/a")["state"] == "lost"
    assert execution(site.api, "runs")["closure"]["phase"] == "RUNNING"  # nothing is judged by that
    assert names(agent.sync()["confirmed"]) == ["runs"]


@pytest.mark.parametrize("is_offered", [True, False])
def test_what_an_agent_holds_counts_as_started_only_when_it_says_so(site: Site, is_offered: bool) -> None:
    a = site.agents["a"]
    for name in ("starts", "waits"):
        created(site.api, name, cluster="a")
    if is_offered:
        a.offered(2)
    backup = site.back_up()
    a.take(2)
    site.restore(backup)
    a.sync()
    assert site.phases() == {"starts": ("QUEUED", "a", 1), "waits": ("QUEUED", "a", 1)}
    assert a.report("starts", "RUNNING", native_id="7", nodes=["n1"]) is None
    assert execution(site.api, "starts")["native_id"] == "7"
    site.agents["b"].sync()
    a.finish(["waits"], "RELEASED")
    assert site.phases() == {"starts": ("RUNNING", "a", 1), "waits": ("QUEUED", "a", 2)}


def test_what_was_confirmed_with_its_tokens_after_the_backup_goes_on(site: Site) -> None:
    a, b = site.agents.values()
    ok(site.api.post(f"{API}/token_pools", json={"token_pool": {"name": "hive", "capacity": 1}}))
    created(site.api, "runs", cluster="a", token_pools={"hive": 1})
    offered = a.offered()
    backup = site.back_up()
    a.holding |= offered
    a.sync()
    a.report("runs", "RUNNING")
    site.clock.advance(61)  # by when the lease that the backup knows is over
    a.sync()
    site.restore(backup)
    site.clock.advance(61)
    answer = a.sync()
    assert (answer["lost"], attempts(answer["confirmed"])) == ([], {"runs": 1})
    b.sync()
    assert a.sync()["lost"] == []
    assert site.phases()["runs"][1:] == ("a", 1)


@pytest.mark.parametrize("type", ["RELEASED", "DECLINED"])
@pytest.mark.parametrize("is_known", [True, False])
def test_what_agents_hand_back_while_a_database_is_reconciled_is_queued_again(
    site: Site, type: str, is_known: bool
) -> None:
    a, b = site.agents.values()
    created(site.api, "e", **pool("both"))
    backup = site.back_up()
    a.take()
    if is_known:
        backup = site.back_up()
    a.sync()
    site.restore(backup)
    done = a.event("e", type)
    del a.holding["e"]
    assert a.sync(done)["accepted"] == [done["event"]]
    assert site.phases()["e"][0::2] == ("QUEUED", 2)
    b.sync()
    site.clock.advance(61)
    assert a.sync()["questions"] == []
    assert site.phases()["e"][0::2] == ("QUEUED", 2)


def cluster_events(site: Site, cluster: str) -> list[str]:
    return [event["type"] for event in get(site.api, f"clusters/{cluster}/events")["events"]]


def test_agents_that_wait_are_woken_when_a_restoration_is_found_and_when_it_is_over(restored: Site) -> None:
    a, b = restored.agents.values()
    a.sync()
    assert (cluster_events(restored, "a")[0], cluster_events(restored, "b")[0]) == ("RESTORED", "RESTORED")
    with restored.context.cluster_wakeups.subscribe("a") as waiter:
        waiter.wait(1, None)  # the first look at the events wakes all
        b.sync()
        assert waiter.wait(30, None)
    assert (cluster_events(restored, "a")[0], cluster_events(restored, "b")[0]) == ("RECONCILED", "RECONCILED")
    b.sync()
    assert cluster_events(restored, "a").count("RECONCILED") == 1


def test_agents_are_woken_when_an_operator_ends_the_wait(restored: Site) -> None:
    restored.agents["b"].sync()
    assert end_reconciliations(restored.context, ["a"], every=False) == ["a"]
    assert cluster_events(restored, "b")[0] == "RECONCILED"


def test_what_is_not_reconciled_is_locked_before_executions(restored: Site) -> None:
    """In the order of all locks: a sync that waits for a reconciliation holds no execution that others wait for."""
    statements: list[str] = []
    restored.agents["a"].sync()
    event.listen(
        restored.context.database.engine, "before_cursor_execute", lambda *args: statements.append(args[2].lower())
    )
    restored.agents["b"].sync()
    on_reconciliations = [n for n, text in enumerate(statements) if "reconciliations" in text]
    on_executions = [n for n, text in enumerate(statements) if "from executions" in text]
    assert "for update" in statements[on_reconciliations[1]] or "sqlite" in restored.url
    assert on_reconciliations[1] < on_executions[0]
