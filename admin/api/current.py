"""What the request that is being answered belongs to: the admin's context, and its caller."""

from __future__ import annotations

from flask import current_app, request

from admin.gate import Caller
from admin.services.context import Context

#: Where the environ of a request holds its caller.
CALLER = "rainbow.caller"


def context() -> Context:
    """The context of the app that answers."""
    admin: Context = current_app.extensions["rainbow"]
    return admin


def caller() -> Caller:
    """The caller whom the gate admitted."""
    admitted: Caller = request.environ[CALLER]
    return admitted
