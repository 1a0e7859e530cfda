"""Groups of clusters over HTTP."""

from __future__ import annotations

from admin.api.current import context
from admin.api.definition_writes import DefinitionWrites
from admin.api.operations import Operations
from admin.messages.cluster_groups import (
    ClusterGroupAnswer,
    ClusterGroupBody,
    ClusterGroupsAnswer,
    ClusterGroupWritten,
)
from admin.messages.pages import key_of, token_of
from admin.messages.requests import Fields, PageQuery
from admin.services import cluster_groups

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


DefinitionWrites(
    path="/cluster_groups",
    noun="cluster_group",
    title="a group of clusters",
    permission="fleet.write",
    body=ClusterGroupBody,
    written=ClusterGroupWritten,
    create=cluster_groups.create_cluster_group,
    put=cluster_groups.put_cluster_group,
    read=get_cluster_group,
).add_to(operations)
