"""Comparisons of two executions: what they are, how they were placed and how they ended, fact by fact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from admin.core.executions.lifecycle import Phase
from admin.core.problems import list_first
from admin.core.times import show_duration

#: What facts are about, in the order of answers.
RUN, PLACEMENT, OUTCOME = PARTS = ("run", "placement", "outcome")

#: What begins the fields that tell how a cluster stood at a decision.
CANDIDATES = "candidates"

#: Facts of a part that a sentence names; the facts themselves follow it.
_MOST_NAMED = 5


class Fact(NamedTuple):
    """What a fact is called."""

    part: str
    field: str

    @property
    def words(self) -> str:
        """The field in words; a path, such as that of a variable of the environment, is left as it is."""
        return self.field if "." in self.field else self.field.removesuffix("_seconds").replace("_", " ")


#: What is known of an execution; what it does not have is None.
Facts = Mapping[Fact, Any]


@dataclass(frozen=True, kw_only=True)
class FactPair:
    """A fact of two executions."""

    fact: Fact
    first: Any
    second: Any

    @property
    def is_equal(self) -> bool:
        return bool(self.first == self.second)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an execution ended, or how far it has come."""

    phase: str
    cluster: str | None
    cause: str | None
    ended_by: str | None  #: in words, such as `exit 1`
    attempts: int  #: how many have begun
    run_seconds: int | None  #: of all its attempts; None while it goes on

    def describe(self, name: str) -> str:
        """`'nightly' FAILED on east (exit 1) after running for 3 min, attempt 2`."""
        phase = Phase(self.phase)
        where = f" on {self.cluster}" if self.cluster and self.attempts else ""
        why = f" ({self.ended_by})" if self.ended_by and phase is not Phase.SUCCEEDED else ""
        ran = f" after running for {show_duration(self.run_seconds)}" if self.attempts and self.run_seconds else ""
        attempts = f", attempt {self.attempts}" if self.attempts > 1 else ""
        verb = "" if phase.is_finished else "is "
        return f"'{name}' {verb}{phase.value}{where}{why}{ran}{attempts}"


def pair_facts(first: Facts, second: Facts, *, parts: Sequence[str] = PARTS) -> list[FactPair]:
    """Every fact that one of two executions, or clusters, has, in the order of their parts."""
    facts = sorted(dict.fromkeys((*first, *second)), key=lambda fact: parts.index(fact.part))
    pairs = (FactPair(fact=fact, first=first.get(fact), second=second.get(fact)) for fact in facts)
    return [pair for pair in pairs if pair.first is not None or pair.second is not None]


def describe_comparison(
    names: Sequence[str], outcomes: Sequence[Outcome], pairs: Sequence[FactPair], settings: int
) -> str:
    """How two executions stand, and what differs between them, of which `settings` are fields of settings."""
    stand = "; ".join(outcome.describe(name) for name, outcome in zip(names, outcomes, strict=True))
    parts = list(_differing(pairs, PARTS))
    if settings:
        parts.append("1 setting" if settings == 1 else f"{settings} settings")
    if not parts:
        return f"{stand}. Nothing else differs between them."
    return f"{stand}. They differ in {'; '.join(parts)}."


def describe_differences(names: Sequence[str], pairs: Sequence[FactPair], parts: Sequence[str]) -> str:
    """In what two clusters differ."""
    first, second = names
    differing = list(_differing(pairs, parts))
    if not differing:
        return f"Nothing differs between '{first}' and '{second}'."
    return f"'{first}' and '{second}' differ in {'; '.join(differing)}."


def _differing(pairs: Sequence[FactPair], parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        facts = [pair.fact for pair in pairs if pair.fact.part == part and not pair.is_equal]
        # How each cluster stood is left to the facts themselves.
        words = dict.fromkeys(CANDIDATES if fact.field.startswith(f"{CANDIDATES}.") else fact.words for fact in facts)
        if words:
            yield f"{part} ({list_first(list(words), _MOST_NAMED)})"
