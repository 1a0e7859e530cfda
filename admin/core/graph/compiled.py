"""Compiled descriptions: what is stored of a description once it has been read whole."""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from admin.core.graph.descriptions import read_description
from admin.core.graph.folding import fold, unfold
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.inventories import inventory_of
from admin.core.graph.shapes import Shapes
from admin.core.json_text import json_text, json_value

#: The fastest level of compression: documents repeat themselves so much that others gain little.
_LEVEL = 1


class Compiled(NamedTuple):
    """A description that was found right."""

    digest: str  #: the same for documents that say the same
    inventory: dict[str, Any]
    document: bytes  #: compressed
    folded: bytes  #: compressed


def compile_description(document: Mapping[str, Any], most_vertices: int) -> Compiled:
    """What is stored of a description; Invalid with every problem."""
    subsystems = document.get("subsystems")
    graph = read_description(document, subsystems, path=(), most_vertices=most_vertices)
    text = json_text(document, sort_keys=True)
    counts = Counter(graph.inline_subsystem_counts)
    counts.update({name: _vertices(subsystem) for name, subsystem in (subsystems or {}).items()})
    return Compiled(
        digest=hashlib.sha256(text).hexdigest(),
        inventory=inventory_of(graph, counts),
        document=zlib.compress(text, _LEVEL),
        folded=zlib.compress(json_text(fold(graph)), _LEVEL),
    )


def _vertices(subsystem: Mapping[str, Any]) -> int:
    graph = subsystem["graph"] if "graph" in subsystem else subsystem["scheduling"]["graph"]
    return len(graph["nodes"])


def read_document(document: bytes) -> dict[str, Any]:
    """The description whose compressed document is given."""
    content: dict[str, Any] = json_value(document_text(document))
    return content


def document_text(document: bytes) -> bytes:
    """The JSON of a description whose compressed document is given."""
    return zlib.decompress(document)


def read_folded(folded: bytes, shapes: Shapes) -> ClusterGraph:
    """The graph of a description whose compressed folded form is given."""
    return unfold(json_value(zlib.decompress(folded)), shapes)
