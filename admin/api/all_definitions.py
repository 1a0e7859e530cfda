"""All definitions over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.core.permissions import SIGNED_IN
from admin.core.settings.scopes import check_scope
from admin.messages.all_definitions import (
    AllDefinitionsAnswer,
    AllDefinitionsQuery,
    conditions_of,
    definition_key,
    nouns_of,
)
from admin.messages.requests import Fields
from admin.services import all_definitions

operations = Operations("all_definitions")


@operations.add("GET", "/all_definitions", query=AllDefinitionsQuery, permission=SIGNED_IN)
def list_all_definitions(query: Fields) -> AllDefinitionsAnswer:
    """List what is defined, of all nouns, with who defined it: as much of it as the caller may see."""
    scope = check_scope(project=query.get("project", ""), domain=query.get("domain", ""))
    after = definition_key(query.get("token"))
    conditions = conditions_of(query, context().clock())
    page = all_definitions.list_all_definitions(context(), nouns_of(query), scope, after, query["limit"], conditions)
    return AllDefinitionsAnswer.from_page(page)
