"""OpenID: where users log in."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.core.permissions import OPEN
from admin.errors import NoProvider
from admin.messages.openid import ProviderAnswer

operations = Operations("openid")


@operations.add("GET", "/openid", permission=OPEN, errors=(404,))
def get_provider() -> ProviderAnswer:
    """The OpenID provider at which users of this admin log in."""
    openid = context().settings.openid
    if openid is None:
        raise NoProvider()
    return ProviderAnswer.from_settings(openid)
