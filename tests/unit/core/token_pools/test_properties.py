"""Random operations on token pools, beside a model that only keeps a list of who holds what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from admin.core.settings.scopes import Scope
from admin.core.token_pools.answers import Conflict, Exhausted, Granted, NeverFits, NotHeld, Released, Renewed
from admin.core.token_pools.claims import Claim
from admin.core.token_pools.definitions import Caps, TokenPool
from admin.core.token_pools.grants import Release, Renewal
from admin.core.token_pools.steadiness import JUMP_SECONDS
from tests.unit.core.token_pools.ledgers import Pools, quota

NAMES = ("hive", "spark", "solr")
PROJECTS, DOMAINS = ("ads", "search"), ("dev", "prod")
#: Those of ad hoc jobs, and below them those of workflows and launch plans.
PLACES = [
    Scope(domain, project, *names)
    for domain in DOMAINS
    for project in PROJECTS
    for names in ((), (), ("etl",), ("etl", "nightly"))
]
SCOPES = [*(Scope(d, p) for d in ("", *DOMAINS) for p in ("", *PROJECTS) if d or p), *PLACES]

small = st.integers(0, 6)
maybe = st.none() | small
caps = st.builds(Caps, project=maybe, namespace=maybe, execution=maybe)
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4), min_size=1, max_size=3)
claims = st.builds(
    Claim,
    token=st.sampled_from([f"t{number}" for number in range(8)]),
    amounts=amounts,
    place=st.sampled_from(PLACES),
    execution=st.sampled_from(["", "r1", "r2"]),
    priority=st.integers(0, 2),
    weight=st.sampled_from([0.5, 1.0, 3.0]),
    lease_seconds=st.sampled_from([5.0, 20.0]),
    wait_seconds=st.sampled_from([0.0, 10.0]),
)
steps = st.one_of(
    claims,
    st.tuples(st.just("release"), st.integers(0, 7)),
    st.tuples(st.just("renew"), st.integers(0, 7)),
    st.tuples(st.just("pass"), st.integers(1, 12)),
    st.tuples(st.just("resize"), st.sampled_from(NAMES), st.integers(0, 8)),
)


def is_below(scope: Scope, asked: Claim) -> bool:
    return all(wanted in ("", given) for wanted, given in zip(scope, asked.place, strict=True))


def namespace(asked: Claim) -> tuple[str, str]:
    return asked.place.project, asked.place.domain


@dataclass
class Held:
    """One entry of the model's list."""

    claim: Claim
    number: int
    until: datetime  #: when it is taken back: a moment after its lease

    @classmethod
    def at(cls, now: datetime, claim: Claim, number: int) -> Held:
        return cls(claim, number, now + timedelta(seconds=claim.lease_seconds + JUMP_SECONDS))


