"""Graph backends: what may keep the graphs of described clusters, that of Rainbow and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from admin.core.graph.backends import GraphBackend
from admin.core.problems import Problem, unknown_problem

#: The group of entry points by which packages offer backends.
GROUP = "rainbow.graph_backends"
_FIELD = "placement.graphBackend"
_BUILT_IN = {"memory": "admin.core.graph.memory:MemoryBackend"}


class Factory(Protocol):
    """The callable that the entry point of a backend names."""

    def __call__(self) -> GraphBackend:
        """Build the backend; one for each worker."""


def backend_problems(name: str) -> Iterator[Problem]:
    """What is wrong with the name of a backend: nothing has it, or what has it cannot be loaded."""
    point = _point(name)
    if point is None:
        yield unknown_problem(_FIELD, "graph backend", name, {**_BUILT_IN, **_offered()})
        return
    try:
        point.load()
    except Exception as error:
        yield Problem(field=_FIELD, reason=f"'{name}' cannot be loaded: {error}. Install it, or choose memory.")


def find_backend(name: str) -> Factory:
    """The factory of the backend of that name."""
    point = _point(name)
    assert point is not None, f"{_FIELD} was checked when the configuration was loaded"
    factory: Factory = point.load()
    return factory


def _point(name: str) -> EntryPoint | None:
    """The entry point of a backend; installed packages are looked through only for those that are not built in."""
    if name in _BUILT_IN:
        return EntryPoint(name, _BUILT_IN[name], GROUP)
    return _offered().get(name)


def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
