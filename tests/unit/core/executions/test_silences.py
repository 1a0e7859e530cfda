"""Silences: what an execution at a silent cluster has to expect, and when."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from admin.core.executions.silences import UNCONFIRMED, Drain, Silence, confirmed, foresee_silence, unconfirmed
from admin.core.fleet.silence import Loss

SINCE = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LEASE, LOST, GIVE_UP = (SINCE + timedelta(seconds=seconds) for seconds in (60, 300, 86400))
NOW = SINCE + timedelta(seconds=100)
WAITS = Silence(
    cluster="a",
    since=SINCE,
    on_lost="wait",
    lease_expires_at=LEASE,
    loss=Loss(LOST, is_earliest=False, seconds=300),
    given_up_at=GIVE_UP,
    has_started=True,
    is_aborting=False,
    is_retried=False,
    command="give e up",
)


def lost_at(time: datetime, *, is_earliest: bool = False) -> Loss:
    return Loss(time, is_earliest, 300)


START = "Cluster 'a' has been silent since 2026-03-01T12:00:00Z."
REMEDY = "Wait, or give it up: `give e up` ends it without the agent"


@pytest.mark.parametrize(
    ("silence", "next_at", "message"),
    [
        (
            WAITS,
            GIVE_UP,
            "Its job may still run, and its result counts when the agent returns (on_lost: wait); else it ends FAILED "
            f"(CLUSTER_LOST) at 2026-03-02T12:00:00Z (agents.giveUpAfter). {REMEDY}, and records who asked.",
        ),
        (
            replace(WAITS, lease_expires_at=NOW + timedelta(seconds=20), is_aborting=True),
            GIVE_UP,
            "Its job may still run, and it is ended when the agent returns (on_lost: wait); else it ends ABORTED at "
            f"2026-03-02T12:00:00Z (agents.giveUpAfter). {REMEDY} from 2026-03-01T12:02:00Z on, and records who asked.",
        ),
        (
            replace(WAITS, on_lost="fail"),
            LOST,
            "Its lease was over at 2026-03-01T12:01:00Z: its node has ended its job, if its engine guards leases "
            "(on_lost: fail); it ends FAILED "
            f"(CLUSTER_LOST) at 2026-03-01T12:05:00Z, when the cluster is lost. {REMEDY}, and records who asked.",
        ),
        (
            replace(WAITS, on_lost="retry", is_retried=True, loss=lost_at(NOW)),
            NOW,
            "Its lease was over at 2026-03-01T12:01:00Z: its node has ended its job, if its engine guards leases "
            "(on_lost: retry); another "
            f"attempt follows any moment now, when the cluster is lost. {REMEDY}, and records who asked.",
        ),
        (
            replace(WAITS, on_lost="retry", lease_expires_at=NOW + timedelta(seconds=20)),
            LOST,
            "Its job is ended on its node when its lease is over, at 2026-03-01T12:02:00Z, if its engine guards leases "
            "(on_lost: retry); it ends FAILED (CLUSTER_LOST), for its attempts are used up, at 2026-03-01T12:05:00Z, "
            f"when the cluster is lost. {REMEDY} from 2026-03-01T12:02:00Z on, and records who asked.",
        ),
        (
            replace(WAITS, has_started=False),
            LOST,
            "It had not started there, and is decided again at 2026-03-01T12:05:00Z, when a counts as lost.",
        ),
        (
            replace(WAITS, has_started=False, lease_expires_at=None),
            LOST,
            "It had not started there, and is decided again at 2026-03-01T12:05:00Z, when a counts as lost.",
        ),
        (
            replace(WAITS, has_started=False, lease_expires_at=None, loss=lost_at(NOW)),
            NOW,
            "It had not started there, and is decided again any moment now, when a counts as lost.",
        ),
        (
            replace(WAITS, on_lost="retry", is_retried=True, loss=lost_at(NOW - timedelta(seconds=9))),
            NOW - timedelta(seconds=9),
            "Its lease was over at 2026-03-01T12:01:00Z: its node has ended its job, if its engine guards leases "
            "(on_lost: retry); another attempt follows within 5 min, when the cluster is lost. "
            f"{REMEDY}, and records who asked.",
        ),
        (
            replace(WAITS, has_started=False, lease_expires_at=None, loss=lost_at(NOW), is_lost=True),
            NOW,
            "It had not started there, and is decided again any moment now.",
        ),
    ],
)
def test_what_silence_means_goes_by_the_policy(silence: Silence, next_at: datetime | None, message: str) -> None:
    assert silence.next_at == next_at
    unconfirmed = f"{UNCONFIRMED} " if silence.is_aborting else ""
    assert silence.note == f"{unconfirmed}{START}"
    assert silence.describe(NOW) == f"{unconfirmed}{START} {message}"


def test_a_loss_that_may_come_later_is_told_at_the_earliest() -> None:
    waiting = replace(WAITS, has_started=False, loss=lost_at(NOW + timedelta(seconds=50), is_earliest=True))
    assert waiting.next_step(NOW) == (
        "It is decided again at the earliest at 2026-03-01T12:02:30Z, when a counts as lost."
    )
    late = replace(waiting, loss=lost_at(NOW - timedelta(seconds=50), is_earliest=True))
    assert late.next_step(NOW) == "It is decided again within 5 min, when a counts as lost."
    assert "at 2026-03-02T12:00:00Z" in replace(WAITS, loss=waiting.loss).next_step(NOW)
    assert "earliest" not in replace(WAITS, loss=waiting.loss).next_step(NOW)


def test_what_decides_next_is_said_as_a_sentence_of_its_own() -> None:
    assert WAITS.next_step(NOW) == (
        "Whether it is lost is decided at 2026-03-02T12:00:00Z if the agent that has it stays away."
    )
    waiting = replace(WAITS, has_started=False, lease_expires_at=None)
    assert waiting.next_step(NOW) == "It is decided again at 2026-03-01T12:05:00Z, when a counts as lost."
    assert replace(waiting, is_lost=True).next_step(NOW) == "It is decided again any moment now."


@pytest.mark.parametrize(
    ("on_lost", "is_retried", "expected"),
    [
        (
            "wait",
            False,
            "It goes on (on_lost: wait), and its result counts when the agent returns; after 1 d it ends FAILED "
            "(agents.giveUpAfter).",
        ),
        (
            "fail",
            False,
            "Its job is ended on its node when its lease is over, if its engine guards leases; it ends FAILED "
            "(CLUSTER_LOST) when the cluster is lost (on_lost: fail).",
        ),
        (
            "retry",
            True,
            "Its job is ended on its node when its lease is over, if its engine guards leases; another attempt "
            "follows when the cluster is lost (on_lost: retry).",
        ),
    ],
)
def test_what_would_become_of_it_if_its_cluster_fell_silent(on_lost: str, is_retried: bool, expected: str) -> None:
    assert foresee_silence(on_lost, 86400, is_retried=is_retried) == expected


DRAIN = Drain(cluster="a", deadline=NOW + timedelta(seconds=20), by="event 7, ana, 3 s ago", is_retried=False)
OVER = "the drain of a is over at 2026-03-01T12:02:00Z (event 7, ana, 3 s ago)"


@pytest.mark.parametrize(
    ("silence", "message", "step"),
    [
        (
            WAITS,
            f"Its job may still run, and its result counts when the agent returns (on_lost: wait), until {OVER}. It is "
            "ABORTING from then on, and is ended when the agent returns, unless it has succeeded by then; else it ends "
            f"ABORTED at 2026-03-02T12:00:00Z (agents.giveUpAfter). {REMEDY}, and records who asked.",
            f"It is ABORTING when {OVER}; it ends ABORTED after that, unless it has succeeded.",
        ),
        (
            replace(WAITS, on_lost="retry", is_retried=True),
            "Its lease was over at 2026-03-01T12:01:00Z: its node has ended its job, if its engine guards leases "
            f"(on_lost: retry). It is ABORTING when {OVER}; another attempt follows at 2026-03-01T12:05:00Z, when the "
            f"cluster is lost. {REMEDY}, and records who asked.",
            f"It is ABORTING when {OVER}; another attempt follows after that, unless it has succeeded.",
        ),
        (
            replace(WAITS, has_started=False),
            f"It had not started there, and is decided again when {OVER}.",
            f"It is decided again when {OVER}.",
        ),
    ],
)
def test_a_drain_that_is_over_before_the_silence_is_judged_comes_first(
    silence: Silence, message: str, step: str
) -> None:
    drained = replace(silence, drain=DRAIN)
    assert (drained.next_at, drained.next_step(NOW)) == (DRAIN.deadline, step)
    assert drained.describe(NOW) == f"{START} {message}"
    for later in (None, GIVE_UP):
        unchanged = replace(silence, drain=replace(DRAIN, deadline=later))
        assert (unchanged.next_at, unchanged.describe(NOW)) == (silence.next_at, silence.describe(NOW))


def test_what_a_drain_means_if_its_cluster_fell_silent() -> None:
    drained = DRAIN.describe_end(NOW)
    assert foresee_silence("wait", 86400, is_retried=False, drained=drained) == (
        f"It goes on (on_lost: wait), and its result counts when the agent returns, until {OVER}, and it is ABORTING "
        "from then on; after 1 d it ends ABORTED (agents.giveUpAfter)."
    )
    assert foresee_silence("fail", 86400, is_retried=False, drained=drained) == (
        "Its job is ended on its node when its lease is over, if its engine guards leases; it is ABORTING when "
        f"{OVER}; it ends ABORTED when the cluster is lost (on_lost: fail)."
    )


def test_a_cluster_that_was_deleted_is_said_to_be() -> None:
    again = "its agent can no longer report until the cluster is defined and registered again"
    deleted = replace(WAITS, deleted="revision 4, ana, 3 d ago, 'old'").describe(NOW)
    assert deleted.startswith(
        f"{START} It was deleted by revision 4, ana, 3 d ago, 'old': {again}. Its job may still run"
    )


def test_a_message_has_no_doubt_any_more_once_the_end_is_confirmed() -> None:
    message = unconfirmed("enough")
    assert message == "enough. Nobody has confirmed that its job has ended."
    end = "its job has ended"
    assert confirmed(message, "a", NOW, end) == f"enough. Cluster 'a' confirmed at 2026-03-01T12:01:40Z that {end}."
    assert confirmed("It exited with 1.", "a", NOW, end) == "It exited with 1."
