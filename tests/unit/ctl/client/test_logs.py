from __future__ import annotations

from typing import Any

import pytest

from ctl.client import Client, Transport
from ctl.client.executions import ExecutionId
from ctl.client.logs import Stream, last_lines

ID = ExecutionId(project="p", domain="d", name="a1")


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
    ],
)
def test_the_last_lines_of_a_text_in_pieces(pieces: list[str], number: int, expected: str) -> None:
    assert last_lines(pieces, number) == expected


class LogSender(Transport):
    """Answers for a log as the admin does, and notes what it is asked."""

    url = "http://admin"

    def __init__(self, *pieces: str, is_over: bool = True) -> None:
        self.pieces = list(pieces)
        self.is_over = is_over
        self.asked: list[dict[str, Any]] = []

    def call(self, method: str, path: str, **call: Any) -> dict[str, Any]:
        query = call["query"]
        assert path == "executions/p/d/a1/logs"
        self.asked.append({**query, "more_seconds": call["more_seconds"]})
        data = self.pieces.pop(0) if self.pieces else ""
        return {
            "attempt": 2,
            "data": data,
            "next_offset": query["offset"] + len(data.encode()),
            "complete": self.is_over and not self.pieces,
            "truncated": False,
        }

    def close(self) -> None:
        pass


def stream(log: LogSender) -> Stream:
    return Stream(Client.from_transport(log), ID, "stderr", 2)


def test_a_stream_is_read_on_from_where_the_last_piece_ended() -> None:
    log = LogSender("é\n", "b\n")
    reader = stream(log)
    assert list(reader.available()) == ["é\n", "b\n"]
    assert reader.is_complete
    assert [(query["stream"], query["attempt"], query["offset"]) for query in log.asked] == [
        ("stderr", 2, 0),
        ("stderr", 2, 3),
    ]
    assert all("wait_seconds" not in query for query in log.asked)


def test_what_is_there_ends_where_more_may_come() -> None:
    log = LogSender("a\n", is_over=False)
    reader = stream(log)
    assert list(reader.available()) == ["a\n"]
    assert not reader.is_complete
    reader.read(30)
    assert log.asked[-1]["wait_seconds"] == 30
    assert log.asked[-1]["more_seconds"] > 30
