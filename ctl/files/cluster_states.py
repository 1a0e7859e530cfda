"""Cluster states: what `update cluster-state --file` reads, as agents report it or flat, by names of properties."""

from __future__ import annotations

from typing import Any

import yaml

from ctl.client.kinds import Schema
from ctl.client.words import fold, nearest
from ctl.client.yaml_files import Problem, Source, read_source
from ctl.files.conversion import Converter, convert_source
from ctl.files.positions import Positions


def read_state(path: str, schema: Schema) -> tuple[Source, dict[str, Any], Positions]:
    """The state in a file: its source, its values and their positions.

    A flat `nodes_free: 20` is what is free, and any other plain value a property, unless its name is close to that of a
    field: then it is refused as any unknown field.
    """
    source, converter = read_source(path), Converter()

    def convert(node: yaml.Node) -> tuple[dict[str, Any], list[Problem]]:
        return converter.mapping(_nested(node, schema), schema, also=_flat_names(schema)), converter.problems

    return source, convert_source(source, convert), converter.positions


def _flat_names(schema: Schema) -> list[str]:
    """The keys of a flat file that say what is free."""
    return [f"{name}_free" for name in schema["properties"]["free"]["properties"]]


def _nested(node: yaml.Node, schema: Schema) -> yaml.Node:
    """The same mapping with what is flat in it moved to where it belongs."""
    if not isinstance(node, yaml.MappingNode):
        return node
    fields = {fold(name) for name in schema["properties"]}
    free = {fold(name): name.removesuffix("_free") for name in _flat_names(schema)}
    kept: list[tuple[yaml.Node, yaml.Node]] = []
    moved: dict[str, list[tuple[yaml.Node, yaml.Node]]] = {"free": [], "properties": []}
    for key, value in node.value:
        name = fold(str(key.value))
        if name in fields or not isinstance(key, yaml.ScalarNode):
            kept.append((key, value))
        elif name in free:
            resource = yaml.ScalarNode(key.tag, free[name], key.start_mark, key.end_mark)
            moved["free"].append((resource, value))
        elif not isinstance(value, yaml.ScalarNode) or nearest(str(key.value), schema["properties"]):
            kept.append((key, value))
        else:
            moved["properties"].append((key, value))
    for place, pairs in moved.items():
        _add(kept, place, pairs)
    return yaml.MappingNode(node.tag, kept, node.start_mark, node.end_mark)


def _add(kept: list[tuple[yaml.Node, yaml.Node]], place: str, pairs: list[tuple[yaml.Node, yaml.Node]]) -> None:
    """Add pairs to the mapping of a place, which may be there already."""
    if not pairs:
        return
    for number, (key, value) in enumerate(kept):
        if fold(str(key.value)) == place and isinstance(value, yaml.MappingNode):
            whole = yaml.MappingNode(value.tag, [*value.value, *pairs], value.start_mark, value.end_mark)
            kept[number] = (key, whole)
            return
    first, last = pairs[0][0], pairs[-1][1]
    name = yaml.ScalarNode("tag:yaml.org,2002:str", place, first.start_mark, first.end_mark)
    kept.append((name, yaml.MappingNode("tag:yaml.org,2002:map", pairs, first.start_mark, last.end_mark)))
