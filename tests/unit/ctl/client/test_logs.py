from __future__ import annotations

from typing import Any

from ctl.client import Client, Transport
from ctl.client.executions import ExecutionId
from ctl.client.logs import Stream

ID = ExecutionId(project="p", domain="d", name="a1")


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
            "next_offset": query.get("offset", 0) + len(data.encode()),
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
    assert [(query["stream"], query["attempt"], query.get("offset")) for query in log.asked] == [
        ("stderr", 2, None),
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


def test_only_the_first_piece_is_asked_for_by_lines_and_time() -> None:
    log = LogSender("a\n", "b\n")
    reader = Stream(Client.from_transport(log), ID, "stderr", 2, tail=9, since="5m")
    assert list(reader.available()) == ["a\n", "b\n"]
    assert [(query.get("tail"), query.get("since"), query.get("offset")) for query in log.asked] == [
        (9, "5m", None),
        (None, None, 2),
    ]
