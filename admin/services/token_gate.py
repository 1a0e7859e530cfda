"""The gate of token pools: tokens are granted with the lease, held as long as it, and given back when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from admin.core.executions.admissions import Refusal
from admin.core.executions.attempts import may_have_started
from admin.core.executions.tokens import (
    WAITING_FOR_TOKENS,
    describe_amounts,
    describe_loss,
    describe_reclaim,
    describe_refusal,
    read_amounts,
)
from admin.core.token_pools.answers import Allocation, Exhausted, Granted, NotHeld
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.ledger import RETRY_SECONDS
from admin.core.token_pools.lines import share_in
from admin.services.exchanges import Exchange
from admin.services.execution_tokens import IN_LINE, claim_of, give_back, holder_of
from admin.store.execution_events import TOKENS_GRANTED, TOKENS_LOST
from admin.store.leases import LeasedExecution
from admin.store.offers import Needs
from admin.store.token_backends.base import TokenSession, TokensUnavailable


class TokenGate:
    """The token pools that executions of some exchanges hold or need."""

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        connection: Connection,
        session: TokenSession,
        claims: dict[int, Claim],
        now: datetime,
    ) -> None:
        self._exchanges = exchanges
        self._connection = connection
        self._session = session
        self._claims = claims  #: by the row id of their executions
        self._now = now
        self._exchange_of: dict[int, Exchange] = {}

    @staticmethod
    def is_needed(lease: LeasedExecution) -> bool:
        """Whether an execution needs tokens; asks no database."""
        return lease.token_pools is not None

    @classmethod
    def open(
        cls,
        exchanges: Sequence[Exchange],
        waiting: Sequence[tuple[Exchange, LeasedExecution]],
        connection: Connection,
        now: datetime,
        *,
        foreseen: Sequence[Needs] = (),
    ) -> TokenGate | None:
        """Renew and give back what leases of these exchanges hold; None where none holds or needs any.

        The pools are locked too of what is foreseen to be asked for later, for they are locked together.
        """
        context = exchanges[0].context
        held = [lease for exchange in exchanges for lease in exchange.leased.values() if cls.is_needed(lease)]
        needing = [(exchange, lease) for exchange, lease in waiting if cls.is_needed(lease)]
        later = {pool for needs in foreseen for pool in read_amounts(needs.token_pools)}
        if not held and not needing and not later:
            return None
        claims = {lease.id: claim_of(context, lease) for _, lease in needing}
        claims |= {
            lease.id: claim_of(context, lease, runs_already=True) for lease in held if _has_lost_tokens(lease, now)
        }
        asking = [*needing, *((exchange, lease) for exchange in exchanges for lease in exchange.leased.values())]
        concerned = [*held, *(lease for _, lease in needing)]
        pools = {pool for lease in concerned for pool in read_amounts(lease.token_pools)}
        tokens = [lease.held_token for lease in concerned]
        if later:
            context.tokens.lock(connection, pools | later)
        session = context.tokens.session(connection, pools, list(claims.values()), tokens)
        gate = cls(exchanges, connection, session, claims, now)
        gate._exchange_of = {lease.id: exchange for exchange, lease in asking if lease.id in claims}
        for lease in held:
            gate._keep(lease)
        return gate

    def concerns(self, lease: LeasedExecution) -> bool:
        return self.is_needed(lease)

    def share(self, lease: LeasedExecution) -> float | None:
        claim, rooms = self._claims[lease.id], self._session.rooms
        shares = (share_in(claim, rooms[pool]) for pool in claim.amounts if pool in rooms)
        return max(shares, default=0.0) / self._session.weight(claim)

    def refuse(self, lease: LeasedExecution) -> Refusal | None:
        claim, exchange = self._claims[lease.id], self._exchange_of[lease.id]
        try:
            answer = self._session.allocate(claim)
        except TokensUnavailable:
            message = f"It waits for {describe_amounts(claim.amounts)}. Redis does not answer: nothing is granted."
            return Refusal(code=WAITING_FOR_TOKENS, message=message, retry_seconds=RETRY_SECONDS)
        if isinstance(answer, Granted):
            exchange.claimed.append(_release(lease, claim))
            self._hold(lease, answer)
            return None
        self._watch(exchange, claim)
        return _refusal(answer, claim)

    def admit(self, lease: LeasedExecution) -> None:
        """Nothing: it holds its tokens since it was asked for."""

    def leave(self, lease: LeasedExecution) -> None:
        if lease.reason == WAITING_FOR_TOKENS and lease.id in self._claims:
            self._session.release(replace(_release(lease, self._claims[lease.id]), number=IN_LINE))

    def extend(self, exchange: Exchange, leases: Sequence[LeasedExecution]) -> None:
        needing = [lease for lease in leases if self.is_needed(lease)]
        if not needing:
            return
        self._save()
        claims = {lease.id: claim_of(exchange.context, lease) for lease in needing}
        self._exchange_of |= dict.fromkeys(claims, exchange)
        # With those from before, which may leave the line yet, and whose shares count.
        self._claims |= claims
        pools = {pool for claim in self._claims.values() for pool in claim.amounts}
        tokens = exchange.context.tokens
        self._session = tokens.session(self._connection, pools, list(self._claims.values()), [])

    def close(self) -> None:
        self._save()

    def _save(self) -> None:
        self._session.save()
        for exchange in self._exchanges:
            exchange.answer.watched = {
                pool: self._session.releases.get(pool, number) for pool, number in exchange.answer.watched.items()
            }
        self._exchanges[0].answer.pending += self._session.pending

    def _watch(self, exchange: Exchange, claim: Claim) -> None:
        """Wake the agent when tokens of the claim's pools come free."""
        exchange.context.clusters_in_line.add(exchange.request.cluster)
        exchange.answer.watched = {
            **exchange.answer.watched,
            **{pool: number for pool, number in self._session.releases.items() if pool in claim.amounts},
        }

    def _keep(self, lease: LeasedExecution) -> None:
        """Hold the tokens of a leased execution for as long as its lease, or give them back with it."""
        if lease.token_number is not None:
            if lease.is_over(self._now):
                give_back(self._session, lease, self._now)
            elif lease.is_renewed:
                self._renew(lease)
        elif lease.is_over(self._now):  # it may have stood in line for tokens that it had lost
            self._session.release(Release(token=lease.held_token, pools=tuple(read_amounts(lease.token_pools))))
        elif lease.id in self._claims:
            try:
                answer = self._session.allocate(self._claims[lease.id])
            except TokensUnavailable:
                return
            if isinstance(answer, Granted):
                self._hold(lease, answer)
            else:
                self._watch(self._exchange_of[lease.id], self._claims[lease.id])

    def _hold(self, lease: LeasedExecution, answer: Granted) -> None:
        number = next(iter(answer.grants.values())).number
        if lease.token_number != number:
            lease.set(token_number=number)
            message = f"It holds {describe_amounts(self._claims[lease.id].amounts)} (number {number})."
            # A reason of its own, for what it waited for until now is over.
            lease.note(TOKENS_GRANTED, TOKENS_GRANTED, message, lease.cluster, self._now)

    def _renew(self, lease: LeasedExecution) -> None:
        assert lease.token_number is not None
        context = self._exchanges[0].context
        renewal = Renewal(
            token=lease.held_token,
            amounts=read_amounts(lease.token_pools),
            number=lease.token_number,
            place=lease.scope,
            execution=lease.name,
            holder=holder_of(lease),
            lease_seconds=context.settings.agents.lease_seconds,
            is_leased=not lease.was_over(self._now),
        )
        try:
            answer = self._session.renew(renewal)
        except TokensUnavailable:
            return  # it is renewed by the next sync that finds Redis
        if isinstance(answer, NotHeld):
            lease.set(token_number=None)
            is_loss, amounts = renewal.is_leased, renewal.amounts
            message = describe_loss(amounts) if is_loss else describe_reclaim(amounts, lease.cluster)
            lease.note(TOKENS_LOST, lease.reason, message, lease.cluster, self._now)


def _release(lease: LeasedExecution, claim: Claim) -> Release:
    return Release(token=claim.token, pools=tuple(claim.amounts))


def _has_lost_tokens(lease: LeasedExecution, now: datetime) -> bool:
    """Whether an execution runs without the tokens that it needs."""
    is_leased = lease.is_renewed and not lease.is_over(now)
    return lease.token_number is None and is_leased and may_have_started(lease)


def _refusal(answer: Allocation, claim: Claim) -> Refusal:
    seconds = answer.retry_seconds if isinstance(answer, Exhausted) else RETRY_SECONDS
    message = describe_refusal(answer, claim.amounts)
    return Refusal(code=WAITING_FOR_TOKENS, message=message, retry_seconds=seconds)
