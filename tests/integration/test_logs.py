"""What executions print and leave: stored in pieces, read and followed; on both databases."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from admin.services.context import Context
from tests.support.agents import PlayedAgent, played_agent
from tests.support.placing import API, DOMAIN, created, get, refused
from tests.support.waiting import wait_until

LIMIT = 1024 * 1024
SECTIONS = {"agents": {"logLimitBytes": LIMIT, "outputLimitBytes": 1000}}


@pytest.fixture
def agent(shared: FlaskClient, shared_context: Context, project: str) -> PlayedAgent:
    """An agent that runs an execution called e, which may be run three times."""
    agent = played_agent(shared, shared_context, f"a-{project}", project=project)
    retry = {"attempts": 3, "backoff": "1ms"}
    created(shared, "e", project=project, cluster=agent.cluster, retry=retry)
    agent.start()
    return agent


def start_again(agent: PlayedAgent) -> None:
    """Run the next attempt, which is offered when its back-off is over."""
    agent.holding = agent.offered(wait_seconds=60)
    assert agent.sync(agent.event("e", "RUNNING"))["refused"] == []


def path(agent: PlayedAgent, noun: str, name: str = "e") -> str:
    return f"executions/{agent.project}/{DOMAIN}/{name}/{noun}"


def read(agent: PlayedAgent, query: str = "", name: str = "e") -> Any:
    return get(agent.client, f"{path(agent, 'logs', name)}?{query}")


def send(agent: PlayedAgent, *pieces: dict[str, Any]) -> list[tuple[int, bool]]:
    """How far each stream is stored after each piece, and whether it is full."""
    return [(stored["offset"], stored["full"]) for stored in agent.sync(logs=list(pieces))["log_offsets"]]


def test_pieces_are_joined_and_read_from_any_offset(agent: PlayedAgent) -> None:
    assert send(agent, agent.log("e", 0, b"hello "), agent.log("e", 0, b"oh", "stderr")) == [(6, False), (2, False)]
    assert send(agent, agent.log("e", 6, b"world\n")) == [(12, False)]
    assert read(agent) == {
        "attempt": 1,
        "stream": "stdout",
        "offset": 0,
        "data": "hello world\n",
        "next_offset": 12,
        "complete": False,
        "truncated": False,
    }
    assert read(agent, "stream=stderr")["data"] == "oh"
    assert [read(agent, f"offset={offset}&limit=4")["data"] for offset in (0, 4, 8, 12, 99)] == [
        "hell",
        "o wo",
        "rld\n",
        "",
        "",
    ]
    agent.finish(["e"])
    last = read(agent, "offset=8")
    assert (last["data"], last["complete"], last["truncated"]) == ("rld\n", True, False)
    assert read(agent, "limit=3")["complete"] is False


def test_pieces_that_come_twice_overlap_or_leave_a_gap_do_no_harm(agent: PlayedAgent) -> None:
    whole = bytes(range(65, 91))
    assert send(agent, agent.log("e", 0, whole[:10])) == [(10, False)]
    assert send(agent, agent.log("e", 0, whole[:10])) == [(10, False)]  # the answer was lost
    assert send(agent, agent.log("e", 4, whole[4:14])) == [(14, False)]  # some of it is new
    assert send(agent, agent.log("e", 20, whole[20:])) == [(14, False)]  # what is between has not come
    assert send(agent, agent.log("e", 20, whole[20:]), agent.log("e", 14, whole[14:])) == [(14, False), (26, False)]
    assert send(agent, agent.log("e", 2, whole[2:5]), agent.log("e", 26, b"")) == [(26, False), (26, False)]
    assert read(agent)["data"] == whole.decode()


def test_ten_megabytes_at_once_are_cut_at_the_limit_and_it_is_said(agent: PlayedAgent) -> None:
    line = b"0123456789abcde\n"
    data = line * (10 * LIMIT // len(line))
    pieces = [agent.log("e", 0, data), agent.log("e", 0, data, "stderr"), agent.log("e", len(data), b"more")]
    assert send(agent, *pieces) == [(LIMIT, True), (LIMIT, True), (LIMIT, True)]
    pages, offset = [], 0
    while offset < LIMIT:
        answer = read(agent, f"offset={offset}&limit=262144")
        pages.append(answer["data"])
        offset = answer["next_offset"]
    assert "".join(pages) == data[:LIMIT].decode()
    assert (answer["truncated"], answer["complete"], len(pages)) == (True, False, 4)
    agent.finish(["e"])
    assert read(agent, f"offset={LIMIT}") | {"offset": 0} == {
        "attempt": 1,
        "stream": "stdout",
        "offset": 0,
        "data": "",
        "next_offset": LIMIT,
        "complete": True,
        "truncated": True,
    }


def test_a_sync_that_is_too_large_is_refused_by_name(agent: PlayedAgent) -> None:
    data = "x" * (33 * LIMIT)
    refused(agent.post(logs=[agent.log("e", 0, b"") | {"data_base64": data}]), 413, "body_too_large")
    refused(agent.post(logs=[agent.log("e", 0, b"") | {"data_base64": "%%%"}]), 400, "invalid_request")
    refused(agent.post(logs=[agent.log("e", 0, b"") | {"data": "both"}]), 400, "invalid_request")
    assert send(agent, agent.log("e", 0, b"still well")) == [(10, False)]


def test_text_is_cut_between_characters_and_what_is_no_text_is_replaced(agent: PlayedAgent) -> None:
    text = "grün \N{SNOWMAN} \N{GRINNING FACE}!"
    data = text.encode()
    send(agent, agent.log("e", 0, data))
    for limit in (4, 5, 7, 11, 100):
        pages, offset = [], 0
        while offset < len(data):
            answer = read(agent, f"offset={offset}&limit={limit}")
            assert answer["next_offset"] > offset
            pages.append(answer["data"])
            offset = answer["next_offset"]
        assert "".join(pages) == text
    send(agent, {**agent.log("e", len(data), b"\xff\xfe\xe2\x98")})
    tail = read(agent, f"offset={len(data)}")
    assert (tail["data"], tail["next_offset"]) == ("\ufffd\ufffd", len(data) + 2)  # half a character may be completed
    agent.finish(["e"])
    tail = read(agent, f"offset={len(data)}")
    assert (tail["data"], tail["complete"]) == ("\ufffd\ufffd\ufffd", True)


def test_a_reader_that_asks_for_less_than_a_character_gets_on(agent: PlayedAgent) -> None:
    data = "\N{GRINNING FACE}a".encode()
    send(agent, agent.log("e", 0, data))
    agent.finish(["e"])
    offset, turns = 0, 0
    while not (answer := read(agent, f"offset={offset}&limit=1"))["complete"] and turns < 10:
        offset, turns = answer["next_offset"], turns + 1
    assert answer["complete"] is True


def test_every_attempt_keeps_its_own_log_to_the_last_piece(agent: PlayedAgent) -> None:
    send(agent, agent.log("e", 0, b"first"))
    last = agent.log("e", 5, b", and last words")
    answer = agent.sync(agent.event("e", "FAILED"), logs=[last])  # both at once, and another attempt follows
    assert [stored["offset"] for stored in answer["log_offsets"]] == [21]
    agent.holding = {}
    start_again(agent)
    assert agent.holding == {"e": 2}
    assert send(agent, agent.log("e", 0, b"second")) == [(6, False)]
    assert (read(agent)["attempt"], read(agent)["data"]) == (2, "second")
    first = read(agent, "attempt=1")
    assert (first["data"], first["complete"]) == ("first, and last words", True)
    refused(agent.client.get(f"{API}/{path(agent, 'logs')}?attempt=3"), 400, "invalid_request", "attempt")
    refused(agent.client.get(f"{API}/{path(agent, 'logs')}?stream=both"), 400, "invalid_request", "stream")


def test_logs_of_what_is_not_the_agents_are_not_kept(
    agent: PlayedAgent, shared: FlaskClient, shared_context: Context
) -> None:
    other = played_agent(shared, shared_context, f"b-{agent.project}", project=agent.project)
    assert send(other, other.log("e", 0, b"not mine"), other.log("nothing", 0, b"x")) == [(8, True), (1, True)]
    assert send(agent, agent.log("e", 0, b"old", attempt=7)) == [(3, True)]
    assert read(agent)["data"] == ""


def test_a_log_can_be_followed(shared_app: Flask, agent: PlayedAgent) -> None:
    answers: list[str] = []

    def follow() -> None:
        client, offset, complete = shared_app.test_client(), 0, False
        while not complete:
            answer = get(client, f"{path(agent, 'logs')}?offset={offset}&wait_seconds=60")
            offset, complete = answer["next_offset"], answer["complete"]
            answers.append(answer["data"])

    follower = threading.Thread(target=follow)
    follower.start()
    send(agent, agent.log("e", 0, b"a"))
    wait_until(lambda: "".join(answers) == "a")
    send(agent, agent.log("e", 1, b"b"))
    wait_until(lambda: "".join(answers) == "ab")
    agent.finish(["e"])
    follower.join()
    assert "".join(answers) == "ab"
    assert len(answers) <= 5  # it waited, and did not ask all the time


def test_outputs_are_kept_up_to_a_limit_and_those_of_the_last_attempt_count(agent: PlayedAgent) -> None:
    def file(name: str, content: bytes, **more: Any) -> dict[str, Any]:
        return {
            "path": name,
            "content_base64": base64.b64encode(content).decode(),
            "size": len(content),
            **more,
        }

    assert get(agent.client, path(agent, "outputs")) == {"outputs": []}
    agent.finish(["e"], "FAILED", outputs=[file("old", b"1"), file("result", b"2")])
    start_again(agent)
    large, cut = file("large", b"x" * 1001), file("cut", b"x", size=5000, truncated=True)
    agent.finish(["e"], outputs=[file("result", b"\0\xff"), large, cut, file("empty", b""), file("empty", b"")])
    outputs = {output["path"]: output for output in get(agent.client, path(agent, "outputs"))["outputs"]}
    assert list(outputs) == ["cut", "empty", "large", "result"]
    assert base64.b64decode(outputs["result"]["content_base64"]) == b"\0\xff"
    assert {name: (output["size"], output["truncated"], output["attempt"]) for name, output in outputs.items()} == {
        "cut": (5000, True, 2),
        "empty": (0, False, 2),
        "large": (1001, True, 2),
        "result": (2, False, 2),
    }
    assert len(base64.b64decode(outputs["large"]["content_base64"])) == 1000
    assert agent.report("e", "FAILED", 1, outputs=[file("late", b"")]) == "OLD_ATTEMPT"
    assert len(get(agent.client, path(agent, "outputs"))["outputs"]) == 4
