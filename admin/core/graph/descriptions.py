"""Descriptions: the JSON documents that say what a cluster has, read into its graph.

A description is a graph in JSON Graph Format, in either of two shapes: vertices by id and edges with a `relation`, or a
list of vertices and edges whose metadata name their subsystem, as Flux's scheduler writes it, by itself or in a
resource set. Subsystems are graphs of the same format whose vertices are linked to vertices of the main graph. Nothing
is made of a description in which anything is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from admin.core.graph.described_edges import EdgeReader
from admin.core.graph.described_subsystems import Links, SubsystemReader
from admin.core.graph.described_vertices import VertexReader
from admin.core.graph.description_problems import DescriptionProblems, Stop
from admin.core.graph.graphs import ClusterGraph
from admin.core.graph.requirements import CONTAINMENT
from admin.core.graph.shapes import Shapes
from admin.core.graph.tree_builder import TreeBuilder
from admin.core.problems import Path, raise_problems

MOST_VERTICES = 500_000


def read_description(
    document: Any,
    subsystems: Mapping[str, Any] | None = None,
    *,
    path: Path = ("description",),
    most_vertices: int = MOST_VERTICES,
    shapes: Shapes | None = None,
) -> ClusterGraph:
    """The graph that a description and the subsystems by name describe; Invalid with every problem.

    Graphs that are read with the same shapes share those that are equal.
    """
    problems = DescriptionProblems(path)
    try:
        return _read(document, subsystems or {}, shapes or Shapes(), problems, most_vertices)
    except Stop:
        raise_problems(problems.all)
        raise AssertionError from None  # problems stop the reading, and there is one


def _read(
    document: Any,
    subsystems: Mapping[str, Any],
    shapes: Shapes,
    problems: DescriptionProblems,
    most_vertices: int,
) -> ClusterGraph:
    vertex_reader, edge_reader = VertexReader(shapes, problems, most_vertices), EdgeReader(problems)
    vertices, names, paths, edges = vertex_reader.read(document, (), CONTAINMENT)
    parents, inline = edge_reader.parents(vertices, edges, paths)
    problems.stop_if_any()
    links: Links = {}
    subsystem_reader = SubsystemReader(problems, vertex_reader, edge_reader)
    inline_counts = subsystem_reader.link_inline(vertices, inline, parents, paths, links)
    for name, subsystem in subsystems.items():
        subsystem_reader.link(name, subsystem, vertices, links)
    problems.stop_if_any()
    graph = TreeBuilder(shapes, problems).build(vertices, names, parents, links)
    repeated = vertex_reader.repeated_names
    if not inline_counts and not repeated:
        return graph
    return replace(graph, inline_subsystem_counts=inline_counts, repeated_names=repeated)
