"""Cluster resources over HTTP: what templates make of projects and domains."""

from __future__ import annotations

from admin.api.current import context
from admin.api.operations import Operations
from admin.core.settings.scopes import check_scope
from admin.messages.cluster_resources import NamespaceQuery, NamespacesQuery, NamespaceStatesAnswer, RenderingAnswer
from admin.messages.pages import key_of, token_of
from admin.messages.requests import Fields
from admin.services.cluster_resources import list_namespaces, render_namespace

operations = Operations("cluster resources")


@operations.add(
    "GET", "/cluster_resources/rendering", query=NamespaceQuery, permission="attributes.read", errors=(404,)
)
def render_cluster_resources(query: Fields) -> RenderingAnswer:
    """Render the Kubernetes objects of the namespace of a project and domain, and where each value comes from."""
    scope = check_scope(project=query["project"], domain=query["domain"])
    return RenderingAnswer.from_namespace(render_namespace(context(), scope, query.get("cluster")))


@operations.add(
    "GET", "/cluster_resources", query=NamespacesQuery, shows_some=True, permission="attributes.read", errors=(404,)
)
def list_cluster_resources(query: Fields) -> NamespaceStatesAnswer:
    """List namespaces, what became of their objects on each cluster, and what happened to those of one."""
    place = (query.get(key) for key in ("project", "domain", "cluster"))
    after = key_of(query.get("token"), 4)
    states = list_namespaces(context(), *place, failing=query["failing"], after=after, limit=query["limit"])
    return NamespaceStatesAnswer.from_states(states, token_of(states.next_key))
