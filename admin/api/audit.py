"""Audit events over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.messages.audit import AuditAnswer, AuditEventAnswer, AuditQuery, audit_filter
from admin.messages.pages import number_of, number_token
from admin.messages.requests import Fields
from admin.messages.selectors import with_times
from admin.services import audit

operations = Operations("audit")


@operations.add("GET", "/audit", query=AuditQuery, permission="audit.read")
def list_audit_events(query: Fields) -> AuditAnswer:
    """List logins, what was done with tokens, and denied requests, newest first."""
    filters = audit_filter(with_times(query, context().clock()))
    page, last, not_listed = audit.list_events(context(), filters, number_of(query.get("token")), query["limit"])
    return AuditAnswer(
        events=[AuditEventAnswer.from_event(event) for event in page],
        token=number_token(last),
        not_listed=not_listed,
    )
