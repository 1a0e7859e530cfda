"""Changes of many rows over HTTP, and their plan."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import change_options
from admin.core.permissions import OF_EACH_ROW
from admin.messages.changes import ChangedAnswer, ChangesBody, ChangesQuery, read_changes
from admin.messages.requests import Fields
from admin.services.changeable.base import Mode
from admin.services.changes import apply_changes

operations = Operations("changes")

MOST_BYTES = 32 * 1024 * 1024


@operations.add(
    "POST",
    "/attribute_changes",
    query=ChangesQuery,
    body=ChangesBody,
    errors=(409,),
    permission=OF_EACH_ROW,
    most_bytes=MOST_BYTES,
)
def change_attributes(query: Fields, body: Fields) -> ChangedAnswer:
    """Change many attributes and projects at once, all or nothing; or say what that would do."""
    writes = read_changes(context(), body["changes"])
    return ChangedAnswer.from_changed(apply_changes(context(), writes, change_options(query, body, Mode.PLAN)), query)
