"""How many denied requests are noted: those of one user or address must not hide those of the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from admin.core.audit import OTHERS, AuditEvent, minute_of
from admin.core.hosts import source_of

#: Different denied requests of one user or address in a minute, and of all users or all addresses.
MOST_OF_EACH, MOST_OF_ALL = 20, 1000


class DenialBudget:
    """Counts the different denied requests of one minute, by proven users and else by addresses.

    What is beyond that is not lost: it is counted in one event for the user or address, or in one for all others.
    """

    def __init__(self, most_of_each: int = MOST_OF_EACH, most_of_all: int = MOST_OF_ALL) -> None:
        self._most_of_each = most_of_each
        self._most_of_all = most_of_all
        self._minute = ""
        #: The keys of this minute's events, by their users or addresses; apart for those that are proven.
        self._noted: dict[bool, dict[str, set[str]]] = {}
        self._counts: Counter[bool] = Counter()

    def apply(self, event: AuditEvent) -> AuditEvent:
        """An event as it is noted: as it is, or as one of many that are counted together."""
        key = event.repeat_key
        if key is None:
            return event
        minute = minute_of(event.at)
        if minute != self._minute:
            self._minute, self._noted, self._counts = minute, {}, Counter()
        is_proven = event.proof is not None
        source = (event.user if is_proven else source_of(event.address or "")) or ""
        by_source = self._noted.setdefault(is_proven, {})
        keys = by_source.get(source, set())
        if key in keys:
            return event
        if self._counts[is_proven] < self._most_of_all and len(keys) < self._most_of_each:
            by_source.setdefault(source, set()).add(key)
            self._counts[is_proven] += 1
            return event
        if not keys:
            return _other(
                event,
                reason="Denied requests came from more users and addresses than are noted each minute: those of the "
                "others are counted here.",
            )
        return _other(
            event,
            user=event.user if is_proven else None,
            proof=event.proof,
            address=None if is_proven else source,
            reason=f"More than {self._most_of_each} different denied requests of this user or address came within a "
            "minute: the others are counted here.",
        )


def _other(
    event: AuditEvent,
    *,
    reason: str,
    user: str | None = None,
    proof: str | None = None,
    address: str | None = None,
) -> AuditEvent:
    """An event that stands for several different ones."""
    return replace(
        event,
        user=user,
        proof=proof,
        address=address,
        method=None,
        route=None,
        request_id=None,
        target=OTHERS,
        reason=reason,
    )
