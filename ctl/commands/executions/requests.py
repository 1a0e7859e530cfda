"""What create and place share: from flags and files to requests, and how these are sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ctl.cli.scopes import resolve_scope
from ctl.cli.session import Session
from ctl.client.answers import Document
from ctl.client.errors import InvalidRequest, NotFound
from ctl.files.execution_requests import Request, build_requests


def requests_from_flags(session: Session, flags: Mapping[str, Any]) -> list[Request]:
    """The requests that the flags of create and place describe, one for each document of a file."""
    scope = resolve_scope(session, {})
    requests = build_requests(flags, scope.project, scope.domain, session.typed)
    for note in dict.fromkeys(note for request in requests for note in request.notes):
        session.printer.note(note)
    return requests


def send_request(session: Session, request: Request, send: Callable[[Request], Document]) -> Document:
    """
    Send a request; where a file's `workflow` is no launch plan, send it for the workflow of that name.

    `send` is the call of the client. A refusal points into the file that the request comes from.
    """
    try:
        return _send(request, send)
    except NotFound as error:
        if not request.may_mean_workflow or error.name != "launch_plan_not_found":
            raise
        project, domain, name = request.launched
        if session.client.has_launch_plan(project, domain, name):
            raise
        answer = _send(request.of_workflow(), send)
        session.printer.note(f"There is no launch plan {name}: the workflow {name} is used instead.")
        return answer


def _send(request: Request, send: Callable[[Request], Document]) -> Document:
    try:
        return send(request)
    except (InvalidRequest, NotFound) as error:
        raise request.explain(error) from None
