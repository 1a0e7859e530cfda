"""What the request that is being answered belongs to: the admin's context, and its caller."""

from __future__ import annotations

from collections.abc import Callable

from flask import current_app, request

from admin.core.audit import RequestOrigin
from admin.gate import Caller
from admin.services.access import Access
from admin.services.context import Context
from admin.services.visibility import access_of

#: Where the environ of a request holds its caller.
CALLER = "rainbow.caller"
#: Where it holds the error with which it is answered, if it is.
FAILURE = "rainbow.failure"
#: Where it holds what admits it once more.
READMIT = "rainbow.readmit"
_ACCESS = "rainbow.access"
_VIEW = "rainbow.view"


def context() -> Context:
    """The context of the app that answers, as the caller sees it."""
    admin, granted = _context(), access()
    if not granted.is_restricted:
        return admin
    view: Context | None = request.environ.get(_VIEW)
    if view is None:
        view = request.environ[_VIEW] = admin.seen_by(granted)
    return view


def _context() -> Context:
    admin: Context = current_app.extensions["rainbow"]
    return admin


def origin() -> RequestOrigin:
    """Where the request came from, and what it is for."""
    rule = request.url_rule
    return RequestOrigin(
        address=request.remote_addr,
        method=request.method,
        route=None if rule is None else rule.rule,
        request_id=caller().request_id,
    )


def access() -> Access:
    """What the caller may do, the same for the whole request."""
    granted: Access | None = request.environ.get(_ACCESS)
    if granted is None:
        granted = request.environ[_ACCESS] = access_of(_context(), caller().identity)
    return granted


def readmit() -> None:
    """Admit the request once more, by the tokens and grants of now, of which it may have waited for long."""
    environ = request.environ
    admit: Callable[[], Caller] = environ[READMIT]
    environ[CALLER] = admit()
    for kept in (_ACCESS, _VIEW):
        environ.pop(kept, None)


def caller() -> Caller:
    """The caller whom the gate admitted."""
    admitted: Caller = request.environ[CALLER]
    return admitted
