"""Bid records: how good the bids of clusters were, by when what they promised has started."""

from __future__ import annotations

from datetime import timedelta

from admin.core.placement.bids import is_kept
from admin.metrics import count_bid_start
from admin.services.context import Context
from admin.store import bids
from admin.store.bids import BidRecord, Promise

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
        for promise in promises:
            seconds = _late_seconds(promise)
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


def _late_seconds(promise: Promise) -> float | None:
    """How much later than promised something started; None where it did not start there."""
    if promise.started_at is None or promise.promised_seconds is None or promise.at != promise.cluster:
        return None
    due = promise.promised_at + timedelta(seconds=promise.promised_seconds)
    return (promise.started_at - due).total_seconds()
