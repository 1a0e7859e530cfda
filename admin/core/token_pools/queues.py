"""Queues: those of a long line that are alike for whoever serves it, so that few of them need be read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from admin.core.json_text import json_string, json_value
from admin.core.settings.scopes import Scope
from admin.core.token_pools.limits import is_of_execution, share_bucket

#: Lines that are no longer than this are read whole.
SHORT_LINE = 64


class Queue(NamedTuple):
    """What those that wait for one pool alone have in common of which the older one is always served first.

    What bounds one of them bounds them all, but for the cap of each execution.
    """

    priority: int
    weight: float
    amount: int
    share_bucket: str
    rest: str  #: a digest of their place and caps

    @classmethod
    def read(cls, text: str) -> Queue:
        """What `text` made."""
        return cls._make(json_value(text))

    @property
    def text(self) -> str:
        """The same to be stored."""
        return json_string(list(self))


def queue_of(
    amounts: Mapping[str, int], caps: Mapping[str, Mapping[str, int]], place: Scope, priority: int, weight: float
) -> Queue | None:
    """The queue of a claim on a single pool; None for others."""
    if len(amounts) != 1:
        return None
    [(pool, amount)] = amounts.items()
    shared = sorted((bucket, cap) for bucket, cap in caps.get(pool, {}).items() if not is_of_execution(bucket))
    rest = hashlib.sha256(json_string([list(place), shared]).encode()).hexdigest()[:16]
    return Queue(priority, weight, amount, share_bucket(place), rest)
