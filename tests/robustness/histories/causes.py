"""Causes: what in a history explains that an attempt was ended, lost or not started."""

from __future__ import annotations

from tests.robustness.histories.records import History
from tests.robustness.histories.silences import Silences

#: Faults that make a cluster silent, however short. Steps of clocks, syncs that are late, doubled or lost, and a second
#: agent are none: where they lead to a silence, the proxy has seen it.
_SILENCING = frozenset({"kill_agent", "leave_agent_dead", "stop_agent", "pause_agent", "part"})


class Causes:
    """What may have happened to attempts, by cluster and time."""

    def __init__(self, history: History) -> None:
        self.silences = Silences(history.exchanges)
        self._faults = history.faults
        self._restores = history.restores

    def of_loss(self, cluster: str, since: float, until: float) -> bool:
        """Whether work that a cluster had between two times may have been lost: the cluster was silent meanwhile."""
        return self.silences.is_unanswered(cluster, since, until) or any(
            fault.target == cluster and fault.name in _SILENCING and fault.begun <= until and fault.ended >= since
            for fault in self._faults
        )

    def of_no_start(self, cluster: str) -> bool:
        """Whether a cluster may have been unable to start something."""
        return any(fault.target == cluster and fault.name == "fill_agent_disk" for fault in self._faults)

    def has_restore(self, since: float) -> bool:
        """Whether a backup was restored after some time: agents may have work then that the admin does not know."""
        return any(restore.ended >= since for restore in self._restores)
