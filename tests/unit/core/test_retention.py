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


def test_by_default_nothing_ever_goes() -> None:
    assert Retention().is_for_ever
    assert Retention().cutoffs(NOW) == Cutoffs()
    assert not Retention(logs="1s").is_for_ever


def test_what_belongs_to_an_execution_goes_with_it_at_the_latest() -> None:
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
def test_what_is_kept_longer_than_time_itself_is_kept(age: str) -> None:
    assert Retention(executions=age, events=age, logs=age, revisions=age).cutoffs(NOW) == Cutoffs()


@given(st.sampled_from(UNFINISHED), times, st.none() | times, times)
def test_what_is_not_finished_never_goes(
    phase: Phase, created_at: datetime, finished_at: datetime | None, limit: datetime
) -> None:
    assert not Lifespan(created_at=created_at, phase=phase, finished_at=finished_at).is_due(limit)


@given(st.sampled_from(FINISHED), times, times, times)
def test_what_is_finished_goes_by_its_end_and_never_if_it_began_later(
    phase: Phase, created_at: datetime, finished_at: datetime, limit: datetime
) -> None:
    life = Lifespan(created_at=created_at, phase=phase, finished_at=max(created_at, finished_at))
    assert life.is_due(limit) == (max(created_at, finished_at) < limit)
    assert not (life.is_due(limit) and life.is_later(limit))


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_batches_hold_everything_once_in_its_order_and_are_light(weights: list[int], most: int) -> None:
    found = list(batches(enumerate(weights), most))
    assert [key for batch in found for key in batch] == list(range(len(weights)))
    assert all(batch and (len(batch) == 1 or sum(weights[key] for key in batch) <= most) for batch in found)
