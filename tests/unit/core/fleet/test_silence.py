"""Silence: only what a process could have heard counts, and nothing is judged while it cannot know."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from admin.core.fleet.silence import LONGEST_LOOK_SECONDS, Watch

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LEASE = 60


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def watching(until: int) -> Watch:
    """A watch that looked every second up to a time."""
    watch = Watch()
    for second in range(until + 1):
        watch.look(at(second), second, LEASE)
    return watch


def test_nothing_is_judged_for_one_lease_after_the_start() -> None:
    watch = Watch()
    assert watch.look(at(0), 100, LEASE) == "start"
    assert watch.look(at(30), 130, LEASE) is None
    assert not watch.may_judge
    assert watch.look(at(60), 160, LEASE) is None
    assert watch.may_judge


def test_who_begins_anew_judges_nothing_for_one_lease() -> None:
    watch = watching(LEASE)
    watch.restart()
    assert not watch.may_judge
    assert watch.look(at(61), 61, LEASE) == "start"


def test_nothing_is_judged_for_one_lease_after_a_jump_in_either_direction() -> None:
    for jump in (5.5, -5.5, 3600, -3600, 400 * 86400):
        watch = watching(LEASE)
        assert watch.look(at(61 + jump), 61, LEASE) == "jump"
        assert not watch.may_judge
        assert watch.look(at(120 + jump), 120, LEASE) is None
        assert not watch.may_judge
        assert watch.look(at(121 + jump), 121, LEASE) is None
        assert watch.may_judge


def test_a_clock_that_is_slewed_has_not_jumped() -> None:
    watch = watching(LEASE)
    for second in range(LEASE, 4 * LEASE):
        assert watch.look(at(second * 1.05), second, LEASE) is None
    assert watch.may_judge


def test_nothing_is_judged_for_one_lease_after_a_pause() -> None:
    watch = watching(LEASE)
    assert watch.look(at(LEASE + LEASE), LEASE + LEASE, LEASE) is None
    assert watch.look(at(200), 200, LEASE) == "pause"
    assert not watch.may_judge


def test_silence_is_counted_from_when_a_sync_was_seen_first_whatever_its_time() -> None:
    watch = Watch()
    syncs = {"past": at(-86400), "future": at(86400), "never": None}
    for second in range(0, 21, 5):
        watch.listen(syncs, 100 + second)
    assert watch.silent(20) == set()
    assert watch.silent(19) == {"past", "future"}
    watch.listen({**syncs, "future": at(86399)}, 125)
    assert watch.silent(0) == {"past"}
    assert watch.silent(24) == {"past"}


def test_time_in_which_nobody_listened_is_no_silence() -> None:
    watch = Watch()
    watch.listen({"a": at(0)}, 0)
    watch.listen({"a": at(0)}, 3600)  # the database was away, or the process stopped
    assert watch.silent(LONGEST_LOOK_SECONDS) == set()
    assert watch.silent(LONGEST_LOOK_SECONDS - 1) == {"a"}
    watch.restart()
    watch.listen({"a": at(0)}, 3601)
    assert watch.silent(0) == set()


def test_a_cluster_that_is_gone_is_forgotten() -> None:
    watch = Watch()
    watch.listen({"a": at(0)}, 0)
    watch.listen({}, 5)
    watch.listen({"a": at(0)}, 10)
    assert watch.silent(0) == set()
