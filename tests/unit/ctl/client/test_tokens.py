"""Tokens that a program holds: waiting, renewing, losing and giving back, against answers that a test gives."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ctl.client import Client, Transport
from ctl.client.answers import Document
from ctl.client.errors import (
    ClientError,
    Conflict,
    InvalidInput,
    TokensExhausted,
    TokensLost,
    Unanswered,
    Unreachable,
)
from ctl.client.tokens import HeldTokens
from tests.support.waiting import wait_until

GRANTED = {"status": "granted", "number": 7, "expires_at": "2026-01-01T00:01:00Z", "lease_seconds": 60}
FULL = {
    "pool": "hive",
    "level": "pool",
    "origin": "the capacity of token pool 'hive'",
    "cap": 1,
    "used": 1,
    "amount": 1,
}
EXHAUSTED = {"status": "exhausted", "full": [FULL], "place": 2, "waiting": 3, "retry_seconds": 0.5}
RENEWED = {"number": 7, "expires_at": "2026-01-01T00:02:00Z"}
NOT_HELD = Conflict("It holds nothing.", status=409, name="tokens_not_held")

Reply = Document | ClientError


class Admin(Transport):
    """Gives the answers of a test, by path; the last one of each again and again."""

    url = "http://admin"

    def __init__(self, **replies: list[Reply]) -> None:
        self.replies: dict[str, list[Reply]] = {"releases": [{"pools": {}}], "renewals": [RENEWED], **replies}
        self.bodies: list[tuple[str, Document]] = []

    def call(self, method: str, path: str, **call: Any) -> Any:
        name = path.removeprefix("token_")
        [body] = call["body"].values()
        self.bodies.append((name, body))
        replies = self.replies[name]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def sent(self, name: str) -> list[Document]:
        return [body for path, body in self.bodies if path == name]


class Clock:
    """A clock that goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def held(admin: Admin, clock: Clock, *, timeout: float | None = None, lease: float = 60.0) -> HeldTokens:
    claim = {"pools": {"hive": 1}, "lease_seconds": lease, "project": "ads", "priority": 3}
    return HeldTokens(admin, claim, timeout=timeout, clock=clock, sleep=clock.sleep)


def test_tokens_are_granted_and_given_back() -> None:
    admin, clock = Admin(allocations=[GRANTED]), Clock()
    with held(admin, clock) as tokens:
        assert (tokens.number, tokens.pools, tokens.lost.is_set()) == (7, {"hive": 1}, False)
    [claim], [release] = admin.sent("allocations"), admin.sent("releases")
    assert (claim["wait_seconds"], claim["priority"]) == (10.0, 3)
    assert (release["token"], release["number"], release["project"]) == (claim["token"], 7, "ads")
    assert "priority" not in release


def test_waiting_goes_on_as_often_as_the_admin_asks_until_the_timeout() -> None:
    admin, clock = Admin(allocations=[EXHAUSTED]), Clock()
    with pytest.raises(TokensExhausted, match=r"1 of hive not granted within 2 s: .* Place 2 of 3 in line\.") as error:
        held(admin, clock, timeout=2).acquire()
    assert (error.value.full, error.value.place) == ([FULL], 2)
    assert "1 of 1 are held, by the capacity of token pool 'hive' (level pool)" in "\n".join(error.value.lines())
    assert len(admin.sent("allocations")) == 5
    assert len({claim["token"] for claim in admin.sent("allocations")}) == 1
    assert len(admin.sent("releases")) == 1  # the line is left


def test_without_time_nobody_lines_up() -> None:
    admin = Admin(allocations=[EXHAUSTED])
    with pytest.raises(TokensExhausted, match="1 of hive not granted: hive: "):
        held(admin, Clock(), timeout=0).acquire()
    assert [claim["wait_seconds"] for claim in admin.sent("allocations")] == [0]


def test_a_restart_of_the_admin_is_waited_for_but_not_at_the_very_start() -> None:
    away = Unreachable("away")
    with pytest.raises(Unreachable):
        held(Admin(allocations=[away]), Clock()).acquire()
    admin = Admin(allocations=[EXHAUSTED, away, away, GRANTED])
    tokens = held(admin, Clock())
    tokens.acquire()
    assert tokens.number == 7
    busy = Unreachable("Redis does not answer", status=503)
    held(Admin(allocations=[busy, GRANTED]), Clock()).acquire()
    with pytest.raises(Unreachable, match="Redis"):
        held(Admin(allocations=[busy]), Clock(), timeout=3).acquire()


def test_a_grant_whose_answer_was_lost_counts_from_the_first_request() -> None:
    clock = Clock()
    admin = Admin(allocations=[Unanswered("lost"), {**GRANTED, "status": "already_held"}])
    tokens = held(admin, clock)
    tokens.acquire()
    tokens.check()
    clock.now = 1000.0 + 59.9
    tokens.check()
    clock.now = 1000.0 + 60.0
    with pytest.raises(TokensLost, match="was not renewed in time"):
        tokens.check()


def renewing(admin: Admin, lease: float) -> HeldTokens:
    """Tokens that are renewed by the real clock."""
    return HeldTokens(admin, {"pools": {"hive": 1}, "lease_seconds": lease})


def granted(lease: float) -> Document:
    return {**GRANTED, "lease_seconds": lease}


