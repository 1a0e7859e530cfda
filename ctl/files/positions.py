"""Where the fields of a document stand in its file, so that refusals of the admin can point at them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ctl.client.errors import InvalidRequest
from ctl.client.words import count

if TYPE_CHECKING:
    import yaml

Position = tuple[int, int]
#: Line and column, from 1, by the dotted path of a field.
Positions = Mapping[str, Position]


def start_of(node: yaml.Node, name: str) -> str:
    """Where a document starts in the file of that name: `settings.yaml:12:1`."""
    return f"{name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


def find_position(positions: Positions, path: str) -> Position | None:
    """Where a field, or the closest thing above it, stands; an item of a list is `items[0]`."""
    path = re.sub(r"\[(\d+)\]", r".\1", path)
    while path:
        if path in positions:
            return positions[path]
        path = path.rpartition(".")[0]
    return None


def find_request_position(
    positions: Positions, path: str, keys_by_start: Mapping[str, tuple[str, ...]]
) -> Position | None:
    """As `find_position`, for a field of a request: the keys that it may come from, by the start of its path."""
    path = path.replace("[", ".").replace("]", "")
    candidates = [path]
    for start, keys in keys_by_start.items():
        if path == start or path.startswith(f"{start}."):
            candidates = [f"{key}{path[len(start) :]}".strip(".") for key in keys]
            break
    exact = [positions[candidate] for candidate in candidates if candidate in positions]
    above = (find_position(positions, candidate) for candidate in candidates)
    return next((position for position in [*exact, *above] if position), None)


def locate_details(error: InvalidRequest, name: str, find: Callable[[str], Position | None]) -> InvalidRequest:
    """The admin's refusal with the position in the file of that name beside each field that stands in it."""
    positions = [find(str(detail.get("field") or "")) for detail in error.details]
    for detail, position in zip(error.details, positions, strict=True):
        if position:
            detail["position"] = f"{name}:{position[0]}:{position[1]}"
    if positions and all(positions):
        # The details have positions, so the message need not repeat them.
        error.message = f"The admin refused {name}: {count(len(positions), 'problem')}."
    return error
