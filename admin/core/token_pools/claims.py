"""Claims: what a holder asks of token pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from admin.core.settings.scopes import PLATFORM, Scope
from admin.core.token_pools.definitions import NO_CAPS, Caps

#: How the tokens of executions start, which no request may name.
EXECUTION_PREFIX = "execution/"
#: The priority of what runs already and has lost its tokens: before all that waits, of whatever tier and priority.
RUNS_ALREADY = 10**9


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a holder asks for: tokens of pools, all or none."""

    token: str  #: names it: asking again with the same one gets the same answer
    amounts: Mapping[str, int]  #: by pool
    place: Scope = PLATFORM
    execution: str = ""
    holder: str = ""  #: who asks, for people
    constraints: Caps = NO_CAPS
    priority: int = 0
    weight: float = 1.0  #: of the claim; that of its project is among the terms
    lease_seconds: float = 60.0
    wait_seconds: float = 0.0  #: how long it stays in line without asking again
    is_repeated: bool = False  #: whether it was refused before, and stands in no line that would tell
    since: datetime | None = None  #: its age in line; None for since it asks
