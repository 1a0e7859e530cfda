"""An explanation opens with where an execution stands now, on both databases."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from admin.core.times import show_time
from admin.services.context import Context
from admin.services.evictions import end_drained, evict_from_lost, judge_health
from admin.services.queueing_budgets import end_overdue
from admin.services.redecisions import decide_waiting
from tests.support.agents import Clock, PlayedAgent, add, played_agent, settled_after, watched_clock
from tests.support.placing import (
    API,
    DOMAIN,
    created,
    execution,
    explanation,
    get,
    identifier,
    label,
    ok,
    pool,
    put_attribute,
    put_label,
    put_pool,
    register_plan,
    register_workflow,
    report,
    switch,
)
from tests.support.statements import transactions

SLOW_ON = ("postgresql",)

SECTIONS = {
    "agents": {"unreachableSeconds": 9, "lostSeconds": 30, "leaseSeconds": 20, "waitSeconds": 1, "giveUpAfter": "200s"}
}


clock = watched_clock()
context = settled_after(300)


@pytest.fixture
def agent(shared: FlaskClient, context: Context, project: str) -> PlayedAgent:
    return played_agent(shared, context, f"birch-{project}", project=project)


def status(agent: PlayedAgent, name: str) -> Any:
    return explanation(agent.client, name, project=agent.project)["status"]


def message(agent: PlayedAgent, name: str) -> str:
    text: str = status(agent, name)["message"]
    return text.replace(agent.cluster, "birch").replace(agent.project, "p")


def next_step(agent: PlayedAgent, name: str) -> str:
    text: str = status(agent, name)["next"]
    return text.replace(agent.cluster, "birch").replace(agent.project, "p")


def test_why_a_run_waits_in_the_engine_is_said_in_its_words(agent: PlayedAgent) -> None:
    add(agent, "first", "second")
    agent.take()
    uid = execution(agent.client, "first", project=agent.project)["uid"]
    agent.sync(report={"queued": {uid: "Kubernetes says: exceeded quota: small."}})
    assert message(agent, "first").endswith("birch has it, and Kubernetes says: exceeded quota: small.")
    assert message(agent, "second").startswith("QUEUED for 0 s, next at birch: ")
    agent.sync(report={})
    assert message(agent, "first").endswith("birch has it, and has not said that it runs.")


def test_a_run_is_followed_from_the_queue_to_its_end(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "first", "second", "third")
    clock.advance(5)
    assert message(agent, "first") == "QUEUED for 5 s, next at birch: cluster 'birch' in the request decides."
    assert message(agent, "third").startswith("QUEUED for 5 s, third in line at birch: ")
    agent.take()
    assert message(agent, "first") == "QUEUED for 5 s: the agent of birch has it, and has not said that it runs."
    assert message(agent, "third").startswith("QUEUED for 5 s, second in line at birch: ")
    agent.report("first", "RUNNING")
    clock.advance(4)
    assert message(agent, "first") == "RUNNING on birch for 4 s: cluster 'birch' in the request decides."
    assert status(agent, "first")["next"] == "It ends by itself; it has no time limit."
    agent.finish(["first"])
    clock.advance(3)
    last = status(agent, "first")
    assert message(agent, "first").startswith("SUCCEEDED on birch 3 s ago after 4 s: cluster 'birch' in the request")
    assert last["since"] == execution(agent.client, "first", agent.project)["closure"]["finished_at"]
    assert last.keys() == {"phase", "since", "attempt", "attempts", "message", "times"}


def test_a_run_with_a_higher_priority_is_before_others_in_line(agent: PlayedAgent) -> None:
    add(agent, "low", quality_of_service={"tier": "LOW"})
    add(agent, "high", quality_of_service={"tier": "HIGH"})
    assert ", next at birch" in message(agent, "high")
    assert ", second in line at birch" in message(agent, "low")


def test_back_off_says_when_the_next_attempt_is_and_what_ended_the_last(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "again", retry={"attempts": 3, "backoff": "250s"})
    agent.start()
    agent.finish(["again"], "FAILED", message="It exited with 1.", exit_code=1)
    back_off = "QUEUED: in back-off after exit 1 (attempt 1 of 3), next attempt in 4 min 10 s."
    assert message(agent, "again") == back_off
    current = status(agent, "again")
    assert (current["attempt"], current["attempts"]) == (1, 3)
    failure = {
        "attempt": 1,
        "attempt_number": 1,
        "phase": "FAILED",
        "reason": "FAILED",
        "cause": "EXIT_CODE",
        "ended_by": "exit 1",
    }
    assert current["last_failure"] == {**failure, "exit_code": 1}
    assert execution(agent.client, "again", agent.project)["last_failure"] == current["last_failure"]
    assert current["next"].startswith("Its next attempt may start at ")
    assert "Waits for cluster" not in explanation(agent.client, "again", project=agent.project)["reason"]["message"]
    clock.advance(251)
    agent.sync()
    assert message(agent, "again").startswith("QUEUED for 4 min 11 s, next at birch (attempt 2 of 3, after exit 1): ")
    agent.start()
    assert message(agent, "again").startswith("RUNNING on birch for 0 s (attempt 2 of 3, after exit 1): ")
    agent.finish(["again"], "FAILED", signal=9)
    assert status(agent, "again")["last_failure"]["ended_by"] == "signal 9"
    add(agent, "wordless")
    agent.start()
    agent.finish(["wordless"], "FAILED", exit_code=7)
    assert message(agent, "wordless").startswith("FAILED on birch 0 s ago: exit 7. No other attempt follows: ")
    clock.advance(501)
    agent.sync()
    agent.start()
    agent.finish(["again"], "FAILED", reason="EXIT_CODE", message="It exited with 2.")
    used_up = "No other attempt follows: its 3 attempts are used up, as the request says."
    assert message(agent, "again") == f"FAILED on birch 0 s ago (attempt 3 of 3): It exited with 2. {used_up}"
    assert "last_failure" not in {**status(agent, "again"), **execution(agent.client, "again", agent.project)}


def test_a_request_that_asks_for_no_retries_is_not_said_to_say_so(agent: PlayedAgent) -> None:
    add(agent, "once", retry={"on_lost": "wait"})
    agent.start()
    agent.finish(["once"], "FAILED", message="It exited with 2.")
    assert message(agent, "once").endswith("No other attempt follows: no retries were asked for.")


def test_attempts_that_never_began_are_not_counted(agent: PlayedAgent) -> None:
    add(agent, "returned", retry={"attempts": 2})
    agent.take()
    agent.report("returned", "RELEASED")
    assert status(agent, "returned")["attempt"] == 1


def test_the_rung_that_decided_is_named_with_the_one_that_it_outranks(agent: PlayedAgent) -> None:
    put_label(agent.client, f"dusk-{agent.project}", [agent.cluster])
    put_pool(agent.client, f"std-{agent.project}", [agent.cluster])
    put_attribute(
        agent.client,
        "project",
        "cluster_assignment",
        {"cluster_pool_name": f"std-{agent.project}"},
        project=agent.project,
    )
    created(agent.client, "by-pool", project=agent.project)
    created(agent.client, "by-label", project=agent.project, **label(f"dusk-{agent.project}"))
    assert message(agent, "by-pool").endswith(": pool 'std-p' at project p decides.")
    assert message(agent, "by-label").endswith(": label 'dusk-p' in the request outranks pool 'std-p' at project p.")


def test_what_keeps_it_from_being_taken_is_named(agent: PlayedAgent, context: Context) -> None:
    add(agent, "waits")
    report(agent.client, agent.cluster, capacity={"executions": 2}, free={"executions": 0})
    assert ": birch is full (2 of 2 executions taken); cluster" in message(agent, "waits")
    switch(agent.client, agent.cluster, "cordon", reason="repair", claimed_by="otto")
    event = get(agent.client, f"clusters/{agent.cluster}/events")["events"][0]["number"]
    cordoned = f"birch is cordoned, event {event}, anonymous (says otto), 0 s ago, 'repair'"
    assert f": {cordoned}; cluster" in message(agent, "waits")
    assert status(agent, "waits")["next"] == "It is decided again any moment now."
    decide_waiting(context)
    by = f"event {event}, anonymous (says otto), 0 s ago, 'repair'"
    assert message(agent, "waits") == f"QUEUED for 0 s: Cluster 'birch' is cordoned, {by}."
    assert next_step(agent, "waits") == (
        "It is decided again when 'birch' is uncordoned, or the fleet changes otherwise."
    )
    path = f"executions/{agent.project}/{DOMAIN}/waits?with_status=true"
    assert get(agent.client, path)["status"]["next"] == status(agent, "waits")["next"]


def test_a_run_whose_clusters_are_all_off_says_what_must_happen_to_which(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    cordoned, off, both = agent.cluster, f"oak-{agent.project}", f"elm-{agent.project}"
    silent = played_agent(agent.client, context, f"ash-{agent.project}", project=agent.project)
    put_pool(agent.client, f"std-{agent.project}", [cordoned, off, both, silent.cluster])
    switch(agent.client, cordoned, "drain")
    for cluster in (off, both):
        report(agent.client, cluster, capacity={"executions": 9})
        switch(agent.client, cluster, "disable")
    switch(agent.client, both, "cordon")
    clock.advance(40)
    judge_health(context)
    agent.sync()
    judge_health(context)
    created(agent.client, "waits", project=agent.project, **pool(f"std-{agent.project}"))
    assert next_step(agent, "waits") == (
        "It is decided again when 'birch' is undrained, 'oak-p' is enabled, 'elm-p' is enabled and is uncordoned, "
        "'ash-p' is heard again, or the fleet changes otherwise."
    )
    silent.sync()
    decide_waiting(context)
    assert execution(agent.client, "waits", agent.project)["cluster"] == silent.cluster


def test_a_run_whose_time_limit_is_over_at_a_silent_cluster_says_so(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "limited", job={"command": ["true"], "resources": {"duration": "60s"}})
    agent.start()
    clock.advance(40)
    judge_health(context)
    assert "time limit" not in message(agent, "limited")
    over = show_time(clock() + timedelta(seconds=20))
    clock.advance(40)
    text = message(agent, "limited")
    assert text.startswith(f"RUNNING on birch for 1 min 20 s: Its time limit was over at {over} (60s, ")
    assert "): its cluster was to end it, and nobody has confirmed that it has. Cluster 'birch' has been silent" in text


def test_a_run_whose_pool_is_gone_waits_until_it_is_defined_again(agent: PlayedAgent, context: Context) -> None:
    name = f"brief-{agent.project}"
    put_pool(agent.client, name, [agent.cluster])
    switch(agent.client, agent.cluster, "cordon")
    created(agent.client, "waits", project=agent.project, **pool(name))
    ok(agent.client.delete(f"{API}/pools/{name}?force=true"))
    decide_waiting(context)
    assert next_step(agent, "waits") == "It is decided again when pool 'brief-p' is defined again."


def test_a_run_that_no_cluster_can_take_says_why(agent: PlayedAgent, clock: Clock) -> None:
    put_pool(agent.client, f"full-{agent.project}", [agent.cluster], strategy="spill")
    report(agent.client, agent.cluster, capacity={"executions": 1}, free={"executions": 0})
    created(agent.client, "unplaced", project=agent.project, **pool(f"full-{agent.project}"))
    clock.advance(61)
    text = message(agent, "unplaced")
    assert text.startswith("QUEUED for 1 min 1 s: No cluster of pool 'full-p' is able: 'birch' is full (")
    assert (
        status(agent, "unplaced")["next"]
        == f"It is decided again when '{agent.cluster}' has room because something ends there, "
        "or the fleet changes otherwise."
    )


def test_a_run_whose_clusters_are_unable_for_several_reasons_says_who_is_behind_each(
    agent: PlayedAgent, context: Context
) -> None:
    full, cordoned, off = agent.cluster, f"oak-{agent.project}", f"elm-{agent.project}"
    put_pool(agent.client, f"mixed-{agent.project}", [full, cordoned, off], strategy="spill")
    report(agent.client, full, capacity={"executions": 1}, free={"executions": 0})
    for cluster in (cordoned, off):
        report(agent.client, cluster, capacity={"executions": 1}, free={"executions": 1})
    switch(agent.client, cordoned, "cordon", reason="new disks", claimed_by="otto")
    switch(agent.client, off, "disable", claimed_by="ana")
    events = {name: get(agent.client, f"clusters/{name}/events")["events"][0]["number"] for name in (cordoned, off)}
    created(agent.client, "unplaced", project=agent.project, **pool(f"mixed-{agent.project}"))
    closure = execution(agent.client, "unplaced", agent.project)["closure"]
    assert closure["reason"]["code"] == "CLUSTERS_UNABLE"
    assert message(agent, "unplaced") == (
        "QUEUED for 0 s: No cluster of pool 'mixed-p' is able: 'birch' is full (1 of 1 executions taken); "
        f"'oak-p' is cordoned, event {events[cordoned]}, anonymous (says otto), 0 s ago, 'new disks'; "
        f"'elm-p' is disabled, event {events[off]}, anonymous (says ana), 0 s ago."
    )
    read = get(agent.client, f"executions/{agent.project}/{DOMAIN}/unplaced?with_status=true")
    assert read["status"]["message"] == status(agent, "unplaced")["message"]


@pytest.mark.parametrize(
    ("details", "is_hinted"),
    [
        ({"reason": "SIGNAL", "signal": 9}, True),
        ({"exit_code": 137}, True),
        ({"exit_code": 1}, False),
        ({"reason": "NODE_FAIL", "signal": 9}, False),
    ],
)
def test_what_was_killed_without_being_known_for_its_memory_names_the_limit_that_may_be_why(
    agent: PlayedAgent, details: dict[str, Any], is_hinted: bool
) -> None:
    add(agent, "killed")
    agent.start()
    agent.finish(["killed"], "FAILED", message="It ended.", **details)
    hint = "If it ran out of memory: its limit 200Mi is the default set in configuration (task_resources.defaults."
    assert (hint in message(agent, "killed")) is is_hinted
    assert execution(agent.client, "killed", agent.project)["closure"]["cause"] != "LIMIT"


def test_the_limit_that_ended_it_is_named_with_who_set_it(agent: PlayedAgent, clock: Clock) -> None:
    def limit(name: str) -> str:
        agent.start()
        agent.finish([name], "FAILED", reason="OUT_OF_MEMORY", message="It was killed for memory.")
        start, _, end = message(agent, name).partition("Its limit ")
        assert start == "FAILED on birch 0 s ago: It was killed for memory. "
        return end.removesuffix(" No other attempt follows: no retries were asked for.")

    def put(**parts: dict[str, str]) -> int:
        attributes = {"matching_attributes": {"task_resource_attributes": parts}}
        body = {"attributes": attributes, "claimed_by": "ana", "message": "cap memory"}
        return int(ok(agent.client.put(f"{API}/project_attributes/{agent.project}", json=body))["revision"])

    add(agent, "unset")
    assert limit("unset") == "200Mi is the default set in configuration (task_resources.defaults.memory)."
    revision = put(defaults={"memory": "300Mi"})
    add(agent, "by-default")
    clock.advance(3)
    set_by = f"revision {revision}, anonymous (says ana), 3 s ago, 'cap memory'"
    assert limit("by-default") == f"300Mi is the default set at project p ({set_by})."
    revision = put(limits={"memory": "100Mi"})
    add(agent, "capped")
    set_by = f"revision {revision}, anonymous (says ana), 0 s ago, 'cap memory'"
    assert limit("capped") == f"100Mi is the limit set at project p ({set_by})."
    add(agent, "own", job={"command": ["x"], "resources": {"limits": {"memory": "50Mi"}}})
    assert limit("own") == "50Mi is set by the job itself."


def test_an_abort_says_who_asked_for_it(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "stopped")
    agent.start()
    clock.advance(7)
    body = {"cause": "Wrong input.", "claimed_by": "ana"}
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/stopped", json=body))
    assert message(agent, "stopped") == "ABORTING on birch for 0 s, by anonymous (says ana): Wrong input."
    agent.finish(["stopped"], "ABORTED")
    assert message(agent, "stopped") == "ABORTED on birch 0 s ago, by anonymous (says ana): Wrong input."


def test_a_time_limit_says_when_it_ends(agent: PlayedAgent) -> None:
    add(agent, "bounded", job={"command": ["x"], "resources": {"duration": "90s"}})
    agent.start()
    current = status(agent, "bounded")
    assert current["next"].startswith("It ends by itself, or for its time limit at ")
    assert current["next"].endswith("Z (90s, set by the job itself).")
    assert current["next_at"] > current["since"]


def test_a_time_limit_beyond_any_date_is_none(agent: PlayedAgent) -> None:
    add(agent, "endless", job={"command": ["x"], "resources": {"duration": "999999999999h"}})
    agent.start()
    assert status(agent, "endless")["next"] == "It ends by itself; it has no time limit."


def test_a_report_of_load_alone_counts(agent: PlayedAgent) -> None:
    agent.sync(report={"capacity": {"executions": 2}, "free": {"executions": 2}})
    add(agent, "waits")
    assert "is full" not in message(agent, "waits")
    agent.sync(report={"capacity": {"executions": 2}, "free": {"executions": 0}})
    assert "birch is full (2 of 2 executions taken)" in message(agent, "waits")


def test_an_end_in_the_queue_is_not_said_to_be_on_a_cluster(agent: PlayedAgent) -> None:
    add(agent, "never")
    ok(agent.client.delete(f"{API}/executions/{agent.project}/{DOMAIN}/never", json={"cause": "Not needed."}))
    assert message(agent, "never") == "ABORTED 0 s ago, by anonymous: Not needed."


def test_an_unset_label_is_why_any_cluster_may_be_chosen(agent: PlayedAgent) -> None:
    put_attribute(agent.client, "project", "execution_cluster_label", {"value": None}, project=agent.project)
    created(agent.client, "anywhere", project=agent.project)
    assert "the label is unset at project p, so that any cluster may be chosen." in message(agent, "anywhere")


def test_an_earlier_decision_has_no_status(agent: PlayedAgent, context: Context) -> None:
    add(agent, "moved")
    earlier = explanation(agent.client, "moved", "?decision=1", project=agent.project)
    assert earlier["status"]["phase"] == "QUEUED"  # the first is also the current one
    switch(agent.client, agent.cluster, "cordon")
    decide_waiting(context)
    first, second = (
        explanation(agent.client, "moved", f"?decision={number}", project=agent.project) for number in (1, 2)
    )
    assert ("status" in first, "status" in second) == (False, True)


def test_a_silent_cluster_is_what_the_sentence_is_about(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    add(agent, "alone")
    agent.start()
    clock.advance(20)
    judge_health(context)
    text = message(agent, "alone")
    assert text.startswith("RUNNING on birch for 20 s: Cluster 'birch' has been silent since ")
    current = status(agent, "alone")
    assert re.fullmatch(
        r"Whether it is lost is decided at 2[0-9T:-]+Z if the agent that has it stays away\.", current["next"]
    )
    assert current["next_at"] == explanation(agent.client, "alone", project=agent.project)["silence"]["next_at"]


def test_back_off_says_that_no_cluster_would_take_the_next_attempt(agent: PlayedAgent, context: Context) -> None:
    put_pool(agent.client, f"std-{agent.project}", [agent.cluster])
    retry = {"attempts": 2, "backoff": "1h"}
    created(agent.client, "again", project=agent.project, retry=retry, **pool(f"std-{agent.project}"))
    agent.start()
    agent.finish(["again"], "FAILED", exit_code=1)
    assert message(agent, "again").endswith("next attempt in 1 h.")
    switch(agent.client, agent.cluster, "drain", reason="new disks", claimed_by="otto", deadline="60s")
    event = get(agent.client, f"clusters/{agent.cluster}/events")["events"][0]["number"]
    nowhere = (
        "next attempt in 1 h. No cluster of pool 'std-p' would take the next attempt: 'birch' is draining, "
        f"event {event}, anonymous (says otto), 0 s ago, 'new disks'."
    )
    assert message(agent, "again").endswith(nowhere)
    decide_waiting(context)
    assert message(agent, "again").endswith(nowhere)
    assert status(agent, "again")["next"].endswith(", if some cluster takes it by then.")
    switch(agent.client, agent.cluster, "uncordon")
    decide_waiting(context)
    assert message(agent, "again").endswith("next attempt in 1 h.")


def test_what_runs_on_a_draining_cluster_says_when_the_drain_ends_it(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "runs")
    agent.start()
    drained = switch(agent.client, agent.cluster, "drain", reason="disks", claimed_by="otto", deadline="60s")
    deadline, event = drained["cluster"]["drain_deadline"], get(agent.client, f"clusters/{agent.cluster}/events")
    clock.advance(2)
    current = status(agent, "runs")
    by = f"event {event['events'][0]['number']}, anonymous (says otto), 2 s ago, 'disks'"
    assert current["next"] == (
        f"It ends by itself, or is ended at {deadline[:19]}Z by the drain of {agent.cluster} ({by}), and no other "
        "attempt follows then; it has no time limit."
    )
    assert current["next_at"] == deadline


def test_at_a_silent_cluster_a_drain_that_is_over_first_is_what_comes_next(
    agent: PlayedAgent, context: Context, clock: Clock
) -> None:
    add(agent, "runs", retry={"attempts": 4})
    agent.start()
    switch(agent.client, agent.cluster, "drain", reason="disks", claimed_by="otto", deadline="60s")
    deadline = get(agent.client, f"clusters/{agent.cluster}")["drain_deadline"]
    number = get(agent.client, f"clusters/{agent.cluster}/events")["events"][0]["number"]

    def over(age: int) -> str:
        by = f"event {number}, anonymous (says otto), {age} s ago, 'disks'"
        return f"the drain of {agent.cluster} is over at {deadline[:19]}Z ({by})"

    assert over(0) in status(agent, "runs")["if_silent"]
    clock.advance(20)
    judge_health(context)
    current = explanation(agent.client, "runs", project=agent.project)
    standing = current["status"]
    assert f"counts when the agent returns (on_lost: wait), until {over(20)}. " in standing["message"]
    assert "FAILED" not in standing["message"]
    step = f"It is ABORTING when {over(20)}; it ends ABORTED after that, unless it has succeeded."
    assert (standing["next"], standing["next_at"]) == (step, deadline)
    assert current["silence"]["next_at"] == deadline
    clock.advance(41)
    end_drained(context)
    standing = status(agent, "runs")
    assert standing["message"].startswith(f"ABORTING on {agent.cluster} for ")
    assert standing["next"].startswith("Whether it is lost is decided at ")
    clock.advance(200)
    judge_health(context)
    evict_from_lost(context, 100)
    why = "a drain counts as a loss, which is not retried (on_lost: wait, the default)."
    assert message(agent, "runs").startswith("ABORTED on birch 0 s ago: ")
    assert message(agent, "runs").endswith(f"No other attempt follows: {why}")


def test_it_is_in_the_queue_since_it_came_back_to_it(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "again", retry={"attempts": 2, "backoff": "2s"})
    clock.advance(30)
    created_at = execution(agent.client, "again", agent.project)["closure"]["created_at"]
    assert execution(agent.client, "again", agent.project)["phase_since"] == created_at
    agent.start()
    clock.advance(20)
    agent.finish(["again"], "FAILED", exit_code=1)
    clock.advance(5)
    agent.sync()
    since = status(agent, "again")["since"]
    assert message(agent, "again").startswith("QUEUED for 5 s, next at birch ")
    assert since > created_at
    assert execution(agent.client, "again", agent.project)["phase_since"] == since
    [waits] = get(agent.client, f"clusters/{agent.cluster}")["next_executions"]
    assert (waits["phase_since"], waits["attempt_number"]) == (since, 1)
    assert status(agent, "again")["attempt"] == 1


def test_a_queueing_budget_says_who_set_it(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    budget = {"spec": {"queueing_budget": "60s"}}
    number = put_attribute(agent.client, "project", "quality_of_service", budget, project=agent.project)["revision"]
    add(agent, "late")
    by = f"60s, set at project p (revision {number}, anonymous, 0 s ago)"
    step = status(agent, "late")["next"].replace(agent.project, "p")
    assert step.endswith(f"Z (its queueing budget is {by}).")
    deadline = status(agent, "late")["next_at"]
    clock.advance(61)
    end_overdue(context)
    by = f"60s, set at project p (revision {number}, anonymous, 1 min 1 s ago)"
    ended = f"It still waited when its queueing budget ended at {deadline[:19]}Z. Its queueing budget is {by}."
    assert message(agent, "late") == f"TIMED_OUT 0 s ago: {ended}"


def test_one_execution_opens_with_the_sentence_of_its_explanation_where_that_is_asked_for(agent: PlayedAgent) -> None:
    add(agent, "one")
    path = f"executions/{agent.project}/{DOMAIN}/one"
    assert "status" not in get(agent.client, path)
    assert get(agent.client, f"{path}?with_status=true")["status"] == status(agent, "one")


@pytest.mark.parametrize("query", ["", "?with_status=true"])
def test_one_execution_is_read_in_one_transaction(agent: PlayedAgent, context: Context, query: str) -> None:
    add(agent, "one")
    get(agent.client, f"executions/{agent.project}/{DOMAIN}/one{query}")
    with transactions(context) as begun:
        get(agent.client, f"executions/{agent.project}/{DOMAIN}/one{query}")
    assert len(begun) == 1


def limited(seconds: int) -> dict[str, Any]:
    return {"job": {"command": ["true"], "resources": {"duration": f"{seconds}s"}}}


def test_a_run_in_line_says_by_when_it_starts_at_the_latest(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "first", **limited(100))
    add(agent, "second", **limited(40))
    add(agent, "third")
    add(agent, "fourth")
    start = status(agent, "first")["start"]
    assert (start["position"], start["running"], start["waiting"], start["ahead"]) == (1, 0, 0, [])
    assert "latest_at" not in start
    assert start["message"].startswith("Nothing is ahead of it at ")
    agent.start()
    clock.advance(30)
    started_at = execution(agent.client, "first", agent.project)["closure"]["started_at"]
    start = status(agent, "third")["start"]
    assert (start["position"], start["running"], start["waiting"], start["unlimited"]) == (2, 1, 1, 0)
    ends_by = datetime.fromisoformat(started_at) + timedelta(seconds=100)
    assert datetime.fromisoformat(start["first_end_at"]) == ends_by
    assert datetime.fromisoformat(start["latest_at"]) == ends_by + timedelta(seconds=40)
    assert [(other["name"], other["phase"], other.get("time_limit_seconds")) for other in start["ahead"]] == [
        ("first", "RUNNING", 100.0),
        ("second", "QUEUED", 40.0),
    ]
    assert datetime.fromisoformat(start["ahead"][0]["ends_by"]) == ends_by
    assert start["message"].startswith(f"At the latest at {show_time(ends_by + timedelta(seconds=40))}, by the time")
    start = status(agent, "fourth")["start"]
    assert start["unlimited"] == 1
    assert "latest_at" not in start
    assert f"No bound: {agent.project}/{DOMAIN}/third has no time limit" in start["message"]
    assert get(agent.client, f"executions/{agent.project}/{DOMAIN}/fourth?with_status=true")["status"]["start"] == start
    assert "start" not in status(agent, "first")
    switch(agent.client, agent.cluster, "cordon")
    assert "start" not in status(agent, "fourth")


def test_what_is_in_back_off_is_not_in_line_until_its_time(agent: PlayedAgent, clock: Clock) -> None:
    add(agent, "fails", retry={"attempts": 2, "backoff": "100s"})
    agent.finish(agent.start(), "FAILED", exit_code=1)
    add(agent, "waits")
    start = status(agent, "waits")["start"]
    assert (start["position"], start["waiting"], start["backing_off"], start["ahead"]) == (1, 0, 1, [])
    [fails, waits] = get(agent.client, f"clusters/{agent.cluster}")["next_executions"]
    assert datetime.fromisoformat(fails["not_before"]) > clock()
    assert "not_before" not in waits
    clock.advance(101)
    agent.sync()
    start = status(agent, "waits")["start"]
    assert (start["position"], start["waiting"], start["backing_off"]) == (2, 1, 0)


def test_a_lost_cluster_is_said_to_be_silent_since_when(agent: PlayedAgent, context: Context, clock: Clock) -> None:
    put_pool(agent.client, f"std-{agent.project}", [agent.cluster])
    heard = get(agent.client, f"clusters/{agent.cluster}")["last_sync_at"][:19]
    clock.advance(40)
    judge_health(context)
    created(agent.client, "unplaced", project=agent.project, **pool(f"std-{agent.project}"))
    assert message(agent, "unplaced").endswith(f"is able: 'birch' is lost (silent since {heard}Z).")


def test_a_launch_plan_is_named_for_its_retries(agent: PlayedAgent) -> None:
    ok(register_workflow(agent.client, "fit", project=agent.project))
    retry = {"attempts": 2, "retry_on": ["TIMED_OUT"]}
    ok(register_plan(agent.client, "nightly", "fit", project=agent.project, retry=retry))
    launch = identifier("nightly", project=agent.project)
    created(agent.client, "planned", project=agent.project, cluster=agent.cluster, launch_plan=launch)
    agent.start()
    agent.finish(["planned"], "FAILED", message="It exited with 1.", exit_code=1)
    assert message(agent, "planned").endswith(
        "No other attempt follows: FAILED is not retried (retry_on: TIMED_OUT), as launch plan 'nightly', version v1, "
        "says."
    )
