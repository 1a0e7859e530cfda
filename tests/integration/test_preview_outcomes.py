"""What a preview says of executions is what happens then, whether the cluster is heard, silent or was never seen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from admin.services.evictions import end_drained, evict_from_lost, judge_health
from admin.services.redecisions import decide_undecided, decide_waiting
from tests.support.agents import PlayedAgent, WatchedClock, names, played_agent
from tests.support.apps import context_of
from tests.support.placing import API, created, execution, get, nothing_stored, ok, pool, put_cluster, put_pool

SLOW_ON = ("postgresql",)

#: How long agents wait between two syncs here, and how exactly times are compared.
STEP_SECONDS = 10


@dataclass(kw_only=True)
class Story:
    """A fleet with an agent at `west`, and at `east` one that may fall silent, or none."""

    client: FlaskClient
    context: Context
    clock: WatchedClock
    west: PlayedAgent
    east: PlayedAgent | None

    def pass_time(self, seconds: float) -> None:
        """Let time pass, while agents sync and the admin does its background work."""
        while seconds > 0:
            self.clock.advance(min(seconds, STEP_SECONDS))
            seconds -= STEP_SECONDS
            self.west.sync()
            if self.east is not None:
                self._end_cancelled(self.east)
            judge_health(self.context)
            end_drained(self.context)
            evict_from_lost(self.context, 1000)
            self.decide()

    def _end_cancelled(self, agent: PlayedAgent) -> None:
        cancelled = names(agent.sync()["cancels"])
        if cancelled:
            agent.finish(cancelled, "ABORTED")

    def decide(self) -> None:
        decide_waiting(self.context)
        decide_undecided(self.context)

    def pass_time_until(self, at: str, seconds_before: float) -> None:
        self.pass_time((datetime.fromisoformat(at) - self.clock()).total_seconds() - seconds_before)

    def change(self, word: str, *, dry_run: bool = False) -> Any:
        """Switch `east`, or delete it."""
        query = f"dry_run={str(dry_run).lower()}"
        if word == "delete":
            answer = ok(self.client.delete(f"{API}/clusters/east?force=true&{query}"))
            return answer.get("executions")
        body = {"deadline": "30s"} if word == "drain" else {}
        return ok(self.client.post(f"{API}/clusters/east/{word}?{query}", json=body))

    def check(self, name: str, effect: Any) -> None:
        """Compare what was said of an execution with what it is by now."""
        shown = execution(self.client, name)
        phase, cluster, outcome = shown["closure"]["phase"], shown.get("cluster"), effect["outcome"]
        if outcome in ("MOVES", "WAITS", "RUNS_AGAIN", "STAYS"):
            assert (phase, cluster) == ("QUEUED", effect.get("cluster")), effect
        elif outcome == "ENDS":
            assert phase in ("FAILED", "ABORTED"), effect
        else:
            assert (outcome, cluster) == ("RUNS_ON", "east")
            assert phase not in ("FAILED", "ABORTED"), effect


@pytest.fixture
def story(app: Flask, api: FlaskClient, request: pytest.FixtureRequest) -> Story:
    clock = WatchedClock(app)
    context = context_of(app)
    clock.advance(context.settings.agents.lease_seconds + STEP_SECONDS)  # before that nothing is judged
    story = Story(client=api, context=context, clock=clock, west=played_agent(api, context, "west"), east=None)
    put_cluster(api, "east")
    put_pool(api, "both", ["east", "west"], strategy="spill")
    put_pool(api, "alone", ["east"])
    if request.param == "never seen":
        created(api, "stuck", **pool("alone"))
        return story
    east = played_agent(api, context, "east")
    for on_lost in ("wait", "fail", "retry"):
        created(api, on_lost, **pool("both"), retry={"on_lost": on_lost})
    assert east.start(3) == ["wait", "fail", "retry"]
    created(api, "offered", **pool("both"))
    assert list(east.offered()) == ["offered"]
    created(api, "waits", **pool("both"))
    created(api, "stuck", **pool("alone"))
    if request.param == "silent":
        story.pass_time(context.settings.agents.unreachable_seconds + STEP_SECONDS)
        assert get(api, "clusters/east")["state"] == "unreachable"
    else:
        story.east = east
    return story


#: What is said of each execution; those that are left out are not affected.
_QUEUED = {"waits": "MOVES", "stuck": "WAITS"}
_ENDED = {"wait": "ENDS", "fail": "ENDS", "retry": "RUNS_AGAIN", "offered": "MOVES"}
_LOST = {"wait": "RUNS_ON", "fail": "ENDS", "retry": "RUNS_AGAIN", "offered": "MOVES"}


@pytest.mark.parametrize(
    ("story", "word", "outcomes"),
    [
        ("healthy", "cordon", _QUEUED),
        ("healthy", "disable", _QUEUED),
        ("healthy", "drain", _QUEUED | _ENDED),
        ("healthy", "delete", _QUEUED | _LOST),
        ("silent", "cordon", _QUEUED),
        ("silent", "disable", _QUEUED),
        ("silent", "drain", _QUEUED | _LOST | {"wait": "ENDS"}),
        ("silent", "delete", _QUEUED | _LOST),
        ("never seen", "cordon", {"stuck": "WAITS"}),
        ("never seen", "disable", {"stuck": "WAITS"}),
        ("never seen", "drain", {"stuck": "WAITS"}),
        ("never seen", "delete", {"stuck": "WAITS"}),
    ],
    indirect=["story"],
)
def test_what_a_preview_says_is_what_happens(story: Story, word: str, outcomes: dict[str, str]) -> None:
    with nothing_stored(story.context):
        effects = {effect["id"]["name"]: effect for effect in story.change(word, dry_run=True)["effects"]}
    assert {name: effect["outcome"] for name, effect in effects.items()} == outcomes
    before = {name: execution(story.client, name) for name in effects}
    story.change(word)
    if word == "delete":
        story.east = None  # whose agent is refused from now on
    story.decide()
    if story.east is not None and word == "drain":
        story.east.report("offered", "RELEASED")  # as an agent does that is told of the drain
        story.decide()
    # What waits for its agent is given up only after a day.
    is_ending = story.east is None and word == "drain" and "wait" in effects
    timed = {
        name: effect["at"]
        for name, effect in effects.items()
        if "at" in effect and effect["outcome"] != "RUNS_ON" and not (is_ending and name == "wait")
    }
    for at in sorted(set(timed.values())):
        story.pass_time_until(at, STEP_SECONDS)
        for name in timed:
            if timed[name] == at:
                assert execution(story.client, name).get("cluster") == before[name].get("cluster"), effects[name]
        story.pass_time_until(at, -2 * STEP_SECONDS)
    if is_ending:
        effect = effects.pop("wait")
        assert "but its agent is silent since" in effect["message"]
        assert "it is ABORTING until that is heard again, or it is given up at " in effect["message"]
        assert execution(story.client, "wait")["closure"]["phase"] == "ABORTING"
    for name, effect in effects.items():
        story.check(name, effect)
