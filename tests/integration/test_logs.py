"""What executions print and leave: stored in pieces, read and followed; on both databases."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection

from admin.services.context import Context
from admin.store import executions, logs
from admin.store.executions import ExecutionId
from tests.support.agents import PlayedAgent, own_clock, played_agent
from tests.support.placing import API, DOMAIN, created, get, refused
from tests.support.waiting import wait_until

SLOW_ON = ("postgresql",)

LIMIT = 1024 * 1024
HEAD, TAIL = LIMIT // 4, LIMIT * 3 // 4
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


def read_all(agent: PlayedAgent, query: str = "") -> str:
    """All that is kept of a log from some place on, page by page."""
    answer = read(agent, f"limit=262144&{query}")
    pages = [answer["data"]]
    while answer["data"]:
        answer = read(agent, f"limit=262144&offset={answer['next_offset']}")
        pages.append(answer["data"])
    return "".join(pages)


def stored_id(connection: Connection, agent: PlayedAgent) -> int:
    execution = executions.get(connection, ExecutionId(agent.project, DOMAIN, "e"))
    assert execution is not None
    return execution.id


def marker(missing: int) -> str:
    return (
        f"\nrainbow: {missing} bytes are missing here: agents.logLimitBytes of the admin and "
        "engineOptions.logLimitBytes of the agent say how many are kept\n"
    )


def test_one_missing_byte_is_one_byte(agent: PlayedAgent) -> None:
    send(agent, agent.log("e", 0, b"begin"), agent.log("e", 6, b"end", after=5))
    assert read_all(agent).startswith("begin\nrainbow: 1 byte is missing here: ")


def test_pieces_are_joined_and_read_from_any_offset(agent: PlayedAgent) -> None:
    assert send(agent, agent.log("e", 0, b"hello "), agent.log("e", 0, b"oh", "stderr")) == [(6, False), (2, False)]
    assert send(agent, agent.log("e", 6, b"world\n")) == [(12, False)]
    assert read(agent) == {
        "attempt": 1,
        "stream": "stdout",
        "offset": 0,
        "data": "hello world\n",
        "next_offset": 12,
        "end": 12,
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
    letters = bytes(range(65, 91))
    assert send(agent, agent.log("e", 0, letters[:10])) == [(10, False)]
    assert send(agent, agent.log("e", 0, letters[:10])) == [(10, False)]  # the answer was lost
    assert send(agent, agent.log("e", 4, letters[4:14])) == [(14, False)]  # some of it is new
    assert send(agent, agent.log("e", 20, letters[20:])) == [(14, False)]  # what is between has not come
    assert send(agent, agent.log("e", 20, letters[20:]), agent.log("e", 14, letters[14:])) == [(14, False), (26, False)]
    assert send(agent, agent.log("e", 2, letters[2:5]), agent.log("e", 26, b"")) == [(26, False), (26, False)]
    assert read(agent)["data"] == letters.decode()


def test_of_ten_megabytes_the_beginning_and_the_end_are_kept_and_it_is_said(agent: PlayedAgent) -> None:
    line = b"0123456789abcde\n"
    data = line * (10 * LIMIT // len(line)) + b"Traceback: the reason\n"
    half = len(data) // 2
    pieces = [agent.log("e", 0, data[:half]), agent.log("e", half, data[half:]), agent.log("e", 0, data, "stderr")]
    assert send(agent, *pieces) == [(half, False), (len(data), False), (len(data), False)]
    kept = data[:HEAD].decode() + marker(len(data) - LIMIT) + data[-TAIL:].decode()
    assert read_all(agent) == kept
    assert read_all(agent, "stream=stderr") == read_all(agent)
    agent.finish(["e"])
    assert read_all(agent) == kept
    assert read(agent, f"offset={len(data)}") | {"offset": 0} == {
        "attempt": 1,
        "stream": "stdout",
        "offset": 0,
        "data": "",
        "next_offset": len(data),
        "end": len(data),
        "complete": True,
        "truncated": True,
    }


def test_no_more_than_the_limit_is_stored_of_a_log_that_grows_without_end(
    agent: PlayedAgent, shared_context: Context
) -> None:
    piece = bytes(range(256)) * 400
    for number in range(30):
        assert send(agent, agent.log("e", number * len(piece), piece)) == [((number + 1) * len(piece), False)]
        with shared_context.database.reading() as connection:
            extent = logs.extent(connection, (stored_id(connection, agent), 1, "stdout"))
        assert extent.kept == min(LIMIT, (number + 1) * len(piece))
        assert extent.end == (number + 1) * len(piece)


def test_a_reader_in_the_middle_of_a_log_that_grows_is_told_what_it_missed(agent: PlayedAgent) -> None:
    send(agent, agent.log("e", 0, b"a" * LIMIT))
    follower = read(agent, f"offset={HEAD}&limit=1000")
    send(agent, agent.log("e", LIMIT, b"b" * LIMIT))
    begin = follower["next_offset"]
    more = read(agent, f"offset={begin}&limit=1000")
    assert more["data"] == marker(HEAD + LIMIT - begin) + "b" * 1000
    assert more["next_offset"] == HEAD + LIMIT + 1000
    assert read(agent, "limit=1000")["truncated"] is True


def test_half_a_character_before_missing_bytes_does_not_stop_a_reader(agent: PlayedAgent) -> None:
    data = "é".encode() * LIMIT
    send(agent, agent.log("e", 0, data[:1]), agent.log("e", 1, data[1:]))
    send(agent, agent.log("e", len(data), b"x"))
    text = read_all(agent)
    assert text.startswith("é" * (HEAD // 2))
    assert text.endswith("x")
    assert text.count("rainbow: ") == 1


def test_bytes_that_an_agent_dropped_are_missing_only_where_it_says_so(agent: PlayedAgent) -> None:
    send(agent, agent.log("e", 0, b"begin"))
    assert send(agent, agent.log("e", 100, b"end")) == [(5, False)]  # they may still come, as after a restoration
    assert send(agent, agent.log("e", 100, b"end", after=3)) == [(5, False)]
    assert send(agent, agent.log("e", 100, b"end", after=5)) == [(103, False)]
    assert send(agent, agent.log("e", 100, b"end", after=5)) == [(103, False)]
    assert read_all(agent) == "begin" + marker(95) + "end"


@pytest.mark.parametrize(
    ("pieces", "number", "expected"),
    [
        ([], 3, ""),
        (["a\nb\nc\n"], 2, "b\nc\n"),
        (["a\nb\nc"], 2, "b\nc"),
        (["a\nb", "b\nc", "c\n"], 2, "bb\ncc\n"),
        (["a\n", "\n", "\n"], 2, "\n\n"),
        (["a\r\x0bb\u2028c\n"], 1, "a\r\x0bb\u2028c\n"),
        (["a\nb\n"], 9, "a\nb\n"),
        (["a\nb"], 0, ""),
        ([f"{number}\n" for number in range(100)], 40, "".join(f"{number}\n" for number in range(60, 100))),
    ],
)
def test_the_last_lines_of_a_log(agent: PlayedAgent, pieces: list[str], number: int, expected: str) -> None:
    sent = "".join(pieces)
    for place, piece in enumerate(pieces):
        send(agent, agent.log("e", len("".join(pieces[:place]).encode()), piece.encode()))
    answer = read(agent, f"tail={number}")
    assert answer["data"] == expected
    assert answer["offset"] == len(sent.encode()) - len(expected.encode())


def test_what_was_printed_since_a_time(agent: PlayedAgent, shared_app: Flask) -> None:
    with own_clock(shared_app) as clock:
        start = clock().isoformat().replace("+00:00", "Z")
        send(agent, agent.log("e", 0, b"1\n2\n"))
        clock.advance(600)
        send(agent, agent.log("e", 4, b"3\n4\n"))
        clock.advance(60)
        assert read(agent, "since=5m")["data"] == "3\n4\n"
        assert read(agent, "since=5m&tail=1")["data"] == "4\n"
        assert read(agent, "since=5m&tail=3")["data"] == "3\n4\n"
        assert read(agent, "since=30s") | {"data": ""} == read(agent, "offset=8")
        assert read(agent, "since=1h")["data"] == read(agent, f"since={start}")["data"] == "1\n2\n3\n4\n"
    logs = f"{API}/{path(agent, 'logs')}"
    refused(agent.client.get(f"{logs}?since=yesterday"), 400, "invalid_request", "since")
    refused(agent.client.get(f"{logs}?tail=5&offset=2"), 400, "invalid_request", "offset")
    refused(agent.client.get(f"{logs}?tail=-1"), 400, "invalid_request", "tail")


def test_of_an_attempt_a_hundred_output_files_are_stored(agent: PlayedAgent, shared_context: Context) -> None:
    pieces = [agent.log("e", 0, b"data", f"output:{number}") for number in range(102)]
    assert send(agent, *pieces[:60]) == [(4, False)] * 60
    assert send(agent, *pieces[60:]) == [(4, False)] * 40 + [(4, True)] * 2
    assert send(agent, agent.log("e", 4, b"more", "output:99"), agent.log("e", 0, b"text")) == [(8, False), (4, False)]
    with shared_context.database.reading() as connection:
        assert len(logs.ends(connection, [stored_id(connection, agent)])) == 101


def test_a_sync_that_is_too_large_is_refused_by_name(agent: PlayedAgent) -> None:
    data = "x" * (33 * LIMIT)
    refused(agent.post(logs=[agent.log("e", 0, b"") | {"data_base64": data}]), 413, "body_too_large")
    refused(agent.post(logs=[agent.log("e", 0, b"") | {"data_base64": "%%%"}]), 400, "invalid_request")
    refused(agent.post(logs=[agent.log("e", 0, b"") | {"data": "both"}]), 400, "invalid_request")
    for stream in ("stdin", "stdout\n", "output:a\0"):
        refused(agent.post(logs=[agent.log("e", 0, b"", stream)]), 400, "invalid_request", "logs.stream")
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
    answer = refused(agent.client.get(f"{API}/{path(agent, 'logs')}?attempt=2"), 400, "invalid_request", "attempt")
    assert answer["details"][0]["reason"] == "execution 'e' has 1 attempt; give 1."
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
    answer = refused(agent.client.get(f"{API}/{path(agent, 'logs')}?attempt=3"), 400, "invalid_request", "attempt")
    assert answer["details"][0]["reason"] == "execution 'e' has 2 attempts; give 1 to 2."
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
    assert {name: (output["kept"], output["limit"]) for name, output in outputs.items()} == {
        "cut": (1, 1000),
        "empty": (0, 1000),
        "large": (1000, 1000),
        "result": (2, 1000),
    }
    assert agent.report("e", "FAILED", 1, outputs=[file("late", b"")]) == "OLD_ATTEMPT"
    assert len(get(agent.client, path(agent, "outputs"))["outputs"]) == 4


def content(agent: PlayedAgent, name: str, limit: int = 400) -> Iterator[Any]:
    """The pieces of an output file."""
    answer = {"next_offset": 0, "complete": False}
    while not answer["complete"]:
        query = f"path={name}&offset={answer['next_offset']}&limit={limit}"
        yield (answer := get(agent.client, f"{path(agent, 'outputs/content')}?{query}"))


def test_a_large_output_comes_and_goes_in_pieces_up_to_the_limit(agent: PlayedAgent, shared_context: Context) -> None:
    def large(size: int) -> dict[str, Any]:
        return {"path": "model", "content_base64": "", "size": size, "truncated": True}

    data = bytes(range(250)) * 4
    assert send(agent, agent.log("e", 0, data[:600], "output:model")) == [(600, False)]
    agent.finish(["e"], "FAILED", outputs=[large(700)])
    assert [piece["kept"] for piece in content(agent, "model")] == [600, 600]
    start_again(agent)
    assert send(agent, agent.log("e", 300, data[300:600], "output:model")) == [(0, False)]  # the start has not come
    assert send(agent, agent.log("e", 0, data[:600], "output:model")) == [(600, False)]
    assert send(agent, agent.log("e", 600, data[600:] + b"more", "output:model")) == [(1000, True)]
    agent.finish(["e"], outputs=[large(1004), {"path": "small", "content_base64": "YWI=", "size": 2}])
    [model, small] = get(agent.client, path(agent, "outputs"))["outputs"]
    beginning = base64.b64encode(data).decode()  # for clients that know of no pieces
    assert model == large(1004) | {"kept": 1000, "limit": 1000, "attempt": 2, "content_base64": beginning}
    assert (small["kept"], small["truncated"]) == (2, False)
    pieces = list(content(agent, "model"))
    assert b"".join(base64.b64decode(piece["content_base64"]) for piece in pieces) == data
    assert [(piece["offset"], piece["complete"]) for piece in pieces] == [(0, False), (400, False), (800, True)]
    assert [base64.b64decode(piece["content_base64"]) for piece in content(agent, "small")] == [b"ab"]
    with shared_context.database.reading() as connection:
        # What it left before is gone.
        assert logs.extent(connection, (stored_id(connection, agent), 1, "output:model")).kept == 0
    answer = agent.client.get(f"{API}/{path(agent, 'outputs/content')}?path=modle")
    refused(answer, 404, "output_not_found", "path")
    assert "Did you mean 'model'?" in answer.get_json()["message"]
