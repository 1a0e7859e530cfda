"""Bid records: how good the bids of clusters were, by when what they promised has started."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from admin.core.placement.bids import is_kept
from admin.metrics import count_bid_start
from admin.services.context import Context
from admin.store import bids, execution_events
from admin.store.bids import BidRecord, Promise
from admin.store.execution_events import Start

#: Promises that are compared in one transaction.
_BATCH = 500


def compare_promises(context: Context) -> int:
    """Compare the starts that clusters promised with those that came about; returns how many were settled."""
    with context.database.autocommit() as connection:
        if not bids.promises(connection, 1):
            return 0
    counted: dict[str, BidRecord] = {}
    late: list[tuple[str, bool, float]] = []
    with context.database.writing() as connection:
        promises = bids.promises(connection, _BATCH)
        starts = execution_events.starts(connection, {promise.execution_id for promise in promises})
        for promise in promises:
            seconds = _late_seconds(promise, starts.get(promise.execution_id, []))
            if seconds is None or promise.promised_seconds is None:
                continue
            kept = is_kept(promise.promised_seconds, seconds)
            promised, kept_before, late_before = counted.get(promise.cluster, BidRecord(0, 0, 0.0))
            counted[promise.cluster] = BidRecord(promised + 1, kept_before + kept, late_before + max(0.0, seconds))
            late.append((promise.cluster, kept, seconds))
        bids.settle(connection, [promise.round for promise in promises])
        bids.add_records(connection, counted)
    for cluster, kept, seconds in late:
        count_bid_start(cluster, is_kept=kept, late_seconds=seconds)
    return len(promises)


def _late_seconds(promise: Promise, starts: Sequence[Start]) -> float | None:
    """How much later than promised the first attempt after a promise started; None where it did not start there."""
    first = next((start for start in starts if start.reported_at >= promise.promised_at), None)
    if first is None or first.cluster != promise.cluster or promise.promised_seconds is None or not promise.is_bid:
        return None
    if promise.withdrawn_at is not None and promise.withdrawn_at <= first.reported_at:
        return None
    due = promise.promised_at + timedelta(seconds=promise.promised_seconds)
    return (_started_at(promise, first, starts) - due).total_seconds()


def _started_at(promise: Promise, first: Start, starts: Sequence[Start]) -> datetime:
    """When an attempt started, by the admin's clock as far as that is known."""
    if first.native_at is not None:  # nothing was heard of it before it was over
        return min(max(first.native_at, promise.promised_at), first.reported_at)
    is_last = not any(start.native_at is None for start in starts[starts.index(first) + 1 :])
    return promise.started_at if promise.started_at is not None and is_last else first.reported_at
