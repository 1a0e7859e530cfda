"""Groups of clusters over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.api.writes import WRITE_HEADERS, change_options, expectation
from admin.core.changes import read_named, read_named_as
from admin.messages.cluster_groups import (
    ClusterGroupAnswer,
    ClusterGroupBody,
    ClusterGroupsAnswer,
    ClusterGroupWritten,
)
from admin.messages.definitions import DefinitionDeleteQuery
from admin.messages.pages import key_of, token_of
from admin.messages.requests import AuthorshipFields, Fields, PageQuery, WriteQuery
from admin.messages.shared import Json, to_json
from admin.services import cluster_groups
from admin.services.changes import Changed

operations = Operations("cluster_groups")


@operations.add("GET", "/cluster_groups", query=PageQuery, permission="fleet.read")
def list_cluster_groups(query: Fields) -> ClusterGroupsAnswer:
    """List the groups of clusters."""
    after = key_of(query.get("token"), 1)
    views, last = cluster_groups.list_cluster_groups(context(), after[0] if after else None, query["limit"])
    return ClusterGroupsAnswer(
        cluster_groups=[ClusterGroupAnswer.from_view(view) for view in views], token=token_of((last,)) if last else None
    )


@operations.add("GET", "/cluster_groups/<name>", permission="fleet.read", errors=(404,))
def get_cluster_group(name: str) -> ClusterGroupAnswer:
    """Read a group of clusters."""
    return ClusterGroupAnswer.from_view(cluster_groups.get_cluster_group(context(), name))


@operations.add(
    "POST", "/cluster_groups", query=WriteQuery, body=ClusterGroupBody, permission="fleet.write", errors=(409,)
)
def create_cluster_group(query: Fields, body: Fields) -> ClusterGroupWritten:
    """Define a group of clusters."""
    name, payload = read_named(body["cluster_group"], "cluster_group")
    options = change_options(query, body)
    return _written(name, cluster_groups.create_cluster_group(context(), name, payload, options))


@operations.add(
    "PUT",
    "/cluster_groups/<name>",
    query=WriteQuery,
    body=ClusterGroupBody,
    permission="fleet.write",
    errors=(409,),
    headers=WRITE_HEADERS,
)
def put_cluster_group(name: str, query: Fields, body: Fields) -> ClusterGroupWritten:
    """Define a group of clusters, or define it anew."""
    payload = read_named_as(name, body["cluster_group"], "cluster_group")
    options = change_options(query, body)
    return _written(name, cluster_groups.put_cluster_group(context(), name, payload, expectation(), options))


@operations.add(
    "DELETE",
    "/cluster_groups/<name>",
    query=DefinitionDeleteQuery,
    body=AuthorshipFields,
    body_optional=True,
    permission="fleet.write",
    errors=(409,),
    headers=WRITE_HEADERS,
)
def delete_cluster_group(name: str, query: Fields, body: Fields) -> ClusterGroupWritten:
    """Delete a group of clusters."""
    options = change_options(query, body)
    return _written(name, cluster_groups.put_cluster_group(context(), name, None, expectation(), options))


def _written(name: str, changed: Changed) -> ClusterGroupWritten:
    return ClusterGroupWritten.from_changed(changed, cluster_group=_definition(name, changed))


def _definition(name: str, changed: Changed) -> Json | None:
    """A group after a change; in a plan only what is defined."""
    after = changed.rows[0].change.after
    if after is None:
        return None
    if changed.dry_run and changed.is_change:
        return {"name": name, **after}
    return to_json(ClusterGroupAnswer.from_view(cluster_groups.get_cluster_group(context(), name)))
