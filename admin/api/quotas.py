"""Quotas over HTTP: how much of them is used; as settings they are attributes."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.core.settings.scopes import Scope, check_scope
from admin.messages.quotas import QuotaUseAnswer, QuotaUsesAnswer
from admin.messages.requests import Fields, ScopeQuery
from admin.services.execution_quotas import list_usage

operations = Operations("quotas")


@operations.add("GET", "/quota_usage", query=ScopeQuery, permission="attributes.read", errors=(404,))
def list_quota_usage(query: Fields) -> QuotaUsesAnswer:
    """List the execution quotas that apply at a scope, and how much of each is used."""
    scope = check_scope(**{key: query.get(key, "") for key in Scope._fields})
    return QuotaUsesAnswer(quotas=[QuotaUseAnswer.from_use(use) for use in list_usage(context(), scope)])
