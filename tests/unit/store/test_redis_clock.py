"""Whether the clock of Redis may have jumped, by the times in its answers."""

from __future__ import annotations

import pytest

from admin.store.token_backends.redis_clock import RedisClock


class Server:
    """A server whose clock runs with the monotonic one of the test, but for jumps."""

    def __init__(self) -> None:
        self.monotonic = 100.0
        self.ahead = 5000.0
        self.clock = RedisClock(lambda: self.monotonic)

    def call(self, *, there: float = 0.001, back: float = 0.001) -> bool:
        """Ask for the time; returns whether the request said that the clock is in doubt."""
        begun_at = self.clock.now()
        is_in_doubt = bool(self.clock.statement(begun_at)["in_doubt"])
        self.monotonic += there
        server_time = (self.monotonic + self.ahead) * 1000
        self.monotonic += back
        self.clock.note_answer(begun_at, server_time, was_in_doubt=is_in_doubt)
        return is_in_doubt

    def fail(self, seconds: float) -> None:
        begun_at = self.clock.now()
        self.monotonic += seconds
        self.clock.note_failure(begun_at)


@pytest.fixture
def server() -> Server:
    server = Server()
    assert server.call() is False
    return server


def test_what_is_long_under_way_is_no_jump(server: Server) -> None:
    for there, back in ((4.0, 0.0), (0.0, 4.0), (3.0, 3.0)):
        server.call(there=there, back=back)
        assert server.call() is False


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 1.5, -1.5])
def test_the_request_after_a_jump_says_so_once(server: Server, seconds: float) -> None:
    server.ahead += seconds
    assert [server.call() for _ in range(3)] == [False, True, False]


def test_a_jump_is_noticed_in_an_answer_that_took_long(server: Server) -> None:
    server.ahead += 3600
    assert [server.call(there=4.0), server.call(), server.call()] == [False, True, False]


def test_the_first_request_after_a_while_without_answers_says_so(server: Server) -> None:
    for _ in range(4):
        server.fail(0.5)
    assert [server.call(), server.call()] == [True, False]


def test_one_failure_between_answers_says_nothing(server: Server) -> None:
    server.fail(0.2)
    assert server.call() is False
    begun_at = server.clock.now()
    server.call()
    server.monotonic += 5
    server.call()
    server.clock.note_failure(begun_at)  # of a connection that hung while others were answered
    assert server.call() is False


def test_what_is_expected_is_the_time_of_the_server(server: Server) -> None:
    server.monotonic += 1000
    statement = server.clock.statement(server.clock.now())
    assert statement["expected"] == pytest.approx((server.monotonic + server.ahead) * 1000, abs=2)
