"""Suspended Jobs: they wait in a queue of Kueue's, and are deleted when they must end, since they have no deadline."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.engines.base import NativePhase, NativeState
from agent.engines.kubernetes import names
from agent.engines.kubernetes.states import ended_state
from agent.files import read_json, write_json

#: When and where a Job of a queue began, and why a suspended one was deleted.
BEGUN, DELETED = "begun.json", "deleted.json"


class Suspensions:
    """What is recorded of suspended Jobs, since these say nothing themselves when they are resumed or gone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def is_preempted(self, key: str, job: Mapping[str, Any], state: NativeState) -> bool:
        """Whether a Job of a queue was suspended after it had begun: resumed, it would run once more."""
        if state.phase.finished or not names.label(job, names.KUEUE):
            return False
        if state.started_at is not None and not self.has_begun(key):
            self._write(key, BEGUN, {"started_at": state.started_at.isoformat(), "nodes": list(state.nodes)})
        return bool(job["spec"].get("suspend")) and self.has_begun(key)

    def has_begun(self, key: str) -> bool:
        """Whether a Job of a queue has ever begun."""
        return (self._directory / key / BEGUN).exists()

    def note_deleted(self, key: str, reason: str, message: str = "") -> None:
        """Record why a suspended Job is deleted, before it is."""
        begun = read_json(self._directory / key / BEGUN) or {}
        self._write(key, DELETED, {**begun, "reason": reason, "message": message})

    def note_kept(self, key: str) -> None:
        """Record that it was not deleted after all."""
        (self._directory / key / DELETED).unlink(missing_ok=True)

    def state_of_deleted(self, key: str) -> NativeState | None:
        """How a Job ended that was deleted; None of any other."""
        record = read_json(self._directory / key / DELETED)
        if record is None:
            return None
        started_at = datetime.fromisoformat(record["started_at"]) if record.get("started_at") else None
        state = NativeState(NativePhase.UNKNOWN, nodes=tuple(record.get("nodes", ())), started_at=started_at)
        return ended_state(state, record["reason"], record["message"])

    def _write(self, key: str, name: str, record: Mapping[str, Any]) -> None:
        (self._directory / key).mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(self._directory / key / name, record)
