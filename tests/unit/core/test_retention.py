from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin.core.executions.lifecycle import UNFINISHED, Phase
from admin.core.retention import Cutoffs, Lifespan, Retention, batches

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
FINISHED = [phase for phase in Phase if phase.is_finished]

times = st.datetimes(datetime(2025, 1, 1), datetime(2026, 3, 1)).map(lambda time: time.replace(tzinfo=UTC))


def test_by_default_nothing_is_deleted() -> None:
    assert Retention().is_for_ever
    assert Retention().cutoffs(NOW) == Cutoffs()
    assert not Retention(logs="1s").is_for_ever


def test_what_has_ended_is_kept_for_the_ages_of_now() -> None:
    ended = NOW - 4 * DAY
    kept = Retention(executions="90d", logs="2w", events="1d").kept_until(ended, NOW)
    assert kept == (ended + 90 * DAY, ended + 14 * DAY, ended + DAY)
    assert Retention(executions="2d", logs="2w").kept_until(ended, NOW) == (ended + 2 * DAY,) * 3
    assert Retention(logs="2w").kept_until(ended, NOW) == (None, ended + 14 * DAY, None)
    assert Retention(revisions="1d").kept_until(ended, NOW) is None


def test_events_and_logs_are_deleted_with_their_execution_at_the_latest() -> None:
    assert Retention(executions="90d").cutoffs(NOW) == Cutoffs(
        executions=NOW - 90 * DAY, execution_events=NOW - 90 * DAY, logs=NOW - 90 * DAY
    )
    assert Retention(executions="2d", events="30d", logs="1d12h", revisions="365d").cutoffs(NOW) == Cutoffs(
        executions=NOW - 2 * DAY,
        execution_events=NOW - 2 * DAY,
        cluster_events=NOW - 30 * DAY,
        logs=NOW - 1.5 * DAY,
        revisions=NOW - 365 * DAY,
    )
    assert Retention(events="1d").cutoffs(NOW) == Cutoffs(execution_events=NOW - DAY, cluster_events=NOW - DAY)
    assert Retention(events="1s").cutoffs(NOW) == Cutoffs(
        execution_events=NOW - DAY / 24, cluster_events=NOW - timedelta(seconds=1)
    )


@pytest.mark.parametrize("age", ["999999999999d", "3000000d", "99999999999h"])
def test_an_age_beyond_the_first_date_keeps_everything(age: str) -> None:
    assert Retention(executions=age, events=age, logs=age, revisions=age).cutoffs(NOW) == Cutoffs()


@given(st.sampled_from(UNFINISHED), times, st.none() | times, times)
def test_an_unfinished_execution_is_never_due(
    phase: Phase, created_at: datetime, finished_at: datetime | None, cutoff: datetime
) -> None:
    assert not Lifespan(created_at=created_at, phase=phase.value, finished_at=finished_at).is_due(cutoff)


@given(st.sampled_from(FINISHED), times, times, times)
def test_a_finished_execution_is_due_by_its_end(
    phase: Phase, created_at: datetime, finished_at: datetime, cutoff: datetime
) -> None:
    lifespan = Lifespan(created_at=created_at, phase=phase.value, finished_at=max(created_at, finished_at))
    assert lifespan.is_due(cutoff) == (max(created_at, finished_at) < cutoff)
    assert not (lifespan.is_due(cutoff) and lifespan.is_later(cutoff))


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_batches_hold_every_key_once_in_order_within_the_weight(weights: list[int], most: int) -> None:
    split = list(batches(enumerate(weights), most))
    assert [key for batch in split for key in batch] == list(range(len(weights)))
    assert all(batch and (len(batch) == 1 or sum(weights[key] for key in batch) <= most) for batch in split)
