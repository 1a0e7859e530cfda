"""Folded graphs: each shape once, as JSON; what every process keeps of a description without reading it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from admin.core.graph.graphs import ClusterGraph, Ids
from admin.core.graph.requirements import Feature
from admin.core.graph.shapes import Shape, Shapes
from admin.core.graph.units import NODE


def fold(graph: ClusterGraph) -> dict[str, Any]:
    """A graph as JSON of the size of what is different in it; of the ids only those of nodes are kept."""
    shapes = list(reversed(graph.root.occurrences()))  # each after those inside it
    numbers = {shape: number for number, shape in enumerate(shapes)}
    features = list(dict.fromkeys(feature for shape in shapes for feature in shape.features))
    feature_numbers = {feature: number for number, feature in enumerate(features)}
    nodes = set(_node_positions(graph.root, 0))
    return {
        "features": [[feature.subsystem, dict(feature.fields)] for feature in features],
        "shapes": [
            [
                shape.type,
                shape.amount,
                [feature_numbers[feature] for feature in shape.features],
                [[numbers[child], times] for child, times in shape.runs],
            ]
            for shape in shapes
        ],
        "nodes": {id_: position for id_, position in graph.positions.items() if position in nodes},
    }


def unfold(document: Mapping[str, Any], shapes: Shapes) -> ClusterGraph:
    """The graph that was folded; it shares the shapes that are equal to those of other graphs."""
    features: list[Feature] = [shapes.feature(subsystem, fields) for subsystem, fields in document["features"]]
    unfolded: list[Shape] = []
    for type_, amount, numbers, runs in document["shapes"]:
        own = tuple(features[number] for number in numbers)
        unfolded.append(shapes.shape(type_, amount, own, tuple((unfolded[number], times) for number, times in runs)))
    return ClusterGraph(unfolded[-1], Ids(()), dict(document["nodes"]), shapes)


def _node_positions(shape: Shape, start: int) -> Iterator[int]:
    """The positions of the nodes in a vertex, which may be one itself."""
    if shape.type == NODE:
        yield start
        return
    position = start + 1
    for child, times in shape.runs:
        for _ in range(times):
            if child.type == NODE or NODE in child.holds:
                yield from _node_positions(child, position)
            position += child.vertices
