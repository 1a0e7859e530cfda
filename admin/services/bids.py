"""Bids in syncs: the questions that agents get, and the answers that they bring."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.placement.bid_reports import BidReport
from admin.core.placement.bids import Bid, BidAnswer
from admin.core.problems import shorten
from admin.metrics import count_bid, count_refused_bid
from admin.services.exchanges import Exchange
from admin.store import bids
from admin.store.bids import Asked, Question

#: Questions that one sync is answered with; the others follow in the next ones.
_MOST_QUESTIONS = 200
_MOST_REASON = 500


def ask_for_bids(exchanges: list[Exchange], connection: Connection, now: datetime) -> None:
    """Add to the answers what clusters are asked, whose agents can bid and which take work."""
    asked = {
        exchange.request.cluster: exchange
        for exchange in exchanges
        if exchange.request.can_bid and exchange.answer.takes_work and not exchange.restoration.is_waiting
    }
    if asked:
        for question in _questions(connection, [*asked], now):
            asked[question.cluster].answer.bid_requests.append(question)
    for exchange in exchanges:
        if exchange.answer.bid_requests or exchange.before.asked:
            _note_asked(exchange)


def _questions(connection: Connection, clusters: list[str], now: datetime) -> list[Question]:
    """What each cluster is asked, in one statement unless there is too much of it, which one of them could take up."""
    questions = bids.questions(connection, clusters, now, _MOST_QUESTIONS)
    if len(clusters) == 1 or len(questions) < _MOST_QUESTIONS:
        return questions
    return [each for cluster in clusters for each in bids.questions(connection, [cluster], now, _MOST_QUESTIONS)]


def _note_asked(exchange: Exchange) -> None:
    """Remember which questions the agent's process is told: only others end the wait of its syncs.

    Agents say by positions which answers they got, so that what stood in a lost one is told again at once. One that
    says none has it again when its sync ends for another reason.
    """
    request, before, answer = exchange.request, exchange.before, exchange.answer
    told = before.asked if before.agent == request.agent and request.sequence > 1 else {}
    asked = {}
    for question in answer.bid_requests:
        at = told.get(str(question.bid))
        if at is None or 0 < request.seen < at:
            at, answer.has_new_questions = answer.state.syncs, True
        asked[str(question.bid)] = at
    answer.state = replace(answer.state, asked=asked)


def take_bids(exchange: Exchange, connection: Connection, now: datetime) -> None:
    """Store the answers of an agent; what does not count is refused with the reason, and changes nothing."""
    request, answer = exchange.request, exchange.answer
    known = bids.asked(connection, {report.question for report in request.bids})
    rounds = set()
    for report in request.bids:
        asked = known.get(report.question)
        refusal = _refusal(report, asked, request.cluster, now)
        if refusal is None and asked is not None and asked.answer is None:
            bid = _bid(report, request.cluster, now)
            if bids.answer(connection, asked.bid, bid):
                rounds.add(asked.round)
                known[asked.bid] = asked._replace(
                    answer=bid.answer.value, start_seconds=bid.start_seconds, cost=bid.cost
                )
                if not report.problem:
                    count_bid(request.cluster, bid.answer.value)
            else:
                refusal = "TOO_LATE"
        if report.problem:  # stored where it answers a question, which is then not waited for any longer
            refusal = f"INVALID_BID: {report.problem}"
        if refusal is not None:
            answer.refused.append((f"bid {report.question}", refusal))
            count_refused_bid(request.cluster, refusal.partition(":")[0])
    answer.complete_rounds = bids.complete(connection, rounds)


def _refusal(report: BidReport, asked: Asked | None, cluster: str, now: datetime) -> str | None:
    """Why an answer is not stored; None where it is, or was before."""
    if asked is None or asked.cluster != cluster or not _names(report, asked.uid):
        return "NOT_ASKED"
    if asked.answer is not None and asked.answer != BidAnswer.SILENT.value:
        stored = (asked.answer, asked.start_seconds, asked.cost)
        is_same = stored == (report.answer.value, report.start_seconds, report.cost)
        return None if is_same else "ALREADY_ANSWERED"
    is_open = asked.is_open and not asked.is_finished
    return None if is_open and now <= asked.deadline else "TOO_LATE"


def _names(report: BidReport, uid: str) -> bool:
    """Whether an answer names an execution; one that is wrong otherwise need not."""
    return report.uid == uid or (bool(report.problem) and not report.uid)


def _bid(report: BidReport, cluster: str, now: datetime) -> Bid:
    return Bid(
        cluster=cluster,
        answer=report.answer,
        start_seconds=report.start_seconds,
        cost=report.cost,
        reason=shorten(report.reason, _MOST_REASON),
        answered_at=now,
    )
