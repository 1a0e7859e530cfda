"""Changes of many rows over HTTP, and their plan."""

from __future__ import annotations

from typing import Any

from admin.api.current import authorship, context
from admin.api.operations import Operations
from admin.core.problems import Invalid, Problem
from admin.messages.changes import ChangedAnswer, ChangesBody, ChangesQuery, read_changes
from admin.messages.pages import key_of
from admin.services.changeable.base import ChangeOptions, Mode
from admin.services.changes import Changed, apply_changes

operations = Operations("changes")

MOST_BYTES = 32 * 1024 * 1024


@operations.add(
    "POST",
    "/attribute_changes",
    summary="Change many attributes and projects at once, all or nothing; or say what that would do",
    query=ChangesQuery,
    body=ChangesBody,
    answer=ChangedAnswer,
    errors=(400, 409),
    most_bytes=MOST_BYTES,
)
def change_attributes(query: dict[str, Any], body: dict[str, Any]) -> ChangedAnswer:
    changed = apply_changes(context(), read_changes(context(), body["changes"]), options_of(query, body))
    return changed_answer(changed, query)


def options_of(query: dict[str, Any], body: dict[str, Any]) -> ChangeOptions:
    """How a request wants its change to be made."""
    mode = Mode.PLAN if query["dry_run"] else Mode.MAKE
    return ChangeOptions(authorship=authorship(body), mode=mode, force=query.get("force", False))


def changed_answer(changed: Changed, query: dict[str, Any]) -> ChangedAnswer:
    """What a change did, or would do."""
    key = key_of(query.get("token"), 1) if changed.dry_run else None
    if key is not None and not key[0].isdecimal():
        raise Invalid(Problem(field="token", reason="is not a token that a plan gave; leave it out to start anew."))
    return ChangedAnswer.from_changed(changed, start=int(key[0][:9]) if key else 0, limit=query["limit"])