def test_they_are_renewed_with_all_that_a_backend_needs_that_has_forgotten_them() -> None:
    admin = Admin(allocations=[granted(0.15)])
    with renewing(admin, 60.0) as tokens:
        wait_until(lambda: len(admin.sent("renewals")) >= 2)
        assert tokens.expires_at == RENEWED["expires_at"]
    first, second = admin.sent("renewals")[:2]
    assert (first["number"], first["expires_at"], first["lease_seconds"]) == (7, GRANTED["expires_at"], 0.15)
    assert second["expires_at"] == RENEWED["expires_at"]


def test_a_lost_lease_sets_the_event_calls_the_function_and_raises_at_the_end() -> None:
    admin, reasons = Admin(allocations=[granted(0.03)], renewals=[NOT_HELD]), list[str]()
    tokens = HeldTokens(admin, {"pools": {"hive": 1}, "lease_seconds": 1}, on_lost=reasons.append)

    def work() -> None:
        with tokens:
            assert tokens.lost.wait(60)
            with pytest.raises(TokensLost):
                tokens.check()

    with pytest.raises(TokensLost, match="The lease of 1 of hive was lost: It holds nothing"):
        work()
    assert reasons == ["The lease of 1 of hive was lost: It holds nothing. Others may have got the tokens since."]
    assert admin.sent("releases") == []


def test_an_error_of_the_work_stays_and_has_a_note() -> None:
    tokens = renewing(Admin(allocations=[granted(0.03)], renewals=[NOT_HELD]), 1.0)

    def work() -> None:
        with tokens:
            assert tokens.lost.wait(60)
            raise KeyError("work")

    with pytest.raises(KeyError) as error:
        work()
    assert "was lost" in error.value.__notes__[0]


@pytest.mark.parametrize("failure", [Unreachable("away"), ClientError("denied", status=403)])
def test_a_lease_that_cannot_be_renewed_is_lost_when_it_is_over_and_not_before(failure: ClientError) -> None:
    admin = Admin(allocations=[granted(0.2)], renewals=[failure])
    tokens = renewing(admin, 1.0)
    tokens.acquire()
    tokens.keep()
    ends_at = tokens._ends_at
    assert tokens.lost.wait(60)
    assert tokens._clock() >= ends_at
    assert (failure.message in tokens.reason, len(admin.sent("renewals")) > 0) == (True, True)
    tokens.release()


def test_renewals_go_on_after_failures() -> None:
    replies: list[Reply] = [Unreachable("away"), RENEWED]
    admin = Admin(allocations=[granted(0.9)], renewals=replies)
    with renewing(admin, 1.0) as tokens:
        wait_until(lambda: len(admin.sent("renewals")) >= 2)
    assert not tokens.lost.is_set()


@pytest.mark.parametrize(
    ("replies", "is_lost"),
    [
        ([NOT_HELD], True),  # somebody else may have had them
        ([Unanswered("lost"), NOT_HELD], False),  # the first request arrived
        ([Unreachable("away")], False),  # the lease gives them back
        ([ClientError("denied", status=403)], False),
    ],
)
def test_giving_back(replies: list[Reply], is_lost: bool) -> None:
    admin, clock = Admin(allocations=[GRANTED], releases=replies), Clock()
    tokens = held(admin, clock)
    tokens.acquire()
    tokens.release()
    assert tokens.lost.is_set() is is_lost


def test_a_clock_that_is_set_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases go by a clock of the program that nobody sets; what the admin calls the time is passed on as it is."""
    import time

    monkeypatch.setattr(time, "time", lambda: 0.0)
    admin = Admin(allocations=[{**GRANTED, "expires_at": "1999-01-01T00:00:00Z", "lease_seconds": 0.15}])
    with renewing(admin, 60.0) as tokens:
        wait_until(lambda: len(admin.sent("renewals")) >= 2)
        tokens.check()


def test_interrupted_waiting_leaves_the_line() -> None:
    admin, clock = Admin(allocations=[EXHAUSTED]), Clock()

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    tokens = HeldTokens(admin, {"pools": {"hive": 1}, "lease_seconds": 60}, clock=clock, sleep=interrupt)
    with pytest.raises(KeyboardInterrupt):
        tokens.acquire()
    assert len(admin.sent("releases")) == 1


def test_a_claim_that_may_have_been_granted_is_given_back_by_its_number() -> None:
    admin = Admin(
        allocations=[EXHAUSTED, Unanswered("lost"), Unanswered("lost"), {**GRANTED, "status": "already_held"}]
    )
    with pytest.raises(Unanswered):
        held(admin, Clock(), timeout=0.9).acquire()
    assert admin.sent("allocations")[-1]["wait_seconds"] == 0
    assert [release["number"] for release in admin.sent("releases")] == [7]


def test_threads_share_a_client_and_have_claims_of_their_own() -> None:
    admin = Admin(allocations=[GRANTED])
    client = Client.from_transport(admin)
    seen: list[str] = []

    def work() -> None:
        with client.tokens("hive", project="ads") as tokens:
            seen.append(tokens.token)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 8
    assert sorted(body["token"] for body in admin.sent("releases")) == sorted(seen)


def test_what_is_waited_for_is_told() -> None:
    answers: list[Document] = []
    client = Client.from_transport(Admin(allocations=[{**EXHAUSTED, "retry_seconds": 0.001}, GRANTED]))
    with client.tokens({"hive": 1, "spark": 2}, on_wait=answers.append) as tokens:
        assert tokens.pools == {"hive": 1, "spark": 2}
    assert [answer["place"] for answer in answers] == [2]
    with pytest.raises(InvalidInput, match="`amount` is for one pool"):
        client.tokens({"hive": 1}, 2)
    with pytest.raises(InvalidInput, match="`timeout` is how many seconds to wait"):
        client.tokens("hive", timeout=-1)
