"""OpenID: what a client needs to know to log in."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from admin.configuration import OpenId
from admin.messages.shared import Answer


class ProviderAnswer(Answer):
    issuer: Annotated[str, Meta(description="The OpenID provider, whose discovery document has its endpoints.")]
    audience: Annotated[str, Meta(description="That access tokens must be for.")]
    scopes: Annotated[list[str], Meta(description="To ask for.")]
    client_id: Annotated[
        str | None,
        Meta(description="The public client that rainbowctl is at the provider; absent where there is none."),
    ] = None

    @classmethod
    def from_settings(cls, openid: OpenId) -> ProviderAnswer:
        return cls.from_attributes(openid, scopes=list(openid.scopes))
