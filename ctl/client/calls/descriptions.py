"""
The calls of the client that are about descriptions of clusters.

    client.put_description("a", {"graph": {"nodes": nodes, "edges": edges}}, message="new racks")
    client.description("a")["document"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Unpack

from ctl.client.answers import Document
from ctl.client.calls.base import Calls, PutOptions, VersionOptions, non_empty, resource_path

#: A description of hundreds of thousands of vertices is read by the admin for some seconds.
_MORE_SECONDS = 120.0
_REMEDY = "It keeps no descriptions of clusters."


class DescriptionCalls(Calls):
    """Part of the client; see `ctl.client.Client`."""

    def description(self, cluster: str, revision: int | None = None) -> Document:
        """The description of a cluster, or a revision of it, with the `document` as it was sent."""
        with self._newer_path(_REMEDY):
            return self._read(_path(cluster), non_empty({"revision": revision}), more_seconds=_MORE_SECONDS)

    def description_tree(self, cluster: str, revision: int | None = None) -> Document:
        """The same as a `tree`, in which equal siblings are counted."""
        with self._newer_path(_REMEDY):
            return self._read(f"{_path(cluster)}/tree", non_empty({"revision": revision}))

    def descriptions(self, cluster: str) -> Iterator[Document]:
        """The revisions of a cluster's description, newest first, page by page, without their documents."""
        with self._newer_path(_REMEDY):
            yield from self._pages(f"{resource_path('clusters', cluster=cluster)}/descriptions", "descriptions")

    def put_description(self, cluster: str, document: Mapping[str, Any], **options: Unpack[PutOptions]) -> Document:
        """Set the description of a cluster: its `graph`, and `subsystems` by name."""
        with self._newer_path(_REMEDY):
            return self._change("PUT", _path(cluster), dict(document), **options, more_seconds=_MORE_SECONDS)

    def patch_description(
        self, cluster: str, changes: Mapping[str, Any], **options: Unpack[VersionOptions]
    ) -> Document:
        """Replace the graph or single subsystems of a cluster's description; None removes a subsystem."""
        with self._newer_path(_REMEDY):
            return self._change("PATCH", _path(cluster), dict(changes), **options, more_seconds=_MORE_SECONDS)

    def delete_description(self, cluster: str, **options: Unpack[VersionOptions]) -> Document:
        """Remove the description of a cluster; its agent may then send one."""
        with self._newer_path(_REMEDY):
            return self._change("DELETE", _path(cluster), {}, **options)


def _path(cluster: str) -> str:
    return f"{resource_path('clusters', cluster=cluster)}/description"
