"""The calls of the client that are about a database that was restored from a backup."""

from __future__ import annotations

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, non_empty, resource_path


class ReconciliationCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def reconciliations(self) -> list[Document]:
        """The clusters that are not reconciled with a restored database yet, each with the work it does not know."""
        return list(self._read("reconciliations", holding="reconciliations")["reconciliations"])

    def reconciliation(self, cluster: str) -> Document:
        """One of them; NotFound where nothing is left to reconcile."""
        return self._read(resource_path("reconciliations", cluster=cluster))

    def end_reconciliation(
        self,
        cluster: str,
        *,
        state: str | None = None,
        unknown_count: int | None = None,
        reason: str | None = None,
        claimed_by: str | None = None,
    ) -> Document:
        """Count a cluster as reconciled; answers what was ended.

        Conflict unless it is in that `state` and has no more than `unknown_count` unknown executions, where these are
        given.
        """
        expected = {"state": state, "unknown_count": unknown_count}
        body = non_empty({**expected, "reason": reason, "claimed_by": claimed_by})
        return self._write("DELETE", resource_path("reconciliations", cluster=cluster), body)
