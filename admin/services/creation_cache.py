"""What creation keeps in memory, each by the numbers of the decision basis that it depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from admin.core.executions.effective_settings import EffectiveSettings
from admin.core.memos import Memo
from admin.core.placement.decisions import Evaluation
from admin.services.preparations import Preparation
from admin.store.registrations import Registered


@dataclass(kw_only=True)
class CreationCache:
    """What creation need not read or compute again; a write by it checks the basis."""

    registrations: int = -1  #: the number of registrations when it was last read, -1 before
    registered: Memo[Registered] = field(default_factory=Memo)  #: by the number of registrations
    effective: Memo[EffectiveSettings] = field(default_factory=Memo)  #: by revision
    evaluations: Memo[Evaluation] = field(default_factory=Memo)  #: by the fleet's generation
    preparations: Memo[Preparation] = field(default_factory=partial(Memo, 1024))  #: by the whole basis
