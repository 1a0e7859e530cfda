"""Tokens of clusters: registration, rotation and revocation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, ClassVar

from marshmallow import fields, validate
from msgspec import Meta

from admin.messages.descriptions import EXAMPLE_EDGES, EXAMPLE_NODES
from admin.messages.requests import Duration, Fields, PayloadField, RequestSchema
from admin.messages.shared import Answer, Time
from admin.services.tokens import state_of
from admin.store.tokens import StoredToken


class RegisterClusterBody(RequestSchema):
    example: ClassVar[Fields] = {
        "secret": "the text of the registration secret",
        "report": {"engine": "local", "capacity": {"cpu": "8", "memory": "32Gi"}},
        "description": {"graph": {"nodes": EXAMPLE_NODES, "edges": EXAMPLE_EDGES}},
    }

    secret = fields.String(required=True, validate=validate.Length(min=1, max=4096))
    report = PayloadField("ClusterReport")
    description = fields.Raw(
        metadata={
            "type": "object",
            "description": "What the cluster has: `graph` or `scheduling`, and `subsystems`. Without any of them it is "
            "a report, as agents of earlier versions send it.",
        }
    )


class RotateBody(RequestSchema):
    example: ClassVar[Fields] = {"overlap": "10m"}

    overlap = Duration(load_default=timedelta(minutes=10), metadata={"type": "string", "default": "10m"})


class IssuedAnswer(Answer):
    cluster: str
    token: Annotated[str, Meta(description="Shown this once.")]
    prefix: str
    created_at: Time


class TokenAnswer(Answer):
    prefix: str
    state: str
    created_at: Time
    last_used_at: Time | None = None
    expires_at: Time | None = None
    revoked_at: Time | None = None

    @classmethod
    def from_token(cls, token: StoredToken, now: datetime) -> TokenAnswer:
        return cls.from_attributes(token, state=state_of(token, now))


class TokensAnswer(Answer):
    tokens: list[TokenAnswer]


class RevokedAnswer(Answer):
    prefix: str
    changed: bool
