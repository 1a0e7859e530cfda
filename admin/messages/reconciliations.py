"""Reconciliations: the clusters whose agents know more than a restored database, until both agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from marshmallow import fields, validate
from msgspec import Meta

from admin.messages.agents import HeldAnswer
from admin.messages.executions import ExecutionIdAnswer
from admin.messages.requests import OneOf
from admin.messages.shared import Answer, Time, one_of
from admin.messages.switches import SwitchBody
from admin.store.reconciliations import Reconciliation

_STATES = ("waiting", "unknown_work")
_WAITS = "Its agent has not synced since the database was restored: nothing is given away or ended until it has."
_UNKNOWN = "Its agent has work that the restored database does not know, and that goes on."


class EndReconciliationBody(SwitchBody):
    state = fields.String(
        validate=OneOf(_STATES), metadata={"description": "Refuse with 409 unless this is its state."}
    )
    unknown_count = fields.Integer(
        strict=True,
        validate=validate.Range(min=0),
        metadata={"description": "Refuse with 409 if it has more unknown executions than this."},
    )


class ReconciliationAnswer(Answer):
    """How far a cluster is reconciled with a restored database."""

    cluster: str
    state: Annotated[str, one_of(*_STATES)]
    message: str
    began_at: Time
    synced_at: Annotated[Time | None, Meta(description="When its agent first said what it has.")] = None
    unknown: Annotated[list[HeldAnswer], Meta(description="What its agent has and the database does not know.")]

    @classmethod
    def from_reconciliation(cls, reconciliation: Reconciliation) -> ReconciliationAnswer:
        return cls.from_attributes(
            reconciliation,
            message=_WAITS if reconciliation.is_waiting else _UNKNOWN,
            unknown=_unknown(reconciliation),
        )


def _unknown(reconciliation: Reconciliation) -> list[HeldAnswer]:
    return [
        HeldAnswer(
            id=ExecutionIdAnswer(project=held["project"], domain=held["domain"], name=held["name"]),
            attempt=held["attempt"],
            uid=held["uid"],
        )
        for held in reconciliation.unknown
    ]


class ReconciliationsAnswer(Answer):
    reconciliations: list[ReconciliationAnswer]
    waiting: Annotated[bool, Meta(description="Whether nothing is given away or ended at any cluster.")]

    @classmethod
    def from_reconciliations(cls, reconciliations: Sequence[Reconciliation]) -> ReconciliationsAnswer:
        answers = [ReconciliationAnswer.from_reconciliation(reconciliation) for reconciliation in reconciliations]
        is_waiting = any(reconciliation.is_waiting for reconciliation in reconciliations)
        return cls(reconciliations=answers, waiting=is_waiting)


class ReconciledAnswer(Answer):
    """What was ended."""

    cluster: str
    state: Annotated[str, one_of(*_STATES)]
    unknown: Annotated[list[HeldAnswer], Meta(description="What its agent may end now.")]
    changed: Annotated[bool, Meta(description="Always true; earlier clients look at it.")]

    @classmethod
    def from_reconciliation(cls, reconciliation: Reconciliation) -> ReconciledAnswer:
        return cls.from_attributes(reconciliation, unknown=_unknown(reconciliation), changed=True)
