"""Descriptions of clusters over HTTP."""

from __future__ import annotations

from contextlib import suppress

from admin.api.current import caller, context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, actor, expectation
from admin.errors import VersionConflict
from admin.messages.descriptions import (
    DescriptionAnswer,
    DescriptionBody,
    DescriptionPatchBody,
    DescriptionQuery,
    DescriptionRevisionAnswer,
    DescriptionsAnswer,
    DescriptionTreeAnswer,
    DescriptionWrittenAnswer,
)
from admin.messages.pages import number_of, number_token
from admin.messages.requests import AuthorshipFields, Fields, PageQuery, WriteQuery, load
from admin.services import descriptions
from admin.services.description_bodies import read_sent
from admin.services.descriptions import ChangedMeanwhile, DescriptionWrite

operations = Operations("descriptions")

_PATH = "/clusters/<name>/description"
#: Of a body: about five hundred for each of half a million vertices.
MOST_BYTES = 256 * 1024 * 1024

#: How often a patch is applied, each time to a description that has changed meanwhile.
_MOST_TRIES = 5


def _write(query: Fields, authorship: Fields, changed_revision: int | None = None) -> DescriptionWrite:
    return DescriptionWrite(
        by=actor(authorship),
        by_agent=caller().cluster is not None,
        message=authorship.get("message"),
        request_id=caller().request_id,
        expectation=expectation(),
        dry_run=query["dry_run"],
        changed_revision=changed_revision,
    )


def _store(
    name: str, query: Fields, body: bytes, changed_revision: int | None = None, current: bytes | None = None
) -> DescriptionWrittenAnswer:
    sent = read_sent(body, current, context().settings.max_vertices)
    write = _write(query, load(DescriptionBody(), sent.others), changed_revision)
    return DescriptionWrittenAnswer.from_written(descriptions.put_description(context(), name, sent.compiled, write))


@operations.add(
    "PUT",
    _PATH,
    query=WriteQuery,
    body=DescriptionBody,
    permission="fleet.write",
    errors=(404, 409, 413),
    headers=WRITE_HEADERS,
    for_agents=True,
    most_bytes=MOST_BYTES,
    unread=True,
)
def put_description(name: str, query: Fields, body: bytes) -> DescriptionWrittenAnswer:
    """Set the description of a cluster."""
    return _store(name, query, body)


@operations.add(
    "PATCH",
    _PATH,
    query=WriteQuery,
    body=DescriptionPatchBody,
    permission="fleet.write",
    errors=(404, 409, 413),
    headers=WRITE_HEADERS,
    for_agents=True,
    most_bytes=MOST_BYTES,
    unread=True,
)
def patch_description(name: str, query: Fields, body: bytes) -> DescriptionWrittenAnswer:
    """Change the graph or single subsystems of a cluster's description."""
    for _ in range(_MOST_TRIES):
        with suppress(ChangedMeanwhile):
            return _store(name, query, body, *descriptions.current_document(context(), name))
    raise VersionConflict(f"The description of cluster '{name}' is changed by others all the time. Try again later.")


@operations.add(
    "DELETE",
    _PATH,
    query=WriteQuery,
    body=AuthorshipFields,
    body_optional=True,
    permission="fleet.write",
    errors=(404, 409),
    headers=WRITE_HEADERS,
)
def delete_description(name: str, query: Fields, body: Fields) -> DescriptionWrittenAnswer:
    """Remove the description of a cluster."""
    write = _write(query, body)
    return DescriptionWrittenAnswer.from_written(descriptions.put_description(context(), name, None, write))


@operations.add("GET", _PATH, query=DescriptionQuery, permission="fleet.read", errors=(404,), for_agents=True)
def get_description(name: str, query: Fields) -> DescriptionAnswer:
    """Read the description of a cluster as it was sent."""
    view = descriptions.get_description(context(), name, query.get("revision"), with_document=True)
    return DescriptionAnswer.from_document(view)


@operations.add("GET", f"{_PATH}/tree", query=DescriptionQuery, permission="fleet.read", errors=(404,))
def get_description_tree(name: str, query: Fields) -> DescriptionTreeAnswer:
    """Read the description of a cluster as a tree, with equal siblings counted."""
    view = descriptions.get_description(context(), name, query.get("revision"), with_tree=True)
    return DescriptionTreeAnswer.from_tree(view)


@operations.add("GET", "/clusters/<name>/descriptions", query=PageQuery, permission="fleet.read", errors=(404,))
def list_descriptions(name: str, query: Fields) -> DescriptionsAnswer:
    """List the revisions of a cluster's description, newest first."""
    views, last = descriptions.list_descriptions(context(), name, number_of(query.get("token")), query["limit"])
    answers = [DescriptionRevisionAnswer.from_view(view) for view in views]
    return DescriptionsAnswer(descriptions=answers, token=number_token(last))
