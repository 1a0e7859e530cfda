"""Rounds of bids: how one ends."""

from __future__ import annotations

from enum import Enum


class RoundOutcome(Enum):
    """What became of a round."""

    CHOSEN = "chosen"  # a cluster got the execution
    NOBODY = "nobody"  # no cluster said yes: they are asked again
    NEVER = "never"  # no cluster can: the execution failed
    STAYS = "stays"  # it stays at the cluster where it waits
    WITHDRAWN = "withdrawn"  # the answer does not matter any more
