"""
The calls of the client that are about the Kubernetes objects of projects and domains.

    client.render_cluster_resources("flyteexamples", "development")["objects"]
"""

from __future__ import annotations

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, non_empty

_REMEDY = "It makes no namespaces."


class ClusterResourceCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def render_cluster_resources(self, project: str, domain: str, cluster: str | None = None) -> Document:
        """The objects of the namespace of a project and domain, and where each value in them comes from."""
        query = non_empty({"project": project, "domain": domain, "cluster": cluster})
        with self._newer_path(_REMEDY):
            return self._read("cluster_resources/rendering", query, holding="objects")

    def cluster_resources(
        self,
        project: str | None = None,
        domain: str | None = None,
        cluster: str | None = None,
        *,
        failing: bool = False,
    ) -> Document:
        """The `namespaces` with what became of them on each cluster, and of one project and domain the `events`."""
        query = non_empty(
            {"project": project, "domain": domain, "cluster": cluster, "failing": "true" if failing else None}
        )
        with self._newer_path(_REMEDY):
            pages = list(self._answers("cluster_resources", "namespaces", query))
        return {**pages[0], "namespaces": [entry for page in pages for entry in page["namespaces"]]}
