"""The JSON that the scripts of Redis are given, and what is read of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import MOST_HOLDERS, Exhausted, Full, NotHeld
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Grant, Renewal
from admin.core.token_pools.ledger import retry_seconds, served_at_once
from admin.core.token_pools.limits import Terms, all_limits, buckets_of, share_bucket, tightest, weight_of
from admin.core.token_pools.lines import MOST_WAITERS, Standing, Status, Waiter
from admin.core.token_pools.queues import SHORT_LINE, queue_of

#: What JSON of the scripts has; its numbers and texts are checked where values are built of them.
Document = dict[str, Any]


def _place_document(place: Scope, execution: str, holder: str) -> Document:
    return {
        "place": list(place),
        "execution": execution,
        "holder": holder,
        "buckets": buckets_of(place, execution),
    }


def claim_document(claim: Claim, terms: Mapping[str, Terms]) -> Document:
    caps = {pool: tightest(own.limits) for pool, own in terms.items()}
    weight = claim.weight * weight_of(terms)
    queue = queue_of(claim.amounts, caps, claim.place, claim.priority, weight)
    return {
        "token": claim.token,
        "amounts": dict(claim.amounts),
        "terms": {
            pool: {"capacity": own.capacity, "limits": [limit[:2] for limit in own.limits]}
            for pool, own in terms.items()
        },
        "caps": caps,
        **({} if queue is None else {"queue": queue.text}),
        "short_line": SHORT_LINE,
        **_place_document(claim.place, claim.execution, claim.holder),
        "share_bucket": share_bucket(claim.place),
        "priority": claim.priority,
        "weight": weight,
        "wait": int(claim.wait_seconds * 1000),
        **({} if claim.since is None else {"since": int(claim.since.timestamp() * 1000)}),
        "most_holders": MOST_HOLDERS,
        "most_waiters": MOST_WAITERS,
    }


def renewal_document(renewal: Renewal) -> Document:
    expires = {} if renewal.expires_at is None else {"expires": int(renewal.expires_at.timestamp() * 1000)}
    return {
        "token": renewal.token,
        "number": str(renewal.number),
        "amounts": dict(renewal.amounts),
        **_place_document(renewal.place, renewal.execution, renewal.holder),
        **expires,
        "is_leased": renewal.is_leased,
    }


def read_exhausted(claim: Claim, terms: Mapping[str, Terms], document: Document) -> Exhausted:
    full = [
        Full(
            pool=entry["pool"],
            limit=all_limits(entry["pool"], terms[entry["pool"]])[entry["limit"]],
            amount=claim.amounts[entry["pool"]],
            used=entry["used"],
            promised=entry["promised"],
            holders=tuple(read_grant(entry["pool"], holder) for holder in entry["holders"]),
            holder_count=entry["holder_count"],
        )
        for entry in document["full"]
    ]
    is_line_full = claim.wait_seconds > 0 and document["is_line_full"]
    waits = claim.wait_seconds > 0 and not is_line_full
    place = document["place"] if waits else None
    return Exhausted(
        full=tuple(full),
        retry_seconds=retry_seconds(document["retry"] / 1000, place, served_at_once(claim.amounts, terms)),
        place=place,
        waiting=document["waiting"] + waits,
        is_repeated=document["is_repeated"] or claim.is_repeated,
        is_line_full=is_line_full,
    )


def read_not_held(document: Document) -> NotHeld:
    current = document.get("current")
    amounts = document.get("amounts", {})
    return NotHeld(pools=tuple(document["pools"]), current=None if current is None else int(current), amounts=amounts)


def _time(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def read_grants(documents: Mapping[str, Document]) -> dict[str, Grant]:
    return {pool: read_grant(pool, documents[pool]) for pool in sorted(documents)}


def read_grant(pool: str, document: Document) -> Grant:
    return Grant(
        pool=pool,
        token=document["token"],
        number=int(document["number"]),
        amount=document["amount"],
        place=Scope(*document["place"]),
        execution=document["execution"],
        holder=document["holder"],
        lease_seconds=document["lease"] / 1000,
        granted_at=_time(document["granted"]),
        expires_at=_time(document["expires"]),
    )


def read_waiter(document: Document) -> Waiter:
    return Waiter(
        token=document["token"],
        number=int(document["number"]),
        amounts=document["amounts"],
        caps=document["caps"],
        standings={
            pool: Standing(Status(status), float(share)) for pool, (status, share) in document["standings"].items()
        },
        place=Scope(*document["place"]),
        execution=document["execution"],
        holder=document["holder"],
        priority=document["priority"],
        weight=document["weight"],
        since=_time(document["since"]),
        wait_seconds=document["wait"] / 1000,
        expires_at=_time(document["expires"]),
    )
