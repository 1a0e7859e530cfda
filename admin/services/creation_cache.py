"""Recollections: what a process remembers of the database, and the numbers at which it was true."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from admin.core.executions.effective_settings import EffectiveSettings
from admin.core.memos import Memo
from admin.core.placement.decisions import Evaluation
from admin.store.registrations import Registered


@dataclass(kw_only=True)
class CreationCache:
    """What creation need not ask for again. Whoever stores by it checks the numbers."""

    registrations: int = -1  #: how often something had been registered, when it was last asked
    registered: Memo[Registered] = field(default_factory=Memo)  #: by that number
    effective: Memo[EffectiveSettings] = field(default_factory=Memo)  #: by revision
    evaluations: Memo[Evaluation] = field(default_factory=Memo)  #: by the number of the fleet
    patterns: Memo[Any] = field(default_factory=lambda: Memo(1024))  #: what requests come to, by all three
