"""Admissions: which of the executions that agents have room for are leased now, and what the others wait for.

A gate is what may keep an execution waiting though its cluster has room: token pools, quotas, a namespace that is not
there yet. It is opened only where it may concern one of the executions, so that others cost few queries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from sqlalchemy import Connection

from admin.core.executions.admissions import HELD_BACK, Line, Refusal, admitted, hold_back
from admin.core.executions.tokens import WAITING_FOR_TOKENS
from admin.services.exchanges import Exchange
from admin.services.namespace_gate import NamespaceGate
from admin.services.quota_gate import QuotaGate
from admin.services.token_gate import TokenGate
from admin.store import leases, offers
from admin.store.leases import LeasedExecution
from admin.store.offers import Needs

#: Executions that are told together what they wait for, beyond those that were asked for.
_MOST_TOLD = 1000
#: How often further candidates are looked for, where all that were asked for are refused: one kind at least each time.
_MOST_ROUNDS = 20


@dataclass(kw_only=True)
class Opening:
    """The room of one agent, and the executions that it could get now, the first to be leased first."""

    exchange: Exchange
    room: int
    candidates: list[LeasedExecution]
    is_open: bool = True  #: whether all of them are leased, since no gate concerns them
    #: Finds others for some room, without those of some ids and all of the kinds of others; None where there are none.
    find_more: Callable[[int, list[int], list[int]], list[LeasedExecution]] | None = None
    needs: Sequence[Needs] = ()  #: what these may need: all locks are taken before anything is asked


class Gate(Protocol):
    """What may keep executions waiting, in one transaction; its locks are taken when it is opened."""

    def concerns(self, lease: LeasedExecution) -> bool:
        """Whether it may refuse an execution."""

    def share(self, lease: LeasedExecution) -> float | None:
        """What its project has of what it needs, for its weight; None where projects share nothing."""

    def refuse(self, lease: LeasedExecution) -> Refusal | None:
        """Why an execution has to wait; None where it need not, and then it holds what it needs."""

    def admit(self, lease: LeasedExecution) -> None:
        """Count an execution that no gate has refused."""

    def leave(self, lease: LeasedExecution) -> None:
        """Note that an execution is not asked for: its cluster has no more room, or it waits for something else."""

    def extend(self, exchange: Exchange, leases: Sequence[LeasedExecution]) -> None:
        """Prepare for others to be asked for, which need what was foreseen."""

    def close(self) -> None:
        """Write what has changed."""


def needs_admission(exchange: Exchange, candidates: Sequence[LeasedExecution], connection: Connection) -> bool:
    """Whether any gate concerns one of some executions."""
    context = exchange.context
    if any(
        lease.reason in HELD_BACK or TokenGate.is_needed(lease) or QuotaGate.is_needed(context, lease)
        for lease in candidates
    ):
        return True
    return NamespaceGate.open([(exchange, lease) for lease in candidates], connection) is not None


def admit(exchanges: Sequence[Exchange], openings: Sequence[Opening], connection: Connection, now: datetime) -> None:
    """Lease to each agent what it has room for and every gate admits; the others are told what they wait for."""
    if not exchanges:
        return
    gates = _open_gates(exchanges, openings, connection, now)
    expires_at = now + timedelta(seconds=exchanges[0].context.settings.agents.lease_seconds)
    for opening in openings:
        answer = opening.exchange.answer
        new = opening.candidates if opening.is_open else _admit_some(opening, gates, connection, now)
        for lease in new:
            lease.set(lease_expires_at=expires_at)
        answer.leases += new
    for gate in gates:
        gate.close()


def _open_gates(
    exchanges: Sequence[Exchange], openings: Sequence[Opening], connection: Connection, now: datetime
) -> list[Gate]:
    """The gates that concern anything here, in the order of their locks; tokens are last, for asking takes them."""
    waiting = [(opening.exchange, lease) for opening in openings if not opening.is_open for lease in opening.candidates]
    foreseen = [(opening.exchange, needs) for opening in openings for needs in opening.needs]
    all_needs: list[tuple[Exchange, LeasedExecution | Needs]] = [*waiting, *foreseen]
    quotas = QuotaGate.open(exchanges[0].context, [needs for _, needs in all_needs], connection)
    namespaces = NamespaceGate.open(all_needs, connection)
    tokens = TokenGate.open(exchanges, waiting, connection, now, foreseen=[needs for _, needs in foreseen])
    gates: list[Gate | None] = [namespaces, quotas, tokens]
    return [gate for gate in gates if gate is not None]


def _admit_some(
    opening: Opening, gates: Sequence[Gate], connection: Connection, now: datetime
) -> list[LeasedExecution]:
    """Those of some executions that are leased now; what is refused does not keep others from being asked for."""

    def share(lease: LeasedExecution) -> float | None:
        shares = [share for gate in gates if gate.concerns(lease) and (share := gate.share(lease)) is not None]
        return max(shares, default=None)

    line = Line(opening.candidates, share)
    new: list[LeasedExecution] = []
    told: list[LeasedExecution] = []
    refused: dict[Hashable, int] = {}
    for round in range(_MOST_ROUNDS if opening.room > 0 else 0):
        if round > 0:
            further = _find_further(opening, new, refused)
            if not further:
                break
            for gate in gates:
                gate.extend(opening.exchange, further)
            opening.candidates += further
            line.extend(further)
        for lease in line:
            refusal = _ask(lease, gates)
            if refusal is None:
                lease.set(**admitted(lease.reason, lease.cluster))
                new.append(lease)
            else:
                refused[lease.kind] = lease.id
                alike = line.refuse(lease, refusal)
                if refusal.code != WAITING_FOR_TOKENS:
                    _leave([lease, *alike], gates)
                told += _tell([lease, *alike], refusal, now)
                _retry(opening.exchange, refusal, now)
            if len(new) >= opening.room:
                break
    is_full = len(new) >= opening.room
    _leave(opening.candidates if is_full else line.rest, gates)
    told += _tell_others(opening, line, connection, now)
    leases.save(connection, told)
    return new


def _leave(candidates: Iterable[LeasedExecution], gates: Sequence[Gate]) -> None:
    """Have those that are not asked for, or wait for something else, keep no place in line."""
    for lease in candidates:
        for gate in gates:
            if lease.token_number is None:
                gate.leave(lease)


def _find_further(
    opening: Opening, new: Sequence[LeasedExecution], refused: Mapping[Hashable, int]
) -> list[LeasedExecution]:
    """What the room that is left may be for, once all that was looked at is leased or refused."""
    room = opening.room - len(new)
    if opening.find_more is None or room <= 0:
        return []
    further = opening.find_more(room, [lease.id for lease in new], list(refused.values()))
    # What was created meanwhile may need what is not locked; the next sync has it.
    foreseen = {(needs.scope, needs.token_pools) for needs in opening.needs}
    return [lease for lease in further if (lease.scope, lease.token_pools) in foreseen]


def _ask(lease: LeasedExecution, gates: Sequence[Gate]) -> Refusal | None:
    """What keeps an execution waiting; None for one that is admitted and counted."""
    concerned = [gate for gate in gates if gate.concerns(lease)]
    for gate in concerned:
        refusal = gate.refuse(lease)
        if refusal is not None:
            return refusal
    for gate in concerned:
        gate.admit(lease)
    return None


def _tell(refused: Iterable[LeasedExecution], refusal: Refusal, now: datetime) -> list[LeasedExecution]:
    """Tell executions what they wait for, with an event where that is new."""
    changed = [lease for lease in refused if (lease.reason, lease.reason_message) != (refusal.code, refusal.message)]
    for lease in changed:
        lease.apply(hold_back(refusal), now)
    return changed


def _tell_others(
    opening: Opening, line: Line[LeasedExecution], connection: Connection, now: datetime
) -> list[LeasedExecution]:
    """Tell the same to executions that wait behind others of their kind."""
    asked = {lease.id for lease in opening.candidates}
    codes = {refusal.code for lease in opening.candidates if (refusal := line.refusal_of(lease.kind)) is not None}
    changed: list[LeasedExecution] = []
    for code in sorted(codes):
        for lease in offers.not_told(connection, opening.exchange.request.cluster, now, code, _MOST_TOLD):
            refusal = line.refusal_of(lease.kind)
            if lease.id not in asked and refusal is not None and refusal.code == code:
                changed += _tell([lease], refusal, now)
    return changed


def _retry(exchange: Exchange, refusal: Refusal, now: datetime) -> None:
    """Have the agent's sync answered again, where nothing wakes it before."""
    at = now + timedelta(seconds=refusal.retry_seconds)
    exchange.answer.next_at = min(at, exchange.answer.next_at or at)
