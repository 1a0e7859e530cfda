"""Quotas over HTTP: how much of them is used, and by whom; as settings they are attributes."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.core.settings.scopes import Scope, check_scope
from admin.messages.quotas import QuotaUseAnswer, QuotaUsesAnswer, QuotaUsesQuery
from admin.messages.requests import Fields
from admin.services.execution_quotas import USER, list_usage

operations = Operations("quotas")


@operations.add("GET", "/quota_usage", query=QuotaUsesQuery, permission="attributes.read", errors=(404,))
def list_quota_usage(query: Fields) -> QuotaUsesAnswer:
    """List the execution quotas that apply at a scope, how much of each is used, and by whom."""
    scope, by = check_scope(**{key: query.get(key, "") for key in Scope._fields}), query.get("by", USER)
    return QuotaUsesAnswer(quotas=[QuotaUseAnswer.from_use(use, by) for use in list_usage(context(), scope, by)])
