"""What the request that is being answered belongs to: the admin's context, its caller, and who is the author."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import current_app, request

from admin.core.changes import Authorship
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


def authorship(fields: Mapping[str, Any]) -> Authorship:
    """Who changes something, and why, as the fields of a request and its caller say."""
    return Authorship(
        claimed_by=fields.get("claimed_by"), message=fields.get("message"), request_id=caller().request_id
    )
