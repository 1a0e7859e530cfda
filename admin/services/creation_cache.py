"""What creation keeps in memory, each by the numbers of the decision basis that it depends on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Generic, TypeVar

from admin.core.executions.effective_settings import EffectiveSettings
from admin.core.memos import Memo
from admin.core.placement.decisions import Evaluation
from admin.services.preparations import Preparation
from admin.store.decision_basis import DecisionBasis
from admin.store.registrations import Registered

Value = TypeVar("Value")


class BasisCache(Generic[Value]):
    """Values that hold for as long as some numbers of the basis stay the same; at most so many."""

    def __init__(self, *numbers: str, most: int = 4096) -> None:
        self._numbers = attrgetter(*numbers)
        self._memo: Memo[Value] = Memo(most)

    def find(self, basis: DecisionBasis, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key at a basis, made if it is not cached; values of another basis are dropped."""
        return self._memo.find(key, make, self._numbers(basis))


@dataclass(kw_only=True)
class CreationCache:
    """What creation need not read or compute again; a write by it checks the basis."""

    registrations: int = -1  #: the number of registrations when it was last read, -1 before
    registered: BasisCache[Registered] = field(default_factory=partial(BasisCache, "registrations"))
    effective: BasisCache[EffectiveSettings] = field(default_factory=partial(BasisCache, "revision"))
    evaluations: BasisCache[Evaluation] = field(default_factory=partial(BasisCache, "fleet"))
    preparations: BasisCache[Preparation] = field(
        default_factory=partial(BasisCache, *DecisionBasis._fields, most=1024)
    )
