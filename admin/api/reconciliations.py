"""Reconciliations over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import actor
from admin.messages.reconciliations import (
    EndReconciliationBody,
    ReconciledAnswer,
    ReconciliationAnswer,
    ReconciliationsAnswer,
)
from admin.messages.requests import Fields
from admin.services import reconciliations

operations = Operations("reconciliations")


@operations.add("GET", "/reconciliations", permission="reconciliations.read")
def list_reconciliations() -> ReconciliationsAnswer:
    """List the clusters that are not reconciled with a restored database yet."""
    return ReconciliationsAnswer.from_reconciliations(reconciliations.list_reconciliations(context()))


@operations.add("GET", "/reconciliations/<name>", permission="reconciliations.read", errors=(404,))
def get_reconciliation(name: str) -> ReconciliationAnswer:
    """How far a cluster is reconciled with a restored database."""
    return ReconciliationAnswer.from_reconciliation(reconciliations.get_reconciliation(context(), name))


@operations.add(
    "DELETE",
    "/reconciliations/<name>",
    body=EndReconciliationBody,
    body_optional=True,
    permission="reconciliations.write",
    errors=(404, 409),
)
def end_reconciliation(name: str, body: Fields) -> ReconciledAnswer:
    """Count a cluster as reconciled, whether or not its agent has synced."""
    expected = {key: value for key, value in body.items() if key != "claimed_by"}
    ended = reconciliations.end_reconciliation(context(), name, by=actor(body), **expected)
    return ReconciledAnswer.from_reconciliation(ended)