@dataclass
class Model:
    """Who holds what, in a list; every sum is counted anew."""

    state: Pools
    held: list[Held] = field(default_factory=list)

    def live(self) -> list[Held]:
        return [entry for entry in self.held if entry.until > self.state.now]

    def of(self, token: str) -> Held | None:
        return next((entry for entry in self.live() if entry.claim.token == token), None)

    def holding(self, asked: Claim) -> dict[str, Held]:
        """What the token of a claim holds in the pools of the claim; it may hold each by a grant of its own."""
        return {
            pool: entry
            for entry in self.live()
            if entry.claim.token == asked.token
            for pool in entry.claim.amounts.keys() & asked.amounts.keys()
        }

    def fits(self, asked: Claim) -> bool:
        """Whether no bound of any pool would be exceeded."""
        return all(
            sum(entry.claim.amounts.get(pool, 0) for entry in self.live() if counts(entry.claim)) + amount <= bound
            for pool, amount in asked.amounts.items()
            for bound, counts in self.bounds(pool, asked)
        )

    def bounds(self, pool: str, asked: Claim) -> Iterator[tuple[int, Callable[[Claim], bool]]]:
        """What bounds a claim in a pool, and which others each bound counts."""
        definition, place = self.state.pools[pool], asked.place
        yield definition.capacity, lambda other: True
        if definition.caps.project is not None:
            yield definition.caps.project, lambda other: other.place.project == place.project
        if definition.caps.namespace is not None:
            yield definition.caps.namespace, lambda other: namespace(other) == namespace(asked)
        if definition.caps.execution is not None and asked.execution:
            yield (
                definition.caps.execution,
                lambda other: (namespace(other), other.execution) == (namespace(asked), asked.execution),
            )
        for scope, row in self.state.rows.items():
            if is_below(scope, asked):
                bound = row.payload["pools"].get(pool)
                if bound is not None:
                    yield bound, partial(is_below, scope)

    def allocate(self, asked: Claim) -> None:
        holding, fits = self.holding(asked), self.fits(asked)
        others = any(
            token != asked.token and waiter.expires_at > self.state.now
            for pool in asked.amounts
            for token, waiter in self.state.books[pool].waiters.items()
        )
        answer = self.state.allocate(asked)
        if holding:
            is_same = {pool: entry.claim.amounts[pool] for pool, entry in holding.items()} == asked.amounts
            is_same = is_same and {namespace(entry.claim) for entry in holding.values()} == {namespace(asked)}
            is_same = is_same and len({entry.number for entry in holding.values()}) == 1
            assert isinstance(answer, Granted if is_same else Conflict)
            assert not isinstance(answer, Granted) or not answer.is_new
        elif isinstance(answer, Granted):
            assert fits
            assert answer.is_new
            [number] = {grant.number for grant in answer.grants.values()}
            assert all(
                number > entry.number for entry in self.held if entry.claim.amounts.keys() & asked.amounts.keys()
            )
            self.held.append(Held.at(self.state.now, asked, number))
        else:
            assert isinstance(answer, Exhausted | NeverFits)
            assert not fits or others  # what fits is refused only for the sake of those in line

    def release(self, token: str) -> None:
        entry = self.of(token)
        pools = tuple(entry.claim.amounts) if entry else NAMES
        answer = self.state.ledger().release(Release(token=token, pools=pools, number=entry.number if entry else None))
        if entry is None:
            assert isinstance(answer, NotHeld) or answer == Released(amounts={})
        else:
            assert answer == Released(amounts=dict(sorted(entry.claim.amounts.items())))
            self.held.remove(entry)

    def renew(self, token: str) -> None:
        entries = [entry for entry in self.held if entry.claim.token == token]
        if not entries:
            return
        entry = entries[-1]
        renewal = Renewal(token=token, amounts=entry.claim.amounts, number=entry.number, place=entry.claim.place)
        answer = self.state.ledger().renew(renewal)
        assert isinstance(answer, Renewed if entry in self.live() else NotHeld)
        if isinstance(answer, Renewed):
            entry.until = Held.at(self.state.now, entry.claim, entry.number).until

    def check(self) -> None:
        """The books have exactly what the list has."""
        self.state.ledger()
        for pool, book in self.state.books.items():
            expected = {
                entry.claim.token: entry.claim.amounts[pool] for entry in self.live() if pool in entry.claim.amounts
            }
            assert {token: grant.amount for token, grant in book.grants.items()} == expected
            assert book.used["///"] == sum(expected.values())


def asks(domain: str = "dev", **pools: int) -> Claim:
    """A claim of always the same token."""
    return Claim(token="t0", amounts=pools, place=Scope(domain, "ads"), lease_seconds=5.0)


def histories_of_one_token(test: Callable[..., None]) -> Callable[..., None]:
    """Try a test with one token that holds pools one by one, or together, and asks for some of them again.

    And with one that renews at the end of its lease, in the moment after that, and too late.
    """
    for history in (
        [asks(hive=1), asks(spark=1), asks(spark=1)],
        [asks(hive=1), asks(spark=1), asks(hive=1, spark=1)],
        [asks(hive=1, spark=1), asks(hive=1), asks(hive=1, spark=1)],
        [asks(hive=1), asks("prod", hive=1)],
        [asks(hive=1), ("pass", 5), ("renew", 0), ("pass", 5), asks(hive=1), ("pass", 1), ("renew", 0), asks(hive=1)],
    ):
        test = example(capacities=[6, 6, 6], pool_caps=[Caps()] * 3, quotas={}, history=history)(test)
    return test


@settings(max_examples=80, deadline=None)
@histories_of_one_token
@given(
    capacities=st.lists(small, min_size=3, max_size=3),
    pool_caps=st.lists(caps, min_size=3, max_size=3),
    quotas=st.dictionaries(st.sampled_from(SCOPES), st.dictionaries(st.sampled_from(NAMES), small), max_size=3),
    history=st.lists(steps, max_size=40),
)
def test_no_bound_is_ever_exceeded_and_nothing_leaks(
    capacities: list[int], pool_caps: list[Caps], quotas: dict[Scope, dict[str, int]], history: list[Any]
) -> None:
    pools = [
        TokenPool(name=name, capacity=capacity, caps=own)
        for name, capacity, own in zip(NAMES, capacities, pool_caps, strict=True)
    ]
    rows = tuple(quota(number, scope, **bounds) for number, (scope, bounds) in enumerate(quotas.items(), 1))
    state = Pools(*pools, rows=rows)
    model = Model(state)
    for step in history:
        match step:
            case Claim():
                model.allocate(step)
            case ("release", number):
                model.release(f"t{number}")
            case ("renew", number):
                model.renew(f"t{number}")
            case ("pass", seconds):
                state.after(seconds)
            case ("resize", name, capacity):
                state.pools[name] = TokenPool(name=name, capacity=capacity, caps=state.pools[name].caps)
        model.check()
    state.after(100)
    assert all(not book.grants and not book.waiters and not +book.used for book in state.books.values())
