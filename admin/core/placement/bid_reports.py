"""Bid reports: the answers of agents as they arrive; what is wrong with one keeps no sync from arriving."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from admin.core.fields.branches import Section, read
from admin.core.fields.leaves import Choice, Integer, Number, Text
from admin.core.placement.bids import BidAnswer
from admin.core.problems import Invalid

#: A bid may promise a start and a cost up to these.
_LONGEST_START_SECONDS, _HIGHEST_COST = 10 * 365 * 86400, 1e12
_ANY = r"[\s\S]*"

BID_REPORT = Section(
    fields={
        "question": Integer(minimum=1, maximum=2**62, description="As the question said."),
        "uid": Text(max_length=255, description="Of the execution, as the question said."),
        "answer": Choice(words=(BidAnswer.YES.value, BidAnswer.NOT_NOW.value, BidAnswer.NEVER.value)),
        "start_seconds": Number(
            minimum=0, maximum=_LONGEST_START_SECONDS, description="Of a yes: in how many seconds the job would start."
        ),
        "cost": Number(minimum=0, maximum=_HIGHEST_COST, description="Instead of what the cluster's definition says."),
        "reason": Text(pattern=_ANY, min_length=0, max_length=4000, description="Why it is no yes."),
    }
)


@dataclass(frozen=True, kw_only=True)
class BidReport:
    """An agent's answer to a question."""

    question: int = 0  #: 0 where it names none
    uid: str = ""  #: of the execution; "" where it names none
    answer: BidAnswer = BidAnswer.NEVER
    start_seconds: float | None = None
    cost: float | None = None
    reason: str = ""
    problem: str = ""  #: why it does not count, whatever was asked


def read_bid(document: object) -> BidReport:
    """An answer as it arrives; what is wrong with it is its problem."""
    try:
        given = {name: value for name, value in read(BID_REPORT, document).items() if value is not None}
    except Invalid as invalid:
        return _refused(document, str(invalid))
    for name in ("question", "uid", "answer"):
        if name not in given:
            return _refused(given, f"{name}: is missing.")
    answer = BidAnswer(given["answer"])
    start = given.get("start_seconds") if answer is BidAnswer.YES else None
    if answer is BidAnswer.NEVER and "start_seconds" in given:
        return _refused(given, "start_seconds: is of no meaning for what will never start: leave it out.")
    if answer is BidAnswer.YES and start is None:
        return _refused(given, "start_seconds: is missing: a yes says in how many seconds the job would start.")
    return BidReport(
        question=given["question"],
        uid=given["uid"],
        answer=answer,
        start_seconds=None if start is None else float(start),
        cost=None if "cost" not in given else float(given["cost"]),
        reason=given.get("reason", "").replace("\0", "\N{REPLACEMENT CHARACTER}"),
    )


def _refused(document: object, problem: str) -> BidReport:
    """An answer that does not count, with what it names, as far as that can be read."""
    named: dict[str, Any] = {}
    for name in ("question", "uid"):
        with suppress(Invalid):
            value = document.get(name) if isinstance(document, dict) else None
            named |= {} if value is None else read(BID_REPORT, {name: value})
    reason = problem.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return BidReport(**named, answer=BidAnswer.REFUSED, reason=reason, problem=problem)
