"""Revisions over HTTP: history, differences, waiting for news, rolling back."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import change_options
from admin.core.permissions import OF_EACH_ROW
from admin.core.problems import invalid
from admin.core.settings.scopes import Scope, check_scope
from admin.messages.changes import ChangedAnswer, ChangesQuery
from admin.messages.pages import number_of, number_token, parse_number
from admin.messages.requests import Fields
from admin.messages.revisions import (
    DiffAnswer,
    DiffQuery,
    OneRevisionAnswer,
    RevisionAnswer,
    RevisionsAnswer,
    RevisionsQuery,
    RollbackBody,
    RowDifference,
    revision_filter,
)
from admin.messages.selectors import with_times
from admin.messages.timeline import TimelineAnswer, TimelineQuery, position_of, timeline_filter
from admin.services import revisions, rollbacks, timeline
from admin.services.changeable.base import Mode
from admin.services.changeable.registry import KINDS

operations = Operations("revisions")


@operations.add("GET", "/revisions", query=RevisionsQuery, shows_some=True, permission="attributes.read")
def list_revisions(query: Fields) -> RevisionsAnswer:
    """List revisions."""
    conditions = revision_filter(with_times(query, context().clock()), _kind_name(query.get("resource_type")))
    page = revisions.list_revisions(context(), conditions, number_of(query.get("token")), query["limit"], query["wait"])
    return RevisionsAnswer(
        revisions=[RevisionAnswer.from_revision(revision) for revision in page.revisions],
        head=page.head,
        oldest=page.oldest if page.oldest > 1 else None,
        token=number_token(page.next_number),
    )


@operations.add("GET", "/timeline", query=TimelineQuery, shows_some=True, permission="attributes.read")
def list_timeline(query: Fields) -> TimelineAnswer:
    """List revisions, registrations, what happened to clusters and, if asked for, ends of executions, newest first."""
    conditions = timeline_filter(with_times(query, context().clock()), _kind_name(query.get("resource_type")))
    page = timeline.list_entries(context(), conditions, position_of(query.get("token")), query["limit"])
    return TimelineAnswer.from_page(page, query.get("by"))


@operations.add("GET", "/revisions/<number>", shows_some=True, permission="attributes.read", errors=(404,))
def get_revision(number: str) -> OneRevisionAnswer:
    """Read a revision and its changes."""
    error = invalid("number", "is not the number of a revision.")
    return OneRevisionAnswer.from_view(revisions.get_revision(context(), parse_number(number, error)))


@operations.add("GET", "/revision_diff", query=DiffQuery, shows_some=True, permission="attributes.read", errors=(404,))
def diff_revisions(query: Fields) -> DiffAnswer:
    """What differs between two revisions."""
    changes = revisions.difference(context(), query["from_"], query["to"])
    rows = [RowDifference.from_change(change) for change in changes]
    return DiffAnswer(from_=query["from_"], to=query["to"], rows=rows)


@operations.add("POST", "/rollbacks", query=ChangesQuery, body=RollbackBody, permission=OF_EACH_ROW, errors=(404, 409))
def roll_back(query: Fields, body: Fields) -> ChangedAnswer:
    """Undo one or more revisions, or bring a scope or everything back to one, as a new revision."""
    options = change_options(query, body, Mode.PLAN)
    if "to" not in body:
        numbers = body.get("revisions") or [body["revision"]]
        changed = rollbacks.roll_back_revisions(context(), numbers, options, only_restorable=body["restorable"])
    elif body["everything"]:
        changed = rollbacks.roll_back_everything(context(), body["to"], options)
    else:
        scope = check_scope(**{key: body[key] for key in Scope._fields if key in body})
        kind = context().settings.kinds.find(body["resource_type"]) if "resource_type" in body else None
        changed = rollbacks.roll_back_scope(context(), body["to"], scope, kind, options)
    return ChangedAnswer.from_changed(changed, query)


def _kind_name(word: str | None) -> str | None:
    if word is None or word.upper() in KINDS:
        return word and word.upper()
    return context().settings.kinds.find(word).name
